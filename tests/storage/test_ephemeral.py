"""Ephemeral values of each store: their files, their table, and hostile content.

`continuations_storage.conformance` has the tests that every store passes.
"""

from __future__ import annotations

import asyncio
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from continuations_storage import FileStore, MemoryStore, SQLiteStore, Store
from continuations_storage.contract import (
    MAX_EPHEMERAL_BYTES,
    MAX_EPHEMERAL_SECONDS,
    Ephemeral,
    ephemeral,
)
from continuations_storage.ephemeral_files import EphemeralFiles
from continuations_storage.errors import Denied, NotFound, StorageError, Unavailable
from continuations_storage.faults import FaultyStore, ForwardingStore
from continuations_storage.postgres import PostgresStore
from continuations_storage.retries import RetryPolicy
from tests.postgres_server import OWNER, PASSWORD, PostgresServer

OPENERS: dict[str, tuple[str, Callable[[Path], Store]]] = {
    "files": ("runs/.ephemeral+", lambda folder: FileStore(folder / "runs")),
    "SQLite": ("runs.db-ephemeral", lambda folder: SQLiteStore(folder / "runs.db")),
}


def values_of(store: Store) -> Ephemeral:
    values = ephemeral(store)
    assert values is not None
    return values


@pytest.mark.parametrize("wrap", [ForwardingStore, FaultyStore])
def test_wrapper_does_not_pass_the_values_on(wrap: Callable[[Store], Store]) -> None:
    """It may seal what is stored."""
    assert ephemeral(wrap(MemoryStore())) is None


# Files ------------------------------------------------------------------------------


class Place:
    """A store with a folder of ephemeral values."""

    def __init__(self, kind: str, folder: Path) -> None:
        name, make = OPENERS[kind]
        self.folder, self.store = folder / name, make(folder)
        self.home = folder / name.removesuffix("/.ephemeral+").removesuffix(
            "-ephemeral"
        )

    @property
    def values(self) -> Ephemeral:
        return values_of(self.store)

    def file(self, name: str) -> Path:
        return self.folder / name


@pytest.fixture(params=OPENERS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Make a store with one value."""
    made = Place(request.param, tmp_path)

    async def prepare() -> None:
        await made.store.create("a", b"")
        await made.values.put({"w/a": b"one"}, 30)

    asyncio.run(prepare())
    return made


async def test_value_in_a_store_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    """A reader of a wrong path makes nothing there."""
    for kind in OPENERS:
        values = Place(kind, tmp_path).values
        with pytest.raises(NotFound):
            await values.put({"a": b""}, 1)
        assert {} == await values.get(["a"])
        assert [] == await values.names("")
        await values.remove(["a"])
    assert [] == os.listdir(tmp_path)  # noqa: PTH208 - not in a coroutine of Path


@pytest.fixture
def mask(request: pytest.FixtureRequest) -> Iterator[int]:
    """Let the process make files with a mask."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.mark.parametrize("mask", [0, 0o022, 0o077], indirect=True)
@pytest.mark.parametrize("mode", [0o600, 0o660, 0o644])
async def test_rights_of_the_files_are_those_of_the_store(
    mode: int, mask: int, tmp_path: Path
) -> None:
    """A database decides alone; in a folder, the mask of the process counts too."""
    for kind in OPENERS:
        place = Place(kind, tmp_path / kind)
        await place.store.create("a", b"")
        can_enter = (mode & 0o444) >> 2
        is_folder = place.home.is_dir()
        place.home.chmod(mode | (can_enter if is_folder else 0))
        await place.values.put({"w/a": b"one"}, 30)
        [file] = place.folder.iterdir()
        masked = ~mask if is_folder else ~0
        assert mode & masked == stat.S_IMODE(file.stat().st_mode)
        rights = (0o700 | mode | can_enter) & masked
        assert rights == stat.S_IMODE(place.folder.stat().st_mode)
        assert b"one" == file.read_bytes()


async def test_files_beside_a_database_have_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or none, if this process may not give it to them."""
    place = Place("SQLite", tmp_path)
    await place.store.create("a", b"")
    place.home.chmod(0o640)
    groups: list[int] = []
    stat_of = os.stat

    def of_group(path: Any, **options: Any) -> os.stat_result:
        status = stat_of(path, **options)
        group = 4711 if path == str(place.home) else status.st_gid
        return os.stat_result((*status[:5], group, *status[6:]))

    def refuse(_: object, __: int, group: int) -> None:
        groups.append(group)
        raise PermissionError

    monkeypatch.setattr(os, "stat", of_group)
    monkeypatch.setattr(os, "chown", refuse)
    await place.values.put({"w/a": b"one"}, 30)
    monkeypatch.undo()
    assert [4711, 4711] == groups
    [file] = place.folder.iterdir()
    assert 0o600 == stat.S_IMODE(file.stat().st_mode)
    assert 0o700 == stat.S_IMODE(place.folder.stat().st_mode)


async def test_file_of_a_killed_writer_is_removed_with_the_values(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.file("+0123456789abcdef").write_bytes(b"personal")
    await place.values.remove(["w/other"])
    assert place.file("+0123456789abcdef").exists()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 6)
    await place.values.remove(["w/other"])
    assert not place.file("+0123456789abcdef").exists()


async def test_hostile_files_are_no_values(place: Place, tmp_path: Path) -> None:
    """No link is followed, and no reader waits or reads without a limit."""
    end = time.time() + 20
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    os.utime(secret, (end, end))
    place.file("w+link").symlink_to(secret)
    place.file("w+folder").mkdir()
    os.mkfifo(place.file("w+pipe"))
    with place.file("w+large").open("wb") as large:
        large.truncate(MAX_EPHEMERAL_BYTES + 1)
    place.file("w+far").write_bytes(b"far")
    for name in ("w+folder", "w+pipe", "w+large"):
        os.utime(place.file(name), (end, end))
    far = time.time() + 10 * MAX_EPHEMERAL_SECONDS
    os.utime(place.file("w+far"), (far, far))
    names = [f"w/{each}" for each in ("a", "link", "folder", "pipe", "large", "far")]
    async with asyncio.timeout(5):
        assert {"w/a": b"one"} == await place.values.get(names)
        assert "w/a" in await place.values.names("w/")
        with pytest.raises(StorageError):
            await place.values.put({"w/folder": b""}, 1)
    assert b"secret" == secret.read_bytes()


async def test_folder_that_is_a_link_is_not_used(place: Place, tmp_path: Path) -> None:
    other = tmp_path / "other"
    place.folder.rename(other)
    place.folder.symlink_to(other)
    assert {} == await place.values.get(["w/a"])
    for act in (place.values.put({"w/b": b""}, 1), place.values.names("")):
        with pytest.raises(StorageError):
            await act
    assert ["w+a"] == [each.name for each in other.iterdir()]


@pytest.mark.parametrize("act", ["mode", "owner"])
async def test_folder_that_others_could_have_made_is_not_used(
    place: Place, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a file in /tmp, for example; a store of a group may be shared."""
    if act == "mode":
        place.folder.chmod(0o777)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4711)
        fstat = os.fstat

        def of_another_user(descriptor: int) -> os.stat_result:
            status = fstat(descriptor)
            return os.stat_result((*status[:4], 4712, *status[5:]))

        monkeypatch.setattr(os, "fstat", of_another_user)
    assert {} == await place.values.get(["w/a"])
    for act_of in (place.values.put({"w/b": b""}, 1), place.values.names("")):
        with pytest.raises(Denied, match="EPERM"):
            await act_of
    monkeypatch.undo()
    place.home.chmod(0o777)
    assert {"w/a": b"one"} == await place.values.get(["w/a"])


async def test_store_that_was_replaced_gets_no_values(
    place: Place, tmp_path: Path
) -> None:
    """Its disk may not be mounted any more."""
    place.home.rename(tmp_path / "away")
    with pytest.raises(NotFound):
        await place.values.put({"w/b": b""}, 1)
    make = place.home.touch if place.home.suffix else place.home.mkdir
    make()
    with pytest.raises(Unavailable):
        await place.values.put({"w/b": b""}, 1)
    assert {} == await place.values.get(["w/b"])


async def test_listing_of_names_removes_what_has_ended(place: Place) -> None:
    """Also temporary files of writers that were killed, but not of those that write."""
    now = time.time()
    for name, age in (("+old", -120.0), ("+new", -0.1), ("+ready", 20.0), ("w+b", -1)):
        place.file(name).write_bytes(b"x")
        os.utime(place.file(name), (now + age, now + age))
    assert ["w/a"] == await place.values.names("w/")
    assert ["w/a"] == await place.values.names("")
    left = {each.name for each in place.folder.iterdir()}
    assert {"+new", "+ready", "w+a"} == left


async def test_reader_gets_one_whole_value_while_others_write(place: Place) -> None:
    """A value is replaced in one step, by threads of several stores."""
    bodies = [bytes([number]) * 50_000 for number in range(4)]
    stop = threading.Event()

    def write(body: bytes) -> None:
        values = EphemeralFiles(str(place.folder), str(place.home))

        async def put() -> None:
            while not stop.is_set():
                await values.put({"w/a": body}, 30)

        asyncio.run(put())

    threads = [threading.Thread(target=write, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    try:
        for _ in range(300):
            [value] = (await place.values.get(["w/a"])).values()
            assert value == b"one" or value in bodies
    finally:
        stop.set()
        for thread in threads:
            await asyncio.to_thread(thread.join)
    assert ["w+a"] == [each.name for each in place.folder.iterdir()]


# Postgres ---------------------------------------------------------------------------

ONCE = RetryPolicy(max_attempts=1)


async def test_database_without_the_table_works_until_it_is_migrated(
    postgres: PostgresServer,
) -> None:
    """An older release made the table of objects alone."""
    url = postgres.new_url()
    schema = url.rpartition("schema=")[2]
    postgres.rows(f"DROP TABLE {schema}.ephemeral")
    store = PostgresStore(url)
    await store.create("a", b"")
    with pytest.raises(Unavailable, match="run `continuations migrate") as raised:
        await values_of(store).put({"a": b""}, 1)
    assert PASSWORD not in str(raised.value)
    assert not await store.migrate()
    await values_of(store).put({"a": b"one"}, 1)
    assert {"a": b"one"} == await values_of(store).get(["a"])


async def test_roles_read_all_values_and_a_decider_sets_followers_alone(
    postgres: PostgresServer,
) -> None:
    """A value of words is read as the versions are."""
    from continuations.ledger.layout import role_rights  # noqa: PLC0415 - of another package

    url = postgres.new_url()
    store = PostgresStore(url)
    roles = [f"{name}_{os.urandom(4).hex()}" for name in ("decider", "worker")]
    for role in roles:
        postgres.rows(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")
    await store.migrate(role_rights(*roles))
    decider, worker = (
        values_of(PostgresStore(url.replace(OWNER, role, 1), retry_policy=ONCE))
        for role in roles
    )
    await worker.put({"words/t": b"one"}, 30)
    await decider.put({"followers/t/p": b""}, 30)
    await decider.put({"followers/t/p": b"x"}, 30)
    assert ["followers/t/p"] == await worker.names("followers/")
    assert {"words/t": b"one"} == await decider.get(["words/t"])
    for name in ("words/t", "words/u"):
        with pytest.raises(Denied):
            await decider.put({name: b"forged"}, 30)
    await decider.remove(["words/t"])
    assert {"words/t": b"one"} == await worker.get(["words/t"])
    await worker.remove(["words/t", "followers/t/p"])
    assert [] == await decider.names("")
    for role in roles:
        postgres.terminate_others(f"usename = '{role}'")
        postgres.rows(f"DROP OWNED BY {role}")
        postgres.rows(f"DROP ROLE {role}")


async def test_hostile_rows_are_no_values(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    schema = url.rpartition("schema=")[2]
    values = values_of(PostgresStore(url))
    insert = f"INSERT INTO {schema}.ephemeral VALUES ('{{}}', {{}}, '{{}}')"  # noqa: S608 - our own
    soon, far = "now() + interval '20 s'", "'infinity'"
    postgres.rows(insert.format("large", soon, "x" * (MAX_EPHEMERAL_BYTES + 1)))
    postgres.rows(insert.format("far", far, "x"))
    postgres.rows(insert.format("ended", "now()", "x"))
    await values.put({"a": b"one"}, 30)
    assert {"a": b"one"} == await values.get(["a", "large", "far", "ended"])
    assert {"a", "large"} == {*await values.names("")}
    await values.remove(["large"])
    rows = postgres.rows(f"TABLE {schema}.ephemeral")
    assert ["a"] == [name for name, *_ in rows]


async def test_values_work_behind_a_pooler(
    postgres: PostgresServer, bouncer: int
) -> None:
    values = values_of(PostgresStore(postgres.new_url(bouncer)))
    await values.put({"a": b"one", "b": bytes(1000)}, 30)
    assert {"a": b"one"} == await values.get(["a"])
    assert ["a", "b"] == sorted(await values.names(""))


async def test_values_end_with_a_crash_of_the_server(
    durable_postgres: PostgresServer,
) -> None:
    """A request is sent once: it is late after a retry."""
    import signal  # noqa: PLC0415 - for one test

    store = PostgresStore(durable_postgres.new_url())
    await store.create("a", b"kept")
    await values_of(store).put({"a": b"one"}, 60)
    durable_postgres.stop(signal.SIGQUIT)
    began_at = time.monotonic()
    with pytest.raises(Unavailable):
        await values_of(store).get(["a"])
    assert time.monotonic() - began_at < 5
    durable_postgres.start()
    assert b"kept" == await store.read("a")
    assert {} == await values_of(store).get(["a"])
