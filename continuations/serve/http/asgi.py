"""The HTTP API as an ASGI application, on Starlette (extra `web`).

app = asgi.app(api)                          # uvicorn module:app
fastapi_app.mount("/agents", asgi.app(api))  # inside another application
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette import requests
from starlette.applications import Starlette

from continuations.serve.http import asgi_requests, problems
from continuations.serve.http.routes import find_route

if TYPE_CHECKING:
    from starlette.types import Lifespan, Receive, Scope, Send

    from continuations.serve.http.api import HttpApi
    from continuations.serve.http.request_response import Response

__all__ = ["app"]


def app(api: HttpApi, *, lifespan: Lifespan[Starlette] | None = None) -> Starlette:
    """Return a Starlette application that serves an `HttpApi`.

    Args:
        api: The API. Its `base_path` is not used: mount the application instead.
        lifespan: Starlette's lifespan, for an application that is not mounted in
            another one.

    Returns:
        The application, to be served by itself or mounted under any prefix.
    """
    application = Starlette(lifespan=lifespan)
    # One table of routes for every framework and gateway: `routes.find_route`.
    application.router.default = _Paths(api)
    return application


class _Paths:
    """Serves all paths, with all of their methods.

    `HttpApi` answers OPTIONS and unknown methods, after the identity check. Starlette's
    own router divides the decoded path, so it cannot tell a slash of a thread's key.
    """

    def __init__(self, api: HttpApi) -> None:
        self._api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await asgi_requests.refuse_websocket(send)
            return
        response = await self._response(scope, receive)
        if response is not None:
            outgoing = asgi_requests.to_starlette(response, scope["method"])
            await outgoing(scope, receive, send)

    async def _response(self, scope: Scope, receive: Receive) -> Response | None:
        """Return the response, or `None` if the client has left."""
        path = asgi_requests.path_below_mount(scope)
        raw_path = asgi_requests.raw_path(scope, path)
        found = find_route(path, raw_path)
        if found is None:
            return problems.no_such_path().response()
        request = requests.Request(scope, receive)
        try:
            body = await asgi_requests.read_body(request, self._api.max_body_bytes)
        except requests.ClientDisconnect:
            return None
        route, path_params = found
        if body is None:
            return self._api.refuse_large_body(route)
        plain = asgi_requests.plain_request(request, path, body, raw_path)
        return await self._api.handle_route(route, path_params, plain)
