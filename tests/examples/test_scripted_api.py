"""examples/scripted_api.py rejects the conversations that the real API rejects."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.examples.example_process import command_line, environment

SYSTEM = {"role": "system", "content": "You are accounts."}
ASSISTANT_WITH_CALLS = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}}
        for name in ("a", "b")
    ],
}
RESULT_A = {"role": "tool", "tool_call_id": "a", "content": "1"}
RESULT_B = {"role": "tool", "tool_call_id": "b", "content": "2"}


@pytest.fixture
def url(tmp_path: Path) -> Generator[str]:
    """Start the server; it exits when its standard input is closed."""
    with subprocess.Popen(
        command_line("scripted_api.py"),
        env=environment(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        yield next(iter(server.stdout or ())).strip()
        server.communicate()
    assert 0 == server.returncode


def status(url: str, *messages: dict[str, Any]) -> int:
    """Return the HTTP status for a conversation."""
    body = json.dumps({"model": "any", "messages": messages}).encode()
    request = Request(f"{url}/chat/completions", data=body)  # noqa: S310 - loopback
    try:
        with urlopen(request) as response:  # noqa: S310 - loopback
            response.read()
            return int(response.status)
    except HTTPError as error:
        with error:
            return error.code


def test_conversation_with_missing_tool_results_is_rejected(url: str) -> None:
    user = {"role": "user", "content": "And?"}

    assert 200 == status(url, SYSTEM, user)
    assert 200 == status(url, SYSTEM, ASSISTANT_WITH_CALLS, RESULT_B, RESULT_A)
    assert 400 == status(url, SYSTEM, ASSISTANT_WITH_CALLS, RESULT_A)
    assert 400 == status(url, SYSTEM, ASSISTANT_WITH_CALLS, RESULT_A, user, RESULT_B)
    assert 400 == status(
        url, SYSTEM, ASSISTANT_WITH_CALLS, RESULT_A, RESULT_A, RESULT_B
    )
    assert 400 == status(url, SYSTEM, RESULT_A)
    assert 400 == status(url, SYSTEM, {"role": "user", "content": None})
    assert 400 == status(url, user)
    assert 400 == status(url)
