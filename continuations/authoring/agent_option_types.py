"""The types of the options of an agent, for type checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from typing import TypeAlias

    from continuations.authoring.approval import ApprovalPolicy, Condition
    from continuations.authoring.failed_call import ToolErrorFunction
    from continuations.authoring.guardrails import Guardrails
    from continuations.authoring.hooks import Hooks
    from continuations.authoring.suspend_conditions import SuspendConditions
    from continuations.authoring.tool_protocol import AgentProtocol, ToolProtocol
    from continuations.core.model_protocol import Model

    ToolLike: TypeAlias = ToolProtocol | AgentProtocol | Callable[..., Any]
    ToolsOption: TypeAlias = Sequence[ToolLike] | Callable[[], Sequence[ToolLike]]
    # The input is the text of the task, or the chat messages that `start` was given.
    InstructionsFunction: TypeAlias = Callable[[Any, Any], str | Awaitable[str]]


class AgentOptions(TypedDict, total=False):
    """The options of `Agent` beside its name and `output_type`; see there."""

    instructions: str | InstructionsFunction
    tools: ToolsOption
    model: str | Model | None
    description: str | None
    input_type: Any
    output_retries: int
    context_type: Any
    approval: bool | Condition | ApprovalPolicy | None
    max_turns: int | None
    max_denials: int | None
    settings: Mapping[str, Any] | None
    reset_tool_choice: bool
    tool_choice: str | None
    tool_errors: ToolErrorFunction | None
    suspend_when: SuspendConditions
    hooks: Hooks | None
    guardrails: Guardrails | None
