"""Threads: their list, and each one as a chat. Decisions have pages of their own."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from continuations.errors import InvalidInput
from continuations.ledger import missing_code
from continuations.ledger.arrivals import thread_keys
from continuations.ledger.objects import Objects
from continuations.serve.console.chat_view import chat_view
from continuations.serve.console.known_runs import RunQuery
from continuations.serve.console.messages_page import CHAT_SCRIPT
from continuations.serve.console.page import Page, PageRoute
from continuations.serve.console.run_page import (
    following,
    live_shell,
    number_of,
    snapshot_of,
)
from continuations.serve.console.runs_page import list_page
from continuations.serve.console.wait_list import counted_shell
from continuations.serve.http import problems
from continuations.value_class import replace

if TYPE_CHECKING:
    from continuations.serve.http.request_response import Response
    from continuations.serve.pages.environment import Shell


_LIVE_THREADS = RunQuery(status="live", is_thread=True)


async def list_threads(page: Page) -> Response:
    """Show a page of live threads, the last change first."""
    after = page.query.get("after", "")
    found = await list_page(page, _LIVE_THREADS, after)
    if found is None:
        return page.unchanged()
    return page.render(
        "threads.html",
        shell=await counted_shell(page),
        found=found,
        rows=found.rows,
        first=page.url("/threads"),
        next=page.next_page("/threads", found.next),
        is_first=not after,
    )


async def show(page: Page) -> Response:
    """Show a thread as a chat."""
    run_id = page.run_id
    version = number_of(page.query.get("version"), "version")
    snapshot = await snapshot_of(page, run_id, version)
    if snapshot is None:
        return page.unchanged()
    snapshot = snapshot.shown(await page.detail(run_id))
    window = snapshot.window
    if window.state.run.thread_key is None:
        return page.see_other(f"/runs/{run_id}")
    before = page.query.get("before", "")
    is_newest = version is None and not before
    follow = following(page, snapshot) if is_newest else None
    here = page.addresses(version)
    chat = chat_view(
        window,
        page.clock.now(),
        here,
        before=before,
        decided=snapshot.decided,
        unread=snapshot.unread,
    )
    lacked = await _lacked(page, window.last_number) if chat["absent"] else ""
    return page.render(
        "thread.html",
        shell=_shell(page, follow),
        follow=follow,
        here=here,
        chat=chat,
        lacked=lacked,
        is_newest=is_newest,
        may_send=is_newest and await page.may("message", run_id),
        message_id=secrets.token_hex(8),
    )


def _shell(page: Page, follow: dict[str, str] | None) -> Shell:
    shell = live_shell(page, follow)
    return replace(shell, scripts=(*shell.scripts, CHAT_SCRIPT))


async def _lacked(page: Page, number: int) -> str:
    """Return what a worker lacked that left the thread to others, or ""."""
    objects = Objects(page.runner.store)
    lacked = await missing_code.read(objects, page.run_id, number)
    return "" if lacked is None else lacked.text


async def send(page: Page) -> Response:
    """Post a message to the newest run of a thread; a repeated form posts it once."""
    run_id = page.run_id
    # A browser ends the lines of a form with both characters.
    text = page.form.get("text", "").replace("\r\n", "\n").strip()
    own_id = page.form.get("id", "")
    if not text:
        raise problems.malformed("The message is empty. Go back, and write a text.")
    run = (await page.runner.look(run_id)).run_state.run
    if run.thread_key is None:
        raise problems.malformed(
            "This run is not a thread. Send the message on the page of the run."
        )
    try:
        thread = page.runner.thread(run.agent, key=run.thread_key)
    except InvalidInput:
        # This process does not have the agent: another one answers the message.
        await page.runner.send(run_id, text, by=page.identity.name, id=own_id or None)
    else:
        objects = Objects(page.runner.store)
        newest = await thread_keys.newest_generation(objects, run.agent, run.thread_key)
        await page.require("message", newest.run_id or run_id)
        ticket = await thread.post(
            text, by=page.identity, id=own_id or None, door=page.door
        )
        run_id = ticket.run_id
    await page.wake(run_id)
    return page.see_other(f"/threads/{run_id}")


ROUTES = (
    PageRoute("/threads", list_threads),
    PageRoute("/threads/{thread}", show, rights=("view",)),
    PageRoute("/threads/{thread}", send, ("POST",), ("message",)),
)
