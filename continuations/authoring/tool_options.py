"""The options of tools: their types, their defaults and their checks.

Each option is declared once. `tool` describes the options of a function, and
`Tool.from_schema` those of a JSON Schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from continuations.authoring import callables
from continuations.authoring.approval import ApprovalPolicy
from continuations.authoring.callables import takes_positional
from continuations.authoring.periods import to_seconds
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from continuations.authoring.approval import Condition
    from continuations.authoring.call_retries import Retries, RetriesOption
    from continuations.authoring.declared_display import Summary
    from continuations.authoring.failed_call import ToolErrorFunction
    from continuations.authoring.offers import EnabledCondition
    from continuations.authoring.periods import Duration
    from continuations.authoring.readings import Reading
    from continuations.authoring.schema_tool import SchemaFunction

OnTimeout: TypeAlias = Literal["unknown", "tell_model"]


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
        msg = f"tool {name}: {error}"
        raise InvalidInput(msg) from None
    timeout = to_seconds(checked["timeout"], f"tool {name}: timeout")
    check_type(name, "version", checked["version"], str, None)
    check_type(name, "read_only", checked["read_only"], bool)
    check_type(name, "idempotent", checked["idempotent"], bool)
    on_timeout = checked["on_timeout"]
    if on_timeout not in ("unknown", "tell_model"):
        msg = (
            f"tool {name}: on_timeout must be "
            f'"unknown" or "tell_model", got {on_timeout!r}.'
        )
        raise InvalidInput(msg)
    repeatable = checked["read_only"] or checked["idempotent"]
    retries = _checked_retries(name, checked["retries"], repeatable=repeatable)
    _check_functions(name, checked)
    check_type(name, "reversible", checked["reversible"], bool, None)
    check_type(name, "writes_state", checked["writes_state"], bool)
    return {**checked, "approval": approval, "timeout": timeout, "retries": retries}


def _checked_retries(name: str, option: object, *, repeatable: bool) -> Retries | None:
    if type(option) is int and not option:
        return None
    from continuations.authoring import call_retries  # noqa: PLC0415 - few tools have any

    return call_retries.checked_retries(name, option, repeatable=repeatable)


def _check_functions(name: str, options: Mapping[str, Any]) -> None:
    on_error = options["on_error"]
    if on_error is not None and not takes_positional(on_error, 2):
        msg = (
            f"tool {name}: on_error must be a function of (error, call), got "
            f"{on_error!r}. Declare def on_error(error, call)."
        )
        raise InvalidInput(msg)
    verify = options["verify"]
    if verify is not None and not callable(verify):
        msg = f"tool {name}: verify must be a function, got {verify!r}."
        raise InvalidInput(msg)
    is_enabled = options["is_enabled"]
    if type(is_enabled) is not bool and not (
        takes_positional(is_enabled, 1) or takes_positional(is_enabled, 2)
    ):
        msg = (
            f"tool {name}: is_enabled must be True, False or a function of the"
            " context, or of the context and an OfferInfo, got "
            f"{callables.shown(is_enabled)}."
        )
        raise InvalidInput(msg)


def check_type(name: str, option: str, value: object, *types: type | None) -> None:
    """Raise `InvalidInput` if an option of a tool has another type."""
    if not any(value is t if t is None else isinstance(value, t) for t in types):
        wanted = " or ".join("None" if t is None else t.__name__ for t in types)
        got = f"{value!r} ({type(value).__name__})"
        msg = f"tool {name}: {option} must be {wanted}, got {got}."
        raise InvalidInput(msg)
