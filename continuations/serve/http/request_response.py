"""A request and its response as plain values: what every HTTP door speaks to the desk.

Starlette, a Function URL and API Gateway each have shapes of their own; none of them
is needed to decide.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One HTTP request. Names of headers are lower case, `path` is decoded.

    `body` is bytes whatever the gateway made of it; its repr tells neither headers nor
    body, which may hold secrets.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What is answered; `body` is UTF-8 text of the type that the headers name."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: str = field(default="", repr=False)


def json_response(value: Any, status: int = 200, **headers: str) -> Response:
    """Return a response of a JSON value, which nobody may keep or sniff."""
    # Not through `jsontext.dump`: around a value of the most depth there is more here.
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return Response(
        status=status,
        headers={"content-type": "application/json", **NO_STORE_HEADERS, **headers},
        body=jsontext.escape_surrogates(text),
    )


# What is shown to one person must not stand in a cache, nor be taken for another type.
NO_STORE_HEADERS: Mapping[str, str] = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
