"""An agent as a tool of another agent."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from continuations.authoring.agent_declaration import check_made
from continuations.authoring.base_tool import BaseTool
from continuations.authoring.tool_options import check_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from continuations.authoring.approval import ApprovalPolicy, Condition
    from continuations.authoring.context import ToolContext
    from continuations.authoring.input_spec import InputSpec
    from continuations.authoring.readings import Reading, Summary
    from continuations.authoring.tool_options import EnabledCondition
    from continuations.authoring.tool_protocol import AgentProtocol


class AgentTool(BaseTool):
    """A tool whose call starts an agent in a frame of its own.

    Its arguments are one string `input`, or the fields of the agent's `input_type`.
    """

    def __init__(
        self,
        agent: AgentProtocol,
        *,
        name: str | None = None,
        description: str | None = None,
        approval: bool | Condition | ApprovalPolicy | None = None,
        is_enabled: bool | EnabledCondition = True,
        summary: Summary | None = None,
    ) -> None:
        check_made(agent)
        super().__init__(
            agent.name if name is None else name,
            {"approval": approval, "is_enabled": is_enabled, "summary": summary},
        )
        self._agent = agent
        self._check_summary(None if agent.input_type else ("input",), _no_type)
        check_type(self.name, "description", description, str, None)
        text = agent.description if description is None else description
        self._description = text or f"Hand a task to the agent {agent.name}."

    def __repr__(self) -> str:
        return f"<AgentTool {self.name} of {self._agent.name}>"

    @property
    def _readings(self) -> Mapping[str, Reading]:
        if self._agent.input_type is None:
            return {}
        from continuations.authoring import readings  # noqa: PLC0415 - rarely needed

        fields = readings.fields_of(self._agent.input_type)
        return readings.readings_of(fields or {})

    @property
    def sub_agent(self) -> AgentProtocol:
        """The agent that a call starts."""
        return self._agent

    @property
    def description(self) -> str:
        """The description that the model reads."""
        return self._description

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments. Callers must not change it."""
        return self._input_spec.schema

    @cached_property
    def _input_spec(self) -> InputSpec:
        from continuations.authoring import input_spec  # noqa: PLC0415 - on first use

        return input_spec.make_input_spec(
            self._agent.input_type, agent_name=self._agent.name
        )

    def effective_arguments(self, raw_arguments: str) -> str:
        """Return the effective arguments; see `ToolProtocol.effective_arguments`."""
        return self._input_spec.validator.effective_arguments(raw_arguments)

    def find_edit_difference(self, edited_arguments: str) -> str | None:
        """Compare an edit; see `ToolProtocol.find_edit_difference`."""
        return self._input_spec.validator.find_edit_difference(edited_arguments)

    def _values_by_name(self, arguments_json: str) -> dict[str, Any]:
        """Return effective arguments as Python values by name."""
        return self._input_spec.values_by_name(arguments_json)

    async def invoke(self, arguments_json: str, ctx: ToolContext) -> NoReturn:
        """Raise `TypeError`: the engine starts a frame for `sub_agent` instead."""
        del arguments_json, ctx
        msg = f"tool {self.name} is an agent: start a frame for its sub_agent"
        raise TypeError(msg)

    async def _call_verify(
        self, verify: Callable[..., Any], arguments_json: str, ctx: ToolContext
    ) -> None:
        del verify, arguments_json, ctx  # an agent's tool has no `verify` option


def _no_type(name: str) -> Any:
    """Raise `LookupError`: the input type is read on first use."""
    raise LookupError(name)
