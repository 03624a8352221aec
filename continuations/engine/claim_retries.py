"""Retry an operation of the store while a claim lasts."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol, TypeVar

from continuations.errors import Inconclusive, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from continuations.engine.ports import Ports
    from continuations.ledger.loaded_version import LoadedVersion

T = TypeVar("T")

_log = logging.getLogger("continuations")
# Seconds between two tries while the store is down: the first and the longest. A store
# with retries of its own has already retried within each try.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0


class TimeLeft(Protocol):
    """The time that is left of a claim."""

    @property
    def seconds_left(self) -> float:
        """The seconds until the claim ends."""
        ...


async def retry_while_claimed(
    attempt: Callable[[], Awaitable[T]],
    lease: TimeLeft | None,
    ports: Ports,
    loaded: LoadedVersion | None,
) -> T:
    """Return the result of an attempt; retry until the claim ends, if there is one.

    Work that is not stored is lost, so the limit is a time and not a number. `loaded`
    is the last version, for the log.
    """
    pause = _FIRST_PAUSE
    while True:
        try:
            return await attempt()
        except (StoreUnavailable, Inconclusive) as error:
            if lease is None or lease.seconds_left <= pause:
                raise
            if pause == _FIRST_PAUSE and loaded is not None:
                _log.warning(
                    "run %s: the store is down after version %s; its worker tries "
                    "again until its claim ends: %s",
                    loaded.state.run.id,
                    loaded.number,
                    error,
                )
        await ports.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
