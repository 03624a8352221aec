"""The HTTP API as an ASGI application, on Starlette (extra `web`).

app = asgi.app(api)                          # uvicorn module:app
fastapi_app.mount("/agents", asgi.app(api))  # inside another application
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from starlette import requests, responses, routing
from starlette.applications import Starlette

from continuations.serve.http import problems
from continuations.serve.http.request_response import Request
from continuations.serve.http.routes import ROUTES, THREADS, find_route

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Lifespan, Receive, Scope, Send

    from continuations.serve.http.api import HttpApi
    from continuations.serve.http.request_response import Response
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
    application = Starlette(
        routes=[
            routing.Route(each.path, _RouteEndpoint(api, each))
            for each in ROUTES
            if not each.path.startswith(THREADS)
        ],
        lifespan=lifespan,
    )
    application.router.redirect_slashes = False
    application.router.default = _OtherPaths(api)
    return application


async def _no_such_path(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        response = _to_starlette(problems.no_such_path().response(), scope["method"])
        await response(scope, receive, send)
        return
    # Refuse a websocket before it is opened (ASGI specification, "Close").
    await send({"type": "websocket.close", "code": 1000})


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
        path = _path_below_mount(scope)
        raw_path = _raw_path(scope, path)
        is_thread = scope["type"] == "http" and path.startswith(THREADS)
        found = find_route(path, raw_path) if is_thread else None
        if found is None:
            await _no_such_path(scope, receive, send)
            return
        request = requests.Request(scope, receive)
        answer = _Answer(self._api, *found, path, raw_path)
        await answer.send(request, scope, receive, send)


def _path_below_mount(scope: Scope) -> str:
    """Return the decoded path without the mount point, as Starlette's router does."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if path.startswith(f"{root}/") else path


def _raw_path(scope: Scope, path: str) -> str:
    """Return the end of the encoded path that is `path` after decoding."""
    raw: str = (scope.get("raw_path") or b"").decode("latin-1").partition("?")[0]
    start = raw.find("/")
    while start >= 0:
        if unquote(raw[start:]) == path:
            return raw[start:]
        start = raw.find("/", start + 1)
    return quote(path)


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
            body = await _read_body(request, self.api.max_body_bytes)
        except requests.ClientDisconnect:
            return
        if body is None:
            response = self.api.refuse_large_body(self.route)
        else:
            response = await self.api.handle_route(
                self.route, self.path_params, self._from_starlette(request, body)
            )
        await _to_starlette(response, request.method)(scope, receive, send)

    def _from_starlette(self, request: requests.Request, body: bytes) -> Request:
        headers: dict[str, str] = {}
        for name, value in request.headers.items():
            # A repeated header is a list (RFC 9110, section 5.3).
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return Request(
            method=request.method,
            path=self.path,
            query=dict(request.query_params),
            headers=headers,
            body=body,
            raw_path=self.raw_path,
            can_stream=True,
        )


async def _read_body(request: requests.Request, max_bytes: int) -> bytes | None:
    """Return the body, or `None` without reading the rest of one that is too large.

    Starlette's own limit answers with plain text instead of a problem.
    """
    content_length = request.headers.get("content-length", "0")
    if content_length.isdigit() and int(content_length[:20]) > max_bytes:
        return None
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            return None
    return bytes(body)


def _to_starlette(response: Response, method: str) -> responses.Response:
    if response.chunks is not None:
        return responses.StreamingResponse(
            response.chunks, response.status, dict(response.headers)
        )
    is_head = method == "HEAD"
    outgoing = responses.Response(
        "" if is_head else response.body, response.status, dict(response.headers)
    )
    if is_head:
        # Starlette sends 0; HEAD must send the length of GET (RFC 9110, section 8.6).
        del outgoing.headers["content-length"]
    return outgoing
