"""A wrapper that makes a store fail as stores fail, and always in the same way.

Every operation gets a number, 1, 2, 3 …, and is recorded. A *plan* looks at the
operation and says what goes wrong with it, if anything::

    store = FaultyStore(MemoryStore(), on("create", lost_reply(), prefix="runs/"))
    store = FaultyStore(FileStore(root), at(7, killed("after")))

To try a crash everywhere, run once without a plan, count `store.operations`, and
run again with a crash before and after each number. `crashed` does so inside one
process: after it every operation raises `Crash`, as if nobody were there to do it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from continuations_storage.contract import PAGE_SIZE
from continuations_storage.errors import Inconclusive, StorageError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime

    from continuations_storage.contract import Store

__all__ = [
    "Crash",
    "Fault",
    "FaultPlan",
    "FaultyStore",
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

Verb = Literal["create", "read", "keys", "delete", "probe"]
Moment = Literal["before", "after"]
T = TypeVar("T")


class Crash(BaseException):
    """The process "died" here; no `except Exception` may survive it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One call of a verb; `key` is the prefix of a listing, "" of a probe."""

    number: int
    verb: Verb
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong with an operation, and whether before or after its effect."""

    moment: Moment = "before"
    delay: float = 0.0
    error: type[StorageError] | None = None
    crash: bool = False
    kill: bool = False


class FaultPlan(Protocol):
    """Says what goes wrong with an operation; a plain function will do."""

    def __call__(self, operation: Operation, /) -> Fault | None:
        """Return the fault, or None for an operation that goes well."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleListing:
    """Listings do not show keys under the prefix made in the last operations.

    A store that lags so breaks the contract; this shows what then happens.
    """

    prefix: str
    operations: int


def refused(error: type[StorageError] = Unavailable) -> Fault:
    """Fail before the effect: nothing was written."""
    return Fault(error=error)


def lost_reply(error: type[StorageError] = Inconclusive) -> Fault:
    """Fail after the effect: it landed, and the caller is told an error.

    `Unavailable` here is a store that breaks its word that nothing was written.
    """
    return Fault(moment="after", error=error)


def delayed(seconds: float, moment: Moment = "before") -> Fault:
    """Let the operation, or its reply, take longer."""
    return Fault(moment=moment, delay=seconds)


def crashed(moment: Moment) -> Fault:
    """Raise Crash now and from every operation afterwards."""
    return Fault(moment=moment, crash=True)


def killed(moment: Moment) -> Fault:
    """Kill this very process with SIGKILL."""
    return Fault(moment=moment, kill=True)


def no_faults(_: Operation, /) -> Fault | None:
    """Plan that every operation goes well."""
    return None


def at(number: int, fault: Fault) -> FaultPlan:
    """Plan the fault for the operation with that number."""
    return lambda operation: fault if operation.number == number else None


def on(
    verb: Verb, fault: Fault, *, prefix: str = "", skip: int = 0, times: int = 1
) -> FaultPlan:
    """Plan the fault for the verb on such keys: `times` in a row after `skip`."""
    seen = 0

    def plan(operation: Operation, /) -> Fault | None:
        nonlocal seen
        if operation.verb != verb or not operation.key.startswith(prefix):
            return None
        seen += 1
        return fault if skip < seen <= skip + times else None

    return plan


def first_of(*plans: FaultPlan) -> FaultPlan:
    """Plan the first fault that any of the plans names; all of them are asked."""

    def plan(operation: Operation, /) -> Fault | None:
        faults = [each(operation) for each in plans]
        return next((fault for fault in faults if fault is not None), None)

    return plan


class FaultyStore:
    """Passes everything on to the inner store, except for what the plan spoils."""

    def __init__(
        self,
        inner: Store,
        plan: FaultPlan = no_faults,
        stale_listings: Sequence[StaleListing] = (),
    ) -> None:
        self.inner = inner
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

    async def read(self, key: str) -> bytes:
        """Return the whole body."""
        return await self._perform("read", key, lambda _: self.inner.read(key))

    async def keys(
        self, prefix: str, after: str = "", limit: int = PAGE_SIZE
    ) -> list[str]:
        """Return the first keys, without those that a stale listing hides."""
        return await self._perform(
            "keys", prefix, lambda now: self._list_visible(now, prefix, after, limit)
        )

    async def delete(self, key: str) -> None:
        """Remove the key."""
        await self._perform("delete", key, lambda _: self.inner.delete(key))

    async def probe(self) -> None:
        """Let the inner store prove itself; one operation here."""
        await self._perform("probe", "", lambda _: self.inner.probe())

    async def _perform(
        self, verb: Verb, key: str, effect: Callable[[int], Awaitable[T]]
    ) -> T:
        if self.has_crashed:
            raise Crash(f"{verb} {key}: this process is dead already")
        operation = Operation(number=len(self.operations) + 1, verb=verb, key=key)
        self.operations.append(operation)
        fault = self.plan(operation)
        await self._apply_fault(fault, "before", key)
        try:
            return await effect(operation.number)
        finally:
            # A reply can be lost whatever it said, also "already exists".
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
        # Also when another task crashed while this one was under way.
        if self.has_crashed:
            raise Crash(f"{moment} the effect on {key!r}")

    async def _list_visible(
        self, operation_number: int, prefix: str, after: str, limit: int
    ) -> list[str]:
        if not self.stale_listings:
            return await self.inner.keys(prefix, after, limit)
        found: list[str] = []
        while True:
            page = await self.inner.keys(prefix, after, limit)
            found += [key for key in page if not self._is_hidden(key, operation_number)]
            if len(page) < limit or len(found) >= limit:
                return found[:limit]
            after = page[-1]

    def _is_hidden(self, key: str, operation_number: int) -> bool:
        made_at = self._created_at_operation.get(key)
        return made_at is not None and any(
            key.startswith(stale.prefix)
            and operation_number - made_at <= stale.operations
            for stale in self.stale_listings
        )
