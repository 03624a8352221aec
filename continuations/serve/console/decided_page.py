"""The decisions of all runs: by whom, where and when; also by rules and deadlines.

Decisions lie with their runs. A run is not older than its last decision, so the runs
are read in the order of their last change until the page is full. The lines and titles
that a process has read are kept.
"""

from __future__ import annotations

import re
from asyncio import gather
from datetime import date, timedelta, timezone
from typing import TYPE_CHECKING, Any

from continuations.core.reading import run_stream
from continuations.core.rows.wait_rules import WAIT_RULES
from continuations.engine.event_reading import read_window
from continuations.errors import ContinuationsError
from continuations.ledger.objects import Objects, in_batches
from continuations.present.times import time_view
from continuations.present.wait_view import row_texts
from continuations.present.wait_words import DECISION_WORDS, decision_word
from continuations.serve.console.inbox_page import NOT_COMPLETE, tabs
from continuations.serve.console.page import Page, PageRoute, place_of, run_of_wait
from continuations.serve.console.runs_page import list_note
from continuations.serve.console.wait_list import count_waits, counted_shell, read_lists
from continuations.serve.http import problems
from continuations.value_class import dataclass
from continuations.wire.fields import from_milliseconds, to_milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from continuations.core.reading.audit import AuditLine
    from continuations.serve.console.known_runs import KnownRun
    from continuations.serve.http.request_response import Response

PAGE_LINES = 50
# A page reads the decisions of at most so many further runs.
_MAX_RUNS_READ, _PARALLEL_READS = 300, 20
_MAX_FILTER_CHARS = 200
_OFFSET = re.compile(r"-?[0-9]{1,3}\Z")
_VERDICT_ICONS = {
    "approve": ("ok", "is-ok"),
    "deny": ("warn", "is-danger"),
    "fail": ("warn", "is-danger"),
    "expire": ("clock", ""),
    "cancel": ("warn", ""),
}
_OTHER_WORDS = {
    "vote approve": "Voted to approve",
    "vote answer": "Voted for an answer",
    "revoke": "Grant revoked",
    "drop": "Signals dropped",
    "pause": "Paused",
    "unpause": "Pause ended",
    "escalate": "Escalated",
}
_SHOWN = DECISION_WORDS.keys() | _OTHER_WORDS.keys()
_PLACES = {
    "console": "in the console",
    "http": "over the API",
    "link": "by a link",
    "cli": "on the command line",
    "python": "by the application",
    "lambda event": "by the application",
    "slack": "in Slack",
    "mcp": "over MCP",
    "a2a": "over A2A",
    "ag-ui": "in the application",
    "callback": "by another system",
    "webhook": "by another system",
    "signal": "by a signal",
    "operator": "by an operator",
    "deadline": "at the deadline",
    "end of the run": "at the end of the run",
}


@dataclass(frozen=True, slots=True)
class DecidedFilter:
    """The choice of decisions that a person makes.

    Attributes:
        by: A part of the name of who decided; "" for all.
        day: The day of the decisions in the zone of the reader; `None` for all.
        offset: Minutes by which this zone is ahead of UTC. A script sends it.
    """

    by: str
    day: date | None
    offset: int

    @classmethod
    def of_query(cls, query: Mapping[str, str]) -> DecidedFilter:
        """Return the filter of a query; an unknown value is refused."""
        if not query.keys() <= {"by", "day", "offset", "after"}:
            raise problems.malformed(
                'The query may have "by", "day", "offset" and "after".'
            )
        text = query.get("day", "")
        try:
            day = date.fromisoformat(text) if text else None
        except ValueError:
            msg = '"day" must be a date such as 2026-11-29.'
            raise problems.malformed(msg) from None
        minutes = query.get("offset", "") or "0"
        if not _OFFSET.match(minutes):
            raise problems.malformed('"offset" must be minutes, such as 60 or -300.')
        by = query.get("by", "").strip()[:_MAX_FILTER_CHARS]
        return cls(by, day, int(minutes))

    @property
    def fields(self) -> dict[str, str]:
        """The filter as the fields of a query."""
        day = "" if self.day is None else self.day.isoformat()
        offset = str(self.offset) if day and self.offset else ""
        fields = {"by": self.by, "day": day, "offset": offset}
        return {name: text for name, text in fields.items() if text}

    @property
    def _zone(self) -> timezone:
        return timezone(timedelta(minutes=self.offset))

    def may_have(self, run: KnownRun) -> bool:
        """Return whether a run may have decisions of the day."""
        if self.day is None:
            return True
        # The neighbours of the day too, for the zone.
        started, ended = run.summary.created_at, from_milliseconds(run.acted_ms)
        return (
            started is None or started.date().toordinal() <= self.day.toordinal() + 1
        ) and ended.date().toordinal() >= self.day.toordinal() - 1

    def accepts(self, line: AuditLine) -> bool:
        """Return whether a line is shown."""
        people = f"{line.by or ''}\n{line.rule or ''}".casefold()
        return (
            line.verdict in _SHOWN
            and self.by.casefold() in people
            and (self.day is None or line.at.astimezone(self._zone).date() == self.day)
        )


async def show(page: Page) -> Response:
    """Show a page of decisions, the newest first."""
    chosen = DecidedFilter.of_query(page.query)
    start = _start(page)
    known = page.live.known_runs
    age = await read_lists(page, with_ended=True)
    lines, following, since = await _find(page, chosen, start)
    titles = await titles_of(page, (each.wait for each in lines if each.wait))
    now = page.clock.now()
    return page.render(
        "decided.html",
        shell=await counted_shell(page),
        tabs=tabs("decided", await count_waits(page)),
        lines=[_view(each, titles, known.get(each.run), now) for each in lines],
        by=chosen.by,
        day=chosen.fields.get("day", ""),
        offset=chosen.fields.get("offset", ""),
        is_filtered=bool(chosen.fields),
        # The time may be that of a run that the person may not see.
        since=None if since is None or page.sees else time_view(since, now),
        note=list_note(page, with_ended=True),
        age=age,
        is_first=start is None,
        first=page.url("/inbox/decided"),
        next=page.next_page("/inbox/decided", following, **chosen.fields),
    )


# Finding the lines -----------------------------------------------------------------

_Place = tuple[int, str]


@dataclass(frozen=True, slots=True)
class _Start:
    """Where a page begins.

    Attributes:
        line: The place after which its lines stand.
        run: The place of the first run that no earlier page has read.
    """

    line: _Place
    run: _Place

    @classmethod
    def of_cursor(cls, cursor: str) -> _Start:
        """Return the start of a cursor; another text is refused."""
        places = (place_of(text, NOT_COMPLETE) for text in cursor.partition("|")[::2])
        return cls(*((-ms, key) for ms, key in places))

    @property
    def cursor(self) -> str:
        """The start as a text."""
        return "|".join(f"{-ms}/{key}" for ms, key in (self.line, self.run))


def _start(page: Page) -> _Start | None:
    after = page.query.get("after", "")
    return _Start.of_cursor(page.cursors().open(after)) if after else None


def _place(line: AuditLine) -> _Place:
    return -to_milliseconds(line.at), f"{line.wait or line.run} {line.verdict}"


async def _find(
    page: Page, chosen: DecidedFilter, start: _Start | None
) -> tuple[list[AuditLine], str | None, datetime | None]:
    """Return the next lines, the cursor of the next page, and how far it looked."""
    runs = [run for run in page.live.known_runs.by_act() if chosen.may_have(run)]
    found: list[AuditLine] = []
    reads = first = 0
    while first < len(runs):
        bound = runs[first].place("acted")
        # No run that follows has a newer line.
        certain = [line for line in found if _place(line)[0] < bound[0]]
        if len(certain) > PAGE_LINES or reads >= _MAX_RUNS_READ:
            break
        group = runs[first : first + _PARALLEL_READS]
        first += len(group)
        # The runs of earlier pages are not counted, so each page goes on.
        if start is None or bound >= start.run:
            reads += sum(not _is_kept(page, run) for run in group)
        for lines in await gather(*(_lines_of(page, run) for run in group)):
            found += [
                line
                for line in lines
                if chosen.accepts(line) and (start is None or _place(line) > start.line)
            ]
    else:
        certain = found
    certain = sorted(certain, key=_place)
    shown = certain[:PAGE_LINES]
    if first >= len(runs) and len(certain) <= PAGE_LINES:
        return shown, None, None
    following = runs[first] if first < len(runs) else runs[-1]
    run_place = following.place("acted")
    # Without a full page, the lines of the runs that were read are all shown.
    line_place = _place(shown[-1]) if shown else (run_place[0] - 1, "~")
    cursor = page.cursors().seal(_Start(line_place, run_place).cursor)
    return shown, cursor, from_milliseconds(following.acted_ms)


def _is_kept(page: Page, run: KnownRun) -> bool:
    kept = page.live.audits.get(run.run_id)
    return kept is not None and kept[0] == run.acted_ms


async def _lines_of(page: Page, run: KnownRun) -> Sequence[AuditLine]:
    """Return the lines of a run that the person may see."""
    if not await page.may("view", run.run_id):
        return ()
    if not _is_kept(page, run):
        try:
            lines = await page.runner.audit(run.run_id, past=False)
        except ContinuationsError:
            return ()  # erased since it was listed, or damaged: its page says so
        page.live.audits.put(run.run_id, (run.acted_ms, lines))
    return page.live.audits[run.run_id][1]


# Words -----------------------------------------------------------------------------


async def titles_of(page: Page, wait_ids: Iterable[str]) -> Mapping[str, str]:
    """Return the effects of decided waits, by wait id.

    The run of a wait that is not in memory is read.
    """
    titles = page.live.waits.known.titles
    missing = list(dict.fromkeys(run_of_wait(w) for w in wait_ids if w not in titles))
    for group in in_batches(missing, _PARALLEL_READS):
        await gather(*(_read_titles(page, run_id) for run_id in group))
    return titles


async def _read_titles(page: Page, run_id: str) -> None:
    try:
        window = await read_window(Objects(page.runner.store), run_id)
    except ContinuationsError:
        return  # the line says which kind of wait it was
    for version in window.versions:
        for event in version.events:
            if isinstance(event, run_stream.WaitOpened):
                title = row_texts(event.wait).title
                page.live.waits.known.titles.put(event.wait.id, title)


def _view(
    line: AuditLine, titles: Mapping[str, str], run: KnownRun | None, now: datetime
) -> dict[str, Any]:
    """Return one line of the table, in words."""
    icon, tone = _VERDICT_ICONS.get(line.verdict, ("ring", ""))
    run_title = line.run if run is None else run.title
    word = _WORDS_OF_KINDS.get(line.kind) or line.kind.capitalize()
    door = line.door or ""
    return {
        "at": time_view(line.at, now),
        "icon": icon,
        "tone": tone,
        "verdict": _OTHER_WORDS.get(line.verdict)
        or decision_word(line.wait or "", line.verdict),
        "effect": titles.get(line.wait or "") or f"{word} of {run_title}",
        "path": f"/runs/{line.run}" if line.wait is None else f"/waits/{line.wait}",
        "run": line.run,
        "run_title": run_title,
        "who": line.by or line.rule or "nobody",
        "rule": line.rule if line.by and line.rule else "",
        "where": _PLACES.get(door, f"by {door}") if door else "",
        "reason": line.reason or "",
    }


_WORDS_OF_KINDS: dict[str, str] = {
    kind: rules.words.word for kind, rules in WAIT_RULES.items()
}

ROUTES = (PageRoute("/inbox/decided", show),)
