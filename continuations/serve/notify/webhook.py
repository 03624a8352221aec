"""A webhook that is called with each open wait, signed as Standard Webhooks says.

    POST https://example.com/hook
    webhook-id: msg_…           the same for each telling of one wait
    webhook-timestamp: …        seconds since 1970, of this attempt
    webhook-signature: v1,…     HMAC-SHA256 of "id.timestamp.body", in base64

    {"type": "wait.opened", "timestamp": "…", "data": {"wait_id": "…", …}}

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import binascii
import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from continuations import __version__
from continuations.core import jsontext
from continuations.engine.ports import SystemClock
from continuations.errors import InvalidInput
from continuations.present.json_forms import utc_text, wait_notice_json
from continuations.serve.notify.delivery import (
    NOTIFY_RETRY_POLICY,
    Delivery,
    DeliveryAttemptFailed,
    is_loopback,
)
from continuations.serve.notify.notifier import make_link

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence
    from datetime import datetime
    from http.client import HTTPConnection

    from continuations.core.waits import Wait
    from continuations.ledger.claims import Clock
    from continuations.serve.notify.delivery import DeliveryAttempt
    from continuations.serve.notify.notifier import MakeLink
    from continuations_storage.retry_policy import RetryPolicy

__all__ = ["WebhookNotifier"]

EVENT_TYPE = "wait.opened"

# The spec: a key has 24 to 64 bytes.
_KEY_SIZES = range(24, 65)
# What may pass, beside all of 5xx: a time-out, too early, too many requests.
_RETRYABLE_STATUSES = {408, 425, 429}


class WebhookNotifier:
    """Posts an event of each open wait to a URL.

    `secret` is ``whsec_`` and base64, or several while one takes the other's place:
    each of them signs. `link` makes the link to decide from the wait. Arguments may be
    private: they are sent only `with_arguments`. `tls` is for a receiver whose
    certificate this machine does not know.

    A 2xx is a success. Answers that may pass (5xx, 429, …) and lost connections are
    tried again, not before Retry-After says; any other answer is final, a redirect
    too. No body of an answer is read, and no proxy is used.

    Raises `InvalidInput` for a URL that is not https (on this machine http is well),
    or a secret that is none.
    """

    def __init__(
        self,
        url: str,
        secret: str | Sequence[str],
        *,
        link: MakeLink | None = None,
        with_arguments: bool = False,
        timeout: float = 5.0,
        retry_policy: RetryPolicy = NOTIFY_RETRY_POLICY,
        tls: ssl.SSLContext | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._target = _parse_url(url)
        secrets = [secret] if isinstance(secret, str) else list(secret)
        if not secrets:
            raise InvalidInput("a webhook needs a secret: who would believe it else?")
        self._keys = [_decode_secret(each) for each in secrets]
        self._link = link
        self._with_arguments = with_arguments
        self._delivery = Delivery(
            receiver=self._target.origin, timeout=timeout, retry_policy=retry_policy
        )
        self._tls = tls
        self._clock = clock or SystemClock()

    def __repr__(self) -> str:
        # The rest of a webhook's URL is often a secret.
        return f"<WebhookNotifier {self._target.origin}>"

    async def __call__(self, wait: Wait) -> None:
        """Post the event; raises `NotifyFailed`."""
        event = wait_opened_event(
            wait, make_link(wait, self._link), with_arguments=self._with_arguments
        )
        body = jsontext.escape_surrogates(jsontext.dump(event)).encode()
        await self._delivery.deliver(wait, lambda wire: self._post(wait, body, wire))

    def _post(self, wait: Wait, body: bytes, attempt: DeliveryAttempt) -> None:
        from http.client import HTTPException  # noqa: PLC0415 - dear, and only here

        connection = attempt.track(self._new_connection())
        try:
            headers = self._headers(wait, body)
            connection.request("POST", self._target.path, body, headers)
            # With the answer its socket is closed, read to the end or not.
            with connection.getresponse() as answer:
                self._check_status(answer.status, answer.headers.get("retry-after", ""))
        except HTTPException as error:
            # Its text is whatever came instead of HTTP.
            why = f"its answer is not HTTP ({type(error).__name__})"
            raise DeliveryAttemptFailed(why, retryable=True) from None
        finally:
            connection.close()

    def _new_connection(self) -> HTTPConnection:
        from http import client  # noqa: PLC0415 - likewise

        host, port, timeout = (
            self._target.host,
            self._target.port,
            self._delivery.timeout,
        )
        if not self._target.secure:
            return client.HTTPConnection(host, port, timeout=timeout)
        return client.HTTPSConnection(host, port, timeout=timeout, context=self._tls)

    def _headers(self, wait: Wait, body: bytes) -> dict[str, str]:
        message = message_id(wait)
        at = str(int(self._clock.now().timestamp()))
        signed = b".".join((message.encode(), at.encode(), body))
        signatures = (_signature(key, signed) for key in self._keys)
        return {
            "content-type": "application/json",
            "user-agent": f"continuations/{__version__}",
            "webhook-id": message,
            "webhook-timestamp": at,
            "webhook-signature": " ".join(signatures),
        }

    def _check_status(self, status: int, retry_after: str) -> None:
        success = 200 <= status < 300  # noqa: PLR2004 - RFC 9110, 15.3
        if success:
            return
        again = status in _RETRYABLE_STATUSES or status >= 500  # noqa: PLR2004 - and 15.6
        raise DeliveryAttemptFailed(
            f"it answered {status}",
            retryable=again,
            retry_after=_retry_after_seconds(retry_after, self._clock.now()),
        )


def message_id(wait: Wait) -> str:
    """Return what a receiver knows a repeat by.

    Without a full stop, which parts what is signed and may be in a run's id.
    """
    return f"msg_{jsontext.digest(EVENT_TYPE, wait.id)[:32]}"


def wait_opened_event(
    wait: Wait, link: str | None, *, with_arguments: bool
) -> dict[str, Any]:
    """Return the event of a wait, the same for each telling of it."""
    notice = wait_notice_json(wait, with_arguments=with_arguments)
    return {
        "type": EVENT_TYPE,
        "timestamp": utc_text(wait.created_at),
        "data": {"wait": notice, "link": link},
    }


def _signature(key: bytes, content: bytes) -> str:
    return f"v1,{base64.b64encode(hmac.digest(key, content, 'sha256')).decode()}"


def _decode_secret(secret: str) -> bytes:
    """Return the key in a secret; its errors do not tell it."""
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith("whsec_") or len(key) not in _KEY_SIZES:
        raise InvalidInput("a secret is 'whsec_' and the base64 of 24 to 64 bytes")
    return key


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    secure: bool
    host: str
    port: int | None
    origin: str
    path: str


def _parse_url(url: str) -> _Target:
    """Return where a URL leads to; its errors do not tell it, it may be a secret."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise InvalidInput("the webhook's URL is malformed") from None
    if not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidInput("the webhook's URL holds characters that need %-encoding")
    if parts.username is not None or parts.password is not None:
        raise InvalidInput("the webhook's URL must not carry a user's name")
    if not host or parts.scheme not in {"https", "http"}:
        raise InvalidInput("the webhook's URL is to be https://host/…")
    if parts.scheme == "http" and not is_loopback(host):
        raise InvalidInput(f"http to {host} can be read and changed; use https")
    query = f"?{parts.query}" if parts.query else ""
    return _Target(
        secure=parts.scheme == "https",
        host=host,
        port=port,
        origin=f"{parts.scheme}://{parts.netloc}",
        path=(parts.path or "/") + query,
    )


def _retry_after_seconds(retry_after: str, now: datetime) -> float:
    """Return how long an answer asks us to wait (RFC 9110, 10.2.3)."""
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - likewise

    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after)
    try:
        then = parsedate_to_datetime(retry_after)
        return max(0.0, (then - now).total_seconds())
    except (TypeError, ValueError):  # nonsense, or a time of no zone
        return 0.0
