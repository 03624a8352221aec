"""Send a mail over SMTP, and interpret the replies of the server."""

from __future__ import annotations

import re
import smtplib
import ssl
from dataclasses import field
from email.message import EmailMessage
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any, Literal

from continuations.serve.notify.delivery import DeliveryAttempt, DeliveryAttemptFailed
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime


Security = Literal["starttls", "tls", "none"]

_ENHANCED_CODE = re.compile(rb"[245]\.\d{1,3}\.\d{1,3}")
_TRANSIENT_CODES = range(400, 500)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """A plain-text mail; `id` is its Message-ID."""

    id: str
    at: datetime
    subject: str
    text: str

    def to_message(self, sender: str, to: Sequence[str]) -> EmailMessage:
        """Return the mail with all headers."""
        message = EmailMessage()
        message["Subject"] = self.subject
        message["From"] = sender
        message["To"] = ", ".join(to)
        message["Date"] = format_datetime(self.at)
        message["Message-ID"] = self.id
        message["Auto-Submitted"] = (
            "auto-generated"  # RFC 3834: prevents automatic replies
        )
        message.set_content(self.text)
        return message


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A mail server and its options; the repr does not contain the login."""

    host: str
    port: int
    security: Security
    login: tuple[str, str] | None = field(repr=False)
    tls: ssl.SSLContext | None = field(repr=False)
    timeout: float

    def send(self, message: EmailMessage, attempt: DeliveryAttempt) -> None:
        """Send a message; raise `DeliveryAttemptFailed` or `OSError`."""
        try:
            client = self._connect(attempt)
            try:
                if self.security == "starttls":
                    client.starttls(context=self._tls_context())
                if self.login is not None:
                    client.login(*self.login)
                refused = client.send_message(message)
            finally:
                client.close()  # QUIT would only wait for another reply
        except smtplib.SMTPException as error:
            raise _to_attempt_failure(error) from None
        if refused:
            reason = f"refused {_refusal_text(refused)}; the others got the mail"
            raise DeliveryAttemptFailed(reason, retryable=False)

    def _connect(self, attempt: DeliveryAttempt) -> smtplib.SMTP:
        if self.security == "tls":
            return _TrackedSmtpTls(attempt, self, context=self._tls_context())
        return _TrackedSmtp(attempt, self)

    def _tls_context(self) -> ssl.SSLContext:
        # smtplib's default accepts every certificate.
        return self.tls or ssl.create_default_context()


class _TrackedSmtp(smtplib.SMTP):
    """A connection that is tracked in `connect`: smtplib connects in constructors."""

    def __init__(
        self, attempt: DeliveryAttempt, server: Server, **options: Any
    ) -> None:
        self._attempt = attempt
        host, port, timeout = server.host, server.port, server.timeout
        super().__init__(host, port, timeout=timeout, **options)

    def connect(
        self, host: str = "localhost", port: int = 0, source_address: Any = None
    ) -> tuple[int, bytes]:
        self._attempt.track(self)
        return super().connect(host, port, source_address)


class _TrackedSmtpTls(_TrackedSmtp, smtplib.SMTP_SSL):
    """Such a connection with TLS from its first byte."""


def _to_attempt_failure(error: smtplib.SMTPException) -> DeliveryAttemptFailed:
    """Return the failure without the server's text, which may quote the mail."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        codes = {code for code, _ in error.recipients.values()}
        is_temporary = all(code in _TRANSIENT_CODES for code in codes)
        return DeliveryAttemptFailed(
            f"refused {_refusal_text(error.recipients)}",
            retryable=is_temporary,
        )
    if isinstance(error, smtplib.SMTPResponseException):
        code = _reply_code(error.smtp_code, error.smtp_error)
        reason = f"reply {code} ({type(error).__name__})"
        # smtplib uses the code -1 for an invalid reply.
        return DeliveryAttemptFailed(
            reason, retryable=error.smtp_code in _TRANSIENT_CODES or error.smtp_code < 0
        )
    if isinstance(error, smtplib.SMTPServerDisconnected):
        return DeliveryAttemptFailed("the connection was closed", retryable=True)
    if isinstance(error, smtplib.SMTPNotSupportedError):
        return DeliveryAttemptFailed(
            "the server does not support STARTTLS or login", retryable=False
        )
    return DeliveryAttemptFailed(
        f"SMTP failed ({type(error).__name__})", retryable=False
    )


def _refusal_text(refused: Mapping[str, tuple[int, bytes]]) -> str:
    codes = sorted({_reply_code(code, text) for code, text in refused.values()})
    return f"{len(refused)} of the recipients ({', '.join(codes)})"


def _reply_code(code: int, text: bytes | str) -> str:
    """Return a reply's code, with its enhanced code (RFC 3463) if it has one."""
    reply = text if isinstance(text, bytes) else text.encode(errors="replace")
    enhanced = _ENHANCED_CODE.match(reply)
    return f"{code} {enhanced[0].decode()}" if enhanced else str(code)
