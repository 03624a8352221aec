"""Events of AWS Lambda: every gateway and source, parsed strictly."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import pytest

from continuations import Budget
from continuations.attachments import Image
from continuations.errors import InvalidId
from continuations.ledger.layout import thread_run_id
from continuations.serve.aws.lambda_events import (
    BadRequest,
    HttpEvent,
    OptionsEvent,
    QueueEvent,
    QueueMessage,
    ResumeEvent,
    SweepEvent,
    UnknownEvent,
    gateway_response,
    parse_event,
)
from continuations.serve.http.request_response import Request, Response

BODY = b'{"decision": "approve"}'
AS_BASE64 = base64.b64encode(BODY).decode()

# A Function URL, and HTTP API with and without a stage that has a name.
FUNCTION_URL_EVENT: dict[str, Any] = {
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
REST_API_EVENT: dict[str, Any] = {
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
STAGE_CONTEXT = {**FUNCTION_URL_EVENT["requestContext"], "stage": "prod"}

GATEWAYS: dict[str, dict[str, Any]] = {
    "Function URL": FUNCTION_URL_EVENT,
    "Function URL, base64": {
        **FUNCTION_URL_EVENT,
        "body": AS_BASE64,
        "isBase64Encoded": True,
    },
    "HTTP API, with a stage": {
        **FUNCTION_URL_EVENT,
        "rawPath": "/prod" + FUNCTION_URL_EVENT["rawPath"],
        "requestContext": STAGE_CONTEXT,
    },
    "HTTP API, a stage hidden by a domain": {
        **FUNCTION_URL_EVENT,
        "requestContext": STAGE_CONTEXT,
    },
    "HTTP API, headers in another case": {
        **FUNCTION_URL_EVENT,
        "headers": {"Content-Type": "application/json", "X-WHO": "kim"},
    },
    "HTTP API, format 1.0": {"version": "1.0", **REST_API_EVENT},
    "REST API": REST_API_EVENT,
    "REST API, plain": {
        **REST_API_EVENT,
        "body": BODY.decode(),
        "isBase64Encoded": False,
    },
    "REST API, only single values": {
        **REST_API_EVENT,
        "headers": {**REST_API_EVENT["headers"], "cookie": "s=1; t=2"},
        "multiValueHeaders": None,
        "multiValueQueryStringParameters": None,
    },
}


@pytest.mark.parametrize("gateway", GATEWAYS)
def test_every_gateway_event_becomes_the_same_request(gateway: str) -> None:
    """The body is decoded from base64, and header names are lower case."""
    event = parse_event(GATEWAYS[gateway])

    assert isinstance(event, HttpEvent)
    raw_path = event.request.raw_path
    assert "/waits/approval-1@r-1/decision" == unquote(raw_path or "")
    assert replace(event.request, raw_path=None) == Request(
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


def test_repeated_headers_are_joined_and_no_body_is_empty() -> None:
    event = {**REST_API_EVENT, "multiValueHeaders": {"X-A": ["1", "2"], "x-a": ["3"]}}
    found = parse_event({**event, "body": None})

    assert isinstance(found, HttpEvent)
    assert {"x-a": "1, 2, 3"} == found.request.headers
    assert {"x-a"} == found.request.repeated
    assert b"" == found.request.body


BROKEN_REQUESTS: dict[str, dict[str, Any]] = {
    "no method": {**FUNCTION_URL_EVENT, "requestContext": {"http": {}}},
    "an invalid context": {**FUNCTION_URL_EVENT, "requestContext": 1},
    "no path": {
        key: value for key, value in FUNCTION_URL_EVENT.items() if key != "rawPath"
    },
    "a path that is not text": {**FUNCTION_URL_EVENT, "rawPath": 1},
    "a path that is not UTF-8": {**FUNCTION_URL_EVENT, "rawPath": "/%ff"},
    "a query that is not text": {**FUNCTION_URL_EVENT, "rawQueryString": 7},
    "invalid headers": {**FUNCTION_URL_EVENT, "headers": [1]},
    "a header that is not text": {**FUNCTION_URL_EVENT, "headers": {"a": None}},
    "invalid cookies": {**FUNCTION_URL_EVENT, "cookies": [1]},
    "a body that is an object": {**FUNCTION_URL_EVENT, "body": {"decision": "approve"}},
    "a body with a lone surrogate": {**FUNCTION_URL_EVENT, "body": "\ud800"},
    "a body that is not base64": {
        **FUNCTION_URL_EVENT,
        "body": "%%%",
        "isBase64Encoded": True,
    },
    "base64 that is not ASCII": {
        **FUNCTION_URL_EVENT,
        "body": "ü",
        "isBase64Encoded": True,
    },
    "REST without a method": {**REST_API_EVENT, "httpMethod": None},
    "REST without a path": {**REST_API_EVENT, "path": None},
    "REST with an empty list": {
        **REST_API_EVENT,
        "multiValueQueryStringParameters": {"a": []},
    },
    "a websocket": {"requestContext": {"connectionId": "c", "eventType": "MESSAGE"}},
}


@pytest.mark.parametrize("case", BROKEN_REQUESTS)
def test_broken_request_raises_bad_request(case: str) -> None:
    with pytest.raises(BadRequest):
        parse_event(BROKEN_REQUESTS[case])


def sqs_event(*bodies: Any) -> dict[str, Any]:
    """Return an event with SQS messages."""
    return {
        "Records": [
            {"eventSource": "aws:sqs", "messageId": str(number), "body": body}
            for number, body in enumerate(bodies)
        ]
    }


PHOTO = Image(b"PNG", "image/png", "a.png")
PHOTO_JSON = {"data": "UE5H", "media_type": "image/png", "name": "a.png"}


def _options(verb: Any, **options: Any) -> OptionsEvent:
    return OptionsEvent(verb=verb, options=options)


OTHER_EVENTS: dict[str, tuple[Any, Any]] = {
    "a start": ({"start": {"input": "go"}}, _options("start", input="go")),
    "a start with all": (
        {"start": {"input": [{"role": "user"}], "run_id": "r-1", "agent": "hr"}},
        _options("start", input=[{"role": "user"}], run_id="r-1", agent="hr"),
    ),
    "a start with a budget": (
        {"start": {"input": "go", "budget": {"tokens": 10, "cost": "2.50"}}},
        _options("start", input="go", budget=Budget(tokens=10, cost="2.50")),
    ),
    "a start that only stores the run": (
        {"start": {"input": "go", "work": False}},
        _options("start", input="go", work=False),
    ),
    "a start with files": (
        {"start": {"input": "go", "files": [PHOTO_JSON]}},
        _options("start", input=["go", PHOTO]),
    ),
    "a message with files": (
        {"thread": {"key": "42", "message": "hello", "files": [PHOTO_JSON]}},
        _options("thread", key="42", message=["hello", PHOTO]),
    ),
    "a resume": ({"resume": "r-1"}, ResumeEvent(run_id="r-1")),
    "a message": (
        {"thread": {"key": "customer 42", "message": "hello"}},
        _options("thread", key="customer 42", message="hello"),
    ),
    "a message with all": (
        {
            "thread": {
                "agent": "support",
                "key": "customer 42",
                "message": "hello",
                "id": "m-1",
                "by": "ann",
                "when_busy": "merge",
            }
        },
        _options(
            "thread",
            agent="support",
            key="customer 42",
            message="hello",
            id="m-1",
            by="ann",
            when_busy="merge",
        ),
    ),
    "a cancel": ({"cancel": {"run_id": "r-1"}}, _options("cancel", run_id="r-1")),
    "a cancel with all": (
        {"cancel": {"run_id": "r-1", "by": "kim", "reason": "Enough."}},
        _options("cancel", run_id="r-1", by="kim", reason="Enough."),
    ),
    "a sweep": ({"sweep": True}, SweepEvent()),
    "a rule": (
        {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}},
        SweepEvent(),
    ),
    "a schedule": (
        {"source": "aws.scheduler", "detail-type": "Scheduled Event", "detail": "{}"},
        SweepEvent(),
    ),
    "a queue": (
        sqs_event('{"resume": "r-1"}', '{"resume": "r-2"}'),
        QueueEvent(
            messages=(
                QueueMessage(id="0", resume=ResumeEvent(run_id="r-1")),
                QueueMessage(id="1", resume=ResumeEvent(run_id="r-2")),
            )
        ),
    ),
    "an empty queue": (sqs_event(), QueueEvent(messages=())),
}


@pytest.mark.parametrize("name", OTHER_EVENTS)
def test_every_other_event_source_is_recognized(name: str) -> None:
    event, expected = OTHER_EVENTS[name]

    assert expected == parse_event(event)


BODIES_WITHOUT_RUN: list[Any] = [
    "r-1",
    "",
    "{",
    "[]",
    "null",
    None,
    {},
    '{"resume": 1}',
    '{"resume": "../x"}',
    '{"resume": {"reopen": true}}',
    '{"resume": {"run_id": "r-1", "reopn": true}}',
    '{"start": {"input": "go"}}',
    '{"sweep": true}',
    '{"resume": "r-1", "more": 1}',
    "[" * 100_000,
]


@pytest.mark.parametrize("body", BODIES_WITHOUT_RUN, ids=range(len(BODIES_WITHOUT_RUN)))
def test_queue_message_without_a_run_is_kept(body: Any) -> None:
    """The rest of its batch is processed."""
    expected = (
        QueueMessage(id="0", resume=None),
        QueueMessage(id="1", resume=ResumeEvent(run_id="r-1")),
    )

    assert QueueEvent(messages=expected) == parse_event(
        sqs_event(body, '{"resume": "r-1"}')
    )


UNKNOWN_EVENTS: list[Any] = [
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
    {"start": {"input": "go", "work": 0}},
    {"start": {"input": "go", "work": None}},
    {"start": {"input": "go", "work": "false"}},
    {"start": {"input": "go", "budget": 10}},
    {"start": {"input": "go", "budget": {"token": 10}}},
    {"start": {"input": "go", "budget": {"tokens": "10"}}},
    {"thread": {"key": "42", "message": "hello", "when_busy": "wait"}},
    {"cancel": "r-1"},
    {"thread": "customer 42"},
    {"thread": {"key": "customer 42"}},
    {"thread": {"message": "hello"}},
    {"thread": {"key": "customer 42", "message": "hello", "text": "hello"}},
    {"thread": {"key": 42, "message": "hello"}},
    {"thread": {"key": "42", "message": "hello", "files": PHOTO_JSON}},
    {"thread": {"key": "42", "message": "", "files": [PHOTO_JSON]}},
    {"start": {"input": [{"role": "user", "content": "a"}], "files": [PHOTO_JSON]}},
    {"start": {"input": "go", "files": [{**PHOTO_JSON, "data": "%"}]}},
    {"start": {"input": "go", "files": ["a"]}},
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


@pytest.mark.parametrize("event", UNKNOWN_EVENTS, ids=range(len(UNKNOWN_EVENTS)))
def test_unknown_event_raises_unknown_event(event: Any) -> None:
    with pytest.raises(UnknownEvent, match="Nothing was done"):
        parse_event(event)


@pytest.mark.parametrize("run_id", ["", "../r", "a b", "x" * 201, 7, None, "r\n"])
def test_invalid_run_id_raises_invalid_id(run_id: Any) -> None:
    with pytest.raises(InvalidId):
        parse_event({"resume": run_id})


def test_start_with_the_id_of_a_thread_raises_invalid_id() -> None:
    run_id = thread_run_id("support", "customer 42", 1)
    with pytest.raises(InvalidId, match="belongs to a thread"):
        parse_event({"start": {"input": "hello", "run_id": run_id}})


def test_wrong_file_of_an_event_is_named_with_the_limit_of_lambda() -> None:
    with pytest.raises(UnknownEvent, match=r"files\[0\].data.* at most 6 MB") as raised:
        parse_event(
            {"start": {"input": "go", "files": [{**PHOTO_JSON, "data": "hunter2"}]}}
        )

    assert "hunter2" not in str(raised.value)


def test_error_does_not_contain_the_event() -> None:
    with pytest.raises(UnknownEvent) as raised:
        parse_event({"password": "hunter2", "start": {"input": "hunter2"}})

    assert "hunter2" not in str(raised.value)
    assert "hunter2" not in repr(parse_event({"start": {"input": "hunter2"}}))


def test_response_has_the_gateway_format() -> None:
    response = Response(status=409, headers={"a": "b"}, body="ü")

    assert gateway_response(response) == {
        "statusCode": 409,
        "headers": {"a": "b"},
        "body": "ü",
        "isBase64Encoded": False,
    }


def test_bytes_are_base64_for_the_gateway() -> None:
    response = Response(status=200, data=b"\x89PNG\xff")

    sent = gateway_response(response)

    assert sent["isBase64Encoded"] is True
    assert b"\x89PNG\xff" == base64.b64decode(sent["body"])
