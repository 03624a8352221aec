"""What AWS calls a function with, read strictly: tables of every gateway and source."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from continuations.errors import InvalidId
from continuations.serve.aws_events import (
    BadRequest,
    Cancel,
    Http,
    Message,
    Queue,
    Resume,
    Start,
    Sweep,
    UnknownEvent,
    answer_of,
    event_of,
)
from continuations.serve.http import Request, Response

BODY = b'{"decision": "approve"}'
AS_BASE64 = base64.b64encode(BODY).decode()

# A Function URL, and HTTP API with and without a stage that has a name.
URL: dict[str, Any] = {
    "version": "2.0",
    "routeKey": "$default",
    "rawPath": "/waits/approval-1%40r-1/decision",
    "rawQueryString": "a=1&b=%C3%BC&a=2&c=",
    "cookies": ["s=1", "t=2"],
    "headers": {"content-type": "application/json", "x-who": "kim"},
    "requestContext": {
        "accountId": "anonymous",
        "domainName": "abc.lambda-url.eu-central-1.on.aws",
        "http": {"method": "POST", "path": "/", "sourceIp": "192.0.2.1"},
        "stage": "$default",
    },
    "body": BODY.decode(),
    "isBase64Encoded": False,
}
# REST API: headers in the case that they were sent in, each with all its values.
REST: dict[str, Any] = {
    "resource": "/{proxy+}",
    "path": "/waits/approval-1@r-1/decision",
    "httpMethod": "POST",
    "headers": {"Content-Type": "application/json", "X-Who": "kim", "cookie": "t=2"},
    "multiValueHeaders": {
        "Content-Type": ["application/json"],
        "X-Who": ["kim"],
        "cookie": ["s=1; t=2"],
    },
    "queryStringParameters": {"a": "2", "b": "ü", "c": ""},
    "multiValueQueryStringParameters": {"a": ["1", "2"], "b": ["ü"], "c": [""]},
    "requestContext": {"stage": "prod", "path": "/prod/waits/approval-1@r-1/decision"},
    "body": AS_BASE64,
    "isBase64Encoded": True,
}
STAGED = {**URL["requestContext"], "stage": "prod"}

GATEWAYS: dict[str, dict[str, Any]] = {
    "Function URL": URL,
    "Function URL, base64": {**URL, "body": AS_BASE64, "isBase64Encoded": True},
    "HTTP API, with a stage": {
        **URL,
        "rawPath": "/prod" + URL["rawPath"],
        "requestContext": STAGED,
    },
    "HTTP API, a stage hidden by a domain": {**URL, "requestContext": STAGED},
    "HTTP API, headers in another case": {
        **URL,
        "headers": {"Content-Type": "application/json", "X-WHO": "kim"},
    },
    "HTTP API, format 1.0": {"version": "1.0", **REST},
    "REST API": REST,
    "REST API, plain": {**REST, "body": BODY.decode(), "isBase64Encoded": False},
    "REST API, only single values": {
        **REST,
        "headers": {**REST["headers"], "cookie": "s=1; t=2"},
        "multiValueHeaders": None,
        "multiValueQueryStringParameters": None,
    },
}


@pytest.mark.parametrize("gateway", GATEWAYS)
def test_every_gateway_says_the_same(gateway: str) -> None:
    """R-G4: raw bytes also where they came as base64, headers in any case."""
    event = event_of(GATEWAYS[gateway])

    assert isinstance(event, Http)
    assert event.request == Request(
        method="POST",
        path="/waits/approval-1@r-1/decision",
        query={"a": "2", "b": "ü", "c": ""},
        headers={
            "content-type": "application/json",
            "x-who": "kim",
            "cookie": "s=1; t=2",
        },
        body=BODY,
    )


@pytest.mark.parametrize("base_path", ["runs", "/runs", "/runs/"])
@pytest.mark.parametrize(
    ("path", "inside"),
    [("/runs/waits", "/waits"), ("/runs", "/"), ("/runsome/waits", "/runsome/waits")],
)
def test_what_a_domain_puts_before_every_path_is_taken_away(
    base_path: str, path: str, inside: str
) -> None:
    found = event_of({**REST, "path": path}, base_path=base_path)

    assert isinstance(found, Http)
    assert inside == found.request.path


def test_repeated_headers_are_joined_and_no_body_is_empty() -> None:
    event = {**REST, "multiValueHeaders": {"X-A": ["1", "2"], "x-a": ["3"]}}
    found = event_of({**event, "body": None})

    assert isinstance(found, Http)
    assert {"x-a": "1, 2, 3"} == found.request.headers
    assert b"" == found.request.body


CONTEXT = URL["requestContext"]
BROKEN: dict[str, dict[str, Any]] = {
    "no method": {**URL, "requestContext": {"http": {}}},
    "a context that is none": {**URL, "requestContext": 1},
    "no path": {key: value for key, value in URL.items() if key != "rawPath"},
    "a path that is no text": {**URL, "rawPath": 1},
    "a path that is no UTF-8": {**URL, "rawPath": "/%ff"},
    "a query that is no text": {**URL, "rawQueryString": 7},
    "headers that are none": {**URL, "headers": [1]},
    "a header that is no text": {**URL, "headers": {"a": None}},
    "cookies that are none": {**URL, "cookies": [1]},
    "a body that is an object": {**URL, "body": {"decision": "approve"}},
    "a body with half a surrogate": {**URL, "body": "\ud800"},
    "a body that is no base64": {**URL, "body": "%%%", "isBase64Encoded": True},
    "base64 that is no ASCII": {**URL, "body": "ü", "isBase64Encoded": True},
    "REST without a method": {**REST, "httpMethod": None},
    "REST without a path": {**REST, "path": None},
    "REST with an empty list": {
        **REST,
        "multiValueQueryStringParameters": {"a": []},
    },
    "a socket": {"requestContext": {"connectionId": "c", "eventType": "MESSAGE"}},
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_request_is_told_from_an_unknown_event(fault: str) -> None:
    """R-G4: bad input of any kind is the caller's fault, and has a name."""
    with pytest.raises(BadRequest):
        event_of(BROKEN[fault])


def sqs(*bodies: Any) -> dict[str, Any]:
    """Return a batch of messages."""
    return {
        "Records": [
            {"eventSource": "aws:sqs", "messageId": str(number), "body": body}
            for number, body in enumerate(bodies)
        ]
    }


OTHERS: dict[str, tuple[Any, Any]] = {
    "a start": ({"start": {"input": "go"}}, Start(input="go")),
    "a start with all": (
        {"start": {"input": [{"role": "user"}], "run_id": "r-1", "agent": "hr"}},
        Start(input=[{"role": "user"}], run_id="r-1", agent="hr"),
    ),
    "a resume": ({"resume": "r-1"}, Resume(run_id="r-1")),
    "a cancel": ({"cancel": {"run_id": "r-1"}}, Cancel(run_id="r-1")),
    "a cancel with all": (
        {"cancel": {"run_id": "r-1", "by": "kim", "reason": "Enough."}},
        Cancel(run_id="r-1", by="kim", reason="Enough."),
    ),
    "a sweep": ({"sweep": True}, Sweep()),
    "a rule": (
        {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}},
        Sweep(),
    ),
    "a schedule": (
        {"source": "aws.scheduler", "detail-type": "Scheduled Event", "detail": "{}"},
        Sweep(),
    ),
    "a queue": (
        sqs('{"resume": "r-1"}', '{"resume": "r-2"}'),
        Queue(messages=(Message(id="0", run_id="r-1"), Message(id="1", run_id="r-2"))),
    ),
    "an empty queue": (sqs(), Queue(messages=())),
}


@pytest.mark.parametrize("name", OTHERS)
def test_every_other_source(name: str) -> None:
    given, expected = OTHERS[name]

    assert expected == event_of(given)


STRANGE: list[Any] = [
    "r-1",
    "",
    "{",
    "[]",
    "null",
    None,
    {},
    '{"resume": 1}',
    '{"resume": "../x"}',
    '{"start": {"input": "go"}}',
    '{"sweep": true}',
    '{"resume": "r-1", "more": 1}',
    "[" * 100_000,
]


@pytest.mark.parametrize("body", STRANGE, ids=range(len(STRANGE)))
def test_a_message_that_names_no_run_is_still_a_message(body: Any) -> None:
    """It is not worth the rest of its batch."""
    expected = (Message(id="0", run_id=None), Message(id="1", run_id="r-1"))

    assert Queue(messages=expected) == event_of(sqs(body, '{"resume": "r-1"}'))


UNKNOWN: list[Any] = [
    None,
    [],
    "resume",
    {},
    {"resume": "r-1", "sweep": True},
    {"sweep": 1},
    {"sweep": False},
    {"sweep": "true"},
    {"start": "go"},
    {"start": {}},
    {"start": {"input": 1}},
    {"start": {"input": None}},
    {"start": {"input": "go", "run_id": None}},
    {"start": {"input": "go", "runid": "r-1"}},
    {"cancel": "r-1"},
    {"cancel": {"by": "kim"}},
    {"cancel": {"run_id": "r-1", "by": True}},
    {"decide": "r-1"},
    {"source": "aws.s3", "detail-type": "Object Created", "detail": {}},
    {"source": "aws.events"},
    {"Records": {}},
    {"Records": ["x"]},
    {"Records": [{"eventSource": "aws:s3", "s3": {}}]},
    {"Records": [{"EventSource": "aws:sns", "Sns": {}}]},
    {"Records": [{"eventSource": "aws:sqs", "messageId": 1, "body": "{}"}]},
]


@pytest.mark.parametrize("given", UNKNOWN, ids=range(len(UNKNOWN)))
def test_what_is_none_of_them_is_refused_by_name(given: Any) -> None:
    with pytest.raises(UnknownEvent, match="Nothing was done"):
        event_of(given)


@pytest.mark.parametrize("run_id", ["", "../r", "a b", "x" * 201, 7, None, "r\n"])
def test_an_id_that_is_none_is_refused_as_such(run_id: Any) -> None:
    with pytest.raises(InvalidId):
        event_of({"resume": run_id})


def test_an_error_tells_nothing_of_what_was_sent() -> None:
    with pytest.raises(UnknownEvent) as raised:
        event_of({"password": "hunter2", "start": {"input": "hunter2"}})

    assert "hunter2" not in str(raised.value)
    assert "hunter2" not in repr(event_of({"start": {"input": "hunter2"}}))


def test_an_answer_has_the_shape_that_every_gateway_takes() -> None:
    response = Response(status=409, headers={"a": "b"}, body="ü")

    assert answer_of(response) == {
        "statusCode": 409,
        "headers": {"a": "b"},
        "body": "ü",
        "isBase64Encoded": False,
    }
