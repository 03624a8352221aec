"""The methods of AsyncRunner that list runs, read their past, and go on from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core.doors import PYTHON, Door
from continuations.engine.batches import Flattened
from continuations.engine.runner_parts import RunnerParts
from continuations.ledger import layout

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence

    from continuations.core.decisions import Verdict
    from continuations.core.identity import Identity
    from continuations.core.run_past import (
        RewindPlan,
        Rewound,
        RunDifference,
        RunVersion,
    )
    from continuations.engine.drift_rows import DriftRow
    from continuations.ledger.run_listing import RunSummary
    from continuations.ledger.worklist import Worklist

# A process that only decides should start fast. The methods import what they need.
# ruff: noqa: PLC0415

NOT_GIVEN: Any = object()


class AsyncCatalog(RunnerParts):
    """Lists the runs of a store, reads their past, and lets them go on from it."""

    async def worklist(
        self,
        *,
        after: str = "",
        limit: int = 100,
        kinds: Collection[str] | None = None,
        approver: str | Identity | None = None,
    ) -> Worklist:
        """Return one page of the waits that people are asked about, with all fields.

        Waits with the next deadlines come first, then the oldest ones. A page lists
        the keys of all these waits, and one page of markers. Then it reads the waits
        of the page, at the same time. After a crash, a decided wait may be listed until
        the next sweep, also of a finished run. `decide` and `wait` are always exact.

        Args:
            after: `next` of the page before.
            limit: The largest number of waits, from 1 to 1,000.
            kinds: Return only waits of these kinds. `None`: of the kinds that ask a
                person, which are `approval`, `question` and `unknown`.
            approver: Leave out the waits that this person may not decide, as for
                `waiting`. A page has fewer waits then, perhaps none, and their votes.

        Returns:
            The waits, and whether their deadline has passed.

        Raises:
            InvalidInput: An argument is invalid.
            Corrupt: A wait of the page is damaged; `waiting` lists all waits.
            StoreError: The store failed.
        """
        from continuations.ledger.decidable_waits import Approver
        from continuations.ledger.store_clock import StoreClock
        from continuations.ledger.waits import wait_kinds
        from continuations.ledger.worklist import read_worklist

        groups = self._groups_function
        person = None if approver is None else Approver.from_argument(approver, groups)
        return await read_worklist(
            self._objects,
            StoreClock(self._ports.clock),
            after=after,
            limit=limit,
            kinds=wait_kinds(kinds),
            approver=person,
        )

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
            agent: Return only runs of this root agent, also those that were stored
                under an old name of `renamed=`. The others are read too.
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

        renamed = self._options.renamed
        chosen = RunFilter.from_arguments(
            agent=agent,
            status=status,
            label=label,
            after=after,
            old_names=self._worker_factory.old_names if renamed else None,
        )
        return Flattened(list_runs(self._objects, chosen))

    def drift(
        self, *, context: Any = NOT_GIVEN, after: str = "", run: str | None = None
    ) -> AsyncIterator[DriftRow]:
        """Iterate over all live runs, with what this code would do with each of them.

        Nothing is written, and no model and no tool is called. The rules are those of
        `resume`. A row names each approved call that would wait again, and each error
        that `resume` would raise. Call it before a deployment, with the new code and
        the store of the old code.

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
            run: Return only the row of this run.

        Returns:
            An asynchronous iterator over a row of each run, by run id.

        Raises:
            InvalidInput: The runner has no agents, or an argument is invalid.
            InvalidId: `after` or `run` is not a run id.
            StoreError: The store failed; raised during the iteration.
        """
        run_id = layout.check_run_id(after) if after != "" else ""
        check = self._worker_factory.make_drift_check(
            self._run_options(None if context is NOT_GIVEN else context, None),
            checks_context=context is not NOT_GIVEN,
        )
        if run is not None:
            return Flattened(check.row_alone(layout.check_run_id(run, "run")))
        return Flattened(check.rows(run_id))

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

        The fork is suspended: `resume` and `sweep` continue it. The other run may have
        ended, and is not changed. Nothing that it did is repeated unasked:

        - Open waits, and calls that were approved and not started, wait anew.
        - A call that was started, in this version or later, waits as `unknown`.
        - New calls of tools that were approved or started after this version need an
          approval. `read_only` tools run again without one.
        - No grant is copied, and the inbox is empty. A fork of a thread has no key.

        A repeat with the same arguments and `run_id` returns the same run, also after a
        crash: it records the decisions that are missing.

        Args:
            run: Id of the run to fork.
            version: Number of the version to go on from. Default: the newest.
            run_id: Id of the fork. Default: a new one.
            decisions: Verdicts by the ids of open waits of the version.
            results: Results by the ids of open calls, whose tools do not run.
            messages: By the ids of frames: a text that is added for the user, or a list
                of chat messages that replaces the transcript.
            by: The requester of the fork: a name or an `Identity`.
            door: The way by which the decisions came, for the audit.

        Returns:
            The id of the fork.

        Raises:
            InvalidId, InvalidInput, DecisionRefused: An argument does not fit the
                version, or nothing is left to do in it. Nothing was written.
            RunNotFound, RunErased: The store has no such run or version.
            RunExists: The id of the fork belongs to another run.
            AlreadyDecided: A repeat found another decision than its own.
            ClockOff, Corrupt, FormatError, StoreError: As for `start`.
        """
        from continuations.engine.forking import ForkChanges
        from continuations.engine.new_run import check_new_run_id
        from continuations.engine.past_reading import check_version
        from continuations.engine.run_description import check_requester

        changes = ForkChanges.from_arguments(decisions, results, messages)
        requester, source_id = check_requester(by), layout.check_run_id(run)
        number = None if version is None else check_version(version, "version")
        new_id = self._new_ulid() if run_id is None else check_new_run_id(run_id)
        await self._probe_once()
        forker = self._worker_factory.make_forker(self._groups_function, requester)
        return await forker.fork(source_id, number, changes, new_id, door)

    async def plan_rewind(
        self, run: str, version: int, *, newest: int | None = None
    ) -> RewindPlan:
        """Return what a rewind would end, and what it would not undo. Read only.

        Pass the `digest` of the plan as `shown=` to `rewind`: then a run that another
        process advanced meanwhile is not rewound.

        Args:
            run: Id of the run.
            version: Number of the version to go on from.
            newest: Number of the version to rewind. Default: the newest one. With an
                older one, the plan tells of a rewind that was made.

        Returns:
            The plan, with the reason if `rewind` would refuse it.

        Raises:
            InvalidId, InvalidInput: An argument is invalid.
            RunNotFound, RunErased: The store has no such run or version.
            Corrupt, FormatError, StoreError: A version cannot be read.
        """
        from continuations.engine.past_reading import check_version

        number, run_id = check_version(version, "version"), layout.check_run_id(run)
        last = None if newest is None else check_version(newest, "newest")
        return await self._worker_factory.make_rewinder().plan(run_id, number, last)

    async def rewind(
        self,
        run: str,
        version: int,
        *,
        shown: str | None = None,
        by: str | Identity | None = None,
        door: Door = PYTHON,
    ) -> Rewound:
        """Let a live run go on from one of its earlier versions.

        The run keeps its id. Its agents, calls, messages and waits are those of the
        version; its inbox, usage and numbers never go back. Nothing runs here.

        - Effects are not undone, and messages are not read again. The result lists the
          calls that were started and the messages that were read since the version.
        - Each open wait ends, and each wait of the version comes back under a new id.
        - As in a fork, a person is asked before calls that were approved or started
          since the version run again. `read_only` tools run again unasked.
        - Grants that were given since the version end. A pause stays.

        Fork a run that has ended. After a crash, `resume`, a sweep or a second call
        finishes the rewind, once the claim of the dead process has ended.

        Args:
            run: Id of the run.
            version: Number of the version to go on from.
            shown: The `digest` of the plan that was shown to a person, from
                `plan_rewind`. Default: nothing is compared.
            by: The person who rewinds: a name or an `Identity`. The audit has it if an
                open wait ends.
            door: The way by which the request came, for the audit.

        Returns:
            The number of the new version, and what is not undone.

        Raises:
            InvalidId, InvalidInput: An argument is invalid, the run has ended, or it
                cannot go on from this version. Nothing was written.
            RunNotFound, RunErased: The store has no such run or version.
            RunBusy: A worker holds the run. Call again after `until`.
            StaleRun: Another process advanced the run at the same time. Or the run
                moved on, or something was decided for it, since the plan that was
                shown. Nothing was written.
            ClockOff, Corrupt, FormatError, StoreError: As for `resume`.
        """
        from continuations.engine.past_reading import check_version
        from continuations.engine.run_description import check_requester

        number, run_id = check_version(version, "version"), layout.check_run_id(run)
        name = check_requester(by)
        rewinder = self._worker_factory.make_rewinder()
        return await rewinder.rewind(run_id, number, shown, by=name, door=door)
