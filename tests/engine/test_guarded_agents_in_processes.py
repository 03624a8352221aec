"""Hooks and guardrails three agents deep; each step is a fresh interpreter."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.guarded_agents import PAY, SEND
from tests.run_environment import RunEnvironment

pytestmark = pytest.mark.fresh_interpreters

OPTIONS: dict[str, Any] = {"app": "tests.engine.guarded_agents:agents"}


def test_arguments_that_a_hook_changed_are_approved_and_run(
    environment: RunEnvironment,
) -> None:
    """The approver in another process reads 100 cents, and 100 cents are paid."""
    suspended = environment.start(PAY, **OPTIONS)
    [wait] = suspended["waits"]
    assert ["boss", "hr", "clerk", "pay"] == wait["path"]
    assert {"cents": 100} == wait["arguments"]
    assert [] == environment.effect_names()

    environment.approve(wait)
    finished = environment.resume(PAY, **OPTIONS)

    assert ("Finished", "all") == (finished["kind"], finished["output"])
    assert ["pay 100"] == environment.effect_names()
    turns = environment.turns()
    assert len(turns) == len(set(turns))


def test_guardrail_opens_a_wait_deep_in_the_stack(environment: RunEnvironment) -> None:
    """Its reason is the note. Another process approves, a third one sends."""
    suspended = environment.start(SEND, **OPTIONS)
    [wait] = suspended["waits"]
    assert ["boss", "hr", "clerk", "send"] == wait["path"]
    assert wait["note"].endswith("eve is not known")
    assert suspended["version"] == environment.resume(SEND, **OPTIONS)["version"]

    environment.approve(wait)
    finished = environment.resume(SEND, **OPTIONS)

    assert ("Finished", "all") == (finished["kind"], finished["output"])
    assert ["send eve"] == environment.effect_names()


def test_denied_call_of_a_guardrail_is_never_made(environment: RunEnvironment) -> None:
    """The agents go on without it."""
    suspended = environment.start(SEND, **OPTIONS)

    environment.deny(suspended["waits"][0])
    finished = environment.resume(SEND, **OPTIONS)

    assert ("Finished", "all") == (finished["kind"], finished["output"])
    assert [] == environment.effect_names()
