"""The operations of threads over HTTP: post, read, stop, close.

The sender is the identity of the request, as for decisions; no body names it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from continuations.present import json_forms
from continuations.serve.http import event_stream, problems, request_fields
from continuations.serve.http.request_context import HTTP, RequestContext, RouteHandler
from continuations.serve.http.request_response import Response, json_response
from continuations.serve.operation_calls import reply_response, report_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.engine.outcomes import SendResult
    from continuations.engine.threads.async_thread import AsyncThread
    from continuations.engine.threads.async_ticket import AsyncTicket

_NUMBER_DIGITS = 18


def _thread(context: RequestContext) -> AsyncThread[Any]:
    params = context.path_params
    return context.runner.thread(params["agent"], key=params["key"])


async def post_message(context: RequestContext) -> Response:
    """Post a message, then work until it has its reply; `"wait": false` only posts.

    A client that asks for server-sent events gets the words while they are written.
    """
    fields = request_fields.body(context)
    names = ("id", "when_busy")
    options: Any = {name: fields[name] for name in names if name in fields}
    place = ("", "")
    thread = _thread(context)
    # Without agents, this process only posts.
    wait = fields.get("wait", True) and thread.can_work
    streams = wait and context.request.wants_live_events
    if streams:
        params = context.path_params
        place = event_stream.last_place(context.request, params["agent"], params["key"])
    ticket = await thread.post(
        request_fields.text_with_files(fields, fields["text"]),
        by=context.identity,
        door=HTTP,
        **options,
    )
    about = json_forms.Report(context.clock.now())
    form = json_forms.reply_json(
        None, about, run_id=ticket.run_id, number=ticket.number
    )
    if streams:
        return await event_stream.work_on_message(
            context, ticket, place, form, partial(_worked_form, context, ticket)
        )
    if wait:
        return _reply_response(
            await _worked_form(context, ticket, await ticket.reply())
        )
    woken = await context.wake(ticket.run_id)
    return json_response({**form, "woken": woken}, 202)


async def _worked_form(
    context: RequestContext, ticket: AsyncTicket[Any], result: SendResult[Any]
) -> dict[str, Any]:
    # The time may be up, for example in AWS Lambda.
    woken = getattr(result, "paused", False) and await context.wake(ticket.run_id)
    form = await reply_response(context, result, ticket.number)
    return {**form, "woken": woken}


async def show_message(context: RequestContext) -> Response:
    """Return the reply to a message, or 202 while it is missing; nothing runs."""
    number = request_fields.digits(context.path_params["number"], _NUMBER_DIGITS)
    if not number:
        raise problems.malformed("The number of a message is 1 or greater.")
    query = request_fields.query(context)
    ticket = await _thread(context).ticket(number, run_id=query.get("run_id"))
    result = None if ticket is None else await ticket.look()
    if ticket is None or result is None:
        raise problems.no_such_message()
    return _reply_response(await reply_response(context, result, ticket.number))


def _reply_response(form: dict[str, Any]) -> Response:
    is_missing = form["status"] in ("queued", "suspended")
    return json_response(form, 202 if is_missing else 200)


async def show(context: RequestContext) -> Response:
    """Show a thread with its conversation."""
    run = await _thread(context).look()
    if run is None:
        raise problems.no_such_message()
    report = await report_of(context, run.run_id, run)
    return json_response(json_forms.thread_json(run, report))


async def stream_events(context: RequestContext) -> Response:
    """Return the next events of a thread, as server-sent events.

    With `words=true`, also its words while they are written, if the framework can send
    a response in parts.
    """
    params = context.path_params
    words = request_fields.query(context)["words"]
    if words and context.request.can_stream:
        return await event_stream.words_of_thread(
            context, params["agent"], params["key"]
        )
    return await event_stream.of_thread(context, params["agent"], params["key"])


async def stop(context: RequestContext) -> Response:
    """Stop the present turn, then give the thread to the dispatcher."""
    fields = request_fields.body(context)
    thread = _thread(context)
    await thread.stop_turn(by=context.identity, door=HTTP, **fields)
    return await _changed(context, thread)


async def close(context: RequestContext) -> Response:
    """Close a thread once the messages before have their replies."""
    fields = request_fields.body(context)
    thread = _thread(context)
    await thread.close(by=context.identity, **fields)
    return await _changed(context, thread)


async def _changed(context: RequestContext, thread: AsyncThread[Any]) -> Response:
    run = await thread.look()
    if run is None:
        raise problems.no_such_message()
    # Without agents, this process has not closed a thread that rests.
    if run.status == "suspended" or not thread.can_work:
        await context.wake(run.run_id)
    return json_response({"run_id": run.run_id, "status": run.status})


HANDLERS: Mapping[str, RouteHandler] = {
    "closeThread": close,
    "postMessage": post_message,
    "showMessage": show_message,
    "showThread": show,
    "stopTurn": stop,
    "streamThreadEvents": stream_events,
}
"""The functions of the operations, by their ids."""
