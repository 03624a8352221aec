"""The route of webhooks: verify a message, and do what it means."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.decisions import VERDICT_KINDS, Door
from continuations.core.run import ENDED_STATUSES
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
from continuations.serve.http import problems
from continuations.serve.http.request_response import json_response
from continuations.serve.http.webhook_receiver import Decide, SendSignal, Wake
from continuations.value_class import replace

if TYPE_CHECKING:
    from continuations.serve.http.request_context import RequestContext
    from continuations.serve.http.request_response import Response

_log = logging.getLogger("continuations")
_DOOR = Door("webhook", "signed message")


async def receive(context: RequestContext) -> Response:
    """Verify a message and do what it means, once."""
    name = context.path_params["name"]
    receiver = context.webhooks.get(name)
    request = context.request
    if receiver is None:
        raise problems.webhook_refused()
    message_id = receiver.verified_id(request, context.clock.now())
    if message_id is None:
        raise problems.webhook_refused()
    try:
        payload = jsontext.parse(request.body, lossless=True)
    except jsontext.NotJson as error:
        msg = f"The body is not JSON: {error}."
        raise problems.malformed(msg) from None
    meaning = await receiver.meaning(payload, request.headers)
    if meaning is None:
        return json_response({"status": "ignored", "woken": False})
    if isinstance(meaning, Wake):
        return await _wake(context, meaning, name)
    try:
        run_id = await _do(context, meaning, name, message_id)
    except (AlreadyDecided, Cancelled, RunErased, WaitExpired) as error:
        return _too_late(name, error)
    except InvalidInput as error:
        if isinstance(meaning, Decide) or not await _has_ended(context, meaning.run_id):
            raise
        return _too_late(name, error)
    woken = await context.wake(run_id)
    return json_response({"status": "recorded", "woken": woken})


async def _wake(context: RequestContext, meaning: Wake, name: str) -> Response:
    """Let the next worker poll the models of a run, and start one."""
    try:
        waits = await context.runner.wake(
            meaning.run_id, by=f"webhook {name}", door=_DOOR
        )
    except (InvalidId, RunErased, RunNotFound) as error:
        # Several stores may share an account of the provider.
        return _too_late(name, error)
    if waits == 0:
        return json_response({"status": "ignored", "woken": False})
    woken = await context.wake(meaning.run_id)
    return json_response({"status": "recorded", "woken": woken})


def _too_late(name: str, error: Exception) -> Response:
    """Senders repeat a message that fails, and stop sending after status 410."""
    _log.warning("a message of webhook %s came too late: %s", name, error)
    return json_response({"status": "too_late", "woken": False})


async def _has_ended(context: RequestContext, run_id: str) -> bool:
    return (await context.runner.look(run_id)).status in ENDED_STATUSES


async def _do(
    context: RequestContext,
    meaning: Decide | SendSignal,
    name: str,
    message_id: str,
) -> str:
    """Record what a message means; return the id of the run."""
    by = f"webhook {name}"
    if isinstance(meaning, Decide):
        verdict = meaning.verdict
        if type(verdict) in VERDICT_KINDS and verdict.by is None:
            verdict = replace(verdict, by=by)
        await context.runner.decide(meaning.wait_id, verdict, door=_DOOR)
        return layout.parse_wait_id(meaning.wait_id).run_id
    await context.runner.signal(
        meaning.run_id,
        meaning.name,
        meaning.data,
        by=by,
        id=f"{name}/{message_id}",
        door=_DOOR,
    )
    return meaning.run_id
