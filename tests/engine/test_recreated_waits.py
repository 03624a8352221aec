"""A wait that is decided while another process creates its object again."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

import pytest

from continuations import Agent, Approve, AsyncRunner, Finished, Runner
from continuations.errors import ModelError
from continuations_storage import MemoryStore
from continuations_storage.faults import Crash, FaultyStore, crashed, on
from tests import effect_log, scripts
from tests.clocks import ManualClock
from tests.engine.payment_agent import pay
from tests.scripts import Line, call


class DecidingStore:
    """A store in which a wait is decided just before its object is created again."""

    def __init__(self, inner: MemoryStore) -> None:
        self._inner = inner
        self._armed = False
        self._resumer: AsyncRunner | None = None
        self.has_decided = False
        self.read, self.keys = inner.read, inner.keys
        self.delete, self.probe = inner.delete, inner.probe

    def arm(self, resumer: AsyncRunner | None = None) -> None:
        """Decide the next wait that is created; then resume its run, if asked to."""
        self._armed, self._resumer = True, resumer

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Decide the wait if this creates one, then create the object."""
        if self._armed and key.startswith("waits/"):
            self._armed = False
            wait_id = key.removeprefix("waits/")
            await AsyncRunner([], store=self._inner).decide(wait_id, Approve())
            if self._resumer is not None:
                await self._resumer.resume("r")
            self.has_decided = True
        return await self._inner.create(key, body)


def make_boss(reply: Line) -> Agent:
    """Return an agent with two children: one waits, the other gets this reply."""
    model = scripts.scripted_model(
        {
            "go": [[call("a", input="A"), call("b", input="B")], "end"],
            "A": [[call("pay")], "A end"],
            "B": [reply],
        }
    )
    children = [Agent(name, tools=[pay], model=model) for name in "ab"]
    return Agent("boss", tools=children, model=model)


def test_wait_decided_while_it_is_recreated_is_not_listed(store: MemoryStore) -> None:
    """A decided wait is never shown as open again."""
    deciding = DecidingStore(store)
    runner = Runner(make_boss(ModelError("down")), store=deciding)
    with pytest.raises(ModelError):
        runner.start("go", run_id="r")

    # When a resume that stops for a model creates the other child's wait object again
    deciding.arm()
    with pytest.raises(ModelError):
        runner.resume("r")
    assert deciding.has_decided

    # Then the wait is not listed, and the decision is used
    assert [] == list(runner.waiting())
    assert isinstance(Runner(make_boss("B end"), store=store).resume("r"), Finished)
    assert ["pay "] == effect_log.names()


def test_sweep_removes_the_wait_object_that_a_dead_process_recreated() -> None:
    """A sweep deletes the object, also if the run has ended."""
    clock = ManualClock()
    store = MemoryStore(clock.now)
    deciding = DecidingStore(store)
    dying = FaultyStore(deciding, on("create", crashed("after"), prefix="waits/"))
    other = Runner(make_boss("B end"), store=store, clock=clock)
    with pytest.raises(ModelError):
        Runner(make_boss(ModelError("down")), store=store, clock=clock).start(
            "go", run_id="r"
        )

    # When a process creates the object again and dies, after another ended the run
    deciding.arm(other.async_runner)
    with suppress(Crash):
        Runner(make_boss(ModelError("down")), store=dying, clock=clock).resume("r")
    assert deciding.has_decided
    assert dying.has_crashed
    assert "finished" == other.look("r").status
    assert 1 == len(list(other.waiting()))

    # Then no sweep leaves it listed
    for _ in range(3):
        clock.seconds += 3600
        other.sweep()
    assert [] == list(other.waiting())
    assert ["pay "] == effect_log.names()
