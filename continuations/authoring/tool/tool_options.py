"""The options of tools: their types, their defaults and their checks.

Each option is declared once. `tool` describes the options of a function, and
`Tool.from_schema` those of a JSON Schema. The values that the functions among them get
stand beside them: `OfferInfo` and `FailedCall`.
"""

from __future__ import annotations

from dataclasses import field
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Literal,
    TypeAlias,
    TypedDict,
    TypeGuard,
    cast,
)

from continuations.authoring import callables
from continuations.authoring.approval import ApprovalPolicy, Condition
from continuations.authoring.callables import takes_positional
from continuations.authoring.deadline_options import Duration, to_seconds
from continuations.errors import InvalidInput
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from continuations.authoring.readings import Reading, Summary

    # It takes the application's object, `context=`, and perhaps an `OfferInfo`.
    EnabledCondition: TypeAlias = (
        Callable[[Any], bool | Awaitable[bool]]
        | Callable[[Any, "OfferInfo"], bool | Awaitable[bool]]
    )
    OfferCondition: TypeAlias = Callable[["OfferInfo"], Awaitable[bool]]


OnTimeout: TypeAlias = Literal["unknown", "tell_model"]


# It takes the arguments as one dict; a ToolContext may follow.
SchemaFunction: TypeAlias = (
    "Callable[[dict[str, Any]], Any] | Callable[Concatenate[dict[str, Any], ...], Any]"
)


class CallOptions(TypedDict, total=False):
    """The options of every tool that calls a function of the application."""

    approval: bool | Condition | ApprovalPolicy | None
    read_only: bool
    idempotent: bool
    timeout: Duration | None
    on_timeout: OnTimeout
    retries: RetriesOption
    on_error: ToolErrorFunction | None
    version: str | None
    is_enabled: bool | EnabledCondition
    summary: Summary | None
    reversible: bool | None
    writes_state: bool


class ToolOptions(CallOptions, total=False):
    """The options of `tool`, which describes them."""

    name: str | None
    description: str | None
    verify: Callable[..., Any] | None


class SchemaToolOptions(CallOptions, total=False):
    """The options of `Tool.from_schema`, which describes them."""

    description: str
    verify: SchemaFunction | None
    readings: Mapping[str, Reading] | None


CALL_DEFAULTS: CallOptions = {
    "approval": None,
    "read_only": False,
    "idempotent": False,
    "timeout": None,
    "on_timeout": "unknown",
    "retries": 0,
    "on_error": None,
    "version": None,
    "is_enabled": True,
    "summary": None,
    "reversible": None,
    "writes_state": False,
}
TOOL_DEFAULTS: ToolOptions = {
    "name": None,
    "description": None,
    **CALL_DEFAULTS,
    "verify": None,
}
SCHEMA_TOOL_DEFAULTS: SchemaToolOptions = {
    "description": "",
    **CALL_DEFAULTS,
    "verify": None,
    "readings": None,
}


def checked_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked options of a tool, each option of a call with its value.

    Args:
        name: The name of the tool.
        options: The options that its author passed.

    Raises:
        InvalidInput: An option is invalid.
    """
    checked: dict[str, Any] = {**CALL_DEFAULTS, "verify": None}
    checked |= {option: options[option] for option in checked if option in options}
    try:
        approval = ApprovalPolicy.from_option(checked["approval"])
    except InvalidInput as error:
        raise InvalidInput(f"tool {name}: {error}") from None
    timeout = to_seconds(checked["timeout"], f"tool {name}: timeout")
    check_type(name, "version", checked["version"], str, None)
    check_type(name, "read_only", checked["read_only"], bool)
    check_type(name, "idempotent", checked["idempotent"], bool)
    on_timeout = checked["on_timeout"]
    if on_timeout not in ("unknown", "tell_model"):
        raise InvalidInput(
            f"tool {name}: on_timeout must be "
            f'"unknown" or "tell_model", got {on_timeout!r}.'
        )
    repeatable = checked["read_only"] or checked["idempotent"]
    retries = checked_retries(name, checked["retries"], repeatable=repeatable)
    _check_functions(name, checked)
    check_type(name, "reversible", checked["reversible"], bool, None)
    check_type(name, "writes_state", checked["writes_state"], bool)
    return {**checked, "approval": approval, "timeout": timeout, "retries": retries}


def _check_functions(name: str, options: Mapping[str, Any]) -> None:
    on_error = options["on_error"]
    if on_error is not None and not takes_positional(on_error, 2):
        raise InvalidInput(
            f"tool {name}: on_error must be a function of (error, call), got "
            f"{on_error!r}. Declare def on_error(error, call)."
        )
    verify = options["verify"]
    if verify is not None and not callable(verify):
        raise InvalidInput(f"tool {name}: verify must be a function, got {verify!r}.")
    is_enabled = options["is_enabled"]
    if type(is_enabled) is not bool and not (
        takes_positional(is_enabled, 1) or takes_positional(is_enabled, 2)
    ):
        raise InvalidInput(
            f"tool {name}: is_enabled must be True, False or a function of the"
            " context, or of the context and an OfferInfo, got "
            f"{callables.shown(is_enabled)}."
        )


def check_type(name: str, option: str, value: object, *types: type | None) -> None:
    """Raise `InvalidInput` if an option of a tool has another type."""
    if not any(value is t if t is None else isinstance(value, t) for t in types):
        wanted = " or ".join("None" if t is None else t.__name__ for t in types)
        got = f"{value!r} ({type(value).__name__})"
        raise InvalidInput(f"tool {name}: {option} must be {wanted}, got {got}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferInfo:
    """The progress of an agent when the tools of its next turn are chosen.

    It follows from the stored run, so every process gets the same one. A call is
    checked with the values of the turn in which the model made it.

    Attributes:
        run_id: The id of the run.
        agent: The name of the agent.
        path: Names from the root agent down to this agent.
        turns: The number of turns that the model has made before in this frame.
        make_state: Set by the engine, for `state`: read that.
        make_results: Set by the engine, for `results`: read that.
    """

    run_id: str
    agent: str
    path: tuple[str, ...]
    turns: int
    make_state: Callable[[], Any] = field(default=lambda: None, repr=False)
    make_results: Callable[[], Mapping[str, str]] = field(default=dict, repr=False)

    @property
    def state(self) -> Any:
        """The state of the agent, of the type `Agent(state=...)`; `None` without one.

        It has the changes of the turns before, as a new value.
        """
        return self.make_state()

    @property
    def results(self) -> Mapping[str, str]:
        """The newest result of each tool that returned, by name, as the model reads it.

        Only results since the last message of the user count. Calls that failed, that
        were refused, or that a person answered, do not count.
        """
        return self.make_results()


# It takes the exception and the call, and returns the text that the model reads.
ToolErrorFunction: TypeAlias = "Callable[[Exception, FailedCall], str | Awaitable[str]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCall:
    """A call whose tool raised, for the function of `on_error`.

    Attributes:
        tool: The name of the tool.
        run_id: The id of the run.
        call_id: The id of the call, unique within the run.
        attempt: The number of the last attempt, from 1.
        arguments: The effective arguments as JSON values. They may contain secrets.
        context: The object that the application passed as `context=`.
    """

    tool: str
    run_id: str
    call_id: str
    attempt: int
    arguments: Mapping[str, Any] = field(repr=False)
    context: Any = field(default=None, repr=False)


_MAX_TIMES = 10
_MAX_DELAY_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Retries:
    """How a call is tried again after the function of its tool raised.

    The wait before attempt n + 1 is at most `first_delay` doubled n - 1 times, at most
    `max_delay`, and at least half of that. It is random, so that calls which failed
    together do not return together.

    Attributes:
        times: How often the function is called again, 1 to 10.
        first_delay: The longest wait before the second attempt: a timedelta, or
            seconds. At most 300 seconds. Default: 1 second.
        max_delay: The longest wait before any attempt, as above. Default: 30 seconds.
        on: The exceptions after which the function is called again. `TimeoutError`
            includes a call that ran out of time. Default: every `Exception`.

    Raises:
        InvalidInput: A value is invalid.
    """

    times: int
    first_delay: Duration = field(default=1.0, kw_only=True)
    max_delay: Duration = field(default=30.0, kw_only=True)
    on: Sequence[type[Exception]] = field(default=(Exception,), kw_only=True)

    def __post_init__(self) -> None:
        """Check the values."""
        if not is_count(self.times, 1):
            raise InvalidInput(
                f"Retries: times must be an integer from 1 to {_MAX_TIMES}, got "
                f"{self.times!r}."
            )
        _delay_seconds("first_delay", self.first_delay)
        _delay_seconds("max_delay", self.max_delay)
        _check_retried_errors(self.on)

    def covers(self, error: BaseException, attempts: int) -> bool:
        """Return whether the function is called again after an error.

        Args:
            error: The exception that the function raised.
            attempts: How often the call was started, this attempt included.

        Returns:
            `False` if the model reads the error.
        """
        return attempts <= self.times and isinstance(error, tuple(self.on))

    def delay(self, attempts: int, fraction: float) -> float:
        """Return how long to wait after an attempt, in seconds.

        Args:
            attempts: How often the call was started.
            fraction: A random number from 0 to 1.

        Returns:
            The seconds.
        """
        first = _delay_seconds("first_delay", self.first_delay)
        longest = _delay_seconds("max_delay", self.max_delay)
        limit = min(longest, first * 2.0 ** (attempts - 1))
        return limit * (0.5 + fraction / 2)


RetriesOption: TypeAlias = int | Retries


def checked_retries(
    tool_name: str, option: object, *, repeatable: bool
) -> Retries | None:
    """Return the retries of a tool's option, `None` for none; raises `InvalidInput`."""
    if isinstance(option, Retries):
        retries = option
    elif is_count(option, 0):
        if not option:
            return None
        retries = Retries(option)
    else:
        raise InvalidInput(
            f"tool {tool_name}: retries must be an integer from 0 to {_MAX_TIMES} or "
            f"Retries(...), got {option!r}."
        )
    if not repeatable:
        raise InvalidInput(
            f"tool {tool_name}: retries needs a tool that may be repeated, because a "
            "call that raised may have had its effect. Declare idempotent=True or "
            "read_only=True, or leave out retries."
        )
    return retries


def is_count(value: object, lowest: int) -> TypeGuard[int]:
    """Return whether a value is a number of retries."""
    return type(value) is int and lowest <= value <= _MAX_TIMES


def _delay_seconds(name: str, delay: object) -> float:
    seconds = to_seconds(delay, f"Retries: {name}")
    if seconds is not None and seconds <= _MAX_DELAY_SECONDS:
        return seconds
    raise InvalidInput(
        f"Retries: {name} must be at most {_MAX_DELAY_SECONDS:g} seconds, got"
        f" {delay!r}. Return sleep(...) from the tool to wait longer."
    )


def _check_retried_errors(classes: object) -> None:
    if isinstance(classes, list | tuple):
        given = cast("Sequence[object]", classes)
        if given and all(
            isinstance(each, type) and issubclass(each, Exception) for each in given
        ):
            return
    raise InvalidInput(
        f"Retries: on must be a list of classes of exceptions, got {classes!r}. Pass "
        "for example on=[ConnectionError, TimeoutError]."
    )
