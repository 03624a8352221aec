"""Keys of a folder tree in byte order of whole keys.

A folder sorts as its name with "/" behind it: "a.b/x" comes before "a/x", because
"." is less than "/". Sorted so, going down folder by folder gives whole keys in
order, and folders that end before `after` need not be opened.
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

# Taking the few smallest from a heap beats sorting while they are fewer than this.
_HEAP_FRACTION = 1 / 8


def iterate_keys(
    folder: int, folder_key: str, name_prefix: str, after: str, limit: int
) -> Generator[str]:
    """Go through the keys in an open folder whose name begins with `start`.

    `base` is the key of the folder with its slash; `limit` is how many keys the
    caller will take at most, a hint.
    """
    for entry in _iterate_sorted(
        _entries(folder, folder_key, name_prefix, after), limit
    ):
        name = entry[len(folder_key) :].removesuffix("/")
        # Here and not while collecting: whoever takes one key checks one name.
        if not is_segment(name):
            continue  # our temporary folder, or a stranger's file
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
        return  # removed, or removed and taken by a key, since we looked
    try:
        yield from iterate_keys(folder, folder_key, "", after, limit)
    finally:
        os.close(folder)


def _entries(folder: int, folder_key: str, name_prefix: str, after: str) -> list[str]:
    found: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if not name.startswith(name_prefix):
                continue
            full = folder_key + name
            if entry.is_file(follow_symlinks=False):
                if full > after:
                    found.append(full)
            elif entry.is_dir(follow_symlinks=False):
                full += "/"
                if full > after or after.startswith(full):
                    found.append(full)
    return found


def _iterate_sorted(entries: list[str], limit: int) -> Generator[str]:
    if limit > len(entries) * _HEAP_FRACTION:
        entries.sort()
        yield from entries
        return
    heapq.heapify(entries)
    while entries:
        yield heapq.heappop(entries)
