"""The approval policy and the tool errors of an agent.

They hold for the tools that say nothing else.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from continuations.authoring.approval import ApprovalPolicy
from continuations.authoring.base_tool import BaseTool
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from continuations.authoring.tool_options import ToolErrorFunction
    from continuations.authoring.tool_protocol import ToolProtocol


def checked_policy(agent_name: str, option: object) -> ApprovalPolicy | None:
    """Return the policy of an agent's `approval` option; raises `InvalidInput`."""
    try:
        return ApprovalPolicy.from_option(option)
    except InvalidInput as error:
        msg = f"agent {agent_name}: {error}"
        raise InvalidInput(msg) from None


def with_policy(tool: ToolProtocol, policy: ApprovalPolicy | None) -> ToolProtocol:
    """Return a tool that asks by the policy of its agent, unless it has its own.

    Raises `InvalidInput` if the policy does not fit the arguments of the tool, and for
    a tool of another class, which might not ask.
    """
    if policy is None or tool.approval is not None:
        return tool
    if isinstance(tool, BaseTool):
        return tool if tool.never_asks else tool.with_policy(policy)
    kind = type(tool).__name__
    msg = (
        f"tool {tool.name} ({kind}) cannot take the approval policy of its agent. Give "
        "the tool a policy of its own."
    )
    raise InvalidInput(msg)


def with_tool_errors(
    tool: ToolProtocol, function: ToolErrorFunction | None
) -> ToolProtocol:
    """Return a tool whose errors a function of its agent words, unless it has its own.

    Raises `InvalidInput` for a tool of another class, which might not ask.
    """
    if function is None or tool.on_error is not None or tool.sub_agent is not None:
        return tool
    if isinstance(tool, BaseTool):
        made = copy.copy(tool)
        made.on_error = function
        return made
    kind = type(tool).__name__
    msg = (
        f"tool {tool.name} ({kind}) cannot take the tool_errors of its agent. Give the "
        "tool an on_error of its own."
    )
    raise InvalidInput(msg)
