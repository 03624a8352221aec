"""The versions from which a version is rebuilt: a Fenwick tree over their numbers.

Numbers count from a root, which is a full copy. Version n contains the changes since
version n - lowbit(n). So version n is rebuilt from at most log2(n) + 1 objects, and the
numbers follow from n and the root alone. The base of version n + 1 is 0 or one of the
versions from which n was rebuilt.
"""

from __future__ import annotations


def base(number: int, root: int) -> int:
    """Return the number of the version's base; 0 means a full copy."""
    position = number - root + 1
    below = position - (position & -position)
    return 0 if below == 0 else below + root - 1


def chain(number: int, root: int) -> tuple[int, ...]:
    """Return the numbers from which a version is rebuilt, the newest first."""
    numbers = [number]
    while (below := base(numbers[-1], root)) != 0:
        numbers.append(below)
    return tuple(numbers)
