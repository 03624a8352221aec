"""`HttpApi`: closed by default, one decision, and a problem for every error."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest

from continuations import ApprovalPolicy, AsyncRunner, Deny, Identity
from continuations.ledger.arrivals.arrivals import read_cancel_request
from continuations.ledger.objects import Objects
from continuations.serve.dispatch import InlineDispatcher
from continuations.serve.http.api import HttpApi, Request
from continuations.serve.http.routes import ROUTES
from continuations_storage import MemoryStore
from continuations_storage import errors as storage
from tests.serve.http.api_fixture import (
    ApiFixture,
    RecordingDispatcher,
    json_body,
    problem_slug,
    verify_bearer,
    waiting_api,
)

T = TypeVar("T")

APPROVE = {"decision": "approve"}
PROTECTED_ROUTES = [
    ("GET", "/waits"),
    ("GET", "/waits/x"),
    ("POST", "/waits/x/decision"),
    ("POST", "/runs"),
    ("GET", "/runs/jane-1"),
    ("GET", "/runs/jane-1/audit"),
    ("GET", "/runs/jane-1/grants"),
    ("GET", "/runs/jane-1/events"),
    ("GET", "/runs/jane-1/versions"),
    ("GET", "/runs/jane-1/versions/1"),
    ("GET", "/runs/jane-1/diff"),
    ("POST", "/runs/jane-1/fork"),
    ("POST", "/runs/jane-1/rewind"),
    ("POST", "/runs/jane-1/grants/x/revoke"),
    ("GET", "/drift"),
    ("POST", "/decisions"),
    ("POST", "/runs/jane-1/resume"),
    ("POST", "/runs/jane-1/cancel"),
    ("POST", "/signals"),
    ("POST", "/events"),
    ("POST", "/sweep"),
    ("GET", "/openapi.json"),
    ("OPTIONS", "/waits"),
    ("DELETE", "/waits"),
]


def run_async(scenario: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end."""
    return asyncio.run(scenario)


def verify_nobody(_: Request) -> str | None:
    """Return no identity."""
    return None


def verify_without_name(_: Request) -> str:
    """Return an empty name."""
    return ""


# Identity -----------------------------------------------------------------------


@pytest.mark.parametrize(("method", "path"), PROTECTED_ROUTES)
@pytest.mark.parametrize(
    "verify", [None, verify_bearer, verify_nobody, verify_without_name]
)
async def test_unidentified_request_is_rejected(
    method: str, path: str, verify: Any
) -> None:
    """Without a verifier or without a name, only the public routes are open."""
    fixture = ApiFixture(options={"verify": verify})
    await fixture.start_waiting_run()

    response = await fixture.request(method, path, {}, by=None)

    assert (401, "unidentified") == (response.status, problem_slug(response))
    assert "Bearer" == response.headers["www-authenticate"]
    assert (verify is None) == ("no verifier" in response.body)


def test_health_check_needs_no_identity() -> None:
    response = run_async(
        ApiFixture(options={"verify": None}).request("GET", "/healthz", by=None)
    )

    assert (200, {"status": "ok"}) == (response.status, json_body(response))


@pytest.mark.parametrize("identity", [True, 1, b"kim", ["kim"]])
def test_verifier_that_returns_no_name_is_an_internal_error(identity: Any) -> None:
    """Only a `str` is a name."""

    def verify(_: Request) -> Any:
        return identity

    fixture = ApiFixture(options={"verify": verify})

    response = run_async(fixture.request("GET", "/waits"))

    assert (500, "internal") == (response.status, problem_slug(response))


async def test_decider_is_the_verified_identity() -> None:
    """The verifier names the decider; a body cannot."""

    async def verify(request: Request) -> str | None:
        return verify_bearer(request)

    fixture, wait = await waiting_api(options={"verify": verify})
    forged = await fixture.decide(wait, {**APPROVE, "by": "lee"})
    decided = await fixture.decide(wait, APPROVE)

    assert 400 == forged.status
    assert "kim" == json_body(decided)["decision"]["by"]


async def test_events_are_listed_page_by_page() -> None:
    """Each page names the place of the next one; the last cursor goes on later."""
    fixture = ApiFixture()
    wait_id = await fixture.start_waiting_run()
    await fixture.decide(wait_id, APPROVE)
    path, cursors, after = "/runs/jane-1/events", list[str](), ""
    while True:
        query = {"limit": "2", "after": after} if after else {"limit": "2"}
        page = json_body(await fixture.request("GET", path, query=query))
        assert len(page["events"]) <= 2
        cursors += [event["cursor"] for event in page["events"]]
        if page["next"] is None:
            break
        after = page["next"]
    whole = json_body(await fixture.request("GET", path))
    assert [event["cursor"] for event in whole["events"]] == cursors
    last = {"after": cursors[-1]}
    rest = json_body(await fixture.request("GET", path, query=last))
    assert [] == rest["events"]
    for wrong in ({"after": "x"}, {"limit": "0"}, {"follow": "1"}):
        assert 400 == (await fixture.request("GET", path, query=wrong)).status


async def test_audit_names_the_door_and_how_it_knew_the_person() -> None:
    """A signed link, an API request, and the reasons of all."""
    fixture = ApiFixture()
    by_api = await fixture.start_waiting_run()
    by_link = await fixture.start_waiting_run("jane-2")
    link = fixture.links.link(by_link, actor="lee")
    await fixture.decide(by_api, {**APPROVE, "reason": "in the budget"})
    await fixture.submit_form(link, decision="approve", reason="as agreed")
    await fixture.request("POST", "/runs/jane-2/cancel", {"reason": "late"})

    [api] = json_body(await fixture.request("GET", "/runs/jane-1/audit"))["lines"]
    lines = json_body(await fixture.request("GET", "/runs/jane-2/audit"))["lines"]

    kim: Any = {"name": "kim", "groups": [], "authentication": "verifier"}
    assert ("http", kim) == (api["door"], api["identity"])
    assert (by_api.digest, "in the budget") == (api["digest"], api["reason"])
    [linked] = [line for line in lines if line["door"] == "link"]
    assert ("lee", "as agreed") == (linked["by"], linked["reason"])
    assert "signed link" == linked["identity"]["authentication"]
    [request] = [line for line in lines if line["kind"] == "run"]
    assert ("cancel", "late", kim) == (
        request["verdict"],
        request["reason"],
        request["identity"],
    )


async def test_several_decisions_have_results_of_their_own() -> None:
    dispatcher = RecordingDispatcher()
    fixture = ApiFixture(options={"dispatcher": dispatcher})
    one = await fixture.start_waiting_run()
    two = await fixture.start_waiting_run("jane-2")
    await fixture.decide(two, {"decision": "deny"})
    dispatcher.runs.clear()
    items = [{"wait_id": wait.id, **APPROVE} for wait in (one, two)]
    response = await fixture.request("POST", "/decisions", {"decisions": items})

    first, second = json_body(response)["results"]
    assert 200 == response.status
    assert (one.id, "approve", True) == (
        first["wait_id"],
        first["decision"]["kind"],
        first["woken"],
    )
    assert "deny" == second["problem"]["decision"]["kind"]
    assert ["jane-1"] == dispatcher.runs


async def test_foreign_error_is_the_problem_of_one_decision(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lookup of groups failed: the others are recorded, and the log has the cause."""
    fixture = ApiFixture()
    waits = [await fixture.start_waiting_run(name) for name in ("r1", "r2")]
    decide = fixture.runner.decide

    async def fail_once(wait_id: str, *args: Any, **options: Any) -> Any:
        if wait_id == waits[0].id:
            msg = "ldap://admin:secret@directory is down"
            raise ConnectionError(msg)
        return await decide(wait_id, *args, **options)

    monkeypatch.setattr(fixture.runner, "decide", fail_once)
    items = [{"wait_id": wait.id, **APPROVE} for wait in waits]
    response = await fixture.request("POST", "/decisions", {"decisions": items})

    assert 200 == response.status
    first, second = json_body(response)["results"]
    assert (500, True) == (
        first["problem"]["status"],
        first["problem"]["type"].endswith("internal"),
    )
    assert "ldap" not in str(json_body(response))
    assert first["problem"]["error_id"] in caplog.text
    assert "approve" == second["decision"]["kind"]


@pytest.mark.parametrize(
    "decisions",
    [
        None,
        [],
        [APPROVE],
        ["approve"],
        [{"wait_id": "x", "decision": "yes"}],
        [{"wait_id": "x", **APPROVE}, {"wait_id": "x", "decision": "deny"}],
        [{"wait_id": "x", **APPROVE}] * 101,
    ],
)
async def test_malformed_list_of_decisions_records_nothing(decisions: Any) -> None:
    fixture, wait = await waiting_api()
    good = [{"wait_id": wait.id, **APPROVE}]
    body = {"decisions": decisions and [*good, *decisions]}
    response = await fixture.request("POST", "/decisions", body)

    assert (400, "malformed") == (response.status, problem_slug(response))
    assert wait == await fixture.runner.wait(wait.id)


async def test_grant_is_given_listed_and_revoked() -> None:
    """The body of an approval gives the grant; no form does."""
    fixture, wait = await waiting_api()
    grant = {"tool": "pay", "until": "2026-01-02T00:00:00Z"}
    decided = await fixture.decide(wait, {**APPROVE, "remember": grant})
    grant_id = json_body(decided)["decision"]["grant"]
    grants = "/runs/jane-1/grants"

    [listed] = json_body(await fixture.request("GET", grants))["grants"]
    revoke = f"{grants}/{grant_id}/revoke"
    revoked = await fixture.request("POST", revoke, {"reason": "enough"})
    [after] = json_body(await fixture.request("GET", grants))["grants"]

    assert (grant_id, "kim", False) == (
        listed["id"],
        listed["by"],
        listed["revoked"],
    )
    assert "2026-01-02T00:00:00.000Z" == listed["until"]
    assert (200, True) == (revoked.status, after["revoked"])
    audit = json_body(await fixture.request("GET", "/runs/jane-1/audit"))
    assert {"approve", "revoke"} == {line["verdict"] for line in audit["lines"]}
    other = await fixture.request("POST", f"{grants}/x/revoke", {})
    assert 400 == other.status


@pytest.mark.parametrize(
    "grant",
    [
        None,
        "pay",
        {},
        {"tool": 7},
        {"tool": "pay", "for": "ever"},
        {"tool": "pay", "until": "tomorrow"},
        {"tool": "pay", "until": "2026-01-02T00:00:00"},
        {"tool": "pay", "arguments": []},
    ],
)
async def test_body_with_an_invalid_grant_approves_nothing(grant: Any) -> None:
    fixture, wait = await waiting_api()
    response = await fixture.decide(wait, {**APPROVE, "remember": grant})

    assert (400, "malformed") == (response.status, problem_slug(response))
    assert wait == await fixture.runner.wait(wait.id)


@pytest.mark.parametrize(
    "condition",
    [
        {"cents": 500},
        {"properties": {"note": {"pattern": "[0-9]*"}}},
        {"properties": {"cents": {"multipleOf": 1}}},
        {"required": ["centz"]},
    ],
)
async def test_condition_of_a_grant_that_does_not_limit_approves_nothing(
    condition: Any,
) -> None:
    """The problem has a condition that works."""
    fixture, wait = await waiting_api()
    grant = {"tool": "pay", "arguments": condition}

    response = await fixture.decide(wait, {**APPROVE, "remember": grant})

    assert (422, "decision-refused") == (response.status, problem_slug(response))
    assert wait == await fixture.runner.wait(wait.id)
    detail = json_body(response)["detail"]
    text = detail.partition("for example with arguments=")[2].removesuffix(".")
    works = {"tool": "pay", "arguments": json.loads(text)}
    decided = await fixture.decide(wait, {**APPROVE, "remember": works})
    assert 200 == decided.status


async def test_groups_of_the_verified_identity_are_recorded() -> None:
    """The verifier gives the groups; a body cannot."""

    async def verify(_: Request) -> Identity:
        return Identity("kim", groups=["finance"])

    fixture, wait = await waiting_api(options={"verify": verify})
    forged = await fixture.decide(wait, {**APPROVE, "groups": ["board"]})
    decided = await fixture.decide(wait, APPROVE)
    cancelled = await fixture.request("POST", "/runs/jane-1/cancel", {})

    assert 400 == forged.status
    decision = json_body(decided)["decision"]
    assert ("kim", ["finance"]) == (decision["by"], decision["groups"])
    assert 200 == cancelled.status
    request = await read_cancel_request(Objects(fixture.runner.store), "jane-1")
    assert request is not None
    assert "kim" == request.by


# Deciding -----------------------------------------------------------------------


async def test_decision_is_recorded_and_the_dispatcher_wakes_the_run() -> None:
    """A decision is recorded first; the dispatcher resumes the run afterwards."""
    dispatcher = RecordingDispatcher()
    fixture, wait = await waiting_api(options={"dispatcher": dispatcher})

    decided = await fixture.decide(wait, APPROVE)

    assert 200 == decided.status
    assert json_body(decided)["woken"]
    assert ["jane-1"] == dispatcher.runs
    assert [] == fixture.paid_cents
    await fixture.runner.resume("jane-1")
    assert [500] == fixture.paid_cents


async def test_inline_dispatcher_resumes_at_once() -> None:
    fixture, wait = await waiting_api()
    inline = InlineDispatcher(fixture.runner)
    fixture.api = HttpApi(fixture.runner, verify=verify_bearer, dispatcher=inline)

    decided = await fixture.decide(wait, APPROVE)

    assert json_body(decided)["woken"]
    assert [500] == fixture.paid_cents
    assert (
        "finished" == json_body(await fixture.request("GET", "/runs/jane-1"))["status"]
    )


async def test_failed_wake_does_not_change_the_response(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fixture, wait = await waiting_api(
        options={"dispatcher": RecordingDispatcher(error=OSError("no queue"))}
    )

    decided = await fixture.decide(wait, APPROVE)

    assert (200, False) == (decided.status, json_body(decided)["woken"])
    assert "run jane-1 is decided but was not resumed" in caplog.text
    assert 1 == len((await fixture.runner.sweep()).resumed)
    assert [500] == fixture.paid_cents


async def test_repeated_decision_gets_the_same_response() -> None:
    """Also later and after the run has ended; the call runs once."""
    fixture, wait = await waiting_api()
    first = await fixture.decide(wait, APPROVE)
    later = await fixture.decide(wait, APPROVE)
    await fixture.runner.resume("jane-1")
    last = await fixture.decide(wait, APPROVE)

    assert 200 == first.status
    assert first == later == last
    await fixture.runner.resume("jane-1")
    assert [500] == fixture.paid_cents


async def test_late_decision_gets_the_recorded_decision() -> None:
    fixture, wait = await waiting_api()
    await fixture.decide(wait, APPROVE)

    late = await fixture.decide(wait, {"decision": "deny"}, by="lee")

    assert (409, "already-decided") == (late.status, problem_slug(late))
    recorded = json_body(late)["decision"]
    assert ("approve", "kim") == (recorded["kind"], recorded["by"])


async def test_one_of_two_hundred_deciders_wins(tmp_path: Path) -> None:
    """One decision is recorded, 199 requests get it, and none gets a 5xx."""
    fixture, wait = await waiting_api(f"file:{tmp_path}")
    verdicts = [APPROVE, {"decision": "deny"}, {"decision": "deny", "reason": "n"}]

    responses = await asyncio.gather(
        *(
            fixture.decide(wait, verdicts[number % 3], by=f"p{number % 50}")
            for number in range(200)
        )
    )

    assert {200, 409} == {response.status for response in responses}
    decisions = {json_body(response)["decision"]["id"] for response in responses}
    assert 1 == len(decisions)
    keys = [key for key in await fixture.keys() if "/in/d-" in key]
    assert 1 == len(keys)


async def test_invalid_edited_arguments_are_rejected() -> None:
    """Edited arguments are checked against the wait's JSON Schema."""
    fixture, wait = await waiting_api()

    refused = await fixture.decide(
        wait, {**APPROVE, "arguments": {"cents": "x", "note": "n"}}
    )
    empty = await fixture.decide(wait, {**APPROVE, "arguments": {}})
    accepted = await fixture.decide(
        wait, {**APPROVE, "arguments": {"cents": 7, "note": "n"}}
    )

    assert (422, "decision-refused") == (refused.status, problem_slug(refused))
    assert 422 == empty.status  # {} is an edit that lacks required arguments
    assert {"cents": 7, "note": "n"} == json_body(accepted)["decision"]["arguments"]
    await fixture.runner.resume("jane-1")
    assert [7] == fixture.paid_cents


async def test_a_wait_that_has_expired_is_not_decided() -> None:
    policy = ApprovalPolicy(expires_after=timedelta(hours=1))
    fixture, wait = await waiting_api(policy=policy)
    fixture.manual_clock.seconds = 3601

    shown = await fixture.request("GET", f"/waits/{wait.id}")
    late = await fixture.decide(wait, APPROVE)
    run = await fixture.request("GET", "/runs/jane-1")

    assert "expired" == json_body(shown)["state"]
    assert (410, "wait-expired") == (late.status, problem_slug(late))
    assert ["expired"] == [each["state"] for each in json_body(run)["waits"]]
    await fixture.runner.resume("jane-1")
    assert [] == fixture.paid_cents


# Reading ------------------------------------------------------------------------


async def test_open_waits_are_listed_a_page_at_a_time() -> None:
    """Each wait is listed once, in the order of its id."""
    fixture = ApiFixture()
    waits = [await fixture.start_waiting_run(f"run-{number}") for number in range(5)]
    listed: list[str] = []
    after = ""
    while after is not None:
        query = {"limit": "2", "after": after}
        page = json_body(await fixture.request("GET", "/waits", query=query))
        assert len(page["waits"]) <= 2
        listed += [each["id"] for each in page["waits"]]
        after = page["next"]

    assert sorted(wait.id for wait in waits) == listed


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"},
        {"order": "deadline"},
        {"limit": "1001"},
        {"limit": "-1"},
        {"limit": "²"},
        {"limit": ""},
        {"limit": "9" * 5000},
        {"after": "jane-1"},
        {"after": "../../x@jane"},
    ],
)
def test_invalid_page_query_is_rejected(query: dict[str, str]) -> None:
    response = run_async(ApiFixture().request("GET", "/waits", query=query))

    assert (400, "malformed") == (response.status, problem_slug(response))


async def test_a_decided_wait_is_never_shown_as_open() -> None:
    """Neither in the list, nor by itself, nor in its run."""
    fixture, wait = await waiting_api()
    before = json_body(await fixture.request("GET", "/runs/jane-1"))
    await fixture.runner.decide(wait.id, Deny(by="lee"))

    listed = await fixture.request("GET", "/waits")
    shown = await fixture.request("GET", f"/waits/{wait.id}")
    run = json_body(await fixture.request("GET", "/runs/jane-1"))

    assert [wait.id] == [each["id"] for each in before["waits"]]
    assert [] == json_body(listed)["waits"]
    assert (409, "lee") == (shown.status, json_body(shown)["decision"]["by"])
    assert ([], [wait.id]) == (run["waits"], run["decided"])


async def test_wait_response_contains_the_complete_arguments() -> None:
    """The arguments are whole and unchanged, however long."""
    fixture, wait = await waiting_api(note="x" * 50_000 + "\u202e")

    shown = json_body(await fixture.request("GET", f"/waits/{wait.id}"))

    assert {"cents": 500, "note": "x" * 50_000 + "\u202e"} == shown["arguments"]
    assert ("pay", ["boss", "pay"]) == (shown["tool"], shown["path"])
    assert wait.digest == shown["digest"]


# Runs ---------------------------------------------------------------------------


async def test_long_input_is_accepted() -> None:
    fixture = ApiFixture()
    body = {"run_id": "long", "input": "pay Jane " * 10_000}

    assert 200 == (await fixture.request("POST", "/runs", body)).status


async def test_repeated_start_begins_one_run() -> None:
    """A repeated request starts no second run."""
    fixture = ApiFixture()
    body = {"run_id": "jane-1", "input": "pay Jane"}

    started = await fixture.request("POST", "/runs", body)
    again = await fixture.request("POST", "/runs", body)
    other = await fixture.request("POST", "/runs", {**body, "input": "pay Lee"})
    nobody = await fixture.request("POST", "/runs", body, by=None)
    unknown_agent = await fixture.request("POST", "/runs", {**body, "agent": "nobody"})

    assert (200, "suspended") == (started.status, json_body(started)["status"])
    assert json_body(started) == json_body(again)
    assert (409, "run-exists") == (other.status, problem_slug(other))
    assert [401, 400] == [nobody.status, unknown_agent.status]
    assert 1 == len(json_body(started)["waits"])


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"input": "x"},
        {"run_id": "x"},
        {"run_id": "x", "input": ""},
        {"run_id": "x", "input": ["pay"]},
        {"run_id": None, "input": "pay"},
        {"run_id": "!", "input": "pay"},
        {"run_id": "x", "input": "pay", "context": {}},
    ],
)
async def test_invalid_start_body_is_rejected(body: dict[str, Any]) -> None:
    fixture = ApiFixture()

    assert 400 == (await fixture.request("POST", "/runs", body)).status
    assert [] == await fixture.keys()


async def test_resume_runs_inline_or_is_dispatched() -> None:
    dispatcher = RecordingDispatcher()
    fixture, wait = await waiting_api()
    await fixture.decide(wait, APPROVE)

    inline = await fixture.request("POST", "/runs/jane-1/resume")
    again = await fixture.request("POST", "/runs/jane-1/resume")
    fixture.api = HttpApi(fixture.runner, verify=verify_bearer, dispatcher=dispatcher)
    dispatched = await fixture.request("POST", "/runs/jane-1/resume")

    assert (200, "finished") == (inline.status, json_body(inline)["status"])
    assert json_body(inline) == json_body(again)
    assert (202, ["jane-1"]) == (dispatched.status, dispatcher.runs)
    assert [500] == fixture.paid_cents


async def test_cancel_records_the_identity_and_closes_waits() -> None:
    fixture, wait = await waiting_api()

    bare = await fixture.request("POST", "/runs/jane-1/cancel")
    more = await fixture.request("POST", "/runs/jane-1/cancel", {"force": True})
    body = {"reason": "no money"}
    done = await fixture.request("POST", "/runs/jane-1/cancel", body)
    again = await fixture.request("POST", "/runs/jane-1/cancel", {})
    late = await fixture.decide(wait, APPROVE)

    assert [415, 400] == [bare.status, more.status]
    assert (200, "cancelled") == (done.status, json_body(done)["status"])
    assert 200 == again.status
    assert "no money" == json_body(done)["failure"]["message"]
    request = await read_cancel_request(Objects(fixture.runner.store), "jane-1")
    assert request is not None
    assert "kim" == request.by
    assert (410, "cancelled") == (late.status, problem_slug(late))
    assert [] == fixture.paid_cents


async def test_sweep_resumes_a_decided_run() -> None:
    fixture = ApiFixture()
    await fixture.decide(await fixture.start_waiting_run(), APPROVE)

    result = json_body(await fixture.request("POST", "/sweep"))

    assert [{"run_id": "jane-1", "status": "finished"}] == result["resumed"]
    assert {} == result["failed"]


# Errors -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status", "problem"),
    [
        ("GET", "/", 404, "no-such-path"),
        ("GET", "/waits/", 404, "no-such-path"),
        ("GET", "/waits/x/decision", 405, "method-not-allowed"),
        ("GET", "/waits/approval-01m7xzj8asw1ramfcps55vy294@j", 404, "wait-not-found"),
        ("GET", "/waits/a/b/c", 404, "no-such-path"),
        ("DELETE", "/signals", 405, "method-not-allowed"),
        ("GET", "/runs/none", 404, "run-not-found"),
        ("GET", "/runs/..", 400, "invalid-id"),
        ("POST", "/runs/none/resume", 404, "run-not-found"),
        ("POST", "/runs/%2e/resume", 400, "invalid-id"),
    ],
)
def test_unknown_path_method_or_id_is_a_problem(
    method: str, path: str, status: int, problem: str
) -> None:
    response = run_async(ApiFixture().request(method, path))

    assert (status, problem) == (response.status, problem_slug(response))
    if status == 405:
        assert "OPTIONS" in response.headers["allow"]


async def test_options_tells_the_methods_and_head_has_no_body() -> None:
    fixture = ApiFixture()
    await fixture.start_waiting_run()
    before = await fixture.keys()

    for route in ROUTES:
        path = route.path.format_map(
            dict.fromkeys(("wait_id", "token", "grant", "name", "digest"), "x")
            | {"run_id": "jane-1", "agent": "boss", "key": "k", "number": 1}
        )
        options = await fixture.request("OPTIONS", path)
        assert (204, route.methods) == (options.status, options.headers["allow"])
        head = await fixture.request("HEAD", path)
        assert "" == head.body
        assert ("GET" in route.operations) == (head.status != 405)

    assert before == await fixture.keys()


async def test_too_long_body_is_rejected() -> None:
    fixture, wait = await waiting_api(options={"max_body_bytes": 30})

    large = await fixture.decide(wait, {"decision": "deny", "reason": "xxxx"})
    small = await fixture.decide(wait, APPROVE)

    assert [413, 200] == [large.status, small.status]


class UnreadableStore(MemoryStore):
    """A store whose reads fail with an error."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    async def read(self, key: str) -> bytes:
        """Raise the error."""
        del key
        raise self._error


SECRET_DETAIL = "arn:aws:s3:::bucket AKIA123"


@pytest.mark.parametrize(
    ("error", "status", "problem"),
    [
        (storage.Unavailable("k", SECRET_DETAIL), 503, "store-unavailable"),
        (storage.Denied("k", SECRET_DETAIL), 500, "store-error"),
        (RuntimeError(SECRET_DETAIL), 500, "internal"),
    ],
)
async def test_server_error_has_an_error_id_and_is_logged(
    error: Exception, status: int, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The response contains neither a traceback nor the text of the store's error."""
    fixture, wait = await waiting_api()
    fixture.api = HttpApi(
        AsyncRunner([], store=UnreadableStore(error)), verify=verify_bearer
    )

    with caplog.at_level(logging.ERROR):
        response = await fixture.decide(wait, APPROVE)

    assert (status, problem) == (response.status, problem_slug(response))
    assert "AKIA" not in response.body
    assert json_body(response)["error_id"] in caplog.text
    assert "AKIA" in caplog.text
    assert (status == 503) == ("retry-after" in response.headers)


async def test_claimed_run_response_has_retry_after() -> None:
    fixture = ApiFixture()
    await fixture.decide(await fixture.start_waiting_run(), APPROVE)
    fixture.payments_allowed.clear()
    worker = asyncio.create_task(fixture.runner.resume("jane-1"))
    await fixture.payment_started.wait()

    busy = await fixture.request("POST", "/runs/jane-1/resume")
    fixture.payments_allowed.set()
    await worker

    assert (409, "run-busy") == (busy.status, problem_slug(busy))
    assert 1 <= int(busy.headers["retry-after"]) <= 30
    assert "until" in json_body(busy)
    assert [500] == fixture.paid_cents


@pytest.mark.parametrize("base_path", ["agents", "/agents", "/agents/"])
@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/agents/healthz", 200),
        # API Gateway serves a function under its own URL too, without the base path.
        ("/healthz", 200),
        ("/agentshealthz", 404),
        ("/others/healthz", 404),
        ("/agents/agents/healthz", 404),
        ("/agents", 404),
        ("", 404),
    ],
)
def test_base_path_is_removed_once(base_path: str, path: str, status: int) -> None:
    fixture = ApiFixture(options={"base_path": base_path})

    response = run_async(fixture.request("GET", path))

    assert status == response.status


def test_deciding_imports_no_heavy_modules() -> None:
    """A cold process that decides loads no framework, agents, pages or schemas."""
    heavy = (
        "starlette",
        "pydantic",
        "openai",
        "jsonschema_rs",
        "continuations.authoring",
        "continuations.engine.worker.worker",
        "continuations.serve.http.link_pages",
        "continuations.serve.http.openapi",
        "continuations.present.schemas",
        "continuations.core.rows.calls",
    )
    code = (
        "import sys\n"
        "import continuations.serve.http.api, continuations.serve.http.links\n"
        "import continuations.engine.runner.async_runner\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )

    completed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert "[]" == completed.stdout.strip()


# Enqueuing ----------------------------------------------------------------------


async def test_run_is_only_stored_and_a_sweep_works_on_it() -> None:
    fixture = ApiFixture()
    body = {"run_id": "r1", "input": "pay Jane", "work": False}

    stored = await fixture.request("POST", "/runs", body)
    again = await fixture.request("POST", "/runs", body)
    swept = await fixture.request("POST", "/sweep")
    waiting = await fixture.request("POST", "/runs", body)

    assert (202, 202, 200) == (stored.status, again.status, waiting.status)
    assert stored.body == again.body
    resumed = {"run_id": "r1", "status": "suspended"}
    assert [resumed] == json_body(swept)["resumed"]
    assert 1 == len(json_body(waiting)["waits"])


@pytest.mark.parametrize("work", [0, "no", None])
def test_flag_that_is_no_truth_value_is_malformed(work: object) -> None:
    body = {"run_id": "r1", "input": "pay Jane", "work": work}

    response = run_async(ApiFixture().request("POST", "/runs", body))

    assert (400, "malformed") == (response.status, problem_slug(response))
