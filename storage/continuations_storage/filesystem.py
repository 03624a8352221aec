"""The folders of a file store, opened step by step and never through a symbolic link.

Each step is an open() relative to the folder above. So a symbolic link inside the root
cannot lead out of the root, even if it is made between two steps.

Folders stay open for the next operation. The system gives the inode number of an open
folder to no other folder, so a folder is recognised by it as long as it is open.

A folder is sorted as its name with "/" at the end: "a.b/x" comes before "a/x", because
"." is less than "/". So a walk from folder to folder returns whole keys in order, and
does not open folders that end before `after`.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import contextmanager, suppress
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING

from continuations_storage.errors import Unavailable, Unsafe, Unsupported
from continuations_storage.keys import SEGMENT_CHARACTERS, is_segment
from continuations_storage.oserrors import NO_FLUSH

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from continuations_storage.step_groups import SlowCall

__all__ = [
    "Folder",
    "FolderTree",
    "absolute_path",
    "flush",
    "flush_folder",
    "iterate_keys",
    "open_subfolder",
]


# Linux writes a changed folder to disk after 30 s at the latest; this is twice that.
_DURABLE_AFTER_SECONDS = 60.0
_MAX_OPEN = 64
_GONE = (
    "Mount its disk again or put the folder back; it is safe to repeat the call. To "
    "use the folder that is there now, or to begin an empty store, start the process "
    "again."
)
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY


class Folder:
    """An open folder; it is closed when nothing refers to it any more.

    So keep a reference to the folder as long as its descriptor is used.

    Attributes:
        descriptor: The open folder.
        above: The folder in which it was opened; None for the root.
        identity: Device and inode number; no other folder has them meanwhile.
        is_new: Whether this process made the folder.
        is_durable: Whether the names of this folder and of all folders above it are
            known to survive a power cut.
    """

    __slots__ = ("_close", "above", "descriptor", "identity", "is_durable", "is_new")

    def __init__(self, descriptor: int, above: Folder | None = None) -> None:
        # Kept, because `os` may be gone when the interpreter ends.
        self._close: Callable[[int], None] = os.close
        self.descriptor = descriptor
        self.above = above
        self.identity = _identity(os.fstat(descriptor))
        self.is_new = self.is_durable = False

    def __del__(self) -> None:
        """Close the folder."""
        self._close(self.descriptor)

    @contextmanager
    def opened_again(self) -> Generator[int]:
        """Open the folder for one listing.

        Two listings of one descriptor would share their position.
        """
        descriptor = os.open(".", _OPEN_FOLDER, dir_fd=self.descriptor)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


class FolderTree:
    """The folders under one root."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._open: dict[str, Folder] = {}
        # The root that was found first. It stays open, so that no other folder gets its
        # inode number.
        self._root: Folder | None = None

    def __reduce__(self) -> tuple[type[FolderTree], tuple[str]]:
        """Pickle the path alone: another process opens its own folders."""
        return FolderTree, (self.root,)

    def open(self, segments: Sequence[str]) -> Folder:
        """Open a folder, or raise FileNotFoundError or NotADirectoryError."""
        path = "/".join((self.root, *segments))
        return self._find_open(path) or self._open_steps(segments)

    def open_or_create(self, segments: Sequence[str]) -> Folder:
        """Open a folder and make the missing ones; `ensure_durable` flushes them."""
        path = "/".join((self.root, *segments))
        return self._find_open(path) or self._open_steps(segments, create=True)

    def ensure_durable(
        self, folder: Folder, now: float, *flushes: SlowCall
    ) -> Generator[Sequence[SlowCall]]:
        """Flush the names of the new folders on the way from the root to a folder.

        Another process may have made a folder and not flushed its name yet. So an
        unknown folder is flushed too, unless the folder above did not change for long.

        Args:
            folder: The open folder.
            now: The time of the file system, read from a file that was just written.
            flushes: Other flushes, to be made at the same time.

        Yields:
            The flushes that must end before the next step.
        """
        chain = [] if folder.is_durable else _from_root(folder)
        if chain and not chain[0].is_durable:
            with _open_parent(self.root) as parent:
                if parent is not None and _is_recent(chain[0], parent, now):
                    flush_folder(parent)
            chain[0].is_durable = True
        names = [
            (flush_folder, above.descriptor)
            for above, below in pairwise(chain)
            if not below.is_durable and _is_recent(below, above.descriptor, now)
        ]
        if flushes or names:
            yield (*flushes, *names)
        for each in chain:
            each.is_durable = True

    def forget(self) -> None:
        """Close all folders that no operation uses."""
        self._open = {}

    def other_spelling(self, segments: Sequence[str]) -> str | None:
        """Return the name that stands for a segment and differs from it in case.

        Only a file system that ignores case has one: macOS by default, FAT, and some
        folders of ext4 and XFS.
        """
        for depth, segment in enumerate(segments):
            above = self.open(segments[:depth])
            if not _is_same(above.descriptor, segment, segment.swapcase()):
                continue
            with above.opened_again() as folder, os.scandir(folder) as entries:
                names = {entry.name for entry in entries}
            if segment not in names:
                folded = segment.casefold()
                return next((n for n in names if n.casefold() == folded), segment)
        return None

    def prune(self, segments: Sequence[str]) -> None:
        """Remove a folder and those above it if they are empty.

        Folders of the first level stay: "markers", for example, becomes empty often,
        and to make it again costs a flush.
        """
        with suppress(OSError):
            for depth in range(len(segments) - 1, 0, -1):
                above = self.open(segments[:depth])
                os.rmdir(segments[depth], dir_fd=above.descriptor)
                self._open.pop("/".join((self.root, *segments[: depth + 1])), None)

    def _open_steps(self, segments: Sequence[str], *, create: bool = False) -> Folder:
        """Open a folder step by step from the root; make missing ones, if create."""
        path = self.root
        folder = self._find_open(path) or self._open_root(create=create)
        for segment in segments:
            path = f"{path}/{segment}"
            folder = self._find_open(path) or self._keep(
                path, _open_step(folder, segment, create=create)
            )
        return folder

    def _find_open(self, path: str) -> Folder | None:
        """Return the open folder of a path, if it is still the folder at this path."""
        folder = self._open.get(path)
        if folder is not None:
            with suppress(OSError):
                if _identity(os.stat(path)) == folder.identity:  # noqa: PTH116
                    return folder
            self._open.pop(path, None)
        return None

    def _keep(self, path: str, folder: Folder) -> Folder:
        if len(self._open) >= _MAX_OPEN:
            self.forget()
        self._open[path] = folder
        return folder

    def _open_root(self, *, create: bool) -> Folder:
        found = self._root  # before: another thread may make the root now
        try:
            descriptor = os.open(self.root, _OPEN_FOLDER)
        except FileNotFoundError:
            if found is not None:
                raise self._gone("has gone") from None
            if not create:
                raise
            _make_root(self.root)
            descriptor = os.open(self.root, _OPEN_FOLDER)
        except NotADirectoryError:
            raise Unavailable(None, f"{self.root!r} is not a folder") from None
        root = Folder(descriptor)
        if found is not None and found.identity != root.identity:
            raise self._gone("was replaced by another one")
        self._root = root
        return self._keep(self.root, root)

    def _gone(self, what: str) -> Unavailable:
        # Without this error, a disk that is not mounted looks like an empty store, and
        # a create would begin a second store below its mount point.
        return Unavailable(None, f"the folder {self.root!r} {what}", advice=_GONE)


def absolute_path(scheme: str, path: str | os.PathLike[str]) -> str:
    """Return the absolute path, so that a later chdir() does not move the store.

    Args:
        scheme: The scheme of the store's URL, for the error.
        path: The path.

    Raises:
        Unsupported: The path is relative, and the current folder was deleted.
    """
    try:
        return os.path.abspath(path)  # noqa: PTH100 -- pathlib is 5 ms cold
    except FileNotFoundError:
        raise Unsupported(
            f"{scheme}:{os.fspath(path)}",
            "the path is relative, and the current folder was deleted",
            "Change to a folder that exists, or pass an absolute path.",
        ) from None


def open_subfolder(parent: int, segment: str) -> int:
    """Open a folder inside an open folder; raise ELOOP for a symbolic link."""
    try:
        return os.open(segment, _OPEN_FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    except NotADirectoryError:
        status = os.stat(segment, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            raise OSError(errno.ELOOP, f"{segment!r} is a symbolic link") from None
        raise


def _open_step(above: Folder, segment: str, *, create: bool) -> Folder:
    """Open a folder inside another one; make it if it is missing, if create."""
    is_new = False
    try:
        descriptor = open_subfolder(above.descriptor, segment)
    except FileNotFoundError:
        if not create:
            raise
        is_new = _make(above, segment)
        descriptor = open_subfolder(above.descriptor, segment)
    folder = Folder(descriptor, above)
    folder.is_new = is_new
    return folder


def _from_root(folder: Folder) -> list[Folder]:
    """Return the folders from the root to a folder."""
    chain = [folder]
    while chain[-1].above is not None:
        chain.append(chain[-1].above)
    return chain[::-1]


def flush(descriptor: int) -> None:
    """Write an open file or folder to disk, so that it survives a power cut."""
    if sys.platform == "darwin":
        import fcntl  # noqa: PLC0415 -- only macOS needs it

        # On macOS, fsync() stops at the drive's cache. Network mounts refuse this call.
        with suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


def flush_folder(descriptor: int) -> None:
    """Write the names in an open folder to disk, or raise Unsafe."""
    try:
        flush(descriptor)
    except OSError as cause:
        if cause.errno not in NO_FLUSH:
            raise
        detail = f"its file system cannot flush folders: {cause.strerror}"
        raise Unsafe(None, detail) from cause


def _make(above: Folder, segment: str) -> bool:
    """Make a folder; return False if it exists."""
    try:
        os.mkdir(segment, dir_fd=above.descriptor)
    except FileExistsError:
        return False
    return True


def _is_recent(folder: Folder, above: int, now: float) -> bool:
    """Return whether the name of a folder may not be on the disk yet."""
    # ctime and not mtime: a program that copies folders can set the second one.
    return folder.is_new or now - os.fstat(above).st_ctime < _DURABLE_AFTER_SECONDS


def _is_same(folder: int, name: str, other: str) -> bool:
    """Return whether two different names stand for one file."""
    if name == other:
        return False
    try:
        stats = [
            os.stat(n, dir_fd=folder, follow_symlinks=False) for n in (name, other)
        ]
    except OSError:
        return False
    return _identity(stats[0]) == _identity(stats[1])


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _make_root(root: str) -> None:
    """Make the root and the folders above it; the root's name is flushed later.

    Before a folder is made, the name of the folder above it is flushed. So a process
    that finds the root knows that only the root's own name may not be flushed yet.
    """
    above = os.path.dirname(root)  # noqa: PTH120 -- pathlib is 5 ms cold
    if not os.path.isdir(above):  # noqa: PTH112 -- see above
        _check_link(above)
        _make_root(above)
    with _open_parent(above) as higher:
        if higher is not None:
            flush_folder(higher)
    try:
        os.mkdir(root, 0o700)  # noqa: PTH102 -- see above
    except FileExistsError:
        _check_link(root)
    except FileNotFoundError:
        # The caller would try again after a FileNotFoundError. /proc always raises it.
        raise Unavailable(None, f"no folder can be made in {above!r}") from None
    except NotADirectoryError:
        raise Unavailable(None, f"{above!r} is not a folder") from None


def _check_link(path: str) -> None:
    if os.path.islink(path) and not os.path.exists(path):  # noqa: PTH110, PTH114 -- see above
        why = "is a symbolic link to a folder that does not exist"
        raise Unavailable(None, f"{path!r} {why}")


@contextmanager
def _open_parent(root: str) -> Generator[int | None]:
    """Open the folder above the root; yield None without permission to read it."""
    try:
        above = os.open(os.path.dirname(root), os.O_RDONLY)  # noqa: PTH120 -- see above
    except PermissionError:
        yield None
        return
    try:
        yield above
    finally:
        os.close(above)


# Reading and sorting so many entries takes a millisecond.
_CHUNK = 2000
_VALID_BYTES = SEGMENT_CHARACTERS.encode()


def iterate_keys(
    folder: int, folder_key: str, name_prefix: str, after: str, limit: int
) -> Generator[list[str]]:
    """Iterate over the keys of an open folder, in byte order of whole keys.

    Args:
        folder: The descriptor of the folder.
        folder_key: The key of the folder with a slash at the end; "" for the root.
        name_prefix: The beginning of the names in the folder.
        after: Skip keys up to and including this text.
        limit: The most keys that the caller takes.

    Yields:
        Lists of keys. An empty list is a pause: the folder has many entries, and the
        caller may continue in another thread.
    """
    chunks = yield from _chunks_after(folder, folder_key, name_prefix, after, limit)
    names = _merge(chunks)
    if not _has_folders(names):
        if names:
            yield [folder_key + name for name in names]
        return
    for name in names:
        if name.endswith("/"):
            yield from _iterate_subfolder(folder, name, folder_key + name, after, limit)
        else:
            yield [folder_key + name]


def _iterate_subfolder(
    parent: int, name: str, folder_key: str, after: str, limit: int
) -> Generator[list[str]]:
    try:
        folder = open_subfolder(parent, name.removesuffix("/"))
    except (FileNotFoundError, NotADirectoryError):
        return  # removed meanwhile, and perhaps replaced by a key
    try:
        yield from iterate_keys(folder, folder_key, "", after, limit)
    finally:
        os.close(folder)


def _chunks_after(
    folder: int, folder_key: str, name_prefix: str, after: str, limit: int
) -> Generator[list[str], None, list[list[str]]]:
    """Return sorted lists of names; the name of a folder ends with "/"."""
    if after.startswith(folder_key):
        after = after[len(folder_key) :]
    elif after < folder_key:
        after = ""
    else:
        return []
    chunks: list[list[str]] = []
    with os.scandir(folder) as entries:
        while chunk := list(islice(entries, _CHUNK)):
            chunks.append(sorted_names(chunk, name_prefix, after, limit))
            if len(chunk) == _CHUNK:
                yield []
    return chunks


def sorted_names(
    entries: list[os.DirEntry[str]], name_prefix: str, after: str, limit: int
) -> list[str]:
    if name_prefix:
        entries = [entry for entry in entries if entry.name.startswith(name_prefix)]
    names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    folders = [
        f"{entry.name}/"
        for entry in (entries if len(names) < len(entries) else ())
        if entry.is_dir(follow_symlinks=False) and is_segment(entry.name)
    ]
    if not _are_segments(names):
        names = list(filter(is_segment, names))
    if after:
        names = [name for name in names if name > after]
    # A file is one key, so later files of this chunk cannot be on the page.
    names.sort()
    del names[limit:]
    names += [name for name in folders if name > after or after.startswith(name)]
    if folders:
        names.sort()
    return names


def _has_folders(names: list[str]) -> bool:
    return "/" in "".join(names)


def _are_segments(names: list[str]) -> bool:
    # One pass over all names takes a fifth of the time of a pattern for each. No file
    # system has names that are empty or longer than a segment.
    joined = "".join(names).encode(errors="surrogateescape")
    return not joined.translate(None, _VALID_BYTES)


def _merge(chunks: list[list[str]]) -> list[str]:
    # Two by two and not in one sort, which would stop all other threads meanwhile.
    while len(chunks) > 1:
        chunks = [
            sorted(chain.from_iterable(chunks[first : first + 2]))
            for first in range(0, len(chunks), 2)
        ]
    return chunks[0] if chunks else []
