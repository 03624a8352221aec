"""Handlers of the HTTP API about the past of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.present import json_forms
from continuations.serve.http import decision_bodies, problems
from continuations.serve.http.page_size import page_size
from continuations.serve.http.request_context import HTTP
from continuations.serve.http.request_response import Response, json_response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.identity import Identity
    from continuations.serve.http.request_context import RequestContext

_MAX_DIGITS = 10


async def list_versions(context: RequestContext) -> Response:
    """List the versions of a run, one page at a time."""
    from continuations.present.json_forms import version_json  # noqa: PLC0415 - rarely used

    run_id, query = context.path_params["run_id"], context.request.query
    _check_query(context, {"after", "limit"})
    limit = page_size(context.request)
    after = _number(query.get("after", "0"), "after")
    rows: list[dict[str, Any]] = []
    next_after = None
    detail = await context.detail(run_id)
    async for version in context.runner.history(run_id, after=after):
        if len(rows) == limit:
            next_after = rows[-1]["number"]
            break
        rows.append(version_json(version, detail))
    return json_response({"run_id": run_id, "versions": rows, "next": next_after})


async def show_version(context: RequestContext) -> Response:
    """Show a run as it was in a version, with its agents, messages and calls."""
    number = _number(context.path_params["number"], "number")
    run = await context.runner.look(context.path_params["run_id"], version=number)
    form = json_forms.run_json(
        run,
        decided=(),
        now=context.clock.now(),
        with_stack=True,
        detail=await context.detail(run.run_id),
    )
    return json_response(form)


async def compare(context: RequestContext) -> Response:
    """Compare two versions of a run."""
    from continuations.present.json_forms import difference_json  # noqa: PLC0415 - rarely used

    query = context.request.query
    _check_query(context, {"from", "to"})
    run_id = context.path_params["run_id"]
    found = await context.runner.diff(
        run_id,
        _number(query.get("from", ""), "from"),
        _number(query.get("to", ""), "to"),
    )
    return json_response(difference_json(found, await context.detail(run_id)))


_FORK_FIELDS = frozenset({"version", "run_id", "decisions", "results", "messages"})


async def fork(context: RequestContext) -> Response:
    """Start a new run from a version of a run; nothing runs before it is resumed."""
    from continuations.serve.fork_ids import new_fork_id  # noqa: PLC0415 - rarely used

    fields = decision_bodies.parse_json_object(context.request)
    decision_bodies.refuse_unknown_fields(fields, _FORK_FIELDS)
    source = context.path_params["run_id"]
    posted = _posted_decisions(fields, context.identity)
    if posted and not await context.may("decide", source):
        raise problems.forbidden("decide")
    given_id = decision_bodies.optional_text(fields, "run_id")
    new_id = new_fork_id(source) if given_id is None else given_id
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


async def plan_rewind(context: RequestContext) -> Response:
    """Show what a rewind would end, and what it would not undo."""
    from continuations.present.json_forms import rewind_plan_json  # noqa: PLC0415 - rarely used

    query = context.request.query
    _check_query(context, {"version"})
    number = _number(query.get("version", ""), "version")
    plan = await context.runner.plan_rewind(context.path_params["run_id"], number)
    return json_response(rewind_plan_json(plan, await context.detail(plan.run_id)))


async def rewind(context: RequestContext) -> Response:
    """Let a run go on from an earlier version; nothing runs before it is resumed."""
    from continuations.present.json_forms import rewound_json  # noqa: PLC0415 - rarely used

    fields = decision_bodies.parse_json_object(context.request)
    decision_bodies.refuse_unknown_fields(fields, frozenset({"version", "shown"}))
    run_id, version = context.path_params["run_id"], fields.get("version")
    if type(version) is not int:
        raise problems.malformed('The body needs "version", the number of a version.')
    shown = decision_bodies.optional_text(fields, "shown")
    rewound = await context.runner.rewind(
        run_id, version, shown=shown, by=context.identity, door=HTTP
    )
    return json_response(rewound_json(rewound, await context.detail(run_id)))


def _posted_decisions(
    fields: Mapping[str, Any], by: str | Identity
) -> dict[str, decision_bodies.PostedDecision]:
    items = jsontext.as_array(fields.get("decisions", []))
    if items is None:
        raise problems.malformed('"decisions" must be a list of decisions.')
    return decision_bodies.posted_decisions(items, by)


def _check_query(context: RequestContext, names: set[str]) -> None:
    if not context.request.query.keys() <= names:
        listed = ", ".join(sorted(names))
        raise problems.malformed(f"The query may have {listed}.")


def _number(text: str, name: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS:
        return int(text)
    raise problems.malformed(f'"{name}" must be the number of a version.')
