"""The console in AWS Lambda: whole responses, links with the stage, pages that ask."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock
from urllib.parse import urlencode

import pytest

from continuations import Agent, AsyncRunner, Runner, tool
from continuations.attachments import File
from continuations.engine.ports import SystemClock
from continuations.errors import InvalidInput
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.aws.lambda_console import LambdaConsole
from continuations.serve.aws_lambda import Handler, handler
from continuations_storage import MemoryStore
from tests.serve.aws.test_handler_options import Context
from tests.serve.rights import all_but

HOST = "abc.lambda-url.eu-central-1.on.aws"


@tool(approval=True)
def pay(what: str) -> str:
    """Pay."""
    return what


AGENT = Agent(
    "boss", tools=[pay], model=ScriptedModel([ToolCall("pay", {"what": "x"})])
)


@pytest.fixture
def store() -> MemoryStore:
    """Return a store with a run that waits."""
    memory = MemoryStore()
    asyncio.run(AsyncRunner(AGENT, store=memory).start("go", run_id="r1"))
    return memory


@pytest.fixture
def handle(store: MemoryStore) -> Iterator[Handler]:
    """Return a handler with a console."""
    made = handler(store=store, verify=lambda _: "kim", console=LambdaConsole())
    yield made
    made.close()


def event(path: str, stage: str = "", body: str = "", **headers: str) -> dict[str, Any]:
    """Return the event of a browser's request, as HTTP APIs send it."""
    method = "POST" if body else "GET"
    given = {"accept": "text/html", "host": HOST, **headers}
    return {
        "version": "2.0",
        "rawPath": (f"/{stage}" if stage else "") + path,
        "headers": {name.replace("_", "-"): text for name, text in given.items()},
        "requestContext": {"http": {"method": method}, "stage": stage or "$default"},
        "body": body,
    }


def test_page_asks_with_its_cursor_and_gets_204(
    handle: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = SystemClock().now()  # a page says how long a run has waited
    monkeypatch.setattr(SystemClock, "now", Mock(return_value=now))
    page = handle(event("/runs/r1"), Context())
    assert 200 == page["statusCode"]
    assert 'data-poll="10"' in page["body"]
    assert "strict-transport-security" in page["headers"]
    cursor = re.findall(r'data-cursor="([^"]+)"', page["body"])[0]
    asked = handle(event("/runs/r1", x_live_after=cursor), Context())
    assert (204, "") == (asked["statusCode"], asked["body"])
    changed = handle(event("/runs/r1", x_live_after="1.0"), Context())
    assert (200, page["body"]) == (changed["statusCode"], changed["body"])


def test_links_have_the_stage_and_assets_are_served(handle: Handler) -> None:
    page = handle(event("/inbox", stage="prod"), Context())["body"]
    [style] = re.findall(r'<link rel="stylesheet" href="/prod([^"]+)"', page)
    [wait] = re.findall(r'<h3><a href="/prod(/waits/[^"]+)"', page)
    for path, words in ((style, ".card"), (wait, "Approve")):
        shown = handle(event(path, stage="prod"), Context())
        assert (200, True) == (shown["statusCode"], words in shown["body"])
    home = handle(event("/", stage="prod"), Context())
    assert (303, "/prod/inbox") == (home["statusCode"], home["headers"]["location"])


def test_rest_api_has_the_stage_in_its_context(handle: Handler) -> None:
    rest = {
        "path": "/inbox",
        "httpMethod": "GET",
        "headers": {"Accept": "text/html"},
        "requestContext": {"path": "/prod/inbox", "stage": "prod"},
    }
    assert 'href="/prod/inbox"' in handle(rest, Context())["body"]


def test_base_path_of_a_custom_domain_is_in_the_links(store: MemoryStore) -> None:
    handle = handler(
        store=store,
        verify=lambda _: "kim",
        base_path="agents",
        console=LambdaConsole(),
    )
    page = handle(event("/agents/inbox"), Context())["body"]
    handle.close()
    assert 'href="/agents/runs"' in page


@pytest.mark.parametrize(
    "path", ["//evil.example", "/\\evil.example", "/%2F/evil.example", "/%5Cevil"]
)
def test_links_lead_to_no_other_server(handle: Handler, path: str) -> None:
    """A gateway may pass on the whole path, as a client sent it."""
    for context in ({"path": path + "/inbox"}, {"path": path}):
        rest = {
            "path": "/inbox" if context["path"].endswith("inbox") else "/",
            "httpMethod": "GET",
            "headers": {"Accept": "text/html", "host": HOST},
            "requestContext": context,
        }
        answer = handle(rest, Context())
        assert answer["statusCode"] in {200, 303}
        assert "evil" not in answer["body"]
        assert answer["headers"].get("location", "/inbox") == "/inbox"


@pytest.mark.parametrize("path", ["/inbox", "/runs/file-run/files/{digest}"])
def test_head_has_no_body(path: str) -> None:
    with_file = MemoryStore()
    agent = Agent("looker", model=ScriptedModel(["seen"]))
    bill = File(b"%PDF-1.7 secret", "application/pdf", name="bill.pdf")
    runner = AsyncRunner(agent, store=with_file)
    asyncio.run(runner.start(["Read it", bill], run_id="file-run"))
    console = LambdaConsole()
    handle = handler(store=with_file, verify=lambda _: "kim", console=console)
    asked = event(path.format(digest=bill.digest))
    shown = handle(asked, Context())
    assert (200, True) == (shown["statusCode"], shown["body"] != "")
    asked["requestContext"]["http"]["method"] = "HEAD"
    answer = handle(asked, Context())
    handle.close()
    assert (200, "") == (answer["statusCode"], answer["body"])


def test_form_decides_and_a_foreign_form_does_not(
    handle: Handler, store: MemoryStore
) -> None:
    [wait] = Runner([], store=store).look("r1").waits
    body = urlencode({"shown": wait.digest, "decision": "approve"})
    path, form = f"/waits/{wait.id}", "application/x-www-form-urlencoded"
    foreign = event(path, body=body, content_type=form, origin="https://evil.example")
    assert 403 == handle(foreign, Context())["statusCode"]
    own = event(
        path,
        body=body,
        content_type=form,
        origin=f"https://{HOST}",
        sec_fetch_site="same-origin",
    )
    recorded = handle(own, Context())
    assert (200, True) == (recorded["statusCode"], "Recorded" in recorded["body"])
    shown = handle(event(path), Context())["body"]
    assert "kim" in shown


def test_json_and_rights_are_those_of_the_http_api(store: MemoryStore) -> None:
    console = LambdaConsole(can=all_but("view"))
    handle = handler(store=store, verify=lambda _: "kim", console=console)
    for accept in ("text/html", "application/json"):
        refused = handle(event("/runs/r1", accept=accept), Context())
        assert 403 == refused["statusCode"]
    handle.close()


def test_other_values_are_refused() -> None:
    console: Any = True
    with pytest.raises(InvalidInput, match="console must be a LambdaConsole or None"):
        handler(store="memory:", console=console)


def test_console_needs_no_web_framework() -> None:
    """Neither Starlette nor a package of tokens is loaded."""
    code = """
import sys
from continuations.serve.aws.lambda_console import LambdaConsole
from continuations.serve.aws_lambda import handler
assert not [name for name in sys.modules if "serve.console" in name]
handler(store="memory:", console=LambdaConsole())
heavy = {"starlette", "sse_starlette", "jwt", "jinja2", "pydantic"} & {*sys.modules}
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True)
