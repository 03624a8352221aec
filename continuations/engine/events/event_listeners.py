"""Hand the events of a run to those who listen, without a wait for any of them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from continuations.authoring import callables
from continuations.core.reading.live_events import LIVE_EVENT_TYPES, RunEvent
from continuations.engine.ports import EventSinks

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Sequence

    from continuations.engine.event_reading import Cursor
    from continuations.engine.ports import EventSink, OnEvent
    from continuations.engine.worker_options import RunOptions

_log = logging.getLogger("continuations")
# Above so many unread events, live ones are left out. The stored ones never are.
MAX_UNREAD = 10_000
# A function that handles no event for so many seconds after the work is dropped.
_GRACE_SECONDS = 10.0
# After Ctrl-C, the functions get events for so many seconds more.
_CANCELLED_SECONDS = 1.0


class EventBuffer:
    """Keeps events until they are read.

    Attributes:
        after: Only later stored events are wanted. `None`: those after the version that
            the worker finds.
    """

    def __init__(self, after: Cursor | None = None) -> None:
        self.after = after
        self._events: deque[RunEvent] = deque()
        self._changed = asyncio.Event()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._events)

    def __call__(self, event: RunEvent) -> None:
        """Keep an event, as `put`: a buffer is a listener."""
        self.put(event)

    def put(self, event: RunEvent) -> None:
        """Keep an event."""
        if self._is_closed:
            return
        is_full = len(self._events) >= MAX_UNREAD
        if is_full and isinstance(event, LIVE_EVENT_TYPES):
            return
        self._events.append(event)
        self._changed.set()

    def listens(self, run_id: str) -> bool:
        """Return True: a buffer takes every event."""
        del run_id
        return True

    def close(self) -> None:
        """Take no more events; those that are kept can be read."""
        self._is_closed = True
        self._changed.set()

    async def read(self) -> list[RunEvent]:
        """Return the unread events; an empty list if there will be no more."""
        while not self._events and not self._is_closed:
            self._changed.clear()
            await self._changed.wait()
        events = [*self._events]
        self._events.clear()
        return events


class _FunctionListener:
    """Calls a function of the application with each event, in order.

    An exception of the function ends that, and nothing else.
    """

    def __init__(self, function: OnEvent) -> None:
        self._function = function
        self._handled = 0
        self._buffer = EventBuffer()
        self.put, self.listens = self._buffer.put, self._buffer.listens
        self._task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        while events := await self._buffer.read():
            for event in events:
                if not await self._calls(event):
                    self._buffer.close()
                    return
                self._handled += 1

    async def _calls(self, event: RunEvent) -> bool:
        try:
            await callables.call(self._function, event)
        except BaseException as error:
            if callables.is_task_cancellation(error):
                raise
            _log.exception(
                "run %s: on_event raised, so it gets no more events", event.run_id
            )
            return False
        return True

    async def finish(self) -> None:
        """Wait until the function has handled all events, or stands still."""
        self._buffer.close()
        try:
            while not self._task.done():
                handled = self._handled
                await asyncio.wait({self._task}, timeout=_GRACE_SECONDS)
                if not self._task.done() and handled == self._handled:
                    text = "on_event needs more than %g s, so it gets no more events"
                    _log.warning(text, _GRACE_SECONDS)
                    return
        finally:
            self._task.cancel()

    async def finish_soon(self) -> None:
        """Wait a moment for the function: the work was cancelled, so a person waits."""
        self._buffer.close()
        try:
            await asyncio.wait({self._task}, timeout=_CANCELLED_SECONDS)
        finally:
            self._task.cancel()


@asynccontextmanager
async def listening(
    run_options: RunOptions,
    listeners: Iterable[OnEvent],
    observers: Sequence[EventSink] = (),
) -> AsyncGenerator[RunOptions]:
    """Return the options of work whose events the listeners and observers get.

    At the end, each function has handled the events that came before. If the work was
    cancelled, the function gets a moment for those that it has not handled.
    """
    buffers: list[EventBuffer] = []
    functions: list[_FunctionListener] = []
    for each in listeners:
        if isinstance(each, EventBuffer):
            buffers.append(each)
        else:
            functions.append(_FunctionListener(each))
    try:
        yield replace(
            run_options,
            events=EventSinks(observers, [*buffers, *functions]),
            events_after=buffers[0].after if buffers else None,
        )
    except asyncio.CancelledError:
        await asyncio.gather(*(function.finish_soon() for function in functions))
        raise
    except BaseException:
        await _finish(functions)
        raise
    await _finish(functions)


async def _finish(functions: Iterable[_FunctionListener]) -> None:
    for function in functions:
        await function.finish()
