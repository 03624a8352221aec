"""The sync face: a class whose methods run the coroutines of an async class.

The class gets each public method and property of the async class when its module is
imported. `tools/sync_stubs.py` writes the same into the `.pyi` file beside that module,
for editors, type checkers and the API reference.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from continuations.engine.sync import portal

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from continuations.engine.sync.run_streams import AsyncRunStream, RunStream

    Wrap = Callable[[Any], Any]

Face = TypeVar("Face", bound=type[Any])
_START_OF_ARGUMENTS = "Args:"


def of(
    async_class: type[Any],
    attribute: str,
    *,
    wraps: Mapping[str, Wrap] | None = None,
    without: Collection[str] = (),
) -> Callable[[Face], Face]:
    """Return a decorator that gives a class the public members of an async class.

    Members that the class has are kept. Its docstring gets the `Args` and `Raises` of
    the async class.

    Args:
        async_class: The class with the coroutines.
        attribute: Where an object of the class has its object of the async class.
        wraps: By the name of a method: makes the sync object of the async one that the
            method returns, for example a `Thread` of an `AsyncThread`.
        without: Public members that the class does not get.

    Returns:
        The decorator.
    """
    wrap_by_name = wraps or {}

    def add_members(face: Face) -> Face:
        for name, member in vars(async_class).items():
            if name.startswith("_") or name in vars(face) or name in without:
                continue
            twin = (
                _sync_property(member, name, attribute)
                if isinstance(member, property)
                else _sync_method(face, member, attribute, wrap_by_name.get(name))
            )
            setattr(face, name, twin)
        face.__doc__ = joined_docstring(face.__doc__, async_class.__doc__)
        return face

    return add_members


def sync_function(
    async_function: Callable[..., Any], module: str, wrap: Wrap | None = None
) -> Callable[..., Any]:
    """Return the sync twin of a function whose name ends with `_async`.

    Args:
        async_function: A coroutine function, or one that returns an async object.
        module: The module of the twin.
        wrap: Makes the sync object of the async one that the function returns.

    Returns:
        The function, without `_async` at the end of its name.
    """

    @functools.wraps(async_function)
    def twin(*args: Any, **kwargs: Any) -> Any:
        result = complete(call(async_function, *args, **kwargs))
        return result if wrap is None else wrap(result)

    twin.__name__ = sync_name(async_function.__name__)
    return _described(twin, async_function, module, twin.__name__)


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function; an error about its arguments names the sync twin."""
    try:
        return function(*args, **kwargs)
    except TypeError as error:
        own_frame = error.__traceback__
        if own_frame is not None and own_frame.tb_next is None:
            # The arguments do not fit: Python raised before the function began.
            name, dot, reason = str(error).partition("()")
            raise TypeError(f"{sync_name(name)}{dot}{reason}") from None
        raise


def complete(result: Any) -> Any:
    """Return the result of a coroutine, or a sync iterator over an async one."""
    if inspect.iscoroutine(result):
        return portal.run_until_complete(result)
    if hasattr(result, "__anext__"):
        return portal.iterate(result)
    return result


def run_stream(stream: AsyncRunStream[Any]) -> RunStream[Any]:
    """Return the sync stream of an async one."""
    from continuations.engine.sync.run_streams import RunStream  # noqa: PLC0415 - rarely used

    return RunStream(stream)


def sync_name(name: str) -> str:
    """Return the name without `Async` before a class, or `_async` after a function."""
    return name.replace("Async", "").removesuffix("_async")


def _sync_method(
    face: type[Any],
    function: Callable[..., Any],
    attribute: str,
    wrap: Wrap | None,
) -> Callable[..., Any]:
    name = function.__name__

    @functools.wraps(function)
    def method(self: object, /, *args: Any, **kwargs: Any) -> Any:
        result = complete(
            call(getattr(getattr(self, attribute), name), *args, **kwargs)
        )
        return result if wrap is None or result is None else wrap(result)

    return _described(method, function, face.__module__, f"{face.__name__}.{name}")


def _described(
    twin: Callable[..., Any],
    function: Callable[..., Any],
    module: str,
    qualified_name: str,
) -> Callable[..., Any]:
    """Give a twin its own names, and the type of its result."""
    twin.__module__, twin.__qualname__ = module, qualified_name
    returned = str(function.__annotations__.get("return"))
    if "Async" in returned:
        returned = sync_name(returned)
        twin.__annotations__ = {**function.__annotations__, "return": returned}
        signature = inspect.signature(function).replace(return_annotation=returned)
        vars(twin)["__signature__"] = signature
    return twin


def _sync_property(member: property, name: str, attribute: str) -> property:
    def read(self: object) -> Any:
        return complete(getattr(getattr(self, attribute), name))

    return property(read, doc=member.__doc__)


def joined_docstring(own: str | None, of_async_class: str | None) -> str | None:
    """Append the sections from `Args` on. `python -OO` removes both docstrings."""
    before, start, rest = (of_async_class or "").partition(_START_OF_ARGUMENTS)
    if not own or not start:
        return own
    indentation = before[before.rfind("\n") :]
    return f"{own.rstrip()}\n{indentation}{start}{rest}"
