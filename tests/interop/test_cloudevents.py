"""CloudEvents, against the readers and writers of the package `cloudevents`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any

import pytest
from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.bindings import http
from cloudevents.core.v1.event import CloudEvent
from standardwebhooks import Webhook

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Finished,
    Suspended,
    tool,
    wait_for,
)
from continuations.errors import InvalidInput
from continuations.interop.cloudevents import CloudEventForm, CloudEventReceiver
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.http.api import HttpApi, Request
from continuations.serve.http.request_response import Response
from continuations.serve.http.webhook_receiver import Decide, Meaning
from continuations.serve.notify.notifier import NOTICE_TYPES
from continuations.serve.notify.webhook import WebhookNotifier
from continuations.tools import Secret, ToolWait
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.outcomes import single_wait
from tests.present.schema_check import assert_matches_schema
from tests.serve.http.api_fixture import json_body, problem_slug
from tests.serve.notify.receivers import (
    SECRET,
    ReceivedPost,
    WebhookReceiver,
    repeated_responses,
    serve_webhook,
)

SOURCE = "https://agents.example.com/s3/prod"
DATA_SCHEMAS = {
    "wait.opened": "wait_opened_event",
    "wait.decided": "decision_event",
    "wait.expired": "decision_event",
    "child.ended": "child_event",
    "run.suspended": "run_event",
    "run.ended": "run_event",
}


@tool(approval=ApprovalPolicy(within=timedelta(hours=1)))
def pay(cents: int, pin: Annotated[str, Secret()] = "PLANTED") -> str:
    """Pay an amount."""
    return f"paid {cents} {len(pin)}"


# Out ----------------------------------------------------------------------------


async def run_to_the_end(notify: Any) -> None:
    """Run a nested agent twice: once its wait is decided, once it expires."""
    clerk_model = ScriptedModel([ToolCall("pay", {"cents": 5}), "paid"])
    clerk = Agent("clerk", tools=[pay], model=clerk_model)
    boss_model = ScriptedModel([ToolCall("clerk", {"input": "pay"}), "end"])
    clock = ManualClock()
    runner = AsyncRunner(
        Agent("boss", tools=[clerk], model=boss_model),
        store=MemoryStore(clock.now),
        clock=clock,
        notify=notify,
    )
    for run_id in ("decided", "expired"):
        outcome = await runner.start("go", run_id=run_id)
        assert isinstance(outcome, Suspended)
        if run_id == "decided":
            await runner.decide(outcome.waits[0].id, Approve(by="kim"))
        clock.seconds += 3601
        assert isinstance(await runner.resume(run_id), Finished)


def read(posted: ReceivedPost) -> BaseCloudEvent:
    """Return the event of a post, as the package reads it."""
    Webhook(SECRET).verify(posted.body, posted.headers)
    return http.from_http_event(http.HTTPMessage(posted.headers, posted.body))


@pytest.mark.parametrize("mode", ["structured", "binary"])
async def test_notices_are_events_of_the_specification(mode: Any) -> None:
    """The package reads each one; the signature of Standard Webhooks is valid."""
    form = CloudEventForm(SOURCE, mode=mode)
    with serve_webhook(WebhookReceiver()) as receiver:
        notifier = WebhookNotifier(
            receiver.url, SECRET, types=NOTICE_TYPES, form=form, with_arguments=True
        )
        await run_to_the_end(notifier)

    events = [read(each) for each in receiver.received]
    assert {f"dev.continuations.{each}.v1" for each in DATA_SCHEMAS} == {
        each.get_type() for each in events
    }
    assert len(events) == len({each.get_id() for each in events}) == 10
    for event, posted in zip(events, receiver.received, strict=True):
        assert (SOURCE, "1.0") == (event.get_source(), event.get_specversion())
        assert event.get_subject() in ("decided", "expired")
        assert f"msg_{event.get_id()}" == posted.headers["webhook-id"]
        time = event.get_time()
        assert time is not None
        kind = event.get_type().removeprefix("dev.continuations.").removesuffix(".v1")
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z")
        body = {"type": kind, "timestamp": stamp, "data": event.get_data()}
        assert_matches_schema(DATA_SCHEMAS[kind], body)
        assert "PLANTED" not in f"{posted.headers} {posted.body.decode()}"
        is_structured = posted.headers["content-type"] == "application/cloudevents+json"
        assert is_structured == (mode == "structured")


async def test_repeats_of_an_event_are_equal() -> None:
    """A receiver knows a repeat by its source and id."""
    with serve_webhook(WebhookReceiver(*repeated_responses(503, 1))) as receiver:
        form = CloudEventForm(SOURCE)
        await run_to_the_end(WebhookNotifier(receiver.url, SECRET, form=form))

    first, again, other = receiver.received
    assert first.body == again.body != other.body


@pytest.mark.parametrize(
    ("source", "mode"),
    [
        ("", "structured"),
        ("a\nb", "binary"),
        ("é", "binary"),
        (7, "binary"),
        ("s", "other"),
        ("s", None),
    ],
)
def test_invalid_form_is_rejected(source: Any, mode: Any) -> None:
    """The error names the option."""
    with pytest.raises(InvalidInput, match=r"(source|mode) must be"):
        CloudEventForm(source, mode=mode)
    other: Any = source or 7
    with pytest.raises(InvalidInput, match="form must be"):
        WebhookNotifier("https://example.com/", SECRET, form=other)


# In -----------------------------------------------------------------------------


@tool
def price(product: str) -> ToolWait[int]:
    """Wait for a price."""
    return wait_for("com.example.price", int, key=product)


class Shop:
    """Two runs that wait for prices of tea, and the API that receives events."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock.now)
        model = ScriptedModel([ToolCall("price", {"product": "tea"}), "end"])
        self.agent = Agent("buyer", tools=[price], model=model)
        self.runner = AsyncRunner(self.agent, store=self.store, clock=self.clock)
        receiver = CloudEventReceiver(SECRET, *arguments, **options)
        self.api = HttpApi(
            AsyncRunner([], store=self.store, clock=self.clock),
            webhooks={"prices": receiver},
            clock=self.clock,
        )

    def stored(self) -> dict[str, bytes]:
        """Return all objects of the store."""
        store: Any = self.store
        return dict(store._bodies)

    async def start(self) -> None:
        """Start the runs."""
        for run_id in ("r1", "r2"):
            assert isinstance(await self.runner.start("go", run_id=run_id), Suspended)

    async def post(
        self, headers: Mapping[str, str], body: bytes, message_id: str = "msg_1"
    ) -> Response:
        """Post a body, signed by the reference library of Standard Webhooks."""
        now = self.clock.now()
        signature = Webhook(SECRET).sign(message_id, now, body.decode())
        signed = {
            "webhook-id": message_id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": signature,
        }
        request = Request(
            method="POST",
            path="/webhooks/prices",
            headers={**headers, **signed},
            body=body,
        )
        return await self.api.handle(request)

    async def send(
        self, *, write: Any = http.to_structured_event, **attributes: Any
    ) -> Response:
        """Post an event that the package writes."""
        fields: dict[str, Any] = {
            "id": "e1",
            "source": "/prices",
            "type": "com.example.price",
            "subject": "tea",
            "datacontenttype": "application/json",
        }
        data = attributes.pop("data", 12)
        message_id = attributes.pop("message_id", "msg_1")
        message = write(CloudEvent({**fields, **attributes}, data))
        return await self.post(message.headers, message.body, message_id)


async def test_event_is_published_to_the_runs_that_wait_for_it() -> None:
    """Its type is the name, its subject the key; the signature is checked first."""
    shop = Shop()
    await shop.start()

    other = await shop.send(id="e0", subject="milk")
    assert isinstance(await shop.runner.resume("r1"), Suspended)
    response = await shop.send()

    assert [200, 200] == [other.status, response.status]
    assert {"status": "recorded", "woken": False} == json_body(response)
    for run_id in ("r1", "r2"):
        assert isinstance(await shop.runner.resume(run_id), Finished)
        [line] = await shop.runner.audit(run_id)
        assert ("webhook", "webhook prices") == (line.door, line.by)


async def test_event_counts_once_by_its_source_and_id() -> None:
    """Also in another message; an event of another source is another event."""
    shop = Shop()
    bodies: list[dict[str, bytes]] = []
    for message_id in ("msg_1", "msg_1", "msg_2"):
        assert 200 == (await shop.send(message_id=message_id)).status
        bodies.append(shop.stored())
        shop.clock.seconds += 60
    assert bodies[0] == bodies[1] == bodies[2]

    changed = await shop.send(data=13)
    assert (400, "invalid-input") == (changed.status, problem_slug(changed))
    assert bodies[0] == shop.stored()
    assert 200 == (await shop.send(data=13, source="/other")).status
    assert bodies[0] != shop.stored()


async def test_function_of_the_application_gives_the_meaning() -> None:
    """It gets the event of the package."""

    def meaning(event: BaseCloudEvent, _: Mapping[str, str]) -> Meaning:
        return Decide(str(event.get_subject()), Approve(by="kim"))

    shop = Shop(meaning)
    model = ScriptedModel([ToolCall("pay", {"cents": 5}), "paid"])
    agent = Agent("payer", tools=[pay], model=model)
    runner = AsyncRunner(agent, store=shop.store, clock=shop.clock)
    wait = single_wait(await runner.start("go", run_id="r3"))

    for _ in range(2):
        response = await shop.send(subject=wait.id)
        assert "recorded" == json_body(response)["status"]
    assert isinstance(await runner.resume("r3"), Finished)


async def test_binary_mode_is_accepted_only_on_request() -> None:
    """The signature of a message does not cover its headers."""
    refused = await Shop().send(write=http.to_binary_event)
    assert (400, "malformed") == (refused.status, problem_slug(refused))
    assert "structured mode" in json_body(refused)["detail"]

    shop = Shop(accepts_binary=True)
    await shop.start()
    for write in (http.to_binary_event, http.to_structured_event):
        assert 200 == (await shop.send(write=write)).status
    assert isinstance(await shop.runner.resume("r1"), Finished)


EVENT = {"specversion": "1.0", "id": "e", "source": "/s", "type": "t", "data": 1}


def without(name: str) -> dict[str, Any]:
    """Return an event without an attribute."""
    return {key: value for key, value in EVENT.items() if key != name}


@pytest.mark.parametrize(
    "body",
    [
        *(
            json.dumps(without(name))
            for name in ("specversion", "id", "source", "type")
        ),
        *(
            json.dumps({**EVENT, **changed})
            for changed in (
                {"specversion": "0.3"},
                {"id": ""},
                {"id": 7},
                {"source": None},
                {"type": ["t"]},
                {"time": "yesterday"},
                {"time": 5},
                {"time": "2026-01-01T00:00:00"},
                {"subject": ""},
                {"Bad-Name": "x"},
                {"data": None, "data_base64": "é"},
                {"data": None, "data_base64": 5},
                {"data": None, "data_base64": "AAAA"},
            )
        ),
        "",
        "[]",
        '["id", "specversion"]',
        "7",
        "null",
        '"text"',
        "{",
        '{"id": "a", "id": "b"}',
        "[" * 100_000,
        json.dumps(EVENT).replace("1}", "NaN}"),
        json.dumps(EVENT).replace("1}", "1" * 5000 + "}"),
        json.dumps(EVENT).replace("1}", "0.1234567890123456789}"),
    ],
)
async def test_malformed_event_is_refused_and_changes_nothing(body: str) -> None:
    """The response says so, and no error of the package leaks."""
    for options in ({}, {"accepts_binary": True}):
        shop = Shop(**options)
        response = await shop.post({}, body.encode())
        assert (400, "malformed") == (response.status, problem_slug(response))
        assert {} == shop.stored()


@pytest.mark.parametrize(
    "headers",
    [
        {"ce-specversion": "1.0", "ce-source": "/s", "ce-type": "t"},
        {"ce-id": "e", "ce-source": "/s", "ce-type": "t"},
        {"ce-id": "e", "ce-specversion": "1.0", "ce-type": "t"},
        {"ce-id": "e", "ce-specversion": "2", "ce-source": "/s", "ce-type": "t"},
        {"ce-a_b": "x", "ce-id": "e", "ce-specversion": "1.0", "ce-source": "/s"},
    ],
)
async def test_malformed_headers_are_refused(headers: dict[str, str]) -> None:
    """Also if the body is a whole event, whose attributes do not count then."""
    shop = Shop(accepts_binary=True)
    response = await shop.post(headers, json.dumps(EVENT).encode())
    assert (400, "malformed") == (response.status, problem_slug(response))
    assert {} == shop.stored()


async def test_unsigned_event_is_refused() -> None:
    """As any message without a valid signature."""
    shop = Shop()
    request = Request(
        method="POST", path="/webhooks/prices", body=json.dumps(EVENT).encode()
    )
    response = await shop.api.handle(request)
    assert (401, "webhook-refused") == (response.status, problem_slug(response))
    assert "c2VjcmV0" not in repr(shop.api)


def test_invalid_options_of_the_receiver_are_rejected() -> None:
    """The error names the option."""
    with pytest.raises(InvalidInput, match="accepts_binary must be"):
        CloudEventReceiver(SECRET, accepts_binary="yes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidInput, match="secret must be"):
        CloudEventReceiver("whsec_x")
