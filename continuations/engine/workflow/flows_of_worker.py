"""The workflows of a run in one worker; a run without one loads nothing of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from continuations.core.rows.state import RunState
    from continuations.engine.ports import Ports
    from continuations.engine.stack.stack_binding import StackBinding
    from continuations.engine.workflow.flow_drives import FlowDrives


class FlowsOfWorker:
    """Makes the `FlowDrives` of a worker when it is first needed."""

    def __init__(self, stack_binding: StackBinding, ports: Ports) -> None:
        self._stack_binding = stack_binding
        self._ports = ports
        self._drives: FlowDrives | None = None

    @property
    def drives(self) -> FlowDrives:
        """The running code of the workflows."""
        if self._drives is None:
            from continuations.engine.workflow.flow_drives import FlowDrives  # noqa: PLC0415 - few runs have a workflow

            self._drives = FlowDrives(self._stack_binding, self._ports)
        return self._drives

    def close(self) -> None:
        """Close the code, because the worker stops."""
        if self._drives is not None:
            self._drives.close()


def has_workflows(stack_binding: StackBinding, state: RunState) -> bool:
    """Return whether a frame is one of a workflow, as it is stored or by the code."""
    for frame in state.frames.values():
        if frame.step:
            return True
        agent = stack_binding.find_agent(state, frame.id)
        if agent is not None and agent.is_workflow:
            return True
    return False
