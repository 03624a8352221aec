"""The desk: closed by default, one decision, and every error told as a problem."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from continuations import ApprovalPolicy, AsyncRunner, Deny
from continuations.ledger.arrivals import read_cancel_request
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
)

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

T = TypeVar("T")

APPROVE = {"decision": "approve"}
PROTECTED_ROUTES = [
    ("GET", "/waits"),
    ("GET", "/waits/x"),
    ("POST", "/waits/x/decision"),
    ("POST", "/runs"),
    ("GET", "/runs/jane-1"),
    ("POST", "/runs/jane-1/resume"),
    ("POST", "/runs/jane-1/cancel"),
    ("POST", "/sweep"),
    ("GET", "/openapi.json"),
    ("OPTIONS", "/waits"),
    ("DELETE", "/waits"),
]


def run_async(story: Coroutine[Any, Any, T]) -> T:
    """Run a story to its end."""
    return asyncio.run(story)


def verify_nobody(_: Request) -> str | None:
    """Know nobody."""
    return None


def verify_without_name(_: Request) -> str:
    """Know somebody without a name."""
    return ""


# Who asks --------------------------------------------------------------------


@pytest.mark.parametrize(("method", "path"), PROTECTED_ROUTES)
@pytest.mark.parametrize(
    "verify", [None, verify_bearer, verify_nobody, verify_without_name]
)
def test_unidentified_request_is_rejected(method: str, path: str, verify: Any) -> None:
    """R-C5: closed by default, without a verifier and without a name."""

    async def story() -> None:
        office = ApiFixture(options={"verify": verify})
        await office.start_waiting_run()

        response = await office.request(method, path, {}, by=None)

        assert (401, "unidentified") == (response.status, problem_slug(response))
        assert "Bearer" == response.headers["www-authenticate"]
        assert (verify is None) == ("no verifier" in response.body)

    run_async(story())


def test_health_check_needs_no_identity() -> None:
    response = run_async(
        ApiFixture(options={"verify": None}).request("GET", "/healthz", by=None)
    )

    assert (200, {"status": "ok"}) == (response.status, json_body(response))


@pytest.mark.parametrize("identity", [True, 1, b"kim", ["kim"]])
def test_verifier_that_returns_no_name_is_an_internal_error(identity: Any) -> None:
    """R-C5: nothing that is merely like a name is one."""

    def verify(_: Request) -> Any:
        return identity

    office = ApiFixture(options={"verify": verify})

    response = run_async(office.request("GET", "/waits"))

    assert (500, "internal") == (response.status, problem_slug(response))


def test_decider_is_the_verified_identity() -> None:
    """R-C9: the actor is supplied by the verified channel."""

    async def story() -> None:
        async def verify(request: Request) -> str | None:
            return verify_bearer(request)

        office = ApiFixture(options={"verify": verify})
        wait = await office.start_waiting_run()
        forged = await office.decide(wait, {**APPROVE, "by": "the boss"})
        decided = await office.decide(wait, APPROVE)

        assert 400 == forged.status
        assert "kim" == json_body(decided)["decision"]["by"]

    run_async(story())


# Deciding --------------------------------------------------------------------


def test_decision_is_recorded_and_the_dispatcher_wakes_the_run() -> None:
    """R-G2: deciding is separate from resuming."""

    async def story() -> None:
        wakes = RecordingDispatcher()
        office = ApiFixture(options={"dispatcher": wakes})
        wait = await office.start_waiting_run()

        decided = await office.decide(wait, APPROVE)

        assert 200 == decided.status
        assert json_body(decided)["woken"]
        assert ["jane-1"] == wakes.runs
        assert [] == office.bank.paid
        await office.runner.resume("jane-1")
        assert [500] == office.bank.paid

    run_async(story())


def test_inline_dispatcher_resumes_at_once() -> None:
    async def story() -> None:
        office = ApiFixture()
        wait = await office.start_waiting_run()
        inline = InlineDispatcher(office.runner)
        office.api = HttpApi(office.runner, verify=verify_bearer, dispatcher=inline)

        decided = await office.decide(wait, APPROVE)

        assert json_body(decided)["woken"]
        assert [500] == office.bank.paid
        assert (
            "finished"
            == json_body(await office.request("GET", "/runs/jane-1"))["status"]
        )

    run_async(story())


def test_failed_wake_does_not_change_the_response(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        office = ApiFixture(
            options={"dispatcher": RecordingDispatcher(error=OSError("no queue"))}
        )
        wait = await office.start_waiting_run()

        decided = await office.decide(wait, APPROVE)

        assert (200, False) == (decided.status, json_body(decided)["woken"])
        assert "run jane-1 is decided, but could not be woken" in caplog.text
        assert 1 == len((await office.runner.sweep()).resumed)
        assert [500] == office.bank.paid

    run_async(story())


def test_repeated_decision_gets_the_same_response() -> None:
    """R-G3: concurrent, later, and after the run has ended; and no new run."""

    async def story() -> None:
        office = ApiFixture()
        wait = await office.start_waiting_run()
        first = await office.decide(wait, APPROVE)
        later = await office.decide(wait, APPROVE)
        await office.runner.resume("jane-1")
        last = await office.decide(wait, APPROVE)

        assert 200 == first.status
        assert first == later == last
        await office.runner.resume("jane-1")
        assert [500] == office.bank.paid

    run_async(story())


def test_late_decision_gets_the_recorded_decision() -> None:
    async def story() -> None:
        office = ApiFixture()
        wait = await office.start_waiting_run()
        await office.decide(wait, APPROVE)

        late = await office.decide(wait, {"decision": "deny"}, by="lee")

        assert (409, "already-decided") == (late.status, problem_slug(late))
        stands = json_body(late)["decision"]
        assert ("approve", "kim") == (stands["kind"], stands["by"])

    run_async(story())


def test_one_of_two_hundred_deciders_wins(
    tmp_path: Path,
) -> None:
    """One decision, 199 told, no 5xx; on files."""

    async def story() -> None:
        office = ApiFixture(f"file:{tmp_path}")
        wait = await office.start_waiting_run()
        verdicts = [APPROVE, {"decision": "deny"}, {"decision": "deny", "reason": "n"}]

        answers = await asyncio.gather(
            *(
                office.decide(wait, verdicts[at % 3], by=f"p{at % 50}")
                for at in range(200)
            )
        )

        assert {200, 409} == {answer.status for answer in answers}
        stands = {json_body(answer)["decision"]["id"] for answer in answers}
        assert 1 == len(stands)
        keys = [key for key in await office.keys() if "/in/d-" in key]
        assert 1 == len(keys)

    run_async(story())


def test_invalid_edited_arguments_are_rejected() -> None:
    """R-C10: edited arguments are checked against the schema."""

    async def story() -> None:
        office = ApiFixture()
        wait = await office.start_waiting_run()

        refused = await office.decide(
            wait, {**APPROVE, "arguments": {"cents": "x", "note": "n"}}
        )
        empty = await office.decide(wait, {**APPROVE, "arguments": {}})
        taken = await office.decide(
            wait, {**APPROVE, "arguments": {"cents": 7, "note": "n"}}
        )

        assert (422, "decision-refused") == (refused.status, problem_slug(refused))
        assert 422 == empty.status  # explicit {} is an edit, and lacks what is needed
        assert {"cents": 7, "note": "n"} == json_body(taken)["decision"]["arguments"]
        await office.runner.resume("jane-1")
        assert [7] == office.bank.paid

    run_async(story())


def test_a_wait_that_has_expired_is_not_decided() -> None:
    async def story() -> None:
        policy = ApprovalPolicy(expires_after=timedelta(hours=1))
        office = ApiFixture(policy=policy)
        wait = await office.start_waiting_run()
        office.manual_clock.seconds = 3601

        shown = await office.request("GET", f"/waits/{wait.id}")
        late = await office.decide(wait, APPROVE)
        run = await office.request("GET", "/runs/jane-1")

        assert "expired" == json_body(shown)["state"]
        assert (410, "wait-expired") == (late.status, problem_slug(late))
        assert ["expired"] == [each["state"] for each in json_body(run)["waits"]]
        await office.runner.resume("jane-1")
        assert [] == office.bank.paid

    run_async(story())


# Looking ---------------------------------------------------------------------


def test_open_waits_are_listed_a_page_at_a_time() -> None:
    """R-F3: from the store alone, each once, in one order."""

    async def story() -> None:
        office = ApiFixture()
        waits = [await office.start_waiting_run(f"run-{number}") for number in range(5)]
        found: list[str] = []
        after = ""
        while after is not None:
            query = {"limit": "2", "after": after}
            page = json_body(await office.request("GET", "/waits", query=query))
            assert len(page["waits"]) <= 2
            found += [each["id"] for each in page["waits"]]
            after = page["next"]

        assert sorted(wait.id for wait in waits) == found

    run_async(story())


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"},
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


def test_a_decided_wait_is_never_shown_as_open() -> None:
    """R-F9: neither in the list, nor by itself, nor in its run."""

    async def story() -> None:
        office = ApiFixture()
        wait = await office.start_waiting_run()
        before = json_body(await office.request("GET", "/runs/jane-1"))
        await office.runner.decide(wait.id, Deny(by="lee"))

        listed = await office.request("GET", "/waits")
        shown = await office.request("GET", f"/waits/{wait.id}")
        run = json_body(await office.request("GET", "/runs/jane-1"))

        assert [wait.id] == [each["id"] for each in before["waits"]]
        assert [] == json_body(listed)["waits"]
        assert (409, "lee") == (shown.status, json_body(shown)["decision"]["by"])
        assert ([], [wait.id]) == (run["waits"], run["decided"])

    run_async(story())


def test_wait_response_contains_the_complete_arguments() -> None:
    """R-C3: the complete effective arguments."""

    async def story() -> None:
        office = ApiFixture(note="x" * 50_000 + "\u202e")
        wait = await office.start_waiting_run()

        shown = json_body(await office.request("GET", f"/waits/{wait.id}"))

        assert {"cents": 500, "note": "x" * 50_000 + "\u202e"} == shown["arguments"]
        assert ("pay", ["clerk", "pay"]) == (shown["tool"], shown["path"])
        assert wait.digest == shown["digest"]

    run_async(story())


# Moving runs on --------------------------------------------------------------


def test_long_input_is_accepted() -> None:
    async def story() -> None:
        office = ApiFixture()
        said = {"run_id": "long", "input": "pay Jane " * 10_000}

        assert 200 == (await office.request("POST", "/runs", said)).status

    run_async(story())


def test_repeated_start_begins_one_run() -> None:
    """R-G3: a delivery that comes again begins no new run."""

    async def story() -> None:
        office = ApiFixture()
        said = {"run_id": "jane-1", "input": "pay Jane"}

        begun = await office.request("POST", "/runs", said)
        again = await office.request("POST", "/runs", said)
        other = await office.request("POST", "/runs", {**said, "input": "pay Lee"})
        nobody = await office.request("POST", "/runs", said, by=None)
        whose = await office.request("POST", "/runs", {**said, "agent": "boss"})

        assert (200, "suspended") == (begun.status, json_body(begun)["status"])
        assert json_body(begun) == json_body(again)
        assert (409, "run-exists") == (other.status, problem_slug(other))
        assert [401, 400] == [nobody.status, whose.status]
        assert 1 == len(json_body(begun)["waits"])

    run_async(story())


@pytest.mark.parametrize(
    "said",
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
def test_invalid_start_body_is_rejected(said: dict[str, Any]) -> None:
    async def story() -> None:
        office = ApiFixture()

        assert 400 == (await office.request("POST", "/runs", said)).status
        assert [] == await office.keys()

    run_async(story())


def test_resume_runs_inline_or_is_dispatched() -> None:
    async def story() -> None:
        wakes = RecordingDispatcher()
        office = ApiFixture()
        wait = await office.start_waiting_run()
        await office.decide(wait, APPROVE)

        here = await office.request("POST", "/runs/jane-1/resume")
        again = await office.request("POST", "/runs/jane-1/resume")
        desk = HttpApi(office.runner, verify=verify_bearer, dispatcher=wakes)
        office.api = desk
        elsewhere = await office.request("POST", "/runs/jane-1/resume")

        assert (200, "finished") == (here.status, json_body(here)["status"])
        assert json_body(here) == json_body(again)
        assert (202, ["jane-1"]) == (elsewhere.status, wakes.runs)
        assert [500] == office.bank.paid

    run_async(story())


def test_cancel_records_the_identity_and_closes_waits() -> None:
    """PA-23, R-F6: whoever looks at what waits can end it."""

    async def story() -> None:
        office = ApiFixture()
        wait = await office.start_waiting_run()

        bare = await office.request("POST", "/runs/jane-1/cancel")
        more = await office.request("POST", "/runs/jane-1/cancel", {"force": True})
        said = {"reason": "no money"}
        done = await office.request("POST", "/runs/jane-1/cancel", said)
        again = await office.request("POST", "/runs/jane-1/cancel", {})
        late = await office.decide(wait, APPROVE)

        assert [415, 400] == [bare.status, more.status]
        assert (200, "cancelled") == (done.status, json_body(done)["status"])
        assert 200 == again.status
        assert "no money" == json_body(done)["failure"]["message"]
        wish = await read_cancel_request(Objects(office.runner.store), "jane-1")
        assert wish is not None
        assert "kim" == wish.by
        assert (410, "cancelled") == (late.status, problem_slug(late))
        assert [] == office.bank.paid

    run_async(story())


def test_sweep_resumes_a_decided_run() -> None:
    async def story() -> None:
        office = ApiFixture()
        await office.decide(await office.start_waiting_run(), APPROVE)

        swept = json_body(await office.request("POST", "/sweep"))

        assert [{"run_id": "jane-1", "status": "finished"}] == swept["resumed"]
        assert {} == swept["failed"]

    run_async(story())


# What is wrong ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status", "problem"),
    [
        ("GET", "/", 404, "no-such-path"),
        ("GET", "/waits/", 404, "wait-not-found"),
        ("GET", "/waits/x/decision", 405, "method-not-allowed"),
        ("GET", "/waits/approval-01m7xzj8asw1ramfcps55vy294@j", 404, "wait-not-found"),
        ("GET", "/waits/a/b/c", 404, "no-such-path"),
        ("DELETE", "/runs/jane-1", 405, "method-not-allowed"),
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


def test_options_tells_the_methods_and_head_has_no_body() -> None:
    async def story() -> None:
        office = ApiFixture()
        await office.start_waiting_run()
        before = await office.keys()

        for route in ROUTES:
            path = route.path.format(wait_id="x", run_id="jane-1", token="")
            told = await office.request("OPTIONS", path)
            assert (204, route.methods) == (told.status, told.headers["allow"])
            head = await office.request("HEAD", path)
            assert "" == head.body
            assert ("GET" in route.handlers) == (head.status != 405)

        assert before == await office.keys()

    run_async(story())


def test_too_long_body_is_rejected() -> None:
    async def story() -> None:
        office = ApiFixture(options={"max_body_bytes": 30})
        wait = await office.start_waiting_run()

        large = await office.decide(wait, {"decision": "deny", "reason": "xxxx"})
        small = await office.decide(wait, APPROVE)

        assert [413, 200] == [large.status, small.status]

    run_async(story())


class UnreadableStore(MemoryStore):
    """A store that cannot be read."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    async def read(self, key: str) -> bytes:
        """Fail."""
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
def test_server_error_has_an_error_id_and_is_logged(
    error: Exception, status: int, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    """R-G4: never a traceback; nothing of the store's own words."""

    async def story() -> None:
        office = ApiFixture()
        wait = await office.start_waiting_run()
        office.api = HttpApi(
            AsyncRunner([], store=UnreadableStore(error)), verify=verify_bearer
        )

        with caplog.at_level(logging.ERROR):
            response = await office.decide(wait, APPROVE)

        assert (status, problem) == (response.status, problem_slug(response))
        assert "AKIA" not in response.body
        assert json_body(response)["error_id"] in caplog.text
        assert "AKIA" in caplog.text
        assert (status == 503) == ("retry-after" in response.headers)

    run_async(story())


def test_claimed_run_response_has_retry_after() -> None:
    async def story() -> None:
        office = ApiFixture()
        await office.decide(await office.start_waiting_run(), APPROVE)
        office.bank.closed = True
        holder = asyncio.create_task(office.runner.resume("jane-1"))
        await office.bank.payment_started.wait()

        busy = await office.request("POST", "/runs/jane-1/resume")
        office.bank.reopened.set()
        await holder

        assert (409, "run-busy") == (busy.status, problem_slug(busy))
        assert 1 <= int(busy.headers["retry-after"]) <= 30
        assert "until" in json_body(busy)
        assert [500] == office.bank.paid

    run_async(story())


def test_api_works_under_a_prefix() -> None:
    office = ApiFixture(options={"prefix": "/agents/"})

    inside = run_async(office.request("GET", "/agents/healthz"))
    outside = run_async(office.request("GET", "/healthz"))
    beside = run_async(office.request("GET", "/agentshealthz"))
    other = run_async(office.request("GET", "/others/healthz"))

    assert [200, 404, 404, 404] == [
        each.status for each in (inside, outside, beside, other)
    ]


def test_deciding_imports_no_heavy_modules() -> None:
    """R-G2: cheap in a cold process."""
    dear = (
        "starlette",
        "pydantic",
        "openai",
        "jsonschema_rs",
        "continuations.authoring",
        "continuations.engine.worker",
        "continuations.serve.http.pages",
        "continuations.serve.http.openapi",
    )
    code = (
        "import sys\nimport continuations.serve.http.api, continuations.serve.http.links\n"
        "import continuations.engine.async_runner\n"
        f"print([name for name in {dear!r} if name in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert "[]" == done.stdout.strip()
