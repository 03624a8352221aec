"""Run agents in AWS Lambda: one handler for all events of a function.

    # handler.py, named in the template as `handler.handle`
    from continuations.serve.aws_lambda import handler

    handle = handler(
        store="s3://bucket/prefix",
        agents="agents:hr",
        verify=verify,
        wake="sqs:https://sqs.eu-central-1.amazonaws.com/123456789012/wakes",
    )

**Events.**

- HTTP through a Function URL or API Gateway (payload 1.0 or 2.0): the routes of
  `continuations.serve.http.api`.
- SQS messages `{"resume": run_id}`. Turn on `ReportBatchItemFailures`: only messages
  that can succeed later are delivered again. The others are logged and dropped.
- A schedule or rule of EventBridge: a sweep.
- Direct invocations: `{"start": {"input": ...}}`, `{"resume": run_id}`,
  `{"thread": {"agent": ..., "key": ..., "message": ...}}`,
  `{"cancel": {"run_id": ...}}` and `{"sweep": true}`. A start without `run_id` and a
  message without `id` use the request id, which stays the same when Lambda retries an
  asynchronous invocation. `start` and `thread` take attachments as HTTP does:
  `"files": [{"data": BASE64, "media_type": ..., "name": ...}]`.
  With `"work": false`, a start only stores the run, and `wake` continues it.

HTTP and direct invocations return the same JSON forms
(`docs/schemas/continuations.schema.json`): `outcome`, `run`, `thread_reply` and
`sweep_result`.

**Deciding** takes three billed requests to S3. It imports neither the application, nor
the model client, nor pydantic: `agents` and `context` are loaded when the first run
must go on.

**After a decision** the run is resumed as `wake` says. A decision is answered even if
that fails: its marker is due, and the next sweep resumes the run.

**Time.** Nothing new begins in the last `margin` seconds of an invocation. The run is
paused at a safe point and resumed in another invocation, so a run may take longer than
any invocation. With `wake="inline"` the next sweep resumes a paused run; use "invoke"
or "sqs:" for long runs. Choose a margin above the longest tool call and model call. If
Lambda kills the function anyway, the outcome of an unrepeatable call is *unknown*.

Lambda stops recursive invocations, by default after 16 in a row. The message then goes
to the dead-letter queue and the next sweep resumes the run. `RecursiveLoop: Allow`
turns that off.

One event loop serves all invocations of an execution environment, in the thread that
Lambda calls. Connections stay open between invocations. No other thread runs the loop,
because Lambda freezes the environment between two invocations.

Headers and bodies are never logged.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Unpack

from continuations import errors
from continuations.core.rows.decisions import Door
from continuations.engine.ports import SystemClock
from continuations.serve import operation_calls
from continuations.serve.aws import lambda_runner
from continuations.serve.aws.dispatch import InvokeDispatcher, SqsDispatcher
from continuations.serve.aws.lambda_console import LambdaConsole, MountedConsole
from continuations.serve.aws.lambda_events import (
    BadRequest,
    HttpEvent,
    OptionsEvent,
    QueueEvent,
    ResumeEvent,
    SweepEvent,
    gateway_response,
    parse_event,
)
from continuations.serve.dispatch import Dispatcher, InlineDispatcher
from continuations.serve.http import problems
from continuations.serve.http.api import HttpApi, Verifier
from continuations.serve.option_checks import check_dispatcher, check_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from os import PathLike

    from continuations.engine.runner.async_runner import AsyncRunner
    from continuations.ledger.claims import Clock
    from continuations.serve.http.links import Links
    from continuations.serve.http.request_response import Request, Response
    from continuations.serve.http.webhook_receiver import WebhookReceiver
    from continuations_storage import Store

__all__ = ["Handler", "handler"]

_log = logging.getLogger(__name__)

# Lambda itself refuses a request that is larger.
_MAX_PAYLOAD_BYTES = 6 << 20

# A message whose run fails with one of these is delivered again. Every other error
# needs a person first, and the run's marker waits for the sweep.
_RETRYABLE = (errors.RunBusy, errors.StaleRun, errors.ClockOff, errors.StoreError)


def handler(  # noqa: PLR0913 - one parameter for each option
    *,
    store: str | PathLike[str] | Store,
    agents: str | Callable[[], lambda_runner.Agents] | None = None,
    context: str | Callable[[], Any] | None = None,
    verify: Verifier | None = None,
    links: Links | None = None,
    webhooks: Mapping[str, WebhookReceiver] | None = None,
    wake: str | Dispatcher = "inline",
    margin: float = 10.0,
    base_path: str = "",
    console: LambdaConsole | None = None,
    **options: Unpack[lambda_runner.RunnerOptions],
) -> Handler:
    """Return a handler for AWS Lambda, without a use of disk or network.

    Args:
        store: The store of the runs, as for `AsyncRunner`.
        agents: `"module:name"` of an agent or a list of agents, or a function that
            returns them. Without agents, the function works on no run.
        context: The application's object for its tools, in the same two ways.
        verify: Returns the identity of an HTTP request; see `HttpApi`.
        links: Makes signed links and callback URLs work; see `HttpApi`.
        webhooks: Receivers of the webhooks of other systems; see `HttpApi`.
        wake: How a run is resumed after a decision, or after a pause:
            - "inline": before the response. API Gateway waits at most 29 s.
            - "invoke": by invoking this function again.
            - "sqs:" and the URL of a queue: by a message to the queue.
            - a `Dispatcher` of your own.
        margin: The seconds before the end in which nothing new begins.
        base_path: The base path of a custom domain; see `HttpApi`.
        console: Serves the web console beside the HTTP API; see `lambda_console`.
        **options: Every option of `AsyncRunner` except `agents` and `store`, for
            example `lease`, `notify`, `groups`, `prices` and `renamed`. The default of
            `callback_url` is `links.callback_url`.

    Returns:
        The handler.

    Raises:
        InvalidInput: An option is invalid.
    """
    time_left = lambda_runner.TimeLeft(margin)
    options.setdefault("callback_url", getattr(links, "callback_url", None))
    clock = options.get("clock") or SystemClock()
    runner = lambda_runner.LambdaRunner(
        agents, store=store, context=context, time_left=time_left, options=options
    )
    runner.dispatcher = None if wake == "inline" else _parse_wake(wake)
    return _serving(
        runner,
        console,
        verify=verify,
        links=links,
        webhooks=webhooks,
        base_path=base_path,
        time_left=time_left,
        clock=clock,
    )


def _serving(
    runner: lambda_runner.LambdaRunner,
    console: LambdaConsole | None,
    *,
    verify: Verifier | None,
    links: Links | None,
    webhooks: Mapping[str, WebhookReceiver] | None,
    base_path: str,
    time_left: lambda_runner.TimeLeft,
    clock: Clock,
) -> Handler:
    check_type("console", console, LambdaConsole | None, "a LambdaConsole or None")
    api = HttpApi(
        runner,
        verify=verify,
        can=None if console is None else console.can,
        links=links,
        webhooks=webhooks,
        dispatcher=runner.dispatcher or InlineDispatcher(runner),
        base_path=base_path,
        max_body_bytes=_MAX_PAYLOAD_BYTES,
        clock=clock,
    )
    mounted = None
    if console is not None:
        mounted = console.mount(runner, api, verify, base_path, clock)
    return Handler(runner, api, mounted, time_left=time_left, clock=clock)


def _parse_wake(wake: str | Dispatcher) -> Dispatcher:
    if not isinstance(wake, str):
        check_dispatcher("wake", wake)
        return wake
    if wake == "invoke":
        return InvokeDispatcher()
    kind, _, queue_url = wake.partition(":")
    if kind == "sqs":
        return SqsDispatcher(queue_url)
    raise errors.InvalidInput(
        "wake must be 'inline', 'invoke', 'sqs:' and the URL of a queue, or a "
        f"Dispatcher, got {wake[:80]!r}."
    )


class Handler:
    """The callable that Lambda calls with an event and a context; see `handler`."""

    def __init__(
        self,
        runner: lambda_runner.LambdaRunner,
        api: HttpApi,
        console: MountedConsole | None,
        *,
        time_left: lambda_runner.TimeLeft,
        clock: Clock,
    ) -> None:
        self._runner = runner
        self._api, self._console = api, console
        self._time_left = time_left
        self._caller = operation_calls.TextsViewer(runner, clock)
        self._loop = asyncio.Runner()

    @property
    def runner(self) -> AsyncRunner[Any]:
        """The runner of the handler, for example for `otel.instrument`."""
        return self._runner

    def __call__(self, event: object, context: lambda_runner.LambdaContext) -> Any:
        """Process one event.

        Args:
            event: The event of Lambda.
            context: The context of Lambda.

        Returns:
            The response that the event's source expects.

        Raises:
            UnknownEvent: The event has no known form. Nothing was done.
            ContinuationsError: A direct invocation failed; see `AsyncRunner`. An HTTP
                request always gets a response, and a failed message is reported.
        """
        self._time_left.begin_invocation(context)
        dispatcher = self._runner.dispatcher
        if isinstance(dispatcher, InvokeDispatcher) and dispatcher.targets_itself:
            # The ARN contains the alias, so a run stays with its deployed version.
            dispatcher.function_name = context.invoked_function_arn
        return self._loop.run(self._handle(event, context.aws_request_id))

    def close(self) -> None:
        """Close the event loop; for tests. Lambda never calls it."""
        self._loop.close()

    async def _handle(self, event: object, request_id: str) -> Any:
        try:
            parsed = parse_event(event)
        except BadRequest as error:
            return gateway_response(problems.malformed(str(error)).problem.response())
        if isinstance(parsed, HttpEvent):
            return gateway_response(await self._respond(event, parsed.request))
        if isinstance(parsed, QueueEvent):
            return await self._resume_batch(parsed)
        return await self._run_command(parsed, request_id)

    async def _respond(self, event: Any, request: Request) -> Response:
        if self._console is None:
            return await self._api.handle(request)
        return await self._console.handle(event, request)

    async def _run_command(
        self,
        event: OptionsEvent | ResumeEvent | SweepEvent,
        request_id: str,
    ) -> Any:
        match event:
            case OptionsEvent():
                return await self._call_with_options(event, request_id)
            case ResumeEvent():
                outcome = await self._runner.resume(event.run_id, reopen=event.reopen)
                return await operation_calls.outcome_response(self._caller, outcome)
            case SweepEvent():
                return operation_calls.sweep_response(await self._runner.sweep())

    async def _call_with_options(self, event: OptionsEvent, request_id: str) -> Any:
        runner, caller = self._runner, self._caller
        if event.verb == "start":
            options: dict[str, Any] = {"run_id": request_id, **event.options}
            return await operation_calls.outcome_response(
                caller, await runner.start(**options)
            )
        door = Door("lambda event")
        if event.verb == "thread":
            result, number = await runner.send_to_thread(
                event.options, own_id=request_id, door=door
            )
            return await operation_calls.reply_response(caller, result, number)
        run = await runner.cancel(**event.options, door=door)
        return await operation_calls.run_response(caller, run)

    async def _resume_batch(self, batch: QueueEvent) -> dict[str, Any]:
        """Resume each run of a batch once; return which messages to deliver again."""
        ids_by_run: dict[str, list[str]] = {}
        reopened: set[str] = set()
        for message in batch.messages:
            if message.resume is None:
                _log.error("message %r was dropped: it names no run", message.id)
            else:
                run_id = message.resume.run_id
                ids_by_run.setdefault(run_id, []).append(message.id)
                if message.resume.reopen:
                    reopened.add(run_id)
        if ids_by_run:
            # If the agents cannot be loaded, the whole invocation fails: alarms see it.
            self._runner.load_agents()
        results = await asyncio.gather(
            *(self._resume_one(each, reopen=each in reopened) for each in ids_by_run)
        )
        failed_ids = [
            message_id
            for ids, is_done in zip(ids_by_run.values(), results, strict=True)
            if not is_done
            for message_id in ids
        ]
        return {"batchItemFailures": [{"itemIdentifier": each} for each in failed_ids]}

    async def _resume_one(self, run_id: str, *, reopen: bool) -> bool:
        """Resume a run; return whether its messages need no second delivery."""
        try:
            outcome = await self._runner.resume(run_id, reopen=reopen)
        except errors.ContinuationsError as error:
            is_retryable = _is_retryable(error)
            _log.warning(
                "the message for run %s %s: %s: %s",
                run_id,
                "is delivered again" if is_retryable else "is dropped",
                type(error).__name__,
                error,
            )
            return not is_retryable
        except Exception:  # noqa: BLE001 - the other runs of the batch go on
            _log.exception("the message for run %s is delivered again", run_id)
            return False
        _log.info("run %s: %s", run_id, outcome.continuation.status)
        return True


def _is_retryable(error: errors.ContinuationsError) -> bool:
    if isinstance(error, errors.ModelError):
        return error.retryable
    return isinstance(error, _RETRYABLE)
