"""The code has changed while the run was asleep (H1, section 5 "Manifest")."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.engine.world import World


@pytest.mark.parametrize(
    "code", ["schema", "vanished", "version", "renamed", "child", "no agent"]
)
def test_what_touches_the_pending_call_refuses_and_writes_nothing(
    world: World, code: str
) -> None:
    """R-A4, R-H1, R-H2, R-C1, SL-L15: typed, and resumable with the old code."""
    # Given an approved call
    [wait] = world.do("start", "r1", "go", app="changing")["waits"]
    world.approve(wait)
    before = world.objects()

    # When it is resumed by code in which it is another call, or none
    told = world.do("resume", "r1", app="changing", code=code)

    # Then that is told by name, and every byte of the store is as it was
    assert ("AgentChanged", "r1") == (told["raised"], told["run_id"])
    assert before == world.objects()
    assert [] == world.effects()

    # And a sweep by that code does no harm either
    swept = world.do("sweep", app="changing", code=code)
    assert {"r1": "AgentChanged"} == swept["failed"]

    # When the old code is back
    ended = world.do("resume", "r1", app="changing")
    assert ("Finished", ["pay 5"]) == (ended["kind"], world.done())
    assert len(set(world.turns())) == len(world.turns())


def test_a_denial_needs_no_tool(world: World) -> None:
    """R-H2: an operator gets the run going without the old code."""
    [wait] = world.do("start", "r1", "go", app="changing")["waits"]
    world.deny(wait)

    ended = world.do("resume", "r1", app="changing", code="vanished")

    assert ("Finished", []) == (ended["kind"], world.done())
    assert "missing boss/child/pay" in ended["changes"]


@pytest.mark.parametrize(
    ("code", "change"),
    [("prompt", "compatible boss/child"), ("open", "compatible boss/child/pay")],
)
def test_what_does_not_touch_it_is_reported_and_runs(
    world: World, code: str, change: str
) -> None:
    """R-H1, R-H3: a changed prompt or policy; the report comes once."""
    [wait] = world.do("start", "r1", "go", app="changing")["waits"]

    # When it is only looked at, it still waits: no policy takes a wait back (R-C6)
    undecided = world.do("resume", "r1", app="changing", code=code)
    assert "Suspended" == undecided["kind"]

    world.approve(wait)
    ended = world.do("resume", "r1", app="changing", code=code)

    assert ("Finished", ["pay 5"]) == (ended["kind"], world.done())
    assert change in ended["changes"]
