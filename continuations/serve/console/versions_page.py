"""The versions of a run, and the differences between two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.reading.event_words import message_words
from continuations.core.reading.withheld_texts import shown_difference, shown_version
from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.visible_text import shorten
from continuations.present.times import moment_text
from continuations.serve.console.page import Page, PageRoute
from continuations.serve.console.run_page import number_of
from continuations.serve.pages.run_view import (
    StatePill,
    run_title,
    status_pill,
    usage_text,
)
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from continuations.core.reading.run_past import (
        CallDifference,
        RunDifference,
        RunVersion,
    )
    from continuations.serve.http.request_response import Response


VERSIONS_PER_PAGE = 25


async def show(page: Page) -> Response:
    """Show the versions of a run, the newest first, or compare two of them."""
    run_id, query = page.run_id, page.query
    first, second = (
        number_of(query.get("from"), "from"),
        number_of(query.get("to"), "to"),
    )
    here = page.addresses()
    detail = await page.detail(run_id)
    if first is not None and second is not None:
        found = await page.runner.diff(run_id, first, second)
        return page.render(
            "difference.html",
            here=here,
            difference=difference_view(shown_difference(found, detail)),
        )
    run = await page.runner.look(run_id)
    last = min(number_of(query.get("before"), "before") or run.version, run.version)
    begin = max(last - VERSIONS_PER_PAGE, 0)
    rows: list[VersionRow] = []
    async for version in page.runner.history(run_id, after=begin):
        if version.number > last:
            break
        rows.append(version_row(shown_version(version, detail), page.clock.now()))
    rows.reverse()
    return page.render(
        "versions.html",
        here=here,
        title=run_title(await page.shown(run.run_state)),
        newest=run.version,
        rows=rows,
        before=begin,
        may_fork=await page.can("fork", run_id),
        has_ended=run.status in ENDED_STATUSES,
    )


ROUTES = (PageRoute("/runs/{run}/versions", show, rights=("view",)),)


_SHOWN_WORDS = 6
_TEXT_CHARS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRow:
    """One version.

    Attributes:
        number: Its number.
        at: When it was written.
        state: The status of the run in it.
        words: Its first events, each on one line.
        more: How many more events it has.
    """

    number: int
    at: str
    state: StatePill
    words: tuple[str, ...]
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceLine:
    """One difference.

    Attributes:
        icon: Name of an icon.
        tone: The class of its color.
        change: `added`, `changed` or `removed`.
        subject: The kind of the part that differs.
        path: Names from the root agent down to the part.
        text: The difference in words.
    """

    icon: str
    tone: str
    change: str
    subject: str
    path: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceView:
    """The differences between two versions.

    Attributes:
        before: Number of the first version.
        after: Number of the second version.
        states: Status in both versions.
        usages: Model usage in both versions.
        lines: The differences.
    """

    before: int
    after: int
    states: tuple[StatePill, StatePill]
    usages: tuple[str, str]
    lines: tuple[DifferenceLine, ...]


def version_row(version: RunVersion, now: datetime) -> VersionRow:
    """Return the row of a version."""
    words = version.words
    return VersionRow(
        number=version.number,
        at=moment_text(version.at, now),
        state=status_pill(version.status),
        words=tuple(shorten(each, _TEXT_CHARS) for each in words[:_SHOWN_WORDS]),
        more=max(len(words) - _SHOWN_WORDS, 0),
    )


def difference_view(found: RunDifference) -> DifferenceView:
    """Return the differences as lines."""
    return DifferenceView(
        before=found.before,
        after=found.after,
        states=(status_pill(found.status_before), status_pill(found.status_after)),
        usages=(usage_text(found.usage_before), usage_text(found.usage_after)),
        lines=tuple(_lines(found)),
    )


_ICONS = {"added": ("plus", "ok"), "removed": ("warn", "dg"), "changed": ("ring", "wt")}


def _line(
    change: str, subject: str, path: tuple[str, ...], text: str
) -> DifferenceLine:
    icon, tone = _ICONS[change]
    return DifferenceLine(
        icon=icon,
        tone=tone,
        change=change,
        subject=subject,
        path=" > ".join(path),
        text=shorten(text, _TEXT_CHARS),
    )


def _lines(found: RunDifference) -> Iterator[DifferenceLine]:
    for frame in found.frames:
        yield _line(frame.change, "agent", frame.path, "")
    for message in found.messages:
        text = message_words(message.message_json)
        yield _line(message.change, "message", message.path, text)
    for call in found.calls:
        yield _line(call.change, "call", call.path, _call_text(call))
    for each in found.waits:
        decision = each.decision
        text = each.wait.title or each.wait.rules.awaited
        if decision is not None:
            by = f" by {decision.by}" if decision.by else ""
            text += f": {decision.kind}{by}"
        yield _line(each.change, "wait", each.wait.path, text)
    for state in found.states:
        text = f"{state.before_json} became {state.after_json}"
        yield _line("changed", "state", state.path, text)


def _call_text(call: CallDifference) -> str:
    states = " became ".join(filter(None, (call.before, call.after)))
    before, after = call.arguments_before_json, call.arguments_after_json
    if before == after or not after:
        return f"{states} {before or ''}".strip()
    return f"{states}, arguments {before or 'none'} became {after}"
