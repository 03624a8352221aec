"""Fixtures for pytest; `-p no:continuations` turns them off.

pytest imports this module in every run of an environment that has the package. So it
imports the package's other modules only when a fixture is used.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from continuations import Agent
    from continuations.models.interface import Model
    from continuations.testing import (
        AgentHarness,
        Effects,
        FrozenClock,
        MakeHarness,
        RecordedModel,
        RecordModel,
    )

# ruff: noqa: PLC0415 - see the docstring

_RECORD_OPTION = "--record-models"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that records instead of replaying."""
    parser.getgroup("continuations").addoption(
        _RECORD_OPTION,
        action="store_true",
        help="ask real models for requests that recorded_model has not recorded",
    )


@pytest.fixture
def agent_clock() -> FrozenClock:
    """A clock that moves only when the test moves it."""
    from continuations.testing import FrozenClock

    return FrozenClock()


@pytest.fixture
def agent_effects() -> Effects:
    """An empty list of effects."""
    from continuations.testing import Effects

    return Effects()


@pytest.fixture
def make_harness(agent_clock: FrozenClock) -> MakeHarness:
    """A function that makes an `AgentHarness` with the clock of `agent_clock`."""
    from continuations.testing import AgentHarness

    def make(
        agent: Agent[Any] | Callable[[], Agent[Any]], **options: Any
    ) -> AgentHarness[Any]:
        return AgentHarness(agent, **dict[str, Any](clock=agent_clock) | options)

    return make


@pytest.fixture
def recorded_model(request: pytest.FixtureRequest) -> RecordModel:
    """A function that makes a `RecordedModel` with a file beside the test."""
    from continuations.testing import RecordedModel

    def make(
        model: Model | Callable[[], Model],
        *,
        name: str | None = None,
        secrets: Iterable[str] = (),
    ) -> RecordedModel:
        folder = request.path.parent / "recordings" / request.path.stem
        file_name = re.sub(r"[^\w.-]+", "-", name or request.node.name)
        return RecordedModel(
            folder / f"{file_name}.json",
            model,
            record=bool(request.config.getoption(_RECORD_OPTION)),
            secrets=secrets,
        )

    return make
