"""`WebhookNotifier` against real HTTP servers, correct ones and faulty ones."""

from __future__ import annotations

import asyncio
import json
import pickle
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from socket import socket
from typing import Any

import pytest
from standardwebhooks import Webhook

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    Finished,
    Runner,
    Suspended,
    tool,
)
from continuations.core import jsontext
from continuations.core.rows.waits import Wait
from continuations.errors import ContinuationsError, InvalidInput
from continuations.serve.notify.delivery import is_loopback
from continuations.serve.notify.notifier import NOTICE_TYPES, NotifyFailed
from continuations.serve.notify.webhook import WebhookNotifier
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss
from tests.present.schema_check import assert_matches_schema
from tests.scripts import Script, call, scripted_model
from tests.serve.notify.receivers import (
    OTHER_SECRET,
    PRIVATE_ARGUMENT,
    SECRET,
    ReceivedPost,
    RecordedDelays,
    WebhookReceiver,
    make_wait,
    repeated_responses,
    serve_socket_script,
    serve_webhook,
    trusting_tls_context,
    unused_port,
)


@pytest.fixture(autouse=True)
def turn_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the file in which the models record their turns."""
    monkeypatch.setenv("TEST_TURNS", str(tmp_path / "turns"))


def send_event(
    receiver: WebhookReceiver | str, wait: Wait | None = None, **options: Any
) -> None:
    options.setdefault("retry_policy", RecordedDelays().retry_policy())
    url = receiver if isinstance(receiver, str) else receiver.url
    notifier = WebhookNotifier(url, options.pop("secret", SECRET), **options)
    asyncio.run(notifier(wait or make_wait()))


def send_error(receiver: WebhookReceiver | str, **options: Any) -> NotifyFailed:
    """Return the error of sending an event."""
    with pytest.raises(NotifyFailed) as caught:
        send_event(receiver, **options)
    return caught.value


def link_of(wait: Wait) -> str:
    return f"https://example.com/d/{wait.run_id}"


def verify_event(posted: ReceivedPost, secret: str = SECRET) -> Any:
    """Return the event, verified by the reference library of Standard Webhooks."""
    return Webhook(secret).verify(posted.body, posted.headers)


# Content ------------------------------------------------------------------------


def test_event_contains_the_wait_and_the_link() -> None:
    """The reference library accepts the signature; arguments are not sent."""
    wait = make_wait(deadline=datetime(2026, 11, 22, 14, tzinfo=UTC))
    with serve_webhook(WebhookReceiver()) as receiver:
        send_event(receiver, wait, link=link_of)

    [posted] = receiver.received
    assert "/hook?key=SECRETPATH" == posted.path
    assert "application/json" == posted.headers["content-type"]
    assert {
        "type": "wait.opened",
        "timestamp": "2026-11-21T14:00:00.000Z",
        "data": {
            "wait": {
                "id": wait.id,
                "run_id": "jane-1",
                "kind": "approval",
                "tool": "pay",
                "path": ["hr", "accounts", "pay"],
                "created_at": "2026-11-21T14:00:00.000Z",
                "deadline": "2026-11-22T14:00:00.000Z",
                "approvers": [],
                "votes_needed": 1,
                "reversible": None,
                "requester": None,
            },
            "link": "https://example.com/d/jane-1",
        },
    } == verify_event(posted)
    assert_matches_schema("wait_opened_event", verify_event(posted))
    assert PRIVATE_ARGUMENT.encode() not in posted.body


def test_arguments_are_sent_only_on_request() -> None:
    with serve_webhook(WebhookReceiver()) as receiver:
        send_event(receiver, with_arguments=True)

    event = verify_event(receiver.received[0])
    wait = event["data"]["wait"]
    assert {"to": PRIVATE_ARGUMENT, "cents": 500} == wait["arguments"]
    assert (None, None) == (wait["deadline"], event["data"]["link"])
    assert_matches_schema("wait_opened_event", event)


def test_lone_surrogate_is_sent_as_an_escape() -> None:
    with serve_webhook(WebhookReceiver()) as receiver:
        send_event(
            receiver, make_wait(arguments_json='{"a":"\\ud800 é"}'), with_arguments=True
        )

    data = verify_event(receiver.received[0])["data"]
    assert {"a": "\ud800 é"} == data["wait"]["arguments"]


def test_repeated_event_has_the_same_id() -> None:
    with serve_webhook(WebhookReceiver()) as receiver:
        for wait in (make_wait(), make_wait(), make_wait(id="approval-01kaj.b@jane-1")):
            send_event(receiver, wait)

    first, again, other = receiver.received
    assert first.headers["webhook-id"] == again.headers["webhook-id"]
    assert first.headers["webhook-id"] != other.headers["webhook-id"]
    assert first.body == again.body
    # A full stop separates the signed parts.
    assert "." not in other.headers["webhook-id"]


def test_event_is_signed_with_both_secrets_during_rotation() -> None:
    """A receiver accepts the event with either secret, and with no other."""
    with serve_webhook(WebhookReceiver()) as receiver:
        send_event(receiver, secret=[OTHER_SECRET, SECRET])

    [posted] = receiver.received
    assert 2 == len(posted.headers["webhook-signature"].split(" "))
    assert verify_event(posted, SECRET) == verify_event(posted, OTHER_SECRET)
    with pytest.raises(Exception, match="No matching signature"):
        verify_event(posted, "whsec_" + "dGhpcmQh" * 4)


def test_each_attempt_is_signed_at_its_own_time() -> None:
    """Receivers refuse timestamps that are older than five minutes."""
    clock = ManualClock()

    def later() -> None:
        clock.seconds += 3600

    with serve_webhook(WebhookReceiver((500, {}), on_post=later)) as receiver:
        send_event(receiver, clock=clock)

    first, second = (
        int(each.headers["webhook-timestamp"]) for each in receiver.received
    )
    assert 3600 == second - first
    assert int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) == first
    signatures = {each.headers["webhook-signature"] for each in receiver.received}
    assert 2 == len(signatures)


# Notices ------------------------------------------------------------------------

SCHEMAS = {
    "wait.opened": "wait_opened_event",
    "wait.decided": "decision_event",
    "wait.expired": "decision_event",
    "child.ended": "child_event",
    "run.suspended": "run_event",
    "run.ended": "run_event",
}


def post_notices(receiver: WebhookReceiver, **options: Any) -> None:
    """Run an agent with a child whose call expires, and one whose call is approved."""

    @tool(approval=ApprovalPolicy(within=timedelta(hours=1)))
    def pay(to: str) -> str:
        """Pay a person."""
        return f"paid {to}"

    script: Script = {"go": [[call("pay", to=PRIVATE_ARGUMENT)], "end"]}
    clerk = Agent("clerk", tools=[pay], model=scripted_model(script))
    clock = ManualClock()
    runner = Runner(
        make_boss({"go": [[call("clerk", input="go")], "end"]}, clerk),
        store=MemoryStore(clock.now),
        clock=clock,
        notify=WebhookNotifier(receiver.url, SECRET, **options),
    )
    for reason in (None, PRIVATE_ARGUMENT):
        outcome = runner.start("go")
        assert isinstance(outcome, Suspended)
        if reason is not None:
            runner.decide(outcome.waits[0].id, Approve(by="kim", reason=reason))
        clock.seconds += 3601
        assert isinstance(runner.resume(outcome.run_id), Finished)


def test_notices_are_posted_as_events_of_their_schemas() -> None:
    """Each type has an event, with an id of its own; arguments are not sent."""
    with serve_webhook(WebhookReceiver()) as receiver:
        post_notices(receiver, types=NOTICE_TYPES, link=link_of)

    events = [verify_event(each) for each in receiver.received]
    assert {each["type"] for each in events} == {*SCHEMAS}
    for event in events:
        assert_matches_schema(SCHEMAS[event["type"]], event)
    ids = {each.headers["webhook-id"] for each in receiver.received}
    assert len(ids) == len(events) == 10
    assert PRIVATE_ARGUMENT not in str(events)
    [decided] = [each["data"] for each in events if each["type"] == "wait.decided"]
    assert ("approve", "kim") == tuple(decided["decision"][k] for k in ("kind", "by"))


def test_only_the_chosen_types_are_posted() -> None:
    """Open waits alone are the default; reasons are sent with arguments."""
    with serve_webhook(WebhookReceiver()) as receiver:
        post_notices(receiver)
        assert {"wait.opened"} == {verify_event(p)["type"] for p in receiver.received}
        receiver.received.clear()
        post_notices(receiver, types=["wait.decided"], with_arguments=True)

    [event] = map(verify_event, receiver.received)
    assert_matches_schema("decision_event", event)
    assert PRIVATE_ARGUMENT == event["data"]["decision"]["reason"]
    assert {"to": PRIVATE_ARGUMENT} == event["data"]["wait"]["arguments"]


def test_notice_that_is_not_accepted_costs_nothing_but_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """All runs end; the log names the notice, and not the URL."""
    with serve_webhook(WebhookReceiver(*repeated_responses(400, 50))) as receiver:
        post_notices(receiver, types=["run.ended", "wait.decided"])

    errors = [each.exc_info for each in caplog.records if each.exc_info]
    [decided, *_] = texts = list(map(str, errors))
    # The decider and the worker tried.
    assert 4 == len(texts) == len(receiver.received)
    assert "the notice wait." in decided or "the notice run." in decided
    assert "SECRETPATH" not in f"{texts}"


@pytest.mark.parametrize("types", [[], "run.ended", ["run.began"], None, [3]])
def test_invalid_types_are_rejected(types: Any) -> None:
    """The error lists the types."""
    with pytest.raises(InvalidInput, match=r"Choose from wait\.opened"):
        WebhookNotifier("https://example.com/", SECRET, types=types)


# What is answered ---------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_temporary_status_is_retried(status: int) -> None:
    pauses = RecordedDelays()
    with serve_webhook(WebhookReceiver((status, {}), (status, {}))) as receiver:
        send_event(receiver, retry_policy=pauses.retry_policy())

    assert 3 == len(receiver.received)
    assert [0.25, 0.5] == pauses.slept


@pytest.mark.parametrize("status", [304, 400, 401, 403, 404, 409, 410, 418, 422])
def test_other_status_is_final(status: int) -> None:
    with serve_webhook(WebhookReceiver((status, {}))) as receiver:
        error = send_error(receiver)

    assert (1, False) == (len(receiver.received), error.retryable)
    assert f"HTTP status {status}" in str(error)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_is_not_followed(status: int) -> None:
    """The target of a redirect is not a configured receiver."""
    with serve_webhook(WebhookReceiver()) as target:
        told = {"location": target.url}
        with serve_webhook(WebhookReceiver((status, told))) as receiver:
            error = send_error(receiver)

    assert (1, 0) == (len(receiver.received), len(target.received))
    assert target.url not in str(error)


def test_attempts_are_bounded() -> None:
    """After the last attempt the failure is reported as retryable."""
    with serve_webhook(WebhookReceiver(*repeated_responses(503, 5))) as receiver:
        error = send_error(receiver)

    assert (3, True) == (len(receiver.received), error.retryable)
    assert ("jane-1", make_wait().id) == (error.run_id, error.wait_id)


@pytest.mark.parametrize(
    ("header_value", "delay"),
    [
        ("2", 2.25),
        (format_datetime(ManualClock().now() + timedelta(seconds=3)), 3.25),
        (format_datetime(ManualClock().now() - timedelta(seconds=3)), 0.25),
        ("soon", 0.25),
        ("-5", 0.25),
        ("٣", 0.25),
        ("Sat, 21 Nov 2026 14:00:00", 0.25),
        ("Sat, 21 Nov 99999999999 14:00:00 GMT", 0.25),
        ("Sat, 21 Nov 2026 14:00:00 +99999999999999", 0.25),
    ],
)
def test_retry_after_is_honoured(header_value: str, delay: float) -> None:
    """The value is seconds or a date (RFC 9110, 10.2.3); others are ignored."""
    pauses = RecordedDelays()
    header = header_value.encode().decode("latin-1")
    with serve_webhook(WebhookReceiver((429, {"retry-after": header}))) as receiver:
        send_event(receiver, retry_policy=pauses.retry_policy(), clock=ManualClock())

    assert [delay] == pauses.slept


@pytest.mark.parametrize("header_value", ["3600", "9" * 400, "9" * 5000])
def test_retry_after_beyond_the_time_limit_stops_the_retries(header_value: str) -> None:
    """The run's worker waits for the notifier."""
    pauses = RecordedDelays()
    with serve_webhook(
        WebhookReceiver((503, {"retry-after": header_value}))
    ) as receiver:
        error = send_error(receiver, retry_policy=pauses.retry_policy())

    assert (1, [], True) == (len(receiver.received), pauses.slept, error.retryable)


# Bad lines ----------------------------------------------------------------------


def test_refused_connection_is_retried() -> None:
    pauses = RecordedDelays()
    url = f"http://127.0.0.1:{unused_port()}/SECRETPATH"
    error = send_error(url, retry_policy=pauses.retry_policy())

    assert 2 == len(pauses.slept)
    assert error.retryable
    assert "ConnectionRefusedError" in str(error)


def test_invalid_host_name_is_a_typed_error() -> None:
    error = send_error(f"https://{'a' * 80}.example/")

    assert "invalid host name" in str(error)


def close_after_ten_bytes(line: socket) -> None:
    """Read ten bytes and close."""
    line.recv(10)


def echo_request(line: socket) -> None:
    """Send the request back instead of a response."""
    line.sendall(line.recv(65536))


def respond_with_endless_headers(line: socket) -> None:
    """Send headers without end."""
    line.recv(65536)
    line.sendall(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1000)


@pytest.mark.parametrize(
    "script",
    [close_after_ten_bytes, echo_request, respond_with_endless_headers],
)
def test_broken_connection_is_retried(script: Callable[[socket], None]) -> None:
    """The error contains nothing that the receiver sent."""
    with serve_socket_script(script) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}/SECRETPATH"
        error = send_error(url)

    assert (3, True) == (server.calls, error.retryable)
    assert "jane-1@" not in str(error)
    assert "SECRETPATH" not in str(error)


def test_response_body_is_not_read() -> None:
    """The status decides, however long the body is."""

    def endless(line: socket) -> None:
        line.recv(65536)
        line.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(1000):
            line.sendall(b"x" * 65536)

    with serve_socket_script(endless) as server:
        send_event(f"http://127.0.0.1:{server.server_address[1]}/")

    assert 1 == server.calls


def never_respond(line: socket) -> None:
    """Send nothing until the client closes."""
    while line.recv(65536):
        pass


def respond_byte_by_byte(line: socket) -> None:
    """Send single bytes, so that no timeout between two bytes ends the attempt."""
    line.recv(65536)
    line.sendall(b"HTTP/1.1 200 OK\r\na: ")
    for _ in range(1000):
        line.sendall(b"b")
        time.sleep(0.02)


@pytest.mark.parametrize("script", [never_respond, respond_byte_by_byte])
def test_silent_receiver_times_out(script: Callable[[socket], None]) -> None:
    """The time limit is for the whole attempt."""
    with serve_socket_script(script) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        before = time.monotonic()
        error = send_error(
            url, timeout=0.2, retry_policy=RecordedDelays(attempts=2).retry_policy()
        )

    assert time.monotonic() - before < 15
    assert "no response within 0.2 s" in str(error)


def test_cancelled_notification_closes_the_connection() -> None:
    gone: list[float] = []

    def waiting(line: socket) -> None:
        never_respond(line)
        gone.append(time.monotonic())

    async def cancelled(url: str) -> None:
        async with asyncio.timeout(0.2):
            await WebhookNotifier(url, SECRET, timeout=60)(make_wait())

    with serve_socket_script(waiting) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        with pytest.raises(TimeoutError):
            asyncio.run(cancelled(url))
        until = time.monotonic() + 60
        while not gone and time.monotonic() < until:
            time.sleep(0.01)

    assert gone


# TLS ----------------------------------------------------------------------------


def test_event_is_sent_over_tls() -> None:
    """The certificate is checked against the host name of the URL."""
    with serve_webhook(WebhookReceiver(), tls=True) as receiver:
        send_event(receiver, tls=trusting_tls_context())

    assert verify_event(receiver.received[0])


def test_untrusted_certificate_is_rejected() -> None:
    with serve_webhook(WebhookReceiver(), tls=True) as receiver:
        error = send_error(receiver)

    assert ([], False) == (receiver.received, error.retryable)
    assert "untrusted certificate" in str(error)


# What is refused at once --------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/hook",
        "http://localhost.example.com/hook",
        "http://127.0.0.1.example.com/hook",
        "ftp://example.com/",
        "example.com/hook",
        "https://",
        "https:///hook",
        "https://kim:PASSPHRASE@example.com/",
        "https://example.com:99999/",
        "https://example.com/a b",
        "https://example.com/\r\nx: y",
        "https://[::1/",
        "https://exämple.com/",
    ],
)
def test_invalid_url_is_rejected(url: str) -> None:
    """The error does not quote the URL, which may be a secret."""
    with pytest.raises(InvalidInput) as caught:
        WebhookNotifier(url, SECRET)

    assert "PASSPHRASE" not in str(caught.value)


@pytest.mark.parametrize(
    "secret",
    ["", "whsec_", "whsec_short", "whsec_!!!", SECRET.removeprefix("whsec_"), [], "é"],
)
def test_invalid_secret_is_rejected(secret: Any) -> None:
    """The error does not quote the secret."""
    with pytest.raises(InvalidInput) as caught:
        WebhookNotifier("https://example.com/", secret)

    assert "short" not in str(caught.value)


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan")])
def test_invalid_timeout_is_rejected(timeout: float) -> None:
    with pytest.raises(InvalidInput):
        WebhookNotifier("https://example.com/", SECRET, timeout=timeout)


@pytest.mark.parametrize(
    ("host", "is_here"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),  # noqa: S104 - nothing is bound
        ("10.0.0.1", False),
        ("example.com", False),
        ("", False),
    ],
)
def test_is_loopback_recognizes_local_hosts(host: str, is_here: bool) -> None:
    """Plain HTTP is allowed to this machine only."""
    assert is_here == is_loopback(host)


# Secrets ------------------------------------------------------------------------


def test_secrets_are_in_no_repr_or_error() -> None:
    """Neither the repr nor errors nor their causes contain a secret."""
    notifier = WebhookNotifier("https://example.com/hook?key=SECRETPATH", SECRET)
    with serve_webhook(WebhookReceiver((400, {"x": "y"}))) as receiver:
        error = send_error(receiver, link=link_of)

    told = repr(notifier), str(error), repr(error), repr(vars(error))
    for secret in ("SECRETPATH", SECRET, "/d/", PRIVATE_ARGUMENT, "c2VjcmV0"):
        assert not [text for text in told if secret in text]
    assert "<WebhookNotifier https://example.com>" == repr(notifier)


def test_error_survives_pickling() -> None:
    error = NotifyFailed(make_wait(), "nobody was there", retryable=True)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own

    assert isinstance(again, ContinuationsError)
    assert (str(error), vars(error)) == (str(again), vars(again))


def test_exception_of_the_link_function_is_reported() -> None:
    """The exception of the application is the cause."""

    def link(_: Wait) -> str:
        raise KeyError("no such page")

    with serve_webhook(WebhookReceiver()) as receiver:
        error = send_error(receiver, link=link)

    assert ([], False) == (receiver.received, error.retryable)
    assert isinstance(error.__cause__, KeyError)


def test_body_is_compact_json() -> None:
    with serve_webhook(WebhookReceiver()) as receiver:
        send_event(receiver)

    body = receiver.received[0].body
    assert body == jsontext.dump(json.loads(body)).encode()
