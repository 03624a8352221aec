"""The faults of the prototype (SL-L1 to SL-L16) do not happen here.

One short test for each; the longer stories stand where their subject is.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from continuations import (
    Agent,
    AlreadyDecided,
    Approve,
    Deny,
    Failed,
    Finished,
    Runner,
    Suspended,
    WaitNotFound,
    resume,
    run,
    tool,
)
from continuations.core.messages import Message
from continuations.models.contract import Reply
from continuations_storage import MemoryStore
from tests.engine import ledgers, offices, scripts
from tests.engine.offices import results

if TYPE_CHECKING:
    from tests.engine.scripts import Script
    from tests.engine.world import World


@tool(approval=True)
def pay(what: str, note: str | None = None) -> dict[str, Any]:
    """Pay."""
    ledgers.add(ledgers.EFFECTS, tool="pay", what=what)
    return {"paid": what, "note": note}


@tool
def fail() -> str:
    """Raise."""
    raise RuntimeError("boo")


def runner(script: Script, *tools: Any) -> Runner:
    """Return a runner of an agent that pays."""
    return Runner(offices.boss(script, pay, fail, *tools), store=MemoryStore())


def started(runner: Runner) -> tuple[str, ...]:
    """Start a run and return the ids of its waits."""
    outcome = runner.start("go", run_id="r")
    assert isinstance(outcome, Suspended)
    return tuple(wait.id for wait in outcome.waits)


ONE: Script = {"go": [[["pay", {"what": "a"}]], "end"]}
TWO: Script = {"go": [[["pay", {"what": "a"}], ["pay", {"what": "b"}]], "end"]}
NESTED: Script = {
    "go": [[["child", {"input": "A"}]], "end"],
    "A": [*TWO["go"][:1], "A done"],
}


def nested() -> Runner:
    """Return a runner of an agent whose child pays twice in one turn."""
    model = scripts.model(NESTED)
    child = Agent("child", tools=[pay], model=model)
    return Runner(Agent("boss", tools=[child], model=model), store=MemoryStore())


def test_l1_a_top_level_no_does_not_run_the_call(world: World) -> None:
    """SL-L1, X-01."""
    here = runner(ONE)
    [wait] = started(here)
    here.decide(wait, Deny())

    assert isinstance(here.resume("r"), Finished)
    assert [] == world.effects()


@pytest.mark.parametrize("yes", [0, 1])
def test_l2_each_call_of_one_child_has_its_own_decision(world: World, yes: int) -> None:
    """SL-L2, X-01: both ways."""
    here = nested()
    waits = started(here)
    here.decide(waits[yes], Approve())
    here.decide(waits[1 - yes], Deny())
    here.resume("r")

    assert [f"pay {'ab'[yes]}"] == world.done()


def test_l3_a_no_is_told_to_the_model_which_goes_on(world: World) -> None:
    """SL-L3, X-02."""
    here = runner(ONE)
    here.decide(started(here)[0], Deny(reason="Too dear."))
    outcome = here.resume("r")

    assert isinstance(outcome, Finished)
    assert ("end", True) == (outcome.output, "Too dear." in results(outcome)[0])
    assert [] == world.effects()


def test_l4_a_second_resume_runs_nothing_again(world: World) -> None:
    """SL-L4, X-05."""
    here = runner(ONE)
    here.decide(started(here)[0], Approve())
    for _ in range(3):
        assert isinstance(here.resume("r"), Finished)

    assert ["pay a"] == world.done()


def test_l5_a_pause_during_a_resume_keeps_every_pending_call(world: World) -> None:
    """SL-L5, X-06: the second pause loses neither calls nor approvals."""
    here = runner(TWO)
    first, second = started(here)
    here.decide(first, Approve())
    outcome = here.resume("r")

    assert isinstance(outcome, Suspended)
    assert [second] == [wait.id for wait in outcome.waits]
    assert {"returned", "waiting"} == {c.state for c in outcome.continuation.root.calls}
    here.decide(second, Approve())
    assert isinstance(here.resume("r"), Finished)
    assert ["pay a", "pay b"] == world.done()


def test_l6_the_top_tells_what_the_bottom_waits_for() -> None:
    """SL-L6, X-07: kind and path survive nesting."""
    outcome = nested().start("go")

    assert isinstance(outcome, Suspended)
    expected = {("approval", ("boss", "child", "pay"))}
    assert expected == {(wait.kind, wait.path) for wait in outcome.waits}


def test_l7_a_reply_that_was_cut_off_is_not_completed() -> None:
    """SL-L7."""
    cut: Any = Reply(
        message=Message.of({"role": "assistant", "content": None}), finish="length"
    )
    outcome = runner({"go": [cut]}).start("go")

    assert isinstance(outcome, Failed)
    assert "length" == outcome.error.code


def test_l8_a_tool_that_raises_loses_nothing() -> None:
    """SL-L8, X-08."""
    outcome = runner({"go": [[["fail", {}]], "end"]}).start("go")

    assert isinstance(outcome, Finished)
    assert ["ERROR: the tool failed: RuntimeError: boo"] == results(outcome)


def test_l9_any_parent_may_have_a_child_that_pauses() -> None:
    """SL-L9: there is one kind of agent."""
    here = nested()
    for wait in started(here):
        here.decide(wait, Approve())

    assert ["A done"] == results(here.resume("r"))


def test_l10_edited_arguments_run_and_are_told(world: World) -> None:
    """SL-L10, X-09."""
    here = runner(ONE)
    here.decide(started(here)[0], Approve(arguments={"what": "c"}))
    [said] = results(here.resume("r"))

    assert ["pay c"] == world.done()
    assert "changed its arguments" in said


def test_l11_schemas_and_results_are_what_they_say(world: World) -> None:
    """SL-L11: defaults are not required, `X | None` is typed, a dict comes as JSON."""
    schema = pay.parameters
    assert ["what"] == schema["required"]
    assert {"string", "null"} == {
        each["type"] for each in schema["properties"]["note"]["anyOf"]
    }

    here = runner(ONE)
    here.decide(started(here)[0], Approve())
    [said] = results(here.resume("r"))
    assert {"paid": "a", "note": None} == json.loads(said)
    assert ["pay a"] == world.done()


def test_l12_an_unknown_id_is_refused_and_decides_nothing(world: World) -> None:
    """SL-L12, X-04: and the real call still waits."""
    here = runner(ONE)
    [wait] = started(here)
    with pytest.raises(WaitNotFound):
        here.decide(f"approval-{'0' * 26}@r", Approve())

    here.decide(wait, Approve())
    with pytest.raises(AlreadyDecided):
        here.decide(wait, Deny())
    assert isinstance(here.resume("r"), Finished)
    assert ["pay a"] == world.done()


def test_l13_counters_are_the_run_s_own() -> None:
    """SL-L13, X-19: turns are counted in the frame, over suspensions and processes."""
    script: Script = {"go": [[["pay", {"what": "a"}]]] * 5}
    store = MemoryStore()

    def fresh() -> Runner:
        return Runner(offices.boss(script, pay, max_turns=2), store=store)

    for run_id in ("r", "s"):
        outcome = fresh().start("go", run_id=run_id)
        for _ in range(2):
            assert isinstance(outcome, Suspended)
            fresh().decide(outcome.waits[0].id, Approve())
            outcome = fresh().resume(run_id)
        assert isinstance(outcome, Failed)
        assert "max_turns" == outcome.error.code


def test_l14_who_decided_is_on_record() -> None:
    """SL-L14: the one gap of that list that has no file of its own here."""
    here = runner(ONE)
    [wait] = started(here)
    decision = here.decide(wait, Approve(by="kim@example.com", reason="Fine."))

    assert ("approve", "kim@example.com", "Fine.") == (
        decision.kind,
        decision.by,
        decision.reason,
    )
    with pytest.raises(AlreadyDecided) as raised:
        here.decide(wait, Deny(by="jo"))
    assert decision == raised.value.decision


def test_l15_arguments_are_validated_before_anybody_is_asked(world: World) -> None:
    """SL-L15: nobody is bothered with a call that could not run."""
    outcome = runner({"go": [[["pay", {"what": 5}], ["pay", {}]], "end"]}).start("go")

    assert isinstance(outcome, Finished)
    assert all(text.startswith("ERROR") for text in results(outcome))
    assert [] == world.effects()


def test_l16_what_was_given_to_resume_is_not_changed(world: World) -> None:
    """SL-L16."""
    agent = offices.boss(ONE, pay)
    outcome = run(agent, "go")
    assert isinstance(outcome, Suspended)
    before = outcome.continuation.to_bytes()
    resume(outcome.continuation, agent, answers={outcome.waits[0].id: Approve()})

    assert before == outcome.continuation.to_bytes()
    assert ["pay a"] == world.done()
