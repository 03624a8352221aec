"""The list that a wait is opened from: its filter, neighbours and next wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.serve.console.inbox_page import Filter, find_waits
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.serve.console.page import Page


@dataclass(frozen=True, slots=True, kw_only=True)
class Crumbs:
    """The way back to the list, and the neighbours of a wait.

    Attributes:
        list: The address of the list.
        name: Its name.
        place: The place of the wait in it, or an empty text.
        previous: The address of the wait before, or an empty text.
        next: The address of the wait after, or an empty text.
    """

    list: str
    name: str
    place: str
    previous: str
    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitList:
    """The waits of one filter, in the order of the inbox.

    Attributes:
        page: The request, whose query has the filter.
        chosen: The filter.
    """

    page: Page
    chosen: Filter

    @classmethod
    def of(cls, page: Page) -> WaitList:
        """Return the list of a request."""
        return cls(page=page, chosen=Filter.of_query(page.query))

    @property
    def query(self) -> str:
        """The filter as a query with a question mark; empty for the default."""
        return self.chosen.query_text()

    async def crumbs(self, wait_id: str) -> Crumbs:
        """Return the neighbours of a wait on the first page of the list."""
        ids = await self._ids(max_pages=1)
        place = ids.index(wait_id) if wait_id in ids else None
        before = "" if not place else ids[place - 1]
        after = "" if place is None else next(iter(ids[place + 1 :]), "")
        return Crumbs(
            list=self.page.url(f"/inbox{self.query}"),
            name="Inbox",
            place="" if place is None else f"{place + 1} of {len(ids)}",
            previous=before and self._address(before),
            next=after and self._address(after),
        )

    async def following(self, wait_id: str) -> str:
        """Return the address of the next wait, or an empty text.

        Call it before the wait is decided: afterwards the wait has no place any more.
        """
        ids = await self._ids()
        if wait_id not in ids:
            return ""
        after = ids[ids.index(wait_id) + 1 :]
        return self._address(after[0]) if after else ""

    async def _ids(self, *, max_pages: int | None = None) -> list[str]:
        found = await find_waits(self.page, self.chosen, "", max_pages=max_pages)
        return [row.wait.id for row in found.rows if not row.expired]

    def _address(self, wait_id: str) -> str:
        return self.page.url(f"/waits/{wait_id}{self.query}")
