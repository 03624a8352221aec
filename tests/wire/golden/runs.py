"""The runs whose states are golden objects: together they have every stored field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, cast

from continuations.core import jsontext
from continuations.core.changes import events
from continuations.core.changes.judged_texts import with_digest
from continuations.core.changes.operator_changes import operator_wait
from continuations.core.messages import (
    Message,
    ToolCallRequest,
    system_message,
    user_message,
)
from continuations.core.rows.attachments import Audio, Content, File, Image, text_part
from continuations.core.rows.calls import Handoff, Ready
from continuations.core.rows.frames import ConditionCount, DenialCount
from continuations.core.rows.grants import KeptGrant
from continuations.core.rows.quorum import Quorum
from continuations.core.rows.run import Budget, Claim, Failure, KeptSignal, Trip
from continuations.core.rows.state import ROOT_FRAME_ID, Draft, RunState
from continuations.core.rows.waits import Wait
from continuations.core.rows.workflow_history import (
    CommandsEntry,
    PatchEntry,
    StartEntry,
    TimeEntry,
    message_of,
    outcome_of,
)
from continuations.core.usage import UNITS, Usage
from continuations.core.words.call_display import CallDisplay, Finding
from continuations.core.words.summaries import MoneyReading
from tests.core import rows
from tests.core.thread_rows import new_thread, posted

# Text that breaks other formats, and a reply with fields that are unknown here.
ODD_TEXT = "caf\u00e9 e\u0301 \u2028 \x00 \u202e \U0001f9d1\u200d\U0001f680 \ud800"
ODD_REPLY = (
    '{"z":1.10,"role":"assistant","content":null,"reasoning":[{"k":"\\ud83d\\ude00"}],'
    '"tool_calls":[{"id":"call_1","type":"function","function":{"name":"balance",'
    '"arguments":"{\\"account\\": 12345678901234567890}"},"extra":{"__proto__":{}}}]}'
)
QUESTION = f"question-01m80nr0fwsrkkpz0zrq4c329p@{rows.RUN}"
EVENT_IDS = ("01m7z8mgzx2yn0x7x9gkpfj8nc", "01m7z8mgzx2yn0x7x9gkpfj8nd")
PATCH = '{"owner":"Zo\u00eb","total":5}'
HELD_REPLY = Message.from_mapping(
    {"role": "assistant", "content": "a fish"}
).with_metadata('{"model":"second"}')
PHOTO = Image(bytes(range(256)), "image/png")
SOUND = Audio(b"RIFF", "audio/wav")
REPORT = File(b"%PDF", "application/pdf", "caf\u00e9.pdf")

# Waits in runs ------------------------------------------------------------------


def full_display() -> CallDisplay:
    """Return what people read about a call, with every field."""
    return CallDisplay(
        title="Send €5.00 to Kim",
        template="Send {cents} to {to.name}",
        money=(("cents", MoneyReading("EUR", 100)), ("fees/*", MoneyReading("", 1))),
        secrets=("card/number", "pin"),
        reversible=False,
        evidence=(Finding("find", ODD_TEXT, 5210), Finding("hr", "", 0, by_agent=True)),
        agent_words="It is due.",
        requester="ines@example.com",
    )


def full_approval() -> Wait:
    """Return the wait for an approval, with all that a person reads."""
    return replace(
        rows.make_wait("c3"),
        arguments_json='{"cents":500,"note":"\u00e9"}',
        deadline=rows.MOMENT + timedelta(hours=72),
        valid_for=3600,
        policy="large sums",
        denial_stops=True,
        expiry_stops=True,
        note="The approval was older than its 3600 s.",
        editable_json='["cents"]',
        form_schema_json='{"properties":{"number":{"type":"integer"}},"type":"object"}',
        display=full_display(),
    )


def shared_wait() -> Wait:
    """Return a wait that two persons decide, with an escalation and reminders."""
    quorum = Quorum(
        approvers=("kim@example.com", "group:finance"),
        votes=2,
        not_requester=True,
        requester=ODD_TEXT,
        requesters=("", "bob"),
    )
    return replace(
        rows.make_wait("c3"),
        deadline=rows.MOMENT + timedelta(hours=72),
        on_deadline_json='{"kind":"escalate","to":["cfo"],"votes":1,"within":3600}',
        quorum=quorum,
        remind_after=86_400,
    )


def question_wait() -> Wait:
    """Return the wait of a tool that asks a question."""
    return replace(
        rows.make_wait("c3", QUESTION, "question"),
        deadline=rows.MOMENT + timedelta(hours=72),
        question=ODD_TEXT,
        answer_schema_json='{"type":"string"}',
        on_deadline_json='{"kind":"answer","value":"blue"}',
        continues=True,
        stage=1,
    )


def judged_wait(stage: Literal["input", "output"]) -> Wait:
    """Return the wait for a person who judges a text of an agent."""
    wait = Wait(
        id=f"{stage}-01kc4h9v8k5m7n2p3q4r5s6t7v@{rows.RUN}",
        run_id=rows.RUN,
        frame_id=ROOT_FRAME_ID,
        kind=stage,
        path=("hr",),
        tool="hr",
        arguments_json=f'{{"{stage}":"a fish"}}',
        schema_json='{"type":"object"}',
        digest="",
        created_at=rows.MOMENT,
        deadline=rows.MOMENT,
        note=ODD_TEXT,
        policy="fishy",
    )
    return with_digest(rows.run_row(), wait)


# Calls --------------------------------------------------------------------------


def running() -> RunState:
    """Return a claimed run with one started call and two that ended."""
    reply = events.ModelReplied(
        frame_id=ROOT_FRAME_ID,
        message=Message.from_json(ODD_REPLY),
        usage=Usage(
            requests=1,
            input_tokens=1234,
            output_tokens=56,
            cached_tokens=78,
            reasoning_tokens=9,
        ),
    )
    state = rows.apply_events(
        rows.new_state(system_message(ODD_TEXT), user_message("Onboard Jane")),
        events.UserMessageAdded(number=1, message=user_message("today")),
        reply,
        replace(rows.accepted_event("c3", repeatable=True), verifiable=True),
        events.CallStarted(call_id="c3"),
        events.CallReturned(call_id="c3", content=ODD_TEXT),
    )
    state = rows.apply_events(
        state,
        rows.reply_with_calls("transfer", "balance"),
        rows.accepted_event("c5", repeatable=True),
        rows.accepted_event("c4"),
        events.CallStarted(call_id="c4"),
        events.CallRaised(call_id="c4", code="exception", content="ERROR: it broke"),
        events.CallStarted(call_id="c5"),
    )
    claim = Claim(
        worker="w-1", until=datetime(2026, 11, 21, 9, 31, tzinfo=UTC), attempt=2
    )
    return replace(state, run=replace(state.run, claim=claim, history_lost=True))


def waiting() -> RunState:
    """Return a suspended run with a wait three agents deep, and a secret argument."""
    state = rows.nested_agents(3)
    (wait,) = state.waits.values()
    full = replace(full_approval(), call_id=wait.call_id, path=("hr", "agent", "agent"))
    calls = {
        key: replace(row, secrets=("pin",)) if row.arguments else row
        for key, row in state.calls.items()
    }
    run = replace(state.run, status="suspended")
    return replace(state, run=run, waits={wait.id: full}, calls=calls)


def unknown() -> RunState:
    """Return a run with a call of unknown outcome, which `verify` could not settle."""
    lost = events.OutcomeUnknown(
        call_id="c3", wait=rows.make_wait("c3", kind="unknown")
    )
    run_state = rows.apply_events(_with_started_call(), lost)
    call = replace(run_state.calls["c3"], verifiable=True)
    state = replace(cast("Any", call.state), verify_tried=True)
    calls = {**run_state.calls, "c3": replace(call, state=state)}
    run = replace(run_state.run, status="suspended")
    return replace(run_state, calls=calls, run=run)


def _with_started_call() -> RunState:
    return rows.apply_events(
        rows.new_state(),
        rows.reply_with_calls("transfer"),
        rows.accepted_event("c3"),
        events.CallStarted(call_id="c3"),
    )


def edited() -> RunState:
    """Return a run whose call was approved with other arguments, by two persons."""
    asked = replace(
        rows.approval_requested_event("c3"), wait=replace(shared_wait(), id="w1")
    )
    edit = events.Approved(
        call_id="c3", digest="d2", arguments='{"cents":5}', until=rows.MOMENT
    )
    return rows.apply_events(
        rows.new_state(max_turns=7), rows.reply_with_calls("transfer", "a"), asked, edit
    )


def granted() -> RunState:
    """Return a run with grants, and a call that one approved after a form."""
    kept = KeptGrant(
        id="01grant",
        tool="pay",
        path=("boss", "pay"),
        contract="contract",
        arguments_json='{"maxProperties":1}',
        until=rows.MOMENT,
        by="kim",
        at=rows.MOMENT,
        wait_id=rows.make_wait("c3").id,
    )
    other = replace(kept, id="02grant", arguments_json=None, until=None, by=None)
    state = rows.apply_events(
        rows.state_with_call_in(Ready()),
        events.GrantGiven(grant=kept),
        events.GrantGiven(grant=other),
        events.GrantsRevoked(last_number=1, grant_ids=("03grant",)),
    )
    draft = Draft(state)
    call_id = next(iter(state.calls))
    call = replace(state.calls[call_id], grant="02grant", form='{"number":1}')
    draft.put_call(call)
    return draft.to_run_state()


def answered() -> RunState:
    """Return a run whose tool got its answer."""
    parked = events.CallParked(call_id="c3", wait=replace(question_wait(), stage=0))
    received = events.AnswerReceived(call_id="c3", answer='"blue"')
    return rows.apply_events(_with_started_call(), parked, received)


def paused() -> RunState:
    """Return a run that an operator holds, whose calls and agents are cancelled.

    It keeps two of its three signals, and took two published events.
    """
    parked = events.CallParked(call_id="c3", wait=replace(question_wait(), stage=0))
    state = rows.apply_events(_with_started_call(), parked)
    row = replace(
        state.run,
        status="suspended",
        last_signal_number=3,
        signals=(KeptSignal(1, ODD_TEXT), KeptSignal(3, "receipt")),
        events_taken=EVENT_IDS,
        last_operator_number=2,
    )
    calls = {
        key: replace(call, cancelled=ODD_TEXT) for key, call in state.calls.items()
    }
    wait = operator_wait(
        state,
        f"operator-01m7zzzzzzzzzzzzzzzzzzzzzz@{rows.RUN}",
        now=rows.MOMENT,
        name="audit",
        note="Paused by kim.",
    )
    return RunState.from_rows(
        run=row,
        manifest=state.manifest,
        frames=state.frames,
        calls=calls,
        waits={**state.waits, wait.id: wait},
        logs=state.logs,
    )


# Runs ---------------------------------------------------------------------------


def described() -> RunState:
    """Return a fork with everything that a start and a past can set.

    It has cost a part of its budget, and a worker is rewinding it.
    """
    state = rows.new_state()
    run = replace(
        state.run,
        title=ODD_TEXT,
        labels=(("country", "de"), ("team", "finance")),
        requester="ann@example.com",
        max_depth=3,
        settings_json='{"stop":["\u20ac"],"temperature":0}',
        budget=Budget(
            requests=20, tokens=100_000, cost=Decimal("2.50"), currency="EUR"
        ),
        usage=Usage(
            requests=2,
            input_tokens=10,
            output_tokens=3,
            cost_units=UNITS + 25_000_000_001,
            priced=15,
            currency="EUR",
        ),
        forked_from="jane-1@4",
        doubtful_tools=("mail", "transfer"),
        rewind_to=7,
        requesters=("", "bob"),
    )
    return replace(state, run=run)


def traced() -> RunState:
    """Return a run with the trace context of its caller and of its last session."""
    state = rows.new_state()
    trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    run = replace(
        state.run,
        trace_context=(("traceparent", f"00-{trace}-{span}-01"), ("tracestate", "a=b")),
        session_trace=f"00-{trace}-00f067aa0ba902b7-03",
    )
    return replace(state, run=run)


def cancelled() -> RunState:
    """Return a run that was cancelled while a sub-agent had open calls."""
    state = rows.apply_events(
        rows.new_state(),
        rows.reply_with_calls("free", "agent"),
        rows.accepted_event("c4"),
        rows.sub_agent_started_event("c4"),
    )
    state = rows.apply_events(
        state, rows.reply_with_calls("gated", "free", frame=rows.deepest_frame(state))
    )
    state = rows.apply_events(
        state,
        rows.approval_requested_event(
            state.frames[rows.deepest_frame(state)].open_call_ids[0]
        ),
    )
    return rows.apply_events(
        state,
        events.RunStopped(failure=Failure(code="cancelled", message="by kim: no more")),
    )


def finished() -> RunState:
    """Return a finished run with a denied call."""
    state = rows.apply_events(
        rows.new_state(),
        rows.reply_with_calls("transfer"),
        rows.approval_requested_event("c3"),
    )
    denied = events.Denied(
        call_id="c3", decision=rows.make_decision(reason="over budget")
    )
    return rows.apply_events(
        state, denied, rows.reply_with_text("I could not pay Jane. " * 20)
    )


# Frames -------------------------------------------------------------------------


def delayed() -> RunState:
    """Return a suspended run whose frame has everything that delays and guards it."""
    trips = (
        Trip(
            id="g5",
            frame_id="f3",
            path=("boss", "pay"),
            guardrail="large",
            stage="tool",
            reason=ODD_TEXT,
        ),
        Trip(
            id="g7",
            frame_id="f1",
            path=("boss",),
            guardrail="no_secret",
            stage="output",
            reason="it has a secret",
        ),
    )
    state = rows.new_state()
    root = replace(
        state.frames[ROOT_FRAME_ID],
        failed_requests=1,
        woken_until=rows.MOMENT,
        pending_reply="resp_123",
        polls=2,
        model_error=ODD_TEXT,
        watched_since=rows.MOMENT,
        counts=(ConditionCount(ODD_TEXT, 0, rows.MOMENT),),
        denials=(DenialCount(ODD_TEXT, "d1", 2), DenialCount("pay", "d2", 1)),
        retries=1,
        continues=2,
        trips=trips,
        accepted_input="d1",
    )
    wait = rows.make_frame_wait(ROOT_FRAME_ID)
    run = replace(state.run, status="suspended")
    return replace(state, run=run, frames={ROOT_FRAME_ID: root}, waits={wait.id: wait})


def _trip(stage: Literal["input", "output"]) -> Trip:
    return Trip(
        frame_id=ROOT_FRAME_ID,
        path=("hr",),
        guardrail="fishy",
        stage=stage,
        reason=ODD_TEXT,
    )


def held_input() -> RunState:
    """Return a suspended run whose input a person must accept."""
    held = events.InputHeld(
        wait=judged_wait("input"), usage=Usage(requests=1), trip=_trip("input")
    )
    state = rows.apply_events(rows.new_state(), held)
    return replace(state, run=replace(state.run, status="suspended"))


def held_output() -> RunState:
    """Return a suspended run that holds the reply of a fallback model."""
    held = events.ModelReplied(
        frame_id=ROOT_FRAME_ID,
        message=HELD_REPLY,
        usage=Usage(requests=1),
        trip=_trip("output"),
        wait=judged_wait("output"),
    )
    state = rows.apply_events(rows.new_state(), held)
    return replace(state, run=replace(state.run, status="suspended"))


def compacted() -> RunState:
    """Return a run whose first messages a summary has replaced."""
    state = rows.new_state()
    log = state.logs[ROOT_FRAME_ID]
    event = events.HistoryCompacted(
        frame_id=ROOT_FRAME_ID,
        log_id=log.id,
        count=len(log.messages),
        messages=(*log.messages[:1], user_message(ODD_TEXT)),
        summary_number=2,
        replaced=7,
        tokens_before=90_000,
        tokens_after=1_200,
        attempt_above=9_200,
        usage=Usage(requests=1, input_tokens=88_000, output_tokens=400),
    )
    return rows.apply_events(state, event)


def run_with_fallback() -> RunState:
    """Return a run with a reply whose metadata names its model."""
    reply = rows.reply_with_calls("transfer")
    facts = '{"failed":[{"model":"a","status":429}],"model":"\u20ac"}'
    message = reply.message.with_metadata(facts)
    return rows.apply_events(rows.new_state(), replace(reply, message=message))


def changed_state() -> RunState:
    """Return a run whose root agent has a state, with a patch of a call that ended."""
    _, state = before_and_after()
    state = rows.apply_events(state, rows.reply_with_calls("free", "free"))
    return _with_patch(state, "c4")


def before_and_after() -> tuple[RunState, RunState]:
    """Return a run before and after the first change of a state."""
    before = rows.apply_events(rows.new_state(), rows.reply_with_calls("free"))
    return before, _with_patch(before, "c3")


def _with_patch(state: RunState, call_id: str) -> RunState:
    return rows.apply_events(
        state,
        rows.accepted_event(call_id, writes_state=True),
        events.CallStarted(call_id=call_id),
        events.CallReturned(call_id=call_id, content="done", patch=PATCH),
    )


# Threads ------------------------------------------------------------------------


def resting_thread() -> RunState:
    """Return a thread that rests after its first reply."""
    state = rows.apply_events(
        new_thread(key=ODD_TEXT),
        posted(1, "one", by="ann"),
        rows.reply_with_text("1: one"),
    )
    return replace(state, run=replace(state.run, status="resting"))


def busy_thread() -> RunState:
    """Return a thread whose second turn is being stopped; it reads message 3 next.

    The turn waits for an approval, and its earlier reply has a cost.
    """
    state = rows.apply_events(
        resting_thread(),
        posted(2, "pay", by=ODD_TEXT),
        rows.reply_with_calls("transfer"),
    )
    [call_id] = state.frames[ROOT_FRAME_ID].open_call_ids
    state = rows.apply_events(
        state,
        rows.approval_requested_event(call_id),
        events.TurnInterrupted(number=3),
        events.TurnStopping(reason=ODD_TEXT),
    )
    earlier = Usage(requests=1, input_tokens=5, cost_units=7, priced=6, currency="USD")
    run = replace(
        state.run, usage=earlier + earlier, earlier_usage=earlier, status="suspended"
    )
    return replace(state, run=run)


# The past ---------------------------------------------------------------------------


def answer_used() -> RunState:
    state = rows.apply_events(rows.new_state(), rows.reply_with_calls("free"))
    calls = {
        key: replace(call, answer_used_in="jane-1") for key, call in state.calls.items()
    }
    return replace(state, calls=calls)


def waiting_again() -> RunState:
    """Return a run with a call that waits again, and keeps a value with its wait."""
    state = rows.apply_events(rows.new_state(), rows.reply_with_calls("free"))
    calls = {
        key: replace(call, stage=2, answer='"yes"', memo='{"job":7}')
        for key, call in state.calls.items()
    }
    return replace(state, calls=calls)


# Handoffs -----------------------------------------------------------------------


def handoff() -> RunState:
    """Return a run that was handed over, and will be again after an approval."""
    first = Handoff("refunds", ODD_TEXT)
    second = Handoff("sales", "You sell.", keeps_state=True)
    state = rows.apply_events(
        rows.new_state(),
        rows.reply_with_calls("transfer"),
        rows.accepted_event("c3"),
        events.HandedOver(call_id="c3", handoff=first),
        rows.reply_with_calls("transfer", "pay"),
        rows.accepted_event("c4"),
        events.HandedOver(call_id="c4", handoff=second),
        rows.approval_requested_event("c5"),
    )
    assert "refunds" == state.frames[ROOT_FRAME_ID].agent
    return state


def filtered_handoff() -> RunState:
    """Return a run whose next agent will not read the messages before its turn."""
    state = rows.apply_events(
        rows.new_state(),
        rows.reply_with_calls("pay"),
        rows.accepted_event("c3"),
        events.CallStarted(call_id="c3"),
        events.CallReturned(call_id="c3", content="paid"),
        rows.reply_with_calls("transfer", "pay"),
        rows.accepted_event("c4"),
        events.HandedOver(
            call_id="c4", handoff=Handoff("sales", "You sell.", dropped=(1, 2))
        ),
        rows.approval_requested_event("c5"),
    )
    assert "assistant" == state.logs[ROOT_FRAME_ID].messages[1].role
    return state


# Workflows ----------------------------------------------------------------------


def workflow() -> RunState:
    """Return a workflow that saw one outcome, has another one, and sleeps."""
    start = message_of(StartEntry('{"cents":500}', 1_700_000_000_000, "seed"))
    state = rows.new_state(start)
    frame = replace(state.frames[ROOT_FRAME_ID], step="new")
    calls = tuple(
        ToolCallRequest("", tool, '{"cents":500}') for tool in ("free", "free", "pay")
    )
    alarm = replace(rows.make_frame_wait(ROOT_FRAME_ID, "a1"), kind="alarm", tool="hr")
    state = rows.apply_events(
        state.with_rows(frames={ROOT_FRAME_ID: frame}),
        events.WorkflowStepped(
            frame_id=ROOT_FRAME_ID,
            entries=(PatchEntry(ODD_TEXT), CommandsEntry(calls)),
            alarm=alarm,
        ),
        rows.accepted_event("c3"),
        events.CallStarted(call_id="c3"),
        events.CallReturned(call_id="c3", content='"5"', is_json=True),
    )
    seen = outcome_of(state.calls["c3"], 1_700_000_001_000)
    entries = (seen, TimeEntry(1_700_000_002_000))
    state = rows.apply_events(
        state,
        events.WorkflowStepped(frame_id=ROOT_FRAME_ID, entries=entries, alarm=alarm),
        rows.approval_requested_event("c4"),
    )
    answered = events.Answered(
        call_id="c4", content="7", is_json=True, at=rows.MOMENT + timedelta(hours=1)
    )
    return rows.apply_events(state, answered)


def workflow_with_tasks() -> RunState:
    """Return a workflow whose calls were made in its function and in two tasks."""
    start = message_of(StartEntry('{"cents":500}', 1_700_000_000_000, "seed"))
    state = rows.new_state(start)
    frame = replace(state.frames[ROOT_FRAME_ID], step="new")
    calls = tuple(ToolCallRequest("", "pay", f'{{"cents":{n}}}') for n in (1, 2, 3))
    return rows.apply_events(
        state.with_rows(frames={ROOT_FRAME_ID: frame}),
        events.WorkflowStepped(
            frame_id=ROOT_FRAME_ID,
            entries=(CommandsEntry(calls),),
            tasks=((), ("buy 1",), ("both 1", ODD_TEXT)),
        ),
        rows.approval_requested_event("c4"),
    )


# Attachments --------------------------------------------------------------------


def photo_message() -> Message:
    """Return a user message with an attachment."""
    parts = [text_part("look"), PHOTO.attachment.part, SOUND.attachment.part]
    return Message.from_mapping({"role": "user", "content": parts})


def run_with_file() -> RunState:
    """Return a run with attachments in its input and in a result."""
    returned = events.CallReturned(
        call_id="c3",
        content=REPORT.attachment.label,
        parts_json=jsontext.dump([text_part("drawn"), REPORT.attachment.part]),
    )
    return rows.apply_events(
        rows.new_state(photo_message()),
        rows.reply_with_calls("transfer", "transfer"),
        rows.accepted_event("c3"),
        events.CallStarted(call_id="c3"),
        returned,
    )


def attached_files() -> Mapping[str, bytes]:
    """Return the attachments of `run_with_file` by digest."""
    contents: tuple[Content, ...] = (REPORT, PHOTO, SOUND)
    return {each.digest: each.data for each in contents}
