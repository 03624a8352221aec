"""Texts and calls are judged three agents deep; each step is a fresh interpreter."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.judging_agents import PAY
from tests.run_environment import RunEnvironment

pytestmark = pytest.mark.fresh_interpreters

OPTIONS: dict[str, Any] = {"app": "tests.engine.judging_agents:agents"}
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
    read = only_wait(environment.start(PAY, **OPTIONS))
    assert ("input", PATH) == (read["kind"], read["path"])
    assert {"input": "B"} == read["arguments"]
    assert "B is odd" in read["note"]
    assert read["deadline"] is not None
    assert [] == environment.effect_names()

    environment.approve(read)
    returned = only_wait(environment.resume(PAY, **OPTIONS))
    assert ("output", PATH) == (returned["kind"], returned["path"])
    assert {"output": "clerk"} == returned["arguments"]
    assert ["pay 7"] == environment.effect_names()
    turns = environment.turns()

    # A process that only looks changes nothing.
    again = environment.resume(PAY, **OPTIONS)
    assert returned["id"] == only_wait(again)["id"]
    environment.approve(returned)
    finished = environment.resume(PAY, **OPTIONS)

    assert ("Finished", "all") == (finished["kind"], finished["output"])
    assert ["pay 7"] == environment.effect_names()
    assert len(turns) == len(set(turns)) == len(environment.turns()) - 2


def test_denied_texts_are_errors_of_the_agent_that_called(
    environment: RunEnvironment,
) -> None:
    """The boss goes on. After a denied input nothing is paid."""
    read = only_wait(environment.start(PAY, **OPTIONS))
    environment.deny(read)
    finished = environment.resume(PAY, **OPTIONS)
    assert ("Finished", "all") == (finished["kind"], finished["output"])
    assert [] == environment.effect_names()

    read = only_wait(environment.start(PAY, run_id="r2", **OPTIONS))
    environment.approve(read)
    returned = only_wait(environment.resume(PAY, run_id="r2", **OPTIONS))
    environment.deny(returned)
    finished = environment.resume(PAY, run_id="r2", **OPTIONS)
    assert ("Finished", "all") == (finished["kind"], finished["output"])
    assert ["pay 7"] == environment.effect_names()
