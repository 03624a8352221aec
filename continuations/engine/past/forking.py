"""Fork a run: a new run that goes on from a version of another run.

An approval, a digest and an idempotency key belong to one run. So a fork asks again for
everything that the other run was allowed to do, and about everything that it started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.changes.events import CallReturned
from continuations.core.changes.reducer import advance
from continuations.core.messages import NOTHING_CHECKED, Message
from continuations.core.reading.past_rules import forked_row
from continuations.core.rows.calls import CLOSED_STATES, Nested, Returned, Started
from continuations.core.rows.run import kept_requesters
from continuations.core.rows.state import ROOT_FRAME_ID, Draft
from continuations.engine.journal.later_versions import LaterCalls, read_later_calls
from continuations.engine.journal.publishing import Publisher
from continuations.engine.past import adoption
from continuations.engine.stack.stack_binding import StackBinding
from continuations.engine.start.new_run import parse_input, parse_user_message
from continuations.errors import InvalidInput, RunExists, StaleRun
from continuations.ledger.decisions import decisions
from continuations.ledger.versions import Versions
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from continuations.authoring.registry import AgentRegistry
    from continuations.core.rows.decisions import Decision, Door, Verdict
    from continuations.core.rows.frames import FrameRow
    from continuations.core.rows.run import RunRow
    from continuations.core.rows.state import RunState
    from continuations.core.rows.waits import Wait
    from continuations.engine.ports import Ports
    from continuations.ledger.arrivals.wait_slots import GroupsOf
    from continuations.ledger.loaded_version import LoadedVersion
    from continuations.ledger.objects import Objects


_STORED_FIELDS = ("kind", "by", "reason", "arguments", "value", "form", "grant_json")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkChanges:
    """The things that differ in a fork.

    Attributes:
        verdicts: Verdicts by the ids of waits of the version that is forked.
        results: Results by the ids of calls.
        messages: A message more, or other messages, by the ids of frames.
    """

    verdicts: Mapping[str, Verdict]
    results: Mapping[str, Any]
    messages: Mapping[str, Any]

    @classmethod
    def from_arguments(
        cls, decisions: object, results: object, messages: object
    ) -> ForkChanges:
        """Check the types of the arguments; raises `InvalidInput`."""
        return cls(
            verdicts=as_mapping(decisions, "decisions"),
            results=as_mapping(results, "results"),
            messages=as_mapping(messages, "messages"),
        )

    def apply(self, source: RunState, version: int) -> RunState:
        """Return the state with other messages and results; raises `InvalidInput`."""
        check_ids(self.verdicts, source.waits, "decisions", "open wait")
        check_can_go_on(source, version, self.messages)
        state = with_results(source, self.results)
        state = with_messages(state, self.messages)
        check_ids(self.verdicts, state.waits, "decisions", "open wait")
        return state


@dataclass(frozen=True, slots=True, kw_only=True)
class Forker:
    """Stores a new run that goes on from a version of another run."""

    objects: Objects
    agent_registry: AgentRegistry
    ports: Ports
    lease: float
    groups_of: GroupsOf | None = None
    requester: str | None = None

    async def fork(
        self,
        run_id: str,
        version: int | None,
        changes: ForkChanges,
        new_id: str,
        door: Door,
    ) -> str:
        """Create the run, or complete the one that an equal call created.

        The version comes first, then the decisions. A repeat records those that are
        missing. Raises `InvalidInput`, `DecisionRefused`, `RunExists` and the errors of
        the store.
        """
        versions = Versions(self.objects, run_id)
        newest = await versions.newest_number()
        source = await (
            versions.load_newest() if version is None else versions.load(version)
        )
        source.state.read_messages()
        changed = changes.apply(source.state, source.number)
        later = await read_later_calls(
            self.objects, run_id, source.state, (source.number, newest)
        )
        registry = await self.agent_registry.listed(changed.run.agent)
        binding = StackBinding(registry)
        state = self._forked_state(source, changed, later, new_id, binding)
        checked = await self._checked_decisions(state, changed, changes.verdicts)
        digest = _fork_digest(source, changes, checked)
        state = replace(state, run=replace(state.run, input_digest=digest))
        first = await self._create(state, source.state.run)
        await self._decide(first, changed, changes.verdicts, door)
        return new_id

    def _forked_state(
        self,
        source: LoadedVersion,
        changed: RunState,
        later: LaterCalls,
        new_id: str,
        binding: StackBinding,
    ) -> RunState:
        now = self.ports.clock.now()
        tools = {*changed.run.doubtful_tools, *later.tools}
        run = forked_row(
            changed.run,
            id=new_id,
            run_nonce=self.ports.ids.new_ulid(now),
            created_at=now,
            input_digest="",  # the caller adds that of its arguments
            status="running",
            requester=self.requester,
            # They asked for the work that goes on here.
            requesters=kept_requesters(changed.run.asked_by),
            doubtful_tools=tuple(sorted(tools)),
            forked_from=f"{changed.run.id}@{source.number}",
        )
        relocation = adoption.Relocation(
            "fork",
            changed,
            binding,
            self.ports,
            now,
            begun_later=later.begun_ids,
            answered_later=later.answered_ids,
        )
        return relocation.move(run)

    async def _checked_decisions(
        self, state: RunState, changed: RunState, verdicts: Mapping[str, Verdict]
    ) -> dict[str, Decision]:
        """Return the decisions by old wait id; raises what `decide` would raise."""
        now = self.ports.clock.now()
        found: dict[str, Decision] = {}
        for wait_id, verdict in verdicts.items():
            wait = _wait_in_fork(state, changed.waits[wait_id])
            proposed = decisions.build_decision(
                wait, verdict, now=now, decision_id=self.ports.ids.new_ulid(now)
            )
            if wait.quorum is not None:
                from continuations.ledger.arrivals import wait_slots  # noqa: PLC0415 - only waits with votes

                groups_of = self.groups_of
                proposed = await wait_slots.checked_voter(wait, proposed, groups_of)
            found[wait_id] = proposed
        return found

    async def _create(self, state: RunState, source: RunRow) -> RunState:
        """Create the first version, or return that of an equal call."""
        run_id = state.run.id
        publisher = Publisher(self.objects, self.ports)
        try:
            await adoption.create_continued_run(
                publisher, state, source, {}, lease=self.lease
            )
        except StaleRun:
            newest = await adoption.find_equal_run(
                publisher, run_id, state.run.input_digest
            )
            if newest is None:
                msg = (
                    f"run_id {run_id!r} is taken: that run is no equal fork, and was "
                    "not changed. Use another run_id."
                )
                raise RunExists(msg, run_id=run_id) from None
            first = await Versions(self.objects, run_id).load(1)
            return first.state
        return state

    async def _decide(
        self,
        first: RunState,
        changed: RunState,
        verdicts: Mapping[str, Verdict],
        door: Door,
    ) -> None:
        for wait_id, verdict in verdicts.items():
            now = self.ports.clock.now()
            await decisions.decide(
                self.objects,
                _wait_in_fork(first, changed.waits[wait_id]).id,
                verdict,
                now=now,
                decision_id=self.ports.ids.new_ulid(now),
                groups_of=self.groups_of,
                door=door,
            )


def _wait_in_fork(state: RunState, wait: Wait) -> Wait:
    """Return the wait of a fork that a wait of the other run became.

    Calls and frames keep their ids, and each has at most one wait.
    """
    subject = (wait.call_id, wait.frame_id)
    return next(
        each
        for each in state.waits.values()
        if (each.call_id, each.frame_id) == subject
    )


def _fork_digest(
    source: LoadedVersion, changes: ForkChanges, checked: Mapping[str, Decision]
) -> str:
    """Return a digest that recognizes a repeated fork with the same arguments."""
    stored = {
        wait_id: [getattr(each, name) for name in _STORED_FIELDS]
        for wait_id, each in checked.items()
    }
    given = [stored, dict(changes.results), dict(changes.messages)]
    run = source.state.run
    parts = (run.id, run.run_nonce, str(source.number), jsontext.canonical(given))
    return jsontext.digest("forked", *parts)


def as_mapping(value: object, name: str) -> dict[str, Any]:
    """Return a copy of a mapping from ids; raises `InvalidInput`."""
    if value is None:
        return {}
    found = jsontext.as_object(value)
    keys: list[object] = [] if found is None else [*found]
    if found is None or not all(isinstance(key, str) for key in keys):
        msg = f"{name} must be a dict from ids, got {type(value).__name__}."
        raise InvalidInput(f"{msg} Pass {name}={{id: ...}}.")
    return dict(found)


def check_ids(given: Iterable[str], known: Iterable[str], name: str, kind: str) -> None:
    """Raise `InvalidInput` if an id is unknown in the version that is forked."""
    ids = sorted(known)
    for each in given:
        if each not in ids:
            have = f"Its {kind}s are: {', '.join(ids)}" if ids else f"It has no {kind}"
            msg = f"{name} names {each[:100]!r}, which is no {kind} of the version."
            raise InvalidInput(
                f"{msg} {have}. Look at the version, then fork it again."
            )


def check_can_go_on(state: RunState, version: int, messages: Mapping[str, Any]) -> None:
    """Raise `InvalidInput` if nothing is left to do in a version."""
    run = state.run
    if run.has_ended:
        msg = (
            f"run {run.id} was not forked: it is {run.status} in version {version}, "
            "so nothing is left to do. Pass the number of an earlier version."
        )
        raise InvalidInput(msg, run_id=run.id)
    if run.rests and ROOT_FRAME_ID not in messages:
        msg = (
            f"run {run.id} was not forked: the thread rests in version {version}, and "
            "a fork has no inbox to wait for. Pass the next message as "
            f"messages={{'{ROOT_FRAME_ID}': ...}}, or another version."
        )
        raise InvalidInput(msg, run_id=run.id)


# Messages -------------------------------------------------------------------


def with_messages(state: RunState, messages: Mapping[str, Any]) -> RunState:
    """Return the state with a message more, or with other messages, in some frames.

    Raises `InvalidInput` if a frame is unknown or cannot have these messages.
    """
    check_ids(messages, state.frames, "messages", "frame")
    draft = Draft(state)
    for frame_id, value in messages.items():
        frame = draft.frame(frame_id)
        if frame.step:
            raise _history_error(frame)
        old = draft.log(frame_id).messages
        if isinstance(value, str):
            if frame.open_call_ids:
                raise _open_calls_error(frame_id)
            new = (*old, parse_user_message(value))
        else:
            new = _transcript(value, old, frame_id, has_calls=bool(frame.open_call_ids))
        wait = draft.suspending.get(frame_id)
        if wait is not None:  # the model is asked about the new messages
            draft.drop_wait(wait.id)
        draft.start_log(frame_id, new)
        _read_all_messages(draft, frame)
        changed = replace(
            draft.frame(frame_id),
            history=None,
            pending_reply=None,
            polls=0,
            failed_requests=0,
            model_error=None,
        )
        draft.put_frame(changed)
    return draft.to_run_state()


def _read_all_messages(draft: Draft, frame: FrameRow) -> None:
    """Let a handoff of the last turn drop none of the other messages."""
    for call_id in frame.open_call_ids:
        row = draft.call(call_id)
        if isinstance(row.state, Returned) and row.state.handoff is not None:
            handoff = replace(row.state.handoff, dropped=())
            draft.put_call(replace(row, state=replace(row.state, handoff=handoff)))


def _history_error(frame: FrameRow) -> InvalidInput:
    msg = (
        f"messages of frame {frame.id} cannot be changed: {frame.agent} is a workflow, "
        "and they are its history. Fork from an earlier version, or give results."
    )
    return InvalidInput(msg)


def _open_calls_error(frame_id: str) -> InvalidInput:
    msg = (
        f"messages of frame {frame_id} cannot end with a new message: its last turn "
        "has open calls. Pass a list that ends with this turn, or give their results."
    )
    return InvalidInput(msg)


def _transcript(
    value: Any, old: Sequence[Message], frame_id: str, *, has_calls: bool
) -> tuple[Message, ...]:
    """Return other messages of a frame; those that did not change stay as they were."""
    given = [*(jsontext.as_array(value) or ())]
    if has_calls and given[-1:] != [old[-1].data]:
        # The results of the last turn follow later.
        raise _open_calls_error(frame_id)
    try:
        if not has_calls:
            return _with_same(parse_input(value), old)
        before = [Message.from_mapping(jsontext.as_object(m) or {}) for m in given[:-1]]
    except (InvalidInput, ValueError, jsontext.NotJson) as error:
        msg = f"messages of frame {frame_id} are invalid: {error}"
        raise InvalidInput(f"{msg} Pass a text, or a list of chat messages.") from None
    new = _with_same((*before, old[-1]), old)
    violation = NOTHING_CHECKED.extended(new).violation
    if violation is not None:
        msg = f"messages of frame {frame_id} are no conversation: {violation}."
        raise InvalidInput(f"{msg} Pass a list that a model accepts.")
    return new


def _with_same(new: tuple[Message, ...], old: Sequence[Message]) -> tuple[Message, ...]:
    """Return messages with the stored text of those that are the same."""
    return tuple(
        old[n] if n < len(old) and each.data == old[n].data else each
        for n, each in enumerate(new)
    )


# Results --------------------------------------------------------------------


def with_results(state: RunState, results: Mapping[str, Any]) -> RunState:
    """Return the state in which some calls have returned; their tools do not run.

    A call of an agent ends with everything below it. Raises `InvalidInput` if a call is
    unknown or its result is no JSON value.
    """
    check_ids(results, state.calls, "results", "call")
    texts = {call_id: _text_of(value, call_id) for call_id, value in results.items()}
    # The deepest ones last: they may end with the calls above them.
    for call_id in sorted(texts, key=lambda each: int(each[1:])):
        row = state.calls.get(call_id)
        if row is None:
            continue
        # The code of a workflow gets the value, and not its text for a model.
        is_json = bool(state.frames[row.frame_id].step) and not isinstance(
            row.state, Nested
        )
        if is_json:
            texts[call_id] = jsontext.canonical(results[call_id])
        if isinstance(row.state, CLOSED_STATES):
            changed = replace(row, state=Returned(texts[call_id], is_json))
            state = state.with_rows(calls={**state.calls, call_id: changed})
            continue
        state = _without_what_is_below(state, call_id)
        returned = CallReturned(
            call_id=call_id, content=texts[call_id], is_json=is_json
        )
        state = advance(state, returned)
    return state


def _text_of(value: Any, call_id: str) -> str:
    if isinstance(value, str):
        return value
    try:
        return jsontext.canonical(value)
    except jsontext.NotJson as error:
        msg = f"results of call {call_id} cannot be stored: {error}. Pass a JSON value."
        raise InvalidInput(msg) from None


def _without_what_is_below(state: RunState, call_id: str) -> RunState:
    """Return the state in which a call runs and has no agent and no wait below it."""
    calls, frames = dict(state.calls), dict(state.frames)
    row = calls[call_id]
    pending, gone_calls = [row], {call_id}
    for each in pending:
        if isinstance(each.state, Nested):
            below = frames.pop(each.state.frame_id)
            pending += [calls[below_id] for below_id in below.open_call_ids]
    for each in pending[1:]:
        gone_calls.add(each.id)
        del calls[each.id]
    # As if the tool had run: the model reads the result as that of the tool.
    calls[call_id] = replace(row, state=Started(), attempts=max(row.attempts, 1))
    kept = {
        key: wait
        for key, wait in state.waits.items()
        if wait.call_id not in gone_calls
        and (not wait.frame_id or wait.frame_id in frames)
    }
    logs = {key: log for key, log in state.logs.items() if key in frames}
    return state.with_rows(frames=frames, calls=calls, waits=kept, logs=logs)
