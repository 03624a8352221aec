"""The approval policy of an agent: it holds for the tools that say nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.authoring.approval import ApprovalPolicy
from continuations.authoring.base_tool import BaseTool
from continuations.errors import InvalidInput

if TYPE_CHECKING:
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
