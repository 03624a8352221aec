"""The page of one run: what it waits for, its tree over working time, its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core.reading.run_past import VersionEvents, VersionWindow
from continuations.core.rows.calls import Ready
from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.visible_text import shorten
from continuations.engine.events.past_reading import read_window
from continuations.errors import FormatError, InvalidInput, NewerFormat
from continuations.ledger import missing_code
from continuations.ledger.objects import Objects
from continuations.ledger.versions import Versions
from continuations.present.times import PageText, clock_view, length_text
from continuations.serve.console.page import Page, PageRoute
from continuations.serve.console.run_snapshot import RunSnapshot
from continuations.serve.http import problems, request_fields
from continuations.serve.pages.run_log import arguments_text, run_log
from continuations.serve.pages.run_rows import RowStates, rows_of
from continuations.serve.pages.run_view import RunView, call_view, run_view
from continuations.serve.pages.working_time import AXIS_WIDTH, working_time
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from continuations.core.rows.state import RunState
    from continuations.serve.http.request_response import Response
    from continuations.serve.pages.environment import Shell
    from continuations.serve.pages.run_rows import RowState, RunRow, Span, SpanKind
    from continuations.serve.pages.working_time import Segment, WorkingTime


_MAX_DIGITS = 10


async def show(page: Page) -> Response:
    """Show a run, or one of its older versions."""
    run_id, query, now = page.run_id, page.query, page.clock.now()
    version = number_of(query.get("version"), "version")
    damage = ""
    try:
        snapshot = await snapshot_of(page, run_id, version)
    except FormatError as error:
        snapshot = await readable_snapshot(page, run_id, version, error)
        damage = str(error)
    if snapshot is None:
        return page.unchanged()
    snapshot = snapshot.shown(await page.detail(run_id))
    window, decided = snapshot.window, snapshot.decided
    rows = RunRows.of_window(window, now)
    states = RowStates(window.state, rows.time, decided, snapshot.votes).of_all(
        list(rows.rows)
    )
    selected = query.get("call", "")
    chosen = rows.find(selected)
    run = run_view(
        window.state,
        rows.time,
        version=window.last_number,
        newest=window.newest_number,
        now=now,
        first_version=window.first_number,
        decided=decided,
        votes=snapshot.votes,
    )
    is_followed = version is None and not damage
    if is_followed:
        run = await _with_missing_code(page, run, window.state, window.last_number)
    follow = following(page, snapshot) if is_followed else None
    return page.render(
        "run.html",
        shell=live_shell(page, follow),
        follow=follow,
        here=page.addresses(version),
        run=run,
        damage=damage,
        acts=await _acts(page, run),
        tree=tree(
            rows,
            states,
            # The row shows the name of the agent before it.
            subject=run.title.removeprefix(window.state.run.agent)
            if run.is_workflow
            else run.title,
            earlier=window.first_number - 1,
            selected=selected,
            opened=query.get("open", ""),
            offset=number_of(query.get("rows"), "rows") or 0,
        ),
        log=run_log(window, before=query.get("before", ""), unread=snapshot.unread),
        call=chosen and call_view(chosen, states[chosen.key], window.state, now),
    )


async def _with_missing_code(
    page: Page, run: RunView, state: RunState, number: int
) -> RunView:
    """Say which tool or agent the code of this process lacks for the run, if any.

    If it lacks nothing, say what a worker lacked that left the run to others.
    """
    if not run.may_resume or run.banner is None:
        return run
    left = ""
    try:
        async for row in page.runner.drift(run=run.run_id):
            left = row.worker_lacked
            missing = [why for why in row.why if why.change == "removed"]
            if row.verdict == "refuse" and missing:
                first = missing[0]
                text = f"The code of this process does not continue it: {first.text}"
                return replace(
                    run,
                    banner={**run.banner, "note": text},
                    may_reopen=_is_about_an_approval(state, first.wait_id),
                )
    except InvalidInput:  # a console without agents compares nothing
        objects = Objects(page.runner.store)
        lacked = await missing_code.read(objects, run.run_id, number)
        left = "" if lacked is None else lacked.text
    if not left:
        return run
    note = f"A worker left it to others: {left}"
    return replace(run, banner={**run.banner, "note": note})


def _is_about_an_approval(state: RunState, wait_id: str | None) -> bool:
    """Return whether a call that cannot go on here was approved: it may wait again."""
    if wait_id is not None:
        wait = state.waits.get(wait_id)
        if wait is None or wait.subject != "call":
            return False
        return "approve" in wait.rules.verdicts
    return any(
        isinstance(call.state, Ready) and call.approved_digest is not None
        for call in state.calls.values()
    )


async def snapshot_of(
    page: Page, run_id: str, version: int | None
) -> RunSnapshot | None:
    """Return what a page of a run shows; `None` if the open page has it already."""
    if version is None:
        return await page.live.run_snapshot(run_id, page.request.headers)
    objects = Objects(page.runner.store)
    window = await read_window(objects, run_id, version=version)
    return RunSnapshot(window=window)


async def _acts(page: Page, run: RunView) -> dict[str, Any]:
    """Return the acts that the page offers: rights, and buttons with their paths."""
    buttons: list[tuple[str, str]] = []
    message = await page.may("message", run.run_id)
    cancel = not run.has_ended and await page.may("cancel", run.run_id)
    if not run.has_ended:
        if message and run.may_resume:
            buttons.append(("resume", "Resume"))
        if message and run.may_reopen:
            buttons.append(("reopen", "Ask again"))
        if cancel:
            pause = (
                ("unpause", "End the pause") if run.is_paused else ("pause", "Pause")
            )
            buttons.append(pause)
    return {
        "message": message and not (run.has_ended or run.is_workflow),
        "fork": await page.may("fork", run.run_id),
        "cancel": cancel,
        "buttons": buttons,
    }


def number_of(text: str | None, name: str) -> int | None:
    """Return a number of the query, or `None`; refuse another text."""
    if text is None:
        return None
    number = request_fields.digits(text, _MAX_DIGITS)
    if number is None:
        msg = f'"{name}" must be a number. Use a link of the page "Versions".'
        raise problems.malformed(msg)
    return number


_SCRIPT = "live.js"


def following(page: Page, snapshot: RunSnapshot) -> dict[str, str] | None:
    """Return the stream and the cursor of an open page, for its script.

    `None` for a run that has ended.
    """
    run = snapshot.window.state.run
    if run.status in ENDED_STATUSES:
        return None
    path = page.live.stream(snapshot.cursor, run.id)
    return {"stream": page.url(path), "cursor": snapshot.cursor}


def live_shell(page: Page, follow: dict[str, str] | None) -> Shell:
    """Return the frame of a page that follows its run, if it does."""
    if follow is None:
        return page.shell
    scripts = (*page.shell.scripts, _SCRIPT)
    return replace(page.shell, is_live=True, scripts=scripts)


ROUTES = (PageRoute("/runs/{run}", show, rights=("view",)),)


# The first page shows so many levels. An opened row shows as many below it.
SHOWN_LEVELS = 3
MAX_ROWS = 300
_MIN_WIDTH = 4
_NOTE_CHARS = 60


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a row: what held, and where it stands on the axis."""

    kind: SpanKind
    x: int
    width: int


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
        icon: The icon of an agent, a task or a tool.
        name: Name of the agent, the task or the tool.
        note: Its title or arguments, shortened.
        state: Its state.
        bars: Its bars.
        times: When it ran, in words.
        is_selected: Whether it is the selected row.
        fold: The rows that are folded below it, or `None`.
    """

    key: str
    level: int
    indent: int
    left_out: int
    icon: str
    name: str
    note: str
    state: RowState
    bars: tuple[Bar, ...]
    times: PageText
    is_selected: bool
    fold: Fold | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The table of one page.

    Attributes:
        segments: The time axis.
        rows: The rows.
        total: Number of all rows of the run, shown or folded.
        opened: Key of the row that is opened below the first levels, or "".
        next_offset: Where the next page of rows begins, or 0.
        earlier: Number of the last version that the table leaves out, or 0.
    """

    segments: tuple[Segment, ...]
    rows: tuple[TreeRow, ...]
    total: int
    opened: str
    next_offset: int
    earlier: int


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


def tree(
    found: RunRows,
    states: dict[str, RowState],
    *,
    subject: str,
    earlier: int = 0,
    selected: str = "",
    opened: str = "",
    offset: int = 0,
) -> Tree:
    """Return the table.

    Args:
        found: All rows.
        states: Their states, by key.
        subject: The title of the run.
        earlier: Number of the last version that is left out.
        selected: Key of the selected row.
        opened: Key of the row that is opened. Default: the row above the selected one,
            if it is folded.
        offset: How many of the visible rows to leave out.
    """
    chosen = found.find(selected)
    focus = found.find(opened)
    if focus is None and chosen is not None and chosen.depth >= SHOWN_LEVELS:
        focus = chosen.parent
    visible = _visible(found.rows, focus)
    shown = visible[offset : offset + MAX_ROWS]
    more = offset + MAX_ROWS
    keys = {row.key for row in visible}
    return Tree(
        segments=found.time.segments,
        rows=tuple(
            TreeRow(
                key=row.key,
                level=row.depth + 1,
                indent=_indent(row, focus),
                left_out=_left_out(row, focus),
                icon=_icon(row),
                name=row.name,
                note=row_note(row) if row.parent else shorten(subject, _NOTE_CHARS),
                state=states[row.key],
                bars=_bars(row, found.time),
                times=_times(row),
                is_selected=row is chosen,
                fold=_fold(row, keys, states),
            )
            for row in shown
        ),
        total=len(found.rows),
        opened=focus.key if focus else "",
        next_offset=more if more < len(visible) else 0,
        earlier=earlier,
    )


# What is visible --------------------------------------------------------------


def _visible(rows: Sequence[RunRow], focus: RunRow | None) -> list[RunRow]:
    """Return the first levels, and some levels below the focus."""
    if focus is None:
        return [row for row in rows if row.depth < SHOWN_LEVELS]
    below = {focus.key}
    visible: list[RunRow] = []
    for row in rows:
        # Rows come after the row above them.
        is_below = row.parent is not None and row.parent.key in below
        if is_below and row.depth <= focus.depth + SHOWN_LEVELS:
            below.add(row.key)
        if row.depth < SHOWN_LEVELS or row.key in below:
            visible.append(row)
    return visible


def _indent(row: RunRow, focus: RunRow | None) -> int:
    if row.depth < SHOWN_LEVELS or focus is None:
        return row.depth
    return row.depth - max(focus.depth - SHOWN_LEVELS, 0)


def _left_out(row: RunRow, focus: RunRow | None) -> int:
    return row.depth - SHOWN_LEVELS if row is focus and row.depth > SHOWN_LEVELS else 0


def _fold(row: RunRow, visible: set[str], states: dict[str, RowState]) -> Fold | None:
    if all(child.key in visible for child in row.children):
        return None
    rows = waiting = 0
    pending = list(row.children)
    while pending:
        child = pending.pop()
        pending.extend(child.children)
        if child.key not in visible:
            rows += 1
            waiting += states[child.key].waits and not child.is_group
    return Fold(rows=rows, waiting=waiting)


# One row ----------------------------------------------------------------------


def _icon(row: RunRow) -> str:
    if row.is_task:
        return "task"
    return "agent" if row.is_agent else "tool"


def row_note(row: RunRow) -> str:
    """Return what a call is about: its title, or its arguments, shortened."""
    if row.wait is not None and row.wait.title is not None and not row.is_group:
        return shorten(row.wait.title, _NOTE_CHARS)
    return arguments_text(row.arguments_json or "", _NOTE_CHARS)


def _bars(row: RunRow, time: WorkingTime) -> tuple[Bar, ...]:
    return tuple(_bar(span, time) for span in row.spans)


def _bar(span: Span, time: WorkingTime) -> Bar:
    x = min(time.x(span.begin), AXIS_WIDTH - _MIN_WIDTH)
    end = AXIS_WIDTH if span.end is None else time.x(span.end)
    return Bar(span.kind, x, max(end - x, _MIN_WIDTH))


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


# The window ends with the wanted version, and becomes shorter until it is readable.
_LIMITS = (100, 50, 25, 12, 6, 3, 2, 1)


async def readable_snapshot(
    page: Page, run_id: str, version: int | None, damage: FormatError
) -> RunSnapshot:
    """Return the last versions that can be read; raise `FormatError` without any."""
    if isinstance(damage, NewerFormat):
        raise damage
    objects = Objects(page.runner.store)
    for limit in _LIMITS:
        try:
            window = await read_window(objects, run_id, version=version, limit=limit)
        except FormatError:
            continue
        return RunSnapshot(window=window)
    window = await _single_version(objects, run_id, version)
    return RunSnapshot(window=window)


async def _single_version(
    objects: Objects, run_id: str, version: int | None
) -> VersionWindow:
    """Return a version without its past; raise the damage if it depends on it."""
    versions = Versions(objects, run_id)
    newest = await versions.newest_number()
    loaded = await versions.load(newest if version is None else version)
    state = loaded.state
    state.read_messages()
    only = VersionEvents(number=loaded.number, at=loaded.at, run=state.run, events=())
    return VersionWindow(
        before=state, versions=(only,), state=state, newest_number=newest
    )
