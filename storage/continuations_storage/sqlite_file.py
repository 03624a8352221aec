"""The file of an SQLite store: made whole, opened with care, and recognised later.

- The file is made in one step: an empty database with its table is written, flushed and
  linked to its name. So no process sees half a database.
- A connection belongs to one operation at a time, and to the process that opened it.
- This module never opens the database by itself: when a process closes any descriptor
  of a file, it loses the locks of all others, also those of SQLite. SQLite does not
  lock the log.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar, cast

from continuations_storage.errors import (
    Damaged,
    Denied,
    InvalidKey,
    NotFound,
    StorageError,
    Unavailable,
    Unsafe,
)
from continuations_storage.filesystem import FolderTree, flush, flush_folder
from continuations_storage.fork_safety import ForkGate, PerProcess
from continuations_storage.new_file import NamedFile, UnnamedFile, UnnamedUnsupported
from continuations_storage.oserrors import NO_HARD_LINKS, to_storage_error
from continuations_storage.step_groups import flush_together

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from continuations_storage.filesystem import Folder
    from continuations_storage.new_file import NewFile

__all__ = ["DatabaseFile", "is_locked"]

T = TypeVar("T")

_APPLICATION_ID = 0x434F4E54  # "CONT"
_FORMAT = 1
_TABLE = """\
CREATE TABLE objects (
    key TEXT NOT NULL PRIMARY KEY,
    created_at INTEGER NOT NULL, -- microseconds since 1970, UTC
    body BLOB NOT NULL
) STRICT"""
_SCHEMA = f"""
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_FORMAT};
{_TABLE};
"""
# For each connection. An erased body is overwritten with zeros. After a large body, the
# log becomes small again.
_SETTINGS = """
PRAGMA fullfsync = ON;
PRAGMA checkpoint_fullfsync = ON;
PRAGMA secure_delete = ON;
PRAGMA trusted_schema = OFF;
PRAGMA journal_size_limit = 8388608;
"""
_WAL_MODE = b"\2\2"  # https://www.sqlite.org/fileformat2.html, bytes 18 and 19
_TEMPORARY_FOLDER = ".tmp+"
_MAX_WAIT_SECONDS = 10.0
# The lock is held for a flush, so the first pauses are short: 50 us.
_MIN_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.00005, 0.005
_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_DENIED = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
# Their processes share no memory with those of other machines, which the log needs.
_NETWORK = (
    "nfs",
    "cifs",
    "smb",
    "9p",
    "afs",
    "ceph",
    "gfs",
    "ocfs",
    "lustre",
    "beegfs",
)
_NETWORK_FUSE = ("fuse.sshfs", "fuse.gluster", "fuse.s3fs", "fuse.rclone", "fuse.ceph")
_gate = ForkGate()
_GONE = (
    "Mount its disk again or put the file back; it is safe to repeat the call. To use "
    "the file that is there now, or to begin an empty store, start the process again."
)
_OTHER_FILE = "Name another file; this one was not changed."


class DatabaseFile:
    """One SQLite file and the open connections of this process.

    Attributes:
        path: The absolute path.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._idle: PerProcess[list[_Connection]] = PerProcess(list)
        self._found: tuple[int, int] | None = None

    def __str__(self) -> str:
        """Return the URL."""
        return f"sqlite:{self.path}"

    def has_idle_connection(self) -> bool:
        """Return whether an operation needs no new connection."""
        return bool(self._idle())

    @contextmanager
    def connection(self) -> Generator[sqlite3.Connection]:
        """Lend a connection to one operation.

        Raises:
            FileNotFoundError: There is no file, and this process never found one.
            StorageError: The file has gone, is damaged, or is none of a store.
            sqlite3.Error: The file cannot be opened, for example because it is locked.
        """
        with _gate:
            connection = self._take()
            try:
                yield connection
            finally:
                self._idle().append(connection)

    @contextmanager
    def version_reader(self) -> Generator[Callable[[], int | None]]:
        """Lend a function that tells of changes of the file.

        It returns another number after each change of this or another process; `None`
        without a usable file. SQLite counts the changes for each connection, and leaves
        out its own. So the function keeps one connection.
        """
        kept: PerProcess[list[_Connection]] = PerProcess(list)

        def read_version() -> int | None:
            with _gate, suppress(FileNotFoundError, StorageError, sqlite3.Error):
                if not kept():
                    kept().append(self._take())
                self._check_found()
                [version] = kept()[0].execute("PRAGMA data_version").fetchone()
                return cast("int", version)
            return None

        try:
            yield read_version
        finally:
            self._idle().extend(kept())

    def _take(self) -> _Connection:
        """Take an idle connection, or open one; call it in the gate."""
        self._check_found()
        try:
            return self._idle().pop()
        except IndexError:
            return self._connect()

    def wait_while_locked(self, function: Callable[[], T]) -> T:
        """Call a function again until another process has released its lock."""
        began_at = time.monotonic()
        while True:
            try:
                return function()
            except sqlite3.Error as cause:
                waited = time.monotonic() - began_at
                if not is_locked(cause) or waited > _MAX_WAIT_SECONDS:
                    raise
            pause = min(max(waited / 16, _MIN_PAUSE_SECONDS), _MAX_PAUSE_SECONDS)
            time.sleep(pause * (0.5 + os.urandom(1)[0] / 255))

    def make(self) -> None:
        """Make an empty database, unless another process makes it first.

        Raises:
            StorageError: The file was not made.
        """
        above, name = os.path.split(self.path)
        # SQLite would apply the log of a removed file to the new one.
        if os.path.exists(f"{self.path}-wal") and not os.path.exists(self.path):  # noqa: PTH110 -- pathlib is 5 ms cold
            advice = "Put the file back, or remove its log to begin an empty store."
            raise self._error(
                Damaged, "there is a log (-wal) without it", advice=advice
            )
        try:
            with suppress(FileExistsError):
                try:
                    _make(above, name, needs_names=False)
                except UnnamedUnsupported:
                    _make(above, name, needs_names=True)
        except OSError as cause:
            raise self._system_error(cause) from cause
        if not os.path.exists(self.path):  # noqa: PTH110 -- see above
            detail = "a symbolic link to a file that does not exist"
            raise self._error(Unavailable, detail, advice=_GONE)

    def to_storage_error(self, cause: Exception, key: str | None) -> StorageError:
        """Return the error of the contract for an error of SQLite or of its driver."""
        code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
        detail = f"{getattr(cause, 'sqlite_errorname', 'SQLITE')}: {cause}"
        advice = ""
        of_class: type[StorageError] = Unavailable
        if code in _LOCKED:
            detail = f"locked by another process for {_MAX_WAIT_SECONDS:g} s"
            advice = "End the program that keeps it locked, and try again."
        elif code in _DAMAGED:
            of_class, advice = Damaged, "Restore the file, or name another one."
        elif code in _DENIED or (
            code == sqlite3.SQLITE_CANTOPEN
            and not os.access(os.path.dirname(self.path), os.W_OK)  # noqa: PTH120 -- see above
        ):
            of_class = Denied
            advice = "Let this process write to the file and to its folder."
        return self._error(of_class, detail, key, advice)

    def _system_error(self, cause: OSError) -> StorageError:
        of_class = type(to_storage_error(cause, None))
        if of_class in {NotFound, InvalidKey}:  # these are about keys
            of_class = Unavailable
        return self._error(of_class, str(cause.strerror))

    def _error(
        self,
        of_class: type[StorageError],
        detail: str,
        key: str | None = None,
        advice: str = "",
    ) -> StorageError:
        return of_class(key, f"{self}: {detail}", advice=advice)

    def _check_found(self) -> tuple[int, int]:
        """Raise an error if another file, or none, is at the place of the first one."""
        found = self._found
        try:
            status = os.stat(self.path)  # noqa: PTH116 -- pathlib is 5 ms cold
        except (FileNotFoundError, NotADirectoryError):
            if found is None:
                raise FileNotFoundError from None
            raise self._error(Unavailable, "the file has gone", advice=_GONE) from None
        except OSError as cause:
            raise self._system_error(cause) from cause
        identity = status.st_dev, status.st_ino
        if found is None:
            self._check_place(status)
        elif found != identity:
            detail = "the file was replaced by another one"
            raise self._error(Unavailable, detail, advice=_GONE)
        return identity

    def _connect(self) -> _Connection:
        identity = self._check_found()
        path = self.path.translate({37: "%25", 63: "%3f", 35: "%23"})
        connection = sqlite3.connect(
            f"file://{path}?mode=rw",  # without a file, SQLite must not make one
            uri=True,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            factory=_Connection,
        )
        try:
            self._check_database(connection)
            self._flush_log()
            self._found = identity
            self._check_found()
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_database(self, connection: sqlite3.Connection) -> None:
        [application] = connection.execute("PRAGMA application_id").fetchone()
        [version] = connection.execute("PRAGMA user_version").fetchone()
        if application != _APPLICATION_ID:
            detail = "the database of another program"
            raise self._error(Unsafe, detail, advice=_OTHER_FILE)
        if version != _FORMAT:
            detail = f"format {version}, and this release knows {_FORMAT}"
            raise self._error(Unsafe, detail, advice="Update this program.")
        # With another table, or with a trigger, the rows would mean something else.
        tables = connection.execute(
            "SELECT sql FROM sqlite_schema WHERE tbl_name = 'objects'"
        )
        if tables.fetchall() not in ([(_TABLE,)], [(_TABLE,), (None,)]):
            advice = "Restore the file, or name another one."
            raise self._error(Damaged, "its table was changed", advice=advice)
        connection.executescript(_SETTINGS)
        [mode] = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            detail = "its file system has no shared memory, so SQLite has no log there"
            raise self._error(Unsafe, detail)

    def _flush_log(self) -> None:
        """Make what this connection sees durable.

        A process may be killed after it wrote to the log and before its flush. The next
        first connection takes over what it finds in the log.
        """
        path = os.path.realpath(self.path)
        above, _ = os.path.split(path)
        for flushed, function in ((f"{path}-wal", flush), (above, flush_folder)):
            with suppress(FileNotFoundError, PermissionError):
                descriptor = os.open(flushed, os.O_RDONLY)
                try:
                    function(descriptor)
                except OSError as cause:
                    if cause.errno != errno.EROFS:  # no process writes there
                        raise self._system_error(cause) from cause
                finally:
                    os.close(descriptor)

    def _check_place(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise self._error(Unavailable, "not a file", advice=_OTHER_FILE)
        if not status.st_size:
            advice = "Restore it, or remove it to begin an empty store."
            raise self._error(Damaged, "the file is empty", advice=advice)
        kind = _file_system(status.st_dev)
        if kind.startswith((*_NETWORK, *_NETWORK_FUSE)):
            detail = f"its file system is {kind}, and SQLite needs one of this machine"
            raise self._error(Unsafe, detail, advice="Use a file on a local disk.")


class _Connection(sqlite3.Connection):
    def __del__(self) -> None:
        # Python 3.13 warns of a connection that is not closed.
        self.close()


def is_locked(cause: Exception) -> bool:
    """Return whether another connection has the lock that an operation needs."""
    return getattr(cause, "sqlite_errorcode", 0) & 0xFF in _LOCKED


def _make(above: str, name: str, *, needs_names: bool) -> None:
    tree = FolderTree(above)
    folder = tree.open_or_create([])
    with closing(_write(tree, folder, needs_names=needs_names)) as file:
        os.fchmod(file.descriptor, 0o600)
        flushes = tree.ensure_durable(folder, file.written_at, (flush, file.descriptor))
        for together in flushes:
            flush_together(together)
        _link(file, folder, name)
        flush_folder(folder.descriptor)
        if needs_names:  # so that its temporary name is removed
            file.mark_flushed()
            os.fchmod(file.descriptor, 0o600)
    if needs_names:
        with suppress(OSError):
            os.rmdir(_TEMPORARY_FOLDER, dir_fd=folder.descriptor)


def _link(file: NewFile, folder: Folder, name: str) -> None:
    try:
        file.link(folder, name)
    except OSError as cause:
        if cause.errno in NO_HARD_LINKS:
            detail = f"the file system of {name!r} has no hard links"
            raise Unsafe(None, f"{detail} ({cause.strerror})") from cause
        raise


def _write(tree: FolderTree, folder: Folder, *, needs_names: bool) -> NewFile:
    image = _empty_database()
    if not needs_names:
        return UnnamedFile(folder, image)
    return NamedFile(tree.open_or_create([_TEMPORARY_FOLDER]), image)


def _empty_database() -> bytes:
    with _gate, closing(sqlite3.connect(":memory:")) as memory:
        memory.executescript(_SCHEMA)
        image = bytearray(memory.serialize())
    image[18:20] = _WAL_MODE
    return bytes(image)


def _file_system(device: int) -> str:
    """Return the type of a mounted file system; "" if the system does not tell it."""
    number = f"{os.major(device)}:{os.minor(device)}"
    with suppress(OSError), open("/proc/self/mountinfo", encoding="utf-8") as mounts:  # noqa: PTH123 -- pathlib is 5 ms cold
        for line in mounts:
            left, _, right = line.partition(" - ")
            if left.split()[2] == number:
                return right.split()[0]
    return ""
