"""Requests and responses of an ASGI server as those of the HTTP API, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from starlette import requests, responses

from continuations.serve.http.request_response import UNIX_SOCKET, Request

if TYPE_CHECKING:
    from starlette.types import Scope, Send

    from continuations.serve.http.request_response import Response


async def refuse_websocket(send: Send) -> None:
    """Refuse a websocket before it is opened (ASGI specification, "Close")."""
    await send({"type": "websocket.close", "code": 1000})


def path_below_mount(scope: Scope) -> str:
    """Return the decoded path without the mount point, as Starlette's router does."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if path.startswith(f"{root}/") else path


def raw_path(scope: Scope, path: str) -> str:
    """Return the end of the encoded path that is `path` after decoding."""
    raw: str = (scope.get("raw_path") or b"").decode("latin-1").partition("?")[0]
    start = raw.find("/")
    while start >= 0:
        if unquote(raw[start:]) == path:
            return raw[start:]
        start = raw.find("/", start + 1)
    return quote(path)


def plain_request(
    request: requests.Request, path: str, body: bytes, raw_path: str | None = None
) -> Request:
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
        raw_path=raw_path,
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
