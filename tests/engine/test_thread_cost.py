"""A message of a thread costs the same after a long conversation."""

from __future__ import annotations

import math
from collections import Counter
from datetime import datetime
from typing import Any

from continuations import Agent, Replied, Runner, Suspended, ask
from continuations.models.scripted import ScriptedModel, ToolCall
from tests.clocks import ManualClock
from tests.engine.agent_builders import wait_tool
from tests.outcomes import expect
from tests.stores import OneByOneStore

_THREADS = 1_000

wait_long = wait_tool("wait_long", lambda: ask("Which?"), Any)


class CountingStore(OneByOneStore):
    """A store that counts its requests, and keeps the prefixes of listings."""

    def __init__(self) -> None:
        super().__init__(ManualClock().now)
        self.requests: Counter[str] = Counter()
        self.listed: list[str] = []

    async def create(self, key: str, body: bytes) -> datetime | None:
        self.requests["create"] += 1
        return await super().create(key, body)

    async def read(self, key: str) -> bytes:
        self.requests["read"] += 1
        return await super().read(key)

    async def delete(self, key: str) -> None:
        self.requests["delete"] += 1
        await super().delete(key)

    async def keys(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        self.requests["keys"] += 1
        self.listed.append(prefix)
        return await super().keys(prefix, after, limit)

    def reset(self) -> None:
        self.requests.clear()
        self.listed.clear()


def make_runner(store: CountingStore) -> Runner:
    agent = Agent("support", model=ScriptedModel(lambda _request: "Yes."))
    return Runner(agent, store=store, clock=ManualClock())


def send(runner: Runner, key: str, **options: Any) -> Replied[Any]:
    return expect(runner.thread(key=key).send("Hello", **options), Replied)


def test_a_message_costs_the_same_requests_at_every_length() -> None:
    """Reads grow with the logarithm of the versions, and nothing else grows."""
    store = CountingStore()
    runner = make_runner(store)
    costs: dict[int, Counter[str]] = {}
    versions: dict[int, int] = {}
    for number in range(1, 401):
        store.reset()
        reply = send(runner, "k", by="ann", id=f"m{number}")
        costs[number] = store.requests.copy()
        versions[number] = reply.continuation.version
    for kind in ("create", "keys", "delete"):
        assert costs[10][kind] == costs[400][kind], kind
    for number in (10, 400):
        assert costs[number]["read"] <= math.log2(versions[number]) + 4


def test_a_message_costs_the_same_after_many_requests_of_operators() -> None:
    """More than one page of requests that the thread has taken in is passed over."""
    store = CountingStore()
    runner = make_runner(store)
    run_id = send(runner, "k").run_id
    costs: list[Counter[str]] = []
    for pairs in (60, 200):
        for _ in range(pairs):
            runner.pause(run_id)
            runner.unpause(run_id)
        assert {} == runner.sweep().errors
        store.reset()
        send(runner, "k")
        costs.append(store.requests.copy())

    assert costs[0]["keys"] == costs[1]["keys"]
    assert costs[0]["create"] == costs[1]["create"]


def test_an_interruption_costs_the_same_with_many_unread_messages() -> None:
    """Its message is posted behind them, and none of them is read."""
    costs: list[Counter[str]] = []
    for unread in (0, 50):
        store = CountingStore()
        model = ScriptedModel([ToolCall("wait_long", {}), "Yes."])
        agent = Agent("support", tools=[wait_long], model=model)
        runner = Runner(agent, store=store, clock=ManualClock())
        thread = runner.thread(key="k")
        assert isinstance(thread.send("Hello"), Suspended)
        for number in range(unread):
            thread.post(f"message {number}", by="ann")
        store.reset()
        thread.post("Stop", by="ann", when_busy="interrupt")
        costs.append(Counter(store.requests))
    assert costs[0]["create"] == costs[1]["create"]
    # The last unread message tells how many bytes there are.
    assert costs[1].total() <= costs[0].total() + 2


def test_idle_threads_are_in_no_list_and_cost_a_sweep_nothing() -> None:
    """A sweep makes the requests that it makes in a store without threads."""
    store = CountingStore()
    runner = make_runner(store)
    for number in range(_THREADS):
        send(runner, str(number))
    assert [] == list(runner.waiting())
    store.reset()

    swept = runner.sweep()

    empty = CountingStore()
    make_runner(empty).sweep()
    assert 0 == swept.runs_checked
    assert empty.requests == store.requests
    assert {"markers/"} == set(store.listed)
