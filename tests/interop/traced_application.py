"""The spans of a test, and an application whose processes write theirs to a file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import (
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from continuations import Agent, ApprovalPolicy, Approve, Runner, ToolContext, tool
from continuations.interop import otel
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import Secret

PIN = "pin-98761234"


class Tracing:
    """A provider of the SDK, and the spans that ended."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """The spans that ended."""
        return self.exporter.get_finished_spans()

    def named(self, prefix: str) -> list[ReadableSpan]:
        """Return the spans whose names begin with a text."""
        return [each for each in self.spans if each.name.startswith(prefix)]


class FileExporter(SpanExporter):
    """Appends each span that ended to a file, as a line of JSON."""

    def __init__(self, path: str) -> None:
        self._path = path

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with Path(self._path).open("a", encoding="utf-8") as file:
            file.writelines(
                json.dumps(json.loads(span.to_json())) + "\n" for span in spans
            )
        return SpanExportResult.SUCCESS


@tool(approval=ApprovalPolicy())
def pay(name: str, pin: Annotated[str, Secret()], ctx: ToolContext) -> str:
    """Pay a person."""
    return f"paid {name} with {pin}; {ctx.trace_context['traceparent']}"


@tool
def crash() -> str:
    """Die at the first call."""
    marker = Path(os.environ["CRASHED"])
    if not marker.exists():
        marker.touch()
        os._exit(9)
    return "alive"


def make_runner(store: str, provider: Any, **options: Any) -> Runner[Any]:
    """Return a traced runner."""
    researcher = Agent("researcher", model=ScriptedModel(["found it"]), tools=[])
    clerk = Agent(
        "clerk",
        model=ScriptedModel(
            [
                [ToolCall("researcher", {"input": "Look."})],
                [ToolCall("pay", {"name": "jane", "pin": PIN})],
                [ToolCall("crash")],
                "paid",
            ]
        ),
        tools=[researcher, pay, crash],
    )
    runner = Runner(clerk, store=store, lease=1.0)
    otel.instrument(runner, tracer_provider=provider, **options)
    return runner


def main(store: str, spans: str, step: str) -> None:
    """Start the run, approve and resume it, or resume it."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(FileExporter(spans)))
    runner = make_runner(store, provider, capture_content=True, one_trace=True)
    if step == "start":
        runner.start("Pay Jane.", run_id="jane-1")
        return
    if step == "approve":
        (wait,) = runner.waiting()
        runner.decide(wait.id, Approve(by="kim"))
    runner.resume("jane-1")


if __name__ == "__main__":
    main(*sys.argv[1:])
