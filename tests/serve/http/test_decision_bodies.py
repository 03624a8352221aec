"""Only an exact approval approves; every other body records nothing."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations.core import jsontext
from continuations.core.rows.decisions import Answer, Approve, Deny, Fail, Verdict
from continuations.serve.http.api import Request
from continuations.serve.http.decision_bodies import (
    decision_from_form,
    decision_from_json,
)
from continuations.serve.http.problems import RequestRefused
from tests.sampling import examples
from tests.serve.http.api_fixture import waiting_api

TEXTS = st.text(st.characters(codec=None, exclude_categories=()))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=10,
)


def request(body: bytes, kind: str = "application/json") -> Request:
    headers = {"content-type": kind}
    return Request(method="POST", path="/", headers=headers, body=body)


def parse(body: object) -> Verdict:
    """Return the verdict of a JSON value."""
    return decision_from_json(request(json.dumps(body).encode()), "kim").verdict


def test_approve_deny_and_edit_bodies_are_parsed() -> None:
    edited = {"cents": 5}

    assert Approve(by="kim") == parse({"decision": "approve"})
    assert Approve(by="kim", arguments=edited) == parse(
        {"decision": "approve", "arguments": edited}
    )
    assert Approve(by="kim", arguments={}) == parse(
        {"decision": "approve", "arguments": {}}
    )
    assert Deny(by="kim") == parse({"decision": "deny"})
    assert Deny(by="kim", reason="") == parse({"decision": "deny", "reason": ""})


@pytest.mark.parametrize(
    ("own", "verdict"),
    [
        ({"decision": "approve"}, Approve(by="kim", reason="as agreed")),
        ({"decision": "deny"}, Deny(by="kim", reason="as agreed")),
        ({"decision": "answer", "value": "1"}, Answer("1", "kim", "as agreed")),
        ({"decision": "fail", "error": "e"}, Fail("e", "kim", "as agreed")),
    ],
)
def test_every_decision_may_have_a_reason(
    own: dict[str, str], verdict: Verdict
) -> None:
    """A JSON body and a form may have one. An empty field of a form has no reason."""

    def parse_form(reason: str) -> Verdict:
        body = urlencode({**own, "reason": reason, "shown": "d"}).encode()
        form = request(body, "application/x-www-form-urlencoded")
        return decision_from_form(form, "kim").verdict

    assert verdict == parse({**own, "reason": "as agreed"})
    assert verdict == parse_form("as agreed")
    assert replace(verdict, reason=None) == parse(own) == parse_form("")


@pytest.mark.parametrize("value", [False, 0, "", None, [], {}, 0.0, "x", {"a": [1]}])
def test_falsy_value_is_an_answer(value: Any) -> None:
    """The value keeps its type."""
    verdict = parse({"decision": "answer", "value": value})

    assert Answer(value, by="kim") == verdict
    assert isinstance(verdict, Answer)
    assert type(value) is type(verdict.value)


INVALID_BODIES = [
    b"",
    b" ",
    b"true",
    b'"true"',
    b"1",
    b"null",
    b'"approve"',
    b"approve",
    b"[]",
    b'["approve"]',
    b"{}",
    b'{"approve": true}',
    b'{"decision": true}',
    b'{"decision": 1}',
    b'{"decision": null}',
    b'{"decision": ["approve"]}',
    b'{"decision": "Approve"}',
    b'{"decision": "approve "}',
    b'{"decision": "approved"}',
    b'{"decision": "yes"}',
    b'{"decision": "expire"}',
    b'{"decision": "cancel"}',
    b'{"decision": "approve", "by": "me"}',
    b'{"decision": "approve", "reason": null}',
    b'{"decision": "approve", "reason": ["x"]}',
    b'{"decision": "answer", "value": 1, "reason": 1}',
    b'{"decision": "fail", "error": "e", "reason": {}}',
    b'{"decision": "approve", "arguments": null}',
    b'{"decision": "approve", "arguments": []}',
    b'{"decision": "approve", "arguments": "{}"}',
    b'{"decision": "approve", "value": 1}',
    b'{"decision": "deny", "reason": null}',
    b'{"decision": "deny", "reason": 1}',
    b'{"decision": "deny", "arguments": {}}',
    b'{"decision": "answer"}',
    b'{"decision": "answer", "value": NaN}',
    b'{"decision": "answer", "value": Infinity}',
    b'{"decision": "answer", "value": 1e999}',
    b'{"decision": "answer", "value": 0.10000000000000000001}',
    b'{"decision": "approve", "arguments": {"a": 90071992547409.93123}}',
    b'{"decision": "approve", "arguments": {"a": 1e-400}}',
    b'{"decision": "deny", "decision": "approve"}',
    b'{"decision": "approve", "\\u0064ecision": "approve"}',
    b'{"decision": "approve", "arguments": {"a": 1, "a": 2}}',
    b'{"decision": "approve"} {}',
    b'{"decision": "approve"',
    b"{'decision': 'approve'}",
    b'{"decision": "approve",}',
    b'\xff\xfe{"decision": "approve"}',
    b'{"decision": "\xff"}',
    b'{"decision": "answer", "value": ' + b"[" * 500 + b"]" * 500 + b"}",
    b'{"decision": "answer", "value": ' + b"9" * 5000 + b"}",
]


@pytest.mark.parametrize("body", INVALID_BODIES, ids=range(len(INVALID_BODIES)))
async def test_invalid_decision_body_records_nothing(body: bytes) -> None:
    """The response is a 400, and the wait stays open."""
    fixture, wait = await waiting_api()
    request = Request(
        method="POST",
        path=f"/waits/{wait.id}/decision",
        headers={
            "authorization": "Bearer kim",
            "content-type": "application/json",
        },
        body=body,
    )

    refused = await fixture.api.handle(request)

    assert 400 == refused.status
    assert wait == await fixture.runner.wait(wait.id)


@settings(deadline=None)
@given(JSON)
def test_arbitrary_json_is_rejected(value: Any) -> None:
    with pytest.raises(RequestRefused):
        parse(value)


@settings(deadline=None)
@given(st.binary())
def test_arbitrary_bytes_are_rejected(body: bytes) -> None:
    with pytest.raises(RequestRefused):
        decision_from_json(request(body), "kim")
    with pytest.raises(RequestRefused):
        decision_from_form(request(body, "application/x-www-form-urlencoded"), "kim")


@settings(deadline=None)
@given(
    decision=st.sampled_from(["approve", "deny", "answer"]),
    more=st.dictionaries(
        st.sampled_from(["arguments", "reason", "value", "by", "digest"]), JSON
    ),
)
def test_parsed_verdict_contains_exactly_the_body(
    decision: str, more: dict[str, Any]
) -> None:
    try:
        verdict = parse({"decision": decision, **more})
    except RequestRefused:
        return

    assert decision == type(verdict).__name__.lower()
    if isinstance(verdict, Approve):
        assert set(more) <= {"arguments", "reason"}
        assert more.get("arguments") == verdict.arguments
    elif isinstance(verdict, Deny):
        assert set(more) <= {"reason"}
    else:
        assert isinstance(verdict, Answer)
        assert {"value"} == set(more) - {"reason"}
        assert jsontext.dump(more["value"]) == jsontext.dump(verdict.value)
    assert more.get("reason") == verdict.reason
    assert "kim" == verdict.by


@settings(max_examples=examples(50), deadline=None)
@given(
    body=st.dictionaries(
        st.sampled_from(["decision", "arguments", "reason", "value"]),
        st.sampled_from(["approve", "deny", "answer"]) | JSON,
    )
)
def test_arbitrary_decision_body_never_gets_a_5xx(body: dict[str, Any]) -> None:
    """The call runs only after an exact approval."""

    async def scenario() -> None:
        fixture, wait = await waiting_api()

        response = await fixture.decide(wait, body)

        assert response.status in (200, 400, 422)
        decided = response.status == 200
        await fixture.runner.resume("jane-1")
        assert (decided and body["decision"] == "approve") == bool(fixture.paid_cents)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("kind", "accepted"),
    [
        ("application/json", True),
        ("Application/JSON; charset=UTF-8", True),
        ('application/json;charset="utf-8"', True),
        ("application/json; charset=utf-16", False),
        ("application/json5", False),
        ("text/plain", False),
        ("application/x-www-form-urlencoded", False),
        ("", False),
    ],
)
def test_content_type_is_checked(*, kind: str, accepted: bool) -> None:
    body = b'{"decision": "approve"}'
    if accepted:
        posted = decision_from_json(request(body, kind), "kim")
        assert (Approve(by="kim"), None) == posted
        return
    with pytest.raises(RequestRefused) as caught:
        decision_from_json(request(body, kind), "kim")
    assert 415 == caught.value.problem.type.status
