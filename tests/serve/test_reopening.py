"""An operator asks again about an approved call whose tool is gone, at every door."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from continuations import Agent, Approve, AsyncRunner, Runner, Suspended
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.aws.lambda_events import (
    QueueEvent,
    QueueMessage,
    ResumeEvent,
    parse_event,
)
from continuations.serve.aws_lambda import handler
from continuations.serve.http.api import HttpApi, Request
from continuations.serve.http.request_response import Response
from continuations_storage import MemoryStore
from tests.engine.payment_agent import make_pay_tool
from tests.serve.aws.test_lambda_events import sqs_event
from tests.serve.console.console_client import ConsoleClient
from tests.serve.rights import only

RUN = "r1"


class Invocation:
    """The context object of one invocation."""

    aws_request_id = "request-1"
    invoked_function_arn = "arn:aws:lambda:eu-west-1:1:function:worker"

    def get_remaining_time_in_millis(self) -> int:
        """Return the time that is left."""
        return 60_000


class NoDispatcher:
    """Fails if a run is woken elsewhere."""

    async def wake(self, run_id: str) -> None:
        """Fail."""
        raise AssertionError(run_id)


class Office:
    """A run with an approved call, and agents that lack its tool."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        script: list[Any] = [ToolCall("pay", {"cents": 5}), "Done."]
        model = ScriptedModel(script)
        complete = Agent("clerk", tools=[make_pay_tool()], model=model)
        self.reduced = Agent("clerk", model=ScriptedModel(script))
        first = Runner(complete, store=self.store)
        self.outcome = first.start("go", run_id=RUN)
        assert isinstance(self.outcome, Suspended)
        first.decide(self.outcome.waits[0].id, Approve(by="kim"))

    def is_asked_again(self) -> bool:
        """Return whether the approval was given up and the call waits again."""
        [wait] = Runner([], store=self.store).look(RUN).waits
        return wait.id != self.outcome.waits[0].id

    @property
    def call_id(self) -> str:
        [call_id] = Runner([], store=self.store).look(RUN).run_state.calls
        return call_id


async def verify(_request: Request) -> str:
    """Return the sender."""
    return "kim"


def post(office: Office, body: bytes, kind: str = "application/json") -> Response:
    """Send a request to resume the run."""
    runner = AsyncRunner(office.reduced, store=office.store)
    api = HttpApi(runner, verify=verify, dispatcher=NoDispatcher())
    request = Request(
        method="POST",
        path=f"/runs/{RUN}/resume",
        headers={"content-type": kind},
        body=body,
    )
    return asyncio.run(api.handle(request))


def test_http_resume_with_reopen_asks_again_in_this_process() -> None:
    office = Office()

    answer = post(office, b'{"reopen": true}')

    assert (200, "suspended") == (answer.status, json.loads(answer.body)["status"])
    assert office.is_asked_again()


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b'{"reopn": true}', "application/json", 400),
        (b'{"reopen": "yes"}', "application/json", 400),
        (b"[]", "application/json", 400),
        (b"reopen=true", "application/x-www-form-urlencoded", 415),
    ],
)
def test_http_resume_with_another_body_is_refused(
    body: bytes, kind: str, status: int
) -> None:
    office = Office()

    assert status == post(office, body, kind).status
    assert not office.is_asked_again()


def test_lambda_event_with_reopen_asks_again() -> None:
    office = Office()
    function = handler(store=office.store, agents=lambda: office.reduced)

    outcome = function({"resume": {"run_id": RUN, "reopen": True}}, Invocation())
    function.close()

    assert "suspended" == outcome["status"]
    assert office.is_asked_again()


def test_lambda_message_with_reopen_asks_again() -> None:
    office = Office()
    function = handler(store=office.store, agents=lambda: office.reduced)
    body = json.dumps({"resume": {"run_id": RUN, "reopen": True}})
    expected = QueueMessage(id="0", resume=ResumeEvent(run_id=RUN, reopen=True))
    assert QueueEvent(messages=(expected,)) == parse_event(sqs_event(body))

    failed = function(sqs_event(body), Invocation())
    function.close()

    assert {"batchItemFailures": []} == failed
    assert office.is_asked_again()


def test_lambda_event_cancels_a_call_whose_tool_is_gone() -> None:
    office = Office()
    function = handler(store=office.store, agents=lambda: office.reduced)

    function({"cancel": {"run_id": RUN, "call": office.call_id}}, Invocation())
    outcome = function({"resume": RUN}, Invocation())
    function.close()

    assert "finished" == outcome["status"]


def console(office: Office, **options: Any) -> ConsoleClient:
    """Return a console whose code lacks the tool."""
    return ConsoleClient(AsyncRunner(office.reduced, store=office.store), options)


def test_console_offers_to_ask_again_and_does_so() -> None:
    office = Office()
    client = console(office)
    assert (
        f'action="/runs/{RUN}/reopen"' in asyncio.run(client.get(f"/runs/{RUN}")).text
    )

    answer = asyncio.run(client.post(f"/runs/{RUN}/reopen", {}))

    assert 303 == answer.status_code
    assert office.is_asked_again()
    after = asyncio.run(client.get(f"/runs/{RUN}")).text
    assert f'action="/runs/{RUN}/reopen"' not in after


def test_console_with_the_tool_or_without_the_right_does_not_offer_it() -> None:
    office = Office()

    limited = console(office, can=only("view", "read"))
    text = asyncio.run(limited.get(f"/runs/{RUN}")).text
    assert "agent clerk has no tool pay" in text
    assert "/reopen" not in text
    assert 403 == asyncio.run(limited.post(f"/runs/{RUN}/reopen", {})).status_code
    assert not office.is_asked_again()
    complete = Agent("clerk", tools=[make_pay_tool()], model=ScriptedModel([]))
    whole = ConsoleClient(AsyncRunner(complete, store=office.store))
    assert "/reopen" not in asyncio.run(whole.get(f"/runs/{RUN}")).text
