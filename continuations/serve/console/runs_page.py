"""The lists of runs: with filters, with the grants of live runs, and with their drift.

`/grants` has the approvals that live runs remember, and revokes them. `/drift` shows
the effect of the code of this console on the waiting runs.
"""

from __future__ import annotations

from asyncio import gather
from bisect import bisect_right
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from continuations.core.rows.run import ENDED_STATUSES, is_label
from continuations.core.visible_text import shorten
from continuations.engine.past.drift import DriftRow, DriftVerdict, allowed_changes
from continuations.errors import ContinuationsError, InvalidInput
from continuations.ledger.layout import is_thread_id
from continuations.present.search_words import SearchWords
from continuations.present.times import counted, time_view
from continuations.serve.console.known_runs import (
    MAX_ENDED_RUNS,
    KnownRun,
    RunQuery,
)
from continuations.serve.console.live_pages import AFTER_HEADER, AT_HEADER, seal_place
from continuations.serve.console.page import Page, PageRoute, RunAddresses, place_of
from continuations.serve.console.wait_list import (
    counted_shell,
    read_lists,
    read_rows,
    shown_range,
)
from continuations.serve.http import problems
from continuations.serve.http.cursors import ListPage
from continuations.serve.pages.run_states import STATE_MENU, StatePill, status_pill
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from datetime import datetime

    from continuations.core.rows.grants import KeptGrant
    from continuations.ledger.index.run_listing import RunSummary
    from continuations.serve.http.request_response import Response


ROWS_PER_PAGE = 25
# A page asks for the rights of at most so many runs, also if it shows few of them.
_MAX_READ = 500
_FILTERS = ("q", "status", "agent", "label", "time", "order")
# Words that links of other pages and of other releases have.
_STATUSES = {
    "": "Every state",
    "live": "Live",
    **STATE_MENU,
    "ended": "Ended",
}
_HIDDEN_STATUSES = {"suspended": "Suspended"}
_SPANS = {
    "1h": ("hour", timedelta(hours=1)),
    "1d": ("day", timedelta(days=1)),
    "7d": ("7 days", timedelta(days=7)),
    "30d": ("30 days", timedelta(days=30)),
}
_TIMES = {
    "": "Any time",
    **{
        f"started-{name}": f"Started in the last {words}"
        for name, (words, _) in _SPANS.items()
    },
    **{
        f"ended-{name}": f"Ended in the last {words}"
        for name, (words, _) in _SPANS.items()
    },
}
_ORDERS = {"": "Last change first", "started": "Last start first"}


async def show(page: Page) -> Response:
    """Show a page of runs."""
    query = page.query
    if not query.keys() <= {*_FILTERS, "after"}:
        raise problems.malformed(f"The query may have {', '.join(_FILTERS)}, after.")
    chosen = {name: query[name] for name in _FILTERS if query.get(name)}
    wanted = run_query(chosen, page.clock.now())
    found = await list_page(page, wanted, query.get("after", ""))
    if found is None:
        return page.unchanged()
    is_filtered = bool(chosen.keys() - {"order"})
    status = chosen.get("status", "")
    return page.render(
        "runs.html",
        shell=await counted_shell(page),
        found=found,
        rows=found.rows,
        filter={name: chosen.get(name, "") for name in _FILTERS},
        statuses=_STATUSES | {k: v for k, v in _HIDDEN_STATUSES.items() if k == status},
        # The names of agents of runs that a person may not see are not listed.
        agents=_agents(page, chosen) if page.sees is None else None,
        times=_TIMES,
        orders=_ORDERS,
        is_filtered=is_filtered,
        is_first="after" not in query,
        first=page.list_address("/runs", **chosen),
        next=page.next_page("/runs", found.next, **chosen),
    )


def _agents(page: Page, chosen: Mapping[str, str]) -> dict[str, str]:
    """Return the menu of the agents that exist."""
    names = {*page.live.known_runs.agents, *filter(None, (chosen.get("agent"),))}
    return {"": "Every agent", **{name: name for name in sorted(names)}}


def run_query(chosen: Mapping[str, str], now: datetime) -> RunQuery:
    """Return which runs a query asks for; an unknown value is refused."""
    status, time = chosen.get("status", ""), chosen.get("time", "")
    order = chosen.get("order", "")
    label = "=".join(map(str.strip, chosen.get("label", "").split("=")))
    known = {
        "status": {**_STATUSES, **_HIDDEN_STATUSES},
        "time": _TIMES,
        "order": _ORDERS,
    }
    for name, values in known.items():
        if chosen.get(name, "") not in values:
            words = ", ".join(filter(None, values))
            msg = f'"{name}" must be one of {words}, got {chosen[name]!r:.60}.'
            raise problems.malformed(msg)
    if label and not is_label(*label.partition("=")[::2]):
        raise problems.malformed('"label" must be NAME=VALUE, such as team=finance.')
    event, _, span = time.partition("-")
    since = now - _SPANS[span][1] if span else None
    return RunQuery(
        words=SearchWords.of_query(chosen.get("q", "")),
        status=status,
        agent=chosen.get("agent", ""),
        label=label,
        started_since=since if event == "started" else None,
        ended_since=since if event == "ended" else None,
        order=order or "changed",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRuns:
    """One page of a list of runs.

    Attributes:
        rows: The rows, for the template.
        next: The cursor of the next page, or "".
        range: The places of the rows, such as `26 to 50 of 120 runs`; "" if the
            person may not know how many there are.
        note: How much is not read yet, or "".
        age: How old the list is, or "".
        stream: The address of the events of the list.
        cursor: The cursor of the list, if its page asks for changes.
    """

    rows: list[dict[str, Any]]
    next: str
    range: str
    note: str
    age: str
    stream: str
    cursor: str


async def list_page(page: Page, wanted: RunQuery, after: str) -> FoundRuns | None:
    """Return one page of runs that the person may see; `None` if it has not changed.

    The list comes from memory. The rows that are shown are read again, but not for a
    page that is open while the lister follows the runs.
    """
    live, headers = page.live, page.request.headers
    known = live.known_runs
    with_ended = wanted.status not in ("live", *_LIVE_STATES)
    is_open, age = AT_HEADER in headers, ""
    if not (is_open and live.waits.follows_runs):
        age = await read_lists(page, with_ended=with_ended)
    cursor = live.waits.publish_runs()
    if page.sees is None and headers.get(AFTER_HEADER) == cursor:
        return None
    matching = known.find(wanted)
    skipped = _skipped(page, matching, wanted.order, after)
    found = await page.read_list(
        _each(matching[skipped:]),
        limit=ROWS_PER_PAGE,
        max_read=_MAX_READ,
        cursor_of=lambda run: _cursor(run, wanted.order),
    )
    now = page.clock.now()
    run_ids = [run.run_id for run in found.rows]
    if not is_open:
        rows_age = await read_rows(page, known.read_rows(run_ids))
        age = age or rows_age
    rows = [run for run in map(known.get, run_ids) if run is not None]
    count = len(matching) if page.sees is None else None
    return FoundRuns(
        rows=[list_row(run, now) for run in wanted.of(rows)],
        next=found.next or "",
        range=shown_range(
            skipped, len(found.rows), count, "thread" if wanted.is_thread else "run"
        ),
        note=list_note(page, with_ended=with_ended),
        age=age,
        stream=page.url(live.runs_stream(seal_place(page.cursors(), cursor))),
        cursor=cursor if page.sees is None else "",
    )


_LIVE_STATES = tuple(name for name in STATE_MENU if name not in ENDED_STATUSES)


async def _each(runs: Sequence[KnownRun]) -> AsyncIterator[KnownRun]:
    for run in runs:
        yield run


def _cursor(run: KnownRun, order: str) -> str:
    ms, run_id = run.place(order)
    return f"{-ms}/{run_id}"


def _skipped(page: Page, runs: Sequence[KnownRun], order: str, after: str) -> int:
    """Return how many runs earlier pages have shown."""
    if not after:
        return 0
    refusal = "The address of this page is not complete."
    ms, run_id = place_of(page.cursors().open(after), refusal)
    start = (-ms, run_id)
    # A run whose id is the whole search is the first one.
    is_exact = len(runs) > 1 and runs[0].place(order) > runs[1].place(order)
    if is_exact and runs[0].place(order) == start:
        return 1
    return bisect_right(runs, start, lo=int(is_exact), key=lambda run: run.place(order))


def list_note(page: Page, *, with_ended: bool) -> str:
    """Return how much of the list is not read yet."""
    known = page.live.known_runs
    missing, total = known.missing_live, len(known.live_ids)
    if with_ended:
        missing, total = known.missing, known.total
    if known.listed_at is None:
        return "Reading the runs."
    if with_ended and not known.has_ended_runs:
        return "Reading the runs that ended."
    if missing and page.sees is not None:
        return "Still reading the runs."
    if missing:
        return f"Reading the runs: {total - missing:,} of {total:,}."
    if with_ended and known.is_cut:
        return f"The list has the {MAX_ENDED_RUNS:,} runs that ended last."
    return ""


_TITLE_CHARS = 120


def list_row(run: KnownRun, now: datetime) -> dict[str, Any]:
    """Return the row of a run, and the words that the page shows."""
    summary = run.summary
    started, changed = summary.created_at, summary.updated_at
    messages = ""
    if summary.thread is not None:
        messages = counted(summary.messages, "message")
    return {
        "run": summary,
        "title": shorten(run.title, _TITLE_CHARS),
        "has_id": run.title != run.run_id,
        "state": run.state,
        "started": "" if started is None else time_view(started, now),
        "changed": "" if changed is None else time_view(changed, now),
        "awaits": run.awaits,
        "facts": (
            *filter(None, (summary.agent, summary.requester)),
            *(f"{name}={value}" for name, value in summary.labels.items()),
        ),
        "messages": messages,
    }


# The grants of a run are in the run: one page shows those of so many live runs. It
# reads more rows if some are hidden.
_RUNS_PER_PAGE = 50


async def show_grants(page: Page) -> Response:
    """Show the grants of some live runs."""
    after = page.cursors().open(page.query.get("after", ""))
    runs = await page.read_list(
        page.runner.runs(status="live", after=after),
        limit=_RUNS_PER_PAGE,
        max_read=_MAX_READ,
        cursor_of=lambda each: each.cursor,
    )
    found = await gather(*(_grants(page, each) for each in runs.rows))
    return page.render(
        "grants.html",
        rows=[row for rows in found for row in rows],
        next=page.next_page("/grants", runs.next),
    )


async def _grants(page: Page, run: RunSummary) -> list[dict[str, Any]]:
    try:
        grants = await page.runner.grants(run.run_id)
    except ContinuationsError:
        return []  # erased or damaged meanwhile
    if not grants:
        return []
    may_revoke = await page.may("decide", run.run_id)
    now = page.clock.now()
    return [grant_row(each, run, now, may_revoke=may_revoke) for each in grants]


def grant_row(
    grant: KeptGrant, run: RunSummary, now: datetime, *, may_revoke: bool
) -> dict[str, Any]:
    """Return a grant of a run, and the words that the page shows."""
    at = time_view(grant.at, now)
    return {
        "grant": grant,
        "run_id": run.run_id,
        "title": run.title or run.thread or run.run_id,
        "given": (f"{grant.by}, ", at) if grant.by else at,
        # Without a time, it ends with the run.
        "until": None if grant.until is None else time_view(grant.until, now),
        "may_revoke": may_revoke and not grant.revoked,
    }


# `drift` reads 20 runs at a time, so a page reads at most 40.
_DRIFT_ROWS_PER_PAGE = 30
_NOTHING: ListPage[DriftRow] = ListPage(rows=(), next=None)


async def show_drift(page: Page) -> Response:
    """Show a page of waiting runs, by run id; the refused ones stand first."""
    query = page.query
    if not query.keys() <= {"after"}:
        raise problems.malformed('The query may have "after". Use a link of this page.')
    has_agents, found = await _read_drift(page, query.get("after", ""))
    # The refused ones first.
    rows = sorted(found.rows, key=lambda row: (_ORDER.index(row.verdict), row.run_id))
    keys = await gather(*(_thread_key(page, row) for row in rows))
    root = page.shell.root
    return page.render(
        "drift.html",
        rows=[drift_row(*each, root) for each in zip(rows, keys, strict=True)],
        counts=counts_text(rows),
        kinds=_CHANGES,
        has_agents=has_agents,
        is_first="after" not in query,
        next=page.next_page("/drift", found.next),
    )


async def _thread_key(page: Page, row: DriftRow) -> str:
    """Return the key of a thread, whose id has a digest in its place; or ""."""
    if row.status != "unreadable" and is_thread_id(row.run_id):
        with suppress(ContinuationsError):  # erased or damaged meanwhile
            run = await page.runner.look(row.run_id)
            return run.run_state.run.thread_key or ""
    return ""


async def _read_drift(page: Page, after: str) -> tuple[bool, ListPage[DriftRow]]:
    """Return whether the runner has agents, and the rows that the person may see."""
    try:
        rows = page.runner.drift(after=page.cursors().open(after))
    except InvalidInput:
        return False, _NOTHING
    return True, await page.read_list(
        rows,
        limit=_DRIFT_ROWS_PER_PAGE,
        max_read=_DRIFT_ROWS_PER_PAGE,
        cursor_of=lambda row: row.run_id,
    )


# The first one needs a person most.
_VERDICTS: dict[DriftVerdict, tuple[StatePill, str]] = {
    "refuse": (StatePill("warn", "Refuses", "is-danger"), "refused"),
    "reopen": (StatePill("shield", "Asks again", "is-wait"), "asked about again"),
    "accept": (StatePill("ok", "Goes on", "is-ok"), "accepted"),
}
_ORDER = tuple(_VERDICTS)
_CHANGES = {
    "removed": "An agent or a tool is missing",
    "schema": "The tool has other parameters",
    "contract": "The tool has another contract",
    "approval": "The approval is not valid any more",
    "state": "A stored state does not fit the type of its agent",
    "model": "An agent has no model that can answer",
    "context": "The context has another type",
    "prices": "A price is missing, and the run has a budget in money",
    "policy": "The approval policy raised an exception",
    "stored": "A stored object cannot be read",
}


def counts_text(rows: Sequence[DriftRow]) -> str:
    """Return how many runs are refused, asked about again, and accepted."""
    counts = Counter(row.verdict for row in rows)
    parts = (f"{counts[name]} {_VERDICTS[name][1]}" for name in _ORDER if counts[name])
    return ", ".join(parts)


def drift_row(row: DriftRow, thread: str, root: str) -> dict[str, Any]:
    """Return a waiting run, and the words that the page shows.

    Args:
        row: The run, with the effect of the code on it.
        thread: Its key, if it is a thread; or "".
        root: The mount point of the console.
    """
    changes, more = allowed_changes(row)
    return {
        "row": row,
        "here": RunAddresses(root=root, run_id=row.run_id),
        "thread": thread,
        "state": status_pill(row.status),
        "verdict": _VERDICTS[row.verdict][0],
        "changes": (*changes, f"{more} more") if more else changes,
    }


ROUTES = (
    PageRoute("/runs", show),
    PageRoute("/drift", show_drift),
    PageRoute("/grants", show_grants),
)
