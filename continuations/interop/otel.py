"""Record spans and metrics of runs with OpenTelemetry.

`instrument(runner)` needs the extra `otel`. Names and attributes of spans and metrics
are those of the package `opentelemetry-util-genai`. The names of this module begin with
`continuations.`; the events of a pause are a proposal to OpenTelemetry, see
`_PAUSED`.

    otel.instrument(runner)
    runner.start("Pay Jane 5 euros.", trace_context=otel.current_context())
"""

from __future__ import annotations

import copy
import json
import os
from abc import ABC, abstractmethod
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeAlias

from continuations import AsyncRunner, Runner
from continuations.errors import InvalidInput
from continuations.interop import missing_package
from continuations.models.interface import ModelReply
from continuations.serve.option_checks import check_type

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import (
        TraceContextTextMapPropagator,
    )
    from opentelemetry.util.genai import types
    from opentelemetry.util.genai.environment_variables import (
        OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT,
    )
    from opentelemetry.util.genai.handler import TelemetryHandler
    from opentelemetry.util.genai.invocation import LocalAgentInvocation
    from opentelemetry.util.genai.utils import fq_exception_type
except ImportError as error:
    raise missing_package(
        "otel", "'opentelemetry-api>=1.45' 'opentelemetry-util-genai>=1.3b0'", error
    ) from None

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from datetime import datetime

    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import SpanContext, TracerProvider
    from opentelemetry.util.genai.invocation import (
        FetchResponseInvocation,
        InferenceInvocation,
        ToolInvocation,
        WorkflowInvocation,
    )

    from continuations import observers

    _FrameSpan: TypeAlias = LocalAgentInvocation | WorkflowInvocation

__all__ = ["current_context", "instrument", "trace_id_of"]

# A proposal of open-telemetry/semantic-conventions-genai, pull request 445, as of
# 2026-08: its names may change.
_PAUSED = "gen_ai.agent.paused"
_CHECKPOINTED = "gen_ai.agent.checkpointed"
_RESUMED = "gen_ai.agent.resumed"
_EXECUTION_ID = "gen_ai.agent.execution.id"
_PAUSE_ID = "gen_ai.agent.pause.id"
_PAUSE_REASON = "gen_ai.agent.pause.reason"
_CHECKPOINT_ID = "gen_ai.agent.checkpoint.id"
_RESUMED_TYPE = "gen_ai.agent.resumed_from.type"
_RESUMED_ID = "gen_ai.agent.resumed_from.id"

_RESOLUTIONS = {
    "approve": "approved",
    "deny": "denied",
    "answer": "answered",
    "fail": "failed",
    "expire": "expired",
    "cancel": "cancelled",
}
# Settings of a model, and the attributes of the package for them.
_SETTINGS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "seed": "seed",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
}
_PROPAGATOR = TraceContextTextMapPropagator()
_NEW_ROOT = Context()


def instrument(
    runner: Runner[Any] | AsyncRunner[Any],
    capture_content: bool = False,
    *,
    one_trace: bool = False,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> None:
    """Record spans and metrics of everything that a runner works on from now.

    A worker session is a root span, with a link to the session before it, in whichever
    process that was. If the run was started with `trace_context=`, its first session is
    a child of that span. No span is open while a run waits. An error of the tracer is
    logged, and changes no run.

    Args:
        runner: The runner.
        capture_content: Whether spans have messages, arguments and results. Values of
            `Secret()` arguments are masked. Default: none of them.
        one_trace: Whether all sessions of a run are in one trace: that of
            `trace_context=`, or else the trace with the id `trace_id_of(...)`.
        tracer_provider: Default: the global one.
        meter_provider: Default: the global one.

    Raises:
        InvalidInput: The runner has an observer already, or `one_trace` needs a tracer
            provider of `opentelemetry.sdk`.
    """
    check_type("runner", runner, Runner | AsyncRunner, "a Runner or an AsyncRunner")
    for name, chosen in (
        ("capture_content", capture_content),
        ("one_trace", one_trace),
    ):
        check_type(name, chosen, bool, "True or False")
    _check_provider("tracer_provider", tracer_provider, "get_tracer")
    _check_provider("meter_provider", meter_provider, "get_meter")
    provider = tracer_provider or trace.get_tracer_provider()
    if one_trace:
        provider = _ProviderWithIds(provider)
    with _content_on_spans(capture_content):
        handler = TelemetryHandler(
            provider,
            meter_provider,
            instrumentation_scope_name="continuations.interop.otel",
        )
    runner.observe(_Observer(handler, one_trace=one_trace, captures=capture_content))


def _check_provider(name: str, provider: object, method: str) -> None:
    if provider is not None and not callable(getattr(provider, method, None)):
        msg = f"{name} must have the method {method}, got {type(provider).__name__}."
        raise InvalidInput(f"{msg} Pass a provider of opentelemetry.sdk, or None.")


def current_context() -> dict[str, str]:
    """Return the current span as headers, for `start(trace_context=...)`.

    Returns:
        `traceparent`, and `tracestate` if there is one. Empty without a span; pass
        `current_context() or None`.
    """
    headers: dict[str, str] = {}
    _PROPAGATOR.inject(headers)
    return headers


def trace_id_of(run_id: str, created_at: datetime) -> str:
    """Return the trace id of a run with `one_trace`, as 32 hexadecimal digits.

    Args:
        run_id: Id of the run.
        created_at: When the run was started.

    Returns:
        The id.
    """
    named = f"{run_id} {created_at.isoformat(timespec='milliseconds')}"
    return sha256(named.encode()).hexdigest()[:32]


# The trace id of the session that begins.
_NEXT_TRACE: ContextVar[int | None] = ContextVar("continuations_trace", default=None)


class _TraceIds:
    """The ids of new spans: those of a tracer, but for the trace id of a session."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def generate_span_id(self) -> int:
        return int(self._inner.generate_span_id())

    def generate_trace_id(self) -> int:
        chosen = _NEXT_TRACE.get()
        return int(self._inner.generate_trace_id() if chosen is None else chosen)

    def is_trace_id_random(self) -> bool:
        return bool(self._inner.is_trace_id_random())


class _ProviderWithIds(trace.TracerProvider):
    """A provider whose tracers have the trace ids of `_TraceIds`."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider

    def get_tracer(self, *args: Any, **kwargs: Any) -> trace.Tracer:
        found: Any = self._provider.get_tracer(*args, **kwargs)
        ids = getattr(found, "id_generator", None)
        if ids is None:
            raise InvalidInput(
                "one_trace needs a TracerProvider of opentelemetry.sdk, got "
                f"{type(self._provider).__name__}. Set the tracer provider first, or "
                "pass tracer_provider=."
            )
        # A copy: the provider hands the same tracer to others.
        tracer = copy.copy(found)
        tracer.id_generator = _TraceIds(ids)
        return tracer  # type: ignore[no-any-return]  # a copy of a Tracer


@contextmanager
def _content_on_spans(captures: bool) -> Generator[None]:
    """Let a handler that is made now take content; the package reads a variable."""
    name = OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT
    before = os.environ.get(name)
    if captures and not before:
        os.environ[name] = "SPAN_ONLY"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


class _Observer:
    """Makes the observer of each worker session."""

    def __init__(
        self, handler: TelemetryHandler, *, one_trace: bool, captures: bool
    ) -> None:
        self._handler, self._one_trace, self._captures = handler, one_trace, captures

    def session(self) -> _Session:
        return _Session(
            self._handler, one_trace=self._one_trace, captures=self._captures
        )


class _Session:
    """The spans of one worker session: of its frames, requests and calls."""

    def __init__(
        self, handler: TelemetryHandler, *, one_trace: bool, captures: bool
    ) -> None:
        self._handler, self._one_trace, self._captures = handler, one_trace, captures
        # By frame and agent: a handoff gives a frame to another agent.
        self._spans: dict[tuple[str, str], _FrameSpan] = {}
        self._run_id = ""
        self._root: _FrameSpan | None = None
        self._version = 0

    # The session --------------------------------------------------------------

    def began(self, session: observers.ObservedSession) -> str | None:
        self._run_id, self._version = session.run_id, session.version
        self._root = root = self._begin_root(session)
        root.attributes["continuations.run.version"] = session.version
        previous = _span_context(session.previous)
        if previous is not None:
            root.span.add_link(previous, {"continuations.link": "previous session"})
        if session.version and previous is not None:
            self._event(
                _RESUMED,
                {_RESUMED_TYPE: "checkpoint", _RESUMED_ID: str(session.version)},
            )
        return _headers(root.context).get("traceparent")

    def _begin_root(self, session: observers.ObservedSession) -> _FrameSpan:
        if session.trace_context and (self._one_trace or session.previous is None):
            context = _PROPAGATOR.extract(dict(session.trace_context), _NEW_ROOT)
            return self._begin_frame(session.root, context)
        trace_id = None
        if self._one_trace:
            trace_id = int(trace_id_of(session.run_id, session.created_at), 16)
        token = _NEXT_TRACE.set(trace_id)
        try:
            return self._begin_frame(session.root, _NEW_ROOT)
        finally:
            _NEXT_TRACE.reset(token)

    def _begin_frame(
        self, frame: observers.ObservedFrame, context: Context
    ) -> _FrameSpan:
        span: _FrameSpan = (
            self._handler.workflow(
                frame.agent, context=context, conversation_id=self._run_id
            )
            if frame.is_workflow
            else self._handler.invoke_local_agent(
                request_model=frame.model,
                agent_name=frame.agent,
                context=context,
                conversation_id=self._run_id,
            )
        )
        # It ends in another task than it began: it is the context of its children.
        span.suspend()
        span.attributes["continuations.frame.id"] = frame.id
        if frame.call is not None:
            span.attributes["continuations.call.id"] = frame.call
        self._spans[frame.id, frame.agent] = span
        return span

    def _frame(self, frame: observers.ObservedFrame) -> _FrameSpan:
        """Return the span of a frame, after those of the frames above it."""
        missing: list[observers.ObservedFrame] = []
        at: observers.ObservedFrame | None = frame
        while at is not None and (at.id, at.agent) not in self._spans:
            missing.append(at)
            at = at.above
        for each in reversed(missing):
            self._begin_frame(each, self._parent(each).context)
        return self._spans[frame.id, frame.agent]

    def _parent(self, frame: observers.ObservedFrame) -> _FrameSpan:
        earlier = (span for key, span in self._spans.items() if key[0] == frame.id)
        above = frame.above
        above_span = self._spans[above.id, above.agent] if above else self._root
        parent = next(earlier, above_span)
        assert parent is not None  # noqa: S101 - the session has begun
        return parent

    def ended(self, end: observers.ObservedEnd) -> None:
        root = self._root
        if root is None:
            return
        if self._version:
            self._event(_CHECKPOINTED, {_CHECKPOINT_ID: str(self._version)})
        root.attributes["continuations.session.result"] = end.result
        spans, self._spans, self._root = self._spans, {}, None
        for span in reversed([*spans.values()]):
            if end.error is not None:
                span.fail(_error(end.error))
            elif end.failure is not None and span is root:
                span.fail(types.Error(message=None, type=end.failure))
            else:
                span.stop()

    # Versions -----------------------------------------------------------------

    def committed(self, version: observers.ObservedVersion) -> None:
        self._version = version.number
        for wait in version.ended:
            self._wait_ended(wait)
        for wait in version.opened:
            self._wait_opened(wait)
        for key in [key for key in self._spans if key[0] in version.ended_frames]:
            if self._spans[key] is not self._root:
                self._spans.pop(key).stop()

    def _wait_opened(self, wait: observers.ObservedWait) -> None:
        attributes = _of_wait(wait) | {_CHECKPOINT_ID: str(self._version)}
        if wait.asks_person:
            attributes[_PAUSE_REASON] = "human_input"
        elif wait.asks_system:
            attributes[_PAUSE_REASON] = "external_system"
        if wait.deadline is not None:
            deadline = wait.deadline.isoformat(timespec="milliseconds")
            attributes["continuations.wait.deadline"] = deadline
        self._event(_PAUSED, attributes)
        opened = "unknown_outcome" if wait.may_have_run else "opened"
        self._event(f"continuations.wait.{opened}", attributes)

    def _wait_ended(self, wait: observers.ObservedWait) -> None:
        resolution = _RESOLUTIONS.get(wait.decision or "", "ended")
        name = "expired" if resolution == "expired" else "decided"
        attributes = _of_wait(wait) | {"continuations.wait.resolution": resolution}
        self._event(f"continuations.wait.{name}", attributes)

    def _event(self, name: str, attributes: Mapping[str, str]) -> None:
        if self._root is not None:
            named = {_EXECUTION_ID: self._run_id, **attributes}
            self._root.span.add_event(name, named)

    # Requests and calls -------------------------------------------------------

    def request_began(self, request: observers.ObservedRequest) -> _Request:
        frame = self._frame(request.frame)
        provider = str(getattr(request.model, "provider", "unknown"))
        span: InferenceInvocation | FetchResponseInvocation
        if request.pending_reply is not None:
            span = self._handler.fetch_response(
                provider, response_id=request.pending_reply, context=frame.context
            )
        else:
            span = self._handler.inference(
                provider,
                request_model=request.model_name or None,
                context=frame.context,
                conversation_id=self._run_id,
            )
            for name, attribute in _SETTINGS.items():
                if name in request.request.settings:
                    setattr(span, attribute, request.request.settings[name])
            if request.request.output_schema is not None:
                span.output_type = "json"
            if request.request.on_delta is not None:
                span.request_stream = True
        if request.agent != request.frame.agent:
            span.attributes["continuations.asked_by"] = request.agent
        return _Request(span, frame, request, captures=self._captures)

    def call_began(self, call: observers.ObservedCall) -> _Call:
        frame = self._frame(call.frame)
        span = self._handler.tool(
            call.tool,
            tool_type="function",
            agent_name=call.frame.agent,
            context=frame.context,
        )
        span.tool_call_id = call.tool_call_id
        span.tool_description = call.description or None
        span.attributes["continuations.call.id"] = call.id
        span.attributes["continuations.call.attempt"] = call.attempt
        if self._captures:
            span.arguments = call.shown_arguments()
        return _Call(span, call, captures=self._captures)


class _Action(ABC):
    """The span of a request or a call."""

    def __init__(self, span: Any) -> None:
        self._span = span

    def never_began(self) -> None:
        # A span that does not end is not exported.
        self._span.suspend()

    def trace_context(self) -> Mapping[str, str]:
        return _headers(self._span.context)

    def ended(self, result: Any, error: BaseException | None) -> None:
        try:
            if error is None:
                self._take(result)
        finally:
            if error is None:
                self._span.stop()
            else:
                self._span.fail(_error(error))

    @abstractmethod
    def _take(self, result: Any) -> None:
        """Add what the result says to the span."""


class _Request(_Action):
    def __init__(
        self,
        span: InferenceInvocation | FetchResponseInvocation,
        frame: _FrameSpan,
        observed: observers.ObservedRequest,
        *,
        captures: bool,
    ) -> None:
        super().__init__(span)
        self._frame, self._observed, self._captures = frame, observed, captures

    def _take(self, result: Any) -> None:
        if not isinstance(result, ModelReply):
            return
        usage, frame, span = result.usage, self._frame, self._span
        span.finish_reasons = [result.finish_reason]
        if self._observed.pending_reply is None:
            span.input_tokens = usage.input_tokens
            span.output_tokens = usage.output_tokens
            span.cache_read_input_tokens = usage.cached_tokens or None
            span.thinking_tokens = usage.reasoning_tokens or None
            # Only a turn names its frame. The prompts of agents that summarize or judge
            # have arguments in their texts.
            if self._captures and self._observed.request.frame:
                self._take_content(result)
        if isinstance(frame, LocalAgentInvocation):
            frame.input_tokens = (frame.input_tokens or 0) + usage.input_tokens
            frame.output_tokens = (frame.output_tokens or 0) + usage.output_tokens

    def _take_content(self, reply: ModelReply) -> None:
        sent = [message.data for message in self._observed.request.messages]
        *read, written = map(
            _message, self._observed.shown([*sent, reply.message.data])
        )
        self._span.input_messages = read
        self._span.output_messages = [types.OutputMessage(written.role, written.parts)]


class _Call(_Action):
    def __init__(
        self, span: ToolInvocation, call: observers.ObservedCall, *, captures: bool
    ) -> None:
        super().__init__(span)
        self._call, self._captures = call, captures

    def _take(self, result: Any) -> None:
        if self._captures and isinstance(result, str):
            self._span.tool_result = self._call.scrubbed(result)


def _message(message: Mapping[str, Any]) -> types.InputMessage:
    role, content = str(message.get("role")), message.get("content")
    text = content if isinstance(content, str) else json.dumps(content)
    if role == "tool":
        called = str(message.get("tool_call_id"))
        return types.InputMessage(
            role=role, parts=[types.ToolCallResponsePart(text, called)]
        )
    parts: list[types.MessagePart] = [types.TextPart(text)] if content else []
    for call in message.get("tool_calls") or ():
        function = call["function"]
        parts.append(
            types.ToolCallRequestPart(
                function["arguments"], function["name"], call["id"]
            )
        )
    return types.InputMessage(role=role, parts=parts)


def _of_wait(wait: observers.ObservedWait) -> dict[str, str]:
    attributes = {_PAUSE_ID: wait.id, "continuations.wait.kind": wait.kind}
    if wait.tool:
        attributes["gen_ai.tool.name"] = wait.tool
        attributes["gen_ai.tool.call.id"] = wait.tool_call_id
    return attributes


def _error(error: BaseException) -> types.Error:
    # The text of an exception may have arguments.
    return types.Error(message=None, type=fq_exception_type(error))


def _headers(context: Context) -> dict[str, str]:
    headers: dict[str, str] = {}
    _PROPAGATOR.inject(headers, context)
    return headers


def _span_context(traceparent: str | None) -> SpanContext | None:
    if traceparent is None:
        return None
    context = _PROPAGATOR.extract({"traceparent": traceparent}, _NEW_ROOT)
    return trace.get_current_span(context).get_span_context()
