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

    from continuations_storage.retry_policy import RetryPolicy

__all__ = [
    "AttemptFailed",
    "ErrorRule",
    "StoredObjectInfo",
    "create_with_retries",
    "retry",
]

T = TypeVar("T")

_READ_BACK_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class ErrorRule:
    """One line of a store's table of answers."""

    error: type[StorageError]
    retry: bool = False
    may_be_stored: bool = False
    hint: str = ""


class AttemptFailed(Exception):
    """One attempt failed; `wait` is how long the other side asked us to wait."""

    def __init__(
        self,
        rule: ErrorRule,
        detail: str,
        *,
        retry_after: float = 0.0,
        may_be_stored: bool | None = None,
    ) -> None:
        super().__init__(detail)
        self.rule = rule
        self.detail = detail
        self.retry_after = retry_after
        self.may_be_stored = (
            rule.may_be_stored if may_be_stored is None else may_be_stored
        )

    def to_storage_error(self, key: str | None) -> StorageError:
        """Return the contract's error for it."""
        return self.rule.error(key, self.detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObjectInfo:
    """Whose body stands under a key, and the store's time when it told so."""

    maker_id: str | None
    store_time: datetime | None


async def retry(
    policy: RetryPolicy, key: str | None, attempt: Callable[[], Awaitable[T]]
) -> T:
    """Attempt it, again and again as far as patience goes, or raise a StorageError."""
    tries = policy.begin()
    while True:
        try:
            return await attempt()
        except AttemptFailed as setback:
            if not (
                setback.rule.retry and await tries.wait_for_retry(setback.retry_after)
            ):
                raise setback.to_storage_error(key) from setback


async def create_with_retries(
    policy: RetryPolicy,
    key: str,
    maker_id: str,
    put: Callable[[], Awaitable[datetime | None]],
    head: Callable[[], Awaitable[StoredObjectInfo]],
) -> datetime | None:
    """Put if absent; if an attempt may have landed, ask whose body stands there."""
    tries = policy.begin()
    landed = False
    while True:
        try:
            return await put()
        except AttemptFailed as setback:
            last = setback
        landed = landed or last.may_be_stored
        if not (last.rule.retry and await tries.wait_for_retry(last.retry_after)):
            break
    if not landed:
        # "Exists already" on the first attempt is somebody else's: no request more.
        raise last.to_storage_error(key) from last
    if last.rule.retry:
        # The store does not answer, and we have waited long enough already.
        policy = replace(
            policy, max_attempts=min(policy.max_attempts, _READ_BACK_ATTEMPTS)
        )
    try:
        found = await retry(policy, key, head)
    except StorageError as cause:
        # Also when the key is free: what we sent may still be on its way.
        detail = f"{last.detail}; when read back: {cause.detail}"
        raise Inconclusive(key, detail) from cause
    if found.maker_id != maker_id:
        raise AlreadyExists(key)
    return found.store_time
