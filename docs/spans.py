"""Draw the spans of one run in three processes as a tree of text.

Usage: `python docs/spans.py > docs/images/spans.txt`. The run waits for an approval
in the first process and for an answer in the second one; the third one ends it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from continuations import Agent, Answer, ApprovalPolicy, Approve, Runner, ask, tool
from continuations.interop import otel
from continuations.models.scripted import ScriptedModel, ToolCall


@tool(approval=ApprovalPolicy())
def pay(name: str, euros: int) -> str:
    """Pay a person."""
    return f"paid {euros} euros to {name}"


@tool
def ask_date() -> Any:
    """Ask a person for the date of the receipt."""
    return ask("Which date?")


def work(store: str) -> None:
    """Do one step of the run, and write its spans to the standard output."""
    scout = Agent("scout", model=ScriptedModel(["Jane Doe"]))
    replies: list[Any] = [
        [ToolCall("scout", {"input": "Who is Jane?"})],
        [ToolCall("pay", {"name": "Jane Doe", "euros": 5})],
        [ToolCall("ask_date")],
        "Paid.",
    ]
    model = ScriptedModel(replies)
    clerk = Agent("clerk", model=model, tools=[scout, pay, ask_date])
    runner = Runner(clerk, store=store)
    provider = TracerProvider()
    exporter = ConsoleSpanExporter(formatter=lambda span: span.to_json(None) + "\n")
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    otel.instrument(runner, one_trace=True, tracer_provider=provider)
    waits = list(runner.waiting())
    if not waits:
        runner.start("Pay Jane.", run_id="jane-1")
        return
    is_question = waits[0].kind == "question"
    verdict = Answer("Monday", by="kim") if is_question else Approve(by="kim")
    runner.decide(waits[0].id, verdict)
    runner.resume("jane-1")


def draw(
    spans: list[dict[str, Any]], parent: str | None = None, depth: int = 0
) -> None:
    """Print the spans below one, in the order of their beginning."""
    below = [each for each in spans if each["parent_id"] == parent]
    for span in sorted(below, key=lambda each: str(each["start_time"])):
        attributes = span["attributes"]
        result = attributes.get("continuations.session.result")
        note = f"  → {result}" if result else ""
        sys.stdout.write(f"{'│  ' * depth}{span['name']}{note}\n")
        for link in span["links"]:
            linked = link["context"]["span_id"]
            number = [each["context"]["span_id"] for each in spans].index(linked)
            name = spans[number]["name"]
            sys.stdout.write(f"{'│  ' * depth}│  ⤷ link to the {name} before\n")
        for event in span["events"]:
            kind = event["attributes"].get("continuations.wait.kind", "")
            resolution = event["attributes"].get("continuations.wait.resolution", "")
            words = " ".join(filter(None, (event["name"], kind, resolution)))
            sys.stdout.write(f"{'│  ' * depth}│  · {words}\n")
        draw(spans, span["context"]["span_id"], depth + 1)


def main() -> None:
    """Work in three processes, and draw their spans."""
    lines: list[str] = []
    with TemporaryDirectory() as folder:
        command = [sys.executable, str(Path(__file__)), f"file:{folder}"]
        for _ in range(3):
            done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - itself
            lines += done.stdout.splitlines()
    draw([json.loads(line) for line in lines])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(sys.argv[1])
    else:
        main()
