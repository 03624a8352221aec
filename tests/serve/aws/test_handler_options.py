"""The options of the Lambda handler, its time limit, and its dispatchers."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from continuations import Agent, AsyncRunner, Runner, tool
from continuations.engine.loading import load_or_call
from continuations.errors import InvalidInput
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.aws.dispatch import InvokeDispatcher, SqsDispatcher, WakeFailed
from continuations.serve.aws.lambda_runner import RunnerOptions, TimeLeft
from continuations.serve.aws_lambda import Handler, handler

QUEUE = "https://sqs.eu-central-1.amazonaws.com/123456789012/wakes"


class Context:
    """The context of an invocation."""

    aws_request_id = "1111-2222"
    invoked_function_arn = "arn:aws:lambda:eu-central-1:123456789012:function:f:live"

    def __init__(self, seconds: float = 60.0) -> None:
        self.seconds = seconds

    def get_remaining_time_in_millis(self) -> int:
        return int(self.seconds * 1000)


@pytest.fixture
def deciding_handler() -> Iterator[Handler]:
    """A handler without agents."""
    handle = handler(store="memory:", verify=lambda _: "kim")
    yield handle
    handle.close()


def test_options_of_a_handler_are_those_of_a_runner() -> None:
    """A type checker accepts each option of `AsyncRunner` for a handler."""
    parameters = inspect.signature(AsyncRunner.__init__).parameters
    of_runner = set(parameters) - {"self", "agents", "store"}

    assert of_runner == set(RunnerOptions.__annotations__)


INVALID_OPTIONS: dict[str, dict[str, Any]] = {
    "an unknown wake": {"wake": "invoked"},
    "a queue without a URL": {"wake": "sqs:wakes"},
    "a FIFO queue": {"wake": f"sqs:{QUEUE}.fifo"},
    "a margin below zero": {"margin": -1},
    "a margin that is not a number": {"margin": float("nan")},
    "an infinite margin": {"margin": float("inf")},
    "a lease of zero": {"lease": 0},
    "an unknown store": {"store": "ftp://x"},
}


@pytest.mark.parametrize("case", INVALID_OPTIONS)
def test_invalid_handler_options_are_rejected(case: str) -> None:
    make: Any = handler  # some options have the wrong type
    with pytest.raises(InvalidInput):
        make(**{"store": "memory:", **INVALID_OPTIONS[case]})


@pytest.mark.parametrize("name", ["", ":", "json", "json:", ":loads", "json:nothing"])
def test_invalid_import_name_is_rejected(name: str) -> None:
    with pytest.raises(InvalidInput):
        load_or_call(name)


def test_function_without_agents_posts_to_a_thread(deciding_handler: Handler) -> None:
    event = {
        "version": "2.0",
        "rawPath": "/threads/support/42/messages",
        "rawQueryString": "",
        "headers": {"content-type": "application/json", "host": "f.example"},
        "requestContext": {"http": {"method": "POST"}, "domainName": "f.example"},
        "body": json.dumps({"text": "Hello", "id": "m1"}),
        "isBase64Encoded": False,
    }

    responses: list[Any] = [deciding_handler(event, Context()) for _ in range(2)]

    for response in responses:
        assert 202 == response["statusCode"], response["body"]
        assert ("queued", 1) == tuple(
            json.loads(response["body"])[name] for name in ("status", "number")
        )


def test_named_callable_is_called() -> None:
    assert "/" == load_or_call("posixpath:sep")
    assert {} == load_or_call(dict)
    assert {} == load_or_call("builtins:dict")


def test_handler_without_agents_only_decides(deciding_handler: Handler) -> None:
    for event in ({"sweep": True}, {"resume": "r-1"}, {"start": {"input": "go"}}):
        with pytest.raises(InvalidInput, match="no agents"):
            deciding_handler(event, Context())
    path = {"rawPath": "/waits", "requestContext": {"http": {"method": "GET"}}}
    response = deciding_handler({"version": "2.0", **path}, Context())
    assert (200, {"waits": [], "next": None, "runs_awaiting_models": []}) == (
        response["statusCode"],
        json.loads(response["body"]),
    )


@pytest.mark.parametrize("path", ["/runs/waits", "/waits"])
def test_base_path_is_removed_from_a_custom_domain(path: str) -> None:
    handle = handler(store="memory:", verify=lambda _: "kim", base_path="runs")
    event = {
        "version": "2.0",
        "rawPath": path,
        "requestContext": {"http": {"method": "GET"}},
    }

    response = handle(event, Context())
    handle.close()

    assert 200 == response["statusCode"]


# Enqueuing ----------------------------------------------------------------------


class RecordingDispatcher:
    """Records the runs that are woken; another invocation resumes them."""

    def __init__(self) -> None:
        self.woken: list[str] = []

    async def wake(self, run_id: str) -> None:
        self.woken.append(run_id)


def test_start_without_work_only_stores_the_run_and_wakes_it(tmp_path: Path) -> None:
    """The model is asked by the invocation that `wake` causes, in another process."""
    asked: list[Any] = []

    def reply(messages: Any) -> Any:
        asked.append(messages)
        return "done"

    agent = Agent("boss", model=ScriptedModel(reply))
    dispatcher = RecordingDispatcher()
    handlers = [
        handler(store=f"file:{tmp_path}", agents=lambda: agent, wake=dispatcher)
        for _ in range(2)
    ]
    first, second = handlers

    # A repeat of the event has the same result.
    event = {"start": {"input": "go", "run_id": "r-1", "work": False}}
    stored = [first(event, Context()) for _ in range(2)]

    assert ["suspended"] * 2 == [each["status"] for each in stored]
    assert [] == stored[0]["waits"]
    assert [] == asked
    assert {"r-1"} == set(dispatcher.woken)
    resumed = second({"resume": dispatcher.woken[0]}, Context())
    assert ("finished", "done") == (resumed["status"], resumed["output"])
    assert 1 == len(asked)
    for handle in handlers:
        handle.close()


def test_start_event_describes_the_run(tmp_path: Path) -> None:
    agent = Agent("boss", model=ScriptedModel(["done"]))
    handle = handler(
        store=f"file:{tmp_path}", agents=lambda: agent, wake=RecordingDispatcher()
    )
    described: dict[str, Any] = {
        "labels": {"team": "finance"},
        "title": "Pay Jane",
        "by": "ann",
    }
    described["settings"] = {"seed": 7}

    handle({"start": {"input": "go", "run_id": "r-1", **described}}, Context())
    handle.close()

    run = Runner([], store=f"file:{tmp_path}").look("r-1").run_state.run
    assert ("Pay Jane", "ann") == (run.title, run.requester)
    assert (("team", "finance"),) == run.labels
    assert '{"seed":7}' == run.settings_json


def test_stored_run_is_resumed_by_a_sweep_if_the_wake_up_is_lost(
    tmp_path: Path,
) -> None:
    """The marker of the run is due at once."""
    agent = Agent("boss", model=ScriptedModel(["done"]))
    handle = handler(
        store=f"file:{tmp_path}", agents=lambda: agent, wake=RecordingDispatcher()
    )

    handle({"start": {"input": "go", "run_id": "r-1", "work": False}}, Context())
    swept = handle({"sweep": True}, Context())
    handle.close()

    assert [{"run_id": "r-1", "status": "finished"}] == swept["resumed"]


# Time ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("margin", "total_seconds", "remaining_seconds", "short"),
    [
        (10, 900, 10.1, False),
        (10, 900, 10, True),
        (10, 900, 0, True),
        (0, 900, 0.001, False),
        # A margin above the timeout: half of the time is used.
        (900, 60, 30.1, False),
        (900, 60, 30, True),
    ],
)
def test_time_is_short_below_the_margin(
    margin: float, total_seconds: float, remaining_seconds: float, *, short: bool
) -> None:
    time, context = TimeLeft(margin), Context(total_seconds)
    assert not time.is_short()
    time.begin_invocation(context)
    assert not time.is_short()

    context.seconds = remaining_seconds

    assert short == time.is_short()


def test_remaining_time_is_per_invocation() -> None:
    time = TimeLeft(10)
    time.begin_invocation(Context(1))
    time.begin_invocation(Context(900))

    assert not time.is_short()


# Dispatchers --------------------------------------------------------------------


class RecordingClient:
    """A boto3 client that records its calls, or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls: list[dict[str, Any]] = []
        self._error = error

    def send_message(self, **fields: Any) -> None:
        self._record(fields)

    def invoke(self, **fields: Any) -> None:
        """Record an invocation."""
        self._record(fields)

    def _record(self, fields: dict[str, Any]) -> None:
        self.calls.append(fields)
        if self._error is not None:
            raise self._error


def wake(dispatcher: SqsDispatcher | InvokeDispatcher) -> None:
    """Give a run to a dispatcher."""
    asyncio.run(dispatcher.wake("r-1"))


def test_sqs_dispatcher_sends_a_message() -> None:
    client = RecordingClient()
    wake(SqsDispatcher(QUEUE, client=client))

    assert [{"QueueUrl": QUEUE, "MessageBody": '{"resume": "r-1"}'}] == client.calls


def test_invoke_dispatcher_invokes_asynchronously() -> None:
    client = RecordingClient()
    wake(InvokeDispatcher("f:live", client=client))

    event = {
        "FunctionName": "f:live",
        "InvocationType": "Event",
        "Payload": b'{"resume": "r-1"}',
    }
    assert [event] == client.calls


@pytest.mark.parametrize("kind", [SqsDispatcher, InvokeDispatcher])
def test_failed_wake_raises_wake_failed(
    kind: type[SqsDispatcher | InvokeDispatcher], caplog: pytest.LogCaptureFixture
) -> None:
    client = RecordingClient(RuntimeError("hunter2"))

    with caplog.at_level(logging.DEBUG), pytest.raises(WakeFailed) as raised:
        wake(kind(QUEUE, client=client))

    assert "r-1" == raised.value.run_id
    assert "hunter2" not in str(raised.value) + caplog.text


def test_run_with_a_budget_ends_when_it_is_used_up() -> None:
    @tool
    def look_up(what: str) -> str:
        """Look up."""
        return what

    model = ScriptedModel([ToolCall("look_up", {"what": "x"}), "never reached"])
    agent = Agent("boss", tools=[look_up], model=model)
    handle = handler(store="memory:", agents=lambda: agent)

    outcome = handle({"start": {"input": "go", "budget": {"requests": 1}}}, Context())
    handle.close()

    assert ("failed", "budget") == (outcome["status"], outcome["failure"]["code"])
