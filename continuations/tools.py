"""Classes for tools: their options, arguments, waits and results.

from continuations.tools import AgentProgress, FailedCall
"""

from __future__ import annotations

from continuations.authoring.agent.agent import Handoff, handoff
from continuations.authoring.agent.agent_options import ToolSource
from continuations.authoring.readings import Money, Secret
from continuations.authoring.suspend_conditions import AgentProgress, SuspendCondition
from continuations.authoring.tool.tool import Tool
from continuations.authoring.tool.tool_options import (
    FailedCall,
    OfferInfo,
    Retries,
    SchemaToolOptions,
)
from continuations.authoring.tool_waits import ToolWait

__all__ = [
    "AgentProgress",
    "FailedCall",
    "Handoff",
    "Money",
    "OfferInfo",
    "Retries",
    "SchemaToolOptions",
    "Secret",
    "SuspendCondition",
    "Tool",
    "ToolSource",
    "ToolWait",
    "handoff",
]
