"""The options of an agent: their types, and their checks when it is made.

A mistake that is found here would otherwise fail later, in the middle of a run.
"""

from __future__ import annotations

import inspect
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

from continuations.authoring import callables
from continuations.authoring.callables import takes_positional
from continuations.authoring.keyword_options import option_error, signature_with_options
from continuations.core.declared_types import is_context_class
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
    from inspect import Signature
    from typing import TypeAlias

    from typing_extensions import TypeIs

    from continuations.authoring.approval import ApprovalPolicy, Condition
    from continuations.authoring.arguments.typed_values import StateSpec
    from continuations.authoring.compaction import Compaction
    from continuations.authoring.guardrails import Guardrails
    from continuations.authoring.hooks import Hooks
    from continuations.authoring.suspend_conditions import SuspendConditions
    from continuations.authoring.tool.tool_options import ToolErrorFunction
    from continuations.authoring.tool.tool_protocol import AgentProtocol, ToolProtocol
    from continuations.core.model_protocol import Model

    ToolLike: TypeAlias = (
        "ToolProtocol | AgentProtocol | ToolSource | Callable[..., Any]"
    )
    ToolsOption: TypeAlias = Sequence[ToolLike] | Callable[[], Sequence[ToolLike]]
    # Agents, and handoffs of `continuations.tools.handoff`.
    Handoffs: TypeAlias = Sequence[AgentProtocol | ToolProtocol]
    Messages: TypeAlias = list[dict[str, Any]]
    HandoffFilter: TypeAlias = Callable[
        [Messages], Sequence[Mapping[str, Any]] | Awaitable[Sequence[Mapping[str, Any]]]
    ]
    HandoffsOption: TypeAlias = Handoffs | Callable[[], Handoffs]
    # The input is the text of the task, or the chat messages that `start` was given.
    InstructionsFunction: TypeAlias = (
        Callable[[Any, Any], str | Awaitable[str]]
        | Callable[[Any], str | Awaitable[str]]
    )


class ToolSource(Protocol):
    """Something that lists tools, for `Agent(tools=[...])`.

    Use it for tools that are known only at run time, such as those of a server. Each
    worker lists them once, before it works on a run. An agent that is made, and a
    decision, list nothing.
    """

    @property
    def name(self) -> str:
        """The name of the source, for errors. It must contain no secret."""
        ...

    async def list_tools(self) -> Sequence[ToolProtocol | Callable[..., Any]]:
        """Return the present tools.

        It is called in the event loop of the worker. An exception leaves the run to
        other processes and to a later sweep. A limit of time is the source's own.

        Returns:
            The tools in the order in which the model reads them; no agents.
        """
        ...


def is_tool_source(value: object) -> TypeIs[ToolSource]:
    """Return whether an item of `tools` lists tools, and is no tool itself."""
    lists = callable(getattr(value, "list_tools", None))
    has_name = isinstance(getattr(value, "name", None), str)
    return lists and has_name and not isinstance(value, type)


# Larger than any conversation needs. The stored format can hold each smaller number.
_MAX_TURNS = 1_000_000_000
_MAX_OUTPUT_RETRIES = 10
# The values of `tool_choice` that are no name of a tool.
_CHOICES = ("auto", "required", "none")
# The adapter of a model makes these parts of a request, and it reads no streams.
_RESERVED_SETTINGS = frozenset({"model", "messages", "tools", "stream"})


class AgentOptions(TypedDict, total=False):
    """The options of `Agent` beside its name and `output_type`; see there."""

    instructions: str | InstructionsFunction
    tools: ToolsOption
    handoffs: HandoffsOption
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


def check_guards(
    name: str, hooks: object, guardrails: object, compaction: object
) -> None:
    """Raise `InvalidInput` for wrong hooks, guardrails or compaction."""
    if hooks is not None:
        from continuations.authoring.hooks import Hooks  # noqa: PLC0415 - few agents have any

        if not isinstance(hooks, Hooks):
            raise option_error(name, "hooks", "a Hooks object", hooks)
    if guardrails is not None:
        from continuations.authoring.guardrails import Guardrails  # noqa: PLC0415 - likewise

        if not isinstance(guardrails, Guardrails):
            raise option_error(name, "guardrails", "a Guardrails object", guardrails)
    if compaction is not None:
        from continuations.authoring.compaction import Compaction  # noqa: PLC0415 - likewise

        if not isinstance(compaction, Compaction):
            wanted = "Compaction(soft=..., hard=...) or None"
            raise option_error(name, "compaction", wanted, compaction)


def options_of(agent: object) -> dict[str, Any]:
    """Return the options of an agent by name."""
    return {option: getattr(agent, option) for option in OPTIONS}


def check_name(name: object) -> None:
    """Raise `InvalidInput` unless an agent can have the name."""
    if not isinstance(name, str) or not name:
        msg = f"an agent's name must be a string that is not empty, got {name!r}."
        raise InvalidInput(msg)


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Raise `InvalidInput` for a wrong option; `options` has them by name."""
    _check_texts(name, options)
    if not _is_model(options["model"]):
        wanted = "a name, or an object with `name` and `reply`"
        # The value is not shown: a client of a model may show its API key.
        is_class = isinstance(options["model"], type)
        got = (
            callables.shown(options["model"])
            if is_class
            else type(options["model"]).__name__
        )
        raise InvalidInput(f"agent {name}: model must be {wanted}, got {got}.")
    for option in ("input_type", "output_type"):
        if isinstance(options[option], str):
            wanted = "the type itself, not its name as a string"
            raise option_error(name, option, wanted, options[option])
    _check_context_type(name, options["context_type"])
    for option in ("max_turns", "max_denials"):
        limit = options[option]
        if limit is not None and not _is_integer(limit, 1, _MAX_TURNS):
            wanted = f"an integer from 1 to {_MAX_TURNS}, or None for no limit"
            raise option_error(name, option, wanted, limit)
    retries = options["output_retries"]
    if not _is_integer(retries, 0, _MAX_OUTPUT_RETRIES):
        wanted = f"an integer from 0 to {_MAX_OUTPUT_RETRIES}"
        raise option_error(name, "output_retries", wanted, retries)
    reset = options["reset_tool_choice"]
    if type(reset) is not bool:
        raise option_error(name, "reset_tool_choice", "True or False", reset)
    _check_turn_options(name, options)


def _check_turn_options(name: str, options: Mapping[str, Any]) -> None:
    choice = options["tool_choice"]
    if choice is not None and (type(choice) is not str or not choice):
        wanted = '"auto", "required", "none" or the name of a tool'
        raise option_error(name, "tool_choice", wanted, choice)
    errors = options["tool_errors"]
    if errors is not None and not takes_positional(errors, 2):
        wanted = "a function of (error, call)"
        raise option_error(name, "tool_errors", wanted, errors)


def _check_texts(name: str, options: Mapping[str, Any]) -> None:
    instructions = options["instructions"]
    if is_of_state(instructions):
        _check_of_state(name, options["state"])
    elif not isinstance(instructions, str) and not takes_positional(instructions, 2):
        wanted = "a string, or a function of (input, context) or of (state)"
        raise option_error(name, "instructions", wanted, instructions)
    description = options["description"]
    if not isinstance(description, str | None):
        raise option_error(name, "description", "a string", description)
    for option in ("tools", "handoffs"):
        listed = options[option]
        if inspect.isroutine(listed) and not takes_positional(listed, 0):
            wanted = "a list, or a function without parameters that returns a list"
            error = option_error(name, option, wanted, listed)
            raise InvalidInput(f"{error} Write {option}=[...].")


def is_of_state(instructions: object) -> bool:
    """Return whether instructions are a function whose only parameter is `state`."""
    if isinstance(instructions, str) or not callable(instructions):
        return False
    try:
        parameters = inspect.signature(instructions).parameters
    except (NameError, TypeError, ValueError):
        return False
    return list(parameters) == ["state"] and takes_positional(instructions, 1)


def _check_of_state(name: str, state: object) -> None:
    if state is None:
        raise InvalidInput(
            f"agent {name}: instructions is a function of (state), and the agent has "
            "no state. Declare Agent(..., state=...), or pass a function of "
            "(input, context)."
        )


def _is_integer(value: object, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _is_model(model: Any) -> bool:
    if model is None or isinstance(model, str):
        return model != ""
    # If the class was passed instead of an object, `name` is a property and no string.
    has_name = isinstance(getattr(model, "name", None), str)
    return has_name and callable(getattr(model, "reply", None))


def _check_context_type(name: str, type_: Any) -> None:
    if not is_context_class(type_):
        wanted = "a class, a union of classes, or None for any object"
        raise option_error(name, "context_type", wanted, type_)


def copy_settings(
    name: str, settings: object, tool_choice: str | None = None
) -> Mapping[str, Any]:
    """Return an agent's settings with its `tool_choice`; raises `InvalidInput`."""
    if not settings:
        settings = {}
    copy: dict[Any, Any] = {}
    is_mapping = False
    with suppress(TypeError, ValueError):
        copy = dict(settings)  # type: ignore[call-overload]
        is_mapping = all(isinstance(key, str) for key in copy)
    if not is_mapping:
        # The value is not shown: settings may hold a secret.
        msg = f"agent {name}: settings must be a mapping with string keys."
        raise InvalidInput(msg)
    reserved = sorted(_RESERVED_SETTINGS & copy.keys())
    if reserved:
        raise InvalidInput(
            f"agent {name}: settings must not have {', '.join(reserved)}, because the"
            " model's adapter sets them. Leave them out."
        )
    if tool_choice is None:
        return copy
    if "tool_choice" in copy:
        msg = f"agent {name}: tool_choice is also in settings. Pass it once."
        raise InvalidInput(msg)
    return {**copy, "tool_choice": _stored_choice(tool_choice)}


def _stored_choice(choice: str) -> str | dict[str, Any]:
    """Return a choice in the chat completions format."""
    if choice in _CHOICES:
        return choice
    return {"type": "function", "function": {"name": choice}}


def check_chosen_tool(
    name: str, choice: str | None, tool_names: Collection[str]
) -> None:
    """Raise `InvalidInput` if `tool_choice` names a tool that the agent lacks."""
    if choice is None or choice == "auto":
        return
    if choice in tool_names or (choice in _CHOICES and tool_names):
        return
    names = ", ".join(tool_names) or "none"
    raise InvalidInput(
        f"agent {name}: tool_choice is {choice!r}, and its tools are: {names}. Pass "
        '"auto", "required", "none" or the name of one of its tools.'
    )


def state_spec_of(agent_name: str, type_: type[Any] | None) -> StateSpec | None:
    """Return what the option `state` declares; raises `InvalidInput`."""
    if type_ is None:
        return None
    from continuations.authoring.arguments import typed_values  # noqa: PLC0415 - it imports pydantic

    return typed_values.make_state_spec(type_, agent_name=agent_name)
