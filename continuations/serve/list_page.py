"""One page of a list: its rows, the cursor of the next page, and a bound of its reads.

An application may allow a person to view few runs of a store that has many. So a page
ends after a number of read rows too, with fewer rows than it may have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

# A page reads at most so many rows, also if it shows few of them.
MAX_READ = 1000

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPage(Generic[Row]):
    """One page of a list.

    Attributes:
        rows: The rows that the person may see.
        next: The cursor of the next page; `None` on the last page.
    """

    rows: tuple[Row, ...]
    next: str | None


async def read_page(
    items: AsyncIterator[Row],
    *,
    limit: int,
    max_read: int | None = None,
    cursor_of: Callable[[Row], str],
    is_shown: Callable[[Row], Awaitable[bool]],
    seal: Callable[[str], str],
) -> ListPage[Row]:
    """Read one page of a list.

    Args:
        items: The rows after the cursor of the page.
        limit: The largest number of rows of the page.
        max_read: The largest number of rows that are read; at least `limit` are.
            Default: `MAX_READ`.
        cursor_of: Returns the cursor of a row.
        is_shown: Returns whether the person may see a row.
        seal: Returns the cursor of a hidden row as they may see it: `Cursors.seal`.
    """
    most = max(limit, MAX_READ if max_read is None else max_read)
    rows: list[Row] = []
    cursor, read, was_shown = "", 0, True
    async for item in items:
        if len(rows) == limit or read == most:
            following = cursor if was_shown else seal(cursor)
            return ListPage(rows=tuple(rows), next=following)
        cursor, read = cursor_of(item), read + 1
        was_shown = await is_shown(item)
        if was_shown:
            rows.append(item)
    return ListPage(rows=tuple(rows), next=None)
