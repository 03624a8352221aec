"""Runner: the same as AsyncRunner, for plain code."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from continuations.engine import portal
from continuations.engine.runner import AsyncRunner

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike

    from continuations.authoring.agent import Agent
    from continuations.core.decisions import Decision, Verdict
    from continuations.core.run import Budget
    from continuations.core.waits import Wait, WaitSummary
    from continuations.engine.opening import Input
    from continuations.engine.outcomes import Outcome
    from continuations.engine.ports import Ids, Notify, Pause
    from continuations.engine.sweeping import Swept
    from continuations.ledger.claims import Clock
    from continuations.ledger.decide import Check
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
        ids: Ids | None = None,
    ) -> None:
        self.asynchronous = AsyncRunner(
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
        return self.asynchronous.store

    def start(
        self,
        input: Input,  # noqa: A002 - the word of the design
        *,
        run_id: str | None = None,
        agent: str | None = None,
        context: Any = None,
        budget: Budget | None = None,
        pause: Pause | None = None,
    ) -> Outcome:
        """Begin a run and work on it until it ends or must wait."""
        return portal.call(
            self.asynchronous.start(
                input,
                run_id=run_id,
                agent=agent,
                context=context,
                budget=budget,
                pause=pause,
            )
        )

    def resume(
        self, run_id: str, *, context: Any = None, pause: Pause | None = None
    ) -> Outcome:
        """Go on with a run, in any process that has its agents."""
        return portal.call(
            self.asynchronous.resume(run_id, context=context, pause=pause)
        )

    def decide(
        self, wait_id: str, verdict: Verdict, *, check: Check | None = None
    ) -> Decision:
        """Record the decision of a wait; the first one stands."""
        return portal.call(self.asynchronous.decide(wait_id, verdict, check=check))

    def waiting(self, *, after: str = "") -> Iterator[WaitSummary]:
        """Go through the open waits of the whole store, from keys alone."""
        return portal.each(self.asynchronous.waiting(after=after))

    def wait(self, wait_id: str) -> Wait:
        """Return an open wait with all that a decider needs."""
        return portal.call(self.asynchronous.wait(wait_id))

    def notify(self, wait_id: str) -> None:
        """Tell whom `notify` tells of an open wait once more."""
        portal.call(self.asynchronous.notify(wait_id))

    def send(self, run_id: str, text: str, *, by: str | None = None) -> int:
        """Post a user message to a run; returns its number in the inbox."""
        return portal.call(self.asynchronous.send(run_id, text, by=by))

    def look(self, run_id: str, *, version: int | None = None) -> Continuation:
        """Return a run's state; never writes."""
        return portal.call(self.asynchronous.look(run_id, version=version))

    def cancel(
        self, run_id: str, *, reason: str | None = None, by: str | None = None
    ) -> Continuation:
        """End a run for good, and every open wait with it; idempotent."""
        return portal.call(self.asynchronous.cancel(run_id, reason=reason, by=by))

    def sweep(self, *, context: Any = None, pause: Pause | None = None) -> Swept:
        """Look at every run whose time has come, and resume what can move."""
        return portal.call(self.asynchronous.sweep(context=context, pause=pause))

    def serve_forever(
        self, *, every: float = 1.0, at_once: int = 8, context: Any = None
    ) -> None:
        """Resume whatever is due, until SIGTERM or SIGINT; see `AsyncRunner`.

        Has an event loop of its own, so it is called from no thread that has one.
        """
        serving = self.asynchronous.serve_forever(
            every=every, at_once=at_once, context=context
        )
        asyncio.run(serving)
