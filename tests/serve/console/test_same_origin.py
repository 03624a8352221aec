"""A post changes something only if a page of the console itself sent it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode

import pytest

from continuations.serve.console.console import FormTokens, is_own_post, take_token
from continuations.serve.http.request_response import Request
from tests.serve.console.console_client import BASE_URL, ConsoleClient
from tests.serve.http.api_fixture import waiting_api

OTHER = "https://attacker.example"
FORM = "application/x-www-form-urlencoded"


def post(body: bytes = b"", /, **headers: str) -> Request:
    """Return a POST to `agents.example`."""
    own = {"host": "agents.example", "content-type": FORM}
    sent = own | {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(method="POST", path="/", headers=sent, body=body)


@pytest.mark.parametrize(
    ("headers", "has_token", "is_own"),
    [
        # A browser that says where its request comes from.
        ({"sec_fetch_site": "same-origin", "origin": BASE_URL}, False, True),
        ({"sec_fetch_site": "same-origin", "origin": OTHER}, True, False),
        ({"sec_fetch_site": "same-origin", "origin": "null"}, True, False),
        ({"sec_fetch_site": "same-origin"}, True, False),
        ({"sec_fetch_site": "same-site", "origin": BASE_URL}, True, False),
        ({"sec_fetch_site": "cross-site", "origin": OTHER}, True, False),
        ({"sec_fetch_site": "none", "origin": BASE_URL}, True, False),
        # A browser that does not say it needs the token of the form.
        ({"origin": BASE_URL}, True, True),
        ({"origin": BASE_URL}, False, False),
        ({"origin": OTHER}, True, False),
        ({"origin": "null"}, True, False),
        ({}, True, True),
        ({}, False, False),
        # A program sends JSON, which a form cannot send.
        ({"content_type": "application/json"}, False, True),
        ({"content_type": "application/json", "origin": OTHER}, False, False),
        ({"content_type": "text/plain; application/json"}, False, False),
        (
            {"content_type": "application/json", "sec_fetch_site": "cross-site"},
            False,
            False,
        ),
    ],
)
def test_post_needs_a_proof_that_the_console_sent_it(
    headers: Mapping[str, str], has_token: bool, is_own: bool
) -> None:
    request = post(**headers)
    assert is_own == is_own_post(request, own_origin=None, has_token=has_token)


def test_public_origin_replaces_the_host_header() -> None:
    """A proxy may send another `Host` to the console."""
    origin = "https://agents.example"
    for given, is_own in (origin, True), ("http://agents.example", False):
        headers = {"sec_fetch_site": "same-origin", "origin": given, "host": "upstream"}
        request = post(**headers)
        assert is_own == is_own_post(request, own_origin=origin, has_token=False)


def test_token_belongs_to_one_person_and_one_secret() -> None:
    tokens = FormTokens.of_secret("0123456789abcdef" * 2)
    assert tokens.is_valid(tokens.token_of("kim"), "kim")
    assert not tokens.is_valid(tokens.token_of("kim"), "lee")
    assert not tokens.is_valid("", "kim")
    assert not tokens.is_valid("ü", "kim")
    same = FormTokens.of_secret("0123456789abcdef" * 2)
    assert same.is_valid(tokens.token_of("kim"), "kim")
    assert not FormTokens.of_secret(None).is_valid(tokens.token_of("kim"), "kim")
    assert "0123456789abcdef" not in repr(tokens)


def test_reader_of_a_form_sees_it_without_the_token() -> None:
    fields = {"decision": "deny", "reason": "a & b = ü\r\n", "csrf": "t", "empty": ""}
    request, token = take_token(post(urlencode(fields).encode()))
    assert "t" == token
    left = parse_qsl(request.body.decode(), keep_blank_values=True)
    assert {k: v for k, v in fields.items() if k != "csrf"} == dict(left)


@pytest.mark.parametrize("body", [b"csrf=a&csrf=b", b"csrf=a;b&&", b"csrf=\xff"])
def test_token_that_is_doubled_or_malformed_counts_as_none(body: bytes) -> None:
    assert "" == take_token(post(body))[1]


async def test_foreign_page_can_post_nothing() -> None:
    """Neither with its own origin, nor as JSON, nor with a token of another person."""
    fixture, wait = await waiting_api()
    client = ConsoleClient(fixture.runner)
    before = await fixture.keys()
    form = {"decision": "approve", "shown": wait.digest}
    paths = [f"/waits/{wait.id}", f"/waits/{wait.id}/decision", "/sweep"]
    paths += ["/runs/jane-1/cancel", "/runs/jane-1/resume", "/nothing"]
    for path in paths:
        for headers in (
            {"sec_fetch_site": "cross-site", "origin": OTHER},
            {"sec_fetch_site": None, "origin": OTHER},
            {"sec_fetch_site": None, "origin": None},
            {"origin": "null"},
        ):
            page = await client.post(path, form, **headers)
            assert (403, "no-store") == (
                page.status_code,
                page.headers["cache-control"],
            )
            assert "Nothing was changed" in page.text
    deleted = await client.send("DELETE", "/runs/jane-1", origin=OTHER)
    assert 403 == deleted.status_code
    assert before == await fixture.keys()


async def test_program_with_json_needs_no_token() -> None:
    fixture, wait = await waiting_api()
    client = ConsoleClient(fixture.runner)
    answer = await client.send(
        "POST",
        f"/waits/{wait.id}/decision",
        None,
        {"decision": "approve"},
        accept="application/json",
    )
    assert (200, "kim") == (answer.status_code, answer.json()["decision"]["by"])


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("POST", "/runs/r1/resume", {"accept": "application/json"}, 403),
        ("DELETE", "/runs/r1", {"accept": "application/json"}, 403),
        ("PUT", "/nowhere", {"content_type": "application/json"}, 404),
        (
            "GET",
            "/nowhere",
            {"accept": "application/problem+json, application/json"},
            404,
        ),
        (
            "POST",
            "/runs/r1/resume",
            {"content_type": "application/json", "origin": OTHER},
            403,
        ),
    ],
)
def test_program_gets_its_refusal_as_json(
    method: str, path: str, headers: dict[str, str], status: int
) -> None:
    """A page of HTML tells a program nothing."""
    response = asyncio.run(ConsoleClient().send(method, path, **headers))

    assert status == response.status_code
    assert "application/problem+json" == response.headers["content-type"]
    assert status == response.json()["status"]
    assert "content-security-policy" in response.headers


def test_browser_gets_its_refusal_as_a_page() -> None:
    response = asyncio.run(
        ConsoleClient().send("POST", "/runs/r1/cancel", {"typed": ""})
    )

    assert 403 == response.status_code
    assert response.headers["content-type"].startswith("text/html")
