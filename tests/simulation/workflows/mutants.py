"""Bugs of workflows: their histories, their replays, and the calls that they cancel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from random import Random
from typing import Any

from continuations.authoring.workflow.drive import FlowDrive, HistoryDiffers
from continuations.authoring.workflow.workflow import Flow
from continuations.core.changes import operator_changes, workflow_steps
from continuations.core.changes import plan as plans
from continuations.core.changes.operator_changes import with_cancelled_call
from continuations.core.changes.plan import CancelCall
from continuations.core.messages import Message, ToolCallRequest
from continuations.core.rows import delta, workflow_history
from continuations.core.rows.calls import Ready, Started
from continuations.core.rows.frames import FrameRow, MessageLog
from continuations.core.rows.state import Draft, RunState
from continuations.core.rows.workflow_history import (
    OutcomeEntry,
    StartEntry,
    entry_of,
    message_of,
)
from continuations.engine.past import rewinding
from continuations.engine.worker.run_loop import ActionTasks, OperatorEffects, RunLoop
from continuations.engine.workflow import flow_drives
from continuations.engine.workflow.flow_drives import FlowDrives
from continuations.value_class import replace
from tests.outcomes import expect
from tests.simulation.families import PASTS_OF_WORKFLOWS, WORKFLOWS
from tests.simulation.mutants.mutant import (
    Original,
    Patches,
    gives_back,
    mutants_of,
    patch,
    returns,
    skip,
)

mutant = mutants_of(WORKFLOWS)

# Histories --------------------------------------------------------------------------


@mutant("outcomes_follow_their_decisions")
def outcomes_come_in_the_order_of_calls() -> Patches:
    """Code gets the outcomes in the order of its calls, not of their times."""

    def outcomes(original: Original) -> Any:
        found = original()
        made: list[OutcomeEntry] = []
        for each in sorted(found, key=lambda each: int(each.call_id[1:])):
            at = max([each.at, *(before.at for before in made)])
            made.append(each._replace(at=at))
        return made

    yield patch(flow_drives._outcomes, outcomes)


@mutant("outcomes_follow_their_decisions")
def outcomes_have_the_workers_time() -> Patches:
    """The outcome of a decision has the time of the worker that saw it."""
    yield gives_back(workflow_steps.with_end_time, "row")


@mutant("every_workflow_ends", "no_run_stranded")
def outcomes_of_failed_calls_are_dropped() -> Patches:
    """The code of a workflow does not get the outcomes of calls that failed."""

    def outcomes(original: Original) -> Any:
        found = original()
        return [each for each in found if each.end == "returned"]

    yield patch(flow_drives._outcomes, outcomes)


@mutant("every_command_gets_an_outcome")
def the_end_of_a_run_records_no_outcomes() -> Patches:
    """The end of a run records no outcome of the calls that it closes, unchecked."""
    yield skip(workflow_steps.record_outcomes)
    yield skip(workflow_history._call_violation)


@mutant("versions_are_linear")
def a_restart_keeps_the_id_of_its_log() -> Patches:
    """A workflow that begins anew keeps the id of its log."""

    def start_log(
        original: Original, self: Draft, frame_id: str, messages: tuple[Message, ...]
    ) -> None:
        old = self.logs.get(frame_id)
        if old is None or not self.frame(frame_id).step:
            original()
        else:
            self.put_log(frame_id, MessageLog(old.id, messages))

    yield patch(Draft.start_log, start_log)


@mutant("histories_only_grow")
def the_seed_of_a_workflow_changes() -> Patches:
    """A version has another seed of a workflow than the version before it."""

    def apply_log_delta(original: Original, base: MessageLog | None) -> Any:
        log = original()
        facts = log.messages[0].metadata if log.messages else None
        if base is None or not facts or "seed" not in facts:
            return log
        start = expect(entry_of(log.messages[0]), StartEntry)
        other = message_of(start._replace(seed=f"{start.seed}0"))
        return MessageLog(log.id, (other, *log.messages[1:]))

    yield patch(delta._apply_log_delta, apply_log_delta)


@mutant("time_of_a_workflow_never_goes_back", "versions_are_linear")
def the_time_of_a_workflow_goes_back() -> Patches:
    """A worker with a slow clock lets the time of a workflow go back."""
    yield returns(workflow_history.last_time, 0)


# Replays ----------------------------------------------------------------------------


@mutant("changed_code_changes_nothing")
def a_workflow_is_not_replayed_before_the_claim() -> Patches:
    """A worker takes the claim of a run before it replays the workflows."""
    yield gives_back(FlowDrives.replayed, "state")


@mutant("changed_code_changes_nothing")
def a_replay_compares_tools_only() -> Patches:
    """A replay compares the tools of calls, and not their arguments."""

    def compare(self: FlowDrive, calls: Sequence[ToolCallRequest]) -> None:
        tools = [each.tool for each in self._made]
        if tools[: len(calls)] != [each.tool for each in calls]:
            msg = "the tools differ"
            raise HistoryDiffers(msg)
        for made, recorded in zip(self._made, calls, strict=False):
            self._bind(made, recorded.tool_call_id)
        self._made.clear()

    yield patch(FlowDrive._compare, compare)


@mutant("changed_code_changes_nothing")
def a_replay_counts_calls_only() -> Patches:
    """A replay compares the number of calls, and nothing else."""

    def compare(self: FlowDrive, calls: Sequence[ToolCallRequest]) -> None:
        for made, recorded in zip(self._made, calls, strict=False):
            self._bind(made, recorded.tool_call_id)
        self._made.clear()

    yield patch(FlowDrive._compare, compare)


@mutant("replays_repeat_the_history")
def randomness_differs_in_each_replay() -> Patches:
    """The randomness of a workflow is another one in each replay."""
    numbers = count()

    def random(self: Flow) -> Random:
        if self._random is None:
            self._random = Random(next(numbers))  # noqa: S311 - not for secrets
        return self._random

    yield patch(Flow.random, random)


@mutant("replays_repeat_the_history", "no_run_stranded")
def a_patch_is_on_in_every_replay() -> Patches:
    """A patch is on in the replay of a history that went past it."""

    def is_patched(self: FlowDrive, name: str) -> bool:
        if name not in self._patches:
            self._patches[name] = True
            if name not in self._recorded_patches and not self._is_replaying:
                self._new_patches.append(name)
        return True

    yield patch(FlowDrive.is_patched, is_patched)


@mutant("suspended_code_has_nothing_to_do")
def a_replay_makes_no_workflow_due() -> Patches:
    """A workflow that waits does not go on when new code asks for a patch or a time."""

    def replayed(original: Original, state: RunState) -> Any:
        original()
        return state

    yield patch(FlowDrives.replayed, replayed)


# Calls that the code cancels --------------------------------------------------------


@mutant("the_mark_precedes_the_decision")
def a_wait_is_closed_before_its_mark() -> Patches:
    """The wait of a cancelled call is closed before a version has the mark."""

    async def cancel_call(self: RunLoop, action: CancelCall) -> bool:
        before = self.state
        not_begun = self._operator.not_begun_below(before, [action.call_id])
        reason = before.calls[action.call_id].cancelled or ""
        after = with_cancelled_call(before, action.call_id, reason, not_begun)
        ended = [wait for key, wait in before.waits.items() if key not in after.waits]
        ended = [wait for wait in ended if wait.rules.has_object]
        why = reason or operator_changes.CANCELLED
        await self._journal.close_cancelled_waits(before, {why: ended})
        if self.state is before:
            self.state = after
            self._last_event_to_save += 1
            self._progress += 1
        return True

    yield patch(RunLoop._cancel_call, cancel_call)


@mutant("suspended_code_has_nothing_to_do")
def cancelled_calls_are_not_marked() -> Patches:
    """A step marks none of the calls that its code cancelled."""

    def step(original: Original) -> Any:
        made = original()
        return replace(made, cancelled=(), cancelled_new=())

    yield patch(FlowDrive.step, step)


@mutant("begun_call_keeps_its_outcome")
def begun_calls_are_cancelled() -> Patches:
    """A call that has begun is dropped when its workflow cancels it."""
    yield returns(ActionTasks.has_begun_or_closes, value=False)


@mutant("marked_call_never_begins")
def marked_calls_begin() -> Patches:
    """A call that is ready begins, although its workflow has cancelled it."""

    def plan(original: Original, state: RunState) -> Any:
        begins = {
            row_id: plans._ACTIONS[type(state.calls[row_id].state)](row_id)
            for row_id in state.runnable & state.calls.keys()
            if state.calls[row_id].cancelled is not None
            and isinstance(state.calls[row_id].state, Ready | Started)
        }
        others = [
            each
            for each in original()
            if not isinstance(each, CancelCall) or each.call_id not in begins
        ]
        return (*others, *begins.values())

    yield patch(plans.plan, plan)


@mutant("ended_code_marks_its_calls")
def calls_stay_open_at_the_end() -> Patches:
    """The calls of a function that has ended stay open."""

    def end_if_done(self: FlowDrive) -> None:
        main = self._main
        if main is not None and main.done() and not self._has_ended:
            self._is_ending = self._has_ended = True
            self._end = self._end_of(main)

    yield patch(FlowDrive._end_if_done, end_if_done)


# Code that nothing wakes ------------------------------------------------------------


@mutant("every_workflow_ends")
def stuck_code_waits() -> Patches:
    """A run waits forever for code that awaits something that nothing sets."""
    yield skip(FlowDrive._end_if_hopeless)


@mutant("only_code_that_nothing_wakes_is_stuck")
def code_with_open_calls_is_stuck() -> Patches:
    """Code without a timer is stuck, although one of its calls is open."""

    def end_if_hopeless(self: FlowDrive) -> None:
        if not self._has_ended and self.alarm is None:
            self._fail("stuck", "no timer is set")

    yield patch(FlowDrive._end_if_hopeless, end_if_hopeless)


# Time -------------------------------------------------------------------------------


@mutant("suspended_code_has_nothing_to_do", "every_workflow_ends", "no_run_stranded")
def no_alarm_is_stored() -> Patches:
    """The earliest timer of a workflow is not stored."""
    yield skip(FlowDrives._alarm)


@mutant("suspended_code_has_nothing_to_do")
def an_old_alarm_is_not_replaced() -> Patches:
    """An alarm stays when the earliest timer is another one."""

    def alarm(original: Original, state: RunState, frame: FrameRow) -> Any:
        made = original()
        return made and (flow_drives._alarm_of(state, frame.id) or made)

    yield patch(FlowDrives._alarm, alarm)


@mutant("alarms_ring_beside_calls")
def alarms_do_not_ring_beside_calls() -> Patches:
    """No alarm rings while a call of the workflow runs."""
    yield skip(RunLoop._seconds_to_alarm)


@mutant("no_time_of_a_workflow_is_in_the_future")
def timers_fire_before_their_time() -> Patches:
    """A step fires the earliest timer, although its time has not come."""

    def step(original: Original, self: FlowDrive, now: int) -> Any:
        return original(now=max(now, self.alarm or 0))

    yield patch(FlowDrive.step, step)


@mutant("time_of_a_workflow_never_goes_back")
def a_restart_has_the_first_time() -> Patches:
    """A workflow that begins anew has the time of its first start."""

    def step(original: Original, state: RunState, frame_id: str) -> Any:
        event = original()
        first = entry_of(state.logs[frame_id].messages[0])
        if event.restart is None:
            return event
        assert isinstance(first, StartEntry)
        restart = event.restart._replace(at=first.at)
        return replace(event, restart=restart)

    yield patch(FlowDrives.step, step)


@mutant("begun_call_keeps_its_outcome")
def lost_attempts_are_forgotten() -> Patches:
    """A call that began before a crash is cancelled as if it had not begun."""
    yield gives_back(operator_changes._reason_of, "reason")


@mutant("marked_call_never_begins", family=PASTS_OF_WORKFLOWS)
def starts_below_agents_are_not_taken_back() -> Patches:
    """A call below an agent that its workflow gives up begins after its start."""

    def not_begun_below(original: Original, cancelled: Iterable[str]) -> Any:
        given = [*cancelled]
        return original(cancelled=given) & frozenset(given)

    yield patch(OperatorEffects.not_begun_below, not_begun_below)


@mutant("no_run_stranded", family=PASTS_OF_WORKFLOWS)
def a_rewind_keeps_the_newest_history() -> Patches:
    """A rewind leaves the history of a workflow as it is."""

    def new_logs(original: Original, newest: RunState, state: RunState) -> Any:
        logs, next_id = original()
        for frame in state.frames.values():
            if frame.step and frame.id in newest.logs:
                log = replace(logs[frame.id], messages=newest.logs[frame.id].messages)
                logs[frame.id] = log
        return logs, next_id

    yield patch(rewinding._new_logs, new_logs)
