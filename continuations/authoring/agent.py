"""Agents: a name, instructions, a model, and the tools that the model may call."""

from __future__ import annotations

from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, overload

from continuations.authoring import (
    agent_declaration,
    agent_options,
    agent_policy,
)
from continuations.authoring.subagent import AgentTool
from continuations.authoring.suspend_conditions import checked_conditions
from continuations.authoring.tool import Tool
from continuations.authoring.tool_protocol import is_complete_tool
from continuations.core import jsontext
from continuations.core.output_type import Output
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from continuations.authoring.agent_declaration import (
        AgentOptions,
        ToolLike,
    )
    from continuations.authoring.approval import ApprovalPolicy, Condition
    from continuations.authoring.compaction import Compaction
    from continuations.authoring.guardrails import Guardrails
    from continuations.authoring.hooks import Hooks
    from continuations.authoring.input_spec import OutputSpec, StateSpec
    from continuations.authoring.readings import Summary
    from continuations.authoring.suspend_conditions import SuspendConditions
    from continuations.authoring.tool_options import EnabledCondition
    from continuations.authoring.tool_protocol import ToolProtocol
    from continuations.core.model_protocol import Model, OutputSchema


class Agent(agent_declaration.MadeOnce, Generic[Output]):
    """A model with instructions and tools. A run begins with one agent.

    Do not change an agent after it was made; several runs may share it. The options
    are attributes of the same names.

    An agent can also be a class. The body of a subclass declares options as names, and
    tools as methods with `@tool`. Its docstring is the instructions, unless the body
    has `instructions`. An option that is passed wins over the body. A function of the
    body is a method if it takes `self`.

    ```python
    class Support(Agent):
        \"\"\"You answer questions about orders.\"\"\"

        model = "gpt-5-mini"

        @tool(approval=True)
        def refund(self, order: str, cents: int) -> str: ...

    support = Support()  # the name is "support"
    ```

    Args:
        name: The name. If the agent is a tool of another agent, the name must have
            1 to 64 characters of `[a-zA-Z0-9_-]`. Default for a subclass: the name of
            the class in lower case, `support_desk` for `SupportDesk`.
        **options: The options below, each as a keyword argument.
        instructions: The system message at the start of each conversation. Or a plain
            or async function of (input, context) that returns it. The function is
            called once, when a conversation starts, and its text is stored; in a thread
            it is called with each message. A `start`
            that is repeated with the same run id calls it again, and drops the text.
            `input` is the text of the task, or the list of chat messages that `start`
            was called with; `context` is the application's object. Or a plain or async
            function whose only parameter is `state`, for an agent with `state`. It is
            called before each request with the present state. Its text is the system
            message of that request and is not stored, also in a thread with
            `instructions="frozen"`. It is not called if the conversation starts with a
            system message of its own. An error raises `HookFailed`, and nothing is
            sent. Default: no system message.
        tools: A list of functions, tools, and agents; an agent is a sub-agent.
            Instead of a list, you may pass a function without parameters that
            returns the list. With it, two agents can call each other; for mypy, such
            an agent needs an annotation (`boss: Agent = …`). The function is called
            once, on first use. Default: no tools.
        model: A name (`OpenAIChat` sends the requests) or a `Model`. `None`: a
            run raises `ModelError` at the first turn.
        description: A description for the model of a calling agent.
            Default: `Hand a task to the agent NAME.`
        input_type: The type of the arguments when another agent calls this one.
            Default: one string, `input`.
        output_type: The type of the final reply; any type that pydantic supports.
            The JSON Schema of the type is sent to the provider, and the reply is
            validated against the type. Default: text. For a class, `Finished.output`
            has this type for type checkers too.
        output_retries: How often the model is asked again after a final reply that is
            empty or does not fit `output_type`: 0 to 10. The model then reads the
            reason. A new user message starts the count again. Default: 1.
        context_type: The class that `context=` must be an instance of, for this agent
            and for each agent above it. A call with another object raises
            `InvalidInput` before any work. Default: any object.
        approval: The approval policy of every tool, and of every agent among the tools,
            that has no `approval` of its own: `True`, a condition, or an
            `ApprovalPolicy`. A tool with `approval=False` does not ask. The tools of a
            sub-agent have the policy of that agent. Default: no call waits.
        max_turns: The limit of model turns in one frame of this agent, 1 to
            1,000,000,000. `None`: no limit. Default: 100.
        max_denials: In how many turns one call may be denied before the agent ends with
            an error: 1 to 1,000,000,000. Calls are the same if the tool and the
            arguments are equal. A denial by a person or a rule counts, and a deadline
            that refuses the call. A new user message starts the count again. `None`: no
            limit. Default: 3.
        settings: Options that are sent to the provider unchanged, for example
            `{"temperature": 0}`. The mapping is copied; nested values are not.
        tool_choice: `"auto"`: the model chooses. `"required"`: it must call a tool.
            `"none"`: it must not. Or the name of a tool, which it must call.
            Default: what `settings` or the provider says.
        reset_tool_choice: Leave `tool_choice` out after the first turn of a
            conversation, so that no tool is forced in every turn. Default: `True`.
        tool_errors: A plain or async function of (error, `FailedCall`) that returns the
            text for the model after a tool without an `on_error` raised; see `tool`.
            Default: a standard text.
        suspend_when: Conditions that are asked before each turn of the model:
            `every(turns=...)`, `after(minutes=...)`, or functions of an
            `AgentProgress` that return True or a text. If one is met, the agent waits
            until `unpause`. Default: none.
        hooks: Functions that observe or change requests, replies and calls; see
            `Hooks`. Default: none.
        guardrails: Checks of input, output and calls; see `Guardrails`. Default: none.
        compaction: `Compaction(soft=..., hard=...)`: when the history of a frame is
            shortened, and how. Default: never.
        state: The type of the agent's state, a pydantic model or a dataclass whose
            fields have defaults. Each conversation of the agent has a state of its own,
            which tools read as `ctx.state` and change with `ctx.update`. It is stored.
            Default: no state.

    Raises:
        InvalidInput: An option is invalid, an item of `tools` cannot be a tool, or two
            tools have the same name. If `tools` is a function, its list is checked on
            first use.
    """

    # The default of each option. A subclass declares its own in the same way; `Any`
    # where it may declare a method.
    name: str = ""
    instructions: Any = ""
    tools: Any = ()
    model: str | Model | None = None
    description: str | None = None
    input_type: Any = None
    output_type: Any = None
    output_retries: int = 1
    context_type: Any = None
    approval: Any = None
    max_turns: int | None = 100
    max_denials: int | None = 3
    settings: Mapping[str, Any] = MappingProxyType({})
    reset_tool_choice: bool = True
    tool_choice: str | None = None
    tool_errors: Any = None
    suspend_when: SuspendConditions = ()
    hooks: Hooks | None = None
    guardrails: Guardrails | None = None
    compaction: Compaction | None = None
    state: type[Any] | None = None

    # The declared type of the state of each frame.
    state_spec: StateSpec | None = None
    # Whether the instructions are a function of the state.
    renders_state: bool = False

    __signature__ = agent_declaration.OptionsSignature()

    @overload
    def __init__(
        self,
        name: str = ...,
        *,
        output_type: type[Output],
        **options: Unpack[AgentOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Agent[Any],
        name: str = ...,
        *,
        output_type: object = ...,
        **options: Unpack[AgentOptions],
    ) -> None: ...
    def __init__(self, name: str = "", **options: Any) -> None:
        if type(self) is not Agent:
            from continuations.authoring import agent_classes  # noqa: PLC0415 - not every application has one

            name = name or agent_classes.declared_name(self)
            options = {**agent_classes.declared_options(self, Agent), **options}
        agent_options.check_name(name)
        agent_declaration.check_known(name, options)
        vars(self).update(options, name=name)
        agent_options.check_options(name, agent_declaration.options_of(self))
        self.renders_state = agent_options.is_of_state(self.instructions)
        agent_declaration.check_guards(name, self.hooks, self.guardrails)
        self.settings = agent_options.copy_settings(
            name, self.settings, self.tool_choice
        )
        self.approval = agent_policy.checked_policy(name, self.approval)
        self._policy: ApprovalPolicy | None = self.approval
        self.suspend_conditions = checked_conditions(name, self.suspend_when)
        agent_declaration.check_history(name, self.compaction)
        self.state_spec = agent_declaration.state_spec_of(name, self.state)
        if not agent_declaration.is_tools_function(self.tools):
            _ = self._tools_by_name  # a function may use names that do not exist yet

    def __repr__(self) -> str:
        return f"<Agent {self.name}>"

    def _option_error(self, option: str, wanted: str, value: object) -> InvalidInput:
        return agent_options.option_error(self.name, option, wanted, value)

    # Tools --------------------------------------------------------------------

    def as_tool(
        self,
        name: str | None = None,
        description: str | None = None,
        approval: bool | Condition | ApprovalPolicy | None = None,
        is_enabled: bool | EnabledCondition = True,
        summary: Summary | None = None,
    ) -> AgentTool:
        """Make a tool that calls this agent, with its own name and description.

        Args:
            name: The name of the tool. Default: the agent's name.
            description: The description of the tool. Default: the agent's.
            approval: Which calls wait for a person before the agent starts; see
                `tool`. Default: the policy of the calling agent.
            is_enabled: When the model may call the agent; see `tool`. Default: `True`.
            summary: The call as one sentence, for the people who decide; see `tool`.

        Returns:
            A tool for the `tools` of another agent.

        Raises:
            InvalidInput: An option is invalid, or the name is not valid for a tool.
        """
        return AgentTool(
            self,
            name=name,
            description=description,
            approval=approval,
            is_enabled=is_enabled,
            summary=summary,
        )

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
        listed = agent_declaration.resolve_tools(self.name, self.tools)
        for tool_like in (*self._method_tools(listed), *listed):
            tool = self._to_tool(tool_like)
            if tool.name in tools:
                msg = (
                    f"agent {self.name} has two tools named {tool.name}: give one of"
                    " them another name."
                )
                raise InvalidInput(msg)
            agent_declaration.check_state_of_tool(self.name, self.state, tool)
            tools[tool.name] = tool
        agent_options.check_chosen_tool(self.name, self.tool_choice, tools)
        return MappingProxyType(tools)

    def _method_tools(self, listed: Sequence[ToolLike]) -> Sequence[ToolLike]:
        if type(self) is Agent:
            return ()
        from continuations.authoring import agent_classes  # noqa: PLC0415 - likewise

        return agent_classes.method_tools(self, Agent, listed)

    def _to_tool(self, tool_like: Any) -> ToolProtocol:
        try:
            if is_complete_tool(tool_like):
                return self._with_defaults(tool_like)
            if isinstance(tool_like, Agent):
                return self._with_defaults(tool_like.as_tool())
            if callable(tool_like):
                made: Tool[..., Any] = Tool(tool_like)
                return self._with_defaults(made)
        except InvalidInput as error:
            msg = f"agent {self.name}: {error}"
            raise InvalidInput(msg) from error
        wanted = "a list of functions, tools, agents, and methods of an object"
        raise self._option_error("tools", wanted, tool_like)

    def _with_defaults(self, tool: ToolProtocol) -> ToolProtocol:
        tool = agent_policy.with_policy(tool, self._policy)
        return agent_policy.with_tool_errors(tool, self.tool_errors)

    def get_tool(self, name: str) -> ToolProtocol | None:
        """Return a tool by name.

        Args:
            name: The name of the tool.

        Returns:
            The tool; `None` if the agent has no tool of this name.
        """
        return self.tools_by_name.get(name)

    @property
    def context_types(self) -> tuple[tuple[str, Any], ...]:
        """The `context_type` of this agent and of each one below, with its name."""
        return self._context_types

    @cached_property
    def _context_types(self) -> tuple[tuple[str, Any], ...]:
        return agent_declaration.context_types_of(self)

    # Model, input and output --------------------------------------------------

    @property
    def instructions_digest(self) -> str:
        """The digest of the instructions; of the name if they are a function."""
        return agent_declaration.instructions_digest(self.instructions)

    async def make_instructions(self, agent_input: Any, context: Any) -> str:
        """Return the system message of a conversation that starts.

        Args:
            agent_input: The text of the task, or the chat messages of `start`.
            context: The application's object.

        Returns:
            The text; `""` for no system message. An exception of the application's
            function propagates.

        Raises:
            TypeError: The function returned no text.
        """
        if isinstance(self.instructions, str):
            return self.instructions
        if self.renders_state:
            # An agent without a frame, such as a guardrail, has the default state.
            default = None if self.state_spec is None else self.state_spec.value("")
            return await self.render_instructions(default)
        return await agent_declaration.called_text(
            self.instructions, agent_input, context
        )

    async def render_instructions(self, state: Any) -> str:
        """Return the system message of one request, if `renders_state`.

        Args:
            state: The present state, a value of the type `state`.

        Returns:
            The text; `""` for no system message. An exception of the application's
            function propagates.

        Raises:
            TypeError: The function returned no text.
        """
        return await agent_declaration.called_text(self.instructions, state)

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
        from continuations.authoring import input_spec  # noqa: PLC0415 - on first use

        return input_spec.make_output_spec(self.output_type, agent_name=self.name)

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
