"""The frames and calls of a run, bound to the agents and tools of this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.errors import AgentChanged

if TYPE_CHECKING:
    from continuations.authoring.agent import Agent, AnyTool
    from continuations.authoring.binding import Binding
    from continuations.core.calls import CallRow
    from continuations.core.table import Table


class Bound:
    """Finds a frame's agent and a call's tool, by names from the root down."""

    def __init__(self, binding: Binding) -> None:
        self._binding = binding
        self._agents: dict[str, Agent] = {}

    def agent(self, table: Table, frame_id: str) -> Agent:
        """Return a frame's agent; raises `AgentChanged` if it is gone."""
        unbound: list[str] = []
        current = frame_id
        while current not in self._agents:
            unbound.append(current)
            call = table.frames[current].call
            if call is None:
                break
            current = table.calls[call].frame
        for frame in reversed(unbound):
            self._agents[frame] = self._bind(table, frame)
        return self._agents[frame_id]

    def _bind(self, table: Table, frame_id: str) -> Agent:
        row = table.frames[frame_id]
        try:
            if row.call is None:
                return self._binding.root(row.agent)
            call = table.calls[row.call]
            return self._binding.child(self._agents[call.frame], call.tool)
        except AgentChanged as error:
            error.run_id = table.run.id
            raise

    def tool(self, table: Table, call: CallRow) -> AnyTool | None:
        """Return a call's tool, or `None` if its agent has none of that name."""
        return self.agent(table, call.frame).tool(call.tool)

    def same_tool(self, table: Table, call: CallRow) -> AnyTool:
        """Return the tool of a call that is about to run.

        Raises `AgentChanged` if it is gone or means something else than when the call
        was examined: what was approved then is not what would run now.
        """
        tool = self.tool(table, call)
        if tool is not None and tool.meaning == call.meaning:
            return tool
        agent = self.agent(table, call.frame).name
        gone = "is gone" if tool is None else "has other parameters or another version"
        msg = (
            f"Run {table.run.id}: call {call.id} of tool {call.tool!r} is pending, and "
            f"the tool {gone} in agent {agent!r}. Nothing ran, nothing was written. "
            "Resume with the code that the call was made for, or cancel the run."
        )
        raise AgentChanged(msg, run_id=table.run.id)

    def check(self, table: Table) -> None:
        """Raise `AgentChanged` unless every frame has its agent here."""
        for frame_id in table.frames:
            self.agent(table, frame_id)
