"""The transcripts of a run: the messages of one agent, and the way to the others."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from continuations.core.run import ENDED_STATUSES
from continuations.core.state import ROOT_FRAME_ID
from continuations.ledger import layout
from continuations.serve.console.page import Page, PageRoute
from continuations.serve.console.run_page import number_of
from continuations.serve.http import problems
from continuations.serve.pages.run_addresses import RunAddresses
from continuations.serve.pages.run_view import run_title
from continuations.serve.pages.transcript_view import transcript_view

if TYPE_CHECKING:
    from continuations.serve.http.request_response import Response


async def show(page: Page) -> Response:
    """Show the messages of one agent of a run."""
    run_id = layout.check_run_id(page.params["run"])
    await page.require("view", run_id)
    query = page.query
    version = number_of(query.get("version"), "version")
    run = await page.runner.look(run_id, version=version)
    frame = query.get("frame", ROOT_FRAME_ID)
    if frame not in run.run_state.frames:
        raise problems.malformed(
            "This version of the run has no open agent with this id. Its messages are "
            "in an older version."
        )
    may_read = await page.can("read", run_id)
    state = await page.shown(run.run_state)
    may_send = (
        version is None
        and run.status not in ENDED_STATUSES
        and await page.can("message", run_id)
    )
    here = RunAddresses(root=page.shell.root, run_id=run_id, version=version)
    return page.render(
        "messages.html",
        here=here,
        title=run_title(state),
        version=run.version,
        transcript=transcript_view(
            state, frame, here, before=number_of(query.get("before"), "before")
        ),
        may_read=may_read,
        may_send=may_send,
        message_id=secrets.token_hex(8),
    )


ROUTES = (PageRoute("/runs/{run}/messages", show),)
