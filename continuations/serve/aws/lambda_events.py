"""What AWS calls a function with, as plain values: HTTP, a queue, a clock, a caller.

Every event is read strictly and by its whole shape. What is none of them is refused
before anything is done; what is an HTTP request, but a broken one, is `BadRequest`.

A body of HTTP always arrives inside of an event that the gateway made, so nobody who
can only send HTTP can send an event. (API Gateway must be a *proxy* integration; any
other hands the body on as the event itself.)
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import parse_qsl, unquote

from continuations.errors import InvalidInput
from continuations.ledger import layout
from continuations.serve.http.request_response import Request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from continuations.serve.http.request_response import Response

__all__ = [
    "BadRequest",
    "CancelEvent",
    "HttpEvent",
    "LambdaEvent",
    "QueueEvent",
    "QueueMessage",
    "ResumeEvent",
    "StartEvent",
    "SweepEvent",
    "UnknownEvent",
    "gateway_response",
    "parse_event",
]


class UnknownEvent(InvalidInput):
    """An event of no kind that this function takes; nothing was done."""


class BadRequest(InvalidInput):
    """An HTTP request that the gateway or its caller broke; nothing was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpEvent:
    """A request to a Function URL or to API Gateway, 1.0 or 2.0."""

    request: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMessage:
    """One message of a queue; `run_id` is None if it names no run to resume."""

    id: str
    run_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEvent:
    """A batch of messages from SQS."""

    messages: tuple[QueueMessage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartEvent:
    """`{"start": {"input": ..., "run_id": ..., "agent": ...}}`; the input is needed."""

    input: Any = field(repr=False)
    run_id: str | None = None
    agent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeEvent:
    """`{"resume": "run-id"}`."""

    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelEvent:
    """`{"cancel": {"run_id": ..., "reason": ..., "by": ...}}`; the id is needed."""

    run_id: str
    reason: str | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepEvent:
    """`{"sweep": true}`, or a schedule or rule of EventBridge that has come due."""


LambdaEvent: TypeAlias = (
    HttpEvent | QueueEvent | StartEvent | ResumeEvent | CancelEvent | SweepEvent
)

_SCHEDULE_SOURCES = ("aws.events", "aws.scheduler")


def parse_event(event: object, *, base_path: str = "") -> LambdaEvent:
    """Return what a function was called with.

    `base_path` is what a custom domain puts before every path. Raises `UnknownEvent`,
    `BadRequest` and `InvalidId`.
    """
    if not isinstance(event, dict):
        raise _unknown_event("it is no object")
    fields = cast("dict[str, Any]", event)
    if "requestContext" in fields:
        return HttpEvent(request=_parse_request(fields, base_path))
    if "Records" in fields:
        return _parse_queue(fields["Records"])
    if fields.get("source") in _SCHEDULE_SOURCES and "detail-type" in fields:
        return SweepEvent()
    return _parse_direct(fields)


def _unknown_event(detail: str) -> UnknownEvent:
    msg = (
        f"This event is of no kind that is taken here: {detail}. Nothing was done. "
        'Send HTTP, SQS, a schedule, or {"start": ...}, {"resume": ...}, '
        '{"cancel": ...} or {"sweep": true}.'
    )
    return UnknownEvent(msg)


# A caller -----------------------------------------------------------------------

# What each field is, and whether it must be there.
_START_FIELDS = {
    "input": (True, (str, list)),
    "run_id": (False, str),
    "agent": (False, str),
}
_CANCEL_FIELDS = {"run_id": (True, str), "reason": (False, str), "by": (False, str)}


def _parse_direct(event: dict[str, Any]) -> LambdaEvent:
    if len(event) != 1:
        raise _unknown_event("it has not exactly one field")
    [(verb, given)] = event.items()
    match verb:
        case "start":
            fields = _check_fields(verb, given, _START_FIELDS)
            if "run_id" in fields:
                layout.check_run_id(fields["run_id"])
            return StartEvent(**fields)
        case "resume":
            return ResumeEvent(run_id=layout.check_run_id(given))
        case "cancel":
            fields = _check_fields(verb, given, _CANCEL_FIELDS)
            layout.check_run_id(fields["run_id"])
            return CancelEvent(**fields)
        case "sweep" if given is True:
            return SweepEvent()
        case _:
            raise _unknown_event("its one field is none of these")


def _check_fields(verb: str, given: object, known: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise _unknown_event(f"{verb!r} is no object")
    fields = cast("dict[str, Any]", given)
    if fields.keys() - known.keys():
        raise _unknown_event(f"{verb!r} has only the fields {', '.join(known)}")
    for name, (needed, kind) in known.items():
        if name not in fields and needed:
            raise _unknown_event(f"{verb!r} needs the field {name!r}")
        if name in fields and not isinstance(fields[name], kind):
            raise _unknown_event(f"the field {name!r} of {verb!r} has another type")
    return fields


# A queue ------------------------------------------------------------------------


def _parse_queue(records: object) -> QueueEvent:
    if not isinstance(records, list):
        raise _unknown_event("its records are no list")
    each = cast("Iterable[Any]", records)
    return QueueEvent(messages=tuple(map(_parse_message, each)))


def _parse_message(record: Any) -> QueueMessage:
    # Also an event of S3 or SNS has records; only a queue's can be redelivered alone.
    match record:
        case {"eventSource": "aws:sqs", "messageId": str(message_id), "body": body}:
            return QueueMessage(id=message_id, run_id=_run_to_resume(body))
        case _:
            raise _unknown_event("its records are not those of SQS")


def _run_to_resume(body: object) -> str | None:
    try:
        event = _parse_direct(json.loads(cast("str", body)))
    except (TypeError, ValueError, AttributeError, RecursionError):
        return None
    return event.run_id if isinstance(event, ResumeEvent) else None


# HTTP ---------------------------------------------------------------------------


def _parse_request(event: dict[str, Any], base_path: str) -> Request:
    try:
        if event.get("version") == "2.0":
            return _parse_payload_2(event, base_path)
        return _parse_payload_1(event, base_path)
    except BadRequest:
        raise
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise BadRequest("The request cannot be read; nothing was done.") from error


def _parse_payload_2(event: dict[str, Any], base_path: str) -> Request:
    headers = _headers(event.get("headers"), None)
    # The gateway takes cookies out of the headers, and whoever verifies may need them.
    if cookies := event.get("cookies"):
        headers["cookie"] = "; ".join(cookies)
    # A stage that has a name stands before every path.
    stage = event["requestContext"].get("stage") or "$default"
    return Request(
        method=event["requestContext"]["http"]["method"].upper(),
        path=_path(_without_prefix(event["rawPath"], stage), base_path),
        query=dict(
            parse_qsl(event.get("rawQueryString") or "", keep_blank_values=True)
        ),
        headers=headers,
        body=_body(event),
    )


def _parse_payload_1(event: dict[str, Any], base_path: str) -> Request:
    many: dict[str, Any] = event.get("multiValueQueryStringParameters") or {}
    query: dict[str, Any] = {
        **(event.get("queryStringParameters") or {}),
        **{name: values[-1] for name, values in many.items()},
    }
    return Request(
        method=event["httpMethod"].upper(),
        path=_path(event["path"], base_path),
        query={
            _require_text(name): _require_text(value) for name, value in query.items()
        },
        headers=_headers(event.get("headers"), event.get("multiValueHeaders")),
        body=_body(event),
    )


def _path(path: str, base_path: str) -> str:
    return unquote(_without_prefix(path, base_path.strip("/")), errors="strict") or "/"


def _without_prefix(path: str, segment: str) -> str:
    prefix = f"/{segment}"
    return (
        path[len(prefix) :] if segment and f"{path}/".startswith(f"{prefix}/") else path
    )


def _headers(
    single: Mapping[str, Any] | None, multi_value: Mapping[str, Any] | None
) -> dict[str, str]:
    # Whatever case they were sent in; a repeated one is joined as RFC 9110 has it.
    found: dict[str, list[str]] = {}
    for name, value in _pairs(single, multi_value):
        found.setdefault(name.lower(), []).append(_require_text(value))
    return {name: ", ".join(values) for name, values in found.items()}


def _pairs(
    single: Mapping[str, Any] | None, multi_value: Mapping[str, Any] | None
) -> Iterator[tuple[str, Any]]:
    if not multi_value:
        yield from (single or {}).items()
        return
    for name, values in multi_value.items():
        for value in values:
            yield name, value


def _require_text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise BadRequest("A header or a part of the query is no text; nothing was done.")


def _body(event: dict[str, Any]) -> bytes:
    body = event.get("body")
    if body is None:
        return b""
    if not event.get("isBase64Encoded"):
        return _require_text(body).encode()
    try:
        return base64.b64decode(_require_text(body), validate=True)
    except binascii.Error as error:
        raise BadRequest("The body is no base64; nothing was done.") from error


def gateway_response(response: Response) -> dict[str, Any]:
    """Return a response in the one shape that every gateway understands."""
    return {
        "statusCode": response.status,
        "headers": dict(response.headers),
        "body": response.body,
        "isBase64Encoded": False,
    }
