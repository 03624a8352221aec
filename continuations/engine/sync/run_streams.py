"""The events of a run while this process works on it, and its outcome at the end."""

from __future__ import annotations

import asyncio
import warnings
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from continuations.engine.events.event_listeners import EventBuffer
from continuations.engine.sync import portal
from continuations.engine.sync.portal import ONLY_ASYNC
from continuations.errors import ContinuationsError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Generator

    from continuations.core.reading.live_events import RunEvent
    from continuations.engine.event_reading import Cursor

Result = TypeVar("Result")


class AsyncRunStream(Generic[Result]):
    """The events of a run while this process works on it; iterate over it once.

    The work begins with the iteration. It does not wait for a slow reader.

    The iteration ends when the work ends; then `outcome` has its result. An error of
    the work is raised by the iteration, after the events before it. If the iteration is
    left early, the work is cancelled, as `resume` is if its task is cancelled. A run in
    a store can be resumed. A run without a store is lost. `async with` and `aclose` do
    that at once. After a `break` alone, Python does it when it deletes the iterator.

    Args:
        work: Begins the work; its events go to the buffer.
        after: Only later stored events. `None`: those from now on.
    """

    def __init__(
        self,
        work: Callable[[EventBuffer], Coroutine[Any, Any, Result]],
        after: Cursor | None,
    ) -> None:
        self._make_work = work
        self._after = after
        self._buffer: EventBuffer | None = None
        self._task: asyncio.Task[Result] | None = None
        self._is_closed = False
        self._result: tuple[Result] | None = None

    @property
    def outcome(self) -> Result:
        """The result of the work: that of `start`, `resume` or `send`.

        Raises:
            ContinuationsError: The iteration has not ended, or it ended early.
        """
        if self._result is None:
            msg = f"stream.outcome is not available: {self._progress}"
            raise ContinuationsError(msg)
        return self._result[0]

    @property
    def _progress(self) -> str:
        """Why there is no outcome, and what to do."""
        task = self._task
        if not self._is_closed:
            return (
                "the stream was not read to its end. Iterate over all events first."
                if task
                else "no work has begun. Iterate over all events of the stream first."
            )
        if task and task.done() and not task.cancelled() and task.exception():
            name = type(task.exception()).__name__
            return f"the work raised {name}. Handle the error of the iteration."
        return (
            "the stream was closed before its end, which stopped the work. Call "
            "runner.resume_stream(run_id); without a store, begin again."
        )

    def __del__(self) -> None:
        """Warn about a stream that was never read: its run did not begin."""
        if self._task is None and not self._is_closed:
            warnings.warn(
                "a stream was made and never read, so no work began. Iterate over it: "
                "for event in stream, or async for.",
                RuntimeWarning,
                stacklevel=2,
            )

    if not TYPE_CHECKING:

        def __iter__(self) -> Generator[RunEvent]:
            """Name the remedy; type checkers see the mistake by themselves."""
            raise InvalidInput(ONLY_ASYNC)

    async def __aiter__(self) -> AsyncGenerator[RunEvent]:
        """Iterate over the events; leaving the iteration cancels the work.

        Raises:
            ContinuationsError: The stream has ended or was closed, or an error of the
                work.
        """
        self.check_open()
        try:
            while events := await self.read():
                for event in events:
                    yield event
        finally:
            await self.aclose()

    def check_open(self) -> None:
        """Check that the stream may have events.

        Raises:
            ContinuationsError: The stream has ended, or was closed.
        """
        if self._is_closed:
            why = self._progress
            if self._result is not None:
                why = "it was read to its end. Keep the events: events = list(stream)."
            raise ContinuationsError(f"the stream has no more events: {why}")

    async def __aenter__(self) -> Self:
        """Return the stream."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cancel the work if it has not ended."""
        await self.aclose()

    async def read(self) -> list[RunEvent]:
        """Return the next events, at least one; an empty list at the end.

        Returns:
            The events that have happened since the last call.

        Raises:
            ContinuationsError: The errors of the work, after its last event.
        """
        if self._is_closed:
            return []
        if self._task is None or self._buffer is None:
            self._buffer = buffer = EventBuffer(self._after)
            self._task = asyncio.create_task(self._make_work(buffer))
            self._task.add_done_callback(lambda _: buffer.close())
        events = await self._buffer.read()
        if not events:
            self._is_closed = True
            self._result = (self._task.result(),)
        return events

    async def aclose(self) -> None:
        """Cancel the work if it has not ended, and wait until its claim is given up.

        A call in progress that may not be repeated gets some seconds to return.
        """
        self._is_closed = True
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})
        if self._task is not None and not self._task.cancelled():
            self._task.exception()  # asyncio need not report it


class RunStream(Generic[Result]):
    """The events of a run while this process works on it; iterate over it once.

    The work begins with the iteration. It does not wait for a slow reader.

    The iteration ends when the work ends; then `outcome` has its result. An error of
    the work is raised by the iteration, after the events before it. If the loop is left
    early, with `break` or an exception, the work is cancelled, as `resume` is by
    Ctrl-C. A run in a store can be resumed. A run without a store is lost.

    Attributes:
        async_stream: The `AsyncRunStream` of the same work.
    """

    def __init__(self, async_stream: AsyncRunStream[Result]) -> None:
        self.async_stream = async_stream

    @property
    def outcome(self) -> Result:
        """The result of the work: that of `start`, `resume` or `send`.

        Raises:
            ContinuationsError: The iteration has not ended, or it ended early.
        """
        return self.async_stream.outcome

    def __iter__(self) -> Generator[RunEvent]:
        """Iterate over the events; leaving the iteration cancels the work.

        Raises:
            ContinuationsError: The stream has ended or was closed, or an error of the
                work.
        """
        try:
            self.async_stream.check_open()
            # A round trip to the other thread costs more than many events.
            while events := portal.run_until_complete(self.async_stream.read()):
                yield from events
        finally:
            self.close()

    def __enter__(self) -> Self:
        """Return the stream."""
        return self

    def __exit__(self, *_: object) -> None:
        """Cancel the work if it has not ended."""
        self.close()

    def close(self) -> None:
        """Cancel the work if it has not ended, and wait until its claim is given up.

        A call in progress that may not be repeated gets some seconds to return.
        """
        portal.run_until_complete(self.async_stream.aclose())
