"""Make the first state of a run that continues another run under its own id.

Approvals, digests and idempotency keys belong to one run. So an adopted run asks again
for every call that the other run was allowed to make and did not start. A call that the
other run started, and that may have had an effect, has an unknown outcome.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations import errors
from continuations.core import jsontext
from continuations.core.changes import events
from continuations.core.changes.reducer import advance
from continuations.core.reading.past_rules import adopted_row, moved_wait
from continuations.core.rows.calls import (
    STATE_NAMES,
    Parked,
    Ready,
    Started,
    Unknown,
    open_wait_id,
    waiting_state,
)
from continuations.core.rows.run import ENDED_STATUSES, kept_requesters
from continuations.core.rows.waits import frame_digest, next_known_wait_ulid
from continuations.core.words.call_display import CallDisplay
from continuations.engine import call_waits
from continuations.engine.arrivals.readiness import is_runnable
from continuations.engine.journal import file_storing
from continuations.engine.journal.journal import StoreJournal
from continuations.engine.journal.publishing import Publisher
from continuations.engine.outcomes import outcome_of
from continuations.engine.stack.stack_binding import StackBinding
from continuations.ledger import layout
from continuations.ledger.arrivals.arrivals import Arrivals
from continuations.ledger.versions import Versions
from continuations.value_class import dataclass, replace
from continuations.wire.continuation import Continuation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from continuations.authoring.registry import AgentRegistry
    from continuations.core.reading.past_rules import Act
    from continuations.core.rows.calls import CallRow, CallState
    from continuations.core.rows.quorum import Quorum
    from continuations.core.rows.run import RunRow
    from continuations.core.rows.state import RunState
    from continuations.core.rows.waits import Wait
    from continuations.engine.outcomes import Outcome
    from continuations.engine.ports import Ports
    from continuations.ledger.objects import Objects
    from continuations.ledger.versions import LoadedVersion


def read_source(continuation: object) -> Continuation:
    """Return a continuation, or the one that bytes contain.

    Raises `InvalidInput`, `FormatError` or `Corrupt`.
    """
    if isinstance(continuation, Continuation):
        return continuation
    if isinstance(continuation, bytes):
        return Continuation.from_bytes(continuation)
    raise errors.InvalidInput(
        "continuation must be a Continuation or its bytes, got "
        f"{type(continuation).__name__}. Pass outcome.continuation."
    )


def adopted_state(
    source: RunState,
    stack_binding: StackBinding,
    ports: Ports,
    *,
    run_id: str,
    requester: str | None,
    requesters: tuple[str, ...] = (),
) -> RunState:
    """Return the first state of a run that continues `source`.

    A person who requested `source` in another store did not request this run, so no
    wait of it names that person. In the same store, `requesters` are those persons.

    Raises `InvalidInput` if the run of `source` has ended, and `FormatError` if one of
    its messages is invalid.
    """
    status = source.run.status
    if status in ENDED_STATUSES or source.run.rests:
        msg = (
            f"continuation was not adopted: run {source.run.id} is {status}, and "
            "nothing is paused in that run. Pass the continuation of a suspended run."
        )
        raise errors.InvalidInput(msg, run_id=source.run.id)
    source.read_messages()
    now = ports.clock.now()
    run = adopted_row(
        source.run,
        id=run_id,
        run_nonce=ports.ids.new_ulid(now),
        created_at=now,
        input_digest=source_digest(source),
        status="running",
        requester=requester,
        requesters=requesters,
    )
    return Relocation("adopt", source, stack_binding, ports, now).move(run)


def source_digest(source: RunState) -> str:
    """Return a digest that names one state of one run.

    It does not depend on the release or on the compression of stored bytes: another
    process recognizes the same continuation by it.
    """
    frames = {
        row.id: [row.turns, len(source.logs[row.id].messages)]
        for row in source.frames.values()
    }
    calls = {
        row.id: [STATE_NAMES[type(row.state)], open_wait_id(row.state), row.attempts]
        for row in source.calls.values()
    }
    rows = jsontext.canonical([frames, calls])
    return jsontext.digest("adopted", source.run.id, source.run.run_nonce, rows)


@dataclass(frozen=True, slots=True)
class Relocation:
    """Moves a state into another run, or to the newest version of its own run.

    Attributes:
        act: The act: a rewind, a fork or an adoption.
        source: The state of the other run, or the earlier one of this run.
        stack_binding: The agents of this process.
        ports: The clock and the source of ids.
        now: The time of the move.
        begun_later: Ids of calls that the other run started after this state.
        answered_later: Ids of calls whose `on_answer` function got an answer after it.
        later_wait_ids: Ids of the waits that it had after this state.
    """

    act: Act
    source: RunState
    stack_binding: StackBinding
    ports: Ports
    now: datetime
    begun_later: frozenset[str] = frozenset()
    answered_later: frozenset[str] = frozenset()
    later_wait_ids: frozenset[str] = frozenset()

    def move(self, run: RunRow) -> RunState:
        """Return the state of the new run: with waits of its own, which ask anew."""
        state = replace(self.source, run=run)
        calls, waits = dict(state.calls), dict[str, "Wait"]()
        for source_call in state.calls.values():
            quorum = self._moved_quorum(state, source_call.quorum)
            call = replace(
                source_call, quorum=quorum, answer_used_in=self._used_in(source_call)
            )
            calls[call.id] = call
            old_id = open_wait_id(call.state)
            if old_id is None:
                continue
            wait = self._moved_wait(state, call, state.waits[old_id])
            calls[call.id] = replace(call, state=self._with_wait_id(call, wait.id))
            waits[wait.id] = wait
        for old in state.waits.values():
            if not old.call_id:
                wait = self._moved_suspension(state, old)
                waits[wait.id] = wait
        state = state.with_rows(
            # A person who accepted an input did not accept that it is read again.
            frames={
                row.id: replace(row, accepted_input="") if row.accepted_input else row
                for row in state.frames.values()
            },
            calls=calls,
            waits=waits,
        )
        for call in calls.values():
            state = self._with_unfinished_call(state, call)
        return state

    def _used_in(self, call: CallRow) -> str | None:
        """Return the run whose `on_answer` function got an answer of a call."""
        was_used = call.id in self.answered_later
        return call.answer_used_in or (self.source.run.id if was_used else None)

    def _moved_wait(self, state: RunState, call: CallRow, wait: Wait) -> Wait:
        """Return a wait under an id of the adopted run, with its own digest."""
        run = state.run
        wait_id = layout.build_wait_id(wait.kind, self._new_ulid(), run.id)
        if wait.rules.has_known_id:
            wait_id = self._known_wait_id(run, call, wait)
        if isinstance(call.state, Parked):
            moved = self._with_new_fields(state, wait, wait_id, digest="")
            return call_waits.with_parked_digest(state, call, moved)
        digest = self._moved_digest(state, call, wait)
        note = self._begun_later_note if call.id in self.begun_later else ""
        return self._with_new_fields(state, wait, wait_id, digest, note)

    def _with_new_fields(
        self, state: RunState, wait: Wait, wait_id: str, digest: str, note: str = ""
    ) -> Wait:
        run, display = state.run, wait.display
        if wait.subject == "call":  # people see the requester
            display = replace(display or CallDisplay(), requester=run.requester)
        return moved_wait(
            wait,
            self.act,
            self.now,
            id=wait_id,
            run_id=run.id,
            digest=digest,
            note=f"{note}{wait.note or ''}" or None,
            display=None if display == CallDisplay() else display,
            quorum=self._moved_quorum(state, wait.quorum),
            events_taken=run.events_taken if wait.event else wait.events_taken,
        )

    @property
    def _stays(self) -> bool:
        """Whether the state stays in its own run."""
        return self.act == "rewind"

    def _known_wait_id(self, run: RunRow, call: CallRow, wait: Wait) -> str:
        """Return an id that another system can derive, and that was never used."""
        if not self._stays:  # it follows from the run, and is new in this one
            return layout.known_wait_id(run, call)
        wait_id = wait.id
        while wait_id in self.later_wait_ids:
            ulid = next_known_wait_ulid(run, layout.parse_wait_id(wait_id).ulid)
            wait_id = layout.build_wait_id(wait.kind, ulid, run.id)
        return wait_id

    def _moved_quorum(self, state: RunState, quorum: Quorum | None) -> Quorum | None:
        """Return the rule of a call or wait with those who asked for the new run."""
        if self._stays or quorum is None:
            return quorum
        return quorum.of_run(state.run)

    def _with_wait_id(self, call: CallRow, wait_id: str) -> CallState:
        """Return the state of a waiting call with another wait.

        In another run `verify` would ask for a key that the other side does not know.
        """
        if isinstance(call.state, Unknown) and not self._stays:
            return Unknown(wait_id, verify_tried=True)
        return waiting_state(type(call.state), wait_id)

    @property
    def _begun_later_note(self) -> str:
        run_id = self.source.run.id
        return f"Run {run_id} started this call after the version that is continued. "

    def _moved_suspension(self, state: RunState, wait: Wait) -> Wait:
        """Return the wait of a frame or of the run under an id of the adopted run."""
        wait_id = layout.build_wait_id(wait.kind, self._new_ulid(), state.run.id)
        digest = frame_digest(
            run_nonce=state.run.run_nonce, wait_id=wait_id, frame_id=wait.frame_id
        )
        moved = self._with_new_fields(state, wait, wait_id, digest)
        if not wait.rules.judges_text:
            return moved
        from continuations.core.changes import judged_texts  # noqa: PLC0415 - rarely needed

        return judged_texts.with_digest(state.run, moved)

    def _moved_digest(self, state: RunState, call: CallRow, wait: Wait) -> str:
        contracts = [call.contract_digest or ""]
        tool = self.stack_binding.tool(self.source, call)
        if tool is not None:
            contracts.append(call_waits.strict_contract_digest(tool))
        for contract in contracts:
            shown = call_waits.approval_digest(
                self.source, call, wait.arguments_json, contract
            )
            if shown == wait.digest:
                return call_waits.approval_digest(
                    state, call, wait.arguments_json, contract
                )
        # The contract that the wait shows is not known here. This digest fits no
        # contract, so an approval opens the wait again.
        return jsontext.digest(state.run.run_nonce, wait.digest)

    def _with_unfinished_call(self, state: RunState, call: CallRow) -> RunState:
        """Return the state after a call that was started or approved in the source."""
        began = isinstance(call.state, Started) or call.attempts > 0
        began = began or call.id in self.begun_later
        if not isinstance(call.state, Started | Ready):
            return state
        if not began:
            if call.approved_digest is None:
                return state
            note = (
                f"The call was approved in run {self.source.run.id}, which did not "
                "start it. An approval is valid in one run only."
            )
            if self._stays:
                note = "The call was approved before the run was rewound."
            wait = self._new_wait(state, call, note, unknown=False)
            return advance(state, events.Reopened(call_id=call.id, wait=wait))
        tool = self.stack_binding.tool(state, call)
        same = tool is not None and tool.contract_digest == call.contract_digest
        if tool is not None and same and tool.read_only and not call.approved_digest:
            repeat = events.RepeatAllowed(call_id=call.id)
            return advance(state, repeat) if isinstance(call.state, Started) else state
        note = f"Run {self.source.run.id} started this call and has no result of it. "
        if call.id in self.begun_later:
            note = self._begun_later_note
        if not self._stays:
            note += "The call has another idempotency key now."
        wait = self._new_wait(state, call, note, unknown=True)
        # A run that is rewound has no other worker.
        claim = None if self._stays else self.source.run.claim
        wait = replace(wait, approve_after=claim.until if claim is not None else None)
        state = advance(state, events.OutcomeUnknown(call_id=call.id, wait=wait))
        if self._stays:
            return state
        # `verify` would ask for the new key, which the other side does not know.
        return advance(state, events.Unverified(call_id=call.id))

    def _new_wait(
        self, state: RunState, call: CallRow, note: str, *, unknown: bool
    ) -> Wait:
        return call_waits.new_wait(
            state,
            call,
            self.stack_binding.tool(state, call),
            kind="unknown" if unknown else "approval",
            now=self.now,
            ulid=self._new_ulid(),
            note=note,
            agent=self.stack_binding.find_agent(state, call.frame_id),
        )

    def _new_ulid(self) -> str:
        return self.ports.ids.new_ulid(self.now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopter:
    """Stores the state of another run as a new, suspended run."""

    objects: Objects
    agent_registry: AgentRegistry
    ports: Ports
    lease: float

    async def adopt(
        self,
        continuation: Continuation,
        run_id: str,
        requester: str | None,
        files: Mapping[str, bytes],
    ) -> Outcome:
        """Create the run, or return the one that an equal call created.

        Raises `InvalidInput` if the run of `source` has ended, and `RunExists` if the
        id belongs to another run.
        """
        source = continuation.run_state
        publisher = Publisher(self.objects, self.ports)
        try:
            is_known = await self._is_of_this_store(source)
        except (errors.InvalidInput, errors.RunErased):
            # A repeat returns the run of the first call, whatever became of its source.
            adopted = await self._adopted_before(source, run_id, publisher)
            if adopted is None:
                raise
            return adopted
        registry = await self.agent_registry.listed(source.run.agent)
        state = adopted_state(
            source,
            StackBinding(registry),
            self.ports,
            run_id=run_id,
            requester=requester,
            requesters=kept_requesters(source.run.asked_by if is_known else ()),
        )
        try:
            loaded = await create_continued_run(
                publisher, state, source.run, files, lease=self.lease
            )
        except errors.StaleRun:
            adopted = await self._adopted_before(source, run_id, publisher)
            if adopted is None:
                msg = (
                    f"run_id {run_id!r} is taken: that run does not continue this "
                    "continuation, and was not changed. Use another run_id."
                )
                raise errors.RunExists(msg, run_id=run_id) from None
            return adopted
        return self._outcome(loaded, paused=is_runnable(state))

    async def _is_of_this_store(self, source: RunState) -> bool:
        """Return whether the run of a continuation is in this store, in this state.

        Raises `InvalidInput` if it is in another state: one of the two has made calls
        of which the other does not know, and they would be made again. A fork knows
        them. Raises `RunErased` if it was erased.
        """
        run_id = source.run.id
        try:
            newest = await Versions(self.objects, run_id).load_newest()
        except errors.RunNotFound:
            return False
        except errors.RunErased as error:
            msg = (
                f"continuation was not adopted: run {run_id} was erased from this "
                "store. Adopt the continuation into another store, or start a new run."
            )
            raise errors.RunErased(msg, run_id=run_id) from error
        if newest.state.run.run_nonce != source.run.run_nonce:
            return False
        if _is_same_work(newest.state, source):
            return True
        msg = (
            f"continuation was not adopted: run {run_id} is in this store, and its "
            f"newest version {newest.number} is in another state. Go on with that "
            f"run: runner.resume({run_id!r}). Or fork one of its versions: "
            f"runner.fork({run_id!r}, version)."
        )
        raise errors.InvalidInput(msg, run_id=run_id)

    async def _adopted_before(
        self, source: RunState, run_id: str, publisher: Publisher
    ) -> Outcome | None:
        """Return the run of an equal call, and publish what that call left undone.

        Return `None` if no equal call made a run with this id.
        """
        try:
            loaded = await find_equal_run(publisher, run_id, source_digest(source))
        except errors.RunNotFound:
            return None
        if loaded is None:
            return None
        paused = is_runnable(loaded.state) and loaded.state.run.claim is None
        return self._outcome(loaded, paused=paused)

    def _outcome(self, loaded: LoadedVersion, *, paused: bool) -> Outcome:
        agent = self.agent_registry.find_root_agent(loaded.state.run.agent)
        continuation = Continuation(loaded.state, loaded.number)
        return outcome_of(continuation, agent, paused=paused)


async def create_continued_run(
    publisher: Publisher,
    state: RunState,
    source: RunRow,
    files: Mapping[str, bytes],
    *,
    lease: float,
) -> LoadedVersion:
    """Create a run that continues another one, with its attachments and waits.

    Args:
        publisher: Publishes the waits.
        state: The first state.
        source: The other run, whose attachments are copied.
        files: Attachments that the other run does not have in this store.
        lease: Length of a claim, for the marker that guards the version.

    Raises:
        StaleRun: The id is taken. Nothing of this call is left.
        InvalidInput: An attachment is missing, or all together are too large.
        StoreError: The store failed.
    """
    objects, run_id = publisher.objects, state.run.id
    journal = StoreJournal(
        objects, Versions(objects, run_id), None, publisher.ports, lease=lease
    )
    await file_storing.give_files(objects, journal, state, source, files)
    try:
        if is_runnable(state):
            await journal.make_release_marker()
        await publisher.commit_and_publish(journal, state, state, Arrivals())
    except errors.StaleRun:
        await file_storing.take_back_files(objects, state)
        raise
    assert journal.loaded is not None  # noqa: S101 - it was just committed
    return journal.loaded


async def find_equal_run(
    publisher: Publisher, run_id: str, input_digest: str
) -> LoadedVersion | None:
    """Return the run of an equal call, and publish what that call left undone.

    `None`: the id belongs to a run with another origin. Raises `RunNotFound`.
    """
    loaded = await Versions(publisher.objects, run_id).load_newest()
    if loaded.state.run.input_digest != input_digest:
        return None
    if loaded.state.run.status == "suspended":
        await publisher.finish_publishing(loaded)
    return loaded


def _is_same_work(one: RunState, other: RunState) -> bool:
    """Return whether two states of a run have the same agents, messages and calls.

    And both know of the same calls that a rewind left, or that a repair lost. Numbers
    of versions tell nothing: a continuation that went on without a store counts its
    own.
    """
    return (
        (one.run.doubtful_tools, one.run.history_lost)
        == (other.run.doubtful_tools, other.run.history_lost)
        and one.frames == other.frames
        and one.calls == other.calls
        and {key: log.messages for key, log in one.logs.items()}
        == {key: log.messages for key, log in other.logs.items()}
    )
