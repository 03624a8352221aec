"""Which posts come from a page of the console itself, and not from another site.

Behind a login proxy, the cookie belongs to the proxy, and a browser sends it with every
request to the console, whichever page made it. So each POST needs a proof:

- A browser that sends `Sec-Fetch-Site` must send `same-origin`, and an `Origin` that
  is the console's own.
- Any other browser must send the token of the person's forms. Browsers send no
  `Sec-Fetch-Site` to an address without TLS, except to this machine.
- A client that is no browser sends JSON, which a form cannot send. A page of another
  site would first have to ask, and the console allows no other site.
"""

from __future__ import annotations

import hmac
import os
from typing import TYPE_CHECKING, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

from continuations.serve.http.request_fields import JSON_TYPE
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from continuations.serve.http.request_response import Request

TOKEN_FIELD = "csrf"  # noqa: S105 - the name of a field
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class FormTokens:
    """Makes and checks the tokens of forms: one for each person.

    Attributes:
        key: The secret of all processes that serve this console.
    """

    key: bytes

    @classmethod
    def of_secret(cls, secret: str | None) -> Self:
        """Return the maker of a secret; without one, that of this process."""
        return cls(os.urandom(32) if secret is None else secret.encode())

    def __repr__(self) -> str:
        """Show nothing of the secret."""
        return "<FormTokens>"

    def token_of(self, person: str) -> str:
        """Return the token of a person's forms."""
        text = f"continuations form token\0{person}".encode()
        return hmac.digest(self.key, text, "sha256").hex()

    def is_valid(self, token: str, person: str) -> bool:
        """Return whether a posted token is that of the person."""
        return hmac.compare_digest(token.encode(), self.token_of(person).encode())


def take_token(request: Request) -> tuple[Request, str]:
    """Return a request without the token of its form, and the token."""
    if f"{TOKEN_FIELD}=".encode() not in request.body or is_json(request):
        return request, ""
    try:
        pairs = parse_qsl(
            request.body.decode("ascii"), keep_blank_values=True, strict_parsing=True
        )
    except ValueError:
        return request, ""  # the reader of the form refuses it
    others = [pair for pair in pairs if pair[0] != TOKEN_FIELD]
    tokens = [value for name, value in pairs if name == TOKEN_FIELD]
    body = urlencode(others).encode()
    return replace(request, body=body), tokens[0] if len(tokens) == 1 else ""


def is_json(request: Request) -> bool:
    """Return whether the body of a request says that it is JSON."""
    media_type = request.headers.get("content-type", "").partition(";")[0]
    return media_type.strip().lower() == JSON_TYPE


def is_own_post(request: Request, *, own_origin: str | None, has_token: bool) -> bool:
    """Return whether a POST comes from a page of the console, or from no page.

    Args:
        request: The request.
        own_origin: The public origin of the console, such as `https://agents.example`.
            `None`: that of the `Host` header.
        has_token: Whether the body has the token of the person.
    """
    origin = request.headers.get("origin")
    is_own = origin is not None and _is_own_origin(request, origin, own_origin)
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin" and is_own
    return (origin is None or is_own) and (has_token or is_json(request))


def _is_own_origin(request: Request, origin: str, own_origin: str | None) -> bool:
    if own_origin is not None:
        return origin == own_origin
    # A browser leaves out the port of the scheme in both headers. The scheme is not
    # compared: a proxy may have ended TLS.
    parts = urlsplit(origin)
    host = request.headers.get("host", "")
    return parts.scheme in ("http", "https") and bool(host) and parts.netloc == host
