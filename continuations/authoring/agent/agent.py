"""Agents: a name, instructions, a model, and the tools that the model may call."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeGuard, overload

from continuations.authoring import callables
from continuations.authoring.agent import agent_options
from continuations.authoring.agent.agent_options import is_tool_source
from continuations.authoring.approval import ApprovalPolicy, Condition
from continuations.authoring.errors import InstructionsInvalid
from continuations.authoring.keyword_options import check_option_names, option_error
from continuations.authoring.suspend_conditions import checked_conditions
from continuations.authoring.tool.base_tool import BaseTool
from continuations.authoring.tool.tool import Tool
from continuations.authoring.tool.tool_options import check_type
from continuations.authoring.tool.tool_protocol import is_complete_tool, is_tool
from continuations.core import jsontext
from continuations.core.declared_types import Output
from continuations.errors import InvalidInput
from continuations.value_class import replace

if TYPE_CHECKING:
    from typing import Unpack

    from continuations.authoring.agent.agent_options import (
        AgentOptions,
        HandoffFilter,
        ToolLike,
        ToolSource,
    )
    from continuations.authoring.arguments.arguments import ArgumentsValidator
    from continuations.authoring.arguments.typed_values import OutputSpec, StateSpec
    from continuations.authoring.compaction import Compaction
    from continuations.authoring.context import ToolContext
    from continuations.authoring.guardrails import Guardrails
    from continuations.authoring.hooks import Hooks
    from continuations.authoring.readings import Reading, Summary
    from continuations.authoring.suspend_conditions import SuspendConditions
    from continuations.authoring.tool.tool_options import (
        EnabledCondition,
        ToolErrorFunction,
    )
    from continuations.authoring.tool.tool_protocol import AgentProtocol, ToolProtocol
    from continuations.core.model_protocol import Model, OutputSchema


# They are read when an agent is made.
_READ_ONCE = ("approval", "tools", "handoffs", "state", "suspend_when", "tool_choice")


class Agent(Generic[Output]):
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
        tools: A list of functions, tools, and agents; an agent is a sub-agent. A
            `ToolSource` in the list, such as `McpTools`, has tools that each worker
            lists when it begins.
            Instead of a list, you may pass a function without parameters that
            returns the list. With it, two agents can call each other; for mypy, such
            an agent needs an annotation (`boss: Agent = …`). The function is called
            once, on first use. Default: no tools.
        handoffs: The agents that the model can hand the conversation to, or a function
            that returns the list. For each of them it has a tool `transfer_to_NAME`.
            After a call of it, the other agent goes on with the same conversation, also
            with later messages of a thread. `continuations.tools.handoff` gives a
            handoff an approval or arguments. Default: none.
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
    handoffs: Any = ()
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
    # Whether code decides the next step, and no model.
    is_workflow: bool = False

    __signature__ = agent_options.OptionsSignature()

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
            from continuations.authoring.agent import agent_classes  # noqa: PLC0415 - not every application has one

            name = name or agent_classes.declared_name(self)
            options = {**agent_classes.declared_options(self, Agent), **options}
        agent_options.check_name(name)
        check_option_names(f"agent {name}", options, agent_options.OPTIONS)
        vars(self).update(options, name=name)
        agent_options.check_options(name, agent_options.options_of(self))
        self.renders_state = agent_options.is_of_state(self.instructions)
        agent_options.check_guards(name, self.hooks, self.guardrails, self.compaction)
        self.settings = agent_options.copy_settings(
            name, self.settings, self.tool_choice
        )
        self.approval = _checked_policy(name, self.approval)
        self._policy: ApprovalPolicy | None = self.approval
        self.suspend_conditions = checked_conditions(name, self.suspend_when)
        self.state_spec = agent_options.state_spec_of(name, self.state)
        if not any(map(_is_tools_function, (self.tools, self.handoffs))):
            _ = self._tools_by_name  # a function may use names that do not exist yet

    def __init_subclass__(cls, **options: Any) -> None:
        """Check the body of an application's class."""
        super().__init_subclass__(**options)
        if not cls.__module__.startswith("continuations."):
            from continuations.authoring.agent import agent_classes  # noqa: PLC0415 - not every application has one

            agent_classes.BodyChecks(cls, Agent, agent_options.OPTIONS).check()

    def __setattr__(self, name: str, value: object) -> None:
        # They were read when the agent was made: another value would have no effect.
        if name in _READ_ONCE and "_policy" in vars(self):
            raise InvalidInput(
                f"{self!r}: {name} cannot be changed after the agent was made. Pass it "
                f"when you make the agent: Agent({name}=...)."
            )
        object.__setattr__(self, name, value)

    def __copy__(self) -> NoReturn:
        msg = f"{self!r} cannot be copied: its tools belong to it. Make another agent."
        raise InvalidInput(msg)

    def __repr__(self) -> str:
        return f"<Agent {self.name}>"

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
        return self._make_tool(
            name=name,
            description=description,
            approval=approval,
            is_enabled=is_enabled,
            summary=summary,
        )

    def _make_tool(self, **options: Any) -> AgentTool:
        return AgentTool(self, **options)

    @property
    def tools_by_name(self) -> Mapping[str, ToolProtocol]:
        """The tools by name, in their order, without those of tool sources.

        Raises:
            InvalidInput: `tools` is not a list, an item cannot be a tool, or two
                tools have the same name.
        """
        return self._tools_by_name

    @cached_property
    def _tools_by_name(self) -> Mapping[str, ToolProtocol]:
        tools = self._by_name(i for i in self._tool_items if not is_tool_source(i))
        if not self.tool_sources:
            agent_options.check_chosen_tool(self.name, self.tool_choice, tools)
        return MappingProxyType(tools)

    def _by_name(self, made: Iterable[ToolProtocol]) -> dict[str, ToolProtocol]:
        tools: dict[str, ToolProtocol] = {}
        for tool in made:
            if tool.name in tools:
                raise InvalidInput(
                    f"agent {self.name} has two tools named {tool.name}: give one of"
                    " them another name."
                )
            _check_state_of_tool(self.name, self.state, tool)
            tools[tool.name] = tool
        return tools

    @cached_property
    def _tool_items(self) -> tuple[ToolProtocol | ToolSource, ...]:
        listed = _resolve_list(self.name, "tools", self.tools)
        items = (*self._method_tools(listed), *listed)
        made = [i if is_tool_source(i) else self._to_tool(i) for i in items]
        if self.is_workflow and any(map(is_tool_source, made)):
            raise InvalidInput(
                f"workflow {self.name}: tools has a tool source, and flow.call needs "
                "each tool itself. Give the source to an agent, and call the agent."
            )
        return (*made, *self._handoffs())

    @property
    def tool_sources(self) -> tuple[ToolSource, ...]:
        """The tool sources; a worker lists their tools."""
        return tuple(each for each in self._tool_items if is_tool_source(each))

    @property
    def declared_agent(self) -> Agent[Any]:
        """The agent of the application; another one if this is a worker's copy."""
        declared: Agent[Any] = vars(self).get("_declared_agent", self)
        return declared

    def fill_copy(
        self,
        listed: Mapping[int, Sequence[ToolLike]],
        copies: Mapping[int, Agent[Any]],
    ) -> None:
        """Fill the copy of this agent for a worker: sources become their tools.

        Args:
            listed: The tools of each source, by the `id` of the source.
            copies: The empty copy of this agent, and those of agents below it, by the
                `id` of the agent. Circles of agents thus stay circles.

        Raises:
            InvalidInput: A listed item cannot be a tool, or two tools have one name.
        """
        tools: list[ToolProtocol] = []
        for item in self._tool_items:
            if is_tool_source(item):
                tools += map(_strict, map(self._to_tool, listed[id(item)]))
            elif isinstance(item, AgentTool):
                tools.append(item.with_agent(copies[id(item.sub_agent)]))
            else:
                tools.append(item)
        by_name = self._by_name(tools)
        agent_options.check_chosen_tool(self.name, self.tool_choice, by_name)
        made = vars(copies[id(self)])
        made.update(vars(self), _declared_agent=self, _tool_items=tuple(tools))
        made["_tools_by_name"] = MappingProxyType(by_name)

    def _handoffs(self) -> Sequence[ToolProtocol]:
        if self.handoffs == ():
            return ()
        listed = _resolve_list(self.name, "handoffs", self.handoffs)
        return [*_checked_handoffs(self, listed)]

    def _method_tools(self, listed: Sequence[ToolLike]) -> Sequence[ToolLike]:
        if type(self) is Agent:
            return ()
        from continuations.authoring.agent import agent_classes  # noqa: PLC0415 - likewise

        return agent_classes.method_tools(self, Agent, listed)

    def _to_tool(self, tool_like: Any) -> ToolProtocol:
        try:
            if isinstance(tool_like, Handoff):
                msg = f"tools has {tool_like!r}. Pass it in handoffs=[...] of an agent."
                raise InvalidInput(msg)  # noqa: TRY301 - the name of the agent is added
            if is_complete_tool(tool_like):
                return self._with_defaults(tool_like)
            if isinstance(tool_like, Agent):
                return self._with_defaults(tool_like.as_tool())
            if callable(tool_like):
                made: Tool[..., Any] = Tool(tool_like)
                return self._with_defaults(made)
        except InvalidInput as error:
            raise InvalidInput(f"agent {self.name}: {error}") from error
        wanted = "a list of functions, tools, agents, and methods of an object"
        raise option_error(self.name, "tools", wanted, tool_like)

    def _with_defaults(self, tool: ToolProtocol) -> ToolProtocol:
        tool = _with_policy(tool, self._policy)
        return _with_tool_errors(tool, self.tool_errors)

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
        types = ((agent.name, agent.context_type) for agent in every_agent(self))
        return tuple(pair for pair in types if pair[1] is not None)

    # Model, input and output --------------------------------------------------

    @property
    def instructions_digest(self) -> str:
        """The digest of the instructions; of the name if they are a function."""
        instructions = self.instructions
        if isinstance(instructions, str):
            return jsontext.digest(instructions)
        name = getattr(instructions, "__qualname__", type(instructions).__qualname__)
        return jsontext.digest("function", name)

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
        return await _called_text(self.instructions, agent_input, context)

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
        return await _called_text(self.instructions, state)

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
        from continuations.authoring.arguments import typed_values  # noqa: PLC0415 - on first use

        return typed_values.make_output_spec(self.output_type, agent_name=self.name)

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


def _strict(tool: ToolProtocol) -> ToolProtocol:
    """Return a listed tool whose approvals cover the description.

    Another party wrote it. With other words, the same call may mean something else.
    """
    policy = tool.approval
    if policy is None or policy.strict or not isinstance(tool, BaseTool):
        return tool
    return tool.with_policy(replace(policy, strict=True))


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
        self._check_summary(self._summary_names, _no_type)
        check_type(self.name, "description", description, str, None)
        text = agent.description if description is None else description
        self._description = text or f"Hand a task to the agent {agent.name}."

    def __repr__(self) -> str:
        return f"<AgentTool {self.name} of {self._agent.name}>"

    @property
    def _summary_names(self) -> Sequence[str] | None:
        """The arguments that a summary may name; `None` if they are not known yet."""
        return None if self._input_type else ("input",)

    @property
    def _input_type(self) -> Any:
        """The type of the arguments."""
        return self._agent.input_type

    @property
    def _readings(self) -> Mapping[str, Reading]:
        if self._input_type is None:
            return {}
        from continuations.authoring import readings  # noqa: PLC0415 - rarely needed

        fields = readings.fields_of(self._input_type)
        return readings.readings_of(fields or {})

    @property
    def sub_agent(self) -> AgentProtocol:
        """The agent that a call starts."""
        return self._agent

    def with_agent(self, agent: AgentProtocol) -> Self:
        """Return a copy that starts a worker's copy of the agent.

        Args:
            agent: The copy of the agent.

        Returns:
            The copy of the tool.
        """
        made = copy.copy(self)
        vars(made)["_agent"] = agent
        return made

    @property
    def description(self) -> str:
        """The description that the model reads."""
        return self._description

    @property
    def _parameters(self) -> ArgumentsValidator:
        return self._input_validator

    @cached_property
    def _input_validator(self) -> ArgumentsValidator:
        from continuations.authoring.arguments import typed_values  # noqa: PLC0415 - on first use

        return typed_values.make_input_validator(
            self._input_type, agent_name=self._agent.name
        )

    async def invoke(self, arguments_json: str, ctx: ToolContext) -> NoReturn:
        """Raise `TypeError`: the engine starts a frame for `sub_agent` instead."""
        del arguments_json, ctx
        msg = f"tool {self.name} is an agent: start a frame for its sub_agent"
        raise TypeError(msg)


class Handoff(AgentTool):
    """A tool whose call gives the conversation to an agent; `handoff` makes it.

    Args:
        agent: The agent that goes on with the conversation.
        name: The name of the tool.
        description: The description that the model reads.
        input_type: The type of the arguments.
        filter: The function that chooses what the agent reads.
        **options: The other options of `handoff`.
    """

    def __init__(
        self,
        agent: AgentProtocol,
        *,
        name: str | None = None,
        description: str | None = None,
        input_type: Any = None,
        filter: HandoffFilter | None = None,  # noqa: A002 - as in filter(function, items)
        **options: Any,
    ) -> None:
        self._reason_type = input_type
        if filter is not None and not callable(filter):
            raise InvalidInput(
                f"the filter of a handoff must be a function, got "
                f"{type(filter).__name__}. It takes a list of messages and returns "
                "those that stay."
            )
        self._filter = filter
        about = f" {agent.description}" if agent.description else ""
        super().__init__(
            agent,
            name=f"transfer_to_{agent.name}" if name is None else name,
            description=f"Hand the conversation to the agent {agent.name}.{about}"
            if description is None
            else description,
            **options,
        )

    def __repr__(self) -> str:
        return f"<Handoff {self.name} to {self.sub_agent.name}>"

    @property
    def _summary_names(self) -> Sequence[str] | None:
        return None if self._input_type else ()

    @property
    def _input_type(self) -> Any:
        return self._reason_type

    @property
    def is_handoff(self) -> bool:
        """Whether a call gives the conversation to `sub_agent`."""
        return True

    @property
    def contract_digest(self) -> str:
        """The digest of a tool, and of the name of the agent.

        A person who approves a handoff approves this agent.
        """
        return jsontext.digest(super().contract_digest, self.sub_agent.name)

    @property
    def filter(self) -> HandoffFilter | None:
        """The function that chooses what the next agent reads, or `None`."""
        return self._filter

    @cached_property
    def _input_validator(self) -> ArgumentsValidator:
        if self._input_type is not None:
            return super()._input_validator
        from continuations.authoring.arguments.arguments import make_arguments_validator  # noqa: PLC0415 - on first use

        return make_arguments_validator({})


def handoff(
    agent: Agent[Any],
    *,
    name: str | None = None,
    description: str | None = None,
    input_type: Any = None,
    filter: HandoffFilter | None = None,  # noqa: A002 - as in filter(function, items)
    approval: bool | Condition | ApprovalPolicy | None = None,
    is_enabled: bool | EnabledCondition = True,
    summary: Summary | None = None,
) -> Handoff:
    """Return a handoff with options, for `Agent(handoffs=[...])`.

    Args:
        agent: The agent that goes on with the conversation.
        name: The name of the tool. Default: `transfer_to_NAME`.
        description: The description that the model reads. Default: a sentence with the
            name and the description of the agent.
        input_type: The type of the arguments, such as a reason: the fields of an object
            type, or a value as `input`. The next agent reads them in the call. Default:
            no arguments.
        filter: Chooses what the agent reads of the conversation before the turn that
            hands over: a plain or async function of a list of messages in the chat
            completions format, which returns those that stay. System messages are not
            in the list. The last request of the person always stays, and a call stays
            only with its results. Default: all messages.
        approval: Which handoffs wait for a person; see `tool`. The policy of the agent
            that hands over does not count. Default: none.
        is_enabled: When the model may hand over; see `tool`.
        summary: The call as one sentence, for the people who decide; see `tool`.

    Returns:
        The handoff.

    Raises:
        InvalidInput: The agent is no agent, or an option is invalid.
    """
    given: object = agent
    if not is_agent(given):
        raise InvalidInput(f"handoff(...) takes an agent, {got_no_agent(given)}")
    return Handoff(
        agent,
        name=name,
        description=description,
        input_type=input_type,
        filter=filter,
        approval=approval,
        is_enabled=is_enabled,
        summary=summary,
    )


def _checked_handoffs(agent: Agent[Any], handoffs: Sequence[Any]) -> Iterator[Handoff]:
    """Yield the handoffs of an agent; raises `InvalidInput`."""
    for each in handoffs:
        if not (isinstance(each, Handoff) or is_agent(each)):
            raise InvalidInput(
                f"agent {agent.name}: handoffs has an item that is not an agent, "
                f"{got_no_agent(each)} Pass agents, or handoff(agent, ...)."
            )
        try:
            made = each if isinstance(each, Handoff) else Handoff(each)
        except InvalidInput as error:
            msg = f"agent {agent.name}: {error} Write handoff(agent, name=...)."
            raise InvalidInput(msg) from None
        target = made.sub_agent
        check_made(target)
        if target.is_workflow:
            raise InvalidInput(
                f"agent {agent.name}: {target.name} is a workflow, which reads no "
                "messages. Pass it in tools=[...]."
            )
        if target.output_type != agent.output_type:
            raise InvalidInput(
                f"agent {agent.name}: its handoff {target.name} has another "
                "output_type, so the output of a run would have one of two types. Give "
                "both the same output_type."
            )
        yield made


def _no_type(name: str) -> Any:
    """Raise `LookupError`: the input type is read on first use."""
    raise LookupError(name)


def _checked_policy(agent_name: str, option: object) -> ApprovalPolicy | None:
    """Return the policy of an agent's `approval` option; raises `InvalidInput`."""
    try:
        return ApprovalPolicy.from_option(option)
    except InvalidInput as error:
        raise InvalidInput(f"agent {agent_name}: {error}") from None


def _with_policy(tool: ToolProtocol, policy: ApprovalPolicy | None) -> ToolProtocol:
    """Return a tool that asks by the policy of its agent, unless it has its own.

    Raises `InvalidInput` if the policy does not fit the arguments of the tool, and for
    a tool of another class, which might not ask.
    """
    if policy is None or tool.approval is not None:
        return tool
    if isinstance(tool, BaseTool):
        return tool if tool.never_asks else tool.with_policy(policy)
    raise _foreign_tool_error(tool, "approval policy", "a policy")


def _with_tool_errors(
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
    raise _foreign_tool_error(tool, "tool_errors", "an on_error")


def _foreign_tool_error(tool: ToolProtocol, option: str, own: str) -> InvalidInput:
    msg = (
        f"tool {tool.name} ({type(tool).__name__}) cannot take the {option} of its "
        f"agent. Give the tool {own} of its own."
    )
    return InvalidInput(msg)


async def _called_text(function: Any, *arguments: Any) -> str:
    """Return the text that a function of instructions makes.

    Raises `InstructionsInvalid` for another value.
    """
    text: object = await callables.call(function, *arguments)
    if isinstance(text, str):
        return text
    raise InstructionsInvalid(f"returned {type(text).__name__}, not a string")


def _is_tools_function(tools: object) -> bool:
    """Return whether `tools` is a function that returns the list of tools.

    One tool instead of a list is a mistake; a tool may be callable.
    """
    return callable(tools) and not is_tool(tools)


def _resolve_list(agent_name: str, option: str, items: Any) -> Sequence[Any]:
    """Return the list of the option `tools` or `handoffs`; raises `InvalidInput`."""
    if _is_tools_function(items):
        try:
            items = items()
        except InvalidInput:
            raise
        except Exception as error:
            why = type(error).__name__
            msg = f"agent {agent_name}: the function `{option}` raised {why}."
            raise InvalidInput(msg) from error
    if not _is_list(items):
        wanted = "a list, or a function that returns a list"
        raise option_error(agent_name, option, wanted, items)
    for each in items:
        _check_no_class(agent_name, option, each)
    listed: Sequence[Any] = items
    return listed


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _check_no_class(agent_name: str, option: str, item: Any) -> None:
    """Raise `InvalidInput` for a class, or its method, in place of an object's."""
    is_class = _is_agent_class(item)
    if is_class or isinstance(item, callables.OfClass):
        msg = f"agent {agent_name}: {option} must be of objects, {got_no_agent(item)}"
        own = "" if is_class else " The methods of an agent's own class need no list."
        raise InvalidInput(msg + own)


def _check_state_of_tool(agent_name: str, type_: object, tool: ToolProtocol) -> None:
    """Raise `InvalidInput` if a tool writes a state that its agent does not have."""
    if tool.writes_state and type_ is None:
        raise InvalidInput(
            f"agent {agent_name}: tool {tool.name} writes the state, and the agent has "
            "none. Declare Agent(..., state=...)."
        )


def every_agent(*roots: AgentProtocol) -> Iterator[AgentProtocol]:
    """Yield the root agents and each agent below them, once."""
    agents, seen = [*roots], set[int]()
    for agent in agents:  # grows while it is read
        if id(agent) not in seen:
            seen.add(id(agent))
            yield agent
            below = (tool.sub_agent for tool in agent.tools_by_name.values())
            agents += [each for each in below if each is not None]


def is_agent(value: object) -> TypeGuard[Agent[Any]]:
    """Return whether a value is an agent, with any output."""
    return isinstance(value, Agent)


def check_made(agent: object) -> None:
    """Raise `InvalidInput` for an agent whose class forgot `super().__init__()`."""
    if is_agent(agent) and "_policy" not in vars(agent):
        raise InvalidInput(
            f"class {type(agent).__name__}: the agent was not made, because __init__ "
            "did not call super().__init__(). Call it at the end of __init__; in a "
            "dataclass, at the end of __post_init__."
        )


def got_no_agent(value: Any) -> str:
    """Return the end of an error for a value that is no agent."""
    if _is_agent_class(value):
        return f"got the class {value.__name__}. Pass an object: {value.__name__}()."
    if isinstance(value, callables.OfClass):
        return value.advice
    return f"got {repr(value)[:60]} ({type(value).__name__})."


def _is_agent_class(value: object) -> bool:
    """Return whether a value is a class of agents, in place of an object."""
    return isinstance(value, type) and issubclass(value, Agent)
