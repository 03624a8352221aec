"""Webhooks of other systems: only a signed message counts, and it counts once."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    AsyncRunner,
    Finished,
    Suspended,
    tool,
    wait_for,
)
from continuations.core.reading.audit import AuditLine
from continuations.errors import InvalidInput
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve import standard_webhooks
from continuations.serve.http.api import HttpApi, Request
from continuations.serve.http.request_response import Response
from continuations.serve.http.webhook_receiver import (
    Decide,
    Publish,
    SendSignal,
    WebhookReceiver,
)
from continuations.tools import ToolWait
from tests.serve.http.api_fixture import json_body, problem_slug
from tests.serve.http.scanner import Scanner

# The example of the specification's test vectors.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + "QUJD" * 8
MESSAGE = "msg_p5jXN8AQM9LWM0D4loKWxJek"


def meaning(
    payload: Any, headers: Mapping[str, str]
) -> Decide | SendSignal | Publish | None:
    """Map the webhook of a scanner."""
    assert MESSAGE in headers["webhook-id"]
    match payload:
        case {"type": "scan.done", "wait": str(wait_id), "pages": int(pages)}:
            return Decide(wait_id, Answer({"pages": pages}))
        case {"type": "approve", "wait": str(wait_id)}:
            return Decide(wait_id, Approve())
        case {"type": "mail", "run": str(run_id)}:
            return SendSignal(run_id, "mail", payload["data"])
        case {"type": "price", "product": str(product)}:
            return Publish("price", payload["data"], key=product)
        case {"type": "broken"}:
            return "recorded"  # type: ignore[return-value]  # pyright: ignore[reportReturnType]
        case _:
            return None


class Sender:
    """A scanner that sends webhooks."""

    def __init__(
        self, secret: str | list[str] = SECRET, *, runner: AsyncRunner | None = None
    ) -> None:
        self.scanner = Scanner()
        self.api = HttpApi(
            runner or self.scanner.make_runner([]),
            webhooks={"scanner": WebhookReceiver(secret, meaning)},
            clock=self.scanner.clock,
        )

    async def send(
        self,
        payload: object,
        *,
        secret: str = SECRET,
        age: float = 0,
        body: bytes | None = None,
        is_signed_as_sent: bool = False,
        **headers: str,
    ) -> Response:
        """Send a message; `body` replaces the bytes that were signed."""
        content = json.dumps(payload).encode()
        if body is not None and is_signed_as_sent:
            content = body
        [key] = standard_webhooks.decode_secrets(secret)
        at = str(int(self.scanner.clock.now().timestamp() - age))
        signed = standard_webhooks.signature(key, MESSAGE, at, content)
        given = {
            "webhook-id": MESSAGE,
            "webhook-timestamp": at,
            "webhook-signature": signed,
            **{name.replace("_", "-"): text for name, text in headers.items()},
        }
        return await self.api.handle(
            Request(
                method="POST",
                path="/webhooks/scanner",
                headers=given,
                body=content if body is None else body,
            )
        )


def test_signature_is_that_of_the_specification() -> None:
    [key] = standard_webhooks.decode_secrets(SECRET)
    body = b'{"test": 2432232314}'
    signed = standard_webhooks.signature(key, MESSAGE, "1614265330", body)
    assert "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" == signed

    headers = {
        "webhook-id": MESSAGE,
        "webhook-timestamp": "1614265330",
        "webhook-signature": f"v1a,x v1,AAAA {signed}",
    }
    request = Request(method="POST", path="/", headers=headers, body=body)
    receiver = WebhookReceiver([OTHER, SECRET], meaning)
    now = datetime.fromtimestamp(1614265330, UTC)
    for seconds, is_valid in ((300, True), (-300, True), (301, False), (-301, False)):
        verified = receiver.verified_id(request, now + timedelta(seconds=seconds))
        assert is_valid == (verified == MESSAGE)


async def test_message_decides_a_wait_and_its_repeat_is_harmless() -> None:
    sender = Sender()
    [wait] = (await sender.scanner.start()).waits
    done = {"type": "scan.done", "wait": wait.id, "pages": 7}

    first = await sender.send(done)
    again = await sender.send(done, age=200)

    assert [200, 200] == [first.status, again.status]
    assert {"status": "recorded", "woken": False} == json_body(again)
    ended = await sender.scanner.runner.resume("r1")
    assert isinstance(ended, Finished)
    lines: list[AuditLine] = await sender.scanner.runner.audit("r1")
    assert [("webhook", "webhook scanner")] == [(a.door, a.by) for a in lines]
    # And another result comes too late: the sender need not repeat it
    late = await sender.send({**done, "pages": 8})
    assert (200, "too_late") == (late.status, json_body(late)["status"])


async def test_message_is_one_signal_however_often_it_comes() -> None:
    sender = Sender()
    await sender.scanner.start()
    mail = {"type": "mail", "run": "r1", "data": 5}
    for _ in range(3):
        assert 200 == (await sender.send(mail)).status
    keys = await sender.scanner.store.keys("runs/r1/in/e-")
    assert 1 == len(keys)


async def test_message_is_one_event_however_often_it_comes() -> None:
    """All runs that wait for its key go on, and later waits do not take it again."""

    @tool
    def price(product: str) -> ToolWait[int]:
        """Wait for prices."""
        return wait_for("price", int, key=product)

    sender = Sender()
    asked: list[Any] = [ToolCall("price", {"product": "tea"})] * 2
    agent = Agent("buyer", tools=[price], model=ScriptedModel([*asked, "end"]))
    store, clock = sender.scanner.store, sender.scanner.clock
    runner = AsyncRunner(agent, store=store, clock=clock)
    for run_id in ("r1", "r2"):
        assert isinstance(await runner.start("go", run_id=run_id), Suspended)
    event = {"type": "price", "product": "tea", "data": 5}

    answers = await asyncio.gather(*(sender.send(event) for _ in range(3)))

    assert {"recorded"} == {json_body(each)["status"] for each in answers}
    for run_id in ("r1", "r2"):
        outcome = await runner.resume(run_id)
        assert isinstance(outcome, Suspended), "the second wait has not taken the event"
        [line] = await runner.audit(run_id)
        assert ("webhook", "webhook scanner") == (line.door, line.by)
    assert 200 == (await sender.send(event, age=290)).status
    assert isinstance(await runner.resume("r1"), Suspended)
    # The id of the message names that event.
    changed = await sender.send({**event, "data": 6})
    assert (400, "invalid-input") == (changed.status, problem_slug(changed))
    assert isinstance(await runner.resume("r1"), Suspended)


async def test_repeated_id_with_another_content_changes_nothing() -> None:
    """The first message under an id counts; the signature alone is not enough."""
    sender = Sender()
    [wait] = (await sender.scanner.start()).waits
    mail = {"type": "mail", "run": "r1", "data": 5}
    done = {"type": "scan.done", "wait": wait.id, "pages": 7}
    assert [200, 200] == [(await sender.send(each)).status for each in (mail, done)]
    store: Any = sender.scanner.store
    before = dict(store._bodies)

    assert 400 == (await sender.send({**mail, "data": 6})).status
    late = await sender.send({**done, "pages": 8})

    assert "too_late" == json_body(late)["status"]
    assert before == store._bodies


async def test_message_after_the_end_of_its_run_is_no_error() -> None:
    """A repeat of a recorded one is recorded; a new one comes too late."""
    sender = Sender()
    await sender.scanner.start()
    mail = {"type": "mail", "run": "r1", "data": 5}
    assert 200 == (await sender.send(mail)).status
    runner = sender.scanner.make_runner([])
    assert "cancelled" == (await runner.cancel("r1")).status

    again = await sender.send(mail)
    late = await sender.send({**mail, "data": 6})

    assert (200, "recorded") == (again.status, json_body(again)["status"])
    assert (200, "too_late") == (late.status, json_body(late)["status"])
    with pytest.raises(InvalidInput, match="does not accept signals"):
        await runner.signal("r1", "mail", 5, id="another")


async def test_message_for_an_erased_run_comes_too_late() -> None:
    """Status 410 would make the sender stop all its messages."""
    sender = Sender()
    [wait] = (await sender.scanner.start()).waits
    await sender.scanner.make_runner([]).erase("r1")
    for late in (
        {"type": "scan.done", "wait": wait.id, "pages": 7},
        {"type": "mail", "run": "r1", "data": 5},
    ):
        answer = await sender.send(late)
        assert (200, "too_late") == (answer.status, json_body(answer)["status"])


async def test_message_that_means_nothing_is_ignored() -> None:
    response = await Sender().send({"type": "scan.began"})
    assert (200, "ignored") == (response.status, json_body(response)["status"])


@pytest.mark.parametrize(
    "forgery",
    [
        {"secret": OTHER},
        {"age": 301},
        {"age": -301},
        {"body": b'{"type": "scan.began" }'},
        {"webhook_id": f"{MESSAGE}x"},
        {"webhook_id": ""},
        {"webhook_signature": ""},
        {"webhook_signature": "v1,"},
        {"webhook_signature": "v1"},
        {"webhook_signature": "v1,ä"},
        {"webhook_signature": "v1," + "A" * 5000},
        {"webhook_timestamp": ""},
        {"webhook_timestamp": "nan"},
        {"webhook_timestamp": "1e99"},
        {"webhook_timestamp": "9" * 400},
        {"webhook_timestamp": "²"},
    ],
)
async def test_forged_message_is_refused(forgery: dict[str, Any]) -> None:
    response = await Sender().send({"type": "scan.began"}, **forgery)
    assert (401, "webhook-refused") == (response.status, problem_slug(response))


async def test_unknown_webhook_is_refused_in_the_same_way() -> None:
    sender = Sender()
    unknown = await sender.api.handle(Request(method="POST", path="/webhooks/x"))
    assert (401, "webhook-refused") == (unknown.status, problem_slug(unknown))


async def test_fault_of_the_function_and_a_body_without_json_are_errors(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)

    sender = Sender([OTHER, SECRET])
    assert 500 == (await sender.send({"type": "broken"})).status
    refused = await sender.send({}, body=b"{", is_signed_as_sent=True)
    assert 400 == refused.status


def test_invalid_options_are_refused_without_showing_the_secret() -> None:
    cases: list[tuple[Any, Any]] = [
        ("whsec_short", meaning),
        ([], meaning),
        (SECRET, None),
        (SECRET, "handle"),
    ]
    for secret, handle in cases:
        with pytest.raises(InvalidInput) as raised:
            WebhookReceiver(secret, handle)
        assert "short" not in str(raised.value)
    with pytest.raises(InvalidInput):
        WebhookReceiver(SECRET, meaning, tolerance=300)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert SECRET not in repr(WebhookReceiver(SECRET, meaning))
