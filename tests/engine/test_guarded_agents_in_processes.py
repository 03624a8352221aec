"""Hooks, guardrails and judged texts three agents deep, in fresh interpreters."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.guarded_agents import PAY, SEND
from tests.engine.judging_agents import PAY as PAY_JUDGED
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


# Judged texts and calls -------------------------------------------------------


JUDGING: dict[str, Any] = {"app": "tests.engine.judging_agents:agents"}
PATH = ["boss", "hr", "clerk"]


def only_wait(outcome: dict[str, Any]) -> dict[str, Any]:
    assert "Suspended" == outcome["kind"]
    waits: list[dict[str, Any]] = outcome["waits"]
    [wait] = waits
    return wait


def test_input_calls_and_output_are_judged_deep_in_the_stack(
    environment: RunEnvironment,
) -> None:
    """Three processes ask and are answered; the refused payment never runs."""
    read = only_wait(environment.start(PAY_JUDGED, **JUDGING))
    assert ("input", PATH) == (read["kind"], read["path"])
    assert {"input": "B"} == read["arguments"]
    assert "B is odd" in read["note"]
    assert read["deadline"] is not None
    assert [] == environment.effect_names()

    environment.approve(read)
    returned = only_wait(environment.resume(PAY_JUDGED, **JUDGING))
    assert ("output", PATH) == (returned["kind"], returned["path"])
    assert {"output": "clerk"} == returned["arguments"]
    assert ["pay 7"] == environment.effect_names()
    turns = environment.turns()

    # A process that only looks changes nothing.
    again = environment.resume(PAY_JUDGED, **JUDGING)
    assert returned["id"] == only_wait(again)["id"]
    environment.approve(returned)
    finished = environment.resume(PAY_JUDGED, **JUDGING)

    assert ("Finished", "all") == (finished["kind"], finished["output"])
    assert ["pay 7"] == environment.effect_names()
    assert len(turns) == len(set(turns)) == len(environment.turns()) - 2


def test_denied_texts_are_errors_of_the_agent_that_called(
    environment: RunEnvironment,
) -> None:
    """The boss goes on. After a denied input nothing is paid."""
    read = only_wait(environment.start(PAY_JUDGED, **JUDGING))
    environment.deny(read)
    finished = environment.resume(PAY_JUDGED, **JUDGING)
    assert ("Finished", "all") == (finished["kind"], finished["output"])
    assert [] == environment.effect_names()

    read = only_wait(environment.start(PAY_JUDGED, run_id="r2", **JUDGING))
    environment.approve(read)
    returned = only_wait(environment.resume(PAY_JUDGED, run_id="r2", **JUDGING))
    environment.deny(returned)
    finished = environment.resume(PAY_JUDGED, run_id="r2", **JUDGING)
    assert ("Finished", "all") == (finished["kind"], finished["output"])
    assert ["pay 7"] == environment.effect_names()
