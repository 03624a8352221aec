"""The store in one SQLite file: how it is made, locked, full, damaged, gone, forked.

The driver of the standard library, with plain SQL, is the independent reader.
"""
# ruff: noqa: ASYNC240 -- quick calls, and nothing else runs
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import errno
import os
import pickle
import resource
import shutil
import sqlite3
import stat
import threading
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from continuations_storage import (
    AlreadyExists,
    Damaged,
    Denied,
    Inconclusive,
    InvalidKey,
    NotFound,
    SQLiteStore,
    StorageError,
    Unavailable,
    Unsafe,
    Unsupported,
    open_store,
    sqlite_file,
)
from continuations_storage.contract import (
    Changes,
    Page,
    created_at,
    missing_folder,
    read_many,
)
from continuations_storage.faults import ForwardingStore

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

KIB = 1024


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def store(path: Path) -> SQLiteStore:
    """Return a store with one body."""
    store = SQLiteStore(path)
    asyncio.run(store.create("runs/a/1", b"first"))
    return store


@pytest.fixture
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "_MAX_WAIT_SECONDS", 0.2)


def rows(path: Path, query: str = "SELECT key FROM objects ORDER BY key") -> list[Any]:
    with closing(sqlite3.connect(path)) as reader:
        return [row[0] for row in reader.execute(query)]


# The file -----------------------------------------------------------------------


async def test_first_create_makes_the_file_for_its_owner(tmp_path: Path) -> None:
    """Reads, listings and deletes do not make it."""
    path = tmp_path / "new" / "deep" / "runs.db"
    store = SQLiteStore(path)
    with pytest.raises(NotFound):
        await store.read("a")
    assert [] == await store.keys("")
    assert [None] == await read_many(store, ["a"])
    await store.delete("a")
    assert not path.parent.parent.exists()
    assert str(path) == missing_folder(store) == missing_folder(ForwardingStore(store))

    await store.create("a", b"body")

    assert (None, None) == (
        missing_folder(store),
        missing_folder(ForwardingStore(store)),
    )
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert 0o700 == stat.S_IMODE(path.parent.stat().st_mode)
    assert {"runs.db", "runs.db-shm", "runs.db-wal"} == {
        file.name for file in path.parent.iterdir()
    }


def test_file_is_made_where_files_have_names_from_the_start(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)

    asyncio.run(SQLiteStore(path).create("a", b"body"))

    assert ["a"] == rows(path)
    assert (1, 0o600) == (path.stat().st_nlink, stat.S_IMODE(path.stat().st_mode))
    assert [] == [file.name for file in path.parent.iterdir() if "+" in file.name]


def test_creates_are_flushed_and_the_log_is_on(store: SQLiteStore, path: Path) -> None:
    with store._file.connection() as connection:
        values = [
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "secure_delete", "auto_vacuum")
        ]

    assert ["wal", 2, 1, 2] == values
    assert ["ok"] == rows(path, "PRAGMA integrity_check")


def test_file_is_opened_by_its_path_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path is resolved when the store is opened."""
    monkeypatch.chdir(tmp_path)
    for name in ("runs.db", "50%.db", "why?.db", "a#b.db", "a b ä.db"):
        store = open_store(f"sqlite:{name}")
        monkeypatch.chdir("/")
        asyncio.run(store.create("a", b"body"))
        monkeypatch.chdir(tmp_path)
        assert ["a"] == rows(tmp_path / name)
        again = pickle.loads(pickle.dumps(store))  # noqa: S301 - made here
        assert b"body" == asyncio.run(again.read("a"))
        assert f"<SQLiteStore sqlite:{tmp_path / name}>" == repr(again)


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("sqlite:", "no path"),
        ("sqlite::memory:", "Use memory:"),
        ("sqlite:///runs.db", "Use sqlite:PATH"),
        ("sqlite:~/runs.db", r"use 'sqlite:\./~/runs\.db'"),
    ],
)
def test_url_with_another_meaning_elsewhere_is_refused(url: str, advice: str) -> None:
    with pytest.raises(Unsupported, match=advice):
        open_store(url)


def test_old_sqlite_and_options_are_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Unsupported, match="no option 'timeout'"):
        open_store(f"sqlite:{path}", timeout=3)
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 9))
    with pytest.raises(Unsupported, match=r"too old.*3\.37 or newer"):
        open_store(f"sqlite:{path}")


# Keys and times -----------------------------------------------------------------


async def test_any_text_may_begin_a_page(store: SQLiteStore) -> None:
    for key in ("runs/a/2", "runs/b", "z"):
        await store.create(key, b"")
    keys = ["runs/a/1", "runs/a/2", "runs/b", "z"]
    for after in ("runs/a/1\0", "runs/aé", "runs/a/1\udc80x", "runs/a/\U0001f600", "~"):
        assert [key for key in keys if key > after] == await store.keys("", after)
    assert keys == await store.keys("", limit=1 << 80)


async def test_folder_of_keys_and_key_in_a_key_are_refused(store: SQLiteStore) -> None:
    with pytest.raises(InvalidKey, match=r"folder of 'runs/a/1'"):
        await store.create("runs/a", b"")
    with pytest.raises(InvalidKey, match="'runs/a/1' is a key"):
        await store.create("runs/a/1/x/y", b"")
    assert ["runs/a/1"] == await store.keys("")


async def test_create_and_listing_tell_the_time(store: SQLiteStore) -> None:
    time = await store.create("b", b"")
    page = await store.keys("")

    assert time == await created_at(store, "b")
    assert isinstance(page, Page)
    assert page.store_time is not None
    assert time <= page.store_time <= datetime.now(UTC) < time + timedelta(minutes=1)
    with pytest.raises(NotFound):
        await store.created_at("c")


async def test_bodies_of_every_size_are_read_together(store: SQLiteStore) -> None:
    sizes = (0, 1, 4 * KIB, 64 * KIB, 64 * KIB + 1, 1 << 20)
    for size in sizes:
        await store.create(f"s/{size}", bytes(size))
    keys = [f"s/{size}" for size in sizes]

    assert [await store.read(key) for key in keys] == await store.read_many(keys)
    assert [None, b"first"] == await store.read_many(["x", "runs/a/1"])


# Other files --------------------------------------------------------------------


def made_by_another_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.executescript("CREATE TABLE orders (id); INSERT INTO orders VALUES (1)")


def with_statement(statement: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        asyncio.run(SQLiteStore(path).create("a", b"body"))
        with closing(sqlite3.connect(path)) as other:
            other.executescript(f"{statement}; PRAGMA wal_checkpoint(TRUNCATE)")

    return make


def with_damage(offset: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with_statement("")(path)
        with path.open("r+b") as file:
            file.seek(offset)
            file.write(b"\xa5" * 300)

    return make


FILES: dict[str, tuple[Callable[[Path], object], type[StorageError], str]] = {
    "empty": (Path.touch, Damaged, "the file is empty"),
    "text": (lambda path: path.write_text("x" * 5000), Damaged, "not a database"),
    "other": (made_by_another_program, Unsafe, "of another program"),
    "newer": (with_statement("PRAGMA user_version = 2"), Unsafe, "format 2"),
    "trigger": (
        with_statement(
            "CREATE TRIGGER t AFTER INSERT ON objects BEGIN DELETE FROM objects; END"
        ),
        Damaged,
        "its table was changed",
    ),
    "no table": (with_statement("DROP TABLE objects"), Damaged, "table was changed"),
    "header": (with_damage(0), Damaged, "not a database"),
    "page": (with_damage(100), Damaged, "malformed"),
    "folder": (Path.mkdir, Unavailable, "not a file"),
    "pipe": (os.mkfifo, Unavailable, "not a file"),
}


@pytest.mark.parametrize("name", FILES)
async def test_file_that_is_no_store_is_named_and_not_changed(
    name: str, path: Path
) -> None:
    make, error, reason = FILES[name]
    await asyncio.to_thread(make, path)
    before = path.read_bytes() if path.is_file() else None
    store = SQLiteStore(path)

    for operation in (store.create("b", b""), store.read("a"), store.delete("a")):
        with pytest.raises(error, match=reason) as raised:
            await operation
        assert f"sqlite:{path}: " in str(raised.value)
    with pytest.raises(error, match=reason):
        await store.keys("")
    assert before == (path.read_bytes() if path.is_file() else None)


async def test_network_file_system_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """See https://www.sqlite.org/wal.html: the processes share memory."""

    def file_system(_: int) -> str:
        return "nfs4"

    monkeypatch.setattr(sqlite_file, "_file_system", file_system)

    with pytest.raises(Unsafe, match=r"is nfs4.*Use a file on a local disk"):
        await SQLiteStore(path).probe()


def test_type_of_a_file_system_is_found() -> None:
    if Path("/proc/self/mountinfo").exists():
        assert "proc" == sqlite_file._file_system(Path("/proc").stat().st_dev)
    assert "" == sqlite_file._file_system(os.makedev(4000, 77))


async def test_file_that_has_gone_or_was_replaced_is_not_taken(
    store: SQLiteStore, path: Path
) -> None:
    """Otherwise a disk that is not mounted would look like an empty store."""
    moved = path.with_name("moved.db")
    path.rename(moved)
    for operation in (store.create("b", b""), store.read("runs/a/1"), store.keys("")):
        with pytest.raises(Unavailable, match=r"has gone.*put the file back"):
            await operation
    with pytest.raises(Damaged, match=r"a log \(-wal\) without it.*remove its log"):
        await SQLiteStore(path).create("other", b"")
    shutil.copy(moved, path)
    with pytest.raises(Unavailable, match=r"replaced by another one"):
        await store.create("b", b"")
    moved.replace(path)

    await store.create("b", b"")
    assert ["b", "runs/a/1"] == await store.keys("")


async def test_link_to_no_file_is_unavailable(path: Path) -> None:
    path.symlink_to("elsewhere.db")
    store = SQLiteStore(path)

    assert str(path) == missing_folder(store)
    assert [] == await store.keys("")
    with pytest.raises(Unavailable, match="a symbolic link to a file that does not"):
        await store.create("a", b"")


async def test_folder_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = SQLiteStore(tmp_path / "file" / "runs.db")

    assert [] == await store.keys("")
    with pytest.raises(Unavailable, match="is not a folder"):
        await store.create("a", b"")


# Locks --------------------------------------------------------------------------


@pytest.fixture
def locked(store: SQLiteStore, path: Path) -> Generator[sqlite3.Connection]:
    """Yield a connection that holds the lock of writers."""
    del store
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other


@pytest.mark.usefixtures("short_wait")
async def test_locked_file_is_read_and_refuses_a_create_after_a_while(
    store: SQLiteStore, locked: sqlite3.Connection
) -> None:
    assert b"first" == await store.read("runs/a/1")
    with pytest.raises(Unavailable, match=r"locked by another .* End the program"):
        await store.create("b", b"")
    with pytest.raises(Unavailable, match="locked by another"):
        await store.delete("runs/a/1")

    locked.execute("ROLLBACK")
    await store.create("b", b"")
    assert ["b", "runs/a/1"] == await store.keys("")


@pytest.mark.usefixtures("short_wait", "locked")
async def test_many_creates_wait_for_a_lock_no_longer_than_one(
    store: SQLiteStore,
) -> None:
    creates = [store.create(f"b/{number}", b"") for number in range(30)]
    begun = time.monotonic()
    outcomes = await asyncio.gather(*creates, return_exceptions=True)

    assert {Unavailable} == set(map(type, outcomes))
    assert time.monotonic() - begun < 3


@pytest.mark.usefixtures("short_wait")
async def test_file_locked_for_one_program_alone_is_not_read(path: Path) -> None:
    """A database tool can take the whole file."""
    sqlite_file.DatabaseFile(str(path)).make()
    store = SQLiteStore(path)
    with closing(sqlite3.connect(path)) as other:
        other.executescript("PRAGMA journal_mode=DELETE; BEGIN EXCLUSIVE")
        with pytest.raises(Unavailable, match="locked by another"):
            await store.read("a")

    assert [] == await store.keys("")
    assert ["wal"] == rows(path, "PRAGMA journal_mode")


async def test_event_loop_goes_on_while_a_create_waits(
    store: SQLiteStore, locked: sqlite3.Connection
) -> None:
    create = asyncio.create_task(store.create("b", b"x"))
    for _ in range(20):
        await asyncio.sleep(0.005)
        assert b"first" == await store.read("runs/a/1")
    assert not create.done()

    locked.execute("ROLLBACK")
    await create


async def test_cancelled_create_may_be_stored_and_disturbs_no_other(
    store: SQLiteStore, locked: sqlite3.Connection
) -> None:
    """One that waits for the lock goes on; one that has not begun is not made."""
    begun = asyncio.create_task(store.create("begun", b"x"))
    await asyncio.sleep(0.05)
    waiting = asyncio.create_task(store.create("waiting", b"x"))
    other = asyncio.create_task(store.create("other", b"x"))
    await asyncio.sleep(0.05)
    for task in (begun, waiting):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    locked.execute("ROLLBACK")
    await other
    assert ["begun", "other", "runs/a/1"] == await store.keys("")


# Errors of the disk -------------------------------------------------------------


def set_connections(patch: pytest.MonkeyPatch, kind: type[sqlite3.Connection]) -> None:
    patch.setattr(sqlite_file, "_Connection", kind)


class SmallDisk(sqlite3.Connection):
    """A database that can have 40 pages."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.execute("PRAGMA max_page_count = 40")

    def __del__(self) -> None:
        self.close()


async def test_full_disk_refuses_the_large_body_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_connections(monkeypatch, SmallDisk)
    store = SQLiteStore(path)
    await store.create("a", b"first")

    bodies = {"b": b"small", "c": bytes(200 * KIB), "d": b"small"}
    outcomes = await asyncio.gather(
        *(store.create(*item) for item in bodies.items()), return_exceptions=True
    )

    assert [datetime, Unavailable, datetime] == list(map(type, outcomes))
    assert "SQLITE_FULL" in str(outcomes[1])
    assert ["a", "b", "d"] == rows(path)


class FailingCommit(sqlite3.Connection):
    """A connection whose commits fail."""

    code = sqlite3.SQLITE_IOERR_FSYNC

    def __del__(self) -> None:
        self.close()

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        if sql == "COMMIT":
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = self.code
            raise error
        return super().execute(sql, *args)


class FullAtCommit(FailingCommit):
    """A connection whose log has no room for the end of the transaction."""

    code = sqlite3.SQLITE_FULL


@pytest.mark.parametrize(
    ("kind", "error"), [(FailingCommit, Inconclusive), (FullAtCommit, Unavailable)]
)
async def test_create_without_a_confirmed_flush_is_inconclusive(
    kind: type[sqlite3.Connection],
    error: type[StorageError],
    store: SQLiteStore,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SQLite notices a full disk before the mark of the commit is written."""
    with monkeypatch.context() as patch:
        set_connections(patch, kind)
        failing = SQLiteStore(path)
        for number in range(2):
            with pytest.raises(error, match=r"runs\.db: .*disk I/O error"):
                await failing.create(f"b/{number}", b"")

    assert ["runs/a/1"] == await store.keys("")


class FullOnce(sqlite3.Connection):
    """A connection with one full disk; then another process creates a key."""

    path: Path
    has_failed = False

    def __del__(self) -> None:
        self.close()

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        if sql == "COMMIT" and not FullOnce.has_failed:
            FullOnce.has_failed = True
            error = sqlite3.OperationalError("full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        if sql == "BEGIN IMMEDIATE" and FullOnce.has_failed:
            with closing(sqlite3.connect(self.path)) as other, other:
                other.execute("INSERT OR IGNORE INTO objects VALUES ('v/1', 0, x'')")
        return super().execute(sql, *args)


async def test_commit_that_is_made_again_says_nothing_of_the_first_time(
    store: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first transaction would have deleted the key; the second one may not."""
    await store.create("m", b"")
    monkeypatch.setattr(FullOnce, "path", path, raising=False)
    monkeypatch.setattr(FullOnce, "has_failed", False)
    set_connections(monkeypatch, FullOnce)
    again = SQLiteStore(path)
    changes = Changes(key="v/5", body=b"", deletes=["m"], only_if_first="v/")

    committed, _ = await asyncio.gather(again.commit(changes), again.create("b", b""))

    assert FullOnce.has_failed
    assert not committed.is_cleaned
    assert ["b", "m", "runs/a/1", "v/1", "v/5"] == rows(path)


async def test_commit_harms_no_other_change_of_its_transaction(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not if it is refused, and not if one of its bodies is too large for the disk."""
    set_connections(monkeypatch, SmallDisk)
    store = SQLiteStore(path)
    await store.create("taken", b"")
    large = Changes(key="a", body=b"", also={"b": bytes(200 * KIB)}, deletes=["taken"])
    folder = Changes(key="c", body=b"", also={"d": b"", "d/e": b""}, deletes=["taken"])
    late = Changes(key="taken", body=b"", also={"f": b""}, deletes=["taken"])

    outcomes = await asyncio.gather(
        store.create("d", b"first"),
        *map(store.commit, (large, folder, late)),
        store.create("z", b"last"),
        return_exceptions=True,
    )

    kinds = [datetime, Unavailable, InvalidKey, AlreadyExists, datetime]
    assert kinds == list(map(type, outcomes))
    assert ["d", "taken", "z"] == rows(path)
    assert b"first" == await store.read("d")


def test_log_that_may_not_grow_is_inconclusive_and_harms_nothing(
    store: SQLiteStore, path: Path
) -> None:
    """A real error of the system, in a child whose files have a limit."""
    pid = os.fork()
    if not pid:
        try:
            limit = path.with_name("runs.db-wal").stat().st_size + 5 * KIB
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            asyncio.run(store.create("b", bytes(64 * KIB)))
        except Inconclusive:
            os._exit(7)
        finally:
            os._exit(1)

    assert 7 == os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    asyncio.run(store.create("c", b""))
    assert ["c", "runs/a/1"] == rows(path)
    assert ["ok"] == rows(path, "PRAGMA integrity_check")


@pytest.mark.parametrize(
    ("number", "error"),
    [(errno.EACCES, Denied), (errno.EIO, Unavailable), (errno.ENOTSUP, Unsafe)],
)
async def test_error_of_the_system_while_the_file_is_made_is_named(
    number: int, error: type[StorageError], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(error, match=r"runs\.db.*" + os.strerror(number)):
        await SQLiteStore(path).create("a", b"")
    assert [] == [file.name for file in path.parent.iterdir() if file.is_file()]


async def test_flush_that_fails_when_the_file_is_opened_is_unavailable(
    store: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fsync(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    again = SQLiteStore(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        for operation in (again.read("runs/a/1"), again.create("b", b"")):
            with pytest.raises(Unavailable, match=os.strerror(errno.EIO)):
                await operation

    assert ["runs/a/1"] == await again.keys("") == await store.keys("")


async def test_file_that_is_read_only_is_read_and_not_written(
    store: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite opens a file without permission to write it in the same mode."""
    real = sqlite3.connect

    def connect(url: str, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection
        connection = real(url.replace("mode=rw", "mode=ro"), **options)
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect)
    reader = SQLiteStore(path)

    assert b"first" == await reader.read("runs/a/1")
    with pytest.raises(Denied, match=r"READONLY.*Let this process write"):
        await reader.create("b", b"")
    assert ["runs/a/1"] == await store.keys("")


# Erasures -----------------------------------------------------------------------


async def test_file_shrinks_after_erasures(store: SQLiteStore, path: Path) -> None:
    keys = [f"x/{number}" for number in range(300)]
    await asyncio.gather(*(store.create(key, bytes(64 * KIB)) for key in keys))
    largest = rows(path, "PRAGMA page_count")[0]
    for key in keys:
        await store.delete(key)
    rows(path, "PRAGMA wal_checkpoint(TRUNCATE)")

    assert path.stat().st_size < largest * 4096 / 2
    assert ["runs/a/1"] == rows(path)
    assert ["ok"] == rows(path, "PRAGMA integrity_check")


async def test_erased_body_is_overwritten(store: SQLiteStore, path: Path) -> None:
    for size in (100, 100 * KIB):
        await store.create(f"e/{size}", b"secret" + bytes(size))
    rows(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    assert b"secret" in path.read_bytes()

    for size in (100, 100 * KIB):
        await store.delete(f"e/{size}")
    rows(path, "PRAGMA wal_checkpoint(TRUNCATE)")

    left = [file for file in path.parent.iterdir() if b"secret" in file.read_bytes()]
    assert [] == left


async def test_vacuum_and_backup_of_other_tools_leave_a_store(
    store: SQLiteStore, path: Path, tmp_path: Path
) -> None:
    """Both work while a process uses the store."""
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(path)) as tool, closing(sqlite3.connect(copy)) as to:
        tool.execute("VACUUM")
        tool.execute("ANALYZE")
        tool.backup(to)

    for each in (store, SQLiteStore(path), SQLiteStore(copy)):
        await each.create(f"new/{id(each)}", b"")
        assert b"first" == await each.read("runs/a/1")


# Processes ----------------------------------------------------------------------


def test_fork_while_threads_write_leaves_a_child_that_works(store: SQLiteStore) -> None:
    """The locks of the library are free in the child, and its connections new."""
    is_over = threading.Event()

    async def write_on(name: int) -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            await store.create(f"p/{name}/{number}", b"x")
            await store.read(f"p/{name}/{number}")
            # Without a pause, a child waits long for its turn on a busy disk.
            await asyncio.sleep(0.005)

    def write(name: int) -> None:
        asyncio.run(write_on(name))

    threads = [threading.Thread(target=write, args=(name,)) for name in range(3)]
    for thread in threads:
        thread.start()
    statuses = [exit_code_of_child(store, number) for number in range(20)]
    is_over.set()
    for thread in threads:
        thread.join()

    assert [0] * 20 == statuses
    assert 20 == len(asyncio.run(store.keys("child/")))


def exit_code_of_child(store: SQLiteStore, number: int) -> int:
    pid = os.fork()
    if not pid:
        code = 1
        try:
            asyncio.run(asyncio.wait_for(store.create(f"child/{number}", b""), 60))
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


async def test_second_create_of_a_batch_finds_the_first(store: SQLiteStore) -> None:
    outcomes = await asyncio.gather(
        *(store.create("b", bytes([n])) for n in range(8)), return_exceptions=True
    )

    assert 7 == sum(isinstance(each, AlreadyExists) for each in outcomes)
    assert b"\0" == await store.read("b")


async def test_new_connection_flushes_the_log_that_it_takes_over(
    store: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that wrote it may have died before its own flush."""
    flushed: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        flushed.append(os.fstat(descriptor).st_ino)
        real(descriptor)

    del store
    monkeypatch.setattr(os, "fsync", fsync)
    assert b"first" == await SQLiteStore(path).read("runs/a/1")

    log = path.with_name("runs.db-wal")
    assert [log.stat().st_ino, path.parent.stat().st_ino] == flushed
