"""Which agent a tool of a run is, as the manifest of the run says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core import jsontext

if TYPE_CHECKING:
    from continuations.core.calls import CallRow
    from continuations.core.state import RunState


def sub_agent_name(state: RunState, row: CallRow) -> str | None:
    """Return the name of the agent that is the tool of a call, or `None`."""
    frame = state.frames.get(row.frame_id)
    if frame is None:
        return None
    agents = jsontext.as_array(jsontext.parse(state.manifest)["agents"]) or []
    for agent in agents:
        tool = agent["tools"].get(row.tool) if agent["name"] == frame.agent else None
        if tool is not None and "agent" in tool:
            name: str = agents[tool["agent"]]["name"]
            return name
    return None
