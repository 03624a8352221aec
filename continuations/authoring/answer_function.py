"""The `on_answer` function of a tool: it gets the answer that the tool waited for."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from continuations.authoring import answer_types, callables
from continuations.authoring.handler_function import HandlerFunction, check_function
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from continuations.authoring.context import ToolContext

ANSWER_PARAMETER = "answer"


@dataclass(frozen=True)
class AnswerFunction(HandlerFunction):
    """A function of `answer`, of arguments of the tool by name, and of a context."""

    def typed_answer(self, answer_json: str) -> Any:
        """Return the answer with the type of its parameter; raises `ArgumentsInvalid`.

        The type is that of the annotation. Without one, it is any JSON value.
        """
        parameter = inspect.signature(self.function).parameters[ANSWER_PARAMETER]
        return answer_types.typed_value(answer_json, self.type_of(parameter))

    def arguments(
        self, answer_json: str, values: Mapping[str, Any], ctx: ToolContext
    ) -> dict[str, Any]:
        """Return the arguments of a call of the function; raises `ArgumentsInvalid`."""
        answer = self.typed_answer(answer_json)
        return self.accepted({**values, ANSWER_PARAMETER: answer}, ctx)


def checked(
    function: object, label: str, scope: Mapping[str, Any] | None
) -> AnswerFunction:
    """Return the `on_answer` function of a tool; raises `InvalidInput`.

    Annotations are not evaluated here: they may use names that do not exist yet.
    """
    check_function(function, f"{label}: on_answer")
    handler = cast("Callable[..., Any]", function)
    names = callables.parameter_names(handler)
    if names is not None and ANSWER_PARAMETER not in names:
        msg = (
            f"{label}: the on_answer function must take a parameter 'answer', got "
            f"({', '.join(names)}). Give the parameter for the answer this name."
        )
        raise InvalidInput(msg)
    return AnswerFunction(handler, scope)
