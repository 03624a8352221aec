"""The tree of a run: its rows over working time, folded so that it stays short.

Rows that wait, failed or run are always there. The other ones follow until the tree has
some rows, and each row says how many are folded below it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from continuations.core.visible_text import shorten
from continuations.present.times import PageText, clock_view, length_text
from continuations.serve.pages.model_turns import ModelTurn, tokens_of
from continuations.serve.pages.run_rows import RowStates, rows_of
from continuations.serve.pages.working_time import AXIS_WIDTH, working_time
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from continuations.core.reading.run_past import VersionWindow
    from continuations.serve.pages.call_arguments import CallArguments
    from continuations.serve.pages.run_rows import RowState, RunRow, Span
    from continuations.serve.pages.working_time import Segment, WorkingTime

# Rows of these levels are shown first. An opened row shows as many levels below it.
SHOWN_LEVELS = 3
# A tree with more rows is folded, until it has so many that need not be there.
SHORT_TREE = 16
MAX_ROWS = 100
_MAX_INDENT = 6
_MIN_WIDTH = 4
_NOTE_CHARS = 60

BarKind: TypeAlias = Literal["frame", "work", "hold", "lost", "model", "sleep"]
# The meaning of each kind of bar, in the order of the legend.
_MEANINGS: Mapping[BarKind, str] = {
    "frame": "agent open",
    "model": "model replies",
    "work": "tool runs",
    "hold": "waits",
    "lost": "outcome unknown",
    "sleep": "no process works",
}


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a row: what held, and where it stands on the axis.

    Attributes:
        kind: The kind of its span, or `model` for a turn.
        x: Its left end.
        width: Its width.
        title: The words that a pointer shows, or an empty text.
    """

    kind: BarKind
    x: int
    width: int
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """The rows below a row that the table does not show.

    Attributes:
        rows: Their number.
        waiting: How many of them wait, agents apart.
    """

    rows: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRow:
    """One row of the table.

    Attributes:
        key: Names the row in addresses.
        level: Its level, from 1.
        indent: Its indentation, from 0; it stops growing where levels are left out.
        left_out: Number of levels that are left out above it.
        above: Key of the row above the levels that are left out, or "".
        icon: The icon of an agent, a task or a tool.
        name: Name of the agent, the task or the tool.
        note: Its title or arguments, shortened.
        state: Its state.
        bars: Its bars.
        times: When it ran, in words.
        tokens: The tokens of its model, or "".
        is_selected: Whether it is the selected row.
        fold: The rows that are folded below it, or `None`.
    """

    key: str
    level: int
    indent: int
    left_out: int
    above: str
    icon: str
    name: str
    note: str
    state: RowState
    bars: tuple[Bar, ...]
    times: PageText
    tokens: str
    is_selected: bool
    fold: Fold | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The table of one page.

    Attributes:
        segments: The time axis.
        rows: The rows.
        total: Number of all rows of the run, shown or folded.
        opened: Key of the row that is opened, or "".
        next_offset: Where the next page of rows begins, or 0.
        earlier: Number of the last version that the table leaves out, or 0.
        has_tokens: Whether a row has tokens.
        legend: The kinds of its bars, and their meanings.
    """

    segments: tuple[Segment, ...]
    rows: tuple[TreeRow, ...]
    total: int
    opened: str
    next_offset: int
    earlier: int
    has_tokens: bool
    legend: tuple[tuple[BarKind, str], ...]


@dataclass(frozen=True, slots=True)
class RunRows:
    """The rows of a run with its time axis.

    Attributes:
        time: The time axis.
        rows: All rows, each one before those below it.
    """

    time: WorkingTime
    rows: Sequence[RunRow]

    @classmethod
    def of_window(cls, window: VersionWindow, now: datetime) -> RunRows:
        """Return the rows of some versions."""
        time = working_time(window, now)
        return cls(time, rows_of(window, time))

    def find(self, key: str) -> RunRow | None:
        """Return a row by its key, by the id of its frame, or `None`."""
        return next((row for row in self.rows if key in (row.key, row.frame_id)), None)

    def states(
        self,
        window: VersionWindow,
        decided: Collection[str] = (),
        votes: Mapping[str, str] | None = None,
    ) -> dict[str, RowState]:
        """Return the states of the rows by key; see `RowStates`."""
        return RowStates(window.state, self.time, decided, votes).of_all(
            list(self.rows)
        )

    def first(self, states: Mapping[str, RowState]) -> RunRow | None:
        """Return the row to select first: it waits, runs or failed; or `None`.

        It is the call that has waited for a person for the longest time. Without one,
        it is another call that waits, one that runs, or the last one that failed.
        """
        found = [row for row in self.rows if states[row.key].matters]
        waiting = [row for row in found if states[row.key].waits and row.wait]
        if waiting:
            return min(waiting, key=_wait_order)
        running = [row for row in found if row.ended is None]
        failed = [row for row in found if row.ended is not None]
        return running[0] if running else max(failed, key=_end_order, default=None)


def _wait_order(row: RunRow) -> tuple[bool, bool, datetime]:
    """Return what sorts waiting rows: persons first, then calls, then old ones."""
    assert row.wait is not None  # noqa: S101 - only these rows are sorted
    return not row.wait.rules.asks_person, row.is_group, row.wait.created_at


def _end_order(row: RunRow) -> tuple[bool, datetime]:
    return not row.is_group, row.ended or row.began


def tree(
    found: RunRows,
    states: Mapping[str, RowState],
    *,
    subject: str,
    arguments: CallArguments,
    earlier: int = 0,
    chosen: RunRow | None = None,
    opened: str = "",
    offset: int = 0,
) -> Tree:
    """Return the table.

    Args:
        found: All rows.
        states: Their states, by key.
        subject: The title of the run.
        arguments: Knows the arguments of the calls.
        earlier: Number of the last version that is left out.
        chosen: The selected row.
        opened: Key of the row that is opened.
        offset: How many of the visible rows to leave out.
    """
    focus = found.find(opened)
    keys = _visible(found.rows, states, chosen, focus)
    places = _places(found.rows, keys)
    visible = [row for row in found.rows if row.key in keys]
    more = offset + MAX_ROWS
    rows = tuple(
        TreeRow(
            key=row.key,
            level=row.depth + 1,
            indent=min(places[row.key].indent, _MAX_INDENT),
            left_out=places[row.key].left_out,
            above=places[row.key].above,
            icon=_icon(row),
            name=row.name,
            note=row_note(row, arguments)
            if row.parent
            else shorten(subject, _NOTE_CHARS),
            state=states[row.key],
            bars=_bars(row, found.time),
            times=_times(row),
            tokens=tokens_of(row.turns),
            is_selected=chosen is not None and row.key == chosen.key,
            fold=_fold(row, keys, states),
        )
        for row in visible[offset:more]
    )
    return Tree(
        segments=found.time.segments,
        rows=rows,
        total=len(found.rows),
        opened=focus.key if focus else "",
        next_offset=more if more < len(visible) else 0,
        earlier=earlier,
        has_tokens=any(row.tokens for row in rows),
        legend=_legend(rows, found.time),
    )


def _legend(
    rows: Sequence[TreeRow], time: WorkingTime
) -> tuple[tuple[BarKind, str], ...]:
    kinds: set[BarKind] = {bar.kind for row in rows for bar in row.bars}
    if time.slept:
        kinds.add("sleep")
    return tuple((kind, words) for kind, words in _MEANINGS.items() if kind in kinds)


# What is visible --------------------------------------------------------------


def _visible(
    rows: Sequence[RunRow],
    states: Mapping[str, RowState],
    chosen: RunRow | None,
    focus: RunRow | None,
) -> set[str]:
    """Return the keys of the rows that are not folded."""
    if len(rows) <= SHORT_TREE:
        return {row.key for row in rows}
    keys = set[str]()
    asked = {row.key for row in (chosen, focus) if row is not None}
    # For each row, the row above it in the last of the first levels.
    tops: dict[str, RunRow] = {}
    for row in rows:
        # Rows come after the row above them.
        is_deep = row.parent is not None and row.depth >= SHOWN_LEVELS
        tops[row.key] = tops[row.parent.key] if row.parent and is_deep else row
        if row.key in asked or states[row.key].matters:
            keys |= {row.key, *_keys_above(tops[row.key])}
            if row.parent is not None:
                keys.add(row.parent.key)
    if focus is not None:
        keys |= _keys_below(rows, focus)
    for row in reversed(rows):  # the newest ones first
        if len(keys) >= SHORT_TREE:
            break
        if row.depth < SHOWN_LEVELS:
            keys |= _keys_above(row)
    return keys


def _keys_above(row: RunRow) -> set[str]:
    keys, above = {row.key}, row.parent
    while above is not None:
        keys.add(above.key)
        above = above.parent
    return keys


def _keys_below(rows: Sequence[RunRow], focus: RunRow) -> set[str]:
    """Return the keys of the first levels below a row."""
    below = {focus.key}
    for row in rows:
        is_below = row.parent is not None and row.parent.key in below
        if is_below and row.depth <= focus.depth + SHOWN_LEVELS:
            below.add(row.key)
    return below


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a visible row stands, and what is left out above it."""

    indent: int
    left_out: int
    above: str


def _places(rows: Sequence[RunRow], keys: Collection[str]) -> dict[str, _Place]:
    """Return the places of all rows; a folded one has that of the row above it."""
    found: dict[str, _Place] = {}
    visible: dict[str, RunRow] = {}
    for row in rows:
        above = None if row.parent is None else visible.get(row.parent.key)
        if row.key in keys:
            visible[row.key] = row
        elif above is not None:
            visible[row.key] = above
        if above is None:
            found[row.key] = _Place(0, 0, "")
        else:
            left_out = row.depth - above.depth - 1
            indent = found[above.key].indent + 1
            found[row.key] = _Place(indent, left_out, above.key)
    return found


def _fold(
    row: RunRow, visible: Collection[str], states: Mapping[str, RowState]
) -> Fold | None:
    if all(child.key in visible for child in row.children):
        return None
    rows = waiting = 0
    pending = [child for child in row.children if child.key not in visible]
    while pending:
        child = pending.pop()
        rows += 1
        waiting += states[child.key].waits and not child.is_group
        pending += [each for each in child.children if each.key not in visible]
    return Fold(rows=rows, waiting=waiting)


# One row ----------------------------------------------------------------------


def _icon(row: RunRow) -> str:
    if row.is_task:
        return "task"
    return "agent" if row.is_agent else "tool"


def row_note(row: RunRow, arguments: CallArguments) -> str:
    """Return what a call is about: its title, or its arguments, shortened."""
    if row.wait is not None and row.wait.title is not None and not row.is_group:
        return shorten(row.wait.title, _NOTE_CHARS)
    return arguments.text(row.call_id, row.arguments_json or "", _NOTE_CHARS)


def _bars(row: RunRow, time: WorkingTime) -> tuple[Bar, ...]:
    spans = [_span_bar(span, time) for span in row.spans]
    turns = [_turn_bar(turn, number, time) for number, turn in enumerate(row.turns, 1)]
    return (*spans, *turns)


def _span_bar(span: Span, time: WorkingTime) -> Bar:
    end = AXIS_WIDTH if span.end is None else time.x(span.end)
    return _bar(span.kind, time.x(span.begin), end)


def _turn_bar(turn: ModelTurn, number: int, time: WorkingTime) -> Bar:
    """Return the bar of a turn; a turn whose begin is not known is a mark."""
    end = time.x(turn.end)
    begin = end - _MIN_WIDTH if turn.begin is None else time.x(turn.begin)
    words = [f"Turn {number}"]
    if turn.begin is not None:
        words.append(length_text(turn.end - turn.begin))
    if turn.tokens:
        words.append(turn.tokens)
    return _bar("model", max(begin, 0), end, ", ".join(words))


def _bar(kind: BarKind, begin: int, end: int, title: str = "") -> Bar:
    x = min(begin, AXIS_WIDTH - _MIN_WIDTH)
    return Bar(kind, x, max(end - x, _MIN_WIDTH), title)


def _times(row: RunRow) -> PageText:
    """Return what the bars show, in words."""
    began = clock_view(row.began)
    last = row.spans[-1] if row.spans else None
    if row.ended is not None:
        return (began, f", {length_text(row.ended - row.began)} from begin to end")
    if last is None or last.kind == "frame":
        return ("since ", began)
    words = {"work": "started", "hold": "waits since", "lost": "no result since"}
    return (f"{words[last.kind]} ", clock_view(last.begin))
