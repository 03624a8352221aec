"""Operations that read: lists, waits, versions, events."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from continuations.errors import ContinuationsError, WaitNotFound
from continuations.ledger import layout
from continuations.ledger.objects import Objects
from continuations.present import json_forms
from continuations.present.json_forms import event_json, version_json
from continuations.present.wait_words import agent_state
from continuations.serve.http import event_stream, problems, request_fields
from continuations.serve.http.request_response import Response, json_response
from continuations.wire.report import to_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from continuations.core.messages import Detail
    from continuations.core.rows.waits import Wait
    from continuations.engine.runner.async_runner import AsyncRunner
    from continuations.serve.http.request_context import RequestContext, RouteHandler

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
    page = await context.read_list(
        context.runner.waiting(after=after, approver=approver),
        limit=query["limit"],
        cursor_of=lambda wait: wait.id,
    )
    return await _page_of_waits(context, to_json(page.rows), page.next)


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
        from continuations.ledger.index.waits_without_object import (  # noqa: PLC0415 - the first page only
            find_runs_awaiting_models,
        )

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
    state = await read_agent_state(context.runner, wait)
    form = json_forms.wait_json(wait, now=context.clock.now(), agent_state=state)
    return json_response(form)


async def read_agent_state(runner: AsyncRunner, wait: Wait) -> str:
    """Return the stored state of the agent whose call waits; empty without one.

    A wait may be decided although the newest version of its run cannot be read.
    """
    with suppress(ContinuationsError):
        return agent_state((await runner.look(wait.run_id)).run_state, wait)
    return ""


# Runs ---------------------------------------------------------------------------


async def list_runs(context: RequestContext) -> Response:
    """List runs, one page at a time; each row is read from the run."""
    query = request_fields.query(context)
    limit = query.pop("limit")
    if "after" in query:
        query["after"] = context.cursors().open(query["after"])
    items = context.runner.runs(**query)
    page = await context.read_list(items, limit=limit, cursor_of=lambda row: row.cursor)
    return json_response({"runs": to_json(page.rows), "next": page.next})


async def list_drift(context: RequestContext) -> Response:
    """List the runs with what `resume` would do, one page at a time."""
    query = request_fields.query(context)
    after = context.cursors().open(query.get("after", ""))
    items = context.runner.drift(after=after)
    page = await context.read_list(
        items, limit=query["limit"], cursor_of=lambda row: row.run_id
    )
    return json_response({"runs": to_json(page.rows), "next": page.next})


# Versions and events of a run ---------------------------------------------------


async def list_versions(context: RequestContext) -> Response:
    """List the versions of a run, one page at a time."""
    run_id, query = context.path_params["run_id"], request_fields.query(context)
    versions = context.runner.history(run_id, after=query["after"])
    return await _page_of_run(context, "versions", versions, version_json, "number")


async def list_events(context: RequestContext) -> Response:
    """List what happened in a run, one page at a time; or as server-sent events."""
    run_id, query = context.path_params["run_id"], request_fields.query(context)
    if event_stream.is_wanted(context.request):
        return await event_stream.of_run(context, run_id)
    events = context.runner.events(run_id, after=query.get("after", ""))
    return await _page_of_run(context, "events", events, event_json, "cursor")


async def _page_of_run(
    context: RequestContext,
    name: str,
    items: AsyncIterator[Any],
    form_of: Callable[[Any, Detail], dict[str, Any]],
    cursor: str,
) -> Response:
    """Return a page of things of one run; `cursor` names the field of the cursor."""
    run_id, limit = (
        context.path_params["run_id"],
        request_fields.query(context)["limit"],
    )
    detail = await context.detail(run_id)
    rows: list[dict[str, Any]] = []
    following = None
    async for item in items:
        if len(rows) == limit:
            following = rows[-1][cursor]
            break
        rows.append(form_of(item, detail))
    return json_response({"run_id": run_id, name: rows, "next": following})


async def show_version(context: RequestContext) -> Response:
    """Show a run as it was in a version, with its agents, messages and calls."""
    number = request_fields.digits(context.path_params["number"], _VERSION_DIGITS)
    if number is None:
        raise problems.malformed('"number" must be the number of a version.')
    run = await context.runner.look(context.path_params["run_id"], version=number)
    detail = await context.detail(run.run_id)
    about = json_forms.Report(context.clock.now(), detail=detail)
    return json_response(json_forms.run_json(run, about, with_stack=True))


async def openapi(_: RequestContext) -> Response:
    """Return the OpenAPI document."""
    from continuations.serve.http.openapi import document  # noqa: PLC0415 - rarely used

    return json_response(document())


HANDLERS: Mapping[str, RouteHandler] = {
    "drift": list_drift,
    "listEvents": list_events,
    "listRuns": list_runs,
    "listVersions": list_versions,
    "listWaits": list_waits,
    "openapi": openapi,
    "showVersion": show_version,
    "showWait": show_wait,
}
"""The functions of the operations, by their ids."""
