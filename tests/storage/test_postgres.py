"""The store in a table of Postgres: its URL, table, roles, errors and lost connections.

`psql`-like queries of `PostgresServer.rows` are the independent reader.
"""
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import os
import pickle
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from continuations_storage import (
    AlreadyExists,
    Denied,
    Inconclusive,
    NotFound,
    StorageError,
    SyncStore,
    Throttled,
    Unavailable,
    Unsafe,
    Unsupported,
    open_store,
    postgres_connections,
)
from continuations_storage.contract import (
    Changes,
    Listing,
    Page,
    created_at,
    read_many,
)
from continuations_storage.postgres import PostgresStore
from continuations_storage.postgres_sql import ObjectTable, RoleRights, failure_of
from continuations_storage.retries import RetryPolicy
from continuations_storage.url import without_password
from tests.postgres_server import DATABASE, OWNER, PASSWORD, PostgresServer
from tests.sampling import RUNS_ALL_CASES
from tests.storage.cutting_proxy import FAULTS, CuttingProxy, Fault, run_proxy

if TYPE_CHECKING:
    from collections.abc import Generator

# For localhost, with its key.
CERTIFICATE = Path(__file__).parents[1] / "serve" / "notify" / "localhost.pem"
ONCE = RetryPolicy(max_attempts=1)
PATIENT = RetryPolicy(max_attempts=10_000, max_seconds=90, max_delay=0.2)
QUICK = RetryPolicy(max_attempts=6, first_delay=0.01, max_delay=0.05)


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """Return the URL of an empty store."""
    return postgres.new_url()


@pytest.fixture
def store(url: str) -> PostgresStore:
    """Return a store with one body."""
    store = PostgresStore(url, retry_policy=QUICK)
    asyncio.run(store.create("runs/a/1", b"first"))
    return store


@pytest.fixture
def proxy(postgres: PostgresServer) -> Iterator[CuttingProxy]:
    with run_proxy(postgres.port) as running:
        yield running


def schema_of(url: str) -> str:
    return url.partition("schema=")[2].partition("&")[0]


# The URL ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://db.example.com/app", "postgresql://db.example.com:5432/app"),
        ("postgres://u:secret@db:6000/app", "postgresql://db:6000/app"),
        ("postgresql://u:secret@[::1]/app", "postgresql://[::1]:5432/app"),
        ("postgresql://a,b:6000/app", "postgresql://a:5432,b:6000/app"),
        ("postgresql:///app?host=/run/db", "postgresql://%2Frun%2Fdb/app"),
        ("postgresql://h/app?schema=s-1", "postgresql://h:5432/app?schema=s-1"),
        ("postgresql://h/app?schema=continuations", "postgresql://h:5432/app"),
        ("postgresql://kim@h", "postgresql://h:5432/kim"),
        ("postgresql:///?service=billing", "postgresql:///?service=billing"),
        ("postgresql://h/a?password=secret&sslmode=require", "postgresql://h:5432/a"),
        ("postgresql://u:p?s#h@h/a?schema=s", "postgresql://h:5432/a?schema=s"),
        ("postgresql://u:p%40s%2Fs@h/a%20b", "postgresql://h:5432/a%20b"),
    ],
)
def test_repr_names_host_and_database_and_no_user(
    url: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [each for each in os.environ if each.startswith("PG")]:
        monkeypatch.delenv(name)

    assert f"<PostgresStore {place}>" == repr(open_store(url))


def test_environment_names_what_the_url_leaves_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGHOST", "db.example.com")
    monkeypatch.setenv("PGPORT", "6000")
    monkeypatch.setenv("PGDATABASE", "app")

    place = "postgresql://db.example.com:6000/app"
    assert f"<PostgresStore {place}>" == repr(open_store("postgresql://"))


@pytest.mark.parametrize(
    ("url", "why", "options"),
    [
        (
            "postgresql+psycopg://u:s3cret@h/a",
            "'postgresql.psycopg'. Use postgresql://HOST/DATABASE",
            {},
        ),
        ("mysql://u:s3cret@h/a", "store 'mysql://u@h/a'.*unknown scheme", {}),
        ("postgresql:app", r"no //\. Use postgresql://HOST/DATABASE", {}),
        ("postgresql://h/a?scheme=x", "libpq knows no parameter 'scheme'", {}),
        ("postgresql://u:s3cret@h/a?x=1", "libpq knows no parameter 'x'", {}),
        ("postgresql://h/a?schema=", "schema is not valid", {}),
        ("postgresql://h/a?schema=pg_x", "schema is not valid", {}),
        ("postgresql://h/a?schema=s3cret%22", "schema is not valid", {}),
        ("postgresql://h/a", "no option 'region'", {"region": "eu"}),
        # A password with special characters.
        ("postgresql://u:s3cret@s3cret@h/a", "contains @.*%40 for @", {}),
        ("postgresql://u:s3cret/s3cret@h/a", "contains @.*%40 for @", {}),
        ("postgresql://u:1/s3cret@h/a", "contains @.*%40 for @", {}),
        ("postgresql://u:s3cret%zz@h/a", "libpq cannot read it", {}),
        ("postgresql://u@h:port/a", "its port is not a number", {}),
    ],
)
def test_url_that_cannot_be_used_is_not_quoted(
    url: str, why: str, options: dict[str, Any]
) -> None:
    with pytest.raises(Unsupported, match=why) as raised:
        open_store(url, **options)
    assert "s3cret" not in f"{raised.value!r} {raised.value}"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:s3@h/a?schema=s", "postgresql://u@h/a?schema=s"),
        ("postgres://u:s@3/@h/a", "postgres://u@h/a"),
        ("postgres://h/a?password=s3&schema=s", "postgres://h/a?schema=s"),
        ("postgresql://h/a?sslpassword=s3", "postgresql://h/a"),
        ("postgresql://u@h/a?sslmode=require", "postgresql://u@h/a?sslmode=require"),
        ("file:a:b@c", "file:a:b@c"),
    ],
)
def test_url_is_shown_without_password(url: str, shown: str) -> None:
    assert shown == without_password(url)


def test_missing_psycopg_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_: str) -> None:
        return None

    monkeypatch.setattr("importlib.util.find_spec", nothing)
    with pytest.raises(Unsupported, match=r"pip install 'psycopg\[binary\]>=3\.3'"):
        open_store("postgresql://h/a")


# Keys and times -----------------------------------------------------------------


async def test_any_text_may_begin_a_page(store: PostgresStore) -> None:
    for key in ("runs/a/2", "runs/b", "z"):
        await store.create(key, b"")
    keys = ["runs/a/1", "runs/a/2", "runs/b", "z"]
    texts = ("runs/a/1\0", "runs/a\0~", "runs/aé", "runs/a/1\udc80x", "\0", "~", "runs")
    for after in (*texts, "runs/a/\U0001f600", "runs/a/1\x01", "%s", "runs/a/1%"):
        assert [key for key in keys if key > after] == await store.keys("", after)
    assert keys == await store.keys("", limit=1 << 80)


async def test_times_are_those_of_the_database(store: PostgresStore) -> None:
    time = await store.create("b", b"")
    page = await store.keys("none/")

    assert isinstance(page, Page)
    assert page.store_time is not None
    assert time is not None
    assert time == await created_at(store, "b")
    assert time <= page.store_time <= datetime.now(UTC) < time + timedelta(minutes=1)
    with pytest.raises(NotFound):
        await store.created_at("c")


async def test_bodies_of_every_size_are_read_together(store: PostgresStore) -> None:
    sizes = (0, 1, 3000, 100_000, 1 << 20)
    for size in sizes:
        await store.create(f"s/{size}", os.urandom(size))
    keys = [f"s/{size}" for size in sizes]

    assert [await store.read(key) for key in keys] == await store.read_many(keys)
    assert [None, b"first"] == await store.read_many(["x", "runs/a/1"])
    assert [] == await read_many(store, [])


async def test_statements_use_the_index(
    url: str, store: PostgresStore, postgres: PostgresServer
) -> None:
    """A listing reads only its page, also under the policies of roles."""
    await asyncio.gather(*(store.create(f"k/{n:05}", bytes(3000)) for n in range(300)))
    postgres.rows(f"ALTER TABLE {schema_of(url)}.objects ENABLE ROW LEVEL SECURITY")
    table = ObjectTable(schema_of(url))
    for statement in (
        table.read("k/00001"),
        table.read_many(["k/00001", "k/00002"]),
        table.list_keys(Listing("k/", "k/00100", 10)),
        table.delete("k/00001"),
        *table.steps_after(
            Changes(
                key="k/00050",
                body=b"",
                listing=Listing("k/", "k/00100", 10),
                deletes=["k/00051"],
                only_if_first="k/",
            ),
            "0" * 32,
        ),
    ):
        with psycopg.connect(
            postgres.url(), options="-cenable_seqscan=off"
        ) as connection:
            sql = f"EXPLAIN {statement.sql}".encode()
            plan = connection.execute(sql, statement.values).fetchall()
        text = "\n".join(line for (line,) in plan)
        assert "objects_pkey" in text, text
        assert "Seq Scan" not in text, text


def test_store_works_in_loops_threads_and_the_plain_calls(store: PostgresStore) -> None:
    def use(name: str) -> None:
        asyncio.run(store.create(name, b""))
        with SyncStore(store) as plain:
            plain.create(f"{name}-plain", b"")

    threads = [threading.Thread(target=use, args=(f"t/{n}",)) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 10 == len(asyncio.run(store.keys("t/")))


# The table ----------------------------------------------------------------------


def fresh_url(postgres: PostgresServer) -> str:
    """Return the URL of a store whose schema does not exist."""
    return postgres.url(schema=f"fresh_{os.urandom(4).hex()}")


async def test_missing_table_names_the_command(postgres: PostgresServer) -> None:
    store = PostgresStore(fresh_url(postgres))
    for operation in (
        store.create("a", b""),
        store.read("a"),
        store.keys(""),
        store.delete("a"),
    ):
        with pytest.raises(Unavailable, match="run `continuations migrate"):
            await operation


async def test_migrate_makes_the_table_once(postgres: PostgresServer) -> None:
    """Several processes may migrate at the same time."""
    stores = [PostgresStore(fresh_url(postgres)) for _ in range(1)] * 8

    made = await asyncio.gather(*(store.migrate() for store in stores))

    assert [True] == [each for each in made if each]
    await stores[0].create("a", b"kept")
    assert not await stores[0].migrate()
    assert b"kept" == await stores[0].read("a")


async def test_printed_sql_makes_the_same_table(postgres: PostgresServer) -> None:
    """It may be run again."""
    url = fresh_url(postgres)
    store = PostgresStore(url)
    for _ in range(2):
        postgres.rows(store.migration(), user=OWNER)

    assert not await store.migrate()
    await store.probe()


OTHER_TABLES = {
    "other columns": "CREATE TABLE {} (id int)",
    "no key": 'CREATE TABLE {} (key text COLLATE "C" NOT NULL, maker uuid NOT NULL, '
    "created_at timestamptz NOT NULL, body bytea NOT NULL)",
    "collation": "CREATE TABLE {} (key text PRIMARY KEY, maker uuid NOT NULL, "
    "created_at timestamptz NOT NULL, body bytea NOT NULL)",
    "unlogged": 'CREATE UNLOGGED TABLE {} (key text COLLATE "C" PRIMARY KEY, maker '
    "uuid NOT NULL, created_at timestamptz NOT NULL, body bytea NOT NULL)",
    "one more": 'CREATE TABLE {} (key text COLLATE "C" PRIMARY KEY, maker uuid '
    "NOT NULL, created_at timestamptz NOT NULL, body bytea NOT NULL, x int)",
    "view": "CREATE VIEW {} AS SELECT 1 AS id",
}


@pytest.mark.parametrize("name", OTHER_TABLES)
async def test_table_of_another_form_is_refused_and_not_changed(
    name: str, postgres: PostgresServer
) -> None:
    url = fresh_url(postgres)
    schema = schema_of(url)
    postgres.rows(f"CREATE SCHEMA {schema}", user=OWNER)
    postgres.rows(OTHER_TABLES[name].format(f"{schema}.objects"), user=OWNER)
    columns = "SELECT attname, attnum FROM pg_attribute WHERE attrelid = "
    columns += f"'{schema}.objects'::regclass ORDER BY attnum"
    before = postgres.rows(columns)
    store = PostgresStore(url)

    for operation in (store.migrate(), store.probe()):
        with pytest.raises(Unsafe, match=r"has another form; name another schema"):
            await operation
    assert before == postgres.rows(columns)


async def test_role_without_rights_on_the_database_migrates_in_its_schema(
    postgres: PostgresServer,
) -> None:
    url = fresh_url(postgres)
    with temporary_role(postgres) as role:
        schema = schema_of(url)
        postgres.rows(f"CREATE SCHEMA {schema} AUTHORIZATION {role}")
        store = PostgresStore(postgres.url(role, schema=schema))
        assert await store.migrate()
        await store.create("a", b"")
        theirs = PostgresStore(postgres.url(role, schema="theirs"))
        with pytest.raises(Denied, match=r"42501.*GRANT CREATE ON DATABASE"):
            await theirs.migrate()
        postgres.rows(f"GRANT CREATE ON DATABASE {DATABASE} TO {role}")
        assert await theirs.migrate()
        with pytest.raises(Denied, match="42501: permission denied"):
            await PostgresStore(postgres.new_url().replace(OWNER, role, 1)).read("a")
        postgres.rows(f"DROP SCHEMA {schema} CASCADE")


@contextmanager
def temporary_role(postgres: PostgresServer, options: str = "") -> Generator[str]:
    role = f"role_{os.urandom(4).hex()}"
    postgres.rows(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}' {options}")
    try:
        yield role
    finally:
        postgres.terminate_others(f"usename = '{role}'")
        postgres.rows(f"DROP OWNED BY {role}")
        postgres.rows(f"DROP ROLE {role}")


async def test_role_has_the_rights_that_migrate_gave(
    url: str, store: PostgresStore, postgres: PostgresServer
) -> None:
    """A delete that a policy prevents is `Denied`, not a success."""
    for key in ("waits/1", "waits/2"):
        await store.create(key, b"")
    with temporary_role(postgres) as role:
        rights = RoleRights(
            role=role, name="clerk", creates=["^in/"], deletes=["^waits/"]
        )
        for _ in range(2):
            assert not await store.migrate([rights])
        postgres.rows(store.migration([rights]), user=OWNER)
        clerk = PostgresStore(url.replace(OWNER, role, 1), retry_policy=ONCE)

        assert ["runs/a/1", "waits/1", "waits/2"] == await clerk.keys("")
        assert b"first" == await clerk.read("runs/a/1")
        await clerk.create("in/1", b"")
        await clerk.delete("waits/1")
        await clerk.delete("runs/missing")
        with pytest.raises(Denied, match="row-level security"):
            await clerk.create("runs/a/2", b"")
        with pytest.raises(Denied, match=r"cannot delete key 'runs/a/1'.*a policy of"):
            await clerk.delete("runs/a/1")
        with pytest.raises(Denied):
            await clerk.migrate([rights])
        assert ["in/1", "runs/a/1", "waits/2"] == await store.keys("")


async def test_missing_role_is_named(store: PostgresStore) -> None:
    rights = RoleRights(role='no"; DROP', name="clerk", creates=["'"], deletes=["^"])

    with pytest.raises(Unavailable, match=r'role "no"; DROP" does not exist.*CREATE'):
        await store.migrate([rights])


# Settings of the server -----------------------------------------------------------


async def test_create_is_flushed_where_the_default_is_not_to_flush(
    url: str, postgres: PostgresServer
) -> None:
    """The setting of the session stays; a stronger setting is kept."""
    table = ObjectTable(schema_of(url))
    for given, expected in (("off", "on"), ("local", "local"), ("on", "on")):
        statement = table.create(f"key/{given}", b"", os.urandom(16).hex())
        setting = f"-csynchronous_commit={given}"
        with psycopg.connect(postgres.url(), options=setting) as connection:
            connection.execute(statement.sql.encode(), statement.values)
            during = connection.execute("SHOW synchronous_commit").fetchone()
            connection.rollback()
            after = connection.execute("SHOW synchronous_commit").fetchone()
        assert ((expected,), (given,)) == (during, after)


@pytest.mark.parametrize(
    "options",
    [
        "-cdefault_transaction_isolation=serializable",
        "-cdefault_transaction_isolation=repeatable\\ read",
        "-cTimeZone=Pacific/Chatham -cDateStyle=SQL -cIntervalStyle=sql_standard",
        "-cclient_encoding=LATIN1",
        "-csearch_path=nowhere",
        "-cstandard_conforming_strings=off",
        "-cbytea_output=escape -cextra_float_digits=-10",
        "-csynchronous_commit=off",
    ],
)
async def test_settings_of_a_role_do_not_matter(options: str, url: str) -> None:
    from urllib.parse import quote  # noqa: PLC0415 - only here

    store = PostgresStore(f"{url}&options={quote(options)}")
    await store.probe()
    bodies = [bytes([n]) for n in range(16)]

    made = await asyncio.gather(
        *(store.create("race", body) for body in bodies), return_exceptions=True
    )

    assert 15 == sum(isinstance(each, AlreadyExists) for each in made)
    winner = next(n for n, each in enumerate(made) if isinstance(each, datetime))
    assert bodies[winner] == await store.read("race")
    assert made[winner] == await store.created_at("race")


async def test_read_only_server_is_denied(url: str) -> None:
    store = PostgresStore(
        f"{url}&options=-cdefault_transaction_read_only%3Don", retry_policy=QUICK
    )

    with pytest.raises(Denied, match=r"25006.*it is read-only; name the primary"):
        await store.create("a", b"")
    assert [] == await store.keys("")


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
async def test_database_may_have_another_encoding(
    encoding: str, postgres: PostgresServer
) -> None:
    name = f"db_{encoding.lower()}"
    postgres.rows(
        f"CREATE DATABASE {name} OWNER {OWNER} ENCODING '{encoding}' TEMPLATE template0"
    )
    store = PostgresStore(postgres.url().replace(f"/{DATABASE}", f"/{name}"))
    await store.migrate()
    await store.create("a/b", b"\xff\0")
    assert (["a/b"], b"\xff\0") == (await store.keys(""), await store.read("a/b"))
    del store


# Lost connections ---------------------------------------------------------------


async def test_idle_connection_that_ended_is_replaced(
    store: PostgresStore, postgres: PostgresServer
) -> None:
    """Not even one attempt fails, although the policy allows no second one."""
    store._retry_policy = ONCE
    for _ in range(3):
        assert 1 <= postgres.terminate_others("application_name = 'continuations'")
        await asyncio.sleep(0.05)
        assert b"first" == await store.read("runs/a/1")


async def test_connection_that_was_idle_for_long_is_asked_first(
    url: str, proxy: CuttingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A firewall forgot it without a word: no operation waits for its timeout."""
    monkeypatch.setattr(postgres_connections, "_TRUSTED_SECONDS", 0.0)
    monkeypatch.setattr(postgres_connections, "_CHECK_SECONDS", 0.2)
    store = PostgresStore(through(proxy, url), timeout=60, retry_policy=ONCE)
    await store.create("a", b"")
    proxy.plan("silent", "SELECT")
    began = time.monotonic()

    await store.create("b", b"")

    assert (1, 2) == (proxy.cut, proxy.connections)
    assert time.monotonic() - began < 10


def through(proxy: CuttingProxy, url: str) -> str:
    """Return a URL that goes through the proxy."""
    return url.replace(f":{proxy.server}/", f":{proxy.port}/")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("word", ["INSERT", "SELECT", "DELETE"])
async def test_cut_connection_is_not_noticed(
    word: str, fault: Fault, url: str, proxy: CuttingProxy
) -> None:
    """Each verb is repeated; a create recognises its own body by the maker id."""
    store = PostgresStore(through(proxy, url), timeout=0.3, retry_policy=QUICK)
    await store.keys("")
    proxy.plan(fault, word, times=2)

    time = await store.create("a", b"body")
    page = await store.keys("")
    assert (b"body", ["a"]) == (await store.read("a"), page)
    assert time == await store.created_at("a")
    with pytest.raises(AlreadyExists):
        await store.create("a", b"other")
    await store.delete("a")

    assert [] == await store.keys("")
    assert 2 == proxy.cut


@pytest.mark.parametrize("fault", FAULTS)
async def test_cut_connection_of_a_commit_is_not_noticed(
    fault: Fault, url: str, proxy: CuttingProxy
) -> None:
    """The creates are made once; the steps after them may be left to the caller."""
    store = PostgresStore(through(proxy, url), timeout=0.3, retry_policy=QUICK)
    await store.create("old", b"")
    changes = Changes(key="a", body=b"1", also={"b": b"2"}, deletes=["old"])
    proxy.plan(fault, "INSERT", times=2)

    committed = await store.commit(changes)

    assert committed.store_time == await store.created_at("a")
    left = ["a", "b"] if committed.is_cleaned else ["a", "b", "old"]
    assert 2 == proxy.cut
    assert set(left) >= {*await store.keys("")} >= {"a", "b"}
    with pytest.raises(AlreadyExists):
        await store.commit(changes._replace(also={"c": b""}))
    assert "c" not in await store.keys("")


async def test_commit_whose_steps_fail_is_made(
    url: str, store: PostgresStore, postgres: PostgresServer
) -> None:
    """Another transaction holds a row that the commit would delete: nothing waits."""
    await store.create("held", b"")
    with psycopg.connect(postgres.url()) as connection:
        held = f"SELECT FROM {schema_of(url)}.objects WHERE key = 'held' FOR UPDATE"
        connection.execute(held.encode())
        committed = await store.commit(
            Changes(key="a", body=b"", listing=Listing(""), deletes=["held"])
        )

    assert (None, False) == (committed.page, committed.is_cleaned)
    assert committed.store_time == await store.created_at("a")
    assert ["a", "held"] == [key for key in await store.keys("") if "/" not in key]


async def test_commit_into_a_missing_table_says_what_to_do(
    postgres: PostgresServer,
) -> None:
    store = PostgresStore(fresh_url(postgres), retry_policy=QUICK)

    with pytest.raises(Unavailable, match="continuations migrate"):
        await store.commit(Changes(key="a", body=b"", deletes=["b"]))


@pytest.mark.parametrize("place", ["direct", "bouncer"])
async def test_connections_that_end_during_writes_lose_no_body(
    place: str, postgres: PostgresServer, bouncer: int
) -> None:
    """Each create succeeds once, whatever an administrator ends meanwhile."""
    url = postgres.new_url(port=bouncer if place == "bouncer" else None)
    store = PostgresStore(url, retry_policy=PATIENT)

    async def write(name: int) -> None:
        for number in range(30):
            key, old = f"w/{name}/{number}", f"w/{name}/{number - 20}"
            if name % 2:
                await store.commit(Changes(key=key, body=b"body", deletes=[old]))
            else:
                await store.create(key, b"body")
            await store.delete(old)

    writers = [asyncio.create_task(write(name)) for name in range(6)]
    ended = 0
    while not all(writer.done() for writer in writers):
        ended += await asyncio.to_thread(
            postgres.terminate_others, "query !~ 'pg_terminate'"
        )
        await asyncio.sleep(0.03)
    await asyncio.gather(*writers)

    assert 6 * 20 == len(await store.keys("w/"))
    assert ended


@pytest.mark.parametrize("fault", ["lost reply", "silent", "half"])
async def test_create_of_another_is_not_taken_for_ours(
    fault: Fault, url: str, proxy: CuttingProxy
) -> None:
    store = PostgresStore(through(proxy, url), timeout=0.3, retry_policy=QUICK)
    await PostgresStore(url).create("a", b"theirs")
    proxy.plan(fault, "INSERT", times=2)

    with pytest.raises(AlreadyExists):
        await store.create("a", b"ours")

    assert b"theirs" == await store.read("a")


@pytest.mark.parametrize(
    ("fault", "expected"),
    [("refused", Inconclusive), ("half", Inconclusive), ("lost reply", Inconclusive)],
)
async def test_longer_outage_is_inconclusive(
    fault: Fault, expected: type[StorageError], url: str, proxy: CuttingProxy
) -> None:
    store = PostgresStore(through(proxy, url), retry_policy=QUICK)
    await store.keys("")
    proxy.plan(fault, "", times=1000)

    with pytest.raises(expected, match="may or may not be stored"):
        await store.create("a", b"")
    with pytest.raises(Unavailable, match=f"127.0.0.1:{proxy.port}/{DATABASE}"):
        await store.keys("")


async def test_server_that_is_not_there_is_unavailable_and_nothing_is_written() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # no one listens
        port = taken.getsockname()[1]
        store = PostgresStore(
            f"postgresql://kim:s3cret@127.0.0.1:{port}/app", retry_policy=QUICK
        )
        for operation in (store.create("a", b""), store.probe(), store.migrate()):
            with pytest.raises(Unavailable, match="onnection refused") as raised:
                await operation
            text = str(raised.value)
            assert f"in postgresql://127.0.0.1:{port}/app: " in text
            assert "s3cret" not in f"{text} {raised.value!r}"


async def test_silent_server_is_given_up(postgres: PostgresServer) -> None:
    """Also before it speaks: it accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        store = PostgresStore(
            postgres.url(port=port, connect_timeout="2"), retry_policy=ONCE
        )
        with pytest.raises(Unavailable, match="timeout expired"):
            await store.create("a", b"")


async def test_wrong_password_and_database_are_named(postgres: PostgresServer) -> None:
    wrong = f"postgresql://{OWNER}:s3cret@127.0.0.1:{postgres.port}/{DATABASE}"
    for url, error, why in (
        (wrong, Denied, "password authentication failed.*check user, password"),
        (postgres.url("nobody_here"), Denied, "authentication failed"),
        (f"{postgres.url()}_2", Unavailable, "does not exist; create the database"),
        (postgres.url(sslmode="require"), Denied, "does not support SSL"),
        (postgres.url(sslmode="bad"), Unavailable, "sslmode value.*correct this"),
        (postgres.url(connect_timeout="x"), Unavailable, "connect_timeout.*correct"),
    ):
        began = time.monotonic()
        with pytest.raises(error, match=why) as raised:
            await PostgresStore(url).create("a", b"")
        assert time.monotonic() - began < 2, "it was tried again"
        assert (
            "s3cret" not in f"{raised.value}{raised.value!r}{raised.value.__cause__!r}"
        )


async def test_connection_is_encrypted_as_the_url_asks(
    durable_postgres: PostgresServer, tmp_path: Path
) -> None:
    url = durable_postgres.new_url().replace("127.0.0.1", "localhost")
    durable_postgres.stop()
    durable_postgres.use_certificate(CERTIFICATE)
    durable_postgres.start()
    store = PostgresStore(
        f"{url}&hostaddr=127.0.0.1&sslmode=verify-full&sslrootcert={CERTIFICATE}"
    )
    for number in range(5):
        await store.create(f"k/{number}", bytes(100_000))

    ours = "pg_stat_activity WHERE application_name = 'continuations'"
    query = f"SELECT ssl FROM pg_stat_ssl WHERE pid IN (SELECT pid FROM {ours})"  # noqa: S608 - constant
    assert [(True,)] == durable_postgres.rows(query)
    other = tmp_path / "other.pem"
    subprocess.run(  # noqa: ASYNC221 - nothing else runs
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-nodes", "-days", "1"),
            *("-pkeyopt", "ec_paramgen_curve:P-256", "-subj", "/CN=other"),
            *("-keyout", os.devnull, "-out", other),
        ],
        check=True,
        capture_output=True,
    )
    trusting_another = PostgresStore(
        f"{url}&hostaddr=127.0.0.1&sslmode=verify-full&sslrootcert={other}"
    )
    with pytest.raises(Denied, match="certificate verify failed"):
        await trusting_another.keys("")


async def test_password_comes_from_the_usual_places(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.new_url()
    plain = without_password(url)
    place = f"127.0.0.1:{postgres.port}:{DATABASE}:{OWNER}"
    escaped = PASSWORD.replace(":", "\\:")
    passwords = tmp_path / "pgpass"
    passwords.write_text(f"{place}:{escaped}\n")
    passwords.chmod(0o600)
    services = tmp_path / "services.conf"
    services.write_text(
        f"[billing]\nhost=127.0.0.1\nport={postgres.port}\nuser={OWNER}\n"
        f"dbname={DATABASE}\npassword={PASSWORD}\n"
    )
    service = f"postgresql:///?service=billing&schema={schema_of(url)}"
    for opened, variable, value in (
        (plain, "PGPASSWORD", PASSWORD),
        (plain, "PGPASSFILE", str(passwords)),
        (service, "PGSERVICEFILE", str(services)),
    ):
        monkeypatch.setenv(variable, value)
        await PostgresStore(opened).keys("")
        monkeypatch.delenv(variable)
    with pytest.raises(Denied, match="no password supplied"):
        await PostgresStore(plain).keys("")


async def test_too_many_connections_are_throttled(postgres: PostgresServer) -> None:
    with temporary_role(postgres, "CONNECTION LIMIT 1") as role:
        schema = f"mine_{role}"
        postgres.rows(f"CREATE SCHEMA {schema} AUTHORIZATION {role}")
        url = postgres.url(role, schema=schema)
        store = PostgresStore(url, retry_policy=ONCE)
        with (
            psycopg.connect(postgres.url(role)),
            pytest.raises(Throttled, match="too many connections"),
        ):
            await store.create("a", b"")
        postgres.terminate_others(f"usename = '{role}'")
        postgres.rows(f"DROP SCHEMA {schema} CASCADE")


async def test_create_that_waits_for_an_open_transaction_gives_up(
    url: str, store: PostgresStore, postgres: PostgresServer
) -> None:
    """Its statement is ended, so it does not create the key later."""
    impatient = PostgresStore(url, timeout=0.3, retry_policy=ONCE)
    await impatient.keys("")
    statement = ObjectTable(schema_of(url)).create("a", b"theirs", os.urandom(16).hex())
    with psycopg.connect(postgres.url()) as other:
        other.execute(statement.sql.encode(), statement.values)
        with pytest.raises(Inconclusive, match=r"did not answer in 0\.3 s"):
            await impatient.create("a", b"ours")
        other.rollback()
    await asyncio.sleep(0.1)

    waiting = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'INSERT%%'"
    assert [(0,)] == postgres.rows(f"{waiting} AND state = 'active'")
    with pytest.raises(NotFound):
        await store.read("a")


@pytest.mark.parametrize(
    ("state", "error", "is_tried_again", "may_be_stored"),
    [
        ("53100", Unavailable, False, False),
        ("53300", Throttled, True, False),
        ("57P01", Unavailable, True, True),
        ("57P03", Unavailable, True, False),
        ("08006", Unavailable, True, True),
        ("40001", Unavailable, True, False),
        ("40P01", Unavailable, True, False),
        ("40003", Unavailable, True, True),
        ("57014", Unavailable, True, False),
        ("25006", Denied, True, False),
        ("42501", Denied, False, False),
        ("42P01", Unavailable, False, False),
        ("42703", Unsafe, False, False),
        ("28P01", Denied, False, False),
        ("3D000", Unavailable, False, False),
        ("22021", Unavailable, False, False),
        ("", Unavailable, True, True),
        ("none", Unavailable, False, True),
    ],
)
def test_errors_of_the_server_have_their_class(
    state: str, error: type[StorageError], is_tried_again: bool, may_be_stored: bool
) -> None:
    cause: Exception = MemoryError("x")
    if state != "none":
        kind = psycopg.errors.lookup(state) if state else psycopg.OperationalError
        cause = kind("x")
    failure = failure_of(cause, is_sent=True)

    assert (error, is_tried_again, may_be_stored) == (
        failure.rule.error,
        failure.rule.retry,
        failure.may_be_stored,
    )
    assert not failure_of(cause, is_sent=False).may_be_stored


@pytest.mark.parametrize(
    ("severity", "may_be_stored"), [(b"ERROR", False), (b"FATAL", True)]
)
def test_error_that_ends_a_connection_leaves_a_doubt(
    severity: bytes, may_be_stored: bool
) -> None:
    info: Any = {
        psycopg.pq.DiagnosticField.SEVERITY_NONLOCALIZED: severity,
        psycopg.pq.DiagnosticField.MESSAGE_PRIMARY: b"out of memory",
    }
    error = psycopg.errors.lookup("53200")("x", info=info)
    failure = failure_of(error, is_sent=True)

    assert (may_be_stored, "53200: out of memory") == (
        failure.may_be_stored,
        failure.detail,
    )


# Restarts, forks, processes -------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
async def test_server_that_restarts_loses_no_body(
    how: signal.Signals, durable_postgres: PostgresServer
) -> None:
    """SIGQUIT is a crash: the server recovers from its log."""
    store = PostgresStore(durable_postgres.new_url(), retry_policy=PATIENT)
    stored: list[str] = []
    is_over = False

    async def write(name: int) -> None:
        number = 0
        while not is_over:
            key = f"w/{name}/{number}"
            await store.create(key, key.encode())
            stored.append(key)
            number += 1

    writers = [asyncio.create_task(write(name)) for name in range(4)]
    for _ in range(3):
        before = len(stored)
        while len(stored) < before + 40:  # noqa: ASYNC110 - four tasks write
            await asyncio.sleep(0.01)
        await asyncio.to_thread(durable_postgres.restart, how)
    is_over = True
    await asyncio.gather(*writers)
    keys = await store.keys("w/", limit=100_000)
    assert sorted(stored) == keys
    assert [key.encode() for key in keys] == await store.read_many(keys)


async def test_standby_is_refused(
    durable_postgres: PostgresServer, postgres: PostgresServer
) -> None:
    """It may not show the newest creates."""
    url = durable_postgres.new_url()
    store = PostgresStore(url, retry_policy=QUICK)
    await store.create("a", b"")
    durable_postgres.stop()
    durable_postgres.become_standby()
    durable_postgres.start()

    reads: list[Awaitable[object]] = [
        store.read("a"),
        store.read_many(["a"]),
        store.keys(""),
        store.created_at("a"),
        store.probe(),
        store.migrate(),
    ]
    for read in reads:
        with pytest.raises(Unavailable, match="is a standby; name the primary"):
            await read
    writes: list[Awaitable[object]] = [store.create("b", b""), store.delete("a")]
    for write in writes:
        with pytest.raises(Denied, match=r"25006.*name the primary"):
            await write

    # A proxy leads to the primary again: the connection to the standby is not used.
    postgres.rows(store.migration(), user=OWNER)
    url = durable_postgres.url(schema=schema_of(url))
    with run_proxy(durable_postgres.port) as proxy:
        moved = PostgresStore(through(proxy, url), retry_policy=ONCE)
        with pytest.raises(Unavailable, match="is a standby"):
            await moved.keys("")
        proxy.server = postgres.port
        assert await moved.create("b", b"") is not None


# It writes "key\\n" after each reply, until it is killed.
STEADY = """
import asyncio, os, sys
from continuations_storage import open_store
async def write(store, name):
    for number in range(1_000_000):
        key = f"{name}/{number}"
        await store.create(key, key.encode() * 300)
        os.write(1, f"{key}\\n".encode())
async def main():
    store = open_store(sys.argv[1])
    await asyncio.gather(*(write(store, f"{sys.argv[2]}{n}") for n in range(3)))
asyncio.run(main())
"""


async def test_killed_writers_lose_nothing_that_was_stored(
    durable_postgres: PostgresServer,
) -> None:
    """The server crashes too, while its writers die."""
    url = durable_postgres.new_url()
    stored: list[str] = []
    for seed in range(30 if RUNS_ALL_CASES else 2):
        writers = [
            subprocess.Popen(  # noqa: ASYNC220 - nothing else runs
                [sys.executable, "-c", STEADY, url, f"{seed}-{name}"],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            for name in "xy"
        ]
        for writer in writers:
            assert writer.stdout is not None
            stored.append(writer.stdout.readline().decode().strip())
        await asyncio.sleep(random.Random(seed).random())  # noqa: S311 - repeatable
        durable_postgres.stop(signal.SIGQUIT)
        for writer in writers:
            writer.kill()
            out, _ = writer.communicate()
            stored += out.decode().split("\n")[:-1]
        durable_postgres.start()
    store = PostgresStore(url)
    keys = await store.keys("", limit=1_000_000)

    assert len(stored) > 8
    assert [] == sorted({*stored} - {*keys})
    assert [key.encode() * 300 for key in keys] == await store.read_many(keys)


def test_forked_children_have_connections_of_their_own(store: PostgresStore) -> None:
    """Also if threads use the store during the fork."""
    is_over = threading.Event()

    async def read_on() -> None:
        while not is_over.is_set():
            await store.read("runs/a/1")

    threads = [
        threading.Thread(target=asyncio.run, args=(read_on(),)) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    codes = [exit_code_of_child(store, number) for number in range(10)]
    is_over.set()
    for thread in threads:
        thread.join()

    assert [0] * 10 == codes
    assert 10 == len(asyncio.run(store.keys("child/")))


def exit_code_of_child(store: PostgresStore, number: int) -> int:
    pid = os.fork()
    if not pid:
        code = 1
        try:
            create = store.create(f"child/{number}", b"")
            asyncio.run(asyncio.wait_for(create, 60))
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_store_can_be_sent_to_another_process(url: str) -> None:
    opener: Callable[[], Any] = partial(open_store, url)
    again = pickle.loads(pickle.dumps(opener))()  # noqa: S301 - made here

    asyncio.run(again.create("a", b""))


def test_idle_connections_are_closed_in_time(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use_many() -> None:
        await asyncio.gather(*(store.read("runs/a/1") for _ in range(20)))

    asyncio.run(use_many())
    idle = store._connections._pool().idle
    assert 1 <= len(idle) <= 10
    monkeypatch.setattr(postgres_connections, "_MAX_IDLE_SECONDS", -1.0)
    asyncio.run(store.read("runs/a/1"))
    assert [] == idle


def test_stores_of_one_database_share_their_connections(
    postgres: PostgresServer,
) -> None:
    """A program may open a store for each request."""
    ours = "application_name = 'continuations'"
    postgres.terminate_others(ours)
    for _ in range(8):
        url = postgres.new_url()
        for _ in range(8):
            assert [] == asyncio.run(PostgresStore(url).keys(""))

    assert 1 == postgres.terminate_others(ours)


def test_opening_a_store_uses_no_network() -> None:
    began = time.monotonic()
    open_store("postgresql://192.0.2.1/app")  # an address that no machine has

    assert time.monotonic() - began < 1
