"""The page of one run: what it waits for, its tree over working time, its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core.reading.run_past import VersionEvents, VersionWindow
from continuations.core.rows.calls import Ready
from continuations.core.rows.run import ENDED_STATUSES
from continuations.engine.event_reading import read_window
from continuations.errors import FormatError, InvalidInput, NewerFormat
from continuations.ledger import missing_code
from continuations.ledger.objects import Objects
from continuations.ledger.versions import Versions
from continuations.serve.console.page import Page, PageRoute
from continuations.serve.console.run_snapshot import RunSnapshot, read_version
from continuations.serve.http import problems, request_fields
from continuations.serve.pages.call_arguments import CallArguments
from continuations.serve.pages.log_entries import ENTRIES_PER_PAGE, RunLog, run_log
from continuations.serve.pages.run_tree import RunRows, Tree, tree
from continuations.serve.pages.run_view import RunView, call_view, run_view
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from continuations.core.rows.state import RunState
    from continuations.serve.http.request_response import Response
    from continuations.serve.pages.environment import Shell

_MAX_DIGITS = 10


# The first page of a run has so many entries of its log. The tab "Log" has all.
_FIRST_ENTRIES = 12


async def show(page: Page) -> Response:
    """Show a run, or one of its older versions; or its log alone."""
    run_id, query = page.run_id, page.query
    version = number_of(query.get("version"), "version")
    view = _view_of(query.get("view", ""))
    damage = ""
    try:
        snapshot = await snapshot_of(page, run_id, version)
    except FormatError as error:
        snapshot = await readable_snapshot(page, run_id, version, error)
        damage = str(error)
    if snapshot is None:
        return page.unchanged()
    snapshot = snapshot.shown(await page.detail(run_id))
    parts = RunParts(snapshot, page.clock.now())
    run = parts.run
    is_followed = version is None and not damage
    if is_followed:
        state, number = snapshot.window.state, snapshot.window.last_number
        run = await _with_missing_code(page, run, state, number)
    follow = following(page, snapshot) if is_followed else None
    found, call = (None, None) if view else parts.tree(query)
    return page.render(
        "run.html",
        shell=live_shell(page, follow),
        follow=follow,
        here=page.addresses(version),
        run=run,
        damage=damage,
        acts=await _acts(page, run),
        log=parts.log(view, query.get("before", "")),
        view=view,
        tree=found,
        call=call,
    )


def _view_of(text: str) -> str:
    if text not in ("", "log"):
        msg = '"view" may be "log". Use a link of the page of the run.'
        raise problems.malformed(msg)
    return text


class RunParts:
    """Makes the parts of the page of a run.

    Args:
        snapshot: The data of the run that the person may read.
        now: The time of the page. An older version is shown as it was at its own time.
    """

    def __init__(self, snapshot: RunSnapshot, now: datetime) -> None:
        window = snapshot.window
        self._snapshot, self._window = snapshot, window
        self._now = now if window.is_newest else window.versions[-1].at
        self._rows = RunRows.of_window(window, self._now)
        self._arguments = CallArguments.of_window(window)
        self.run = run_view(
            window.state,
            self._rows.time,
            version=window.last_number,
            newest=window.newest_number,
            now=self._now,
            first_version=window.first_number,
            decided=snapshot.decided,
            votes=snapshot.votes,
        )

    def log(self, view: str, before: str) -> RunLog:
        """Return the log: all of it in its own view, or its first entries."""
        return run_log(
            self._window,
            arguments=self._arguments,
            before=before,
            unread=self._snapshot.unread,
            slots=self._snapshot.slots,
            limit=ENTRIES_PER_PAGE if view else _FIRST_ENTRIES,
        )

    def tree(self, query: Mapping[str, str]) -> tuple[Tree, dict[str, Any] | None]:
        """Return the tree, and the card of its selected row."""
        rows, window, run = self._rows, self._window, self.run
        states = rows.states(window, self._snapshot.decided, self._snapshot.votes)
        chosen = rows.find(query["call"]) if "call" in query else rows.first(states)
        if chosen is None and not run.output:
            chosen = next(iter(rows.rows), None)
        # The row shows the name of the agent before it.
        subject = run.title
        if run.is_workflow:
            subject = subject.removeprefix(window.state.run.agent)
        found = tree(
            rows,
            states,
            subject=subject,
            arguments=self._arguments,
            earlier=window.first_number - 1,
            chosen=chosen,
            opened=query.get("open", ""),
            offset=number_of(query.get("rows"), "rows") or 0,
        )
        if chosen is None:
            return found, None
        call = call_view(
            chosen, states[chosen.key], window.state, self._now, self._arguments
        )
        return found, call


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
    return await read_version(Objects(page.runner.store), run_id, version)


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
        if message and run.may_wake:
            buttons.append(("wake", "Ask the model now"))
        if cancel:
            pause = (
                ("unpause", "End the pause") if run.is_paused else ("pause", "Pause")
            )
            buttons.append(pause)
    return {
        "message": message and not (run.has_ended or run.is_workflow),
        "fork": await page.may("fork", run.run_id),
        "cancel": cancel,
        "more": cancel or await page.may("erase", run.run_id),
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
