"""A version of a run in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.value_class import dataclass

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.state import RunState
    from continuations.ledger.fenwick import Tree


@dataclass(frozen=True, slots=True)
class RebuiltVersion:
    """A rebuilt version that can be the base of a later delta."""

    number: int
    state: RunState
    digest: bytes
    # The bytes of a small root; the version after it may carry them.
    small_object: bytes | None = None


@dataclass(frozen=True, slots=True)
class LoadedVersion:
    """A version of a run, and the versions from which it was rebuilt.

    Attributes:
        number: The number of the version, from 1.
        tree: The tree of deltas that it belongs to.
        state: The state of the run.
        chain: The versions from which it was rebuilt, the oldest first.
        at: When the version was written.
        marker_keys: The keys of the markers that point at the run.
        store_time: The store's time of the create, if this process created the version
            and the store has a clock.
        replies: The versions of replies, if the run is a thread (`reply_table`).
    """

    number: int
    tree: Tree
    state: RunState
    chain: tuple[RebuiltVersion, ...]
    at: datetime
    marker_keys: tuple[str, ...] = ()
    store_time: datetime | None = None
    replies: tuple[int, ...] = ()
