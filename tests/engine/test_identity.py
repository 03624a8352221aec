"""Frames, calls and waits have ids; nothing is matched by name or position."""

from __future__ import annotations

from typing import Any

import pytest

from continuations import Agent, Approve, Runner, Suspended, resume, run
from continuations.errors import DecisionRefused, WaitNotFound
from tests import effect_log, scripts
from tests.engine import agent_builders
from tests.engine.agent_builders import text_tool
from tests.outcomes import expect
from tests.run_environment import RunEnvironment
from tests.scripts import Script, call, call_with_id


def pay_lines(*whats: str, call_id: str = "") -> list[Any]:
    """Return lines of a frame that pays, one after the other, and ends."""
    lines: list[Any] = [[call_with_id("pay", call_id, what=what)] for what in whats]
    return [*lines, f"done {whats[-1]}"]


# Two frames of one look -------------------------------------------------------

AMBIGUOUS_SCRIPTS: dict[str, Script] = {
    # Two agents of one name; the same agent twice; ids that a provider repeats.
    "equal names": {
        "go": [[call("left", input="A"), call("right", input="B")], "all"],
        "A": pay_lines("a"),
        "B": pay_lines("b"),
    },
    "one agent twice": {
        "go": [[call("left", input="A"), call("left", input="B")], "all"],
        "A": pay_lines("a"),
        "B": pay_lines("b"),
    },
    "equal call ids": {
        "go": [
            [
                call_with_id("left", "x", input="A"),
                call_with_id("right", "x", input="B"),
            ],
            "all",
        ],
        "A": pay_lines("a", call_id="x"),
        "B": pay_lines("b", call_id="x"),
    },
    "empty call ids": {
        "go": [
            [call_with_id("left", "", input="A"), call_with_id("right", "", input="B")],
            "all",
        ],
        "A": pay_lines("a", call_id=""),
        "B": pay_lines("b", call_id=""),
    },
}


@pytest.mark.parametrize("case", AMBIGUOUS_SCRIPTS)
def test_a_decision_reaches_the_call_that_it_names(
    environment: RunEnvironment, case: str
) -> None:
    """One of two equal calls is approved, the other denied."""
    script = AMBIGUOUS_SCRIPTS[case]

    # Given two waits that are equal but for their ids
    waits = {w["arguments"]["what"]: w for w in environment.start(script)["waits"]}
    assert waits["a"]["id"] != waits["b"]["id"]

    # When the second is approved and the first denied, and another process resumes
    environment.approve(waits["b"])
    environment.deny(waits["a"])
    ended = environment.resume(script)

    # Then the approved call ran, and each parent call got its own child's result
    assert ["pay b"] == environment.effect_names()
    assert ["done a", "done b"] == agent_builders.tool_results(ended["messages"])
    assert sorted({*environment.turns()}) == sorted(environment.turns())


def test_equal_provider_call_ids_are_told_apart(environment: RunEnvironment) -> None:
    """The same id in every call of every turn still gives a valid transcript."""
    pay = [call_with_id("pay", "call_1", what=str(n)) for n in range(4)]
    script: Script = {"go": [[pay[0], pay[1]], [pay[2], pay[3]], "all"]}
    [first, second] = environment.start(script)["waits"]
    assert ["0", "1"] == [wait["arguments"]["what"] for wait in (first, second)]

    # When in each turn the second call is approved and the first denied
    environment.deny(first)
    environment.approve(second)
    [third, fourth] = environment.resume(script)["waits"]
    environment.deny(third)
    environment.approve(fourth)
    ended = environment.resume(script)

    # Then the approved calls ran, and each result has its own id
    assert ["pay 1", "pay 3"] == environment.effect_names()
    kinds = [text.split()[0] for text in agent_builders.tool_results(ended["messages"])]
    assert ["DENIED:", "paid", "DENIED:", "paid"] == kinds
    ids = [m["tool_call_id"] for m in ended["messages"] if m["role"] == "tool"]
    assert 4 == len(set(ids))


# Waits in a row and side by side ----------------------------------------------


def test_child_can_suspend_three_times(environment: RunEnvironment) -> None:
    """The second and third suspension of a child work like the first."""
    script: Script = {
        "go": [[call("left", input="A")], "all"],
        "A": pay_lines("1", "2", "3"),
    }
    result = environment.start(script)
    ids: list[str] = []
    for done in (["pay 1"], ["pay 1", "pay 2"], ["pay 1", "pay 2", "pay 3"]):
        [wait] = result["waits"]
        ids.append(wait["id"])
        environment.approve(wait)
        result = environment.resume(script)

        assert done == environment.effect_names()

    assert ("all", 3) == (result["output"], len(set(ids)))
    assert len(set(environment.turns())) == len(environment.turns())


SIBLINGS: Script = {
    "go": [[call("left", input="A"), call("act", what="free"), call("right", input="B")], "all"],  # noqa: E501 - one turn
    "A": [[call("act", what="a"), call("pay", what="a")], "done a"],
    "B": [[call("act", what="b"), call("pay", what="b")], "done b"],
}  # fmt: skip


@pytest.mark.parametrize("first", ["a", "b"])
def test_two_children_are_decided_in_either_order(
    environment: RunEnvironment, first: str
) -> None:
    """A partial resume is durable progress."""
    # Given two children that wait, and siblings that ran at once
    waits = {w["arguments"]["what"]: w for w in environment.start(SIBLINGS)["waits"]}
    assert {"act a", "act b", "act free"} == set(environment.effect_names())
    second = "b" if first == "a" else "a"

    # When one is approved and the run resumed
    environment.approve(waits[first])
    result = environment.resume(SIBLINGS)

    # Then that child has finished, and the other still waits with the same wait
    assert [waits[second]["id"]] == [wait["id"] for wait in result["waits"]]
    assert f"{first.upper()} 1" in environment.turns()

    # When the other one is approved too
    environment.approve(waits[second])
    ended = environment.resume(SIBLINGS)

    # Then each effect happened once, and results stand in the order of the calls
    expected = ["act a", "act b", "act free", "pay a", "pay b"]
    assert expected == sorted(environment.effect_names())
    assert ["done a", "acted free", "done b"] == agent_builders.tool_results(
        ended["messages"]
    )
    assert len(set(environment.turns())) == len(environment.turns())


# Decisions that have no wait --------------------------------------------------


def test_a_decision_for_an_unknown_wait_is_refused(environment: RunEnvironment) -> None:
    """It is neither applied by position nor dropped silently."""
    script: Script = {"go": [[call("pay", what="x")], "all"]}
    [wait] = environment.start(script)["waits"]
    before = environment.objects()

    # When the wait id was never used, belongs to another run, or is not an id
    kind, _, run_id = wait["id"].partition("@")
    for wrong in (
        f"approval-{'0' * 26}@{run_id}",
        f"{kind}@r2",
        f"unknown-{kind.partition('-')[2]}@{run_id}",
        "",
        "0",
        "../../etc/passwd",
        f"{wait['id']}/..",
    ):
        result = (
            environment.approve(wrong)
            if wrong == f"{kind}@r2"
            else _try_to_approve(environment, wrong)
        )

        # Then the error is typed, and nothing is written
        assert "WaitNotFound" == result["raised"], wrong
    assert before == environment.objects()


def _try_to_approve(environment: RunEnvironment, wait_id: str) -> dict[str, Any]:
    try:
        Runner([], store=environment.store).decide(wait_id, Approve())
    except WaitNotFound as error:
        return {"raised": type(error).__name__}
    return {"raised": None}


def test_wait_of_a_run_in_another_store_is_not_found(
    environment: RunEnvironment,
) -> None:
    """A decision belongs to one run, not to every run of the same id."""
    script: Script = {"go": [[call("pay", what="x")], "all"]}
    here, there = (
        RunEnvironment(environment.folder / "here"),
        RunEnvironment(environment.folder / "there"),
    )
    for each in (here, there):
        each.folder.mkdir()
    [wait] = here.start(script)["waits"]
    there.start(script)

    # When the wait of a run in another store is decided here
    result = there.approve(wait)

    # Then it is not found, and that run still waits
    assert "WaitNotFound" == result["raised"]
    assert "Suspended" == there.resume(script)["kind"]


# Clones, and one value restored twice -----------------------------------------


pay = text_tool("pay", "paid {what}", {"what": str}, logs=True, approval=True)


def make_twin_agents() -> Agent:
    """Return a boss with two agents that are equal in everything."""
    script: Script = {
        "go": [[call("one", input="A"), call("two", input="B")], "all"],
        "A": pay_lines("a"),
        "B": pay_lines("b"),
    }
    model = scripts.scripted_model(script)
    twins = [Agent("twin", tools=[pay], model=model) for _ in range(2)]
    tools = [twins[0].as_tool(name="one"), twins[1].as_tool(name="two")]
    return Agent("boss", tools=tools, model=model)


def test_one_value_restored_twice_gives_two_runs() -> None:
    """The two runs do not affect each other."""
    outcome = run(make_twin_agents(), "go")
    data = outcome.continuation.to_bytes()
    assert isinstance(outcome, Suspended)
    waits = {w.arguments["what"]: w.id for w in outcome.waits}

    # When one process takes the value twice and decides differently
    left = resume(data, make_twin_agents(), answers={waits["a"]: Approve()})
    right = resume(data, make_twin_agents(), answers={waits["b"]: Approve()})

    # Then each run made only the call that was approved there
    assert ["a", "b"] == [line["what"] for line in effect_log.effects()]
    assert isinstance(left, Suspended)
    assert isinstance(right, Suspended)
    assert [waits["b"]] == [wait.id for wait in left.waits]
    assert [waits["a"]] == [wait.id for wait in right.waits]
    assert data == outcome.continuation.to_bytes()


def test_invalid_verdict_is_rejected_and_not_recorded() -> None:
    """Only an exact verdict type decides; otherwise the wait stays open."""
    runner = Runner(make_twin_agents(), store="memory:")
    outcome = expect(runner.start("go", run_id="r1"), Suspended)
    wait = outcome.waits[0]

    class Yes(Approve):
        pass

    words: list[Any] = [None, True, 1, "yes", "approve", {}, [], Yes(), Approve]
    for junk in words:
        with pytest.raises(DecisionRefused):
            runner.decide(wait.id, junk)
    assert 2 == len(list(runner.waiting()))
    assert isinstance(runner.resume("r1"), Suspended)
