"""Keep an open page about a run up to date, by events or by questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.run import ENDED_STATUSES
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from continuations.serve.console.page import Page
    from continuations.serve.console.run_snapshot import RunSnapshot
    from continuations.serve.pages.environment import Shell

_SCRIPT = "live.js"


@dataclass(frozen=True, slots=True)
class Following:
    """The stream and the cursor of an open page, for its script.

    Attributes:
        stream: The address of the events that the page follows.
        cursor: The cursor of what the page shows.
    """

    stream: str
    cursor: str


def following(page: Page, snapshot: RunSnapshot) -> Following | None:
    """Return how the page follows its run; `None` for a run that has ended."""
    run = snapshot.window.state.run
    if run.status in ENDED_STATUSES:
        return None
    path = page.live.stream(snapshot.cursor, run.id)
    return Following(page.url(path), snapshot.cursor)


def live_shell(page: Page, follow: Following | None) -> Shell:
    """Return the frame of a page that follows its run, if it does."""
    if follow is None:
        return page.shell
    scripts = (*page.shell.scripts, _SCRIPT)
    return replace(page.shell, is_live=True, scripts=scripts)
