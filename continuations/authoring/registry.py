"""Find the agents and tools of this process by the names in a run.

A run names its code by its root agent and, below it, by tool names. Nothing is
imported by name, and nothing is looked up in another way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.authoring.tool_protocol import AgentProtocol


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

    def missing_root_text(self, name: str) -> str:
        """Return what a process says that lacks the root agent of a run."""
        known = ", ".join(self._roots) or "none"
        return (
            f"this process has no root agent {name} (root agents: {known}). Resume with"
            " the agent that the run was started with. The run is unchanged."
        )

    def find_sub_agent(
        self, agent: AgentProtocol, tool_name: str
    ) -> AgentProtocol | None:
        """Return the agent that a tool of an agent starts, or `None`."""
        tool = agent.get_tool(tool_name)
        return None if tool is None else tool.sub_agent


def missing_tool_text(agent: AgentProtocol, tool_name: str) -> str:
    """Return why a call's tool is not found, as the beginning of a sentence."""
    if agent.get_tool(tool_name) is not None:
        name = agent.name
        return (
            f"the tool {tool_name} of agent {name} was an agent and is now a function"
        )
    known = ", ".join(agent.tools_by_name) or "none"
    return f"agent {agent.name} has no tool {tool_name} (its tools: {known})"
