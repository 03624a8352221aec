"""The identities of a console: a person at this machine, or one whom a proxy names."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm
from starlette import requests as starlette_requests

from continuations import Identity
from continuations.errors import InvalidInput
from continuations.serve.console import local, proxy_header, proxy_jwt
from continuations.serve.http import asgi
from continuations.serve.http.request_response import UNIX_SOCKET, Request
from tests.serve.console.console_client import ConsoleClient

LOCAL = "http://127.0.0.1:8321"
SECRET = "0123456789abcdef" * 2
KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_KEY = ec.generate_private_key(ec.SECP256R1())
KEY_SET = {
    "keys": [{**ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "kid": "k1"}]
}
TOKENS: dict[str, str] = {"issuer": "https://login.example", "audience": "agents"}


# local() -------------------------------------------------------------------------


def local_client(**options: Any) -> tuple[ConsoleClient, str]:
    """Return a client of a local console, and the path that signs it in."""
    identity = local("kim")
    client = ConsoleClient(
        options={"verify": identity}, person=None, base_url=LOCAL, **options
    )
    return client, identity.sign_in_path


async def test_token_of_the_console_works_once_and_becomes_a_cookie() -> None:
    client, path = local_client()
    assert 401 == (await client.get("/inbox")).status_code

    signed_in = await client.get(path)

    assert (303, "/inbox") == (signed_in.status_code, signed_in.headers["location"])
    cookie = signed_in.headers["set-cookie"]
    assert cookie.startswith("continuations-8321=")
    assert {"HttpOnly", "SameSite=Lax"} <= set(cookie.split("; "))
    assert path.partition("=")[2] not in cookie
    page = await client.get("/inbox")
    assert (200, True) == (page.status_code, "local:kim" in page.text)

    thief = ConsoleClient(app=client.app, person=None, base_url=LOCAL)
    assert 401 == (await thief.get(path)).status_code
    assert 401 == (await thief.get("/inbox")).status_code
    again = await client.get(path)  # the person opens the address once more
    assert 303 == again.status_code
    assert "set-cookie" not in again.headers


async def test_token_survives_a_preview_and_a_wrong_guess() -> None:
    client, path = local_client()
    assert 401 == (await client.send("HEAD", path)).status_code
    assert 401 == (await client.get(path + "x")).status_code
    assert 401 == (await client.get("/?token=")).status_code
    assert 303 == (await client.get(path)).status_code


@pytest.mark.parametrize(
    ("base_url", "address"),
    [
        ("http://attacker.example:8321", "127.0.0.1"),
        ("http://127.0.0.1.attacker.example:8321", "127.0.0.1"),
        ("http://10.0.0.5:8321", "127.0.0.1"),
        (LOCAL, "10.0.0.9"),
    ],
)
async def test_name_or_address_of_another_machine_gets_nothing(
    base_url: str, address: str
) -> None:
    """A site that resolves its own name to 127.0.0.1 has its name in `Host`."""
    client, path = local_client()
    await client.get(path)
    cookie = "; ".join(f"{c.name}={c.value}" for c in client.cookies.jar)
    stranger = ConsoleClient(
        app=client.app, person=None, base_url=base_url, address=address
    )
    assert 401 == (await stranger.get("/inbox", cookie=cookie)).status_code
    assert 200 == (await client.get("/inbox", cookie=cookie)).status_code


async def test_each_way_to_name_this_machine_works() -> None:
    for base_url in ("http://localhost:8321", "http://[::1]:8321", LOCAL):
        identity = local()
        client = ConsoleClient(
            options={"verify": identity}, person=None, base_url=base_url
        )
        await client.get(identity.sign_in_path)
        assert 200 == (await client.get("/inbox")).status_code


def test_identity_shows_no_token() -> None:
    identity = local("kim")
    assert identity.sign_in_path.partition("=")[2] not in repr(identity)


# proxy_header() ------------------------------------------------------------------


def headers_of(**headers: str) -> dict[str, str]:
    """Return headers by their names with hyphens."""
    return {name.replace("_", "-"): value for name, value in headers.items()}


def test_header_over_a_unix_socket_names_the_person() -> None:
    verify = proxy_header("X-User", trusted="unix", groups_header="X-Groups")
    headers = headers_of(x_user="kim", x_groups="finance, it,")
    request = Request(method="GET", path="/", headers=headers, client=UNIX_SOCKET)
    assert Identity("kim", ["finance", "it"]) == verify(request)


@pytest.mark.parametrize(
    ("client", "secret", "repeated", "is_known"),
    [
        ("10.0.0.7", SECRET, frozenset[str](), True),
        ("10.0.0.8", SECRET, frozenset[str](), False),
        ("10.0.0.7", "wrong", frozenset[str](), False),
        ("10.0.0.7", "", frozenset[str](), False),
        (UNIX_SOCKET, SECRET, frozenset[str](), False),
        (None, SECRET, frozenset[str](), False),
        ("10.0.0.7", SECRET, frozenset({"x-user"}), False),
        ("10.0.0.7", SECRET, frozenset({"x-proxy-secret"}), False),
    ],
)
def test_header_counts_only_from_a_listed_address_with_the_secret(
    client: str | None, secret: str, repeated: frozenset[str], is_known: bool
) -> None:
    verify = proxy_header("x-user", trusted=["10.0.0.7"], secret=SECRET)
    request = Request(
        method="GET",
        path="/",
        headers=headers_of(x_user="kim", x_proxy_secret=secret),
        client=client,
        repeated=repeated,
    )
    assert is_known == (verify(request) is not None)


async def test_doubled_header_is_refused_by_a_real_console() -> None:
    """A client adds its own name, and the proxy adds the person's."""
    verify = proxy_header("x-user", trusted=["127.0.0.1"], secret=SECRET)
    client = ConsoleClient(options={"verify": verify}, person=None)
    one = [(b"host", b"agents.example"), (b"x-proxy-secret", SECRET.encode())]
    for names, status in ([b"kim"], 200), ([b"kim", b"eve"], 401):
        sent: list[Any] = []
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/inbox",
            "query_string": b"",
            "headers": one + [(b"x-user", each) for each in names],
            "client": ("127.0.0.1", 1),
            "server": ("agents.example", 80),
            "scheme": "http",
        }

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any, sent: list[Any] = sent) -> None:
            sent.append(message)

        await client.app(scope, receive, send)
        assert status == sent[0]["status"]


def test_address_that_a_client_sends_is_no_unix_socket() -> None:
    """A server that reads `X-Forwarded-For` gives the text as the address."""
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "query_string": b"",
        "headers": [(b"x-user", b"root")],
        "server": ("127.0.0.1", 8000),
        "client": (UNIX_SOCKET, 0),
    }
    request = asgi.plain_request(starlette_requests.Request(scope), "/", b"")

    assert proxy_header("x-user", trusted="unix")(request) is None


def test_request_without_a_name_has_no_identity() -> None:
    verify = proxy_header("x-user", trusted="unix")
    for headers in ({}, {"x-user": ""}, {"x-user": " "}, {"x-user": "x" * 300}):
        request = Request(method="GET", path="/", headers=headers, client=UNIX_SOCKET)
        assert verify(request) is None


# proxy_jwt() ---------------------------------------------------------------------


def token_of(key: Any = KEY, kid: str = "k1", alg: str = "ES256", **claims: Any) -> str:
    """Return a token that is valid for ten minutes, with these claims."""
    own: dict[str, Any] = {
        "iss": "https://login.example",
        "aud": "agents",
        "exp": time.time() + 600,
        "email": "kim@example.com",
        **claims,
    }
    given = {name: value for name, value in own.items() if value is not None}
    return jwt.encode(given, key, algorithm=alg, headers={"kid": kid})


def identity_of(verify: Any, token: str, **request: Any) -> Identity | None:
    headers = {"x-assertion": token, "authorization": f"Bearer {token}"}
    sent = Request(method="GET", path="/", headers=headers, **request)
    found: Identity | None = asyncio.run(verify(sent))
    return found


def test_signed_token_names_the_person_and_the_groups() -> None:
    token = token_of(groups=["finance", 7])
    for header in ("X-Assertion", "Authorization"):
        verify = proxy_jwt(KEY_SET, header=header, **TOKENS)
        assert Identity("kim@example.com", ["finance"]) == identity_of(verify, token)


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x.y.z",
        token_of(OTHER_KEY),
        token_of(kid="k2"),
        token_of(iss="https://other.example"),
        token_of(aud="other"),
        token_of(aud=None),
        token_of(exp=None),
        token_of(exp=1),
        token_of(email=None),
        token_of(email=7),
        token_of(email_verified=False),
        token_of(SECRET, alg="HS256"),
        token_of(None, alg="none"),
    ],
)
def test_token_that_is_not_for_this_console_names_no_person(token: str) -> None:
    verify = proxy_jwt(KEY_SET, header="x-assertion", **TOKENS)
    assert identity_of(verify, token) is None


def test_doubled_token_names_no_person() -> None:
    verify = proxy_jwt(KEY_SET, header="x-assertion", **TOKENS)
    repeated = frozenset({"x-assertion"})
    assert identity_of(verify, token_of(), repeated=repeated) is None


@contextmanager
def serve(bodies: dict[str, bytes]) -> Generator[tuple[str, list[str]]]:
    """Serve bodies by their paths; yield the address and the list of requests."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            body = bodies.get(self.path)
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", paths
        finally:
            server.shutdown()
            thread.join()


def test_keys_are_fetched_once() -> None:
    with serve({"/keys": json.dumps(KEY_SET).encode()}) as (address, paths):
        verify = proxy_jwt(f"{address}/keys", header="x-assertion", **TOKENS)
        for _ in range(3):
            found = identity_of(verify, token_of())
            assert Identity("kim@example.com") == found
        assert ["/keys"] == paths


def test_keys_that_cannot_be_fetched_are_an_error_and_no_identity() -> None:
    with serve({}) as (address, _):
        for place in ("/keys", "/{kid}"):
            verify = proxy_jwt(address + place, header="x-assertion", **TOKENS)
            headers = {"kid": "k1", "signer": "agents"}
            token = jwt.encode({}, KEY, algorithm="ES256", headers=headers)
            with pytest.raises(jwt.PyJWKClientConnectionError):
                identity_of(verify, token)


def test_token_of_a_load_balancer_names_its_signer() -> None:
    public = KEY.public_key().public_bytes(
        Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
    )
    arn = "arn:aws:elasticloadbalancing:eu-central-1:1:loadbalancer/app/a/b"
    claims = {"iss": "https://login.example", "exp": time.time() + 60, "email": "kim"}
    with serve({"/k1": public}) as (address, paths):
        verify = proxy_jwt(
            f"{address}/{{kid}}",
            issuer="https://login.example",
            audience=arn,
            header="x-amzn-oidc-data",
        )
        tokens = [
            jwt.encode(claims, KEY, algorithm="ES256", headers=headers)
            for headers in (
                {"kid": "k1", "signer": arn},
                {"kid": "k1", "signer": arn + "x"},
                {"kid": "k1"},
                {"kid": "../k1", "signer": arn},
            )
        ]
        found: list[Identity | None] = []
        for token in tokens:
            request = Request(
                method="GET", path="/", headers={"x-amzn-oidc-data": token}
            )
            found.append(asyncio.run(verify(request)))
        assert [Identity("kim"), None, None, None] == found
        assert ["/k1"] == paths


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: proxy_header("x", trusted=["10.0.0.7"]), "secret"),
        (lambda: proxy_header("x", trusted=["10.0.0.7"], secret=SECRET[:9]), "secret"),
        (lambda: proxy_header("x", trusted=[], secret=SECRET), "trusted"),
        (lambda: proxy_header("x", trusted="10.0.0.7", secret=SECRET), "trusted"),
        (lambda: proxy_header("x", trusted=["proxy"], secret=SECRET), "trusted"),
        (lambda: proxy_jwt({}, header="x", **TOKENS), "jwks"),
        (lambda: proxy_jwt({"keys": []}, header="x", **TOKENS), "jwks"),
        (lambda: proxy_jwt("http://x.example", header="x", **TOKENS), "jwks"),
        (lambda: proxy_jwt(KEY_SET, header="", **TOKENS), "header"),
    ],
)
def test_invalid_option_of_an_identity_is_refused(make: Any, name: str) -> None:
    with pytest.raises(InvalidInput, match=name) as raised:
        make()
    assert SECRET not in str(raised.value)
