"""The option `tools` of an agent: a list, or a function that returns it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from continuations.authoring.agent_options import option_error
from continuations.authoring.tool_members import is_tool
from continuations.errors import InvalidInput


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
    if isinstance(tools, Sequence) and not isinstance(tools, str):
        return tools  # pyright: ignore[reportUnknownVariableType] - items may be any
    wanted = "a list, or a function that returns a list"
    raise option_error(agent_name, "tools", wanted, tools)
