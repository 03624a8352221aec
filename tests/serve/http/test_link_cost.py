"""A cold process decides by a signed link without what only pages of waits need."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from continuations import Agent, Runner, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.http.links import Links
from tests.run_environment import ROOT

if TYPE_CHECKING:
    from pathlib import Path

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


@tool(approval=True)
def note(number: int) -> str:
    """Save a note."""
    return str(number)


def _request(store: str, method: str, path: str, body: str = "") -> Any:
    """Send one request to a fresh process: its status, its page and its modules."""
    command = [sys.executable, "-c", REQUEST, store, SECRET, method, path, body]
    done = subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    return json.loads(done.stdout)


def test_cold_decision_by_a_link_loads_no_template(tmp_path: Path) -> None:
    """109 modules of this package were loaded when the pages were written by hand."""
    store = f"file:{tmp_path}"
    model = ScriptedModel([ToolCall("note", {"number": 7})])
    agent = Agent("notes", tools=[note], model=model)
    [wait] = Runner(agent, store=store).start("Save the note 7.").continuation.waits
    path = f"/d/{Links(SECRET, base_url='https://api.example').token(wait)}"
    form = {"decision": "approve", "shown": wait.digest}

    shown, page, loaded_by_page = _request(store, "GET", path)
    decided, answer, loaded = _request(store, "POST", path, urlencode(form))

    assert (200, 200) == (shown, decided)
    assert "Run note" in page
    assert "jinja2" in loaded_by_page
    assert "Your decision is recorded" in answer
    unused = {"jinja2", "markupsafe", "pydantic", "jsonschema_rs", "starlette"}
    assert set() == unused & set(loaded)
    assert len([name for name in loaded if name.startswith("continuations")]) <= 109
