"""Calling an application's functions: plain or async, with what they ask for."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_UNFIT = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only",
    inspect.Parameter.VAR_POSITIONAL: "stands for any number of values",
    inspect.Parameter.VAR_KEYWORD: "stands for any names",
}


async def call(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a function by keyword and return its result; what it raises is raised.

    A plain function runs in a worker thread, with the caller's context variables, so
    that it may block.
    """
    if inspect.iscoroutinefunction(function):
        return await function(**arguments)
    result = await asyncio.to_thread(_shielded, function, arguments)
    # A plain wrapper around an async function hands its coroutine through.
    return await result if inspect.isawaitable(result) else result


def _shielded(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    try:
        return function(**arguments)
    except StopIteration as error:
        # A future refuses StopIteration, and its waiter would wait for ever
        # (CPython before 3.12). PEP 479 gives the name of what it becomes instead.
        msg = "the function raised StopIteration"
        raise RuntimeError(msg) from error


def accepted(
    function: Callable[..., Any], offered: Mapping[str, Any]
) -> dict[str, Any]:
    """Return those of the offered arguments that a function declares by name.

    With a `**` parameter it takes all of them.
    """
    parameters = inspect.signature(function).parameters.values()
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return dict(offered)
    names = {each.name for each in parameters}
    return {name: value for name, value in offered.items() if name in names}


def refuse_unfit(function: object, name: str) -> None:
    """Raise `InvalidInput` for a function that cannot become a tool.

    Says only what can be said without evaluating an annotation.
    """
    if not inspect.isroutine(function):
        msg = f"{name}: a tool is made of a function or a bound method; wrap it in one"
        raise InvalidInput(msg)
    try:
        signature = inspect.signature(function)
    except (NameError, TypeError, ValueError):
        return  # not known yet (3.14 evaluates lazily): the first use says why
    for parameter in signature.parameters.values():
        _refuse_parameter(parameter, name)


def _refuse_parameter(parameter: inspect.Parameter, name: str) -> None:
    if parameter.kind in _UNFIT:
        msg = (
            f"tool {name}: the parameter {parameter.name} {_UNFIT[parameter.kind]};"
            " a model calls by name, so give each parameter a name of its own"
        )
        raise InvalidInput(msg)
    if parameter.annotation is parameter.empty:
        hint = "annotate it"
        if parameter.name in {"self", "cls"}:
            hint = "make the tool of the bound method: tool(thing.method)"
        msg = f"tool {name}: the parameter {parameter.name} has no type; {hint}"
        raise InvalidInput(msg)
