"""Events as server-sent events, for `EventSource` of a browser.

A response has the events after `Last-Event-ID` and ends. The browser then asks again by
itself, from the last event on, so a connection may break anywhere. With `?wait=20`, a
response waits so many seconds for the next event. Whole responses work on every
framework and gateway, and no open connection delays the end of a server.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from continuations.core.run import ENDED_STATUSES
from continuations.ledger import thread_ids
from continuations.present.json_forms import event_json
from continuations.serve.http import problems, request_fields
from continuations.serve.http.request_response import NO_STORE_HEADERS, Response

if TYPE_CHECKING:
    from continuations.core.messages import Detail
    from continuations.core.run_stream import StreamEvent
    from continuations.serve.http.request_context import RequestContext
    from continuations.serve.http.request_response import Request

MEDIA_TYPE = "text/event-stream"
# The time after which a browser asks again, in milliseconds.
RETRY_LINE = "retry: 1000\n\n"
# Seconds between two looks for events.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 2.0


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


def last_place(request: Request, agent: str, key: str) -> tuple[str, str]:
    """Return the run and the cursor that the last event of a thread had."""
    run_id, _, cursor = last_id(request).rpartition("/")
    if run_id and not thread_ids.is_generation(run_id, agent, key):
        msg = '"Last-Event-ID" is not the id of an event of this thread.'
        raise problems.malformed(msg)
    return run_id, cursor


def last_id(request: Request) -> str:
    """Return the id of the last event that a client has, "" for none."""
    return request.headers.get("last-event-id", "")


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


def data_line(value: Any) -> str:
    """Return the end of a server-sent event whose data is a JSON value."""
    # One line, in ASCII: no character of a text ends the field.
    return f"data: {json.dumps(value, ensure_ascii=True, allow_nan=False)}\n\n"


def _response(events: list[StreamEvent], prefix: str, detail: Detail) -> Response:
    lines = (
        f"id: {prefix}{event.cursor}\n{data_line(event_json(event, detail))}"
        for event in events
    )
    return Response(
        status=200,
        headers={"content-type": MEDIA_TYPE, **NO_STORE_HEADERS},
        body=RETRY_LINE + "".join(lines),
    )
