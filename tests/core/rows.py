"""Small rows and events for tests: one run, its calls and waits, model replies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from continuations.core.changes.events import (
    ApprovalRequested,
    CallAccepted,
    CallInvalid,
    CallParked,
    CallReturned,
    CallStarted,
    Event,
    ModelReplied,
    OutcomeUnknown,
    SubAgentStarted,
)
from continuations.core.changes.reducer import advance
from continuations.core.messages import Message, user_message
from continuations.core.rows.calls import (
    CallRow,
    CallState,
    Errored,
    Nested,
    Parked,
    Proposed,
    Ready,
    Refused,
    Returned,
    Started,
    Unknown,
    Waiting,
)
from continuations.core.rows.decisions import Decision, DecisionKind
from continuations.core.rows.frames import FrameRow, MessageLog
from continuations.core.rows.run import RunRow
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.core.rows.wait_rules import WaitKind
from continuations.core.rows.waits import Wait
from continuations.core.usage import Usage

MOMENT = datetime(2026, 11, 21, 9, 30, 0, 125_000, tzinfo=UTC)
RUN = "jane-1"

STATES: tuple[CallState, ...] = (
    Proposed(),
    Waiting("w1"),
    Ready(),
    Started(),
    Nested("f9"),
    Unknown("w1"),
    Parked("w1"),
    Returned("42"),
    Errored("exception", "ERROR: it broke"),
    Refused("denied", "DENIED"),
)


def run_row() -> RunRow:
    return RunRow(
        id=RUN,
        run_nonce="01birth",
        agent="hr",
        created_at=MOMENT,
        input_digest="0a" * 32,
        next_id=3,
    )


def new_state(*messages: Message, max_turns: int | None = None) -> RunState:
    """Return a new run, whose next action is to ask the model."""
    frame = FrameRow(
        id=ROOT_FRAME_ID, agent="hr", parent_call_id=None, max_turns=max_turns
    )
    return RunState.from_rows(
        run=run_row(),
        manifest='{"agents":{}}',
        frames={ROOT_FRAME_ID: frame},
        calls={},
        waits={},
        logs={
            ROOT_FRAME_ID: MessageLog(2, messages or (user_message("Onboard Jane"),))
        },
    )


def assistant_message(content: str | None = None, *calls: Mapping[str, Any]) -> Message:
    """Return an assistant message as a provider sends it."""
    data: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        data["tool_calls"] = list(calls)
    return Message.from_mapping(data)


def tool_request(
    tool: str, provider_id: str = "", arguments: str = "{}"
) -> dict[str, Any]:
    """Return one tool call as a provider sends it."""
    function = {"name": tool, "arguments": arguments}
    return {"id": provider_id, "type": "function", "function": function}


def reply_with_calls(*tools: str, frame: str = ROOT_FRAME_ID) -> ModelReplied:
    """Return a reply that calls tools, with ids `p0`, `p1`, ..."""
    calls = [tool_request(tool, f"p{index}") for index, tool in enumerate(tools)]
    return ModelReplied(
        frame_id=frame, message=assistant_message(None, *calls), usage=Usage(requests=1)
    )


def reply_with_text(
    text: str, frame: str = ROOT_FRAME_ID, finish: str = "stop"
) -> ModelReplied:
    """Return a reply without tool calls."""
    usage = Usage(requests=1, input_tokens=10, output_tokens=2)
    return ModelReplied(
        frame_id=frame,
        message=assistant_message(text),
        usage=usage,
        finish_reason=finish,
    )


def make_wait(call: str, wait_id: str = "w1", kind: WaitKind = "approval") -> Wait:
    return Wait(
        id=wait_id,
        run_id=RUN,
        call_id=call,
        kind=kind,
        path=("hr", "transfer"),
        tool="transfer",
        arguments_json='{"cents":500}',
        schema_json='{"type":"object"}',
        digest="d1",
        created_at=MOMENT,
    )


def make_frame_wait(frame: str, wait_id: str = "w1") -> Wait:
    """Return a wait of a frame for its model."""
    return replace(
        make_wait("", wait_id, "model"),
        frame_id=frame,
        path=("hr",),
        tool="hr",
        arguments_json="{}",
        schema_json="{}",
        deadline=MOMENT + timedelta(minutes=1),
        note="The provider limits requests.",
    )


def make_decision(
    kind: DecisionKind = "deny", wait_id: str = "w1", reason: str | None = None
) -> Decision:
    """Return the record of a decision."""
    return Decision(
        id="d-1", wait_id=wait_id, kind=kind, at=MOMENT, digest="d1", reason=reason
    )


def accepted_event(
    call: str, *, repeatable: bool = False, writes_state: bool = False
) -> CallAccepted:
    """Return the event for a valid call that needs no approval."""
    return CallAccepted(
        call_id=call,
        arguments='{"cents":500}',
        contract_digest="m1",
        repeatable=repeatable,
        writes_state=writes_state,
    )


def approval_requested_event(call: str, wait_id: str = "w1") -> ApprovalRequested:
    """Return the event for a valid call that needs an approval."""
    return ApprovalRequested(
        call_id=call,
        arguments='{"cents":500}',
        contract_digest="m1",
        wait=make_wait(call, wait_id),
    )


def sub_agent_started_event(call: str, agent: str = "accounts") -> SubAgentStarted:
    return SubAgentStarted(call_id=call, agent=agent, messages=(user_message("pay"),))


def apply_events(state: RunState, *events: Event) -> RunState:
    """Return the state after events."""
    for event in events:
        state = advance(state, event)
    return state


_ACCEPTED = accepted_event("c3")
_STARTED = (_ACCEPTED, CallStarted(call_id="c3"))
# The events that lead from the model's reply to each state of call `c3`.
_EVENTS_BEFORE: dict[type[CallState], tuple[Event, ...]] = {
    Proposed: (),
    Waiting: (approval_requested_event("c3"),),
    Ready: (_ACCEPTED,),
    Started: _STARTED,
    Nested: (_ACCEPTED, sub_agent_started_event("c3")),
    Unknown: (
        *_STARTED,
        OutcomeUnknown(call_id="c3", wait=make_wait("c3", kind="unknown")),
    ),
    Parked: (
        *_STARTED,
        CallParked(call_id="c3", wait=make_wait("c3", kind="question")),
    ),
    Returned: (*_STARTED, CallReturned(call_id="c3", content="42")),
    Errored: (CallInvalid(call_id="c3", code="arguments", content="ERROR: no"),),
}


def state_with_call_in(state: CallState) -> RunState:
    """Return a run whose call `c3` has a state, reached by allowed events."""
    proposed = apply_events(new_state(), reply_with_calls("transfer", "balance"))
    if not isinstance(state, Refused):
        return apply_events(proposed, *_EVENTS_BEFORE[type(state)])
    run_state = apply_events(proposed, approval_requested_event("c3"))
    return RunState.from_rows(
        run=run_state.run,
        manifest=run_state.manifest,
        frames=run_state.frames,
        calls={**run_state.calls, "c3": with_state(run_state, "c3", state)},
        waits={},
        logs=run_state.logs,
    )


def with_state(run_state: RunState, call: str, state: CallState) -> CallRow:
    """Return a call's row with another state."""
    return replace(run_state.calls[call], state=state)


def nested_agents(levels: int) -> RunState:
    """Return a run with agents nested in agents, whose deepest call waits."""
    state = new_state()
    frame = ROOT_FRAME_ID
    for level in range(1, levels):
        state = apply_events(state, reply_with_calls("agent", frame=frame))
        call = state.frames[frame].open_call_ids[0]
        state = apply_events(
            state, accepted_event(call), sub_agent_started_event(call, f"level-{level}")
        )
        frame = deepest_frame(state)
    state = apply_events(state, reply_with_calls("transfer", frame=frame))
    return apply_events(
        state, approval_requested_event(state.frames[frame].open_call_ids[0])
    )


def deepest_frame(state: RunState) -> str:
    """Return the id of the newest frame."""
    return list(state.frames)[-1]


def with_runnable_recomputed(state: RunState) -> RunState:
    """Return the same rows, with the index of runnable rows computed again."""
    return RunState.from_rows(
        run=state.run,
        manifest=state.manifest,
        frames=state.frames,
        calls=state.calls,
        waits=state.waits,
        logs=state.logs,
    )
