"""Plan, perform, advance, commit, until nothing moves without a decision.

An action on the world (asking a model, running a tool) begins only when everything
that must not be forgotten before it is committed: the model's replies, the intent to
run, and the results of calls that may not be repeated. Frames that run in parallel
share one commit in flight; whatever is ready by then joins the next.
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

# What follows from the rows before it, and would come out the same again.
_DERIVED_EVENTS = (CallAccepted, ApprovalRequested, CallInvalid, SubAgentStarted)


class RunLoop:
    """Moves one run on in this process; use once.

    `pause` is asked before anything is begun; once it said yes, what was begun is
    brought to its end, and nothing else begins.

    After `drive` returned, `table` is the state to be kept, `cancellation` the wish to
    end the run if one was seen, `model_error` what kept a model from answering,
    `failure` why the run must end as it is. After it raised, `cut_off` tells that a
    call had begun and had not come to its end.
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
        # Events that must be durable are counted; so is how many of them are.
        self._events_to_save = 1
        self._events_saved = 0
        # What would not be done again if this worker died, needed or not.
        self._progress = self._progress_saved = 0
        self._saves_needed: dict[Action, int] = {}
        self._action_tasks: dict[Action, asyncio.Task[Event]] = {}
        self._commit_task: asyncio.Task[CancelRequest | None] | None = None
        self._commit_count = 0

    async def run(self) -> None:
        """Go on until only a decision can move the run, or it ended.

        Raises `AgentChanged`, `StaleRun`, `ClockOff` or a `StoreError`; then nothing
        after the last commit is kept, and no action is left running.
        """
        try:
            while await self._step():
                pass
        finally:
            await self._cancel_tasks()

    async def _step(self) -> bool:
        # Asked once for both: a call that is begun here must be launched below.
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
        """Do what needs nobody outside: examine new calls, begin ready ones."""
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
            reason = f"its budget of {limit} is used up"
            self.failure = Failure(code="budget", message=reason)
        return self.failure is not None

    @property
    def _may_begin_calls(self) -> bool:
        return self.model_error is None and not self._paused

    def _start_actions(self) -> bool:
        """Begin every action that may begin; tell whether one waits for a commit."""
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
            # A call that was begun must run, or nobody could tell whether it did.
            if self._paused and not isinstance(action, RunTool):
                continue
            since = self._saves_needed.setdefault(action, self._events_to_save)
            if since > self._events_saved or not self._journal.can_start_call:
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
        told, gained = self._events_to_save, self._progress
        progressed = self._commit_count > 0 and gained > self._progress_saved
        self._commit_count += 1
        cancellation = await self._journal.commit(self.state, progressed=progressed)
        self._events_saved, self._progress_saved = told, gained
        return cancellation

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
            # The claim wants to be renewed; a commit without news does that.
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
        forgettable = isinstance(event, _DERIVED_EVENTS) or (
            isinstance(event, CallReturned | CallRaised)
            and self.state.calls[event.call_id].repeatable
        )
        self.state = advance(self.state, event)
        self._events_to_save += not forgettable
        self._progress += not isinstance(event, _DERIVED_EVENTS)

    async def _cancel_tasks(self) -> None:
        """Leave nothing running; what was in flight is settled by who comes next."""
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
