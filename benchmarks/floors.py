"""Floors: the same work without this library, beside the work with this library.

A figure can come down to its floor, and not below it.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks import model_api, on_files, turn
from benchmarks.child_process import captured_output
from benchmarks.result_row import Row
from benchmarks.rounds import interleaved_medians
from benchmarks.sample_text import sample_text
from continuations import Runner
from continuations_storage import FileStore

if TYPE_CHECKING:
    from collections.abc import Iterator

_TURNS = 40
_BODY = b"x" * 800
_TURN_FLOOR = (
    "import sys; from benchmarks import floors; floors.run_turn_floor(sys.argv[1])"
)

_WAIT_ID = re.compile("^(approval-[0-9a-z]{26}@[A-Za-z0-9._-]+)$", re.MULTILINE)


@dataclass(slots=True)
class _PlainSummary:
    id: str
    expired: bool = False


def rows() -> Iterator[Row]:
    """Measure a turn, a listing and the cycles of two processes, with their floors."""
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
    with TemporaryDirectory() as folder:
        yield _listing_row(Path(folder))
    for parent, where in on_files.folders_to_measure():
        with TemporaryDirectory(dir=parent) as folder:
            cycles, creates = interleaved_medians(
                5,
                partial(on_files.per_second, f"file:{folder}", on_files.RUN_CYCLES, 2),
                partial(
                    on_files.per_second,
                    folder,
                    f"{on_files.__name__}:run_plain_creates",
                    2,
                ),
            )
        yield Row(
            what=f"cycles a second, 2 processes, {where}",
            ours=cycles,
            compared_with="their floor: 10 files written and flushed with their folder",
            theirs=creates,
            unit="",
        )


def _listing_row(root: Path) -> Row:
    folder = on_files.make_keys_of_waits(root, 10_000)
    runner = Runner([], store=FileStore(root))

    def list_plainly() -> None:
        names = sorted(each.name for each in os.scandir(folder) if each.is_file())
        for wait_id in _WAIT_ID.findall("\n".join(names)):
            _PlainSummary(wait_id)

    ours, floor = interleaved_medians(
        9,
        partial(on_files.milliseconds, lambda: sum(1 for _ in runner.waiting())),
        partial(on_files.milliseconds, list_plainly),
    )
    return Row(
        what="10,000 open waits listed, on files",
        ours=ours,
        compared_with="its floor: the sorted names of files, those that are wait ids, "
        "and an object for each",
        theirs=floor,
        unit="ms",
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
