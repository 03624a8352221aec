"""OpenAI's webhook: a signed event lets the run poll its reply at once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from openai import InvalidWebhookSignatureError, OpenAI
from standardwebhooks import Webhook

from continuations import Agent, AsyncRunner, Finished, Suspended
from continuations.errors import InvalidInput
from continuations.models.openai_responses import OpenAIResponses
from continuations.serve.http.api import HttpApi, Request
from continuations.serve.http.openai_webhook import openai_webhook
from continuations.serve.http.request_response import Response
from continuations_storage import MemoryStore
from tests.models.response_calls import responses_model
from tests.responses_server import ResponsesServer, finished_batch, response, text
from tests.serve.http.api_fixture import RecordingDispatcher, json_body

SECRET = "whsec_RdvaYFYUXuIFuEbvZHwMfYFhUf7aMYjYcmM24+Aj40c="
_QUEUED = response(status="queued", usage=None)
_READY = response(text("Done."))


def event(kind: str = "response.completed", reply_id: object = "resp_1") -> bytes:
    """Return the body of an event as OpenAI sends it."""
    fields = {"id": "evt_1", "object": "event", "created_at": 1_750_861_210}
    return json.dumps({**fields, "type": kind, "data": {"id": reply_id}}).encode()


def signed(body: bytes, *, at: float | None = None, secret: str = SECRET) -> Request:
    """Return the post of an event, signed by a library that no one here wrote."""
    sent = datetime.fromtimestamp(int(time.time() if at is None else at), UTC)
    headers = {
        "webhook-id": "wh_1",
        "webhook-timestamp": str(int(sent.timestamp())),
        "webhook-signature": Webhook(secret).sign("wh_1", sent, body.decode()),
    }
    return Request(method="POST", path="/webhooks/openai", headers=headers, body=body)


class Office:
    """A store with the run r1 that waits for a reply, and an HTTP API."""

    def __init__(self, server: ResponsesServer, model: OpenAIResponses) -> None:
        self.server = server
        self.store = MemoryStore()
        self.agent = Agent("a", model=model)
        self.dispatcher = RecordingDispatcher()
        self.api = HttpApi(
            AsyncRunner([], store=self.store),
            webhooks={"openai": openai_webhook(SECRET, model)},
            dispatcher=self.dispatcher,
        )

    def runner(self) -> AsyncRunner:
        """Return a runner of another process."""
        return AsyncRunner(self.agent, store=self.store)

    async def start(self) -> None:
        """Start the run."""
        assert isinstance(await self.runner().start("a", run_id="r1"), Suspended)

    async def post(self, request: Request) -> tuple[int, Any]:
        """Return status and body of the response to a post."""
        answer: Response = await self.api.handle(request)
        return answer.status, json_body(answer)


@pytest.fixture
def server() -> Iterator[ResponsesServer]:
    with ResponsesServer([_QUEUED]) as running:
        yield running


@pytest.fixture
def office(server: ResponsesServer) -> Office:
    return Office(server, responses_model(server, background=True))


_RECORDED = {"status": "recorded", "woken": True}
_IGNORED = {"status": "ignored", "woken": False}


async def test_event_wakes_the_run_and_the_run_polls_at_once(office: Office) -> None:
    await office.start()
    office.server.stored["resp_1"] |= _READY

    assert (200, _RECORDED) == await office.post(signed(event()))

    assert ["r1"] == office.dispatcher.runs
    outcome = await office.runner().resume("r1")
    assert isinstance(outcome, Finished)
    assert "Done." == outcome.output


async def test_event_of_a_batch_wakes_its_run(server: ResponsesServer) -> None:
    office = Office(server, responses_model(server, batch=True))
    line = {"custom_id": "reply", "response": {"status_code": 200, "body": _READY}}

    await office.start()
    server.stored["batch_1"] = finished_batch(server, line)
    post = signed(event("batch.completed", "batch_1"))
    assert (200, _RECORDED) == await office.post(post)
    assert isinstance(await office.runner().resume("r1"), Finished)


async def test_event_decides_nothing(office: Office) -> None:
    """The event says "completed", and the provider says "queued": the run waits on."""
    await office.start()
    assert (200, _RECORDED) == await office.post(signed(event()))
    assert isinstance(await office.runner().resume("r1"), Suspended)


async def test_repeated_event_is_harmless(office: Office) -> None:
    await office.start()
    office.server.stored["resp_1"] |= _READY
    for _ in range(2):
        assert (200, _RECORDED) == await office.post(signed(event()))
    assert isinstance(await office.runner().resume("r1"), Finished)
    polls = office.server.paths.count("GET /responses/resp_1")

    status, body = await office.post(signed(event()))

    assert (200, False) == (status, body["woken"])
    assert isinstance(await office.runner().resume("r1"), Finished)
    # The receiver asked for the run; the run polled no more.
    assert polls + 1 == office.server.paths.count("GET /responses/resp_1")


def _accepted_by_openai(request: Request) -> bool:
    """Return the verdict of OpenAI's own library."""
    client = OpenAI(api_key="sk-1", webhook_secret=SECRET)
    try:
        client.webhooks.unwrap(request.body, dict(request.headers))
    except InvalidWebhookSignatureError:
        return False
    return True


def _with(request: Request, body: bytes | None = None, **headers: str) -> Request:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(
        method="POST",
        path=request.path,
        headers={**request.headers, **named},
        body=request.body if body is None else body,
    )


_OTHER_SECRET = "whsec_" + "QUJD" * 8


def _posts() -> dict[str, tuple[Request, bool]]:
    """Return posts with the verdict that each must get; times count from now."""
    genuine = signed(event())
    signatures = f"v1,AAAA {genuine.headers['webhook-signature']}"
    now = time.time()
    return {
        "genuine": (genuine, True),
        "second signature": (_with(genuine, webhook_signature=signatures), True),
        "a little late": (signed(event(), at=now - 200), True),
        "other body": (_with(genuine, body=event(reply_id="resp_2")), False),
        "other signature": (_with(genuine, webhook_signature="v1,AAAA"), False),
        "other id": (_with(genuine, webhook_id="wh_2"), False),
        "other time": (_with(genuine, webhook_timestamp=str(int(now) + 9)), False),
        "other secret": (signed(event(), secret=_OTHER_SECRET), False),
        "old": (signed(event(), at=now - 2000), False),
        "of the future": (signed(event(), at=now + 2000), False),
    }


@pytest.mark.parametrize("name", list(_posts()))
async def test_verdict_on_a_signature_is_that_of_openais_library(
    office: Office, name: str
) -> None:
    post, is_accepted = _posts()[name]
    assert is_accepted == _accepted_by_openai(post)

    await office.start()
    before = len(office.server.paths)
    status, _ = await office.post(post)
    assert (200 if is_accepted else 401) == status
    # A forged event costs no request to the provider.
    assert is_accepted == (len(office.server.paths) > before)
    assert is_accepted == (["r1"] == office.dispatcher.runs)


@pytest.mark.parametrize(
    "body",
    [
        event("eval.run.succeeded"),
        event("response.created"),
        event(reply_id=7),
        event(reply_id=""),
        event(reply_id="resp_of_nobody"),
        b"[]",
        b"{}",
        b'{"type": "response.completed", "data": []}',
    ],
)
async def test_other_events_are_ignored(office: Office, body: bytes) -> None:
    await office.start()
    assert (200, _IGNORED) == await office.post(signed(body))
    assert [] == office.dispatcher.runs


@pytest.mark.parametrize(
    "metadata",
    [None, {}, {"continuations_run": 7}],
)
async def test_reply_of_another_program_is_ignored(
    office: Office, metadata: Mapping[str, Any] | None
) -> None:
    office.server.stored["resp_1"] = {**_READY, "metadata": metadata}
    assert (200, _IGNORED) == await office.post(signed(event()))


@pytest.mark.parametrize("run_id", ["of-another-store", "../no id", ""])
async def test_reply_of_a_run_that_is_not_in_this_store_gets_status_200(
    office: Office, run_id: str
) -> None:
    """OpenAI would repeat the event for days."""
    metadata = {"continuations_run": run_id}
    office.server.stored["resp_1"] = {**_READY, "metadata": metadata}
    status, body = await office.post(signed(event()))
    assert (200, False) == (status, body["woken"])


async def test_event_comes_again_if_the_provider_cannot_be_asked(
    office: Office,
) -> None:
    await office.start()
    stored = office.server.stored.pop("resp_1")
    office.server.stored["resp_1"] = {"status_code": 503, "body": {"error": "no"}}
    status, _ = await office.post(signed(event()))
    assert 500 <= status
    office.server.stored["resp_1"] = stored | _READY
    assert (200, _RECORDED) == await office.post(signed(event()))


def test_invalid_options_are_refused(server: ResponsesServer) -> None:
    model = responses_model(server)
    with pytest.raises(InvalidInput, match="secret"):
        openai_webhook("hunter2", model)
    with pytest.raises(InvalidInput, match="model must be an OpenAIResponses"):
        openai_webhook(SECRET, "gpt-5-mini")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
