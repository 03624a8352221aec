"""`Agent(approval=…)`: every tool of the agent asks, unless it says something else."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    Deny,
    Finished,
    Outcome,
    Runner,
    Suspended,
    ask,
    ask_person,
    tool,
)
from continuations.authoring.tool_waits import ToolWait
from continuations.errors import InvalidInput
from continuations.tools import Tool
from continuations_storage import MemoryStore
from tests import effect_log
from tests.engine.agent_builders import make_boss, root_tool_results
from tests.outcomes import expect, single_wait
from tests.scripts import call, scripted_model


def make_tool(name: str = "pay", **options: Any) -> Tool[..., Any]:
    """Return a tool with an effect."""

    def act(cents: int) -> str:
        """Act."""
        effect_log.append_effect(name, cents)
        return f"{name} {cents}"

    return tool(act, name=name, **options)


class OtherTool:
    """A tool of another class."""

    def __init__(self, inner: Any) -> None:
        for name in dir(inner):
            if not name.startswith("_"):
                setattr(self, name, getattr(inner, name))


def waiting_tools(outcome: Outcome) -> list[str]:
    assert isinstance(outcome, Suspended)
    return sorted(wait.tool for wait in outcome.waits)


def test_tools_without_a_policy_ask() -> None:
    """A function, a tool and a tool that says no; the last one runs at once."""

    def plain(cents: int) -> str:
        """Act."""
        effect_log.append_effect("plain", cents)
        return "plain"

    script: Any = {
        "go": [[call(name, cents=5) for name in ("plain", "pay", "look")], "end"]
    }
    tools = [plain, make_tool(), make_tool("look", approval=False)]
    runner = Runner(make_boss(script, *tools, approval=True), store="memory:")

    assert ["pay", "plain"] == waiting_tools(runner.start("go", run_id="r"))
    assert ["look 5"] == effect_log.names()
    for wait in runner.waiting():
        runner.decide(wait.id, Approve(by="kim"))
    assert isinstance(runner.resume("r"), Finished)
    assert ["look 5", "pay 5", "plain 5"] == sorted(effect_log.names())


def test_policy_of_a_tool_replaces_that_of_its_agent() -> None:
    """Nothing of the agent's policy is added to the policy of a tool."""
    own = ApprovalPolicy(within=timedelta(hours=1), name="own")
    agents = ApprovalPolicy(approvers=["kim"], name="the agent's")
    script: Any = {"go": [[call("own", cents=5), call("pay", cents=5)], "end"]}
    tools = [make_tool("own", approval=own), make_tool()]
    runner = Runner(make_boss(script, *tools, approval=agents), store="memory:")

    outcome = expect(runner.start("go", run_id="r"), Suspended)

    by_tool = {wait.tool: wait for wait in outcome.waits}
    assert ("own", None) == (by_tool["own"].policy, by_tool["own"].quorum)
    assert "the agent's" == by_tool["pay"].policy
    assert by_tool["pay"].quorum is not None
    assert by_tool["pay"].deadline is None


def test_tool_of_two_agents_asks_for_one_of_them() -> None:
    """The agents share the tool; the policy of one does not reach the other."""
    pay = make_tool()
    script: Any = {"go": [[call("pay", cents=5)], "end"]}
    asking = make_boss(script, pay, approval=True)
    free = make_boss(script, pay)

    assert isinstance(Runner(asking, store="memory:").start("go"), Suspended)
    assert isinstance(Runner(free, store="memory:").start("go"), Finished)
    assert pay.approval is None
    assert ["pay 5"] == effect_log.names()


@pytest.mark.parametrize("inner", [None, True])
def test_sub_agent_is_a_tool_and_has_its_own_policy(inner: bool | None) -> None:
    """The call of the sub-agent asks. Its tools ask only if the sub-agent says so."""
    script: Any = {
        "go": [[call("clerk", input="A"), call("free", input="B")], "end"],
        "A": [[call("pay", cents=5)], "A end"],
        "B": ["B end"],
    }
    model = scripted_model(script)
    clerk = Agent("clerk", tools=[make_tool()], model=model, approval=inner)
    free = Agent("free", model=model).as_tool(approval=False)
    boss = Agent("boss", tools=[clerk, free], model=model, approval=True)
    runner = Runner(boss, store="memory:")

    assert ["clerk"] == waiting_tools(runner.start("go", run_id="r"))
    [wait] = runner.waiting()
    runner.decide(wait.id, Approve(by="kim"))
    outcome = runner.resume("r")

    assert isinstance(outcome, Suspended if inner else Finished)
    if inner:
        assert ["pay"] == waiting_tools(outcome)
    assert ([] if inner else ["pay 5"]) == effect_log.names()


def test_condition_of_an_agent_gets_the_arguments_of_each_tool() -> None:
    def is_large(**arguments: Any) -> bool | Deny:
        return Deny(reason="odd") if arguments["cents"] % 2 else arguments["cents"] > 10

    script: Any = {"go": [[call("pay", cents=n) for n in (4, 5, 20)], "end"]}
    runner = Runner(make_boss(script, make_tool(), approval=is_large), store="memory:")

    wait = single_wait(runner.start("go", run_id="r"))

    assert {"cents": 20} == wait.arguments
    runner.decide(wait.id, Answer("paid by hand"))
    results = root_tool_results(runner.resume("r"))
    assert ["pay 4", "DENIED", "ANSWERED"] == [r.split(":")[0] for r in results]


def test_call_that_was_admitted_before_is_asked_about(store: MemoryStore) -> None:
    """A deployment adds the policy while the call is ready: the call does not begin."""
    script: Any = {"go": [[call("pay", cents=5)], "end"]}
    asked: list[int] = []

    def stop() -> bool:
        # Pause after the call was examined, before its start is recorded.
        asked.append(1)
        return len(asked) > 2

    before = Runner(make_boss(script, make_tool()), store=store)
    assert isinstance(before.start("go", run_id="r", should_pause=stop), Suspended)
    assert [] == effect_log.names()
    after = Runner(make_boss(script, make_tool(), approval=True), store=store)

    outcome = expect(after.resume("r"), Suspended)

    assert ["pay"] == [wait.tool for wait in outcome.waits]
    assert [] == effect_log.names()


def test_answer_function_that_is_declared_later_belongs_to_the_tool() -> None:
    """Also if the agent was made before the function."""

    @tool
    def receipt(cents: int) -> ToolWait[str]:
        """Ask for a receipt."""
        return ask(f"Where is the receipt of {cents}?")

    script: Any = {"go": [[call("receipt", cents=5)], "end"]}
    boss = make_boss(script, receipt, approval=True)

    @receipt.on_answer
    def received(answer: str, cents: int) -> str:
        return f"{answer} of {cents}"

    runner = Runner(boss, store="memory:")
    runner.start("go", run_id="r")
    [approval] = runner.waiting()
    runner.decide(approval.id, Approve(by="kim"))
    runner.resume("r")
    [question] = runner.waiting()
    runner.decide(question.id, Answer("receipt 7", by="kim"))

    assert ["receipt 7 of 5"] == root_tool_results(runner.resume("r"))


def test_ask_person_needs_no_approval() -> None:
    script: Any = {"go": [[call("ask_person", question="Who?")], "end"]}
    runner = Runner(make_boss(script, ask_person, approval=True), store="memory:")

    outcome = expect(runner.start("go", run_id="r"), Suspended)

    assert ["question"] == [wait.kind for wait in outcome.waits]


def test_policy_must_fit_the_arguments_of_each_tool() -> None:
    def is_large(dollars: int) -> bool:
        return dollars > 10

    with pytest.raises(InvalidInput, match=r"agent boss: tool pay: .*dollars"):
        make_boss({}, make_tool(), approval=is_large)
    with pytest.raises(InvalidInput, match="agent boss: approval must be True, False"):
        make_boss({}, make_tool(), approval="yes")


def test_tool_of_another_class_needs_a_policy_of_its_own() -> None:
    """Such a class might not ask, so the agent is not made."""
    inner = make_tool()

    wrapped = OtherTool(inner)
    with pytest.raises(InvalidInput, match="Give the tool a policy of its own"):
        make_boss({}, wrapped, approval=True)
    make_boss({}, wrapped)
