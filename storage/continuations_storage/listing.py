"""Keys of a folder tree in byte order of whole keys.

A folder is sorted as its name with "/" at the end: "a.b/x" comes before "a/x", because
"." is less than "/". So a walk from folder to folder returns whole keys in order, and
does not open folders that end before `after`.
"""

from __future__ import annotations

import heapq
import os
from typing import TYPE_CHECKING

from continuations_storage.filesystem import open_subfolder
from continuations_storage.keys import is_segment

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["iterate_keys"]

# A heap is faster than a sort for less than this part of all entries.
_HEAP_FRACTION = 1 / 8


def iterate_keys(
    folder: int, folder_key: str, name_prefix: str, after: str, limit: int
) -> Generator[str]:
    """Iterate over the keys of an open folder, in byte order of whole keys.

    Args:
        folder: The descriptor of the folder.
        folder_key: The key of the folder with a slash at the end; "" for the root.
        name_prefix: The beginning of the names in the folder.
        after: Skip keys up to and including this text.
        limit: The most keys that the caller takes; only a hint.
    """
    for entry in _iterate_sorted(
        _entries(folder, folder_key, name_prefix, after), limit
    ):
        name = entry[len(folder_key) :].removesuffix("/")
        # Checked here, so that a caller that takes one key checks one name.
        if not is_segment(name):
            continue  # the temporary folder, or a file that is not a key
        if entry.endswith("/"):
            yield from _iterate_subfolder(folder, name, entry, after, limit)
        else:
            yield entry


def _iterate_subfolder(
    parent: int, name: str, folder_key: str, after: str, limit: int
) -> Generator[str]:
    try:
        folder = open_subfolder(parent, name)
    except (FileNotFoundError, NotADirectoryError):
        return  # removed meanwhile, and perhaps replaced by a key
    try:
        yield from iterate_keys(folder, folder_key, "", after, limit)
    finally:
        os.close(folder)


def _entries(folder: int, folder_key: str, name_prefix: str, after: str) -> list[str]:
    entries_after: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if not name.startswith(name_prefix):
                continue
            full = folder_key + name
            if entry.is_file(follow_symlinks=False):
                if full > after:
                    entries_after.append(full)
            elif entry.is_dir(follow_symlinks=False):
                full += "/"
                if full > after or after.startswith(full):
                    entries_after.append(full)
    return entries_after


def _iterate_sorted(entries: list[str], limit: int) -> Generator[str]:
    if limit > len(entries) * _HEAP_FRACTION:
        entries.sort()
        yield from entries
        return
    heapq.heapify(entries)
    while entries:
        yield heapq.heappop(entries)
