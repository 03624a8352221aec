"""AsyncTicket: a posted message of a thread, and the way to its reply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from continuations.core.declared_types import Output
from continuations.core.rows.run import ENDED_STATUSES
from continuations.engine.outcomes import Queued, Suspended, outcome_of, reply_of
from continuations.engine.requests.request_checks import agent_is_missing
from continuations.errors import RunBusy, StaleRun, ThreadClosed
from continuations.ledger.arrivals.arrival_logs import MESSAGES
from continuations.ledger.arrivals.thread_arrivals import check_thread, load_reply
from continuations.ledger.objects import NotFound
from continuations.ledger.versions import Versions
from continuations.value_class import dataclass, replace
from continuations.wire.continuation import Continuation

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from continuations.authoring.agent.agent import Agent
    from continuations.engine.events.word_hub import WordHub
    from continuations.engine.outcomes import Outcome, Reply, SendResult
    from continuations.engine.ports import OnEvent, Ports
    from continuations.engine.worker.worker_factory import WorkerFactory
    from continuations.engine.worker_options import (
        RunOptions,
        ShouldPause,
        WorkerOptions,
    )
    from continuations.ledger.objects import Objects
    from continuations.wire.versions import VersionHeader

# Seconds between two looks at a thread that another process works on.
_FIRST_DELAY, _LAST_DELAY = 0.02, 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadParts:
    """The parts of a runner that its threads use; without agents, no factory."""

    objects: Objects
    ports: Ports
    options: WorkerOptions
    factory: WorkerFactory | None
    probe: Callable[[], Awaitable[None]]
    run_options: Callable[[Any, ShouldPause | None], RunOptions]
    listening: Callable[
        [RunOptions, OnEvent | None], AbstractAsyncContextManager[RunOptions]
    ]
    word_hub: Callable[[], WordHub]


def _repeats(on_event: OnEvent | None, newest: VersionHeader) -> bool:
    """Return whether a listener also wants stored events up to a version."""
    after: Any = getattr(on_event, "after", None)
    return after is not None and after.version <= newest.number


class AsyncTicket(Generic[Output]):
    """A posted message of a thread, and the way to its reply.

    Attributes:
        run_id: Id of the thread's run.
        number: Number of the message.
        posted_after: Number of the thread's version when the message was posted, 0 if
            unknown.
    """

    def __init__(
        self,
        parts: ThreadParts,
        agent: Agent[Output] | None,
        run_id: str,
        number: int,
        newest: VersionHeader | None = None,
    ) -> None:
        self._parts = parts
        self._agent = agent
        self.run_id = run_id
        self.number = number
        self.posted_after = newest.number if newest else 0
        self._newest = newest

    def __repr__(self) -> str:
        """Return the run and the number of the message."""
        return f"<AsyncTicket {self.number} of {self.run_id}>"

    @property
    def can_work(self) -> bool:
        """Whether this process has the agent, so that `reply` works on the thread."""
        return self._parts.factory is not None

    @property
    def was_answered(self) -> bool:
        """Whether the message had its reply when it was posted: then it is a repeat."""
        return self._newest is not None and self.number <= self._newest.answered

    async def reply(
        self,
        *,
        context: Any = None,
        should_pause: ShouldPause | None = None,
        on_event: OnEvent | None = None,
    ) -> SendResult[Output]:
        """Return the reply to this message, and work on the thread if it is missing.

        Args:
            context: Your object for the tools, `ctx.context`. It is never stored.
            should_pause: As for `send`.
            on_event: As for `send`.

        Returns:
            As for `send`.

        Raises:
            ThreadClosed: The thread was closed before this message.
            InvalidInput: The reply is missing, and the runner has no agents.
            ModelError, AgentChanged, ClockOff, StoreError: As for `resume` of a runner.
                Call again.
        """
        if not self.can_work:
            return await self._reply_of_others()
        newest = self._newest
        if newest is None:  # the ticket of an earlier message
            newest = await Versions(self._parts.objects, self.run_id).newest_header()
        if newest and self.number <= newest.answered and not _repeats(on_event, newest):
            return await self._read_reply(newest)
        outcome = await self.work(
            context=context, should_pause=should_pause, on_event=on_event
        )
        return await self._result(outcome)

    async def _reply_of_others(self) -> SendResult[Output]:
        """Return a reply that a worker with the agent has made."""
        result = await self.look()
        if result is None or isinstance(result, Queued | Suspended):
            what = f"the reply to message {self.number} of thread {self.run_id}"
            remedy = "Let a worker that has the agent reply, and call ticket.look()"
            raise agent_is_missing(what, remedy)
        return result

    async def look(self) -> SendResult[Output] | None:
        """Return the reply to this message if it exists; never work on the thread.

        Returns:
            `Replied` or `Failed` if the message has its reply. `Suspended` if the reply
            waits. `Queued` if the message is not read yet, or a process works on its
            reply. `None` if there is no such message.

        Raises:
            ThreadClosed: The thread was closed before this message.
            RunNotFound, RunErased: The thread has no such run, or it was erased.
            Corrupt: A stored object is damaged.
            StoreError: The store failed.
        """
        objects = self._parts.objects
        loaded = await Versions(objects, self.run_id).load_newest()
        run = loaded.state.run
        check_thread(run)
        if run.last_inbox_number < self.number:
            try:
                await MESSAGES.read(objects, self.run_id, self.number)
            except NotFound:
                return None
        newest = Continuation(loaded.state, loaded.number)
        if run.answered < self.number and newest.status == "running":
            return Queued(run_id=self.run_id, number=self.number)
        can_go_on = newest.status == "suspended" and not newest.waits
        return await self._result(outcome_of(newest, self._agent, paused=can_go_on))

    async def _result(self, outcome: Outcome[Output]) -> SendResult[Output]:
        newest = outcome.continuation
        run = newest.run_state.run
        is_over = newest.status in ENDED_STATUSES
        if run.answered == self.number and run.rests and not is_over:
            return reply_of(newest, self._agent)
        if run.answered >= self.number:
            return await self._read_reply()
        if is_over:
            raise self.closed_error()
        if run.last_inbox_number < self.number or not isinstance(outcome, Suspended):
            paused = isinstance(outcome, Suspended) and outcome.paused
            return Queued(run_id=self.run_id, number=self.number, paused=paused)
        return outcome

    async def work(
        self,
        *,
        context: Any,
        should_pause: ShouldPause | None = None,
        on_event: OnEvent | None = None,
    ) -> Outcome[Output]:
        """Work on the thread until the message has its reply, or something waits.

        Args:
            context: As for `reply`.
            should_pause: As for `reply`.
            on_event: As for `reply`.

        Returns:
            The outcome of the thread's run.
        """
        options = self._parts.run_options(context, should_pause)
        options = replace(options, awaited_message=self.number)
        async with self._parts.listening(options, on_event) as listened:
            return await self._work(listened)

    async def _work(self, options: RunOptions) -> Outcome[Output]:
        delay = _FIRST_DELAY
        assert self._parts.factory is not None  # noqa: S101 - the callers have asked
        worker = self._parts.factory.make_worker(self.run_id, options)
        while True:
            try:
                return await worker.resume()
            except StaleRun:
                continue
            except RunBusy:
                if options.should_pause():
                    return await self._paused()
                await self._parts.ports.sleep(delay)
                delay = min(2 * delay, _LAST_DELAY)

    async def _paused(self) -> Suspended:
        """Return the newest state, which another process works on."""
        newest = await Versions(self._parts.objects, self.run_id).load_newest()
        continuation = Continuation(newest.state, newest.number)
        return Suspended(
            run_id=self.run_id,
            waits=continuation.waits,
            continuation=continuation,
            paused=True,
        )

    async def _read_reply(self, newest: VersionHeader | None = None) -> Reply[Output]:
        objects = self._parts.objects
        if newest is None:
            newest = await Versions(objects, self.run_id).newest_header()
        assert newest is not None  # noqa: S101 - the message has its reply there
        version = await load_reply(objects, newest, self.number)
        return reply_of(Continuation(version.state, version.number), self._agent)

    def closed_error(self) -> ThreadClosed:
        """Return the error for a message that a closed thread did not read.

        Returns:
            The error, to be raised.
        """
        msg = (
            f"Message {self.number} of thread {self.run_id} has no reply: the thread "
            "was closed before. Send it again to open the thread anew."
        )
        return ThreadClosed(msg, run_id=self.run_id)
