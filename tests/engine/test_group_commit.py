"""Parallel frames share commits."""

from __future__ import annotations

from continuations import Agent, Finished, Runner, Suspended, tool
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ScriptedReply
from continuations_storage import MemoryStore
from continuations_storage.faults import Fault, FaultyStore, Operation, delayed
from tests import effect_log, scripts
from tests.engine.agent_builders import root_tool_results
from tests.outcomes import expect
from tests.run_environment import RunEnvironment
from tests.scripts import call

CHILDREN = 30
SCRIPT: scripts.Script = {
    "go": [[call("child", input=f"c{n}") for n in range(CHILDREN)], "end"],
    **{
        f"c{n}": [[call("work", n=n)], [call("work", n=n)], f"c{n} done"]
        for n in range(CHILDREN)
    },
}


def delay_creates(operation: Operation) -> Fault | None:
    """Let every write take as long as it does on an object store."""
    return delayed(0.01) if operation.verb == "create" else None


def test_thirty_children_need_few_versions(environment: RunEnvironment) -> None:
    """Far fewer versions than children times turns, and each effect once."""

    @tool
    async def work(n: int) -> str:
        """Work."""
        effect_log.append_effect("work", str(n))
        return f"worked {n}"

    model = scripts.scripted_model(SCRIPT)
    child = Agent("child", tools=[work], model=model)
    store = FaultyStore(MemoryStore(), delay_creates)
    runner = Runner(Agent("boss", tools=[child], model=model), store=store)

    # When thirty children take three turns each
    outcome = runner.start("go", run_id="r")

    # Then the run has a few dozen versions, not hundreds
    assert isinstance(outcome, Finished)
    assert [f"c{n} done" for n in range(CHILDREN)] == root_tool_results(outcome)
    assert 60 == len(environment.effect_names())
    assert 92 == len(environment.turns()) == len(set(environment.turns()))
    assert outcome.continuation.version <= 30
    versions = [
        o for o in store.operations if o.verb == "create" and o.key.startswith("runs/")
    ]
    assert outcome.continuation.version == len(versions)


def test_a_hundred_waits_come_with_a_few_versions() -> None:
    """Many parallel calls are one suspension."""

    @tool(approval=True)
    def pay(n: int) -> str:
        """Pay."""
        effect_log.append_effect("pay", str(n))
        return f"paid {n}"

    calls = [call("pay", n=n) for n in range(100)]
    model = scripts.scripted_model({"go": [calls, "end"]})
    runner = Runner(Agent("boss", tools=[pay], model=model), store=MemoryStore())

    outcome = expect(runner.start("go", run_id="r"), Suspended)

    assert 100 == len(outcome.waits) == len(list(runner.waiting()))
    assert outcome.continuation.version <= 3
    assert list(range(100)) == [wait.arguments["n"] for wait in outcome.waits]
    assert [] == effect_log.effects()


def test_a_finished_call_is_durable_before_the_next_turn(store: MemoryStore) -> None:
    """The next model call finds the intent and the result in the store."""
    looking = Runner([], store=store)
    seen: list[bool] = []

    @tool
    def work() -> str:
        """Look for the intent to run this very call."""
        calls = looking.look("r").root.calls
        seen.append(["started"] == [call.state for call in calls])
        return "worked"

    async def rule(request: ModelRequest) -> ScriptedReply:
        messages = [message.data for message in request.messages]
        if scripts.turn_count(messages) == 0:
            return scripts.assistant_message([call("work")], 0)
        kept = await looking.async_runner.look("r")
        seen.append(messages == kept.root.messages)
        return "end"

    agent = Agent("boss", tools=[work], model=ScriptedModel(rule))
    assert isinstance(Runner(agent, store=store).start("go", run_id="r"), Finished)

    assert [True, True] == seen
    assert [] == effect_log.effects()
