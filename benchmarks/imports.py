"""What a cold process pays before it does anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.process import wall
from benchmarks.rounds import medians
from benchmarks.row import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENT = "import openai"
NAMES = "from continuations import Agent, Runner, tool"


def rows() -> Iterator[Row]:
    """Import ours, and the client that every alternative imports."""
    bare, package, names, client = medians(
        9,
        lambda: wall("pass"),
        lambda: wall("import continuations"),
        lambda: wall(NAMES),
        lambda: wall(CLIENT),
    )
    yield Row(
        what="import continuations",
        ours=package,
        against=CLIENT,
        theirs=client,
        unit="ms",
        most=1 / 4,
    )
    yield Row(what=NAMES, ours=names, against=CLIENT, theirs=client, unit="ms")
    yield Row(
        what="python that does nothing",
        ours=bare,
        against=CLIENT,
        theirs=client,
        unit="ms",
    )
