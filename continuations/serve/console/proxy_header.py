"""Identities that a login proxy names in a plain header.

Anyone who reaches the console can send such a header. So it counts only if the request
provably comes from the proxy: over a unix socket, or from a listed address with a
secret that only the proxy knows. An address alone proves nothing.
"""

from __future__ import annotations

import hmac
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Literal

from continuations.core.identity import Identity
from continuations.errors import InvalidInput
from continuations.serve.http.request_response import UNIX_SOCKET
from continuations.serve.option_checks import check_type

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ipaddress import IPv4Network, IPv6Network

    from continuations.serve.http.request_response import Request

_MIN_SECRET_BYTES = 16


class ProxyHeader:
    """Knows a person by a header of the login proxy; made by `proxy_header`."""

    authentication = "proxy header"

    def __init__(
        self,
        name: str,
        networks: Sequence[IPv4Network | IPv6Network] | None,
        secret: bytes,
        secret_header: str,
        groups_header: str | None,
    ) -> None:
        self._name = name
        self._networks = networks
        self._secret = secret
        self._secret_header = secret_header
        self._groups_header = groups_header

    def __repr__(self) -> str:
        """Show nothing of the secret."""
        return f"<identity of the header {self._name}>"

    def __call__(self, request: Request) -> Identity | None:
        """Return the person of a request that comes from the proxy, or `None`."""
        used = {self._name, self._secret_header, self._groups_header}
        if used & request.repeated or not self._is_from_proxy(request):
            return None
        name = request.headers.get(self._name, "").strip()
        groups = request.headers.get(self._groups_header or "", "").split(",")
        try:
            return Identity(name, [each.strip() for each in groups if each.strip()])
        except InvalidInput:
            return None

    def _is_from_proxy(self, request: Request) -> bool:
        if self._networks is None:
            return request.client == UNIX_SOCKET
        try:
            address = ip_address(request.client or "")
        except ValueError:
            return False
        given = request.headers.get(self._secret_header, "").encode()
        has_secret = hmac.compare_digest(given, self._secret)
        return has_secret and any(address in each for each in self._networks)


def proxy_header(
    name: str,
    *,
    trusted: Literal["unix"] | Sequence[str],
    secret: str | None = None,
    secret_header: str = "x-proxy-secret",  # noqa: S107 - the name of a header
    groups_header: str | None = None,
) -> ProxyHeader:
    """Return the identities that a login proxy names, for `console.app(verify=...)`.

    The proxy must remove these headers from the requests of clients. A request that has
    one of them twice has no identity. `proxy_jwt` is safer: its header is signed.

    Args:
        name: The header with the person's name, such as `x-forwarded-user`.
        trusted: `"unix"` if the server listens on a unix socket that only the proxy can
            open. Otherwise the IP addresses or networks of the proxy.
        secret: With addresses: a secret of at least 16 bytes that the proxy sends too.
        secret_header: The header with the secret.
        groups_header: The header with the person's groups, divided by commas.

    Returns:
        The identities, as a verifier.

    Raises:
        InvalidInput: An option is invalid. The text contains no secret.
    """
    for option, value in (("name", name), ("secret_header", secret_header)):
        check_type(option, value, str, "the name of a header")
    networks = None if trusted == "unix" else _networks(trusted)
    if networks is not None and len((secret or "").encode()) < _MIN_SECRET_BYTES:
        msg = (
            "secret is missing or too short: an address alone does not prove that a "
            "request comes from the proxy. Pass a secret of at least "
            f"{_MIN_SECRET_BYTES} bytes, and let the proxy send it as {secret_header}."
        )
        raise InvalidInput(msg)
    return ProxyHeader(
        name.lower(),
        networks,
        (secret or "").encode(),
        secret_header.lower(),
        None if groups_header is None else groups_header.lower(),
    )


def _networks(trusted: Sequence[str]) -> list[IPv4Network | IPv6Network]:
    msg = (
        'trusted must be "unix", or a list of IP addresses and networks of the proxy, '
        f"got {trusted!r:.80}. Pass for example trusted=['10.0.0.7']."
    )
    if isinstance(trusted, str) or not trusted:
        raise InvalidInput(msg)
    try:
        return [ip_network(each) for each in trusted]
    except (TypeError, ValueError):
        raise InvalidInput(msg) from None
