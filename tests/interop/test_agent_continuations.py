"""Applications of SnapLogic's prototype run with other import lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from continuations import Deny
from continuations.errors import InvalidInput
from continuations.interop.agent_continuations import (
    Agent,
    AgentExecutionStatus,
    ContinuationAgent,
    suspend_function,
    tool,
)
from tests.interop.travel_application import with_other_imports
from tests.model_server import ModelServer, Script
from tests.python_path import python_path

ROOT = Path(__file__).parents[2]


def asks(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a reply with tool calls."""
    return {"tool_calls": [{"name": n, "arguments": a} for n, a in calls]}


SCRIPT: Script = {
    "You are the desk": [
        asks(("search", {"flight": "LX 8"}), ("clerk_tool", {"prompt": "travel"})),
        asks(("search", {"flight": "LX 9"})),
        {"content": "You fly."},
    ],
    "You are a clerk": [
        asks(("booker", {"prompt": "two flights"})),
        {"content": "arranged"},
    ],
    "You lead": [
        asks(("checker", {"prompt": "check"}), ("booker", {"prompt": "two"})),
        {"content": "led"},
    ],
    "You check": [{"content": "checked"}],
    "You book": [
        asks(("book", {"flight": "LX 8"}), ("book", {"flight": "LX 9"})),
        {"content": "booked"},
    ],
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """Return a chat completions server that this process and others use."""
    with ModelServer(SCRIPT) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


class Application:
    """The application in a folder; each request is a process of its own."""

    def __init__(self, folder: Path, *, turns: int = 2) -> None:
        self.folder = folder
        source = with_other_imports().replace("n=2", f"n={turns}")
        (folder / "travel.py").write_text(source)

    def request(self, given: str | dict[str, Any]) -> dict[str, Any]:
        """Return the result of a prompt, or of a file with a paused result."""
        words = ["--prompt", str(given)]
        if isinstance(given, dict):
            (self.folder / "paused.json").write_text(json.dumps(given))
            words = ["--json", "paused.json"]
        log = str(self.folder / "log")
        done = subprocess.run(
            [sys.executable, "travel.py", *words],
            cwd=self.folder,
            env={
                **os.environ,
                "PYTHONPATH": python_path(ROOT, ROOT / "storage"),
                "TRAVEL_LOG": log,
            },
            capture_output=True,
            check=False,
            text=True,
        )
        assert 0 == done.returncode, done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    @property
    def effects(self) -> list[str]:
        """The calls of its tools, in order."""
        return (self.folder / "log").read_text().splitlines()


def test_application_three_deep_runs_with_other_imports(
    tmp_path: Path, server: ModelServer
) -> None:
    """Two approvals by full path, each in a new process; a suspension; the end."""
    application = Application(tmp_path)

    # Given an application that waits for two approvals in the deepest agent
    paused = application.request("Fly")
    assert "approval_required" == paused["end_reason"]
    infos = paused["approval_info"]
    paths = ["clerk_tool", "booker", "book"]
    assert [paths, paths] == [info["paths"] for info in infos]
    assert [False, False] == [info["approved"] for info in infos]
    assert ["search LX 8"] == application.effects

    # When nothing is approved, nothing runs and the same calls wait
    assert infos == application.request(paused)["approval_info"]
    assert ["search LX 8"] == application.effects

    # When the second is approved, it runs alone
    infos[1]["approved"] = True
    paused = application.request(paused)
    (info,) = paused["approval_info"]
    assert infos[0]["path_ids"] == info["path_ids"]
    assert ["search LX 8", "book LX 9"] == application.effects

    # When the first is approved, the root makes two more turns and ends
    info["approved"] = True
    end = application.request(paused)
    assert ("completed", "You fly.") == (end["end_reason"], end["result"])
    effects = ["search LX 8", "book LX 9", "book LX 8", "search LX 9"]
    assert effects == application.effects
    # And no turn was asked twice
    turns = [json.dumps(request["messages"]) for request in server.requests]
    assert len(set(turns)) == len(turns)


def test_application_three_deep_is_suspended_by_its_function(
    tmp_path: Path, server: ModelServer
) -> None:
    """A suspension between two approvals loses and repeats nothing."""
    application = Application(tmp_path, turns=1)
    paused = application.request("Fly")

    # When one call is approved, the other one goes on waiting
    paused["approval_info"][0]["approved"] = True
    paused = application.request(paused)
    assert "approval_required" == paused["end_reason"]
    assert ["search LX 8", "book LX 8"] == application.effects

    # When the other is approved, the root makes one turn and is suspended
    paused["approval_info"][0]["approved"] = True
    suspended = application.request(paused)
    assert ("suspended", ["every_second_turn"]) == (
        suspended["end_reason"],
        suspended["suspend_list"],
    )
    effects = ["search LX 8", "book LX 8", "book LX 9", "search LX 9"]
    assert effects == application.effects

    # Then the next process goes on from there
    end = application.request(suspended)
    assert ("completed", "You fly.") == (end["end_reason"], end["result"])
    assert effects == application.effects
    turns = [json.dumps(request["messages"]) for request in server.requests]
    assert len(set(turns)) == len(turns)


@pytest.mark.usefixtures("server")
def test_suspended_agent_leaves_its_siblings_alone() -> None:
    """Beside a suspended agent, another one goes on until it needs an approval."""
    ran: list[str] = []
    met = [True]

    @suspend_function()
    def once() -> bool:
        return met.pop() if met else False

    checker = ContinuationAgent("You check.", [], suspension_list=[once])
    children = [checker.as_tool("checker", ""), make_booker(ran).as_tool("booker", "")]
    leader = ContinuationAgent("You lead.", children)

    paused = leader.request({"prompt": "go"})

    assert ("approval_required", ["once"]) == (
        paused["end_reason"],
        paused["suspend_list"],
    )
    without_call, *infos = paused["approval_info"]
    assert {"paths": ["checker"], "approved": True} == {
        key: without_call[key] for key in ("paths", "approved")
    }
    assert [] == ran
    for info in infos:
        info["approved"] = True
    end = leader.request(json.loads(json.dumps(paused)))
    assert ("completed", "led") == (end["end_reason"], end["result"])
    assert ["LX 8", "LX 9"] == sorted(ran)


def make_booker(ran: list[str], **options: Any) -> ContinuationAgent:
    """Return the agent that books two flights."""

    @tool(need_approval=True)
    def book(flight: str) -> str:
        """Book a flight."""
        ran.append(flight)
        return f"booked {flight}"

    return ContinuationAgent("You book.", [book], **options)


@pytest.mark.usefixtures("server")
def test_denied_call_never_runs_and_the_model_is_told() -> None:
    ran: list[str] = []
    booker = make_booker(ran)
    paused = booker.request({"prompt": "two"})
    paused["approval_info"][0]["approved"] = Deny(reason="too late")
    paused["approval_info"][1]["approved"] = True

    end = booker.request(paused)

    assert ["LX 9"] == ran
    assert "completed" == end["end_reason"]
    denied = next(m["content"] for m in end["messages"] if m["role"] == "tool")
    assert denied.startswith("DENIED")
    assert denied.endswith("too late")


@pytest.mark.usefixtures("server")
def test_suspended_agent_goes_on_and_keeps_its_approved_calls() -> None:
    """A suspension after an approval loses nothing, as it does in the prototype."""
    ran: list[str] = []

    @suspend_function(turns=1)
    def after_one_turn() -> bool:
        state: Any = after_one_turn
        state.turns -= 1
        return bool(state.turns < 0)

    @suspend_function(asked=0)
    def never() -> bool:
        return False

    booker = make_booker(ran, suspension_list=[never, after_one_turn])
    paused = booker.request({"prompt": "two"})
    for info in paused["approval_info"]:
        info["approved"] = True

    end = json.loads(json.dumps(booker.request(paused)))

    assert "completed" == end["end_reason"]
    assert ["LX 8", "LX 9"] == sorted(ran)
    never_asked = suspend_function()(lambda: True)
    never_asked.__name__ = "at_once"
    stopped = make_booker(ran, suspension_list=[never_asked])
    suspended = stopped.request({"prompt": "two"})
    assert ("suspended", ["at_once"]) == (
        suspended["end_reason"],
        suspended["suspend_list"],
    )
    assert {"messages"} == set(suspended["continuation"])
    assert "approval_required" == booker.request(suspended)["end_reason"]


@pytest.mark.usefixtures("server")
def test_plain_agent_never_runs_a_call_that_needs_an_approval() -> None:
    ran: list[str] = []
    agent = Agent("You book.", make_booker(ran).tools)

    with pytest.raises(InvalidInput, match="Use ContinuationAgent"):
        agent.request({"prompt": "two"})

    assert [] == ran


def test_mistakes_are_named() -> None:
    @tool(is_agent=True)
    def clerk_tool(given: dict[str, Any]) -> Any:
        """Change the input."""
        return make_booker([]).request({"prompt": f"please {given['prompt']}"})

    with pytest.raises(InvalidInput, match=r"as_tool\(name, description\)"):
        ContinuationAgent("x", [clerk_tool]).request({"prompt": "x"})
    with pytest.raises(InvalidInput, match=r"Declare it with @tool\(\)"):
        Agent("x", [print])
    with pytest.raises(InvalidInput, match="prompt"):
        Agent("x", []).request({})
    with pytest.raises(InvalidInput, match="would never be called"):
        type("Mine", (Agent,), {"_call_tool": print})


def test_declared_names_stay() -> None:
    ran: list[str] = []
    (book,) = make_booker(ran).tools
    assert "booked x" == book("x")
    declared: Any = book
    described = declared._tool.to_openai_function()
    assert "book" == described["function"]["name"]
    assert ["flight"] == described["function"]["parameters"]["required"]
    names = {"RUNNING", "COMPLETED", "SUSPENDED", "REJECTED", "ERROR"}
    assert names == {each.name for each in AgentExecutionStatus}


def test_function_of_an_agent_is_called_once() -> None:
    """To find its agent; it may do something else before it passes on its input."""
    calls: list[object] = []
    inner = ContinuationAgent("inner", [])

    @tool(is_agent=True)
    def helper(prompt: Any) -> Any:
        """Help."""
        calls.append(prompt)
        return inner.request(prompt)

    outer = ContinuationAgent("outer", [helper])
    outer.built("outer")
    for _ in range(2):  # each request does it
        list(outer._suspension_functions())  # pyright: ignore[reportPrivateUsage]

    assert 1 == len(calls)
