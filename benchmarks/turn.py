"""A durable turn at 200 turns, beside a turn of the baseline, which stores nothing.

Every measured process calls a model without latency over HTTP; the measured time is
from turn 180 to turn 220. Our process runs all the turns before, because its store must
contain them. The baseline starts at turn 170 with a prepared conversation.
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
RESULT_CHARS = 400
INPUT = [
    {"role": "system", "content": "You save notes."},
    {"role": "user", "content": "Save a note for every number."},
]
OURS = (
    "import sys; from benchmarks import turn; turn.run_ours(sys.argv[1], sys.argv[2])"
)
_BASELINE = "from benchmarks import turn; turn.run_baseline()"


def rows() -> Iterator[Row]:
    """Measure a tool that may be repeated after a crash, and one that may not."""
    with TemporaryDirectory() as folder, model_api.serving() as url:
        repeatable, ordinary, baseline = interleaved_medians(
            3,
            lambda: float(
                captured_output(OURS, f"file:{folder}", "read_only", base_url=url)
            ),
            lambda: float(
                captured_output(OURS, f"file:{folder}", "ordinary", base_url=url)
            ),
            lambda: float(captured_output(_BASELINE, base_url=url)),
        )
    for kind, ours in (("a read-only", repeatable), ("an ordinary", ordinary)):
        yield Row(
            what=f"durable turn at 200 turns, {kind} tool",
            ours=ours,
            compared_with="a plain loop, nothing stored",
            theirs=baseline,
            unit="ms",
            max_ratio=1 / 2,
        )


def run_ours(url: str, kind: str) -> None:
    """Run the turns on files; called in a child process."""
    from continuations import Agent, Runner, tool  # noqa: PLC0415 - not for the other child

    note = tool(_make_timed_note(0), name="note", read_only=kind == "read_only")
    agent = Agent("notes", tools=[note], model="gpt-5-mini", max_turns=None)
    Runner(agent, store=url).start(INPUT)


def run_baseline() -> None:
    """Run the turns on the client alone; called in a child process."""
    from benchmarks import baseline  # noqa: PLC0415 - not for the other child

    messages: list[Any] = list(INPUT)
    for number in range(1, _BASELINE_START + 1):
        messages.append(model_api.tool_call_message(number))
        baseline.run_calls(messages, _note_result)
    baseline.run_loop(messages, _make_timed_note(_BASELINE_START))


def _note_result(number: int) -> str:
    return sample_text(number, RESULT_CHARS)


def _make_timed_note(turns_before: int) -> Callable[[int], str]:
    times = [0.0] * turns_before

    def note(number: int) -> str:
        """Save a note."""
        times.append(time.perf_counter())
        if len(times) == _LAST_TURN:
            turn = (times[-1] - times[_FIRST_TURN - 1]) / (_LAST_TURN - _FIRST_TURN)
            os.write(1, f"{turn * 1000}".encode())
            os._exit(0)
        return _note_result(number)

    return note
