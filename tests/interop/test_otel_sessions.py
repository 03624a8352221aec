"""Worker sessions as spans: their links, waits, copies, secrets and costs."""

from __future__ import annotations

import time
from types import MappingProxyType
from typing import Annotated, Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from pydantic import BaseModel

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    Finished,
    Runner,
    Suspended,
    ToolContext,
    ask,
    sleep,
    tool,
)
from continuations.errors import StaleRun
from continuations.interop import otel
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.aws_lambda import handler
from continuations.tools import Secret
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore
from tests.clocks import ManualClock
from tests.hostile.editable_store import EditableStore
from tests.interop.traced_application import PIN, Tracing
from tests.outcomes import single_wait
from tests.serve.aws.test_handler_options import Context
from tests.stores import ZSTD_MAGIC, StoreWithoutTime, keys_and_bodies

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CODE = "code-55501"


@pytest.fixture
def tracing() -> Tracing:
    """Return a new provider."""
    return Tracing()


PAY_ONE = ToolCall("pay", {"euros": 1})


@tool(approval=ApprovalPolicy(within=60))
def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


@tool
def ask_date() -> Any:
    """Ask for a date."""
    return ask("Which date?")


@tool
def nap() -> Any:
    """Sleep for an hour."""
    return sleep(3600)


def traced(
    tracing: Tracing, *replies: Any, store: Any = "memory:", **options: Any
) -> Runner[Any]:
    """Return a traced runner of one agent with the tools above."""
    model = ScriptedModel([*replies, "done"])
    agent = Agent("clerk", model=model, tools=[pay, ask_date, nap])
    runner: Runner[Any] = Runner(agent, store=store, **options)
    otel.instrument(runner, tracer_provider=tracing.provider)
    return runner


def events(span: ReadableSpan) -> list[tuple[str, object]]:
    """Return our events of a span with their resolutions."""
    return [
        (each.name, (each.attributes or {}).get("continuations.wait.resolution"))
        for each in span.events
        if each.name.startswith("continuations.")
    ]


def roots(tracing: Tracing) -> list[ReadableSpan]:
    """Return the spans of sessions, in the order of their ends."""
    return tracing.named("invoke_agent clerk")


def is_linked(later: ReadableSpan, earlier: ReadableSpan) -> bool:
    """Return whether the one link of a span names another span."""
    (link,) = later.links
    assert earlier.context is not None
    return bool(link.context.span_id == earlier.context.span_id)


@pytest.mark.parametrize(
    ("call", "seconds", "expected"),
    [
        (ToolCall("pay", {"euros": 5}), 61, ("continuations.wait.expired", "expired")),
        (ToolCall("nap"), 3601, ("continuations.wait.decided", "ended")),
    ],
)
def test_the_clock_ends_a_wait_with_an_event(
    tracing: Tracing, call: ToolCall, seconds: int, expected: tuple[str, str]
) -> None:
    """A deadline is an expiry, and a timer has no decision."""
    clock = ManualClock()
    runner = traced(tracing, [call], clock=clock)
    runner.start("Go.", run_id="r")
    clock.seconds += seconds
    runner.resume("r")
    first, second = roots(tracing)
    assert events(first) == [("continuations.wait.opened", None)]
    assert events(second) == [expected]
    assert is_linked(second, first)


def test_answers_are_events_and_cancelled_calls_are_not(tracing: Tracing) -> None:
    """No worker cancels a call that waits."""
    runner = traced(tracing, [ToolCall("ask_date"), ToolCall("pay", {"euros": 5})])
    outcome = runner.start("Go.", run_id="r")
    assert isinstance(outcome, Suspended)
    question = next(wait for wait in outcome.waits if wait.kind == "question")
    approval = next(wait for wait in outcome.waits if wait.kind == "approval")
    runner.decide(question.id, Answer("Monday", by="kim"))
    runner.cancel("r", call=approval.call_id)
    runner.resume("r")
    (_, second) = roots(tracing)
    assert events(second) == [("continuations.wait.decided", "answered")]


def test_a_repeated_start_goes_on_as_another_session(tracing: Tracing) -> None:
    """The start that found the run taken has no span, and its context is ignored."""
    runner = traced(tracing, [ToolCall("pay", {"euros": 5})])
    wait = single_wait(runner.start("Go.", run_id="r", trace_context=PARENT))
    runner.decide(wait.id, Approve(by="kim"))
    other = PARENT.replace("b7ad", "b7ae")
    runner.start("Go.", run_id="r", trace_context=other)
    first, second = roots(tracing)
    assert is_linked(second, first)
    assert second.parent is None
    assert not second.status.is_ok or second.status.is_unset
    assert (second.attributes or {})["continuations.run.version"] != 0
    assert len(tracing.named("execute_tool pay")) == 1
    stored = dict(runner.look("r").run_state.run.trace_context)
    assert stored == {"traceparent": PARENT}


class Overtaken(StoreWithoutTime):
    """A store in which another runner is faster than the first version of this one."""

    def __init__(self, inner: MemoryStore, other: Runner[Any]) -> None:
        super().__init__(inner)
        self._other: Runner[Any] | None = other

    async def create(self, key: str, body: bytes) -> None:
        """Let the other one resume the run first."""
        other = self._other
        if other is not None and "/v/" in key:
            self._other = None
            await other.async_runner.resume("r")
        await super().create(key, body)


def test_a_session_that_lost_a_race_has_no_span(tracing: Tracing) -> None:
    """Another worker wrote the version first: that session is the next one."""
    store = MemoryStore()
    runner = traced(tracing, [ToolCall("pay", {"euros": 5})], store=store)
    wait = single_wait(runner.start("Go.", run_id="r"))
    runner.decide(wait.id, Approve(by="kim"))

    late = traced(tracing, store=Overtaken(store, runner))
    with pytest.raises(StaleRun):
        late.resume("r")
    assert [each.name for each in roots(tracing)] == ["invoke_agent clerk"] * 2
    assert {each.status.is_unset for each in roots(tracing)} == {True}


def test_rewinds_and_forks_keep_the_link_and_forks_have_no_caller(
    tracing: Tracing,
) -> None:
    """The table of `fork-and-rewind.md` holds for what follows."""
    runner = traced(tracing, [ToolCall("pay", {"euros": 5})], [ToolCall("ask_date")])
    wait = single_wait(runner.start("Go.", run_id="r", trace_context=PARENT))
    version = runner.look("r").version
    runner.decide(wait.id, Approve(by="kim"))
    runner.resume("r")
    fork = runner.fork("r", version, run_id="copy", by="kim")
    copied = runner.look(fork).run_state.run
    assert copied.trace_context == ()
    runner.decide(runner.look(fork).waits[0].id, Approve(by="kim"))
    runner.resume(fork)
    runner.rewind("r", version, by="kim")
    rewound = runner.look("r").run_state.run
    assert dict(rewound.trace_context) == {"traceparent": PARENT}
    runner.decide(runner.look("r").waits[0].id, Approve(by="kim"))
    runner.resume("r")
    first, second, of_fork, third = roots(tracing)
    assert is_linked(second, first)
    assert is_linked(of_fork, first)
    assert of_fork.parent is None
    assert is_linked(third, second)


def test_nothing_of_a_trace_is_left_of_an_erased_run(tracing: Tracing) -> None:
    """Neither the caller's context nor the session's."""
    store = EditableStore()
    runner = traced(tracing, store=store)
    runner.start("Go.", run_id="r", trace_context=PARENT)
    (span,) = roots(tracing)
    assert span.context is not None
    words = [PARENT.encode(), f"{span.context.span_id:016x}".encode()]
    stored = b"".join(keys_and_bodies(store.bodies))
    assert all(word in stored for word in words)
    runner.erase("r")
    # No compressed object is left.
    assert not any(word in body for word in words for body in store.bodies.values())
    assert not any(ZSTD_MAGIC in body for body in store.bodies.values())


class Key(BaseModel):
    """The arguments of an agent."""

    code: Annotated[str, Secret()]


@tool
def unlock(pin: Annotated[str, Secret()]) -> str:
    """Unlock."""
    return f"unlocked with {pin}"


def test_secrets_of_other_agents_are_masked(tracing: Tracing) -> None:
    """A sub-agent reads its arguments, and a transcript outlives a handoff."""
    calls: list[Any] = [ToolCall("unlock", {"pin": PIN}), f"{CODE} is used."]
    vault = Agent("vault", model=ScriptedModel(calls), tools=[unlock], input_type=Key)
    desk_calls = [ToolCall("vault", {"code": CODE}), ToolCall("transfer_to_billing")]
    billing = Agent("billing", model=ScriptedModel(["a", "b", f"{CODE} is used."]))
    desk = Agent(
        "desk", model=ScriptedModel(desk_calls), tools=[vault], handoffs=[billing]
    )
    runner = Runner(desk, store="memory:")
    otel.instrument(runner, capture_content=True, tracer_provider=tracing.provider)
    outcome = runner.start("Go.")
    assert outcome.status == "finished"
    assert tracing.named("invoke_agent billing")
    assert any("unlocked with [secret]" in span.to_json() for span in tracing.spans)
    texts = [span.to_json() for span in tracing.spans]
    assert not any(secret in text for text in texts for secret in (CODE, PIN))


def test_models_get_the_frame_and_the_call(tracing: Tracing) -> None:
    """A model of an application can tell for which call it works."""
    asked: list[tuple[str, str, str | None]] = []

    class Model:
        name = "own"

        def __init__(self, *replies: Any) -> None:
            self._model = ScriptedModel([*replies])

        async def reply(self, request: ModelRequest) -> Any:
            asked.append((request.agent, request.frame, request.call))
            return await self._model.reply(request)

    scout = Agent("scout", model=Model("Jane"))
    calls = [ToolCall("scout", {"input": "Who?"})]
    runner = Runner(
        Agent("clerk", model=Model(calls, "done"), tools=[scout]), store="memory:"
    )
    otel.instrument(runner, tracer_provider=tracing.provider)
    runner.start("Go.")
    (of_scout,) = tracing.named("invoke_agent scout")
    attributes = of_scout.attributes or {}
    assert [each[0] for each in asked] == ["clerk", "scout", "clerk"]
    assert asked[1][1] == attributes["continuations.frame.id"]
    assert asked[1][2] == attributes["continuations.call.id"]
    assert asked[0][2] is None


def test_a_run_of_a_tool_is_in_the_trace_of_its_call(tracing: Tracing) -> None:
    """A tool that starts another run hands its context on."""
    inner: Runner[Any] = Runner(
        Agent("inner", model=ScriptedModel(["done"])), store="memory:"
    )

    @tool
    async def start_other(ctx: ToolContext) -> str:
        context = ctx.trace_context
        return str(
            (await inner.async_runner.start("Go.", trace_context=context)).status
        )

    model = ScriptedModel([ToolCall("start_other"), "done"])
    outer = Runner(Agent("clerk", model=model, tools=[start_other]), store="memory:")
    for runner in (inner, outer):
        otel.instrument(runner, tracer_provider=tracing.provider)
    outer.start("Go.")
    (call,) = tracing.named("execute_tool start_other")
    (child,) = tracing.named("invoke_agent inner")
    assert child.parent is not None
    assert call.context is not None
    assert child.parent.span_id == call.context.span_id


def test_any_mapping_is_a_context_and_an_empty_one_is_none() -> None:
    """So `otel.current_context()` fits without a span."""
    runner = Runner(Agent("clerk", model=ScriptedModel(["a", "b"])), store="memory:")
    runner.start("Go.", run_id="r", trace_context=otel.current_context())
    assert runner.look("r").run_state.run.trace_context == ()
    headers = MappingProxyType({"traceparent": PARENT, "tracestate": "a=b,,c=d"})
    runner.start("Go.", run_id="s", trace_context=headers)
    stored = dict(runner.look("s").run_state.run.trace_context)
    assert stored == headers


def test_a_lambda_handler_is_instrumented_without_its_agents(tracing: Tracing) -> None:
    """An invocation that only decides loads no agent."""
    loaded: list[str] = []

    def load() -> Agent[str]:
        loaded.append("agent")
        return Agent("clerk", model=ScriptedModel(["done"]))

    handle = handler(store="memory:", agents=load)
    otel.instrument(handle.runner, tracer_provider=tracing.provider)
    assert loaded == []
    fields = {"input": "Go.", "trace_context": {"traceparent": PARENT}}
    assert handle({"start": fields}, Context())["status"] == "finished"
    handle.close()
    (root,) = roots(tracing)
    assert root.parent is not None


def test_spans_cost_no_request(tracing: Tracing) -> None:
    """A traced run reads and writes the same objects as another one."""

    def verbs(*, is_traced: bool) -> list[str]:
        store = FaultyStore(MemoryStore())
        runner = traced(tracing, [ToolCall("pay", {"euros": 5})], store=store)
        if not is_traced:
            runner = Runner(runner.root_agent(), store=store)
        wait = single_wait(runner.start("Go.", run_id="r"))
        runner.decide(wait.id, Approve(by="kim"))
        runner.resume("r")
        return [operation.verb for operation in store.operations]

    assert verbs(is_traced=True) == verbs(is_traced=False)


def test_spans_of_a_turn_cost_little(tracing: Tracing) -> None:
    """At most 2 % of a turn whose model needs 0.1 s, in seconds of the processor."""
    turns = 20

    def seconds(*, is_traced: bool) -> float:
        calls: list[Any] = [[ToolCall("note")]] * (turns - 1)
        agent = Agent("clerk", model=ScriptedModel([*calls, "done"]), tools=[note])
        runner = Runner(agent, store="memory:")
        if is_traced:
            otel.instrument(runner, tracer_provider=tracing.provider)
        began = time.process_time()
        runner.start("Go.")
        return (time.process_time() - began) / turns

    rounds = [(seconds(is_traced=True), seconds(is_traced=False)) for _ in range(5)]
    spent, plain = (min(each) for each in zip(*rounds, strict=True))
    assert spent - plain < 0.02 * 0.1


@tool
def note() -> str:
    """Do nothing."""
    return "noted"


def test_a_stack_of_a_thousand_agents_has_all_its_spans(
    tracing: Tracing, caplog: pytest.LogCaptureFixture
) -> None:
    """Another process resumes it, and learns of all frames at once."""
    depth, store = 1_100, MemoryStore()

    def reply(request: ModelRequest) -> str | ToolCall:
        last = request.messages[-1].data
        if last["role"] == "tool":
            return "done"
        left = int(str(last["content"]))
        return ToolCall("deeper", {"input": f"{left - 1}"}) if left else PAY_ONE

    agent: Agent[str] = Agent(
        "deeper", model=ScriptedModel(reply), tools=lambda: [agent, pay]
    )
    first: Runner[Any] = Runner(agent, store=store, max_depth=2 * depth)
    second: Runner[Any] = Runner(agent, store=store, max_depth=2 * depth)
    wait = single_wait(first.start(str(depth), run_id="r1"))
    otel.instrument(second, tracer_provider=tracing.provider)
    second.decide(wait.id, Approve())

    assert isinstance(second.resume("r1"), Finished)
    assert depth + 1 == len(tracing.named("invoke_agent deeper"))
    assert not [each for each in caplog.records if each.exc_info]
