"""Rewind a live run: it goes on from an earlier version under its own id.

A claim version that names the earlier version comes first. A process that takes the run
over finishes the rewind. Effects are not undone, and messages are not read again.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.changes.operator_changes import with_turn_ended
from continuations.core.operator_request import OperatorRequest
from continuations.core.reading.audit import rewind_reason
from continuations.core.reading.past_rules import rewound_row
from continuations.core.reading.run_past import RewindPlan, Rewound, TakenMessage
from continuations.core.rows.decisions import OPERATOR, PYTHON, Door
from continuations.core.rows.frames import MessageLog
from continuations.core.rows.run import Failure, kept_requesters
from continuations.core.rows.waits import Wait, withheld
from continuations.engine.arrivals.readiness import arrivals_unblock, is_runnable
from continuations.engine.journal.journal import StoreJournal
from continuations.engine.journal.later_versions import LaterCalls, read_later_calls
from continuations.engine.journal.publishing import Publisher
from continuations.engine.journal.run_ending import RunEnder
from continuations.engine.past.adoption import Relocation
from continuations.engine.stack.stack_binding import StackBinding
from continuations.errors import FormatError, InvalidInput, StaleRun
from continuations.ledger import layout
from continuations.ledger.arrivals import wait_slots
from continuations.ledger.arrivals.arrival_logs import MESSAGES, REVOCATIONS
from continuations.ledger.arrivals.arrivals import Arrivals, read_arrivals
from continuations.ledger.claims import check_free
from continuations.ledger.versions import Versions
from continuations.value_class import dataclass, replace
from continuations.wire.envelope import object_digest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from continuations.authoring.registry import AgentRegistry
    from continuations.core.rows.run import RunRow
    from continuations.core.rows.state import RunState
    from continuations.engine.ports import Ports
    from continuations.ledger.loaded_version import LoadedVersion
    from continuations.ledger.objects import Objects


@dataclass(frozen=True, slots=True)
class Rewinder:
    """Rewinds runs of a store to one of their versions."""

    objects: Objects
    agent_registry: AgentRegistry
    ports: Ports
    lease: float

    async def plan(
        self, run_id: str, version: int, newest: int | None = None
    ) -> RewindPlan:
        """Return what a rewind would end, and what it would not undo; only read."""
        versions = Versions(self.objects, run_id)
        if newest is None:
            loaded = await versions.load_newest()
        else:
            loaded = await versions.load(newest)
        target = await versions.load(version)
        run = loaded.state.run
        numbers = (target.number, loaded.number)
        later = await read_later_calls(self.objects, run_id, target.state, numbers)
        keys = await list_decided(self.objects, loaded)
        state = await wait_slots.with_followed_waits(self.objects, loaded.state)
        waits = (wait for wait in state.waits.values() if wait.subject != "run")
        return RewindPlan(
            run_id=run_id,
            version=target.number,
            newest=loaded.number,
            digest=plan_digest(loaded, target, keys),
            waits=tuple(map(withheld, sorted(waits, key=Wait.sort_key))),
            decided=decided_ids(keys, state),
            calls=later.begun,
            messages=await self._taken_messages(run, target.state.run),
            refusal=_refusal(loaded, target) or None,
        )

    async def rewind(
        self,
        run_id: str,
        version: int,
        shown: str | None = None,
        *,
        by: str | None = None,
        door: Door = PYTHON,
    ) -> Rewound:
        """Let a run go on from an earlier version.

        Raises `InvalidInput` if that is not possible, `RunBusy`, `StaleRun` if the plan
        is not the shown one any more, and what a resume raises.
        """
        versions = Versions(self.objects, run_id)
        loaded = await versions.load_newest()
        loaded.state.read_messages()
        target = await versions.load(version)
        if shown is not None:
            await check_shown(self.objects, loaded, target, shown)
        _check_can_rewind(loaded, target)
        check_free(loaded.state.run, self.ports.clock.now())
        return await self._rewind(loaded, target, by, door)

    async def finish(self, loaded: LoadedVersion) -> Rewound:
        """Finish the rewind that a worker began and did not finish.

        Nothing names the person who asked for the rewind.
        """
        versions = Versions(self.objects, loaded.state.run.id)
        return await self._rewind(
            loaded, await versions.load(loaded.state.run.rewind_to)
        )

    async def _rewind(
        self,
        loaded: LoadedVersion,
        target: LoadedVersion,
        by: str | None = None,
        door: Door = OPERATOR,
    ) -> Rewound:
        target.state.read_messages()
        run = loaded.state.run
        binding = StackBinding(await self.agent_registry.listed(run.agent))
        versions = Versions(self.objects, run.id)
        journal = StoreJournal(
            self.objects, versions, loaded, self.ports, lease=self.lease
        )
        numbers = (target.number, loaded.number)
        later = await read_later_calls(self.objects, run.id, target.state, numbers)
        claimed = replace(run, rewind_to=target.number)
        await journal.commit(replace(loaded.state, run=claimed), progressed=False)
        assert journal.loaded is not None  # noqa: S101 - it was just committed
        before = journal.loaded.state
        state = self._rewound_state(before, target.state, later, binding)
        state = _interrupted_again(before.run, state, self.ports.clock.now())
        gone = before.waits_gone_in(state)
        ender = RunEnder(self.objects, self.ports)
        await ender.close_waits(
            before,
            gone,
            rewind_reason(target.number),
            by=by,
            door=door,
        )
        # An unread message, or a kept signal for a wait that opens again, may let the
        # run go on, and have no marker any more.
        arrived = await read_arrivals(self.objects, state)
        if is_runnable(state) or arrivals_unblock(state, arrived):
            await journal.make_release_marker()
        publisher = Publisher(self.objects, self.ports)
        await publisher.commit_and_publish(journal, before, state, Arrivals())
        return Rewound(
            run_id=run.id,
            rewound_to=target.number,
            version=journal.version_number,
            calls=later.begun,
            messages=await self._taken_messages(run, target.state.run),
        )

    def _rewound_state(
        self,
        newest: RunState,
        target: RunState,
        later: LaterCalls,
        binding: StackBinding,
    ) -> RunState:
        """Return the rows of the earlier version with the newest row of the run."""
        relocation = Relocation(
            "rewind",
            _without_run_waits(target),
            binding,
            self.ports,
            self.ports.clock.now(),
            begun_later=later.begun_ids,
            answered_later=later.answered_ids,
            later_wait_ids=later.wait_ids,
        )
        run = _rewound_run(newest.run, target.run, later.tools)
        state = relocation.move(run)
        logs, next_id = _new_logs(newest, state)
        # Only `unpause` ends a pause, and a pause that has ended does not come back.
        pauses = {w.id: w for w in newest.waits.values() if w.subject == "run"}
        return state.with_rows(
            run=replace(state.run, next_id=next_id),
            waits={**state.waits, **pauses},
            logs=logs,
        )

    async def _taken_messages(
        self, newest: RunRow, target: RunRow
    ) -> tuple[TakenMessage, ...]:
        """Return the messages that the run has read since the earlier version."""
        numbers = range(target.last_inbox_number + 1, newest.last_inbox_number + 1)
        messages = await MESSAGES.read_all(self.objects, newest.id, numbers)
        return tuple(
            TakenMessage(number=each.number, text=each.message.content, by=each.by)
            for each in messages
        )


def _check_can_rewind(newest: LoadedVersion, target: LoadedVersion) -> None:
    why = _refusal(newest, target)
    if why:
        run = newest.state.run
        msg = f"run {run.id} was not rewound: {why}."
        raise InvalidInput(msg, run_id=run.id)


def _refusal(newest: LoadedVersion, target: LoadedVersion) -> str:
    """Return why a run cannot go on from a version; an empty text if it can."""
    run, number = newest.state.run, target.number
    why = ""
    if run.has_ended:
        why = f"it is {run.status}. Fork it: runner.fork({run.id!r}, {number})"
    elif number == newest.number:
        why = f"version {number} is its newest one. Pass an earlier version"
    elif run.thread_key is not None and not target.state.run.rests:
        why = _turn_refusal(run, target.state.run, number)
    return why


def _turn_refusal(newest: RunRow, target: RunRow, number: int) -> str:
    """Return why a thread cannot go on within a turn; an empty text if it can."""
    advice = "Pass a version in which the thread rests"
    if newest.answered >= target.last_inbox_number:
        return (
            f"in version {number} the thread was in a turn that has ended since. "
            f"{advice}"
        )
    if newest.last_inbox_number > target.last_inbox_number:
        # It would get the reply to an earlier message, and would not be read again.
        return (
            f"since version {number} the thread has read message "
            f"{newest.last_inbox_number}, which has no reply yet. {advice}, or rewind "
            "after that reply"
        )
    return ""


def _without_run_waits(state: RunState) -> RunState:
    waits: Mapping[str, Wait] = {
        key: wait for key, wait in state.waits.items() if wait.subject != "run"
    }
    return state.with_rows(waits=waits)


def _rewound_run(newest: RunRow, target: RunRow, tools: tuple[str, ...]) -> RunRow:
    """Return the newest row of a run, for the state of an earlier version.

    Ids, inbox and usage never go back. Grants that were given since then end.
    """
    known = {grant.id for grant in target.grants}
    turn: dict[str, Any] = {
        name: getattr(newest, name) for name in ("answered", "failure", "output")
    }
    if newest.thread_key is not None and target.rests:
        turn["answered"] = newest.last_inbox_number
        if not newest.rests:
            # The turn that was cut off has no other reply.
            reason = (
                "The thread was rewound while it replied. Send the message again, "
                "with a new id if it had one."
            )
            failure = Failure(code="stopped", message=reason)
            turn |= {"output": None, "failure": failure}
    return rewound_row(
        newest,
        target,
        grants=tuple(grant for grant in newest.grants if grant.id in known),
        doubtful_tools=tuple(sorted({*newest.doubtful_tools, *tools})),
        requesters=kept_requesters((*newest.requesters, *target.requesters)),
        **turn,
    )


def _interrupted_again(newest: RunRow, state: RunState, now: datetime) -> RunState:
    """Return the state in which an unread message interrupts the turn, as before.

    The request to interrupt was taken in, so no worker reads it again.
    """
    number = newest.reads_next
    if number <= newest.last_inbox_number:
        return state
    request = OperatorRequest(
        id="",
        number=newest.last_operator_number,
        at=now,
        action="interrupt",
        message_number=number,
        by=newest.sender,
    )
    return with_turn_ended(state, request, ())


def _new_logs(newest: RunState, state: RunState) -> tuple[dict[str, MessageLog], int]:
    """Return the logs of a state under new ids, and the next id of the run.

    A delta keeps the messages that the newest version has too.
    """
    logs: dict[str, MessageLog] = {}
    next_id = state.run.next_id
    for frame_id, log in state.logs.items():
        current = newest.logs.get(frame_id)
        known = () if current is None else current.messages
        messages = list(log.messages)
        for place, (new, old) in enumerate(zip(messages, known, strict=False)):
            if new != old:
                break
            messages[place] = old
        logs[frame_id] = MessageLog(next_id, tuple(messages))
        next_id += 1
    return logs, next_id


_REST_CHARS = 32
_DIGEST = re.compile(r"([1-9][0-9]{0,9})-([0-9a-f]{32})-[0-9a-f]{32}\Z")


async def list_decided(objects: Objects, newest: LoadedVersion) -> list[str]:
    """Return the keys of what was recorded for the open waits, and of revocations."""
    run_id, waits = newest.state.run.id, newest.state.waits
    found: list[str] = []
    async for key in objects.all_keys(layout.arrivals_prefix(run_id)):
        slot = layout.parse_slot_key(key, run_id)
        wait_id = slot[0] if slot else layout.decided_wait_id(key, run_id)
        number = REVOCATIONS.number_in(key)
        if wait_id in waits or number is not None:
            found.append(key)
    return found


def decided_ids(keys: Sequence[str], state: RunState) -> tuple[str, ...]:
    """Return the ids of open waits that have a decision, in the order of the keys."""
    run_id = state.run.id
    ids = (layout.decided_wait_id(key, run_id) for key in keys)
    return tuple(each for each in ids if each is not None)


def plan_digest(
    newest: LoadedVersion, target: LoadedVersion, decided: Sequence[str]
) -> str:
    """Return the digest of a plan; `decided` is what `list_decided` returned."""
    parts = (str(target.number), _bytes_digest(target), *decided)
    rest = jsontext.digest("rewind plan", *parts)[:_REST_CHARS]
    return f"{newest.number}-{_bytes_digest(newest)}-{rest}"


async def check_shown(
    objects: Objects, newest: LoadedVersion, target: LoadedVersion, shown: object
) -> None:
    """Raise `StaleRun` unless a plan is as it was shown.

    Raises `InvalidInput` for a text that is the digest of no plan of the run.
    """
    run_id = newest.state.run.id
    if not isinstance(shown, str):
        msg = (
            f"run {run_id} was not rewound: shown must be a text or None, got "
            f"{type(shown).__name__}. Pass plan_rewind(...).digest."
        )
        raise InvalidInput(msg, run_id=run_id)
    decided = await list_decided(objects, newest)
    if shown == plan_digest(newest, target, decided):
        return
    if not await _names_a_version(objects, newest, shown):
        msg = (
            f"run {run_id} was not rewound: shown is the digest of no version of this "
            f"run, got {shown!r:.80}. Pass plan_rewind(...).digest."
        )
        raise InvalidInput(msg, run_id=run_id)
    msg = (
        f"run {run_id} was not rewound: it moved on since the plan that was shown, or "
        "something was decided for it, or the plan is for another version. The run "
        f"has version {newest.number} now. Make a new plan, and look at it."
    )
    raise StaleRun(msg, run_id=run_id)


async def _names_a_version(objects: Objects, newest: LoadedVersion, shown: str) -> bool:
    match = _DIGEST.match(shown)
    number = int(match[1]) if match else 0
    if match is None or number > newest.number:
        return False
    if number == newest.number:
        return match[2] == _bytes_digest(newest)
    with suppress(FormatError):
        data = await Versions(objects, newest.state.run.id).read(number)
        return match[2] == object_digest(data).hex()
    return False  # the version is damaged, and was given up by a repair


def _bytes_digest(version: LoadedVersion) -> str:
    return version.chain[-1].digest.hex()
