"""The ASGI application: who sends a turn, to which thread or run, with which rights."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ag_ui.core import PROTOCOL_VERSION, RunAgentInput
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request

from continuations import AsyncRunner, Identity
from continuations.errors import ContinuationsError, InvalidInput
from continuations.interop.agui.conversation import new_messages
from continuations.interop.agui.turn import Subject, Turn
from continuations.serve.http import asgi, event_stream, problems, request_fields
from continuations.serve.http.api import MAX_BODY_BYTES, Verifier
from continuations.serve.http.asgi import IDENTITY, Verified
from continuations.serve.option_checks import (
    check_async_runner,
    check_callable,
    check_count,
)
from continuations.serve.rights import Act, Can, Rights
from continuations.threads import AsyncThread

if TYPE_CHECKING:
    from starlette.types import Lifespan, Receive, Scope, Send

    from continuations.serve.http.request_response import Request as PlainRequest
    from continuations.serve.http.request_response import Response

_log = logging.getLogger("continuations")
# The most waits that one turn answers.
_MAX_ANSWERS = 1000

ThreadOf: TypeAlias = Callable[
    [Identity, str],
    "AsyncThread[Any] | str | Awaitable[AsyncThread[Any] | str | None] | None",
]
"""A function or coroutine function of the person and the client's `threadId`.

It returns a thread of the runner, the id of a run, or `None` for neither.
"""


def app(
    runner: AsyncRunner[Any],
    *,
    thread: ThreadOf | None = None,
    verify: Verifier | None = None,
    can: Can | None = None,
    max_body_bytes: int = MAX_BODY_BYTES,
    lifespan: Lifespan[Starlette] | None = None,
) -> Starlette:
    """Return an ASGI application that serves conversations by AG-UI 1.0.

    It answers POST at its root. Serve it by itself, or mount it in another application.
    A turn works in this process, and the work goes on if the client leaves. Any
    process with the same store and agents serves the next turn.

    Args:
        runner: The runner.
        thread: Returns the thread or run that a `threadId` of a person names. Default:
            `runner.thread(key=thread_id)`, one conversation for all who know the id.
        verify: Returns the identity of a request, as for `HttpApi`. It is the sender of
            messages, and the person who decides. Without it, each request has status
            401.
        can: Returns whether an identity may do something with a run; see
            `continuations.serve.rights`. A turn needs `view`, and `message` or, for
            answers alone, `decide`. Without `read`, texts are `"[not shown]"`.
        max_body_bytes: The maximum size of a request body, in bytes. Clients send
            their whole conversation.
        lifespan: Starlette's lifespan, such as `worker_lifespan(runner)`.

    Returns:
        The application.

    Raises:
        InvalidInput: An option has a wrong type.
    """
    check_async_runner(runner)
    check_callable("thread", thread, "a function of an identity and a thread id")
    if thread is None and len(runner.root_agents) > 1:
        names = ", ".join(agent.name for agent in runner.root_agents)
        raise InvalidInput(
            f"the runner has several root agents ({names}), so a threadId names no "
            "conversation. Pass thread=, a function that returns runner.thread(...)."
        )
    check_callable("verify", verify, "a function that takes a Request")
    rights = Rights(can)
    check_count("max_body_bytes", max_body_bytes)
    application = Starlette(lifespan=lifespan)
    application.router.default = _Door(runner, thread, rights)
    application.add_middleware(
        Verified, verify=verify, option_of="agui.app", max_body_bytes=max_body_bytes
    )
    return application


class _Door:
    """Serves the root path. An error before the turn is a response with its status."""

    def __init__(
        self,
        runner: AsyncRunner[Any],
        thread: ThreadOf | None,
        rights: Rights,
    ) -> None:
        self._runner = runner
        self._thread_of = thread
        self._rights = rights

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._response(request)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - every error is a response
            operation = f"{request.method} of AG-UI"
            response = problems.from_error(error, operation).response()
        outgoing = asgi.to_starlette(response, request.method)
        await outgoing(scope, receive, send)

    async def _response(self, request: Request) -> Response:
        path = asgi.path_below_mount(request.scope)
        if path not in ("", "/"):
            return problems.no_such_path(
                "The application has one path, its root."
            ).response()
        if request.method != "POST":
            return problems.method_not_allowed("POST").response()
        plain = asgi.plain_request(request, path, await request.body())
        turn = await self._turn(request.scope[IDENTITY], _input_of(plain))
        return event_stream.live_response(turn.lines())

    async def _turn(self, person: str | Identity, given: RunAgentInput) -> Turn:
        """Return the turn; raise if the person may not have it."""
        identity = Identity(person) if isinstance(person, str) else person
        subject = await self._subject(identity, given.thread_id)
        try:
            newest = await subject.look()
        except ContinuationsError:
            await self._require(identity, "view", subject.run_id)
            raise
        run_id = subject.run_id if newest is None else newest.run_id
        await self._require(identity, "view", run_id)
        may_decide = await self._rights.allow(identity, "decide", run_id)
        new = new_messages(given.messages, subject.stored_ids)
        answers = any(each.status == "resolved" for each in given.resume or ())
        if new or not (answers and may_decide):
            await self._require(identity, "message", run_id)
        return Turn(
            subject=subject,
            given=given,
            by=person,
            newest=newest,
            new=new,
            may_decide=may_decide,
            reads=await self._rights.allow(identity, "read", run_id),
        )

    async def _require(self, identity: Identity, act: Act, run_id: str) -> None:
        if not await self._rights.allow(identity, act, run_id):
            raise problems.forbidden(act)

    async def _subject(self, identity: Identity, thread_id: str) -> Subject:
        if self._thread_of is None:
            found: Any = self._runner.thread(key=thread_id)
        else:
            found = self._thread_of(identity, thread_id)
            found = await found if isawaitable(found) else found
        if isinstance(found, AsyncThread):
            return Subject(self._runner, found.run_id, cast("Any", found))
        if type(found) is str:
            return Subject(self._runner, found)
        if found is None:
            raise problems.forbidden("view")
        raise TypeError(
            "thread must return a thread of the runner, the id of a run, or None, got "
            f"{type(found).__name__}. Return runner.thread(agent, key=...)."
        )


def _input_of(request: PlainRequest) -> RunAgentInput:
    """Return the input of a turn; raise a refusal without its values."""
    value = request_fields.parse_json_object(request)
    try:
        # A text without a form in UTF-8 can be neither stored nor sent back.
        json.dumps(value, ensure_ascii=False).encode()
        given = RunAgentInput.model_validate(value)
    except ValueError as error:
        place = ""
        if isinstance(error, ValidationError):
            names = [str(each) for each in error.errors(include_input=False)[0]["loc"]]
            place = f' at "{".".join(names):.100}"'
        msg = f"The body is not a RunAgentInput of AG-UI {PROTOCOL_VERSION}{place}."
        raise problems.malformed(msg) from None
    entries = given.resume or ()
    answers = sum(each.status == "resolved" for each in entries)
    if answers > _MAX_ANSWERS or len({e.interrupt_id for e in entries}) < len(entries):
        raise problems.malformed(
            '"resume" must name each interrupt once, and resolve at most '
            f"{_MAX_ANSWERS}."
        )
    if given.protocol_version not in (None, PROTOCOL_VERSION):
        text = "a client speaks AG-UI %.20r, and this server %s"
        _log.warning(text, given.protocol_version, PROTOCOL_VERSION)
    return given
