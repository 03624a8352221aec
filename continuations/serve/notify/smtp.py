"""Handing a mail to a server over SMTP, and what its answers mean."""

from __future__ import annotations

import re
import smtplib
import ssl
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any, Literal

from continuations.serve.notify.delivery import DeliveryAttemptFailed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from continuations.serve.notify.delivery import DeliveryAttempt

__all__ = ["Mail", "Security", "Server"]

Security = Literal["starttls", "tls", "none"]

_ENHANCED_CODE = re.compile(rb"[245]\.\d{1,3}\.\d{1,3}")
_TRANSIENT_CODES = range(400, 500)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """A mail of plain text; `id` is its Message-ID."""

    id: str
    at: datetime
    subject: str
    text: str

    def to_message(self, sender: str, to: Sequence[str]) -> EmailMessage:
        """Return it with all its headers."""
        message = EmailMessage()
        message["Subject"] = self.subject
        message["From"] = sender
        message["To"] = ", ".join(to)
        message["Date"] = format_datetime(self.at)
        message["Message-ID"] = self.id
        message["Auto-Submitted"] = "auto-generated"  # RFC 3834: no "I am away"
        message.set_content(self.text)
        return message


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A mail server, and how to speak with it; its repr does not tell the login."""

    host: str
    port: int
    security: Security
    login: tuple[str, str] | None = field(repr=False)
    tls: ssl.SSLContext | None = field(repr=False)
    timeout: float

    def send(self, message: EmailMessage, attempt: DeliveryAttempt) -> None:
        """Hand over a message; raises `Setback` and `OSError`."""
        try:
            client = self._connect(attempt)
            try:
                if self.security == "starttls":
                    client.starttls(context=self._tls_context())
                if self.login is not None:
                    client.login(*self.login)
                refused = client.send_message(message)
            finally:
                client.close()  # QUIT would wait for an answer that changes nothing
        except smtplib.SMTPException as error:
            raise _to_attempt_failure(error) from None
        if refused:
            why = f"it refused {_refusal_text(refused)}; the others have got it"
            raise DeliveryAttemptFailed(why, retryable=False)

    def _connect(self, attempt: DeliveryAttempt) -> smtplib.SMTP:
        if self.security == "tls":
            return _TrackedSmtpTls(attempt, self, self._tls_context())
        return _TrackedSmtp(attempt, self)

    def _tls_context(self) -> ssl.SSLContext:
        # smtplib's own would take any certificate.
        return self.tls or ssl.create_default_context()


# Both connect while they are made, so they are held from within.


class _TrackedSmtp(smtplib.SMTP):
    def __init__(self, attempt: DeliveryAttempt, server: Server) -> None:
        self._attempt = attempt
        super().__init__(server.host, server.port, timeout=server.timeout)

    def connect(
        self, host: str = "localhost", port: int = 0, source_address: Any = None
    ) -> tuple[int, bytes]:
        self._attempt.track(self)
        return super().connect(host, port, source_address)


class _TrackedSmtpTls(smtplib.SMTP_SSL):
    def __init__(
        self, attempt: DeliveryAttempt, server: Server, context: ssl.SSLContext
    ) -> None:
        self._attempt = attempt
        super().__init__(
            server.host, server.port, timeout=server.timeout, context=context
        )

    def connect(
        self, host: str = "localhost", port: int = 0, source_address: Any = None
    ) -> tuple[int, bytes]:
        self._attempt.track(self)
        return super().connect(host, port, source_address)


def _to_attempt_failure(error: smtplib.SMTPException) -> DeliveryAttemptFailed:
    """Return a server's no without its words, which may quote the mail."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        codes = {code for code, _ in error.recipients.values()}
        again = all(code in _TRANSIENT_CODES for code in codes)
        return DeliveryAttemptFailed(
            f"it refused {_refusal_text(error.recipients)}", retryable=again
        )
    if isinstance(error, smtplib.SMTPResponseException):
        said = _reply_code(error.smtp_code, error.smtp_error)
        why = f"it said {said} ({type(error).__name__})"
        # A code of -1 stands for an answer that is none.
        return DeliveryAttemptFailed(
            why, retryable=error.smtp_code in _TRANSIENT_CODES or error.smtp_code < 0
        )
    if isinstance(error, smtplib.SMTPServerDisconnected):
        return DeliveryAttemptFailed("it hung up", retryable=True)
    if isinstance(error, smtplib.SMTPNotSupportedError):
        return DeliveryAttemptFailed(
            "it offers no STARTTLS, or no login", retryable=False
        )
    return DeliveryAttemptFailed(
        f"it cannot be used ({type(error).__name__})", retryable=False
    )


def _refusal_text(refused: Mapping[str, tuple[int, bytes]]) -> str:
    said = sorted({_reply_code(code, text) for code, text in refused.values()})
    return f"{len(refused)} of the receivers ({', '.join(said)})"


def _reply_code(code: int, text: bytes | str) -> str:
    """Return a reply's code, and the enhanced one of RFC 3463 if there is one."""
    said = text if isinstance(text, bytes) else text.encode(errors="replace")
    enhanced = _ENHANCED_CODE.match(said)
    return f"{code} {enhanced[0].decode()}" if enhanced else str(code)
