"""The last check before a tool's function begins, in the thread or task that calls it.

A worker checks its claim before it launches a call. If the machine is busy, the call
may begin much later: its task waits for the event loop, or its thread for a processor.
So the claim is checked again, at once before the function is called.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

from continuations.authoring import callables
from continuations.authoring.tool_waits import check_returned, record_waits

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

_current: ContextVar[CallGate | None] = ContextVar("call_gate", default=None)


class CallNotBegun(BaseException):
    """The gate is closed, so the function was not called. No error of the tool."""


class CallGate:
    """Lets one call begin, or never begin; both are asked from different threads.

    Args:
        may_begin: Whether the call may begin now; called in the thread of the call.
        may_repeat: Whether the worker still begins calls, so also a further attempt.

    Attributes:
        has_begun: Whether the function was called.
        is_out_of_time: Whether the call has begun and did not return in time.
    """

    def __init__(
        self,
        may_begin: Callable[[], bool],
        may_repeat: Callable[[], bool] = lambda: True,
    ) -> None:
        self.has_begun = False
        self.is_out_of_time = False
        self._may_begin = may_begin
        self._may_repeat = may_repeat
        self._on_begin: Callable[[], object] | None = None
        self._closed = False
        self._lock = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether a call may begin now, also after an earlier one has begun."""
        return not self._closed and self._may_begin()

    @property
    def is_closed(self) -> bool:
        """Whether the call is cancelled or its worker stops: it begins no more."""
        return self._closed

    @property
    def may_be_repeated(self) -> bool:
        """Whether this worker may begin a further attempt of the call."""
        return self._may_repeat()

    @contextmanager
    def as_current(self) -> Generator[None]:
        """Make this the gate of the call that the current task makes."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def enter(self) -> None:
        """Record that the function is called now; raises `CallNotBegun` if it must not.

        Nothing stands between this check and the function but the call itself.
        """
        with self._lock:
            if self._closed or not (self.has_begun or self._may_begin()):
                raise CallNotBegun
            if self._on_begin is not None and not self.has_begun:
                self._on_begin()
            self.has_begun = True

    def close(self) -> None:
        """Let the call not begin any more; a call that has begun goes on."""
        with self._lock:
            self._closed = True

    @asynccontextmanager
    async def time_limit(self, seconds: float | None) -> AsyncGenerator[None]:
        """Raise `TimeoutError` if the call does not return in time; `None`: no limit.

        The time counts from the begin of the call, so a call that is out of time has
        begun. Before that, its thread may wait for a processor, without a limit.
        """
        if seconds is None:
            yield
            return
        loop = asyncio.get_running_loop()
        limit = asyncio.timeout(None)
        returned = False

        def start() -> None:
            if not returned:
                limit.reschedule(loop.time() + seconds)

        self._on_begin = partial(loop.call_soon_threadsafe, start)
        try:
            async with limit:
                if self.has_begun:
                    start()
                try:
                    yield
                finally:
                    returned = True
        finally:
            self.is_out_of_time = limit.expired()


def current_gate() -> CallGate:
    """Return the gate of the call that the current task makes."""
    gate = _current.get()
    assert gate is not None  # noqa: S101 - the run loop makes one for each call
    return gate


async def begin_call(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a tool's function like `callables.call`, if the gate of the task allows it.

    Raises `CallNotBegun` if the call comes too late, and `WaitNotReturned` if the
    function makes a wait and does not return it.
    """
    made = record_waits()
    gate = _current.get()
    # The function may run other agents. Their calls have gates of their own.
    _current.set(None)

    def enter_and_call() -> Any:
        if gate is not None:
            gate.enter()
        return function(*args, **kwargs)

    if inspect.iscoroutinefunction(function):
        result: object = await enter_and_call()
    else:
        result = await callables.call(enter_and_call)
    if made:
        check_returned(made, result)
    return result
