"""Webhooks of other systems: a signed post decides, signals, publishes or wakes.

    POST /webhooks/{name}
    webhook-id: msg_…           the same for every attempt of one message
    webhook-timestamp: …        time of this attempt, in seconds since 1970
    webhook-signature: v1,…     one signature for each secret of the sender

The signature is that of Standard Webhooks. A function of the application says what the
message means. A message may come any number of times: it is recorded once.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from continuations.authoring import callables
from continuations.core import jsontext
from continuations.errors import InvalidInput
from continuations.serve import standard_webhooks
from continuations.serve.http import problems
from continuations.serve.option_checks import check_callable, check_type
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.core.rows.decisions import Verdict
    from continuations.serve.http.request_response import Request

__all__ = [
    "Decide",
    "Meaning",
    "Message",
    "Publish",
    "SendSignal",
    "Wake",
    "WebhookReceiver",
]

_TOLERANCE = timedelta(minutes=5)
_MAX_HEADER_CHARS, _MAX_DIGITS = 2000, 12
_HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")


@dataclass(frozen=True, slots=True)
class Decide:
    """The message decides a wait.

    Attributes:
        wait_id: Id of the wait, for example the `ctx.wait_id` that the job was given.
        verdict: The verdict, such as `Answer(result)`. Without `by`, it is recorded
            under the name of the webhook.
    """

    wait_id: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class SendSignal:
    """The message is a signal to a run; its id is that of the message.

    Attributes:
        run_id: Id of the run.
        name: Name of the event that the run waits for.
        data: Any JSON value.
    """

    run_id: str
    name: str
    data: Any = None


@dataclass(frozen=True, slots=True)
class Publish:
    """The message is an event for all runs that wait for it: `runner.publish`.

    The id of the event is that of the message.

    Attributes:
        name: Name of the event.
        data: Any JSON value.
        key: Key of the event, or `None`.
    """

    name: str
    data: Any = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Wake:
    """The message says that a model can be asked or polled: `runner.wake(run_id)`.

    Attributes:
        run_id: Id of the run.
    """

    run_id: str


@dataclass(frozen=True, slots=True)
class Message:
    """A verified message.

    Attributes:
        id: Id under which the message counts once.
        payload: The payload, which the application's function gets.
    """

    id: str
    payload: Any


Meaning: TypeAlias = Decide | SendSignal | Publish | Wake | None
Handle: TypeAlias = Callable[[Any, Mapping[str, str]], Meaning | Awaitable[Meaning]]


class WebhookReceiver:
    """Accept the webhooks of one other system; pass it to `HttpApi(webhooks=...)`.

    Args:
        secret: The secret of the sender, `whsec_` and base64. During a rotation, a
            list of secrets: a signature of one of them is enough.
        handle: A function or coroutine function of the JSON payload and the headers
            (lower case). It returns `Decide`, `SendSignal`, `Publish`, `Wake`, or
            `None` to ignore the message. It may be called several times for one
            message.
        tolerance: How much the time of a message may differ from that of this machine.

    Raises:
        InvalidInput: An option is invalid. The text contains no secret.
    """

    def __init__(
        self,
        secret: str | Sequence[str],
        handle: Handle,
        *,
        tolerance: timedelta = _TOLERANCE,
    ) -> None:
        self._keys = standard_webhooks.decode_secrets(secret)
        expected = "a function of the payload and the headers"
        if handle is None:  # pyright: ignore[reportUnnecessaryComparison]
            raise InvalidInput(f"handle must be {expected}, got None.")
        check_callable("handle", handle, expected)
        check_type("tolerance", tolerance, timedelta, "a timedelta")
        self._handle = handle
        self._tolerance = tolerance

    def __repr__(self) -> str:
        """Show nothing of the secrets."""
        return f"<WebhookReceiver, {len(self._keys)} secrets>"

    def verified_id(self, request: Request, now: datetime) -> str | None:
        """Return the id of a message, or `None` unless its signature is valid.

        Args:
            request: The request, with the bytes of the body as they were sent.
            now: The time of this machine.

        Returns:
            The id of the message.
        """
        message_id, timestamp, signatures = (
            request.headers.get(name, "") for name in _HEADERS
        )
        texts = (message_id, timestamp, signatures)
        if not all(0 < len(each) <= _MAX_HEADER_CHARS for each in texts):
            return None
        is_number = timestamp.isdigit() and len(timestamp) <= _MAX_DIGITS
        if not is_number or not "".join(texts).isascii():
            return None
        age = abs(now.timestamp() - int(timestamp))
        expected = [
            standard_webhooks.signature(key, message_id, timestamp, request.body)
            for key in self._keys
        ]
        # Every pair is compared, so that the time tells nothing.
        matches = [
            hmac.compare_digest(given, own)
            for given in signatures.split(" ")
            for own in expected
        ]
        is_valid = any(matches) and age <= self._tolerance.total_seconds()
        return message_id if is_valid else None

    def read(self, request: Request, message_id: str) -> Message:
        """Return the message of a request whose signature is valid.

        A subclass for another form of messages overrides this method.

        Args:
            request: The request.
            message_id: The signed id.

        Returns:
            The message.

        Raises:
            RequestRefused: The body is malformed.
        """
        try:
            payload = jsontext.parse(request.body, lossless=True)
        except jsontext.NotJson as error:
            raise problems.malformed(f"The body is not JSON: {error}.") from None
        return Message(message_id, payload)

    async def meaning(self, payload: Any, headers: Mapping[str, str]) -> Meaning:
        """Call the application's function with a message.

        Args:
            payload: The JSON value of the body.
            headers: The headers.

        Returns:
            The meaning of the message, or `None` to ignore it.

        Raises:
            TypeError: The function returned something else.
        """
        asked: object = await callables.call(self._handle, payload, headers)
        if asked is None or isinstance(asked, Decide | SendSignal | Publish | Wake):
            return asked
        raise TypeError(
            "handle must return Decide, SendSignal, Publish, Wake or None, got "
            f"{type(asked).__name__}. Return for example Decide(wait_id, Answer(7))."
        )
