"""Keyword options of agents and tools: check their names, and show them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.authoring import callables
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from inspect import Parameter, Signature

# Options of agents of other packages, with the way to the same end here.
FOREIGN_OPTIONS = {
    "mcp_servers": "Pass tools=[McpTools(url)], as the page docs/how-to/mcp-client.md "
    "shows.",
}


def option_error(
    agent_name: str, option: str, wanted: str, value: object
) -> InvalidInput:
    """Return the error for an option of an agent that has another type or value."""
    got = callables.shown(value)
    return InvalidInput(f"agent {agent_name}: {option} must be {wanted}, got {got}.")


def check_option_names(
    label: str, options: Iterable[str], known: Collection[str]
) -> None:
    """Raise `InvalidInput` for an option that does not exist."""
    for option in options:
        if option not in known:
            import difflib  # noqa: PLC0415 - rarely needed

            close = difflib.get_close_matches(option, known, n=1)
            advice = f"Write {close[0]}." if close else "Leave it out."
            advice = FOREIGN_OPTIONS.get(option, advice)
            raise InvalidInput(f"{label}: there is no option {option!r}. {advice}")


def signature_with_options(
    parameters: Iterable[Parameter],
    defaults: Mapping[str, Any],
    types: Mapping[str, Any],
) -> Signature:
    """Return a signature that has each option in place of `**options`.

    Args:
        parameters: The parameters before the options.
        defaults: The options by name, with their defaults.
        types: The annotations of their `TypedDict`.
    """
    from inspect import Parameter, Signature  # noqa: PLC0415 - for tools that show code

    options = [
        Parameter(
            option,
            Parameter.KEYWORD_ONLY,
            default=default,
            annotation=getattr(types.get(option), "__forward_arg__", "Any"),
        )
        for option, default in defaults.items()
    ]
    return Signature([*parameters, *options])
