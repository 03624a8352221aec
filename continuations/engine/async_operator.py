"""The methods of AsyncRunner for operators: pause and erase runs, drop signals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.doors import PYTHON, Door
from continuations.engine.runner_parts import RunnerParts
from continuations.ledger import layout

if TYPE_CHECKING:
    from datetime import timedelta

    from continuations.core.untaken_signals import UntakenSignal
    from continuations.ledger.erasing import ErasedRun
    from continuations.ledger.pruning import PruneResult
    from continuations.wire.continuation import Continuation

# A process that only decides should start fast. The methods import what they need.
# ruff: noqa: PLC0415


class AsyncOperator(RunnerParts):
    """Pauses and erases runs, and drops signals; no method needs the runs' agents."""

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

    async def signals(self, run_id: str) -> list[UntakenSignal]:
        """Return the signals that no wait of a run has taken, the oldest first.

        They are kept for waits that open later. `drop_signals` drops them.

        Args:
            run_id: Id of the run.

        Returns:
            The signals, with their data.

        Raises:
            RunNotFound: The store has no such run.
            RunErased: The run was erased.
            Corrupt: A stored object is damaged.
            StoreError: The store failed.
        """
        return await self._operator_commands(layout.check_run_id(run_id)).signals()

    async def drop_signals(
        self,
        run_id: str,
        *,
        name: str | None = None,
        reason: str | None = None,
        by: str | None = None,
        door: Door = PYTHON,
    ) -> int:
        """Drop the signals that no wait of a run has taken; idempotent.

        The request is recorded first. A signal that comes later is kept. A signal that
        an open wait takes at the same time may still end this wait. While a worker of
        another process has the run, it drops the signals.

        Args:
            run_id: Id of the run.
            name: The name of the signals; by default, all are dropped.
            reason: Why, for the record.
            by: Name of the operator, for the record.
            door: The way by which the request came, for the audit.

        Returns:
            How many signals were dropped.

        Raises:
            RunNotFound: The store has no such run.
            RunErased: The run was erased.
            InvalidInput: The run has ended, or an argument is not a text.
            StoreError: The store failed. Call again.
        """
        commands = self._operator_commands(layout.check_run_id(run_id))
        return await commands.drop_signals(name, reason=reason, by=by, door=door)

    async def erase(self, run_id: str) -> ErasedRun:
        """Delete everything that the store holds of a run, except a tombstone.

        The tombstone keeps the run's id from being used again, and contains no personal
        data. A worker, sender or decider that was frozen cannot bring the run back:
        later sweeps delete what it writes. If the process dies in between, a sweep or a
        second call completes the deletion.

        Needs neither agents nor a model. The store must allow this process to delete
        `runs/*`. A bucket that keeps versions of objects keeps the deleted ones.

        Args:
            run_id: Id of the run.

        Returns:
            The numbers of deleted objects; zeros if the call is repeated.

        Raises:
            RunNotFound: The run does not exist.
            RunBusy: A worker holds the run. Call again after `until`, or cancel the run
                first.
            StaleRun: Other processes advanced the run at the same time. Call again.
            NewerFormat: A newer release wrote the run.
            StoreError: The store failed. Call again, or let a sweep complete it.
        """
        from continuations.ledger.erasing import Eraser
        from continuations.ledger.store_clock import StoreClock

        clock, run_id = StoreClock(self._ports.clock), layout.check_run_id(run_id)
        return await Eraser(self._objects, clock, run_id).erase(self._new_ulid())

    async def prune(
        self, *, older_than: timedelta, dry_run: bool = False
    ) -> PruneResult:
        """Erase all runs that ended a long time ago.

        The index of ended runs tells which. A run that is still live is never erased,
        and an error of one run does not stop the others.

        Args:
            older_than: Erase runs that ended at least this long ago; at most 3650 days.
            dry_run: With True, erase nothing, and return only the ids.

        Returns:
            The ids of the runs, the receipts of those that were erased, and the errors
            by run id.

        Raises:
            InvalidInput: `older_than` is not a positive timedelta, or is too long.
            StoreError: The store failed to list the runs.
        """
        from continuations.ledger.pruning import Pruner
        from continuations.ledger.store_clock import StoreClock

        clock = StoreClock(self._ports.clock)
        pruner = Pruner(self._objects, clock, self._new_ulid)
        return await pruner.prune(older_than, dry_run=dry_run)
