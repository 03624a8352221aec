"""Ask the rights of an HTTP request for the run that its operation concerns.

Loaded only if the application passed `can`. Lists ask for each row instead: `waits`,
`runs` and `drift` have the rows that the person may view.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.errors import AlreadyDecided, WaitNotFound
from continuations.ledger import layout, thread_ids
from continuations.ledger.arrivals import thread_keys
from continuations.ledger.objects import Objects
from continuations.serve.http import problems, request_fields
from continuations.serve.http.request_response import json_response
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from continuations.serve.http.request_context import RequestContext, RouteHandler
    from continuations.serve.http.request_response import Response
    from continuations.serve.operations import Subject
    from continuations.serve.rights import Act

_ACCEPTED = 202


# The sender may know these members of a response without the right to view the run.
_OWN_MEMBERS = ("run_id", "number")
_READING_ACTS: Sequence[Act] = ("view", "read")


async def answer(context: RequestContext, handler: RouteHandler) -> Response:
    """Call the handler of a request whose sender has the right.

    A sender who may not view the run learns only that the request is recorded.
    """
    operation = context.operation
    if operation.right is None:
        return await handler(context)
    run_ids = await _require(context, operation.right)
    if not operation.hides_content:
        return await handler(context)
    if context.request.wants_live_events and not await _may_read(context, run_ids):
        request = replace(context.request, can_stream=False)
        context = replace(context, request=request)
    try:
        response = await handler(context)
    except AlreadyDecided:
        if await _may_view(context, run_ids):
            raise
        raise problems.decided_already() from None
    if response.chunks is not None or await _may_view(context, run_ids):
        return response
    body = json.loads(response.body)
    own = {name: body[name] for name in _OWN_MEMBERS if name in body}
    return json_response({**own, "recorded": True}, _ACCEPTED)


async def _may_read(context: RequestContext, run_ids: Sequence[str | None]) -> bool:
    """Return whether a sender may get the words of runs while they are written."""
    if not await _may_view(context, run_ids):
        return False
    for run_id in dict.fromkeys(run_ids):
        if not await context.may("read", run_id):
            return False
    return True


async def _may_view(context: RequestContext, run_ids: Iterable[str | None]) -> bool:
    for run_id in dict.fromkeys(run_ids):
        if not await context.may("view", run_id):
            return False
    return True


async def _require(context: RequestContext, right: Act) -> list[str | None]:
    """Refuse a request with status 403 unless its sender has the right.

    A request whose body names no run is left to its handler, which refuses it.
    """
    run_ids = await _run_ids(context, context.operation.subject)
    # The transcript is a part of the run.
    acts: Sequence[Act] = _READING_ACTS if right == "read" else (right,)
    for run_id in run_ids:
        for act in acts:
            if not await context.may(act, run_id):
                raise problems.forbidden(act)
    known = context.request.headers.get("last-event-id")
    if known is not None:
        # Stored events are sent, also those of an earlier run of a thread.
        earlier, _, _ = known.rpartition("/")
        run_ids = [*run_ids, *filter(None, [earlier])]
        for run_id in run_ids:
            if not await context.may("view", run_id):
                raise problems.forbidden("view")
    return run_ids


async def _run_ids(context: RequestContext, subject: Subject) -> list[str | None]:
    params = context.path_params
    if subject == "store":
        return [None]
    if subject == "run":
        return [params["run_id"]]
    if subject == "wait":
        return [layout.parse_wait_id(params["wait_id"]).run_id]
    if subject == "thread":
        return [*await _thread_run_ids(context)]
    fields = request_fields.parse_json_object(context.request)
    if subject == "body":
        run_id = fields.get("run_id")
        return [run_id] if isinstance(run_id, str) else []
    decisions = jsontext.as_array(fields.get("decisions")) or ()
    ids = [(jsontext.as_object(each) or {}).get("wait_id") for each in decisions]
    runs: set[str] = set()
    for wait_id in ids:
        with suppress(WaitNotFound):  # the result of this decision says so
            runs.add(layout.parse_wait_id(wait_id).run_id)
    return [*sorted(runs)]


async def _thread_run_ids(context: RequestContext) -> set[str]:
    """Return the newest run of a thread, or its first; and that of the query.

    Most routes use the newest run, whatever the query says.
    """
    agent, key = context.path_params["agent"], context.path_params["key"]
    objects = Objects(context.runner.store)
    newest = await thread_keys.newest_generation(objects, agent, key)
    run_id = newest.run_id or thread_ids.thread_run_id(agent, key, 1)
    asked = context.request.query.get("run_id")
    return {run_id} if asked is None else {run_id, asked}
