"""Taking in what arrived: decisions, deadlines, messages, and calls cut off by a crash.

All of this happens before a claim: whatever can fail here leaves the stored bytes as
they are, and the run resumable.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from continuations.authoring.faults import ArgumentsInvalid
from continuations.core import jsontext
from continuations.core.calls import Started
from continuations.core.events import (
    Answered,
    Approved,
    Denied,
    Expired,
    Interrupted,
    Reopened,
    Repeated,
    RunStopped,
)
from continuations.core.reducer import advance
from continuations.core.run import Failure
from continuations.core.waits import Wait
from continuations.engine.opening import approved_meaning, digest_of, new_wait
from continuations.ledger.decide import close

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from continuations.core.calls import CallRow
    from continuations.core.decisions import Decision
    from continuations.core.events import CallEvent
    from continuations.core.table import Table
    from continuations.engine.bound import Bound
    from continuations.engine.ports import Ports
    from continuations.ledger.objects import Objects


@dataclass(frozen=True, slots=True)
class Folder:
    """Turns what arrived into events, with the code of this process at hand."""

    bound: Bound
    ports: Ports

    def decided(self, table: Table, decisions: Mapping[str, Decision]) -> Table:
        """Take in the decisions of open waits, the oldest wait first.

        Raises `AgentChanged` if an approved call's tool is gone or means another
        thing.
        """
        stop: Failure | None = None
        for wait in sorted(table.waits.values(), key=Wait.age):
            decision = decisions.get(wait.id)
            if decision is None:
                continue
            table = advance(table, self._event(table, wait, decision))
            stop = stop or _stopped_by(wait, decision)
        return table if stop is None else advance(table, RunStopped(failure=stop))

    def _event(self, table: Table, wait: Wait, decision: Decision) -> CallEvent:
        call = table.calls[wait.call_id]
        match decision.kind:
            case "approve":
                return self._approval(table, call, wait, decision)
            case "answer":
                value = jsontext.parse(decision.value or "null")
                text = value if isinstance(value, str) else decision.value or ""
                return Answered(call=call.id, content=text)
            case "expire":
                return Expired(call=call.id, decision=decision)
            case _:
                return Denied(call=call.id, decision=decision)

    def _approval(
        self, table: Table, call: CallRow, wait: Wait, decision: Decision
    ) -> CallEvent:
        tool = self.bound.same_tool(table, call)
        meaning = approved_meaning(tool)
        if wait.kind == "approval":
            now_means = digest_of(table, call, wait.arguments_json, meaning)
            if now_means != wait.digest:
                note = "The tool's description changed after the approval."
                return self._reopened(table, call, wait, note)
            until = _until(wait, decision)
            if until is not None and self.ports.clock.now() > until:
                note = f"The approval was older than its {wait.valid_for} s."
                return self._reopened(table, call, wait, note)
        else:
            until = None
        arguments = None
        if decision.arguments is not None:
            try:
                arguments = tool.bind(decision.arguments)
            except ArgumentsInvalid as error:
                note = f"The edited arguments were refused: {error} {_AS_BEFORE}"
                return self._reopened(table, call, wait, note)
            if arguments != _approved_edit(wait, decision.arguments):
                note = "The edited arguments were not taken: the tool reads them as"
                note = f"{note} {arguments}. {_AS_BEFORE}"
                return self._reopened(table, call, wait, note)
        if arguments == wait.arguments_json:
            arguments = None
        runs = arguments if arguments is not None else wait.arguments_json
        digest = digest_of(table, call, runs, meaning)
        return Approved(call=call.id, digest=digest, until=until, arguments=arguments)

    def _reopened(self, table: Table, call: CallRow, wait: Wait, note: str) -> Reopened:
        now = self.ports.clock.now()
        again = new_wait(
            table,
            call,
            self.bound.tool(table, call),
            kind=wait.kind,
            now=now,
            ulid=self.ports.ids.ulid(now),
            note=note,
        )
        return Reopened(call=call.id, wait=again)

    def interrupted(self, table: Table) -> Table:
        """Settle the calls that a dead worker had started.

        Those that are safe to repeat become ready again, of the others the outcome is
        unknown. Raises `AgentChanged` if one to be repeated is gone.
        """
        for call in list(table.calls.values()):
            if not isinstance(call.state, Started):
                continue
            if call.repeatable:
                self.bound.same_tool(table, call)
                table = advance(table, Repeated(call=call.id))
                continue
            now = self.ports.clock.now()
            wait = new_wait(
                table,
                call,
                self.bound.tool(table, call),
                kind="unknown",
                now=now,
                ulid=self.ports.ids.ulid(now),
                note="The process that ran it died before it could say what happened.",
            )
            table = advance(table, Interrupted(call=call.id, wait=wait))
        return table


_AS_BEFORE = "A plain yes runs the call as it is shown, as it was before the edit."


def _approved_edit(wait: Wait, edited: str) -> str:
    """Return what an edit says, with the defaults that the wait's schema showed.

    Whatever else a tool would make of it (what a factory or a validator fills in, what
    it passes over) was never shown to anybody.
    """
    properties = jsontext.mapping(wait.schema.get("properties")) or {}
    shown = {
        name: each["default"]
        for name, each in properties.items()
        if jsontext.mapping(each) and "default" in each
    }
    return jsontext.canonical({**shown, **jsontext.parse(edited)})


async def expired(objects: Objects, table: Table, ports: Ports) -> dict[str, Decision]:
    """Close the open waits whose deadline has passed; the first decision stands.

    Returns the decisions that stand now: a person's may have come first after all.
    """
    now = ports.clock.now()
    late = [wait for wait in table.waits.values() if is_late(wait, now)]
    return {
        wait.id: await close(objects, wait, "expire", now=now, ulid=ports.ids.ulid(now))
        for wait in late
    }


def is_late(wait: Wait, now: datetime) -> bool:
    """Tell whether a wait's deadline has passed."""
    return wait.deadline is not None and now > wait.deadline


def _until(wait: Wait, decision: Decision) -> datetime | None:
    """Return until when an approved call may begin, or `None` for always."""
    if wait.valid_for is None:
        return None
    return decision.at + timedelta(seconds=wait.valid_for)


def _stopped_by(wait: Wait, decision: Decision) -> Failure | None:
    if decision.kind == "deny" and wait.denial_stops:
        reason = f": {decision.reason}" if decision.reason else ""
        return Failure(code="denied", message=f"{wait.tool} was denied{reason}")
    if decision.kind == "expire" and wait.expiry_stops:
        return Failure(code="expired", message=f"nobody approved {wait.tool} in time")
    return None
