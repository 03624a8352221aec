"""The page of one run: what it waits for, its tree over working time, its log."""

from __future__ import annotations

from asyncio import gather
from dataclasses import dataclass
from typing import TYPE_CHECKING

from continuations.engine.window_reading import read_window
from continuations.errors import ContinuationsError
from continuations.ledger import layout
from continuations.ledger.arrivals import list_decided_wait_ids
from continuations.ledger.objects import Objects
from continuations.serve.console.following import live_shell, stream_address
from continuations.serve.console.page import Page, PageRoute
from continuations.serve.http import problems
from continuations.serve.pages.row_states import RowStates
from continuations.serve.pages.run_addresses import RunAddresses
from continuations.serve.pages.run_log import run_log
from continuations.serve.pages.run_view import RunView, call_view, run_view
from continuations.serve.pages.timeline import RunRows, tree

if TYPE_CHECKING:
    from collections.abc import Collection

    from continuations.core.version_window import VersionWindow
    from continuations.core.waits import Wait
    from continuations.serve.http.request_response import Response

_MAX_DIGITS = 10
# The page names the votes of so many waits; each costs some reads.
_MAX_VOTED_WAITS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RunActs:
    """The acts that the page offers to the person.

    Attributes:
        message: Whether to send messages.
        fork: Whether to fork the run.
        buttons: Paths and words of the buttons that need no second page.
    """

    message: bool
    fork: bool
    buttons: tuple[tuple[str, str], ...]


async def show(page: Page) -> Response:
    """Show a run, or one of its older versions."""
    run_id = layout.check_run_id(page.params["run"])
    await page.require("view", run_id)
    query, now = page.query, page.clock.now()
    version = number_of(query.get("version"), "version")
    objects = Objects(page.runner.store)
    window = await read_window(objects, run_id, version=version)
    decided: Collection[str] = ()
    votes: dict[str, str] = {}
    if version is None and window.state.waits:
        decided = await list_decided_wait_ids(objects, run_id)
        votes = await _votes(page, window, decided)
    rows = RunRows.of_window(window, now)
    states = RowStates(window.state, rows.time, decided, votes).of_all(list(rows.rows))
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
        votes=votes,
    )
    follow = "" if version is not None else stream_address(page, window)
    return page.render(
        "run.html",
        shell=live_shell(page, follow),
        follow=follow,
        here=RunAddresses(root=page.shell.root, run_id=run_id, version=version),
        run=run,
        acts=await _acts(page, run),
        tree=tree(
            rows,
            states,
            subject=run.title,
            earlier=window.first_number - 1,
            selected=selected,
            opened=query.get("open", ""),
            offset=number_of(query.get("rows"), "rows") or 0,
        ),
        log=run_log(window, before=query.get("before", "")),
        call=chosen and call_view(chosen, states[chosen.key], window.state, now),
    )


async def _votes(
    page: Page, window: VersionWindow, decided: Collection[str]
) -> dict[str, str]:
    """Return how many votes each open wait has that takes votes."""
    voted = [
        wait
        for wait in window.state.waits.values()
        if wait.takes_votes and wait.id not in decided
    ]
    texts = await gather(*(_vote_text(page, wait) for wait in voted[:_MAX_VOTED_WAITS]))
    return {wait.id: text for wait, text in zip(voted, texts, strict=False) if text}


async def _vote_text(page: Page, wait: Wait) -> str:
    try:
        known = await page.runner.wait(wait.id)
    except ContinuationsError:
        return ""  # it was decided meanwhile
    return f"{len(known.votes)} of {known.votes_needed} votes"


async def _acts(page: Page, run: RunView) -> RunActs:
    buttons: list[tuple[str, str]] = []
    message = await page.can("message", run.run_id)
    if not run.has_ended:
        if message and run.may_resume:
            buttons.append(("resume", "Resume"))
        if await page.can("cancel", run.run_id):
            pause = (
                ("unpause", "End the pause") if run.is_paused else ("pause", "Pause")
            )
            buttons.append(pause)
    fork = await page.can("fork", run.run_id)
    return RunActs(message=message, fork=fork, buttons=tuple(buttons))


def number_of(text: str | None, name: str) -> int | None:
    """Return a number of the query, or `None`; refuse another text."""
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS:
        return int(text)
    raise problems.malformed(
        f'"{name}" must be a number. Use a link of the page "Versions".'
    )


ROUTES = (PageRoute("/runs/{run}", show),)
