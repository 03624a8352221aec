"""The webhook notifier against real HTTP servers, good ones and bad ones."""

from __future__ import annotations

import asyncio
import json
import pickle
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

import pytest
from standardwebhooks import Webhook

from continuations.core import jsontext
from continuations.errors import ContinuationsError, InvalidInput
from continuations.serve.delivery import is_loopback
from continuations.serve.notify import NotifyFailed
from continuations.serve.webhook import WebhookNotifier
from tests.engine.offices import Clock
from tests.serve.receivers import (
    OTHER_SECRET,
    PRIVATE,
    SECRET,
    Hook,
    Pauses,
    Posted,
    a_wait,
    answers,
    misbehaving,
    nobody_there,
    serving,
    trusting,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket

    from continuations.core.waits import Wait


def tell(hook: Hook | str, wait: Wait | None = None, **options: Any) -> None:
    """Tell a webhook of a wait."""
    options.setdefault("patience", Pauses().patience())
    url = hook if isinstance(hook, str) else hook.url
    notifier = WebhookNotifier(url, options.pop("secret", SECRET), **options)
    asyncio.run(notifier(wait or a_wait()))


def failing(hook: Hook | str, **options: Any) -> NotifyFailed:
    """Return the error of telling a webhook."""
    with pytest.raises(NotifyFailed) as caught:
        tell(hook, **options)
    return caught.value


def link_of(wait: Wait) -> str:
    """Make a link, as an application would."""
    return f"https://example.com/d/{wait.run_id}"


def verified(posted: Posted, secret: str = SECRET) -> Any:
    """Return the event that the receiver's own library makes of what came."""
    return Webhook(secret).verify(posted.body, posted.headers)


# What is sent ----------------------------------------------------------------------


def test_the_event_of_an_open_wait() -> None:
    """G3: signed as the standard's own library checks it; arguments stay at home."""
    wait = a_wait(deadline=datetime(2026, 11, 22, 14, tzinfo=UTC))
    with serving(Hook()) as hook:
        tell(hook, wait, link=link_of)

    [posted] = hook.posted
    assert "/hook?key=SECRETPATH" == posted.path
    assert "application/json" == posted.headers["content-type"]
    assert {
        "type": "wait.opened",
        "timestamp": "2026-11-21T14:00:00.000Z",
        "data": {
            "wait_id": wait.id,
            "run_id": "jane-1",
            "kind": "approval",
            "tool": "pay",
            "path": ["hr", "accounts", "pay"],
            "deadline": "2026-11-22T14:00:00.000Z",
            "link": "https://example.com/d/jane-1",
        },
    } == verified(posted)
    assert PRIVATE.encode() not in posted.body


def test_arguments_are_sent_only_if_asked_for() -> None:
    """R-I5: they may be private."""
    with serving(Hook()) as hook:
        tell(hook, with_arguments=True)

    data = verified(hook.posted[0])["data"]
    assert {"to": PRIVATE, "cents": 500} == data["arguments"]
    assert (None, None) == (data["deadline"], data["link"])


def test_an_argument_that_no_encoding_takes_is_sent_as_an_escape() -> None:
    """Half a surrogate pair is what some models say."""
    with serving(Hook()) as hook:
        tell(hook, a_wait(arguments_json='{"a":"\\ud800 é"}'), with_arguments=True)

    assert {"a": "\ud800 é"} == verified(hook.posted[0])["data"]["arguments"]


def test_a_repeat_is_known_by_its_id() -> None:
    """R-F2: the same id and the same event each time; another wait has another."""
    with serving(Hook()) as hook:
        for wait in (a_wait(), a_wait(), a_wait(id="approval-01kaj.b@jane-1")):
            tell(hook, wait)

    first, again, other = hook.posted
    assert first.headers["webhook-id"] == again.headers["webhook-id"]
    assert first.headers["webhook-id"] != other.headers["webhook-id"]
    assert first.body == again.body
    # A full stop would leave open what was signed.
    assert "." not in other.headers["webhook-id"]


def test_two_secrets_while_one_takes_the_others_place() -> None:
    """R-G4: a receiver that knows either of them believes it; a third does not."""
    with serving(Hook()) as hook:
        tell(hook, secret=[OTHER_SECRET, SECRET])

    [posted] = hook.posted
    assert 2 == len(posted.headers["webhook-signature"].split(" "))
    assert verified(posted, SECRET) == verified(posted, OTHER_SECRET)
    with pytest.raises(Exception, match="No matching signature"):
        verified(posted, "whsec_" + "dGhpcmQh" * 4)


def test_each_attempt_is_signed_at_its_own_time() -> None:
    """R-G4: receivers refuse what is older than five minutes."""
    clock = Clock()

    def later() -> None:
        clock.seconds += 3600

    with serving(Hook((500, {}), on_post=later)) as hook:
        tell(hook, clock=clock)

    first, second = (int(each.headers["webhook-timestamp"]) for each in hook.posted)
    assert 3600 == second - first
    assert int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) == first
    signatures = {each.headers["webhook-signature"] for each in hook.posted}
    assert 2 == len(signatures)


# What is answered ------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_what_may_pass_is_tried_again(status: int) -> None:
    """R-F2: with growing pauses, until it is taken."""
    pauses = Pauses()
    with serving(Hook((status, {}), (status, {}))) as hook:
        tell(hook, patience=pauses.patience())

    assert 3 == len(hook.posted)
    assert [0.25, 0.5] == pauses.slept


@pytest.mark.parametrize("status", [304, 400, 401, 403, 404, 409, 410, 418, 422])
def test_any_other_answer_is_final(status: int) -> None:
    """R-F2: what was refused for good is not sent again, and reported."""
    with serving(Hook((status, {}))) as hook:
        error = failing(hook)

    assert (1, False) == (len(hook.posted), error.retryable)
    assert f"it answered {status}" in str(error)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    """It would carry the event to whom nobody configured."""
    with serving(Hook()) as elsewhere:
        told = {"location": elsewhere.url}
        with serving(Hook((status, told))) as hook:
            error = failing(hook)

    assert (1, 0) == (len(hook.posted), len(elsewhere.posted))
    assert elsewhere.url not in str(error)


def test_attempts_are_bounded() -> None:
    """R-F2: then it is reported, and may be told again."""
    with serving(Hook(*answers(503, 5))) as hook:
        error = failing(hook)

    assert (3, True) == (len(hook.posted), error.retryable)
    assert ("jane-1", a_wait().id) == (error.run_id, error.wait_id)


@pytest.mark.parametrize(
    ("said", "pause"),
    [
        ("2", 2.25),
        (format_datetime(Clock().now() + timedelta(seconds=3)), 3.25),
        (format_datetime(Clock().now() - timedelta(seconds=3)), 0.25),
        ("soon", 0.25),
        ("-5", 0.25),
        ("٣", 0.25),
        ("Sat, 21 Nov 2026 14:00:00", 0.25),
    ],
)
def test_retry_after_is_honoured(said: str, pause: float) -> None:
    """RFC 9110, 10.2.3: seconds or a date; nonsense is no reason to fail."""
    pauses = Pauses()
    header = said.encode().decode("latin-1")
    with serving(Hook((429, {"retry-after": header}))) as hook:
        tell(hook, patience=pauses.patience(), clock=Clock())

    assert [pause] == pauses.slept


@pytest.mark.parametrize("said", ["3600", "9" * 400, "9" * 5000])
def test_a_retry_after_beyond_our_patience_ends_it(said: str) -> None:
    """The run's worker waits for us."""
    pauses = Pauses()
    with serving(Hook((503, {"retry-after": said}))) as hook:
        error = failing(hook, patience=pauses.patience())

    assert (1, [], True) == (len(hook.posted), pauses.slept, error.retryable)


# Bad lines -------------------------------------------------------------------------


def test_nobody_is_there() -> None:
    """R-F2: reported, after all attempts."""
    pauses = Pauses()
    url = f"http://127.0.0.1:{nobody_there()}/SECRETPATH"
    error = failing(url, patience=pauses.patience())

    assert 2 == len(pauses.slept)
    assert error.retryable
    assert "ConnectionRefusedError" in str(error)


def test_a_name_that_is_no_hosts() -> None:
    """R-F2: typed, whatever the resolver raises."""
    error = failing(f"https://{'a' * 80}.example/")

    assert "no host" in str(error)


def hangs_up(line: socket) -> None:
    """Read a little and go."""
    line.recv(10)


def hangs_up_in_the_answer(line: socket) -> None:
    """Go in the middle of a header."""
    line.recv(65536)
    line.sendall(b"HTTP/1.1 200 OK\r\ncontent-le")


def talks_nonsense(line: socket) -> None:
    """Say what a receiver that echoes might."""
    line.sendall(line.recv(65536))


def never_ends_its_headers(line: socket) -> None:
    """Send more headers than anybody needs."""
    line.recv(65536)
    line.sendall(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1000)


@pytest.mark.parametrize(
    "script",
    [hangs_up, talks_nonsense, never_ends_its_headers],
)
def test_a_line_that_breaks(script: Callable[[socket], None]) -> None:
    """R-F2: tried again, then reported, and nothing of what came is told."""
    with misbehaving(script) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}/SECRETPATH"
        error = failing(url)

    assert (3, True) == (server.calls, error.retryable)
    assert "jane-1@" not in str(error)
    assert "SECRETPATH" not in str(error)


def test_a_body_is_not_read() -> None:
    """However long it is, the status has said it all."""

    def endless(line: socket) -> None:
        line.recv(65536)
        line.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(1000):
            line.sendall(b"x" * 65536)

    with misbehaving(endless) as server:
        tell(f"http://127.0.0.1:{server.server_address[1]}/")

    assert 1 == server.calls


def silent(line: socket) -> None:
    """Say nothing until the other side goes."""
    while line.recv(65536):
        pass


def dripping(line: socket) -> None:
    """Send a byte now and then, so that no time-out between two bytes passes."""
    line.recv(65536)
    line.sendall(b"HTTP/1.1 200 OK\r\na: ")
    for _ in range(1000):
        line.sendall(b"b")
        time.sleep(0.02)


@pytest.mark.parametrize("script", [silent, dripping])
def test_an_attempt_has_an_end(script: Callable[[socket], None]) -> None:
    """R-F2: a receiver that says nothing, or little at a time, is cut off."""
    with misbehaving(script) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        before = time.monotonic()
        error = failing(url, timeout=0.2, patience=Pauses(attempts=2).patience())

    assert time.monotonic() - before < 5
    assert "did not answer within 0.2 s" in str(error)


def test_a_cancelled_telling_lets_go_of_the_line() -> None:
    """R-F2: the thread that waits there is woken."""
    gone: list[float] = []

    def waiting(line: socket) -> None:
        silent(line)
        gone.append(time.monotonic())

    async def cancelled(url: str) -> None:
        async with asyncio.timeout(0.2):
            await WebhookNotifier(url, SECRET, timeout=60)(a_wait())

    with misbehaving(waiting) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        with pytest.raises(TimeoutError):
            asyncio.run(cancelled(url))
        until = time.monotonic() + 5
        while not gone and time.monotonic() < until:
            time.sleep(0.01)

    assert gone


# TLS -------------------------------------------------------------------------------


def test_over_tls() -> None:
    """The certificate is checked, by the name in the URL."""
    with serving(Hook(), tls=True) as hook:
        tell(hook, tls=trusting())

    assert verified(hook.posted[0])


def test_a_certificate_that_nobody_knows() -> None:
    """R-F2: final: asking again makes it no better known."""
    with serving(Hook(), tls=True) as hook:
        error = failing(hook)

    assert ([], False) == (hook.posted, error.retryable)
    assert "certificate is not trusted" in str(error)


# What is refused at once -----------------------------------------------------------


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
        "https://kim:word@example.com/",
        "https://example.com:99999/",
        "https://example.com/a b",
        "https://example.com/\r\nx: y",
        "https://[::1/",
        "https://exämple.com/",
    ],
)
def test_a_url_that_is_none(url: str) -> None:
    """Refused when it is given, and not quoted: it may be a secret."""
    with pytest.raises(InvalidInput) as caught:
        WebhookNotifier(url, SECRET)

    assert "word" not in str(caught.value)


@pytest.mark.parametrize(
    "secret",
    ["", "whsec_", "whsec_short", "whsec_!!!", SECRET.removeprefix("whsec_"), [], "é"],
)
def test_a_secret_that_is_none(secret: Any) -> None:
    """Refused when it is given, and not quoted."""
    with pytest.raises(InvalidInput) as caught:
        WebhookNotifier("https://example.com/", secret)

    assert "short" not in str(caught.value)


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan")])
def test_a_timeout_that_is_none(timeout: float) -> None:
    """Refused when it is given."""
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
def test_what_is_on_this_machine(host: str, is_here: bool) -> None:
    """There, and only there, plain http is well."""
    assert is_here == is_loopback(host)


# Secrets ---------------------------------------------------------------------------


def test_secrets_are_told_to_nobody() -> None:
    """R-I5: neither repr, nor errors, nor what comes with them."""
    notifier = WebhookNotifier("https://example.com/hook?key=SECRETPATH", SECRET)
    with serving(Hook((400, {"x": "y"}))) as hook:
        error = failing(hook, link=link_of)

    told = repr(notifier), str(error), repr(error), repr(vars(error))
    for secret in ("SECRETPATH", SECRET, "/d/", PRIVATE, "c2VjcmV0"):
        assert not [text for text in told if secret in text]
    assert "<WebhookNotifier https://example.com>" == repr(notifier)


def test_an_error_goes_to_another_process() -> None:
    """As all errors of ours do."""
    error = NotifyFailed(a_wait(), "nobody was there", retryable=True)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own

    assert isinstance(again, ContinuationsError)
    assert (str(error), vars(error)) == (str(again), vars(again))


def test_a_link_that_cannot_be_made() -> None:
    """R-F2: the application's own fault is reported like any other, and kept."""

    def link(_: Wait) -> str:
        raise KeyError("no such page")

    with serving(Hook()) as hook:
        error = failing(hook, link=link)

    assert ([], False) == (hook.posted, error.retryable)
    assert isinstance(error.__cause__, KeyError)


def test_the_body_is_compact_json() -> None:
    """Whoever signs bytes had better know them."""
    with serving(Hook()) as hook:
        tell(hook)

    body = hook.posted[0].body
    assert body == jsontext.dump(json.loads(body)).encode()
