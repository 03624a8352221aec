"""The inbox: what waits for this person, and for everybody.

A page costs one listing of the keys of waits and one page of markers, and a read for
each row. The counts of the other waits cost a listing each. A filter that leaves most
waits out reads a few pages at most, and then offers to go on. The number of waits never
changes the memory of a page.

The page of decisions says by whom, when and how; also by rules and deadlines.
"""

from __future__ import annotations

from asyncio import gather
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from continuations.core.rows.wait_rules import COUNTED_KINDS, WAIT_RULES
from continuations.core.rows.waits import Wait
from continuations.errors import InvalidInput, RunErased, RunNotFound
from continuations.ledger.decisions.worklist import with_votes
from continuations.ledger.index.waits import PEOPLES_KINDS
from continuations.ledger.index.waits_without_object import find_runs_awaiting_models
from continuations.ledger.objects import Objects
from continuations.present import wait_view
from continuations.present.times import PageText, time_view
from continuations.present.wait_words import DECISION_WORDS, awaiting_models_words
from continuations.serve.console.live_pages import AFTER_HEADER, CURSOR_HEADER
from continuations.serve.console.page import Page, PageRoute
from continuations.serve.http import problems
from continuations.serve.http.cursors import ListPage
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from continuations.core.reading.audit import AuditLine
    from continuations.ledger.decisions.worklist import ListedWait
    from continuations.serve.http.request_response import Response

PAGE_ROWS = 50
_MAX_PAGES_READ = 4
_MAX_COUNTED = 100
_AWAITED: dict[str, str] = {
    kind: rules.awaited for kind, rules in WAIT_RULES.items() if not rules.asks_person
}
_MODEL_ICON = next(rules.words.icon for rules in WAIT_RULES.values() if rules.may_wake)
_NOT_COMPLETE = "The address of this page is not complete. Open the inbox again."
_KEYS = {
    "j": "next row",
    "k": "row before",
    "Enter": "open the row",
    "/": "filter",
    "g i": "go to the inbox",
    "g r": "go to the runs",
    "n": "next wait",
    "p": "wait before",
    "a": "move to the first field, or to Approve, without deciding",
    "d": "move to the reason of a denial, without deciding",
    "?": "this page",
}
_FIRST_USE = """\
from continuations import Agent, Runner, tool
@tool(approval=True)
def pay(cents: int, to: str) -> str:
    return f"paid {cents} to {to}"
agent = Agent("clerk", tools=[pay], model="gpt-5-mini")
Runner(agent, store="sqlite:runs.db").start("Pay Jane 5 euros", run_id="jane-1")"""


@dataclass(frozen=True, slots=True)
class Filter:
    """The choice of waits that a person makes.

    Attributes:
        whose: `me` for the waits that the person may decide, or `all`.
        kind: One kind, or an empty text.
        q: Words that a row must have.
    """

    whose: str
    kind: str
    q: str

    @classmethod
    def of_query(cls, query: Mapping[str, str]) -> Filter:
        """Return the filter of a query; an unknown value is refused."""
        whose, kind = query.get("for", "me"), query.get("kind", "")
        if whose not in ("me", "all") or kind not in {"", *PEOPLES_KINDS}:
            kinds = ", ".join(sorted(PEOPLES_KINDS))
            msg = f'"for" must be "me" or "all", and "kind" one of {kinds}.'
            raise problems.malformed(msg)
        return cls(whose, kind, query.get("q", "").strip()[:200])

    def query_text(self, **more: str) -> str:
        """Return the filter as a query with a question mark; empty for the default."""
        own = {"for": self.whose, "kind": self.kind, "q": self.q, **more}
        chosen = {k: v for k, v in own.items() if v and (k, v) != ("for", "me")}
        return f"?{urlencode(chosen)}" if chosen else ""


async def home(page: Page) -> Response:
    """Redirect to the inbox."""
    return page.see_other("/inbox")


async def show(page: Page) -> Response:
    """Show what waits, and change nothing."""
    cursor = await page.live.waits_cursor(page.sees)
    return page.render("inbox.html", **await inbox_context(page, cursor))


async def show_rows(page: Page) -> Response:
    """Show the rows alone, for a page that is open; 204 if it has them already."""
    cursor = await page.live.waits_cursor(page.sees)
    if cursor and page.request.headers.get(AFTER_HEADER) == cursor:
        return page.unchanged()
    rows = page.render("inbox_rows.html", **await inbox_context(page, cursor))
    return replace(rows, headers={**rows.headers, CURSOR_HEADER: cursor})


async def show_keys(page: Page) -> Response:
    """Show the keys, and the switch that turns them off."""
    return page.render("keys.html", keys=_KEYS)


async def inbox_context(page: Page, cursor: str) -> dict[str, Any]:
    """Return everything that the templates of the inbox name, after a cursor."""
    chosen = Filter.of_query(page.query)
    after = page.query.get("after", "")
    found = await find_waits(page, chosen, after)
    rest = await _count_others(page)
    more = None if found.next is None else chosen.query_text(after=found.next)
    title = _title(chosen, len(found.rows), is_all=not after and more is None)
    is_empty = not found.rows and more is None and not after
    is_unfiltered = not (chosen.kind or chosen.q)
    first_use = ""
    if is_empty and is_unfiltered and not rest and await _is_new(page):
        first_use = _FIRST_USE
    now = page.clock.now()
    kinds = sorted(PEOPLES_KINDS)
    waits = await _with_votes(page, found.rows, chosen)
    return {
        "title": title,
        "tabs": tabs(chosen.whose),
        "rows": [wait_view.inbox_row(row, now) for row in waits],
        "empty": _empty(chosen, bool(rest)) if is_empty else "No more waits.",
        "first_use": first_use,
        "more": None if more is None else f"/inbox{more}",
        "rest": rest,
        "filter": chosen.query_text(),
        "here": chosen.query_text(**({"after": after} if after else {})),
        "stream": page.url(page.live.stream(cursor)),
        "cursor": cursor,
        "whose": chosen.whose,
        "kind": chosen.kind,
        "q": chosen.q,
        "kinds": {kind: WAIT_RULES[kind].words.word for kind in kinds},
    }


async def find_waits(
    page: Page, chosen: Filter, after: str, *, max_pages: int | None = None
) -> ListPage[ListedWait]:
    """Return the next rows that a filter leaves, from a few pages at most."""
    words = chosen.q.split()
    rows: list[ListedWait] = []
    cursor: str | None = page.cursors().open(after)
    for _ in range(max_pages or _MAX_PAGES_READ):
        try:
            listed = await page.runner.worklist(
                after=cursor or "",
                limit=PAGE_ROWS,
                kinds=[chosen.kind] if chosen.kind else None,
                approver=page.identity if chosen.whose == "me" else None,
            )
        except InvalidInput as error:
            if after and cursor == page.cursors().open(after):
                raise problems.malformed(_NOT_COMPLETE) from error
            raise
        rows += [
            row
            for row in listed.waits
            if wait_view.matches(row.wait, words)
            and await page.may("view", row.wait.run_id)
        ]
        cursor = listed.next
        if cursor is None or len(rows) >= PAGE_ROWS:
            break
    last_shown = rows[-1].wait.id if rows else None
    following = page.cursors().following(cursor, last_shown)
    return ListPage(rows=tuple(rows), next=following)


async def _with_votes(
    page: Page, rows: tuple[ListedWait, ...], chosen: Filter
) -> list[ListedWait]:
    """Return the rows with their votes, which the list of one person has already."""
    if chosen.whose == "me":
        return list(rows)
    objects = Objects(page.runner.store)
    found = await gather(*(with_votes(objects, row.wait) for row in rows))
    return [
        replace(row, wait=wait)
        for row, wait in zip(rows, found, strict=True)
        if isinstance(wait, Wait)
    ]


def tabs(current: str) -> list[tuple[str, str, bool]]:
    """Return the tabs of the inbox: words, path, and whether it is the current one."""
    return [
        ("For you", "/inbox", current == "me"),
        ("Everybody", "/inbox?for=all", current == "all"),
        ("Decided", "/inbox/decided", current == "decided"),
    ]


def _title(chosen: Filter, count: int, *, is_all: bool) -> str:
    person = "you" if chosen.whose == "me" else "people"
    if not is_all:
        return f"Decisions that wait for {person}"
    if not count:
        return "Nothing waits for you" if chosen.whose == "me" else "Nothing waits"
    if count == 1:
        return f"1 decision waits for {person}"
    return f"{count:,} decisions wait for {person}"


def _empty(chosen: Filter, has_others: bool) -> str:
    if chosen.kind or chosen.q:
        return "No wait fits this filter."
    return (
        "Some waits need no person: they are below."
        if has_others
        else "A run that needs a decision appears here."
    )


async def _is_new(page: Page) -> bool:
    async for _ in page.runner.runs():
        return False
    return True


async def _count_others(page: Page) -> list[tuple[str, str, str]]:
    """Return how many waits need no person, from keys; timers are not counted.

    Each has an icon, words, and a path or "".
    """
    rest: list[tuple[str, str, str]] = []
    for kind, noun in COUNTED_KINDS.items():
        count = 0
        async for summary in page.runner.waiting(kinds=[kind]):
            count += await page.may("view", summary.run_id)
            if count == _MAX_COUNTED:
                break
        if count:
            shown = f"{count}+" if count == _MAX_COUNTED else str(count)
            nouns = noun if count == 1 else f"{noun}s"
            rest.append((WAIT_RULES[kind].words.icon, f"{shown} {nouns}", ""))
    found = await find_runs_awaiting_models(Objects(page.runner.store))
    run_ids = tuple([each for each in found.run_ids if await page.may("view", each)])
    words = awaiting_models_words(replace(found, run_ids=run_ids))
    if words:
        path = f"/runs/{run_ids[0]}" if len(run_ids) == 1 else "/inbox/others"
        rest.append((_MODEL_ICON, words, path))
    return rest


async def show_others(page: Page) -> Response:
    """List the waits that need no person; timers are read from their runs."""
    rows: dict[str, str] = {}
    more = ""
    async for summary in page.runner.waiting(kinds=list(_AWAITED)):
        if not await page.may("view", summary.run_id):
            continue
        if len(rows) == _MAX_COUNTED:
            more = "There are more of them. The pages of their runs show each."
            break
        awaited = _AWAITED[summary.kind]
        path = page.url(f"/runs/{summary.run_id}")
        rows[path] = f"{summary.run_id} waits for {awaited}"
    text = more or ("" if rows else "There are none.")
    return page.message("Waits that need no person", text, rows)


# What was decided ----------------------------------------------------------------

# Decisions lie with their runs, so a page reads the records of a few runs: the live
# ones first, then those that ended, by their days. It reads at most so many runs, also
# if it shows few of them.
_RUNS_SHOWN, _MAX_RUNS_READ = 20, 500
_VERDICT_ICONS = {
    "approve": ("ok", "is-ok"),
    "deny": ("warn", "is-danger"),
    "fail": ("warn", "is-danger"),
    "expire": ("clock", ""),
    "cancel": ("warn", ""),
}
_OTHER_WORDS = {
    "vote approve": "Vote to approve",
    "vote answer": "Vote to answer",
    "revoke": "Grant revoked",
    "drop": "Signals dropped",
    "pause": "Paused",
    "unpause": "Pause ended",
    "escalate": "Escalated",
}


async def show_decided(page: Page) -> Response:
    """Show the decisions of some runs, the newest first."""
    after = page.cursors().open(page.query.get("after", ""))
    try:
        runs = await page.read_list(
            page.runner.runs(after=after),
            limit=_RUNS_SHOWN,
            max_read=_MAX_RUNS_READ,
            cursor_of=lambda each: each.cursor,
        )
    except InvalidInput as error:
        raise problems.malformed(_NOT_COMPLETE) from error
    audits = await gather(*(_audit(page, each.run_id) for each in runs.rows))
    lines = [line for audit in audits for line in audit if line.verdict in _SHOWN]
    lines.sort(key=lambda line: line.at, reverse=True)
    return page.render(
        "decided.html",
        tabs=tabs("decided"),
        lines=[_decided_line(line, page.clock.now()) for line in lines],
        next=page.next_page("/inbox/decided", runs.next),
    )


_WORDS_OF_KINDS: dict[str, str] = {
    kind: rules.words.word for kind, rules in WAIT_RULES.items()
}
_SHOWN = DECISION_WORDS.keys() | _OTHER_WORDS.keys()


async def _audit(page: Page, run_id: str) -> list[AuditLine]:
    try:
        return await page.runner.audit(run_id, past=False)
    except (RunErased, RunNotFound):
        return []  # erased since it was listed


def _decided_line(line: AuditLine, now: datetime) -> dict[str, PageText]:
    """Return one line of the table, in words."""
    icon, tone = _VERDICT_ICONS.get(line.verdict, ("ring", ""))
    # The door, and how it knew the person.
    how = line.door or "not recorded"
    if line.authentication:
        how = f"{how}, by {line.authentication}"
    word = _WORDS_OF_KINDS.get(line.kind) or line.kind.capitalize()
    return {
        "at": time_view(line.at, now),
        "icon": icon,
        "tone": tone,
        "verdict": DECISION_WORDS.get(line.verdict) or _OTHER_WORDS[line.verdict],
        "what": f"{word} of {line.run}",
        "path": f"/runs/{line.run}" if line.wait is None else f"/waits/{line.wait}",
        "who": line.by or line.rule or "no person",
        "how": f"{how}; {line.rule}" if line.by and line.rule else how,
        "reason": line.reason or "",
    }


ROUTES = (
    PageRoute("/", home),
    PageRoute("/inbox", show),
    PageRoute("/inbox/rows", show_rows),
    PageRoute("/keys", show_keys),
    PageRoute("/inbox/others", show_others),
    PageRoute("/inbox/decided", show_decided),
)
