"""An event loop with virtual time, in which simulated processes freeze and die.

There are no sockets, no threads and no waiting: when nothing is ready, the clock jumps
to the next timer. Every callback belongs to the simulated process in whose context it
was made. A frozen or dead process runs nothing: the loop holds its callbacks until the
process wakes. A dead process never wakes.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar
from functools import partial
from typing import Any, Protocol
from unittest import mock

from continuations.authoring import callables

# The context of callbacks of the store, the network and the faults. Never frozen.
NO_PROCESS = Context()


class Owner(Protocol):
    """The owner of callbacks: a simulated process."""

    stopped: bool
    held_callbacks: list[asyncio.Handle]
    tasks: list[asyncio.Task[Any]]


OWNER: ContextVar[Owner | None] = ContextVar("OWNER", default=None)


async def _run_without_thread(function: Callable[[], Any]) -> Any:
    """Run a plain function; the loop would be idle while a thread worked."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    settle: Callable[[], None]
    try:
        settle = partial(future.set_result, function())
    except Exception as error:  # noqa: BLE001 - the caller raises it again
        settle = partial(future.set_exception, error)
    loop.call_soon(lambda: None if future.done() else settle())
    return await future


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop that runs until no callback and no timer is left."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timer_count = 0
        self.errors: list[str] = []
        self.set_exception_handler(self._record_error)

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override] # pyright: ignore[reportIncompatibleMethodOverride]
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        """Call a function next."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    # Python closes an unfinished asynchronous generator through this method.
    call_soon_threadsafe = call_soon  # type: ignore[assignment] # pyright: ignore[reportAssignmentType]

    def call_at(  # type: ignore[override] # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Any = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._timer_count += 1
        heapq.heappush(self._timers, (when, self._timer_count, handle))
        return handle

    def create_task(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        coro: Generator[Any, None, Any] | Coroutine[Any, Any, Any],
        *,
        name: object = None,
        context: Context | None = None,
        **_: Any,
    ) -> asyncio.Task[Any]:
        """Create a task, which belongs to the process that creates it."""
        task: asyncio.Task[Any] = asyncio.Task(
            coro,
            loop=self,
            name=str(name) if name else "-",
            context=context,
        )
        owner = context.get(OWNER) if context is not None else OWNER.get()
        if owner is not None:
            owner.tasks.append(task)
        return task

    def run_until_idle(self) -> None:
        """Run until no callback and no timer is left."""
        with mock.patch.object(callables, "run_in_thread", _run_without_thread):
            self.run_forever()

    def release_held(self, owner: Owner) -> None:
        """Schedule the callbacks that were held for a process."""
        self._ready.extend(owner.held_callbacks)
        owner.held_callbacks.clear()

    def _run_once(self) -> None:
        ready = self._ready
        while ready:
            handle = ready.popleft()
            if handle.cancelled():
                continue
            owner = handle._context.get(OWNER)  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
            if owner is not None and owner.stopped:
                owner.held_callbacks.append(handle)
            else:
                handle._run()
        while self._timers:
            when, _, timer = heapq.heappop(self._timers)
            if not timer.cancelled():
                self._now = max(self._now, when)
                ready.append(timer)
                return
        self.stop()

    def _record_error(
        self, _: asyncio.AbstractEventLoop, context: dict[str, Any]
    ) -> None:
        error = context.get("exception")
        self.errors.append(f"{context.get('message')}: {error!r}")
