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
from benchmarks.child_process import captured_output
from benchmarks.result_row import Row
from benchmarks.rounds import interleaved_medians
from benchmarks.sample_text import sample_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BASELINE_START, _FIRST_TURN, _LAST_TURN = 170, 180, 220
_RESULT_CHARS = 400
_INPUT = [
    {"role": "system", "content": "You keep the notes."},
    {"role": "user", "content": "Note every number there is."},
]
_OURS = (
    "import sys; from benchmarks import turn; turn.run_ours(sys.argv[1], sys.argv[2])"
)
_BASELINE = "from benchmarks import turn; turn.run_baseline()"


def rows() -> Iterator[Row]:
    """Measure two kinds of tools: one may be repeated after a crash, one not."""
    with TemporaryDirectory() as folder, model_api.serving() as url:
        repeatable, ordinary, floor = interleaved_medians(
            3,
            lambda: float(
                captured_output(_OURS, f"file:{folder}", "read_only", base_url=url)
            ),
            lambda: float(
                captured_output(_OURS, f"file:{folder}", "ordinary", base_url=url)
            ),
            lambda: float(captured_output(_BASELINE, base_url=url)),
        )
    for kind, ours in (("a read-only", repeatable), ("an ordinary", ordinary)):
        yield Row(
            what=f"durable turn at 200 turns, {kind} tool",
            ours=ours,
            compared_with="the floor, nothing kept",
            theirs=floor,
            unit="ms",
            max_ratio=1 / 2,
        )


def run_ours(url: str, kind: str) -> None:
    """Run in a child: live through the turns on files."""
    from continuations import Agent, Runner, tool  # noqa: PLC0415 - a child's price

    note = tool(_make_timed_note(0), name="note", read_only=kind == "read_only")
    agent = Agent("clerk", tools=[note], model="gpt-5-mini", max_turns=None)
    Runner(agent, store=url).start(_INPUT)


def run_baseline() -> None:
    """Run in a child: live through the turns on the client alone."""
    from benchmarks import baseline as without_us  # noqa: PLC0415 - a child's price

    messages: list[Any] = list(_INPUT)
    for number in range(1, _BASELINE_START + 1):
        messages.append(model_api.tool_call_message(number))
        without_us.run_calls(messages, _note_result)
    without_us.run_loop(messages, _make_timed_note(_BASELINE_START))


def _note_result(number: int) -> str:
    return sample_text(number, _RESULT_CHARS)


def _make_timed_note(turns_before: int) -> Callable[[int], str]:
    stamps = [0.0] * turns_before

    def note(number: int) -> str:
        """Note it."""
        stamps.append(time.perf_counter())
        if len(stamps) == _LAST_TURN:
            turn = (stamps[-1] - stamps[_FIRST_TURN - 1]) / (_LAST_TURN - _FIRST_TURN)
            os.write(1, f"{turn * 1000}".encode())
            os._exit(0)
        return _note_result(number)

    return note
