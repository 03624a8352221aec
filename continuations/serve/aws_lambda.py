"""Runs in AWS Lambda: one handler for whatever a function can be called with.

    # handler.py, named in the template as `handler.handle`
    from continuations.serve.aws_lambda import handler

    handle = handler(
        store="s3://bucket/prefix",
        agents="agents:hr",
        verify=verify,
        wake="sqs:https://sqs.eu-central-1.amazonaws.com/123456789012/wakes",
    )

- **HTTP**, through a Function URL or API Gateway (1.0 or 2.0): the routes of
  `continuations.serve.http.api`.
- **SQS**: `{"resume": run_id}`. Switch on `ReportBatchItemFailures`; only what can do
  better later is delivered again, the rest is logged.
- **A schedule or rule of EventBridge**: a sweep.
- **A caller**, waiting or not: `{"start": {"input": ...}}`, `{"resume": run_id}`,
  `{"cancel": {"run_id": ...}}`, `{"sweep": true}`. A start without a `run_id` takes the
  id of the request, which is the same when Lambda calls again after a crash.

**Deciding** reads and writes two or three objects. It imports neither the application
nor the model's client nor pydantic: `agents` and `context` are named, and loaded when
the first run must move on.

**Waking.** After a decision the run goes on as `wake` says: "inline" in the same
invocation, before the answer (which API Gateway awaits for 29 s); "invoke" in another
one of this function; "sqs:" and a queue's URL through that queue; or by a `Dispatcher`
of your own. A decision is answered also if nobody could be woken: its marker is due,
and the next sweep finds it.

**Time.** `margin` seconds before the invocation's time is up nothing new is begun: the
run is suspended at a safe boundary with a marker due now, and woken again, so it may
last longer than any invocation. "inline" cannot wake; there the next sweep goes on.
Choose "invoke" or "sqs:" for runs that may be long. The margin should be above the
longest tool and model call; a function that is killed all the same leaves the outcome
of a call *unknown* unless its tool may be repeated, and never does more. (Lambda stops
what looks like a loop: by default after 16 wake-ups in a row. The message then goes to
the dead-letter queue, and the next sweep goes on; `RecursiveLoop: Allow` lifts that.)

One event loop serves all invocations of an execution environment, in the thread that
Lambda calls in: connections are kept from one to the next, and nothing of ours runs
between them, when the environment may be frozen. (The loop of the sync face lives in a
thread of its own and would be frozen in the middle of something.)

Neither headers nor bodies are ever logged.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from continuations.engine.ports import SystemClock
from continuations.errors import (
    ClockOff,
    ContinuationsError,
    InvalidInput,
    ModelError,
    RunBusy,
    StaleRun,
    StoreError,
)
from continuations.serve.aws.dispatch import InvokeDispatcher, SqsDispatcher
from continuations.serve.aws.lambda_events import (
    BadRequest,
    CancelEvent,
    HttpEvent,
    QueueEvent,
    ResumeEvent,
    StartEvent,
    SweepEvent,
    gateway_response,
    parse_event,
)
from continuations.serve.aws.lambda_runner import LambdaRunner, TimeLeft
from continuations.serve.dispatch import InlineDispatcher
from continuations.serve.http import problems
from continuations.serve.http.api import HttpApi
from continuations.serve.run_responses import (
    outcome_response,
    run_response,
    sweep_response,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike
    from typing import Unpack

    from continuations.engine.outcomes import Outcome
    from continuations.ledger.claims import Clock
    from continuations.serve.aws.lambda_runner import (
        Agents,
        LambdaContext,
        RunnerOptions,
    )
    from continuations.serve.dispatch import Dispatcher
    from continuations.serve.http.api import Verifier
    from continuations.serve.http.links import Links
    from continuations_storage import Store

__all__ = ["Handler", "handler"]

_log = logging.getLogger(__name__)

# What may do better when it is delivered again; the rest waits for somebody to act, and
# its marker for the sweep.
_RETRYABLE = (RunBusy, StaleRun, ClockOff, StoreError)


def handler(
    *,
    store: str | PathLike[str] | Store,
    agents: str | Callable[[], Agents] | None = None,
    context: str | Callable[[], Any] | None = None,
    verify: Verifier | None = None,
    links: Links | None = None,
    wake: str | Dispatcher = "inline",
    margin: float = 10.0,
    base_path: str = "",
    **options: Unpack[RunnerOptions],
) -> Handler:
    """Return a handler for AWS Lambda.

    `agents` is `"module:attribute"` or a function, for an agent or a list of them;
    without, the function decides and cancels but moves nothing on. `context` makes
    your live object for the tools, in the same two ways. `verify` and `links` are the
    desk's: without either, nobody is let in over HTTP. `wake`, `margin`: see above.
    `base_path` is what a custom domain puts before every path. The rest are
    `AsyncRunner`'s own.

    Touches neither disk nor network. Raises `InvalidInput` for what can only fail.
    """
    time = TimeLeft(margin)
    clock = options.get("clock") or SystemClock()
    runner = LambdaRunner(
        agents, store=store, context=context, time_left=time, options=options
    )
    if wake != "inline":
        runner.dispatcher = _parse_wake(wake)
    desk = HttpApi(
        runner,
        verify=verify,
        links=links,
        dispatcher=runner.dispatcher or InlineDispatcher(runner),
        clock=clock,
    )
    return Handler(runner, desk, time, base_path=base_path, clock=clock)


def _parse_wake(wake: str | Dispatcher) -> Dispatcher:
    if not isinstance(wake, str):
        return wake
    if wake == "invoke":
        return InvokeDispatcher()
    kind, _, queue_url = wake.partition(":")
    if kind == "sqs":
        return SqsDispatcher(queue_url)
    msg = f"{wake[:80]!r} wakes nobody: 'inline', 'invoke', 'sqs:' and a queue's URL"
    raise InvalidInput(msg)


class Handler:
    """What Lambda calls with an event and a context; `handler` makes it."""

    def __init__(
        self,
        runner: LambdaRunner,
        api: HttpApi,
        time_left: TimeLeft,
        *,
        base_path: str,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._runner = runner
        self._api = api
        self._time_left = time_left
        self._base_path = base_path
        self._loop = asyncio.Runner()

    def __call__(self, event: object, context: LambdaContext) -> Any:
        """Do what an event asks for, and return what its sender expects.

        An HTTP request is always answered. For a caller it raises the typed errors of
        this library; `UnknownEvent` for an event of no kind, with nothing done.
        """
        self._time_left.begin_invocation(context)
        again = self._runner.dispatcher
        if isinstance(again, InvokeDispatcher) and again.targets_itself:
            # With its alias, so that a run stays with the version that is deployed.
            again.function_name = context.invoked_function_arn
        return self._loop.run(self._handle(event, context.aws_request_id))

    def close(self) -> None:
        """Close the event loop; for tests, Lambda never does."""
        self._loop.close()

    async def _handle(self, event: object, request_id: str) -> Any:
        try:
            asked = parse_event(event, base_path=self._base_path)
        except BadRequest as error:
            return gateway_response(problems.malformed(str(error)).problem.response())
        if isinstance(asked, HttpEvent):
            return gateway_response(await self._api.handle(asked.request))
        if isinstance(asked, QueueEvent):
            return await self._resume_batch(asked)
        return await self._run_command(asked, request_id)

    async def _run_command(
        self,
        event: StartEvent | ResumeEvent | CancelEvent | SweepEvent,
        request_id: str,
    ) -> Any:
        match event:
            case StartEvent():
                outcome = await self._runner.start(
                    event.input, run_id=event.run_id or request_id, agent=event.agent
                )
                return await self._outcome_response(outcome)
            case ResumeEvent():
                outcome = await self._runner.resume(event.run_id)
                return await self._outcome_response(outcome)
            case CancelEvent():
                run = await self._runner.cancel(
                    event.run_id, reason=event.reason, by=event.by
                )
                return await run_response(self._runner.store, self._clock, run)
            case SweepEvent():
                return sweep_response(await self._runner.sweep())

    async def _outcome_response(self, outcome: Outcome) -> dict[str, Any]:
        return await outcome_response(self._runner.store, self._clock, outcome)

    async def _resume_batch(self, batch: QueueEvent) -> dict[str, Any]:
        """Resume each run that is named, once, and say what must come again."""
        by_run: dict[str, list[str]] = {}
        for message in batch.messages:
            if message.run_id is None:
                _log.error("message %r names no run to resume: dropped", message.id)
            else:
                by_run.setdefault(message.run_id, []).append(message.id)
        if by_run:
            # What cannot even be loaded fails as a whole, where alarms look.
            self._runner.load_agents()
        done = await asyncio.gather(*map(self._resume_one, by_run))
        again = [
            ids for ids, well in zip(by_run.values(), done, strict=True) if not well
        ]
        return {
            "batchItemFailures": [
                {"itemIdentifier": message_id} for ids in again for message_id in ids
            ]
        }

    async def _resume_one(self, run_id: str) -> bool:
        """Resume a run; returns whether its message is done with."""
        try:
            outcome = await self._runner.resume(run_id)
        except ContinuationsError as error:
            passing = _is_retryable(error)
            then = "comes again" if passing else "is dropped"
            kind = type(error).__name__
            _log.warning("the message for run %s %s: %s: %s", run_id, then, kind, error)
            return not passing
        except Exception:  # noqa: BLE001 - one run's trouble is not the batch's
            # A fault of ours or of a notifier: the others of the batch go on.
            _log.exception("the message for run %s comes again", run_id)
            return False
        _log.info("run %s: %s", run_id, outcome.continuation.status)
        return True


def _is_retryable(error: ContinuationsError) -> bool:
    if isinstance(error, ModelError):
        return error.retryable
    return isinstance(error, _RETRYABLE)
