"""Invalid arguments raise a typed error at once, and nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from continuations import Agent, ContinuationsError, Runner, open_store, tool
from continuations.errors import InvalidInput, ModelError
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall

MODEL = ScriptedModel(["Done."])
AGENT = Agent("a", model=MODEL)


@pytest.mark.parametrize(
    "options",
    [
        *({"lease": value} for value in (0, -1, 0.001, "x", None, True, 1e18)),
        *({"lease": value} for value in (float("nan"), float("inf"))),
        *({"max_attempts": value} for value in ("x", 0, -1, None, 1.5, True)),
        *({"max_depth": value} for value in ("x", 0, -1, 1.5, True)),
        {"notify": 3},
        {"clock": 3},
        {"ids": 3},
    ],
    ids=str,
)
def test_invalid_runner_option_is_rejected_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Runner(AGENT, store="memory:", **options)


@pytest.mark.parametrize("store", [None, 3, b"", object(), "s4:x", "file:\x00"])
def test_invalid_store_is_rejected(store: Any) -> None:
    with pytest.raises(InvalidInput):
        Runner(AGENT, store=store)


def test_path_is_accepted_as_a_store(tmp_path: Path) -> None:
    Runner(AGENT, store=tmp_path / "runs").start("go", run_id="r")

    assert "finished" == Runner([], store=f"file:{tmp_path}/runs").look("r").status


def test_invalid_store_url_raises_a_continuations_error() -> None:
    with pytest.raises(ContinuationsError):
        open_store("nothing")


@pytest.mark.parametrize("agents", [None, "a", [3], lambda: AGENT])
def test_invalid_agents_argument_is_rejected(agents: Any) -> None:
    with pytest.raises(InvalidInput):
        Runner(agents, store="memory:")


def test_a_runner_without_agents_starts_nothing() -> None:
    with pytest.raises(InvalidInput, match="has no agents"):
        Runner([], store="memory:").start("go")


@pytest.mark.parametrize(
    "options",
    [
        *({"max_turns": value} for value in ("3", (), 1.5, 0, 10**30, True)),
        *({"max_denials": value} for value in ("3", (), 1.5, 0, 10**30, True)),
        *({"settings": value} for value in ("x", 3, [1], {1: 2})),
        {"description": 3},
        *({"model": value} for value in (ScriptedModel, "", 3)),
        {"output_type": "int"},
        {"input_type": "int"},
    ],
    ids=str,
)
def test_invalid_agent_option_is_rejected(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Agent("a", **options)


def test_failing_tools_function_is_reported() -> None:
    agent = Agent("a", model=MODEL, tools=lambda: [1 / 0])  # type: ignore[list-item]

    with pytest.raises(InvalidInput, match="ZeroDivisionError"):
        Runner(agent, store="memory:").start("go")


@pytest.mark.parametrize(
    "given",
    [
        *([], {}, (), b"x", 3, None, [3], {"role": "user", "content": "x"}),
        *([{"role": "user"}], [{"role": "user", "content": ""}]),
        [{"role": "user", "content": []}],
        [{"role": "boss", "content": "x"}],
    ],
    ids=str,
)
def test_invalid_input_is_rejected_before_a_write(given: Any, tmp_path: Path) -> None:
    agent = Agent("a", instructions="You are a.", model=MODEL)

    with pytest.raises(InvalidInput):
        Runner(agent, store=tmp_path).start(given, run_id="r")

    assert [] == [path for path in tmp_path.rglob("*") if path.is_file()]


def test_model_that_returns_no_reply_is_a_model_error() -> None:
    class Odd:
        name = "odd"

        async def reply(self, request: ModelRequest) -> str:
            return request.agent

    model: Any = Odd()
    runner = Runner(Agent("a", model=model), store="memory:")

    with pytest.raises(ModelError, match="did not return a ModelReply"):
        runner.start("go", run_id="r")

    assert "suspended" == runner.look("r").status


def test_exception_with_a_failing_str_is_reported() -> None:
    class Bad(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    @tool
    def act() -> str:
        """Act."""
        raise Bad

    model = ScriptedModel([ToolCall("act"), "Done."])
    runner = Runner(Agent("a", model=model, tools=[act]), store="memory:")

    assert "Done." == getattr(runner.start("go"), "output", None)


def test_tool_exception_is_logged_without_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The text of an exception may contain secrets."""

    @tool
    def act() -> str:
        """Act."""
        msg = "sk-secret"
        raise ValueError(msg)

    model = ScriptedModel([ToolCall("act"), "Done."])
    runner = Runner(Agent("a", model=model, tools=[act]), store="memory:")

    runner.start("go", run_id="r-1")

    assert "run r-1: call c3 of act failed: ValueError" in caplog.text
    assert "sk-secret" not in caplog.text
