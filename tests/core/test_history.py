"""Laws of a compaction: a call keeps its result, a failed summary changes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from continuations.core.changes.events import HistoryCompacted, SummaryFailed
from continuations.core.changes.history import (
    HistorySplit,
    added_messages,
    split_history,
)
from continuations.core.changes.reducer import advance
from continuations.core.changes.tool_messages import (
    is_retry_request,
    retry_message,
)
from continuations.core.messages import (
    Message,
    find_violation,
    system_message,
    tool_message,
    user_message,
)
from continuations.core.rows.frames import HistoryRecord, MessageLog
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.core.usage import Usage
from continuations.core.words.summaries import (
    MIN_CHARS,
    estimate_tokens,
    shorten_middle,
)
from continuations.errors import IllegalTransition
from tests.core.rows import new_state


def round_of(calls: int, number: int) -> list[Message]:
    """Return a reply with so many calls, and their results."""
    ids = [f"c{number}-{index}" for index in range(calls)]
    items = [
        {"id": each, "type": "function", "function": {"name": "t", "arguments": "{}"}}
        for each in ids
    ]
    data: dict[str, Any] = {"role": "assistant", "content": f"reply {number}"}
    if items:
        data["tool_calls"] = items
    return [Message.from_mapping(data), *(tool_message(each, "done") for each in ids)]


@st.composite
def histories(draw: st.DrawFn) -> tuple[Message, ...]:
    """Return the messages of a frame without open calls."""
    messages = [system_message("Be good.")] * draw(st.integers(0, 2))
    messages.append(user_message("first"))
    for number in range(draw(st.integers(0, 12))):
        messages += round_of(draw(st.integers(0, 3)), number)
        kind = draw(st.sampled_from(["none", "none", "user", "two", "retry"]))
        if kind == "retry":
            messages.append(retry_message("it is no JSON"))
        elif kind != "none":
            messages.append(user_message(f"user {number}"))
        if kind == "two":
            messages.append(user_message(f"user {number}, again"))
    return tuple(messages)


def split_of(
    messages: tuple[Message, ...], keep_last: int, room: int, summary_number: int = 0
) -> HistorySplit:
    """Return the parts of messages, of which so many may stay."""
    return split_history(
        messages,
        summary_number=summary_number,
        keep_last=keep_last,
        may_stay=lambda recent: len(recent) <= room,
    )


def last_words(messages: tuple[Message, ...], summary_number: int = 0) -> list[Message]:
    """Return the last message of a user, and the requests to reply again after it."""
    said = [
        each
        for number, each in enumerate(messages, 1)
        if each.role == "user" and number != summary_number
    ]
    start = max(i for i, each in enumerate(said) if not is_retry_request(each))
    return said[start:]


@given(messages=histories(), keep_last=st.integers(1, 30), room=st.integers(0, 30))
def test_no_call_is_separated_from_its_result(
    messages: tuple[Message, ...], keep_last: int, room: int
) -> None:
    """A provider accepts the new messages as it accepted the old ones."""
    split = split_of(messages, keep_last, room)

    new = split.with_summary("short")

    assert find_violation(new) is None
    assert new[split.recent - len(split.replaced) + 1 :] == messages[split.recent :]
    assert len(new) == len(messages) - len(split.replaced) + 1


@given(messages=histories(), keep_last=st.integers(1, 30), room=st.integers(0, 30))
def test_system_user_and_two_rounds_stay(
    messages: tuple[Message, ...], keep_last: int, room: int
) -> None:
    split = split_of(messages, keep_last, room)

    new = split.with_summary("short")

    heads = [each for each in messages if each.role == "system"]
    assert heads == list(new[: len(heads)])
    assert last_words(messages) == last_words(new, split.summary_number)
    rounds = [index for index, each in enumerate(messages) if each.role == "assistant"]
    assert all(index >= split.recent for index in rounds[-2:])
    assert all(each.role != "system" for each in split.replaced)
    # No message is lost, and none is new.
    kept = [messages[index] for index in split.kept]
    everything = [*split.replaced, *kept, *messages[split.recent :]]
    assert sorted(map(hash, everything)) == sorted(map(hash, messages[len(heads) :]))


@given(messages=histories(), more=histories(), keep_last=st.integers(1, 9))
def test_second_summary_replaces_the_first(
    messages: tuple[Message, ...], more: tuple[Message, ...], keep_last: int
) -> None:
    """There is one summary at a time, and its writer reads the earlier one."""
    first = split_of(messages, keep_last, 0)
    new = first.with_summary("the first summary")
    grown = (*new, *(each for each in more if each.role != "system"))
    second = split_of(grown, keep_last, 0, first.summary_number)

    summaries = [each for each in second.replaced if "the first summary" in each.text]

    rest = second.with_summary("the second summary")
    stays = any("the first summary" in each.text for each in rest)
    assert stays != bool(summaries)
    assert last_words(grown, first.summary_number) == last_words(
        rest, second.summary_number
    )


def compacted_state(messages: tuple[Message, ...]) -> RunState:
    """Return a run whose root frame has the messages."""
    state = new_state()
    log = MessageLog(state.logs[ROOT_FRAME_ID].id, messages)
    return replace(state, logs={ROOT_FRAME_ID: log})


def event_of(state: RunState, new: tuple[Message, ...], **fields: Any) -> Any:
    """Return the event that replaces the messages of the root frame."""
    log = state.logs[ROOT_FRAME_ID]
    values: dict[str, Any] = {
        "frame_id": ROOT_FRAME_ID,
        "log_id": log.id,
        "count": len(log.messages),
        "messages": new,
        "summary_number": 2,
        "replaced": 3,
        "tokens_before": 900,
        "tokens_after": 90,
        "attempt_above": 190,
        "usage": Usage(requests=1, input_tokens=7),
    }
    return HistoryCompacted(**{**values, **fields})


@given(messages=histories(), keep_last=st.integers(1, 9))
def test_compaction_gives_the_log_a_new_id_and_counts_its_cost(
    messages: tuple[Message, ...], keep_last: int
) -> None:
    split = split_of(messages, keep_last, 0)
    assume(split.replaced)
    state = compacted_state(messages)
    before = state.logs[ROOT_FRAME_ID]

    after = advance(
        state,
        event_of(
            state,
            split.with_summary("short"),
            summary_number=split.summary_number,
            replaced=len(split.replaced),
        ),
    )

    log = after.logs[ROOT_FRAME_ID]
    assert log.id not in (before.id, 0)
    assert log.messages == split.with_summary("short")
    assert 1 == after.run.usage.requests
    record = after.frames[ROOT_FRAME_ID].history
    assert (
        HistoryRecord(
            90, len(log.messages), split.summary_number, 190, 900, len(split.replaced)
        )
        == record
    )
    # A reader of events learns of no message again.
    assert () == added_messages(before, log, after.frames[ROOT_FRAME_ID])


@given(messages=histories(), extra=st.integers(0, 3))
def test_messages_that_came_meanwhile_stay(
    messages: tuple[Message, ...], extra: int
) -> None:
    """A message that arrives while the summary is written is behind it."""
    split = split_of(messages, 2, 0)
    assume(split.replaced)
    came = tuple(user_message(f"came {number}") for number in range(extra))
    state = compacted_state(messages)
    event = event_of(
        state,
        split.with_summary("short"),
        summary_number=split.summary_number,
        replaced=len(split.replaced),
    )
    later = compacted_state((*messages, *came))

    after = advance(later, event)

    log = after.logs[ROOT_FRAME_ID]
    assert log.messages == (*split.with_summary("short"), *came)
    old = state.logs[ROOT_FRAME_ID]
    assert came == added_messages(old, log, after.frames[ROOT_FRAME_ID])


@given(messages=histories())
def test_failed_summary_changes_no_message(messages: tuple[Message, ...]) -> None:
    """Only the cost, and the count above which the next one is tried."""
    state = compacted_state(messages)
    event = SummaryFailed(
        frame_id=ROOT_FRAME_ID, attempt_above=70, usage=Usage(requests=1)
    )

    after = advance(state, event)

    assert after.logs == state.logs
    assert after.run == replace(state.run, usage=Usage(requests=1))
    frame = replace(after.frames[ROOT_FRAME_ID], history=None)
    assert frame == state.frames[ROOT_FRAME_ID]


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": tuple(round_of(1, 1)[:1])},
        {"messages": (tool_message("c1", "done"),)},
        {"messages": ()},
        {"log_id": 77},
        {"count": 99},
    ],
)
def test_compaction_that_does_not_fit_is_refused(fields: dict[str, Any]) -> None:
    state = compacted_state((user_message("go"), *round_of(1, 0)))
    event = replace(event_of(state, (user_message("short"),)), **fields)

    with pytest.raises(IllegalTransition):
        advance(state, event)


@given(text=st.text(max_size=600), limit=st.integers(MIN_CHARS, 400))
def test_shortened_text_keeps_beginning_and_end(text: str, limit: int) -> None:
    short = shorten_middle(text, limit)

    assert len(short) <= limit
    assert short == shorten_middle(short, limit)
    if len(text) > limit:
        assert short[:50] == text[:50]
        assert short[-20:] == text[-20:]
        assert f"{len(text)} characters" in short


def test_estimate_counts_bytes_and_parts() -> None:
    plain = estimate_tokens([user_message("x" * 400)])
    chinese = estimate_tokens([user_message("\u6f22" * 400)])
    parts = [
        {"type": "text", "text": "x" * 400},
        {
            "type": "image_url",
            "image_url": {"url": "data:image/png;base64," + "A" * 9**6},
        },
    ]
    image = estimate_tokens([Message.from_mapping({"role": "user", "content": parts})])

    assert 100 < plain < 120
    assert 300 < chinese < 320
    assert 1100 < image < 1130
