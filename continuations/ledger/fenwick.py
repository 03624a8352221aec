"""The versions from which a version is rebuilt: a Fenwick tree over their numbers.

Numbers count from a root, which is a full copy. The version at position p contains the
changes since position p - lowbit(p). So version n is rebuilt from at most log2(n) + 1
objects, and the numbers follow from n and the tree alone. The base of version n + 1 is
one of the versions from which n was rebuilt.

The root has position 0, so every other version is a delta, directly or indirectly from
the root.
"""

from __future__ import annotations

from continuations.value_class import dataclass


@dataclass(frozen=True, slots=True)
class Tree:
    """The tree of a run, from one root on.

    Attributes:
        root: Number of the version from which the positions count.
    """

    root: int

    def follows_root(self, number: int) -> bool:
        """Tell whether the version is the one after the root."""
        return number == self.root + 1

    def base(self, number: int) -> int:
        """Return the number of the version's base; 0 means a full copy."""
        position = number - self.root
        if position == 0:
            return 0
        return self.root + (position & (position - 1))

    def chain(self, number: int) -> tuple[int, ...]:
        """Return the numbers from which a version is rebuilt, the newest first."""
        numbers = [number]
        while (below := self.base(numbers[-1])) != 0:
            numbers.append(below)
        return tuple(numbers)
