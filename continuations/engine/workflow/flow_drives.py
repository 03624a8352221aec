"""The running code of the workflows of one run, in one worker."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from continuations.authoring.workflow.drive import FlowDrive, HistoryDiffers
from continuations.core.changes import events
from continuations.core.changes.reducer import advance
from continuations.core.rows import workflow_history
from continuations.core.rows.calls import CLOSED_STATES, CallRow
from continuations.core.rows.state import RunState, frame_path, frame_wait
from continuations.engine.calls import parked_calls
from continuations.errors import AgentChanged, WorkflowChanged
from continuations.ledger import layout
from continuations.value_class import replace
from continuations.wire.fields import to_milliseconds

if TYPE_CHECKING:
    from continuations.authoring.workflow.workflow import Workflow
    from continuations.core.rows.frames import FrameRow
    from continuations.core.rows.waits import Wait
    from continuations.engine.ports import Ports
    from continuations.engine.stack.stack_binding import StackBinding

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _WaitingWorkflow(NamedTuple):
    """The facts that a wait asks of its tool, for a workflow that waits by itself."""

    schema_json: str = "{}"
    continues: bool = False
    cancels: bool = False

    def display_call(self, arguments_json: str) -> None:
        """Return nothing: the question says everything."""
        del arguments_json


@dataclass(slots=True)
class FlowDrives:
    """Replays the workflows of a run, and lets them make steps."""

    stack_binding: StackBinding
    ports: Ports
    _drives: dict[str, FlowDrive] = field(default_factory=dict[str, FlowDrive])

    def replayed(self, state: RunState) -> RunState:
        """Return the run in which each workflow that can go on is due.

        Raises `AgentChanged` if the code does not do what a history says.
        """
        for frame in list(state.frames.values()):
            agent = self.stack_binding.find_agent(state, frame.id)
            if agent is not None:
                _check_kind(state, frame, agent)
            if agent is None or not frame.step:
                continue
            drive = self._drive(state, frame)
            if frame.step == "new":
                continue
            alarm = _alarm_of(state, frame.id)
            deadline = None if alarm is None else alarm.deadline
            due = None if deadline is None else to_milliseconds(deadline)
            is_waiting = frame.step == "waits"
            if is_waiting and (drive.has_news or drive.alarm != due):
                state = advance(state, events.WorkflowDue(frame_id=frame.id))
        return state

    def _drive(self, state: RunState, frame: FrameRow) -> FlowDrive:
        """Return the running code of a frame, after a replay if it does not run yet."""
        log = state.logs[frame.id]
        drive = self._drives.get(frame.id)
        count = len(log.messages)
        if drive is not None:
            if (drive.log_id, drive.entry_count) == (log.id, count):
                return drive
            drive.close()
        agent = self.stack_binding.agent(state, frame.id)
        renames = self.stack_binding.renames
        drive = FlowDrive(
            cast("Workflow[Any, Any]", agent),
            log.id,
            str if renames is None else renames.newest_name,
        )
        self._drives[frame.id] = drive
        try:
            if frame.step == "new":
                drive.check_start(workflow_history.entry_of(log.messages[0]))
                return drive
            drive.replay(log.entries)
            drive.check_at_end(ends=frame.step == "ends", waits=frame.step == "waits")
        except (HistoryDiffers, workflow_history.InvalidEntry) as error:
            raise _changed(state, frame, error) from None
        return drive

    def step(self, state: RunState, frame_id: str) -> events.WorkflowStepped:
        """Return what the code of a frame does now."""
        frame, now = state.frames[frame_id], self.ports.clock.now()
        drive = self._drive(state, frame)
        log = state.logs[frame_id]
        start = log.messages[0] if frame.step == "new" else None
        last = workflow_history.last_time(log.messages)
        try:
            made = drive.step(
                _outcomes(state, frame, now, last),
                max(to_milliseconds(now), last),
                start,
            )
        except HistoryDiffers as error:
            raise _changed(state, frame, error) from None
        restart = None
        if made.restart is not None:
            arguments, at = made.restart
            restart = workflow_history.StartEntry(
                arguments, at, self.ports.ids.new_ulid(now)
            )
        alarm = self._alarm(state, frame, made.alarm, now)
        return events.WorkflowStepped(
            frame_id=frame_id,
            entries=made.entries,
            tasks=made.tasks,
            cancelled=tuple(
                each for each in made.cancelled if state.calls[each].cancelled is None
            ),
            cancelled_new=made.cancelled_new,
            alarm=alarm,
            end=made.end,
            restart=restart,
        )

    def applied(self, before: RunState, after: RunState, frame_id: str) -> None:
        """Tell the code which ids its new calls got."""
        drive = self._drives[frame_id]
        old, new = before.logs[frame_id], after.logs.get(frame_id)
        if new is None or new.id != old.id:
            self._drives.pop(frame_id).close()
            return
        drive.bind(new.messages[len(old.messages) :])

    def _alarm(
        self, state: RunState, frame: FrameRow, due: int | None, now: datetime
    ) -> Wait | None:
        if due is None:
            return None
        old = _alarm_of(state, frame.id)
        deadline = _EPOCH + timedelta(milliseconds=due)
        if old is not None and old.deadline == deadline:
            return old
        wait_id = layout.build_wait_id(
            "alarm", self.ports.ids.new_ulid(now), state.run.id
        )
        alarm = frame_wait(state, "alarm", wait_id, now, frame.id)
        return replace(alarm, deadline=deadline)

    def parked(self, state: RunState, call: CallRow) -> events.CallEvent:
        """Return the event of a call with which a workflow itself waits."""
        drive = self._drive(state, state.frames[call.frame_id])
        asked = drive.asked(call.id)
        assert asked is not None  # noqa: S101 - such a call is made from a wait
        tool: Any = _WaitingWorkflow()
        event = parked_calls.park(state, call, tool, asked, self.ports)
        if isinstance(event, events.CallRaised):
            return events.CallInvalid(
                call_id=call.id, code=event.code, content=event.content
            )
        assert isinstance(event, events.CallParked)  # noqa: S101 - the other event of `park`
        path = frame_path(state, call.frame_id)
        return replace(event, wait=replace(event.wait, path=path, tool=path[-1]))

    def close(self) -> None:
        """Close the code of all workflows, because the worker stops."""
        for drive in self._drives.values():
            drive.close()
        self._drives.clear()


def _check_kind(state: RunState, frame: FrameRow, agent: Any) -> None:
    if agent.is_workflow == bool(frame.step):
        return
    stored, here = "a workflow", "an agent"
    if agent.is_workflow:
        stored, here = here, stored
    msg = (
        f"run {state.run.id} was not resumed: {frame.agent} was {stored} when it "
        f"began, and is {here} in this process. Nothing was written. Resume with "
        "the code of the run, or give the new code another name."
    )
    path = frame_path(state, frame.id)
    raise AgentChanged(msg, run_id=state.run.id, change="kind", path=path)


def _changed(state: RunState, frame: FrameRow, error: object) -> WorkflowChanged:
    msg = (
        f"run {state.run.id} was not resumed: the code of workflow {frame.agent} does "
        f"not fit its history: {error}. Nothing was written. Resume with the code of "
        'the run, or put the change under if flow.patched("name"). Unchanged code '
        "must take times and randomness from flow."
    )
    path = frame_path(state, frame.id)
    return WorkflowChanged(msg, run_id=state.run.id, change="workflow", path=path)


def _alarm_of(state: RunState, frame_id: str) -> Wait | None:
    for wait in state.waits.values():
        if wait.frame_id == frame_id and not wait.rules.suspends:
            return wait
    return None


def _outcomes(
    state: RunState, frame: FrameRow, now: datetime, last: int
) -> list[workflow_history.OutcomeEntry]:
    """Return the outcomes that the code has not seen, in their order."""
    calls = [state.calls[each] for each in frame.open_call_ids]
    ended = [call for call in calls if isinstance(call.state, CLOSED_STATES)]
    ended.sort(key=lambda call: (call.ended_at or now, int(call.id[1:])))
    outcomes: list[workflow_history.OutcomeEntry] = []
    for call in ended:
        last = max(last, to_milliseconds(call.ended_at or now))
        outcomes.append(workflow_history.outcome_of(call, last))
    return outcomes
