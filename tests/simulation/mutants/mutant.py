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
class Patch:
    """`by` stands where the attribute `name` of a module or a class stood."""

    owner: object
    attribute: str
    replacement: object


Patches: TypeAlias = Iterator[Patch]


def _no_patches() -> Patches:
    yield from ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One fault; `laws` are those of which at least one must break.

    `under` are circumstances in which it does harm and which no schedule has by
    itself; the code without the fault must bear them.
    """

    name: str
    description: str
    laws: tuple[str, ...]
    patches: Callable[[], Patches]
    condition: Callable[[], Patches] = _no_patches

    @contextmanager
    def condition_applied(self) -> Generator[None]:
        """Have the circumstances, without the fault."""
        with _applied(self.condition()):
            yield

    @contextmanager
    def applied(self) -> Generator[None]:
        """Have the fault in the code; everything is as it was afterwards."""
        with self.condition_applied(), _applied(self.patches()):
            yield


@contextmanager
def _applied(swaps: Patches) -> Generator[None]:
    # All of them first: a generator must find the real things in their places.
    ready = tuple(swaps)
    with ExitStack() as stack:
        for swap in ready:
            stack.enter_context(
                patch.object(swap.owner, swap.attribute, swap.replacement)
            )
        yield


def mutant(
    description: str, *laws: str, condition: Callable[[], Patches] = _no_patches
) -> Callable[[Callable[[], Patches]], Mutant]:
    """Make a fault of a generator of swaps; its name is the generator's."""

    def made(swaps: Callable[[], Patches]) -> Mutant:
        name = swaps.__name__
        return Mutant(
            name=name,
            description=description,
            laws=laws,
            patches=swaps,
            condition=condition,
        )

    return made


def patches_everywhere(original: object, replacement: object) -> Patches:
    """Swap a function in its own module and in all that imported it by name."""
    for name, module in sorted(sys.modules.items()):
        if not name.startswith("continuations"):
            continue
        for key, value in sorted(vars(module).items()):
            if value is original:
                yield Patch(module, key, replacement)


def mutants_in(names: Mapping[str, object]) -> tuple[Mutant, ...]:
    """Return the faults of a module, in the order in which they stand there."""
    found: Iterable[object] = names.values()
    return tuple(each for each in found if isinstance(each, Mutant))
