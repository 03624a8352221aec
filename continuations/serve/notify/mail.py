"""A notifier that sends a plain-text mail about each open wait, over SMTP."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from continuations.core.reading.notices import open_notice_id
from continuations.core.rows.decisions import Answer, Deny, Fail
from continuations.core.rows.waits import Wait, withheld
from continuations.core.visible_text import escape_invisible
from continuations.errors import InvalidInput
from continuations.present import wait_words
from continuations.serve.notify import delivery
from continuations.serve.notify.notifier import event_type, make_link
from continuations.serve.option_checks import check_callable, check_type

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Sequence

    from continuations.serve.notify.notifier import MakeLink
    from continuations.serve.notify.smtp import Security
    from continuations_storage.retries import RetryPolicy

__all__ = ["EmailNotifier"]

# An address that every SMTP server accepts; stricter than RFC 5321.
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}")
_MAX_ARGUMENTS = 20_000
_MAX_SUBJECT = 150
_MAX_PORT = 65_535
# In the order of the page of a wait; the arguments stand after what is asked.
_ASKED = ("Question", "Requested by")
_MAIL_FACTS = (
    *_ASKED,
    "Decide by",
    "Then",
    "Form",
    "Approvers",
    "May not decide",
    "Votes",
    "Tool",
    "Path",
    "Run",
    "Wait",
    "Opened",
)
# How the subject of a later notice begins.
_PREFIXES = {"wait.escalated": "Escalated: ", "wait.reminder": "Reminder: "}


class EmailNotifier:
    """Send a plain-text mail about each open wait.

    All mails about one wait have the same Message-ID. Temporary errors of the server
    (4xx) and lost connections are tried again; 5xx is final. If the server refuses some
    recipients, the others still get the mail.

    Args:
        host: The mail server.
        port: Its port: 587 for "starttls", 465 for "tls".
        sender: The sender's address.
        to: The address of the recipient, or a list of addresses.
        security: "starttls", "tls" (from the first byte), or "none", which is allowed
            only for a server on this machine.
        username: The user name, if the server needs a login; ASCII.
        password: The password; ASCII.
        link: Returns the link to decide a wait, for example `Links.link`.
        with_arguments: Send the call's arguments. They may be private, so they are not
            sent by default.
        timeout: The time limit of one attempt, in seconds.
        retry_policy: How often and when to try again.
        tls: The TLS settings, for a server with a private certificate authority.

    Raises:
        InvalidInput: An option is invalid.
    """

    def __init__(  # noqa: PLR0913 - the options are keyword-only
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
        retry_policy: RetryPolicy = delivery.NOTIFY_RETRY_POLICY,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        _check_server(host, port, security)
        check_type("to", to, str | list | tuple, "an address or a list of addresses")
        check_callable("link", link, "a function that takes a Wait")
        delivery.check_tls(tls)
        self._server = host, port
        self._sender = _checked_address(sender)
        self._to = [
            _checked_address(each) for each in ([to] if isinstance(to, str) else to)
        ]
        if not self._to:
            raise InvalidInput("to must contain at least one address.")
        self._security: Security = security
        self._login = _checked_login(username, password)
        self._link = link
        self._with_arguments = with_arguments
        self._delivery = delivery.Delivery(
            receiver=f"the mail server {host}:{port}",
            timeout=timeout,
            retry_policy=retry_policy,
        )
        self._tls = tls

    def __repr__(self) -> str:
        return "<EmailNotifier {}:{}>".format(*self._server)

    async def __call__(self, wait: Wait) -> None:
        """Send the mail of a wait.

        Args:
            wait: The open wait.

        Raises:
            NotifyFailed: The server did not accept the mail for every recipient.
        """
        link = make_link(wait, self._link)
        body = body_text(wait, link, with_arguments=self._with_arguments)
        await self._delivery.deliver(
            wait, lambda attempt: self._send(wait, body, attempt)
        )

    def _send(self, wait: Wait, body: str, attempt: delivery.DeliveryAttempt) -> None:
        from continuations.serve.notify import smtp  # noqa: PLC0415 - slow to import

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


# Content ------------------------------------------------------------------------


def message_id(wait: Wait, sender: str) -> str:
    """Return the Message-ID of the mails of one notice of a wait."""
    domain = sender.partition("@")[2]
    return f"<{open_notice_id(wait)}@{domain}>"


def subject_line(wait: Wait) -> str:
    """Return the subject on one line, with invisible characters escaped."""
    # A mail reader would decode "=?…?=" (RFC 2047) to invisible characters again.
    tool = escape_invisible(wait.tool).replace("=?", "= ?")
    question = wait.rules.question.format(tool=tool)
    prefix = "" if event_type(wait) == "wait.opened" else _PREFIXES[event_type(wait)]
    return f"{prefix}{question} Run {wait.run_id} waits for you"[:_MAX_SUBJECT]


def body_text(wait: Wait, link: str | None, *, with_arguments: bool) -> str:
    """Return the text of the mail; foreign text is one line, visible and labelled."""
    facts = wait_words.wait_facts(wait)
    facts.setdefault("Decide by", "no deadline")
    if not with_arguments and isinstance(wait.on_deadline, Answer | Deny | Fail):
        # A tool makes this text from its arguments.
        facts.pop("Then", None)
    found = [
        (label, escape_invisible(facts[label]))
        for label in _MAIL_FACTS
        if label in facts
    ]
    asked = [row for row in found if row[0] in _ASKED]
    rows = [*_call_rows(wait, asked, with_arguments=with_arguments)]
    rows += [row for row in found if row[0] not in _ASKED]
    lines = [f"{label + ':':<11} {value}" for label, value in rows]
    if link is not None:
        lines += ["", "Open this link to see the call and decide. Opening it does not"]
        lines += ["decide anything.", "", escape_invisible(link)]
    return "\n".join([wait.rules.explanation, "", *lines, ""])


def _call_rows(
    wait: Wait, asked: list[tuple[str, str]], *, with_arguments: bool
) -> Iterator[tuple[str, str]]:
    """Yield what is asked, the arguments, and what declares more for people.

    The title, the readings and the evidence contain arguments, or results.
    """
    if wait.display is not None:
        if with_arguments and wait.title is not None:
            yield "Title", escape_invisible(wait.title)
        effect = wait_words.effect_text(wait)
        if effect is not None:
            yield "Effect", effect
    yield from asked
    if not with_arguments:
        return
    arguments = escape_invisible(withheld(wait).arguments_json)
    yield "Arguments", _shorten(arguments)
    if wait.display is not None:
        yield from _display_rows(wait)


def _display_rows(wait: Wait) -> Iterator[tuple[str, str]]:
    """Yield the readings, the evidence and the agent's words."""
    from continuations.present import wait_view  # noqa: PLC0415 - few waits have one

    for argument in wait_view.argument_views(wait):
        for place, text in argument.places.items():
            yield "Reading", escape_invisible(f"{place}: {text}")
    for fact in wait_view.fact_views(wait):
        yield "Evidence", escape_invisible(f"{fact.label}: {fact.text}")
    if wait.agent_words is not None:
        words = f"{wait.agent_words} (not checked)"
        yield "Agent wrote", escape_invisible(words)


def _shorten(text: str) -> str:
    if len(text) <= _MAX_ARGUMENTS:
        return text
    return f"{text[:_MAX_ARGUMENTS]} … (shortened; {len(text)} characters in all)"


# Options ------------------------------------------------------------------------


def _check_server(host: object, port: object, security: object) -> None:
    check_type("host", host, str, "the name of a mail server")
    if type(port) is not int or not 0 < port <= _MAX_PORT:
        msg = f"port must be an integer from 1 to {_MAX_PORT}, got {port!r}."
        raise InvalidInput(msg)
    if security not in ("starttls", "tls", "none"):
        msg = f'security must be "starttls", "tls" or "none", got {security!r}.'
        raise InvalidInput(msg)
    if security == "none" and not delivery.is_loopback(str(host)):
        msg = f"mail to {host} would not be encrypted. Pass security='starttls'."
        raise InvalidInput(msg)


def _checked_address(text: object) -> str:
    if not isinstance(text, str) or _ADDRESS.fullmatch(text) is None:
        raise InvalidInput(
            "sender and to must be addresses like name@example.com, in ASCII and "
            "without a display name."
        )
    return text


def _checked_login(
    username: str | None, password: str | None
) -> tuple[str, str] | None:
    if username is None and password is None:
        return None
    check_type("username", username, str | None, "a text")
    check_type("password", password, str | None, "a text")
    if not username or not password or not (username + password).isascii():
        # smtplib would fail later, with an error that quotes the password.
        raise InvalidInput("username and password must both be given, in ASCII.")
    return username, password
