"""An approved call whose tool or agent was removed before the call began.

The approval policy is in the code that is missing, and nothing stored tells it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    Deny,
    Finished,
    Runner,
    Suspended,
)
from continuations_storage import MemoryStore
from tests import scripts
from tests.engine.agent_builders import should_pause_after
from tests.engine.payment_agent import make_pay_tool, single_wait
from tests.scripts import call

if TYPE_CHECKING:
    from continuations import Wait
    from tests.run_environment import RunEnvironment

STOPPING = ApprovalPolicy(
    strict=True, on_denied="stop", valid_for=60, expires_after=60, on_expired="stop"
)
UNKNOWN_POLICY = (
    "The tool's approval policy is not known here: a denial does not stop the run, and "
    "this wait has no deadline."
)


class Office:
    """A clerk below the boss, whose approved call lost its tool or its agent."""

    def __init__(self, *, agent_is_removed: bool) -> None:
        self.store = MemoryStore()
        pay = make_pay_tool(STOPPING)
        self.complete = self.runner([pay])
        self.reduced = self.runner(None if agent_is_removed else [])

    def runner(self, clerk_tools: list[Any] | None) -> Runner:
        """Return a process whose clerk has these tools; `None`: it has no clerk."""
        payments = [call("pay", cents=5), call("pay", cents=7)]
        script: Any = {
            "go": [[call("clerk", input="A")], "end"],
            "A": [payments, "A done"],
        }
        model = scripts.scripted_model(script)
        below = (
            []
            if clerk_tools is None
            else [Agent("clerk", model=model, tools=clerk_tools)]
        )
        return Runner(Agent("boss", tools=below, model=model), store=self.store)

    def wait_again(self) -> Wait:
        """Approve one call, answer the other; return the wait of the approved one."""
        outcome = self.complete.start("go", run_id="r1")
        assert isinstance(outcome, Suspended)
        first, second = outcome.waits
        self.complete.decide(first.id, Approve(by="kim"))
        self.complete.resume("r1", should_pause=should_pause_after(1))
        self.complete.decide(second.id, Answer("paid by hand"))
        wait = single_wait(self.reduced.resume("r1"))
        assert str(wait.note).endswith(UNKNOWN_POLICY)
        assert (False, False, None) == (
            wait.denial_stops,
            wait.expiry_stops,
            wait.deadline,
        )
        return wait


@pytest.mark.parametrize("agent_is_removed", [False, True])
def test_denial_without_the_tool_does_not_stop_the_run_and_the_wait_says_so(
    environment: RunEnvironment, *, agent_is_removed: bool
) -> None:
    """A person who reads the note can cancel the run instead."""
    office = Office(agent_is_removed=agent_is_removed)

    office.reduced.decide(office.wait_again().id, Deny(reason="No."))

    assert isinstance(office.reduced.resume("r1"), Finished)
    assert [] == environment.effect_names()


@pytest.mark.parametrize("agent_is_removed", [False, True])
def test_restored_strict_tool_is_approved_once_more_and_runs_once(
    environment: RunEnvironment, *, agent_is_removed: bool
) -> None:
    """The first approval was given without its description; the note says that."""
    office = Office(agent_is_removed=agent_is_removed)
    office.reduced.decide(office.wait_again().id, Approve(by="kim"))

    wait = single_wait(office.complete.resume("r1"))

    assert "The tool's policy is strict, and the approval was not." == wait.note
    assert wait.denial_stops
    assert wait.deadline
    office.complete.decide(wait.id, Approve(by="kim"))
    assert isinstance(office.complete.resume("r1"), Finished)
    assert ["pay 5 kim"] == environment.effect_names()
