"""The console as a Starlette application, by itself or mounted in another one.

app = console.app(runner, verify=verify)                 # uvicorn module:app
fastapi_app.mount("/agents", console.app(runner, verify=verify))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request

from continuations.serve.console.console import make_console
from continuations.serve.console.event_streams import open_stream
from continuations.serve.console.live_pages import EVENTS_PATH
from continuations.serve.http import asgi, problems
from continuations.serve.http.api import HttpApi

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import Lifespan, Receive, Scope, Send

    from continuations.engine.runner.async_runner import AsyncRunner
    from continuations.ledger.claims import Clock
    from continuations.serve.console.console import Console
    from continuations.serve.console.identities import LocalIdentity
    from continuations.serve.console.live_pages import LiveMode
    from continuations.serve.dispatch import Dispatcher
    from continuations.serve.http.api import Verifier
    from continuations.serve.http.links import Links
    from continuations.serve.http.request_response import Request as PlainRequest
    from continuations.serve.rights import Can

__all__ = ["app"]

_PING_SECONDS = 15


def app(  # noqa: PLR0913 - one parameter for each option
    runner: AsyncRunner,
    *,
    verify: Verifier | LocalIdentity | None = None,
    can: Can | None = None,
    dispatcher: Dispatcher | None = None,
    links: Links | None = None,
    origin: str | None = None,
    secret: str | None = None,
    live: LiveMode = "events",
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
        secret: The secret of the forms of browsers that send no `Sec-Fetch-Site`, 32
            bytes or more, the same in all processes. By default a random one.
        live: `events`: open pages get server-sent events. `poll`, for servers without
            open connections: they ask every 10 seconds.
        clock: The clock for deadlines; the system clock by default.
        lifespan: Starlette's lifespan, for an application that is not mounted.

    Returns:
        The application, to be served by itself or mounted under any prefix.

    Raises:
        InvalidInput: An option is invalid.
    """
    api = HttpApi(
        runner,
        verify=verify,
        can=can,
        links=links,
        dispatcher=dispatcher,
        clock=clock,
    )
    console = make_console(
        runner,
        api,
        verify=verify,
        can=can,
        dispatcher=dispatcher,
        origin=origin,
        secret=secret,
        live=live,
        clock=clock,
    )
    return _application(console, lifespan)


def _application(console: Console, lifespan: Lifespan[Starlette] | None) -> Starlette:
    application = Starlette(lifespan=lifespan)
    application.router.redirect_slashes = False
    application.router.default = _Endpoint(console)
    # A server that stops calls `live.close()`, so that its streams end.
    application.state.live = console.live
    return application


class _Endpoint:
    """Answers all requests of a console."""

    def __init__(self, console: Console) -> None:
        self._console = console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await asgi.refuse_websocket(send)
            return
        starlette_request = Request(scope, receive)
        path = asgi.path_below_mount(scope)
        root: str = scope.get("root_path", "")
        if self._is_stream(path, starlette_request.method):
            request = asgi.plain_request(starlette_request, path, b"")
            stream = await self._events(request, root)
            await stream(scope, receive, send)
            return
        api = self._console.api
        try:
            body = await asgi.read_body(starlette_request, api.max_body_bytes)
        except ClientDisconnect:
            return
        request = asgi.plain_request(starlette_request, path, body or b"")
        if body is None:
            response = problems.too_large(api.max_body_bytes).response()
        else:
            response = await self._console.handle(request, root)
        outgoing = asgi.to_starlette(response, request.method)
        await outgoing(scope, receive, send)

    def _is_stream(self, path: str, method: str) -> bool:
        is_live = self._console.live.mode == "events"
        return is_live and path == EVENTS_PATH and method == "GET"

    async def _events(self, request: PlainRequest, root: str) -> Response:
        """Return the stream of changes for a known person."""
        console = self._console
        try:
            person = await console.identify(request)
            if person is None:
                refused = await console.handle(request, root)
                return asgi.to_starlette(refused, request.method)
            events = await open_stream(console, request, person)
        except Exception as error:  # noqa: BLE001 - every error is a page
            refused = console.error_response(request, root, error)
            return asgi.to_starlette(refused, request.method)
        return EventSourceResponse(
            (
                ServerSentEvent(each.data, event=each.name, id=each.id or None)
                async for each in events
            ),
            headers=console.headers(request, {}),
            ping=_PING_SECONDS,
        )
