"""Find the agents and tools of this process by the names in a run.

A run names its code by its root agent and, below it, by tool names. Nothing is
imported by name, and nothing is looked up in another way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.errors import AgentChanged, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.authoring.tool_protocol import AgentProtocol, ToolProtocol


class AgentRegistry:
    """The agents that this process can start and resume."""

    def __init__(self, roots: Sequence[AgentProtocol]) -> None:
        """Register root agents; raises `InvalidInput` if two have one name."""
        self._roots: dict[str, AgentProtocol] = {}
        for agent in roots:
            if agent.name in self._roots:
                msg = f"two root agents are named {agent.name}: rename one of them."
                raise InvalidInput(msg)
            self._roots[agent.name] = agent

    def find_root_agent(self, name: str) -> AgentProtocol | None:
        """Return a root agent by name, or `None`."""
        return self._roots.get(name)

    def root_agent(self, name: str) -> AgentProtocol:
        """Return a root agent by name; raises `AgentChanged`."""
        agent = self._roots.get(name)
        if agent is not None:
            return agent
        known = ", ".join(self._roots) or "none"
        msg = (
            f"this process has no root agent {name} (root agents: {known}). Resume with"
            " the agent that the run was started with. The run is unchanged."
        )
        raise AgentChanged(msg)

    def sub_agent(self, agent: AgentProtocol, tool_name: str) -> AgentProtocol:
        """Return the agent that a tool of an agent starts; raises `AgentChanged`."""
        sub_agent = self.tool(agent, tool_name).sub_agent
        if sub_agent is not None:
            return sub_agent
        msg = (
            f"the tool {tool_name} of agent {agent.name} was an agent and is now a"
            " function. Restore the agent under this name, decide the waits below it"
            " with Deny, or cancel the run. The run is unchanged."
        )
        raise AgentChanged(msg)

    def tool(self, agent: AgentProtocol, tool_name: str) -> ToolProtocol:
        """Return a tool of an agent by name; raises `AgentChanged`."""
        tool = agent.get_tool(tool_name)
        if tool is not None:
            return tool
        known = ", ".join(agent.tools_by_name) or "none"
        msg = (
            f"agent {agent.name} has no tool {tool_name} (its tools: {known}). Restore"
            " the tool under this name, or decide its wait with Deny or Answer. The run"
            " is unchanged."
        )
        raise AgentChanged(msg)
