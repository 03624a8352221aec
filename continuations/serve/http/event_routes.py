"""Handlers of the HTTP API about events, and about messages to a run."""

from __future__ import annotations

from typing import Any

from continuations.present import json_forms
from continuations.serve.http import decision_bodies, problems
from continuations.serve.http.page_size import page_size
from continuations.serve.http.request_context import HTTP, RequestContext
from continuations.serve.http.request_response import Response, json_response


async def list_events(context: RequestContext) -> Response:
    """List what happened in a run, one page at a time; or as server-sent events."""
    from continuations.present.json_forms import event_json  # noqa: PLC0415 - rarely used
    from continuations.serve.http import event_stream  # noqa: PLC0415 - rarely used

    run_id, query = context.path_params["run_id"], context.request.query
    if not query.keys() <= {"after", "limit", "wait"}:
        raise problems.malformed("The query may have limit, after, wait.")
    if event_stream.is_wanted(context.request):
        return await event_stream.of_run(context, run_id)
    event_stream.wait_seconds(context.request)
    limit = page_size(context.request)
    rows: list[dict[str, Any]] = []
    next_after = None
    detail = await context.detail(run_id)
    async for event in context.runner.events(run_id, after=query.get("after", "")):
        if len(rows) == limit:
            next_after = rows[-1]["cursor"]
            break
        rows.append(event_json(event, detail))
    return json_response({"run_id": run_id, "events": rows, "next": next_after})


async def signal(context: RequestContext) -> Response:
    """Record a signal, then give its run to the dispatcher."""
    fields = decision_bodies.parse_json_object(context.request)
    names = frozenset({"run_id", "name", "data", "id"})
    decision_bodies.refuse_unknown_fields(fields, names)
    run_id = decision_bodies.optional_text(fields, "run_id")
    name = decision_bodies.optional_text(fields, "name")
    if run_id is None or name is None:
        raise problems.malformed('The body needs "run_id" and "name".')
    number = await context.runner.signal(
        run_id,
        name,
        fields.get("data"),
        by=context.identity_name,
        id=decision_bodies.optional_text(fields, "id"),
        door=HTTP,
    )
    woken = await context.wake(run_id)
    return json_response({"run_id": run_id, "number": number, "woken": woken})


async def send(context: RequestContext) -> Response:
    """Send a message to a run, then give the run to the dispatcher."""
    fields = decision_bodies.parse_json_object(context.request)
    decision_bodies.refuse_unknown_fields(fields, frozenset({"text", "id", "files"}))
    # Only the limit of the body applies: the text may be a long document.
    text = decision_bodies.optional_text(
        fields, "text", max_chars=len(context.request.body)
    )
    if not text:
        raise problems.malformed('The body needs a non-empty "text".')
    run_id = context.path_params["run_id"]
    number = await context.runner.send(
        run_id,
        decision_bodies.text_with_files(fields, text),
        by=context.identity_name,
        id=decision_bodies.optional_text(fields, "id"),
    )
    woken = await context.wake(run_id)
    return json_response({"run_id": run_id, "number": number, "woken": woken})


async def publish(context: RequestContext) -> Response:
    """Publish an event, then give the runs whose waits it ended to the dispatcher."""
    fields = decision_bodies.parse_json_object(context.request)
    names = frozenset({"name", "key", "data", "id"})
    decision_bodies.refuse_unknown_fields(fields, names)
    name = decision_bodies.optional_text(fields, "name")
    if name is None:
        raise problems.malformed('The body needs "name".')
    publication = await context.runner.publish(
        name,
        fields.get("data"),
        key=decision_bodies.optional_text(fields, "key"),
        by=context.identity_name,
        id=decision_bodies.optional_text(fields, "id"),
        door=HTTP,
    )
    form = json_forms.publication_json(publication)
    woken = await context.wake_all(publication.run_ids)
    form = {**form, "woken": woken}
    if context.rights is None:
        return json_response(form)
    from continuations.serve.http import visible_runs  # noqa: PLC0415 - only with rights

    return json_response(await visible_runs.of_publication(context, form))
