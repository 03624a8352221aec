"""The state of an agent in every kind of tool, and what it costs and refuses."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from continuations import (
    Agent,
    Answer,
    Finished,
    Runner,
    Suspended,
    ToolContext,
    run,
    tool,
)
from continuations.errors import FormatError
from continuations.tools import Tool
from continuations.wire.rows import delta_fields, read_delta
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore
from tests.clocks import ManualClock
from tests.core.rows import new_state
from tests.crash_points import CrashPoint
from tests.engine.agent_builders import make_boss, root_tool_results
from tests.scripts import Script, call, scripted_model


class Count(BaseModel):
    """A number that tools increase."""

    value: int = 0


def increase(ctx: ToolContext[Count]) -> int:
    """Add one to the state."""
    ctx.update(value=ctx.state.value + 1)
    return ctx.state.value


SCRIPT: Script = {"go": [[call("add"), call("add")], [call("add")], "end"]}


def test_tool_of_a_schema_changes_the_state() -> None:
    """The option is the same as for a function."""

    def add(arguments: dict[str, Any], ctx: ToolContext[Count]) -> int:
        assert {} == arguments
        return increase(ctx)

    made = Tool.from_schema("add", {"type": "object"}, add, writes_state=True)
    outcome = run(make_boss(SCRIPT, made, state=Count), "go")

    assert ["1", "2", "3"] == root_tool_results(outcome)
    assert {"value": 3} == outcome.continuation.root.state


def test_agent_of_a_class_has_a_state() -> None:
    """The body of the class names the type, and its methods change it."""

    class Counter(Agent):
        """Count."""

        state = Count

        @tool(writes_state=True)
        def add(self, ctx: ToolContext[Count]) -> int:
            """Add one."""
            assert "counter" == self.name
            return increase(ctx)

    outcome = run(Counter(model=scripted_model(SCRIPT)), "go")

    assert ["1", "2", "3"] == root_tool_results(outcome)
    assert {"value": 3} == outcome.continuation.root.state


def test_verify_that_finds_the_result_may_update_the_state() -> None:
    """A worker died after the effect. `verify` tells the result and the change."""

    def look_up(ctx: ToolContext[Count]) -> Answer:
        ctx.update(value=7)
        return Answer("it ran")

    @tool(writes_state=True, verify=look_up)
    def add(ctx: ToolContext[Count]) -> int:
        """Add one."""
        return increase(ctx)

    agent = make_boss({"go": [[call("add")], "end"]}, add, state=Count)
    for number in range(1, 30):
        clock = ManualClock()
        store = MemoryStore(clock.now)
        with CrashPoint(number, "before").process(store) as dying:
            Runner(agent, store=dying, clock=clock).start("go", run_id="r1")
        clock.seconds += 120
        outcome = Runner(agent, store=store, clock=clock).start("go", run_id="r1")
        if "it ran" in root_tool_results(outcome):
            break
        assert ["1"] == root_tool_results(outcome)
    else:
        raise AssertionError

    assert isinstance(outcome, Finished)
    assert {"value": 7} == outcome.continuation.root.state


def test_state_costs_no_version_and_no_request() -> None:
    """A change is in the version that has the result anyway."""
    operations: list[int] = []
    for state in (Count, None):

        @tool(writes_state=state is not None)
        def add(ctx: ToolContext[Count]) -> int:
            """Add one."""
            return increase(ctx) if ctx.call_state else 1

        store = FaultyStore(MemoryStore())
        agent = make_boss({"go": [[call("add")], "end"]}, add, state=state)
        assert isinstance(Runner(agent, store=store).start("go"), Finished)
        operations.append(len(store.operations))

    assert operations[0] == operations[1]


def test_state_of_a_run_that_waits_is_in_its_bytes_only_after_a_change() -> None:
    """A declared state that nothing changed is not stored."""

    @tool(approval=True, writes_state=True)
    def add(ctx: ToolContext[Count]) -> int:
        """Add one."""
        return increase(ctx)

    outcome = run(make_boss({"go": [[call("add")], "end"]}, add, state=Count), "go")

    assert isinstance(outcome, Suspended)
    state = outcome.continuation.run_state
    assert ["", "{}"] == [state.frames["f1"].state_json, state.calls["c3"].patch]


@pytest.mark.parametrize(
    "states", [[], "x", {"f1": 5}, {"f1": "[]"}, {"f1": "{"}, {"f1": None}]
)
def test_stored_state_of_a_wrong_shape_is_refused(states: Any) -> None:
    """Bytes that no release writes raise one typed error."""
    from continuations.core.rows.delta import diff  # noqa: PLC0415 - only this test

    fields = {**delta_fields(diff(None, new_state())), "states": states}

    with pytest.raises(FormatError, match="states"):
        read_delta(fields, "test")
