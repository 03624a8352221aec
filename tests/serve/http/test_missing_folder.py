"""A route that reads does not take a missing folder or file for an empty store."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from continuations import Agent, AsyncRunner
from continuations.models.scripted import ScriptedModel
from continuations.serve.http.api import HttpApi, Request
from continuations.serve.http.request_response import Response
from continuations.serve.operations import OPERATIONS, Operation
from tests.serve.http.api_fixture import problem_slug, verify_bearer

JSON = {"content-type": "application/json", "authorization": "Bearer kim"}
# The routes that read no store, or may be the first to write.
WITHOUT_FOLDER = {
    ("GET", "/healthz"),
    ("GET", "/openapi.json"),
    ("POST", "/runs"),
    ("POST", "/events"),
    ("POST", "/threads/{agent}/{key}/messages"),
    ("GET", "/threads/{agent}/{key}/events"),
    ("POST", "/webhooks/{name}"),
}
READING = [
    each for each in OPERATIONS if (each.method, each.path) not in WITHOUT_FOLDER
]


@pytest.fixture(params=["file", "sqlite"])
def api(request: pytest.FixtureRequest, tmp_path: Path) -> HttpApi:
    agent = Agent("clerk", model=ScriptedModel(["done"]))
    runner = AsyncRunner(agent, store=f"{request.param}:{tmp_path / 'runs'}")
    return HttpApi(runner, verify=verify_bearer)


def send(api: HttpApi, method: str, path: str, body: bytes = b"") -> Response:
    request = Request(method=method, path=path, headers=JSON, body=body)
    return asyncio.run(api.handle(request))


@pytest.mark.parametrize("operation", READING, ids=lambda each: each.id)
def test_route_that_reads_refuses_a_missing_folder(
    api: HttpApi, tmp_path: Path, operation: Operation
) -> None:
    path = operation.path.replace("{", "").replace("}", "")
    response = send(api, operation.method, path)

    assert 503 == response.status
    if not operation.is_html_page:
        assert "store-unavailable" == problem_slug(response)
    assert not (tmp_path / "runs").exists()


def test_first_run_makes_the_folder(api: HttpApi) -> None:
    assert 200 == send(api, "GET", "/healthz").status
    body = json.dumps({"input": "go", "run_id": "r1"}).encode()
    assert 200 == send(api, "POST", "/runs", body).status

    assert 200 == send(api, "GET", "/runs").status


def test_first_message_makes_the_folder(api: HttpApi) -> None:
    path = "/threads/clerk/k/messages"
    assert 200 == send(api, "POST", path, b'{"text": "hello"}').status

    assert 200 == send(api, "GET", "/runs").status
