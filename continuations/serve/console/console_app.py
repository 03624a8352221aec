"""The console as a Starlette application, by itself or mounted in another one.

app = console.app(runner, verify=verify)                 # uvicorn module:app
fastapi_app.mount("/agents", console.app(runner, verify=verify))
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request

from continuations.engine.ports import SystemClock
from continuations.errors import InvalidInput
from continuations.serve.console.console import Console
from continuations.serve.console.live import LiveWaits
from continuations.serve.console.same_origin import FormTokens
from continuations.serve.http import asgi_requests, problems
from continuations.serve.http.api import HttpApi
from continuations.serve.option_checks import check_type
from continuations.serve.rights import Rights

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import Lifespan, Receive, Scope, Send

    from continuations.engine.async_runner import AsyncRunner
    from continuations.ledger.claims import Clock
    from continuations.serve.console.local_identity import LocalIdentity
    from continuations.serve.dispatch import Dispatcher
    from continuations.serve.http.api import Verifier
    from continuations.serve.http.links import Links
    from continuations.serve.http.request_response import Request as PlainRequest
    from continuations.serve.rights import Can

__all__ = ["app"]

_MIN_SECRET_BYTES = 32
_EVENTS_PATH, _PING_SECONDS = "/events", 15


def app(  # noqa: PLR0913 - one parameter for each option
    runner: AsyncRunner,
    *,
    verify: Verifier | LocalIdentity | None = None,
    can: Can | None = None,
    dispatcher: Dispatcher | None = None,
    links: Links | None = None,
    origin: str | None = None,
    secret: str | None = None,
    clock: Clock | None = None,
    lifespan: Lifespan[Starlette] | None = None,
) -> Starlette:
    """Return a Starlette application that serves the console and the HTTP API.

    A path is a page for a browser, and JSON for a client that asks for JSON.

    Args:
        runner: The runner whose runs are shown. Only threads need its agents.
        verify: Returns the identity of a request, as for `HttpApi`, or one of the
            ready-made identities. `None` refuses every request.
        can: Returns whether an identity may do something with a run. `None`: each
            identity may do everything.
        dispatcher: Resumes a run after a decision, before the next sweep does.
        links: Makes signed links work; the same secret as the notifier's.
        origin: The public origin, such as `https://agents.example`, if a proxy changes
            the `Host` header. It also says that browsers come over TLS.
        secret: The secret of the forms of browsers that send no `Sec-Fetch-Site`, at
            least 32 bytes; the same in all processes. By default a random one for this
            process.
        clock: The clock for deadlines; the system clock by default.
        lifespan: Starlette's lifespan, for an application that is not mounted.

    Returns:
        The application, to be served by itself or mounted under any prefix.

    Raises:
        InvalidInput: An option is invalid.
    """
    _check_origin(origin)
    _check_secret(secret)
    api = HttpApi(
        runner,
        verify=verify,
        can=can,
        links=links,
        dispatcher=dispatcher,
        clock=clock,
    )
    console = Console(
        runner=runner,
        api=api,
        verify=verify,
        rights=Rights(can),
        tokens=FormTokens.of_secret(secret),
        origin=origin,
        dispatcher=dispatcher,
        clock=clock or SystemClock(),
        live=LiveWaits(runner),
    )
    return _application(console, lifespan)


def _application(console: Console, lifespan: Lifespan[Starlette] | None) -> Starlette:
    application = Starlette(lifespan=lifespan)
    application.router.redirect_slashes = False
    application.router.default = _Endpoint(console)
    # A server that stops calls `live.close()`, so that its streams end.
    application.state.live = console.live
    return application


def _check_origin(origin: object) -> None:
    if origin is None:
        return
    check_type("origin", origin, str, "a text or None")
    parts = urlsplit(str(origin))
    if parts.scheme in ("http", "https") and f"{parts.scheme}://{parts.netloc}" == (
        origin
    ):
        return
    msg = (
        f"origin must be a scheme and a host, got {origin!r:.80}. Pass for example "
        'origin="https://agents.example".'
    )
    raise InvalidInput(msg)


def _check_secret(secret: object) -> None:
    if secret is None:
        return
    check_type("secret", secret, str, "a text or None")
    if len(str(secret).encode()) < _MIN_SECRET_BYTES:
        msg = (
            f"secret must have at least {_MIN_SECRET_BYTES} bytes. Make one with "
            "`python -c 'import secrets; print(secrets.token_urlsafe(32))'`."
        )
        raise InvalidInput(msg)


class _Endpoint:
    """Answers all requests of a console."""

    def __init__(self, console: Console) -> None:
        self._console = console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await asgi_requests.refuse_websocket(send)
            return
        starlette_request = Request(scope, receive)
        path = asgi_requests.path_below_mount(scope)
        root: str = scope.get("root_path", "")
        if path == _EVENTS_PATH and starlette_request.method == "GET":
            request = asgi_requests.plain_request(starlette_request, path, b"")
            stream = await self._events(request, root)
            await stream(scope, receive, send)
            return
        api = self._console.api
        try:
            body = await asgi_requests.read_body(starlette_request, api.max_body_bytes)
        except ClientDisconnect:
            return
        request = asgi_requests.plain_request(starlette_request, path, body or b"")
        if body is None:
            response = problems.too_large(api.max_body_bytes).response()
        else:
            response = await self._console.handle(request, root)
        outgoing = asgi_requests.to_starlette(response, request.method)
        await outgoing(scope, receive, send)

    async def _events(self, request: PlainRequest, root: str) -> Response:
        """Return the stream of changes for a known person."""
        if await self._console.identify(request) is None:
            refused = await self._console.handle(request, root)
            return asgi_requests.to_starlette(refused, request.method)
        after = request.headers.get("last-event-id") or request.query.get("after", "")
        changes = self._console.live.changes(after)
        return EventSourceResponse(
            (ServerSentEvent("", event="waits", id=each) async for each in changes),
            headers=self._console.headers(request, {}),
            ping=_PING_SECONDS,
        )
