"""Find the agents and tools of this process by the names in a run.

A run names its code by its root agent and, below it, by tool names. Nothing is
imported by name, and nothing is looked up in another way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from continuations.authoring.renames import Renames
    from continuations.authoring.tool_protocol import AgentProtocol, ToolProtocol


class AgentRegistry:
    """The agents that this process can start and resume."""

    def __init__(
        self, roots: Sequence[AgentProtocol], renamed: Mapping[str, str] | None = None
    ) -> None:
        """Register root agents; raises `InvalidInput`.

        Two of them have one name, or `renamed` does not fit them.
        """
        self._roots: dict[str, AgentProtocol] = {}
        for agent in roots:
            if agent.name in self._roots:
                msg = f"two root agents are named {agent.name}: rename one of them."
                raise InvalidInput(msg)
            self._roots[agent.name] = agent
        self.renames: Renames | None = None
        if renamed and roots:
            from continuations.authoring.renames import Renames  # noqa: PLC0415 - rarely used

            self.renames = Renames(renamed, roots)

    def find_root_agent(self, name: str) -> AgentProtocol | None:
        """Return a root agent by its name, or by an old one, or `None`."""
        agent = self._roots.get(name)
        if agent is None and self.renames is not None:
            agent = self.renames.find_agent(self._roots, name)
        return agent

    def find_renamed_tool(
        self, agent: AgentProtocol, old_name: str
    ) -> ToolProtocol | None:
        """Return a tool of an agent by an old name, as a copy with it, or `None`."""
        if self.renames is None:
            return None
        return self.renames.find_tool(agent, old_name)

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
        if tool is None:
            tool = self.find_renamed_tool(agent, tool_name)
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
