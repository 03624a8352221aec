"""The headers of every response of the console."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
# A file whose address has the hash of its bytes never changes.
IMMUTABLE = "public, max-age=31536000, immutable"
_TWO_YEARS = 2 * 365 * 24 * 3600
_HEADERS: Mapping[str, str] = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
    "x-frame-options": "DENY",
    "x-robots-tag": "noindex, nofollow",
}


def security_headers(own: Mapping[str, str], *, is_tls: bool) -> dict[str, str]:
    """Return the headers of a response, with those that every response has.

    Args:
        own: The headers of the response itself, in lower case; they win.
        is_tls: Whether the browser came over TLS.
    """
    headers = {**_HEADERS, **own}
    if is_tls:
        headers["strict-transport-security"] = f"max-age={_TWO_YEARS}"
    return headers
