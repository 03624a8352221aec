"""Plan, perform, advance, commit, until the run needs a decision or has ended.

Before a model is asked or a tool runs, everything that must not be lost is committed:
model replies, the start of the call, and results of unrepeatable calls. One commit is
written at a time, for all frames. The next commit contains everything that becomes
ready while it is written. The last state is not committed here: the caller commits it.

Each step has one word. `RecordStart` records that a call starts. The loop launches a
task for each model turn, tool or verification. The performer runs the tool.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from continuations import errors
from continuations.authoring.tool.call_gate import CallGate, CallNotBegun
from continuations.core.changes import events, operator_changes
from continuations.core.changes.plan import (
    REQUESTS,
    AskModel,
    CancelCall,
    CheckCall,
    ExamineCall,
    RecordStart,
    RunTool,
    StepWorkflow,
    plan,
)
from continuations.core.changes.reducer import advance
from continuations.core.rows.calls import Started, Unknown
from continuations.core.rows.run import Failure, budget_failure
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.engine import inbox_messages, side_task
from continuations.engine.calls.call_examination import is_possible
from continuations.engine.model_delays import ModelGaveUp, refused_turn
from continuations.engine.worker_options import DEFAULT_RUN_OPTIONS, RunOptions
from continuations.ledger.arrivals.arrivals import (
    NO_ARRIVALS,
    Arrivals,
    readable_numbers,
)
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator

    from continuations.core.changes.plan import Action, Launched
    from continuations.core.operator_request import OperatorRequest
    from continuations.engine.ports import Journal
    from continuations.engine.worker.performer import Performer
    from continuations.wire.arrivals import CancelRequest, InboxMessage


# Events that a later process can compute again from the state.
_DERIVED_EVENTS = (
    events.CallAccepted,
    events.ApprovalRequested,
    events.CallInvalid,
    events.SubAgentStarted,
    events.HandedOver,
    events.FrameWatched,
    events.SuspensionEnded,
)
# The actions that are applied at once; all others are launched.
_LOCAL_ACTIONS = (ExamineCall, RecordStart, StepWorkflow, CancelCall)


class RunLoop:
    """Advances one run in this process; use it once.

    `should_pause` is called before each step. Once it returns True, a call whose start
    is recorded still runs; no other call and no model turn starts.

    Attributes:
        state: After `run`, the state that the caller must commit.
        late_arrivals: The requests of operators that were found at commits. And the
            messages, requests and the cancel request that were found before the run
            could finish.
        cancel_request: A cancel request that was found, or `None`.
        model_error: The first error of a model, or `None`.
        look_error: Why the run could not look for late arrivals before it finished, or
            `None`, or read its messages. Then `state` has the last reply, and the run
            has not ended.
        failure: Why the run must end as failed, or `None`.
        call_interrupted: Whether a call that may not be repeated was running when `run`
            stopped early. Its outcome is unknown.
    """

    def __init__(
        self,
        state: RunState,
        performer: Performer,
        journal: Journal,
        arrived: Arrivals = NO_ARRIVALS,
        run_options: RunOptions = DEFAULT_RUN_OPTIONS,
    ) -> None:
        self.state = state
        self.late_arrivals = Arrivals()
        self.cancel_request: CancelRequest | None = None
        self.model_error: errors.ModelError | None = None
        self.look_error: errors.FormatError | errors.StoreError | None = None
        self.failure: Failure | None = None
        self.call_interrupted = False
        self._performer = performer
        self._journal = journal
        self._inbox_messages = arrived.inbox_messages
        self._unread_numbers = arrived.unread_numbers
        self._looked = True  # the arrivals were read just before
        self._should_pause = run_options.should_pause
        self._paused = False
        self._awaits_mark = False
        # It is applied at the end: a process that takes over before that asks again.
        self._last_refusal: events.CallInvalid | events.Denied | None = None
        # The events that must be saved are numbered: the last one, and the last one
        # that a commit saved. Number 1 is the state at the beginning, because the first
        # commit takes the claim, before any action.
        self._last_event_to_save = 1
        self._last_event_saved = 0
        # The number of events that this worker did not just compute from the state.
        self._progress = self._progress_saved = 0
        # An action is launched when the event with this number is saved.
        self._event_to_await: dict[Action, int] = {}
        self._held_handoffs: dict[Action, events.Event] = {}
        self._actions = ActionTasks()
        self._operator = OperatorEffects(self._actions, journal)
        self._commit_task: asyncio.Task[Arrivals] | None = None
        self._commit_count = 0

    async def run(self) -> None:
        """Advance the run until it needs a decision, must stop, or has ended.

        Raises `AgentChanged`, `StaleRun`, `ClockOff` or a `StoreError`. Then everything
        since the last commit is lost, and no action is left running. If the task is
        cancelled, a call that may not be repeated has some seconds to return.
        """
        try:
            while await self._step():
                pass
        except asyncio.CancelledError:
            await self._actions.finish(self.state, self._commit_task)
            # An error of the store or a lost claim shows again at the release.
            with suppress(errors.ContinuationsError):
                self._collect_results()
            raise
        finally:
            self.call_interrupted = await self._actions.cancel_all(
                self.state, self._commit_task
            )
            self.state = self._actions.with_starts_taken_back(self.state)

    @property
    def ending_state(self) -> RunState:
        """`state` with the refusal because of which the run must end, if any."""
        if self._last_refusal is not None:
            with suppress(errors.IllegalTransition):  # the call was cancelled meanwhile
                return advance(self.state, self._last_refusal)
        return self.state

    @property
    def arrivals_taken_in(self) -> Arrivals:
        """The late arrivals that `state` contains, and a cancel request."""
        if self.cancel_request is not None:
            return self.late_arrivals
        return self.late_arrivals.taken_in_by(self.state)

    async def _step(self) -> bool:
        # Asked once for the next two lines. If the answer changed between them, the
        # start of a call could be recorded and its tool not run.
        self._paused = self._paused or self._should_pause()
        self._awaits_mark = False
        await self._apply_local_actions()
        blocked = self._launch_actions() or self._awaits_mark
        if not blocked and not self._actions and self._commit_task is None:
            return False
        dirty = self._last_event_to_save > self._last_event_saved
        if self._commit_task is None and (blocked or dirty):
            self._commit_task = asyncio.create_task(self._save())
        await self._wait_for_tasks()
        self._collect_results()
        if self.cancel_request is None and self.late_arrivals.operator_requests:
            await self._apply_operator_requests()
        return self.cancel_request is None

    async def _apply_operator_requests(self) -> None:
        requests = self.late_arrivals.operator_requests
        before = self.state
        self.state = await self._operator.apply(before, requests)
        # Without the requests, the worker begins anew, and takes them in at its start.
        # After `unpause` it begins anew too: a reply may wait for the end.
        left = any(r.number > self.state.run.last_operator_number for r in requests)
        paused = any(each.action == "pause" for each in requests)
        self._paused = self._paused or left or paused
        if self.state is not before:
            self._last_event_to_save += 1
            self._progress += 1

    async def _apply_local_actions(self) -> None:
        """Examine new calls, and record the start of ready ones.

        An approval policy is awaited here; models and tools have tasks of their own.
        """
        applied_any = True
        while applied_any:
            applied_any = False
            for action in plan(self.state):
                event: events.Event | None = None
                if isinstance(action, ExamineCall) and self._last_refusal is None:
                    event = await self._performer.examine(self.state, action.call_id)
                elif isinstance(action, RecordStart) and self._may_record_starts:
                    event = await self._start_event(action)
                elif isinstance(action, AskModel) and not self._paused:
                    applied_any |= await self._check_turn(action)
                elif isinstance(
                    action, StepWorkflow | CancelCall
                ) and await self._apply_of_workflow(action):
                    applied_any = True
                    break  # the plan is another one now
                if event is not None:
                    self._apply(event)
                    applied_any = True
        # In a thread that rests, the reply must be committed first.
        while not self.state.run.rests and await self._takes_messages():
            self._last_event_to_save += 1
            self._progress += 1

    async def _start_event(self, action: RecordStart) -> events.Event | None:
        """Return the event of a ready call, or `None` if it must wait.

        A handoff that drops messages waits until a version has all of them.
        """
        event = self._held_handoffs.pop(action, None)
        if event is None:
            event = await self._performer.start_event(self.state, action.call_id)
        if (
            isinstance(event, events.HandedOver)
            and event.handoff.dropped
            and self._last_event_to_save > self._last_event_saved
        ):
            self._held_handoffs[action] = event
            self._awaits_mark = True
            return None
        return event

    async def _apply_of_workflow(self, action: StepWorkflow | CancelCall) -> bool:
        """Let a workflow go on; return whether something changed."""
        if isinstance(action, CancelCall):
            return await self._cancel_call(action)
        if self._paused:
            return False
        await self._step_workflow(action.frame_id)
        return True

    async def _step_workflow(self, frame_id: str) -> None:
        """Let the code of a workflow make a step."""
        before = self.state
        drives = self._performer.drives
        event = drives.step(before, frame_id)
        self._apply(event)
        drives.applied(before, self.state, frame_id)
        # A call whose start is recorded, and whose tool was not called, begins no more.
        # The same holds for the calls of the agents below.
        cancelled = [each for each in event.cancelled if each in self.state.calls]
        not_begun = self._operator.not_begun_below(self.state, cancelled)
        self.state = _with_starts_taken_back(self.state, not_begun)
        await self._actions.drop([RunTool(each) for each in sorted(not_begun)])

    async def _cancel_call(self, action: CancelCall) -> bool:
        """End a call that its workflow cancelled; return whether it could end now.

        If it waits, or something below it, the mark is committed first: a process that
        goes on after a crash must not take the closed wait for a denial.
        """
        before = self.state
        not_begun = self._operator.not_begun_below(before, [action.call_id])
        reason = before.calls[action.call_id].cancelled or ""
        after = operator_changes.with_cancelled_call(
            before, action.call_id, reason, not_begun
        )
        ended = before.waits_gone_in(after)
        ended = [wait for wait in ended if wait.rules.has_object]
        if ended:
            marked = self._event_to_await.setdefault(action, self._last_event_to_save)
            if marked > self._last_event_saved:
                self._awaits_mark = True
                return False
            del self._event_to_await[action]
            why = reason or operator_changes.CANCELLED
            await self._journal.close_cancelled_waits(before, {why: ended})
            if self.state is not before:
                return True  # meanwhile another event came; the mark is still there
        self.state = after
        self._last_event_to_save += 1
        self._progress += 1
        await self._actions.drop(
            [each for each in self._actions if _is_void(after, each)]
        )
        return True

    def _ring_alarms(self) -> None:
        """Let the workflows go on whose earliest timer is due."""
        now = self._performer.ports.clock.now()
        for wait in list(self.state.waits.values()):
            if not wait.rules.suspends and wait.deadline and wait.deadline <= now:
                self._apply(events.SuspensionEnded(wait_id=wait.id))

    def _seconds_to_alarm(self) -> float | None:
        deadlines = [
            wait.deadline
            for wait in self.state.waits.values()
            if not wait.rules.suspends and wait.deadline
        ]
        if not deadlines:
            return None
        now = self._performer.ports.clock.now()
        return max(0.0, (min(deadlines) - now).total_seconds())

    async def _takes_messages(self) -> bool:
        """Add the messages that may be added now; return whether there is one."""
        await self._read_unread()
        before = self.state
        self.state = inbox_messages.with_inbox_messages(before, self._unread)
        return self.state is not before

    async def _read_unread(self) -> None:
        """Read the listed messages that the run can take in by now.

        An error before the first commit stops the run as it is in the store. Later the
        run first keeps what its calls did.
        """
        numbers = readable_numbers(self.state, self._unread_numbers)
        if not numbers or self.look_error is not None:
            return
        try:
            late = await self._journal.read_messages(numbers)
        except (errors.FormatError, errors.StoreError) as error:
            if not self._commit_count:
                raise
            self.look_error = error
            return
        left = (each for each in self._unread_numbers if each not in numbers)
        self._unread_numbers = tuple(left)
        self.late_arrivals = self.late_arrivals.followed_by(late)

    @property
    def _unread(self) -> tuple[InboxMessage, ...]:
        return (*self._inbox_messages, *self.late_arrivals.inbox_messages)

    async def _check_turn(self, action: AskModel) -> bool:
        """Suspend a frame before a turn, or end it; return whether it has ended."""
        if action in self._actions or action.frame_id not in self.state.runnable:
            return False
        if action.frame_id == ROOT_FRAME_ID:
            await self._read_unread()
        checks = self._performer.suspend_checks
        for event in await checks.events(self.state, action.frame_id, self._unread):
            self._apply(event)
        return action.frame_id not in self.state.frames

    def _may_not_ask(self, frame_id: str) -> bool:
        """Return whether no model may be asked any more; the budget sets `failure`."""
        if self.model_error or self.look_error:
            return True
        if self.state.frames[frame_id].pending_reply is not None:
            return self.failure is not None  # it is paid for, so it may be polled
        run = self.state.run
        self.failure = budget_failure(run.budget, run.limited_usage) or self.failure
        return self.failure is not None

    @property
    def _may_record_starts(self) -> bool:
        # A call of a run that will end must not begin: its effect could not be used.
        is_ending = self.model_error is not None or self.failure is not None
        return not is_ending and not self._paused

    def _may_repeat(self) -> bool:
        return self._may_record_starts and not self._should_pause()

    def _launch_actions(self) -> bool:
        """Launch the actions that may run; return whether one needs a commit first."""
        blocked = False
        for action in (*plan(self.state), *self._performer.checks.needed):
            if action in self._actions or isinstance(action, _LOCAL_ACTIONS):
                continue
            if isinstance(action, REQUESTS) and self._may_not_ask(action.frame_id):
                continue
            # A call whose start is recorded must run: else its outcome is unknown.
            if self._paused and not isinstance(action, RunTool):
                continue
            awaited = self._event_to_await.setdefault(action, self._last_event_to_save)
            if awaited > self._last_event_saved or not self._journal.can_start_action:
                blocked = True
                continue
            del self._event_to_await[action]
            self._actions.launch(action, self._perform(action))
        return blocked

    async def _perform(self, action: Launched) -> events.Event:
        """Perform an action; raises `CallNotBegun` if it comes too late for the claim.

        The claim is checked again here, in the task of the action, or for a tool at
        once before its function is called, in its thread.
        """
        if action == AskModel(ROOT_FRAME_ID) and not self._looked:
            await self._look_before_turn()
        self._looked = False
        gate = CallGate(lambda: self._journal.can_start_action, self._may_repeat)
        if isinstance(action, RunTool):
            self._actions.gates[action] = gate
        else:
            gate.enter()
        try:
            with gate.as_current():
                event = await self._performer.perform(
                    action, self.state, fence=self._journal.version_number
                )
        finally:
            # A thread that starts later must find the gate closed.
            gate.close()
        if isinstance(event, events.ModelReplied) and self._would_finish(event):
            return await self._look_before_end(event)
        return event

    async def _look_before_turn(self) -> None:
        """Read a message for the present reply of a thread, before the next request.

        Raises `CallNotBegun` if there is one: then the message is added first.
        """
        self._looked = True
        try:
            next_one = await self._journal.read_next_message(self.state)
        except (errors.FormatError, errors.StoreError):
            return  # the look before the end shows it again
        if next_one is not None and inbox_messages.is_for_present_reply(
            self.state, next_one
        ):
            late = Arrivals(inbox_messages=(next_one,))
            self.late_arrivals = self.late_arrivals.followed_by(late)
            self._looked = False  # another one may follow
            raise CallNotBegun

    async def _look_before_end(self, reply: events.ModelReplied) -> events.ModelReplied:
        """Return the last reply, which is not final if something arrived for the run.

        The reply is paid for. So it is also kept, and not final, if the look fails or
        is interrupted: the next worker looks again, and confirms the reply.
        """
        state = self.state
        pending = replace(reply, is_final=False)
        try:
            late = await self._journal.read_late_arrivals(self.state)
        except (errors.FormatError, errors.StoreError) as error:
            self.look_error = error
            return pending
        except asyncio.CancelledError:
            return pending
        self.late_arrivals = self.late_arrivals.followed_by(late)
        return pending if something_comes_first(state, reply, late) else reply

    def _ends_paused_run(self, reply: events.ModelReplied) -> bool:
        return self.state.is_suspended and self._would_finish(reply)

    def _would_finish(self, reply: events.ModelReplied) -> bool:
        if reply.message.tool_call_ids or reply.error_code != "output":
            return False
        run = advance(self.state, reply).run  # a bad reply must not be confirmed later
        return (run.rests and run.failure is None) or run.status == "finished"

    async def _save(self) -> Arrivals:
        last_event, progress = self._last_event_to_save, self._progress
        # The first commit takes the claim and never counts as progress: else a worker
        # that always dies right after it would be tried again without end.
        progressed = self._commit_count > 0 and progress > self._progress_saved
        self._commit_count += 1
        asked = await self._journal.commit(self.state, progressed=progressed)
        self._last_event_saved, self._progress_saved = last_event, progress
        return asked

    async def _wait_for_tasks(self) -> None:
        waiting: set[asyncio.Task[Any]] = {*self._actions.tasks}
        timeout = None
        if self._commit_task is not None:
            waiting.add(self._commit_task)
        else:
            timeout = self._journal.seconds_to_renewal
        alarm = self._seconds_to_alarm()
        if alarm is not None:
            timeout = alarm if timeout is None else min(timeout, alarm)
        done, _ = await asyncio.wait(
            waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
        )
        if alarm is not None and self._seconds_to_alarm() == 0:
            self._ring_alarms()
        elif not done and self._commit_task is None:
            # The claim must be renewed; a commit without new events does that.
            self._commit_task = asyncio.create_task(self._save())

    def _collect_results(self) -> None:
        for action, task in self._actions.pop_done():
            try:
                event = task.result()
            except CallNotBegun:
                # It is launched again after the claim is renewed.
                self._actions.gates.pop(action, None)
            except errors.ModelError as error:
                if isinstance(error, ModelGaveUp):
                    self.failure = error.failure
                else:
                    self.model_error = self.model_error or error
                if not self.state.run.has_ended:
                    # The caller commits it, with the state that releases the claim.
                    self.state = advance(self.state, refused_turn(action, error))
            else:
                self._actions.gates.pop(action, None)
                self._apply(event)
        self.cancel_request = self.cancel_request or self.late_arrivals.cancel_request
        # Last: the error of a commit must not lose the result of a call.
        if self._commit_task is not None and self._commit_task.done():
            commit, self._commit_task = self._commit_task, None
            asked = commit.result()
            self.cancel_request = asked.cancel_request or self.cancel_request
            if asked.operator_requests:
                late = Arrivals(operator_requests=asked.operator_requests)
                self.late_arrivals = self.late_arrivals.followed_by(late)

    def _apply(self, event: events.Event) -> None:
        if (
            isinstance(event, events.CallInvalid | events.Denied)
            and event.failure is not None
        ):
            self.failure, self._last_refusal = event.failure, event
            return
        if isinstance(event, events.ModelReplied) and self._ends_paused_run(event):
            # Its last reply is confirmed after `unpause`.
            event = replace(event, is_final=False)
        derived = isinstance(event, _DERIVED_EVENTS)
        derived = derived and not getattr(event, "trip", None)  # for its event
        if isinstance(event, events.WorkflowStepped):
            derived = not (event.cancelled or event.cancelled_new)
        may_be_lost = derived or (
            isinstance(event, events.CallReturned | events.CallRaised)
            and self.state.calls[event.call_id].repeatable
        )
        # A further attempt of a call is at the same point of the run.
        repeats = isinstance(event, events.RepeatAllowed) or (
            isinstance(event, events.CallStarted)
            and self.state.calls[event.call_id].attempts
        )
        self.state = advance(self.state, event)
        if not may_be_lost:
            self._last_event_to_save += 1
        if not derived and not repeats:
            self._progress += 1


def something_comes_first(
    state: RunState, reply: events.ModelReplied, late: Arrivals
) -> bool:
    """Return whether a message, a pause, a stop or a cancellation comes first."""
    # Messages are read in their order, so only the first one counts.
    following = late.inbox_messages[:1]
    reads = any(inbox_messages.is_for_present_reply(state, each) for each in following)
    after = operator_changes.with_operator_requests(state, late.operator_requests)
    is_held = after.is_suspended or after.run.rests or late.cancel_request is not None
    return is_held or (reads and _may_ask_again(state, reply))


def _may_ask_again(state: RunState, reply: events.ModelReplied) -> bool:
    """Return whether the limits of the run allow another turn after a reply."""
    frame, run = state.frames[reply.frame_id], state.run
    usage = run.limited_usage + reply.usage
    return frame.has_turns(1) and not (run.budget and run.budget.reached_limit(usage))


@dataclass(frozen=True, slots=True)
class OperatorEffects:
    """Applies requests of operators to a run with actions in progress."""

    actions: ActionTasks
    journal: Journal

    async def apply(
        self, state: RunState, requests: tuple[OperatorRequest, ...]
    ) -> RunState:
        """Return the run after requests.

        A tool that was called returns, and a model that was asked replies, unless its
        frame has ended. The waits of cancelled calls are closed before this returns, so
        before the version without them.

        If a job with `on_cancel` is cancelled, no request is taken in. Then the caller
        begins nothing more, and the cancelled calls that have not begun are ready.
        """
        if all(each.number <= state.run.last_operator_number for each in requests):
            return state
        not_begun = self._not_begun(state, requests)
        after = operator_changes.with_operator_requests(state, requests, not_begun)
        ended = state.waits_gone_in(after)
        if any(wait.cancels for wait in ended):
            # `on_cancel` would hold up the renewal of the claim. It is called when the
            # loop has ended: an open call keeps the run from its end.
            after = _with_starts_taken_back(state, not_begun)
        else:
            by_reason = operator_changes.cancelled_waits(state, ended, requests)
            await self.journal.close_cancelled_waits(state, by_reason)
        await self.actions.drop(
            [each for each in self.actions if _is_void(after, each)]
        )
        return after

    def _not_begun(
        self, state: RunState, requests: tuple[OperatorRequest, ...]
    ) -> frozenset[str]:
        """Return the started calls, below a cancelled one, that begin no more."""
        cancelled = [each.call_id for each in requests if each.call_id is not None]
        if any(_ends_turn(state, each) for each in requests):
            cancelled += state.frames[ROOT_FRAME_ID].open_call_ids
        return self.not_begun_below(state, cancelled)

    def not_begun_below(
        self, state: RunState, cancelled: Iterable[str]
    ) -> frozenset[str]:
        """Return the started calls, below some cancelled ones, that begin no more."""
        below = {
            call_id
            for each in cancelled
            for call_id in operator_changes.open_calls_below(state, each)
        }
        return frozenset(
            call_id
            for call_id in below
            if isinstance(state.calls[call_id].state, Started)
            and not self.actions.has_begun_or_closes(RunTool(call_id))
        )


def _ends_turn(state: RunState, request: OperatorRequest) -> bool:
    if not request.message_number:
        return False
    return operator_changes.ends_turn(state, request)


def _with_starts_taken_back(state: RunState, call_ids: Iterable[str]) -> RunState:
    for call_id in sorted(call_ids):
        state = advance(state, events.RepeatAllowed(call_id=call_id, never_began=True))
    return state


def _is_void(state: RunState, action: Action) -> bool:
    """Return whether an action in progress has no frame or call any more."""
    if isinstance(action, StepWorkflow | CancelCall):
        return False  # it is applied at once, and never in progress
    if isinstance(action, AskModel):
        return action.frame_id not in state.frames or (
            action.frame_id == ROOT_FRAME_ID and state.run.holds_root
        )
    if isinstance(action, CheckCall):
        return not is_possible(state, action)
    call = state.calls.get(action.call_id)
    return call is None or not isinstance(call.state, Started | Unknown)


class ActionTasks:
    """The actions in progress, each in a task of its own.

    Attributes:
        gates: The gates of the tools that were launched and have not returned.
    """

    def __init__(self) -> None:
        self._tasks: dict[Action, asyncio.Task[events.Event]] = {}
        self.gates: dict[Action, CallGate] = {}

    def __contains__(self, action: Action) -> bool:
        return action in self._tasks

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[Action]:
        return iter(tuple(self._tasks))

    @property
    def tasks(self) -> Iterable[asyncio.Task[events.Event]]:
        """The tasks of all actions."""
        return self._tasks.values()

    def launch(self, action: Action, work: Coroutine[Any, Any, events.Event]) -> None:
        """Begin a task for an action."""
        self._tasks[action] = asyncio.create_task(work)

    def pop_done(self) -> Iterator[tuple[Action, asyncio.Task[events.Event]]]:
        """Remove and return the actions that are done, with their tasks."""
        for action, task in list(self._tasks.items()):
            if task.done():
                del self._tasks[action]
                yield action, task

    def has_begun(self, action: Action) -> bool:
        """Return whether the tool of an action was called and has not returned."""
        return action in self.gates and self.gates[action].has_begun

    def has_begun_or_closes(self, action: Action) -> bool:
        """Return whether the tool of an action was called; if not, it never will be."""
        gate = self.gates.get(action)
        if gate is not None:
            gate.close()
        return self.has_begun(action)

    def with_starts_taken_back(self, state: RunState) -> RunState:
        """Return a state in which the calls that have not begun are ready again."""
        if state.run.has_ended:
            return state
        for call in list(state.calls.values()):
            if isinstance(call.state, Started) and not self.has_begun(RunTool(call.id)):
                state = advance(
                    state, events.RepeatAllowed(call_id=call.id, never_began=True)
                )
        return state

    async def drop(self, actions: Iterable[Action]) -> None:
        """Stop the tasks of some actions, and forget them."""
        dropped = [self._tasks.pop(each) for each in actions if each in self._tasks]
        await cancel_tasks(dropped)

    async def finish(
        self, state: RunState, commit: asyncio.Task[Any] | None = None
    ) -> None:
        """Wait some seconds for a commit and for calls that may not be repeated.

        Everything else can be done again, so it is given up at once.
        """
        self._close_gates()
        finishing = [each for each in self if self._cannot_be_repeated(each, state)]
        given_up = [each for each in self if each not in finishing]
        await cancel_tasks([self._tasks[action] for action in given_up])
        for action in given_up:
            if not _has_result(self._tasks[action]):
                del self._tasks[action]
        tasks: set[asyncio.Task[Any]] = {self._tasks[action] for action in finishing}
        if commit is not None:
            tasks.add(commit)
        if tasks:
            await asyncio.wait(tasks, timeout=side_task.INTERRUPT_GRACE_SECONDS)

    async def cancel_all(
        self, state: RunState, commit: asyncio.Task[Any] | None = None
    ) -> bool:
        """Cancel a commit and all actions; the next process settles the calls.

        Returns whether a call that may not be repeated was in progress.
        """
        self._close_gates()
        interrupted = any(self._cannot_be_repeated(each, state) for each in self)
        tasks: list[asyncio.Task[Any]] = [*self._tasks.values()]
        if commit is not None:
            tasks.append(commit)
        await cancel_tasks(tasks)
        return interrupted

    def _close_gates(self) -> None:
        for gate in self.gates.values():
            gate.close()

    def _cannot_be_repeated(self, action: Action, state: RunState) -> bool:
        if not isinstance(action, RunTool) or not self.has_begun(action):
            return False
        return not state.calls[action.call_id].repeatable


async def cancel_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait until they have ended."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.gather(*tasks, return_exceptions=True)


def _has_result(task: asyncio.Task[Any]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None
