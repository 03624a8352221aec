"""The method of AsyncRunner that compares waiting runs with the code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.engine.batches import Flattened
from continuations.engine.runner_parts import RunnerParts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from continuations.engine.drift_rows import DriftRow

# A process that only decides should start fast.
# ruff: noqa: PLC0415

NOT_GIVEN: Any = object()


class AsyncDrift(RunnerParts):
    """Predicts what the code of this process does with the runs of the store."""

    def drift(
        self, *, context: Any = NOT_GIVEN, after: str = ""
    ) -> AsyncIterator[DriftRow]:
        """Iterate over all live runs, with what this code would do with each of them.

        Nothing is written, and no model and no tool is called. The rules are those of
        `resume`: a run that is accepted here goes on, an approved call that would wait
        again is told, and so is an error that `resume` would raise. Call it before a
        deployment, with the new code and the store of the old code.

        Functions of approval policies are called for calls that were accepted and have
        not begun, as `resume` does. `recheck`, guardrails and hooks are not called. A
        run that ended is left out, and so is a run that an older release started and
        that is not in the index of runs.

        Each row costs a listing and the reads of one resume. At most 20 runs are in
        memory at a time.

        Args:
            context: Your object for the tools, as for `resume`. Its type is checked if
                it is given.
            after: Return only runs whose id sorts after this one.

        Returns:
            An asynchronous iterator over a row of each run, by run id.

        Raises:
            InvalidInput: The runner has no agents, or an argument is invalid.
            InvalidId: `after` is not a run id.
            StoreError: The store failed; raised during the iteration.
        """
        from continuations.ledger import layout

        run_id = layout.check_run_id(after) if after != "" else ""
        check = self._worker_factory.make_drift_check(
            self._run_options(None if context is NOT_GIVEN else context, None),
            checks_context=context is not NOT_GIVEN,
        )
        return Flattened(check.rows(run_id))
