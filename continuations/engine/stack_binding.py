"""Bind the frames and calls of a run to the agents and tools of this process."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from continuations.engine.code_changes import find_code_changes
from continuations.errors import AgentChanged, FormatError

if TYPE_CHECKING:
    from continuations.authoring.manifest import ManifestChange
    from continuations.authoring.registry import AgentRegistry
    from continuations.authoring.tool_protocol import AgentProtocol, ToolProtocol
    from continuations.core.calls import CallRow
    from continuations.core.state import RunState


class StackBinding:
    """Finds a frame's agent and a call's tool by their names, from the root down."""

    def __init__(self, agent_registry: AgentRegistry) -> None:
        self._agent_registry = agent_registry
        self._agents_by_frame: dict[str, AgentProtocol] = {}

    def agent(self, state: RunState, frame_id: str) -> AgentProtocol:
        """Return a frame's agent; raises `AgentChanged` if it is missing."""
        unbound: list[str] = []
        current = frame_id
        while current not in self._agents_by_frame:
            unbound.append(current)
            call = state.frames[current].parent_call_id
            if call is None:
                break
            current = state.calls[call].frame_id
        for frame in reversed(unbound):
            self._agents_by_frame[frame] = self._resolve_agent(state, frame)
        return self._agents_by_frame[frame_id]

    def _resolve_agent(self, state: RunState, frame_id: str) -> AgentProtocol:
        row = state.frames[frame_id]
        try:
            if row.parent_call_id is None:
                return self._agent_registry.root_agent(row.agent)
            call = state.calls[row.parent_call_id]
            return self._agent_registry.sub_agent(
                self._agents_by_frame[call.frame_id], call.tool
            )
        except AgentChanged as error:
            msg = f"run {state.run.id}: {error}"
            raise AgentChanged(msg, run_id=state.run.id) from None

    def tool(self, state: RunState, call: CallRow) -> ToolProtocol | None:
        """Return a call's tool, or `None` if its agent has none of that name."""
        return self.agent(state, call.frame_id).get_tool(call.tool)

    def unchanged_tool(self, state: RunState, call: CallRow) -> ToolProtocol:
        """Return the tool of a call that is about to run.

        Raises `AgentChanged` if the tool is missing or its contract has changed since
        the call was examined: another call would run than the approved one.
        """
        tool = self.tool(state, call)
        if tool is not None and tool.contract_digest == call.contract_digest:
            return tool
        agent = self.agent(state, call.frame_id).name
        change = (
            f"is missing in agent {agent!r}"
            if tool is None
            else f"of agent {agent!r} has changed: {self._tool_change(state, call)}"
        )
        msg = (
            f"run {state.run.id}: call {call.id} is pending, and its tool "
            f"{call.tool!r} {change}. Nothing ran, and nothing was "
            "written. Resume with the code that the call was made for, or cancel the "
            "run."
        )
        raise AgentChanged(msg, run_id=state.run.id)

    def _tool_change(self, state: RunState, call: CallRow) -> str:
        names = [call.tool]
        frame = state.frames[call.frame_id]
        while frame.parent_call_id is not None:
            parent = state.calls[frame.parent_call_id]
            names.append(parent.tool)
            frame = state.frames[parent.frame_id]
        where = "/".join(reversed([*names, frame.agent]))
        changes: tuple[ManifestChange, ...] = ()
        with suppress(FormatError):
            changes = find_code_changes(state, self._agent_registry)
        for change in changes:
            if change.where == where and change.kind == "incompatible":
                return change.what
        # A resume that ran other calls has replaced the manifest. Or the path goes
        # through a circle of agents, and the manifest has only the shortest path.
        return "it has other parameters or another version"

    def check_agents(self, state: RunState) -> None:
        """Raise `AgentChanged` unless this process has the agent of every frame."""
        for frame_id in state.frames:
            self.agent(state, frame_id)
