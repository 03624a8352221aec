"""Functions that a tool has beside its own: they take its arguments by name."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from continuations.authoring import callables
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from continuations.authoring.context import ToolContext

CONTEXT_PARAMETER = "ctx"


@dataclass(frozen=True)
class HandlerFunction:
    """A function of arguments of the tool by name, and of a context.

    Attributes:
        function: The application's function.
        scope: The local names that the annotations of a nested function use.
    """

    function: Callable[..., Any]
    scope: Mapping[str, Any] | None = None

    @cached_property
    def _contexts(self) -> tuple[str, ...]:
        from continuations.authoring import parameter_types  # noqa: PLC0415 - on first use

        return tuple(
            each.name
            for each in inspect.signature(self.function).parameters.values()
            if parameter_types.is_context_type(self.type_of(each))
        )

    def type_of(self, parameter: inspect.Parameter) -> Any:
        """Return the type of a parameter; any type if it has no annotation."""
        from continuations.authoring import parameter_types  # noqa: PLC0415 - on first use

        if parameter.annotation is parameter.empty:
            return Any
        return parameter_types.parameter_type(parameter, self.function, self.scope)

    def accepted(self, values: Mapping[str, Any], ctx: ToolContext) -> dict[str, Any]:
        """Return the values that the function declares, with the context."""
        available = {**values, **dict.fromkeys(self._contexts, ctx)}
        return callables.accepted_arguments(self.function, available)


def check_function(function: object, label: str) -> None:
    """Raise `InvalidInput` unless a handler is a function."""
    if not callable(function):
        msg = f"{label} must be a function, got {function!r}. Decorate a function."
        raise InvalidInput(msg)
