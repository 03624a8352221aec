"""The HTTP API as an ASGI application, on Starlette (extra `web`).

app = asgi.app(api)                          # uvicorn module:app
fastapi_app.mount("/agents", asgi.app(api))  # inside another application
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette import requests, routing
from starlette.applications import Starlette

from continuations.serve.http import asgi_requests, problems
from continuations.serve.http.routes import ROUTES, THREADS, find_route
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Lifespan, Receive, Scope, Send

    from continuations.serve.http.api import HttpApi
    from continuations.serve.http.route import Route

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
    # Starlette tries one route after the other. A path has one route, so their order
    # is free, and decisions come first.
    ordered = sorted(ROUTES, key=lambda each: not each.path.endswith("/decision"))
    application = Starlette(
        routes=[
            routing.Route(each.path, _RouteEndpoint(api, each))
            for each in ordered
            if not each.path.startswith(THREADS)
        ],
        lifespan=lifespan,
    )
    application.router.redirect_slashes = False
    application.router.default = _OtherPaths(api)
    return application


async def _no_such_path(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        response = asgi_requests.to_starlette(
            problems.no_such_path().response(), scope["method"]
        )
        await response(scope, receive, send)
        return
    await asgi_requests.refuse_websocket(send)


class _RouteEndpoint:
    """Serves one route with all of its methods.

    Starlette calls an object that is not a function as an ASGI application, for every
    method. So `HttpApi` answers OPTIONS and unknown methods, after the identity check.
    """

    def __init__(self, api: HttpApi, route: Route) -> None:
        self._api = api
        self._route = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = requests.Request(scope, receive)
        # The path below the mount point; Starlette's is the whole path.
        path = self._route.path.format(**request.path_params)
        answer = _Answer(self._api, self._route, request.path_params, path)
        await answer.send(request, scope, receive, send)


class _OtherPaths:
    """Serves the routes of threads, whose keys are any text, and refuses other paths.

    Starlette divides the decoded path, so it cannot tell a slash of a key from others.
    """

    def __init__(self, api: HttpApi) -> None:
        self._api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = asgi_requests.path_below_mount(scope)
        raw_path = asgi_requests.raw_path(scope, path)
        is_thread = scope["type"] == "http" and path.startswith(THREADS)
        found = find_route(path, raw_path) if is_thread else None
        if found is None:
            await _no_such_path(scope, receive, send)
            return
        request = requests.Request(scope, receive)
        answer = _Answer(self._api, *found, path, raw_path)
        await answer.send(request, scope, receive, send)


@dataclass(frozen=True, slots=True)
class _Answer:
    """Answers one request of a route."""

    api: HttpApi
    route: Route
    path_params: Mapping[str, str]
    path: str
    raw_path: str | None = None

    async def send(
        self, request: requests.Request, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Read the body and send the response."""
        try:
            body = await asgi_requests.read_body(request, self.api.max_body_bytes)
        except requests.ClientDisconnect:
            return
        if body is None:
            response = self.api.refuse_large_body(self.route)
        else:
            response = await self.api.handle_route(
                self.route,
                self.path_params,
                asgi_requests.plain_request(request, self.path, body, self.raw_path),
            )
        await asgi_requests.to_starlette(response, request.method)(scope, receive, send)
