"""A process that dies at one storage operation: at each of them, one after another.

::

    for point in every_crash("before", "after", more_than=8):
        store = MemoryStore()
        with point.process(store) as dying:
            Runner(agent, store=dying).start("go", run_id="r1")
        …  # recover on `store`, and check

The last process comes to its end without a crash. The checks hold for it, too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest

from continuations.authoring.callables import waiting_threads
from continuations_storage import Store
from continuations_storage.faults import Crash, FaultyStore, Moment, at, crashed
from tests.sampling import sample

MAX_OPERATIONS = 400


@dataclass
class CrashPoint:
    """The storage operation at which a process dies.

    Attributes:
        number: The position of the operation, from 1.
        moment: Before or after the effect of the operation.
        commits: Whether the store makes several changes in one operation, if it can.
        has_crashed: Whether the process came to the operation.
    """

    number: int
    moment: Moment
    commits: bool = False
    has_crashed: bool = False

    @contextmanager
    def process(self, store: Store) -> Generator[FaultyStore, None, None]:
        """Yield the store of the process; the block ends when the process dies."""
        fault = at(self.number, crashed(self.moment))
        dying = FaultyStore(store, fault, commits=self.commits)
        with suppress(Crash):
            yield dying
        self.has_crashed = dying.has_crashed
        if self.has_crashed:
            _let_tools_end()


def _let_tools_end() -> None:
    """Wait until the threads of tools that had begun are idle, two seconds at most.

    The death of a real process ends them. Here they go on, and an effect could follow
    after a person looked at the effects.
    """
    end = time.monotonic() + 2
    while time.monotonic() < end:
        tools = [each.name == "continuations-tool" for each in threading.enumerate()]
        if sum(tools) <= len(waiting_threads):
            return
        time.sleep(0.001)


def every_crash(
    *moments: Moment, more_than: int, step: int = 4, together: bool = True
) -> Iterator[CrashPoint]:
    """Yield a point for each operation of a process, and last one after its end.

    First the store makes one change in each operation, then several if it can.

    Args:
        moments: Before or after each operation, or both.
        more_than: The process must make more operations than this, one by one.
        step: Crash before every `step`-th operation only, and after the operations in
            the middle between them, unless TORTURE=1. With 2, a process dies with each
            number of completed operations; with 4, with every second number.
        together: Whether the store can make several changes in one operation.
    """
    numbers: Mapping[Moment, Sequence[int]] = {
        "before": sample(range(1, MAX_OPERATIONS), step),
        "after": sample(range(1, MAX_OPERATIONS), step, max(0, step // 2 - 1)),
    }
    for commits in (False, True) if together else (False,):
        least = 0 if commits else more_than
        yield from _crashes(moments, numbers, least, commits=commits)


def _crashes(
    moments: tuple[Moment, ...],
    numbers: Mapping[Moment, Sequence[int]],
    more_than: int,
    *,
    commits: bool,
) -> Iterator[CrashPoint]:
    for number in range(1, MAX_OPERATIONS):
        for moment in moments:
            if number not in numbers[moment]:
                continue
            point = CrashPoint(number, moment, commits)
            yield point
            if not point.has_crashed:
                assert number - 1 > more_than
                return
    pytest.fail(f"the process did not end within {MAX_OPERATIONS} operations")


def remaining_keys(store: Any) -> list[str]:
    """Return the markers and waits of a store in memory; sweeps leave none."""
    return [key for key in store._bodies if key.startswith(("markers/", "waits/"))]
