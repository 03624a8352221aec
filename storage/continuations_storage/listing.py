"""Keys of a folder tree in byte order of whole keys.

A folder is sorted as its name with "/" at the end: "a.b/x" comes before "a/x", because
"." is less than "/". So a walk from folder to folder returns whole keys in order, and
does not open folders that end before `after`.
"""

from __future__ import annotations

import os
from itertools import chain, islice
from typing import TYPE_CHECKING

from continuations_storage.filesystem import open_subfolder
from continuations_storage.keys import SEGMENT_CHARACTERS, is_segment

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["iterate_keys"]

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
