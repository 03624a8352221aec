"""A start that died left a wait for an event, and the event has ended that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from continuations import Flow, Runner, wait_for, workflow
from continuations.errors import Corrupt
from continuations.ledger import layout
from continuations.ledger.objects import Objects
from continuations.ledger.repair import doctor
from continuations_storage import MemoryStore, Store
from continuations_storage.faults import Crash, ForwardingStore
from tests.clocks import ManualClock


@workflow
async def clerk(_flow: Flow) -> str:
    """Wait for a receipt."""
    return await wait_for("receipt", str)


class DyingStore(ForwardingStore):
    """The process dies before it creates version 1."""

    async def create(self, key: str, body: bytes) -> datetime | None:
        if "/v/" in key:
            raise Crash
        return await self.inner.create(key, body)


def make_runner(store: Store, clock: ManualClock) -> Runner[str]:
    return Runner(clerk, store=store, clock=clock)


def repair(store: Store, clock: ManualClock, new_ulid: Callable[[], str]) -> Any:
    objects = Objects(store)
    return asyncio.run(doctor.repair(objects, "r1", now=clock.now(), new_ulid=new_ulid))


def test_repair_of_a_run_without_versions_says_to_start_it_again() -> None:
    clock = ManualClock()
    store = MemoryStore(clock.now)
    with pytest.raises(Crash):
        make_runner(DyingStore(store), clock).start(clerk.bind(), run_id="r1")
    Runner([], store=store, clock=clock).publish("receipt", "r-7")
    arrived = asyncio.run(store.keys(layout.arrivals_prefix("r1")))

    with pytest.raises(Corrupt, match="has no version of this run, only decisions"):
        repair(store, clock, lambda: "01kdvdna00q7q5nqp61n9f7e3p")
    assert arrived == asyncio.run(store.keys(layout.arrivals_prefix("r1")))

    # The new wait takes the event, which is kept for two days.
    outcome = make_runner(store, clock).start(clerk.bind(), run_id="r1")
    assert "r-7" == outcome.result()
