"""A turn that is kept, at 200 turns, beside the floor's turn that keeps nothing.

Every measured process talks to a model without latency over HTTP; what is measured is
the way from turn 180 to turn 220. Ours lives through all the turns before, because
its store must hold them; the floor has no past and begins at turn 170.
"""

from __future__ import annotations

import os
import time
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks import model_api
from benchmarks.process import said
from benchmarks.prose import prose
from benchmarks.rounds import medians
from benchmarks.row import Row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BEGIN, _FROM, _TO = 170, 180, 220
_SIZE = 400
_BRIEF = [
    {"role": "system", "content": "You keep the notes."},
    {"role": "user", "content": "Note every number there is."},
]
_OURS = "import sys; from benchmarks import turn; turn.ours(sys.argv[1], sys.argv[2])"
_FLOOR = "from benchmarks import turn; turn.floor()"


def rows() -> Iterator[Row]:
    """Measure two kinds of tools: one may be repeated after a crash, one not."""
    with TemporaryDirectory() as folder, model_api.serving() as url:
        repeatable, ordinary, floor = medians(
            3,
            lambda: float(said(_OURS, f"file:{folder}", "read_only", base_url=url)),
            lambda: float(said(_OURS, f"file:{folder}", "ordinary", base_url=url)),
            lambda: float(said(_FLOOR, base_url=url)),
        )
    for kind, ours in (("a read-only", repeatable), ("an ordinary", ordinary)):
        yield Row(
            what=f"durable turn at 200 turns, {kind} tool",
            ours=ours,
            against="the floor, nothing kept",
            theirs=floor,
            unit="ms",
            most=1 / 2,
        )


def ours(url: str, kind: str) -> None:
    """Run in a child: live through the turns on files."""
    from continuations import Agent, Runner, tool  # noqa: PLC0415 - a child's price

    note = tool(_noting(0), name="note", read_only=kind == "read_only")
    agent = Agent("clerk", tools=[note], model="gpt-5-mini", max_turns=None)
    Runner(agent, store=url).start(_BRIEF)


def floor() -> None:
    """Run in a child: live through the turns on the client alone."""
    from benchmarks import floor as without_us  # noqa: PLC0415 - a child's price

    messages: list[Any] = list(_BRIEF)
    for number in range(1, _BEGIN + 1):
        messages.append(model_api.message(number))
        without_us.call(messages, _noted)
    without_us.loop(messages, _noting(_BEGIN))


def _noted(number: int) -> str:
    return prose(number, _SIZE)


def _noting(turns_before: int) -> Callable[[int], str]:
    stamps = [0.0] * turns_before

    def note(number: int) -> str:
        """Note it."""
        stamps.append(time.perf_counter())
        if len(stamps) == _TO:
            turn = (stamps[-1] - stamps[_FROM - 1]) / (_TO - _FROM)
            os.write(1, f"{turn * 1000}".encode())
            os._exit(0)
        return _noted(number)

    return note
