"""Runner: the same as AsyncRunner, for plain code."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from continuations.engine import portal
from continuations.engine.async_runner import AsyncRunner

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike

    from continuations.authoring.agent import Agent
    from continuations.core.decisions import Decision, Verdict
    from continuations.core.run import Budget
    from continuations.core.waits import Wait, WaitSummary
    from continuations.engine.new_run import Input
    from continuations.engine.outcomes import Outcome
    from continuations.engine.ports import IdGenerator, Notify
    from continuations.engine.run_options import ShouldPause
    from continuations.engine.sweeping import SweepResult
    from continuations.ledger.claims import Clock
    from continuations.ledger.decisions import DigestCheck
    from continuations.wire.continuation import Continuation
    from continuations_storage import Store


class Runner:
    """Runs of some agents, kept in a store; see `AsyncRunner` for every promise.

    Its methods may be called from any thread, also from one in which an event loop is
    running (they block it).
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
        self.async_runner = AsyncRunner(
            agents,
            store=store,
            lease=lease,
            max_attempts=max_attempts,
            max_depth=max_depth,
            notify=notify,
            clock=clock,
            ids=ids,
        )

    @property
    def store(self) -> Store:
        """The store that the runs are kept in."""
        return self.async_runner.store

    def start(
        self,
        input: Input,  # noqa: A002 - the word of the design
        *,
        run_id: str | None = None,
        agent: str | None = None,
        context: Any = None,
        budget: Budget | None = None,
        should_pause: ShouldPause | None = None,
    ) -> Outcome:
        """Begin a run and work on it until it ends or must wait."""
        return portal.run_until_complete(
            self.async_runner.start(
                input,
                run_id=run_id,
                agent=agent,
                context=context,
                budget=budget,
                should_pause=should_pause,
            )
        )

    def resume(
        self,
        run_id: str,
        *,
        context: Any = None,
        should_pause: ShouldPause | None = None,
    ) -> Outcome:
        """Go on with a run, in any process that has its agents."""
        return portal.run_until_complete(
            self.async_runner.resume(run_id, context=context, should_pause=should_pause)
        )

    def decide(
        self, wait_id: str, verdict: Verdict, *, check_digest: DigestCheck | None = None
    ) -> Decision:
        """Record the decision of a wait; the first one stands."""
        return portal.run_until_complete(
            self.async_runner.decide(wait_id, verdict, check_digest=check_digest)
        )

    def waiting(self, *, after: str = "") -> Iterator[WaitSummary]:
        """Go through the open waits of the whole store, from keys alone."""
        return portal.iterate(self.async_runner.waiting(after=after))

    def wait(self, wait_id: str) -> Wait:
        """Return an open wait with all that a decider needs."""
        return portal.run_until_complete(self.async_runner.wait(wait_id))

    def notify(self, wait_id: str) -> None:
        """Tell whom `notify` tells of an open wait once more."""
        portal.run_until_complete(self.async_runner.notify(wait_id))

    def send(self, run_id: str, text: str, *, by: str | None = None) -> int:
        """Post a user message to a run; returns its number in the inbox."""
        return portal.run_until_complete(self.async_runner.send(run_id, text, by=by))

    def look(self, run_id: str, *, version: int | None = None) -> Continuation:
        """Return a run's state; never writes."""
        return portal.run_until_complete(
            self.async_runner.look(run_id, version=version)
        )

    def cancel(
        self, run_id: str, *, reason: str | None = None, by: str | None = None
    ) -> Continuation:
        """End a run for good, and every open wait with it; idempotent."""
        return portal.run_until_complete(
            self.async_runner.cancel(run_id, reason=reason, by=by)
        )

    def sweep(
        self, *, context: Any = None, should_pause: ShouldPause | None = None
    ) -> SweepResult:
        """Look at every run whose time has come, and resume what can move."""
        return portal.run_until_complete(
            self.async_runner.sweep(context=context, should_pause=should_pause)
        )

    def serve_forever(
        self,
        *,
        interval: float = 1.0,
        max_concurrent_runs: int = 8,
        context: Any = None,
    ) -> None:
        """Resume whatever is due, until SIGTERM or SIGINT; see `AsyncRunner`.

        Has an event loop of its own, so it is called from no thread that has one.
        """
        serving = self.async_runner.serve_forever(
            interval=interval, max_concurrent_runs=max_concurrent_runs, context=context
        )
        asyncio.run(serving)
