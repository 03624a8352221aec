"""ASGI middleware for doors of your own: only a verified sender reaches them.

application.add_middleware(Verified, verify=verify, option_of="a2a.app")
sender = request.scope[IDENTITY]
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect, Request

from continuations.serve.http import asgi, problems
from continuations.serve.http.api import MAX_BODY_BYTES, identify
from continuations.serve.rights import name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from continuations.core.identity import Identity
    from continuations.serve.http.api import Verifier

__all__ = ["IDENTITY", "Verified"]

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
            await asgi.refuse_websocket(send)
            return
        path = asgi.path_below_mount(scope) if scope["type"] == "http" else None
        if path is None or path in self._public:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            body = await asgi.read_body(request, self._max_body_bytes)
        except ClientDisconnect:
            return
        found = await self._sender(request, path, body)
        if isinstance(found, problems.Problem):
            refusal = asgi.to_starlette(found.response(), scope["method"])
            await refusal(scope, receive, send)
            return
        scope[IDENTITY] = found
        if self._user is not None:
            scope["user"] = self._user(name_of(found))
        await self._app(scope, _replayed(body or b"", receive), send)

    async def _sender(
        self, request: Request, path: str, body: bytes | None
    ) -> str | Identity | problems.Problem:
        if body is None:
            return problems.too_large(self._max_body_bytes)
        if self._verify is None:
            return problems.unidentified(
                "This application has no verifier, so it refuses every request. Pass "
                f"verify= to {self._option_of}."
            )
        try:
            found = await identify(
                self._verify, asgi.plain_request(request, path, body)
            )
        except Exception as error:  # noqa: BLE001 - every error is a response
            operation = f"{request.method} {path}"
            return problems.from_error(
                error, now=datetime.now(UTC), operation=operation
            )
        return problems.unidentified() if found is None else found


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the body first, and then what the server gives."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return first.pop() if first else await receive()

    return replay
