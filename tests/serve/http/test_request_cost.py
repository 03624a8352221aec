"""The cost of a decision over HTTP, in counts: times depend on the machine."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from continuations import Approve, AsyncRunner, open_store
from continuations.serve.http import asgi
from continuations.serve.http.api import HttpApi
from continuations_storage import MemoryStore, Store
from continuations_storage.faults import FaultyStore
from continuations_storage.thread_pool import DaemonThreadPool, PoolCall
from tests.serve.http.api_fixture import ApiFixture

BODY = b'{"decision": "approve"}'
HEADERS = [
    (b"host", b"api.example"),
    (b"content-type", b"application/json"),
    (b"content-length", str(len(BODY)).encode()),
    (b"accept", b"*/*"),
]


async def waiting_runs(store: Store, count: int) -> list[str]:
    """Start runs; return the ids of their waits."""
    fixture = ApiFixture(store)
    return [(await fixture.start_waiting_run(f"r{n}")).id for n in range(count)]


async def decide(app: Any, wait_id: str) -> None:
    """Send a decision to an ASGI application, as a server does."""
    path = f"/waits/{wait_id}/decision"
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": HEADERS,
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": BODY, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    assert 200 == sent[0]["status"]


def make_app(store: Store) -> Any:
    """Return the HTTP API of a store, as an ASGI application."""
    return asgi.app(HttpApi(AsyncRunner([], store=store), verify=lambda _: "kim"))


def count_calls(work: Coroutine[Any, Any, None], loop: asyncio.Runner) -> int:
    """Return how many Python functions are called while a coroutine runs."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    async def counted() -> None:
        sys.setprofile(count)
        try:
            await work
        finally:
            sys.setprofile(None)

    loop.run(counted())
    return calls


async def test_decision_makes_four_operations_and_at_most_three_thread_hops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only operations that wait for the disk go through a thread, never the read."""
    hops = 0
    start = DaemonThreadPool.start

    def counted(self: DaemonThreadPool, call: PoolCall) -> None:
        nonlocal hops
        hops += self.name == "continuations-file"
        start(self, call)

    url = f"file:{tmp_path}"
    (wait_id,) = await waiting_runs(open_store(url), 1)
    store = FaultyStore(open_store(url))
    monkeypatch.setattr(DaemonThreadPool, "start", counted)
    await decide(make_app(store), wait_id)
    assert ["read", "create", "create", "delete"] == [
        operation.verb for operation in store.operations
    ]
    assert 2 <= hops <= 3


async def test_decisions_at_the_same_time_share_a_few_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No thread begins beside tasks that are ready: they join its group first."""
    groups = 0
    start = DaemonThreadPool.start

    def counted(self: DaemonThreadPool, call: PoolCall) -> None:
        nonlocal groups
        groups += self.name == "continuations-file"
        start(self, call)

    store = open_store(f"file:{tmp_path}")
    wait_ids = await waiting_runs(store, 16)
    app = make_app(store)
    monkeypatch.setattr(DaemonThreadPool, "start", counted)
    await asyncio.gather(*(decide(app, each) for each in wait_ids))

    # The markers, the decisions, and the deletes; a busy machine may divide a group.
    assert 3 <= groups <= 9


def test_http_adds_little_to_a_decision_and_imports_nothing() -> None:
    """A request makes few Python calls beside those of `runner.decide`."""
    store = MemoryStore()
    with asyncio.Runner() as loop:
        *earlier, first, second, third, fourth, fifth = loop.run(
            waiting_runs(store, 45)
        )
        app, runner = make_app(store), AsyncRunner([], store=store)
        # Then the methods of the values of a decision are compiled (`value_class`).
        for wait_id in earlier:
            loop.run(decide(app, wait_id))

        async def decide_directly(wait_id: str) -> None:
            await runner.decide(wait_id, Approve(by="kim"))

        loop.run(decide_directly(first))
        modules = set(sys.modules)
        # A value that is seldom made may be compiled in one of them.
        over_http = min(
            count_calls(decide(app, each), loop) for each in (second, third)
        )
        directly = min(
            count_calls(decide_directly(each), loop) for each in (fourth, fifth)
        )

    assert modules == set(sys.modules)
    assert 50 < directly < 240
    assert over_http < 1.6 * directly
    assert over_http < 330
