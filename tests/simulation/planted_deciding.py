"""Faults of waits and decisions: who says what of which call, and what then runs."""

# A fault reaches into the room that it spoils.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from continuations.core.calls import Started
from continuations.core.decisions import Decision
from continuations.core.events import Approved, Repeated
from continuations.core.reducer import advance
from continuations.core.waits import Wait
from continuations.engine import fold, opening
from continuations.engine.fold import Folder
from continuations.engine.perform import Performer
from continuations.ledger import arrivals as arriving
from continuations.ledger import decide as deciding
from continuations.ledger import layout
from continuations.ledger.arrivals import read_decision
from continuations.ledger.objects import AlreadyExists, NotFound
from continuations.wire.records import encode_decision
from tests.simulation.planted_fault import Swap, everywhere, fault, faults_in

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any

    from continuations.core.calls import CallRow
    from continuations.core.decisions import DecisionKind, Verdict
    from continuations.core.events import CallEvent, Event
    from continuations.core.table import Table
    from continuations.ledger.objects import Objects
    from tests.simulation.planted_fault import Swaps


# One decision ---------------------------------------------------------------


@fault("A later decision overwrites the first.", "one_decision", "refused_never_runs")
def a_decision_is_overwritten() -> Swaps:
    real = deciding.settle

    async def settle(objects: Objects, wanted: Decision) -> Decision:
        await objects.delete(layout.decision(wanted.wait_id))
        return await real(objects, wanted)

    yield Swap(deciding, "settle", settle)


@fault("Who comes second is told that his decision was recorded.", "one_decision")
def the_second_is_told_yes() -> Swaps:
    async def first(_objects: Objects, wanted: Decision) -> Decision:
        return wanted

    yield Swap(deciding, "_first", first)


@fault(
    "Whether a wait is decided is looked up; then the decision is simply written.",
    "one_decision",
    "refused_never_runs",
)
def a_decision_is_looked_up_then_written() -> Swaps:
    async def settle(objects: Objects, wanted: Decision) -> Decision:
        first = await read_decision(objects, wanted.wait_id)
        if first is not None:
            return first
        key = layout.decision(wanted.wait_id)
        run_id = layout.parse_wait_id(wanted.wait_id).run_id
        body = encode_decision(wanted, run_id)
        try:
            await objects.create(key, body)
        except AlreadyExists:
            await objects.delete(key)
            with suppress(AlreadyExists):
                await objects.create(key, body)
        await objects.delete(layout.wait(wanted.wait_id))
        return wanted

    yield Swap(deciding, "settle", settle)


@fault(
    "A deadline is acted on without being recorded: a person's yes may come first.",
    "ended_by_its_decision",
    "one_decision",
    "refused_never_runs",
)
def a_timeout_acts_without_winning_its_create() -> Swaps:
    async def close(
        _objects: Objects, wait: Wait, kind: DecisionKind, *, now: datetime, ulid: str
    ) -> Decision:
        return Decision(id=ulid, wait_id=wait.id, kind=kind, at=now, digest=wait.digest)

    yield Swap(fold, "close", close)


@fault(
    "A decider does not look at the deadline.",
    "decided_in_time",
)
def a_decision_is_taken_after_the_deadline() -> Swaps:
    real = deciding.record

    def record(wait: Wait, verdict: Verdict, *, now: datetime, ulid: str) -> Decision:
        return real(replace(wait, deadline=None), verdict, now=now, ulid=ulid)

    yield Swap(deciding, "record", record)


# The decision of this wait and of no other ----------------------------------

_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"


def _ulid_of(call: CallRow, birth: str) -> str:
    drawn = hashlib.sha256(f"{birth} {call.id}".encode()).digest()
    return birth[:10] + "".join(_LETTERS[byte % 32] for byte in drawn[:16])


@fault(
    "The id of a wait is made from its call, so that a second wait of the call has "
    "the id, and the decision, of the first.",
    "executed_is_approved",
    "one_decision",
    "started_once",
    "finished_never_again",
    "nobody_stranded",
)
def a_wait_is_named_after_its_call() -> Swaps:
    real = opening.new_wait

    def new_wait(table: Table, call: CallRow, *rest: Any, **more: Any) -> Wait:
        named = {**more, "ulid": _ulid_of(call, table.run.birth)}
        return real(table, call, *rest, **named)

    yield from everywhere(real, new_wait)


@fault(
    "Decisions are given to the open waits in their order, not by id.",
    "refused_never_runs",
    "executed_is_approved",
)
def a_decision_goes_to_the_first_wait() -> Swaps:
    real = Folder.decided

    def decided(self: Folder, table: Table, decisions: Mapping[str, Decision]) -> Table:
        waits = sorted(table.waits.values(), key=Wait.age)
        given = zip(waits, decisions.values(), strict=False)
        return real(self, table, {wait.id: decision for wait, decision in given})

    yield Swap(Folder, "decided", decided)


@fault(
    "The decision of a wait is read from the key of another wait of the run.",
    "refused_never_runs",
    "executed_is_approved",
    "one_decision",
)
def a_decision_is_read_from_another_waits_key() -> Swaps:
    async def decision(objects: Objects, wait: Wait) -> Decision:
        names = await arriving.decided_waits(objects, wait.run_id)
        other = await read_decision(objects, names[0])
        if other is None:
            raise NotFound(layout.decision(names[0]))
        return replace(other, wait_id=wait.id, digest=wait.digest)

    yield Swap(arriving, "_decision", decision)


@fault(
    "A decision that was acted on is acted on again after a crash.",
    "started_once",
    "finished_never_again",
)
def a_decision_is_applied_twice() -> Swaps:
    real = Folder.interrupted

    def interrupted(self: Folder, table: Table) -> Table:
        for call in list(table.calls.values()):
            if isinstance(call.state, Started) and call.approved is not None:
                table = advance(table, Repeated(call=call.id))
        return real(self, table)

    yield Swap(Folder, "interrupted", interrupted)


# What a decision says -------------------------------------------------------


def _as_approval(kind: str) -> Swaps:
    real = Folder._event

    def event(self: Folder, table: Table, wait: Wait, decision: Decision) -> CallEvent:
        if decision.kind == kind:
            decision = replace(decision, kind="approve", arguments=None)
        return real(self, table, wait, decision)

    yield Swap(Folder, "_event", event)


@fault("A denied call is made ready to run.", "refused_never_runs")
def a_denied_call_is_ready() -> Swaps:
    yield from _as_approval("deny")


@fault("A call that nobody approved in time is made ready.", "refused_never_runs")
def an_expired_call_is_ready() -> Swaps:
    yield from _as_approval("expire")


@fault("How long an approval is valid is looked at by nobody.", "approved_lately")
def valid_for_is_not_looked_at() -> Swaps:
    def until(_wait: Wait, _decision: Decision) -> None:
        return None

    yield Swap(fold, "_until", until)


@fault(
    "How long an approval is valid is looked at when it is taken in, and not when the "
    "call begins.",
    "approved_lately",
)
def valid_for_is_not_looked_at_again() -> Swaps:
    def is_too_late(_self: Performer, _call: CallRow) -> bool:
        return False

    yield Swap(Performer, "_is_too_late", is_too_late)


@fault(
    "After an edit the original arguments run, and no digest is compared.",
    "executed_is_approved",
)
def the_original_runs_after_an_edit() -> Swaps:
    real = Performer._run

    async def run(self: Performer, table: Table, call: CallRow, fence: int) -> Event:
        arguments = call.original or call.arguments
        as_written = replace(call, arguments=arguments, approved=None)
        return await real(self, table, as_written, fence)

    yield Swap(Performer, "_run", run)


@fault("An edit is forgotten when it is folded in.", "executed_is_approved")
def an_edit_is_forgotten() -> Swaps:
    real = Folder._approval

    def approval(
        self: Folder, table: Table, call: CallRow, wait: Wait, decision: Decision
    ) -> CallEvent:
        return real(self, table, call, wait, replace(decision, arguments=None))

    yield Swap(Folder, "_approval", approval)


@fault(
    "Edited arguments are checked by nobody.",
    "edits_fit",
)
def an_edit_is_not_validated() -> Swaps:
    def check_arguments(_wait: Wait, _given: object) -> None:
        return

    real = Folder._approval

    def approval(
        self: Folder, table: Table, call: CallRow, wait: Wait, decision: Decision
    ) -> CallEvent:
        found = real(self, table, call, wait, replace(decision, arguments=None))
        if decision.arguments is None or not isinstance(found, Approved):
            return found
        tool = self.bound.same_tool(table, call)
        meaning = opening.approved_meaning(tool)
        digest = opening.digest_of(table, call, decision.arguments, meaning)
        return replace(found, digest=digest, arguments=decision.arguments)

    yield Swap(deciding, "_check_arguments", check_arguments)
    yield Swap(Folder, "_approval", approval)


@fault(
    "A person's answer to an unknown outcome is taken for leave to run it again.",
    "started_once",
    "finished_never_again",
    "refused_never_runs",
)
def an_answer_is_taken_for_a_yes() -> Swaps:
    yield from _as_approval("answer")


@fault(
    "Nobody looks whether the deadline of a wait has passed.",
    "nobody_stranded",
)
def a_deadline_never_comes() -> Swaps:
    def is_late(_wait: Wait, _now: datetime) -> bool:
        return False

    yield Swap(fold, "is_late", is_late)


FAULTS = faults_in(globals())
