"""Pydantic AI: its tools as tools, and its deferred calls as waits.

refund_tool = from_pydantic_ai(refund, idempotent=True)

# The run ends at its deferred calls, and goes on in any process:
await open_requests(runner, result, run_id="refund-17")
paused = await decided_requests(runner, run_id="refund-17")
result = await agent.run(**paused)

# The run waits in its process, for decisions in the store:
agent = Agent(model, tools=[...], capabilities=[store_input(runner, "a-17")])
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

from continuations import Answer, AsyncRunner, Suspended, ToolContext, errors
from continuations.interop import missing_package
from continuations.interop.paused_calls import (
    CallVerdict,
    PausedCall,
    digest_of,
    keep_approval,
    open_calls,
    paused_calls,
    read_verdicts,
)
from continuations.serve.option_checks import (
    check_async_runner,
    check_seconds,
    check_type,
)
from continuations.tools import SchemaToolOptions, Tool

try:
    from pydantic import JsonValue, TypeAdapter
    from pydantic_ai import (
        DeferredToolRequests,
        DeferredToolResults,
        ModelMessagesTypeAdapter,
        RunContext,
        RunUsage,
        ToolApproved,
        ToolDenied,
        ToolReturn,
    )
    from pydantic_ai import Tool as PydanticTool
    from pydantic_ai.capabilities import RequestInput
    from pydantic_ai.exceptions import ToolFailed
    from pydantic_ai.external_events import (
        ExternalEventError,
        ExternalEventWaiter,
        external_event_scope,
    )
    from pydantic_ai.run import AgentRunResult
except ImportError as error:
    raise missing_package("pydantic_ai", "'pydantic-ai-slim>=2.66'", error) from None

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import timedelta

    from pydantic_ai import ModelMessage

    from continuations import Outcome

__all__ = [
    "PausedRequests",
    "StoreWaiter",
    "decided_requests",
    "from_pydantic_ai",
    "open_requests",
    "store_input",
]

_KIT = "pydantic-ai"
_LABEL = "from_pydantic_ai"
_REQUESTS = TypeAdapter(DeferredToolRequests)
_RESULTS = TypeAdapter(DeferredToolResults)


def from_pydantic_ai(
    tool: PydanticTool[Any],
    *,
    deps: Callable[[ToolContext], Any] | None = None,
    **options: Unpack[SchemaToolOptions],
) -> Tool[..., Any]:
    """Make a tool from a tool of Pydantic AI.

    Name, description and JSON Schema come from the tool. All effect flags are yours:
    nothing is guessed. A tool with `requires_approval` always asks, unless `approval=`
    has a policy of yours.

    Args:
        tool: The tool: `pydantic_ai.Tool(function)`.
        deps: Returns the object that the tool finds in `ctx.deps`. Default: the
            `context=` of the run. `ctx.model` and `ctx.messages` are not there.
        **options: The options of `Tool.from_schema`.

    Returns:
        The tool.

    Raises:
        InvalidInput: The tool has a `prepare` or a required approval that would be
            lost. Or an option is invalid.
    """
    check_type("tool", tool, PydanticTool, "a pydantic_ai.Tool(function)")
    if tool.prepare is not None and "is_enabled" not in options:
        raise errors.InvalidInput(
            f"from_pydantic_ai: tool {tool.name} would lose its prepare function. Pass "
            "is_enabled=, and change the definition yourself."
        )
    if tool.requires_approval:
        keep_approval(_LABEL, tool.name, options)
    function = tool.function_schema

    async def invoke(arguments: dict[str, Any], ctx: ToolContext) -> Any:
        run_context = RunContext[Any](
            deps=ctx.context if deps is None else deps(ctx),
            model=cast("Any", _NoModel()),
            usage=RunUsage(),
            tool_call_id=ctx.call_id,
            tool_name=tool.name,
            retry=ctx.attempt - 1,
        )
        values = function.validator.validate_json(json.dumps(arguments))
        if tool.args_validator is not None:
            checked: Any = tool.args_validator(run_context, **values)
            if asyncio.iscoroutine(checked):
                await checked
        result = await function.call(values, run_context)
        return result.return_value if isinstance(result, ToolReturn) else result

    options.setdefault("description", tool.description or "")
    return Tool.from_schema(tool.name, function.json_schema, invoke, **options)


class _NoModel:
    """The model of a `RunContext` outside a run of Pydantic AI."""

    def __getattr__(self, name: str) -> Any:
        msg = f"ctx.model.{name} is not there: no run of Pydantic AI calls this tool"
        raise AttributeError(msg)


class PausedRequests(TypedDict):
    """The arguments with which `agent.run` goes on."""

    message_history: list[ModelMessage]
    deferred_tool_results: DeferredToolResults


async def open_requests(
    runner: AsyncRunner,
    result: AgentRunResult[Any],
    *,
    run_id: str,
    flow: Any = paused_calls,
    by: str | None = None,
    title: str | None = None,
) -> Outcome[Any]:
    """Open the deferred calls with which a run of an agent ended.

    The run of ours keeps the messages, so nothing else needs to be stored. Everyone
    who may view the run reads them, like the messages of every run.

    Args:
        runner: A runner that has `paused_calls` among its agents.
        result: The result, whose output is a `DeferredToolRequests`.
        run_id: The id of the run. Use another one for each pause.
        flow: The workflow, of `make_paused_calls`.
        by: The requester.
        title: The subject of the run, on one line.

    Returns:
        `Suspended`, with an approval, a question or a job for each call.

    Raises:
        InvalidInput: The output is not a `DeferredToolRequests`, or the arguments of a
            call are no JSON object.
        RunExists: The run id belongs to other calls.
    """
    check_type("result", result, AgentRunResult, "the result of agent.run(...)")
    requests: object = result.output
    if not isinstance(requests, DeferredToolRequests):
        got = type(requests).__name__
        raise errors.InvalidInput(
            f"run {run_id} was not opened: the output of the agent is {got}, and not "
            "DeferredToolRequests. Open a run that ended with deferred calls."
        )
    return await open_calls(
        runner,
        _calls(requests, None),
        kit=_KIT,
        run_id=run_id,
        state=result.all_messages_json().decode(),
        flow=flow,
        by=by,
        title=title,
    )


async def decided_requests(
    runner: AsyncRunner, *, run_id: str, flow: Any = paused_calls
) -> PausedRequests:
    """Return the messages and the decisions, for `agent.run(**...)`.

    Only an `Approve` becomes `ToolApproved`. Call `agent.run` with them once: Pydantic
    AI does not know that another process did.

    Args:
        runner: The runner.
        run_id: The id of the run.
        flow: The workflow with which it was opened.

    Returns:
        `message_history` and `deferred_tool_results`.

    Raises:
        InvalidInput: The run holds no paused calls of Pydantic AI.
        NotFinished: A call is not decided.
        RunFailed: The run was cancelled.
    """
    messages, verdicts = await read_verdicts(runner, run_id, kit=_KIT, flow=flow)
    if not messages:
        msg = f"run {run_id} is of store_input or StoreWaiter, and holds no messages."
        raise errors.InvalidInput(f"{msg} Its agent itself goes on.", run_id=run_id)
    return {
        "message_history": ModelMessagesTypeAdapter.validate_json(messages),
        "deferred_tool_results": _results(verdicts),
    }


def _seconds(timeout: timedelta | None) -> float | None:
    return None if timeout is None else timeout.total_seconds()


def _calls(
    requests: DeferredToolRequests, timeout: timedelta | None
) -> list[PausedCall]:
    within = _seconds(timeout)
    calls: list[PausedCall] = []
    for each in (*requests.approvals, *requests.calls):
        try:
            arguments: Any = each.args_as_dict(raise_if_invalid=True)
        except (ValueError, AssertionError):
            raise errors.InvalidInput(
                f"the deferred call of {each.tool_name} was not opened: its arguments "
                "are no JSON object, so no person could check them. Deny it in "
                "Pydantic AI."
            ) from None
        kind = requests.kind(each.tool_call_id)
        calls.append(
            PausedCall(
                id=each.tool_call_id,
                tool=each.tool_name,
                arguments=arguments,
                kind=kind,
                editable=kind == "approval",
                within=None if kind == "approval" else within,
            )
        )
    return calls


def _results(verdicts: list[CallVerdict]) -> DeferredToolResults:
    results = DeferredToolResults()
    for each in verdicts:
        if each.by is not None:
            results.answered_by[each.call.id] = each.by
        if each.call.kind == "approval":
            if each.ending == "approved":
                edited = each.arguments != each.call.arguments
                override = dict(each.arguments) if edited else None
                results.approvals[each.call.id] = ToolApproved(override_args=override)
                continue
            results.approvals[each.call.id] = ToolDenied(each.refusal)
        elif each.ending == "answered":
            results.calls[each.call.id] = ToolReturn(each.value)
        else:
            results.calls[each.call.id] = ToolFailed(each.refusal)
    return results


class _Waits:
    """Waits of one agent in a store, read every few seconds."""

    def __init__(
        self, runner: AsyncRunner, run_id: str, poll: float, flow: Any
    ) -> None:
        check_async_runner(runner)
        check_seconds("poll", poll, above_zero=True)
        self._runner = runner
        self._run_id = run_id
        self._poll = poll
        self._flow = flow

    async def open(self, name: str, calls: list[PausedCall]) -> tuple[str, Any]:
        """Open a run for some calls; return its id and its outcome."""
        run_id = f"{self._run_id}.{name}"
        outcome = await open_calls(
            self._runner, calls, kit=_KIT, run_id=run_id, flow=self._flow
        )
        return run_id, outcome

    async def verdicts(
        self, run_id: str, limit: timedelta | None = None
    ) -> list[CallVerdict]:
        """Return the verdicts once all calls are decided; the run waits meanwhile."""
        try:
            async with asyncio.timeout(_seconds(limit)):
                while True:
                    with suppress(
                        errors.NotFinished,
                        errors.RunBusy,
                        errors.StaleRun,
                        errors.StoreUnavailable,
                    ):
                        return await self._read(run_id)
                    await asyncio.sleep(self._poll)
        except TimeoutError:
            await self._runner.cancel(run_id, reason="the agent gave up")
            raise ExternalEventError(f"No decision within {limit}.") from None
        except errors.RunFailed as error:
            raise ExternalEventError(str(error)) from error

    async def _read(self, run_id: str) -> list[CallVerdict]:
        _, verdicts = await read_verdicts(
            self._runner, run_id, kit=_KIT, flow=self._flow
        )
        return verdicts


class StoreWaiter(ExternalEventWaiter):
    """Let `wait_for_external_event` wait for an answer in the store.

    The token is a wait id: every door ends the wait by an answer. A process that runs
    the agent again finds the wait by its name and number, and an answer that was given
    meanwhile. Without an answer, it calls `ask` again.

        with external_event_scope(StoreWaiter(runner, "order-17")):
            await agent.run("…")

    Args:
        runner: A runner that has `paused_calls` among its agents.
        run_id: The id of the agent's run. The runs with the waits have ids that begin
            with it.
        poll: The time between two looks at the store, in seconds.
        flow: The workflow, of `make_paused_calls`.

    Raises:
        InvalidInput: An argument is invalid.
    """

    def __init__(
        self,
        runner: AsyncRunner,
        run_id: str,
        *,
        poll: float = 2.0,
        flow: Any = paused_calls,
    ) -> None:
        self._waits = _Waits(runner, run_id, poll, flow)
        self._runner = runner
        self._numbers: dict[str, int] = {}

    async def wait(
        self,
        name: str,
        *,
        ask: Callable[[str], Awaitable[JsonValue]],
        timeout: timedelta | None,  # noqa: ASYNC109 - the name is Pydantic AI's
    ) -> JsonValue:
        """Wait for the answer of one event; see `ExternalEventWaiter.wait`.

        Args:
            name: The name of the event.
            ask: Tells someone the wait id, or answers at once.
            timeout: The time to wait, which is the deadline of the wait.

        Returns:
            The answer.

        Raises:
            ExternalEventError: The wait expired, failed or was cancelled.
        """
        number = self._numbers[name] = self._numbers.get(name, 0) + 1
        call = PausedCall(
            id=f"{name}-{number}",
            tool=name,
            arguments={"number": number},
            kind="external",
            within=_seconds(timeout),
        )
        key = f"{digest_of(name)[:12]}.{number}"
        run_id, outcome = await self._waits.open(key, [call])
        if isinstance(outcome, Suspended) and outcome.waits:
            wait_id = outcome.waits[0].id
            answer = await ask(wait_id)
            if answer is not None:
                with suppress(errors.AlreadyDecided, errors.WaitExpired):
                    await self._runner.decide(wait_id, Answer(answer, by="ask"))
        (verdict,) = await self._waits.verdicts(run_id)
        if verdict.ending != "answered":
            reason = verdict.reason or f"The event was {verdict.ending}."
            raise ExternalEventError(reason)
        return cast("JsonValue", verdict.value)


class _RequestsWaiter(ExternalEventWaiter):
    """Waits for the decisions of one batch of deferred calls."""

    def __init__(self, waits: _Waits, requests: DeferredToolRequests) -> None:
        self._waits = waits
        self._requests = requests

    async def wait(
        self,
        name: str,
        *,
        ask: Callable[[str], Awaitable[JsonValue]],
        timeout: timedelta | None,  # noqa: ASYNC109 - the name is Pydantic AI's
    ) -> JsonValue:
        """Return the JSON of a `DeferredToolResults`."""
        del name, ask
        calls = _calls(self._requests, timeout)
        content = _REQUESTS.dump_python(self._requests, mode="json")
        run_id, _ = await self._waits.open(digest_of(content)[:24], calls)
        results = _results(await self._waits.verdicts(run_id, timeout))
        return cast("JsonValue", _RESULTS.dump_python(results, mode="json"))


def store_input(
    runner: AsyncRunner,
    run_id: str,
    *,
    timeout: timedelta | None = None,
    poll: float = 2.0,
    flow: Any = paused_calls,
) -> RequestInput[Any]:
    """Make a `RequestInput` whose calls are waits in the store.

    Each deferred call of the agent becomes an approval, a question or a job, bound to
    its arguments. People decide at any door, and the agent goes on in its process. If
    the process dies, the waits and their decisions stay: an agent that makes the same
    calls with the same ids goes on with them.

        agent = Agent(model, tools=[...], capabilities=[store_input(runner, "a-17")])

    Args:
        runner: A runner that has `paused_calls` among its agents.
        run_id: The id of the agent's run. The runs with the waits have ids that begin
            with it.
        timeout: The time to wait; then all calls are denied. `None`: no limit.
        poll: The time between two looks at the store, in seconds.
        flow: The workflow, of `make_paused_calls`.

    Returns:
        The capability.

    Raises:
        InvalidInput: An argument is invalid.
    """
    return _StoreInput(_Waits(runner, run_id, poll, flow), timeout)


class _StoreInput(RequestInput[Any]):
    def __init__(self, waits: _Waits, timeout: timedelta | None) -> None:
        super().__init__(_ask_nobody, timeout=timeout)
        self._waits = waits

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults:
        with external_event_scope(_RequestsWaiter(self._waits, requests)):
            return await super().handle_deferred_tool_calls(ctx, requests=requests)


def _ask_nobody(
    ctx: RunContext[Any], requests: DeferredToolRequests, token: str
) -> None:
    """Open nothing: the waiter opens the waits."""
    del ctx, requests, token
