"""`EmailNotifier` against a real mail server, and against faulty ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.message import EmailMessage
from socket import socket
from typing import Any

import pytest

from continuations.core.rows.waits import Wait
from continuations.errors import InvalidInput
from continuations.serve.notify.mail import EmailNotifier, body_text, subject_line
from continuations.serve.notify.notifier import NotifyFailed
from tests.serve.notify.receivers import (
    PRIVATE_ARGUMENT,
    MailServer,
    RecordedDelays,
    make_wait,
    serve_mail,
    serve_socket_script,
    trusting_tls_context,
    unused_port,
)

SENDER = "agents@example.com"
KIM = "kim@example.com"
LEE = "lee@example.com"
SECRET_PASSWORD = "PLANTEDPASSWORD"
LINK = "https://example.com/d/TOKEN"


def send_mail(port: int, wait: Wait | None = None, **options: Any) -> None:
    """Send a mail of a wait through a server on this machine."""
    options = {
        "security": "none",
        "retry_policy": RecordedDelays().retry_policy(),
        "to": KIM,
        "host": "localhost",
        **options,
    }
    host, to = options.pop("host"), options.pop("to")
    notifier = EmailNotifier(host, port, SENDER, to, **options)
    asyncio.run(notifier(wait or make_wait()))


def send_error(port: int, **options: Any) -> NotifyFailed:
    """Return the error of sending a mail."""
    with pytest.raises(NotifyFailed) as caught:
        send_mail(port, **options)
    return caught.value


def link_of(_: Wait) -> str:
    return LINK


def text_of(mail: EmailMessage) -> str:
    assert "text/plain" == mail.get_content_type()
    return str(mail.get_content())


# Content ------------------------------------------------------------------------


def test_mail_contains_the_wait_and_the_link() -> None:
    """The mail is plain text; arguments are not sent."""
    wait = make_wait(deadline=datetime(2026, 11, 22, 14, tzinfo=UTC))
    with serve_mail(MailServer()) as post:
        send_mail(post.port, wait, to=[KIM, LEE], link=link_of)

    [mail] = post.mails
    assert [[KIM, LEE]] == post.sent_to
    assert "Approve pay? Run jane-1 waits for you" == mail["subject"]
    assert (SENDER, f"{KIM}, {LEE}") == (mail["from"], mail["to"])
    assert "Sat, 21 Nov 2026 14:00:00 +0000" == mail["date"]
    assert "auto-generated" == mail["auto-submitted"]
    lines = text_of(mail).splitlines()
    assert "Tool:       pay" in lines
    assert "Path:       hr > accounts > pay" in lines
    assert f"Wait:       {wait.id}" in lines
    assert "Decide by:  2026-11-22 14:00:00 UTC" in lines
    assert LINK in lines
    assert PRIVATE_ARGUMENT not in text_of(mail)


def test_arguments_are_sent_only_on_request() -> None:
    with serve_mail(MailServer()) as post:
        send_mail(post.port, with_arguments=True)

    assert f'{{"to":"{PRIVATE_ARGUMENT}","cents":500}}' in text_of(post.mails[0])
    assert "no deadline" in text_of(post.mails[0])


def test_mail_about_an_unknown_outcome_has_another_subject() -> None:
    wait = make_wait(kind="unknown")

    assert subject_line(wait).startswith("Did pay take effect?")
    assert "its outcome is unknown" in body_text(wait, None, with_arguments=False)


def test_repeated_mail_has_the_same_message_id() -> None:
    with serve_mail(MailServer()) as post:
        for wait in (make_wait(), make_wait(), make_wait(id="approval-01kaj.b@jane-1")):
            send_mail(post.port, wait)

    first, again, other = (mail["message-id"] for mail in post.mails)
    assert first == again != other
    assert post.raw[0] == post.raw[1]
    assert first.endswith("@example.com>")


@pytest.mark.parametrize(
    "hostile_text",
    [
        "pay\r\nBcc: eve@example.com",
        "pay\n.\r\nMAIL FROM:<eve@example.com>",
        "pay\u202eyap",
        "pay\u200b\u2028\x00\x85",
        "pay\ud800",
        "=?utf-8?q?=E2=80=AEpay?=",
    ],
)
def test_untrusted_text_cannot_add_headers_or_lines(hostile_text: str) -> None:
    """A tool name or an argument cannot forge a header or a labelled line."""

    def hostile_link(_: Wait) -> str:
        return f"https://a/{hostile_text}"

    wait = make_wait(
        tool=hostile_text, path=("hr", hostile_text), arguments_json=f'"{hostile_text}"'
    )
    with serve_mail(MailServer()) as post:
        send_mail(post.port, wait, with_arguments=True, link=hostile_link)

    [mail], [text] = post.mails, [text_of(mail) for mail in post.mails]
    assert [[KIM]] == post.sent_to
    assert mail["bcc"] is None
    shown = mail["subject"] + text.replace("\n", "").replace("\r", "")
    assert shown.isprintable()
    assert len(text.splitlines()) == len(
        body_text(make_wait(), "link", with_arguments=True).splitlines()
    )


def test_non_ascii_text_is_readable() -> None:
    """Only invisible characters are escaped."""
    wait = make_wait(tool="überweisen", arguments_json='{"an":"Łukasz 山田"}')
    with serve_mail(MailServer()) as post:
        send_mail(post.port, wait, with_arguments=True)

    assert "Approve überweisen?" in post.mails[0]["subject"]
    assert '{"an":"Łukasz 山田"}' in text_of(post.mails[0])


def test_long_arguments_are_truncated_with_a_notice() -> None:
    with serve_mail(MailServer()) as post:
        wait = make_wait(arguments_json='"' + "x" * 100_000 + '"', tool="t" * 500)
        send_mail(post.port, wait, with_arguments=True)

    assert "(shortened; 100002 characters in all)" in text_of(post.mails[0])
    assert len(post.mails[0]["subject"]) <= 150


# TLS and logins -----------------------------------------------------------------


def test_over_starttls_with_a_login() -> None:
    """The password is said after TLS was begun, never before."""
    server = MailServer(starttls=True, login=("agents", SECRET_PASSWORD))
    with serve_mail(server) as post:
        send_mail(
            post.port,
            security="starttls",
            tls=trusting_tls_context(),
            username="agents",
            password=SECRET_PASSWORD,
        )

    assert ([True], [("agents", SECRET_PASSWORD)]) == (post.over_tls, post.logins)


def test_mail_is_sent_over_implicit_tls() -> None:
    with serve_mail(MailServer(), tls=True) as post:
        send_mail(post.port, security="tls", tls=trusting_tls_context())

    assert [[KIM]] == post.sent_to


def test_server_without_starttls_is_rejected() -> None:
    """The password is sent only after the server's certificate was checked."""
    with serve_mail(MailServer(login=("agents", SECRET_PASSWORD))) as post:
        error = send_error(
            post.port, security="starttls", username="agents", password=SECRET_PASSWORD
        )

    assert ([], [], False) == (post.logins, post.mails, error.retryable)
    assert "not support STARTTLS" in str(error)


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_untrusted_certificate_is_rejected(security: str) -> None:
    server = MailServer(starttls=security == "starttls")
    with serve_mail(server, tls=security == "tls") as post:
        error = send_error(post.port, security=security)

    assert ([], False) == (post.mails, error.retryable)
    assert "untrusted certificate" in str(error)


def test_certificate_of_another_host_is_rejected() -> None:
    """STARTTLS checks the host name too."""
    with serve_mail(MailServer(starttls=True)) as post:
        error = send_error(
            post.port, host="127.0.0.2", security="starttls", tls=trusting_tls_context()
        )

    assert [] == post.mails
    assert not error.retryable or "ConnectionRefusedError" in str(error)


def test_rejected_login_is_final() -> None:
    """The error does not contain the password."""
    server = MailServer(starttls=True, login=("agents", "another"))
    with serve_mail(server) as post:
        error = send_error(
            post.port,
            security="starttls",
            tls=trusting_tls_context(),
            username="agents",
            password=SECRET_PASSWORD,
        )

    assert ([], False) == (post.mails, error.retryable)
    assert "535 5.7.8 (SMTPAuthenticationError)" in str(error)
    assert SECRET_PASSWORD not in str(error) + repr(error) + repr(vars(error))


# Replies of the server ----------------------------------------------------------


@pytest.mark.parametrize("command", ["MAIL", "RCPT", "DATA"])
def test_temporary_smtp_error_is_retried(command: str) -> None:
    """Greylisting or a full disk delays the mail; it arrives once."""
    delays = RecordedDelays()
    responses = {command: ["451 4.7.1 Later", "452 4.3.1 Full"]}
    with serve_mail(MailServer(responses=responses)) as post:
        send_mail(post.port, retry_policy=delays.retry_policy())

    assert (1, [0.25, 0.5]) == (len(post.mails), delays.slept)


@pytest.mark.parametrize("command", ["MAIL", "RCPT", "DATA"])
def test_permanent_smtp_error_is_final(command: str) -> None:
    """The error contains the codes only: the server's text may quote the mail."""
    responses = {command: [f"550 5.7.1 no {PRIVATE_ARGUMENT} here", "250 OK"]}
    with serve_mail(MailServer(responses=responses)) as post:
        error = send_error(post.port)

    assert ([], False) == (post.mails, error.retryable)
    assert "550 5.7.1" in str(error)
    assert PRIVATE_ARGUMENT not in str(error)


def test_attempts_are_bounded() -> None:
    """After the last attempt the failure is reported as retryable."""
    with serve_mail(MailServer(responses={"DATA": ["451 later"] * 5})) as post:
        error = send_error(post.port)

    assert ([], True) == (post.mails, error.retryable)
    assert "451 (SMTPDataError)" in str(error)
    assert ("jane-1", make_wait().id) == (error.run_id, error.wait_id)


def test_one_of_two_recipients_is_refused() -> None:
    """The other recipient gets the mail once."""
    responses = {"RCPT": ["250 OK", "550 5.1.1 no such user"]}
    with serve_mail(MailServer(responses=responses)) as post:
        error = send_error(post.port, to=[KIM, LEE])

    assert [[KIM]] == post.sent_to
    assert "refused 1 of the recipients (550 5.1.1); the others" in str(error)


# Faulty connections -------------------------------------------------------------


def test_refused_connection_is_retried() -> None:
    delays = RecordedDelays()
    error = send_error(unused_port(), retry_policy=delays.retry_policy())

    assert (2, True) == (len(delays.slept), error.retryable)
    assert "ConnectionRefusedError" in str(error)


def close_at_once(line: socket) -> None:
    del line


def close_after_greeting(line: socket) -> None:
    """Close after the first command."""
    line.sendall(b"220 localhost\r\n")
    line.recv(1000)


def close_after_data(line: socket) -> None:
    """Close after the mail: it is not known whether the server accepted it."""
    line.sendall(b"220 localhost\r\n")
    while (said := line.recv(1000)) and not said.startswith(b"data"):
        line.sendall(b"250 OK\r\n")
    line.sendall(b"354 go on\r\n")
    line.recv(1000)


def respond_with_http(line: socket) -> None:
    """Send another protocol."""
    line.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    line.recv(1000)


def respond_busy(line: socket) -> None:
    """Refuse the connection temporarily."""
    line.sendall(b"421 4.3.2 too busy\r\n")
    line.recv(1000)


@pytest.mark.parametrize(
    "script",
    [
        close_at_once,
        close_after_greeting,
        close_after_data,
        respond_with_http,
        respond_busy,
    ],
)
def test_broken_connection_is_retried(script: Callable[[socket], None]) -> None:
    """A repeat is safe: its recipient recognizes the Message-ID."""
    with serve_socket_script(script) as server:
        error = send_error(int(server.server_address[1]), host="127.0.0.1")

    assert (3, True) == (server.calls, error.retryable)


def refuse_greeting(line: socket) -> None:
    """Refuse the connection permanently."""
    line.sendall(b"554 5.7.1 you are on a list\r\n")
    line.recv(1000)


def test_refused_greeting_is_final() -> None:
    with serve_socket_script(refuse_greeting) as server:
        error = send_error(int(server.server_address[1]), host="127.0.0.1")

    assert (1, False) == (server.calls, error.retryable)


def never_respond(line: socket) -> None:
    """Send nothing until the client closes."""
    while line.recv(65536):
        pass


def respond_byte_by_byte(line: socket) -> None:
    """Send single bytes, so that no timeout between two bytes ends the attempt."""
    for _ in range(1000):
        line.sendall(b"2")
        time.sleep(0.02)


@pytest.mark.parametrize("script", [never_respond, respond_byte_by_byte])
def test_silent_server_times_out(script: Callable[[socket], None]) -> None:
    """The time limit is for the whole attempt."""
    retry_policy = RecordedDelays(attempts=2).retry_policy()
    with serve_socket_script(script) as server:
        port = int(server.server_address[1])
        before = time.monotonic()
        error = send_error(
            port, host="127.0.0.1", timeout=0.2, retry_policy=retry_policy
        )

    assert time.monotonic() - before < 15
    assert "no response within 0.2 s" in str(error)


# What is refused at once, and what is told to nobody -------------------------------


@pytest.mark.parametrize(
    "changed",
    [
        {"to": []},
        {"to": "Kim <kim@example.com>"},
        {"to": "kim@example.com\r\nBcc: eve@example.com"},
        {"to": [KIM, "kim"]},
        {"to": "kím@example.com"},
        {"host": "mail.example.com"},
        {"security": "ssl"},
        {"security": ["tls"]},
        {"username": "agents"},
        {"password": SECRET_PASSWORD},
        {"username": "agents", "password": SECRET_PASSWORD + "é"},
        {"timeout": 0},
    ],
)
def test_invalid_mail_options_are_rejected(changed: dict[str, Any]) -> None:
    """The error does not contain the password."""
    with pytest.raises(InvalidInput) as caught:
        send_mail(25, **changed)

    assert SECRET_PASSWORD not in str(caught.value)


def test_secrets_are_in_no_repr_or_error() -> None:
    """Neither the repr nor errors nor their causes contain the password."""
    notifier = EmailNotifier(
        "mail.example.com",
        587,
        SENDER,
        KIM,
        username="agents",
        password=SECRET_PASSWORD,
    )
    with serve_mail(MailServer(responses={"DATA": ["554 no"]})) as post:
        error = send_error(post.port, link=link_of, with_arguments=True)

    told = repr(notifier), str(error), repr(error), repr(vars(error))
    for secret in (SECRET_PASSWORD, "TOKEN", PRIVATE_ARGUMENT, KIM):
        assert not [text for text in told if secret in text]
