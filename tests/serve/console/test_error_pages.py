"""Each error is a page of the console: same header, right status, and the next step."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta

import httpx
import pytest

from continuations import (
    Agent,
    Approve,
    AsyncRunner,
    Deny,
    Identity,
    Runner,
    errors,
    tool,
)
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.console import error_pages
from continuations.serve.pages.environment import Shell
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.outcomes import single_wait
from tests.serve.console.console_client import ConsoleClient
from tests.serve.console.test_rewind_page import text_of


@tool(approval=True, summary="Pay {cents:money/100 EUR}")
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


def agent(name: str) -> Agent:
    return Agent(
        name, tools=[pay], model=ScriptedModel([ToolCall("pay", {"cents": 5})])
    )


class Scene:
    """Runs that wait for an approval, and a console of another process."""

    def __init__(self) -> None:
        self.clock, store = ManualClock(), MemoryStore()
        self.runner = Runner(agent("boss"), store=store, clock=self.clock)
        self.wait = single_wait(self.runner.start("go", run_id="r1"))
        other = AsyncRunner(agent("other"), store=store, clock=self.clock)
        self.client = ConsoleClient(other, {"clock": self.clock, "can": self._can})
        self.form = {"decision": "deny", "shown": self.wait.digest, "reason": "no"}

    def _can(self, _: Identity, __: str, run: str | None) -> bool:
        return run != "theirs"

    def get(self, path: str) -> httpx.Response:
        """Open a page."""
        return asyncio.run(self.client.get(path))

    def post(self, path: str, form: dict[str, str]) -> httpx.Response:
        """Send a form."""
        return asyncio.run(self.client.post(path, form))


def check(page: httpx.Response, status: int, *words: str) -> None:
    """Check the status, the header and the words of a page."""
    assert status == page.status_code
    for part in ('<nav aria-label="Main">', "<span>kim</span>", 'class="brand"'):
        assert part in page.text
    text = text_of(page)
    for each in words:
        assert each in text
    assert 'href="/inbox"' in page.text


def test_unknown_run_wait_and_page() -> None:
    scene = Scene()
    check(scene.get("/runs/none"), 404, "This run does not exist", "another store")
    wait = scene.wait.id.replace("@r1", "@none")
    check(scene.get(f"/waits/{wait}"), 404, "does not exist", "Back to the inbox")
    check(scene.get("/nothing"), 404, "This page does not exist", "misspelled")


def test_erased_run() -> None:
    scene = Scene()
    scene.runner.erase("r1")
    check(scene.get("/runs/r1"), 410, "This run was erased", "Its id stays taken")
    told = scene.get(f"/waits/{scene.wait.id}/state")
    assert 200 == told.status_code
    assert "This run was erased." in told.text


def test_decided_wait_says_who_decided_when_and_how() -> None:
    scene = Scene()
    scene.runner.decide(scene.wait.id, Approve(by="lee"))
    path = f"/waits/{scene.wait.id}"
    check(scene.get(path), 200, "Already decided", "By lee", "cannot be changed")
    late = scene.post(path, scene.form)
    check(late, 409, "Somebody else decided first", "By lee", "Open the run r1")


def test_expired_and_cancelled_waits() -> None:
    scene = Scene()
    path = f"/waits/{scene.wait.id}"
    scene.runner.cancel("r1", by="lee", reason="wrong month")
    who = ("Cancelled by lee", "Reason wrong month")
    check(scene.get(path), 200, "Closed", "Nothing was approved", *who)
    told = scene.get(f"{path}/state").text
    assert "Cancelled by: lee" in told
    assert "Reason: wrong month" in told
    assert re.search('At: <time datetime="[^"]*Z"', told)
    late = scene.post(path, scene.form)
    check(late, 410, "This wait was closed with its run", "Open the run r1")
    check(scene.get("/runs/r1"), 200, "wrong month")


def test_run_of_others() -> None:
    scene = Scene()
    check(scene.get("/runs/theirs"), 403, "This is not yours to do", "Ask the person")


@pytest.mark.parametrize("act", ["resume", "pause", "grants"])
def test_address_of_a_form_alone_leads_to_its_page(act: str) -> None:
    """A button of an error page, or of the sign-in page, loads that address again."""
    scene = Scene()
    page = scene.get(f"/runs/r1/{act}")
    assert (303, "/runs/r1") == (page.status_code, page.headers["location"])


def test_form_during_an_outage_says_that_it_may_not_be_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()

    async def fail(*_: object) -> None:
        msg = "it is away"
        raise errors.StoreUnavailable(msg)

    monkeypatch.setattr(scene.client.runner.store, "read", fail)
    page = scene.post(f"/waits/{scene.wait.id}", scene.form)
    check(page, 503, "Your form may not be recorded", "look before you repeat it")
    assert "Nothing is lost" not in page.text


def test_changed_code() -> None:
    scene = Scene()
    scene.runner.decide(scene.wait.id, Deny(by="lee"))
    page = scene.post("/runs/r1/resume", {})
    words = ("The code has changed", "is recorded", "until a worker with fitting code")
    check(page, 409, *words, "Open the run r1")


ERRORS: dict[str, tuple[Exception, int, tuple[str, ...]]] = {
    "expired": (
        errors.WaitExpired("late", run_id="r1"),
        410,
        ("The deadline has passed", "was not recorded", "Open the run r1"),
    ),
    "quicker hand": (
        errors.StaleRun("another process advanced run r1", run_id="r1"),
        409,
        ("The run moved on meanwhile", "look before you repeat", "Open the run r1"),
    ),
    "store away": (
        errors.StoreUnavailable("bucket secret-name"),
        503,
        ("The store does not answer", "Nothing is lost", "Error id"),
    ),
    "newer format": (
        errors.NewerFormat("runs/r1/v/1 has format 9", run_id="r1"),
        500,
        ("A newer release wrote this", "Update continuations here"),
    ),
    "damaged": (
        errors.Corrupt("runs/r1/v/1 is damaged", run_id="r1"),
        500,
        ("A stored object is damaged", "runs/r1/v/1", "continuations doctor r1"),
    ),
    "bug": (
        KeyError("secret-name"),
        500,
        ("Something went wrong here", "log of the server", "Error id"),
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_page_of_an_error(name: str) -> None:
    error, status, words = ERRORS[name]
    shell = Shell(root="/a", person="kim", csrf="t")
    now = ManualClock().now() + timedelta(days=1)

    page = error_pages.error_page(error, shell=shell, now=now, operation="GET /x")

    assert status == page.status
    assert '<nav aria-label="Main">' in page.body
    assert 'href="/a/inbox"' in page.body
    assert "secret-name" not in page.body
    for each in words:
        assert each in page.body


@pytest.mark.parametrize(
    ("path", "way", "technical"),
    [
        ("/runs?status=nonsense", "Back to the runs", "nonsense"),
        ("/runs/..%2f", "Back to the runs", ""),
        ("/inbox?for=everyone", "Back to the inbox", "for"),
        ("/runs/r1?version=x", "Back to the runs", "version"),
        ("/nothing", "Back to the inbox", ""),
        ("/runs/theirs", "Back to the runs", "right"),
    ],
)
def test_people_read_a_sentence_and_one_button(
    path: str, way: str, technical: str
) -> None:
    """The text for developers is folded, and nothing of it stands outside."""
    page = Scene().get(path).text
    main = page.partition("<main")[2].partition("</main>")[0]
    shown, _, folded = main.partition("<details>")

    assert [way] == re.findall(r'<a class="btn primary" href="[^"]*">([^<]*)<', shown)
    assert 1 == shown.count("<a ")
    assert technical in folded
    for code in ("`", "None", "openapi", "got", "nonsense"):
        assert code not in re.sub(r"<[^>]*>", "", shown)


def test_refused_form_says_why_without_a_click() -> None:
    page = Scene().post("/runs/r1/fork", {"version": "x"}).text
    assert "This was not accepted" in page
    assert "<details open>" in page
