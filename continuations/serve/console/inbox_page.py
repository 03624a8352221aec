"""The inbox: what waits for this person, and for everybody.

A page lists the keys of the waits and the markers once. The waits themselves are those
that the process knows, so a filter searches all of them. Below are the counts of the
waits that need no person; `/inbox/others` has a row for each of them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from continuations.core.rows.wait_rules import WAIT_RULES, WaitKind
from continuations.core.rows.waits import Wait
from continuations.present.times import counted, left_text, left_view, time_view
from continuations.present.wait_view import InboxRow, damaged_row, inbox_row
from continuations.serve.console.live_pages import (
    AFTER_HEADER,
    CURSOR_HEADER,
    seal_place,
)
from continuations.serve.console.open_waits import KnownWait, WaitPlace
from continuations.serve.console.page import Page, PageRoute, place_of
from continuations.serve.console.runs_page import list_note
from continuations.serve.console.wait_list import (
    KINDS,
    MAX_CHECKED,
    OPEN_AGE,
    PAGE_ROWS,
    Filter,
    WaitList,
    count_waits,
    counted_shell,
    read_lists,
    read_rows,
    shown_range,
    time_limit,
)
from continuations.serve.http import problems
from continuations.value_class import dataclass, replace
from continuations.wire.fields import to_milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from continuations.serve.console.known_runs import KnownRun, OtherWait
    from continuations.serve.console.live_pages import WaitCounts
    from continuations.serve.http.request_response import Response

NOT_COMPLETE = "The address of this page is not complete. Open the inbox again."
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


async def home(page: Page) -> Response:
    """Redirect to the inbox."""
    return page.see_other("/inbox")


async def show(page: Page) -> Response:
    """Show what waits, and change nothing."""
    listed, start = WaitList.of(page), _start(page)
    age = await read_lists(page)
    cursor = await page.live.waits_cursor(page.sees)
    context = await inbox_context(listed, start, cursor, age)
    return page.render("inbox.html", **context)


async def show_rows(page: Page) -> Response:
    """Show the rows alone, for a page that is open; 204 if it has them already."""
    live = page.live
    if not live.follows_waits:
        await live.waits.listing.renew(time_limit(page))
    cursor = await live.waits_cursor(page.sees)
    if page.request.headers.get(AFTER_HEADER) == cursor:
        return page.unchanged()
    listed, start = WaitList.of(page), _start(page)
    age = await read_lists(page, lists_waits=False, max_age=OPEN_AGE)
    context = await inbox_context(listed, start, cursor, age)
    # Rows that are read in the background are not asked for again.
    context["age"] = age
    rows = page.render("inbox_rows.html", **context)
    return replace(rows, headers={**rows.headers, CURSOR_HEADER: context["cursor"]})


async def show_keys(page: Page) -> Response:
    """Show the keys, and the switch that turns them off."""
    return page.render("keys.html", keys=_KEYS)


async def inbox_context(
    listed: WaitList, start: WaitPlace | None, cursor: str, age: str
) -> dict[str, Any]:
    """Return everything that the templates of the inbox name.

    Args:
        listed: The waits.
        start: The place after which the page begins; `None` for the first page.
        cursor: The cursor of the listing.
        age: How old the listing is, in words; "" if it is of now.
    """
    page, chosen = listed.page, listed.chosen
    after = page.query.get("after", "")
    found = await _find(listed, start)
    rest = await _others_in_words(page)
    counts = await count_waits(page)
    is_unfiltered = not (chosen.kind or chosen.q)
    is_empty = not found.rows and not found.more and not after
    first_use = ""
    if is_empty and is_unfiltered and not rest["rest"] and not found.note:
        first_use = _FIRST_USE if await _is_new(page) else ""
    for_person = None if counts is None else counts.for_person
    has_place = page.sees is not None and page.live.mode == "events"
    return {
        "shell": replace(page.shell, open_waits=for_person),
        "title": _title(chosen, found),
        "tabs": tabs(chosen.whose, counts),
        "rows": found.rows,
        "note": found.note,
        "age": age or found.age,
        "range": found.range,
        "empty": _empty(chosen, bool(rest["rest"])) if is_empty else "No more waits.",
        "first_use": first_use,
        "first": f"/inbox{chosen.query_text()}" if after else "",
        "more": found.more,
        **rest,
        "filter": chosen.query_text(),
        "here": chosen.query_text(**({"after": after} if after else {})),
        "stream": page.url(page.live.stream(seal_place(page.cursors(), cursor))),
        # The place of a limited viewer is in the address of its stream alone.
        "cursor": "" if has_place else cursor,
        "whose": chosen.whose,
        "kind": chosen.kind,
        "q": chosen.q,
        "kinds": {"": "All kinds", **KINDS},
    }


def _start(page: Page) -> WaitPlace | None:
    after = page.query.get("after", "")
    if not after:
        return None
    place = WaitPlace.of_cursor(page.cursors().open(after))
    if place is None:
        raise problems.malformed(NOT_COMPLETE)
    return place


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The rows of one page.

    Attributes:
        rows: The rows.
        count: How many waits the filter leaves; `None` if it is not known.
        is_whole: Whether the page has all of them.
        range: The places of the rows, such as `51 to 100 of 120`; "" on a single page.
        more: The path of the next page, or "".
        note: How much is not read yet, or "".
        age: Which rows may be old, or "".
    """

    rows: Sequence[InboxRow]
    count: int | None
    is_whole: bool
    range: str
    more: str
    note: str
    age: str


async def _find(listed: WaitList, start: WaitPlace | None) -> _Found:
    page, known = listed.page, listed.page.live.waits.known
    found = await listed.find()
    count = len(found.places) if found.is_complete else None
    skipped = 0
    if count is None and start is not None:
        found = await listed.find(start, PAGE_ROWS)
    elif start is not None:
        skipped = sum(1 for place in found.places if place <= start)
    places = found.places[skipped : skipped + PAGE_ROWS]
    last: WaitPlace | None = found.last
    if skipped + len(places) < len(found.places):
        last = places[-1]
    shown_last = places[-1].wait_id if places else None
    more = page.cursors().following(None if last is None else last.cursor, shown_last)
    age = await read_rows(page, known.read_rows([each.wait_id for each in places]))
    now = page.clock.now()
    rows = [
        row
        for place in places
        # The right is asked again for what is shown: an old page needs it too.
        if await page.may("view", place.run_id)
        and (row := _row(page, place, known.get(place.wait_id), now)) is not None
    ]
    is_whole = start is None and more is None
    return _Found(
        rows=rows,
        count=count,
        is_whole=is_whole,
        range="" if is_whole else shown_range(skipped, len(places), count, "wait"),
        more="" if more is None else f"/inbox{listed.chosen.query_text(after=more)}",
        note=_reading_note(page, listed.chosen, len(places) - len(rows)),
        age=age,
    )


def _row(
    page: Page, place: WaitPlace, wait: KnownWait | None, now: datetime
) -> InboxRow | None:
    """Return the row of a wait; `None` if it was decided meanwhile."""
    if place.wait_id in page.live.waits.known.damaged:
        kind, _, _ = place.wait_id.partition("-")
        words = next(r.words for each, r in WAIT_RULES.items() if each == kind)
        return damaged_row(place.wait_id, words)
    if wait is None or not isinstance(wait.current, Wait):
        return None
    run = page.live.known_runs.get(place.run_id)
    if run is None:
        return inbox_row(wait.current, wait.texts, now)
    title, labels = run.summary.title, run.summary.labels.items()
    return inbox_row(wait.current, wait.texts, now, run_title=title, labels=labels)


def _reading_note(page: Page, chosen: Filter, left_out: int) -> str:
    """Return how much is not read yet, if the filter or a row needs it."""
    known = page.live.waits.known
    missing, total = known.missing, len(known.ids)
    if known.listed_at is None:
        return "Reading the waits."
    if chosen.q and not missing:
        return list_note(page, with_ended=False)
    if not missing or not (chosen.whose == "me" or chosen.q or left_out):
        return ""
    if page.sees is not None:
        return "Still reading the waits."
    return f"Reading the waits: {total - missing:,} of {total:,}."


def tabs(current: str, counts: WaitCounts | None) -> list[tuple[str, str, bool]]:
    """Return the tabs of the inbox: words, path, and whether it is the current one."""
    mine = "" if counts is None else f" {counts.for_person}"
    every = "" if counts is None else f" {counts.all}"
    return [
        (f"For you{mine}", "/inbox", current == "me"),
        (f"Everybody{every}", "/inbox?for=all", current == "all"),
        ("Decided", "/inbox/decided", current == "decided"),
    ]


def _title(chosen: Filter, found: _Found) -> str:
    person = "you" if chosen.whose == "me" else "people"
    if found.count is None or found.note:
        return f"Decisions that wait for {person}"
    if chosen.kind or chosen.q:
        fit = "fits" if found.count == 1 else "fit"
        return f"{counted(found.count, 'wait')} {fit} this filter"
    if not found.count:
        return "Nothing waits for you" if chosen.whose == "me" else "Nothing waits"
    verb = "waits" if found.count == 1 else "wait"
    return f"{counted(found.count, 'decision')} {verb} for {person}"


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


# Waits that need no person ---------------------------------------------------------

# A workflow sleeps in an alarm, and a tool in a timer: people see timers.
_MODEL = "wait for a model"
_NOUNS: dict[WaitKind, str] = {
    kind: _MODEL if rules.may_wake else rules.words.word.lower()
    for kind, rules in WAIT_RULES.items()
    if not (rules.asks_person or rules.ended_by_unpause)
}
_PLURALS = {_MODEL: "waits for models"}
_NO_DEADLINE = 10**15


@dataclass(frozen=True, slots=True, kw_only=True)
class _Other:
    """A wait that needs no person, and its run."""

    run: KnownRun
    wait: OtherWait

    @property
    def place(self) -> tuple[int, str]:
        """Its place: the next one first."""
        deadline = self.wait.deadline
        due_ms = _NO_DEADLINE if deadline is None else to_milliseconds(deadline)
        return due_ms, self.wait.wait_id


async def _others(page: Page) -> tuple[list[_Other], bool]:
    """Return the waits that need no person, and whether there may be more."""
    runs = [run for run in page.live.known_runs.live_runs() if run.others]
    sees, is_cut = page.sees, False
    if sees is not None:
        is_cut = len(runs) > MAX_CHECKED
        runs = [run for run in runs[:MAX_CHECKED] if await sees(run.run_id)]
    found = [_Other(run=run, wait=wait) for run in runs for wait in run.others]
    found.sort(key=lambda each: each.place)
    return found, is_cut


async def _others_in_words(page: Page) -> dict[str, Any]:
    """Return the counts of the waits that need no person, and the next one."""
    found, is_cut = await _others(page)
    counts = Counter(_NOUNS[each.wait.kind] for each in found)
    icons = {noun: WAIT_RULES[kind].words.icon for kind, noun in _NOUNS.items()}
    more = "+" if is_cut else ""
    following = [each for each in found[:1] if each.wait.deadline is not None]
    for each in following:
        await page.may("view", each.run.run_id)  # an old page needs the right too
    next_other = _other_rows(following, page.clock.now())
    return {
        "rest": [
            (icons[noun], f"{count:,}{more} {_noun(noun, count)}")
            for noun, count in counts.items()
        ],
        "rest_count": f"{len(found):,}{more}",
        "next_other": next_other[0] if next_other else None,
    }


def _noun(noun: str, count: int) -> str:
    return noun if count == 1 else _PLURALS.get(noun, f"{noun}s")


async def show_others(page: Page) -> Response:
    """List the waits that need no person, those with the next time first."""
    if not page.query.keys() <= {"after"}:
        raise problems.malformed(NOT_COMPLETE)
    age = await read_lists(page)
    found, is_cut = await _others(page)
    count = len(found)
    after = page.query.get("after", "")
    if after:
        start = place_of(after, NOT_COMPLETE)
        found = [each for each in found if each.place > start]
    shown, now = found[:PAGE_ROWS], page.clock.now()
    more = len(found) > len(shown)
    for run_id in {each.run.run_id for each in shown}:
        await page.may("view", run_id)
    following = "/".join(map(str, shown[-1].place)) if more else None
    range_text = shown_range(count - len(found), len(shown), count, "wait")
    return page.render(
        "others.html",
        shell=await counted_shell(page),
        rows=_other_rows(shown, now),
        note=list_note(page, with_ended=False),
        age=age,
        range="" if is_cut else range_text,
        is_cut=is_cut,
        is_first=not after,
        next=page.next_page("/inbox/others", following),
    )


def _other_rows(found: Iterable[_Other], now: datetime) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for each in found:
        deadline = each.wait.deadline
        rows.append(
            {
                "run": each.run,
                "kind": WAIT_RULES[each.wait.kind].words,
                "title": each.wait.title,
                "since": time_view(each.wait.opened_at, now),
                "due": left_view(deadline, now) if deadline else left_text(None),
            }
        )
    return rows


ROUTES = (
    PageRoute("/", home),
    PageRoute("/inbox", show),
    PageRoute("/inbox/rows", show_rows),
    PageRoute("/keys", show_keys),
    PageRoute("/inbox/others", show_others),
)
