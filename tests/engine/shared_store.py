"""A store that several machines share, and a clock that the test sets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from continuations import Agent, Runner
from continuations.ledger import layout
from continuations_storage import MemoryStore, Store
from continuations_storage.faults import Crash, FaultyStore, crashed, on
from tests.clocks import ManualClock, ShiftedClock
from tests.engine.agent_builders import make_boss
from tests.engine.payment_agent import PAY_SCRIPT, make_pay_tool, start_and_get_wait


def store_with_create_time(clock: ManualClock) -> MemoryStore:
    """Return a store that tells a clock's time with each create."""
    return MemoryStore(clock.now)


class SharedStore:
    """A store with the right clock, and the machines that share it.

    Attributes:
        clock: The right clock, which is also the clock of the store.
        store: The store.
        policy: The approval policy of the payment, which is the only tool of a machine
            that gets no other agents.
    """

    def __init__(
        self, make_store: Callable[[ManualClock], MemoryStore] = store_with_create_time
    ) -> None:
        self.clock = ManualClock()
        self.store = make_store(self.clock)
        self.policy: Any = True

    def machine(
        self,
        offset: timedelta = timedelta(),
        store: Store | None = None,
        *,
        agents: Agent | Sequence[Agent] | None = None,
        **options: Any,
    ) -> Runner:
        """Return the runner of a machine.

        Args:
            offset: How much its clock is ahead.
            store: A store around the shared one, for example a faulty one.
            agents: Its agents, for example `[]`.
            options: Further options of the runner.
        """
        if agents is None:
            agents = make_boss(PAY_SCRIPT, make_pay_tool(self.policy))
        return Runner(
            agents,
            store=store or self.store,
            clock=ShiftedClock(self.clock, offset),
            **options,
        )

    def suspend(self, run_id: str) -> str:
        """Start a run on a right machine; return the id of its wait."""
        return start_and_get_wait(self.machine(), run_id).id

    def abandon(self, run_id: str) -> None:
        """Start a run on a machine that dies while the model works."""
        dying = FaultyStore(
            self.store, on("create", crashed("before"), prefix="runs/", skip=1)
        )
        with pytest.raises(Crash):
            self.machine(store=dying).start("go", run_id=run_id)

    def keys(self, *prefixes: str) -> list[str]:
        async def list_keys() -> list[str]:
            pages = [await self.store.keys(each, limit=10_000) for each in prefixes]
            return [key for page in pages for key in page]

        return asyncio.run(list_keys())

    def markers(self) -> list[str]:
        return self.keys(layout.MARKERS_PREFIX)

    def due_times(self) -> list[float]:
        """Return the due times of the markers, in seconds of the clock."""
        start = ManualClock().now().timestamp()
        parsed = [layout.parse_marker(key) for key in self.markers()]
        return [each.due_ms / 1000 - start for each in parsed if each is not None]
