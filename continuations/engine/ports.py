"""What the engine needs from the machine: clocks, ids, and somebody to tell.

They come in from outside, so that a test can replay every schedule.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from continuations.core import ulid
from continuations.errors import InvalidInput
from continuations.wire.fields import to_milliseconds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from continuations.core.waits import Wait
    from continuations.ledger.claims import Clock

    Notify = Callable[[Wait], Awaitable[None] | None]

# CLOCK_BOOTTIME counts the time that the machine was asleep; where it is missing
# (macOS), CLOCK_MONOTONIC does there what BOOTTIME does elsewhere.
_ELAPSED_CLOCK_ID = getattr(
    time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None)
)


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> datetime:
        """Return the wall clock's time, in whole milliseconds, UTC."""
        now = datetime.now(UTC)
        return now - timedelta(microseconds=now.microsecond % 1000)

    def elapsed(self) -> float:
        """Return seconds that also count while the machine sleeps."""
        return (
            time.monotonic()
            if _ELAPSED_CLOCK_ID is None
            else time.clock_gettime(_ELAPSED_CLOCK_ID)
        )


class IdGenerator(Protocol):
    """Where ids that nobody can guess come from."""

    def new_ulid(self, now: datetime) -> str:
        """Return a new ULID of a time, lower case."""
        ...


class SystemIdGenerator:
    """ULIDs from the operating system's randomness."""

    def new_ulid(self, now: datetime) -> str:
        """Return a new ULID."""
        return ulid.encode_ulid(to_milliseconds(now), os.urandom(ulid.RANDOM_BYTES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The machine, as one value; `notify` is told of each new wait once it is kept."""

    clock: Clock = field(default_factory=SystemClock)
    ids: IdGenerator = field(default_factory=SystemIdGenerator)
    notify: Notify | None = None

    @classmethod
    def with_defaults(
        cls, *, clock: Clock | None, ids: IdGenerator | None, notify: Notify | None
    ) -> Ports:
        """Return the machine's ports, but for those given; raises `InvalidInput`."""
        for given, methods in ((clock, ("now", "elapsed")), (ids, ("new_ulid",))):
            lacking = [name for name in methods if not hasattr(given, name)]
            if given is not None and lacking:
                msg = f"A {type(given).__name__} has no method {lacking[0]}"
                raise InvalidInput(msg)
        if notify is not None and not callable(notify):
            msg = "notify is a function of a wait, plain or async"
            raise InvalidInput(msg)
        return cls(
            clock=clock or SystemClock(), ids=ids or SystemIdGenerator(), notify=notify
        )
