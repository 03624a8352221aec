"""The cost of spans: a turn with OpenTelemetry and without it, side by side.

The model of each turn waits for 0.1 s, less than most models need. The spans go to an
exporter that drops them, in batches.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.result_row import Row
from benchmarks.rounds import interleaved_medians
from continuations import Agent, Runner, tool
from continuations.models.scripted import ScriptedModel, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations.models.interface import ModelReply, ModelRequest

_ROUNDS, _TURNS, _MODEL_SECONDS = 7, 10, 0.1


def rows() -> Iterator[Row]:
    """Measure a turn with a model that waits, and one that does not, on files."""
    for seconds, words, limit in (
        (_MODEL_SECONDS, "of 0.1 s", 1.02),
        (0.0, "without latency", None),
    ):
        traced, plain = interleaved_medians(
            _ROUNDS,
            partial(_milliseconds, seconds, traced=True),
            partial(_milliseconds, seconds, traced=False),
        )
        yield Row(
            what=f"a turn with spans, a model {words}",
            ours=traced,
            compared_with="without spans",
            theirs=plain,
            unit="ms",
            max_ratio=limit,
        )


class _SlowModel:
    """A scripted model that needs some time."""

    name = "scripted"

    def __init__(self, seconds: float) -> None:
        calls: list[Any] = [[ToolCall("note", {"text": "a"})]] * (_TURNS - 1)
        self._model = ScriptedModel([*calls, "done"])
        self._seconds = seconds

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Wait, and return the reply."""
        await asyncio.sleep(self._seconds)
        found: Any = await self._model.reply(request)
        return found  # type: ignore[no-any-return]  # the script has no pending reply


@tool
def note(text: str) -> str:
    """Save a note."""
    return text


def _milliseconds(seconds: float, *, traced: bool) -> float:
    with TemporaryDirectory() as folder:
        agent = Agent("clerk", model=_SlowModel(seconds), tools=[note], max_turns=None)
        runner = Runner(agent, store=f"file:{folder}")
        if traced:
            _instrument(runner)
        began = time.perf_counter()
        runner.start("Go.")
        return (time.perf_counter() - began) / _TURNS * 1000


def _instrument(runner: Runner[Any]) -> None:
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - for this row
    from opentelemetry.sdk.trace.export import (  # noqa: PLC0415
        BatchSpanProcessor,
        SpanExporter,
        SpanExportResult,
    )

    from continuations.interop import otel  # noqa: PLC0415

    class Dropped(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            del spans
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Dropped()))
    otel.instrument(runner, tracer_provider=provider)
