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
from continuations.ledger.arrivals import read_cancellation
from continuations.ledger.objects import Objects
from continuations.serve.answers import ROUTES
from continuations.serve.desk import Desk, Request
from continuations.serve.dispatch import Inline
from continuations_storage import MemoryStore
from continuations_storage import errors as storage
from tests.serve.office import Office, Wakes, slug, value, who

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

T = TypeVar("T")

APPROVE = {"decision": "approve"}
CLOSED = [
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


def does(story: Coroutine[Any, Any, T]) -> T:
    """Run a story to its end."""
    return asyncio.run(story)


def nobody(_: Request) -> str | None:
    """Know nobody."""
    return None


def nameless(_: Request) -> str:
    """Know somebody without a name."""
    return ""


# Who asks --------------------------------------------------------------------


@pytest.mark.parametrize(("method", "path"), CLOSED)
@pytest.mark.parametrize("verify", [None, who, nobody, nameless])
def test_a_stranger_is_told_nothing(method: str, path: str, verify: Any) -> None:
    """R-C5: closed by default, without a verifier and without a name."""

    async def story() -> None:
        office = Office(options={"verify": verify})
        await office.opened()

        response = await office.ask(method, path, {}, by=None)

        assert (401, "unidentified") == (response.status, slug(response))
        assert "Bearer" == response.headers["www-authenticate"]
        assert (verify is None) == ("no verifier" in response.body)

    does(story())


def test_health_is_told_to_anybody() -> None:
    response = does(Office(options={"verify": None}).ask("GET", "/healthz", by=None))

    assert (200, {"status": "ok"}) == (response.status, value(response))


@pytest.mark.parametrize("answer", [True, 1, b"kim", ["kim"]])
def test_a_verifier_that_says_yes_and_not_who_lets_nobody_in(answer: Any) -> None:
    """R-C5: nothing that is merely like a name is one."""

    def verify(_: Request) -> Any:
        return answer

    office = Office(options={"verify": verify})

    response = does(office.ask("GET", "/waits"))

    assert (500, "internal") == (response.status, slug(response))


def test_who_decides_is_who_was_verified_and_never_what_the_body_says() -> None:
    """R-C9: the actor is supplied by the verified channel."""

    async def story() -> None:
        async def verify(request: Request) -> str | None:
            return who(request)

        office = Office(options={"verify": verify})
        wait = await office.opened()
        forged = await office.decide(wait, {**APPROVE, "by": "the boss"})
        decided = await office.decide(wait, APPROVE)

        assert 400 == forged.status
        assert "kim" == value(decided)["decision"]["by"]

    does(story())


# Deciding --------------------------------------------------------------------


def test_a_decision_is_recorded_and_the_run_goes_on_elsewhere() -> None:
    """R-G2: deciding is separate from resuming."""

    async def story() -> None:
        wakes = Wakes()
        office = Office(options={"dispatcher": wakes})
        wait = await office.opened()

        decided = await office.decide(wait, APPROVE)

        assert 200 == decided.status
        assert value(decided)["woken"]
        assert ["jane-1"] == wakes.runs
        assert [] == office.bank.paid
        await office.runner.resume("jane-1")
        assert [500] == office.bank.paid

    does(story())


def test_inline_the_run_goes_on_at_once() -> None:
    async def story() -> None:
        office = Office()
        wait = await office.opened()
        inline = Inline(office.runner)
        office.desk = Desk(office.runner, verify=who, dispatcher=inline)

        decided = await office.decide(wait, APPROVE)

        assert value(decided)["woken"]
        assert [500] == office.bank.paid
        assert "finished" == value(await office.ask("GET", "/runs/jane-1"))["status"]

    does(story())


def test_a_wake_that_fails_does_not_change_the_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        office = Office(options={"dispatcher": Wakes(fails=OSError("no queue"))})
        wait = await office.opened()

        decided = await office.decide(wait, APPROVE)

        assert (200, False) == (decided.status, value(decided)["woken"])
        assert "run jane-1 is decided, but could not be woken" in caplog.text
        assert 1 == len((await office.runner.sweep()).resumed)
        assert [500] == office.bank.paid

    does(story())


def test_a_delivery_that_comes_again_gets_the_same_answer() -> None:
    """R-G3: concurrent, later, and after the run has ended; and no new run."""

    async def story() -> None:
        office = Office()
        wait = await office.opened()
        first = await office.decide(wait, APPROVE)
        later = await office.decide(wait, APPROVE)
        await office.runner.resume("jane-1")
        last = await office.decide(wait, APPROVE)

        assert 200 == first.status
        assert first == later == last
        await office.runner.resume("jane-1")
        assert [500] == office.bank.paid

    does(story())


def test_who_comes_too_late_is_told_what_stands() -> None:
    async def story() -> None:
        office = Office()
        wait = await office.opened()
        await office.decide(wait, APPROVE)

        late = await office.decide(wait, {"decision": "deny"}, by="lee")

        assert (409, "already-decided") == (late.status, slug(late))
        stands = value(late)["decision"]
        assert ("approve", "kim") == (stands["kind"], stands["by"])

    does(story())


def test_of_two_hundred_deciders_one_decides_and_the_others_are_told(
    tmp_path: Path,
) -> None:
    """One decision, 199 told, no 5xx; on files."""

    async def story() -> None:
        office = Office(f"file:{tmp_path}")
        wait = await office.opened()
        verdicts = [APPROVE, {"decision": "deny"}, {"decision": "deny", "reason": "n"}]

        answers = await asyncio.gather(
            *(
                office.decide(wait, verdicts[at % 3], by=f"p{at % 50}")
                for at in range(200)
            )
        )

        assert {200, 409} == {answer.status for answer in answers}
        stands = {value(answer)["decision"]["id"] for answer in answers}
        assert 1 == len(stands)
        keys = [key for key in await office.keys() if "/in/d-" in key]
        assert 1 == len(keys)

    does(story())


def test_arguments_that_do_not_fit_are_refused_and_nothing_is_recorded() -> None:
    """R-C10: edited arguments are checked against the schema."""

    async def story() -> None:
        office = Office()
        wait = await office.opened()

        refused = await office.decide(
            wait, {**APPROVE, "arguments": {"cents": "x", "note": "n"}}
        )
        empty = await office.decide(wait, {**APPROVE, "arguments": {}})
        taken = await office.decide(
            wait, {**APPROVE, "arguments": {"cents": 7, "note": "n"}}
        )

        assert (422, "decision-refused") == (refused.status, slug(refused))
        assert 422 == empty.status  # explicit {} is an edit, and lacks what is needed
        assert {"cents": 7, "note": "n"} == value(taken)["decision"]["arguments"]
        await office.runner.resume("jane-1")
        assert [7] == office.bank.paid

    does(story())


def test_a_wait_that_has_expired_is_not_decided() -> None:
    async def story() -> None:
        policy = ApprovalPolicy(expires_after=timedelta(hours=1))
        office = Office(policy=policy)
        wait = await office.opened()
        office.hands.seconds = 3601

        shown = await office.ask("GET", f"/waits/{wait.id}")
        late = await office.decide(wait, APPROVE)
        run = await office.ask("GET", "/runs/jane-1")

        assert "expired" == value(shown)["state"]
        assert (410, "wait-expired") == (late.status, slug(late))
        assert ["expired"] == [each["state"] for each in value(run)["waits"]]
        await office.runner.resume("jane-1")
        assert [] == office.bank.paid

    does(story())


# Looking ---------------------------------------------------------------------


def test_open_waits_are_listed_a_page_at_a_time() -> None:
    """R-F3: from the store alone, each once, in one order."""

    async def story() -> None:
        office = Office()
        waits = [await office.opened(f"run-{number}") for number in range(5)]
        found: list[str] = []
        after = ""
        while after is not None:
            query = {"limit": "2", "after": after}
            page = value(await office.ask("GET", "/waits", query=query))
            assert len(page["waits"]) <= 2
            found += [each["id"] for each in page["waits"]]
            after = page["next"]

        assert sorted(wait.id for wait in waits) == found

    does(story())


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
def test_a_page_that_is_none_is_refused(query: dict[str, str]) -> None:
    response = does(Office().ask("GET", "/waits", query=query))

    assert (400, "malformed") == (response.status, slug(response))


def test_a_decided_wait_is_never_shown_as_open() -> None:
    """R-F9: neither in the list, nor by itself, nor in its run."""

    async def story() -> None:
        office = Office()
        wait = await office.opened()
        before = value(await office.ask("GET", "/runs/jane-1"))
        await office.runner.decide(wait.id, Deny(by="lee"))

        listed = await office.ask("GET", "/waits")
        shown = await office.ask("GET", f"/waits/{wait.id}")
        run = value(await office.ask("GET", "/runs/jane-1"))

        assert [wait.id] == [each["id"] for each in before["waits"]]
        assert [] == value(listed)["waits"]
        assert (409, "lee") == (shown.status, value(shown)["decision"]["by"])
        assert ([], [wait.id]) == (run["waits"], run["decided"])

    does(story())


def test_a_wait_shows_all_that_a_decider_needs() -> None:
    """R-C3: the complete effective arguments."""

    async def story() -> None:
        office = Office(note="x" * 50_000 + "\u202e")
        wait = await office.opened()

        shown = value(await office.ask("GET", f"/waits/{wait.id}"))

        assert {"cents": 500, "note": "x" * 50_000 + "\u202e"} == shown["arguments"]
        assert ("pay", ["clerk", "pay"]) == (shown["tool"], shown["path"])
        assert wait.digest == shown["digest"]

    does(story())


# Moving runs on --------------------------------------------------------------


def test_what_a_run_is_about_may_be_long() -> None:
    async def story() -> None:
        office = Office()
        said = {"run_id": "long", "input": "pay Jane " * 10_000}

        assert 200 == (await office.ask("POST", "/runs", said)).status

    does(story())


def test_a_run_is_begun_once_however_often_it_is_asked_for() -> None:
    """R-G3: a delivery that comes again begins no new run."""

    async def story() -> None:
        office = Office()
        said = {"run_id": "jane-1", "input": "pay Jane"}

        begun = await office.ask("POST", "/runs", said)
        again = await office.ask("POST", "/runs", said)
        other = await office.ask("POST", "/runs", {**said, "input": "pay Lee"})
        nobody = await office.ask("POST", "/runs", said, by=None)
        whose = await office.ask("POST", "/runs", {**said, "agent": "boss"})

        assert (200, "suspended") == (begun.status, value(begun)["status"])
        assert value(begun) == value(again)
        assert (409, "run-exists") == (other.status, slug(other))
        assert [401, 400] == [nobody.status, whose.status]
        assert 1 == len(value(begun)["waits"])

    does(story())


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
def test_a_run_that_is_not_said_plainly_is_not_begun(said: dict[str, Any]) -> None:
    async def story() -> None:
        office = Office()

        assert 400 == (await office.ask("POST", "/runs", said)).status
        assert [] == await office.keys()

    does(story())


def test_a_run_is_resumed_here_or_elsewhere() -> None:
    async def story() -> None:
        wakes = Wakes()
        office = Office()
        wait = await office.opened()
        await office.decide(wait, APPROVE)

        here = await office.ask("POST", "/runs/jane-1/resume")
        again = await office.ask("POST", "/runs/jane-1/resume")
        desk = Desk(office.runner, verify=who, dispatcher=wakes)
        office.desk = desk
        elsewhere = await office.ask("POST", "/runs/jane-1/resume")

        assert (200, "finished") == (here.status, value(here)["status"])
        assert value(here) == value(again)
        assert (202, ["jane-1"]) == (elsewhere.status, wakes.runs)
        assert [500] == office.bank.paid

    does(story())


def test_a_run_is_cancelled_by_name_and_its_waits_with_it() -> None:
    """PA-23, R-F6: whoever looks at what waits can end it."""

    async def story() -> None:
        office = Office()
        wait = await office.opened()

        bare = await office.ask("POST", "/runs/jane-1/cancel")
        more = await office.ask("POST", "/runs/jane-1/cancel", {"force": True})
        said = {"reason": "no money"}
        done = await office.ask("POST", "/runs/jane-1/cancel", said)
        again = await office.ask("POST", "/runs/jane-1/cancel", {})
        late = await office.decide(wait, APPROVE)

        assert [415, 400] == [bare.status, more.status]
        assert (200, "cancelled") == (done.status, value(done)["status"])
        assert 200 == again.status
        assert "no money" == value(done)["failure"]["message"]
        wish = await read_cancellation(Objects(office.runner.store), "jane-1")
        assert wish is not None
        assert "kim" == wish.by
        assert (410, "cancelled") == (late.status, slug(late))
        assert [] == office.bank.paid

    does(story())


def test_a_sweep_finds_what_was_decided_and_never_resumed() -> None:
    async def story() -> None:
        office = Office()
        await office.decide(await office.opened(), APPROVE)

        swept = value(await office.ask("POST", "/sweep"))

        assert [{"run_id": "jane-1", "status": "finished"}] == swept["resumed"]
        assert {} == swept["failed"]

    does(story())


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
def test_what_is_not_there(method: str, path: str, status: int, problem: str) -> None:
    response = does(Office().ask(method, path))

    assert (status, problem) == (response.status, slug(response))
    if status == 405:
        assert "OPTIONS" in response.headers["allow"]


def test_options_tells_the_methods_and_head_has_no_body() -> None:
    async def story() -> None:
        office = Office()
        await office.opened()
        before = await office.keys()

        for route in ROUTES:
            path = route.path.format(wait_id="x", run_id="jane-1", token="")
            told = await office.ask("OPTIONS", path)
            assert (204, route.methods) == (told.status, told.headers["allow"])
            head = await office.ask("HEAD", path)
            assert "" == head.body
            assert ("GET" in route.answers) == (head.status != 405)

        assert before == await office.keys()

    does(story())


def test_a_body_that_is_too_long_is_not_looked_at() -> None:
    async def story() -> None:
        office = Office(options={"most_body": 30})
        wait = await office.opened()

        large = await office.decide(wait, {"decision": "deny", "reason": "xxxx"})
        small = await office.decide(wait, APPROVE)

        assert [413, 200] == [large.status, small.status]

    does(story())


class Down(MemoryStore):
    """A store that cannot be read."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    async def read(self, key: str) -> bytes:
        """Fail."""
        del key
        raise self._error


SECRETIVE = "arn:aws:s3:::bucket AKIA123"


@pytest.mark.parametrize(
    ("error", "status", "problem"),
    [
        (storage.Unavailable("k", SECRETIVE), 503, "store-unavailable"),
        (storage.Denied("k", SECRETIVE), 500, "store-error"),
        (RuntimeError(SECRETIVE), 500, "internal"),
    ],
)
def test_what_is_our_fault_is_told_by_an_id_and_logged(
    error: Exception, status: int, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    """R-G4: never a traceback; nothing of the store's own words."""

    async def story() -> None:
        office = Office()
        wait = await office.opened()
        office.desk = Desk(AsyncRunner([], store=Down(error)), verify=who)

        with caplog.at_level(logging.ERROR):
            response = await office.decide(wait, APPROVE)

        assert (status, problem) == (response.status, slug(response))
        assert "AKIA" not in response.body
        assert value(response)["error_id"] in caplog.text
        assert "AKIA" in caplog.text
        assert (status == 503) == ("retry-after" in response.headers)

    does(story())


def test_a_run_that_is_held_says_when_to_come_again() -> None:
    async def story() -> None:
        office = Office()
        await office.decide(await office.opened(), APPROVE)
        office.bank.shut = True
        holder = asyncio.create_task(office.runner.resume("jane-1"))
        await office.bank.paying.wait()

        busy = await office.ask("POST", "/runs/jane-1/resume")
        office.bank.opens.set()
        await holder

        assert (409, "run-busy") == (busy.status, slug(busy))
        assert 1 <= int(busy.headers["retry-after"]) <= 30
        assert "until" in value(busy)
        assert [500] == office.bank.paid

    does(story())


def test_the_desk_stands_under_a_prefix() -> None:
    office = Office(options={"prefix": "/agents/"})

    inside = does(office.ask("GET", "/agents/healthz"))
    outside = does(office.ask("GET", "/healthz"))
    beside = does(office.ask("GET", "/agentshealthz"))
    other = does(office.ask("GET", "/others/healthz"))

    assert [200, 404, 404, 404] == [
        each.status for each in (inside, outside, beside, other)
    ]


def test_deciding_loads_nothing_dear() -> None:
    """R-G2: cheap in a cold process."""
    dear = (
        "starlette",
        "pydantic",
        "openai",
        "jsonschema_rs",
        "continuations.authoring",
        "continuations.engine.worker",
        "continuations.serve.pages",
        "continuations.serve.openapi",
    )
    code = (
        "import sys\nimport continuations.serve.desk, continuations.serve.links\n"
        "import continuations.engine.runner\n"
        f"print([name for name in {dear!r} if name in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert "[]" == done.stdout.strip()
