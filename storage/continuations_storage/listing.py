"""Keys of a folder tree in byte order of whole keys.

A folder sorts as its name with "/" behind it: "a.b/x" comes before "a/x", because
"." is less than "/". Sorted so, going down folder by folder gives whole keys in
order, and folders that end before `after` need not be opened.
"""

from __future__ import annotations

import heapq
import os
from typing import TYPE_CHECKING

from continuations_storage.folders import enter
from continuations_storage.keys import is_segment

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["keys_below"]

# Taking the few smallest from a heap beats sorting while they are fewer than this.
_FEW = 1 / 8


def keys_below(
    folder: int, base: str, start: str, after: str, limit: int
) -> Generator[str]:
    """Go through the keys in an open folder whose name begins with `start`.

    `base` is the key of the folder with its slash; `limit` is how many keys the
    caller will take at most, a hint.
    """
    for entry in _in_order(_entries(folder, base, start, after), limit):
        name = entry[len(base) :].removesuffix("/")
        # Here and not while collecting: whoever takes one key checks one name.
        if not is_segment(name):
            continue  # our temporary folder, or a stranger's file
        if entry.endswith("/"):
            yield from _descend(folder, name, entry, after, limit)
        else:
            yield entry


def _descend(
    above: int, name: str, base: str, after: str, limit: int
) -> Generator[str]:
    try:
        folder = enter(above, name)
    except (FileNotFoundError, NotADirectoryError):
        return  # removed, or removed and taken by a key, since we looked
    try:
        yield from keys_below(folder, base, "", after, limit)
    finally:
        os.close(folder)


def _entries(folder: int, base: str, start: str, after: str) -> list[str]:
    found: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if not name.startswith(start):
                continue
            full = base + name
            if entry.is_file(follow_symlinks=False):
                if full > after:
                    found.append(full)
            elif entry.is_dir(follow_symlinks=False):
                full += "/"
                if full > after or after.startswith(full):
                    found.append(full)
    return found


def _in_order(entries: list[str], limit: int) -> Generator[str]:
    if limit > len(entries) * _FEW:
        entries.sort()
        yield from entries
        return
    heapq.heapify(entries)
    while entries:
        yield heapq.heappop(entries)
