"""Code that changed while the run was suspended; all cases run with TORTURE=1."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from continuations import Runner
from tests.engine import app_variants
from tests.outcomes import single_wait
from tests.run_environment import RunEnvironment
from tests.sampling import sample

APP = "tests.engine.app_variants:versioned_agents"


def resume(environment: RunEnvironment, code: str = "old") -> dict[str, Any]:
    return environment.run("resume", "r1", app=APP, code=code)


def start(environment: RunEnvironment) -> dict[str, Any]:
    [wait] = environment.run("start", "r1", "go", app=APP)["waits"]
    found: dict[str, Any] = wait
    return found


def tool_results(environment: RunEnvironment, task: str) -> str:
    """Return the tool messages that the agent with a task has read."""
    done = environment.run("tool-results", "r1", task, app=APP)
    return str(done["tool_results"])


# An approved call -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "change", "contract", "effect"),
    [
        (
            "schema",
            "parameter currency was added",
            'New contract: pay(what: string, currency: string = "EUR").',
            "pay 5 EUR",
        ),
        (
            "version",
            "its version was not declared and is 2",
            "New contract: pay(what: string), version 2.",
            "pay 5",
        ),
    ],
)
def test_approved_call_whose_tool_changed_waits_again_with_both_contracts(
    environment: RunEnvironment, code: str, change: str, contract: str, effect: str
) -> None:
    """The old yes never runs the new contract; a new yes does."""
    # Given an approved call
    wait = start(environment)
    environment.approve(wait)

    # When it is resumed by code in which the tool has another contract
    result = resume(environment, code)

    # Then nothing ran, and a new wait shows what changed
    [again] = result["waits"]
    assert ("Suspended", True) == (result["kind"], wait["id"] != again["id"])
    expected = (
        f"The tool changed after the approval: {change}. Old contract: "
        f"pay(what: string). {contract}"
    )
    assert expected == again["note"]
    assert [] == environment.effects()

    # And no process of any code runs it by the old approval
    assert "Suspended" == resume(environment)["kind"]
    assert "AlreadyDecided" == environment.approve(wait, reason="twice")["raised"]

    # When the new contract is approved
    environment.approve(again)
    ended = resume(environment, code)
    assert ("Finished", [effect]) == (ended["kind"], environment.effect_names())
    assert len(set(environment.turns())) == len(environment.turns())


def test_new_wait_is_void_again_if_the_old_code_comes_back(
    environment: RunEnvironment,
) -> None:
    """The approval of the new contract does not run the old one."""
    environment.approve(start(environment))
    [again] = resume(environment, "version")["waits"]
    environment.approve(again)

    result = resume(environment, "old")

    assert ("Suspended", []) == (result["kind"], environment.effects())
    assert "New contract: pay(what: string)." in result["waits"][0]["note"]


def test_arguments_that_do_not_fit_the_new_contract_run_only_after_an_edit(
    environment: RunEnvironment,
) -> None:
    environment.approve(start(environment))

    # When the new tool takes other arguments, the wait shows the old ones
    [again] = resume(environment, "cents")["waits"]
    assert "The arguments do not fit the new contract" in again["note"]
    assert {"what": "5"} == again["arguments"]

    # Then a plain approval runs nothing
    environment.approve(again)
    [third] = resume(environment, "cents")["waits"]
    assert "The arguments do not fit the new contract" in third["note"]
    assert [] == environment.effects()

    # And an edit that fits runs, and the model reads that
    environment.approve(third, arguments={"cents": 500})
    assert "Finished" == resume(environment, "cents")["kind"]
    assert ["pay 500"] == environment.effect_names()
    assert 'The tool ran with {"cents":500}' in tool_results(environment, "A")


@pytest.mark.parametrize("verdict", ["deny", "answer", "approve"])
def test_operator_asks_again_about_an_approved_call_whose_tool_is_gone(
    environment: RunEnvironment, verdict: str
) -> None:
    """Deny and Answer work without the tool; Approve works when it is back."""
    environment.approve(start(environment))

    [again] = environment.run("reopen", "r1", app=APP, code="vanished")["waits"]
    assert "agent child has no tool pay (its tools: transfer)" in again["note"]
    assert [] == environment.effects()

    values = {"answer": {"value": "paid by hand"}}
    environment.decide(again, {verdict: values.get(verdict, {})})
    ended = resume(environment, "old" if verdict == "approve" else "vanished")

    assert "Finished" == ended["kind"]
    ran = ["pay 5"] if verdict == "approve" else []
    assert ran == environment.effect_names()


@pytest.mark.parametrize("verdict", ["deny", "answer"])
def test_denied_or_answered_call_resumes_without_its_tool(
    environment: RunEnvironment, verdict: str
) -> None:
    """After such a decision, a process without the tool can resume the run."""
    fields = {"answer": {"value": 1}}
    environment.decide(start(environment), {verdict: fields.get(verdict, {})})

    ended = resume(environment, "vanished")

    assert ("Finished", []) == (ended["kind"], environment.effect_names())
    assert "missing boss/child/pay" in ended["changes"]


# A missing agent --------------------------------------------------------------------


@pytest.mark.parametrize("code", sample(["renamed", "child", "no agent"], 2))
@pytest.mark.fresh_interpreters
def test_approved_call_below_a_missing_agent_raises_agent_changed_and_writes_nothing(
    environment: RunEnvironment, code: str
) -> None:
    """The old code can still resume the run, and the run can be cancelled."""
    environment.approve(start(environment))
    before = environment.objects_of_runs()

    result = resume(environment, code)

    # Then the error names the run, and the store is unchanged
    assert ("AgentChanged", "r1") == (result["raised"], result["run_id"])
    assert before == environment.objects_of_runs()
    assert [] == environment.effects()

    # And a sweep with that code changes nothing either
    swept = environment.run("sweep", app=APP, code=code)
    is_foreign = code == "renamed"
    assert (["r1"] if is_foreign else []) == swept["skipped"]
    assert ({} if is_foreign else {"r1": "AgentChanged"}) == swept["failed"]
    assert before == environment.objects_of_runs()

    # When the old code is back
    ended = resume(environment)
    assert ("Finished", ["pay 5"]) == (ended["kind"], environment.effect_names())
    assert len(set(environment.turns())) == len(environment.turns())


@pytest.mark.parametrize(
    ("code", "verdict"),
    sample([*product(["child", "no agent"], ["deny", "answer"])], 3),
)
@pytest.mark.fresh_interpreters
def test_run_continues_without_a_removed_sub_agent_after_its_wait_is_given_up(
    environment: RunEnvironment, code: str, verdict: str
) -> None:
    """The error advises Deny or Answer for the wait below the sub-agent."""
    # Given a wait below a sub-agent that new code does not have
    wait = start(environment)
    refused = resume(environment, code)
    assert "AgentChanged" == refused["raised"]
    advice = f"decide the waits below it with Deny or Answer ({wait['id']})"
    assert advice in refused["message"]

    # When a person follows the advice
    environment.decide(wait, {verdict: {"answer": {"value": 1}}.get(verdict, {})})
    ended = resume(environment, code)

    # Then the call of the sub-agent fails, and its parent goes on
    assert ("Finished", []) == (ended["kind"], environment.effect_names())
    result = tool_results(environment, "go")
    assert "ERROR: the agent child was removed while it worked on this call." in result
    assert ["go 0", "A 0", "go 1"] == environment.turns()


@pytest.mark.parametrize("verdict", sample(["answer", "deny"], 2))
@pytest.mark.fresh_interpreters
def test_removed_sub_agent_ends_with_its_last_turn(
    environment: RunEnvironment, verdict: str
) -> None:
    """It had a sub-agent of its own, whose end used up its turns."""
    started = environment.run("start", "r1", "go deep", app=APP, code="deep")
    [wait] = started["waits"]

    environment.decide(wait, {verdict: {"answer": {"value": 1}}.get(verdict, {})})
    ended = resume(environment, "child")

    assert ("Finished", []) == (ended["kind"], environment.effects())
    assert "agent child used all of its 1 turns" in tool_results(environment, "go deep")


@pytest.mark.fresh_interpreters
def test_removed_sub_agent_ends_after_the_last_of_its_waits_is_settled(
    environment: RunEnvironment,
) -> None:
    """An approval below it is kept, until an operator asks again about its call."""
    # Given two waits below a sub-agent that new code does not have
    started = environment.run("start", "r1", "go twice", app=APP)
    one, two = started["waits"]
    environment.deny(one)
    environment.approve(two)

    # When one is denied and one approved
    before = environment.objects()
    kept = resume(environment, "child")
    [note] = environment.objects().keys() - before.keys()
    assert ("AgentChanged", True) == (kept["raised"], note.startswith("runs/r1/y/"))
    assert before.items() < environment.objects().items()
    suspended = environment.run("reopen", "r1", app=APP, code="child")

    # Then the approved call waits again, and the sub-agent does not end yet
    [again] = suspended["waits"]
    assert ("Suspended", "approval") == (suspended["kind"], again["kind"])
    assert "the agent child was removed. Restore" in again["note"]
    refused = resume(environment, "child")
    assert f"Deny or Answer ({again['id']})" in refused["message"]

    # And it ends after this wait is settled too
    environment.decide(again, {"answer": {"value": "paid by hand"}})
    assert "Finished" == resume(environment, "child")["kind"]
    assert [] == environment.effects()
    assert "the agent child was removed" in tool_results(environment, "go twice")


@pytest.mark.parametrize("code", sample(["child", "no agent"], 2))
@pytest.mark.fresh_interpreters
def test_denial_that_stops_ends_a_run_with_a_removed_sub_agent(
    environment: RunEnvironment, code: str
) -> None:
    """The run does not go on without the sub-agent: the policy says that it ends."""
    started = environment.run("start", "r1", "go", app=APP, code="denial stops")
    environment.deny(started["waits"][0], reason="too much")

    ended = resume(environment, code)

    assert ("Failed", []) == (ended["kind"], environment.effects())
    expected = {"code": "denied", "message": "pay was denied: too much"}
    assert expected == ended["error"]
    again = resume(environment, code)
    assert (ended["error"], ended["version"]) == (again["error"], again["version"])
    assert [] == environment.keys("waits/", "markers/")


@pytest.mark.parametrize("verdict", sample(["deny", "answer"], 2))
@pytest.mark.fresh_interpreters
def test_removed_sub_agent_ends_with_a_call_that_has_not_begun(
    environment: RunEnvironment, monkeypatch: pytest.MonkeyPatch, verdict: str
) -> None:
    """The other call of the same turn ends with it, and runs nothing."""
    # Given a paused run: one call of the sub-agent is ready, the next one waits
    monkeypatch.setenv("TEST_CODE", "plain")
    runner = Runner(app_variants.versioned_agents(), store=environment.store)
    paused = runner.start(
        "go plain", run_id="r1", should_pause=lambda: "C 0" in environment.turns()
    )
    wait = single_wait(paused)
    sub_agent = paused.continuation.root.calls[0].frame
    assert sub_agent is not None
    assert (["ready", "waiting"], []) == (
        [call.state for call in sub_agent.calls],
        environment.effects(),
    )

    # When the sub-agent is removed, and a person settles the wait
    environment.decide(wait.id, {verdict: {"answer": {"value": 1}}.get(verdict, {})})
    ended = resume(environment, "child")

    assert ("Finished", []) == (ended["kind"], environment.effects())
    assert "the agent child was removed" in tool_results(environment, "go plain")


@pytest.mark.parametrize("code", sample(["no agent", "renamed", "child"], 2))
@pytest.mark.fresh_interpreters
def test_run_with_a_missing_agent_can_be_cancelled(
    environment: RunEnvironment, code: str
) -> None:
    environment.approve(start(environment))
    assert "AgentChanged" == resume(environment, code)["raised"]

    cancelled = environment.run("cancel", "r1", app=APP, code=code)

    assert ("cancelled", []) == (cancelled["status"], environment.effects())
    assert [] == environment.keys("waits/")


# Changes beside the call ------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "change"),
    [("prompt", "compatible boss/child"), ("open", "compatible boss/child/pay")],
)
def test_change_beside_the_pending_call_is_reported_and_resumes(
    environment: RunEnvironment, code: str, change: str
) -> None:
    """A changed prompt or policy is reported once and does not stop the run."""
    wait = start(environment)

    # When it is resumed undecided, it still waits: a new policy closes no wait
    undecided = resume(environment, code)
    assert "Suspended" == undecided["kind"]

    environment.approve(wait)
    ended = resume(environment, code)

    assert ("Finished", ["pay 5"]) == (ended["kind"], environment.effect_names())
    assert change in ended["changes"]
