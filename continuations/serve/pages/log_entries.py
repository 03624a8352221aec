"""The log of a run, the newest first: the events of one call are one entry.

People's decisions, votes and messages are entries of their own, and so are the replies
of models.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from continuations.core.reading import run_stream
from continuations.core.rows.calls import Nested
from continuations.core.visible_text import shorten
from continuations.present.times import TimeView, day_view, length_text, second_view
from continuations.serve.pages.call_arguments import CallArguments
from continuations.serve.pages.run_log import (
    TEXT_CHARS,
    LogLine,
    event_line,
    released_line,
    slot_line,
    unread_line,
    workflow_frames,
    workflows_in,
)
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from datetime import datetime

    from continuations.core.reading.run_past import RunVersion, VersionWindow
    from continuations.serve.pages.run_log import CountedSlot
    from continuations.wire.arrivals import InboxMessage

ENTRIES_PER_PAGE = 40
# A shorter time since the line before is not shown.
_SHOWN_LENGTH = timedelta(milliseconds=1)
_STARTS = (run_stream.CallStarted, run_stream.FrameStarted)
_ENDS = (run_stream.CallEnded, run_stream.FrameEnded)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStep:
    """One line of the log with its time.

    Attributes:
        line: The line.
        clock: The time of day.
        since: The length since the line before, such as `+0.4 s`; empty for none.
    """

    line: LogLine
    clock: TimeView
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One entry: an event, or all events of a call.

    Attributes:
        last: Its last line.
        steps: All of its lines, the oldest first; empty for a single one.
        cursor: The cursor of its last event; "" for a message that is not read yet.
        day: The day, if the entry above has another one; otherwise `None`. The script
            of the page places the days of the reader's zone.
    """

    last: LogStep
    steps: tuple[LogStep, ...] = ()
    cursor: str
    day: TimeView | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLog:
    """One page of the log.

    Attributes:
        entries: The entries, the newest first.
        older: Cursor before which the next page begins, or "".
        earlier: Number of the last version that the page does not know, or 0.
    """

    entries: tuple[LogEntry, ...]
    older: str
    earlier: int


def run_log(
    window: VersionWindow,
    *,
    arguments: CallArguments | None = None,
    before: str = "",
    unread: Iterable[InboxMessage] = (),
    slots: Iterable[CountedSlot] = (),
    limit: int = ENTRIES_PER_PAGE,
) -> RunLog:
    """Return one page of the log.

    Args:
        window: The versions.
        arguments: Knows the arguments of the calls. Default: those of the versions.
        before: Only entries before this cursor. Default: all.
        unread: Messages that the run has not read yet: the first page begins with them.
        slots: Votes and other slots of waits.
        limit: The largest number of entries, apart from unread messages.
    """
    arguments = arguments or CallArguments.of_window(window)
    maker = _Lines(arguments, workflow_frames(window), _agent_calls(window))
    lines = _with_slots(window, list(maker.of_window(window)), tuple(slots))
    found = sorted(_groups(lines), key=lambda group: group[-1].place, reverse=True)
    first: list[list[_Line]] = []
    if before:
        place = _place(before)
        found = [each for each in found if each[-1].place < place]
    else:
        waiting = [each for each in unread if not each.closes]
        first = [[_Line("", each.at, unread_line(each))] for each in waiting]
        first.reverse()
    shown = found[:limit]
    after = found[limit : limit + 1]
    return RunLog(
        entries=tuple(_entries([*first, *shown], after)),
        older=shown[-1][-1].cursor if after else "",
        earlier=window.first_number - 1,
    )


def version_lines(versions: Sequence[RunVersion]) -> list[list[LogLine]]:
    """Return the lines of each of some consecutive versions, in their order."""
    events = [event for version in versions for event in version.events]
    maker = _Lines(CallArguments(events), workflows_in(events), _agents_in(events))
    return [
        [line for event in each.events if (line := maker.of_event(event, each.number))]
        for each in versions
    ]


class _Line(NamedTuple):
    """One line with its place, its event, and the call to whose entry it belongs."""

    cursor: str
    at: datetime
    line: LogLine
    event: run_stream.StreamEvent | None = None
    call: str = ""

    @property
    def place(self) -> tuple[int, int]:
        """Its place among all lines."""
        return _place(self.cursor)


def _place(cursor: str) -> tuple[int, int]:
    version, _, ordinal = cursor.partition(".")
    try:
        return int(version), int(ordinal or 0)
    except ValueError:
        return 0, 0


class _Lines:
    """Makes the lines of some versions; use it once.

    Args:
        arguments: Knows the arguments of the calls.
        workflows: Ids of the frames that are workflows.
        agents: The calls whose tool is an agent.
    """

    def __init__(
        self,
        arguments: CallArguments,
        workflows: Collection[str],
        agents: Collection[str],
    ) -> None:
        self._arguments = arguments
        self._workflows = workflows
        self._agents = agents
        self._workers: dict[str, int] = {}
        # The calls of waits that the clock ends.
        self._waits: dict[str, str] = {}

    def of_window(self, window: VersionWindow) -> Iterator[_Line]:
        """Yield the lines of a window in their order."""
        claim = None if window.before is None else window.before.run.claim
        for version in window.versions:
            for event in version.events:
                if isinstance(event, run_stream.Attempt):
                    self._workers.setdefault(event.worker, len(self._workers) + 1)
                line = self.of_event(event, version.number)
                if line is not None:
                    call = self._call(event)
                    yield _Line(event.cursor, version.at, line, event, call)
            if claim is not None and version.run.claim is None:
                cursor = f"{version.number}.{len(version.events) + 1}"
                yield _Line(cursor, version.at, released_line(version, claim))
            claim = version.run.claim

    def of_event(self, event: run_stream.StreamEvent, version: int) -> LogLine | None:
        """Return the line of an event, or `None` if another line tells the same."""
        match event:
            case run_stream.CallStarted(call=call) | run_stream.CallEnded(call=call):
                if call in self._agents:
                    return None  # the begin or end of the agent has a line
            case _:
                pass
        return event_line(
            event, self._workers, version, self._workflows, self._arguments.text
        )

    def _call(self, event: run_stream.StreamEvent) -> str:
        """Return the name of the call of an event, or "" for an entry of its own."""
        match event:
            case run_stream.CallProposed() | run_stream.CallEnded():
                return event.call or f"{event.frame} {event.tool_call_id}"
            case (
                run_stream.CallStarted()
                | run_stream.FrameStarted()
                | run_stream.FrameEnded()
            ):
                return event.call or ""
            case run_stream.WaitOpened():
                self._waits[event.wait.id] = event.wait.call_id
                return event.wait.call_id
            case run_stream.WaitDecided(kind=None | "cancel" | "expire", by=None):
                return self._waits.get(event.wait_id, "")
            case _:
                return ""


def _agent_calls(window: VersionWindow) -> set[str]:
    """Return the calls whose tool is an agent."""
    found = {
        call.id
        for state in (window.before, window.state)
        if state is not None
        for call in state.calls.values()
        if isinstance(call.state, Nested)
    }
    return found | _agents_in(e for each in window.versions for e in each.events)


def _agents_in(events: Iterable[run_stream.StreamEvent]) -> set[str]:
    return {
        event.call or ""
        for event in events
        if isinstance(event, run_stream.FrameStarted | run_stream.FrameEnded)
    }


def _with_slots(
    window: VersionWindow, lines: list[_Line], slots: Sequence[CountedSlot]
) -> list[_Line]:
    """Return the lines with those of slots, each after the versions before it."""
    voters: set[tuple[str, str | None]] = set()
    added: list[_Line] = []
    for number, each in enumerate(slots, 1):
        earlier = [v for v in window.versions if v.at <= each.slot.at]
        if not earlier:
            continue
        # After all lines of the version.
        ordinal = len(earlier[-1].events) + 1 + number
        cursor = f"{earlier[-1].number}.{ordinal}"
        added.append(_Line(cursor, each.slot.at, slot_line(each)))
        if each.slot.vote is not None:
            voters.add((each.wait.id, each.slot.vote.by))
    kept = [each for each in lines if not _is_told(each.event, voters)]
    return sorted([*kept, *added], key=lambda line: line.place)


def _is_told(
    event: run_stream.StreamEvent | None, voters: Collection[tuple[str, str | None]]
) -> bool:
    """Return whether an event is the decision of a vote that has a line."""
    if not isinstance(event, run_stream.WaitDecided):
        return False
    return (event.wait_id, event.by) in voters


def _groups(lines: Iterable[_Line]) -> Iterator[list[_Line]]:
    """Yield the lines of each entry: all lines of a call are one."""
    by_call: dict[str, list[_Line]] = {}
    for each in lines:
        if not each.call:
            yield [each]
        elif each.call in by_call:
            by_call[each.call].append(each)
        else:
            by_call[each.call] = [each]
    yield from by_call.values()


def _entries(
    groups: Sequence[list[_Line]], after: Sequence[list[_Line]]
) -> Iterator[LogEntry]:
    """Yield the entries, the newest first; `after` is the one below the last."""
    day = None
    below = [*groups[1:], *after]
    for number, group in enumerate(groups):
        last = group[-1]
        since = last.at - below[number][-1].at if number < len(below) else None
        this_day = last.at.date()
        steps = tuple(_steps(group)) if len(group) > 1 else ()
        yield LogEntry(
            last=_step(_headline(group), last.at, since),
            steps=steps,
            cursor=last.cursor,
            day=None if this_day == day else day_view(last.at),
        )
        day = this_day


def _steps(group: Iterable[_Line]) -> Iterator[LogStep]:
    before = None
    for each in group:
        yield _step(each.line, each.at, None if before is None else each.at - before)
        before = each.at


def _step(line: LogLine, at: datetime, since: timedelta | None) -> LogStep:
    quote = shorten(line.quote.replace("\n", " "), TEXT_CHARS)
    is_later = since is not None and since >= _SHOWN_LENGTH
    text = f"+{length_text(since)}" if since is not None and is_later else ""
    return LogStep(line=replace(line, quote=quote), clock=second_view(at), since=text)


def _headline(group: Sequence[_Line]) -> LogLine:
    """Return the line that stands for all lines of a call: the last one.

    It says how long the call took, or what it is about as long as it has no result.
    """
    last = group[-1]
    starts = [each for each in group[:-1] if isinstance(each.event, _STARTS)]
    if isinstance(last.event, _ENDS):
        if not starts:
            return last.line
        text = f"{last.line.after} after {length_text(last.at - starts[-1].at)}"
        return replace(last.line, after=text)
    quote = next((each.line.quote for each in group if each.line.quote), "")
    return replace(last.line, quote=last.line.quote or quote)
