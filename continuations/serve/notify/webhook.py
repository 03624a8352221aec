"""A notifier that posts waits and runs to a URL, signed as Standard Webhooks.

    POST https://example.com/hook
    webhook-id: msg_…           the same for every repeat of one notice
    webhook-timestamp: …        time of this attempt, in seconds since 1970
    webhook-signature: v1,…     HMAC-SHA256 of "id.timestamp.body", in base64

    {"type": "wait.opened", "timestamp": "…", "data": {"wait": {…}, "link": "…"}}

The body is `wait_opened_event`, `decision_event`, `child_event` or `run_event` in
`docs/schemas/continuations.schema.json`.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from continuations import __version__
from continuations.core import jsontext
from continuations.engine.ports import SystemClock
from continuations.errors import InvalidInput
from continuations.serve import standard_webhooks
from continuations.serve.notify import delivery
from continuations.serve.notify.notifier import OPEN_TYPES, check_types, notification_of
from continuations.serve.option_checks import check_callable, check_type
from continuations.value_class import dataclass
from continuations.wire.report import utc_text

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime
    from http.client import HTTPConnection

    from continuations.core.reading.notices import Notice
    from continuations.core.rows.waits import Wait
    from continuations.engine.ports import OnNotice
    from continuations.ledger.claims import Clock
    from continuations.serve.notify.notifier import MakeLink, Notification
    from continuations_storage.retries import RetryPolicy

    Form: TypeAlias = Callable[[Notification], tuple[Mapping[str, str], bytes]]

__all__ = ["WebhookNotifier"]

# Temporary statuses besides 5xx: Request Timeout, Too Early, Too Many Requests.
_RETRYABLE_STATUSES = {408, 425, 429}


class WebhookNotifier:
    """Post an event to a URL for each open wait, and for other notices if asked.

    A response with status 2xx is a success. Temporary statuses (5xx, 408, 425, 429) and
    lost connections are tried again, after the time in Retry-After. Every other status
    is final, including redirects. The body of a response is not read, and no proxy is
    used.

    Args:
        url: The URL of the receiver: https, or http on this machine.
        secret: The signing secret, `whsec_` and base64. During a rotation, a list of
            secrets: each of them signs every event.
        types: The types of the events to post, from `NOTICE_TYPES`: by default those of
            open waits.
        form: Returns the headers and the body for a notification, for example a
            `CloudEventForm`. `None`: an event of Standard Webhooks.
        link: Returns the link to decide a wait, for example `Links.link`.
        with_arguments: Send the call's arguments, and the reasons of decisions. They
            may be private, so they are not sent by default.
        timeout: The time limit of one attempt, in seconds.
        retry_policy: How often and when to try again.
        tls: The TLS settings, for a receiver with a private certificate authority.
        clock: The clock for timestamps; the system clock by default.

    Raises:
        InvalidInput: The URL or a secret is invalid. The text contains neither of them.
    """

    def __init__(  # noqa: PLR0913 - the options are keyword-only
        self,
        url: str,
        secret: str | Sequence[str],
        *,
        types: Collection[str] = OPEN_TYPES,
        form: Form | None = None,
        link: MakeLink | None = None,
        with_arguments: bool = False,
        timeout: float = 5.0,
        retry_policy: RetryPolicy = delivery.NOTIFY_RETRY_POLICY,
        tls: ssl.SSLContext | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._target = _parse_url(url)
        keys = standard_webhooks.decode_secrets(secret)
        check_callable("link", link, "a function that takes a Wait")
        check_callable("form", form, "a function that takes a Notification")
        delivery.check_tls(tls)
        self._keys = keys
        self._types = check_types(types)
        self._form = form or _event_form
        self._link = link
        self._with_arguments = with_arguments
        self._delivery = delivery.Delivery(
            receiver=self._target.origin, timeout=timeout, retry_policy=retry_policy
        )
        self._tls = tls
        self._clock = clock or SystemClock()

    def __repr__(self) -> str:
        # The path of a webhook's URL is often a secret.
        return f"<WebhookNotifier {self._target.origin}>"

    @property
    def on_notice(self) -> OnNotice | None:
        """The function that posts a notice; `None` if only open waits are posted."""
        return self._send if self._types - set(OPEN_TYPES) else None

    async def __call__(self, wait: Wait) -> None:
        """Post the event of a wait.

        Args:
            wait: The open wait.

        Raises:
            NotifyFailed: The receiver did not accept the event.
        """
        await self._send(wait)

    async def _send(self, subject: Wait | Notice) -> None:
        notification = notification_of(
            subject, link=self._link, with_arguments=self._with_arguments
        )
        if notification.type not in self._types:
            return
        headers, body = self._form(notification)
        message_id = f"msg_{notification.id}"

        def send(attempt: delivery.DeliveryAttempt) -> None:
            signed = {**headers, **self._headers(message_id, body)}
            self._post(signed, body, attempt)

        await self._delivery.deliver(subject, send)

    def _post(
        self, headers: dict[str, str], body: bytes, attempt: delivery.DeliveryAttempt
    ) -> None:
        from http.client import HTTPException  # noqa: PLC0415 - slow to import

        connection = attempt.track(self._new_connection())
        try:
            connection.request("POST", self._target.path, body, headers)
            with connection.getresponse() as response:
                retry_after = response.headers.get("retry-after", "")
                self._check_status(response.status, retry_after)
        except HTTPException as error:
            # The text of the error quotes the receiver.
            reason = f"the response is not HTTP ({type(error).__name__})"
            raise delivery.DeliveryAttemptFailed(reason, retryable=True) from None
        finally:
            connection.close()

    def _new_connection(self) -> HTTPConnection:
        from http import client  # noqa: PLC0415 - slow to import

        host, port, timeout = (
            self._target.host,
            self._target.port,
            self._delivery.timeout,
        )
        if not self._target.secure:
            return client.HTTPConnection(host, port, timeout=timeout)
        return client.HTTPSConnection(host, port, timeout=timeout, context=self._tls)

    def _headers(self, message_id: str, body: bytes) -> dict[str, str]:
        at = str(int(self._clock.now().timestamp()))
        signed = standard_webhooks.headers(self._keys, message_id, at, body)
        return {"user-agent": f"continuations/{__version__}", **signed}

    def _check_status(self, status: int, retry_after: str) -> None:
        if 200 <= status < 300:  # noqa: PLR2004 - RFC 9110, 15.3
            return
        is_temporary = status in _RETRYABLE_STATUSES or status >= 500  # noqa: PLR2004 - 15.6
        raise delivery.DeliveryAttemptFailed(
            f"HTTP status {status}",
            retryable=is_temporary,
            retry_after=_retry_after_seconds(retry_after, self._clock.now()),
        )


def _event_form(notification: Notification) -> tuple[dict[str, str], bytes]:
    """Return the headers and the body of an event of Standard Webhooks."""
    event = {
        "type": notification.type,
        "timestamp": utc_text(notification.at),
        "data": notification.data,
    }
    body = jsontext.escape_surrogates(jsontext.dump(event)).encode()
    return {"content-type": "application/json"}, body


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    secure: bool
    host: str
    port: int | None
    origin: str
    path: str


def _parse_url(url: str) -> _Target:
    """Return the parts of a URL; errors contain the host at most."""
    check_type("url", url, str, "a text")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise InvalidInput("url is malformed: pass https://host/path.") from None
    if not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidInput("url contains characters that need %-encoding.")
    if parts.username is not None or parts.password is not None:
        raise InvalidInput("url must not contain a user name or password.")
    if not host or parts.scheme not in {"https", "http"}:
        raise InvalidInput("url must be https://host/path.")
    if parts.scheme == "http" and not delivery.is_loopback(host):
        raise InvalidInput(f"url must use https: http to {host} is not encrypted.")
    query = f"?{parts.query}" if parts.query else ""
    return _Target(
        secure=parts.scheme == "https",
        host=host,
        port=port,
        origin=f"{parts.scheme}://{parts.netloc}",
        path=(parts.path or "/") + query,
    )


def _retry_after_seconds(retry_after: str, now: datetime) -> float:
    """Return the delay of a Retry-After header (RFC 9110, 10.2.3), in seconds."""
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - slow to import

    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after)
    try:
        then = parsedate_to_datetime(retry_after)
        return max(0.0, (then - now).total_seconds())
    except (TypeError, ValueError, OverflowError):
        # It is no date, a date without a time zone, or one that is too large.
        return 0.0
