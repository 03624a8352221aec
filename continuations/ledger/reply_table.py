"""Where the replies of a thread are: a small table in the header of each version.

The last replies have an entry each, then every 16th reply, every 256th, and so on: at
most 16 entries for each power of 16. An entry is the number of the first version that
has the reply, 0 if it is unknown. So a reply is found with about log16(messages) reads.

Level k of the table of n replies has the multiples of 16**k that are at most n, and
later than the last multiple of 16**(k + 1) before n. The levels are stored one after
the other; n tells their lengths.
"""

from __future__ import annotations

_WIDTH = 16

ReplyTable = tuple[int, ...]


def follow(table: ReplyTable, before: int, after: int, version: int) -> ReplyTable:
    """Return the table of a version.

    Args:
        table: The table of the version before, or an empty one.
        before: Number of the last message that had its reply there.
        after: Number of the last message that has its reply in the version.
        version: Number of the version.
    """
    if after == before:
        return table
    entries: list[int] = []
    for step, first in _levels(after):
        for number in range(first + step, after + 1, step):
            is_new = number > before
            entries.append(version if is_new else _entry(table, before, number, step))
    return tuple(entries)


def nearest_reply(table: ReplyTable, answered: int, number: int) -> tuple[int, int]:
    """Return the nearest later message with an entry, and its version, 0 if unknown.

    Args:
        table: The table of a version.
        answered: Number of the last message that has its reply there.
        number: Number of a message, at most `answered`.
    """
    for step, first in _levels(answered):
        if number > first:
            found = -(-number // step) * step
            return found, _entry(table, answered, found, step)
    return answered, 0  # no message has the number 0


def _levels(answered: int) -> list[tuple[int, int]]:
    """Return the step of each level, and the message before its first one."""
    levels: list[tuple[int, int]] = []
    step = 1
    while step <= answered:
        width = step * _WIDTH
        levels.append((step, (answered - 1) // width * width))
        step = width
    return levels


def _entry(table: ReplyTable, answered: int, number: int, step: int) -> int:
    position = 0
    for level_step, first in _levels(answered):
        if level_step == step:
            position += (number - first) // step - 1
            is_there = number > first and position < len(table)
            return table[position] if is_there else 0
        position += (answered - first) // level_step
    return 0
