"""The versions that a process keeps, so that it decodes each one once."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from continuations.ledger.fenwick import Tree
    from continuations.ledger.loaded_version import LoadedVersion, RebuiltVersion

_MAX_KEPT_RUNS = 8
_MAX_CHECKED_THREADS = 10_000


class RecentVersions:
    """The last version of each of a few runs that this process loaded or appended.

    They only save work: a load reads the same objects as without them, and uses a kept
    version only if the objects have its digests.
    """

    def __init__(self) -> None:
        self._by_run_id: OrderedDict[str, LoadedVersion] = OrderedDict()
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
