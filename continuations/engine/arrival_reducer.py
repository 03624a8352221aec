"""Taking in what arrived: decisions, deadlines, messages, and calls cut off by a crash.

All of this happens before a claim: whatever can fail here leaves the stored bytes as
they are, and the run resumable.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from continuations.authoring.errors import ArgumentsInvalid
from continuations.core import jsontext
from continuations.core.calls import Started
from continuations.core.events import (
    Answered,
    Approved,
    Denied,
    Expired,
    OutcomeUnknown,
    Reopened,
    RepeatAllowed,
    RunStopped,
)
from continuations.core.reducer import advance
from continuations.core.run import Failure
from continuations.core.waits import Wait
from continuations.engine.call_waits import (
    approval_digest,
    approved_contract_digest,
    new_wait,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from continuations.core.calls import CallRow
    from continuations.core.decisions import Decision
    from continuations.core.events import CallEvent
    from continuations.core.state import RunState
    from continuations.engine.ports import Ports
    from continuations.engine.stack_binding import StackBinding


@dataclass(frozen=True, slots=True)
class ArrivalReducer:
    """Turns what arrived into events, with the code of this process at hand."""

    stack_binding: StackBinding
    ports: Ports

    def with_decisions(
        self, state: RunState, decisions: Mapping[str, Decision]
    ) -> RunState:
        """Take in the decisions of open waits, the oldest wait first.

        Raises `AgentChanged` if an approved call's tool is gone or means another
        thing.
        """
        stop: Failure | None = None
        for wait in sorted(state.waits.values(), key=Wait.sort_key):
            decision = decisions.get(wait.id)
            if decision is None:
                continue
            state = advance(state, self._decision_event(state, wait, decision))
            stop = stop or _failure_from_decision(wait, decision)
        return state if stop is None else advance(state, RunStopped(failure=stop))

    def _decision_event(
        self, state: RunState, wait: Wait, decision: Decision
    ) -> CallEvent:
        call = state.calls[wait.call_id]
        match decision.kind:
            case "approve":
                return self._approval_event(state, call, wait, decision)
            case "answer":
                value = jsontext.parse(decision.value or "null")
                text = value if isinstance(value, str) else decision.value or ""
                return Answered(call_id=call.id, content=text)
            case "expire":
                return Expired(call_id=call.id, decision=decision)
            case _:
                return Denied(call_id=call.id, decision=decision)

    def _approval_event(
        self, state: RunState, call: CallRow, wait: Wait, decision: Decision
    ) -> CallEvent:
        tool = self.stack_binding.unchanged_tool(state, call)
        meaning = approved_contract_digest(tool)
        if wait.rules.follows_policy:
            now_means = approval_digest(state, call, wait.arguments_json, meaning)
            if now_means != wait.digest:
                note = "The tool's description changed after the approval."
                return self._reopened_event(state, call, wait, note)
            until = _approval_valid_until(wait, decision)
            if until is not None and self.ports.clock.now() > until:
                note = f"The approval was older than its {wait.valid_for} s."
                return self._reopened_event(state, call, wait, note)
        else:
            until = None
        arguments = None
        if decision.arguments is not None:
            try:
                arguments = tool.effective_arguments(decision.arguments)
            except ArgumentsInvalid as error:
                note = (
                    f"The edited arguments were refused: {error} {_PLAIN_APPROVAL_NOTE}"
                )
                return self._reopened_event(state, call, wait, note)
            if arguments != _edit_with_shown_defaults(wait, decision.arguments):
                note = "The edited arguments were not taken: the tool reads them as"
                note = f"{note} {arguments}. {_PLAIN_APPROVAL_NOTE}"
                return self._reopened_event(state, call, wait, note)
        if arguments == wait.arguments_json:
            arguments = None
        runs = arguments if arguments is not None else wait.arguments_json
        digest = approval_digest(state, call, runs, meaning)
        return Approved(
            call_id=call.id, digest=digest, until=until, arguments=arguments
        )

    def _reopened_event(
        self, state: RunState, call: CallRow, wait: Wait, note: str
    ) -> Reopened:
        now = self.ports.clock.now()
        again = new_wait(
            state,
            call,
            self.stack_binding.tool(state, call),
            kind=wait.kind,
            now=now,
            ulid=self.ports.ids.new_ulid(now),
            note=note,
        )
        return Reopened(call_id=call.id, wait=again)

    def with_interrupted_calls(self, state: RunState) -> RunState:
        """Settle the calls that a dead worker had started.

        Those that are safe to repeat become ready again, of the others the outcome is
        unknown. Raises `AgentChanged` if one to be repeated is gone.
        """
        for call in list(state.calls.values()):
            if not isinstance(call.state, Started):
                continue
            if call.repeatable:
                self.stack_binding.unchanged_tool(state, call)
                state = advance(state, RepeatAllowed(call_id=call.id))
                continue
            now = self.ports.clock.now()
            wait = new_wait(
                state,
                call,
                self.stack_binding.tool(state, call),
                kind="unknown",
                now=now,
                ulid=self.ports.ids.new_ulid(now),
                note="The process that ran it died before it could say what happened.",
            )
            state = advance(state, OutcomeUnknown(call_id=call.id, wait=wait))
        return state


_PLAIN_APPROVAL_NOTE = (
    "A plain yes runs the call as it is shown, as it was before the edit."
)


def _edit_with_shown_defaults(wait: Wait, edited_arguments: str) -> str:
    """Return what an edit says, with the defaults that the wait's schema showed.

    Whatever else a tool would make of it (what a factory or a validator fills in, what
    it passes over) was never shown to anybody.
    """
    properties = jsontext.as_object(wait.schema.get("properties")) or {}
    shown = {
        name: each["default"]
        for name, each in properties.items()
        if jsontext.as_object(each) and "default" in each
    }
    return jsontext.canonical({**shown, **jsontext.parse(edited_arguments)})


def _approval_valid_until(wait: Wait, decision: Decision) -> datetime | None:
    """Return until when an approved call may begin, or `None` for always."""
    if wait.valid_for is None:
        return None
    return decision.at + timedelta(seconds=wait.valid_for)


def _failure_from_decision(wait: Wait, decision: Decision) -> Failure | None:
    if decision.kind == "deny" and wait.denial_stops:
        reason = f": {decision.reason}" if decision.reason else ""
        return Failure(code="denied", message=f"{wait.tool} was denied{reason}")
    if decision.kind == "expire" and wait.expiry_stops:
        return Failure(code="expired", message=f"nobody approved {wait.tool} in time")
    return None
