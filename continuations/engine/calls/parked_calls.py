"""Calls whose tool returned a wait: how the wait is opened, and what ends it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from continuations.authoring.errors import ArgumentsInvalid
from continuations.core import jsontext
from continuations.core.changes import events
from continuations.core.rows import waits
from continuations.core.rows.calls import CallRow, open_wait_id
from continuations.core.rows.decisions import Answer, Decision, Deny, Fail
from continuations.core.rows.state import RunState, call_path
from continuations.engine.call_waits import (
    parked_wait,
    renewed_wait,
    with_parked_digest,
)
from continuations.errors import AgentChanged, DecisionRefused, InvalidInput
from continuations.ledger import layout
from continuations.ledger.decisions import verdict_checks
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from continuations.authoring.tool.tool_protocol import AgentProtocol, ToolProtocol
    from continuations.authoring.tool_waits import ToolWait
    from continuations.engine.ports import Ports
    from continuations.engine.stack.stack_binding import StackBinding

_log = logging.getLogger("continuations")
# A tool that waits again and again without an end is a mistake.
MAX_STAGES = 10_000


def park(
    state: RunState,
    call: CallRow,
    tool: ToolProtocol,
    asked: ToolWait[Any],
    ports: Ports,
    *,
    agent: AgentProtocol | None = None,
    patch: str | None = None,
) -> events.CallParked | events.CallRaised:
    """Return the event of a tool that ran and returned a wait."""
    if call.stage >= MAX_STAGES:
        text = f"ERROR: the tool has waited {MAX_STAGES:,} times. Its effects remain."
        return events.CallRaised(call_id=call.id, code="result", content=text)
    try:
        memo = _memo_text(asked)
        now = ports.clock.now()
        ulid = ports.ids.new_ulid(now)
        wait = parked_wait(state, call, tool, asked, now=now, ulid=ulid, agent=agent)
    except InvalidInput as error:
        text = (
            f"ERROR: the tool ran, and the wait that it returned is invalid: {error} "
            "Its effects remain."
        )
        _log.warning(
            "run %s: tool %s (call %s) returned a wait that is invalid: %s",
            state.run.id,
            call.tool,
            call.id,
            error,
        )
        return events.CallRaised(call_id=call.id, code="result", content=text)
    return events.CallParked(call_id=call.id, wait=wait, patch=patch, memo=memo)


def _memo_text(asked: ToolWait[Any]) -> str | None:
    """Return the memo of a wait as JSON text; raises `InvalidInput`."""
    try:
        return None if asked.memo is None else jsontext.canonical(asked.memo)
    except jsontext.NotJson as error:
        raise InvalidInput(f"memo must be a JSON value: {error}.") from None


@dataclass(frozen=True, slots=True)
class ParkedCalls:
    """Turns decisions of parked calls into events, with the tools of this process."""

    stack_binding: StackBinding
    ports: Ports

    def event(
        self, state: RunState, call: CallRow, wait: waits.Wait, decision: Decision
    ) -> events.CallEvent:
        """Return the event of a decision.

        Raises `AgentChanged` if a function of the tool must get the answer, and this
        process does not have it.
        """
        problem = _problem_with_sent_data(state, wait, decision)
        if problem is not None:
            renewed = self._renewed(state, call, wait, problem, keeps_times=True)
            return events.Reopened(call_id=call.id, wait=renewed)
        match waits.consequence(wait, decision):
            case Answer(value=value):
                return self._answer_event(state, call, wait, value, decision)
            case Fail(error=error):
                is_late = decision.kind == "expire" and wait.on_deadline_json is None
                of_code = bool(state.frames[call.frame_id].step)
                return events.CallRaised(
                    call_id=call.id,
                    code="expired" if is_late and of_code else "failed",
                    content=f"ERROR: {error}",
                    at=decision.at,
                )
            case Deny(reason=reason):
                denied = replace(decision, kind="deny", reason=reason)
                return events.Denied(call_id=call.id, decision=denied)
            case None:
                return events.Expired(call_id=call.id, decision=decision)

    def _answer_event(
        self,
        state: RunState,
        call: CallRow,
        wait: waits.Wait,
        value: Any,
        decision: Decision,
    ) -> events.CallEvent:
        if not wait.continues:
            return answered(state, call, value, decision)
        answer_json = jsontext.canonical(value)
        was_sent = _sender_of(decision) is not None
        tool = answered_tool(self.stack_binding, state, call)
        try:
            tool.check_answer(answer_json)
        except ArgumentsInvalid as error:
            note = f"The tool rejected the answer: {error}"
            renewed = self._renewed(state, call, wait, note, keeps_times=was_sent)
            return events.Reopened(call_id=call.id, wait=renewed)
        return events.AnswerReceived(call_id=call.id, answer=answer_json)

    def _renewed(
        self,
        state: RunState,
        call: CallRow,
        wait: waits.Wait,
        note: str,
        *,
        keeps_times: bool = False,
    ) -> waits.Wait:
        now = self.ports.clock.now()
        ulid = self.ports.ids.new_ulid(now)
        if wait.rules.has_known_id:
            last = layout.parse_wait_id(wait.id).ulid
            ulid = waits.next_known_wait_ulid(state.run, last)
        renewed = renewed_wait(wait, now, ulid, note)
        if keeps_times:
            # It also looks back as far as the wait before.
            renewed = replace(
                renewed, deadline=wait.deadline, created_at=wait.created_at
            )
        if wait.event is not None:
            renewed = replace(renewed, events_taken=state.run.events_taken)
        return with_parked_digest(state, call, renewed)


def answered(
    state: RunState, call: CallRow, value: Any, decision: Decision
) -> events.Answered:
    """Return the event of an answer that is the result of its call.

    A model reads a text as it is, and the code of a workflow gets the value.
    """
    is_json = bool(state.frames[call.frame_id].step)
    is_text = isinstance(value, str) and not is_json
    text = value if is_text else jsontext.canonical(value)
    return events.Answered(
        call_id=call.id, content=text, is_json=is_json, at=decision.at
    )


def answered_tool(
    stack_binding: StackBinding, state: RunState, call: CallRow
) -> ToolProtocol:
    """Return the tool whose function gets an answer; raises `AgentChanged`."""
    if stack_binding.tool(state, call) is None:
        raise stack_binding.missing_tool_error(state, call, open_wait_id(call.state))
    tool = stack_binding.unchanged_tool(state, call)
    if tool.continues:
        return tool
    msg = (
        f"run {state.run.id}: call {call.id} has its answer, and tool "
        f"{call.tool!r} has no on_answer function any more. Nothing ran. "
        "Resume with the code that the call was made for, or cancel the run."
    )
    path = call_path(state, call)
    raise AgentChanged(msg, run_id=state.run.id, path=path)


def gets_answer(state: RunState, wait_id: str, decision: Decision) -> bool:
    """Return whether a decision of a parked call is for its `on_answer` function."""
    wait = state.waits[wait_id]
    if not wait.continues or _problem_with_sent_data(state, wait, decision) is not None:
        return False
    return isinstance(waits.consequence(wait, decision), Answer)


def _sender_of(decision: Decision) -> str | None:
    """Return the signal or event that made a decision, in words, or `None`."""
    if decision.signal:
        return f"Signal {decision.signal}"
    return decision.event and f"Event {decision.event}"


def _problem_with_sent_data(
    state: RunState, wait: waits.Wait, decision: Decision
) -> str | None:
    """Return why a signal or event does not end its wait, or `None`."""
    sender, number = _sender_of(decision), decision.signal
    if sender is None:
        return None
    if number and all(signal.number != number for signal in state.run.signals):
        return f"{sender} went to another wait."
    try:
        value = jsontext.parse(decision.value or "null")
        verdict_checks.check_values(wait, Answer(value))
    except DecisionRefused as error:
        return f"{sender} does not fit: {error}"
    return None
