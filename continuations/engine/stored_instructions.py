"""The instructions that a conversation stores when it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from continuations.authoring.tool_protocol import AgentProtocol


async def stored_instructions(
    agent: AgentProtocol, agent_input: Any, context: Any
) -> str:
    """Return the instructions that a conversation stores; errors pass.

    Those of a state are made for each request.
    """
    if agent.renders_state:
        return ""
    return await agent.make_instructions(agent_input, context)
