"""The right that each route of the HTTP API needs, and the run that it concerns.

Loaded only if the application passed `can`. Lists ask for each row instead: `waits`,
`runs` and `drift` have the rows that the person may view.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, TypeAlias

from continuations.core import jsontext
from continuations.errors import AlreadyDecided, WaitNotFound
from continuations.ledger import layout, thread_ids, thread_keys
from continuations.ledger.objects import Objects
from continuations.serve.http import decision_bodies, problems
from continuations.serve.http.request_response import json_response
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from continuations.serve.http.request_context import RequestContext
    from continuations.serve.http.request_response import Response
    from continuations.serve.http.route import Route, RouteHandler
    from continuations.serve.rights import Act

_ACCEPTED = 202
Subject: TypeAlias = Literal["run", "wait", "thread", "body", "decisions", "store"]


@dataclass(frozen=True, slots=True)
class RouteRight:
    """The right that a request needs.

    Attributes:
        act: The act. `read` needs `view` too.
        subject: The part of the request that names the run: a part of the path, the
            JSON body, or the waits of several decisions. `store`: the request concerns
            no single run.
        tells_nothing: The response has nothing of the run.
    """

    act: Act
    subject: Subject = "run"
    tells_nothing: bool = False


# `None`: the handler asks for each row, or the response tells of no run.
RIGHTS: Mapping[tuple[str, str], RouteRight | None] = {
    ("GET", "/openapi.json"): None,
    ("GET", "/waits"): None,
    ("GET", "/drift"): None,
    ("GET", "/runs"): None,
    ("GET", "/waits/{wait_id}"): RouteRight("view", "wait"),
    ("POST", "/waits/{wait_id}/decision"): RouteRight("decide", "wait"),
    ("POST", "/decisions"): RouteRight("decide", "decisions"),
    ("POST", "/runs"): RouteRight("message", "body"),
    ("GET", "/runs/{run_id}"): RouteRight("view"),
    ("DELETE", "/runs/{run_id}"): RouteRight("erase"),
    ("GET", "/runs/{run_id}/audit"): RouteRight("view"),
    ("GET", "/runs/{run_id}/events"): RouteRight("view"),
    ("GET", "/runs/{run_id}/grants"): RouteRight("view"),
    ("GET", "/runs/{run_id}/signals"): RouteRight("view"),
    ("POST", "/runs/{run_id}/signals/drop"): RouteRight("cancel"),
    ("GET", "/runs/{run_id}/versions"): RouteRight("view"),
    ("GET", "/runs/{run_id}/versions/{number}"): RouteRight("view"),
    ("GET", "/runs/{run_id}/files/{digest}"): RouteRight("read"),
    ("GET", "/runs/{run_id}/diff"): RouteRight("view"),
    ("POST", "/runs/{run_id}/fork"): RouteRight("fork", tells_nothing=True),
    ("GET", "/runs/{run_id}/rewind"): RouteRight("view"),
    ("POST", "/runs/{run_id}/rewind"): RouteRight("fork"),
    ("POST", "/runs/{run_id}/grants/{grant}/revoke"): RouteRight(
        "decide", tells_nothing=True
    ),
    ("POST", "/runs/{run_id}/resume"): RouteRight("message"),
    ("POST", "/runs/{run_id}/wake"): RouteRight("message"),
    ("POST", "/runs/{run_id}/cancel"): RouteRight("cancel"),
    ("POST", "/runs/{run_id}/pause"): RouteRight("cancel"),
    ("POST", "/runs/{run_id}/unpause"): RouteRight("cancel"),
    ("POST", "/runs/{run_id}/messages"): RouteRight("message", tells_nothing=True),
    ("POST", "/signals"): RouteRight("message", "body", tells_nothing=True),
    ("POST", "/events"): RouteRight("message", "store"),
    ("POST", "/sweep"): RouteRight("message", "store"),
    ("GET", "/threads/{agent}/{key}"): RouteRight("view", "thread"),
    ("POST", "/threads/{agent}/{key}/messages"): RouteRight("message", "thread"),
    ("GET", "/threads/{agent}/{key}/messages/{number}"): RouteRight("view", "thread"),
    ("GET", "/threads/{agent}/{key}/events"): RouteRight("view", "thread"),
    ("POST", "/threads/{agent}/{key}/stop"): RouteRight("cancel", "thread"),
    ("POST", "/threads/{agent}/{key}/close"): RouteRight("cancel", "thread"),
}


# The handlers of these subjects ask for each run that their response names.
_ASKED_BY_HANDLERS: frozenset[Subject] = frozenset({"decisions", "store"})
# The sender may know these members of a response without the right to view the run.
_OWN_MEMBERS = ("run_id", "number")
_READING_ACTS: Sequence[Act] = ("view", "read")


def hides_content(right: RouteRight | None) -> bool:
    """Return whether a response tells less to a sender who may not view the run."""
    if right is None or right.act in _READING_ACTS or right.tells_nothing:
        return False
    return right.subject not in _ASKED_BY_HANDLERS


async def answer(
    context: RequestContext, route: Route, method: str, handler: RouteHandler
) -> Response:
    """Call the handler of a request whose sender has the right.

    A sender who may not view the run learns only that the request is recorded.
    """
    # A route that the table lacks is closed.
    right = RIGHTS.get((method, route.path), RouteRight("erase", "store"))
    if right is None:
        return await handler(context)
    run_ids = await _require(context, right)
    if not hides_content(right):
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


async def _require(context: RequestContext, right: RouteRight) -> list[str | None]:
    """Refuse a request with status 403 unless its sender has the right.

    A request whose body names no run is left to its handler, which refuses it.
    """
    run_ids = await _run_ids(context, right.subject)
    # The transcript is a part of the run.
    acts: Sequence[Act] = _READING_ACTS if right.act == "read" else (right.act,)
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
    fields = decision_bodies.parse_json_object(context.request)
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
