"""The `on_answer` function of a tool: it gets the answer that the tool waited for."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from continuations.authoring import answer_types, callables
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from continuations.authoring.context import ToolContext

ANSWER_PARAMETER = "answer"
CONTEXT_PARAMETER = "ctx"


@dataclass(frozen=True)
class AnswerFunction:
    """A function of `answer`, of arguments of the tool by name, and of a context.

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
            if parameter_types.is_context_type(self._type_of(each))
        )

    def _type_of(self, parameter: inspect.Parameter) -> Any:
        from continuations.authoring import parameter_types  # noqa: PLC0415 - on first use

        if parameter.annotation is parameter.empty:
            return Any
        return parameter_types.parameter_type(parameter, self.function, self.scope)

    def typed_answer(self, answer_json: str) -> Any:
        """Return the answer with the type of its parameter; raises `ArgumentsInvalid`.

        The type is that of the annotation. Without one, it is any JSON value.
        """
        parameter = inspect.signature(self.function).parameters[ANSWER_PARAMETER]
        return answer_types.typed_value(answer_json, self._type_of(parameter))

    def arguments(
        self, answer_json: str, values: Mapping[str, Any], ctx: ToolContext
    ) -> dict[str, Any]:
        """Return the arguments of a call of the function; raises `ArgumentsInvalid`."""
        available = {
            **values,
            ANSWER_PARAMETER: self.typed_answer(answer_json),
            **dict.fromkeys(self._contexts, ctx),
        }
        return callables.accepted_arguments(self.function, available)


def checked(
    function: object, label: str, scope: Mapping[str, Any] | None
) -> AnswerFunction:
    """Return the `on_answer` function of a tool; raises `InvalidInput`.

    Annotations are not evaluated here: they may use names that do not exist yet.
    """
    if not callable(function):
        msg = f"{label}: on_answer must be a function, got {function!r}."
        raise InvalidInput(msg)
    names = callables.parameter_names(function)
    if names is not None and ANSWER_PARAMETER not in names:
        msg = (
            f"{label}: the on_answer function must take a parameter 'answer', got "
            f"({', '.join(names)}). Give the parameter for the answer this name."
        )
        raise InvalidInput(msg)
    return AnswerFunction(function, scope)
