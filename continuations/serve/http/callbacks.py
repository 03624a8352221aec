"""The callbacks of jobs: another system reports its result to the URL that it got.

    POST /callbacks/{token}              {"value": …}  or  {"error": "…"}
    POST /callbacks/{token}/heartbeat    {"extend": 600}

The token is for one job. It allows a result or an error and nothing else: the reply
has no data of the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.decisions import Answer, Door, Fail
from continuations.errors import AlreadyDecided
from continuations.ledger import layout
from continuations.serve.http import decision_bodies, problems
from continuations.serve.http.links import CallbackInvalid
from continuations.serve.http.request_response import json_response
from continuations.wire.report import utc_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.serve.http.request_context import RequestContext, RouteHandler
    from continuations.serve.http.request_response import Request, Response

CALLBACK = Door("callback", "signed URL")


async def report(context: RequestContext) -> Response:
    """Record the result of a job, then give its run to the dispatcher.

    The same result may be sent again, also after the run has ended.
    """
    wait_id = read_token(context)
    verdict = _verdict(context.request)
    try:
        decision = await context.runner.decide(wait_id, verdict, door=CALLBACK)
    except AlreadyDecided:
        raise problems.callback_too_late() from None
    woken = await context.wake(layout.parse_wait_id(decision.wait_id).run_id)
    return json_response({"status": "recorded", "woken": woken})


async def extend(context: RequestContext) -> Response:
    """Give a job more time, in seconds from now; return its newest deadline."""
    wait_id = read_token(context)
    from continuations.serve.http import request_fields  # noqa: PLC0415 - not to decide

    fields = request_fields.body(context)
    try:
        wait = await context.runner.heartbeat(wait_id, **fields, by=CALLBACK.name)
    except AlreadyDecided:
        raise problems.callback_too_late() from None
    deadline = None if wait.deadline is None else utc_text(wait.deadline)
    return json_response({"status": "extended", "deadline": deadline})


def read_token(context: RequestContext) -> str:
    """Return the id of the wait; raises `CallbackInvalid`."""
    if context.links is None:
        raise CallbackInvalid
    return context.links.read_callback(context.path_params["token"])


def _verdict(request: Request) -> Answer | Fail:
    fields = decision_bodies.parse_json_object(request)
    decision_bodies.refuse_unknown_fields(fields, frozenset({"value", "error"}))
    if len(fields) != 1:
        raise problems.malformed('The body needs "value" or "error", and not both.')
    error = decision_bodies.optional_text(fields, "error")
    if error is not None:
        return Fail(error, by=CALLBACK.name)
    return Answer(fields["value"], by=CALLBACK.name)


HANDLERS: Mapping[str, RouteHandler] = {"reportResult": report, "extendJob": extend}
"""The functions of the operations, by their ids."""
