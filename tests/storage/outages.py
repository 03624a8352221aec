"""Outages of a store for some seconds: a plan for `S3Proxy`, for both drivers.

::

    time = VirtualTime()
    outage = Outage("dropped", seconds=10, now=time.now)
    with S3Proxy(FakeS3(), outage) as proxy:
        store = open_s3(proxy, "boto3", time.retry_policy())
        outage.begin()  # for example inside a tool
        …

With `VirtualTime`, only the pauses between attempts pass, so a test takes no time.
Without it, an outage lasts real seconds.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from continuations_storage.obstore import ObjectStore
from continuations_storage.retries import RetryPolicy
from continuations_storage.s3 import S3Store
from tests.storage.s3_proxy import (
    Fault,
    Request,
    S3Proxy,
    error_response,
    lost_reply,
    lost_request,
    no_fault,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "DRIVERS",
    "OUTAGE_KINDS",
    "Driver",
    "Outage",
    "OutageKind",
    "VirtualTime",
    "open_s3",
]

Driver = Literal["boto3", "obstore"]
OutageKind = Literal["dropped", "slow down", "stored and dropped", "500"]
DRIVERS: tuple[Driver, ...] = get_args(Driver)
OUTAGE_KINDS: tuple[OutageKind, ...] = get_args(OutageKind)

_FAULTS: dict[OutageKind, Callable[[], Fault]] = {
    "dropped": lost_request,
    "slow down": lambda: error_response(503, "SlowDown"),
    "stored and dropped": lost_reply,
    "500": lambda: error_response(500, "InternalError"),
}


@dataclass
class VirtualTime:
    """A clock that only the pauses between attempts advance.

    Attributes:
        seconds: The seconds that passed.
        pauses: The pauses, in order.
        dice: The part of the longest pause that is taken, in place of a random one.
    """

    seconds: float = 0.0
    pauses: list[float] = field(default_factory=list[float])
    dice: float = 0.5

    def now(self) -> float:
        """Return the seconds that passed."""
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        """Pass the seconds at once."""
        self.pauses.append(seconds)
        self.seconds += seconds
        await asyncio.sleep(0)

    def retry_policy(self, **limits: Any) -> RetryPolicy:
        """Return a policy with this time and these pauses."""
        return RetryPolicy(
            clock=self.now,
            sleep=self.sleep,
            random_fraction=lambda: self.dice,
            **limits,
        )


class Outage:
    """A plan that makes every request fail from `begin` on for some seconds.

    Attributes:
        failed: The requests that failed.
    """

    def __init__(
        self,
        kind: OutageKind,
        seconds: float,
        now: Callable[[], float] = time.monotonic,
        *,
        begins_with: Callable[[Request], bool] = lambda _: False,
    ) -> None:
        self._make_fault = _FAULTS[kind]
        self._seconds = seconds
        self._now = now
        self._begins_with = begins_with
        self._until: float | None = None
        self.failed: list[Request] = []

    def begin(self) -> None:
        """Begin the outage, unless it has begun already."""
        if self._until is None:
            self._until = self._now() + self._seconds

    @property
    def is_over(self) -> bool:
        """Whether the outage has begun and ended."""
        return self._until is not None and self._now() >= self._until

    def __call__(self, request: Request) -> Fault:
        """Return the fault of a request; `begins_with` may begin the outage."""
        if self._begins_with(request):
            self.begin()
        if self._until is None or self._now() >= self._until:
            return no_fault()
        self.failed.append(request)
        return self._make_fault()


def open_s3(
    proxy: S3Proxy, driver: Driver, retry_policy: RetryPolicy
) -> S3Store | ObjectStore:
    """Open the bucket behind a proxy with one of the drivers."""
    if driver == "boto3":
        return S3Store("bucket", "p", endpoint=proxy.url, retry_policy=retry_policy)
    return ObjectStore("s3://bucket/p", endpoint=proxy.url, retry_policy=retry_policy)
