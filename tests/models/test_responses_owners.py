"""Encrypted reasoning goes back only to the model and the account that wrote it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from continuations import Agent, Finished, Replied, Runner
from continuations.models.fallback import Fallback
from continuations.models.openai_responses import OpenAIResponses
from tests.responses_server import ResponsesServer, call, reasoning, response, text

_PROGRAM = """
import os, sys
from continuations import Agent, Approve, Runner, tool
from continuations.models.openai_responses import OpenAIResponses

@tool(approval=True)
def pay(cents: int) -> str:
    return f"paid {cents}"

model = OpenAIResponses(sys.argv[3])
runner = Runner(Agent("clerk", tools=[pay], model=model), store=sys.argv[1])
if sys.argv[2] == "start":
    version = runner.start("Pay 5 cents.", run_id="r1").continuation.version
else:
    runner.fork("r1", version=int(sys.argv[4]), run_id="r2")
    [wait] = [each for each in runner.waiting() if each.run_id == "r2"]
    runner.decide(wait.id, Approve(by="jane"))
    outcome = runner.resume("r2")
    print(list(outcome.continuation.root.metadata.values()))
"""


def _kinds(request: Mapping[str, Any]) -> list[str]:
    """Return the kinds of the items of a request."""
    return [item.get("type", item.get("role")) for item in request["input"]]


def _texts(request: Mapping[str, Any]) -> list[object]:
    """Return the encrypted reasoning of a request."""
    items = request["input"]
    return [i["encrypted_content"] for i in items if i.get("type") == "reasoning"]


def _answering(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reply with reasoning of the model of the request."""
    made = reasoning(f"{request['model']} {len(request['input'])}")
    return response(made, text("Well."))


def test_fork_to_another_model_leaves_the_reasoning_out(tmp_path: Path) -> None:
    """The fork runs in a fresh interpreter; the reply says what it did not get."""
    first = [reasoning(), text("I pay."), call("pay", '{"cents": 5}')]
    script = [response(*first), response(reasoning("gBBB"), text("Done."))]
    done = []
    with ResponsesServer(script) as server:
        environment = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": server.key}
        store = f"file:{tmp_path}/runs"
        for words in (("start", "gpt-5-mini"), ("fork", "gpt-5", "2")):
            done = [
                subprocess.run(
                    [sys.executable, "-c", _PROGRAM, store, *words],
                    capture_output=True,
                    text=True,
                    check=True,
                    env=environment,
                    timeout=60,
                )
            ]

    assert ["gpt-5-mini", "gpt-5"] == [each["model"] for each in server.requests]
    expected = ["user", "assistant", "function_call", "function_call_output"]
    assert expected == _kinds(server.requests[1])
    assert "[{'reasoning_model': 'gpt-5-mini'}, " in done[0].stdout
    assert "'items_left_out': 1" in done[0].stdout
    assert "'reasoning_model': 'gpt-5'}]" in done[0].stdout
    assert "run r2: model gpt-5 got text and calls only of 1" in done[0].stderr


def test_each_model_gets_its_own_reasoning_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One request a turn; the log says once that the model has changed."""
    with ResponsesServer(_answering) as server:
        store = Runner([], store="memory:").store
        for number, name in enumerate(("a", "a", "b", "b", "a", "a"), start=1):
            model = OpenAIResponses(name, base_url=server.url, api_key=server.key)
            thread = Runner(Agent("clerk", model=model), store=store).thread(key="k")
            assert isinstance(thread.send(f"message {number}"), Replied)

    assert [[], ["a 1"], [], ["b 5"], [], ["a 9"]] == [
        _texts(request) for request in server.requests
    ]
    assert ["b", "a"] == [
        each.getMessage().split()[3]
        for each in caplog.records
        if "encrypted reasoning" in each.getMessage()
    ]


def test_refused_reasoning_is_refused_once() -> None:
    """Another account cannot read it; the later turns do not send it again."""
    is_new_account = False

    def rule(request: Mapping[str, Any]) -> dict[str, Any]:
        if is_new_account and any("old" in str(each) for each in _texts(request)):
            message = "The encrypted content old could not be verified."
            return {"status_code": 400, "body": {"error": {"message": message}}}
        own = "new" if is_new_account else "old"
        return response(reasoning(f"{own} {len(request['input'])}"), text("Well."))

    with ResponsesServer(rule) as server:
        model = OpenAIResponses("m", base_url=server.url, api_key=server.key)
        thread = Runner(Agent("clerk", model=model), store="memory:").thread(key="k")
        thread.send("one")
        is_new_account = True
        for message in ("two", "three", "four"):
            assert isinstance(thread.send(message), Replied)

    assert [[], ["old 1"], [], ["new 3"], ["new 3", "new 6"]] == [
        _texts(request) for request in server.requests
    ]


def test_model_of_a_fallback_gets_no_reasoning_of_the_other_one() -> None:
    """The metadata of the fallback stays as it is."""

    def rule(request: Mapping[str, Any]) -> dict[str, Any]:
        if request["model"] == "a" and len(server.requests) == 2:
            return {"status_code": 503, "body": {"error": {"message": "busy"}}}
        if len(server.requests) == 1:
            return response(reasoning(), call("look"))
        return _answering(request)

    def look() -> str:
        """Look."""
        return "seen"

    with ResponsesServer(rule) as server:
        options: dict[str, Any] = {"base_url": server.url, "api_key": server.key}
        models = [OpenAIResponses(name, **options) for name in ("a", "b")]
        agent = Agent("clerk", tools=[look], model=Fallback(models))
        outcome = Runner(agent, store="memory:").start("go")

    assert isinstance(outcome, Finished)
    assert ["a", "a", "b"] == [each["model"] for each in server.requests]
    assert [] == _texts(server.requests[2])
    *_, facts = outcome.continuation.root.metadata.values()
    assert ("b", "b", 1) == (
        facts["model"],
        facts["reasoning_model"],
        facts["items_left_out"],
    )
