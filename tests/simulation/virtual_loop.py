"""An event loop whose time is told, not spent; what stands still in it stands still.

There are no sockets, no threads and no waiting: when nothing is ready, the clock jumps
to the next timer. Every callback belongs to the simulated process in whose context it
was made. A process that is frozen or dead runs nothing at all: what would have run is
held, and goes on when the process wakes, or never.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

# What belongs to no process: the network, the store, fate. Never frozen.
NO_PROCESS = Context()


class Owner(Protocol):
    """Whom callbacks belong to."""

    stopped: bool
    held_callbacks: list[asyncio.Handle]
    tasks: list[asyncio.Task[Any]]


OWNER: ContextVar[Owner | None] = ContextVar("OWNER", default=None)


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs until nothing is left to happen."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timer_count = 0
        self.errors: list[str] = []
        self.set_exception_handler(self._record_error)

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._now

    def call_soon(  # type: ignore[override] # pyright: ignore[reportIncompatibleMethodOverride]
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        """Have something called next."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    # A generator that is dropped half-way is closed by this one.
    call_soon_threadsafe = call_soon  # type: ignore[assignment] # pyright: ignore[reportAssignmentType]

    def call_at(  # type: ignore[override] # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Any = None,
    ) -> asyncio.TimerHandle:
        """Have something called at a virtual time."""
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
        """Make a task, which belongs to the process that makes it."""
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
        """Let everything happen that is going to."""
        self.run_forever()

    def release_held(self, owner: Owner) -> None:
        """Let a process go on with what was held."""
        self._ready.extend(owner.held_callbacks)
        owner.held_callbacks.clear()

    def _run_once(self) -> None:
        soon = self._ready
        while soon:
            handle = soon.popleft()
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
                soon.append(timer)
                return
        self.stop()

    def _record_error(
        self, _: asyncio.AbstractEventLoop, context: dict[str, Any]
    ) -> None:
        error = context.get("exception")
        self.errors.append(f"{context.get('message')}: {error!r}")
