"""A version of a run in memory."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from continuations.value_class import dataclass

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.rows.state import RunState
    from continuations_storage.contract import Committed


@dataclass(frozen=True, slots=True)
class RebuiltVersion:
    """A rebuilt version that can be the base of a later delta."""

    number: int
    state: RunState
    digest: bytes
    # The bytes of a small root; the version after it may carry them.
    small_object: bytes | None = None
    # Whether its rows are known to fit together.
    is_checked: bool = False


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
        committed: The result of the changes that were made together with its create.
    """

    number: int
    tree: Tree
    state: RunState
    chain: tuple[RebuiltVersion, ...]
    at: datetime
    marker_keys: tuple[str, ...] = ()
    store_time: datetime | None = None
    replies: tuple[int, ...] = ()
    committed: Committed | None = None


@dataclass(frozen=True, slots=True)
class Tree:
    """The tree of a run, from one root on.

    Attributes:
        root: Number of the version from which the positions count.
    """

    root: int

    def follows_root(self, number: int) -> bool:
        """Tell whether the version is the one after the root."""
        return number == self.root + 1

    def base(self, number: int) -> int:
        """Return the number of the version's base; 0 means a full copy."""
        position = number - self.root
        if position == 0:
            return 0
        return self.root + (position & (position - 1))

    def chain(self, number: int) -> tuple[int, ...]:
        """Return the numbers from which a version is rebuilt, the newest first."""
        numbers = [number]
        while (below := self.base(numbers[-1])) != 0:
            numbers.append(below)
        return tuple(numbers)


_MAX_KEPT_RUNS = 8
_MAX_CHECKED_THREADS = 10_000


class RecentVersions:
    """The last version of each of a few runs that this process loaded or appended.

    They only save work: a load reads the same objects as without them, and uses a kept
    version only if the objects have its digests.
    """

    def __init__(self) -> None:
        self._by_run_id: OrderedDict[str, LoadedVersion] = OrderedDict()
        # The newest versions that listings have shown, the oldest listing first.
        self._listed_numbers: OrderedDict[str, int] = OrderedDict()
        # Runs of threads whose key was compared with their id, the oldest first.
        self._checked_threads: OrderedDict[str, None] = OrderedDict()
        # The run, number and body of the root that the last such comparison read.
        self._checked_root: tuple[str, int, bytes] | None = None

    def forget(self, run_id: str) -> None:
        """Keep no version of a run."""
        self._by_run_id.pop(run_id, None)

    def keep(self, run_id: str, version: LoadedVersion) -> None:
        """Keep a version instead of the one of the same run."""
        self.forget(run_id)
        self._by_run_id[run_id] = version
        if len(self._by_run_id) > _MAX_KEPT_RUNS:
            self._by_run_id.popitem(last=False)

    def newest(self, run_id: str) -> LoadedVersion | None:
        """Return the kept version of a run, or `None`."""
        return self._by_run_id.get(run_id)

    def keep_listed(self, run_id: str, number: int) -> None:
        """Keep the number of the newest version that a listing has shown."""
        self._listed_numbers[run_id] = number
        if len(self._listed_numbers) > _MAX_CHECKED_THREADS:
            self._listed_numbers.popitem(last=False)

    def newest_number(self, run_id: str) -> int:
        """Return the number of the newest version that was seen, or 0."""
        kept = self._by_run_id.get(run_id)
        listed = self._listed_numbers.get(run_id, 0)
        return listed if kept is None else max(kept.number, listed)

    def thread_run_ids(self, prefix: str) -> list[str]:
        """Return the ids of the kept runs of one thread: the prefix and a number."""
        return [each for each in self._by_run_id if each.rpartition("-")[0] == prefix]

    def has_checked(self, run_id: str) -> bool:
        """Return whether the key of a thread was compared with the id of its run."""
        return run_id in self._by_run_id or run_id in self._checked_threads

    def keep_checked(self, run_id: str, root: int, body: bytes) -> None:
        """Keep that the key of a thread, which its root has, fits the id of its run."""
        self._checked_root = (run_id, root, body)
        self._checked_threads[run_id] = None
        if len(self._checked_threads) > _MAX_CHECKED_THREADS:
            self._checked_threads.popitem(last=False)

    def take_checked_root(self, run_id: str) -> dict[int, bytes]:
        """Return the root of a run by its number, if a comparison just read it.

        It is returned once: the next load reads it again.
        """
        if self._checked_root is None or self._checked_root[0] != run_id:
            return {}
        _, number, body = self._checked_root
        self._checked_root = None
        return {number: body}

    def steps(self, run_id: str, tree: Tree) -> dict[int, RebuiltVersion]:
        """Return by number the versions from which the kept version was rebuilt."""
        kept = self._by_run_id.get(run_id)
        if kept is None or kept.tree != tree:
            return {}
        return {step.number: step for step in kept.chain}
