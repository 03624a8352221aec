"""CloudEvents: a form of webhooks, and a receiver of events for runs that wait.

    WebhookNotifier(url, secret, form=CloudEventForm("https://agents.example.com"))
    HttpApi(runner, webhooks={"events": CloudEventReceiver(secret)})

Both sign and verify as Standard Webhooks say. The package `cloudevents` writes and
reads the events: version 1.0, in the structured or the binary mode of HTTP.
"""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from continuations.interop import missing_package

try:
    from cloudevents.core.bindings import http
    from cloudevents.core.exceptions import BaseCloudEventException
    from cloudevents.core.formats.json import JSONFormat
    from cloudevents.core.v1.event import CloudEvent
except ImportError as error:
    raise missing_package("cloudevents", "'cloudevents>=2.2'", error) from None

from continuations.errors import InvalidInput
from continuations.serve.http import problems
from continuations.serve.http.webhook_receiver import Message, Publish, WebhookReceiver
from continuations.serve.option_checks import check_type

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from cloudevents.core.base import BaseCloudEvent

    from continuations.serve.http.request_response import Request
    from continuations.serve.http.webhook_receiver import Meaning
    from continuations.serve.notify.notifier import Notification

    Handle = Callable[[BaseCloudEvent, Mapping[str, str]], Meaning | Awaitable[Meaning]]

__all__ = ["CloudEventForm", "CloudEventReceiver"]

_TYPE = "dev.continuations.{}.v1"
_FORMAT = JSONFormat()
# Errors of the package for events that are no CloudEvents.
_MALFORMED = (
    BaseCloudEventException,
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
_TOLERANCE = timedelta(minutes=5)


class CloudEventForm:
    """Write notifications as CloudEvents; pass it to `WebhookNotifier(form=...)`.

    An event has the type `dev.continuations.TYPE.v1`, such as
    `dev.continuations.wait.opened.v1`, and the run as its subject. Its id is the same
    in each repeat, so a receiver knows a repeat by `source` and `id`.

    Args:
        source: A URI that names your store of runs.
        mode: `"structured"` puts the whole event into the body, which is signed.
            `"binary"` puts only the data there, and the attributes into headers, which
            are not signed.

    Raises:
        InvalidInput: An option is invalid.
    """

    def __init__(
        self, source: str, *, mode: Literal["structured", "binary"] = "structured"
    ) -> None:
        check_type("source", source, str, "a URI")
        if not source or not source.isascii() or not source.isprintable():
            raise InvalidInput(f"source must be a URI in ASCII, got {source!r:.60}.")
        if mode not in ("structured", "binary"):
            msg = f'mode must be "structured" or "binary", got {mode!r:.60}.'
            raise InvalidInput(msg)
        self._source = source
        self._write = http.to_binary if mode == "binary" else http.to_structured

    def __call__(self, notification: Notification) -> tuple[Mapping[str, str], bytes]:
        """Return the headers and the body of the event of a notification."""
        attributes: dict[str, Any] = {
            "id": notification.id,
            "source": self._source,
            "type": _TYPE.format(notification.type),
            "specversion": "1.0",
            "subject": notification.run_id,
            "time": notification.at,
            "datacontenttype": "application/json",
        }
        event = CloudEvent(attributes, notification.data)
        message = self._write(event, _FORMAT)
        return message.headers, message.body


def publish(event: BaseCloudEvent, _headers: Mapping[str, str]) -> Publish:
    """Return the event for runs that wait for its type, with its subject as the key.

    Args:
        event: The CloudEvent.

    Returns:
        The meaning of the event.

    Raises:
        RequestRefused: The data are bytes.
    """
    data: object = event.get_data()
    if isinstance(data, bytes):
        raise problems.malformed("The data of the event are bytes. Send JSON or text.")
    return Publish(event.get_type(), data, event.get_subject())


class CloudEventReceiver(WebhookReceiver):
    """Accept the CloudEvents of one other system; pass it to `HttpApi(webhooks=...)`.

    Each event counts once, by its source and id.

    Args:
        secret: The secret of the sender, as for `WebhookReceiver`.
        handle: A function or coroutine function of the CloudEvent and the headers, as
            for `WebhookReceiver`. By default, each event is published to the runs that
            wait for its type, with its subject as the key.
        accepts_binary: Accept the binary mode too. The signature then covers the data,
            and neither the type nor the id.
        tolerance: How much the time of a message may differ from that of this machine.

    Raises:
        InvalidInput: An option is invalid. The text contains no secret.
    """

    def __init__(
        self,
        secret: str | Sequence[str],
        handle: Handle = publish,
        *,
        accepts_binary: bool = False,
        tolerance: timedelta = _TOLERANCE,
    ) -> None:
        super().__init__(secret, handle, tolerance=tolerance)
        check_type("accepts_binary", accepts_binary, bool, "True or False")
        self._accepts_binary = accepts_binary

    def read(self, request: Request, message_id: str) -> Message:
        """Return the CloudEvent of a request whose signature is valid.

        Args:
            request: The request.
            message_id: The signed id. The id of the event counts instead.

        Returns:
            The event, with an id made of its source and its id.

        Raises:
            RequestRefused: The request has no CloudEvent of version 1.0 with JSON data,
                or one in the binary mode.
        """
        body: Any = super().read(request, message_id).payload
        is_binary = any(name.startswith("ce-") for name in request.headers)
        if is_binary and not self._accepts_binary:
            raise problems.malformed(
                "The event is in the binary mode, and its signature does not cover its "
                "attributes. Send it in the structured mode."
            )
        prefix, attributes = ("ce-", request.headers) if is_binary else ("", body)
        try:
            # The package gives an event without an id a new one.
            if not {f"{prefix}id", f"{prefix}specversion"} <= set[str](attributes):
                raise ValueError
            message = http.HTTPMessage(dict(request.headers), request.body)
            event = http.from_http(message, _FORMAT, CloudEvent)
        except _MALFORMED:
            msg = "The request has no CloudEvent of version 1.0 in JSON."
            raise problems.malformed(msg) from None
        name = json.dumps([event.get_source(), event.get_id()])
        return Message(hashlib.sha256(name.encode()).hexdigest(), event)
