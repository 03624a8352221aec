"""The handler's options, its clock, and how it asks for a run to be woken."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from continuations.errors import InvalidInput
from continuations.serve.aws_dispatch import Invoke, Sqs, WakeFailed
from continuations.serve.aws_lambda import handler
from continuations.serve.aws_runner import TimeLeft, named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations.serve.aws_lambda import Handler

QUEUE = "https://sqs.eu-central-1.amazonaws.com/123456789012/wakes"


class Context:
    """What Lambda hands to a handler."""

    aws_request_id = "1111-2222"
    invoked_function_arn = "arn:aws:lambda:eu-central-1:123456789012:function:f:live"

    def __init__(self, seconds: float = 60.0) -> None:
        self.seconds = seconds

    def get_remaining_time_in_millis(self) -> int:
        """Return what is left."""
        return int(self.seconds * 1000)


@pytest.fixture
def deciding() -> Iterator[Handler]:
    """A handler without agents."""
    handle = handler(store="memory:", verify=lambda _: "kim")
    yield handle
    handle.close()


BAD: dict[str, dict[str, Any]] = {
    "a wake that is none": {"wake": "invoked"},
    "a queue without a URL": {"wake": "sqs:wakes"},
    "a FIFO queue": {"wake": f"sqs:{QUEUE}.fifo"},
    "a margin below zero": {"margin": -1},
    "a margin that is no number": {"margin": float("nan")},
    "a margin without an end": {"margin": float("inf")},
    "a lease of nothing": {"lease": 0},
    "a store that is none": {"store": "ftp://x"},
}


@pytest.mark.parametrize("fault", BAD)
def test_options_that_can_only_fail_are_refused_at_once(fault: str) -> None:
    make: Any = handler  # some are of no type that it takes
    with pytest.raises(InvalidInput):
        make(**{"store": "memory:", **BAD[fault]})


@pytest.mark.parametrize("given", ["", ":", "json", "json:", ":loads", "json:nothing"])
def test_a_name_that_names_nothing(given: str) -> None:
    with pytest.raises(InvalidInput):
        named(given)


def test_what_is_named_is_called_if_it_can_be() -> None:
    assert "/" == named("posixpath:sep")
    assert {} == named(dict)
    assert {} == named("builtins:dict")


def test_without_agents_it_decides_and_moves_nothing_on(deciding: Handler) -> None:
    for event in ({"sweep": True}, {"resume": "r-1"}, {"start": {"input": "go"}}):
        with pytest.raises(InvalidInput, match="no agents"):
            deciding(event, Context())
    path = {"rawPath": "/waits", "requestContext": {"http": {"method": "GET"}}}
    answer = deciding({"version": "2.0", **path}, Context())
    assert (200, {"waits": [], "next": None}) == (
        answer["statusCode"],
        json.loads(answer["body"]),
    )


# The clock --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("margin", "all_of_it", "left", "short"),
    [
        (10, 900, 10.1, False),
        (10, 900, 10, True),
        (10, 900, 0, True),
        (0, 900, 0.001, False),
        # Above the timeout: half of the time is used before it pauses.
        (900, 60, 30.1, False),
        (900, 60, 30, True),
    ],
)
def test_when_time_is_short(
    margin: float, all_of_it: float, left: float, *, short: bool
) -> None:
    """R-F8."""
    time, context = TimeLeft(margin), Context(all_of_it)
    assert not time.is_short()
    time.begin(context)
    assert not time.is_short()

    context.seconds = left

    assert short == time.is_short()


def test_each_invocation_has_its_own_time() -> None:
    time = TimeLeft(10)
    time.begin(Context(1))
    time.begin(Context(900))

    assert not time.is_short()


# Waking -------------------------------------------------------------------------


class Client:
    """A client of boto3's that notes what it is asked, or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[dict[str, Any]] = []
        self._error = error

    def send_message(self, **fields: Any) -> None:
        """Take a message."""
        self._take(fields)

    def invoke(self, **fields: Any) -> None:
        """Take an invocation."""
        self._take(fields)

    def _take(self, fields: dict[str, Any]) -> None:
        self.asked.append(fields)
        if self._error is not None:
            raise self._error


def wake(dispatcher: Sqs | Invoke) -> None:
    """Wake a run."""
    asyncio.run(dispatcher.wake("r-1"))


def test_woken_by_a_message() -> None:
    client = Client()
    wake(Sqs(QUEUE, client=client))

    assert [{"QueueUrl": QUEUE, "MessageBody": '{"resume": "r-1"}'}] == client.asked


def test_woken_by_an_invocation_that_nobody_waits_for() -> None:
    client = Client()
    wake(Invoke("f:live", client=client))

    event = {
        "FunctionName": "f:live",
        "InvocationType": "Event",
        "Payload": b'{"resume": "r-1"}',
    }
    assert [event] == client.asked


@pytest.mark.parametrize("kind", [Sqs, Invoke])
def test_a_wake_up_that_fails_has_one_name(
    kind: type[Sqs | Invoke], caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(RuntimeError("hunter2"))

    with caplog.at_level(logging.DEBUG), pytest.raises(WakeFailed) as raised:
        wake(kind(QUEUE, client=client))

    assert "r-1" == raised.value.run_id
    assert "hunter2" not in str(raised.value) + caplog.text
