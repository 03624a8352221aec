"""Threads: their list, and each one as a chat. Decisions have pages of their own."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from continuations.errors import InvalidInput
from continuations.ledger.arrivals import thread_keys
from continuations.ledger.objects import Objects
from continuations.serve.console.page import Page, PageRoute
from continuations.serve.console.run_page import (
    following,
    live_shell,
    number_of,
    snapshot_of,
)
from continuations.serve.console.runs_page import list_page
from continuations.serve.http import problems
from continuations.serve.pages.chat_view import chat_view

if TYPE_CHECKING:
    from continuations.serve.http.request_response import Response


async def list_threads(page: Page) -> Response:
    """Show a page of live threads."""
    after = page.query.get("after", "")
    rows, following = await list_page(page, {"status": "live"}, after, threads=True)
    return page.render(
        "threads.html",
        rows=rows,
        next=page.next_page("/threads", following),
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
    may_send = version is None and await page.can("message", run_id)
    follow = following(page, snapshot) if version is None else None
    now = page.clock.now()
    here = page.addresses(version)
    return page.render(
        "thread.html",
        shell=live_shell(page, follow),
        follow=follow,
        here=here,
        chat=chat_view(window, now, here, snapshot.decided, snapshot.unread),
        may_send=may_send,
        message_id=secrets.token_hex(8),
    )


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
