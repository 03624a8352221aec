"""One operation, several attempts: what a store over a network does about failures.

An attempt raises a `Setback`, which has a row of a table: what it is once we stop
asking, whether to ask again, and whether a create may have landed all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from continuations_storage.errors import AlreadyExists, Inconclusive, StorageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from continuations_storage.patience import Patience

__all__ = ["Found", "Row", "Setback", "create", "persist"]

T = TypeVar("T")

_TO_READ_BACK = 3


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a store's table of answers."""

    error: type[StorageError]
    again: bool = False
    landed: bool = False
    hint: str = ""


class Setback(Exception):
    """One attempt failed; `wait` is how long the other side asked us to wait."""

    def __init__(
        self, row: Row, detail: str, *, wait: float = 0.0, landed: bool | None = None
    ) -> None:
        super().__init__(detail)
        self.row = row
        self.detail = detail
        self.wait = wait
        self.landed = row.landed if landed is None else landed

    def error(self, key: str | None) -> StorageError:
        """Return the contract's error for it."""
        return self.row.error(key, self.detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Whose body stands under a key, and the store's time when it told so."""

    maker: str | None
    time: datetime | None


async def persist(
    patience: Patience, key: str | None, attempt: Callable[[], Awaitable[T]]
) -> T:
    """Attempt it, again and again as far as patience goes, or raise a StorageError."""
    tries = patience.begin()
    while True:
        try:
            return await attempt()
        except Setback as setback:
            if not (setback.row.again and await tries.again(setback.wait)):
                raise setback.error(key) from setback


async def create(
    patience: Patience,
    key: str,
    maker: str,
    put: Callable[[], Awaitable[datetime | None]],
    head: Callable[[], Awaitable[Found]],
) -> datetime | None:
    """Put if absent; if an attempt may have landed, ask whose body stands there."""
    tries = patience.begin()
    landed = False
    while True:
        try:
            return await put()
        except Setback as setback:
            last = setback
        landed = landed or last.landed
        if not (last.row.again and await tries.again(last.wait)):
            break
    if not landed:
        # "Exists already" on the first attempt is somebody else's: no request more.
        raise last.error(key) from last
    if last.row.again:
        # The store does not answer, and we have waited long enough already.
        patience = replace(patience, attempts=min(patience.attempts, _TO_READ_BACK))
    try:
        found = await persist(patience, key, head)
    except StorageError as cause:
        # Also when the key is free: what we sent may still be on its way.
        detail = f"{last.detail}; when read back: {cause.detail}"
        raise Inconclusive(key, detail) from cause
    if found.maker != maker:
        raise AlreadyExists(key)
    return found.time
