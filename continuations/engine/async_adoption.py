"""The method of AsyncRunner that takes over runs from elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from continuations.core.output_type import Output
from continuations.engine.async_sweeps import AsyncSweeps

if TYPE_CHECKING:
    from continuations.core.identity import Identity
    from continuations.engine.outcomes import Outcome
    from continuations.wire.continuation import Continuation

# A process that only decides should start fast: it imports neither the engine nor the
# agents.
# ruff: noqa: PLC0415


class AsyncAdoption(AsyncSweeps, Generic[Output]):
    """Stores the state of another run as a new run."""

    async def adopt(
        self,
        continuation: Continuation | bytes,
        *,
        run_id: str | None = None,
        by: str | Identity | None = None,
    ) -> Outcome[Output]:
        """Store the state of another run as a new, suspended run.

        The continuation may come from a run without a store, from another store, or
        from a reader in `continuations.interop`. The other run is not changed: cancel
        it, or never resume it. Nothing runs here; `resume` and `sweep` continue the
        new run.

        - Open waits get new ids and digests, and keep their deadlines.
        - A call that was approved and not started waits for an approval again.
        - A call that was started waits as `unknown`, except if its tool is declared
          `read_only`.
        - Messages in the inbox of the other run are not read.

        A repeat with the same continuation and id returns the same run. After a crash
        the run does not exist, or a repeat, `resume` or `sweep` completes it.

        Args:
            continuation: A continuation that has not ended, or its bytes.
            run_id: Id of the new run. Default: the id of the continuation's run.
            by: The requester of the new run: a name or an `Identity`, whose name is
                stored. The persons who asked for the other run count as well if that
                run is in this store.

        Returns:
            `Suspended`. If the run was adopted before, its present outcome.

        Raises:
            InvalidInput: The continuation has ended, so nothing is paused in it, or it
                is not a continuation. Its run is in this store and has gone on since:
                fork it. Or `by` is not a name.
            InvalidId: `run_id` is invalid, or that of a thread: pass another one.
            RunExists: `run_id` belongs to a run with another origin.
            FormatError: The bytes are not a continuation, or have a newer format.
            Corrupt: The bytes are damaged, or a stored object is.
            ClockOff: This machine's clock is wrong. Nothing was written.
            StoreError: The store failed. Call again.
        """
        from continuations.engine.adoption import read_source
        from continuations.engine.new_run import check_new_run_id
        from continuations.engine.run_description import check_requester

        requester = check_requester(by)
        source = read_source(continuation)
        new_id = check_new_run_id(source.run_id if run_id is None else run_id)
        adopter = self._worker_factory.make_adopter()
        await self._probe_once()
        return await adopter.adopt(source, new_id, requester, source.files)
