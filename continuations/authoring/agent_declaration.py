"""The options of an agent by name, its list of tools, and the agents below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict

from continuations.authoring import callables
from continuations.authoring.agent_options import option_error
from continuations.authoring.errors import InstructionsInvalid
from continuations.authoring.keyword_options import (
    check_option_names,
    signature_with_options,
)
from continuations.authoring.tool_protocol import is_tool
from continuations.core import jsontext
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from inspect import Signature
    from typing import TypeAlias

    from continuations.authoring.approval import ApprovalPolicy, Condition
    from continuations.authoring.compaction import Compaction
    from continuations.authoring.guardrails import Guardrails
    from continuations.authoring.hooks import Hooks
    from continuations.authoring.input_spec import StateSpec
    from continuations.authoring.suspend_conditions import SuspendConditions
    from continuations.authoring.tool_options import ToolErrorFunction
    from continuations.authoring.tool_protocol import AgentProtocol, ToolProtocol
    from continuations.core.model_protocol import Model

    ToolLike: TypeAlias = ToolProtocol | AgentProtocol | Callable[..., Any]
    ToolsOption: TypeAlias = Sequence[ToolLike] | Callable[[], Sequence[ToolLike]]
    # The input is the text of the task, or the chat messages that `start` was given.
    InstructionsFunction: TypeAlias = (
        Callable[[Any, Any], str | Awaitable[str]]
        | Callable[[Any], str | Awaitable[str]]
    )


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
    state: type[Any] | None
    compaction: Compaction | None


OPTIONS = (*AgentOptions.__annotations__, "output_type")


class OptionsSignature:
    """The signature of `Agent` for `inspect.signature` and `help`, with each option.

    A subclass with a constructor of its own has the signature of its constructor.
    """

    def __get__(self, _agent: object, owner: type) -> Signature | None:
        """Return the signature of the class; `None` if its constructor tells it."""
        from inspect import Parameter  # noqa: PLC0415 - for tools that show code

        constructed_by = next(
            each for each in owner.__mro__ if "__init__" in vars(each)
        )
        if "__signature__" not in vars(constructed_by):
            return None
        name = Parameter(
            "name", Parameter.POSITIONAL_OR_KEYWORD, default="", annotation="str"
        )
        defaults = {option: getattr(owner, option) for option in OPTIONS}
        return signature_with_options([name], defaults, AgentOptions.__annotations__)


_READ_ONCE = ("approval", "tools", "state", "suspend_when", "tool_choice")


def check_known(name: str, options: Mapping[str, Any]) -> None:
    """Raise `InvalidInput` for an option that agents do not have."""
    check_option_names(f"agent {name}", options, OPTIONS)


def check_guards(name: str, hooks: object, guardrails: object) -> None:
    """Raise `InvalidInput` for wrong hooks and guardrails."""
    if hooks is not None or guardrails is not None:
        from continuations.authoring import guarded_options  # noqa: PLC0415 - few agents have any

        guarded_options.check_guarded_options(name, hooks, guardrails)


def check_history(name: str, compaction: object) -> None:
    """Raise `InvalidInput` for a wrong compaction."""
    if compaction is not None:
        from continuations.authoring.compaction import check_compaction  # noqa: PLC0415 - few agents have one

        check_compaction(name, compaction)


def options_of(agent: object) -> dict[str, Any]:
    """Return the options of an agent by name."""
    return {option: getattr(agent, option) for option in OPTIONS}


def instructions_digest(instructions: Any) -> str:
    """Return the digest of the instructions; of the name if they are a function."""
    if isinstance(instructions, str):
        return jsontext.digest(instructions)
    name = getattr(instructions, "__qualname__", type(instructions).__qualname__)
    return jsontext.digest("function", name)


async def called_text(function: Any, *arguments: Any) -> str:
    """Return the text that a function of instructions makes.

    Raises `InstructionsInvalid` for another value.
    """
    text: object = await callables.call(function, *arguments)
    if isinstance(text, str):
        return text
    msg = f"returned {type(text).__name__}, not a string"
    raise InstructionsInvalid(msg)


def is_tools_function(tools: object) -> bool:
    """Return whether `tools` is a function that returns the list of tools.

    One tool instead of a list is a mistake; a tool may be callable.
    """
    return callable(tools) and not is_tool(tools)


def resolve_tools(agent_name: str, tools: Any) -> Sequence[Any]:
    """Return the list of the option `tools`; raises `InvalidInput`."""
    if is_tools_function(tools):
        try:
            tools = tools()
        except InvalidInput:
            raise
        except Exception as error:
            why = type(error).__name__
            msg = f"agent {agent_name}: the function `tools` raised {why}."
            raise InvalidInput(msg) from error
    if not _is_list(tools):
        wanted = "a list, or a function that returns a list"
        raise option_error(agent_name, "tools", wanted, tools)
    for each in tools:
        _check_no_class(agent_name, each)
    listed: Sequence[Any] = tools
    return listed


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _check_no_class(agent_name: str, item: Any) -> None:
    """Raise `InvalidInput` for a class, or its method, in place of an object's."""
    is_class = is_agent_class(item)
    if is_class or isinstance(item, callables.OfClass):
        msg = f"agent {agent_name}: tools must be of objects, {got_no_agent(item)}"
        own = "" if is_class else " The methods of an agent's own class need no list."
        raise InvalidInput(msg + own)


def state_spec_of(agent_name: str, type_: type[Any] | None) -> StateSpec | None:
    """Return what the option `state` declares; raises `InvalidInput`."""
    if type_ is None:
        return None
    from continuations.authoring import input_spec  # noqa: PLC0415 - it imports pydantic

    return input_spec.make_state_spec(type_, agent_name=agent_name)


def check_state_of_tool(agent_name: str, type_: object, tool: ToolProtocol) -> None:
    """Raise `InvalidInput` if a tool writes a state that its agent does not have."""
    if tool.writes_state and type_ is None:
        msg = (
            f"agent {agent_name}: tool {tool.name} writes the state, and the agent has "
            "none. Declare Agent(..., state=...)."
        )
        raise InvalidInput(msg)


def context_types_of(root: AgentProtocol) -> tuple[tuple[str, Any], ...]:
    """Return the `context_type` of an agent and of each one below, with its name."""
    types = ((agent.name, agent.context_type) for agent in every_agent(root))
    return tuple(pair for pair in types if pair[1] is not None)


def every_agent(root: AgentProtocol) -> list[AgentProtocol]:
    """Return a root agent and each agent below it, once."""
    agents = [root]
    seen = {id(root)}
    for agent in agents:  # grows while it is read
        for tool in agent.tools_by_name.values():
            below = tool.sub_agent
            if below is not None and id(below) not in seen:
                seen.add(id(below))
                agents.append(below)
    return agents


class MadeOnce:
    """An agent whose tools were made for it, with its policy."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Check the body of an application's class."""
        super().__init_subclass__(**options)
        if not cls.__module__.startswith("continuations."):
            from continuations.authoring import agent_body  # noqa: PLC0415 - not every application has one

            base = next(each for each in cls.__mro__ if MadeOnce in each.__bases__)
            agent_body.BodyChecks(cls, base, OPTIONS).check()

    def __setattr__(self, name: str, value: object) -> None:
        # They were read when the agent was made: another value would have no effect.
        if name in _READ_ONCE and "_policy" in vars(self):
            msg = (
                f"{self!r}: {name} cannot be changed after the agent was made. Pass it "
                f"when you make the agent: Agent({name}=...)."
            )
            raise InvalidInput(msg)
        object.__setattr__(self, name, value)

    def __copy__(self) -> NoReturn:
        msg = f"{self!r} cannot be copied: its tools belong to it. Make another agent."
        raise InvalidInput(msg)


def check_made(agent: object) -> None:
    """Raise `InvalidInput` for an agent whose class forgot `super().__init__()`."""
    if isinstance(agent, MadeOnce) and "_policy" not in vars(agent):
        msg = (
            f"class {type(agent).__name__}: the agent was not made, because __init__ "
            "did not call super().__init__(). Call it at the end of __init__; in a "
            "dataclass, at the end of __post_init__."
        )
        raise InvalidInput(msg)


def got_no_agent(value: Any) -> str:
    """Return the end of an error for a value that is no agent."""
    if is_agent_class(value):
        return f"got the class {value.__name__}. Pass an object: {value.__name__}()."
    if isinstance(value, callables.OfClass):
        return value.advice
    return f"got {repr(value)[:60]} ({type(value).__name__})."


def is_agent_class(value: object) -> bool:
    """Return whether a value is a class of agents, in place of an object."""
    return isinstance(value, type) and issubclass(value, MadeOnce)
