"""The HTTP API as an ASGI application, on Starlette (extra `web`).

app = asgi.app(api)                          # uvicorn module:app
fastapi_app.mount("/agents", asgi.app(api))  # inside another application

Middleware for doors of your own lets only a verified sender pass:

application.add_middleware(asgi.Verified, verify=verify, option_of="a2a.app")
sender = request.scope[asgi.IDENTITY]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from starlette import requests, responses
from starlette.applications import Starlette

from continuations.serve.http import problems
from continuations.serve.http.api import MAX_BODY_BYTES, HttpApi, Verifier, identify
from continuations.serve.http.request_response import UNIX_SOCKET, Request, Response
from continuations.serve.http.routes import find_route
from continuations.serve.rights import name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from starlette.types import ASGIApp, Lifespan, Message, Receive, Scope, Send

    from continuations.core.identity import Identity

__all__ = ["IDENTITY", "Verified", "app"]


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
            await refuse_websocket(send)
            return
        response = await self._response(scope, receive)
        if response is not None:
            outgoing = to_starlette(response, scope["method"])
            await outgoing(scope, receive, send)

    async def _response(self, scope: Scope, receive: Receive) -> Response | None:
        """Return the response, or `None` if the client has left."""
        path = path_below_mount(scope)
        found = find_route(path, encoded_path(scope, path))
        if found is None:
            return problems.no_such_path().response()
        request = requests.Request(scope, receive)
        try:
            body = await read_body(request, self._api.max_body_bytes)
        except requests.ClientDisconnect:
            return None
        route, path_params = found
        if body is None:
            return self._api.refuse_large_body(route)
        plain = plain_request(request, path, body)
        return await self._api.handle_route(route, path_params, plain)


async def refuse_websocket(send: Send) -> None:
    """Refuse a websocket before it is opened (ASGI specification, "Close")."""
    await send({"type": "websocket.close", "code": 1000})


def path_below_mount(scope: Scope) -> str:
    """Return the decoded path without the mount point, as Starlette's router does."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if path.startswith(f"{root}/") else path


def encoded_path(scope: Scope, path: str) -> str:
    """Return the end of the encoded path that is `path` after decoding."""
    raw: str = (scope.get("raw_path") or b"").decode("latin-1").partition("?")[0]
    start = raw.find("/")
    while start >= 0:
        if unquote(raw[start:]) == path:
            return raw[start:]
        start = raw.find("/", start + 1)
    return quote(path)


def plain_request(request: requests.Request, path: str, body: bytes) -> Request:
    """Return a request without the types of a framework."""
    headers: dict[str, str] = {}
    repeated: set[str] = set()
    for name, value in request.headers.items():
        if name in headers:
            # A repeated header is a list (RFC 9110, section 5.3).
            headers[name] += f", {value}"
            repeated.add(name)
        else:
            headers[name] = value
    return Request(
        method=request.method,
        path=path,
        query=dict(request.query_params) if request.scope["query_string"] else {},
        headers=headers,
        body=body,
        raw_path=encoded_path(request.scope, path),
        client=_client(request.scope),
        is_tls=request.scope.get("scheme") == "https",
        repeated=frozenset(repeated),
        can_stream=True,
    )


def _client(scope: Scope) -> str | None:
    """Return the address of the peer; a server on a unix socket has no port."""
    client, server = scope.get("client"), scope.get("server")
    if client:
        address = str(client[0])
        # A server that reads `X-Forwarded-For` gives any text that a client sent.
        return None if address == UNIX_SOCKET else address
    return UNIX_SOCKET if server and server[1] is None else None


async def read_body(request: requests.Request, max_bytes: int) -> bytes | None:
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


def to_starlette(response: Response, method: str) -> responses.Response:
    """Return a response of Starlette."""
    if response.chunks is not None:
        return responses.StreamingResponse(
            response.chunks, response.status, dict(response.headers)
        )
    is_head = method == "HEAD"
    content = response.body if response.data is None else response.data
    outgoing = responses.Response(
        "" if is_head else content, response.status, dict(response.headers)
    )
    if is_head:
        # Starlette sends 0; HEAD must send the length of GET (RFC 9110, section 8.6).
        del outgoing.headers["content-length"]
    return outgoing


IDENTITY = "continuations.identity"
"""The key of the verified sender in the scope of a request."""


class Verified:
    """Let a request with a verified sender pass, and refuse all others.

    The verifier gets the whole request, with its body. The scope of the request has the
    sender under `IDENTITY`.

    Args:
        application: The application below.
        verify: Returns the identity of a request, as for `HttpApi`. Without it, each
            request has status 401.
        option_of: The function that takes `verify=`, for the error without one.
        max_body_bytes: The maximum size of a request body, in bytes.
        public: Paths that need no sender.
        user: Returns `scope["user"]` for the name of a sender, for an application that
            reads it.
    """

    def __init__(
        self,
        application: ASGIApp,
        *,
        verify: Verifier | None,
        option_of: str,
        max_body_bytes: int = MAX_BODY_BYTES,
        public: Collection[str] = (),
        user: Callable[[str], Any] | None = None,
    ) -> None:
        self._app = application
        self._verify = verify
        self._option_of = option_of
        self._max_body_bytes = max_body_bytes
        self._public = public
        self._user = user

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request (ASGI).

        Args:
            scope: The request.
            receive: Returns the next message of the client.
            send: Sends a message to the client.
        """
        if scope["type"] == "websocket":
            await refuse_websocket(send)
            return
        path = path_below_mount(scope) if scope["type"] == "http" else None
        if path is None or path in self._public:
            await self._app(scope, receive, send)
            return
        request = requests.Request(scope, receive)
        try:
            body = await read_body(request, self._max_body_bytes)
        except requests.ClientDisconnect:
            return
        found = await self._sender(request, path, body)
        if isinstance(found, problems.Problem):
            refusal = to_starlette(found.response(), scope["method"])
            await refusal(scope, receive, send)
            return
        scope[IDENTITY] = found
        if self._user is not None:
            scope["user"] = self._user(name_of(found))
        await self._app(scope, _replayed(body or b"", receive), send)

    async def _sender(
        self, request: requests.Request, path: str, body: bytes | None
    ) -> str | Identity | problems.Problem:
        if body is None:
            return problems.too_large(self._max_body_bytes)
        if self._verify is None:
            return problems.unidentified(
                "This application has no verifier, so it refuses every request. Pass "
                f"verify= to {self._option_of}."
            )
        try:
            found = await identify(self._verify, plain_request(request, path, body))
        except Exception as error:  # noqa: BLE001 - every error is a response
            return problems.from_error(error, f"{request.method} {path}")
        return problems.unidentified() if found is None else found


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the body first, and then what the server gives."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return first.pop() if first else await receive()

    return replay
