"""Turn arrived decisions and signals, and calls that a crash interrupted, into events.

This happens before the claim: if it fails, the store is unchanged and the run can be
resumed.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING

from continuations.authoring.errors import ArgumentsInvalid
from continuations.core import jsontext
from continuations.core.changes import events
from continuations.core.changes.reducer import advance
from continuations.core.rows import event_matching, waits
from continuations.core.rows.calls import CallRow, Parked, Proposed, Ready, Started
from continuations.core.rows.decisions import Answer, Decision, Deny
from continuations.core.rows.run import Failure, KeptSignal
from continuations.core.words import secret_arguments
from continuations.engine import call_waits
from continuations.engine.calls.admission import Admission, examined_under
from continuations.engine.calls.parked_calls import ParkedCalls, answered
from continuations.engine.calls.rule_approvals import given_grants
from continuations.engine.deadlines import is_past_deadline
from continuations.engine.workflow.flows_of_worker import FlowsOfWorker, has_workflows
from continuations.ledger.arrivals import early_answers
from continuations.ledger.arrivals.arrival_logs import SIGNALS
from continuations.ledger.decisions.decisions import record_decision
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from continuations.authoring.tool.tool_protocol import ToolProtocol
    from continuations.core.rows.state import RunState
    from continuations.engine.events.event_feeds import EventFeed
    from continuations.engine.ports import Ports
    from continuations.engine.stack.stack_binding import StackBinding
    from continuations.engine.work_observers import WatchedSession
    from continuations.ledger.objects import Objects
    from continuations.wire.arrivals import Signal


_DIED_NOTE = "The process that ran this call died before it recorded a result."
_NO_DECISIONS: Mapping[str, Decision] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ArrivalReducer:
    """Advances a run by what arrived, with the agents of this process."""

    stack_binding: StackBinding
    ports: Ports
    # The running code of the run's workflows.
    flows: FlowsOfWorker
    # Reports the events of the run, if there is a listener.
    feed: EventFeed | None = None
    session: WatchedSession | None = None

    def replayed(self, state: RunState) -> RunState:
        """Return the run after a replay of its workflows; raises `AgentChanged`."""
        if not has_workflows(self.stack_binding, state):
            return state
        return self.flows.drives.replayed(state)

    def with_decisions(
        self, state: RunState, decisions: Mapping[str, Decision]
    ) -> RunState:
        """Return the run with the decisions of its open waits, the oldest wait first.

        The old yes never runs a new contract: the wait of an approved call whose tool
        changed, or is missing on a reopen, is opened again with a note.
        """
        if state.run.has_ended:
            return state
        for listener in (self.feed, self.session):
            if listener is not None:
                listener.know(decisions)
        stop: Failure | None = None
        decided = [wait for wait in state.waits.values() if wait.id in decisions]
        for wait in sorted(decided, key=waits.Wait.sort_key):
            decision = decisions[wait.id]
            if decision.event is not None:
                state = advance(state, events.EventTaken(decision.event))
            due = self._decision_events(state, wait, decision)
            if decision.signal:
                state = without_signal(state, decision.signal)
            for event in due:
                state = advance(state, event)
                if isinstance(event, events.AnswerReceived):
                    state = self._with_doubtful_answer(state, event.call_id)
            stop = stop or _failure_from_decision(wait, decision)
        if stop is not None:
            return _stopped(state, stop)
        return self._without_missing_frames(state)

    def _decision_events(
        self, state: RunState, wait: waits.Wait, decision: Decision
    ) -> Iterable[events.Event]:
        if wait.subject != "call":
            return (_end_of_suspension(wait, decision),)
        call = state.calls[wait.call_id]
        if isinstance(call.state, Parked):
            parked = ParkedCalls(self.stack_binding, self.ports)
            return (parked.event(state, call, wait, decision),)
        match decision.kind:
            case "approve":
                return self._approval_events(state, call, wait, decision)
            case "answer":
                return (
                    answered(
                        state, call, jsontext.parse(decision.value or "null"), decision
                    ),
                )
            case "expire":
                return (_expiry_event(state, call, wait, decision),)
            case _:
                return (events.Denied(call_id=call.id, decision=decision),)

    def _with_doubtful_answer(self, state: RunState, call_id: str) -> RunState:
        """Return the run in which a person is asked before `on_answer` runs again.

        It ran in versions that a rewind or a fork left, perhaps with another answer.
        """
        call = state.calls[call_id]
        tool = self.stack_binding.tool(state, call)
        if call.answer_used_in is None or (tool is not None and tool.read_only):
            return state
        note = (
            f"Run {call.answer_used_in} began the on_answer function of this call "
            "after the version that is continued."
        )
        parts = self.stack_binding, self.ports
        wait = call_waits.wait_of_call(*parts, state, call, "unknown", note)
        state = advance(state, events.OutcomeUnknown(call_id=call.id, wait=wait))
        if call.answer_used_in == state.run.id:
            return state
        # `verify` would ask for the new key, which the other side does not know.
        return advance(state, events.Unverified(call_id=call.id))

    def _approval_events(
        self, state: RunState, call: CallRow, wait: waits.Wait, decision: Decision
    ) -> Iterable[events.Event]:
        until = _approval_valid_until(wait, decision)
        note = self.why_reopened(state, wait, decision)
        if note is not None:
            admission = Admission(self.stack_binding, self.ports)
            return (admission.ask_again(state, call, note, wait),)
        tool = self.stack_binding.tool(state, call)
        assert tool is not None  # noqa: S101 - a missing tool makes an approval void
        decision = _with_secrets(wait, decision)
        arguments = decision.arguments and tool.effective_arguments(decision.arguments)
        if arguments == wait.arguments_json:
            arguments = None
        executed = arguments or wait.arguments_json
        contract = call_waits.approved_contract_digest(tool)
        digest = call_waits.approval_digest(state, call, executed, contract)
        approved = events.Approved(
            call_id=call.id,
            digest=digest,
            until=until,
            arguments=arguments,
            form=decision.form,
        )
        given = given_grants(decision, wait, tool)
        if tool.contract_digest == call.contract_digest:
            return (*given, approved)
        # The wait showed the present contract, and the edit fits it.
        return (*given, examined_under(tool, call, wait), approved)

    def why_reopened(
        self,
        state: RunState,
        wait: waits.Wait,
        decision: Decision,
        *,
        form_is_known: bool = True,
    ) -> str | None:
        """Return why an approval opens its wait again; `None`: its call may begin.

        Args:
            state: The run.
            wait: The wait of a call.
            decision: The approval.
            form_is_known: With False, the approver fills in the form later.
        """
        call = state.calls[wait.call_id]
        note = Admission(self.stack_binding, self.ports).why_void(
            state,
            call,
            arguments=wait.arguments_json,
            digest=wait.digest,
            until=_approval_valid_until(wait, decision),
            # An approval of an unknown outcome repeats the call with its first form.
            form=call.form if wait.rules.may_have_run else decision.form,
            wait=wait,
            form_is_known=form_is_known or wait.rules.may_have_run,
        )
        if note is not None:
            return note + _NOT_AGAIN_NOTE if wait.rules.may_have_run else note
        tool = self.stack_binding.tool(state, call)
        assert tool is not None  # noqa: S101 - a missing tool makes an approval void
        note = _why_edit_is_forbidden(wait, decision)
        decision = _with_secrets(wait, decision)
        note = note or _why_arguments_do_not_fit(tool, call, decision)
        if note is None:
            return None
        note = secret_arguments.scrubbed(note, decision.arguments or "{}", wait.secrets)
        return f"{note} {_PLAIN_APPROVAL_NOTE}"

    def _without_missing_frames(self, state: RunState) -> RunState:
        """Return the run without frames that can only end, since their agents are gone.

        Calls that wait, or may have happened, stay open until a person decides.
        """
        for frame_id in self.stack_binding.missing_frames(state):
            # The last event of a turn removes its calls. If the turn was the last one,
            # it also removes the frame, and perhaps the frame above.
            frame = state.frames.get(frame_id)
            for call_id in frame.open_call_ids if frame is not None else ():
                call = state.calls.get(call_id)
                event = call and self._event_without_agent(state, call)
                state = advance(state, event) if event else state
            frame = state.frames.get(frame_id)
            if frame is not None and not frame.open_call_ids:
                text = (
                    f"ERROR: the agent {frame.agent} was removed while it worked on "
                    "this call. Effects of its tools remain."
                )
                ended = events.FrameAbandoned(
                    frame_id=frame.id, code="agent", content=text
                )
                state = advance(state, ended)
        return state

    def _event_without_agent(
        self, state: RunState, call: CallRow
    ) -> events.CallEvent | None:
        match call.state:
            case Proposed():
                removed = True
            case Ready():
                removed = call.approved_digest is None and not call.attempts
            case _:
                return None
        if removed:
            text = "ERROR: the call was not executed: its agent was removed."
            return events.CallInvalid(call_id=call.id, code="agent", content=text)
        note = self.stack_binding.missing_tool_note(state, call)
        return Admission(self.stack_binding, self.ports).ask_again(state, call, note)

    def with_interrupted_calls(
        self, state: RunState, decisions: Mapping[str, Decision] = _NO_DECISIONS
    ) -> RunState:
        """Return the run without started calls: a worker died while they ran.

        A call whose job was answered already has run: it is parked and not repeated,
        also if its outcome was unknown. After a loss of versions a person is asked.

        Repeatable calls become ready again. The outcome of the others is unknown, and a
        wait is opened for each. Raises `AgentChanged` if a repeatable call was not
        approved, and its tool is missing or has changed.
        """
        for wait_id, call in early_answers.answered_calls(state, decisions).items():
            state = advance(state, self._park_answered(state, call, wait_id))
        for call in list(state.calls.values()):
            if not isinstance(call.state, Started):
                continue
            agent = self.stack_binding.find_agent(state, call.frame_id)
            if call.repeatable and agent is not None:
                if call.approved_digest is None:
                    self.stack_binding.unchanged_tool(state, call)
                state = advance(state, events.RepeatAllowed(call_id=call.id))
                continue
            parts = self.stack_binding, self.ports
            wait = call_waits.wait_of_call(*parts, state, call, "unknown", _DIED_NOTE)
            state = advance(state, events.OutcomeUnknown(call_id=call.id, wait=wait))
        return state

    def _park_answered(
        self, state: RunState, call: CallRow, wait_id: str
    ) -> events.CallParked:
        tool = self.stack_binding.tool(state, call)
        wait = early_answers.early_wait(state, call, wait_id)
        if tool is not None:
            wait = replace(wait, continues=tool.continues, cancels=tool.cancels)
        return events.CallParked(call_id=call.id, wait=wait)


def _end_of_suspension(wait: waits.Wait, decision: Decision) -> events.Event:
    if not wait.rules.judges_text:
        # The expiry that a worker records has no door.
        woken = wait.rules.may_wake and decision.door is not None
        return events.SuspensionEnded(wait_id=wait.id, woken=woken)
    from continuations.engine.guards.guarded_turn import event_of_decision  # noqa: PLC0415 - rarely needed

    return event_of_decision(wait, decision)


def _expiry_event(
    state: RunState, call: CallRow, wait: waits.Wait, decision: Decision
) -> events.CallEvent:
    """Return what the deadline of an approval does; it never lets the call run."""
    action = wait.on_deadline_json and waits.consequence_of_deadline(wait)
    match action:
        case Answer(value=value):
            return answered(state, call, value, decision)
        case Deny(reason=reason):
            denied = replace(decision, kind="deny", reason=reason)
            return events.Denied(call_id=call.id, decision=denied)
        case _:
            return events.Expired(call_id=call.id, decision=decision)


_NOT_AGAIN_NOTE = " So the call cannot be repeated as it was. Deny it, or answer it."
_PLAIN_APPROVAL_NOTE = (
    "An approval without edits runs the call with the arguments shown here."
)


def _why_arguments_do_not_fit(
    tool: ToolProtocol, call: CallRow, decision: Decision
) -> str | None:
    """Return why a call cannot run with the approved arguments, `None` if it can."""
    if decision.arguments is None:
        if tool.contract_digest == call.contract_digest:
            return None
        return "The arguments do not fit the new contract of the tool."
    try:
        arguments = tool.effective_arguments(decision.arguments)
        difference = tool.find_edit_difference(decision.arguments)
    except ArgumentsInvalid as error:
        return f"The tool rejected the edited arguments: {error}"
    if difference is None:
        return None
    shown = secret_arguments.masked_json(arguments, tool.secrets)
    return (
        f"The edited arguments were not used: the tool would change {difference} and "
        f"run with {shown}."
    )


def _why_edit_is_forbidden(wait: waits.Wait, decision: Decision) -> str | None:
    """Return why an edit must not run, or `None`."""
    if decision.arguments is None or wait.editable_json is None:
        return None
    name = waits.find_fixed_argument(wait, decision.arguments)
    return name and f"The edited arguments were not used: {name} cannot be edited."


def _with_secrets(wait: waits.Wait, decision: Decision) -> Decision:
    """Return a decision whose edit has the secret values that it keeps.

    `decide` refuses an edit that loses one, so a mask that is left fits no tool.
    """
    if decision.arguments is None or not wait.secrets:
        return decision
    try:
        edited = secret_arguments.restored_json(
            decision.arguments, wait.arguments_json, wait.secrets
        )
    except secret_arguments.SecretLost:
        return decision
    return replace(decision, arguments=edited)


def _approval_valid_until(wait: waits.Wait, decision: Decision) -> datetime | None:
    """Return the time until which an approved call may begin, `None` for no limit."""
    if wait.valid_for is None:
        return None
    try:
        return decision.at + timedelta(seconds=wait.valid_for)
    except OverflowError:  # bytes of another program: after the year 9999
        return None


def _stopped(state: RunState, failure: Failure) -> RunState:
    """Return the run, ended by a decision.

    The decision counts also if it closed the last turn, so that the run has failed.
    """
    if state.run.has_ended or state.run.rests:
        return replace(state, run=replace(state.run, failure=failure))
    return advance(state, events.RunStopped(failure=failure))


def _failure_from_decision(wait: waits.Wait, decision: Decision) -> Failure | None:
    if decision.kind == "deny" and wait.denial_stops:
        reason = f": {decision.reason}" if decision.reason else ""
        return Failure(code="denied", message=f"{wait.tool} was denied{reason}")
    if decision.kind == "expire" and wait.expiry_stops:
        return Failure(
            code="expired",
            message=f"{wait.tool} was not approved in time. Start a new run.",
        )
    return None


# Signals --------------------------------------------------------------------------


def with_signals(state: RunState, signals: tuple[Signal, ...]) -> RunState:
    """Return the run with the signals that it has not taken in yet."""
    last = state.run.last_signal_number
    new = [signal for signal in signals if signal.number > last]
    if not new or state.run.has_ended:
        return state
    kept = tuple(KeptSignal(signal.number, signal.name) for signal in new)
    event = events.SignalsKept(
        last_number=new[-1].number, kept=(*state.run.signals, *kept)
    )
    return advance(state, event)


def without_signal(state: RunState, number: int) -> RunState:
    """Return the run without a signal, because a decision has taken it."""
    kept = tuple(signal for signal in state.run.signals if signal.number != number)
    if len(kept) == len(state.run.signals):
        return state
    last = state.run.last_signal_number
    return advance(state, events.SignalsKept(last_number=last, kept=kept))


async def end_waits(
    objects: Objects,
    state: RunState,
    signals: tuple[Signal, ...],
    ports: Ports,
    *,
    now: datetime,
) -> dict[str, Decision]:
    """Record the decisions of the waits that can take a kept signal, by wait id.

    A decision that was recorded first is returned instead, and the signal goes to the
    next wait. A signal that came after the deadline of a wait does not end it.

    Args:
        objects: The store.
        state: The run, with all its signals taken in.
        signals: The signals that are at hand; others are read.
        ports: The ids of the decisions.
        now: The time of the decisions.
    """
    at_hand = {signal.number: signal for signal in signals}
    ended: dict[str, Decision] = {}
    for kept in event_matching.awaited_signals(state):
        number = kept.number
        signal = at_hand.get(number)
        for wait in event_matching.waits_for(state, kept.name):
            if any(decision.signal == number for decision in ended.values()):
                break
            if signal is None:
                signal = await SIGNALS.read_listed(objects, state.run.id, number)
            if wait.id in ended or is_past_deadline(wait, signal.at):
                continue
            answer = waits.decision_on(wait, "answer", ports.ids.new_ulid(now), now)
            proposed = replace(answer, by=signal.by, value=signal.data, signal=number)
            ended[wait.id] = await record_decision(objects, proposed)
    return ended
