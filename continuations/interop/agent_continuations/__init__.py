"""The names of SnapLogic's prototype `agent-continuations`, over this library.

An application of the prototype runs with other import lines:

    from continuations.interop.agent_continuations import ContinuationAgent, tool

`request()` takes and returns the dicts of the prototype. The loop, the approvals and
the resumption are those of this library, so some results differ on purpose; see
docs/how-to/adopt.md.
"""

from __future__ import annotations

from continuations.interop.agent_continuations.request_agents import (
    Agent,
    AgentExecutionStatus,
    ContinuationAgent,
    Tool,
    suspend_function,
    tool,
)

__all__ = [
    "Agent",
    "AgentExecutionStatus",
    "ContinuationAgent",
    "Tool",
    "suspend_function",
    "tool",
]
