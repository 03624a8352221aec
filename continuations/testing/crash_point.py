"""A process that dies at a storage operation, simulated inside the test's process."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from continuations.testing.expectation import fail
from continuations_storage.faults import Crash, FaultyStore, at, crashed

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from continuations_storage import Store

_MAX_OPERATIONS = 10_000


class Restartable(Protocol):
    """An object with a store that can begin anew, such as `AgentHarness`.

    Attributes:
        store: The store.
    """

    store: Store

    def restart(self, *, store: Store | None = None) -> None:
        """Go on as a new process.

        Args:
            store: A store around the object's own. Default: the object's own.
        """
        ...


@dataclass
class CrashPoint:
    """The storage operation at which the process dies.

    Attributes:
        number: Position of the operation in the block, from 1.
        moment: `before` or `after` the effect of the operation.
        happened: Whether the process came to the operation. `None`: no block has run.
    """

    number: int
    moment: Literal["before", "after"] = "before"
    happened: bool | None = None

    @contextmanager
    def during(self, harness: Restartable) -> Generator[None, None, None]:
        """Let the process die in a block; the block ends at the crash.

        After the block the harness has a new runner, as after a restart.

        Args:
            harness: The harness of the run.

        Yields:
            Nothing. The operations of the harness in the block are counted.
        """
        dying = FaultyStore(harness.store, at(self.number, crashed(self.moment)))
        harness.restart(store=dying)
        try:
            with suppress(Crash):
                yield
        finally:
            self.happened = dying.has_crashed
            harness.restart()


def every_crash(*, both_moments: bool = True) -> Iterator[CrashPoint]:
    """Iterate over all storage operations of a block.

    ::

        for crash in every_crash():
            effects = Effects()
            harness = AgentHarness(make_agent(effects))
            with crash.during(harness):
                harness.run_to_end("Pay Jane")
            harness.recover()
            …  # check the effects

    The last block has no crash. The checks must hold for it too.

    Args:
        both_moments: Crash before and after the effect of each operation. With False,
            only before.

    Yields:
        The next point. Make a new harness for it and use it in one block.

    Raises:
        AssertionError: A point was not used, or the block calls no store.
    """
    for number in range(1, _MAX_OPERATIONS):
        point = CrashPoint(number)
        for point in (
            [CrashPoint(number), CrashPoint(number, "after")]
            if both_moments
            else [CrashPoint(number)]
        ):
            yield point
            if point.happened is None:
                fail(
                    "every_crash: the crash point was not used. Write `with "
                    "crash.during(harness):` in the loop."
                )
        if not point.happened:
            if number == 1:
                fail(
                    "every_crash: the block made no storage operation. Start or resume "
                    "a run in it."
                )
            return
