"""The events between versions: played back, they lead to the stored state."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from continuations.core import jsontext
from continuations.core.changes import events
from continuations.core.changes.reducer import advance
from continuations.core.messages import user_message
from continuations.core.reading import run_stream
from continuations.core.reading.run_stream import (
    Attempt,
    CallEnded,
    CallProposed,
    CallStarted,
    FrameEnded,
    FrameStarted,
    MessageAdded,
    RunEnded,
    RunRepaired,
    StreamEvent,
    WaitDecided,
    WaitOpened,
)
from continuations.core.reading.run_stream_diff import events_between
from continuations.core.rows.calls import CLOSED_STATES, Nested, Started
from continuations.core.rows.run import ENDED_STATUSES, Claim
from continuations.core.rows.state import RunState, frame_path
from tests.core.rows import (
    MOMENT,
    accepted_event,
    apply_events,
    new_state,
    reply_with_calls,
    reply_with_text,
    sub_agent_started_event,
)
from tests.core.schedules import CHOICES, first_state, run_schedule
from tests.core.test_laws import LAW_SETTINGS


@dataclass
class Player:
    """The knowledge of a reader who sees only the events."""

    messages: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    open_frames: set[str] = field(default_factory=set[str])
    open_calls: set[str] = field(default_factory=set[str])
    started: set[str] = field(default_factory=set[str])
    waits: set[str] = field(default_factory=set[str])
    cursors: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    output: str | None = None
    ended: bool = False

    def play(self, event: StreamEvent) -> None:
        """Take one event in; each must be possible where it stands."""
        version, _, ordinal = event.cursor.partition(".")
        self.cursors.append((int(version), int(ordinal)))
        assert not self.ended, "an event follows the end of the run"
        match event:
            case FrameStarted(frame=str(frame)):
                assert frame not in self.messages
                assert event.call is None or event.call in self.started
                self.messages[frame] = []
                self.open_frames.add(frame)
            case FrameEnded(frame=str(frame)):
                self.open_frames.remove(frame)
            case MessageAdded(frame=str(frame)):
                assert frame in self.open_frames
                self.messages[frame].append(event.message_json)
            case CallProposed(call=str(call)):
                assert call not in self.open_calls
                self.open_calls.add(call)
            case CallStarted():
                assert event.call in self.open_calls
                self.started.add(event.call)
            case CallEnded(call=str(call)):
                self.open_calls.remove(call)
            case WaitOpened():
                self.waits.add(event.wait.id)
            case WaitDecided():
                self.waits.remove(event.wait_id)
            case RunEnded():
                self.ended, self.output = True, event.output
            case _:
                pass

    def assert_shows(self, state: RunState) -> None:
        """Check that the state follows from the events."""
        for frame_id, log in state.logs.items():
            texts = [message.text for message in log.messages]
            assert texts == self.messages[frame_id], frame_id
        ended = state.run.status in ENDED_STATUSES
        assert (set() if ended else set(state.frames)) == self.open_frames
        rows = state.calls.values()
        still_open = {
            row.id for row in rows if not isinstance(row.state, CLOSED_STATES)
        }
        assert still_open == self.open_calls
        running = {row.id for row in rows if isinstance(row.state, Started | Nested)}
        assert running <= self.started
        assert set(state.waits) == self.waits
        assert (ended, state.run.output) == (self.ended, self.output)
        assert sorted(set(self.cursors)) == self.cursors


def play_versions(choices: list[int], sizes: list[int]) -> None:
    """Run a schedule, with so many events of the reducer in each version."""
    state = first_state(choices)
    player, version, left = Player(), 1, 0
    for event in events_between(None, state, version=1, at=MOMENT):
        player.play(event)
    player.assert_shows(state)
    stored = state

    def on_event(_: RunState, __: events.Event, after: RunState) -> None:
        nonlocal stored, version, left
        if left and after.run.status not in ENDED_STATUSES:
            left -= 1
            return
        version += 1
        left = sizes[version % len(sizes)]
        for each in events_between(stored, after, version=version, at=MOMENT):
            player.play(each)
        player.assert_shows(after)
        stored = after

    run_schedule(state, choices, on_event)
    assert player.ended


@given(choices=CHOICES)
@LAW_SETTINGS
def test_the_events_of_every_schedule_lead_to_its_states(choices: list[int]) -> None:
    """Messages, calls, waits, frames and the end follow from the events alone."""
    play_versions(choices, [0])


@given(choices=CHOICES, sizes=st.lists(st.integers(0, 6), min_size=1, max_size=5))
@LAW_SETTINGS
def test_versions_of_many_changes_tell_the_same(
    choices: list[int], sizes: list[int]
) -> None:
    """Rows that begin and end within one version leave no gap in the rest."""
    play_versions(choices, sizes)


def test_a_repaired_run_is_told_anew() -> None:
    """A version without one before it that counts begins with `RunRepaired`."""
    [first, second, *_] = events_between(None, new_state(), version=7, at=MOMENT)
    assert isinstance(first, RunRepaired)
    assert isinstance(second, FrameStarted)
    assert ("7.1", "7.2") == (first.cursor, second.cursor)


def test_a_new_worker_is_an_attempt_and_a_renewal_is_none() -> None:
    state = new_state()

    def claimed(worker: str, attempt: int) -> RunState:
        claim = Claim(worker=worker, until=MOMENT, attempt=attempt)
        return replace(state, run=replace(state.run, claim=claim))

    def attempts(before: RunState, after: RunState) -> list[int]:
        found = events_between(before, after, version=2, at=MOMENT)
        return [each.number for each in found if isinstance(each, Attempt)]

    assert [1] == attempts(state, claimed("w1", 1))
    assert [2] == attempts(claimed("w1", 1), claimed("w2", 2))
    assert [] == attempts(claimed("w1", 2), claimed("w1", 1))


def test_paths_are_those_of_the_frames() -> None:
    state = new_state()
    [started, *_] = events_between(None, state, version=1, at=MOMENT)
    assert frame_path(state, "f1") == started.path


def test_paths_of_two_branches_are_those_of_their_frames() -> None:
    """Two agents run side by side, and each has agents below it."""
    state = advance(new_state(), reply_with_calls("left", "right"))
    calls = [*state.calls]
    for call in calls:
        state = apply_events(
            state, accepted_event(call), sub_agent_started_event(call, f"of-{call}")
        )
    for frame in [*state.frames][1:]:
        state = advance(state, reply_with_calls("deep", frame=frame))
        call = state.frames[frame].open_call_ids[0]
        state = apply_events(
            state, accepted_event(call), sub_agent_started_event(call, "low")
        )
    found = events_between(None, state, version=1, at=MOMENT)
    paths = {e.frame or "": e.path for e in found if isinstance(e, FrameStarted)}
    assert ("hr", "left", "deep") in paths.values()
    assert ("hr", "right", "deep") in paths.values()
    # A frame that still has its first agent is named by the tool of its call.
    assert {key: frame_path(state, key)[:-1] for key in paths if key != "f1"} == {
        key: path[:-1] for key, path in paths.items() if key != "f1"
    }


def test_message_of_a_frame_that_is_the_same_otherwise_is_told() -> None:
    state = new_state()
    log = state.logs["f1"]
    longer = replace(log, messages=(*log.messages, user_message("More.")))
    after = state.with_rows(logs={"f1": longer})
    [added] = events_between(state, after, version=2, at=MOMENT)
    assert isinstance(added, MessageAdded)
    assert "More." in added.message_json


def test_an_agent_that_replies_within_one_version_has_events() -> None:
    """Its frame was never stored; the manifest says that the tool is an agent."""
    agents: list[dict[str, Any]] = [
        {"name": "hr", "tools": {"clerk": {"agent": 1}, "pay": {}}},
        {"name": "the clerk", "tools": {}},
    ]
    manifest = jsontext.dump({"agents": agents})
    asked = advance(
        replace(new_state(), manifest=manifest), reply_with_calls("clerk", "pay")
    )
    first, second = asked.calls

    def accepted(call_id: str) -> events.CallAccepted:
        return events.CallAccepted(call_id=call_id, arguments="{}", contract_digest="m")

    below = (user_message("go"),)
    after = asked
    for event in (
        accepted(first),
        events.SubAgentStarted(call_id=first, agent="the clerk", messages=below),
        reply_with_text("done", f"f{after.run.next_id}"),
    ):
        after = advance(after, event)
    closed = advance(
        after,
        events.CallInvalid(call_id=second, code="x", content="ERROR: the call was not"),
    )

    for later, rest in ((after, []), (closed, ["CallEnded"])):
        found = events_between(asked, later, version=3, at=MOMENT)
        told = [type(each).__name__ for each in found if not _is_message(each)]
        begun = ["CallStarted", "FrameStarted", "FrameEnded", "CallEnded"]
        assert [*begun, *rest] == told
        [ended] = [each for each in found if isinstance(each, FrameEnded)]
        assert (None, ("hr", "clerk"), "the clerk", first, "done") == (
            *(ended.frame, ended.path, ended.agent, ended.call, ended.output),
        )


def test_an_agent_that_was_refused_never_began() -> None:
    agents = [{"name": "hr", "tools": {"clerk": {"agent": 0}}}]
    state = replace(new_state(), manifest=jsontext.dump({"agents": agents}))
    asked = advance(state, reply_with_calls("clerk"))
    text = "ERROR: the call was not executed: wrong arguments"
    [call_id] = asked.calls
    refused = advance(
        asked, events.CallInvalid(call_id=call_id, code="x", content=text)
    )

    found = events_between(asked, refused, version=3, at=MOMENT)
    told = [type(each).__name__ for each in found if not _is_message(each)]
    assert ["CallEnded"] == told


def _is_message(event: StreamEvent) -> bool:
    return isinstance(event, MessageAdded)


def test_no_public_event_has_the_name_of_an_outcome_or_of_a_room() -> None:
    """Only `CallStarted` is also a name in the reducer, which never meets these."""
    internal = {
        name
        for module in (events, events)
        for name, cls in inspect.getmembers(module, inspect.isclass)
        if cls.__module__ == module.__name__
    }
    public = {cls.__name__ for cls in run_stream.EVENT_TYPES}
    assert {"CallStarted"} == internal & public
