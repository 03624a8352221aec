"""The text of an application for the model about a tool that raised."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

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
