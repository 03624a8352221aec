"""The workflows of a run, as its versions show them to laws.

Nothing here uses the code of workflows, except `replayed`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from continuations.authoring.workflow.drive import FlowDrive
from continuations.core.messages import Message
from continuations.core.rows.calls import CLOSED_STATES, Refused
from continuations.core.rows.state import RunState
from continuations.core.rows.workflow_history import (
    CANCELLED_BY_WORKFLOW,
    CommandsEntry,
    Entry,
    OutcomeEntry,
    entry_of,
)
from tests.simulation.evidence import Evidence, RunHistory, Version
from tests.simulation.fault_schedule import Deployment
from tests.simulation.workflows.trees import FLOW_TREES


@dataclass(frozen=True, slots=True)
class FlowFrame:
    """A frame of a workflow in one version.

    Attributes:
        run_id: The run.
        frame_id: The frame.
        name: The name of the workflow.
        step: The step of its row: `new`, `due`, `waits` or `ends`.
        log_id: The id of its log.
        messages: Its history.
    """

    run_id: str
    frame_id: str
    name: str
    step: str
    log_id: int
    messages: tuple[Message, ...]

    @property
    def entries(self) -> list[Entry]:
        return [entry_of(each) for each in self.messages]

    @property
    def commands(self) -> dict[str, tuple[str, str]]:
        """The tool and the arguments of each call, by its id."""
        return {
            call.tool_call_id: (call.tool, call.arguments)
            for entry in self.entries
            if isinstance(entry, CommandsEntry)
            for call in entry.calls
        }

    @property
    def outcomes(self) -> dict[str, OutcomeEntry]:
        outcomes = (each for each in self.entries if isinstance(each, OutcomeEntry))
        return {each.call_id: each for each in outcomes}

    def __str__(self) -> str:
        return f"workflow {self.name} ({self.frame_id}) of {self.run_id}"


def flow_runs(evidence: Evidence) -> Iterator[RunHistory]:
    """Yield the runs whose trees have workflows, and that load."""
    for history in evidence.runs.values():
        tree = evidence.environment.tree_of_run[history.run_id]
        if tree in FLOW_TREES and history.versions and not history.load_error:
            yield history


def flow_parts(evidence: Evidence) -> Iterator[RunHistory]:
    """Yield those runs in parts: a rewind begins another part."""
    for history in flow_runs(evidence):
        yield from history.parts


def flow_frames(version: Version, run_id: str) -> Iterator[FlowFrame]:
    """Yield the frames of workflows of a version."""
    state = version.state
    for frame in state.frames.values():
        log = state.logs.get(frame.id)
        if frame.step and log is not None:
            facts = (run_id, frame.id, frame.agent, frame.step, log.id, log.messages)
            yield FlowFrame(*facts)


def frames_by_version(
    evidence: Evidence,
) -> Iterator[tuple[RunHistory, Version, FlowFrame]]:
    """Yield each frame of a workflow in each version."""
    for history in flow_parts(evidence):
        for version in history.versions:
            for frame in flow_frames(version, history.run_id):
                yield history, version, frame


def last_histories(history: RunHistory) -> dict[tuple[str, int], FlowFrame]:
    """Return the longest history of each log of a run, by frame and id of the log."""
    found: dict[tuple[str, int], FlowFrame] = {}
    for version in history.versions:
        for frame in flow_frames(version, history.run_id):
            found[frame.frame_id, frame.log_id] = frame
    return found


def ancestors(state: RunState, call_id: str) -> Iterator[str]:
    """Yield the id of a call, of the call of its agent, and so on."""
    above: str | None = call_id
    while above is not None and above in state.calls:
        yield above
        above = state.frames[state.calls[above].frame_id].parent_call_id


def marked_call(state: RunState, call_id: str) -> str | None:
    """Return the call, or the one above it, that its workflow cancelled, if any."""
    for each in ancestors(state, call_id):
        if state.calls[each].cancelled == CANCELLED_BY_WORKFLOW:
            return each
    return None


def was_cancelled(history: RunHistory, call_id: str) -> bool:
    """Return whether a call, or one above it, was cancelled by code or an operator."""
    lineage = {call_id}
    for version in history.versions:
        lineage.update(ancestors(version.state, call_id))
    for version in history.versions:
        calls = version.state.calls
        for each in lineage & calls.keys():
            state = calls[each].state
            is_cancelled = isinstance(state, Refused) and state.code == "cancelled"
            if is_cancelled or calls[each].cancelled is not None:
                return True
    left = history.newest_state.calls
    for frame in last_histories(history).values():
        outcomes, commands = frame.outcomes, frame.commands
        for each in lineage & commands.keys():
            outcome = outcomes.get(each)
            # The end of its function, or a restart, leaves a call without an outcome.
            if outcome is None and each not in left:
                return True
            if outcome is not None and (outcome.by or outcome.end == "cancelled"):
                return True
    return False


def is_open(state: RunState, call_id: str) -> bool:
    call = state.calls.get(call_id)
    return call is not None and not isinstance(call.state, CLOSED_STATES)


# Code -------------------------------------------------------------------------------


def code_of_version(evidence: Evidence, version: Version) -> Deployment | None:
    """Return the deployment whose code made a version."""
    used = evidence.environment.codes_used.get(version.process, [])
    return next((code for at, code in reversed(used) if at <= version.at), None)


def came_late(evidence: Evidence, process: str) -> bool:
    """Return whether a request of a process may have arrived during a later one."""
    faults = evidence.environment.faults.occurred
    return any(
        fault.startswith(f"{process}/") and fault.endswith("late_request")
        for fault in faults
    )


def replayed(evidence: Evidence, frame: FlowFrame, code: Deployment | None) -> Any:
    """Replay a history with the code of a deployment; return the drive.

    Raises `HistoryDiffers`.
    """
    from tests.simulation.agents import deployed_root  # noqa: PLC0415 - imports the laws

    tree = evidence.environment.tree_of_run[frame.run_id]
    workflow = workflows_of(deployed_root(tree, code))[frame.name]
    drive = FlowDrive(workflow, frame.log_id)
    drive.replay(frame.entries)
    return drive


def workflows_of(root: Any) -> dict[str, Any]:
    found: dict[str, Any] = {root.name: root} if root.is_workflow else {}
    for tool in root.tools_by_name.values():
        if tool.sub_agent is not None:
            found |= workflows_of(tool.sub_agent)
    return found
