"""An HTTP request and its response as plain values, for every framework and gateway.

Starlette, a Function URL and API Gateway have types of their own. A process that only
decides needs none of them (docs/decisions/0012-http-and-cold-start.md).
"""

from __future__ import annotations

import json
from dataclasses import field
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

# The `client` of a request that came over a unix socket.
UNIX_SOCKET = "unix"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One HTTP request. Its `repr` shows neither headers nor body.

    Attributes:
        method: The method in upper case.
        path: The decoded path, without a mount prefix.
        query: The query parameters; of a repeated name the last value.
        headers: The headers with names in lower case; values of a repeated name are
            joined with ", ".
        body: The body as bytes.
        raw_path: The path as the client sent it, percent-encoded. It shows which
            slashes belong to the key of a thread. `None`: not known.
        client: The IP address of the peer, which may be a proxy; `UNIX_SOCKET` if the
            peer is on a unix socket. `None`: not known.
        is_tls: Whether the request came over TLS, as the server says.
        repeated: Names of headers that the request has more than once.
        can_stream: Whether the framework can send `Response.chunks`.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    body: bytes = field(default=b"", repr=False)
    raw_path: str | None = field(default=None, repr=False)
    client: str | None = None
    is_tls: bool = False
    repeated: frozenset[str] = frozenset()
    can_stream: bool = False

    @property
    def wants_live_events(self) -> bool:
        """Whether the client wants server-sent events while this process works."""
        accepted = self.headers.get("accept", "")
        return self.can_stream and "text/event-stream" in accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One HTTP response. Its `repr` does not show the body.

    Attributes:
        status: The status code.
        headers: The headers with names in lower case.
        body: The text of the body, sent as UTF-8.
        data: The bytes of a body that is not text, instead of `body`.
        chunks: The parts of a body that is not complete yet, instead of `body`. Only
            the response to a request with `can_stream` has them.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: str = field(default="", repr=False)
    data: bytes | None = field(default=None, repr=False)
    chunks: AsyncIterator[str] | None = field(default=None, repr=False)


# A response for one person must not be cached or read as another media type.
NO_STORE_HEADERS: Mapping[str, str] = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


def json_response(value: Any, status: int = 200, **headers: str) -> Response:
    """Return a response with a JSON value, which caches must not keep."""
    # Not `jsontext.dump`, which bounds the depth: a value of the greatest depth is
    # deeper inside the response.
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return Response(
        status=status,
        headers={"content-type": "application/json", **NO_STORE_HEADERS, **headers},
        body=jsontext.escape_surrogates(text),
    )


def see_other(location: str, **headers: str) -> Response:
    """Return a redirect that a browser follows with GET (status 303)."""
    return Response(
        status=303, headers={**NO_STORE_HEADERS, "location": location, **headers}
    )
