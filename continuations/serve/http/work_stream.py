"""Work for one request, and send its events while it goes on.

A client that leaves does not stop the work: the reply is stored, and another request
reads it. The ids of stored events are those of `event_stream`, so a client goes on
there, or repeats the request. Live events have no id. Only an identity that may read
the transcript gets such a stream.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from continuations.core.live_events import BaseLiveEvent
from continuations.engine.event_listeners import EventBuffer
from continuations.engine.event_reading import Cursor
from continuations.present.json_forms import event_json
from continuations.serve.http import problems
from continuations.serve.http.event_stream import (
    MEDIA_TYPE,
    RETRY_LINE,
    data_line,
    last_id,
)
from continuations.serve.http.request_response import NO_STORE_HEADERS, Response
from continuations.serve.run_responses import outcome_response
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence

    from continuations.core.live_events import RunEvent
    from continuations.engine.async_ticket import AsyncTicket
    from continuations.engine.outcomes import Outcome, SendResult
    from continuations.serve.http.request_context import RequestContext

# A request that fails within so many seconds gets the status of its problem.
_FIRST_WAIT = 2.0
# A proxy may end a connection on which nothing is sent for a minute, in seconds.
_KEEP_ALIVE = 15.0
_KEEP_ALIVE_LINE = ": still working\n\n"
# With this header nginx sends each part at once.
_HEADERS = {"content-type": MEDIA_TYPE, "x-accel-buffering": "no", **NO_STORE_HEADERS}
# asyncio keeps no task alive.
_tasks: set[asyncio.Task[Any]] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """A server-sent event with a name, which is no event of a run."""

    name: str
    data: Any

    def text(self) -> str:
        """Return the lines."""
        return f"event: {self.name}\n{data_line(self.data)}"


async def of_message(
    context: RequestContext,
    ticket: AsyncTicket[Any],
    place: tuple[str, str],
    posted: Any,
    form_of: Callable[[SendResult[Any]], Awaitable[Any]],
) -> Response:
    """Work on a thread until a message has its reply, and send the events.

    Args:
        context: The request.
        ticket: The ticket of the message, which is posted.
        place: The run and the cursor of the last event that the client has.
        posted: The form that says which message was posted.
        form_of: Returns the form of the result.

    Returns:
        The events after the message was posted, or after `place`; then the result.
    """
    earlier, cursor = place
    after = Cursor(ticket.posted_after + 1)
    if earlier:
        after = Cursor.parse(cursor if earlier == ticket.run_id else "")

    async def work(events: EventBuffer) -> _Named:
        if earlier and earlier != ticket.run_id:
            # The thread was closed and opened again since: first the rest of that run.
            async for event in context.runner.events(earlier, after=cursor):
                events.put(event)
        result = await ticket.reply(on_event=events)
        return _Named(name="reply", data=await form_of(result))

    first = _Named(name="posted", data=posted)
    return await _WorkStream(context, after, is_thread=True).response(work, [first])


async def of_run(
    context: RequestContext,
    begin: Callable[..., Coroutine[Any, Any, Outcome]],
    *,
    is_new: bool,
) -> Response:
    """Work on a run until it ends or waits, and send the events.

    Args:
        context: The request.
        begin: Does the work; it takes `on_event`.
        is_new: Without `Last-Event-ID`, send all events, not only new ones.

    Returns:
        The events after `Last-Event-ID`, or those of the work; then the outcome.
    """
    known = last_id(context.request)
    after = Cursor.parse(known) if known or is_new else None

    async def work(events: EventBuffer) -> _Named:
        outcome = await begin(on_event=events)
        form = await outcome_response(
            context.runner.store, context.clock, outcome, "transcript"
        )
        return _Named(name="outcome", data=form)

    return await _WorkStream(context, after, is_thread=False).response(work, [])


class _WorkStream:
    """The events of the work for one request."""

    def __init__(
        self, context: RequestContext, after: Cursor | None, *, is_thread: bool
    ) -> None:
        self._context = context
        self._buffer = EventBuffer(after)
        self._is_thread = is_thread

    async def response(
        self,
        work: Callable[[EventBuffer], Coroutine[Any, Any, _Named]],
        first: Sequence[_Named],
    ) -> Response:
        """Begin the work; return a problem if it fails before its first event."""
        task = asyncio.create_task(self._result(work))
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)
        task.add_done_callback(lambda _: self._buffer.close())
        events = await self._next(_FIRST_WAIT)
        if events == []:
            result = task.result()
            if isinstance(result, problems.Problem):
                return result.response()
        chunks = self._chunks(task, first, events)
        return Response(status=200, headers=_HEADERS, chunks=chunks)

    async def _result(
        self, work: Callable[[EventBuffer], Coroutine[Any, Any, _Named]]
    ) -> _Named | problems.Problem:
        """Do the work; an error is logged here, because the client may have left."""
        try:
            return await work(self._buffer)
        except Exception as error:  # noqa: BLE001 - every error is an event or response
            request = self._context.request
            return problems.from_error(
                error,
                now=self._context.clock.now(),
                operation=f"{request.method} as events",
            )

    async def _chunks(
        self,
        task: asyncio.Task[_Named | problems.Problem],
        first: Sequence[_Named],
        events: list[RunEvent] | None,
    ) -> AsyncIterator[str]:
        yield RETRY_LINE + "".join(each.text() for each in first)
        try:
            while events != []:
                lines = [self._text(event) for event in events or ()]
                yield "".join(lines) or _KEEP_ALIVE_LINE
                events = await self._next(_KEEP_ALIVE)
        finally:
            # Without a reader nothing is kept; the work goes on.
            self._buffer.close()
        result = task.result()
        if isinstance(result, problems.Problem):
            result = _Named(name="error", data=result.body())
        yield result.text()

    async def _next(self, seconds: float) -> list[RunEvent] | None:
        """Return the next events; `[]` at the end, `None` if there are none yet."""
        try:
            async with asyncio.timeout(seconds):
                return await self._buffer.read()
        except TimeoutError:
            return None

    def _text(self, event: RunEvent) -> str:
        if isinstance(event, BaseLiveEvent):
            return data_line(event_json(event, "transcript"))
        prefix = f"{event.run_id}/" if self._is_thread else ""
        line = data_line(event_json(event, "transcript"))
        return f"id: {prefix}{event.cursor}\n{line}"
