"""Handlers of the HTTP API for operators: cancel, pause and wake, drop signals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.present.json_forms import untaken_signal_json
from continuations.serve.http import decision_bodies
from continuations.serve.http.request_context import HTTP, RequestContext
from continuations.serve.http.request_response import Response, json_response
from continuations.serve.run_responses import run_response

if TYPE_CHECKING:
    from continuations.wire.continuation import Continuation


async def cancel(context: RequestContext) -> Response:
    """Cancel a run; give it to the dispatcher if another process must end it."""
    # A JSON body is required: a form of another site cannot send one.
    fields = decision_bodies.parse_json_object(context.request)
    decision_bodies.refuse_unknown_fields(fields, frozenset({"reason", "call"}))
    reason = decision_bodies.optional_text(fields, "reason")
    run = await context.runner.cancel(
        context.path_params["run_id"],
        call=decision_bodies.optional_text(fields, "call"),
        reason=reason,
        by=context.identity_name,
        door=HTTP,
    )
    if run.status == "suspended":
        await context.wake(run.run_id)
    return await run_reply(context, run)


async def pause(context: RequestContext) -> Response:
    """Pause a run; give it to the dispatcher if another process must do that."""
    fields = decision_bodies.parse_json_object(context.request)
    decision_bodies.refuse_unknown_fields(fields, frozenset({"reason"}))
    run = await context.runner.pause(
        context.path_params["run_id"],
        reason=decision_bodies.optional_text(fields, "reason"),
        by=context.identity_name,
        door=HTTP,
    )
    return await run_reply(context, run)


async def unpause(context: RequestContext) -> Response:
    """End a pause and the waits of conditions, then give the run to the dispatcher."""
    fields = decision_bodies.parse_json_object(context.request)
    decision_bodies.refuse_unknown_fields(fields, frozenset())
    run = await context.runner.unpause(
        context.path_params["run_id"], by=context.identity_name, door=HTTP
    )
    if run.status == "suspended":
        await context.wake(run.run_id)
    return await run_reply(context, run)


async def wake(context: RequestContext) -> Response:
    """End the waits of a run for its models, then give it to the dispatcher."""
    # A JSON body is required: a form of another site cannot send one.
    fields = decision_bodies.parse_json_object(context.request)
    decision_bodies.refuse_unknown_fields(fields, frozenset())
    run_id = context.path_params["run_id"]
    count = await context.runner.wake(run_id, by=context.identity_name, door=HTTP)
    woken = await context.wake(run_id) if count else False
    return json_response({"run_id": run_id, "waits": count, "woken": woken})


async def list_signals(context: RequestContext) -> Response:
    """List the signals that no wait has taken; their data needs the right to read."""
    run_id = context.path_params["run_id"]
    signals = await context.runner.signals(run_id)
    reads = await context.detail(run_id) == "transcript"
    shown = [untaken_signal_json(each, with_data=reads) for each in signals]
    return json_response({"run_id": run_id, "signals": shown})


async def drop_signals(context: RequestContext) -> Response:
    """Drop the signals that no wait has taken."""
    fields = decision_bodies.parse_json_object(context.request)
    decision_bodies.refuse_unknown_fields(fields, frozenset({"name", "reason"}))
    run_id = context.path_params["run_id"]
    dropped = await context.runner.drop_signals(
        run_id,
        name=decision_bodies.optional_text(fields, "name"),
        reason=decision_bodies.optional_text(fields, "reason"),
        by=context.identity_name,
        door=HTTP,
    )
    return json_response({"run_id": run_id, "dropped": dropped})


async def run_reply(context: RequestContext, run: Continuation) -> Response:
    """Return a response that shows a run."""
    detail = await context.detail(run.run_id)
    store, clock = context.runner.store, context.clock
    return json_response(await run_response(store, clock, run, detail))
