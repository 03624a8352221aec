"""The event loop on which the code of a workflow runs.

It takes callbacks in the order in which they came. It has no clock, no sockets and no
threads: its time is what the history says. So a replay runs the same callbacks in the
same order. `asyncio` itself is unchanged: `gather`, `TaskGroup`, `timeout`, `Queue` and
the others only need a loop with these methods.
"""

from __future__ import annotations

import asyncio
import heapq
import inspect
import logging
import math
import re
import sys
from collections import Counter, deque
from collections.abc import Coroutine
from contextlib import contextmanager
from itertools import count
from threading import get_ident
from types import CoroutineType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from contextvars import Context

# The functions that asyncio offers to event loops have an underscore.
# ruff: noqa: SLF001

_log = logging.getLogger("continuations")
_MS = 1000
_TASKS_FILE = asyncio.tasks.__file__
# The functions of asyncio that start awaitables in the order of a set.
_UNORDERED = frozenset({"as_completed", "_AsCompletedIterator.__init__"})
# `create_task`, the check, `ensure_future`, perhaps a comprehension, `as_completed`.
_LOOKED_AT_FRAMES = 6
# The name that asyncio gives to a task. It differs from process to process.
_DEFAULT_NAME = re.compile(r"Task-\d+\Z")
_MAX_NAME_CHARS = 60
# People see the tasks of a call down to this depth.
_MAX_TASK_DEPTH = 6
# How many times the cleanup of a coroutine may await before it is left.
_CLOSING_ATTEMPTS = 100


class _Future(asyncio.Future[Any]):
    """A future whose place in a set follows from its number."""

    number: int

    def __hash__(self) -> int:
        return self.number


class FlowTask(asyncio.Task[Any]):
    """A task whose place in a set follows from its number.

    Args:
        number: The number.
        coro: The coroutine that it runs.
        parent: The task that made it, or `None`.
        default_name: Its name for people, if the code gives none. "": it runs one call,
            so people see the call and not the task.
        options: As `asyncio.Task` takes them.
    """

    def __init__(
        self,
        number: int,
        coro: Any,
        parent: FlowTask | None,
        default_name: str,
        **options: Any,
    ) -> None:
        self._number = number  # a task is hashed when it is made
        self._parent = parent
        self._default_name = default_name
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tasks down to this one, without that of the function."""
        names: list[str] = []
        task = self
        while task._parent is not None:
            if task._default_name:
                given = task.get_name()[:_MAX_NAME_CHARS]
                is_given = given and not _DEFAULT_NAME.match(given)
                names.append(given if is_given else task._default_name)
            task = task._parent
        return tuple(reversed(names))[:_MAX_TASK_DEPTH]


if TYPE_CHECKING:
    _Base = Any  # the methods that are refused are not written out
else:
    _Base = asyncio.AbstractEventLoop


class FlowLoop(_Base):  # type: ignore[misc]
    """A loop that runs only in `run_ready` and `advance`."""

    def __init__(self) -> None:
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[int, int, asyncio.TimerHandle]] = []
        # Returns a number that no task, future or call of the loop has.
        self.next_number = count(1).__next__
        self._now = 0
        self._is_closed = False
        # The thread in which the code runs, while it runs. `_get_running_loop` knows it
        # too, and asks the system for it each time.
        self._thread: int | None = None
        self.tasks: dict[FlowTask, None] = {}
        self._task_counts: Counter[str] = Counter()
        self._generators: list[AsyncGenerator[Any, Any]] = []
        # Makes a coroutine of another awaitable, such as `ask(...)`.
        self.coroutine_of: Callable[[Any], Any] = lambda awaitable: awaitable

    # Time ------------------------------------------------------------------------

    def time(self) -> float:
        """Return the time of the history, in seconds."""
        return self._now / _MS

    @property
    def now(self) -> int:
        """The time of the history, in milliseconds."""
        return self._now

    def set_time(self, now: int) -> None:
        """Set the time; it never goes back."""
        self._now = max(self._now, now)

    @property
    def next_timer(self) -> int | None:
        """The time of the earliest timer in milliseconds, or `None`."""
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def advance(self, now: int) -> None:
        """Fire the timers up to a time, each at its own time, and set the time."""
        while (due := self.next_timer) is not None and due <= now:
            self.set_time(due)
            self._ready.append(heapq.heappop(self._timers)[2])
            self.run_ready()
        self.set_time(now)

    def run_ready(self) -> None:
        """Run callbacks until none is ready."""
        if not self._ready:
            return
        if self._thread is not None:
            self._run_callbacks()
            return
        with self.running():
            self._run_callbacks()

    def _run_callbacks(self) -> None:
        ready = self._ready
        while ready:
            handle = ready.popleft()
            if not handle._cancelled:
                try:
                    handle._run()
                except SystemExit:
                    continue  # its task keeps the exception, like every other one

    @contextmanager
    def running(self) -> Generator[None, None, None]:
        """Make this the running loop, and bring the outer one back at the end."""
        outer = asyncio._get_running_loop()
        hooks = sys.get_asyncgen_hooks()
        task = _put_aside_task(outer)
        asyncio._set_running_loop(self)
        thread, self._thread = self._thread, get_ident()
        sys.set_asyncgen_hooks(firstiter=self._generators.append, finalizer=_forget)
        try:
            yield
        finally:
            sys.set_asyncgen_hooks(*hooks)
            self._thread = thread
            asyncio._set_running_loop(outer)
            _restore_task(outer, task)

    # What asyncio calls ------------------------------------------------------------

    def call_soon(
        self,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Run a callback after those that are ready."""
        handle = asyncio.Handle(callback, args, self, context)
        if not self._is_closed:
            self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback after some seconds of the history."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback at a time of the history."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if not self._is_closed and not math.isinf(when):
            due = max(math.ceil(when * _MS - 1e-3), self._now)
            heapq.heappush(self._timers, (due, self.next_number(), handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a cancelled timer is left out when its time comes."""

    def create_future(self) -> asyncio.Future[Any]:
        """Make a future with a number."""
        future = _Future(loop=self)
        future.number = self.next_number()
        return future

    def create_task(
        self,
        coro: Any,
        *,
        name: str | None = None,
        context: Context | None = None,
        **options: Any,
    ) -> asyncio.Task[Any]:
        """Make a task with a number; raises `RuntimeError` for an order by address."""
        if not hasattr(coro, "_number"):  # a call has one, and sets keep its place
            _check_order(coro)
        if type(coro) is not CoroutineType and not isinstance(coro, Coroutine):
            coro = self.coroutine_of(coro)
        options.pop("eager_start", None)
        task = FlowTask(
            *(self.next_number(), coro, self.current_task, self._next_name(coro)),
            loop=self,
            name=name,
            context=context,
        )
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    @property
    def current_task(self) -> FlowTask | None:
        """The task that runs now, or `None` in a callback."""
        task: FlowTask | None = asyncio.current_task(self)  # type: ignore[assignment]
        return task

    def _next_name(self, coro: Any) -> str:
        """Return the name of the next task that runs a function: `pay 2`.

        A call has no code, and `gather` wraps a wait in a coroutine of asyncio: their
        name is empty.
        """
        code = getattr(coro, "cr_code", None) or getattr(coro, "gi_code", None)
        if code is None or code.co_filename == _TASKS_FILE:
            return ""
        name = coro.__name__[:_MAX_NAME_CHARS]
        self._task_counts[name] += 1
        return f"{name} {self._task_counts[name]}"

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self.tasks.pop(task, None)  # type: ignore[call-overload]

    def is_running(self) -> bool:
        """Return whether the code of the workflow runs now."""
        return asyncio._get_running_loop() is self

    def takes_calls(self) -> bool:
        """Return whether the code runs now, and not because the worker has stopped."""
        return self._thread == get_ident() and not self._is_closed

    def is_closed(self) -> bool:
        """Return whether the worker has stopped."""
        return self._is_closed

    def get_debug(self) -> bool:
        """Return `False`: the debug mode of asyncio reads clocks."""
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Log what asyncio reports, such as an exception that no code reads."""
        if not self._is_closed:
            message = context.get("message") or "an exception in a workflow"
            _log.error("workflow: %s", message, exc_info=context.get("exception"))

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Log what asyncio reports."""
        self.call_exception_handler(context)

    async def shutdown_asyncgens(self) -> None:
        """Close the asynchronous generators in the order in which they began."""
        generators, self._generators[:] = list(self._generators), []
        for generator in generators:
            await generator.aclose()

    def put_aside(self) -> None:
        """Close all coroutines, because the worker stops; the rest of them is lost."""
        self._is_closed = True
        self._ready.clear()
        self._timers.clear()
        tasks = [*self.tasks]
        with self.running():
            for task in tasks:
                _close(task.get_coro())
            for generator in self._generators:
                _close_generator(generator)
        self._generators.clear()
        self.tasks.clear()
        self._ready.clear()


def _close(coro: Any) -> None:
    """Close a coroutine; each `await` in its cleanup needs one more attempt."""
    for _ in range(_CLOSING_ATTEMPTS):
        try:
            coro.close()
        except RuntimeError as error:
            if "ignored GeneratorExit" not in str(error):
                return
        except BaseException:  # noqa: BLE001 - the code may raise anything
            return
        else:
            return


def _forget(_generator: AsyncGenerator[Any, Any]) -> None:
    """Do not run the cleanup of a generator that is closed during an `await`.

    Python cannot close it then, and would print the errors of its cleanup.
    """


def _close_generator(generator: AsyncGenerator[Any, Any]) -> None:
    """Close a generator that has yielded a value."""
    for _ in range(_CLOSING_ATTEMPTS):
        try:
            generator.aclose().__await__().send(None)
        except BaseException:  # noqa: BLE001 - it has ended, or raised anything
            return


def _refuse(name: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **options: Any) -> NoReturn:
        del args, options
        raise RuntimeError(
            f"loop.{name}() was called in a workflow: it would not be the same in a "
            "replay. Do this work in a tool, and await flow.call(tool, ...)."
        )

    return refuse


for _name in vars(asyncio.AbstractEventLoop):
    if not _name.startswith("_") and _name not in vars(FlowLoop):
        setattr(FlowLoop, _name, _refuse(_name))


def _check_order(coro: Any) -> None:
    """Raise `RuntimeError` if `as_completed` would start coroutines in no order."""
    frame = inspect.currentframe()
    for _ in range(_LOOKED_AT_FRAMES):
        frame = None if frame is None else frame.f_back
        if frame is None:
            return
        code = frame.f_code
        if code.co_filename == _TASKS_FILE and code.co_qualname in _UNORDERED:
            if hasattr(coro, "close"):
                coro.close()
            raise RuntimeError(
                "as_completed() got coroutines in a workflow: it starts them in the "
                "order of their addresses. Make tasks first: "
                "as_completed([asyncio.create_task(each) for each in ...])."
            )


# Since Python 3.14, a thread has one current task, not one for each loop.
_ONE_TASK_FOR_EACH_THREAD = sys.version_info >= (3, 14)


def _put_aside_task(outer: asyncio.AbstractEventLoop | None) -> Any:
    if not _ONE_TASK_FOR_EACH_THREAD or outer is None:
        return None
    return asyncio.tasks._swap_current_task(outer, None)  # type: ignore[attr-defined]


def _restore_task(outer: asyncio.AbstractEventLoop | None, task: Any) -> None:
    if task is not None and outer is not None:
        asyncio.tasks._swap_current_task(outer, task)  # type: ignore[attr-defined]
