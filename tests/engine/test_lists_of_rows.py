"""`waiting` lists waits that have no object, each once."""

from __future__ import annotations

from continuations import Agent, Runner, external, sleep
from continuations.models.scripted import ScriptedModel, ToolCall
from tests.engine.agent_builders import text_tool, wait_tool

scan = wait_tool("scan", lambda: external("scan", str, within=3600))
nap = wait_tool("nap", lambda: sleep(3600))
pay = text_tool("pay", "paid", approval=True)


def _runner(name: str) -> Runner:
    model = ScriptedModel([ToolCall(name, {}), "Done."])
    agent = Agent("clerk", tools=[scan, nap, pay], model=model)
    return Runner(agent, store=f"memory:lists of rows, {name}")


def test_wait_with_object_and_deadline_is_listed_once() -> None:
    """A list of timers reads the runs, and their other waits have been listed."""
    runner = _runner("scan")
    runner.start("go", run_id="r1")

    kinds = ["external", "timer"]
    assert ["external"] == [wait.kind for wait in runner.waiting(kinds=kinds)]
    assert ["external"] == [wait.kind for wait in runner.open_waits(kinds=kinds)]


def test_pause_of_a_run_without_deadlines_is_listed() -> None:
    runner = _runner("pay")
    runner.start("go", run_id="r1")
    runner.pause("r1", by="kim")
    runner.resume("r1")

    assert ["operator"] == [wait.kind for wait in runner.waiting(kinds=["operator"])]
    runner.unpause("r1", by="kim")
    runner.resume("r1")
    assert [] == list(runner.waiting(kinds=["operator"]))


def test_pause_is_listed_beside_a_timer() -> None:
    runner = _runner("nap")
    runner.start("go", run_id="r1")
    runner.pause("r1", by="kim")
    runner.resume("r1")

    for kinds in (["operator"], ["operator", "timer"], ["timer"]):
        listed = [wait.kind for wait in runner.waiting(kinds=kinds)]
        assert sorted(kinds) == sorted(listed)
