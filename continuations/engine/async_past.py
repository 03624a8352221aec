"""The methods of AsyncRunner about the past of a run: its versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.engine.batches import Flattened
from continuations.engine.runner_parts import RunnerParts
from continuations.ledger import layout

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from continuations.core.run_past import RunDifference, RunVersion

# A process that only decides should start fast.
# ruff: noqa: PLC0415


class AsyncPast(RunnerParts):
    """Reads the versions of a run; needs no agents."""

    def history(self, run_id: str, *, after: int = 0) -> AsyncIterator[RunVersion]:
        """Iterate over the versions of a run, the oldest first.

        Each version has its number, time, worker and waits, and what changed since the
        version before. They are read one after another, as the iteration needs them:
        one read for each version and one for each decision. The first one costs a
        listing, and at most log2(versions) + 1 reads more if `after` is given.

        Versions of a live run are never deleted. Versions that a repair gave up are
        left out.

        Args:
            run_id: Id of the run.
            after: Number of a version: return only later ones. Default: all.

        Returns:
            An asynchronous iterator over the versions.

        Raises:
            InvalidId: `run_id` is invalid.
            InvalidInput: `after` is not an integer, or the run has fewer versions.
            RunNotFound: The store has no such run; raised during the iteration, as the
                errors below.
            RunErased: The run was erased.
            Corrupt: A version or decision is damaged, and the run was not repaired.
            NewerFormat: A newer release wrote the run.
            StoreError: The store failed. Continue after the last version.
        """
        from continuations.engine.past_reading import check_version, read_history

        layout.check_run_id(run_id)
        number = check_version(after, "after")
        return Flattened(read_history(self._objects, run_id, number))

    async def diff(self, run_id: str, before: int, after: int) -> RunDifference:
        """Compare two versions of a run.

        The result has the messages, agents, open calls, waits and states of agents that
        differ, and the decisions of the waits that only the first version has. A wait
        that was opened and decided in between is in neither version; `history` has it.

        Args:
            run_id: Id of the run.
            before: Number of the first version.
            after: Number of the second version, also a smaller one.

        Returns:
            The differences.

        Raises:
            InvalidId: `run_id` is invalid.
            InvalidInput: A number is not an integer.
            RunNotFound: The store has no such run or version.
            RunErased: The run was erased.
            Corrupt: A version or decision is damaged.
            NewerFormat: A newer release wrote the run.
            StoreError: The store failed.
        """
        from continuations.engine.past_reading import check_version, read_difference

        return await read_difference(
            self._objects,
            layout.check_run_id(run_id),
            check_version(before, "before"),
            check_version(after, "after"),
        )
