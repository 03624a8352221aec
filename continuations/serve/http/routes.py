"""The routes of the HTTP API: a table of paths, and one handler for each method.

A handler reads the request, calls the runner and returns a response. Deciding must stay
cheap in a cold process, so pages and the OpenAPI document are imported when needed.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from continuations.core.decisions import Decision
from continuations.errors import ContinuationsError, WaitNotFound
from continuations.ledger import layout
from continuations.ledger.objects import Objects
from continuations.present import json_forms
from continuations.serve.http import (
    approval_routes,
    decision_bodies,
    event_routes,
    operator_routes,
    past_routes,
    problems,
    thread_routes,
)
from continuations.serve.http.page_size import page_size
from continuations.serve.http.request_context import HTTP, RequestContext
from continuations.serve.http.request_response import Response, json_response
from continuations.serve.http.route import Route
from continuations.serve.run_responses import (
    outcome_response,
    sweep_response,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.identity import Identity
    from continuations.engine.outcomes import Outcome

# The key of a thread is any text, so these paths are split before they are decoded.
THREADS = "/threads/"
THREAD_PATH = f"{THREADS}{{agent}}/{{key}}"


async def healthz(_: RequestContext) -> Response:
    """Report that this process answers; the store is not used."""
    return json_response({"status": "ok"})


async def openapi(_: RequestContext) -> Response:
    """Return the OpenAPI document."""
    from continuations.serve.http.openapi import document  # noqa: PLC0415 - rarely used

    return json_response(document())


async def list_waits(context: RequestContext) -> Response:
    """List open waits, one page at a time."""
    limit = page_size(context.request)
    approver = _parse_approver(context)
    order = context.request.query.get("order", "id")
    if order not in ("id", "due"):
        raise problems.malformed('"order" must be "id" or "due".')
    if order == "due":
        if approver is not None:
            msg = '"approver" cannot be combined with "order=due". Send one of them.'
            raise problems.malformed(msg)
        return await _list_due_first(context, limit)
    cursors = context.cursors()
    after = _parse_after(cursors.open(context.request.query.get("after", "")))
    from continuations.serve.list_page import read_page  # noqa: PLC0415 - not to decide

    page = await read_page(
        context.runner.waiting(after=after, approver=approver),
        limit=limit,
        cursor_of=lambda each: each.id,
        is_shown=lambda each: context.may("view", each.run_id),
        seal=cursors.seal,
    )
    rows = [json_forms.wait_summary_json(each) for each in page.rows]
    return await _page_of_waits(context, rows, page.next)


async def _list_due_first(context: RequestContext, limit: int) -> Response:
    cursors = context.cursors()
    after = cursors.open(context.request.query.get("after", ""))
    page = await context.runner.worklist(after=after, limit=limit)
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
        from continuations.ledger.rows_only_waits import find_runs_awaiting_models  # noqa: PLC0415 - not to decide

        found = await find_runs_awaiting_models(Objects(context.runner.store))
        runs = [each for each in found.run_ids if await context.may("view", each)]
    page = {"waits": rows, "next": following, "runs_awaiting_models": runs}
    return json_response(page)


async def show_wait(context: RequestContext) -> Response:
    """Show a wait with everything that its decider needs."""
    wait = await context.runner.wait(context.path_params["wait_id"])
    from continuations.present.wait_words import agent_state  # noqa: PLC0415 - decisions need none

    state = ""
    # A wait may be decided although the newest version of its run cannot be read.
    with suppress(ContinuationsError):
        state = agent_state(await context.runner.look(wait.run_id), wait)
    form = json_forms.wait_json(wait, now=context.clock.now(), agent_state=state)
    return json_response(form)


async def decide(context: RequestContext) -> Response:
    """Record a decision, then give the run to the dispatcher.

    After a vote, the wait may still be open. Then no run is resumed.
    """
    wait_id = context.path_params["wait_id"]
    posted = decision_bodies.decision_from_json(context.request, context.identity)
    result = await context.runner.decide(
        wait_id, posted.verdict, shown=posted.shown, door=HTTP
    )
    decided = isinstance(result, Decision)
    woken = decided and await context.wake(layout.parse_wait_id(wait_id).run_id)
    return json_response(json_forms.decide_json(result, woken=woken))


_DESCRIBED = ("labels", "title", "settings")


async def start(context: RequestContext) -> Response:
    """Start a run and work on it until it ends or waits.

    The client chooses the run id, so a repeated request starts one run. With
    `"work": false` the run is only stored, and a resume or sweep works on it.
    """
    fields = decision_bodies.parse_json_object(context.request)
    decision_bodies.refuse_unknown_fields(
        fields,
        frozenset({*_DESCRIBED, "run_id", "input", "files", "agent", "work"}),
    )
    # Only the limit of the body applies: the input may be a long document.
    text = decision_bodies.optional_text(
        fields, "input", max_chars=len(context.request.body)
    )
    run_id = decision_bodies.optional_text(fields, "run_id")
    if not text or run_id is None:
        raise problems.malformed('The body needs "run_id" and a non-empty "input".')
    agent = decision_bodies.optional_text(fields, "agent")
    work = decision_bodies.optional_flag(fields, "work", default=True)
    begin = partial(
        context.runner.start,
        decision_bodies.text_with_files(fields, text),
        run_id=run_id,
        agent=agent,
        work=work,
        labels=fields.get("labels"),
        title=decision_bodies.optional_text(fields, "title"),
        by=context.identity_name,
        settings=fields.get("settings"),
    )
    if work and context.request.wants_live_events:
        from continuations.serve.http import work_stream  # noqa: PLC0415 - rarely used

        return await work_stream.of_run(context, begin, is_new=True)
    from continuations.engine.outcomes import Suspended  # noqa: PLC0415 - see the module

    outcome = await begin()
    is_stored_only = not work and isinstance(outcome, Suspended) and outcome.paused
    return await _outcome_response(context, outcome, 202 if is_stored_only else 200)


_RUN_FILTERS = frozenset({"agent", "status", "label", "after"})


async def list_runs(context: RequestContext) -> Response:
    """List runs, one page at a time; each row is read from the run."""
    limit = page_size(context.request)
    query = dict(context.request.query)
    query.pop("limit", None)
    if not query.keys() <= _RUN_FILTERS:
        names = ", ".join(sorted(_RUN_FILTERS))
        raise problems.malformed(f"The query may have limit, {names}.")
    from continuations.serve.list_page import read_page  # noqa: PLC0415 - not to decide

    cursors = context.cursors()
    if "after" in query:
        query["after"] = cursors.open(query["after"])
    page = await read_page(
        context.runner.runs(**query),
        limit=limit,
        cursor_of=lambda each: each.cursor,
        is_shown=lambda each: context.may("view", each.run_id),
        seal=cursors.seal,
    )
    rows = [json_forms.run_summary_json(each) for each in page.rows]
    return json_response({"runs": rows, "next": page.next})


async def show_run(context: RequestContext) -> Response:
    """Show a run."""
    run = await context.runner.look(context.path_params["run_id"])
    return await operator_routes.run_reply(context, run)


async def erase(context: RequestContext) -> Response:
    """Delete everything that the store holds of a run, except a tombstone."""
    run_id = context.path_params["run_id"]
    try:
        receipt = await context.runner.erase(run_id)
    finally:  # an erasure that failed may have deleted some objects
        for tell in context.when_erased:
            tell(run_id)
    return json_response(json_forms.erased_run_json(receipt))


async def resume(context: RequestContext) -> Response:
    """Give a run to the dispatcher; without a dispatcher, resume it in this process.

    With `reopen`, this process resumes it: it asks again because of its own code.
    """
    run_id = layout.check_run_id(context.path_params["run_id"])
    reopen = False
    if context.request.body:
        fields = decision_bodies.parse_json_object(context.request)
        decision_bodies.refuse_unknown_fields(fields, frozenset({"reopen"}))
        reopen = decision_bodies.optional_flag(fields, "reopen", default=False)
    if context.dispatcher is not None and not reopen:
        await context.dispatcher.wake(run_id)
        return json_response({"run_id": run_id, "woken": True}, 202)
    begin = partial(context.runner.resume, run_id, reopen=reopen)
    if context.request.wants_live_events:
        from continuations.serve.http import work_stream  # noqa: PLC0415 - rarely used

        return await work_stream.of_run(context, begin, is_new=False)
    return await _outcome_response(context, await begin())


async def sweep(context: RequestContext) -> Response:
    """Check every run that has a due marker."""
    form = sweep_response(await context.runner.sweep())
    if context.rights is None:
        return json_response(form)
    from continuations.serve.http import visible_runs  # noqa: PLC0415 - only with rights

    return json_response(await visible_runs.of_sweep(context, form))


async def show_drift(context: RequestContext) -> Response:
    """List what `resume` would do with the waiting runs."""
    from continuations.serve.http import drift_route  # noqa: PLC0415 - rarely asked for

    return await drift_route.drift(context)


async def show_link_page(context: RequestContext) -> Response:
    """Show the wait of a signed link; change nothing."""
    from continuations.serve.http import link_pages  # noqa: PLC0415 - pages are rarely used

    return await link_pages.show(context)


async def decide_by_link(context: RequestContext) -> Response:
    """Decide the wait of a signed link."""
    from continuations.serve.http import link_pages  # noqa: PLC0415 - pages are rarely used

    return await link_pages.decide(context)


async def download_file(context: RequestContext) -> Response:
    """Return the bytes of an attachment of a run."""
    from continuations.serve.http import file_routes  # noqa: PLC0415 - rarely used

    return await file_routes.download(context)


async def report_result(context: RequestContext) -> Response:
    """Record the result of a job at its callback URL."""
    from continuations.serve.http import callbacks  # noqa: PLC0415 - rarely used

    return await callbacks.report(context)


async def extend_job(context: RequestContext) -> Response:
    """Give a job more time at its callback URL."""
    from continuations.serve.http import callbacks  # noqa: PLC0415 - rarely used

    return await callbacks.extend(context)


async def receive_webhook(context: RequestContext) -> Response:
    """Do what a signed message of another system means."""
    from continuations.serve.http import webhook_route  # noqa: PLC0415 - rarely used

    return await webhook_route.receive(context)


async def _outcome_response(
    context: RequestContext, outcome: Outcome, status: int = 200
) -> Response:
    detail = await context.detail(outcome.run_id)
    store, clock = context.runner.store, context.clock
    form = await outcome_response(store, clock, outcome, detail)
    return json_response(form, status)


def _parse_approver(context: RequestContext) -> str | Identity | None:
    """Return the person of the query; the sender's identity brings its groups."""
    name = context.request.query.get("approver")
    return context.identity if name == context.identity_name else name


def _parse_after(after: str) -> str:
    try:
        if after:
            layout.parse_wait_id(after)
    except WaitNotFound:
        raise problems.malformed('"after" must be a wait id.') from None
    return after


_GET, _POST = frozenset({"GET"}), frozenset({"POST"})

ROUTES = (
    Route(
        path="/healthz",
        handlers={"GET": healthz},
        is_public=True,
        works_without_folder=_GET,
    ),
    Route(path="/openapi.json", handlers={"GET": openapi}, works_without_folder=_GET),
    Route(path="/waits", handlers={"GET": list_waits}),
    Route(path="/waits/{wait_id}", handlers={"GET": show_wait}),
    Route(path="/waits/{wait_id}/decision", handlers={"POST": decide}),
    Route(
        path="/runs",
        handlers={"GET": list_runs, "POST": start},
        works_without_folder=_POST,
    ),
    Route(path="/runs/{run_id}", handlers={"GET": show_run, "DELETE": erase}),
    Route(path="/runs/{run_id}/audit", handlers={"GET": approval_routes.audit}),
    Route(path="/runs/{run_id}/events", handlers={"GET": event_routes.list_events}),
    Route(path="/drift", handlers={"GET": show_drift}),
    Route(path="/runs/{run_id}/versions", handlers={"GET": past_routes.list_versions}),
    Route(
        path="/runs/{run_id}/versions/{number}",
        handlers={"GET": past_routes.show_version},
    ),
    Route(path="/runs/{run_id}/messages", handlers={"POST": event_routes.send}),
    Route(path="/runs/{run_id}/files/{digest}", handlers={"GET": download_file}),
    Route(path="/runs/{run_id}/diff", handlers={"GET": past_routes.compare}),
    Route(path="/runs/{run_id}/fork", handlers={"POST": past_routes.fork}),
    Route(
        path="/runs/{run_id}/rewind",
        handlers={"GET": past_routes.plan_rewind, "POST": past_routes.rewind},
    ),
    Route(path="/decisions", handlers={"POST": approval_routes.decide_all}),
    Route(path="/runs/{run_id}/grants", handlers={"GET": approval_routes.list_grants}),
    Route(
        path="/runs/{run_id}/grants/{grant}/revoke",
        handlers={"POST": approval_routes.revoke},
    ),
    Route(path="/runs/{run_id}/resume", handlers={"POST": resume}),
    Route(path="/runs/{run_id}/cancel", handlers={"POST": operator_routes.cancel}),
    Route(path="/runs/{run_id}/pause", handlers={"POST": operator_routes.pause}),
    Route(path="/runs/{run_id}/unpause", handlers={"POST": operator_routes.unpause}),
    Route(
        path="/runs/{run_id}/signals", handlers={"GET": operator_routes.list_signals}
    ),
    Route(
        path="/runs/{run_id}/signals/drop",
        handlers={"POST": operator_routes.drop_signals},
    ),
    Route(path="/runs/{run_id}/wake", handlers={"POST": operator_routes.wake}),
    Route(path="/signals", handlers={"POST": event_routes.signal}),
    Route(
        path="/events",
        handlers={"POST": event_routes.publish},
        works_without_folder=_POST,
    ),
    Route(path=THREAD_PATH, handlers={"GET": thread_routes.show}),
    Route(
        path=f"{THREAD_PATH}/messages",
        handlers={"POST": thread_routes.post_message},
        works_without_folder=_POST,
    ),
    Route(
        path=f"{THREAD_PATH}/messages/{{number}}",
        handlers={"GET": thread_routes.show_message},
    ),
    # A client may follow a thread before its first message.
    Route(
        path=f"{THREAD_PATH}/events",
        handlers={"GET": thread_routes.stream_events},
        works_without_folder=_GET,
    ),
    Route(path=f"{THREAD_PATH}/stop", handlers={"POST": thread_routes.stop}),
    Route(path=f"{THREAD_PATH}/close", handlers={"POST": thread_routes.close}),
    Route(path="/sweep", handlers={"POST": sweep}),
    Route(path="/callbacks/{token}", handlers={"POST": report_result}, is_public=True),
    Route(
        path="/callbacks/{token}/heartbeat",
        handlers={"POST": extend_job},
        is_public=True,
    ),
    Route(
        path="/webhooks/{name}",
        handlers={"POST": receive_webhook},
        is_public=True,
        works_without_folder=_POST,
    ),
    Route(
        path="/d/{token}",
        handlers={"GET": show_link_page, "POST": decide_by_link},
        is_public=True,
        is_html_page=True,
    ),
)


def find_route(path: str, raw_path: str) -> tuple[Route, Mapping[str, str]] | None:
    """Return the route of a path and its parameters, or `None`.

    Args:
        path: The decoded path.
        raw_path: The percent-encoded path.
    """
    segments = path.split("/")
    if path.startswith(THREADS):
        try:
            segments = [unquote(s, errors="strict") for s in raw_path.split("/")]
        except UnicodeDecodeError:
            return None
    for route in ROUTES:
        path_params = route.match_segments(segments)
        if path_params is not None:
            return route, path_params
    return None
