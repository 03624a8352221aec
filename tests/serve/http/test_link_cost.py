"""A cold process decides by a signed link without what only pages of waits need."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from continuations import Agent, Runner, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.http.links import Links
from tests.run_environment import ROOT

UNUSED = {"html", "jinja2", "markupsafe", "pydantic", "jsonschema_rs", "starlette"}
SECRET = "0123456789abcdef" * 2
REQUEST = """
import asyncio, json, sys
from continuations import AsyncRunner
from continuations.serve.http.api import HttpApi
from continuations.serve.http.links import Links
from continuations.serve.http.request_response import Request

store, secret, method, path, body = sys.argv[1:]
links = Links(secret, base_url="https://api.example")
api = HttpApi(AsyncRunner([], store=store), links=links)
headers = {"content-type": "application/x-www-form-urlencoded"}
request = Request(method=method, path=path, headers=headers, body=body.encode())
response = asyncio.run(api.handle(request))
print(json.dumps([response.status, response.body, sorted(sys.modules)]))
"""
FUNCTION = """
import json, sys
from types import SimpleNamespace
from continuations.serve.aws_lambda import handler
from continuations.serve.http.links import Links

class Dispatcher:
    async def wake(self, run_id):
        pass

store, secret, method, path, body = sys.argv[1:]
links = Links(secret, base_url="https://api.example")
handle = handler(store=store, links=links, wake=Dispatcher())
event = {
    "version": "2.0",
    "rawPath": path,
    "rawQueryString": "",
    "headers": {"content-type": "application/x-www-form-urlencoded"},
    "requestContext": {"http": {"method": method, "path": path}},
    "body": body,
    "isBase64Encoded": False,
}
context = SimpleNamespace(
    aws_request_id="1",
    invoked_function_arn="arn",
    get_remaining_time_in_millis=lambda: 30_000,
)
response = handle(event, context)
print(json.dumps([response["statusCode"], response["body"], sorted(sys.modules)]))
"""


@tool(approval=True)
def note(number: int) -> str:
    """Save a note."""
    return str(number)


def _request(
    store: str, method: str, path: str, body: str = "", *, code: str = REQUEST
) -> Any:
    """Send one request to a fresh process: its status, its page and its modules."""
    command = [sys.executable, "-c", code, store, SECRET, method, path, body]
    done = subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    return json.loads(done.stdout)


def _suspended(store: str) -> tuple[str, str]:
    """Return the path of a signed link to an open wait, and the form that approves."""
    model = ScriptedModel([ToolCall("note", {"number": 7})])
    agent = Agent("notes", tools=[note], model=model)
    [wait] = Runner(agent, store=store).start("Save the note 7.").continuation.waits
    path = f"/d/{Links(SECRET, base_url='https://api.example').token(wait)}"
    return path, urlencode({"decision": "approve", "shown": wait.digest})


def test_cold_decision_by_a_link_loads_no_template(tmp_path: Path) -> None:
    store = f"file:{tmp_path}"
    path, form = _suspended(store)

    shown, page, loaded_by_page = _request(store, "GET", path)
    decided, answer, loaded = _request(store, "POST", path, form)

    assert (200, 200) == (shown, decided)
    assert "Run note" in page
    assert "jinja2" in loaded_by_page
    assert "Your decision is recorded" in answer
    assert set() == UNUSED & set(loaded)
    assert len([name for name in loaded if name.startswith("continuations")]) <= 96


def test_cold_function_decides_by_a_link_without_what_only_runs_need(
    tmp_path: Path,
) -> None:
    """The function of AWS Lambda loads neither the reducer nor agents to decide."""
    store = f"file:{tmp_path}"
    path, form = _suspended(store)

    status, answer, loaded = _request(store, "POST", path, form, code=FUNCTION)

    assert 200 == status
    assert "Your decision is recorded" in answer
    of_runs = {"continuations.core.changes.reducer", "continuations.engine.outcomes"}
    assert set() == (UNUSED | of_runs | {"boto3", "pathlib"}) & set(loaded)
    assert len([name for name in loaded if name.startswith("continuations")]) <= 103
