"""Requests of other systems: callbacks of jobs, and signed webhooks.

    POST /callbacks/{token}              {"value": …}  or  {"error": "…"}
    POST /callbacks/{token}/heartbeat    {"extend": 600}
    POST /webhooks/{name}                signed as Standard Webhooks say

A job reports its result to the URL that it got. The token is for one job. It allows a
result or an error and nothing else: the reply has no data of the run. The application
says what a webhook means (`webhook_receiver`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from continuations.core.rows.decisions import VERDICT_KINDS, Answer, Door, Fail
from continuations.core.rows.run import ENDED_STATUSES
from continuations.errors import (
    AlreadyDecided,
    Cancelled,
    InvalidId,
    InvalidInput,
    RunErased,
    RunNotFound,
    WaitExpired,
)
from continuations.ledger import layout
from continuations.present.requests import JOB_RESULT
from continuations.serve.http import problems, request_fields
from continuations.serve.http.links import CallbackInvalid
from continuations.serve.http.request_response import Request, Response, json_response
from continuations.serve.http.webhook_receiver import Decide, Publish, SendSignal, Wake
from continuations.value_class import replace
from continuations.wire.report import utc_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.serve.http.request_context import RequestContext, RouteHandler

CALLBACK = Door("callback", "signed URL")
WEBHOOK = Door("webhook", "signed message")
_log = logging.getLogger("continuations")


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
    fields = request_fields.parse_json_object(request)
    request_fields.check(fields, JOB_RESULT)
    if len(fields) != 1:
        raise problems.malformed('The body needs "value" or "error", and not both.')
    if "error" in fields:
        return Fail(fields["error"], by=CALLBACK.name)
    return Answer(fields["value"], by=CALLBACK.name)


# Webhooks -----------------------------------------------------------------------


async def receive(context: RequestContext) -> Response:
    """Verify a message and do what it means, once."""
    name = context.path_params["name"]
    receiver = context.webhooks.get(name)
    request = context.request
    if receiver is None:
        raise problems.webhook_refused()
    message_id = receiver.verified_id(request, context.clock.now())
    if message_id is None:
        _log.warning(
            "a message of webhook %s was refused: its id, time or signature is not "
            "valid. Compare the secrets of both sides, and the clocks.",
            name,
        )
        raise problems.webhook_refused()
    message = receiver.read(request, message_id)
    meaning = await receiver.meaning(message.payload, request.headers)
    own_id = f"{name}/{message.id}"
    if meaning is None:
        return json_response({"status": "ignored", "woken": False})
    if isinstance(meaning, Wake):
        return await _wake_run(context, meaning, name)
    if isinstance(meaning, Publish):
        return await _publish(context, meaning, name, own_id)
    try:
        run_id = await _record(context, meaning, name, own_id)
    except (AlreadyDecided, Cancelled, RunErased, WaitExpired) as error:
        return _too_late(name, error)
    except InvalidInput as error:
        if isinstance(meaning, Decide) or not await _has_ended(context, meaning.run_id):
            raise
        return _too_late(name, error)
    woken = await context.wake(run_id)
    return json_response({"status": "recorded", "woken": woken})


async def _wake_run(context: RequestContext, meaning: Wake, name: str) -> Response:
    """Let the next worker poll the models of a run, and start one."""
    try:
        waits = await context.runner.wake(
            meaning.run_id, by=f"webhook {name}", door=WEBHOOK
        )
    except (InvalidId, RunErased, RunNotFound) as error:
        # Several stores may share an account of the provider.
        return _too_late(name, error)
    if waits == 0:
        return json_response({"status": "ignored", "woken": False})
    woken = await context.wake(meaning.run_id)
    return json_response({"status": "recorded", "woken": woken})


async def _publish(
    context: RequestContext, meaning: Publish, name: str, own_id: str
) -> Response:
    """Publish an event, and start workers for the runs that took it."""
    publication = await context.runner.publish(
        meaning.name,
        meaning.data,
        key=meaning.key,
        by=f"webhook {name}",
        id=own_id,
        door=WEBHOOK,
    )
    woken = await context.wake_all(publication.run_ids)
    return json_response({"status": "recorded", "woken": bool(woken)})


def _too_late(name: str, error: Exception) -> Response:
    """Senders repeat a message that fails, and stop sending after status 410."""
    _log.warning("a message of webhook %s came too late: %s", name, error)
    return json_response({"status": "too_late", "woken": False})


async def _has_ended(context: RequestContext, run_id: str) -> bool:
    return (await context.runner.look(run_id)).status in ENDED_STATUSES


async def _record(
    context: RequestContext, meaning: Decide | SendSignal, name: str, own_id: str
) -> str:
    """Record what a message means; return the id of the run."""
    by = f"webhook {name}"
    if isinstance(meaning, Decide):
        verdict = meaning.verdict
        if type(verdict) in VERDICT_KINDS and verdict.by is None:
            verdict = replace(verdict, by=by)
        await context.runner.decide(meaning.wait_id, verdict, door=WEBHOOK)
        return layout.parse_wait_id(meaning.wait_id).run_id
    await context.runner.signal(
        meaning.run_id, meaning.name, meaning.data, by=by, id=own_id, door=WEBHOOK
    )
    return meaning.run_id


HANDLERS: Mapping[str, RouteHandler] = {
    "extendJob": extend,
    "receiveWebhook": receive,
    "reportResult": report,
}
"""The functions of the operations, by their ids."""
