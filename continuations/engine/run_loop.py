"""Plan, perform, advance, commit, until the run needs a decision or has ended.

Before a model is asked or a tool runs, everything that must not be lost is committed:
model replies, the intent to run the call, and results of unrepeatable calls. Parallel
frames share one commit in flight; everything that is ready by then joins the next one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from continuations.core.actions import AskModel, ExamineCall, RunTool, StartCall
from continuations.core.events import (
    ApprovalRequested,
    CallAccepted,
    CallInvalid,
    CallRaised,
    CallReturned,
    SubAgentStarted,
)
from continuations.core.plan import plan
from continuations.core.reducer import advance
from continuations.core.run import Failure
from continuations.engine.inbox_messages import with_inbox_messages
from continuations.engine.run_options import DEFAULT_RUN_OPTIONS, RunOptions
from continuations.errors import ModelError

if TYPE_CHECKING:
    from continuations.core.actions import Action, VerifyOutcome
    from continuations.core.events import Event
    from continuations.core.state import RunState
    from continuations.engine.journal import Journal
    from continuations.engine.performer import Performer
    from continuations.wire.records import CancelRequest, InboxMessage

# Events that follow from the state alone: a later process would derive the same ones.
_DERIVED_EVENTS = (CallAccepted, ApprovalRequested, CallInvalid, SubAgentStarted)


class RunLoop:
    """Advances one run in this process; use it once.

    `should_pause` is called before each step. Once it returns True, calls in progress
    are completed and nothing else begins.

    Attributes:
        state: After `run`, the state to commit.
        cancel_request: A cancel request that was found, or `None`.
        model_error: The error of the first model that did not reply, or `None`.
        failure: Why the run must end as failed, or `None`.
        call_interrupted: After `run` raised, whether a call had begun and not ended.
    """

    def __init__(
        self,
        state: RunState,
        performer: Performer,
        journal: Journal,
        inbox_messages: tuple[InboxMessage, ...] = (),
        run_options: RunOptions = DEFAULT_RUN_OPTIONS,
    ) -> None:
        self.state = state
        self.cancel_request: CancelRequest | None = None
        self.model_error: ModelError | None = None
        self.failure: Failure | None = None
        self.call_interrupted = False
        self._performer = performer
        self._journal = journal
        self._inbox_messages = inbox_messages
        self._should_pause = run_options.should_pause
        self._paused = False
        # The number of events that must be durable, and how many of them are.
        self._events_to_save = 1
        self._events_saved = 0
        # The number of events that would not happen again if this worker died.
        self._progress = self._progress_saved = 0
        self._saves_needed: dict[Action, int] = {}
        self._action_tasks: dict[Action, asyncio.Task[Event]] = {}
        self._commit_task: asyncio.Task[CancelRequest | None] | None = None
        self._commit_count = 0

    async def run(self) -> None:
        """Advance the run until it needs a decision, must stop, or has ended.

        Raises `AgentChanged`, `StaleRun`, `ClockOff` or a `StoreError`. Then everything
        since the last commit is lost, and no action is left running.
        """
        try:
            while await self._step():
                pass
        finally:
            await self._cancel_tasks()

    async def _step(self) -> bool:
        # One question for both: a call that is begun here must be started below.
        self._paused = self._paused or self._should_pause()
        await self._apply_local_actions()
        blocked = self._start_actions()
        if not blocked and not self._action_tasks and self._commit_task is None:
            return False
        dirty = self._events_to_save > self._events_saved
        if self._commit_task is None and (blocked or dirty):
            self._commit_task = asyncio.create_task(self._save())
        await self._wait_for_tasks()
        self._collect_results()
        return self.cancel_request is None

    async def _apply_local_actions(self) -> None:
        """Examine new calls and begin ready ones; neither leaves this process."""
        while True:
            moved = False
            for action in plan(self.state):
                if isinstance(action, ExamineCall):
                    event = await self._performer.examine(self.state, action.call_id)
                elif isinstance(action, StartCall) and self._may_begin_calls:
                    event = self._performer.begin(self.state, action.call_id)
                else:
                    continue
                self._apply(event)
                moved = True
            if not moved:
                break
        before, self.state = (
            self.state,
            with_inbox_messages(self.state, self._inbox_messages),
        )
        self._events_to_save += self.state is not before
        self._progress += self.state is not before

    def _fail_if_over_budget(self) -> bool:
        budget, usage = self.state.run.budget, self.state.run.usage
        limit = budget and budget.reached_limit(usage)
        if limit:
            reason = (
                f"the budget of {limit} is used up. Start a new run with a larger one."
            )
            self.failure = Failure(code="budget", message=reason)
        return self.failure is not None

    @property
    def _may_begin_calls(self) -> bool:
        return self.model_error is None and not self._paused

    def _start_actions(self) -> bool:
        """Start the actions that may start; return whether one needs a commit first."""
        blocked = False
        for action in plan(self.state):
            if action in self._action_tasks or isinstance(
                action, ExamineCall | StartCall
            ):
                continue
            if isinstance(action, AskModel) and self.model_error is not None:
                continue
            if isinstance(action, AskModel) and self._fail_if_over_budget():
                continue
            # A begun call must run: otherwise its outcome would be unknown.
            if self._paused and not isinstance(action, RunTool):
                continue
            needed = self._saves_needed.setdefault(action, self._events_to_save)
            if needed > self._events_saved or not self._journal.can_start_call:
                blocked = True
                continue
            del self._saves_needed[action]
            self._action_tasks[action] = asyncio.create_task(self._perform(action))
        return blocked

    async def _perform(self, action: AskModel | RunTool | VerifyOutcome) -> Event:
        return await self._performer.perform(
            action, self.state, fence=self._journal.version_number
        )

    async def _save(self) -> CancelRequest | None:
        events, progress = self._events_to_save, self._progress
        progressed = self._commit_count > 0 and progress > self._progress_saved
        self._commit_count += 1
        cancel_request = await self._journal.commit(self.state, progressed=progressed)
        self._events_saved, self._progress_saved = events, progress
        return cancel_request

    async def _wait_for_tasks(self) -> None:
        waiting: set[asyncio.Task[object]] = {*self._action_tasks.values()}
        timeout = None
        if self._commit_task is not None:
            waiting.add(self._commit_task)
        else:
            timeout = self._journal.seconds_to_renewal
        done, _ = await asyncio.wait(
            waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
        )
        if not done:
            # The claim must be renewed; a commit without new events does that.
            self._commit_task = asyncio.create_task(self._save())

    def _collect_results(self) -> None:
        if self._commit_task is not None and self._commit_task.done():
            commit, self._commit_task = self._commit_task, None
            self.cancel_request = commit.result()
        for action, task in list(self._action_tasks.items()):
            if not task.done():
                continue
            del self._action_tasks[action]
            try:
                event = task.result()
            except ModelError as error:
                self.model_error = self.model_error or error
            else:
                self._apply(event)

    def _apply(self, event: Event) -> None:
        may_be_lost = isinstance(event, _DERIVED_EVENTS) or (
            isinstance(event, CallReturned | CallRaised)
            and self.state.calls[event.call_id].repeatable
        )
        self.state = advance(self.state, event)
        self._events_to_save += not may_be_lost
        self._progress += not isinstance(event, _DERIVED_EVENTS)

    async def _cancel_tasks(self) -> None:
        """Cancel all tasks; the next process settles calls that were in progress."""
        self.call_interrupted = any(
            isinstance(action, RunTool) for action in self._action_tasks
        )
        tasks: list[asyncio.Task[object]] = [*self._action_tasks.values()]
        if self._commit_task is not None:
            tasks.append(self._commit_task)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)
