"""All agents that a run of a root agent may reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from continuations.authoring.tool_protocol import AgentProtocol


def every_agent(root: AgentProtocol) -> list[AgentProtocol]:
    """Return a root agent and each agent below it, once."""
    agents = [root]
    seen = {id(root)}
    for agent in agents:  # grows while it is read
        for tool in agent.tools_by_name.values():
            below = tool.sub_agent
            if below is not None and id(below) not in seen:
                seen.add(id(below))
                agents.append(below)
    return agents
