"""Schedules: random but reproducible sequences of events for a run.

A schedule is a list of numbers. Each number selects one of the possible events. The
order of the possible events follows from the rows alone. So the same numbers give the
same events, however often the run is suspended in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from hypothesis import strategies as st

from continuations.core import jsontext
from continuations.core.changes.events import (
    Answered,
    ApprovalRequested,
    Approved,
    CallAccepted,
    CallInvalid,
    CallRaised,
    CallReturned,
    CallStarted,
    Denied,
    Event,
    Expired,
    ModelReplied,
    OutcomeUnknown,
    Reopened,
    RepeatAllowed,
    RunStopped,
    SubAgentStarted,
    Unverified,
    UserMessageAdded,
)
from continuations.core.changes.plan import (
    Action,
    AskModel,
    ExamineCall,
    RecordStart,
    StepWorkflow,
    VerifyOutcome,
    plan,
)
from continuations.core.changes.reducer import advance
from continuations.core.messages import system_message, user_message
from continuations.core.rows.calls import CallRow, Unknown
from continuations.core.rows.run import ENDED_STATUSES, Failure
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.core.rows.waits import Wait
from continuations.core.ulid import encode_ulid
from continuations.core.usage import Usage
from tests.core.rows import (
    assistant_message,
    make_decision,
    make_wait,
    new_state,
    reply_with_text,
    tool_request,
)

MAX_DEPTH = 4
MAX_STEPS = 5000
CHOICES = st.lists(st.integers(0, 2**20), min_size=30, max_size=60)

# A tool named "gated" needs approval, "agent" is a sub-agent, "missing" does not exist.
# Providers may repeat ids or leave them empty.
_TOOL_SETS: tuple[tuple[str, ...], ...] = (
    ("free",),
    ("gated", "free", "gated"),
    ("agent",),
    ("agent", "agent"),
    ("gated agent", "missing"),
    ("missing", "missing"),
)
_PROVIDER_IDS = (("", "", ""), ("x", "x", "x"), ("x", "y", "z"))


def first_state(choices: list[int]) -> RunState:
    """Return the state with which a schedule starts."""
    turns = (None, None, 2, 4)[sum(choices) % 4]
    return new_state(system_message("be kind"), user_message("hello"), max_turns=turns)


def run_schedule(
    state: RunState,
    choices: Iterable[int],
    on_event: Callable[[RunState, Event, RunState], None] | None = None,
    between_events: Callable[[int, RunState], RunState] | None = None,
) -> RunState:
    """Return the state at the end of a schedule; every schedule ends the run."""
    for step, choice in enumerate(choices, 1):
        # The hash spreads the numbers, because hypothesis prefers small and equal ones.
        mixed = ((choice + step * 7919) * 2_654_435_761 & 0xFFFFFFFF) >> 5
        events = possible_events(state, mixed)
        if not events:
            break
        state = _advance(state, events[mixed % len(events)], on_event)
        state = between_events(step, state) if between_events else state
    return _run_to_end(state, on_event)


def _run_to_end(
    state: RunState, on_event: Callable[[RunState, Event, RunState], None] | None
) -> RunState:
    # The first possible event leads to the end: a text reply, a result, an approval.
    for _ in range(MAX_STEPS):
        events = possible_events(state, 0)
        if not events:
            return state
        state = _advance(state, events[0], on_event)
    pytest.fail(f"the run did not end within {MAX_STEPS} steps")


def _advance(
    state: RunState,
    event: Event,
    on_event: Callable[[RunState, Event, RunState], None] | None,
) -> RunState:
    after = advance(state, event)
    if on_event is not None:
        on_event(state, event, after)
    return after


def possible_events(state: RunState, choice: int) -> list[Event]:
    """Return the possible events for one row, which a number selects."""
    if state.run.status in ENDED_STATUSES:
        return []
    if choice % 97 == 96:
        return [RunStopped(failure=Failure(code="cancelled", message="by kim"))]
    if choice % 13 == 12 and not state.frames[ROOT_FRAME_ID].open_call_ids:
        number = state.run.last_inbox_number + 1
        return [UserMessageAdded(number=number, message=user_message(f"more {number}"))]
    rows: list[Action | Wait] = [*plan(state), *state.waits.values()]
    rows.sort(key=lambda row: (type(row).__name__, repr(row)))
    row = rows[choice // 7 % len(rows)]
    return (
        _decision_events(state, row)
        if isinstance(row, Wait)
        else _events_of_action(state, row)
    )


def _events_of_action(state: RunState, action: Action) -> list[Event]:
    if isinstance(action, AskModel):
        return _replies(state, action.frame_id)
    assert not isinstance(action, StepWorkflow)  # no tree here has one
    call = state.calls[action.call_id]
    if isinstance(action, ExamineCall):
        return _examination_events(state, call)
    if isinstance(action, RecordStart):
        return [_begin_event(call)]
    if isinstance(action, VerifyOutcome):
        return _verification_events(call)
    interrupted: Event = (
        RepeatAllowed(call_id=call.id)
        if call.repeatable
        else OutcomeUnknown(call_id=call.id, wait=_new_wait(state, call, "unknown"))
    )
    return [
        CallReturned(call_id=call.id, content=f"result of {call.id}"),
        CallRaised(call_id=call.id, code="exception", content=f"error of {call.id}"),
        interrupted,
    ]


def _replies(state: RunState, frame_id: str) -> list[Event]:
    replies: list[Event] = [
        reply_with_text("the end", frame_id),
        reply_with_text("cut", frame_id, "length"),
    ]
    frame = state.frames[frame_id]
    # Few turns and few levels, so that the run can end.
    if frame.turns >= 4:
        return replies
    for tools in _TOOL_SETS:
        if frame.depth >= MAX_DEPTH and any("agent" in tool for tool in tools):
            continue
        for ids in _PROVIDER_IDS:
            calls = [tool_request(t, i, "{}") for t, i in zip(tools, ids, strict=False)]
            message = assistant_message("I shall", *calls)
            usage = Usage(requests=1, input_tokens=5)
            replies.append(
                ModelReplied(frame_id=frame_id, message=message, usage=usage)
            )
    return replies


def _examination_events(state: RunState, call: CallRow) -> list[Event]:
    if call.tool == "missing":
        return [
            CallInvalid(call_id=call.id, code="unknown_tool", content=f"no {call.id}")
        ]
    if "gated" in call.tool:
        return [
            ApprovalRequested(
                call_id=call.id,
                arguments='{"n":1}',
                contract_digest="m",
                wait=_new_wait(state, call, "approval"),
                verifiable=verifiable,
            )
            for verifiable in (False, True)
        ]
    return [
        CallAccepted(
            call_id=call.id,
            arguments='{"n":1}',
            contract_digest="m",
            repeatable=repeatable,
            verifiable=verifiable,
        )
        for repeatable in (False, True)
        for verifiable in (False, True)
    ]


def _begin_event(call: CallRow) -> Event:
    if "agent" not in call.tool:
        return CallStarted(call_id=call.id)
    messages = (
        system_message("you are below"),
        user_message(f"input of {call.id}"),
    )
    return SubAgentStarted(
        call_id=call.id, agent="below", messages=messages, max_turns=3
    )


def _verification_events(call: CallRow) -> list[Event]:
    assert isinstance(call.state, Unknown)
    return [
        Unverified(call_id=call.id),
        Answered(call_id=call.id, content=f"found {call.id}"),
        Approved(call_id=call.id, digest="d2"),
        Denied(call_id=call.id, decision=make_decision(wait_id=call.state.wait_id)),
    ]


def _decision_events(state: RunState, wait: Wait) -> list[Event]:
    call = state.calls[wait.call_id]
    denial = make_decision("deny", wait.id, f"no to {call.id}")
    events: list[Event] = [
        Approved(call_id=call.id, digest=wait.digest),
        Approved(call_id=call.id, digest="d3", arguments='{"n":2}'),
        Denied(call_id=call.id, decision=denial),
        Expired(call_id=call.id, decision=make_decision("expire", wait.id)),
        Reopened(call_id=call.id, wait=_new_wait(state, call, wait.kind)),
    ]
    if wait.kind == "unknown":
        events.append(Answered(call_id=call.id, content=f"answer for {call.id}"))
    return events


def _new_wait(state: RunState, call: CallRow, kind: str) -> Wait:
    # The engine makes random wait ids; here the id counts the messages so far.
    number = sum(len(log.messages) for log in state.logs.values())
    old = next((w.id for w in state.waits.values() if w.call_id == call.id), "w")
    seed = f"{old}.{number}.{call.id}.{call.attempts}"
    ulid = encode_ulid(number, bytes.fromhex(jsontext.digest(seed)[:20]))
    new = make_wait(call.id, f"{kind}-{ulid}@{state.run.id}")
    return replace(new, kind="unknown" if kind == "unknown" else "approval")
