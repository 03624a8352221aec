"""The types of a function's parameters, and which of them take a `ToolContext`."""

from __future__ import annotations

import inspect
import re
import types
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin
from typing import get_type_hints as hints_of

from continuations.authoring.context import ToolContext

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# The text of an annotation whose name exists only under `if TYPE_CHECKING:`.
_CONTEXT_ANNOTATION = re.compile(
    r"['\"]?(?:(?:\w+\.)*Optional\[)?(?:\w+\.)*ToolContext(?:\[[\w. ,\[\]]+\])?\]?"
    r"(?:\s*\|\s*None)?['\"]?"
)


def parameter_type(
    parameter: inspect.Parameter,
    function: Callable[..., Any],
    scope: Mapping[str, Any] | None = None,
) -> Any:
    """Return the type of a parameter; raises whatever its annotation raises.

    `scope` has the local names of the place where the function was written.
    """
    annotation = parameter.annotation
    if isinstance(annotation, str) and _CONTEXT_ANNOTATION.fullmatch(
        annotation.strip()
    ):
        return ToolContext

    def carrier() -> None:
        """Carry one annotation, so that the others cannot spoil it."""

    carrier.__annotations__ = {parameter.name: annotation}
    origin = inspect.unwrap(function)
    names = {"ToolContext": ToolContext, **getattr(origin, "__globals__", {})}
    local = None if scope is None else dict(scope)
    return hints_of(carrier, names, local, include_extras=True)[parameter.name]


def is_context_type(type_: Any) -> bool:
    """Return whether a type is `ToolContext`, also annotated or optional."""
    origin = get_origin(type_)
    if origin is Annotated:
        return is_context_type(get_args(type_)[0])
    if origin in {Union, types.UnionType}:
        return any(map(is_context_type, get_args(type_)))
    return type_ is ToolContext or origin is ToolContext
