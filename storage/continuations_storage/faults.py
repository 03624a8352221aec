"""A wrapper that makes a store fail in a repeatable way, for tests.

Every operation gets a number, 1, 2, 3 …, and is recorded. A *plan* returns the fault of
an operation, or None::

    store = FaultyStore(MemoryStore(), on("create", lost_reply(), prefix="runs/"))
    store = FaultyStore(FileStore(root), at(7, killed("after")))

To test a crash at every point, run once without a plan, count `store.operations`, and
run again with a crash before and after each number. `crashed` simulates a crash inside
one process: after it, every operation raises `Crash`.
"""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from continuations_storage.contract import (
    PAGE_SIZE,
    committer,
    created_at,
    listing_size,
    missing_folder,
    time_resolution,
    watch,
)
from continuations_storage.errors import Inconclusive, StorageError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime, timedelta

    from continuations_storage.contract import Changes, Committed, Store, Watch

__all__ = [
    "Crash",
    "Fault",
    "FaultPlan",
    "FaultyStore",
    "ForwardingStore",
    "Operation",
    "StaleListing",
    "at",
    "crashed",
    "delayed",
    "first_of",
    "killed",
    "lost_reply",
    "no_faults",
    "on",
    "refused",
]


class ForwardingStore:
    """A store with the operations and the optional attributes of another store.

    A subclass overrides the operations that it changes.

    Args:
        inner: The store.

    Attributes:
        inner: The wrapped store.
    """

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    @property
    def time_resolution(self) -> timedelta:
        """The resolution of the inner store's time."""
        return time_resolution(self.inner)

    @property
    def listing_size(self) -> int:
        """The number of keys to ask the inner store for in a long listing."""
        return listing_size(self.inner)

    @property
    def missing_folder(self) -> str | None:
        """The folder of the inner store, if the folder does not exist."""
        return missing_folder(self.inner)

    def watch(self, prefix: str) -> AbstractAsyncContextManager[Watch] | None:
        """Watch the creates of the inner store.

        Args:
            prefix: The beginning of the keys.

        Returns:
            A block in which keys are watched; `None` if the inner store has no watch.
        """
        return watch(self.inner, prefix)

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Put the body if the key is absent."""
        return await self.inner.create(key, body)

    async def created_at(self, key: str) -> datetime | None:
        """Return the inner store's time of a create.

        Args:
            key: The key of the object.

        Returns:
            The time; `None` if the inner store does not tell it.
        """
        return await created_at(self.inner, key)

    async def read(self, key: str) -> bytes:
        """Return the whole body."""
        return await self.inner.read(key)

    async def keys(
        self, prefix: str, after: str = "", limit: int = PAGE_SIZE
    ) -> list[str]:
        """Return the first keys of a prefix."""
        return await self.inner.keys(prefix, after, limit)

    async def delete(self, key: str) -> None:
        """Remove the key."""
        await self.inner.delete(key)

    async def probe(self) -> None:
        """Probe the inner store."""
        await self.inner.probe()


Verb = Literal["create", "read", "keys", "delete", "probe", "commit"]
Moment = Literal["before", "after"]
T = TypeVar("T")


class Crash(BaseException):
    """A simulated end of the process; `except Exception` does not catch it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One call of a verb.

    Attributes:
        number: The position of the call, from 1.
        verb: The verb.
        key: The key; the prefix of a listing; "" for a probe.
    """

    number: int
    verb: Verb
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The failure of one operation.

    Attributes:
        moment: Before or after the effect of the operation.
        delay: Seconds to wait at that moment.
        error: The error to raise, or None.
        crash: Whether to simulate a crash.
        kill: Whether to kill this process with SIGKILL.
    """

    moment: Moment = "before"
    delay: float = 0.0
    error: type[StorageError] | None = None
    crash: bool = False
    kill: bool = False


class FaultPlan(Protocol):
    """A callable that returns the fault of an operation, or None."""

    def __call__(self, operation: Operation, /) -> Fault | None:
        """Return the fault, or None for an operation without one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleListing:
    """Listings that do not show new keys yet. Such a store breaks the contract.

    Attributes:
        prefix: The prefix of the hidden keys.
        operations: How many operations a new key stays hidden.
    """

    prefix: str
    operations: int


def refused(error: type[StorageError] = Unavailable) -> Fault:
    """Raise the error before the effect: nothing was written."""
    return Fault(error=error)


def lost_reply(error: type[StorageError] = Inconclusive) -> Fault:
    """Raise the error after the effect: the body was stored.

    With `Unavailable`, the store breaks the contract, because that error means that
    nothing was written.
    """
    return Fault(moment="after", error=error)


def delayed(seconds: float, moment: Moment = "before") -> Fault:
    """Delay the operation, or its reply, by seconds."""
    return Fault(moment=moment, delay=seconds)


def crashed(moment: Moment) -> Fault:
    """Raise `Crash` now and in every later operation."""
    return Fault(moment=moment, crash=True)


def killed(moment: Moment) -> Fault:
    """Kill this process with SIGKILL."""
    return Fault(moment=moment, kill=True)


def no_faults(_: Operation, /) -> Fault | None:
    """Return None for every operation: a plan without faults."""
    return None


def at(number: int, fault: Fault) -> FaultPlan:
    """Return a plan with a fault for the operation with a number."""
    return lambda operation: fault if operation.number == number else None


def on(
    verb: Verb, fault: Fault, *, prefix: str = "", skip: int = 0, times: int = 1
) -> FaultPlan:
    """Return a plan with a fault for some calls of a verb.

    Args:
        verb: The verb.
        fault: The fault.
        prefix: Count only calls whose key has this prefix.
        skip: The number of calls without a fault at the beginning.
        times: The number of calls with the fault after that.
    """
    seen = 0

    def plan(operation: Operation, /) -> Fault | None:
        nonlocal seen
        if operation.verb != verb or not operation.key.startswith(prefix):
            return None
        seen += 1
        return fault if skip < seen <= skip + times else None

    return plan


def first_of(*plans: FaultPlan) -> FaultPlan:
    """Return a plan with the first fault of several plans; all of them are called."""

    def plan(operation: Operation, /) -> Fault | None:
        faults = [each(operation) for each in plans]
        return next((fault for fault in faults if fault is not None), None)

    return plan


class FaultyStore(ForwardingStore):
    """A store that passes operations on to another store, with faults from a plan.

    `created_at` is no operation: it has no number and no fault.

    Args:
        inner: The store.
        plan: Returns the fault of an operation; by default no faults.
        stale_listings: Listings that do not show new keys yet.
        commits: Whether to pass on the method ``commit`` of the other store, as one
            operation. By default, this store has no such method.

    Attributes:
        inner: The wrapped store.
        plan: The plan; it may be replaced at any time.
        stale_listings: The listings that do not show new keys yet.
        operations: Every operation so far.
        has_crashed: Whether a simulated crash has happened.
    """

    def __init__(
        self,
        inner: Store,
        plan: FaultPlan = no_faults,
        stale_listings: Sequence[StaleListing] = (),
        *,
        commits: bool = False,
    ) -> None:
        super().__init__(inner)
        made = committer(inner) if commits else None
        self.commit = made and partial(self._commit_with, made)
        self.plan = plan
        self.stale_listings = tuple(stale_listings)
        self.operations: list[Operation] = []
        self.has_crashed = False
        self._created_at_operation: dict[str, int] = {}

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Put the body if the key is absent."""

        async def effect(number: int) -> datetime | None:
            time = await self.inner.create(key, body)
            self._created_at_operation[key] = number
            return time

        return await self._perform("create", key, effect)

    async def _commit_with(
        self, commit: Callable[[Changes], Awaitable[Committed]], changes: Changes
    ) -> Committed:
        async def effect(number: int) -> Committed:
            committed = await commit(changes)
            keys = (changes.key, *changes.also)
            self._created_at_operation.update(dict.fromkeys(keys, number))
            return committed

        return await self._perform("commit", changes.key, effect)

    async def read(self, key: str) -> bytes:
        """Return the whole body."""
        return await self._perform("read", key, lambda _: self.inner.read(key))

    async def keys(
        self, prefix: str, after: str = "", limit: int = PAGE_SIZE
    ) -> list[str]:
        """Return the first keys, without the hidden ones."""
        return await self._perform(
            "keys", prefix, lambda now: self._list_visible(now, prefix, after, limit)
        )

    async def delete(self, key: str) -> None:
        """Remove the key."""
        await self._perform("delete", key, lambda _: self.inner.delete(key))

    async def probe(self) -> None:
        """Probe the inner store; this counts as one operation."""
        await self._perform("probe", "", lambda _: self.inner.probe())

    async def _perform(
        self, verb: Verb, key: str, effect: Callable[[int], Awaitable[T]]
    ) -> T:
        if self.has_crashed:
            raise Crash(f"{verb} {key}: the process has crashed")
        operation = Operation(number=len(self.operations) + 1, verb=verb, key=key)
        self.operations.append(operation)
        fault = self.plan(operation)
        await self._apply_fault(fault, "before", key)
        try:
            return await effect(operation.number)
        finally:
            # Any reply can be lost, also "already exists".
            await self._apply_fault(fault, "after", key)

    async def _apply_fault(self, fault: Fault | None, moment: Moment, key: str) -> None:
        if fault is not None and fault.moment == moment:
            if fault.delay:
                await asyncio.sleep(fault.delay)
            if fault.kill:
                os.kill(os.getpid(), signal.SIGKILL)
            if fault.crash:
                self.has_crashed = True
            elif fault.error:
                raise fault.error(key, f"injected {moment} the effect")
        # Also if another task crashed during this operation.
        if self.has_crashed:
            raise Crash(f"{moment} the effect on {key!r}")

    async def _list_visible(
        self, operation_number: int, prefix: str, after: str, limit: int
    ) -> list[str]:
        if not self.stale_listings:
            return await self.inner.keys(prefix, after, limit)
        visible: list[str] = []
        while True:
            page = await self.inner.keys(prefix, after, limit)
            visible += [
                key for key in page if not self._is_hidden(key, operation_number)
            ]
            if len(page) < limit or len(visible) >= limit:
                return visible[:limit]
            after = page[-1]

    def _is_hidden(self, key: str, operation_number: int) -> bool:
        created_at = self._created_at_operation.get(key)
        return created_at is not None and any(
            key.startswith(stale.prefix)
            and operation_number - created_at <= stale.operations
            for stale in self.stale_listings
        )
