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
from continuations.serve.http import Request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from continuations.serve.http import Response

__all__ = [
    "BadRequest",
    "Cancel",
    "Event",
    "Http",
    "Message",
    "Queue",
    "Resume",
    "Start",
    "Sweep",
    "UnknownEvent",
    "answer_of",
    "event_of",
]


class UnknownEvent(InvalidInput):
    """An event of no kind that this function takes; nothing was done."""


class BadRequest(InvalidInput):
    """An HTTP request that the gateway or its caller broke; nothing was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Http:
    """A request to a Function URL or to API Gateway, 1.0 or 2.0."""

    request: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a queue; `run_id` is None if it names no run to resume."""

    id: str
    run_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A batch of messages from SQS."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """`{"start": {"input": ..., "run_id": ..., "agent": ...}}`; the input is needed."""

    input: Any = field(repr=False)
    run_id: str | None = None
    agent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """`{"resume": "run-id"}`."""

    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """`{"cancel": {"run_id": ..., "reason": ..., "by": ...}}`; the id is needed."""

    run_id: str
    reason: str | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """`{"sweep": true}`, or a schedule or rule of EventBridge that has come due."""


Event: TypeAlias = Http | Queue | Start | Resume | Cancel | Sweep

_CLOCKS = ("aws.events", "aws.scheduler")


def event_of(event: object, *, base_path: str = "") -> Event:
    """Return what a function was called with.

    `base_path` is what a custom domain puts before every path. Raises `UnknownEvent`,
    `BadRequest` and `InvalidId`.
    """
    if not isinstance(event, dict):
        raise _unknown("it is no object")
    fields = cast("dict[str, Any]", event)
    if "requestContext" in fields:
        return Http(request=_request(fields, base_path))
    if "Records" in fields:
        return _queue(fields["Records"])
    if fields.get("source") in _CLOCKS and "detail-type" in fields:
        return Sweep()
    return _direct(fields)


def _unknown(detail: str) -> UnknownEvent:
    msg = (
        f"This event is of no kind that is taken here: {detail}. Nothing was done. "
        'Send HTTP, SQS, a schedule, or {"start": ...}, {"resume": ...}, '
        '{"cancel": ...} or {"sweep": true}.'
    )
    return UnknownEvent(msg)


# A caller -----------------------------------------------------------------------

# What each field is, and whether it must be there.
_START = {"input": (True, (str, list)), "run_id": (False, str), "agent": (False, str)}
_CANCEL = {"run_id": (True, str), "reason": (False, str), "by": (False, str)}


def _direct(event: dict[str, Any]) -> Event:
    if len(event) != 1:
        raise _unknown("it has not exactly one field")
    [(verb, given)] = event.items()
    match verb:
        case "start":
            fields = _fields(verb, given, _START)
            if "run_id" in fields:
                layout.check_run_id(fields["run_id"])
            return Start(**fields)
        case "resume":
            return Resume(run_id=layout.check_run_id(given))
        case "cancel":
            fields = _fields(verb, given, _CANCEL)
            layout.check_run_id(fields["run_id"])
            return Cancel(**fields)
        case "sweep" if given is True:
            return Sweep()
        case _:
            raise _unknown("its one field is none of these")


def _fields(verb: str, given: object, known: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise _unknown(f"{verb!r} is no object")
    fields = cast("dict[str, Any]", given)
    if fields.keys() - known.keys():
        raise _unknown(f"{verb!r} has only the fields {', '.join(known)}")
    for name, (needed, kind) in known.items():
        if name not in fields and needed:
            raise _unknown(f"{verb!r} needs the field {name!r}")
        if name in fields and not isinstance(fields[name], kind):
            raise _unknown(f"the field {name!r} of {verb!r} has another type")
    return fields


# A queue ------------------------------------------------------------------------


def _queue(records: object) -> Queue:
    if not isinstance(records, list):
        raise _unknown("its records are no list")
    each = cast("Iterable[Any]", records)
    return Queue(messages=tuple(map(_message, each)))


def _message(record: Any) -> Message:
    # Also an event of S3 or SNS has records; only a queue's can be redelivered alone.
    match record:
        case {"eventSource": "aws:sqs", "messageId": str(message_id), "body": body}:
            return Message(id=message_id, run_id=_named(body))
        case _:
            raise _unknown("its records are not those of SQS")


def _named(body: object) -> str | None:
    try:
        event = _direct(json.loads(cast("str", body)))
    except (TypeError, ValueError, AttributeError, RecursionError):
        return None
    return event.run_id if isinstance(event, Resume) else None


# HTTP ---------------------------------------------------------------------------


def _request(event: dict[str, Any], base_path: str) -> Request:
    try:
        if event.get("version") == "2.0":
            return _request_2(event, base_path)
        return _request_1(event, base_path)
    except BadRequest:
        raise
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise BadRequest("The request cannot be read; nothing was done.") from error


def _request_2(event: dict[str, Any], base_path: str) -> Request:
    headers = _headers(event.get("headers"), None)
    # The gateway takes cookies out of the headers, and whoever verifies may need them.
    if cookies := event.get("cookies"):
        headers["cookie"] = "; ".join(cookies)
    # A stage that has a name stands before every path.
    stage = event["requestContext"].get("stage") or "$default"
    return Request(
        method=event["requestContext"]["http"]["method"].upper(),
        path=_path(_without(event["rawPath"], stage), base_path),
        query=dict(
            parse_qsl(event.get("rawQueryString") or "", keep_blank_values=True)
        ),
        headers=headers,
        body=_body(event),
    )


def _request_1(event: dict[str, Any], base_path: str) -> Request:
    many: dict[str, Any] = event.get("multiValueQueryStringParameters") or {}
    query: dict[str, Any] = {
        **(event.get("queryStringParameters") or {}),
        **{name: values[-1] for name, values in many.items()},
    }
    return Request(
        method=event["httpMethod"].upper(),
        path=_path(event["path"], base_path),
        query={_text(name): _text(value) for name, value in query.items()},
        headers=_headers(event.get("headers"), event.get("multiValueHeaders")),
        body=_body(event),
    )


def _path(path: str, base_path: str) -> str:
    return unquote(_without(path, base_path.strip("/")), errors="strict") or "/"


def _without(path: str, first: str) -> str:
    prefix = f"/{first}"
    return (
        path[len(prefix) :] if first and f"{path}/".startswith(f"{prefix}/") else path
    )


def _headers(
    single: Mapping[str, Any] | None, many: Mapping[str, Any] | None
) -> dict[str, str]:
    # Whatever case they were sent in; a repeated one is joined as RFC 9110 has it.
    found: dict[str, list[str]] = {}
    for name, value in _pairs(single, many):
        found.setdefault(name.lower(), []).append(_text(value))
    return {name: ", ".join(values) for name, values in found.items()}


def _pairs(
    single: Mapping[str, Any] | None, many: Mapping[str, Any] | None
) -> Iterator[tuple[str, Any]]:
    if not many:
        yield from (single or {}).items()
        return
    for name, values in many.items():
        for value in values:
            yield name, value


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise BadRequest("A header or a part of the query is no text; nothing was done.")


def _body(event: dict[str, Any]) -> bytes:
    body = event.get("body")
    if body is None:
        return b""
    if not event.get("isBase64Encoded"):
        return _text(body).encode()
    try:
        return base64.b64decode(_text(body), validate=True)
    except binascii.Error as error:
        raise BadRequest("The body is no base64; nothing was done.") from error


def answer_of(response: Response) -> dict[str, Any]:
    """Return a response in the one shape that every gateway understands."""
    return {
        "statusCode": response.status,
        "headers": dict(response.headers),
        "body": response.body,
        "isBase64Encoded": False,
    }
