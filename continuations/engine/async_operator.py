"""The methods of AsyncRunner for operators: pause and unpause a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.doors import PYTHON, Door
from continuations.engine.runner_parts import RunnerParts
from continuations.ledger import layout

if TYPE_CHECKING:
    from continuations.wire.continuation import Continuation


class AsyncOperator(RunnerParts):
    """Pauses and unpauses runs; no method needs the runs' agents."""

    async def pause(
        self,
        run_id: str,
        *,
        reason: str | None = None,
        by: str | None = None,
        door: Door = PYTHON,
    ) -> Continuation:
        """Pause a run until `unpause`; idempotent.

        From the time when a worker sees the pause, it begins no call and no model turn.
        Calls and model turns in progress are completed. Then the run is `Suspended`,
        and `reasons` has the reason. Until `unpause`, `resume` and `sweep` begin
        nothing. Decisions, signals and deadlines are recorded, and count after it.

        The request is recorded first. A worker of another process sees it at its next
        commit, or before the run finishes. After a crash, a sweep or resume pauses the
        run. A pause of a paused run changes nothing, and the first reason stays.

        Args:
            run_id: Id of the run.
            reason: Why, for the record and for `Suspended.reasons`.
            by: Name of the operator, for the record.
            door: The way by which the request came, for the audit.

        Returns:
            The newest state: paused, or running in another process.

        Raises:
            RunNotFound: The store has no such run.
            RunErased: The run was erased.
            InvalidInput: The run has ended, or `reason` or `by` is not a text.
            StoreError: The store failed. Call again.
        """
        commands = self._operator_commands(layout.check_run_id(run_id))
        return await commands.pause(reason=reason, by=by, door=door)

    async def unpause(
        self, run_id: str, *, by: str | None = None, door: Door = PYTHON
    ) -> Continuation:
        """End a pause, and the waits of all conditions (`suspend_when`) of a run.

        Nothing runs here: call `resume`, or let a sweep go on. After a crash, a sweep
        or resume ends the pause. A run that waits for no operator is not changed.

        Args:
            run_id: Id of the run.
            by: Name of the operator, for the record.
            door: The way by which the request came, for the audit.

        Returns:
            The newest state.

        Raises:
            RunNotFound: The store has no such run.
            RunErased: The run was erased.
            InvalidInput: The run has ended, or `by` is not a text.
            StoreError: The store failed. Call again.
        """
        commands = self._operator_commands(layout.check_run_id(run_id))
        return await commands.unpause(by=by, door=door)
