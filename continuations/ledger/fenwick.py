"""Which versions a version is rebuilt from: a Fenwick tree over their numbers.

Version n holds what changed since version n - lowbit(n), counted from a root, so n is
rebuilt from at most log2(n) + 1 objects, all known from n and the root alone; and what
n + 1 is a delta from is 0 or one of those that n was rebuilt from.
"""

from __future__ import annotations


def base(number: int, root: int) -> int:
    """Return the version that a version is a delta from; 0 means a full copy."""
    position = number - root + 1
    below = position - (position & -position)
    return 0 if below == 0 else below + root - 1


def chain(number: int, root: int) -> tuple[int, ...]:
    """Return the versions that a version is rebuilt from, the newest first."""
    numbers = [number]
    while (below := base(numbers[-1], root)) != 0:
        numbers.append(below)
    return tuple(numbers)
