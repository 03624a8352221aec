"""Spans of runs, with the SDK of OpenTelemetry and its reference emitter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util.genai.handler import TelemetryHandler

from continuations import (
    Agent,
    Approve,
    Deny,
    Flow,
    Runner,
    ToolContext,
    external,
    tool,
    workflow,
)
from continuations.errors import InvalidInput
from continuations.interop import otel
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import Secret
from tests.interop.traced_application import PIN, Tracing, make_runner
from tests.serve.http.api_fixture import ApiFixture

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def tracing() -> Tracing:
    """Return a new provider."""
    return Tracing()


def run_step(store: str, spans: Path, step: str, crashed: Path) -> int:
    """Run one step in a process of its own; return its status."""
    environment = {**os.environ, "CRASHED": str(crashed)}
    command = [sys.executable, "-m", "tests.interop.traced_application"]
    done = subprocess.run(
        [*command, store, str(spans), step], env=environment, check=False
    )
    return done.returncode


def test_three_processes_and_a_crash_make_one_trace_without_repeats(
    tmp_path: Path,
) -> None:
    """Sessions are linked over processes; no call that was recorded repeats."""
    store, spans, crashed = f"file:{tmp_path}/runs", tmp_path / "spans", tmp_path / "c"
    assert run_step(store, spans, "start", crashed) == 0
    assert run_step(store, spans, "approve", crashed) == 9
    time.sleep(1.2)  # the claim of the dead worker ends
    assert run_step(store, spans, "resume", crashed) == 0
    text = spans.read_text()
    assert PIN not in text
    found = [json.loads(line) for line in text.splitlines()]
    assert len({each["context"]["trace_id"] for each in found}) == 1
    roots = [each for each in found if each["parent_id"] is None]
    # The second session died, so its root never ended. The third is linked to it.
    assert [each["name"] for each in roots] == ["invoke_agent clerk"] * 2
    assert roots[0]["links"] == []
    (link,) = roots[1]["links"]
    orphans = (
        {each["parent_id"] for each in found}
        - {each["context"]["span_id"] for each in found}
        - {None}
    )
    assert orphans == {link["context"]["span_id"]}
    calls = [
        (each["attributes"]["continuations.call.id"], each["name"])
        for each in found
        if each["name"].startswith("execute_tool")
    ]
    assert len(calls) == len(set(calls))
    events = [event["name"] for each in roots for event in each["events"]]
    assert "continuations.wait.unknown_outcome" in events


def test_names_and_attributes_are_those_of_the_reference_emitter(
    tracing: Tracing,
) -> None:
    """The package, used directly for the same turns, makes the same spans."""

    @tool
    def note(text: str) -> str:
        """Save a note."""
        return text

    model = ScriptedModel([[ToolCall("note", {"text": "a"})], "done"])
    agent = Agent("clerk", model=model, tools=[note], settings={"temperature": 0.5})
    runner = Runner(agent, store="memory:")
    otel.instrument(runner, tracer_provider=tracing.provider)
    runner.start("Go.", run_id="jane-1")

    reference = Tracing()
    handler = TelemetryHandler(reference.provider)
    with handler.invoke_local_agent(
        request_model="scripted", agent_name="clerk", conversation_id="jane-1"
    ) as of_agent:
        of_agent.input_tokens = of_agent.output_tokens = 0
        for reason in ("tool_calls", "stop"):
            with handler.inference("unknown", request_model="scripted") as chat:
                chat.temperature = 0.5
                chat.finish_reasons = [reason]
                chat.input_tokens = chat.output_tokens = 0
            if reason == "tool_calls":
                with handler.tool(
                    "note", tool_type="function", agent_name="clerk"
                ) as call:
                    call.tool_call_id = "call_0_0"
                    call.tool_description = "Save a note."
    assert [shape(each) for each in tracing.spans] == [
        shape(each) for each in reference.spans
    ]


def shape(span: ReadableSpan) -> tuple[Any, ...]:
    """Return what a span says, without our own attributes."""
    attributes = {
        name: value
        for name, value in (span.attributes or {}).items()
        if not name.startswith("continuations.")
    }
    return span.name, span.kind, attributes, span.parent is None


def test_sub_agents_nest_and_a_wait_ends_the_session(tracing: Tracing) -> None:
    """The spans of a sub-agent are below its frame; events tell of the wait."""
    runner = make_runner("memory:", tracing.provider)
    outcome = runner.start("Pay Jane.", run_id="jane-1")
    (child,) = tracing.named("invoke_agent researcher")
    (root,) = tracing.named("invoke_agent clerk")
    (below,) = [each for each in tracing.named("chat") if each.parent == child.context]
    assert below.parent is not None
    assert child.parent == root.context
    assert "gen_ai.agent.paused" in [each.name for each in root.events]
    runner.decide(outcome.waits[0].id, Deny(by="kim"))
    runner.resume("jane-1", should_pause=None)
    second = tracing.named("invoke_agent clerk")[1]
    assert second.context is not None
    assert root.context is not None
    assert second.links[0].context.span_id == root.context.span_id
    assert second.context.trace_id != root.context.trace_id
    decided = [each for each in second.events if each.name.endswith("wait.decided")]
    assert (decided[0].attributes or {})["continuations.wait.resolution"] == "denied"


def test_a_start_continues_the_trace_of_its_caller(tracing: Tracing) -> None:
    """The first session is a child of the caller, and tools hand their span on."""
    seen: list[Any] = []

    @tool
    def send(ctx: ToolContext) -> str:
        seen.append(dict(ctx.trace_context))
        return "sent"

    model = ScriptedModel([[ToolCall("send")], "done"])
    plain = Runner(Agent("clerk", model=model, tools=[send]), store="memory:")
    plain.start("Go.", trace_context={"Traceparent": PARENT, "tracestate": "a=b"})
    assert seen.pop() == {"traceparent": PARENT, "tracestate": "a=b"}
    traced = Runner(Agent("clerk", model=model, tools=[send]), store="memory:")
    otel.instrument(traced, tracer_provider=tracing.provider)
    traced.start("Go.", trace_context=PARENT)
    (call,) = tracing.named("execute_tool send")
    assert call.context is not None
    assert f"{call.context.span_id:016x}" in seen[0]["traceparent"]
    (root,) = tracing.named("invoke_agent")
    assert root.parent is not None
    assert f"{root.parent.span_id:016x}" == "b7ad6b7169203331"


@pytest.mark.parametrize(
    "context",
    [
        "",
        PARENT.upper(),
        PARENT.replace("00-", "ff-", 1),
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"{PARENT}\n",
        {"tracestate": "a=b"},
        {"traceparent": PARENT, "tracestate": "a b"},
        {"traceparent": PARENT, "baggage": "a=b"},
        {"traceparent": None},
        {1: 2},
        ["traceparent"],
        7,
    ],
)
def test_a_wrong_context_is_refused_and_nothing_is_stored(context: Any) -> None:
    """`start` raises before it writes."""
    runner = Runner(Agent("clerk", model=ScriptedModel(["done"])), store="memory:")
    with pytest.raises(InvalidInput, match="trace_context"):
        runner.start("Go.", trace_context=context)
    assert [*runner.runs()] == []


class Broken(InMemorySpanExporter):
    """An exporter that raises."""

    def export(self, spans: Any) -> Any:
        raise RuntimeError(spans)


class BrokenProvider(TracerProvider):
    """A provider whose tracer raises."""

    def get_tracer(self, *args: Any, **kwargs: Any) -> Any:
        found: Any = super().get_tracer(*args, **kwargs)
        found.start_span = self._refuse
        return found

    def _refuse(self, *_: Any, **__: Any) -> Any:
        msg = "no span"
        raise RuntimeError(msg)


@pytest.mark.parametrize("kind", ["exporter", "tracer"])
def test_faulty_tracing_changes_no_run(kind: str) -> None:
    """The run ends as without a tracer."""
    provider = BrokenProvider() if kind == "tracer" else TracerProvider()
    if kind == "exporter":
        provider.add_span_processor(SimpleSpanProcessor(Broken()))
    runner = make_runner("memory:", provider, capture_content=True)
    outcome = runner.start("Pay Jane.", run_id="jane-1")
    assert outcome.status == "suspended"
    assert [wait.kind for wait in outcome.waits] == ["approval"]


def test_idle_runs_hold_no_span(tracing: Tracing) -> None:
    """Runs that wait have no open span, and looking at them makes none."""

    @tool
    def job() -> Any:
        return external("job")

    count = 1000 if os.environ.get("TORTURE") else 50
    model = ScriptedModel([[ToolCall("job")], "done"])
    runner = Runner(Agent("clerk", model=model, tools=[job]), store="memory:")
    begun: list[Any] = []
    processor = SimpleSpanProcessor(InMemorySpanExporter())
    processor.on_start = lambda span, **_: begun.append(span)  # type: ignore[method-assign]  # a count
    tracing.provider.add_span_processor(processor)
    otel.instrument(runner, tracer_provider=tracing.provider)
    for number in range(count):
        runner.start("Go.", run_id=f"r{number}")
    assert len(begun) == len(tracing.spans) == 3 * count
    runner.resume("r0")
    runner.sweep()
    assert len(begun) == 3 * count


def test_metrics_have_durations_and_tokens(tracing: Tracing) -> None:
    """The package records them with the spans."""
    reader = InMemoryMetricReader()
    runner = Runner(Agent("clerk", model=ScriptedModel(["done"])), store="memory:")
    meters = MeterProvider([reader])
    otel.instrument(runner, tracer_provider=tracing.provider, meter_provider=meters)
    runner.start("Go.")
    data: Any = reader.get_metrics_data()
    metrics = data.resource_metrics[0].scope_metrics[0].metrics
    names = {metric.name for metric in metrics}
    meters.shutdown()
    assert "gen_ai.client.operation.duration" in names
    assert "gen_ai.client.token.usage" in names


def test_failed_tools_have_no_text_of_the_error(tracing: Tracing) -> None:
    """The text of an exception may have arguments, so spans have its type only."""

    @tool
    def fail() -> str:
        raise ValueError(PIN)

    model = ScriptedModel([[ToolCall("fail")], "done"])
    runner = Runner(Agent("clerk", model=model, tools=[fail]), store="memory:")
    otel.instrument(runner, capture_content=True, tracer_provider=tracing.provider)
    runner.start("Go.")
    (span,) = tracing.named("execute_tool")
    assert (span.attributes or {})["error.type"] == "ValueError"
    assert PIN not in span.to_json()


def test_content_is_off_by_default(tracing: Tracing) -> None:
    """No text of a message, an argument or a result is in a span."""
    runner = make_runner("memory:", tracing.provider)
    outcome = runner.start("Pay Jane.", run_id="jane-1")
    runner.decide(outcome.waits[0].id, Approve(by="kim"))
    assert all("Pay Jane." not in span.to_json() for span in tracing.spans)
    assert all("found it" not in span.to_json() for span in tracing.spans)


def test_a_runner_is_instrumented_once(tracing: Tracing) -> None:
    """A second call is an error, and so is a provider that has no ids."""
    runner = make_runner("memory:", tracing.provider)
    with pytest.raises(InvalidInput, match="twice"):
        otel.instrument(runner, tracer_provider=tracing.provider)
    with pytest.raises(InvalidInput, match="TracerProvider of"):
        otel.instrument(Runner([], store="memory:"), one_trace=True)
    with pytest.raises(InvalidInput, match="session"):
        Runner([], store="memory:").observe(object())  # type: ignore[arg-type]  # wrong


def test_a_run_without_tracing_imports_no_opentelemetry() -> None:
    """Neither the package nor a run loads it."""
    code = (
        "import sys; from continuations import Agent, Runner\n"
        "from continuations.models.scripted import ScriptedModel\n"
        "Runner(Agent('a', model=ScriptedModel(['x'])), store='memory:').start('go')\n"
        "assert not [name for name in sys.modules if 'opentelemetry' in name]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_picture_of_the_page_is_the_trace_of_three_processes() -> None:
    """`docs/spans.py` draws the same tree."""
    docs = Path(__file__).parents[2] / "docs"
    drawn = subprocess.check_output([sys.executable, str(docs / "spans.py")], text=True)
    assert drawn == (docs / "images/spans.txt").read_text(encoding="utf-8")


def test_workflows_handoffs_and_threads_have_spans_of_their_own(
    tracing: Tracing,
) -> None:
    """A workflow is `invoke_workflow`; a handoff is another agent of the same frame."""

    @tool
    def grade(essay: str) -> int:
        """Grade an essay."""
        return len(essay)

    @workflow(tools=[grade])
    async def grade_all(flow: Flow, essay: str) -> int:
        return await flow.call(grade, essay)

    billing = Agent("billing", model=ScriptedModel(["a", "Paid.", "c"]))
    model = ScriptedModel([ToolCall("transfer_to_billing"), "b", "c"])
    desk = Agent("desk", model=model, handoffs=[billing])
    runner: Runner[Any] = Runner([grade_all, desk], store="memory:")
    otel.instrument(runner, tracer_provider=tracing.provider)
    runner.start(grade_all.bind("abc"), agent="grade_all")
    (flow,) = tracing.named("invoke_workflow grade_all")
    (graded,) = tracing.named("execute_tool grade")
    assert graded.parent == flow.context
    runner.thread("desk", key="jane").send("Pay.")
    (of_desk,) = tracing.named("invoke_agent desk")
    (of_billing,) = tracing.named("invoke_agent billing")
    assert of_billing.parent == of_desk.context


async def test_the_http_api_takes_a_trace_context(tracing: Tracing) -> None:
    """The field of a start is checked as the argument of the method is."""
    fixture = ApiFixture()
    otel.instrument(fixture.runner, tracer_provider=tracing.provider)
    body = {"run_id": "r", "input": "Pay.", "trace_context": {"traceparent": PARENT}}
    assert (await fixture.request("POST", "/runs", body)).status == 200
    (root,) = tracing.named("invoke_agent")
    assert root.parent is not None
    body = {"run_id": "s", "input": "Pay.", "trace_context": {"traceparent": "00-1"}}
    assert (await fixture.request("POST", "/runs", body)).status == 400


@pytest.mark.parametrize(
    "raw",
    [
        '{"codes": ["7", "secret-1"], "note": "a"}',
        '{"codes": ["7", "secret-1"], "note": "secret-1"}',
        '{"codes": ["7", "secret-1"',
        '["7", "secret-1"]',
    ],
)
def test_secret_items_are_masked_in_every_message(tracing: Tracing, raw: str) -> None:
    """Also if the arguments that the model wrote are not valid."""

    @tool
    def use(codes: Annotated[list[str], Secret()], note: str) -> str:
        """Use codes."""
        return f"{note}: {codes[1]}"

    model = ScriptedModel([[ToolCall("use", raw)], "done"])
    runner = Runner(Agent("clerk", model=model, tools=[use]), store="memory:")
    otel.instrument(runner, capture_content=True, tracer_provider=tracing.provider)
    runner.start("Go.")
    chats = tracing.named("chat")
    assert len(chats) == 2
    assert all("secret-1" not in span.to_json() for span in tracing.spans)
    assert "[secret]" in chats[0].to_json()
