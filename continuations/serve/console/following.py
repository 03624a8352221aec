"""Keep an open page about a run up to date, by server-sent events."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from continuations.core.run import ENDED_STATUSES
from continuations.serve.pages.run_addresses import RunAddresses

if TYPE_CHECKING:
    from continuations.core.version_window import VersionWindow
    from continuations.serve.console.page import Page
    from continuations.serve.pages.shell import Shell

_SCRIPT = "follow.js"
_WAIT_SECONDS = 20
# After all events of a version.
_LAST_ORDINAL = 9_999_999_999


def stream_address(page: Page, window: VersionWindow) -> str:
    """Return the stream of events that the page follows; "" for none.

    A suspended run changes after a decision, and the one lister of the process finds
    it. Other live runs, and threads, are followed by their own events.
    """
    run = window.state.run
    if run.status in ENDED_STATUSES or not window.is_newest:
        return ""
    if run.status == "suspended" and run.thread_key is None:
        return page.url(f"/events?after={page.cursor}")
    here = RunAddresses(root=page.shell.root, run_id=run.id)
    cursor = f"{window.last_number}.{_LAST_ORDINAL}"
    return f"{here.below('events')}?after={cursor}&wait={_WAIT_SECONDS}"


def live_shell(page: Page, address: str) -> Shell:
    """Return the frame of a page that follows a stream, if there is one."""
    if not address:
        return page.shell
    scripts = (*page.shell.scripts, _SCRIPT)
    return replace(page.shell, is_live=True, scripts=scripts)
