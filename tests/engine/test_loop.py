"""The loop: order, parallelism, limits, types, and models that fail."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from continuations import (
    Agent,
    Approve,
    Failed,
    Finished,
    Runner,
    Suspended,
    resume,
    run,
    tool,
)
from continuations.errors import ModelError
from continuations.models.openai_chat import OpenAIChat
from continuations_storage import MemoryStore
from tests import effect_log, scripts
from tests.engine import agent_builders
from tests.engine.agent_builders import root_tool_results, text_tool
from tests.model_server import ModelServer
from tests.outcomes import expect
from tests.run_environment import RunEnvironment, wait_until
from tests.scripts import Script, call

# Order and parallelism ----------------------------------------------------------


@pytest.mark.parametrize("count", [3, 12])
def test_calls_without_approval_run_concurrently(count: int) -> None:
    """Each tool waits for all the others; a thread pool would be too small."""
    barrier = threading.Barrier(count, timeout=120)

    @tool
    def meet(number: int) -> int:
        """Wait for all the others."""
        barrier.wait()
        return number

    calls = [call("meet", number=n) for n in range(count)]
    outcome = agent_builders.make_runner({"go": [calls, "end"]}, meet).start("go")

    assert [str(n) for n in range(count)] == root_tool_results(outcome)


def test_results_stand_in_the_order_of_the_calls() -> None:
    """Also if the calls finish in the opposite order."""
    turns: dict[int, asyncio.Event] = {}

    @tool
    async def after(number: int) -> str:
        """Finish after the next one has."""
        mine = turns.setdefault(number, asyncio.Event())
        following = turns.setdefault(number + 1, asyncio.Event())
        if number < 3:
            await following.wait()
        effect_log.append_effect("after", str(number))
        mine.set()
        return f"number {number}"

    calls = [call("after", number=n) for n in (1, 2, 3)]
    outcome = agent_builders.make_runner({"go": [calls, "end"]}, after).start("go")

    assert ["after 3", "after 2", "after 1"] == effect_log.names()
    assert ["number 1", "number 2", "number 3"] == root_tool_results(outcome)


def test_sub_agents_run_at_the_same_time() -> None:
    """Three sub-agents meet in their tools; two of them are calls of one agent."""
    barrier = threading.Barrier(3, timeout=120)

    @tool
    def meet() -> str:
        """Wait for all the others."""
        barrier.wait()
        return "met"

    script: Script = {
        "go": [
            [call("a", input="1"), call("b", input="2"), call("a", input="3")],
            "end",
        ],
        **{task: [[call("meet")], f"{task} met"] for task in "123"},
    }
    model = scripts.scripted_model(script)
    one, two = (Agent(name, tools=[meet], model=model) for name in "ab")

    outcome = Runner(
        Agent("boss", tools=[one, two], model=model), store="memory:"
    ).start("go")

    assert ["1 met", "2 met", "3 met"] == root_tool_results(outcome)


def test_a_tool_may_run_an_agent_of_its_own() -> None:
    """`run` works in sync tools, in more of them than a pool has threads."""
    leaf = text_tool("leaf", "leaf")

    @tool
    def inner(number: int) -> str:
        """Run another agent to its end."""
        model = scripts.scripted_model({"go": [[call("leaf")], f"inner {number}"]})
        outcome = expect(run(Agent("inner", tools=[leaf], model=model), "go"), Finished)
        return str(outcome.output)

    calls = [call("inner", number=n) for n in range(8)]
    outcome = agent_builders.make_runner({"go": [calls, "end"]}, inner).start("go")

    assert [f"inner {n}" for n in range(8)] == root_tool_results(outcome)


# Limits --------------------------------------------------------------------------


def endless_script() -> dict[str, Any]:
    """Return a script that calls the same tool in every turn."""
    return {task: [[call("again")]] * 50 for task in ("go", "A")}


again = text_tool("again", "again", logs=True)


def test_root_agent_fails_after_max_turns(environment: RunEnvironment) -> None:
    """The calls of the last turn have results, and no further turn is asked."""
    agent = agent_builders.make_boss(endless_script(), again, max_turns=3)

    outcome = expect(Runner(agent, store="memory:").start("go"), Failed)

    assert "max_turns" == outcome.error.code
    assert (3, 3) == (len(environment.turns()), len(environment.effect_names()))
    assert 3 == len(root_tool_results(outcome))


def test_child_agent_over_max_turns_returns_an_error_to_its_parent() -> None:
    """Turns are counted per frame, and a suspension does not reset the count."""
    ask = text_tool("ask", "asked", approval=True)
    turn = [call("ask")]
    script: Script = {"go": [[call("child", input="A")], "end"], "A": [turn] * 9}
    model = scripts.scripted_model(script)
    child = Agent("child", tools=[ask], model=model, max_turns=2)
    boss, store = Agent("boss", tools=[child], model=model), MemoryStore()

    outcome = Runner(boss, store=store).start("go", run_id="r")
    while isinstance(outcome, Suspended):
        Runner(boss, store=store).decide(outcome.waits[0].id, Approve())
        outcome = Runner(boss, store=store).resume("r")

    assert isinstance(outcome, Finished)
    assert ["go 0", "A 0", "A 1", "go 1"] == effect_log.turns()
    assert "all of its 2 turns" in root_tool_results(outcome)[0]


def test_depth_is_bounded_only_if_asked_for(environment: RunEnvironment) -> None:
    """A call that would be too deep is an error for the model."""
    script: Script = {
        "go": [[call("down", input="A")], "end"],
        "A": [[call("down", input="B")], "A end"],
        "B": [[call("down", input="C")], "B end"],
    }
    model = scripts.scripted_model(script)
    agent: Agent = Agent("down", tools=lambda: [agent], model=model)

    assert isinstance(Runner(agent, store="memory:", max_depth=3).start("go"), Finished)

    assert ["go 0", "A 0", "B 0", "B 1", "A 1", "go 1"] == environment.turns()


# Types ---------------------------------------------------------------------------


class Order(BaseModel):
    """The input of a sub-agent."""

    item: str
    count: int = 1


@dataclass
class Receipt:
    """The output of an agent."""

    total: int
    note: str = ""


def test_typed_input_and_output() -> None:
    """`output` has the declared type, and a sub-agent takes its declared input."""
    script: Script = {
        "go": [
            [call("child", item="tea"), call("child", count=2)],
            '{"total": 5, "note": "thanks"}',
        ],
        '{"count":1,"item":"tea"}': ["one tea"],
    }
    model = scripts.scripted_model(script)
    child = Agent("child", input_type=Order, model=model)
    agent = Agent("boss", tools=[child], output_type=Receipt, model=model)
    runner = Runner(agent, store="memory:")

    outcome = expect(runner.start("go", run_id="r"), Finished)

    assert Receipt(5, "thanks") == outcome.output
    first, second = root_tool_results(outcome)
    assert "one tea" == first
    assert second.startswith("ERROR")
    assert outcome.output == runner.resume("r").result()


def test_output_of_a_wrong_type_is_a_failure() -> None:
    """The root's run fails; the parent of a sub-agent gets an error."""
    script: Script = {"go": [[call("child", input="A")], "no JSON"], "A": ["neither"]}
    model = scripts.scripted_model(script)
    options: dict[str, Any] = {"output_type": Receipt, "output_retries": 0}
    child = Agent("child", model=model, **options)
    agent = Agent("boss", tools=[child], model=model, **options)

    outcome = expect(Runner(agent, store="memory:").start("go"), Failed)

    assert "output" == outcome.error.code
    [told] = root_tool_results(outcome)
    assert told.startswith(
        "ERROR: the agent child failed: The output is not valid JSON"
    )
    assert told.endswith("Its last reply was:\nneither")
    assert "no JSON" == outcome.continuation.root.messages[-1]["content"]


# Models --------------------------------------------------------------------------


def test_run_is_resumable_after_a_model_error(environment: RunEnvironment) -> None:
    """No turn and no tool is repeated, and siblings finish."""
    down = [True]

    def flaky(messages: list[dict[str, Any]], model: str) -> Mapping[str, Any]:
        effect_log.append_turn(
            task=scripts.first_user_message(messages),
            turn=scripts.turn_count(messages),
        )
        if (
            scripts.first_user_message(messages) == "A"
            and scripts.turn_count(messages) == 1
            and down[0]
        ):
            # After a model failed, the calls of the other agent do not begin any more.
            wait_until(lambda: "work 2" in environment.effect_names())
            return {"status": 400, "body": {"error": {"message": "quota"}}}
        return scripts.server_rule(script)(messages, model)

    script: Script = {
        "go": [[call("a", input="A"), call("b", input="B")], "end"],
        "A": [[call("work", what="1")], "A end"],
        "B": [[call("work", what="2")], "B end"],
    }
    work = text_tool("work", "worked", {"what": str}, logs=True)
    with ModelServer(flaky) as server:
        model = OpenAIChat("gpt-5-mini", base_url=server.url, api_key=server.key)
        one, two = (Agent(name, tools=[work], model=model) for name in "ab")
        runner = Runner(
            Agent("boss", tools=[one, two], model=model), store=MemoryStore()
        )

        # When one child's model refuses, twice
        for tries in (1, 2):
            with pytest.raises(ModelError) as raised:
                runner.start("go", run_id="r")
            assert ("r", 400) == (raised.value.run_id, raised.value.status)
            assert tries == environment.turns().count("A 1")
            assert ["work 1", "work 2"] == sorted(environment.effect_names())
            assert "suspended" == runner.look("r").status

        # And then replies
        down[0] = False
        outcome = runner.resume("r")

    # Then everything else was done once
    assert isinstance(outcome, Finished)
    assert ["A end", "B end"] == root_tool_results(outcome)
    assert ["A 0", "A 1", "A 1", "A 1", "B 0", "B 1", "go 0", "go 1"] == sorted(
        environment.turns()
    )
    assert ["work 1", "work 2"] == sorted(environment.effect_names())


def test_model_error_without_a_store_carries_the_continuation() -> None:
    """A failing model loses nothing."""
    down = [True]

    def rule(request: Any) -> Any:
        turn = sum(message.role == "assistant" for message in request.messages)
        if turn == 1 and down[0]:
            raise ConnectionError("refused")
        lines: list[Any] = [[call("again")], "end"]
        return scripts.assistant_message(lines[turn], turn)

    from continuations.models.scripted import ScriptedModel  # noqa: PLC0415 - only here

    agent = Agent("boss", tools=[again], model=ScriptedModel(rule))
    with pytest.raises(ModelError) as raised:
        run(agent, "go")
    down[0] = False
    kept: Any = raised.value.continuation
    assert isinstance(resume(kept.to_bytes(), agent), Finished)

    assert ["again "] == effect_log.names()


@pytest.mark.parametrize(
    "error", [SystemExit, KeyboardInterrupt, asyncio.CancelledError]
)
def test_a_model_that_raises_anything_is_a_model_error(
    error: type[BaseException],
) -> None:
    """Neither the run nor the process is lost."""
    raising = {"go": [error()]}
    runner = agent_builders.make_runner(raising)

    for _ in range(2):
        with pytest.raises(ModelError):
            runner.start("go", run_id="r")
    assert "suspended" == runner.look("r").status


def test_unknown_fields_go_back_to_the_provider_unchanged() -> None:
    """Over HTTP and over a suspension, byte by byte."""
    pay = text_tool("pay", "paid", approval=True)
    extras = {
        "reasoning_content": "hm \u202e \U0001f600",
        "x_provider": {"signature": "abc==", "n": [1, 2.5, None, 10**20]},
    }
    calls = [{"name": "pay", "arguments": "{ }", "id": "call_x"}]
    asks: dict[str, Any] = {"content": "I pay.", "tool_calls": calls, **extras}
    replies: list[dict[str, Any]] = [asks, {"content": "end"}]
    with ModelServer({"": replies}) as server:

        def runner(store: Any) -> Runner:
            model = OpenAIChat("gpt-5-mini", base_url=server.url, api_key=server.key)
            agent = Agent("boss", tools=[pay], model=model)
            return Runner(agent, store=store)

        store = MemoryStore()
        outcome = expect(runner(store).start("go", run_id="r"), Suspended)
        runner(store).decide(outcome.waits[0].id, Approve())
        assert isinstance(runner(store).resume("r"), Finished)
        sent = server.requests[1]["messages"]

    assert extras == {key: sent[1][key] for key in extras}
    assert "{ }" == sent[1]["tool_calls"][0]["function"]["arguments"]
    assert "call_x" == sent[2]["tool_call_id"]
