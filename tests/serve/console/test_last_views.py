"""While the store is away, a person sees the last page that they saw, with its time."""

from __future__ import annotations

import asyncio

import httpx

from continuations import Agent, AsyncRunner, Identity, Runner, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.console import console
from continuations_storage import MemoryStore
from continuations_storage.faults import Fault, FaultyStore, refused
from tests.clocks import ManualClock
from tests.serve.console.console_client import ConsoleClient

BAR = "The store does not answer. This page is as it was at"


@tool(approval=True, summary="Pay {cents:money/100 EUR}")
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


class Scene:
    """A console whose store is away at will, and whose rights change."""

    def __init__(self) -> None:
        store, self.clock = MemoryStore(), ManualClock(9 * 3600)
        model = ScriptedModel([ToolCall("pay", {"cents": 500})])
        runner = Runner(
            Agent("boss", tools=[pay], model=model), store=store, clock=self.clock
        )
        runner.start("go", run_id="r1")
        self.is_away = False
        self.hidden: set[str] = set()
        faulty = FaultyStore(store, self._fault)
        reader = AsyncRunner([], store=faulty, clock=self.clock)
        self.client = ConsoleClient(reader, {"clock": self.clock, "can": self._can})

    def _fault(self, _: object) -> Fault | None:
        return refused() if self.is_away else None

    def _can(self, _: Identity, __: str, run: str | None) -> bool:
        return run not in self.hidden

    def get(self, path: str, person: str = "kim") -> httpx.Response:
        """Open a page."""
        return asyncio.run(self.client.get(path, x_person=person))


def test_page_is_shown_again_with_its_time_and_without_scripts() -> None:
    scene = Scene()
    for path, words in (("/inbox", "Pay €5.00"), ("/runs", "r1"), ("/runs/r1", "pay")):
        fresh = scene.get(path)
        assert 200 == fresh.status_code
        assert BAR not in fresh.text
        scene.is_away = True
        scene.clock.seconds += 60

        old = scene.get(path)

        assert 503 == old.status_code
        assert f"{BAR} <time" in old.text
        assert "09:0" in old.text
        assert words in old.text
        assert "<script" not in old.text
        assert "retry-after" in old.headers
        scene.is_away = False
        assert 200 == scene.get(path).status_code
        scene.clock.seconds = 9 * 3600


def test_nobody_sees_the_page_of_another_person_or_of_other_rights() -> None:
    scene = Scene()
    assert "r1" in scene.get("/runs").text
    scene.is_away = True
    other = scene.get("/runs", person="lee")
    assert 503 == other.status_code
    assert "The store does not answer" in other.text
    assert "r1" not in other.text
    scene.hidden.add("r1")
    assert BAR not in scene.get("/runs").text
    scene.hidden.clear()
    assert BAR in scene.get("/runs").text


def test_old_pages_are_few_and_not_older_than_their_limit() -> None:
    scene = Scene()
    scene.get("/runs/r1")
    for number in range(console.MAX_OWN_VIEWS):
        scene.get(f"/runs?agent=a{number}")
    scene.is_away = True
    assert BAR not in scene.get("/runs/r1").text
    assert BAR in scene.get("/runs?agent=a5").text
    scene.clock.seconds += console.MAX_AGE.total_seconds() + 1
    assert BAR not in scene.get("/runs?agent=a5").text


def test_nobody_puts_out_the_pages_of_another_person() -> None:
    scene = Scene()
    scene.get("/runs/r1", person="lee")
    for number in range(console.MAX_VIEWS):
        scene.get(f"/runs?agent=a{number}")
    scene.is_away = True
    assert BAR in scene.get("/runs/r1", person="lee").text


def test_pages_of_many_persons_are_bounded() -> None:
    scene = Scene()
    for number in range(console.MAX_VIEWS + 1):
        scene.get("/runs/r1", person=f"p{number}")
    scene.is_away = True
    assert BAR not in scene.get("/runs/r1", person="p0").text
    assert BAR in scene.get("/runs/r1", person="p1").text


def test_erased_run_is_not_shown_again() -> None:
    scene = Scene()
    scene.get("/runs/r1")
    post = scene.client.post("/runs/r1/erase", {"typed": "r1"})
    assert 303 == asyncio.run(post).status_code
    scene.is_away = True
    assert BAR not in scene.get("/runs/r1").text


def test_run_that_a_program_erased_is_not_shown_again() -> None:
    """The JSON API of a console clears its pages too, also those of lists."""
    scene = Scene()
    for path in ("/runs/r1", "/runs"):
        assert BAR not in scene.get(path).text
    json = {"accept": "application/json", "content_type": "application/json"}
    erased = scene.client.send("DELETE", "/runs/r1", **json)
    assert 200 == asyncio.run(erased).status_code
    scene.is_away = True
    for path in ("/runs/r1", "/runs"):
        assert BAR not in scene.get(path).text


def test_erasure_that_is_refused_keeps_the_pages() -> None:
    scene = Scene()
    scene.get("/runs/r1")
    scene.hidden.add("r2")
    json = {"accept": "application/json", "content_type": "application/json"}
    refusal = asyncio.run(scene.client.send("DELETE", "/runs/r2", **json))
    assert 403 == refusal.status_code
    scene.is_away = True
    assert BAR in scene.get("/runs/r1").text
