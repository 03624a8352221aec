"""Events as server-sent events: stored ones, words while they are written, and work.

- *Stored events*, for `EventSource` of a browser. A response has the events after
  `Last-Event-ID` and ends. The browser then asks again by itself, from the last event
  on, so a connection may break anywhere. With `?wait=20`, a response waits so many
  seconds for the next event. Whole responses work on every framework and gateway, and
  no open connection delays the end of a server.
- *Words of a thread* while they are written. A response ends after a time, so that no
  open connection delays the end of a server for long. The browser connects again, and
  gets the words of the present reply from their beginning.
- *Work for one request*, with its events while it goes on. A client that leaves does
  not stop the work: the reply is stored, and another request reads it. Only an identity
  that may read the transcript gets such a stream.

Live events have no id. The id of a stored event is the same in each of these streams,
so a client goes on in another one.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

from continuations.core.reading.live_events import BaseLiveEvent, RunEvent
from continuations.core.rows.run import ENDED_STATUSES
from continuations.engine.event_reading import Cursor
from continuations.engine.events.event_listeners import EventBuffer
from continuations.errors import ContinuationsError
from continuations.ledger import layout
from continuations.present.json_forms import event_json
from continuations.serve.http import problems, request_fields
from continuations.serve.http.request_response import NO_STORE_HEADERS, Response
from continuations.serve.operation_calls import outcome_response
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence

    from continuations.core.messages import Detail
    from continuations.core.reading.run_stream import StreamEvent
    from continuations.engine.outcomes import Outcome, SendResult
    from continuations.engine.sync.portal import Flattened
    from continuations.engine.threads.async_ticket import AsyncTicket
    from continuations.serve.http.request_context import RequestContext
    from continuations.serve.http.request_response import Request

MEDIA_TYPE = "text/event-stream"
# The time after which a browser asks again, in milliseconds.
RETRY_LINE = "retry: 1000\n\n"
_RETRY_SOON_LINE = "retry: 250\n\n"
# Seconds between two looks for events.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 2.0
# A response with the words of a thread ends after so many seconds.
STREAM_SECONDS = 25.0
# A request whose work fails within so many seconds gets the status of its problem.
_FIRST_WAIT = 2.0
# A proxy may end a connection on which nothing is sent for a minute, in seconds.
KEEP_ALIVE = 15.0
KEEP_ALIVE_LINE = ": still working\n\n"
# asyncio keeps no task alive.
_tasks: set[asyncio.Task[Any]] = set()


def last_place(request: Request, agent: str, key: str) -> tuple[str, str]:
    """Return the run and the cursor that the last event of a thread had."""
    run_id, _, cursor = last_id(request).rpartition("/")
    if run_id and not layout.is_generation(run_id, agent, key):
        msg = '"Last-Event-ID" is not the id of an event of this thread.'
        raise problems.malformed(msg)
    return run_id, cursor


def last_id(request: Request) -> str:
    """Return the id of the last event that a client has, "" for none."""
    return request.headers.get("last-event-id", "")


def data_line(value: Any) -> str:
    """Return the end of a server-sent event whose data is a JSON value."""
    # One line, in ASCII: no character of a text ends the field.
    return f"data: {json.dumps(value, ensure_ascii=True, allow_nan=False)}\n\n"


def _event_lines(event: RunEvent, detail: Detail, prefix: str) -> str:
    """Return an event; the id of a stored one is its cursor after the prefix."""
    line = data_line(event_json(event, detail))
    if isinstance(event, BaseLiveEvent):
        return line
    return f"id: {prefix}{event.cursor}\n{line}"


def live_response(chunks: AsyncIterator[str]) -> Response:
    """Return server-sent events that come one after the other."""
    # With this header nginx sends each part at once.
    headers = {"content-type": MEDIA_TYPE, "x-accel-buffering": "no"}
    return Response(status=200, headers={**headers, **NO_STORE_HEADERS}, chunks=chunks)


# Stored events ------------------------------------------------------------------


def is_wanted(request: Request) -> bool:
    """Return whether a request asks for server-sent events."""
    return MEDIA_TYPE in request.headers.get("accept", "")


async def of_run(context: RequestContext, run_id: str) -> Response:
    """Return the next events of a run, or 204 if the run has ended: ask no more."""
    query = request_fields.query(context)
    after = last_id(context.request) or query.get("after", "")
    events = await _read_events(context, run_id, after)
    if not events:
        if (await context.runner.look(run_id)).status in ENDED_STATUSES:
            return Response(status=204, headers=NO_STORE_HEADERS)
        events = await _next_events(context, run_id, after)
    return _response(events, "", await context.detail(run_id))


async def of_thread(context: RequestContext, agent: str, key: str) -> Response:
    """Return the next events of a thread. Their ids are `run_id/cursor`."""
    request_fields.query(context)
    run = await context.runner.thread(agent, key=key).look()
    if run is None:
        raise problems.no_such_message()
    earlier, cursor = last_place(context.request, agent, key)
    if earlier and earlier != run.run_id:
        # The thread was closed and opened again since: first the rest of the other run.
        events = await _read_events(context, earlier, cursor)
        if events:
            detail = await context.detail(earlier)
            return _response(events, f"{earlier}/", detail)
        cursor = ""
    events = await _next_events(context, run.run_id, cursor)
    detail = await context.detail(run.run_id)
    return _response(events, f"{run.run_id}/", detail)


async def _next_events(
    context: RequestContext, run_id: str, after: str
) -> list[StreamEvent]:
    """Return the events after a cursor; wait for them as long as the query says."""
    loop = asyncio.get_running_loop()
    end = loop.time() + request_fields.query(context)["wait"]
    pause = _FIRST_PAUSE
    while True:
        events = await _read_events(context, run_id, after)
        time_left = end - loop.time()
        if events or time_left <= 0:
            return events
        await asyncio.sleep(min(pause, time_left))
        pause = min(2 * pause, _LONGEST_PAUSE)


async def _read_events(
    context: RequestContext, run_id: str, after: str
) -> list[StreamEvent]:
    limit = request_fields.query(context)["limit"]
    events: list[StreamEvent] = []
    async for event in context.runner.events(run_id, after=after):
        events.append(event)
        if len(events) == limit:
            break
    return events


def _response(events: list[StreamEvent], prefix: str, detail: Detail) -> Response:
    lines = (_event_lines(event, detail, prefix) for event in events)
    return Response(
        status=200,
        headers={"content-type": MEDIA_TYPE, **NO_STORE_HEADERS},
        body=RETRY_LINE + "".join(lines),
    )


# Words of a thread ---------------------------------------------------------------


async def words_of_thread(context: RequestContext, agent: str, key: str) -> Response:
    """Return the events of a thread after `Last-Event-ID`, as they come.

    A thread without a message has no events yet.
    """
    thread = context.runner.thread(agent, key=key)
    run_id, cursor = last_place(context.request, agent, key)
    after = f"{run_id}/{cursor}" if run_id else ""
    follow = thread.follow(after=after, words=True)
    events = cast("Flattened[RunEvent]", follow)
    return live_response(_words(context, events.batches))


async def _words(
    context: RequestContext, batches: AsyncIterator[list[RunEvent]]
) -> AsyncIterator[str]:
    yield _RETRY_SOON_LINE
    buffer = EventBuffer()
    reader = asyncio.create_task(_read_into(buffer, batches))
    details: dict[str, Detail | None] = {}
    try:
        async with asyncio.timeout(STREAM_SECONDS):
            while events := await buffer.read():
                for event in events:
                    if event.run_id not in details:
                        details[event.run_id] = await _detail(context, event.run_id)
                    text = _readable_lines(event, details[event.run_id])
                    if text:
                        yield text
    except TimeoutError:
        return
    finally:
        reader.cancel()


async def _read_into(
    buffer: EventBuffer, batches: AsyncIterator[list[RunEvent]]
) -> None:
    """Read until the response ends; after an error, the browser connects again."""
    try:
        async for events in batches:
            for event in events:
                buffer.put(event)
    except ContinuationsError:
        return
    finally:
        buffer.close()


async def _detail(context: RequestContext, run_id: str) -> Detail | None:
    """Return which texts of a run the client may read; `None`: not even its events."""
    if not await context.may("view", run_id):
        return None
    return await context.detail(run_id)


def _readable_lines(event: RunEvent, detail: Detail | None) -> str:
    """Return the lines of an event; none for words that the client may not read."""
    is_live = isinstance(event, BaseLiveEvent)
    if detail is None or (is_live and detail != "transcript"):
        return ""
    return _event_lines(event, detail, f"{event.run_id}/")


# Work for one request -------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """A server-sent event with a name of its own. Events of runs have another form."""

    name: str
    data: Any

    def text(self) -> str:
        """Return the lines."""
        return f"event: {self.name}\n{data_line(self.data)}"


async def work_on_message(
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


async def work_on_run(
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
        form = await outcome_response(context, outcome)
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
        return live_response(self._chunks(task, first, events))

    async def _result(
        self, work: Callable[[EventBuffer], Coroutine[Any, Any, _Named]]
    ) -> _Named | problems.Problem:
        """Do the work; an error is logged here, because the client may have left."""
        try:
            return await work(self._buffer)
        except Exception as error:  # noqa: BLE001 - every error is an event or response
            operation = f"{self._context.request.method} as events"
            return problems.from_error(error, operation, self._context.clock.now())

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
                yield "".join(lines) or KEEP_ALIVE_LINE
                events = await self._next(KEEP_ALIVE)
        finally:
            # Without a reader nothing is kept; the work goes on.
            self._buffer.close()
        result = task.result()
        if isinstance(result, problems.Problem):
            result = _Named(name="error", data=result.body())
        yield result.text()

    async def _next(self, seconds: float) -> list[RunEvent] | None:
        """Return the next events; `[]` at the end, `None` before the next one."""
        try:
            async with asyncio.timeout(seconds):
                return await self._buffer.read()
        except TimeoutError:
            return None

    def _text(self, event: RunEvent) -> str:
        prefix = f"{event.run_id}/" if self._is_thread else ""
        return _event_lines(event, "transcript", prefix)
