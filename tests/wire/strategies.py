"""Strategies and examples for every row of format 1: random, minimal and full."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

from hypothesis import strategies as st

from continuations.core.messages import Message, tool_message, user_message
from continuations.core.rows import calls
from continuations.core.rows.delta import Delta, LogDelta
from continuations.core.rows.frames import DenialCount, FrameRow, HistoryRecord
from continuations.core.rows.run import (
    GUARDRAIL_STAGES,
    RUN_STATUSES,
    Budget,
    Claim,
    Failure,
    KeptSignal,
    RunRow,
    Trip,
)
from continuations.core.rows.wait_rules import WAIT_RULES
from continuations.core.rows.waits import Wait
from continuations.core.usage import USAGE_COUNTS, Usage
from tests.core.rows import MOMENT, make_wait, run_row

TEXT = st.text(st.characters(exclude_categories=()), max_size=12)
OPTIONAL_TEXT = st.none() | TEXT
OBJECT = st.dictionaries(TEXT, TEXT, max_size=2).map(json.dumps)
OPTIONAL_OBJECT = st.none() | OBJECT
# Texts that are not JSON objects, although some look like one.
NOT_OBJECTS = ["", "[]", "{", '{"n": NaN}', '{"n": 1e999}', "[" * 10_000, "{} {}"]
COUNT = st.integers(0, 2**64 - 1)
TIME = st.integers(0, 253_402_300_799_999).map(
    lambda ms: datetime.fromtimestamp(ms // 1000, UTC).replace(
        microsecond=ms % 1000 * 1000
    )
)
STATE = (
    st.sampled_from([calls.Proposed(), calls.Ready(), calls.Started()])
    | st.builds(calls.Waiting, TEXT)
    | st.builds(calls.Nested, TEXT)
    | st.builds(calls.Unknown, TEXT, st.booleans())
    | st.builds(calls.Returned, TEXT)
    | st.builds(calls.Errored, TEXT, TEXT)
    | st.builds(calls.Refused, TEXT, TEXT)
)
CALL = st.builds(
    calls.CallRow,
    id=TEXT,
    frame_id=TEXT,
    tool=TEXT,
    tool_call_id=TEXT,
    raw_arguments=TEXT,
    state=STATE,
    arguments=OPTIONAL_OBJECT,
    original_arguments=OPTIONAL_OBJECT,
    contract_digest=OPTIONAL_TEXT,
    approved_digest=OPTIONAL_TEXT,
    approved_until=st.none() | TIME,
    repeatable=st.booleans(),
    verifiable=st.booleans(),
    attempts=COUNT,
    patch=OPTIONAL_OBJECT,
)
CALL_WITH_RAW_ARGUMENTS = CALL.map(
    lambda row: replace(row, raw_arguments=row.arguments or row.raw_arguments)
)


def assistant_message(text: str) -> Message:
    """Return a reply."""
    return Message.from_mapping({"role": "assistant", "content": text})


FRAME = st.builds(
    FrameRow,
    id=TEXT,
    agent=TEXT,
    parent_call_id=OPTIONAL_TEXT,
    depth=COUNT,
    turns=COUNT,
    max_turns=st.none() | COUNT,
    open_call_ids=st.lists(TEXT, max_size=3).map(tuple),
    failed_requests=COUNT,
    woken_until=st.none() | TIME,
    model_error=st.none() | TEXT.filter(bool),
    pending_reply=st.none() | TEXT.filter(bool),
    polls=COUNT,
    earlier_turns=COUNT,
    denials=st.lists(
        st.builds(DenialCount, tool=TEXT, digest=TEXT, count=COUNT), max_size=2
    ).map(tuple),
    retries=COUNT,
    continues=COUNT,
    trips=st.lists(
        st.builds(
            Trip,
            id=st.integers(1, 10**15).map("g{}".format),
            frame_id=TEXT,
            path=st.lists(TEXT, max_size=3).map(tuple),
            guardrail=TEXT,
            stage=st.sampled_from(sorted(GUARDRAIL_STAGES)),
            reason=TEXT,
        ),
        max_size=2,
    ).map(tuple),
    accepted_input=TEXT,
    held_reply=st.none() | st.builds(assistant_message, TEXT),
    history=st.none() | st.builds(HistoryRecord, COUNT, COUNT, COUNT, COUNT),
)
WAIT_OF_CALL = st.builds(
    Wait,
    id=TEXT,
    run_id=TEXT,
    call_id=TEXT.filter(bool),
    kind=st.sampled_from(
        sorted(
            kind for kind, rules in WAIT_RULES.items() if rules.subjects == ("call",)
        )
    ),
    path=st.lists(TEXT, max_size=3).map(tuple),
    tool=TEXT,
    arguments_json=OBJECT,
    schema_json=OBJECT,
    digest=TEXT,
    created_at=TIME,
    deadline=st.none() | TIME,
    valid_for=st.none() | COUNT,
    policy=OPTIONAL_TEXT,
    denial_stops=st.booleans(),
    expiry_stops=st.booleans(),
    note=OPTIONAL_TEXT,
)


def _of_frame(wait: Wait) -> Wait:
    return replace(wait, kind="model", call_id="", frame_id=wait.call_id)


WAITS = WAIT_OF_CALL | WAIT_OF_CALL.map(_of_frame)
_COUNTS = dict.fromkeys(USAGE_COUNTS, COUNT)
USAGE = st.builds(Usage, **_COUNTS) | st.builds(
    Usage,
    **_COUNTS,
    priced=COUNT,
    cost_units=st.integers(0, 10**25),
    currency=st.sampled_from(["USD", "EUR"]),
)
TRACE = (("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),)
RUN = st.builds(
    RunRow,
    id=TEXT,
    run_nonce=TEXT,
    agent=TEXT,
    created_at=TIME,
    input_digest=TEXT,
    status=st.sampled_from(sorted(RUN_STATUSES)),
    next_id=COUNT,
    last_inbox_number=COUNT,
    claim=st.none() | st.builds(Claim, worker=TEXT, until=TIME, attempt=COUNT),
    usage=USAGE,
    budget=st.none()
    | st.builds(Budget, requests=st.none() | COUNT, tokens=COUNT)
    | st.builds(
        Budget,
        cost=st.sampled_from([Decimal("0.5"), Decimal(7), Decimal("2.50")]),
        currency=st.just("USD"),
    ),
    max_depth=st.none() | st.integers(1, 9),
    settings_json=st.sampled_from([None, "{}", '{"a":1}']),
    forked_from=st.sampled_from([None, "jane-1@4"]),
    rewind_to=st.integers(0, 9),
    trace_context=st.sampled_from([(), TRACE]),
    session_trace=st.sampled_from([None, TRACE[0][1]]),
    doubtful_tools=st.lists(TEXT, max_size=2).map(tuple),
    output=OPTIONAL_TEXT,
    history_lost=st.booleans(),
    failure=st.none() | st.builds(Failure, code=TEXT, message=TEXT),
    last_signal_number=COUNT,
    signals=st.lists(st.builds(KeptSignal, st.integers(1, 9), TEXT), max_size=2).map(
        tuple
    ),
    thread_key=st.none() | TEXT.filter(bool),
    answered=COUNT,
    sender=st.none() | TEXT.filter(bool),
    earlier_usage=st.none() | USAGE,
    stopping=st.none() | TEXT.filter(bool),
    reads_next=COUNT,
)
MESSAGE = st.builds(user_message, TEXT) | st.builds(tool_message, TEXT, TEXT)
LOG = st.builds(
    LogDelta, id=COUNT, keep_count=COUNT, added=st.lists(MESSAGE, max_size=3).map(tuple)
)
DELTA = st.builds(
    Delta,
    run=RUN,
    manifest=OPTIONAL_TEXT,
    frames=st.lists(FRAME, max_size=2).map(tuple),
    calls=st.lists(CALL | CALL_WITH_RAW_ARGUMENTS, max_size=2).map(tuple),
    waits=st.lists(WAITS, max_size=2).map(tuple),
    logs=st.dictionaries(TEXT, LOG, max_size=2),
    removed_ids=st.lists(TEXT, max_size=3).map(lambda ids: tuple(sorted(ids))),
    states=st.dictionaries(TEXT, st.sampled_from(["", '{"a":1}']), max_size=2),
)

# Examples

MINIMAL_DELTA = Delta(
    run=run_row(),
    manifest=None,
    frames=(FrameRow(id="f1", agent="hr", parent_call_id=None),),
    calls=(
        calls.CallRow(
            id="c3",
            frame_id="f1",
            tool="t",
            tool_call_id="p0",
            raw_arguments="",
            state=calls.Waiting("w1"),
        ),
    ),
    waits=(make_wait("c3"),),
    logs={"f1": LogDelta(id=2, keep_count=0, added=())},
    removed_ids=(),
)
FULL_DELTA = Delta(
    run=replace(
        run_row(),
        budget=Budget(requests=10, tokens=1000),
        status="suspended",
        last_inbox_number=4,
        claim=Claim(worker="w", until=MOMENT, attempt=2),
        usage=Usage(
            requests=1,
            input_tokens=2,
            output_tokens=3,
            cached_tokens=4,
            reasoning_tokens=5,
        ),
        output="out",
        history_lost=True,
        failure=Failure(code="denied", message="no"),
    ),
    manifest="{}",
    frames=(
        FrameRow(
            id="f1",
            agent="hr",
            parent_call_id="c2",
            depth=1,
            turns=2,
            max_turns=3,
            open_call_ids=("c3",),
        ),
    ),
    calls=(
        replace(
            MINIMAL_DELTA.calls[0],
            arguments="{}",
            original_arguments='{"a":1}',
            contract_digest="m",
            approved_digest="d",
            approved_until=MOMENT,
            repeatable=True,
            verifiable=True,
            attempts=7,
            state=calls.Unknown("w1", verify_tried=True),
        ),
    ),
    waits=(
        replace(
            make_wait("c3"),
            deadline=MOMENT,
            valid_for=60,
            policy="large sums",
            denial_stops=True,
            expiry_stops=True,
            note="again",
        ),
    ),
    logs={"f1": LogDelta(id=2, keep_count=3, added=(user_message("hi"),))},
    removed_ids=("c1", "f9"),
)
