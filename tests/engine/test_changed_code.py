"""Code that changed while the run was suspended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.run_environment import RunEnvironment

APP = "tests.engine.app_variants:versioned_agents"


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("schema", "'pay' of agent 'child' has changed: the parameters changed."),
        ("vanished", "'pay' is missing in agent 'child'."),
        ("version", "has changed: the declared version was None and is 2."),
        ("renamed", ""),
        ("child", ""),
        ("no agent", ""),
    ],
)
def test_change_of_the_pending_call_raises_agent_changed_and_writes_nothing(
    environment: RunEnvironment, code: str, change: str
) -> None:
    """The error names the change, and the old code can still resume the run."""
    # Given an approved call
    [wait] = environment.run("start", "r1", "go", app=APP)["waits"]
    environment.approve(wait)
    before = environment.objects()

    # When it is resumed by code in which the call is another one, or missing
    result = environment.run("resume", "r1", app=APP, code=code)

    # Then the error names the run, and the store is unchanged
    assert ("AgentChanged", "r1") == (result["raised"], result["run_id"])
    assert change in result["message"]
    assert before == environment.objects()
    assert [] == environment.effects()

    # And a sweep with that code changes nothing either
    swept = environment.run("sweep", app=APP, code=code)
    is_foreign = code == "renamed"
    assert (["r1"] if is_foreign else []) == swept["skipped"]
    assert ({} if is_foreign else {"r1": "AgentChanged"}) == swept["failed"]
    assert before == environment.objects()

    # When the old code is back
    ended = environment.run("resume", "r1", app=APP)
    assert ("Finished", ["pay 5"]) == (ended["kind"], environment.effect_names())
    assert len(set(environment.turns())) == len(environment.turns())


def test_denied_call_resumes_without_its_tool(environment: RunEnvironment) -> None:
    """After a denial, a process without the tool can resume the run."""
    [wait] = environment.run("start", "r1", "go", app=APP)["waits"]
    environment.deny(wait)

    ended = environment.run("resume", "r1", app=APP, code="vanished")

    assert ("Finished", []) == (ended["kind"], environment.effect_names())
    assert "missing boss/child/pay" in ended["changes"]


@pytest.mark.parametrize(
    ("code", "change"),
    [("prompt", "compatible boss/child"), ("open", "compatible boss/child/pay")],
)
def test_change_beside_the_pending_call_is_reported_and_resumes(
    environment: RunEnvironment, code: str, change: str
) -> None:
    """A changed prompt or policy is reported once and does not stop the run."""
    [wait] = environment.run("start", "r1", "go", app=APP)["waits"]

    # When it is resumed undecided, it still waits: a new policy closes no wait
    undecided = environment.run("resume", "r1", app=APP, code=code)
    assert "Suspended" == undecided["kind"]

    environment.approve(wait)
    ended = environment.run("resume", "r1", app=APP, code=code)

    assert ("Finished", ["pay 5"]) == (ended["kind"], environment.effect_names())
    assert change in ended["changes"]
