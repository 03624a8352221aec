"""Write the golden files that do not exist yet.

    python -m tests.wire.golden.write_golden

Each object has two files: `v1-<name>.bin` with its bytes, and `v1-<name>.json` with a
description of the value, made before it was encoded. The number is that of the object's
format. Existing files are never changed, because every later release must read them.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

from continuations.core.call_display import CallDisplay
from continuations.core.call_events import (
    AnswerReceived,
    Approved,
    CallParked,
    CallRaised,
    CallReturned,
    CallStarted,
    Denied,
    OutcomeUnknown,
)
from continuations.core.calls import (
    CallRow,
    Nested,
    Ready,
    Started,
    Unknown,
    Waiting,
)
from continuations.core.decisions import Decision, DecisionKind
from continuations.core.delta import Delta, LogDelta, diff
from continuations.core.draft import Draft
from continuations.core.events import (
    FrameWatched,
    GrantGiven,
    GrantsRevoked,
    ModelDelayed,
    ModelFailed,
    ModelReplied,
    RunStopped,
    SuspensionBegan,
    SuspensionEnded,
    UserMessageAdded,
)
from continuations.core.evidence import Finding
from continuations.core.frames import ConditionCount, DenialCount, FrameRow, MessageLog
from continuations.core.grants import KeptGrant
from continuations.core.messages import Message, system_message, user_message
from continuations.core.operator_request import OperatorRequest
from continuations.core.operator_waits import operator_wait
from continuations.core.quorum import Quorum
from continuations.core.reading_texts import MoneyReading
from continuations.core.run import Budget, Claim, Failure, KeptSignal, RunRow
from continuations.core.slots import Slot
from continuations.core.state import ROOT_FRAME_ID, RunState
from continuations.core.trips import Trip
from continuations.core.usage import Usage
from continuations.core.waits import Wait
from continuations.wire.arrivals import (
    CANCEL_REQUEST,
    EVENT,
    MESSAGE,
    OPERATOR_REQUEST,
    REVOCATION,
    SIGNAL,
    SLOT,
    CancelRequest,
    InboxMessage,
    PublishedEvent,
    Revocation,
    Signal,
)
from continuations.wire.continuation import Continuation
from continuations.wire.envelope import format_number
from continuations.wire.records import DECISION, WAIT
from continuations.wire.versions import (
    TOMBSTONE,
    Tombstone,
    VersionHeader,
    VersionObject,
    encode_version,
)
from tests.core.rows import (
    MOMENT,
    RUN,
    accepted_event,
    apply_events,
    approval_requested_event,
    deepest_frame,
    make_decision,
    make_frame_wait,
    make_wait,
    nested_agents,
    new_state,
    reply_with_calls,
    reply_with_text,
    state_with_call_in,
    sub_agent_started_event,
)
from tests.wire.golden.compaction_objects import compaction_objects
from tests.wire.golden.file_objects import file_objects
from tests.wire.golden.judged_objects import judged_objects
from tests.wire.golden.model_objects import model_objects
from tests.wire.golden.past_objects import past_objects
from tests.wire.golden.state_objects import before_and_after, state_objects
from tests.wire.golden.thread_objects import thread_objects

FOLDER = Path(__file__).parent
QUESTION = f"question-01m80nr0fwsrkkpz0zrq4c329p@{RUN}"
ANSWERED_APPROVAL = f"approval-01m80nr0fwsrkkpz0zrq4c329p@{RUN}"
# Text that breaks other formats, and a reply with fields that are unknown here.
ODD_TEXT = "caf\u00e9 e\u0301 \u2028 \x00 \u202e \U0001f9d1\u200d\U0001f680 \ud800"
ODD_REPLY = (
    '{"z":1.10,"role":"assistant","content":null,"reasoning":[{"k":"\\ud83d\\ude00"}],'
    '"tool_calls":[{"id":"call_1","type":"function","function":{"name":"balance",'
    '"arguments":"{\\"account\\": 12345678901234567890}"},"extra":{"__proto__":{}}}]}'
)


@dataclass(frozen=True, slots=True)
class GoldenObject:
    """One golden object: its bytes, and the value that was encoded."""

    data: bytes
    value: object

    @property
    def format_number(self) -> int:
        """The format of the object."""
        return format_number(self.data)


# Values -----------------------------------------------------------------------


def full_wait() -> Wait:
    """Return a wait with every field."""
    return replace(
        make_wait("c3"),
        arguments_json='{"cents":500,"note":"\u00e9"}',
        deadline=MOMENT + timedelta(hours=72),
        valid_for=3600,
        policy="large sums",
        denial_stops=True,
        expiry_stops=True,
        note="The approval was older than its 3600 s.",
    )


def running() -> RunState:
    """Return a claimed run with one started call and one finished call."""
    reply = ModelReplied(
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
    state = new_state(system_message(ODD_TEXT), user_message("Onboard Jane"))
    state = apply_events(
        state, UserMessageAdded(number=1, message=user_message("today")), reply
    )
    state = apply_events(
        state, replace(accepted_event("c3", repeatable=True), verifiable=True)
    )
    state = apply_events(
        state, CallStarted(call_id="c3"), CallReturned(call_id="c3", content=ODD_TEXT)
    )
    state = apply_events(
        state,
        reply_with_calls("transfer", "balance"),
        accepted_event("c5"),
        accepted_event("c4"),
    )
    failed = CallRaised(call_id="c4", code="exception", content="ERROR: it broke")
    state = apply_events(
        state, CallStarted(call_id="c4"), failed, CallStarted(call_id="c5")
    )
    claim = Claim(
        worker="w-1",
        until=datetime(2026, 11, 21, 9, 31, tzinfo=UTC),
        attempt=2,
    )
    return replace(state, run=replace(state.run, claim=claim))


def waiting() -> RunState:
    """Return a suspended run with a wait three agents deep."""
    state = nested_agents(3)
    (wait,) = state.waits.values()
    full = replace(full_wait(), call_id=wait.call_id, path=("hr", "agent", "agent"))
    run = replace(state.run, status="suspended")
    return replace(state, run=run, waits={wait.id: full})


def unknown() -> RunState:
    """Return a run with a call of unknown outcome, which `verify` could not settle."""
    run_state = apply_events(run_with_started_call(), interrupted_event())
    call = replace(run_state.calls["c3"], verifiable=True)
    state = replace(cast("Any", call.state), verify_tried=True)
    calls = {**run_state.calls, "c3": replace(call, state=state)}
    return replace(
        run_state, calls=calls, run=replace(run_state.run, status="suspended")
    )


def run_with_started_call() -> RunState:
    """Return a run with a started call."""
    return apply_events(
        new_state(),
        reply_with_calls("transfer"),
        accepted_event("c3"),
        CallStarted(call_id="c3"),
    )


def interrupted_event() -> OutcomeUnknown:
    """Return the event that the outcome of the started call is unknown."""
    return OutcomeUnknown(call_id="c3", wait=make_wait("c3", kind="unknown"))


def edited() -> RunState:
    """Return a run whose call was approved with other arguments."""
    edit = Approved(call_id="c3", digest="d2", arguments='{"cents":5}')
    return apply_events(
        new_state(max_turns=7),
        reply_with_calls("transfer", "a"),
        approval_requested_event("c3"),
        edit,
    )


def cancelled() -> RunState:
    """Return a run that was cancelled while a sub-agent had open calls."""
    state = apply_events(
        new_state(),
        reply_with_calls("free", "agent"),
        accepted_event("c4"),
        sub_agent_started_event("c4"),
    )
    state = apply_events(
        state, reply_with_calls("gated", "free", frame=deepest_frame(state))
    )
    state = apply_events(
        state,
        approval_requested_event(state.frames[deepest_frame(state)].open_call_ids[0]),
    )
    return apply_events(
        state, RunStopped(failure=Failure(code="cancelled", message="by kim: no more"))
    )


def finished() -> RunState:
    """Return a finished run with a denied call."""
    state = apply_events(
        new_state(), reply_with_calls("transfer"), approval_requested_event("c3")
    )
    denied = Denied(call_id="c3", decision=make_decision(reason="over budget"))
    state = apply_events(state, denied, reply_with_text("I could not pay Jane. " * 20))
    # Format 1 does not count denials.
    root = replace(state.frames[ROOT_FRAME_ID], denials=())
    return replace(state, frames={ROOT_FRAME_ID: root})


def denied() -> RunState:
    """Return a run whose frame counts the denials of two calls."""
    counts = (DenialCount(ODD_TEXT, "d1", 2), DenialCount("pay", "d2", 1))
    state = new_state()
    root = replace(state.frames[ROOT_FRAME_ID], denials=counts)
    return replace(state, frames={ROOT_FRAME_ID: root})


def guarded() -> RunState:
    """Return a run with trips of guardrails, and turns that hooks asked for."""
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
    state = new_state()
    root = state.frames[ROOT_FRAME_ID]
    root = replace(root, retries=1, continues=2, trips=trips)
    return replace(state, frames={ROOT_FRAME_ID: root})


def bounded() -> RunState:
    """Return a run that has used a part of its budget."""
    state = new_state()
    budget = Budget(requests=20, tokens=100_000)
    spent = Usage(requests=1, input_tokens=10)
    return replace(state, run=replace(state.run, budget=budget, usage=spent))


def described_run() -> RunState:
    """Return a run with a title, labels and a requester."""
    state = new_state()
    run = replace(
        state.run,
        title=ODD_TEXT,
        labels=(("country", "de"), ("team", "finance")),
        requester="ann@example.com",
    )
    return replace(state, run=run)


def refused_turn() -> RunState:
    """Return a suspended run whose model refused a request."""
    state = apply_events(
        new_state(),
        ModelFailed(frame_id=ROOT_FRAME_ID, error=ODD_TEXT, usage=Usage(requests=1)),
    )
    return replace(state, run=replace(state.run, status="suspended"))


def limited_depth() -> RunState:
    """Return a run that was started with a limit of levels."""
    state = new_state()
    return replace(state, run=replace(state.run, max_depth=3))


def question_wait() -> Wait:
    """Return a wait of a tool with every field of format 3."""
    return replace(
        make_wait("c3", QUESTION, "question"),
        deadline=MOMENT + timedelta(hours=72),
        question=ODD_TEXT,
        answer_schema_json='{"type":"string"}',
        on_deadline_json='{"kind":"answer","value":"blue"}',
        continues=True,
    )


def quorum_wait() -> Wait:
    """Return a wait that two persons decide, with an escalation and reminders."""
    quorum = Quorum(
        approvers=("kim@example.com", "group:finance"),
        votes=2,
        not_requester=True,
        requester=ODD_TEXT,
    )
    return replace(
        make_wait("c3"),
        deadline=MOMENT + timedelta(hours=72),
        on_deadline_json='{"kind":"escalate","to":["cfo"],"votes":1,"within":3600}',
        quorum=quorum,
        remind_after=86_400,
    )


def golden_tombstone() -> Tombstone:
    """Return the tombstone of an erased run."""
    return Tombstone(
        run_id=RUN,
        number=7,
        at=MOMENT,
        late_keys=(f"index/live/{RUN}", f"waits/approval-01w@{RUN}"),
    )


def golden_slots() -> list[Slot]:
    """Return a slot of each kind."""
    vote = replace(decision_of_kind("approve"), groups=("finance",))
    slot = Slot(
        id="01slot",
        wait_id="w1",
        number=1,
        kind="vote",
        at=MOMENT,
        digest="d1",
        vote=vote,
    )
    later = MOMENT + timedelta(hours=1)
    plain = replace(slot, vote=None)
    return [
        slot,
        replace(plain, number=2, kind="extend", deadline=later, by="shop"),
        replace(plain, number=3, kind="escalate", deadline=later),
        replace(plain, number=4, kind="expire"),
    ]


def approved_by_two() -> RunState:
    """Return a run whose call keeps the rule of its approval."""
    event = replace(
        approval_requested_event("c3"), wait=replace(quorum_wait(), id="w1")
    )
    return apply_events(new_state(), reply_with_calls("free"), event)


def event_wait() -> Wait:
    """Return a wait for an event, opened at stage 1."""
    return replace(
        make_wait("c3", kind="event"), event="receipt", event_key="42", stage=1
    )


def parked() -> RunState:
    """Return a suspended run whose tool asked a question."""
    state = apply_events(
        run_with_started_call(), CallParked(call_id="c3", wait=question_wait())
    )
    return replace(state, run=replace(state.run, status="suspended"))


def answered() -> RunState:
    """Return a run whose tool got its answer."""
    received = AnswerReceived(call_id="c3", answer='"blue"')
    return apply_events(parked(), received)


def suspended_frame() -> RunState:
    """Return a suspended run whose frame waits for its model."""
    state = apply_events(
        new_state(), SuspensionBegan(wait=make_frame_wait(ROOT_FRAME_ID))
    )
    return replace(state, run=replace(state.run, status="suspended"))


def pending_reply() -> RunState:
    """Return a run whose model computes a reply, and could not be polled."""
    delayed = ModelDelayed(
        wait=make_frame_wait(ROOT_FRAME_ID),
        usage=Usage(),
        pending_reply="resp_123",
        failed_requests=0,
    )
    ended = SuspensionEnded(wait_id=delayed.wait.id)
    return apply_events(
        new_state(), delayed, ended, delayed, ended, replace(delayed, failed_requests=1)
    )


def woken() -> RunState:
    """Return a run whose model was asked early, and is limited still."""
    wait = make_frame_wait(ROOT_FRAME_ID)
    delayed = ModelDelayed(
        wait=wait, usage=Usage(), pending_reply=None, failed_requests=1
    )
    ended = SuspensionEnded(wait_id=wait.id, woken=True)
    return apply_events(new_state(), delayed, ended, delayed)


def version_with_changed_logs() -> VersionObject:
    """Return a delta that extends and rewrites logs and removes rows."""
    base = apply_events(new_state(), reply_with_calls("agent", "agent"))
    base = apply_events(
        base,
        accepted_event("c3"),
        sub_agent_started_event("c3"),
        accepted_event("c4"),
        sub_agent_started_event("c4"),
    )
    base = apply_events(base, reply_with_calls("free", frame="f7"))
    new = apply_events(base, reply_with_text("below", frame="f5"), accepted_event("c9"))
    draft = Draft(new)
    draft.start_log("f7", (*new.logs["f7"].messages[:1], user_message("a summary")))
    draft.append("f7", user_message("more"))
    draft.append(ROOT_FRAME_ID, user_message("and more"))
    new = replace(draft.to_run_state(), manifest='{"agents":{"hr":{}}}')
    return make_version(base, new)


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


def with_secrets() -> RunState:
    """Return a suspended run with a call that has secret arguments."""
    state = waiting()
    calls = {
        key: replace(row, secrets=("pin",)) if row.arguments else row
        for key, row in state.calls.items()
    }
    waits = {
        key: replace(wait, display=full_display()) for key, wait in state.waits.items()
    }
    return replace(state, calls=calls, waits=waits)


def make_version(base: RunState | None, new: RunState) -> VersionObject:
    """Return a version object with every header field."""
    header = VersionHeader(
        run_id=RUN,
        number=6,
        root=3,
        base=4 if base else 0,
        base_digest=bytes(range(16)) if base else None,
        status=new.run.status,
        at=MOMENT,
        claimed_until=MOMENT if base else None,
        markers=("due/1", "due/2") if base else (),
    )
    delta = diff(base, new)
    return VersionObject(
        header, replace(delta, removed_ids=tuple(sorted(delta.removed_ids))), b""
    )


def counted_from_zero(version: VersionObject) -> VersionObject:
    """Return the version in a tree whose positions begin with 0."""
    return version


def decision_of_kind(kind: DecisionKind) -> Decision:
    """Return a decision with the fields of its kind."""
    return Decision(
        id="01decision",
        wait_id="w1",
        kind=kind,
        at=MOMENT,
        digest="d1",
        by=None if kind in ("expire", "cancel") else "kim@example.com",
        reason=ODD_TEXT if kind == "deny" else None,
        arguments="{}" if kind == "approve" else None,
        value="null" if kind == "answer" else None,
        marker="due/1",
    )


def signalled() -> RunState:
    """Return a run that keeps two of its three signals."""
    state = parked()
    kept = (KeptSignal(1, ODD_TEXT), KeptSignal(3, "receipt"))
    return replace(state, run=replace(state.run, last_signal_number=3, signals=kept))


def paused() -> RunState:
    """Return a run that an operator holds, and whose calls and agents are cancelled."""
    state = signalled()
    row = replace(state.run, last_operator_number=2)
    calls = {
        key: replace(call, cancelled=ODD_TEXT) for key, call in state.calls.items()
    }
    wait = operator_wait(
        state,
        f"operator-01m7zzzzzzzzzzzzzzzzzzzzzz@{RUN}",
        now=MOMENT,
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


def granted() -> RunState:
    """Return a run with a grant, and a call that another grant approved."""
    kept = KeptGrant(
        id="01grant",
        tool="pay",
        path=("boss", "pay"),
        contract="contract",
        arguments_json='{"maxProperties":1}',
        until=MOMENT,
        by="kim",
        at=MOMENT,
        wait_id=make_wait("c3").id,
    )
    other = replace(kept, id="02grant", arguments_json=None, until=None, by=None)
    state = apply_events(
        state_with_call_in(Ready()),
        GrantGiven(grant=kept),
        GrantGiven(grant=other),
        GrantsRevoked(last_number=1, grant_ids=("03grant",)),
    )
    draft = Draft(state)
    call_id = next(iter(state.calls))
    draft.put_call(replace(state.calls[call_id], grant="02grant"))
    return draft.to_run_state()


EVENT_IDS = ("01m7z8mgzx2yn0x7x9gkpfj8nc", "01m7z8mgzx2yn0x7x9gkpfj8nd")


def filled_in() -> RunState:
    """Return a run with a call whose approver filled in a form."""
    state = state_with_call_in(Ready())
    draft = Draft(state)
    call_id = next(iter(state.calls))
    draft.put_call(replace(state.calls[call_id], form='{"number":1}'))
    return draft.to_run_state()


def forms_of_approvals() -> dict[str, GoldenObject]:
    """Return a wait that needs a form, and an approval that has it."""
    schema = '{"properties":{"number":{"type":"integer"}},"type":"object"}'
    wait = replace(full_wait(), form_schema_json=schema)
    decision = replace(decision_of_kind("approve"), form='{"number":1}')
    return {
        "wait-form": GoldenObject(WAIT.encode(wait), wait),
        "decision-form": GoldenObject(DECISION.encode(decision, RUN), decision),
    }


def took_events() -> RunState:
    """Return a run that took two published events."""
    state = parked()
    return replace(state, run=replace(state.run, events_taken=EVENT_IDS))


def published_event() -> PublishedEvent:
    """Return an event with all fields."""
    return PublishedEvent(
        id=EVENT_IDS[0],
        name="receipt",
        key=ODD_TEXT,
        at=MOMENT,
        data='{"cents":5}',
        by="shop",
        own_id="mail-7",
        door="http",
        authentication="verifier",
    )


def watched() -> RunState:
    """Return a run that a condition of its agent suspended before."""
    watch = FrameWatched(
        frame_id=ROOT_FRAME_ID,
        since=MOMENT,
        counts=(ConditionCount(ODD_TEXT, 0, MOMENT),),
    )
    return apply_events(new_state(), watch)


def operator_request() -> OperatorRequest:
    """Return a request of an operator with all fields."""
    return OperatorRequest(
        id="01asked",
        number=3,
        at=MOMENT,
        action="cancel",
        call_id="c2",
        by="kim",
        reason=ODD_TEXT,
        marker="due/1",
        door="http",
        authentication="verifier",
    )


# Objects ----------------------------------------------------------------------


def records_for_an_audit() -> dict[str, GoldenObject]:
    """Return decisions through doors and by rules, and what belongs to grants."""
    objects: dict[str, GoldenObject] = {}
    through_door = replace(
        decision_of_kind("approve"), door="http", authentication="verifier"
    )
    objects["decision-door"] = GoldenObject(
        DECISION.encode(through_door, RUN), through_door
    )
    ruled = replace(decision_of_kind("approve"), by=None, rule=f"small {ODD_TEXT}")
    remembered = replace(
        decision_of_kind("approve"),
        grant_json='{"arguments":{"maxProperties":1},"tool":"pay","until":1800000}',
    )
    objects["decision-grant"] = GoldenObject(
        DECISION.encode(remembered, RUN), remembered
    )
    revoked = Revocation(
        id="01revoke",
        number=2,
        at=MOMENT,
        grant="01grant",
        by="kim",
        reason=ODD_TEXT,
        door="http",
        authentication="verifier",
    )
    for name, editable in (("editable", '["cents"]'), ("not-editable", "[]")):
        limited = replace(full_wait(), editable_json=editable)
        objects[f"wait-{name}"] = GoldenObject(WAIT.encode(limited), limited)
    objects["revocation"] = GoldenObject(REVOCATION.encode(revoked, RUN), revoked)
    objects["decision-rule"] = GoldenObject(DECISION.encode(ruled, RUN), ruled)
    return objects


def display_objects() -> dict[str, GoldenObject]:
    """Return what people read and who they are, by the names of the objects."""
    quorum = replace(quorum_wait().quorum or Quorum(), requesters=("", "bob"))
    waits = {
        "wait-asked-by-several": replace(quorum_wait(), quorum=quorum),
        "wait-display": replace(full_wait(), display=full_display()),
        "wait-secrets": replace(make_wait("c3"), display=CallDisplay(secrets=("pin",))),
    }
    people = {
        "decision-groups": replace(
            decision_of_kind("deny"), groups=("finance", ODD_TEXT)
        ),
        "decision-shown": replace(decision_of_kind("approve"), shown="d1"),
    }
    return {
        **{name: GoldenObject(WAIT.encode(each), each) for name, each in waits.items()},
        **{
            name: GoldenObject(DECISION.encode(each, RUN), each)
            for name, each in people.items()
        },
    }


def golden_objects() -> dict[str, GoldenObject]:
    """Return every golden object by its name."""
    stone = golden_tombstone()
    objects = {"tombstone": GoldenObject(TOMBSTONE.encode(stone), stone)}
    runs = (running, waiting, unknown, edited, cancelled, finished, bounded)
    later = (
        with_secrets,
        parked,
        answered,
        signalled,
        paused,
        watched,
        woken,
        denied,
        guarded,
        took_events,
        described_run,
        limited_depth,
        refused_turn,
        suspended_frame,
        pending_reply,
        approved_by_two,
        granted,
        filled_in,
    )
    for make in (*runs, *later):
        continuation = Continuation(make(), 12)
        objects[make.__name__] = GoldenObject(continuation.to_bytes(), continuation)
    for name, made_version in (
        ("version-full", make_version(None, state_with_call_in(Started()))),
        ("version-delta", version_with_changed_logs()),
        ("version-from-zero", counted_from_zero(version_with_changed_logs())),
        ("version-waiting", counted_from_zero(make_version(None, waiting()))),
        ("version-state", make_version(*before_and_after())),
        ("version-no-state", make_version(*reversed(before_and_after()))),
    ):
        data = encode_version(made_version.header, made_version.delta)
        objects[name] = GoldenObject(data, made_version)
    for name, wait in (
        ("wait", full_wait()),
        ("wait-bare", make_wait("c3")),
        ("wait-question", question_wait()),
        ("wait-event", event_wait()),
        ("wait-second-event", replace(event_wait(), events_taken=EVENT_IDS[:1])),
        ("wait-external", make_wait("c3", kind="external")),
        ("wait-cancels", replace(make_wait("c3", kind="external"), cancels=True)),
    ):
        objects[name] = GoldenObject(WAIT.encode(wait), wait)
    kinds: tuple[DecisionKind, ...] = ("approve", "deny", "answer", "expire", "cancel")
    for kind in kinds:
        record = decision_of_kind(kind)
        objects[f"decision-{kind}"] = GoldenObject(DECISION.encode(record, RUN), record)
    answer = replace(decision_of_kind("answer"), wait_id=ANSWERED_APPROVAL)
    objects["decision-answer-to-approval"] = GoldenObject(
        DECISION.encode(answer, RUN), answer
    )
    fail = replace(decision_of_kind("fail"), wait_id=QUESTION, value='"it broke"')
    objects["decision-fail"] = GoldenObject(DECISION.encode(fail, RUN), fail)
    over = replace(make_wait("c3", kind="unknown"), approve_after=MOMENT)
    objects["wait-approve-after"] = GoldenObject(WAIT.encode(over), over)
    taken = replace(decision_of_kind("answer"), wait_id=event_wait().id, signal=2)
    objects["decision-by-signal"] = GoldenObject(DECISION.encode(taken, RUN), taken)
    by_event = replace(
        decision_of_kind("answer"), wait_id=event_wait().id, event=EVENT_IDS[0]
    )
    objects["decision-by-event"] = GoldenObject(
        DECISION.encode(by_event, RUN), by_event
    )
    event = published_event()
    objects["event"] = GoldenObject(EVENT.encode(event), event)
    bare = replace(event, key=None, data="null", by=None, own_id=None)
    bare = replace(bare, door=None, authentication=None)
    objects["event-bare"] = GoldenObject(EVENT.encode(bare), bare)
    objects |= records_for_an_audit()
    objects |= display_objects()
    objects |= forms_of_approvals()
    more = {**thread_objects(), **model_objects(), **state_objects()} | (
        compaction_objects() | past_objects() | judged_objects() | file_objects()
    )
    objects |= {name: GoldenObject(*each) for name, each in more.items()}
    signal = Signal(
        id="id:mail-7",
        number=2,
        at=MOMENT,
        name="receipt",
        data='{"cents":5}',
        by="shop",
        marker="due/1",
    )
    objects["signal"] = GoldenObject(SIGNAL.encode(signal, RUN), signal)
    voted = replace(decision_of_kind("approve"), voters=("kim", "lee"))
    objects["decision-voters"] = GoldenObject(DECISION.encode(voted, RUN), voted)
    shared = quorum_wait()
    objects["wait-quorum"] = GoldenObject(WAIT.encode(shared), shared)
    for slot in golden_slots():
        objects[f"slot-{slot.kind}"] = GoldenObject(SLOT.encode(slot, RUN), slot)
    message = InboxMessage(
        id="01letter",
        number=3,
        at=MOMENT,
        message=user_message(ODD_TEXT),
        by="kim",
        marker="due/1",
    )
    objects["message"] = GoldenObject(MESSAGE.encode(message, RUN), message)
    request = CancelRequest(
        id="01wish", at=MOMENT, by="kim", reason="no more", marker="due/1"
    )
    objects["cancellation"] = GoldenObject(CANCEL_REQUEST.encode(request, RUN), request)
    asked = operator_request()
    objects["operator-request"] = GoldenObject(
        OPERATOR_REQUEST.encode(asked, RUN), asked
    )
    by_link = replace(request, door="http", authentication="verifier")
    objects["cancellation-door"] = GoldenObject(
        CANCEL_REQUEST.encode(by_link, RUN), by_link
    )
    for name, sent in (
        ("signal-door", replace(signal, door="cli", authentication="login")),
        ("signal-keyed", replace(signal, keyed=True)),
    ):
        objects[name] = GoldenObject(SIGNAL.encode(sent, RUN), sent)
    return objects


# The descriptions in the .json files are frozen, like the bytes. They use the names
# that format 1 was described with: for each class, its name there and the fields that
# have another name there. A field that maps to None is not part of a description: it
# follows from the other fields or from the bytes. Classes and fields that are not in
# this table have the same name there as in the code.
FORMAT_1_NAMES: dict[type, tuple[str, dict[str, str | None]]] = {
    RunState: ("Table", {"runnable": None, "suspending": None}),
    RunRow: (
        "RunRow",
        {
            "run_nonce": "birth",
            "last_inbox_number": "inbox",
            "history_lost": "doubtful",
        },
    ),
    FrameRow: ("FrameRow", {"parent_call_id": "call", "open_call_ids": "open"}),
    CallRow: (
        "CallRow",
        {
            "frame_id": "frame",
            "tool_call_id": "provider_id",
            "raw_arguments": "written",
            "original_arguments": "original",
            "contract_digest": "meaning",
            "approved_digest": "approved",
        },
    ),
    Waiting: ("Waiting", {"wait_id": "wait"}),
    Nested: ("Nested", {"frame_id": "frame"}),
    Unknown: ("Unknown", {"wait_id": "wait", "verify_tried": "checked"}),
    MessageLog: ("Log", {"_check": None}),
    Delta: ("Delta", {"removed_ids": "gone"}),
    LogDelta: ("LogDelta", {"keep_count": "keep", "added": "add"}),
    VersionObject: ("VersionObject", {"digest": None}),
    VersionHeader: ("Header", {"claimed_until": "until"}),
    CancelRequest: ("Cancellation", {}),
    InboxMessage: ("Letter", {}),
    Wait: ("Wait", {"votes": None, "last_slot": None, "notice": None}),
}


_NEW_ATTRIBUTES = {"state_json"}


def describe(value: object) -> Any:  # noqa: PLR0911 - one row for each type
    """Return the JSON description of a value, in the names of `FORMAT_1_NAMES`."""
    match value:
        case Continuation():
            return {"version": value.version, "table": describe(value.run_state)}
        case Message(metadata_json=str(metadata)):
            return {"text": value.text, "metadata": metadata}
        case Message():
            return value.text
        case datetime():
            return value.isoformat()
        case Decimal():
            return f"{value:f}"
        case dict():
            items = cast("dict[str, object]", value).items()
            return {key: describe(inner) for key, inner in items}
        case tuple():
            return [describe(inner) for inner in cast("tuple[object, ...]", value)]
        case None | str() | int():
            return value
        case bytes():
            return value.hex()
        case _:
            return _describe_row(value)


def _describe_row(value: object) -> dict[str, Any]:
    assert is_dataclass(value)
    cls = type(value)
    class_name, field_names = FORMAT_1_NAMES.get(cls, (cls.__name__, {}))
    described: dict[str, Any] = {"type": class_name}
    for field in fields(value):
        name = field_names.get(field.name, field.name)
        attribute = getattr(value, field.name)
        if name is None or (field.name in _NEW_ATTRIBUTES and not attribute):
            continue
        described[name] = describe(attribute)
    return described


def write_missing(folder: Path) -> list[str]:
    """Write the files that do not exist yet; return the names of their objects."""
    written: list[str] = []
    for name, golden in golden_objects().items():
        stem = f"v{golden.format_number}-{name}"
        data, description = folder / f"{stem}.bin", folder / f"{stem}.json"
        if data.exists():
            continue
        text = json.dumps(describe(golden.value), indent=1) + "\n"
        # Mode "x" never opens an existing file.
        with data.open("xb") as file:
            file.write(golden.data)
        with description.open("x", encoding="ascii") as file:
            file.write(text)
        written.append(name)
    return written


if __name__ == "__main__":
    names = write_missing(FOLDER)
    sys.stdout.write(f"written: {', '.join(names) or 'nothing, all files exist'}\n")
