"""The functions of an application: what they declare, and how they are called.

A function is plain or async. Its parameters, their types and its docstring say which
arguments it takes.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import os
import re
import sys
import threading
import types
import warnings
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin
from typing import get_type_hints as hints_of

from continuations.authoring.context import ToolContext
from continuations.authoring.tool_waits import is_tool_wait
from continuations.errors import InvalidInput
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


_UNSUPPORTED_PARAMETER_KINDS: dict[Any, str] = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only",
    inspect.Parameter.VAR_POSITIONAL: "takes any number of values",
    inspect.Parameter.VAR_KEYWORD: "takes any names",
}
# A new thread costs half a millisecond of processor time; a kept one costs 0.1 ms.
_MAX_WAITING_THREADS = 32
# The queue of each thread that waits for its next call.
waiting_threads: list[SimpleQueue[ThreadCall]] = []
if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    # The threads do not exist in the child.
    os.register_at_fork(after_in_child=waiting_threads.clear)


async def call(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function and return its result. Its exceptions propagate.

    A plain function runs in a thread, with the caller's context variables, so that it
    may block without stopping the event loop. The thread runs no other function then.
    """
    if inspect.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    result = await run_in_thread(lambda: function(*args, **kwargs))
    # A plain wrapper around an async function returns the coroutine. A wait that a tool
    # returns is no such wrapper.
    if is_tool_wait(result) or not inspect.isawaitable(result):
        return result
    return await result


async def run_in_thread(function: Callable[[], Any]) -> Any:
    """Run a function in a thread, and return its result.

    No other function runs in the thread meanwhile. The shared executor of asyncio does
    not fit: on two cores it has six threads, and a few slow tools would fill it. Then
    the writes of the store would wait. The thread is a daemon, so a tool that hangs
    does not keep the process from ending.
    """
    call = ThreadCall(function)
    try:
        queue = waiting_threads.pop()
    except IndexError:
        queue = _start_thread()
    queue.put(call)
    return await call.future


class OfClass:
    """A tool or a task as its class shows it; an object of the class has its own.

    Attributes:
        kind: The name of the decorator.
    """

    kind: str
    __qualname__: str

    @property
    def advice(self) -> str:
        """The text that says how to get the one of an object."""
        owner, _, name = self.__qualname__.rpartition(".")
        owner = owner.rpartition(".")[2]
        return (
            f"got the {self.kind} {name} of a class. Pass that of an object: "
            f"{owner}().{name}."
        )


class ThreadCall:
    """A function that a thread runs, with the context variables of its caller."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self._loop.create_future()
        self._context = contextvars.copy_context()
        self._function = function
        self._settle: Callable[[], None] | None = None

    def run(self) -> None:
        """Run the function, and keep its result or error."""
        try:
            result = self._context.run(self._function)
            self._settle = partial(_set_result, self.future, result)
        except BaseException as error:  # noqa: BLE001 - the caller raises it again
            self._settle = partial(_set_exception, self.future, error)

    def deliver(self) -> None:
        """Give the result or error to the caller."""
        if self._settle is not None:
            with suppress(RuntimeError):  # the loop is closed: no caller waits
                self._loop.call_soon_threadsafe(self._settle)


def _start_thread() -> SimpleQueue[ThreadCall]:
    """Start a thread, and return the queue from which it takes its calls."""
    queue: SimpleQueue[ThreadCall] = SimpleQueue()
    threading.Thread(
        target=_run_calls, args=(queue,), name="continuations-tool", daemon=True
    ).start()
    return queue


def _run_calls(queue: SimpleQueue[ThreadCall]) -> None:
    while _run_call(queue):
        pass  # a waiting thread holds no arguments and no results


def _run_call(queue: SimpleQueue[ThreadCall]) -> bool:
    """Run the next call; return whether the thread waits for another one."""
    call = queue.get()
    call.run()
    waits = len(waiting_threads) < _MAX_WAITING_THREADS
    if waits:
        # Before the delivery: the caller's next call can take this thread.
        waiting_threads.append(queue)
    call.deliver()
    return waits


def _set_result(future: asyncio.Future[Any], result: object) -> None:
    if not future.done():
        future.set_result(result)


def _set_exception(future: asyncio.Future[Any], error: BaseException) -> None:
    if future.done():
        return
    if isinstance(error, StopIteration | GeneratorExit):
        # A future rejects StopIteration, and GeneratorExit would close every coroutine
        # on its way. PEP 479 turns both into a RuntimeError.
        error = RuntimeError(f"the function raised {type(error).__name__}")
    future.set_exception(error)


def is_task_cancellation(error: BaseException) -> bool:
    """Return whether an exception is the cancellation of the running task.

    Every other exception of user code is a fault of that code. This includes
    `SystemExit`, `KeyboardInterrupt` and a `CancelledError` that the code raised.
    """
    task = asyncio.current_task()
    cancelling = task is not None and task.cancelling() > 0
    return isinstance(error, asyncio.CancelledError) and cancelling


def accepted_arguments(
    function: Callable[..., Any], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments that a function declares by name.

    A function with a `**` parameter gets all of them. Raises `TypeError` for a
    function that takes values only by position: it would be called without any, and
    so would decide about nothing.
    """
    parameters = inspect.signature(function).parameters
    kinds = {each.kind for each in parameters.values()}
    if inspect.Parameter.POSITIONAL_ONLY in kinds:
        raise TypeError("a parameter is positional-only; arguments are passed by name")
    if inspect.Parameter.VAR_KEYWORD in kinds:
        return dict(arguments)
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        raise TypeError("arguments are passed by name; declare **arguments")
    return {name: value for name, value in arguments.items() if name in parameters}


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """Return the names of a function's parameters; `None` if they are not readable."""
    try:
        return tuple(inspect.signature(function).parameters)
    except (NameError, TypeError, ValueError):
        return None


def check_callback_parameters(
    callback: Callable[..., Any], names: Sequence[str] | None, label: str
) -> None:
    """Raise `InvalidInput` if a callback requires an argument that a tool lacks.

    Otherwise a condition with a misspelt name would keep every call from running,
    and only the model would see the error. The same is true for a callback that takes
    values by position.
    """
    try:
        parameters = inspect.signature(callback).parameters.values()
    except (NameError, TypeError, ValueError):
        return  # not known yet; the first call reports an error
    takes_names = any(each.kind is each.VAR_KEYWORD for each in parameters)
    for each in parameters:
        is_rest = each.kind is each.VAR_POSITIONAL and not takes_names
        if is_rest or each.kind is each.POSITIONAL_ONLY:
            raise InvalidInput(
                f"{label} takes the parameter {each.name!r} by position, and arguments"
                " are passed by name. Declare the arguments by name, or **arguments."
            )
    if names is None:
        return
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    for each in parameters:
        required = each.kind in by_name and each.default is each.empty
        if required and each.name not in names:
            raise InvalidInput(
                f"{label} requires the argument {each.name!r}, which the tool does not"
                f" have (its arguments: {', '.join(names) or 'none'}). Rename the"
                " parameter."
            )


def is_method(value: object) -> bool:
    """Return whether a value is a function whose first parameter is `self`.

    A `self` with a type counts in the body of a class only.
    """
    if not inspect.isfunction(value):
        return False
    if value.__code__.co_varnames[:1] != ("self",):
        return False
    owner = value.__qualname__.rpartition(".")[0]
    is_in_class = bool(owner) and not owner.endswith("<locals>")
    return is_in_class or "self" not in value.__annotations__


def is_generator(function: object) -> bool:
    """Return whether a call of a function only makes a generator, plain or async."""
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def takes_positional(function: object, count: int) -> bool:
    """Return whether a function can be called with so many positional arguments.

    A generator function cannot: a call would run nothing of its body.
    """
    if not callable(function) or is_generator(function):
        return False
    try:
        signature = inspect.signature(function)
    except (NameError, TypeError, ValueError):
        return True  # not known yet; the first call reports an error
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def is_observer(function: object) -> bool:
    """Return whether a value is a function of one value, not a class."""
    return not isinstance(function, type) and takes_positional(function, 1)


def shown(value: object) -> str:
    """Return a value as an error shows it: a function with its parameters."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    names = parameter_names(value) if inspect.isroutine(value) else None
    if names is None:
        return f"{repr(value)[:80]} ({type(value).__name__})"
    kind = "generator function" if is_generator(value) else "function"
    name = getattr(value, "__name__", "")
    return f"the {kind} {name}({', '.join(names)})"


def function_name(function: object) -> str:
    """Return the name of a function for its tool; raises `InvalidInput`."""
    if isinstance(function, OfClass):
        raise InvalidInput(
            f"@tool must stand directly above def, got {function!r}. A method is a "
            "task or a tool: leave out the other decorator."
        )
    name = getattr(function, "__name__", None)
    if name == "<lambda>":
        msg = "a tool cannot be made from a lambda: a lambda has no name and no types"
        raise InvalidInput(f"{msg}. Write a function with def and annotations.")
    if name is None:
        got = f"{repr(function)[:80]} ({type(function).__name__})"
        msg = f"a tool is made from a function or a bound method, got {got}."
        advice = "Pass the function itself."
        if isinstance(function, str):
            advice = f"Write @tool(name={function[:80]!r})."
        raise InvalidInput(f"{msg} {advice}")
    return str(name)


def check_tool_function(function: object, name: str) -> None:
    """Raise `InvalidInput` for a function that cannot become a tool.

    Annotations are not evaluated here: they may use names that do not exist yet.
    """
    # Since Python 3.14, `isroutine` accepts a partial.
    if isinstance(function, functools.partial) or not inspect.isroutine(function):
        raise InvalidInput(
            f"tool {name}: a tool is made from a function or a bound method, got"
            f" {function!r}. Write a function that calls it."
        )
    if is_generator(function):
        raise InvalidInput(
            f"tool {name}: a generator function cannot be a tool, because its body "
            "would not run. Return a list instead of yield."
        )
    try:
        signature = inspect.signature(function)
    except (NameError, TypeError, ValueError):
        return  # Python 3.14 evaluates annotations late; the first use reports an error
    for parameter in signature.parameters.values():
        _check_parameter(parameter, name)


def _check_parameter(parameter: inspect.Parameter, name: str) -> None:
    unsupported = _UNSUPPORTED_PARAMETER_KINDS.get(parameter.kind)
    if unsupported is not None:
        raise InvalidInput(
            f"tool {name}: the parameter {parameter.name} {unsupported}. Arguments are "
            "passed by name: give each parameter a name of its own."
        )
    if parameter.annotation is parameter.empty:
        advice = "Annotate the parameter."
        if parameter.name in {"self", "cls"}:
            advice = "Make the tool from the bound method: tool(thing.method)."
        msg = f"tool {name}: the parameter {parameter.name} has no type. {advice}"
        raise InvalidInput(msg)


# The text of an annotation whose name exists only under `if TYPE_CHECKING:`.
_CONTEXT_ANNOTATION = (
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
    if isinstance(annotation, str) and re.fullmatch(
        _CONTEXT_ANNOTATION, annotation.strip()
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Docstring:
    """The descriptions in a docstring."""

    description: str
    parameter_descriptions: Mapping[str, str]


def parse_docstring(text: str | None) -> Docstring:
    """Read a docstring in the style of Google, NumPy or reStructuredText.

    A docstring without parameters is the description as a whole. Otherwise the
    description consists of the summary, the text below it and the returned value.
    """
    cleaned = inspect.cleandoc(text or "").strip()
    if "\n" not in cleaned:
        return Docstring(description=cleaned, parameter_descriptions={})
    import docstring_parser  # noqa: PLC0415 - slow to import

    try:
        parsed = docstring_parser.parse(cleaned)
    except docstring_parser.ParseError:
        return Docstring(description=cleaned, parameter_descriptions={})
    parameters = {
        each.arg_name.lstrip("*"): each.description.strip()
        for each in parsed.params
        if each.description
    }
    if not parsed.params:
        return Docstring(description=cleaned, parameter_descriptions={})
    parts = [parsed.description]
    if parsed.returns and parsed.returns.description:
        parts.append(f"Returns: {parsed.returns.description}")
    description = "\n\n".join(part.strip() for part in parts if part)
    return Docstring(description=description, parameter_descriptions=parameters)


_OPTIMIZE_WITHOUT_DOCSTRINGS = 2
# A list of tools is made in a cached property, which `functools` calls.
_SKIPPED = (__name__.partition(".")[0] + ".", "functools")


def warn_author(message: str) -> None:
    """Warn at the line of the application that declares an agent or a tool."""
    frame = inspect.currentframe()
    level = 1
    while frame is not None:
        if not str(frame.f_globals.get("__name__", "")).startswith(_SKIPPED):
            break
        frame = frame.f_back
        level += 1
    warnings.warn(message, UserWarning, stacklevel=level)


def warn_without_docstring(name: str, function: object) -> None:
    """Warn about a tool whose function has no docstring; the model reads it."""
    # `python -OO` removes docstrings.
    if sys.flags.optimize >= _OPTIMIZE_WITHOUT_DOCSTRINGS or function.__doc__:
        return
    warn_author(
        f"tool {name} has no docstring, so the model reads only its name."
        " Write a docstring, or pass description=."
    )
