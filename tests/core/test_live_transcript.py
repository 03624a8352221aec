"""A client shows each text once, in whatever order the live events arrive."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from continuations.core.reading import run_stream
from continuations.core.reading.live_events import (
    CallProgress,
    LiveEvent,
    LiveTranscript,
    ReasoningDelta,
    RunEvent,
    ShownText,
    TextDelta,
)
from tests.core.rows import MOMENT
from tests.core.test_laws import LAW_SETTINGS


def message(
    version: int, text: str, frame: str = "f1", role: str = "assistant", **more: Any
) -> run_stream.MessageAdded:
    """Return the event of a message."""
    data = {"role": role, "content": text, **more}
    return run_stream.MessageAdded(
        cursor=f"{version}.1",
        run_id="r",
        frame=frame,
        path=("a",),
        at=MOMENT,
        message_json=json.dumps(data),
    )


def part(
    fence: int, index: int, text: str, frame: str = "f1", attempt: int = 1
) -> TextDelta:
    """Return the event of a part of a reply."""
    return TextDelta(
        run_id="r",
        frame=frame,
        path=("a",),
        turn=1,
        fence=fence,
        attempt=attempt,
        index=index,
        text=text,
    )


def progress(fence: int, index: int, value: int) -> CallProgress:
    """Return the event of a call that tells its progress."""
    return CallProgress(
        run_id="r",
        frame="f1",
        path=("a", "t"),
        turn=1,
        fence=fence,
        attempt=1,
        index=index,
        call="c1",
        tool="t",
        value_json=str(value),
    )


def shown(*events: RunEvent) -> list[tuple[str, bool]]:
    """Return the texts of events, and whether each is complete."""
    transcript = LiveTranscript()
    for event in events:
        transcript.add(event)
    return [(each.text, each.is_complete) for each in transcript.texts]


# The laws -----------------------------------------------------------------------


@dataclass
class History:
    """The events of a run: stored ones, and live ones of several workers."""

    stored: list[run_stream.StreamEvent] = field(default_factory=list[Any])
    live: list[LiveEvent] = field(default_factory=list[Any])
    expected: list[str] = field(default_factory=list[str])


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Return turns of two frames; some are begun several times before they end."""
    history, version = History(), 1
    for _ in range(draw(st.integers(1, 5))):
        frame = draw(st.sampled_from(["f1", "f2"]))
        number, text = 1, ""
        for attempt in range(draw(st.integers(1, 3))):
            if draw(st.booleans()):
                version, number = version + 1, 1  # another worker took the claim
            else:
                number += attempt > 0
            words = draw(st.lists(st.text("abc ", min_size=1), min_size=1, max_size=4))
            history.live += [
                part(version, index, word, frame, number)
                for index, word in enumerate(words)
            ]
            text = "".join(words)
        version += 1
        history.stored.append(message(version, text, frame))
        history.expected.append(text)
    return history


@given(histories(), st.randoms(use_true_random=False))
@LAW_SETTINGS
def test_each_text_is_shown_once_in_whatever_order_live_events_come(
    history: History, random: Any
) -> None:
    """Late, repeated, lost and shuffled live events change nothing at the end."""
    live = [each for each in history.live * 2 if random.random() < 0.8]
    random.shuffle(live)
    places = sorted(random.randint(0, len(live)) for _ in history.stored)
    transcript, begin = LiveTranscript(), 0
    for place, event in zip(places, history.stored, strict=True):
        for each in live[begin:place]:
            transcript.add(each)
        begin = place
        transcript.add(event)
        transcript.add(event)
    for each in live[begin:]:
        transcript.add(each)

    assert history.expected == [each.text for each in transcript.texts]
    assert all(each.is_complete for each in transcript.texts)
    assert history.stored[-1].cursor == transcript.cursor


@given(histories(), st.randoms(use_true_random=False))
@LAW_SETTINGS
def test_the_texts_follow_from_the_set_of_live_events(
    history: History, random: Any
) -> None:
    """After the same stored events, the order of the live ones does not matter."""
    known = history.stored[: random.randint(0, len(history.stored))]
    in_order, shuffled = LiveTranscript(), LiveTranscript()
    for event in known:
        in_order.add(event)
        shuffled.add(event)
    for live in history.live:
        in_order.add(live)
    mixed = history.live * 2
    random.shuffle(mixed)
    for live in mixed:
        shuffled.add(live)

    assert in_order.texts == shuffled.texts


@given(histories())
@LAW_SETTINGS
def test_a_text_grows_until_it_is_replaced(history: History) -> None:
    """In order, what is shown of a reply is the beginning of its newest attempt."""
    transcript = LiveTranscript()
    written: dict[tuple[str, int, int], str] = {}
    for event in history.live:
        assert isinstance(event, TextDelta)
        key = (event.frame, event.fence, event.attempt)
        written[key] = written.get(key, "") + event.text
        for old in history.stored:
            if int(old.cursor.split(".")[0]) <= event.fence:
                transcript.add(old)
        transcript.add(event)
        unfinished = [each for each in transcript.texts if not each.is_complete]
        assert [written[key]] == [
            each.text for each in unfinished if each.frame == event.frame
        ]


# The rules ----------------------------------------------------------------------


def test_a_higher_fence_or_attempt_replaces_the_text_before() -> None:
    a, b = part(2, 0, "one "), part(2, 1, "two")
    again, taken_over = part(2, 0, "1", attempt=2), part(3, 0, "I")

    assert [("one two", False)] == shown(a, b)
    assert [("1", False)] == shown(a, b, again) == shown(again, a, b)
    assert [("I", False)] == shown(again, taken_over, a) == shown(taken_over, again)


def test_a_text_is_shown_up_to_a_missing_part() -> None:
    assert [] == shown(part(2, 1, "two"))
    assert [("one", False)] == shown(part(2, 0, "one"), part(2, 2, "three"))


def test_a_stored_message_replaces_its_parts_also_those_that_come_later() -> None:
    a = part(2, 0, "half")

    assert [("whole", True)] == shown(a, message(3, "whole"))
    assert [("whole", True)] == shown(message(3, "whole"), a)
    # The next reply of the frame began under the version of the message.
    later = part(3, 0, "next")
    assert [("whole", True), ("next", False)] == shown(message(3, "whole"), later)
    # A message of a user says nothing about the reply.
    assert [("hi", True), ("half", False)] == shown(a, message(3, "hi", role="user"))


def test_the_end_of_a_frame_or_run_voids_what_was_written() -> None:
    below = part(2, 0, "half", "f2")
    common: Any = {"run_id": "r", "at": MOMENT}
    ended = run_stream.FrameEnded(
        cursor="3.1", frame="f2", path=("a", "b"), agent="b", call="c1", **common
    )
    output = run_stream.FrameEnded(
        **(common | {"cursor": "3.1", "frame": "f2", "path": ("a", "b")}),
        agent="b",
        call="c1",
        output="whole",
    )
    replied = run_stream.ReplyGiven(cursor="3.1", message_number=1, **common)
    over = run_stream.RunEnded(cursor="3.1", status="failed", **common)

    assert [] == shown(below, ended) == shown(ended, below)
    assert [("whole", True)] == shown(below, output) == shown(output, below)
    assert [] == shown(below, replied) == shown(replied, below)
    assert [] == shown(below, over) == shown(over, below)
    assert [("next", False)] == shown(replied, part(3, 0, "next"))


def test_a_repair_begins_anew() -> None:
    repaired = run_stream.RunRepaired(cursor="4.1", run_id="r", at=MOMENT)

    assert [("b", True)] == shown(
        message(2, "a"), part(2, 0, "x"), repaired, message(5, "b")
    )


def test_reasoning_stays_with_its_text() -> None:
    thought = ReasoningDelta(
        run_id="r",
        frame="f1",
        path=("a",),
        turn=1,
        fence=2,
        attempt=1,
        index=0,
        text="hm",
    )
    transcript = LiveTranscript()
    transcript.add(thought)
    transcript.add(part(2, 1, "yes"))
    live = transcript.texts
    transcript.add(message(3, "yes", reasoning_content="hm"))

    assert ("hm", "yes") == (live[0].reasoning, live[0].text)
    assert transcript.texts == (
        ShownText(
            frame="f1", path=("a",), role="assistant", text="yes", reasoning="hm"
        ),
    )


def test_the_progress_of_a_call_is_its_last_value_until_it_ends() -> None:
    common: Any = {"run_id": "r", "at": MOMENT, "frame": "f1", "path": ("a", "t")}
    started = run_stream.CallStarted(cursor="2.1", call="c1", tool="t", **common)
    again = run_stream.CallStarted(cursor="3.1", call="c1", tool="t", **common)
    ended = run_stream.CallEnded(
        cursor="4.1", call="c1", tool="t", tool_call_id="x", **common
    )
    transcript = LiveTranscript()
    seen: list[dict[str, Any]] = []
    for event in (
        started,
        progress(2, 1, 20),
        progress(2, 0, 10),
        again,
        progress(2, 2, 30),
        progress(3, 0, 5),
        ended,
        progress(3, 1, 6),
    ):
        transcript.add(event)
        seen.append(transcript.progress)

    assert [{}, {"c1": 20}, {"c1": 20}, {}, {}, {"c1": 5}, {}, {}] == seen
