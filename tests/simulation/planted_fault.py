"""A fault that is planted in the protocol: what is done wrong, and who must notice.

A fault is written as a generator of swaps: each puts something wrong in the place of
something real, in this process, for as long as the fault is planted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Swap:
    """`by` stands where the attribute `name` of a module or a class stood."""

    where: object
    name: str
    by: object


Swaps: TypeAlias = Iterator[Swap]


def _nothing() -> Swaps:
    yield from ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault; `laws` are those of which at least one must break.

    `under` are circumstances in which it does harm and which no schedule has by
    itself; the code without the fault must bear them.
    """

    name: str
    says: str
    laws: tuple[str, ...]
    swaps: Callable[[], Swaps]
    under: Callable[[], Swaps] = _nothing

    @contextmanager
    def circumstances(self) -> Generator[None]:
        """Have the circumstances, without the fault."""
        with _swapped(self.under()):
            yield

    @contextmanager
    def planted(self) -> Generator[None]:
        """Have the fault in the code; everything is as it was afterwards."""
        with self.circumstances(), _swapped(self.swaps()):
            yield


@contextmanager
def _swapped(swaps: Swaps) -> Generator[None]:
    # All of them first: a generator must find the real things in their places.
    ready = tuple(swaps)
    with ExitStack() as stack:
        for swap in ready:
            stack.enter_context(patch.object(swap.where, swap.name, swap.by))
        yield


def fault(
    says: str, *laws: str, under: Callable[[], Swaps] = _nothing
) -> Callable[[Callable[[], Swaps]], Fault]:
    """Make a fault of a generator of swaps; its name is the generator's."""

    def made(swaps: Callable[[], Swaps]) -> Fault:
        name = swaps.__name__
        return Fault(name=name, says=says, laws=laws, swaps=swaps, under=under)

    return made


def everywhere(real: object, by: object) -> Swaps:
    """Swap a function in its own module and in all that imported it by name."""
    for name, module in sorted(sys.modules.items()):
        if not name.startswith("continuations"):
            continue
        for key, value in sorted(vars(module).items()):
            if value is real:
                yield Swap(module, key, by)


def faults_in(names: Mapping[str, object]) -> tuple[Fault, ...]:
    """Return the faults of a module, in the order in which they stand there."""
    found: Iterable[object] = names.values()
    return tuple(each for each in found if isinstance(each, Fault))
