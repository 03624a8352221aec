"""Model settings of a run: stored at its start, and sent in each turn of each agent."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from continuations import (
    Agent,
    Approve,
    AsyncRunner,
    Finished,
    Runner,
    Suspended,
    resume,
    run,
)
from continuations.errors import InvalidInput
from continuations.ledger import layout
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.wire.envelope import decode_object
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine.agent_builders import text_tool
from tests.engine.priced_agents import SCRIPT, RecordingModel, make_boss
from tests.outcomes import expect
from tests.run_environment import RunEnvironment, run_python

RESUME = """
import sys
from continuations import Runner
from tests.engine.priced_agents import SCRIPT, RecordingModel, make_boss
boss = make_boss(RecordingModel(SCRIPT), settings={"seed": 7})
print(type(Runner(boss, store=sys.argv[1]).resume("r1")).__name__)
"""


def settings_of(model: ScriptedModel) -> list[dict[str, Any]]:
    """Return the settings of the requests, in order."""
    return [dict(request.settings) for request in model.requests]


def logged_settings(environment: RunEnvironment) -> list[dict[str, Any]]:
    """Return the settings of all requests of all processes."""
    lines = (environment.folder / "turns").read_text().splitlines()
    known = {"task", "turn", "model"}
    return [
        {name: value for name, value in json.loads(line).items() if name not in known}
        for line in lines
    ]


def test_settings_of_a_run_win_over_those_of_its_agents() -> None:
    model = ScriptedModel(["end"])
    agent = Agent("boss", model=model, settings={"temperature": 1, "seed": 7})

    run(agent, "go", settings={"temperature": 0, "reasoning_effort": "low"})

    expected = {"temperature": 0, "seed": 7, "reasoning_effort": "low"}
    assert [expected] == settings_of(model)
    assert {"temperature": 1, "seed": 7} == agent.settings


def test_settings_hold_for_nested_agents_in_a_fresh_process(
    environment: RunEnvironment,
) -> None:
    """The resume names no settings: they are stored with the run."""
    boss = make_boss(RecordingModel(SCRIPT), settings={"seed": 7})
    outcome = Runner(boss, store=environment.store).start(
        "go", run_id="r1", settings={"temperature": 0.5}
    )
    assert isinstance(outcome, Suspended)
    Runner([], store=environment.store).decide(outcome.waits[0].id, Approve(by="kim"))
    first = [{"temperature": 0.5}, {"temperature": 0.5}]
    clerk = {"temperature": 0.5, "seed": 7}
    assert [*first, clerk] == logged_settings(environment)

    assert "Finished" == run_python(RESUME, environment.store).strip()
    assert [*first, clerk, clerk, *first] == logged_settings(environment)


def test_settings_survive_a_crash_at_every_operation() -> None:
    for point in every_crash("before", "after", more_than=5):
        store, clock = MemoryStore(), ManualClock()
        model = ScriptedModel([ToolCall("look"), "end"])
        look = text_tool("look", "seen", read_only=True)
        agent = Agent("boss", tools=[look], model=model)
        with point.process(store) as dying:
            Runner(agent, store=dying, clock=clock).start(
                "go", run_id="r1", settings={"seed": 7}
            )
        clock.seconds += 120
        runner = Runner(agent, store=store, clock=clock)
        outcome = runner.start("go", run_id="r1", settings={"seed": 7})
        assert isinstance(outcome, Finished), point
        assert [{"seed": 7}] * len(model.requests) == settings_of(model), point


def test_a_repeated_start_keeps_the_first_settings() -> None:
    model = ScriptedModel(["end"])
    runner = Runner(Agent("boss", model=model), store="memory:")
    runner.start("go", run_id="r1", settings={"seed": 1}, work=False)

    runner.start("go", run_id="r1", settings={"seed": 2})

    assert [{"seed": 1}] == settings_of(model)


def test_settings_are_stored_once_and_only_if_there_are_some() -> None:
    """Later versions omit them, and so does a run without settings."""
    store = MemoryStore()
    model = ScriptedModel([ToolCall("none"), "end"])
    runner = Runner(Agent("boss", model=model), store=store)
    runner.start("go", run_id="with", settings={"seed": 7})
    runner.start("go", run_id="without", settings={})

    def has_settings(run_id: str) -> list[bool]:
        versions = range(1, runner.look(run_id).version + 1)
        keys = [layout.version_key(run_id, number) for number in versions]
        bodies = [asyncio.run(store.read(key)) for key in keys]
        rows = [cast("Any", decode_object(each, "it").body)["run"] for each in bodies]
        return ["settings" in row for row in rows]

    first, *later = has_settings("with")
    assert first
    assert True not in later
    assert True not in has_settings("without")
    assert '{"seed":7}' == runner.look("with").run_state.run.settings_json


def test_settings_are_part_of_a_continuation() -> None:
    model = ScriptedModel(SCRIPT)
    boss = make_boss(model)
    outcome = expect(run(boss, "go", settings={"seed": 7}), Suspended)

    data = outcome.continuation.to_bytes()
    ended = resume(data, boss, answers={outcome.waits[0].id: Approve()})

    assert isinstance(ended, Finished)
    assert [{"seed": 7}] * 6 == settings_of(model)


def test_settings_of_a_thread_hold_for_every_message() -> None:
    model = ScriptedModel(lambda _request: "Yes.")
    runner = Runner(Agent("support", model=model), store="memory:")

    runner.thread(key="jane", settings={"seed": 7}).send("Hello")
    # Another process of the conversation need not know them.
    runner.thread(key="jane").send("And now?")

    assert [{"seed": 7}] * 2 == settings_of(model)


async def test_async_runner_takes_settings() -> None:
    model = ScriptedModel(["end"])

    runner = AsyncRunner(Agent("boss", model=model), store="memory:")
    await runner.start("go", settings={"seed": 7})
    assert [{"seed": 7}] == settings_of(model)


def test_a_forced_tool_of_a_run_is_forced_once() -> None:
    """`reset_tool_choice` holds for the settings of a run, too."""
    look = text_tool("look", "seen", read_only=True)
    model = ScriptedModel([ToolCall("look"), "end"])
    agent = Agent("boss", tools=[look], model=model)

    run(agent, "go", settings={"tool_choice": "required", "seed": 7})

    assert [{"tool_choice": "required", "seed": 7}, {"seed": 7}] == settings_of(model)


SECRET = "sk-proj-0123456789"


@pytest.mark.parametrize(
    "settings",
    [
        7,
        ["temperature"],
        {1: 2},
        {"temperature": float("nan")},
        {"when": object()},
        {"model": SECRET},
        {"messages": []},
        {"stream": True},
        {"api_key": SECRET},
        {"extra_headers": {"x": SECRET}},
        {"metadata": SECRET * 2000},
    ],
)
def test_invalid_settings_start_nothing(settings: Any, store: MemoryStore) -> None:
    """Nothing is written, and the error shows no value."""
    runner = Runner(Agent("boss", model=ScriptedModel(["end"])), store=store)

    with pytest.raises(InvalidInput, match="settings") as caught:
        runner.start("go", run_id="r1", settings=settings)

    assert SECRET not in str(caught.value)
    assert [] == asyncio.run(store.keys(""))
