"""An e-mail about each open wait, in plain text, through a server that speaks SMTP."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.errors import InvalidInput
from continuations.present.escaping import escape_invisible
from continuations.serve.notify.delivery import (
    NOTIFY_RETRY_POLICY,
    Delivery,
    is_loopback,
)
from continuations.serve.notify.notifier import make_link

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence
    from datetime import datetime

    from continuations.core.waits import Wait
    from continuations.serve.notify.delivery import DeliveryAttempt
    from continuations.serve.notify.notifier import MakeLink
    from continuations.serve.notify.smtp import Security
    from continuations_storage.retry_policy import RetryPolicy

__all__ = ["EmailNotifier"]

# A bare address as SMTP takes it without extensions; stricter than RFC 5321 on purpose.
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}")
_MAX_ARGUMENTS = 20_000
_MAX_SUBJECT = 150


class EmailNotifier:
    """Sends a plain-text e-mail about each open wait.

    `security` is "starttls" (port 587), "tls" from the first byte (port 465), or
    "none", which only a server on this machine is trusted with. `link` makes the link
    to decide from the wait. Arguments may be private: they are sent only
    `with_arguments`. All mails about one wait have one Message-ID. `tls` is for a
    server whose certificate this machine does not know.

    What a server refuses for the moment (4xx) and lost connections are tried again;
    5xx is final. If some of the receivers are refused, the others have got it.

    Raises `InvalidInput` for what could only fail later.
    """

    def __init__(  # noqa: PLR0913 - each of them is named at the call
        self,
        host: str,
        port: int,
        sender: str,
        to: str | Sequence[str],
        *,
        security: Security = "starttls",
        username: str | None = None,
        password: str | None = None,
        link: MakeLink | None = None,
        with_arguments: bool = False,
        timeout: float = 10.0,
        retry_policy: RetryPolicy = NOTIFY_RETRY_POLICY,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        _check_server(host, security)
        self._server = host, port
        self._sender = _checked_address(sender)
        self._to = [
            _checked_address(each) for each in ([to] if isinstance(to, str) else to)
        ]
        if not self._to:
            raise InvalidInput("to: nobody would get the mail")
        self._security: Security = security
        self._login = _checked_login(username, password)
        self._link = link
        self._with_arguments = with_arguments
        self._delivery = Delivery(
            receiver=f"the mail server {host}:{port}",
            timeout=timeout,
            retry_policy=retry_policy,
        )
        self._tls = tls

    def __repr__(self) -> str:
        return "<EmailNotifier {}:{}>".format(*self._server)

    async def __call__(self, wait: Wait) -> None:
        """Hand the mail to the server; raises `NotifyFailed`."""
        link = make_link(wait, self._link)
        body = body_text(wait, link, with_arguments=self._with_arguments)
        await self._delivery.deliver(wait, lambda wire: self._send(wait, body, wire))

    def _send(self, wait: Wait, body: str, attempt: DeliveryAttempt) -> None:
        from continuations.serve.notify import smtp  # noqa: PLC0415 - dear, and only here

        mail = smtp.Mail(
            id=message_id(wait, self._sender),
            at=wait.created_at,
            subject=subject_line(wait),
            text=body,
        )
        host, port = self._server
        server = smtp.Server(
            host=host,
            port=port,
            security=self._security,
            login=self._login,
            tls=self._tls,
            timeout=self._delivery.timeout,
        )
        server.send(mail.to_message(self._sender, self._to), attempt)


# What is said ---------------------------------------------------------------


def message_id(wait: Wait, sender: str) -> str:
    """Return the Message-ID of all mails about a wait."""
    domain = sender.partition("@")[2]
    return f"<{jsontext.digest('wait.opened', wait.id)[:32]}@{domain}>"


# By the kind of wait: the subject, and the first line.
_QUESTIONS = {
    "approval": ("Approve {}?", "An agent asks for leave to run a tool."),
    "unknown": (
        "Did {} happen?",
        "A tool was begun, and nobody knows what came of it. Please look.",
    ),
}


def subject_line(wait: Wait) -> str:
    """Return a subject on one line, in which nothing is hidden."""
    # "=?…?=" would be decoded by its reader (RFC 2047), to what we had made visible.
    tool = escape_invisible(wait.tool).replace("=?", "= ?")
    question = _QUESTIONS[wait.kind][0].format(tool)
    return f"{question} Run {wait.run_id} waits for you"[:_MAX_SUBJECT]


def body_text(wait: Wait, link: str | None, *, with_arguments: bool) -> str:
    """Return the text; what others wrote stays on its line, with nothing hidden."""
    rows = [
        (
            "Tool",
            " > ".join(map(escape_invisible, wait.path)) or escape_invisible(wait.tool),
        ),
        ("Run", wait.run_id),
        ("Wait", wait.id),
        ("Opened", _utc_text(wait.created_at)),
        ("Decide by", _utc_text(wait.deadline) if wait.deadline else "no deadline"),
    ]
    if with_arguments:
        rows.append(("Arguments", _shorten(escape_invisible(wait.arguments_json))))
    lines = [f"{name + ':':<11} {value}" for name, value in rows]
    if link is not None:
        lines += ["", "Look at it and decide (opening the page changes nothing):"]
        lines += ["", escape_invisible(link)]
    return "\n".join([_QUESTIONS[wait.kind][1], "", *lines, ""])


def _utc_text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _shorten(text: str) -> str:
    if len(text) <= _MAX_ARGUMENTS:
        return text
    return f"{text[:_MAX_ARGUMENTS]} … ({len(text)} characters; this is not all)"


# What is refused at once ----------------------------------------------------


def _check_server(host: str, security: str) -> None:
    if security not in {"starttls", "tls", "none"}:
        raise InvalidInput('security is "starttls", "tls" or "none"')
    if security == "none" and not is_loopback(host):
        raise InvalidInput(f"mail to {host} could be read on its way; use starttls")


def _checked_address(text: str) -> str:
    if _ADDRESS.fullmatch(text) is None:
        raise InvalidInput("an e-mail address is name@host, of plain letters, bare")
    return text


def _checked_login(
    username: str | None, password: str | None
) -> tuple[str, str] | None:
    if username is None and password is None:
        return None
    if not username or not password or not (username + password).isascii():
        # smtplib would fail on other letters with an error that quotes them.
        raise InvalidInput("a login is a username and a password, in ASCII")
    return username, password
