"""Exchanges with Postgres: cancelled ones, prepared statements, loops, round trips."""
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import gc
import os
import random
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.waiting import Wait

from continuations_storage import (
    AlreadyExists,
    StorageError,
    Unavailable,
    postgres_connections,
)
from continuations_storage.contract import Changes, Listing
from continuations_storage.postgres import PostgresStore
from continuations_storage.postgres_connections import (
    _MAX_CONNECTIONS,
    _Connection,
    _threads,
    _Turns,
    _turns,
)
from continuations_storage.postgres_ephemeral import PostgresEphemeral
from continuations_storage.postgres_exchange import LoopRun
from continuations_storage.postgres_sql import ObjectTable, Statement
from continuations_storage.retries import RetryPolicy
from tests.storage.cutting_proxy import run_proxy

if TYPE_CHECKING:
    from collections.abc import Generator

    from psycopg.waiting import Ready

    from tests.postgres_server import PostgresServer

ONCE = RetryPolicy(max_attempts=1)
QUICK = RetryPolicy(max_attempts=6, first_delay=0.01, max_delay=0.05)


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """Return the URL of an empty store."""
    return postgres.new_url()


@pytest.fixture(autouse=True)
def _own_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin without connections: the stores of other tests share them."""
    monkeypatch.setattr(postgres_connections, "_pools", {})


def schema_of(url: str) -> str:
    return url.partition("schema=")[2].partition("&")[0]


def idle_connections(store: PostgresStore) -> list[_Connection]:
    return [connection for _, connection in store._connections._pool().idle]


async def use_twice(store: PostgresStore) -> _Connection:
    """Return the connection of two exchanges; the second one prepares."""
    store._connections.close_idle()
    for _ in range(2):
        await store.keys("")
    [connection] = idle_connections(store)
    return connection


# Cancelled exchanges --------------------------------------------------------------


async def test_connection_of_a_cancelled_exchange_is_not_used_again(
    url: str, postgres: PostgresServer
) -> None:
    """It waits for the transaction of another program, which it would hear later."""
    store = PostgresStore(url, retry_policy=ONCE)
    connection = await use_twice(store)
    create = ObjectTable(schema_of(url)).create("a", b"theirs", os.urandom(16).hex())
    with psycopg.connect(postgres.url()) as other:
        other.execute(create.sql.encode(), create.values)
        waiting = asyncio.create_task(store.create("a", b"ours"))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert connection.closed
        assert [] == await store.keys("")
    assert b"theirs" == await store.read("a")


async def test_cancellation_at_any_moment_mixes_no_replies(url: str) -> None:
    store = PostgresStore(url, retry_policy=ONCE)
    bodies = {f"k/{n}": str(n).encode() * 2000 for n in range(20)}
    for key, body in bodies.items():
        await store.create(key, body)
    chance = random.Random(1)  # noqa: S311 -- repeatable
    ended = 0
    for _ in range(40):
        reads = {key: asyncio.create_task(store.read(key)) for key in bodies}
        await asyncio.sleep(chance.random() * 0.004)
        for key in chance.sample([*bodies], 10):
            reads[key].cancel()
        for key, read in reads.items():
            try:
                assert bodies[key] == await read
                ended += 1
            except asyncio.CancelledError:
                pass

    assert ended >= 400
    assert _MAX_CONNECTIONS >= len(idle_connections(store))


def test_exchanges_of_loops_that_were_left_hinder_no_others(url: str) -> None:
    store = PostgresStore(url, retry_policy=ONCE)
    asyncio.run(store.create("a", b""))
    left: list[Any] = []
    for _ in range(2 * _MAX_CONNECTIONS):
        loop = asyncio.new_event_loop()
        left.append(loop.create_task(store.read("a")))
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()

    assert b"" == asyncio.run(asyncio.wait_for(store.read("a"), 10))
    while left:
        left.pop()._log_destroy_pending = False
        gc.collect()


def test_exchanges_of_a_stopped_loop_hinder_no_others(url: str) -> None:
    """The loop is not closed: it may go on later."""
    store = PostgresStore(url, retry_policy=ONCE)
    asyncio.run(store.create("a", b""))
    loop = asyncio.new_event_loop()

    async def begin() -> list[asyncio.Task[bytes]]:
        reads = range(2 * _MAX_CONNECTIONS)
        tasks = [asyncio.create_task(store.read("a")) for _ in reads]
        await asyncio.sleep(0)
        return tasks

    begun = loop.run_until_complete(begin())

    assert b"" == asyncio.run(asyncio.wait_for(store.read("a"), 10))
    bodies = loop.run_until_complete(asyncio.gather(*begun))
    assert {b""} == {*bodies}
    loop.close()


# Prepared statements --------------------------------------------------------------


async def test_statements_are_prepared_once_on_each_connection(url: str) -> None:
    store = PostgresStore(url, retry_policy=ONCE)
    connection = await use_twice(store)
    for number in range(8):
        also = {f"a/{number}/{n}": b"" for n in range(number + 1)}
        await store.commit(Changes(key=f"k/{number}", body=b"", also=also))

    names = "SELECT name FROM pg_prepared_statements"
    assert 2 == len(connection.execute(names.encode()).fetchall())


async def test_statements_of_many_schemas_do_not_fill_the_server(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("continuations_storage.postgres_exchange._MAX_PREPARED", 3)
    store = PostgresStore(postgres.new_url(), retry_policy=ONCE)
    connection = await use_twice(store)
    for _ in range(5):
        other = PostgresStore(postgres.new_url(), retry_policy=ONCE)
        await other.create("a", b"body")
        assert b"body" == await other.read("a")

    names = "SELECT name FROM pg_prepared_statements"
    assert 3 == len(connection.execute(names.encode()).fetchall())
    assert [connection] == idle_connections(store)


@pytest.mark.parametrize("loss", ["DISCARD ALL", "DEALLOCATE ALL"])
async def test_connection_that_lost_its_statements_is_replaced(
    loss: str, url: str
) -> None:
    """Not even one attempt fails, although the policy allows no second one."""
    store = PostgresStore(url, retry_policy=ONCE)
    changes = Changes(key="b", body=b"2", listing=Listing(""), deletes=["a"])
    connection = await use_twice(store)
    await store.commit(changes._replace(key="a", deletes=["0"]))
    connection.execute(loss.encode())

    committed = await store.commit(changes)
    other = await use_twice(store)

    assert (["a", "b"], True) == (committed.page, committed.is_cleaned)
    assert ["b"] == await store.keys("")
    assert connection.closed
    assert not other._own_statements, "it prepares again"


async def test_steps_that_lost_their_statements_are_left_to_the_caller(
    url: str,
) -> None:
    store = PostgresStore(url, retry_policy=ONCE)
    connection = await use_twice(store)
    changes = Changes(key="b", body=b"", listing=Listing(""))
    await store.commit(changes._replace(key="a"))
    listing = ObjectTable(schema_of(url)).list_keys(Listing(""))
    for (name,) in connection.execute(
        b"SELECT name FROM pg_prepared_statements WHERE statement LIKE %s",
        [listing.sql[:40] + "%"],
    ):
        connection.execute(f"DEALLOCATE {name}".encode())

    committed = await store.commit(changes)

    assert (None, False) == (committed.page, committed.is_cleaned)
    assert ["a", "b"] == await store.keys("")


async def test_statement_that_exists_already_is_sent_again(url: str) -> None:
    store = PostgresStore(url, retry_policy=ONCE)
    await store.create("a", b"body")
    connection = await use_twice(store)
    assert b"body" == await store.read("a")
    connection._own_statements = set()

    assert b"body" == await store.read("a")


async def test_nothing_is_prepared_behind_a_pooler(
    postgres: PostgresServer, bouncer: int
) -> None:
    """Its connections keep the settings that other programs of it expect."""
    store = PostgresStore(postgres.new_url(bouncer), retry_policy=ONCE)

    async def work(name: int) -> None:
        for number in range(10):
            key = f"k/{name}/{number}"
            changes = Changes(key=key, body=b"", also={f"a/{key}": b""}, deletes=["x"])
            await store.commit(changes)

    await asyncio.gather(*map(work, range(8)))

    assert 80 == len(await store.keys("k/"))
    url = postgres.url(port=bouncer)
    query = "SELECT name FROM pg_prepared_statements UNION "
    query += "SELECT name FROM pg_settings WHERE source = 'session' AND name IN ("
    query += "'plan_cache_mode', 'enable_seqscan', 'enable_hashjoin')"
    for _ in range(8):
        with psycopg.connect(url, prepare_threshold=None) as other:
            assert [] == other.execute(query.encode()).fetchall()


async def test_pooler_mixes_no_replies_of_a_cancelled_commit(
    postgres: PostgresServer, bouncer: int
) -> None:
    """PgBouncer gives a connection on after the first sync, whatever comes then."""
    url = postgres.new_url(bouncer)
    store = PostgresStore(url, retry_policy=QUICK)
    for number in range(9):
        await store.create(f"r/{number}", f"body {number}".encode())
    await store.create("old", b"")
    for number in range(4):
        with postgres.connect() as other, other.transaction():
            lock = f"SELECT FROM {schema_of(url)}.objects WHERE key = 'old' FOR UPDATE"
            other.execute(lock.encode())
            changes = Changes(
                key=f"n/{number}", body=b"", listing=Listing("r/"), deletes=["old"]
            )
            commit = asyncio.create_task(store.commit(changes))
            await asyncio.sleep(0.2)
            commit.cancel()
            reads = [asyncio.create_task(store.read(f"r/{n}")) for n in range(9)]
            await asyncio.sleep(0.1)

        bodies = await asyncio.gather(*reads)
        assert [f"body {n}".encode() for n in range(9)] == bodies


async def test_server_without_a_setting_prepares_nothing(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection is used again."""
    monkeypatch.setattr(
        "continuations_storage.postgres_connections._SET_UP",
        "SELECT set_config('no_such_setting', 'off', false) WHERE 0 < %s",
    )
    store = PostgresStore(url, retry_policy=ONCE)
    connection = await use_twice(store)
    await store.create("a", b"")

    assert connection._own_statements is None
    assert [connection] == idle_connections(store)


async def test_pooler_that_hides_itself_loses_no_create(
    postgres: PostgresServer, bouncer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives prepared statements to others, and each create is still made once."""
    monkeypatch.setattr(
        "continuations_storage.postgres_connections._SET_UP",
        "SELECT 1 WHERE %s::bigint IS NOT NULL",
    )
    store = PostgresStore(postgres.new_url(bouncer), retry_policy=ONCE)
    pool = store._connections._pool()
    monkeypatch.setattr(pool, "idle", [])
    monkeypatch.setattr(pool, "prepares", True)

    async def work(name: int) -> None:
        for number in range(20):
            key = f"k/{name}/{number}"
            await store.create(f"m/{name}/{number}", b"")
            await store.commit(
                Changes(key=key, body=b"", deletes=[f"m/{name}/{number}"])
            )
            with pytest.raises(AlreadyExists):
                await store.create(key, b"other")

    await asyncio.gather(*map(work, range(8)))

    assert not pool.prepares
    assert 160 == len(await store.keys("k/"))
    # Steps that were lost are left to the caller.
    assert 160 > len(await store.keys("m/"))


async def test_plans_fit_also_when_the_table_has_grown(
    url: str, postgres: PostgresServer
) -> None:
    """They are made for any values, on a table that is nearly empty."""
    store = PostgresStore(url, retry_policy=ONCE)
    table = ObjectTable(schema_of(url))
    await store.create("k/1", b"")
    postgres.rows(f"VACUUM ANALYZE {schema_of(url)}.objects")
    connection = await use_twice(store)
    changes = Changes(
        key="k/2",
        body=b"",
        also={"a/1": b"", "a/2": b""},
        listing=Listing("k/", "k/1", 10),
        deletes=["k/1"],
        only_if_first="k/",
    )
    maker = "0" * 32
    sent: list[Statement[Any]] = []

    async def keep(statement: Statement[Any]) -> Any:
        sent.append(statement)

    values = PostgresEphemeral(table.ephemeral_name, keep)
    await values.put({"a": b"", "b": b""}, 1)
    await values.remove(["a"])
    await values.names("a")
    without_index = sent[1:]
    for statement in (
        *sent,
        table.read("k/1"),
        table.read_many(["k/1", "k/2"]),
        table.describe("k/1"),
        table.list_with_bodies(Listing("k/", "", 10), "k/", "k/"),
        table.delete("k/1"),
        table.create("k/2", b"", maker),
        table.create_together(changes, maker),
        *table.steps_after(changes, maker),
    ):
        first, *others = statement.sql.split("%s")
        text = first + "".join(f"${n}{part}" for n, part in enumerate(others, 1))
        connection.execute(f"PREPARE own AS {text}".encode())
        nulls = ", ".join(["NULL"] * len(others))
        plan = connection.execute(f"EXPLAIN EXECUTE own ({nulls})".encode()).fetchall()
        connection.execute("DEALLOCATE own")
        lines = "\n".join(line for (line,) in plan)
        assert "JIT" not in lines, lines
        if statement not in without_index:
            for scan in ("Seq Scan", "Bitmap", "Hash", "Merge"):
                assert scan not in lines.replace("HashAggregate", ""), lines


# Loops and turns ------------------------------------------------------------------


def test_loop_that_waits_for_no_sockets_uses_threads(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like the loop of Windows that runs subprocesses."""
    store = PostgresStore(url, retry_policy=ONCE)

    def refuse(*_: object) -> None:
        raise NotImplementedError

    async def work() -> None:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "add_reader", refuse)
        for number in range(5):
            await store.create(f"k/{number}", b"body")
        assert 5 == len(await store.keys("k/"))
        assert b"body" == await store.read("k/1")
        monkeypatch.undo()

    asyncio.run(work())
    assert 1 == len(idle_connections(store))


def test_loops_and_threads_share_ten_connections(postgres: PostgresServer) -> None:
    url = postgres.new_url(application_name="shared")
    store = PostgresStore(url, retry_policy=ONCE)
    failures: list[BaseException] = []
    large = os.urandom(1 << 19)

    async def work(name: int, number: int) -> None:
        key = f"k/{name}/{number}"
        body = large if number % 7 == 0 else key.encode()
        await store.create(key, body)
        assert body == await store.read(key)

    async def use(name: int) -> None:
        await asyncio.gather(*(work(name, number) for number in range(40)))

    def run(name: int) -> None:
        try:
            asyncio.run(use(name))
        except BaseException as error:  # noqa: BLE001 -- raised below
            failures.append(error)

    threads = [threading.Thread(target=run, args=(name,)) for name in range(3)]
    for thread in threads:
        thread.start()
    most = 0
    count = "SELECT count(*) FROM pg_stat_activity"
    count += " WHERE application_name = 'shared'"
    while any(thread.is_alive() for thread in threads):
        [(connections,)] = postgres.rows(count)
        most = max(most, connections)
    for thread in threads:
        thread.join()

    assert [] == failures
    assert 120 == len(asyncio.run(store.keys("k/")))
    assert 2 <= most <= _MAX_CONNECTIONS


async def test_turn_of_a_caller_that_went_away_goes_to_the_next() -> None:
    turns = _Turns()
    taken = [await turns.begin() for _ in range(_MAX_CONNECTIONS)]
    waiting = [asyncio.create_task(turns.begin()) for _ in range(4)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    taken[0].end()  # the turn of 1 has come, and it does not know it yet
    waiting[1].cancel()
    await asyncio.wait(waiting[:3])

    assert [True, True, False] == [each.cancelled() for each in waiting[:3]]
    assert not waiting[3].done()
    taken[1].end()
    taken[1].end()  # twice is once
    (await waiting[3]).end()
    waiting[2].result().end()
    for turn in taken:
        turn.end()
    assert not turns._begun


def test_turns_of_a_closed_loop_go_to_others() -> None:
    turns = _Turns()

    async def take(count: int) -> None:
        async with asyncio.timeout(10):
            for _ in range(count):
                await turns.begin()

    asyncio.run(take(_MAX_CONNECTIONS))
    closed = asyncio.new_event_loop()
    taken = closed.create_task(take(2))
    closed.run_until_complete(taken)
    left = closed.create_task(take(_MAX_CONNECTIONS))
    closed.run_until_complete(asyncio.sleep(0.01))
    closed.close()
    asyncio.run(take(_MAX_CONNECTIONS))
    left._log_destroy_pending = False  # type: ignore[attr-defined] # on purpose
    del left


async def test_cancelled_operation_keeps_its_turn_while_its_thread_works(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread opens a connection for the pool."""
    store = PostgresStore(url, retry_policy=ONCE)
    gate = threading.Event()
    connect = store._connections._connect

    def connect_late() -> _Connection:
        gate.wait(60)
        return connect()

    monkeypatch.setattr(store._connections, "_connect", connect_late)
    reads = [asyncio.create_task(store.keys("")) for _ in range(2 * _MAX_CONNECTIONS)]
    await asyncio.sleep(0.1)
    for read in reads:
        read.cancel()
    await asyncio.wait(reads)
    last = asyncio.create_task(store.keys(""))
    await asyncio.sleep(0.05)

    assert _MAX_CONNECTIONS == len(_turns()._begun)
    gate.set()
    assert [] == await last
    for _ in range(_MAX_CONNECTIONS):
        await store.keys("")
    assert _MAX_CONNECTIONS >= len(idle_connections(store))


async def test_small_exchanges_take_no_thread(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large body does: libpq copies the rest of it after each part."""
    store = PostgresStore(url, retry_policy=ONCE)
    await use_twice(store)
    runs: list[object] = []
    run = _threads.run

    async def counted(*call: Any) -> Any:
        runs.append(call)
        return await run(*call)

    monkeypatch.setattr(_threads, "run", counted)
    await store.create("a", bytes(200_000))
    assert 200_000 == len(await store.read("a"))
    await store.commit(Changes(key="b", body=b"", also={"c": b"1"}, deletes=["a"]))
    assert [] == runs
    body = os.urandom(20 << 20)
    await store.create("d", body)
    await store.commit(Changes(key="e", body=b"", also={"f": body}, deletes=["b"]))
    assert 2 == len(runs)

    assert body == await store.read("d") == await store.read("f")
    assert ["c", "d", "e", "f"] == await store.keys("")
    assert 2 == len(runs)


# Round trips and transactions -----------------------------------------------------


@pytest.mark.parametrize(
    ("exchanges", "trips"), [(0, 2), (2, 1)], ids=["first", "third"]
)
async def test_commit_with_steps_waits_for_the_server_once(
    exchanges: int, trips: int, url: str, postgres: PostgresServer
) -> None:
    """Its two transactions are one request; a new connection asks for a pooler."""
    with run_proxy(postgres.port) as proxy:
        through = url.replace(f":{postgres.port}/", f":{proxy.port}/")
        store = PostgresStore(through, retry_policy=ONCE)
        for _ in range(exchanges):
            await store.keys("")
        changes = Changes(
            key="k", body=b"", also={"a": b""}, listing=Listing(""), deletes=["x"]
        )
        if not exchanges:
            connection = await asyncio.to_thread(store._connections._connect)
            store._connections._give_back(connection)
        proxy.delay, before = 0.5, proxy.statements
        begun = time.monotonic()
        committed = await store.commit(changes)
        seconds = time.monotonic() - begun

    assert (["a", "k"], True) == (committed.page, committed.is_cleaned)
    assert 1 == proxy.statements - before
    assert 0.5 * trips <= seconds < 0.5 * trips + 0.45


async def test_steps_see_what_others_committed_before_them(url: str) -> None:
    """Two processes that write and then look do not miss each other."""
    store = PostgresStore(url, retry_policy=QUICK)

    async def write(name: int, number: int) -> set[str]:
        changes = Changes(
            key=f"r/{number}/{name}", body=b"", listing=Listing(f"r/{number}/")
        )
        return {*((await store.commit(changes)).page or ())}

    for number in range(40):
        one, other = await asyncio.gather(write(1, number), write(2, number))
        assert f"r/{number}/2" in one or f"r/{number}/1" in other


async def test_error_of_the_creates_reaches_the_caller_not_that_of_the_steps(
    url: str, postgres: PostgresServer
) -> None:
    """Both transactions fail; nothing of the creates is stored."""
    store = PostgresStore(url, retry_policy=ONCE)
    connection = await use_twice(store)
    postgres.rows(f"ALTER TABLE {schema_of(url)}.objects ADD CHECK (key <> 'bad')")
    with pytest.raises(Unavailable, match="23514"):
        await store.commit(Changes(key="a", body=b"", also={"bad": b""}, deletes=["x"]))

    assert [] == await store.keys("")
    assert connection.closed


async def test_plan_that_does_not_fit_a_changed_table_is_made_again(
    url: str, postgres: PostgresServer
) -> None:
    store = PostgresStore(url, retry_policy=QUICK)
    connection = await use_twice(store)
    await store.create("a", b"body")
    assert [b"body"] == await store.read_many(["a"])
    table = f"{schema_of(url)}.objects"
    column = 'key TYPE varchar(300) COLLATE "C"'
    postgres.rows(f"ALTER TABLE {table} ALTER COLUMN {column}")

    assert [b"body"] == await store.read_many(["a"])
    assert connection.closed


async def test_server_that_is_silent_in_an_exchange_is_given_up(
    url: str, postgres: PostgresServer
) -> None:
    """The loop goes on, and the statement is ended."""
    store = PostgresStore(url, timeout=0.3, retry_policy=ONCE)
    connection = await use_twice(store)
    await store.create("held", b"")
    lock = f"LOCK TABLE {schema_of(url)}.objects"
    with psycopg.connect(postgres.url()) as other:
        other.execute(lock.encode())
        begun = time.monotonic()
        ticks = 0
        reading = asyncio.create_task(store.read("held"))
        while not reading.done():
            ticks += 1
            await asyncio.sleep(0.01)
        assert ticks > 10
        assert time.monotonic() - begun < 5
        with pytest.raises(StorageError, match=r"did not answer in 0\.3 s"):
            await reading
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        assert [(0,)] == postgres.rows(waiting)
    assert connection.closed
    assert b"" == await store.read("held")


async def test_cancellation_at_the_end_of_an_exchange_is_one() -> None:
    """The handler of SIGINT cancels the task between two instructions."""
    one, other = socket.socketpair()

    def cancelled_operation() -> Generator[Wait, Ready | None, None]:
        run._end.cancel()
        return
        yield

    with one, other:
        run = LoopRun(cancelled_operation(), one.fileno(), 1.0)
        with pytest.raises(asyncio.CancelledError):
            await run.result()


async def test_loop_that_was_blocked_reads_before_it_gives_up() -> None:
    """Some event loops look at their timers before they look at sockets."""

    def receive() -> Generator[Wait, Ready | None, bytes]:
        while not (yield Wait.R):
            pass
        return own.recv(1)

    own, other = socket.socketpair()
    with own, other:
        own.settimeout(0)
        run = LoopRun(receive(), own.fileno(), 0.05)
        result = asyncio.create_task(run.result())
        await asyncio.sleep(0)
        other.send(b"x")
        time.sleep(0.1)  # noqa: ASYNC251 -- on purpose
        run._check_silence()

        assert b"x" == await result


async def test_error_says_why_the_server_ended_the_connection(
    url: str, postgres: PostgresServer
) -> None:
    store = PostgresStore(url, retry_policy=ONCE)
    await use_twice(store)
    with psycopg.connect(postgres.url()) as other:
        other.execute(f"LOCK TABLE {schema_of(url)}.objects".encode())
        reading = asyncio.create_task(store.read("a"))
        await asyncio.sleep(0.05)
        ended = await asyncio.to_thread(
            postgres.terminate_others, "wait_event_type = 'Lock'"
        )
        with pytest.raises(Unavailable, match="57P01: terminating connection"):
            await reading
    assert 1 == ended
