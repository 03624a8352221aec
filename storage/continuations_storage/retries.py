"""Retries of one operation, and the read back after a create with a lost reply.

A failed attempt raises `AttemptFailed` with an `ErrorRule`, one row of the table in
`continuations_storage.s3errors`.

A wait is a random part of a limit that doubles with each attempt ("full jitter"), so
that clients which failed together do not return together. A wait that the server asks
for is added. Clock, sleep and randomness are parameters, so that tests control them.
"""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from continuations_storage.errors import AlreadyExists, Inconclusive, StorageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator
    from datetime import datetime

    from continuations_storage.errors import Operation

__all__ = [
    "AttemptFailed",
    "ErrorRule",
    "RetryPolicy",
    "RetryState",
    "StoredObjectInfo",
    "create_with_retries",
    "located_errors",
    "retry",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The limits of the attempts of one operation.

    Attributes:
        max_attempts: The most attempts, the first one included.
        max_seconds: No attempt begins later than this after the first one.
        first_delay: The upper limit of the first wait, in seconds.
        max_delay: The upper limit of every wait, in seconds.
        clock: Returns monotonic seconds.
        sleep: Waits for seconds.
        random_fraction: Returns a random number from 0 to 1.
    """

    max_attempts: int = 8
    max_seconds: float = 30.0
    first_delay: float = 0.1
    max_delay: float = 5.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random_fraction: Callable[[], float] = random.random

    def begin(self) -> RetryState:
        """Begin one operation, whose first attempt begins now.

        Returns:
            The state of the attempts of this operation.
        """
        return RetryState(self)


class RetryState:
    """The attempts of one operation so far."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._made = 1
        self._until = policy.clock() + policy.max_seconds

    async def wait_for_retry(self, min_delay: float = 0.0) -> bool:
        """Wait and return True, or return False at once if no attempt is left."""
        policy = self._policy
        if self._made >= policy.max_attempts:
            return False
        limit = min(policy.max_delay, policy.first_delay * 2 ** (self._made - 1))
        wait = min_delay + policy.random_fraction() * limit
        if policy.clock() + wait > self._until:
            return False
        self._made += 1
        await policy.sleep(wait)
        return True


T = TypeVar("T")

_READ_BACK_ATTEMPTS = 3


@contextmanager
def located_errors(operation: Operation, place: str) -> Generator[None]:
    """Add the operation and the place to every `StorageError` that is raised.

    Args:
        operation: The verb.
        place: The bucket, prefix and endpoint. It must not contain credentials.
    """
    try:
        yield
    except StorageError as error:
        error.locate(operation, place)
        raise


@dataclass(frozen=True, slots=True)
class ErrorRule:
    """One row of a store's error table.

    Attributes:
        error: The error of the contract to raise after the last attempt.
        retry: Whether to try again.
        may_be_stored: Whether a create may have been stored in spite of the error.
        is_conflict: Whether the reply means "ask again": a create that then finds
            the key taken may have found its own body.
        hint: How to fix the cause; appended to the detail.
    """

    error: type[StorageError]
    retry: bool = False
    may_be_stored: bool = False
    is_conflict: bool = False
    hint: str = ""


class AttemptFailed(Exception):
    """One attempt failed; `retry_after` is the wait that the server asks for (s)."""

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
        """Return the error of the contract."""
        return self.rule.error(key, self.detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObjectInfo:
    """A stored object, as the reply to a put or a head describes it.

    Attributes:
        maker_id: The id of the create that made the object.
        store_time: The store's time, if the reply has it.
        version_id: The version id of the object, if the bucket keeps versions.
    """

    maker_id: str | None
    store_time: datetime | None
    version_id: str | None


async def retry(
    policy: RetryPolicy, key: str | None, attempt: Callable[[], Awaitable[T]]
) -> T:
    """Return the result of an attempt; retry as the policy allows.

    Raises:
        StorageError: The last attempt failed.
    """
    state = policy.begin()
    while True:
        try:
            return await attempt()
        except AttemptFailed as failure:
            if not (
                failure.rule.retry and await state.wait_for_retry(failure.retry_after)
            ):
                raise failure.to_storage_error(key) from failure


async def create_with_retries(
    policy: RetryPolicy,
    key: str,
    maker_id: str,
    put: Callable[[], Awaitable[StoredObjectInfo]],
    head: Callable[[], Awaitable[StoredObjectInfo]],
) -> StoredObjectInfo:
    """Put if absent; after a lost reply, compare the stored maker id with ours.

    A key that is taken after a conflict is looked at too: the object may be ours.

    Args:
        policy: How often to retry.
        key: The key.
        maker_id: The random id of this create, stored beside the body.
        put: One conditional put.
        head: Reads the maker id that is stored under the key.

    Returns:
        The stored object.

    Raises:
        AlreadyExists: The stored object has another maker id.
        Inconclusive: The body may be stored, and the key could not be read back.
        StorageError: Nothing was written.
    """
    state = policy.begin()
    may_be_stored = had_conflict = False
    while True:
        try:
            return await put()
        except AttemptFailed as failure:
            last = failure
        may_be_stored = may_be_stored or last.may_be_stored
        had_conflict = had_conflict or last.rule.is_conflict
        if not (last.rule.retry and await state.wait_for_retry(last.retry_after)):
            break
    is_taken = last.rule.error is AlreadyExists
    if not may_be_stored and not (is_taken and had_conflict):
        # If the first attempt finds the key taken, the body is another's: no HEAD.
        raise last.to_storage_error(key) from last
    if last.rule.retry:
        # The store does not answer, and most of the time is used up.
        policy = replace(
            policy, max_attempts=min(policy.max_attempts, _READ_BACK_ATTEMPTS)
        )
    try:
        stored = await retry(policy, key, head)
    except StorageError as cause:
        # Also if the key is absent: our request may still be on its way.
        detail = f"{last.detail}; then the read back failed: {cause.detail}"
        raise Inconclusive(key, detail) from cause
    if stored.maker_id != maker_id:
        raise AlreadyExists(key)
    return stored
