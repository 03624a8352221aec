"""Ready-made identities for `console.app(verify=...)`.

- `local`: the person at this machine, by a token that works once.
- `proxy_jwt`: a person whom a login proxy names in a signed assertion.
- `proxy_header`: a person whom a login proxy names in a plain header.

A function of your own does as well: it takes a `Request` and returns a name, an
`Identity` or `None`.
"""

from __future__ import annotations

import getpass
import hmac
import logging
import re
import secrets
from http.cookies import CookieError, SimpleCookie
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from continuations.authoring import callables
from continuations.core import jsontext
from continuations.core.identity import Identity
from continuations.errors import InvalidInput
from continuations.serve.http.request_response import UNIX_SOCKET, see_other
from continuations.serve.option_checks import check_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from continuations.serve.http.request_response import Request, Response


__all__ = [
    "LocalIdentity",
    "ProxyHeader",
    "ProxyJwt",
    "local",
    "proxy_header",
    "proxy_jwt",
]


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
        raise InvalidInput(
            "secret is missing or too short: an address alone does not prove that a "
            "request comes from the proxy. Pass a secret of at least "
            f"{_MIN_SECRET_BYTES} bytes, and let the proxy send it as {secret_header}."
        )
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


_log = logging.getLogger("continuations")
# Only signatures that a verifier cannot make itself: no shared secrets, no "none".
_ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
_KEY_ID = re.compile(r"[A-Za-z0-9_-]{1,100}\Z")
_PLACE = "{kid}"
_TIMEOUT_SECONDS = 5
_LEEWAY_SECONDS = 30
_MAX_KEY_BYTES = 10_000


class ProxyJwt:
    """Knows a person by a signed token of the login proxy; made by `proxy_jwt`."""

    authentication = "proxy jwt"

    def __init__(
        self,
        jwks: str | Mapping[str, Any],
        issuer: str,
        audience: str,
        header: str,
        claims: tuple[str, str],
    ) -> None:
        import jwt  # noqa: PLC0415 - only these identities need it

        self._issuer, self._audience, self._header = issuer, audience, header
        self._name_claim, self._groups_claim = claims
        self._key_url = jwks if isinstance(jwks, str) and _PLACE in jwks else None
        self._single_keys: dict[str, Any] = {}
        self._client: Any = None
        self._key_set: Any = None
        if self._key_url is None and isinstance(jwks, str):
            self._client = jwt.PyJWKClient(jwks, timeout=_TIMEOUT_SECONDS)
        elif not isinstance(jwks, str):
            self._key_set = jwt.PyJWKSet.from_dict({**jwks})

    def __repr__(self) -> str:
        """Show the header and the issuer."""
        return f"<identity of the signed header {self._header} of {self._issuer}>"

    async def __call__(self, request: Request) -> Identity | None:
        """Return the person of a request with a valid token, or `None`.

        Raises:
            jwt.PyJWKClientConnectionError: The keys cannot be fetched.
        """
        if self._header in request.repeated:
            return None
        token = request.headers.get(self._header, "").strip()
        if self._header == "authorization":
            token = token.removeprefix("Bearer ").strip()
        if not token:
            return None
        # The keys may have to be fetched, so this may block.
        found: Identity | None = await callables.run_in_thread(
            lambda: self._identity(token)
        )
        return found

    def _identity(self, token: str) -> Identity | None:
        import jwt  # noqa: PLC0415 - see above

        try:
            claims = self._checked_claims(token)
            if self._name_claim == "email" and claims.get("email_verified") is False:
                return None
            return Identity(claims[self._name_claim], self._groups(claims))
        except jwt.PyJWKClientConnectionError:
            raise
        except (jwt.PyJWTError, InvalidInput, KeyError, ValueError) as error:
            _log.info("a token of the login proxy is not valid: %s", type(error))
            return None

    def _checked_claims(self, token: str) -> dict[str, Any]:
        import jwt  # noqa: PLC0415 - see above

        unchecked = jwt.get_unverified_header(token)
        if unchecked.get("alg") not in _ALGORITHMS:
            raise jwt.InvalidAlgorithmError("the algorithm is not allowed")
        is_alb = self._key_url is not None
        if is_alb and unchecked.get("signer") != self._audience:
            raise jwt.InvalidAudienceError("the signer is another load balancer")
        return jwt.decode(
            token,
            self._key_of(unchecked),
            algorithms=[unchecked["alg"]],
            issuer=self._issuer,
            audience=None if is_alb else self._audience,
            leeway=_LEEWAY_SECONDS,
            options={"require": ["exp", "iss"] if is_alb else ["exp", "iss", "aud"]},
        )

    def _key_of(self, unchecked: Mapping[str, Any]) -> Any:
        import jwt  # noqa: PLC0415 - see above

        key_id = unchecked.get("kid")
        if not isinstance(key_id, str):
            raise jwt.InvalidKeyError("the token names no key")
        if self._client is not None:
            return self._client.get_signing_key(key_id)
        if self._key_set is not None:
            return self._key_set[key_id]
        return self._single_key(key_id)

    def _single_key(self, key_id: str) -> Any:
        from urllib.error import HTTPError  # noqa: PLC0415 - only the ALB needs it
        from urllib.request import urlopen  # noqa: PLC0415 - see above

        import jwt  # noqa: PLC0415 - see above

        if not _KEY_ID.match(key_id):
            raise jwt.InvalidKeyError("the id of the key is not valid")
        if key_id not in self._single_keys:
            assert self._key_url is not None  # noqa: S101 - asked before
            url = self._key_url.replace(_PLACE, key_id)
            try:
                with urlopen(url, timeout=_TIMEOUT_SECONDS) as reply:  # noqa: S310 - the scheme is checked
                    key = reply.read(_MAX_KEY_BYTES)
            except OSError as error:
                if isinstance(error, HTTPError):
                    error.close()
                msg = "the key of the load balancer cannot be fetched"
                raise jwt.PyJWKClientConnectionError(msg) from error
            self._single_keys = {key_id: key}  # keys change rarely, one after the other
        return self._single_keys[key_id]

    def _groups(self, claims: Mapping[str, Any]) -> list[str]:
        given = jsontext.as_array(claims.get(self._groups_claim))
        return [each for each in given or () if isinstance(each, str)]


def proxy_jwt(
    jwks: str | Mapping[str, Any],
    *,
    issuer: str,
    audience: str,
    header: str,
    claim: str = "email",
    groups_claim: str = "groups",
) -> ProxyJwt:
    """Return the identities of a login proxy's tokens, for `console.app(verify=...)`.

    A token counts if a key of the proxy signed it, it is for this audience, and it has
    not expired. Signatures with a shared secret are refused.

    Args:
        jwks: The address of the proxy's keys (JSON Web Key Set), or the keys
            themselves. If the address contains `{kid}`, it is that of one key, as for
            AWS ALB.
        issuer: The `iss` of the tokens.
        audience: The `aud` of the tokens; for AWS ALB the ARN of the load balancer.
        header: The header with the token, such as `cf-access-jwt-assertion`,
            `x-pomerium-jwt-assertion`, `x-amzn-oidc-data`, or `authorization`.
        claim: The claim with the person's name. An `email` that the provider has not
            verified is refused.
        groups_claim: The claim with the list of the person's groups.

    Returns:
        The identities, as a verifier.

    Raises:
        InvalidInput: An option is invalid.
    """
    texts = {"issuer": issuer, "audience": audience, "header": header, "claim": claim}
    for name, value in {**texts, "groups_claim": groups_claim}.items():
        check_type(name, value, str, "a text")
        if not value:
            msg = f"{name} must not be empty. Pass what the proxy's tokens have."
            raise InvalidInput(msg)
    if isinstance(jwks, str) and not _is_safe(jwks):
        raise InvalidInput(
            f"jwks must be an https address or a key set, got {jwks!r:.80}. Pass the "
            "address under which the proxy publishes its keys."
        )
    try:
        import jwt  # noqa: PLC0415 - only these identities need it
    except ModuleNotFoundError as error:
        raise InvalidInput(
            "proxy_jwt needs the package PyJWT, which is not installed. Run: pip "
            "install 'pyjwt[crypto]'."
        ) from error
    try:
        return ProxyJwt(jwks, issuer, audience, header.lower(), (claim, groups_claim))
    except (jwt.PyJWTError, AttributeError, TypeError):
        raise InvalidInput(
            "jwks is not a JSON Web Key Set with usable keys. Pass the address under "
            "which the proxy publishes its keys."
        ) from None


def _is_safe(address: str) -> bool:
    """Return whether an address has TLS, or names this machine."""
    parts = urlsplit(address)
    is_here = parts.hostname in ("127.0.0.1", "localhost", "::1")
    return parts.scheme == "https" or (parts.scheme == "http" and is_here)


TOKEN_PARAMETER = "token"  # noqa: S105 - the name of a parameter
_PREFIX = "local:"
_LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})


class LocalIdentity:
    """Knows one person by a token that works once; made by `local`."""

    authentication = "local token"

    def __init__(
        self,
        name: str,
        groups: Sequence[str],
        on_sign_out: Callable[[str], None] | None,
    ) -> None:
        self._identity = Identity(f"{_PREFIX}{name}", groups)
        self._token: str | None = secrets.token_urlsafe(32)
        self._session = secrets.token_urlsafe(32)
        self._on_sign_out = on_sign_out
        # The page that was asked for before the sign-in.
        self._asked = ""
        # The name and port of the sign-in: the cookie belongs to them.
        self._host = ""

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

        It goes on to the page that was asked for before: see `ask`.

        Args:
            request: The request.
            root: The mount point of the console.
        """
        given = request.query.get(TOKEN_PARAMETER)
        if given is None or request.method != "GET" or not is_loopback(request):
            return None
        location = f"{root}{self._asked or '/'}"
        if self(request) is not None:
            return see_other(location)
        token = self._token
        if token is None or not hmac.compare_digest(given.encode(), token.encode()):
            return None
        self._token, self._asked = None, ""
        self._host = _host(request)
        cookie = {"set-cookie": _cookie(request, root, self._session)}
        return see_other(location, **cookie)

    def ask(self, request: Request, root: str, address: str) -> Response | None:
        """Hear that an unknown person opens a page; return where it is known, if so.

        A cookie belongs to one name of this machine. If the person is signed in under
        another name, the response leads there, else the page opens after the sign-in.

        Args:
            request: The request.
            root: The mount point of the console.
            address: The page, as a path below the mount point.
        """
        if not is_loopback(request):
            return None
        host = _host(request)
        if self._host and self._host != host and _port(self._host) == _port(host):
            scheme = "https" if request.is_tls else "http"
            return see_other(f"{scheme}://{self._host}{root}{address}")
        self._asked = address
        return None

    def sign_out(self, request: Request, root: str) -> dict[str, str]:
        """End the session, and make a new token; return the headers of the response.

        A copy of the old cookie is of no use any more.

        Args:
            request: The request of the person.
            root: The mount point of the console.
        """
        self._token = secrets.token_urlsafe(32)
        self._session = secrets.token_urlsafe(32)
        self._host = ""
        if self._on_sign_out is not None:
            self._on_sign_out(self.sign_in_path)
        return {"set-cookie": f"{_cookie(request, root, '')}; Max-Age=0"}

    @property
    def tells_new_address(self) -> bool:
        """Whether the program tells the person the new address after a sign-out."""
        return self._on_sign_out is not None


def local(
    name: str | None = None,
    *,
    groups: Sequence[str] = (),
    on_sign_out: Callable[[str], None] | None = None,
) -> LocalIdentity:
    """Return the identity of the person at this machine, for `console.app(verify=...)`.

    `continuations ui` uses it. Serve the console on 127.0.0.1 only, in one process, and
    open `identity.sign_in_path` once. The decisions of the person are recorded as
    `local:NAME`.

    Args:
        name: The person's name; by default the user of this process.
        groups: The person's groups.
        on_sign_out: Called after a sign-out with the new `sign_in_path`: print it where
            the person sees it. Without it, only a restart lets the person in again.

    Returns:
        The identity.

    Raises:
        InvalidInput: The name or a group is invalid.
    """
    own = getpass.getuser() if name is None else name
    return LocalIdentity(own, groups, on_sign_out)


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


def _host(request: Request) -> str:
    """Return the name of this machine that a request of `is_loopback` has, and port."""
    parts = urlsplit(f"//{request.headers['host']}")
    name = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{name}:{_port(parts.netloc)}"


def _is_loopback_address(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def _cookie(request: Request, root: str, value: str) -> str:
    """Return the cookie of a session, which other sites send only by a link."""
    return (
        f"{_cookie_name(request)}={value}; HttpOnly; SameSite=Lax; Path={root or '/'}"
    )


def _cookie_name(request: Request) -> str:
    """Return a name with the port: cookies are shared by all ports of a host."""
    return f"continuations-{_port(request.headers.get('host', ''))}"


def _port(host: str) -> str:
    port = host.rpartition(":")[2]
    return port if port.isascii() and port.isdigit() else "80"


def _cookies(request: Request) -> dict[str, str]:
    cookies: SimpleCookie = SimpleCookie()
    try:
        cookies.load(request.headers.get("cookie", ""))
    except CookieError:
        return {}
    return {name: morsel.value for name, morsel in cookies.items()}
