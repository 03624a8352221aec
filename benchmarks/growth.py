"""How the costs grow: with messages, with depth, with parallel waits.

    make plots            # measures, and draws docs/images/growth-*.svg

The curves are the evidence that a cost is linear, or grows with a logarithm. Everything
runs in one process on a store in memory, unless a curve says otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from dataclasses import dataclass
from importlib import import_module
from math import ceil, floor, log10
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks import depth, fanout, long_history, model_api
from benchmarks.approval_agent import start_suspended_runs
from benchmarks.counting_store import CountingStore
from benchmarks.sample_text import sample_text
from continuations import Agent, Approve, AsyncRunner, Runner, Suspended, tool
from continuations.core.messages import Message
from continuations.models.interface import ModelReply, ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from continuations import Outcome

IMAGES = Path(__file__).parents[1] / "docs/images"
_TEXT_CHARS = 500
_ROUNDS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One line of a plot.

    Attributes:
        label: The text of the legend.
        points: Pairs of size and cost.
        is_reference: Whether the line is drawn dashed, for comparison.
    """

    label: str
    points: Sequence[tuple[float, float]]
    is_reference: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One picture.

    Attributes:
        name: The file is `growth-{name}.svg`.
        title: The title.
        x: The label of the horizontal axis.
        y: The label of the vertical axis.
        curves: The lines.
    """

    name: str
    title: str
    x: str
    y: str
    curves: Sequence[Curve]


def bytes_written() -> Plot:
    """Measure the bytes of one run with an approval in every turn."""
    ours, rewritten = asyncio.run(_bytes_by_messages(500))
    return Plot(
        name="bytes",
        title="Bytes written by one run, an approval in every turn",
        x="messages",
        y="kB",
        curves=[
            Curve(label="continuations", points=ours),
            Curve(
                label="one JSON file, rewritten in each turn",
                points=rewritten,
                is_reference=True,
            ),
        ],
    )


async def _bytes_by_messages(
    turns: int,
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    store = CountingStore()
    runner = AsyncRunner(_approved_notes(turns), store=store)
    outcome: Outcome = await runner.start(sample_text(0, _TEXT_CHARS), run_id="long")
    ours: list[tuple[float, float]] = []
    rewritten: list[tuple[float, float]] = []
    file_bytes = 0
    while isinstance(outcome, Suspended):
        messages = list(outcome.continuation.root.messages)
        file_bytes += len(json.dumps(messages))
        if len(messages) in (2, 10, 20, 50, 100, 200, 500, 1000):
            ours.append((len(messages), store.bytes_written / 1000))
            rewritten.append((len(messages), file_bytes / 1000))
        await runner.decide(outcome.waits[0].id, Approve(by="kim"))
        outcome = await runner.resume("long")
    return ours, rewritten


def _approved_notes(turns: int) -> Agent:
    @tool(approval=True)
    def note(number: int) -> str:
        """Save a note."""
        return sample_text(2 * number, _TEXT_CHARS)

    script: list[Any] = [ToolCall("note", {"number": n}) for n in range(turns)]
    model = ScriptedModel([*script, "Done."])
    return Agent("notes", tools=[note], model=model, max_turns=None)


def calls_of_a_turn() -> Plot:
    """Count the Python calls of one turn, by the messages before it."""
    points = [
        (size, asyncio.run(_calls_at(size))) for size in (50, 200, 500, 1000, 2000)
    ]
    first = points[0][1]
    return Plot(
        name="turn",
        title="Python calls of one durable turn, an ordinary tool",
        x="messages before the turn",
        y="calls",
        curves=[
            Curve(label="continuations", points=points),
            Curve(
                label="if each message were looked at",
                points=[(size, first + size) for size, _ in points],
                is_reference=True,
            ),
        ],
    )


class _NoteModel:
    """Calls the tool in each turn; `ScriptedModel` would look at each message."""

    name = "notes"

    def __init__(self, turns: int) -> None:
        self._turns = turns
        self._replies = 0

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Return a call of the tool, and a text in the last turn."""
        del request
        self._replies += 1
        if self._replies > self._turns:
            data: dict[str, Any] = {"role": "assistant", "content": "Done."}
        else:
            data = model_api.tool_call_message(self._replies)
        return ModelReply(message=Message.from_mapping(data))


async def _calls_at(messages: int) -> float:
    counts: list[int] = []
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    @tool
    def note(number: int) -> str:
        """Save a note."""
        counts.append(calls)
        return sample_text(number, _TEXT_CHARS)

    model = _NoteModel(turns=messages // 2 + 3)
    agent = Agent("notes", tools=[note], model=model, max_turns=None)
    sys.setprofile(count)
    try:
        await AsyncRunner(agent, store=CountingStore()).start("Go.")
    finally:
        sys.setprofile(None)
    return counts[-1] - counts[-2]


def loading() -> Plot:
    """Measure the load that `make bench` measures, by the number of messages."""
    points = [
        (size, asyncio.run(long_history.load_ms(size)))
        for size in (100, 500, 1000, 2000, 5000)
    ]
    return Plot(
        name="load",
        title="Load one run with messages of 200 characters, and check its bytes",
        x="messages",
        y="ms",
        curves=[Curve(label="continuations", points=points)],
    )


def stack_bytes() -> Plot:
    """Measure the bytes of the first suspension, by the depth of the stack."""
    levels = (1, 3, 10, 30, 100, 300, 1000)
    costs = [(level, asyncio.run(depth.measure_stack(level))) for level in levels]
    return Plot(
        name="depth",
        title="First suspension of a stack of agents",
        x="levels",
        y="kB",
        curves=[
            Curve(
                label="all bytes written to the store",
                points=[(level, cost.written) for level, cost in costs],
            ),
            Curve(
                label="Continuation.to_bytes()",
                points=[(level, cost.size) for level, cost in costs],
            ),
            Curve(
                label="the messages, compressed",
                points=[(level, cost.messages) for level, cost in costs],
                is_reference=True,
            ),
        ],
    )


def parallel_waits() -> Plot:
    """Measure one resume of a run, by the number of its open waits."""
    points = [(count, _resume_ms(count)) for count in (1, 10, 100, 1000)]
    return Plot(
        name="fan-out",
        title="Resume after one approval, by the waits of the run",
        x="open waits of the run",
        y="ms",
        curves=[Curve(label="continuations, in memory", points=points)],
    )


def _resume_ms(count: int) -> float:
    runner = Runner(fanout.parent_agent(count), store="memory:")
    outcome = runner.start("Have all of them paid.", run_id="r1")
    assert isinstance(outcome, Suspended)  # noqa: S101 - the script ends here
    waits = iter([wait.id for wait in outcome.waits])
    times: list[float] = []
    for wait_id, _ in zip(waits, range(_ROUNDS + 1), strict=False):
        runner.decide(wait_id, Approve(by="kim"))
        started = time.perf_counter()
        runner.resume("r1")
        times.append((time.perf_counter() - started) * 1000)
    # The first resume decodes what the next ones find in this process.
    return median(times[1:] or times)


def listing() -> Plot:
    """Measure a listing of open waits on files, by their number."""
    points = [(count, _listing_ms(count)) for count in (10, 100, 1000, 5000)]
    return Plot(
        name="listing",
        title="List the open waits of a store",
        x="open waits",
        y="ms",
        curves=[Curve(label="continuations, on files", points=points)],
    )


def _listing_ms(count: int) -> float:
    with TemporaryDirectory() as folder:
        asyncio.run(start_suspended_runs(f"file:{folder}", count))
        runner = Runner([], store=f"file:{folder}")
        return _median_ms(lambda: list(runner.waiting()))


def _median_ms(work: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        work()
        times.append((time.perf_counter() - started) * 1000)
    return median(times)


PLOTS: tuple[Callable[[], Plot], ...] = (
    bytes_written,
    calls_of_a_turn,
    loading,
    stack_bytes,
    parallel_waits,
    listing,
)


def draw(plot: Plot, path: Path) -> None:
    """Draw a plot on logarithmic axes."""
    # Not an import: only `make plots` installs it, and type checkers run without it.
    mpl: Any = import_module("matplotlib")
    figures: Any = import_module("matplotlib.figure")
    tickers: Any = import_module("matplotlib.ticker")
    # The same bytes for the same figures.
    mpl.rcParams.update({"svg.hashsalt": "continuations", "font.size": 10})
    figure = figures.Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    for curve in plot.curves:
        sizes, values = zip(*curve.points, strict=True)
        style = "--" if curve.is_reference else "o-"
        color = "#888888" if curve.is_reference else None
        axes.plot(sizes, values, style, label=curve.label, color=color, markersize=4)
    axes.set(title=plot.title, xlabel=plot.x, ylabel=plot.y, xscale="log", yscale="log")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:,.9g}")
    # Whole decades, so that each axis has labels.
    costs = [cost for curve in plot.curves for _, cost in curve.points]
    axes.set_ylim(10 ** floor(log10(min(costs))), 10 ** ceil(log10(max(costs))))
    axes.yaxis.set_minor_formatter(tickers.NullFormatter())
    axes.xaxis.set_minor_formatter(tickers.NullFormatter())
    axes.grid(visible=True, alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Measure every plot, draw it, and print its points."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--images", type=Path, default=IMAGES)
    names = [measure.__name__ for measure in PLOTS]
    options.add_argument("--only", choices=names, help="measure one plot")
    selected = options.parse_args()
    for measure in PLOTS:
        if selected.only not in (None, measure.__name__):
            continue
        plot = measure()
        draw(plot, selected.images / f"growth-{plot.name}.svg")
        for curve in plot.curves:
            points = ", ".join(f"{x:g}: {y:.4g}" for x, y in curve.points)
            print(f"{plot.name}: {curve.label}: {points}")


if __name__ == "__main__":
    main()
