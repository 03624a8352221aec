"""Threads: their list, and each one as a chat. Decisions have pages of their own."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from continuations.core.reading import run_stream
from continuations.core.rows.run import ENDED_STATUSES, RunRow
from continuations.errors import InvalidInput
from continuations.ledger.arrivals import thread_keys
from continuations.ledger.objects import Objects
from continuations.present.times import time_view
from continuations.serve.console.known_runs import RunQuery
from continuations.serve.console.live_runs import replaces_words
from continuations.serve.console.messages_page import (
    attachment_views,
    without_attachments,
)
from continuations.serve.console.page import Page, PageRoute, RunAddresses
from continuations.serve.console.run_page import (
    following,
    live_shell,
    number_of,
    snapshot_of,
)
from continuations.serve.console.runs_page import list_page
from continuations.serve.console.wait_list import counted_shell
from continuations.serve.http import problems
from continuations.serve.pages.run_log import message_text
from continuations.serve.pages.run_states import status_pill
from continuations.serve.pages.run_view import run_title

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime

    from continuations.core.reading.run_past import VersionEvents, VersionWindow
    from continuations.core.rows.state import RunState
    from continuations.serve.http.request_response import Response
    from continuations.wire.arrivals import InboxMessage


_LIVE_THREADS = RunQuery(status="live", is_thread=True)


async def list_threads(page: Page) -> Response:
    """Show a page of live threads, the last change first."""
    after = page.query.get("after", "")
    found = await list_page(page, _LIVE_THREADS, after)
    return page.render(
        "threads.html",
        shell=await counted_shell(page),
        rows=found.rows,
        note=found.note,
        range=found.range,
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
    may_send = version is None and await page.may("message", run_id)
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


# The chat -------------------------------------------------------------------------


def chat_view(
    window: VersionWindow,
    now: datetime,
    here: RunAddresses,
    decided: Collection[str] = (),
    unread: Iterable[InboxMessage] = (),
) -> dict[str, object]:
    """Return a thread as a chat, for the template.

    Args:
        window: Its last versions.
        now: The time of the report.
        here: The addresses of the run.
        decided: Ids of waits whose decision is recorded, but not yet applied.
        unread: Messages that the agent has not read yet.
    """
    state = window.state
    lines: list[dict[str, Any]] = []
    floor = 0
    for version in window.versions:
        for event in version.events:
            if isinstance(event, run_stream.RunRepaired | run_stream.RunRewound):
                lines.clear()  # the events after it describe the state anew
            if len(event.path) <= 1 and replaces_words(event):
                floor = version.number
            line = _line(event, version, state, now, here, decided)
            if line is not None:
                lines.append(line)
    run = state.run
    return {
        "title": run_title(state),
        "agent": run.agent,
        "key": run.thread_key or "",
        "state": status_pill(run.status),
        # The oldest one first.
        "lines": lines,
        "unread": [_unread_line(each, now) for each in unread if not each.closes],
        "hint": _hint(run, now),
        # Number of the last version that is left out, or 0.
        "earlier": window.first_number - 1,
        # The last stored reply replaces the words of every lower fence.
        "floor": floor,
    }


def _unread_line(message: InboxMessage, now: datetime) -> dict[str, Any]:
    return {
        "key": f"unread.{message.number}",
        "who": message.by or "user",
        "at": time_view(message.at, now),
        "text": message_text(message.message.data.get("content")),
    }


def _line(
    event: run_stream.StreamEvent,
    version: VersionEvents,
    state: RunState,
    now: datetime,
    here: RunAddresses,
    decided: Collection[str],
) -> dict[str, Any] | None:
    """Return one message or card; `None` for an event that is neither.

    `kind` is `user`, `assistant`, `wait`, or `note` for a failed reply.
    """
    files: list[dict[str, str]] = []
    who, text, wait_id, is_open, kind = "", "", "", False, "note"
    match event:
        case run_stream.MessageAdded() if len(event.path) == 1:
            message = event.message
            role, content = message.get("role"), message.get("content")
            text = message_text(without_attachments(role, content))
            files = attachment_views(role, content, here)
            if role not in ("user", "assistant") or not (text or files):
                return None
            kind = "user" if role == "user" else "assistant"
            who = event.path[0] if role == "assistant" else version.run.asker or "user"
        case run_stream.WaitOpened() if event.wait.rules.asks_person:
            wait = event.wait
            kind, who, wait_id = "wait", wait.tool, wait.id
            text = wait.title or wait.question or wait.rules.question
            text = text.replace("{tool}", wait.tool)
            is_open = wait.id in state.waits and wait.id not in decided
        case run_stream.ReplyGiven() if event.failure is not None:
            who = "This message has no reply"
            text = event.failure.message
        case _:
            return None
    return {
        # The key names the line: the cursor of its event.
        "key": event.cursor,
        "kind": kind,
        "who": who,
        "at": time_view(version.at, now),
        "text": text,
        "files": files,
        "wait_id": wait_id,
        "is_open": is_open,
    }


def _hint(run: RunRow, now: datetime) -> str:
    if run.status in ENDED_STATUSES:
        return ""
    if run.claim is not None and now < run.claim.until:
        return "The agent is at work: your message is read next."
    if run.status == "suspended":
        return "The agent waits: your message is read after its present reply."
    return "The agent rests: your message is read at once."
