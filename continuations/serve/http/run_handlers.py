"""Operations that start, resume or copy runs, and those for several at once."""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING, Any

from continuations.core.rows.decisions import Decision, Verdict
from continuations.errors import AlreadyDecided
from continuations.ledger import layout
from continuations.present import json_forms
from continuations.present.requests import MAX_DECISIONS
from continuations.serve.http import decision_bodies, problems, request_fields
from continuations.serve.http.request_context import HTTP, RequestContext
from continuations.serve.http.request_response import Response, json_response
from continuations.serve.operation_calls import outcome_response, sweep_response
from continuations.wire.report import to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from continuations.core.rows.quorum import Vote
    from continuations.engine.outcomes import Outcome
    from continuations.serve.http.request_context import Caller, RouteHandler

_MAX_RUN_ID_CHARS = 200
_RANDOM_BYTES = 6


async def start(context: RequestContext) -> Response:
    """Start a run and work on it until it ends or waits.

    The client chooses the run id, so a repeated request starts one run. With
    `"work": false` the run is only stored, and a resume or sweep works on it.
    """
    fields = request_fields.start_options(request_fields.body(context))
    text = request_fields.text_with_files(fields, fields.pop("input"))
    fields.pop("files", None)
    begin = partial(context.runner.start, text, by=context.identity_name, **fields)
    work = fields.get("work", True)
    if work and context.request.wants_live_events:
        from continuations.serve.http import event_stream  # noqa: PLC0415 - few requests stream

        return await event_stream.work_on_run(context, begin, is_new=True)
    from continuations.engine.outcomes import Suspended  # noqa: PLC0415 - see the module

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
        from continuations.serve.http import event_stream  # noqa: PLC0415 - few requests stream

        return await event_stream.work_on_run(context, begin, is_new=False)
    return await _outcome(context, await begin())


async def _outcome(
    context: RequestContext, outcome: Outcome, status: int = 200
) -> Response:
    return json_response(await outcome_response(context, outcome), status)


def new_fork_id(run_id: str) -> str:
    """Return a new id for a fork of a run.

    It begins with the id of the run: an application may give rights by prefixes.
    """
    suffix = f"-fork-{secrets.token_hex(_RANDOM_BYTES)}"
    return run_id[: _MAX_RUN_ID_CHARS - len(suffix)] + suffix


async def fork(context: RequestContext) -> Response:
    """Start a new run from a version of a run; nothing runs before it is resumed."""
    fields, source = request_fields.body(context), context.path_params["run_id"]
    posted = decision_bodies.posted_decisions(
        fields.get("decisions", ()), context.identity
    )
    run_id = await fork_by_rights(
        context,
        source,
        fields.get("version"),
        run_id=fields["run_id"] if "run_id" in fields else new_fork_id(source),
        decisions={key: each.verdict for key, each in posted.items()},
        results=fields.get("results"),
        messages=fields.get("messages"),
        by=context.identity,
        door=HTTP,
    )
    return json_response({"run_id": run_id})


async def fork_by_rights(
    caller: Caller,
    source: str,
    version: int | None,
    *,
    run_id: str,
    decisions: Mapping[str, Verdict],
    **options: Any,
) -> str:
    """Fork a run for a sender who has the rights; see `AsyncRunner.fork`."""
    if decisions:
        await caller.require("decide", source)
    # The right to fork one run gives none to write under the id of another.
    await caller.require("fork", run_id)
    return await caller.runner.fork(
        source,
        version,
        run_id=run_id,
        decisions=decisions,
        **options,
    )


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
    form = {**to_json(publication), "woken": woken}
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


# Several decisions --------------------------------------------------------------


async def decide_all(context: RequestContext) -> Response:
    """Record several decisions, each on its own, then wake the decided runs."""
    from continuations.engine.requests.decision_batch import decide_each  # noqa: PLC0415 - rarely used

    items = request_fields.body(context)["decisions"]
    if not 1 <= len(items) <= MAX_DECISIONS:
        msg = f'"decisions" must be a list of 1 to {MAX_DECISIONS} decisions.'
        raise problems.malformed(msg)
    posted = decision_bodies.posted_decisions(items, context.identity)
    results = await decide_each(
        context.runner.decide,
        {wait_id: each.verdict for wait_id, each in posted.items()},
        HTTP,
        shown={wait_id: each.shown for wait_id, each in posted.items()},
    )
    decided = [key for key, each in results.items() if isinstance(each, Decision)]
    run_ids = dict.fromkeys(layout.parse_wait_id(key).run_id for key in decided)
    woken = {run_id: await context.wake(run_id) for run_id in run_ids}
    forms = [await _shown(context, *item, woken=woken) for item in results.items()]
    return json_response({"results": forms})


async def _shown(
    context: RequestContext,
    wait_id: str,
    result: Decision | Vote | Exception,
    *,
    woken: dict[str, bool],
) -> dict[str, Any]:
    """Return the result of one decision, as far as the sender may view its run."""
    if isinstance(result, AlreadyDecided) and not await _may_view(context, wait_id):
        result = problems.decided_already()
    elif not isinstance(result, Exception) and not await _may_view(context, wait_id):
        return {"wait_id": wait_id, "recorded": True}
    return _result_json(context, wait_id, result, woken=woken)


async def _may_view(context: RequestContext, wait_id: str) -> bool:
    return await context.may("view", layout.parse_wait_id(wait_id).run_id)


def _result_json(
    context: RequestContext,
    wait_id: str,
    result: Decision | Vote | Exception,
    *,
    woken: dict[str, bool],
) -> dict[str, Any]:
    if isinstance(result, Exception):
        now = context.clock.now()
        problem = problems.from_error(result, "POST /decisions", now)
        return {"wait_id": wait_id, "problem": problem.body()}
    was_woken = isinstance(result, Decision)
    was_woken = was_woken and woken[layout.parse_wait_id(wait_id).run_id]
    return {"wait_id": wait_id, **json_forms.decide_json(result, woken=was_woken)}


HANDLERS: Mapping[str, RouteHandler] = {
    "decideAll": decide_all,
    "fork": fork,
    "publish": publish,
    "resume": resume,
    "start": start,
    "sweep": sweep,
}
"""The functions of the operations, by their ids."""
