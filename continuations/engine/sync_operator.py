"""The methods of Runner for operators: pause a run, and drop its signals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.doors import PYTHON, Door
from continuations.engine import portal

if TYPE_CHECKING:
    from continuations.core.untaken_signals import UntakenSignal
    from continuations.engine.async_runner import AsyncRunner
    from continuations.wire.continuation import Continuation


class Operator:
    """Pauses runs, and drops their signals; no method needs the runs' agents."""

    async_runner: AsyncRunner

    def pause(
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
        return portal.run_until_complete(
            self.async_runner.pause(run_id, reason=reason, by=by, door=door)
        )

    def unpause(
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
        return portal.run_until_complete(
            self.async_runner.unpause(run_id, by=by, door=door)
        )

    def signals(self, run_id: str) -> list[UntakenSignal]:
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
        return portal.run_until_complete(self.async_runner.signals(run_id))

    def drop_signals(
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
        return portal.run_until_complete(
            self.async_runner.drop_signals(
                run_id, name=name, reason=reason, by=by, door=door
            )
        )
