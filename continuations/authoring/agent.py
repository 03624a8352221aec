"""Agents: a model, what it is told to be, and what it may call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from continuations.authoring.subagent import AgentTool
from continuations.authoring.tool import Tool
from continuations.authoring.tool_protocol import is_tool
from continuations.core import jsontext
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from continuations.authoring.approval import ApprovalPolicy, Condition
    from continuations.authoring.output_spec import OutputSpec
    from continuations.authoring.tool_protocol import ToolProtocol
    from continuations.core.model_protocol import Model, OutputSchema

ToolLike: TypeAlias = "ToolProtocol | Agent | Callable[..., Any]"
ToolsOption: TypeAlias = "Sequence[ToolLike] | Callable[[], Sequence[ToolLike]]"


# More than any conversation holds, and within what is stored.
_MAX_TURNS = 1_000_000_000


def _is_model(model: Any) -> bool:
    if model is None or isinstance(model, str):
        return model != ""
    # A class has the methods of its instances, and is none.
    named = isinstance(getattr(model, "name", None), str)
    return named and callable(getattr(model, "reply", None))


class Agent:
    """What a run, or a call of another agent, is handed to. It is never changed.

    An agent among the `tools` is a sub-agent. `tools` may be a function without
    parameters that returns them, so that agents can call each other in a circle; it
    is called once, on first use. `settings` go to the provider as they are.
    `max_turns` bounds the model's turns in one frame; `None` does not.
    """

    def __init__(  # noqa: PLR0913 - what an author may declare, all by keyword
        self,
        name: str,
        *,
        instructions: str = "",
        tools: ToolsOption = (),
        model: str | Model | None = None,
        description: str | None = None,
        input_type: Any = None,
        output_type: Any = None,
        max_turns: int | None = 100,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Declare an agent; raises `InvalidInput`."""
        self.name = name
        self.instructions = instructions
        self.model = model
        self.description = description
        self.input_type = input_type
        self.output_type = output_type
        self.max_turns = max_turns
        self.settings = self._validated_settings(settings)
        self._tools = tools
        self._validate_options()

    def __repr__(self) -> str:
        """Name the agent."""
        return f"<Agent {self.name}>"

    def _validate_options(self) -> None:
        """Refuse what could only fail later, in the middle of a run."""
        texts: tuple[Any, ...] = (self.name, self.instructions, self.description or "")
        if not all(isinstance(text, str) for text in texts) or not self.name:
            msg = "an agent has a name, instructions and a description: strings"
            raise InvalidInput(msg)
        if not _is_model(self.model):
            msg = f"agent {self.name}: its model is a name, or has `name` and `reply`"
            raise InvalidInput(msg)
        if isinstance(self.output_type, str) or isinstance(self.input_type, str):
            msg = f"agent {self.name}: give the type itself, not its name as a string"
            raise InvalidInput(msg)
        turns: Any = self.max_turns
        if turns is not None and not (type(turns) is int and 1 <= turns <= _MAX_TURNS):
            msg = f"agent {self.name}: max_turns is 1 to {_MAX_TURNS}, or None"
            raise InvalidInput(msg)

    def _validated_settings(
        self, settings: Mapping[Any, Any] | None
    ) -> Mapping[str, Any]:
        if settings is None:
            return {}
        with suppress(TypeError, ValueError):
            found = dict(settings)
            if all(isinstance(name, str) for name in found):
                return found
        msg = f"agent {self.name}: settings is a mapping with names for the provider"
        raise InvalidInput(msg)

    # What it may call -------------------------------------------------------

    def as_tool(
        self,
        name: str | None = None,
        description: str | None = None,
        approval: bool | Condition | ApprovalPolicy | None = None,
    ) -> AgentTool:
        """Return the agent as a tool of another, under its own or another name."""
        return AgentTool(self, name=name, description=description, approval=approval)

    @cached_property
    def tools_by_name(self) -> Mapping[str, ToolProtocol]:
        """Its tools by name, in their order; raises `InvalidInput`."""
        found: dict[str, ToolProtocol] = {}
        for usable in self._resolve_tools():
            tool = self._to_tool(usable)
            if tool.name in found:
                msg = (
                    f"agent {self.name} has two tools named {tool.name}: give one of"
                    " them another name"
                )
                raise InvalidInput(msg)
            found[tool.name] = tool
        return MappingProxyType(found)

    def _resolve_tools(self) -> Sequence[ToolLike]:
        tools = self._tools
        if callable(tools) and not is_tool(tools):
            try:
                tools = tools()
            except InvalidInput:
                raise
            except Exception as error:
                why = type(error).__name__
                msg = f"agent {self.name}: its function of tools raised {why}"
                raise InvalidInput(msg) from error
        if isinstance(tools, Sequence) and not isinstance(tools, str):
            return tools
        msg = f"agent {self.name}: its tools are a list, or a function that returns one"
        raise InvalidInput(msg)

    def _to_tool(self, tool_like: Any) -> ToolProtocol:
        try:
            if is_tool(tool_like):
                return tool_like
            if isinstance(tool_like, Agent):
                return tool_like.as_tool()
            if callable(tool_like):
                made: Tool[..., Any] = Tool(tool_like)
                return made
        except InvalidInput as error:
            msg = f"agent {self.name}: {error}"
            raise InvalidInput(msg) from error
        msg = f"agent {self.name}: {tool_like!r} is neither a tool nor an agent"
        raise InvalidInput(msg)

    def get_tool(self, name: str) -> ToolProtocol | None:
        """Return the tool of a name, or `None`."""
        return self.tools_by_name.get(name)

    @property
    def tool_specs(self) -> list[tuple[str, str, Mapping[str, Any]]]:
        """Name, description and JSON Schema of each tool, in their order."""
        return [
            (tool.name, tool.description, tool.parameters)
            for tool in self.tools_by_name.values()
        ]

    # What it is told, and what it says ---------------------------------------

    @cached_property
    def instructions_digest(self) -> str:
        """The digest of what it is told to be."""
        return jsontext.digest(self.instructions)

    @property
    def model_name(self) -> str | None:
        """The name of its model; `None` leaves the choice to the runner."""
        if self.model is None or isinstance(self.model, str):
            return self.model
        return self.model.name

    @property
    def has_text_input(self) -> bool:
        """Whether it is called with one string rather than a type of its own."""
        return self.input_type is None or self.input_type is str

    @property
    def has_text_output(self) -> bool:
        """Whether its output is the text of its last message."""
        return self.output_type is None or self.output_type is str

    @cached_property
    def _output_spec(self) -> OutputSpec:
        from continuations.authoring import output_spec  # noqa: PLC0415 - on first use

        return output_spec.make_output_spec(self.output_type, agent_name=self.name)

    @property
    def output_schema(self) -> OutputSchema | None:
        """The schema of its final reply; `None` if the output is text."""
        return None if self.has_text_output else self._output_spec.output_schema

    def first_user_message(self, arguments_json: str) -> str:
        """Return the text of the first user message of a sub-agent's frame.

        The text is the argument `input`, or all arguments as JSON if the agent has an
        `input_type`.
        """
        if self.has_text_input:
            return str(jsontext.parse(arguments_json)["input"])
        return arguments_json

    def parse_output(self, text: str) -> Any:
        """Return the output of a last reply; raises `OutputInvalid`."""
        return text if self.has_text_output else self._output_spec.parse(text)
