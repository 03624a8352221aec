"""Operations of the HTTP API with functions of their own: lists, work, several runs."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.engine.outcomes import Suspended
from continuations.errors import ContinuationsError, WaitNotFound
from continuations.ledger import layout
from continuations.ledger.objects import Objects
from continuations.ledger.rows_only_waits import find_runs_awaiting_models
from continuations.present import json_forms
from continuations.present.drift_forms import drift_row_json
from continuations.present.event_forms import event_json
from continuations.present.past_forms import version_json
from continuations.present.wait_parts import agent_state
from continuations.serve.field_checks import start_options
from continuations.serve.fork_ids import new_fork_id
from continuations.serve.http import (
    decision_bodies,
    event_stream,
    file_routes,
    problems,
    request_fields,
    thread_handlers,
    work_stream,
)
from continuations.serve.http.request_context import HTTP, RequestContext
from continuations.serve.http.request_response import Response, json_response
from continuations.serve.list_page import read_page
from continuations.serve.run_responses import outcome_response, sweep_response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping

    from continuations.core.identity import Identity
    from continuations.engine.outcomes import Outcome
    from continuations.serve.http.request_context import RouteHandler
    from continuations.serve.list_page import ListPage

_VERSION_DIGITS = 10


# Waits --------------------------------------------------------------------------


async def list_waits(context: RequestContext) -> Response:
    """List open waits, one page at a time."""
    query = request_fields.query(context)
    name = query.get("approver")
    # The sender's identity brings its groups.
    approver = context.identity if name == context.identity_name else name
    if query["order"] == "due":
        if approver is not None:
            msg = '"approver" cannot be combined with "order=due". Send one of them.'
            raise problems.malformed(msg)
        return await _list_due_first(context, query)
    after = _parse_after(context.cursors().open(query.get("after", "")))
    page = await _read_page(
        context,
        context.runner.waiting(after=after, approver=approver),
        query["limit"],
        lambda wait: wait.id,
    )
    rows = [json_forms.wait_summary_json(each) for each in page.rows]
    return await _page_of_waits(context, rows, page.next)


async def _list_due_first(
    context: RequestContext, query: Mapping[str, Any]
) -> Response:
    cursors = context.cursors()
    after = cursors.open(query.get("after", ""))
    page = await context.runner.worklist(after=after, limit=query["limit"])
    shown = [row for row in page.waits if await context.may("view", row.wait.run_id)]
    last_shown = shown[-1].wait.id if shown else None
    following = cursors.following(page.next, last_shown)
    rows = [json_forms.listed_wait_json(row) for row in shown]
    return await _page_of_waits(context, rows, following)


async def _page_of_waits(
    context: RequestContext, rows: list[dict[str, Any]], following: str | None
) -> Response:
    runs: list[str] | None = None
    if not context.request.query.get("after"):
        found = await find_runs_awaiting_models(Objects(context.runner.store))
        runs = [each for each in found.run_ids if await context.may("view", each)]
    page = {"waits": rows, "next": following, "runs_awaiting_models": runs}
    return json_response(page)


def _parse_after(after: str) -> str:
    try:
        if after:
            layout.parse_wait_id(after)
    except WaitNotFound:
        raise problems.malformed('"after" must be a wait id.') from None
    return after


async def show_wait(context: RequestContext) -> Response:
    """Show a wait with everything that its decider needs."""
    wait = await context.runner.wait(context.path_params["wait_id"])
    state = ""
    # A wait may be decided although the newest version of its run cannot be read.
    with suppress(ContinuationsError):
        state = agent_state(await context.runner.look(wait.run_id), wait)
    form = json_forms.wait_json(wait, now=context.clock.now(), agent_state=state)
    return json_response(form)


# Runs ---------------------------------------------------------------------------


async def _read_page(
    context: RequestContext,
    items: AsyncIterator[Any],
    limit: int,
    cursor_of: Callable[[Any], str],
) -> ListPage[Any]:
    """Read a page of a list whose rows need the right to view their run."""
    return await read_page(
        items,
        limit=limit,
        cursor_of=cursor_of,
        is_shown=lambda row: context.may("view", row.run_id),
        seal=context.cursors().seal,
    )


async def list_runs(context: RequestContext) -> Response:
    """List runs, one page at a time; each row is read from the run."""
    query = request_fields.query(context)
    limit = query.pop("limit")
    if "after" in query:
        query["after"] = context.cursors().open(query["after"])
    items = context.runner.runs(**query)
    page = await _read_page(context, items, limit, lambda row: row.cursor)
    rows = [json_forms.run_summary_json(each) for each in page.rows]
    return json_response({"runs": rows, "next": page.next})


async def list_drift(context: RequestContext) -> Response:
    """List the runs with what `resume` would do, one page at a time."""
    query = request_fields.query(context)
    after = context.cursors().open(query.get("after", ""))
    items = context.runner.drift(after=after)
    page = await _read_page(context, items, query["limit"], lambda row: row.run_id)
    rows = [drift_row_json(row) for row in page.rows]
    return json_response({"runs": rows, "next": page.next})


async def start(context: RequestContext) -> Response:
    """Start a run and work on it until it ends or waits.

    The client chooses the run id, so a repeated request starts one run. With
    `"work": false` the run is only stored, and a resume or sweep works on it.
    """
    fields = start_options(request_fields.body(context))
    text = decision_bodies.text_with_files(fields, fields.pop("input"))
    fields.pop("files", None)
    begin = partial(context.runner.start, text, by=context.identity_name, **fields)
    work = fields.get("work", True)
    if work and context.request.wants_live_events:
        return await work_stream.of_run(context, begin, is_new=True)
    outcome = await begin()
    is_stored_only = not work and isinstance(outcome, Suspended) and outcome.paused
    return await _outcome(context, outcome, 202 if is_stored_only else 200)


async def resume(context: RequestContext) -> Response:
    """Give a run to the dispatcher; without a dispatcher, resume it in this process.

    With `reopen`, this process resumes it: it asks again because of its own code.
    """
    run_id = layout.check_run_id(context.path_params["run_id"])
    reopen = request_fields.body(context).get("reopen", False)
    if context.dispatcher is not None and not reopen:
        await context.dispatcher.wake(run_id)
        return json_response({"run_id": run_id, "woken": True}, 202)
    begin = partial(context.runner.resume, run_id, reopen=reopen)
    if context.request.wants_live_events:
        return await work_stream.of_run(context, begin, is_new=False)
    return await _outcome(context, await begin())


async def _outcome(
    context: RequestContext, outcome: Outcome, status: int = 200
) -> Response:
    detail = await context.detail(outcome.run_id)
    store, clock = context.runner.store, context.clock
    form = await outcome_response(store, clock, outcome, detail)
    return json_response(form, status)


async def erase(context: RequestContext) -> Response:
    """Delete everything that the store holds of a run, except a tombstone."""
    run_id = context.path_params["run_id"]
    try:
        receipt = await context.runner.erase(run_id)
    finally:  # an erasure that failed may have deleted some objects
        for tell in context.when_erased:
            tell(run_id)
    return json_response(json_forms.erased_run_json(receipt))


# Versions and events of a run ---------------------------------------------------


async def list_versions(context: RequestContext) -> Response:
    """List the versions of a run, one page at a time."""
    run_id, query = context.path_params["run_id"], request_fields.query(context)
    rows: list[dict[str, Any]] = []
    next_after = None
    detail = await context.detail(run_id)
    async for version in context.runner.history(run_id, after=query["after"]):
        if len(rows) == query["limit"]:
            next_after = rows[-1]["number"]
            break
        rows.append(version_json(version, detail))
    return json_response({"run_id": run_id, "versions": rows, "next": next_after})


async def show_version(context: RequestContext) -> Response:
    """Show a run as it was in a version, with its agents, messages and calls."""
    text = context.path_params["number"]
    if not (text.isascii() and text.isdigit() and len(text) <= _VERSION_DIGITS):
        raise problems.malformed('"number" must be the number of a version.')
    run = await context.runner.look(context.path_params["run_id"], version=int(text))
    form = json_forms.run_json(
        run,
        decided=(),
        now=context.clock.now(),
        with_stack=True,
        detail=await context.detail(run.run_id),
    )
    return json_response(form)


async def list_events(context: RequestContext) -> Response:
    """List what happened in a run, one page at a time; or as server-sent events."""
    run_id, query = context.path_params["run_id"], request_fields.query(context)
    if event_stream.is_wanted(context.request):
        return await event_stream.of_run(context, run_id)
    rows: list[dict[str, Any]] = []
    next_after = None
    detail = await context.detail(run_id)
    async for event in context.runner.events(run_id, after=query.get("after", "")):
        if len(rows) == query["limit"]:
            next_after = rows[-1]["cursor"]
            break
        rows.append(event_json(event, detail))
    return json_response({"run_id": run_id, "events": rows, "next": next_after})


async def fork(context: RequestContext) -> Response:
    """Start a new run from a version of a run; nothing runs before it is resumed."""
    fields, source = request_fields.body(context), context.path_params["run_id"]
    posted = _posted_decisions(fields, context.identity)
    if posted and not await context.may("decide", source):
        raise problems.forbidden("decide")
    new_id = fields["run_id"] if "run_id" in fields else new_fork_id(source)
    # The right to fork one run gives none to write under the id of another.
    if not await context.may("fork", new_id):
        raise problems.forbidden("fork")
    run_id = await context.runner.fork(
        source,
        fields.get("version"),
        run_id=new_id,
        decisions={key: each.verdict for key, each in posted.items()},
        results=fields.get("results"),
        messages=fields.get("messages"),
        by=context.identity,
        door=HTTP,
    )
    return json_response({"run_id": run_id})


def _posted_decisions(
    fields: Mapping[str, Any], by: str | Identity
) -> dict[str, decision_bodies.PostedDecision]:
    items = jsontext.as_array(fields.get("decisions", [])) or ()
    return decision_bodies.posted_decisions(items, by)


# Several runs -------------------------------------------------------------------


async def publish(context: RequestContext) -> Response:
    """Publish an event, then give the runs whose waits it ended to the dispatcher."""
    fields = {**request_fields.body(context)}
    publication = await context.runner.publish(
        fields.pop("name"),
        fields.pop("data", None),
        by=context.identity_name,
        door=HTTP,
        **fields,
    )
    woken = await context.wake_all(publication.run_ids)
    form = {**json_forms.publication_json(publication), "woken": woken}
    return json_response(await visible_publication(context, form))


async def visible_publication(
    context: RequestContext, form: dict[str, Any]
) -> dict[str, Any]:
    """Return the response to an event without the runs that the sender may not view."""
    shown = await _visible(context, form["run_ids"])
    names = ("run_ids", "woken")
    own = {name: [each for each in form[name] if each in shown] for name in names}
    return {**form, **own}


async def sweep(context: RequestContext) -> Response:
    """Check every run that has a due marker."""
    form = sweep_response(await context.runner.sweep())
    return json_response(await visible_sweep(context, form))


async def visible_sweep(
    context: RequestContext, form: dict[str, Any]
) -> dict[str, Any]:
    """Return the result of a sweep without the runs that the sender may not view."""
    resumed, failed = form["resumed"], form["failed"]
    ids = [*(row["run_id"] for row in resumed), *failed, *form["skipped"]]
    shown = await _visible(context, ids)
    return {
        **form,
        "resumed": [row for row in resumed if row["run_id"] in shown],
        "failed": {key: slug for key, slug in failed.items() if key in shown},
        "skipped": [key for key in form["skipped"] if key in shown],
    }


async def _visible(context: RequestContext, run_ids: Iterable[str]) -> set[str]:
    return {each for each in dict.fromkeys(run_ids) if await context.may("view", each)}


# The service --------------------------------------------------------------------


async def healthz(_: RequestContext) -> Response:
    """Report that this process answers; the store is not used."""
    return json_response({"status": "ok"})


async def openapi(_: RequestContext) -> Response:
    """Return the OpenAPI document."""
    from continuations.serve.http.openapi import document  # noqa: PLC0415 - rarely used

    return json_response(document())


HANDLERS: Mapping[str, RouteHandler] = {
    "closeThread": thread_handlers.close,
    "downloadFile": file_routes.download,
    "drift": list_drift,
    "erase": erase,
    "fork": fork,
    "healthz": healthz,
    "listEvents": list_events,
    "listRuns": list_runs,
    "listVersions": list_versions,
    "listWaits": list_waits,
    "openapi": openapi,
    "postMessage": thread_handlers.post_message,
    "publish": publish,
    "resume": resume,
    "showMessage": thread_handlers.show_message,
    "showThread": thread_handlers.show,
    "showVersion": show_version,
    "showWait": show_wait,
    "start": start,
    "stopTurn": thread_handlers.stop,
    "streamThreadEvents": thread_handlers.stream_events,
    "sweep": sweep,
}
"""By the id of an operation: its function; see `routes.handler_of` for the others."""
