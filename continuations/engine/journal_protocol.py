"""The journal that a run loop needs, and the journal of a run without a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from continuations.ledger.arrivals import Arrivals

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from continuations.core.operator_request import OperatorRequest
    from continuations.core.state import RunState
    from continuations.core.waits import Wait
    from continuations.engine.storeless_feed import StorelessFeed
    from continuations.wire.arrivals import InboxMessage


class Journal(Protocol):
    """Keeps the versions of a run for a run loop."""

    @property
    def version_number(self) -> int:
        """The number of the last version that was committed."""
        ...

    @property
    def can_start_action(self) -> bool:
        """Whether enough of the claim is left to start a call."""
        ...

    @property
    def seconds_to_renewal(self) -> float | None:
        """Seconds until the claim must be renewed; `None` for never."""
        ...

    @property
    def claim_end(self) -> datetime | None:
        """When the claim ends unless it is renewed; `None` without a claim."""
        ...

    async def commit(self, state: RunState, *, progressed: bool) -> Arrivals:
        """Commit a running state; return new requests of operators."""
        ...

    async def read_next_message(self, state: RunState) -> InboxMessage | None:
        """Return the next unread message of a thread that can take it, or `None`."""
        ...

    async def read_messages(self, numbers: Sequence[int]) -> Arrivals:
        """Return unread messages that were listed before."""
        ...

    async def read_late_arrivals(self, state: RunState) -> Arrivals:
        """Return unread messages and requests, before the run may finish."""
        ...

    async def close_cancelled_waits(
        self,
        state: RunState,
        waits: Sequence[Wait],
        requests: Sequence[OperatorRequest],
    ) -> None:
        """Close the waits that requests of operators ended."""
        ...


class NoJournal:
    """For runs without a store: it counts the versions, and keeps none.

    Attributes:
        version_number: The number of the last version.
        feed: Takes the events of each version, if there is a listener.
    """

    can_start_action = True
    seconds_to_renewal = None
    claim_end = None

    def __init__(
        self, version_number: int = 0, feed: StorelessFeed | None = None
    ) -> None:
        self.version_number = version_number
        self.feed = feed

    async def commit(self, state: RunState, *, progressed: bool) -> Arrivals:
        """Count a version; without a store, a crash loses the run."""
        del progressed
        self.count(state)
        return Arrivals()

    def count(self, state: RunState) -> None:
        """Count a version."""
        self.version_number += 1
        if self.feed is not None:
            self.feed.report(state, self.version_number)

    async def read_next_message(self, state: RunState) -> InboxMessage | None:
        """Return `None`; without a store, a run has no inbox."""
        del state
        return None

    async def read_messages(self, numbers: Sequence[int]) -> Arrivals:
        """Return nothing; without a store, a run has no inbox."""
        del numbers
        return Arrivals()

    async def read_late_arrivals(self, state: RunState) -> Arrivals:
        """Return nothing; without a store, a run has no inbox."""
        del state
        return Arrivals()

    async def close_cancelled_waits(
        self,
        state: RunState,
        waits: Sequence[Wait],
        requests: Sequence[OperatorRequest],
    ) -> None:
        """Do nothing; without a store, no process decides a wait meanwhile."""
