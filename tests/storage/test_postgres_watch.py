"""A watch of Postgres: what is reported, and connections that end or never listen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from continuations import open_store as continuations_open_store
from continuations.ledger import layout
from continuations_storage import AlreadyExists, Store, open_store
from continuations_storage.contract import Watch, watch, within
from continuations_storage.postgres_sql import ObjectTable
from tests.postgres_server import PostgresServer


def opened(server: PostgresServer, port: int | None = None) -> Store:
    """Return a new store that watches two prefixes."""
    return open_store(server.new_url(port), watched_prefixes=("m/0-", "other/"))


def listeners(server: PostgresServer) -> int:
    """Return the number of connections whose last statement listens."""
    query = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
    return len(server.rows(query))


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    for _ in range(1000):
        if await asyncio.to_thread(condition):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(condition)


async def test_only_creates_of_watched_prefixes_notify(
    postgres: PostgresServer,
) -> None:
    """Notices let commits wait for each other, so few creates send one."""
    store = opened(postgres)
    assert watch(store, "m/1-") is None
    watching = watch(store, "m/0-")
    assert watching is not None
    async with watching as watched:
        for key in ("m/1-a", "m/0-a/deeper", "other/a", "runs/a"):
            await store.create(key, b"")
        assert not await watched.wait(0.2)
        await store.create("m/0-b", b"")
        began_at = time.monotonic()
        assert await watched.wait(60)
        assert time.monotonic() - began_at < 1


async def test_two_schemas_of_a_database_have_their_own_reports(
    postgres: PostgresServer,
) -> None:
    one, other = opened(postgres), opened(postgres)
    watching = watch(one, "m/0-")
    assert watching is not None
    async with watching as watched:
        await other.create("m/0-a", b"")
        assert not await watched.wait(0.2)


async def test_create_that_is_not_made_notifies_no_process(
    postgres: PostgresServer,
) -> None:
    store = opened(postgres)
    await store.create("m/0-a", b"")
    watching = watch(store, "m/0-")
    assert watching is not None
    async with watching as watched:
        with pytest.raises(AlreadyExists):
            await store.create("m/0-a", b"")
        assert not await watched.wait(0.2)


def test_stores_of_applications_watch_the_markers_that_are_due_now(
    postgres: PostgresServer,
) -> None:
    store = continuations_open_store(postgres.new_url())

    assert watch(store, layout.DUE_NOW_PREFIX) is not None
    assert watch(store, layout.MARKERS_PREFIX) is None


def test_channel_has_no_name_of_a_schema_or_key() -> None:
    """All users of a database see the channels, so these are digests."""
    channel = ObjectTable("payroll").channel("markers/")

    assert "payroll" not in channel
    assert "markers" not in channel
    assert 63 >= len(channel)


async def test_create_in_a_transaction_of_an_application_is_reported_at_its_commit(
    postgres: PostgresServer,
) -> None:
    store = opened(postgres)
    watching = watch(store, "m/0-")
    assert watching is not None
    async with watching as watched:
        with postgres.connect() as connection:
            with connection.transaction():
                await create_within(store, connection, "m/0-a")
                assert not await watched.wait(0.2)
            assert await watched.wait(60)
            with connection.transaction(force_rollback=True):
                await create_within(store, connection, "m/0-b")
        assert not await watched.wait(0.2)


async def create_within(store: Store, connection: object, key: str) -> None:
    """Create a key in an open transaction."""
    inside = within(store, connection)
    assert inside is not None
    await inside.create(key, b"")


async def test_ended_connection_listens_again_and_reports_what_it_may_have_missed(
    postgres: PostgresServer,
) -> None:
    store = opened(postgres)
    watching = watch(store, "m/0-")
    assert watching is not None
    async with watching as watched:
        assert not await watched.wait(0.05)
        await asyncio.to_thread(postgres.terminate_others, "query LIKE 'LISTEN%'")
        assert await watched.wait(60)
        await until(lambda: listeners(postgres) == 1)
        while await watched.wait(0.1):
            pass
        await store.create("m/0-b", b"")
        assert await watched.wait(60)
    await until(lambda: listeners(postgres) == 0)


async def test_server_that_restarts_is_heard_again(
    durable_postgres: PostgresServer,
) -> None:
    """While it is down, the caller sleeps; no error is raised."""
    store = opened(durable_postgres)
    watching = watch(store, "m/0-")
    assert watching is not None
    async with watching as watched:
        await asyncio.to_thread(durable_postgres.stop)
        assert not await watched.wait(0.3)
        await asyncio.to_thread(durable_postgres.start)
        assert await watched.wait(60)
        await store.create("m/0-a", b"")
        assert await watched.wait(60)


async def test_without_a_server_the_block_begins_and_reports_nothing() -> None:
    store = open_store(
        "postgresql://u:secret@127.0.0.1:1/app", watched_prefixes=("m/",)
    )
    watching = watch(store, "m/")
    assert watching is not None
    async with watching as watched:
        began_at = time.monotonic()
        assert not await watched.wait(0.2)
        assert 0.2 <= time.monotonic() - began_at < 2


async def test_behind_a_pooler_nothing_listens(
    postgres: PostgresServer, bouncer: int
) -> None:
    """A notification would come to another client of the same connection."""
    store = opened(postgres, bouncer)
    watching = watch(store, "m/0-")
    assert watching is not None
    async with watching as watched:
        await store.create("m/0-a", b"")
        assert not await watched.wait(0.3)
        assert 0 == await asyncio.to_thread(listeners, postgres)


async def test_quiet_connection_is_asked_whether_it_is_still_there(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reports that come during the question are kept."""
    monkeypatch.setattr("continuations_storage.postgres_watch._QUIET_SECONDS", 0.01)
    store = opened(postgres)
    watching: Any = watch(store, "m/0-")
    async with watching as watched:
        checked: Watch = watched
        for number in range(20):
            waiting = asyncio.ensure_future(checked.wait(60))
            await asyncio.sleep(0.003 * number)
            await store.create(f"m/0-{number}", b"")
            assert await waiting
