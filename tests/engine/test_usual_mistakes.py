"""Mistakes of newcomers that no error stops: each has a warning, or simply works."""

from __future__ import annotations

import gc
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from continuations import (
    Agent,
    Finished,
    Hooks,
    InvalidInput,
    Runner,
    ToolContext,
    run,
    run_stream,
    run_stream_async,
    tool,
)
from continuations.models.scripted import ScriptedModel, ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations import TurnInfo


@dataclass
class Claim:
    total: int = 0
    trips: list[str] = field(default_factory=list[str])


def _run_spend(tool_: Any) -> dict[str, Any]:
    """Run an agent that calls `spend`; return its state."""
    model = ScriptedModel([[ToolCall("spend", {})], "Done."])
    agent = Agent("clerk", tools=[tool_], state=Claim, model=model)
    outcome = run(agent, "go")
    assert isinstance(outcome, Finished)
    return dict(outcome.continuation.root.state)


@pytest.mark.parametrize("name", ["total", "trips"])
def test_change_of_the_state_without_update_is_logged(
    caplog: pytest.LogCaptureFixture, name: str
) -> None:
    @tool(writes_state=True)
    def spend(ctx: ToolContext[Claim]) -> str:
        """Change a copy."""
        claim = ctx.state
        if name == "total":
            claim.total += 5
        else:
            claim.trips.append("Bern")
        return "spent"

    with caplog.at_level(logging.WARNING, logger="continuations"):
        state = _run_spend(spend)

    assert {} == state
    (record,) = caplog.records
    assert record.getMessage() == (
        f"tool spend changed ctx.state.{name}, which is a copy, so the change is lost. "
        f"Call ctx.update({name}=...)."
    )


def test_copy_of_the_state_whose_changes_are_passed_to_update_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool(writes_state=True)
    def spend(ctx: ToolContext[Claim]) -> str:
        """Change a copy, then the state."""
        claim = ctx.state
        claim.total += 5
        claim.trips.append("Bern")
        ctx.update(total=claim.total, trips=claim.trips)
        return f"spent {ctx.state.total}"

    with caplog.at_level(logging.WARNING, logger="continuations"):
        state = _run_spend(spend)

    assert {"total": 5, "trips": ["Bern"]} == state
    assert [] == caplog.records


def test_stream_that_is_never_read_warns_that_no_work_began() -> None:
    model = ScriptedModel([])
    agent = Agent("clerk", model=model)
    runner = Runner(agent, store="memory:")
    makers: tuple[Callable[[], object], ...] = (
        lambda: run_stream(agent, "go"),
        lambda: run_stream_async(agent, "go"),
        lambda: runner.stream("go"),
    )
    for make in makers:
        with pytest.warns(RuntimeWarning, match="never read, so no work began"):
            make()

    assert [] == model.requests


@pytest.mark.filterwarnings("error")
def test_stream_that_is_read_or_closed_does_not_warn() -> None:
    agent = Agent("clerk", model=ScriptedModel(["Done."]))
    stream = run_stream(agent, "go")
    assert list(stream)
    del stream
    with run_stream(agent, "go"):
        pass
    gc.collect()


def test_hooks_may_be_methods_of_a_subclass() -> None:
    """As hooks of other SDKs are."""
    seen: list[str] = []

    class Log(Hooks):
        def before_model(self, info: TurnInfo) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]  # type: ignore[override]
            seen.append(f"{info.agent} {self!r}")

    run(Agent("clerk", hooks=Log(), model=ScriptedModel(["Done."])), "go")

    assert ["clerk <Log: before_model>"] == seen


def _take_nothing() -> None:
    pass


def _take_two(run_id: str, event: object) -> None:
    del run_id, event


def _generate(event: object) -> Any:
    yield event


async def _generate_later(event: object) -> Any:
    yield event


class _Listener:
    """A class in place of its object."""

    def __init__(self, event: object) -> None:
        self.event = event


@pytest.mark.parametrize(
    ("listener", "text"),
    [
        (_take_nothing, "the function _take_nothing()"),
        (_take_two, "the function _take_two(run_id, event)"),
        (_generate, "the generator function _generate(event)"),
        (_generate_later, "the generator function _generate_later(event)"),
        (_Listener, "the class _Listener"),
        ([print], "[<built-in function print>] (list)"),
    ],
)
def test_listener_that_cannot_take_an_event_is_refused_before_any_work(
    listener: Any, text: str
) -> None:
    model = ScriptedModel([])
    agent = Agent("clerk", model=model)
    runner = Runner(agent, store="memory:")

    for begin in (
        lambda: run(agent, "go", on_event=listener),
        lambda: runner.start("go", on_event=listener),
        lambda: Runner(agent, store="memory:", on_event=listener),
    ):
        with pytest.raises(InvalidInput) as told:
            begin()
        assert f"got {text}. Declare def on_event(event)." in str(told.value)
    with pytest.raises(InvalidInput, match="Hooks: before_model must be a function"):
        Hooks(before_model=listener)

    assert [] == model.requests
