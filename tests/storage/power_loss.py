"""A simulated power cut: what was not flushed is lost, in any combination.

`PowerLossDisk` records each system call of the file store. `disk_after` then makes a
folder as a disk may hold it after a power cut at a given moment:

- The bytes of a file are those of its last flush. Later bytes are there, half there,
  zeros, or missing.
- The names in a folder are those of its last flush. Each later name may be there or
  not, and each removed name too.
"""

from __future__ import annotations

import os
import stat
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    import pytest

    from continuations_storage import FileStore


@dataclass(frozen=True)
class Event:
    """Something that happened on the disk, or a fact that the test notes.

    Attributes:
        what: "new", "write", "flush", "name", or the word of a note.
        number: The file or folder.
        name: The name that a folder gives, or the key of a note.
        content: The bytes written, or the body of a note.
        target: The file or folder that gets the name; None if the name is removed.
    """

    what: str
    number: int = 0
    name: str = ""
    content: bytes = b""
    target: int | None = None


@dataclass
class Node:
    """A file or a folder, with its durable state and all later changes."""

    is_folder: bool
    durable_bytes: bytes = b""
    pending_bytes: bytes = b""
    durable_names: dict[str, int] = field(default_factory=dict[str, int])
    pending_names: list[Event] = field(default_factory=list[Event])

    def flush(self) -> None:
        """Make all changes durable."""
        self.durable_bytes += self.pending_bytes
        self.pending_bytes = b""
        _apply(self.durable_names, self.pending_names)
        self.pending_names.clear()


class PowerLossDisk:
    """Records the system calls below one folder.

    Attributes:
        after_link: Called after each link, before the folder is flushed.
    """

    def __init__(
        self, patch: pytest.MonkeyPatch, folder: Path, ignored: str = ""
    ) -> None:
        """Record from now on.

        Args:
            patch: Restores the system calls.
            folder: An existing, empty, durable folder.
            ignored: The flushes that the disk ignores, for tests of the test: "files",
                "folders", or "" for none.
        """
        self.events: list[Event] = []
        self._known: set[Event] = set()
        self.after_link: Callable[[], None] = lambda: None
        self._ignored = ignored
        self._lock = threading.RLock()
        self._numbers = {self._inode(folder.stat()): 0}
        self._are_folders = [True]
        for call in ("open", "write", "fsync", "link", "mkdir", "unlink", "rmdir"):
            self._patch(patch, call)

    def note(self, what: str, name: str = "", content: bytes = b"") -> None:
        """Add a fact: after this moment, it was known outside."""
        event = Event(what, name=name, content=content)
        if what != "known" or event not in self._known:
            self.events.append(event)
            self._known.add(event)

    def disk_after(self, moment: int, random: random.Random, place: Path) -> Path:
        """Make a folder as a disk may hold it after a power cut; return it."""
        nodes = self._nodes(moment)
        place.mkdir()
        self._write_folder(nodes, 0, place, random, {})
        return place

    def _patch(self, patch: pytest.MonkeyPatch, call: str) -> None:
        real = getattr(os, call)
        record = getattr(self, f"_after_{call}")

        def recorded(*args: Any, **kwargs: Any) -> Any:
            with self._lock:
                result = real(*args, **kwargs)
                record(result, *args, **kwargs)
            if call == "link":
                self.after_link()
            return result

        patch.setattr(os, call, recorded)

    # The recorded calls ---------------------------------------------------------

    def _after_open(
        self, result: int, path: str, flags: int, *_: Any, dir_fd: int | None = None
    ) -> None:
        unnamed = getattr(os, "O_TMPFILE", 0)
        if unnamed and flags & unnamed == unnamed:
            self._add_node(os.fstat(result))
        elif flags & os.O_CREAT and dir_fd is not None:
            number = self._add_node(os.fstat(result))
            self._add_name(self._of(dir_fd), path, number)

    def _after_write(self, result: int, file: int, content: Any) -> None:
        self._add(Event("write", self._of(file), content=bytes(content[:result])))

    def _after_fsync(self, _: None, file: int) -> None:
        number = self._numbers.get(self._inode(os.fstat(file)))
        if number is None:
            return  # a folder above
        kind = "folders" if self._are_folders[number] else "files"
        if kind != self._ignored:
            self._add(Event("flush", number))

    def _after_link(
        self, _: None, source: str, name: str, *, dst_dir_fd: int, **options: Any
    ) -> None:
        status = os.stat(source, dir_fd=options.get("src_dir_fd"))
        number = self._numbers[self._inode(status)]
        self._add_name(self._of(dst_dir_fd), name, number)

    def _after_mkdir(
        self, _: None, path: str, *__: Any, dir_fd: int | None = None
    ) -> None:
        number = self._add_node(os.stat(path, dir_fd=dir_fd))
        above, name = os.path.split(path)
        folder = self._of(above) if dir_fd is None else self._of(dir_fd)
        self._add_name(folder, name, number)

    def _after_unlink(self, _: None, path: str, *, dir_fd: int) -> None:
        self._add_name(self._of(dir_fd), path, None)

    _after_rmdir = _after_unlink

    def _add(self, event: Event) -> None:
        self.events.append(event)

    def _add_name(self, folder: int, name: str, target: int | None) -> None:
        self._add(Event("name", folder, name=name, target=target))

    def _add_node(self, status: os.stat_result) -> int:
        # The system may use an inode number again, so each new file gets a new number.
        number = len(self._are_folders)
        self._are_folders.append(stat.S_ISDIR(status.st_mode))
        self._numbers[self._inode(status)] = number
        self._add(Event("new", number))
        return number

    def _of(self, file: int | str) -> int:
        return self._numbers[self._inode(os.stat(file))]  # noqa: PTH116 - perhaps open

    @staticmethod
    def _inode(status: os.stat_result) -> tuple[int, int]:
        return status.st_dev, status.st_ino

    # The disk after the cut -----------------------------------------------------

    def _nodes(self, moment: int) -> list[Node]:
        nodes = [Node(is_folder) for is_folder in self._are_folders]
        for event in self.events[:moment]:
            match event.what:
                case "write":
                    nodes[event.number].pending_bytes += event.content
                case "flush":
                    nodes[event.number].flush()
                case "name":
                    nodes[event.number].pending_names.append(event)
                case _:
                    pass
        return nodes

    def _write_folder(
        self,
        nodes: list[Node],
        number: int,
        place: Path,
        random: random.Random,
        written: dict[int, Path],
    ) -> None:
        names = dict(nodes[number].durable_names)
        _apply(names, _surviving(nodes[number].pending_names, random))
        for name, target in names.items():
            path = place / name
            if nodes[target].is_folder:
                path.mkdir()
                self._write_folder(nodes, target, path, random, written)
            elif target in written:
                path.hardlink_to(written[target])
            else:
                path.write_bytes(_surviving_bytes(nodes[target], random))
                written[target] = path


def _apply(names: dict[str, int], changes: list[Event]) -> None:
    for change in changes:
        if change.target is None:
            names.pop(change.name, None)
        else:
            names[change.name] = change.target


def _surviving(changes: list[Event], random: random.Random) -> list[Event]:
    """Return the changes that reached the disk: all, none, the first, or any."""
    match random.randrange(4):
        case 0:
            return []
        case 1:
            return changes
        case 2:
            return changes[: random.randint(0, len(changes))]
        case _:
            return [change for change in changes if random.random() < 0.5]


def _surviving_bytes(node: Node, random: random.Random) -> bytes:
    whole = node.pending_bytes
    half = whole[: random.randint(0, len(whole))]
    tail = random.choice([b"", whole, half, bytes(len(whole))])
    return node.durable_bytes + tail


class NotingStore:
    """A file store that notes on the disk what its callers know."""

    def __init__(self, disk: PowerLossDisk, store: FileStore) -> None:
        self._disk, self._store = disk, store
        self.probe = store.probe

    async def create(self, key: str, body: bytes) -> datetime:
        """Create, and note that the body is acknowledged."""
        time = await self._store.create(key, body)
        self._disk.note("known", key, body)
        return time

    async def read(self, key: str) -> bytes:
        """Read, and note that the caller may act on the body."""
        body = await self._store.read(key)
        self._disk.note("known", key, body)
        return body

    async def keys(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        return await self._store.keys(prefix, after, limit)

    async def delete(self, key: str) -> None:
        """Note that the key may be gone from now on, and delete it."""
        self._disk.note("unknown", key)
        await self._store.delete(key)


def known_bodies(disk: PowerLossDisk, moment: int) -> dict[str, bytes]:
    """Return the bodies that a caller knew at a moment, and that were not deleted."""
    known: dict[str, bytes] = {}
    deleted = {e.name for e in disk.events[:moment] if e.what == "unknown"}
    for event in disk.events[:moment]:
        if event.what == "known" and event.name not in deleted:
            known[event.name] = event.content
    return known


def stored_bodies(folder: Path) -> dict[str, bytes]:
    """Return the bodies of all keys in a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "+" not in str(path.relative_to(folder))
    }
