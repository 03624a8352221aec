"""The page of one run: what it waits for, its tree over working time, its log."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from continuations.core.calls import Ready
from continuations.engine.window_reading import read_window
from continuations.errors import FormatError, InvalidInput
from continuations.ledger import layout
from continuations.ledger.objects import Objects
from continuations.serve.console.damaged_run import readable_snapshot
from continuations.serve.console.following import following, live_shell
from continuations.serve.console.page import Page, PageRoute
from continuations.serve.console.run_snapshot import RunSnapshot
from continuations.serve.http import problems
from continuations.serve.pages.row_states import RowStates
from continuations.serve.pages.run_addresses import RunAddresses
from continuations.serve.pages.run_log import run_log
from continuations.serve.pages.run_view import RunView, call_view, run_view
from continuations.serve.pages.timeline import RunRows, tree
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from continuations.core.state import RunState
    from continuations.serve.http.request_response import Response

_MAX_DIGITS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RunActs:
    """The acts that the page offers to the person.

    Attributes:
        message: Whether to send messages.
        fork: Whether to fork the run.
        cancel: Whether to cancel open calls of the run.
        buttons: Paths and words of the buttons that need no second page.
    """

    message: bool
    fork: bool
    cancel: bool
    buttons: tuple[tuple[str, str], ...]


async def show(page: Page) -> Response:
    """Show a run, or one of its older versions."""
    run_id = layout.check_run_id(page.params["run"])
    await page.require("view", run_id)
    query, now = page.query, page.clock.now()
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
        run = await _with_missing_code(page, run, window.state)
    follow = following(page, snapshot) if is_followed else None
    return page.render(
        "run.html",
        shell=live_shell(page, follow),
        follow=follow,
        here=RunAddresses(root=page.shell.root, run_id=run_id, version=version),
        run=run,
        damage=damage,
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
        log=run_log(window, before=query.get("before", ""), unread=snapshot.unread),
        call=chosen and call_view(chosen, states[chosen.key], window.state, now),
    )


async def _with_missing_code(page: Page, run: RunView, state: RunState) -> RunView:
    """Say which tool or agent the code of this process lacks for the run, if any.

    A worker with that code leaves the run to others and stores nothing about it.
    """
    if not run.may_resume or run.banner is None:
        return run
    # A console without agents compares nothing.
    with suppress(InvalidInput):
        async for row in page.runner.drift(run=run.run_id):
            missing = [why for why in row.why if why.change == "removed"]
            if row.verdict == "refuse" and missing:
                first = missing[0]
                text = f"The code of this process does not continue it: {first.text}"
                return replace(
                    run,
                    banner=replace(run.banner, note=text),
                    may_reopen=_is_about_an_approval(state, first.wait_id),
                )
    return run


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
    return RunSnapshot(cursor="", window=window, votes={})


async def _acts(page: Page, run: RunView) -> RunActs:
    buttons: list[tuple[str, str]] = []
    message = await page.can("message", run.run_id)
    cancel = not run.has_ended and await page.can("cancel", run.run_id)
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
    fork = await page.can("fork", run.run_id)
    return RunActs(message=message, fork=fork, cancel=cancel, buttons=tuple(buttons))


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
