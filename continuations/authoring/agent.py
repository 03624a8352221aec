"""Agents: a name, instructions, a model, and the tools that the model may call."""

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

# Larger than any conversation needs. The stored format can hold each smaller number.
_MAX_TURNS = 1_000_000_000


class Agent:
    """A model with instructions and tools. A run begins with one agent.

    Do not change an agent after it was made; several runs may share it. The arguments
    are attributes of the same names, except `tools`: see `tools_by_name`.

    Args:
        name: The name. If the agent is a tool of another agent, the name must have
            1 to 64 characters of `[a-zA-Z0-9_-]`.
        instructions: The system message at the start of each conversation.
            Default: no system message.
        tools: A list of functions, tools, and agents; an agent is a sub-agent.
            Instead of a list, you may pass a function without parameters that
            returns the list. With it, two agents can call each other. It is called
            once, on first use. Default: no tools.
        model: A name (`OpenAIChat` sends the requests) or a `Model`. `None`: a
            run raises `ModelError` at the first turn.
        description: A description for the model of a calling agent.
            Default: `Hand a task to the agent NAME.`
        input_type: The type of the arguments when another agent calls this one.
            Default: one string, `input`.
        output_type: The type of the final reply; any type that pydantic supports.
            The JSON Schema of the type is sent to the provider, and the reply is
            validated against the type. Default: text.
        max_turns: The limit of model turns in one frame of this agent, 1 to
            1,000,000,000. `None`: no limit. Default: 100.
        settings: Options that are sent to the provider unchanged, for example
            `{"temperature": 0}`. The mapping is copied; nested values are not.

    Raises:
        InvalidInput: An option is invalid. A wrong tool raises the error on first
            use, since `tools` may be a function.
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
        self.name = name
        self.instructions = instructions
        self.model = model
        self.description = description
        self.input_type = input_type
        self.output_type = output_type
        self.max_turns = max_turns
        self._check_options()
        self.settings = self._copy_settings(settings)
        self._tools = tools

    def __repr__(self) -> str:
        return f"<Agent {self.name}>"

    def _check_options(self) -> None:
        """Raise now what would otherwise fail later, in the middle of a run."""
        name: Any = self.name
        if not isinstance(name, str) or not name:
            msg = f"an agent's name must be a string that is not empty, got {name!r}."
            raise InvalidInput(msg)
        texts: dict[str, Any] = {
            "instructions": self.instructions,
            "description": self.description or "",
        }
        for option, text in texts.items():
            if not isinstance(text, str):
                raise self._option_error(option, "a string", text)
        if not _is_model(self.model):
            wanted = "a name, or an object with `name` and `reply`"
            raise self._option_error("model", wanted, self.model)
        for option in ("input_type", "output_type"):
            type_ = getattr(self, option)
            if isinstance(type_, str):
                wanted = "the type itself, not its name as a string"
                raise self._option_error(option, wanted, type_)
        turns: Any = self.max_turns
        if turns is not None and not (type(turns) is int and 1 <= turns <= _MAX_TURNS):
            wanted = f"an integer from 1 to {_MAX_TURNS}, or None for no limit"
            raise self._option_error("max_turns", wanted, turns)

    def _option_error(self, option: str, wanted: str, value: object) -> InvalidInput:
        got = f"{repr(value)[:80]} ({type(value).__name__})"
        msg = f"agent {self.name}: {option} must be {wanted}, got {got}."
        return InvalidInput(msg)

    def _copy_settings(self, settings: Mapping[Any, Any] | None) -> Mapping[str, Any]:
        if settings is None:
            return {}
        with suppress(TypeError, ValueError):
            copy = dict(settings)
            if all(isinstance(name, str) for name in copy):
                return copy
        # The value is not shown: settings may hold a secret.
        msg = f"agent {self.name}: settings must be a mapping with string keys."
        raise InvalidInput(msg)

    # Tools --------------------------------------------------------------------

    def as_tool(
        self,
        name: str | None = None,
        description: str | None = None,
        approval: bool | Condition | ApprovalPolicy | None = None,
    ) -> AgentTool:
        """Make a tool that calls this agent, with its own name and description.

        Args:
            name: The name of the tool. Default: the agent's name.
            description: The description of the tool. Default: the agent's.
            approval: Which calls wait for a person before the agent starts; see
                `tool`. Default: no call.

        Returns:
            A tool for the `tools` of another agent.

        Raises:
            InvalidInput: An option is invalid, or the name is not valid for a tool.
        """
        return AgentTool(self, name=name, description=description, approval=approval)

    @property
    def tools_by_name(self) -> Mapping[str, ToolProtocol]:
        """The tools by name, in their order.

        Raises:
            InvalidInput: `tools` is not a list, an item cannot be a tool, or two
                tools have the same name.
        """
        return self._tools_by_name

    @cached_property
    def _tools_by_name(self) -> Mapping[str, ToolProtocol]:
        tools: dict[str, ToolProtocol] = {}
        for tool_like in self._resolve_tools():
            tool = self._to_tool(tool_like)
            if tool.name in tools:
                msg = (
                    f"agent {self.name} has two tools named {tool.name}: give one of"
                    " them another name."
                )
                raise InvalidInput(msg)
            tools[tool.name] = tool
        return MappingProxyType(tools)

    def _resolve_tools(self) -> Sequence[ToolLike]:
        tools = self._tools
        # One tool instead of a list is a mistake; a tool may be callable.
        if callable(tools) and not is_tool(tools):
            try:
                tools = tools()
            except InvalidInput:
                raise
            except Exception as error:
                why = type(error).__name__
                msg = f"agent {self.name}: the function `tools` raised {why}."
                raise InvalidInput(msg) from error
        if isinstance(tools, Sequence) and not isinstance(tools, str):
            return tools
        wanted = "a list, or a function that returns a list"
        raise self._option_error("tools", wanted, tools)

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
        wanted = "a list of functions, tools and agents"
        raise self._option_error("tools", wanted, tool_like)

    def get_tool(self, name: str) -> ToolProtocol | None:
        """Return a tool by name.

        Args:
            name: The name of the tool.

        Returns:
            The tool; `None` if the agent has no tool of this name.
        """
        return self.tools_by_name.get(name)

    @property
    def tool_specs(self) -> list[tuple[str, str, Mapping[str, Any]]]:
        """Name, description and JSON Schema of each tool, in their order."""
        return [
            (tool.name, tool.description, tool.parameters)
            for tool in self.tools_by_name.values()
        ]

    # Model, input and output --------------------------------------------------

    @property
    def instructions_digest(self) -> str:
        """The digest of the instructions."""
        return jsontext.digest(self.instructions)

    @property
    def model_name(self) -> str | None:
        """The name of the model; `None` if the agent has no model."""
        if self.model is None or isinstance(self.model, str):
            return self.model
        return self.model.name

    @property
    def has_text_input(self) -> bool:
        """Whether another agent calls this one with one string, `input`."""
        return self.input_type is None or self.input_type is str

    @property
    def has_text_output(self) -> bool:
        """Whether the output is the text of the final reply."""
        return self.output_type is None or self.output_type is str

    @cached_property
    def _output_spec(self) -> OutputSpec:
        from continuations.authoring import output_spec  # noqa: PLC0415 - on first use

        return output_spec.make_output_spec(self.output_type, agent_name=self.name)

    @property
    def output_schema(self) -> OutputSchema | None:
        """The JSON Schema of the final reply; `None` if the output is text."""
        return None if self.has_text_output else self._output_spec.output_schema

    def first_user_message(self, arguments_json: str) -> str:
        """Return the text of the first user message when another agent calls this one.

        Args:
            arguments_json: The effective arguments of the call.

        Returns:
            The argument `input`; all arguments as JSON if the agent has an
            `input_type`.
        """
        if self.has_text_input:
            return str(jsontext.parse(arguments_json)["input"])
        return arguments_json

    def parse_output(self, text: str) -> Any:
        """Return the output that a final reply contains.

        Args:
            text: The content of the final reply.

        Returns:
            A value of `output_type`; the text itself if no type is declared.

        Raises:
            OutputInvalid: The text does not fit the type; the error is for the model.
        """
        return text if self.has_text_output else self._output_spec.parse(text)


def _is_model(model: Any) -> bool:
    if model is None or isinstance(model, str):
        return model != ""
    # If the class was passed instead of an object, `name` is a property and no string.
    has_name = isinstance(getattr(model, "name", None), str)
    return has_name and callable(getattr(model, "reply", None))
