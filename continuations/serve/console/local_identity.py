"""The identity of `continuations ui`: the person who started it, on this machine.

The command prints an address with a token. The token works once and becomes a cookie,
so neither the history of the browser nor a second reader of the terminal gets in. The
`Host` must name this machine, so no page of another site can reach the console through
a name that it resolves to 127.0.0.1.
"""

from __future__ import annotations

import getpass
import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from continuations.core.identity import Identity
from continuations.serve.http.request_response import NO_STORE_HEADERS, Response

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.serve.http.request_response import Request

TOKEN_PARAMETER = "token"  # noqa: S105 - the name of a parameter
_PREFIX = "local:"
_LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})


class LocalIdentity:
    """Knows one person by a token that works once; made by `local`."""

    authentication = "local token"

    def __init__(self, name: str, groups: Sequence[str]) -> None:
        self._identity = Identity(f"{_PREFIX}{name}", groups)
        self._token: str | None = secrets.token_urlsafe(32)
        self._session = secrets.token_urlsafe(32)

    def __repr__(self) -> str:
        """Show nothing of the token."""
        return f"<local identity {self._identity.name}>"

    @property
    def sign_in_path(self) -> str:
        """The path that signs the person in, once.

        Raises:
            RuntimeError: The token was used.
        """
        if self._token is None:
            msg = "The token of this console was used. Start the console again."
            raise RuntimeError(msg)
        return f"/?{TOKEN_PARAMETER}={self._token}"

    def __call__(self, request: Request) -> Identity | None:
        """Return the person, if the request has the cookie of the session."""
        if not is_loopback(request):
            return None
        given = _cookies(request).get(_cookie_name(request), "")
        is_session = hmac.compare_digest(given.encode(), self._session.encode())
        return self._identity if is_session else None

    def sign_in(self, request: Request, root: str) -> Response | None:
        """Return the response to a request with a token, or `None`.

        Args:
            request: The request.
            root: The mount point of the console.
        """
        given = request.query.get(TOKEN_PARAMETER)
        if given is None or request.method != "GET" or not is_loopback(request):
            return None
        headers = {**NO_STORE_HEADERS, "location": f"{root}/"}
        if self(request) is not None:
            return Response(status=303, headers=headers)
        token = self._token
        if token is None or not hmac.compare_digest(given.encode(), token.encode()):
            return None
        self._token = None
        headers["set-cookie"] = (
            f"{_cookie_name(request)}={self._session}; HttpOnly; SameSite=Strict; "
            f"Path={root or '/'}"
        )
        return Response(status=303, headers=headers)


def local(name: str | None = None, *, groups: Sequence[str] = ()) -> LocalIdentity:
    """Return the identity of the person at this machine, for `console.app(verify=...)`.

    `continuations ui` uses it. Serve the console on 127.0.0.1 only, in one process, and
    open `identity.sign_in_path` once. The decisions of the person are recorded as
    `local:NAME`.

    Args:
        name: The person's name; by default the user of this process.
        groups: The person's groups.

    Returns:
        The identity.

    Raises:
        InvalidInput: The name or a group is invalid.
    """
    return LocalIdentity(getpass.getuser() if name is None else name, groups)


def is_loopback(request: Request) -> bool:
    """Return whether a request names this machine, and comes from it if that is known.

    The name of the host matters most. A page of another site can make a browser on this
    machine send a request, but only with the name of that site.
    """
    try:
        name = urlsplit(f"//{request.headers.get('host', '')}").hostname
    except ValueError:
        return False
    if name not in _LOOPBACK_NAMES:
        return False
    return request.client is None or _is_loopback_address(request.client)


def _is_loopback_address(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def _cookie_name(request: Request) -> str:
    """Return a name with the port: cookies are shared by all ports of a host."""
    port = request.headers.get("host", "").rpartition(":")[2]
    return f"continuations-{port if port.isascii() and port.isdigit() else 80}"


def _cookies(request: Request) -> dict[str, str]:
    cookies: SimpleCookie = SimpleCookie()
    try:
        cookies.load(request.headers.get("cookie", ""))
    except CookieError:
        return {}
    return {name: morsel.value for name, morsel in cookies.items()}
