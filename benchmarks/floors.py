"""Floors: the same work without this library, beside the work with this library.

A figure can come down to its floor, and not below it.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks import model_api, on_files, turn
from benchmarks.child_process import captured_output
from benchmarks.result_row import Row
from benchmarks.rounds import interleaved_medians
from benchmarks.sample_text import sample_text

if TYPE_CHECKING:
    from collections.abc import Iterator

_TURNS = 40
_BODY = b"x" * 800
_TURN_FLOOR = (
    "import sys; from benchmarks import floors; floors.run_turn_floor(sys.argv[1])"
)


def rows() -> Iterator[Row]:
    """Measure a durable turn and the cycles of two processes, beside their floors."""
    with TemporaryDirectory() as folder, model_api.serving() as url:
        ours, floor = interleaved_medians(
            5,
            lambda: float(
                captured_output(turn.OURS, f"file:{folder}", "read_only", base_url=url)
            ),
            lambda: float(captured_output(_TURN_FLOOR, folder, base_url=url)),
        )
    yield Row(
        what="durable turn at 200 turns, a read-only tool",
        ours=ours,
        compared_with="its floor: one request of the client with a ready-made body, "
        "one file written and flushed with its folder",
        theirs=floor,
        unit="ms",
    )
    for parent, where in on_files.folders_to_measure():
        with TemporaryDirectory(dir=parent) as folder:
            cycles, creates = interleaved_medians(
                5,
                partial(on_files.per_second, Path(folder), "run_cycles", 2),
                partial(on_files.per_second, Path(folder), "run_plain_creates", 2),
            )
        yield Row(
            what=f"cycles a second, 2 processes, {where}",
            ours=cycles,
            compared_with="their floor: 10 files written and flushed with their folder",
            theirs=creates,
            unit="",
        )


def run_turn_floor(folder: str) -> None:
    """Print the milliseconds of one turn; called in a child process."""
    print(asyncio.run(_turn_floor(folder)))


async def _turn_floor(folder: str) -> float:
    import json  # noqa: PLC0415 - not for the parent

    from openai import AsyncAPIResponse, AsyncOpenAI  # noqa: PLC0415 - as above

    messages = list(turn.INPUT)
    for number in range(1, 201):
        messages.append(model_api.tool_call_message(number))
        result = sample_text(number, turn.RESULT_CHARS)
        messages.append(
            {"role": "tool", "tool_call_id": f"call_{number}", "content": result}
        )
    body = json.dumps({"model": "gpt-5-mini", "messages": messages}).encode()
    client = AsyncOpenAI()

    async def one_turn() -> None:
        response = await client.post(
            "/chat/completions", content=body, cast_to=AsyncAPIResponse[object]
        )
        await response.read()
        on_files.write_plainly(Path(folder), 1, _BODY)

    await one_turn()
    started = time.perf_counter()
    for _ in range(_TURNS):
        await one_turn()
    return (time.perf_counter() - started) * 1000 / _TURNS
