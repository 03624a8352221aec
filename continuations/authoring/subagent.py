"""An agent as a tool of another agent."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from continuations.authoring.approval import ApprovalPolicy
from continuations.authoring.tool import check_tool_name
from continuations.authoring.tool_digests import (
    compute_contract_digest,
    compute_description_digest,
)
from continuations.core import jsontext

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.authoring.agent import Agent
    from continuations.authoring.approval import Condition
    from continuations.authoring.input_spec import InputSpec


class AgentTool:
    """A tool whose call is entered, not run: the agent gets a frame of its own.

    It looks like a `Tool` to the model and to a policy. Its arguments are one string
    `input`, or what the agent's `input_type` declares.
    """

    repeatable = False
    timeout = None
    verify = None
    version = None

    def __init__(
        self,
        agent: Agent,
        *,
        name: str | None = None,
        description: str | None = None,
        approval: bool | Condition | ApprovalPolicy | None = None,
    ) -> None:
        """Make a tool of an agent; the options are those of `Agent.as_tool`."""
        self.agent = agent
        self.name = agent.name if name is None else name
        check_tool_name(self.name)
        told = agent.description if description is None else description
        self.description = told or f"Hand a task to the agent {agent.name}."
        self.approval = ApprovalPolicy.from_option(approval)

    def __repr__(self) -> str:
        """Name the tool and its agent."""
        return f"<AgentTool {self.name} of {self.agent.name}>"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of its arguments; not to be changed."""
        return self._input_spec.schema

    @cached_property
    def schema_json(self) -> str:
        """The canonical text of `parameters`."""
        return jsontext.canonical(dict(self.parameters))

    @cached_property
    def contract_digest(self) -> str:
        """The digest of name and schema, without titles and descriptions."""
        return compute_contract_digest(self.name, self.version, self.parameters)

    @cached_property
    def description_digest(self) -> str:
        """The digest of all that the model is told."""
        return compute_description_digest(self.description, self.parameters)

    @cached_property
    def _input_spec(self) -> InputSpec:
        from continuations.authoring import input_spec  # noqa: PLC0415 - on first use

        return input_spec.make_input_spec(
            self.agent.input_type, agent_name=self.agent.name
        )

    def effective_arguments(self, raw_arguments: str) -> str:
        """Return effective arguments, as `Tool.bind` does."""
        return self._input_spec.validator.effective_arguments(raw_arguments)

    async def needs_approval(self, arguments: str) -> bool:
        """Tell whether entering waits for a person, as `Tool.needs_approval` does."""
        if self.approval is None:
            return False
        return await self.approval.needs_approval(
            self._input_spec.values_by_name(arguments)
        )

    def first_user_message(self, arguments: str) -> str:
        """Return the user message with which the agent's frame begins.

        That is the text of `input`, or the arguments as JSON if a type is declared.
        """
        if self.agent.has_text_input:
            return str(jsontext.parse(arguments)["input"])
        return arguments
