"""The tools and the settings that each request has for its model."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    AsyncRunner,
    Deny,
    Finished,
    Runner,
    Suspended,
    ToolContext,
    resume,
    run,
    tool,
)
from continuations.errors import InvalidInput
from continuations.ledger import layout
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import OfferInfo, Tool
from continuations.wire.envelope import decode_object
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine.agent_builders import root_tool_results, text_tool
from tests.engine.priced_agents import SCRIPT, RecordingModel, make_boss
from tests.outcomes import expect, single_wait
from tests.run_environment import RunEnvironment, run_python


def _is_admin(context: Any) -> bool:
    return bool(context == "admin")


async def _is_admin_later(context: Any) -> bool:
    return _is_admin(context)


def _make_agent(*tools: Any, replies: Any = (), **options: Any) -> Agent:
    model = ScriptedModel([*replies, "Done."])
    return Agent("clerk", tools=list(tools), model=model, **options)


def _offered(agent: Agent) -> list[list[str]]:
    """Return the names of the tools in each request."""
    assert isinstance(agent.model, ScriptedModel)
    return [[each.name for each in request.tools] for request in agent.model.requests]


def _make_erase(is_enabled: Any) -> Tool[..., str]:
    return text_tool("erase", "erased", is_enabled=is_enabled)


look = text_tool("look", "seen")


@pytest.mark.parametrize("is_enabled", [_is_admin, _is_admin_later])
def test_tool_is_offered_only_where_it_is_enabled(is_enabled: Any) -> None:
    agent = _make_agent(look, _make_erase(is_enabled))

    run(agent, "go", context="admin")
    run(agent, "go", context="guest")

    assert [["look", "erase"], ["look"]] == _offered(agent)


def test_call_of_a_tool_that_is_not_enabled_runs_nothing() -> None:
    """The text is that of an unknown tool, and names the offered tools only."""
    agent = _make_agent(
        look, _make_erase(is_enabled=False), replies=[ToolCall("erase")]
    )

    outcome = expect(run(agent, "go"), Finished)

    expected = "there is no tool 'erase'. The tools are: look."
    assert [f"ERROR: the call was not executed: {expected}"] == root_tool_results(
        outcome
    )


def test_approved_call_runs_after_its_tool_was_disabled() -> None:
    """The person decided about this call; the option is about new calls."""
    enabled = [True]

    @tool(approval=True, is_enabled=lambda _context: enabled[0])
    def pay() -> str:
        """Pay."""
        return "paid"

    runner = Runner(_make_agent(pay, replies=[ToolCall("pay")]), store=MemoryStore())
    runner.decide(single_wait(runner.start("go", run_id="r1")).id, Approve())
    enabled[0] = False

    outcome = runner.resume("r1")

    assert ["paid"] == root_tool_results(outcome)


def _raise(context: object) -> bool:
    raise LookupError(f"a secret {context}")


def _return_text(context: object) -> Any:
    return f"yes {context}"


@pytest.mark.parametrize("is_enabled", [_raise, _return_text])
def test_tool_whose_condition_fails_is_not_offered(
    is_enabled: Any, caplog: pytest.LogCaptureFixture
) -> None:
    agent = _make_agent(look, _make_erase(is_enabled))

    with caplog.at_level(logging.WARNING):
        run(agent, "go")

    assert [["look"]] == _offered(agent)
    assert "tool erase is not offered" in caplog.text
    assert "secret" not in caplog.text


def test_every_kind_of_tool_has_the_option() -> None:
    schema_tool = Tool.from_schema(
        "forecast", {"type": "object"}, lambda _arguments: "sun", is_enabled=_is_admin
    )
    agent_tool = Agent("child").as_tool(is_enabled=_is_admin)
    agent = _make_agent(look, schema_tool, agent_tool)

    run(agent, "go")
    run(agent, "go", context="admin")

    assert [["look"], ["look", "forecast", "child"]] == _offered(agent)
    with pytest.raises(InvalidInput, match="is_enabled must be True, False or a func"):
        _make_erase(5)


FORCED = {"type": "function", "function": {"name": "look"}}


@pytest.mark.parametrize(
    ("options", "choice", "second"),
    [
        ({}, "required", None),
        ({}, FORCED, None),
        ({}, "auto", "auto"),
        ({}, "none", "none"),
        ({"reset_tool_choice": False}, "required", "required"),
    ],
)
def test_forced_tool_is_forced_in_the_first_turn_only(
    options: dict[str, Any], choice: Any, second: Any
) -> None:
    settings = {"tool_choice": choice, "temperature": 0}
    agent = _make_agent(look, replies=[ToolCall("look")], settings=settings, **options)

    run(agent, "go")

    assert isinstance(agent.model, ScriptedModel)
    first_request, second_request = agent.model.requests
    assert settings == first_request.settings
    assert second == second_request.settings.get("tool_choice")
    assert 0 == second_request.settings["temperature"]


def test_tool_choice_is_left_out_without_tools() -> None:
    """Providers refuse it."""
    agent = _make_agent(_make_erase(is_enabled=False), settings={"tool_choice": "auto"})

    run(agent, "go")

    assert isinstance(agent.model, ScriptedModel)
    assert {} == agent.model.requests[0].settings


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("required", "required"),
        ("none", "none"),
        ("look", {"type": "function", "function": {"name": "look"}}),
    ],
)
def test_chosen_tool_is_sent_in_the_first_turn(choice: str, sent: Any) -> None:
    """`Agent(tool_choice=...)` has one form for every provider of chat completions."""
    look = text_tool("look", "seen")
    model = ScriptedModel([ToolCall("look", {}), "done"])
    agent = Agent("a", tools=[look], model=model, tool_choice=choice)

    assert isinstance(run(agent, "go"), Finished)
    first, second = model.requests
    assert sent == first.settings["tool_choice"]
    assert (choice == "none") == ("tool_choice" in second.settings)


# The progress of the agent -----------------------------------------------------------


check = text_tool("check", "ok")


@tool(is_enabled=lambda _context, offer: "check" in offer.results)
def publish() -> str:
    """Publish."""
    return "published"


def _script(*replies: Any) -> list[Any]:
    return [*replies, "Done."]


def test_a_tool_is_offered_once_another_one_returned() -> None:
    """A call that comes too early runs nothing, also beside the call it depends on."""
    both = [ToolCall("check"), ToolCall("publish")]
    agent = Agent(
        "clerk",
        tools=[check, publish],
        model=ScriptedModel(_script(ToolCall("publish"), both, ToolCall("publish"))),
    )

    outcome = run(agent, "go")

    refused = "ERROR: the call was not executed: there is no tool 'publish'. "
    refused += "The tools are: check."
    assert [["check"], ["check"], ["check", "publish"], ["check", "publish"]] == (
        _offered(agent)
    )
    assert [refused, "ok", refused, "published"] == root_tool_results(outcome)


def _raise_once(failures: list[Exception]) -> Tool[..., str]:
    @tool(name="check", approval=True)
    def checked(word: str = "ok") -> str:
        """Check."""
        if failures:
            raise failures.pop()
        return word

    return checked


def test_only_a_call_that_returned_counts() -> None:
    """Denied, answered and failed calls do not; an edited one does."""
    offers: list[dict[str, str]] = []

    def record(_context: object, offer: OfferInfo) -> bool:
        offers.append(dict(offer.results))
        return False

    call = ToolCall("check")
    agent = Agent(
        "clerk",
        tools=[_raise_once([OSError("down")]), _make_erase(record)],
        model=ScriptedModel(_script(call, call, call, call)),
    )
    outcome = run(agent, "go")
    for verdict in (
        Deny(),
        Answer("ok"),
        Approve(arguments={"word": "edited"}),
        Approve(arguments={"word": "edited"}),
    ):
        assert isinstance(outcome, Suspended)
        answers = {outcome.waits[0].id: verdict}
        outcome = resume(outcome.continuation, agent, answers=answers)

    assert isinstance(outcome, Finished)
    assert [{}, {}, {}, {}] == offers[:4]
    [text] = offers[4].values()
    assert text.endswith("instead of your arguments.\nedited")


def test_results_begin_anew_with_the_next_message_of_the_user() -> None:
    model = ScriptedModel([ToolCall("check"), "Checked.", "Again."])
    agent = Agent("clerk", tools=[check, publish], model=model)
    thread = Runner(agent, store="memory:").thread("clerk", key="k")

    thread.send("Check")
    thread.send("Publish")

    assert [["check"], ["check", "publish"], ["check"]] == _offered(agent)


def test_a_call_is_judged_by_the_turn_in_which_it_was_offered() -> None:
    """A tool of the first turn can be called in the first turn, and not later."""
    seen: list[tuple[int, tuple[str, ...], str]] = []

    async def is_first(_context: object, offer: OfferInfo) -> bool:
        seen.append((offer.turns, offer.path, offer.agent))
        return offer.turns == 0

    erase = _make_erase(is_first)
    child = _make_agent(look, erase, replies=[ToolCall("erase"), ToolCall("erase")])
    boss = Agent(
        "boss",
        tools=[child],
        model=ScriptedModel([ToolCall("clerk", {"input": "x"}), "End."]),
    )

    run(boss, "go")

    assert [["look", "erase"], ["look"], ["look"]] == _offered(child)
    path = ("boss", "clerk")
    # Asked before each turn, and once at each call.
    assert [0, 0, 1, 1, 2] == [turns for turns, _, _ in seen]
    assert {(path, "clerk")} == {(each, name) for _, each, name in seen}


@dataclass
class Review:
    """The state of an agent."""

    approved: bool = False


def test_a_function_reads_the_state_in_another_process(tmp_path: Path) -> None:
    """The state of the turns before, of its declared type."""

    @tool(writes_state=True, approval=True)
    def approve(ctx: ToolContext) -> str:
        """Approve."""
        ctx.update(approved=True)
        return "yes"

    def is_approved(_context: object, offer: OfferInfo) -> bool:
        assert isinstance(offer.state, Review)
        return offer.state.approved

    def make() -> Agent:
        model = ScriptedModel(
            _script([ToolCall("approve"), ToolCall("erase")], ToolCall("erase"))
        )
        tools = [approve, _make_erase(is_approved)]
        return Agent("clerk", tools=tools, model=model, state=Review)

    store = f"file:{tmp_path}"
    first = make()
    wait = single_wait(Runner(first, store=store).start("go", run_id="r1"))
    second = make()
    runner = Runner(second, store=store)
    runner.decide(wait.id, Approve())

    outcome = runner.resume("r1")

    assert [["approve"]] == _offered(first)
    assert [["approve", "erase"], ["approve", "erase"]] == _offered(second)
    results = root_tool_results(outcome)
    assert results[0] == "yes"
    assert "there is no tool 'erase'" in results[1]
    assert results[2] == "erased"


def test_a_function_with_a_default_gets_the_context_alone() -> None:
    """As before; only a second parameter without a default asks for the progress."""

    def is_alone(_context: object, more: object = None) -> bool:
        return more is None

    def takes_three(_one: object, _two: object, _three: object) -> bool:
        return True

    agent = _make_agent(look, _make_erase(is_alone))

    run(agent, "go")

    assert [["look", "erase"]] == _offered(agent)
    with pytest.raises(InvalidInput, match="is_enabled must be True, False or a func"):
        _make_erase(takes_three)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "is_enabled returned None. Return True or False"),
        (1, "is_enabled returned 1. Return True or False"),
        ("a secret", "is_enabled returned a value of type str. Return True or False"),
    ],
)
def test_is_enabled_of_another_type_is_logged_with_the_tool_and_the_value(
    caplog: pytest.LogCaptureFixture, value: Any, text: str
) -> None:
    """Once for each turn, and once for a call that the model invents."""
    replies = [[ToolCall("erase", {})]]

    def is_enabled(_context: object) -> object:
        return value

    agent = _make_agent(_make_erase(is_enabled), replies=replies)

    with caplog.at_level(logging.WARNING, logger="continuations"):
        run(agent, "go")

    line = f"agent clerk: tool erase is not offered: {text}"
    assert [line] * 3 == [each.getMessage() for each in caplog.records]


# Settings of a run ------------------------------------------------------------


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
