"""Rewind a live run: first the consequences, then the act, then what is not undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.reading.run_stream import RunRewound
from continuations.core.reading.withheld_texts import shown_rewind, shown_state
from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.visible_text import shorten
from continuations.errors import StaleRun
from continuations.serve.console.page import Page, PageRoute
from continuations.serve.console.run_page import number_of
from continuations.serve.http import problems
from continuations.serve.pages.run_log import arguments_text
from continuations.serve.pages.run_view import run_title, wait_title
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.core.reading.run_past import BegunCall, RewindPlan, TakenMessage
    from continuations.core.rows.state import RunState
    from continuations.serve.http.request_response import Response


_OK, _CONFLICT = 200, 409


async def ask(page: Page) -> Response:
    """Show what the rewind ends, and what it does not undo."""
    return await _plan_page(page, _version(page.query.get("version")))


async def _plan_page(page: Page, version: int, shown: str | None = None) -> Response:
    """Return the page of a plan; `shown` is the digest of an earlier page."""
    view = await _view(page, version)
    return page.render(
        "rewind.html",
        status=_OK if shown is None else _CONFLICT,
        here=page.addresses(),
        rewind=view,
        moved=None if shown is None else moved_on(shown, view),
    )


async def rewind(page: Page) -> Response:
    """Rewind the run, if it is still as the page showed it."""
    run_id, form = page.run_id, page.form
    version, shown = _version(form.get("version")), form.get("shown")
    if not shown:
        raise problems.malformed(
            "The form does not name the version that it showed. Open the page of the "
            "rewind again, and send its form."
        )
    try:
        rewound = await page.runner.rewind(
            run_id, version, shown=shown, by=page.identity, door=page.door
        )
    except StaleRun:
        # Only the page that was shown is confirmed.
        if not await page.can("view", run_id):
            raise
        return await _plan_page(page, version, shown=shown)
    return page.see_other(f"/runs/{run_id}/rewound?version={rewound.version}")


async def done(page: Page) -> Response:
    """Show what a rewind did; all of it is read from the store."""
    number = _version(page.query.get("version"))
    earlier = await _rewound_to(page, number)
    if earlier is None:
        raise problems.malformed(
            f"Version {number} does not begin with a rewind. See the versions of the "
            "run."
        )
    # The claim of the rewind is a version of its own.
    view = await _view(page, earlier, newest=number - 2)
    here = page.addresses()
    return page.render("rewound.html", here=here, rewind=view, number=number)


async def _rewound_to(page: Page, number: int) -> int | None:
    """Return the version to which a run was rewound by another version."""
    if number < 1:
        return None
    async for version in page.runner.history(page.run_id, after=number - 1):
        found = (e.version for e in version.events if isinstance(e, RunRewound))
        return next(found, None)
    return None


async def _view(page: Page, version: int, newest: int | None = None) -> RewindView:
    run_id = page.run_id
    plan = await page.runner.plan_rewind(run_id, version, newest=newest)
    run = await page.runner.look(run_id, version=plan.newest)
    detail = await page.detail(run_id)
    return rewind_view(shown_rewind(plan, detail), shown_state(run.run_state, detail))


def _version(text: str | None) -> int:
    number = number_of(text, "version")
    if number is None:
        raise problems.malformed('The page needs "version". Use a link of "Versions".')
    return number


ROUTES = (
    PageRoute("/runs/{run}/rewind", ask, rights=("view", "fork")),
    PageRoute("/runs/{run}/rewind", rewind, ("POST",), ("fork",)),
    PageRoute("/runs/{run}/rewound", done, rights=("view",)),
)


_TEXT_CHARS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class EndingWait:
    """A wait that the rewind closes.

    Attributes:
        wait_id: Its id, for a link; or "".
        title: Its title.
        is_decided: Whether it has a decision that the run has not taken in.
    """

    wait_id: str
    title: str
    is_decided: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneCall:
    """A call that was started since the version.

    Attributes:
        tool: Name of the tool.
        path: Names from the root agent down to the tool.
        arguments: Its arguments, shortened; secret values are masked.
        version: Number of the version that recorded its start.
    """

    tool: str
    path: str
    arguments: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadMessage:
    """A message that was read since the version: its number, sender and text."""

    number: int
    by: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindView:
    """The consequences of a rewind.

    Attributes:
        title: Title of the run.
        version: Number of the earlier version.
        newest: Number of the version that is rewound.
        digest: The digest of that version.
        waits: The waits that are closed.
        calls: The calls that are not undone.
        messages: The messages that are not read again.
        refusal: Why the run is not rewound; or "".
        has_ended: Whether the run has ended, so that it can only be forked.
    """

    title: str
    version: int
    newest: int
    digest: str
    waits: tuple[EndingWait, ...]
    calls: tuple[DoneCall, ...]
    messages: tuple[ReadMessage, ...]
    refusal: str
    has_ended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedOn:
    """The change of a run since the page of a rewind was shown.

    Attributes:
        shown: Number of the newest version of that page.
        is_newer: Whether the run has a newer version now.
        text: The change, in words.
    """

    shown: int
    is_newer: bool
    text: str


def moved_on(shown: str, now: RewindView) -> MovedOn:
    """Return what changed since a page with the digest `shown`."""
    # A digest begins with the number of the newest version.
    number = int(shown.partition("-")[0])
    decided = [wait.title for wait in now.waits if wait.is_decided]
    if number != now.newest:
        text = f"the run moved on from version {number} to version {now.newest}."
    elif decided:
        titles = ", ".join(f"“{title}”" for title in decided)
        text = f"meanwhile, this was decided: {titles}."
    else:
        text = "meanwhile, something was decided for the run, or a grant was revoked."
    return MovedOn(shown=number, is_newer=number < now.newest, text=text)


def rewind_view(plan: RewindPlan, state: RunState) -> RewindView:
    """Return the consequences of a rewind of a run.

    Args:
        plan: The plan.
        state: The newest state of the run.
    """
    waits = (
        EndingWait(
            wait_id=wait.id if wait.rules.has_object else "",
            title=wait_title(wait) or f"Waits for {wait.rules.awaited}",
            is_decided=wait.id in plan.decided,
        )
        for wait in plan.waits
    )
    return RewindView(
        title=run_title(state),
        version=plan.version,
        newest=plan.newest,
        digest=plan.digest,
        waits=tuple(waits),
        calls=tuple(map(_call, plan.calls)),
        messages=tuple(map(_message, plan.messages)),
        refusal=plan.refusal or "",
        has_ended=state.run.status in ENDED_STATUSES,
    )


def _call(call: BegunCall) -> DoneCall:
    return DoneCall(
        tool=call.tool,
        path=" > ".join(call.path),
        arguments=arguments_text(call.arguments_json or "", _TEXT_CHARS),
        version=call.version,
    )


def _message(message: TakenMessage) -> ReadMessage:
    return ReadMessage(
        number=message.number,
        by=message.by or "",
        text=shorten(message.text, _TEXT_CHARS),
    )
