"""The desk as an ASGI application, on Starlette (extra `web`).

app = web.app(desk)                     # uvicorn module:app
fastapi_app.mount("/agents", web.app(desk))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.requests import Request as Incoming
from starlette.responses import Response as Outgoing

from continuations.serve.http import problems
from continuations.serve.http.request_response import Request

if TYPE_CHECKING:
    from starlette.types import Lifespan, Receive, Scope, Send

    from continuations.serve.http.api import HttpApi

__all__ = ["app"]


def app(api: HttpApi, *, lifespan: Lifespan[Starlette] | None = None) -> Starlette:
    """Return an application of the desk alone, also to be mounted under a prefix.

    `lifespan` is Starlette's; an application that is mounted in another has none.
    """
    made = Starlette(lifespan=lifespan)
    # Not a route of its own: that would not match every path (a line feed in it).
    made.router.default = _AsgiEndpoint(api)
    return made


class _AsgiEndpoint:
    """Translates; a body that is too long is not read to its end."""

    def __init__(self, api: HttpApi) -> None:
        self._api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            # A websocket is refused before it is opened (ASGI, section "Close").
            await send({"type": "websocket.close", "code": 1000})
            return
        incoming = Incoming(scope, receive)
        try:
            body = await self._read_body(incoming)
        except ClientDisconnect:
            return
        if body is None:
            answer = problems.too_large(self._api.max_body_bytes).response()
        else:
            answer = await self._api.handle(_to_request(incoming, body))
        outgoing = Outgoing(answer.body, answer.status, dict(answer.headers))
        if incoming.method == "HEAD":
            # Zero would be the length of what GET answers (RFC 9110, section 8.6).
            del outgoing.headers["content-length"]
        await outgoing(scope, receive, send)

    async def _read_body(self, incoming: Incoming) -> bytes | None:
        most = self._api.max_body_bytes
        told = incoming.headers.get("content-length", "0")
        if told.isdigit() and int(told[:20]) > most:
            return None
        body = bytearray()
        async for chunk in incoming.stream():
            body += chunk
            if len(body) > most:
                return None
        return bytes(body)


def _to_request(incoming: Incoming, body: bytes) -> Request:
    scope = incoming.scope
    # Of an application that is mounted, `path` still has where it is mounted.
    path: str = scope["path"].removeprefix(scope.get("root_path", "").rstrip("/"))
    headers: dict[str, str] = {}
    for name, value in incoming.headers.items():
        # A name that comes twice is a list (RFC 9110, section 5.3).
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return Request(
        method=incoming.method,
        path=path or "/",
        query=dict(incoming.query_params),
        headers=headers,
        body=body,
    )
