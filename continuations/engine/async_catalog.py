"""The methods of AsyncRunner that list runs, fork and erase them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core.doors import PYTHON, Door
from continuations.engine.batches import Flattened
from continuations.engine.runner_parts import RunnerParts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from datetime import timedelta

    from continuations.core.decisions import Verdict
    from continuations.core.identity import Identity
    from continuations.core.run_past import RunDifference, RunVersion
    from continuations.ledger.erasing import ErasedRun
    from continuations.ledger.pruning import PruneResult
    from continuations.ledger.run_listing import RunSummary
    from continuations.ledger.worklist import Worklist

# A process that only decides should start fast. The methods import what they need.
# ruff: noqa: PLC0415


class AsyncCatalog(RunnerParts):
    """Lists the runs of a store, reads and forks their past, and erases them."""

    async def worklist(self, *, after: str = "", limit: int = 100) -> Worklist:
        """Return one page of the waits that people are asked about, with all fields.

        Waits with the next deadlines come first, then the oldest ones. A page lists
        the keys of all these waits, and one page of markers. Then it reads the waits
        of the page, at the same time. After a crash, a decided wait may be listed until
        the next sweep, also of a finished run. `decide` and `wait` are always exact.

        Args:
            after: `next` of the page before.
            limit: The largest number of waits, from 1 to 1,000.

        Returns:
            The waits, and whether their deadline has passed.

        Raises:
            InvalidInput: An argument is invalid.
            Corrupt: A wait of the page is damaged; `waiting` lists all waits.
            StoreError: The store failed.
        """
        from continuations.ledger.store_clock import StoreClock
        from continuations.ledger.worklist import read_worklist

        clock = StoreClock(self._ports.clock)
        return await read_worklist(self._objects, clock, after=after, limit=limit)

    def runs(
        self,
        *,
        agent: str | None = None,
        status: str | None = None,
        label: str | None = None,
        after: str = "",
    ) -> AsyncIterator[RunSummary]:
        """Iterate over the runs of the store: live ones by id, then ended ones by day.

        The index has the keys of the runs. Each run that is listed costs a listing and
        one or two reads more, in parallel. A run that an older release started is
        listed from its end on.

        Args:
            agent: Return only runs of this root agent. The others are read too.
            status: `live` or `ended`, or one status: `running`, `suspended`,
                `finished`, `failed` or `cancelled`. A run whose worker died at its end
                is listed under `ended` after the next sweep.
            label: Return only runs with this label, as `team=finance`, sorted by id.
                Only their keys are listed.
            after: Return only runs after this cursor of the same listing.

        Returns:
            An asynchronous iterator over a summary of each run.

        Raises:
            InvalidInput: An argument is invalid.
            StoreError: The store failed; raised during the iteration.
        """
        from continuations.ledger.run_listing import RunFilter, list_runs

        chosen = RunFilter.from_arguments(
            agent=agent, status=status, label=label, after=after
        )
        return Flattened(list_runs(self._objects, chosen))

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
        from continuations.ledger import layout

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
        from continuations.ledger import layout

        return await read_difference(
            self._objects,
            layout.check_run_id(run_id),
            check_version(before, "before"),
            check_version(after, "after"),
        )

    async def fork(
        self,
        run: str,
        version: int | None = None,
        *,
        run_id: str | None = None,
        decisions: Mapping[str, Verdict] | None = None,
        results: Mapping[str, Any] | None = None,
        messages: Mapping[str, str | Sequence[Mapping[str, Any]]] | None = None,
        by: str | Identity | None = None,
        door: Door = PYTHON,
    ) -> str:
        """Start a new run from a version of a run, with other decisions or results.

        The fork is suspended, and nothing runs here: `resume` and `sweep` continue it,
        with the agents of their runner. The other run is not changed, and may have
        ended. A fork never repeats unasked what the other run was allowed to do:

        - Its open waits have new ids and digests, and as much time as at first.
        - A call that was approved and not started waits for an approval again.
        - A call that was started, in this version or later, waits as `unknown`, except
          if its tool is declared `read_only`.
        - A new call of a tool that was approved or started after this version waits for
          an approval, also if its policy asks for none. `read_only` tools do not.
        - No grant is copied, and the inbox is empty. A fork of a thread is a run
          without a key.

        A repeat with the same arguments and `run_id` returns the same run. After a
        crash the fork does not exist, or a repeat completes its decisions.

        Args:
            run: Id of the run to fork.
            version: Number of the version to go on from. Default: the newest.
            run_id: Id of the fork. Default: a new one.
            decisions: Verdicts by the ids of open waits of the version. They are
                recorded for the new waits, as `decide` does.
            results: Results by the ids of open calls: a text, or a JSON value. Such a
                call returns this result, and its tool does not run.
            messages: By the ids of frames: a text, which is added as a message of the
                user, or a list of chat messages, which replaces the transcript.
            by: The requester of the fork: a name or an `Identity`, whose name is
                stored.
            door: The way by which the decisions came, for the audit.

        Returns:
            The id of the fork.

        Raises:
            InvalidId: An id is invalid.
            InvalidInput: Nothing is left to do in the version, or an argument does not
                fit it. Nothing was written.
            DecisionRefused: A decision does not fit its wait, or the person may not
                decide it. Nothing was written.
            RunNotFound: The store has no such run or version.
            RunExists: The id of the fork belongs to another run.
            RunErased: The run was erased.
            AlreadyDecided: A repeat found another decision than its own.
            ClockOff: This machine's clock is wrong. Nothing was written.
            Corrupt: A stored object is damaged.
            FormatError: A stored object has a newer format.
            StoreError: The store failed. Call again with the same `run_id`.
        """
        from continuations.engine.forking import ForkChanges
        from continuations.engine.past_reading import check_version
        from continuations.engine.run_description import check_requester
        from continuations.ledger import layout

        changes = ForkChanges.from_arguments(decisions, results, messages)
        requester = check_requester(by)
        number = None if version is None else check_version(version, "version")
        forker = self._worker_factory.make_forker(self._groups_function)
        source_id = layout.check_run_id(run)
        new_id = self._new_ulid() if run_id is None else layout.check_run_id(run_id)
        await self._probe_once()
        return await forker.fork(
            source_id, number, changes, new_id=new_id, requester=requester, door=door
        )

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
        from continuations.ledger import layout
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

    def _new_ulid(self) -> str:
        return self._ports.ids.new_ulid(self._ports.clock.now())
