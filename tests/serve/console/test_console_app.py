"""The console as an application: who gets in, and what every response has."""

from __future__ import annotations

import pytest

from continuations.errors import InvalidInput
from continuations.serve import console
from tests.serve.console.console_client import ConsoleClient

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


async def test_console_without_a_verifier_shows_nothing() -> None:
    client = ConsoleClient(options={"verify": None})
    for path in ("/", "/inbox", "/runs", "/nothing", "/waits/x"):
        page = await client.get(path)
        assert 401 == page.status_code
        assert "no verifier" in page.text
        answer = await client.get(path, accept="application/json")
        assert 401 == answer.status_code
        assert answer.json()["type"].endswith(":unidentified")


async def test_every_response_has_the_security_headers() -> None:
    client = ConsoleClient()
    for path in ("/inbox", "/nothing", "/waits", "/runs/x"):
        for accept in ("text/html", "application/json"):
            headers = (await client.get(path, accept=accept)).headers
            assert POLICY == headers["content-security-policy"]
            assert "nosniff" == headers["x-content-type-options"]
            assert "no-store" == headers["cache-control"]
            assert "same-origin" == headers["cross-origin-opener-policy"]
            assert "same-origin" == headers["cross-origin-resource-policy"]
            assert "strict-transport-security" not in headers


async def test_path_is_a_page_for_a_browser_and_json_for_a_program() -> None:
    client = ConsoleClient()
    page = await client.get("/inbox", accept="text/html,*/*;q=0.8")
    assert "text/html; charset=utf-8" == page.headers["content-type"]
    listed = await client.get("/waits", accept="application/json")
    assert {"waits": [], "next": None, "runs_awaiting_models": []} == listed.json()


@pytest.mark.parametrize(
    "options",
    [
        {"origin": "agents.example"},
        {"origin": "https://agents.example/path"},
        {"secret": "short"},
        {"can": "everything"},
        {"verify": "kim"},
    ],
)
def test_invalid_option_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(options))):
        console.app(ConsoleClient().runner, **options)  # type: ignore[arg-type]
