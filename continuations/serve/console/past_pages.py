"""The past of a run: its versions and their differences, a fork, and a rewind.

**Fork**: "rerun from Wednesday with another answer". A wait of the chosen version stays
open in the fork, or it gets a denial or an answer. An approval is given on the page of
the fork's own wait, as everywhere.

**Rewind** of a live run: first the consequences, then the act, then what is not undone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.reading.run_stream import RunRewound
from continuations.core.reading.withheld_texts import (
    shown_difference,
    shown_rewind,
    shown_version,
)
from continuations.core.rows.decisions import Answer, Deny, Verdict
from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.rows.state import ROOT_FRAME_ID
from continuations.core.visible_text import shorten
from continuations.present import wait_words
from continuations.present.times import time_view
from continuations.present.wait_view import argument_views
from continuations.serve.console.page import Page, PageRoute
from continuations.serve.console.run_acts_page import Fields, RunAct
from continuations.serve.console.run_page import number_of
from continuations.serve.console.wait_list import shown_range
from continuations.serve.http import problems
from continuations.serve.http.answer_forms import json_problem
from continuations.serve.http.run_handlers import fork_by_rights, new_fork_id
from continuations.serve.pages.call_arguments import CallArguments
from continuations.serve.pages.difference_view import difference_lines
from continuations.serve.pages.log_entries import version_lines
from continuations.serve.pages.run_states import status_pill
from continuations.serve.pages.run_view import run_title, usage_text, wait_title
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.reading import run_past
    from continuations.core.rows.waits import Wait
    from continuations.errors import StaleRun
    from continuations.serve.http.request_response import Response
    from continuations.serve.pages.run_log import LogLine

VERSIONS_PER_PAGE, DIFFERENCES_PER_PAGE = 25, 200
_SHOWN_LINES = 6
_TEXT_CHARS = 300
_CONFLICT = 409
# The page of a fork offers to decide so many waits; the others stay open.
_MAX_WAITS = 50


def _needed_version(text: str | None) -> int:
    number = number_of(text, "version")
    if number is None:
        raise problems.malformed('The page needs "version". Use a link of "Versions".')
    return number


# Versions -------------------------------------------------------------------------


async def show_versions(page: Page) -> Response:
    """Show the versions of a run, the newest first, or compare two of them."""
    run_id, query = page.run_id, page.query
    first, second = (number_of(query.get(name), name) for name in ("from", "to"))
    here = page.addresses()
    detail = await page.detail(run_id)
    if first is not None and second is not None:
        found = shown_difference(await page.runner.diff(run_id, first, second), detail)
        return _difference_page(page, found)
    run = await page.runner.look(run_id)
    last = min(number_of(query.get("before"), "before") or run.version, run.version)
    begin = max(last - VERSIONS_PER_PAGE, 0)
    versions: list[run_past.RunVersion] = []
    async for version in page.runner.history(run_id, after=begin):
        if version.number > last:
            break
        versions.append(shown_version(version, detail))
    now = page.clock.now()
    pairs = zip(versions, version_lines(versions), strict=True)
    rows = [version_row(version, lines, now) for version, lines in pairs]
    rows.reverse()
    return page.render(
        "versions.html",
        here=here,
        title=run_title(await page.shown(run.run_state)),
        newest=run.version,
        rows=rows,
        before=begin,
        may_fork=await page.may("fork", run_id),
        has_ended=run.status in ENDED_STATUSES,
    )


def _difference_page(page: Page, found: run_past.RunDifference) -> Response:
    """Show the differences from a number on: versions never change."""
    here, skipped = page.addresses(), number_of(page.query.get("skip"), "skip") or 0
    lines = list(difference_lines(found))
    shown = lines[skipped : skipped + DIFFERENCES_PER_PAGE]
    end = skipped + len(shown)
    address = here.difference(found.before, found.after)
    return page.render(
        "difference.html",
        here=here,
        difference=found,
        states=[status_pill(found.status_before), status_pill(found.status_after)],
        usages=[usage_text(found.usage_before), usage_text(found.usage_after)],
        lines=shown,
        range=shown_range(skipped, len(shown), len(lines), "difference"),
        first=address if skipped else "",
        next=f"{address}&skip={end}" if end < len(lines) else "",
    )


def version_row(
    version: run_past.RunVersion, lines: list[LogLine], now: datetime
) -> dict[str, object]:
    """Return a version, with its first events as sentences."""
    return {
        "number": version.number,
        "at": time_view(version.at, now),
        "state": status_pill(version.status),
        "lines": lines[:_SHOWN_LINES],
        "more": max(len(lines) - _SHOWN_LINES, 0),
    }


# Fork -----------------------------------------------------------------------------


async def ask_fork(page: Page) -> Response:
    """Show the version, and ask what is different in the fork."""
    run_id = page.run_id
    version = number_of(page.query.get("version"), "version")
    run = await page.runner.look(run_id, version=version)
    may_decide = await page.may("decide", run_id)
    waits = [each for each in run.waits if may_decide and each.rules.asks_person]
    return page.render(
        "fork.html",
        here=page.addresses(),
        title=run_title(await page.shown(run.run_state)),
        version=run.version,
        fork_id=new_fork_id(run_id),
        waits=[
            fork_wait(wait, number) for number, wait in enumerate(waits[:_MAX_WAITS], 1)
        ],
        more=max(len(waits) - _MAX_WAITS, 0),
    )


async def fork(page: Page) -> Response:
    """Make the fork; a repeated form makes it once."""
    run_id, form = page.run_id, page.form
    version = number_of(form.get("version"), "version")
    if version is None:
        raise problems.malformed(
            "The form does not name the version that it showed. Open the page of the "
            "fork again, and send its form."
        )
    run = await page.runner.look(run_id, version=version)
    decisions = {
        wait.id: verdict
        for wait in run.waits
        if (verdict := _verdict(page, wait)) is not None
    }
    message = form.get("message", "").strip()
    new_id = await fork_by_rights(
        page,
        run_id,
        run.version,
        run_id=form.get("run_id") or new_fork_id(run_id),
        decisions=decisions,
        messages={ROOT_FRAME_ID: message} if message else None,
        by=page.identity,
        door=page.door,
    )
    return page.see_other(f"/runs/{new_id}")


def _verdict(page: Page, wait: Wait) -> Verdict | None:
    """Return what the form says about a wait; `None` leaves it open."""
    form = page.form
    match form.get(f"verdict-{wait.id}", "open"):
        case "open":
            return None
        case "deny":
            reason = form.get(f"reason-{wait.id}", "").strip()
            return Deny(by=page.identity, reason=reason or None)
        case "answer":
            text = form.get(f"answer-{wait.id}", "").strip()
            if not text:
                raise problems.malformed(
                    "An answer has no text. Go back, and write it."
                )
            return Answer(_value(wait, text), by=page.identity)
        case _:
            raise problems.malformed(
                "A decision of the form is unknown. Go back, and choose one."
            )


def _value(wait: Wait, text: str) -> object:
    """Return the value of an answer: JSON, unless the wait takes a text."""
    if _takes_text(wait):
        return text
    try:
        return jsontext.parse(text, lossless=True)
    except jsontext.NotJson as error:
        msg = f"The answer must be JSON of type {wait.answer_type_name}. It "
        raise problems.malformed(msg + json_problem(text, error)) from None


def _takes_text(wait: Wait) -> bool:
    return wait.answer_type_name in (None, "string")


_VERDICTS = (("deny", "Deny"), ("answer", "Answer"))


def fork_wait(wait: Wait, number: int) -> dict[str, object]:
    """Return an open wait of the version that is forked, and what the form offers."""
    is_text = _takes_text(wait)
    return {
        "number": number,
        "wait_id": wait.id,
        "title": wait_words.title(wait),
        "arguments": argument_views(wait),
        "verdicts": [each for each in _VERDICTS if each[0] in wait.rules.verdicts],
        "answer": "a text" if is_text else f"JSON of type {wait.answer_type_name}",
    }


# Rewind ---------------------------------------------------------------------------


async def ask_rewind(page: Page) -> Response:
    """Show what the rewind ends, and what it does not undo."""
    view = await _rewind_view(page, _needed_version(page.query.get("version")))
    return page.render("rewind.html", here=page.addresses(), rewind=view, moved=None)


def _rewind_fields(page: Page) -> Fields:
    form = page.form
    version, shown = _needed_version(form.get("version")), form.get("shown")
    if not shown:
        raise problems.malformed(
            "The form does not name the version that it showed. Open the page of the "
            "rewind again, and send its form."
        )
    return {"version": version, "shown": shown}


async def _ask_again(page: Page, error: StaleRun) -> Response:
    """Show the plan as it is now: only the page that was shown is confirmed."""
    if not await page.may("view", page.run_id):
        raise error
    view = await _rewind_view(page, _needed_version(page.form.get("version")))
    return page.render(
        "rewind.html",
        status=_CONFLICT,
        here=page.addresses(),
        rewind=view,
        moved=moved_on(page.form["shown"], view),
    )


async def show_rewound(page: Page) -> Response:
    """Show what a rewind did; all of it is read from the store."""
    number = _needed_version(page.query.get("version"))
    earlier = await _rewound_to(page, number)
    if earlier is None:
        raise problems.malformed(
            f"Version {number} does not begin with a rewind. See the versions of the "
            "run."
        )
    # The claim of the rewind is a version of its own.
    view = await _rewind_view(page, earlier, newest=number - 2)
    return page.render(
        "rewound.html",
        here=page.addresses(),
        rewind=view,
        number=number,
    )


async def _rewound_to(page: Page, number: int) -> int | None:
    """Return the version to which a run was rewound by another version."""
    if number < 1:
        return None
    async for version in page.runner.history(page.run_id, after=number - 1):
        found = (e.version for e in version.events if isinstance(e, RunRewound))
        return next(found, None)
    return None


async def _rewind_view(
    page: Page, version: int, newest: int | None = None
) -> RewindView:
    plan = await page.runner.plan_rewind(page.run_id, version, newest=newest)
    run = await page.runner.look(page.run_id, version=plan.newest)
    state = await page.shown(run.run_state)
    return RewindView(
        plan=shown_rewind(plan, await page.detail(page.run_id)),
        title=run_title(state),
        has_ended=state.run.status in ENDED_STATUSES,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindView:
    """The consequences of a rewind.

    Attributes:
        plan: The plan, with the texts that the person may read.
        title: Title of the run.
        has_ended: Whether the run has ended, so that it can only be forked.
    """

    plan: run_past.RewindPlan
    title: str
    has_ended: bool

    @property
    def waits(self) -> list[dict[str, Any]]:
        """The waits that are closed; those that have a page, with their ids.

        `is_decided`: the wait has a decision that the run has not taken in.
        """
        return [
            {
                "wait_id": wait.id if wait.rules.has_object else "",
                "title": wait_title(wait) or f"Waits for {wait.rules.awaited}",
                "is_decided": wait.id in self.plan.decided,
            }
            for wait in self.plan.waits
        ]

    @property
    def calls(self) -> list[tuple[run_past.BegunCall, str]]:
        """The calls that are not undone, with their arguments, shortened."""
        arguments = CallArguments(waits=self.plan.waits)
        return [
            (call, arguments.text(call.call, call.arguments_json or "", _TEXT_CHARS))
            for call in self.plan.calls
        ]

    @property
    def messages(self) -> list[tuple[run_past.TakenMessage, str]]:
        """The messages that are not read again, with their texts, shortened."""
        return [(each, shorten(each.text, _TEXT_CHARS)) for each in self.plan.messages]


def moved_on(shown: str, now: RewindView) -> dict[str, object]:
    """Return what changed since a page with the digest `shown`.

    Returns:
        `shown`: the number of the newest version of that page. `text`: the change.
    """
    # A digest begins with the number of the newest version.
    number, newest = int(shown.partition("-")[0]), now.plan.newest
    decided = [wait["title"] for wait in now.waits if wait["is_decided"]]
    if number != newest:
        text = f"the run moved on from version {number} to version {newest}."
    elif decided:
        titles = ", ".join(f"“{title}”" for title in decided)
        text = f"meanwhile, this was decided: {titles}."
    else:
        text = "meanwhile, something was decided for the run, or a grant was revoked."
    return {"shown": number, "text": text}


_REWIND = RunAct(
    "rewind",
    "rewind",
    _rewind_fields,
    "/runs/{run}/rewound?version={result.version}",
    _ask_again,
)

ROUTES = (
    PageRoute("/runs/{run}/versions", show_versions, rights=("view",)),
    PageRoute("/runs/{run}/fork", ask_fork, rights=("view", "fork")),
    PageRoute("/runs/{run}/fork", fork, ("POST",), ("fork",)),
    PageRoute("/runs/{run}/rewind", ask_rewind, rights=("view", "fork")),
    _REWIND.route,
    PageRoute("/runs/{run}/rewound", show_rewound, rights=("view",)),
)
