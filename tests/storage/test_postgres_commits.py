"""Commits of several changes on Postgres: other settings, and errors of each step."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote

import psycopg
import pytest

from continuations_storage import AlreadyExists, Unavailable
from continuations_storage.contract import Changes, Listing
from continuations_storage.errors import OutOfTime
from continuations_storage.postgres import PostgresStore
from continuations_storage.retries import RetryPolicy
from tests.storage.cutting_proxy import run_proxy

if TYPE_CHECKING:
    from tests.postgres_server import PostgresServer

ONCE = RetryPolicy(max_attempts=1)
QUICK = RetryPolicy(max_attempts=6, first_delay=0.01, max_delay=0.05)
BODIES = (b"", b"%s %% %(a)s", b"'; DROP TABLE x; --\\'\\", bytes(range(256)))
SETTINGS = (
    "default_transaction_isolation=serializable",
    r"default_transaction_isolation=repeatable\ read",
    "standard_conforming_strings=off",
    "bytea_output=escape",
    "synchronous_commit=off",
    "DateStyle=SQL,DMY",
)


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """Return the URL of an empty store."""
    return postgres.new_url()


def schema_of(url: str) -> str:
    return url.partition("schema=")[2].partition("&")[0]


def with_setting(url: str, setting: str) -> str:
    return f"{url}&options={quote(f'-c {setting}')}"


def around_now(hours: float = 0) -> tuple[datetime, datetime]:
    """Return a minute before and a minute after a time of this machine."""
    now = datetime.now(UTC) + timedelta(hours=hours)
    return now - timedelta(minutes=1), now + timedelta(minutes=1)


def keys_of(postgres: PostgresServer, url: str) -> list[str]:
    query = f"SELECT key FROM {schema_of(url)}.objects ORDER BY key"  # noqa: S608 -- a test's schema
    return [key for (key,) in postgres.rows(query)]


@pytest.mark.parametrize("setting", SETTINGS)
async def test_settings_of_a_session_change_no_commit(setting: str, url: str) -> None:
    store = PostgresStore(with_setting(url, setting), retry_policy=QUICK)
    for number, body in enumerate((*BODIES, bytes(1 << 19))):
        also = {f"a/{number}/{place}": other for place, other in enumerate(BODIES)}
        await store.create(f"old/{number}", b"")
        changes = Changes(
            key=f"k/{number}",
            body=body,
            also=also,
            between=around_now(),
            listing=Listing(f"a/{number}/"),
            deletes=[f"old/{number}"],
        )

        with pytest.raises(OutOfTime):
            await store.commit(changes._replace(between=around_now(hours=1)))
        committed = await store.commit(changes)

        assert (committed.page, committed.is_cleaned) == ([*also], True)
        assert body == await store.read(changes.key)
        assert [*also.values()] == [await store.read(key) for key in also]
        with pytest.raises(AlreadyExists):
            await store.commit(changes)
    assert not await store.keys("old/")


async def test_commits_in_serializable_transactions_are_all_made(url: str) -> None:
    """Conflicts are tried again, and a conflict of the steps changes no creates."""
    setting = "default_transaction_isolation=serializable"
    store = PostgresStore(with_setting(url, setting), retry_policy=QUICK)

    async def work(name: int) -> None:
        for number in range(99, 89, -1):
            key, mark = f"v/{name}/{number}", f"m/{name}/{number}"
            await store.create(mark, b"")
            changes = Changes(
                key=key,
                body=b"",
                also={f"a/{number}": b""},
                listing=Listing("v/"),
                deletes=[mark],
                only_if_first=f"v/{name}/",
            )
            committed = await store.commit(changes)
            assert committed.page is None or key in committed.page
            if not committed.is_cleaned:
                await store.delete(mark)

    await asyncio.gather(*map(work, range(6)))
    assert 60 == len(await store.keys("v/"))
    assert not await store.keys("m/")


FAILING_COMMIT = """
CREATE SEQUENCE {schema}.seen;
CREATE FUNCTION {schema}.fail() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF nextval('{schema}.seen') <= {times} THEN
        RAISE EXCEPTION 'conflict' USING ERRCODE = '40001', DETAIL = 'secret body';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON {schema}.objects
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.fail();
"""


async def test_conflict_at_the_end_of_the_creates_is_tried_again(
    url: str, postgres: PostgresServer
) -> None:
    postgres.rows(FAILING_COMMIT.format(schema=schema_of(url), times=2))
    store = PostgresStore(url, retry_policy=QUICK)

    committed = await store.commit(Changes(key="k", body=b"", deletes=["x"]))

    assert committed.is_cleaned
    assert ["k"] == keys_of(postgres, url)


async def test_creates_that_fail_at_their_end_wrote_nothing(
    url: str, postgres: PostgresServer
) -> None:
    """The error says so, and quotes no row."""
    postgres.rows(FAILING_COMMIT.format(schema=schema_of(url), times=100))
    store = PostgresStore(url, retry_policy=QUICK)

    with pytest.raises(Unavailable, match="40001: conflict") as raised:
        await store.commit(Changes(key="k", body=b"", also={"a": b""}, deletes=["x"]))

    assert "secret" not in str(raised.value)
    assert not keys_of(postgres, url)


def end_waiting_connections(postgres: PostgresServer) -> None:
    """Wait until a connection waits for a lock, and end it."""
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    while not postgres.rows(f"{end} WHERE wait_event_type = 'Lock'"):
        time.sleep(0.01)


@pytest.mark.parametrize("size", [1, 1 << 19])
@pytest.mark.parametrize("end", ["error", "lost connection"])
async def test_steps_that_end_with_an_error_leave_the_creates(
    end: str, size: int, url: str, postgres: PostgresServer
) -> None:
    """The next operation has a connection that works."""
    setting = "statement_timeout=" + ("200" if end == "error" else "0")
    store = PostgresStore(with_setting(url, setting), retry_policy=ONCE)
    await store.create("held", b"")
    held = f"SELECT FROM {schema_of(url)}.objects WHERE key = 'held' FOR UPDATE"
    changes = Changes(key="a", body=bytes(size), between=around_now(), deletes=["held"])
    with psycopg.connect(postgres.url()) as connection:
        connection.execute(held.encode())
        commit = asyncio.create_task(store.commit(changes))
        if end != "error":
            await asyncio.to_thread(end_waiting_connections, postgres)
        committed = await commit
    assert (None, False) == (committed.page, committed.is_cleaned)
    assert committed.store_time == await store.created_at("a")
    assert ["a", "held"] == await store.keys("")


async def test_body_that_an_open_transaction_deletes_is_left_out_at_once(
    url: str, postgres: PostgresServer
) -> None:
    """An application may have decided a wait, and not committed yet."""
    store = PostgresStore(url, retry_policy=ONCE)
    await store.create("waits/w", b"first")
    table = f"{schema_of(url)}.objects"
    delete = f"DELETE FROM {table} WHERE key = 'waits/w'"  # noqa: S608 -- a test's table
    with psycopg.connect(postgres.url()) as connection:
        connection.execute(delete.encode())
        begun = time.monotonic()
        await store.commit(Changes(key="a", body=b"", also={"waits/w": b"", "b": b""}))
        assert time.monotonic() - begun < 1

    assert ["a", "b"] == await store.keys("")


@pytest.mark.parametrize("size", [1, 1 << 19])
async def test_commit_at_another_time_writes_nothing_and_reports_nothing(
    size: int, url: str
) -> None:
    store = PostgresStore(url, retry_policy=ONCE, watched_prefixes=("m/",))
    await store.create("old", b"")
    changes = Changes(
        key="k",
        body=bytes(size),
        also={"m/1": b""},
        listing=Listing(""),
        deletes=["old"],
    )
    watching = store.watch("m/")
    assert watching is not None
    async with watching as watch:
        for hours in (-1, 1):
            with pytest.raises(OutOfTime, match="key 'k' in postgresql://"):
                await store.commit(changes._replace(between=around_now(hours)))
        assert not await watch.wait(0.2)
        await store.commit(changes._replace(between=around_now()))
        assert await watch.wait(5)

    assert ["k", "m/1"] == await store.keys("")


async def test_commit_that_was_made_before_it_came_again_too_late_is_made(
    url: str, postgres: PostgresServer
) -> None:
    """No reply came, and a second request comes at another time."""
    with run_proxy(postgres.port) as proxy:
        through = url.replace(f":{postgres.port}/", f":{proxy.port}/")
        store = PostgresStore(through, timeout=0.5, retry_policy=QUICK)
        await store.create("other", b"")
        proxy.plan("silent", "INSERT", times=1)
        now = datetime.now(UTC)
        between = now - timedelta(minutes=1), now + timedelta(seconds=0.3)

        made = await store.commit(Changes(key="k", body=b"", between=between))

    assert 1 == proxy.cut
    assert ["k", "other"] == keys_of(postgres, url)
    assert made.store_time == await PostgresStore(url).created_at("k")


async def test_thousands_of_bodies_and_deletes_go_together(url: str) -> None:
    store = PostgresStore(url, retry_policy=ONCE)
    also = {f"a/{number:04d}": b"%d" % number for number in range(3000)}
    listing = Listing("a/", limit=5000)
    changes = Changes(key="k", body=b"", also=also, listing=listing, deletes=[*also])

    committed = await store.commit(changes)

    assert (committed.page, committed.is_cleaned) == ([*also], True)
    assert ["k"] == await store.keys("")


async def test_commits_of_the_same_bodies_do_not_wait_for_each_other_in_a_circle(
    url: str,
) -> None:
    """Calls may name them in any order."""
    store = PostgresStore(url, retry_policy=ONCE)

    async def commit(number: int, name: int) -> None:
        keys = [f"a/{number}/{place}" for place in range(200)]
        also = dict.fromkeys(keys[:: 1 if name % 2 else -1], b"")
        await store.commit(Changes(key=f"k/{number}/{name}", body=b"", also=also))

    for number in range(8):
        await asyncio.gather(*(commit(number, name) for name in range(8)))
    assert 64 == len(await store.keys("k/"))
