"""Turn arrived decisions, and calls that a crash interrupted, into events.

This happens before the claim: if it fails, the store is unchanged and the run can be
resumed.
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
    """Advances a run by what arrived, with the agents of this process."""

    stack_binding: StackBinding
    ports: Ports

    def with_decisions(
        self, state: RunState, decisions: Mapping[str, Decision]
    ) -> RunState:
        """Return the run with the decisions of its open waits, the oldest wait first.

        Raises `AgentChanged` if an approved call's tool is missing or has changed.
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
        contract = approved_contract_digest(tool)
        if wait.rules.follows_policy:
            digest = approval_digest(state, call, wait.arguments_json, contract)
            if digest != wait.digest:
                note = "The tool's description changed after the approval."
                return self._reopened_event(state, call, wait, note)
            until = _approval_valid_until(wait, decision)
            if until is not None and self.ports.clock.now() > until:
                note = f"The approval was older than {wait.valid_for} s."
                return self._reopened_event(state, call, wait, note)
        else:
            until = None
        arguments = None
        if decision.arguments is not None:
            try:
                arguments = tool.effective_arguments(decision.arguments)
                difference = tool.find_edit_difference(decision.arguments)
            except ArgumentsInvalid as error:
                note = (
                    f"The tool rejected the edited arguments: {error} "
                    f"{_PLAIN_APPROVAL_NOTE}"
                )
                return self._reopened_event(state, call, wait, note)
            if difference is not None:
                note = (
                    "The edited arguments were not used: the tool would change "
                    f"{difference} and run with {arguments}. {_PLAIN_APPROVAL_NOTE}"
                )
                return self._reopened_event(state, call, wait, note)
        if arguments == wait.arguments_json:
            arguments = None
        executed = arguments if arguments is not None else wait.arguments_json
        digest = approval_digest(state, call, executed, contract)
        return Approved(
            call_id=call.id, digest=digest, until=until, arguments=arguments
        )

    def _reopened_event(
        self, state: RunState, call: CallRow, wait: Wait, note: str
    ) -> Reopened:
        now = self.ports.clock.now()
        new = new_wait(
            state,
            call,
            self.stack_binding.tool(state, call),
            kind=wait.kind,
            now=now,
            ulid=self.ports.ids.new_ulid(now),
            note=note,
        )
        return Reopened(call_id=call.id, wait=new)

    def with_interrupted_calls(self, state: RunState) -> RunState:
        """Return the run without started calls: a worker died while they ran.

        Repeatable calls become ready again. The outcome of the others is unknown, and a
        wait is opened for each. Raises `AgentChanged` if the tool of a repeatable call
        is missing or has changed.
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
                note="The process that ran this call died before it recorded a result.",
            )
            state = advance(state, OutcomeUnknown(call_id=call.id, wait=wait))
        return state


_PLAIN_APPROVAL_NOTE = (
    "An approval without edits runs the call with the arguments shown here."
)


def _approval_valid_until(wait: Wait, decision: Decision) -> datetime | None:
    """Return the time until which an approved call may begin, `None` for no limit."""
    if wait.valid_for is None:
        return None
    try:
        return decision.at + timedelta(seconds=wait.valid_for)
    except OverflowError:  # a wait of an earlier release: after the year 9999
        return None


def _failure_from_decision(wait: Wait, decision: Decision) -> Failure | None:
    if decision.kind == "deny" and wait.denial_stops:
        reason = f": {decision.reason}" if decision.reason else ""
        return Failure(code="denied", message=f"{wait.tool} was denied{reason}")
    if decision.kind == "expire" and wait.expiry_stops:
        return Failure(
            code="expired",
            message=f"{wait.tool} was not approved in time. Start a new run.",
        )
    return None
