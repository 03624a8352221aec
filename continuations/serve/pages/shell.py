"""The navigation and identity around the content of a page of the console."""

from __future__ import annotations

from continuations.serve.pages.asset_files import asset_path
from continuations.value_class import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """The frame of a page of the console. A signed link has pages without it.

    Attributes:
        root: The mount prefix of the console, without a slash at its end.
        person: The name of the identity that reads the page.
        csrf: The token that each form of the page posts as `csrf`.
        section: The entry of the navigation that is current: `inbox`, `runs`,
            `threads` or `grants`; empty for none.
        open_waits: How many waits wait for the person; `None`: not known.
        is_live: Whether the page hears of changes while it is open.
        poll_seconds: Seconds between two questions of a live page; 0: it gets events.
        scripts: Names of the scripts that the page loads.
    """

    root: str
    person: str
    csrf: str
    section: str = ""
    open_waits: int | None = None
    is_live: bool = False
    poll_seconds: int = 0
    scripts: tuple[str, ...] = ()

    def asset(self, name: str) -> str:
        """Return the address of an asset."""
        return self.root + asset_path(name)
