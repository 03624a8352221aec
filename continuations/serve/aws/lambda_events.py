"""The events of AWS Lambda as plain values, parsed strictly.

An event with an unknown form raises `UnknownEvent`, and a malformed HTTP request raises
`BadRequest`, before anything is done.

The body of an HTTP request is one field of an event that the gateway made, so an HTTP
client cannot send other events. API Gateway needs a *proxy* integration for that: any
other integration passes the body on as the event.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast
from urllib.parse import parse_qsl, unquote

from continuations.errors import InvalidInput
from continuations.ledger import layout
from continuations.present import requests
from continuations.serve.http.request_fields import start_options
from continuations.serve.http.request_response import Request, Response
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class UnknownEvent(InvalidInput):
    """The event has no known form. Nothing was done."""


class BadRequest(InvalidInput):
    """The HTTP request is malformed. Nothing was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpEvent:
    """An HTTP request through a Function URL or API Gateway (payload 1.0 or 2.0)."""

    request: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMessage:
    """One message of a queue; `resume` is None if the message resumes no run."""

    id: str
    resume: ResumeEvent | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEvent:
    """A batch of SQS messages."""

    messages: tuple[QueueMessage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeEvent:
    """`{"resume": "run-id"}`, or `{"resume": {"run_id": ..., "reopen": true}}`."""

    run_id: str
    reopen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionsEvent:
    """`{"start": {...}}`, `{"thread": {...}}` or `{"cancel": {...}}`.

    The fields are those of the same request over HTTP, with `by` and the id of the run.
    With the field `files`, the text has the attachments.

    Attributes:
        verb: The name of the field.
        options: The arguments of the runner's method by their names.
    """

    verb: Literal["start", "thread", "cancel"]
    options: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepEvent:
    """`{"sweep": true}`, or an event of an EventBridge schedule or rule."""


LambdaEvent: TypeAlias = (
    HttpEvent | QueueEvent | OptionsEvent | ResumeEvent | SweepEvent
)

_SCHEDULE_SOURCES = ("aws.events", "aws.scheduler")


def parse_event(event: object) -> LambdaEvent:
    """Return the typed event.

    Raises:
        UnknownEvent: The event has no known form.
        BadRequest: The event is a malformed HTTP request.
        InvalidId: The run id is not valid.
    """
    if not isinstance(event, dict):
        raise _unknown_event("it is not an object")
    fields = cast("dict[str, Any]", event)
    if "requestContext" in fields:
        return HttpEvent(request=_parse_request(fields))
    if "Records" in fields:
        return _parse_queue(fields["Records"])
    if fields.get("source") in _SCHEDULE_SOURCES and "detail-type" in fields:
        return SweepEvent()
    return _parse_direct(fields)


def _unknown_event(detail: str) -> UnknownEvent:
    msg = (
        f"unknown Lambda event: {detail}. Nothing was done. Send an HTTP request, an "
        'SQS message, a schedule, {"start": ...}, {"thread": ...}, {"resume": ...}, '
        '{"cancel": ...} or {"sweep": true}.'
    )
    return UnknownEvent(msg)


# Direct invocations -------------------------------------------------------------

_TEXT = {"type": "string"}
# The fields that an event has besides those of the request over HTTP, and those that
# are required.
_OWN_FIELDS: Mapping[str, tuple[str, Mapping[str, Any], tuple[str, ...]]] = {
    "start": (
        "start_request",
        {"input": {"type": ["string", "array", "object"]}, "by": _TEXT},
        ("input",),
    ),
    "thread": (
        "message_request",
        {"key": _TEXT, "message": _TEXT, "agent": _TEXT, "by": _TEXT},
        ("key", "message"),
    ),
    "resume": ("resume_request", {"run_id": _TEXT}, ("run_id",)),
    "cancel": ("cancel_request", {"run_id": _TEXT, "by": _TEXT}, ("run_id",)),
}
# An event of a thread has `message`, and always waits for the reply.
_NOT_IN_EVENTS = frozenset({"text", "wait"})


def _parse_direct(event: dict[str, Any]) -> LambdaEvent:
    if len(event) != 1:
        raise _unknown_event("it must have exactly one field")
    [(verb, value)] = event.items()
    match verb:
        case "start":
            fields = start_options(_check_fields(verb, value))
            if "run_id" in fields:
                from continuations.engine.start.new_run import check_new_run_id  # noqa: PLC0415 - a decision starts no run

                check_new_run_id(fields["run_id"])
            return OptionsEvent(verb=verb, options=_with_files(fields, verb, "input"))
        case "thread":
            fields = _with_files(_check_fields(verb, value), verb, "message")
            return OptionsEvent(verb=verb, options=fields)
        case "resume" if isinstance(value, dict):
            fields = _check_fields(verb, cast("object", value))
            layout.check_run_id(fields["run_id"])
            return ResumeEvent(**fields)
        case "resume":
            return ResumeEvent(run_id=layout.check_run_id(value, "resume"))
        case "cancel":
            fields = _check_fields(verb, value)
            layout.check_run_id(fields["run_id"])
            return OptionsEvent(verb=verb, options=fields)
        case "sweep" if value is True:
            return SweepEvent()
        case _:
            raise _unknown_event("its field has another name or value")


def _check_fields(verb: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _unknown_event(f"{verb!r} must be an object")
    fields = cast("dict[str, Any]", value)
    name, own, required = _OWN_FIELDS[verb]
    of_request = requests.REQUESTS[name]["properties"].items()
    shared = {key: shape for key, shape in of_request if key not in _NOT_IN_EVENTS}
    schema = {"properties": {**shared, **own}, "required": required}
    try:
        requests.check_fields(fields, schema, repr(verb))
    except requests.FieldsInvalid as error:
        raise _unknown_event(f"in {verb!r}, {str(error).rstrip('.')}") from None
    return fields


def _with_files(fields: dict[str, Any], verb: str, name: str) -> dict[str, Any]:
    """Return the fields with the attachments of `files` beside the text `name`."""
    if "files" not in fields:
        return fields
    others = {key: value for key, value in fields.items() if key != "files"}
    if not isinstance(others[name], str) or not others[name]:
        detail = f"beside 'files', the field {name!r} of {verb!r} must be a text"
        raise _unknown_event(detail)
    try:
        text = requests.text_with_files(others[name], fields["files"])
    except requests.FieldsInvalid as error:
        # Lambda cuts nothing: it refuses an event that is larger.
        detail = (
            f"in {verb!r}, {str(error).rstrip('.')}. Lambda passes on at most 6 MB, "
            "which are about 4.5 MB of attachments; 1 MB if no response is awaited"
        )
        raise _unknown_event(detail) from None
    return {**others, name: text}


# Queues -------------------------------------------------------------------------


def _parse_queue(records: object) -> QueueEvent:
    if not isinstance(records, list):
        raise _unknown_event("Records must be a list")
    messages = map(_parse_message, cast("Iterable[Any]", records))
    return QueueEvent(messages=tuple(messages))


def _parse_message(record: Any) -> QueueMessage:
    # Events of S3 and SNS have records too, but only SQS can redeliver one of them.
    match record:
        case {"eventSource": "aws:sqs", "messageId": str(message_id), "body": body}:
            return QueueMessage(id=message_id, resume=_resume_event(body))
        case _:
            raise _unknown_event("Records are not SQS messages")


def _resume_event(body: object) -> ResumeEvent | None:
    try:
        event = _parse_direct(json.loads(cast("str", body)))
    except (TypeError, ValueError, AttributeError, RecursionError):
        return None
    return event if isinstance(event, ResumeEvent) else None


# HTTP ---------------------------------------------------------------------------


def _parse_request(event: dict[str, Any]) -> Request:
    try:
        if event.get("version") == "2.0":
            return _parse_payload_2(event)
        return _parse_payload_1(event)
    except BadRequest:
        raise
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise BadRequest("The event is not a valid HTTP request.") from error


def _parse_payload_2(event: dict[str, Any]) -> Request:
    headers, _ = _headers(event.get("headers"), None)
    # The gateway removes cookies from the headers, and a verifier may need them.
    if cookies := event.get("cookies"):
        headers["cookie"] = "; ".join(cookies)
    # The name of a stage is the first segment of every path.
    stage = event["requestContext"].get("stage") or "$default"
    raw_path = _without_stage(event["rawPath"], stage)
    return Request(
        method=event["requestContext"]["http"]["method"].upper(),
        path=_decode_path(raw_path),
        query=dict(
            parse_qsl(event.get("rawQueryString") or "", keep_blank_values=True)
        ),
        headers=headers,
        body=_body(event),
        raw_path=raw_path,
    )


def _parse_payload_1(event: dict[str, Any]) -> Request:
    many: dict[str, Any] = event.get("multiValueQueryStringParameters") or {}
    query: dict[str, Any] = {
        **(event.get("queryStringParameters") or {}),
        **{name: values[-1] for name, values in many.items()},
    }
    headers, repeated = _headers(event.get("headers"), event.get("multiValueHeaders"))
    return Request(
        method=event["httpMethod"].upper(),
        path=_decode_path(event["path"]),
        query={
            _require_text(name): _require_text(value) for name, value in query.items()
        },
        headers=headers,
        body=_body(event),
        raw_path=event["path"],
        repeated=repeated,
    )


def _decode_path(path: str) -> str:
    return unquote(path, errors="strict") or "/"


def _without_stage(path: str, stage: str) -> str:
    prefix = f"/{stage}"
    return path[len(prefix) :] if f"{path}/".startswith(f"{prefix}/") else path


def _headers(
    single: Mapping[str, Any] | None, multi_value: Mapping[str, Any] | None
) -> tuple[dict[str, str], frozenset[str]]:
    """Return the headers, and the names of those that the request has repeatedly."""
    # Names have any case; values of a repeated name are joined (RFC 9110, 5.3).
    headers: dict[str, list[str]] = {}
    for name, value in _pairs(single, multi_value):
        headers.setdefault(name.lower(), []).append(_require_text(value))
    repeated = frozenset(name for name, values in headers.items() if len(values) > 1)
    return {name: ", ".join(values) for name, values in headers.items()}, repeated


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
    raise BadRequest("A header, query parameter or the body is not a string.")


def _body(event: dict[str, Any]) -> bytes:
    body = event.get("body")
    if body is None:
        return b""
    if not event.get("isBase64Encoded"):
        return _require_text(body).encode()
    try:
        return base64.b64decode(_require_text(body), validate=True)
    except binascii.Error as error:
        raise BadRequest("The body is not valid base64.") from error


def gateway_response(response: Response) -> dict[str, Any]:
    """Return a response in the format of Function URLs and API Gateway."""
    data = response.data
    return {
        "statusCode": response.status,
        "headers": dict(response.headers),
        "body": response.body if data is None else base64.b64encode(data).decode(),
        "isBase64Encoded": data is not None,
    }
