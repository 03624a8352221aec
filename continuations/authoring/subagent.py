"""An agent as a tool of another agent."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from continuations.authoring.approval import ApprovalPolicy
from continuations.authoring.meaning import meaning_of, wording_of
from continuations.authoring.tool import refuse_name
from continuations.core import jsontext

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.authoring.agent import Agent
    from continuations.authoring.approval import Condition
    from continuations.authoring.inputs import Inputs


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
        refuse_name(self.name)
        told = agent.description if description is None else description
        self.description = told or f"Hand a task to the agent {agent.name}."
        self.approval = ApprovalPolicy.of(approval)

    def __repr__(self) -> str:
        """Name the tool and its agent."""
        return f"<AgentTool {self.name} of {self.agent.name}>"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of its arguments; not to be changed."""
        return self._inputs.schema

    @cached_property
    def schema_json(self) -> str:
        """The canonical text of `parameters`."""
        return jsontext.canonical(dict(self.parameters))

    @cached_property
    def meaning(self) -> str:
        """The digest of name and schema, without titles and descriptions."""
        return meaning_of(self.name, self.version, self.parameters)

    @cached_property
    def wording(self) -> str:
        """The digest of all that the model is told."""
        return wording_of(self.description, self.parameters)

    @cached_property
    def _inputs(self) -> Inputs:
        from continuations.authoring import inputs  # noqa: PLC0415 - on first use

        return inputs.of(self.agent.input_type, agent=self.agent.name)

    def bind(self, written: str) -> str:
        """Return effective arguments, as `Tool.bind` does."""
        return self._inputs.arguments.bind(written)

    async def needs_approval(self, arguments: str) -> bool:
        """Tell whether entering waits for a person, as `Tool.needs_approval` does."""
        if self.approval is None:
            return False
        return await self.approval.asks(self._inputs.values(arguments))

    def opening(self, arguments: str) -> str:
        """Return the user message with which the agent's frame begins.

        That is the text of `input`, or the arguments as JSON if a type is declared.
        """
        if self.agent.takes_text:
            return str(jsontext.parse(arguments)["input"])
        return arguments
