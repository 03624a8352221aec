"""AsyncRunner: start, resume, decide, look at, cancel and sweep runs in a store."""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING, Any

from continuations.engine.ports import Ports
from continuations.engine.worker_options import WorkerOptions
from continuations.errors import InvalidInput, StaleRun
from continuations.ledger import decisions as deciding
from continuations.ledger import layout, waits
from continuations.ledger.arrivals import read_decision
from continuations.ledger.objects import Objects, to_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from os import PathLike

    from continuations.authoring.agent import Agent
    from continuations.core.decisions import Decision, Verdict
    from continuations.core.run import Budget
    from continuations.core.waits import Wait, WaitSummary
    from continuations.engine.new_run import Input
    from continuations.engine.outcomes import Outcome
    from continuations.engine.ports import IdGenerator, Notify
    from continuations.engine.run_options import RunOptions, ShouldPause
    from continuations.engine.run_requests import RunRequests
    from continuations.engine.sweeping import Sweeper, SweepResult
    from continuations.engine.worker_factory import WorkerFactory
    from continuations.ledger.claims import Clock
    from continuations.ledger.decisions import DigestCheck
    from continuations.wire.continuation import Continuation
    from continuations_storage import Store

# Deciding and listing load no engine, no agents and no library for either: what
# moves runs on is imported by the methods that do so. The import path is the price.
# ruff: noqa: PLC0415


class AsyncRunner:
    """Runs of some agents, kept in a store; every method is a coroutine.

    Raises `InvalidInput` for options that could only fail later.

    `agents` is one root agent or several with names of their own; with none at all
    the runner still lists, looks, decides and cancels. `store` is a URL
    (`file:path`, `s3://bucket/prefix`, `memory:`), a folder's path or a store object.
    `lease` is the length of a claim in seconds, `max_attempts` how often in a row a
    run may kill its worker, `max_depth` a limit on agents in agents. `notify` is
    called with each new wait once it is durable; what it raises is logged and loses
    nothing.

    Any number of runners in any number of processes may share a store.
    """

    def __init__(
        self,
        agents: Agent | Sequence[Agent],
        *,
        store: str | PathLike[str] | Store,
        lease: float = 30.0,
        max_attempts: int = 5,
        max_depth: int | None = None,
        notify: Notify | None = None,
        clock: Clock | None = None,
        ids: IdGenerator | None = None,
    ) -> None:
        self._objects = Objects(to_store(store))
        self._ports = Ports.with_defaults(clock=clock, ids=ids, notify=notify)
        self._probed = False
        self._agents = agents
        self._options = WorkerOptions.validate(
            lease=lease, max_attempts=max_attempts, max_depth=max_depth
        )
        if agents != []:
            # Two root agents of one name are refused here, not at the first resume.
            _ = self._worker_factory

    @cached_property
    def _worker_factory(self) -> WorkerFactory:
        return self._make_worker_factory()

    def _make_worker_factory(self) -> WorkerFactory:
        from continuations.engine.worker_factory import WorkerFactory

        return WorkerFactory(self._agents, self._objects, self._ports, self._options)

    @property
    def store(self) -> Store:
        """The store that the runs are kept in."""
        return self._objects.store

    # Moving runs on -----------------------------------------------------------

    async def start(
        self,
        input: Input,  # noqa: A002 - the word of the design
        *,
        run_id: str | None = None,
        agent: str | None = None,
        context: Any = None,
        budget: Budget | None = None,
        should_pause: ShouldPause | None = None,
    ) -> Outcome:
        """Begin a run and work on it until it ends or must wait.

        `input` is a text or a list of messages, `agent` the name of the root agent
        where there are several, `context` your live object for the tools; it is never
        stored. `budget` bounds what its models may cost in all; a run that has used it
        up ends as failed, code "budget". `pause` is asked before every model call and
        every new tool call; as soon as it says True, what was begun is brought to its
        end and the run is suspended, `paused`, to be resumed elsewhere. With a
        `run_id` that exists and the same input the existing run is resumed; with
        another input this raises `RunExists`.

        Raises `InvalidId`, `InvalidInput`, `RunExists`, `RunBusy`, `ModelError` (the
        run is kept) and `StoreError`. A crash leaves a run that
        `resume` or `sweep` goes on with, or none.
        """
        if run_id is not None:
            layout.check_run_id(run_id)
        state = self._worker_factory.initial_state(
            input, run_id=run_id, agent=agent, budget=budget
        )
        await self._probe_once()
        run_options = self._run_options(context, should_pause)
        worker = self._worker_factory.make_worker(state.run.id, run_options)
        try:
            return await worker.start(state)
        except StaleRun:
            await worker.check_same_input(state)
        return await worker.resume()

    async def resume(
        self,
        run_id: str,
        *,
        context: Any = None,
        should_pause: ShouldPause | None = None,
    ) -> Outcome:
        """Go on with a run, in any process that has its agents.

        Of a finished run it returns its outcome, of one that nobody decided it returns
        `Suspended` and writes nothing; of `pause`, see `start`. Raises `RunNotFound`,
        `RunBusy` (another process holds it), `StaleRun` (another process was quicker),
        `AgentChanged` (the code of a pending call is other code now; nothing was
        written), `ModelError` (the run is kept), `ClockOff`, `Corrupt` and
        `StoreError`.
        """
        layout.check_run_id(run_id)
        run_options = self._run_options(context, should_pause)
        return await self._worker_factory.make_worker(run_id, run_options).resume()

    async def cancel(
        self, run_id: str, *, reason: str | None = None, by: str | None = None
    ) -> Continuation:
        """End a run for good, and every open wait with it; idempotent.

        Needs no agents. Returns the run as it stands: cancelled, or still running if
        another process holds it, which stops at its next commit. A run that had
        already ended stays as it ended.
        """
        layout.check_run_id(run_id)
        return await self._run_requests(run_id).cancel(
            by=_optional_text(by), reason=_optional_text(reason)
        )

    async def sweep(
        self, *, context: Any = None, should_pause: ShouldPause | None = None
    ) -> SweepResult:
        """Look at every run whose time has come, and resume what can move.

        `context` is your live object for the tools of the runs that it resumes; once
        `pause` says True, those are suspended and no other run is looked at.

        Call it from a timer: it finds what was decided and never resumed, deadlines
        that have passed and runs whose worker died, and mends what a crash left
        behind. One run's trouble does not keep it from the others.
        """
        run_options = self._run_options(context, should_pause)
        return await self._make_sweeper(run_options).sweep()

    async def serve_forever(
        self,
        *,
        interval: float = 1.0,
        max_concurrent_runs: int = 8,
        context: Any = None,
        stop: asyncio.Event | None = None,
    ) -> None:
        """Resume whatever is due, until this process is told to stop.

        A small loop for one machine: looks for what is due every so many seconds and
        works on at most `at_once` runs at a time. On SIGTERM and SIGINT, or once `stop`
        is set, nothing new begins, runs are suspended where they stand and this
        returns; a second signal ends the process as it always would. Trouble with the
        store or with one run is logged, and does not end it. Raises `InvalidInput`.
        """
        from continuations.engine.sweep_loop import run_sweep_loop

        stopping = stop or asyncio.Event()
        sweeper = self._make_sweeper(self._run_options(context, stopping.is_set))
        await run_sweep_loop(
            sweeper,
            stopping,
            interval=interval,
            max_concurrent_runs=max_concurrent_runs,
        )

    def _make_sweeper(self, run_options: RunOptions) -> Sweeper:
        from continuations.engine.sweeping import Sweeper

        make_worker = self._worker_factory.make_worker
        return Sweeper(self._objects, self._ports, make_worker, run_options)

    def _run_options(
        self, context: Any, should_pause: ShouldPause | None
    ) -> RunOptions:
        """Return one call's options; a subclass may choose other defaults."""
        from continuations.engine.run_options import RunOptions

        return RunOptions.from_arguments(context=context, should_pause=should_pause)

    def _run_requests(self, run_id: str) -> RunRequests:
        from continuations.engine.run_requests import RunRequests

        return RunRequests(
            objects=self._objects,
            ports=self._ports,
            options=self._options,
            run_id=run_id,
        )

    # Deciding -----------------------------------------------------------------

    async def decide(
        self, wait_id: str, verdict: Verdict, *, check_digest: DigestCheck | None = None
    ) -> Decision:
        """Record the decision of a wait; the first one stands.

        `check` is called with the wait's digest before anything is recorded or told,
        to see that it is of what the decider was shown; what it raises is raised.
        Returns the decision that stands if it says the same as this one. Raises
        `WaitNotFound`, `DecisionRefused` (nothing recorded), `AlreadyDecided`,
        `WaitExpired`, `Cancelled` and `StoreError`. Moves nothing on: `resume` does.
        """
        now = self._ports.clock.now()
        return await deciding.decide(
            self._objects,
            wait_id,
            verdict,
            now=now,
            decision_id=self._ports.ids.new_ulid(now),
            check_digest=check_digest,
        )

    async def waiting(self, *, after: str = "") -> AsyncIterator[WaitSummary]:
        """Go through the open waits of the whole store, from keys alone.

        They are sorted by their ids; with `after`, the id of a wait, those that come
        after it, whether that one is still open or not. The listing may lag behind a
        crash; `decide` and `look` never do.
        """
        async for summary in waits.list_open(self._objects, after):
            yield summary

    async def wait(self, wait_id: str) -> Wait:
        """Return an open wait with all that a decider needs.

        Raises `WaitNotFound`, or what stands if it is over: `AlreadyDecided`,
        `WaitExpired`, `Cancelled`. One whose deadline has passed is returned until a
        sweep or a resume has recorded that nobody decided.
        """
        found = await deciding.find_open_wait(self._objects, wait_id)
        stands = await read_decision(self._objects, wait_id)
        if stands is not None or found is None:
            assert stands is not None  # noqa: S101 - `find` saw it
            run_id = layout.parse_wait_id(wait_id).run_id
            raise deciding.late_decision_error(stands, run_id)
        return found

    async def notify(self, wait_id: str) -> None:
        """Tell whom `notify` tells of an open wait once more.

        Raises what `notify` raises, what `wait` raises, and `InvalidInput` if there is
        nobody to tell.
        """
        from continuations.authoring import callables

        if self._ports.notify is None:
            msg = "This runner has nobody to tell: give it notify=."
            raise InvalidInput(msg)
        await callables.call(self._ports.notify, await self.wait(wait_id))

    async def send(self, run_id: str, text: str, *, by: str | None = None) -> int:
        """Post a user message to a run; returns its number in the inbox.

        It is read before the root agent's next turn, never between a call and its
        result, by the next resume or sweep. Raises `RunNotFound`, and `InvalidInput`
        if the run has ended.
        """
        layout.check_run_id(run_id)
        return await self._run_requests(run_id).send(text, by=_optional_text(by))

    # Looking ------------------------------------------------------------------

    async def look(self, run_id: str, *, version: int | None = None) -> Continuation:
        """Return a run's state, the newest or a numbered one; never writes.

        Raises `RunNotFound`, `Corrupt`, `FormatError`.
        """
        from continuations.ledger.versions import Versions
        from continuations.wire.continuation import Continuation

        versions = Versions(self._objects, layout.check_run_id(run_id))
        if version is not None and type(version) is not int:
            msg = f"A version is a whole number, not a {type(version).__name__}."
            raise InvalidInput(msg)
        if version is None:
            loaded = await versions.load_newest()
        else:
            loaded = await versions.load(version)
        return Continuation(loaded.state, loaded.number)

    async def _probe_once(self) -> None:
        if not self._probed:
            await self._objects.probe()
            self._probed = True


def _optional_text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    msg = f"`by` and `reason` are texts, not a {type(value).__name__}"
    raise InvalidInput(msg)
