"""The import time of a cold process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.child_process import wall_time_ms
from benchmarks.result_row import Row
from benchmarks.rounds import interleaved_medians

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENT_IMPORT = "import openai"
NAMES_IMPORT = "from continuations import Agent, Runner, tool"


def rows() -> Iterator[Row]:
    """Import this package, and the client that every alternative imports."""
    bare, package, names, client = interleaved_medians(
        9,
        lambda: wall_time_ms("pass"),
        lambda: wall_time_ms("import continuations"),
        lambda: wall_time_ms(NAMES_IMPORT),
        lambda: wall_time_ms(CLIENT_IMPORT),
    )
    yield Row(
        what="import continuations",
        ours=package,
        compared_with=CLIENT_IMPORT,
        theirs=client,
        unit="ms",
        max_ratio=1 / 4,
    )
    yield Row(
        what=NAMES_IMPORT,
        ours=names,
        compared_with=CLIENT_IMPORT,
        theirs=client,
        unit="ms",
    )
    yield Row(
        what="Python without imports",
        ours=bare,
        compared_with=CLIENT_IMPORT,
        theirs=client,
        unit="ms",
    )
