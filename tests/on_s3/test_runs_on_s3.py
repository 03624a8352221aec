"""Whole runs in a bucket: what they cost, who may die, race, or lose a request."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import pytest

from continuations import (
    AlreadyDecided,
    Answer,
    Approve,
    Finished,
    Runner,
    Suspended,
    open_store,
)
from continuations.core import ulid
from continuations_storage.faults import Crash, FaultyStore, at, crashed
from continuations_storage.patience import Patience
from continuations_storage.s3 import S3Store
from tests.engine import offices
from tests.engine.apps import office
from tests.engine.offices import Clock
from tests.storage.s3_front import Bucket, S3Front, Upstream, seeded

if TYPE_CHECKING:
    from continuations import Outcome
    from continuations_storage import Store
    from continuations_storage.faults import Moment
    from tests.engine.scripts import Script
    from tests.engine.world import World

SCRIPT: Script = {
    "go": [[["left", {"input": "A"}]], "end"],
    "A": [[["pay", {"what": "x"}]], "A done"],
}
ONE_TOOL: Script = {"go": [[["pay", {"what": "x"}]], "end"]}
# Dollars for a thousand, us-east-1, S3 Standard; docs/s3.md.
PRICES = {"PUT": 0.005, "LIST": 0.005, "GET": 0.0004, "HEAD": 0.0004, "DELETE": 0.0}
MOMENTS: tuple[Moment, ...] = ("before", "after")


class Silent:
    """A store that tells no time: a test's clock is its own."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.read, self.delete, self.probe = inner.read, inner.delete, inner.probe

    async def create(self, key: str, body: bytes) -> None:
        """Put the body."""
        await self._inner.create(key, body)

    async def keys(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        """List the keys."""
        return list(await self._inner.keys(prefix, after, limit))


# What it costs --------------------------------------------------------------


Driver = Literal["boto3", "obstore"]
DRIVERS: tuple[Driver, ...] = ("boto3", "obstore")


@pytest.mark.parametrize("driver", DRIVERS)
def test_one_approval_cycle_costs_so_many_requests(
    bucket: str,
    s3_server: str,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    driver: Driver,
) -> None:
    """Section 9: counted on the wire; 14 from the suspension to the end."""
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
    counts: list[Counter[str]] = []
    with S3Front(Upstream(s3_server)) as front:

        def store() -> Store:
            return open_store(f"s3://{bucket}/cycle", endpoint=front.url, driver=driver)

        def since() -> None:
            before = sum(counts, Counter[str]())
            counts.append(Counter(front.counts) - before)

        asyncio.run(store().probe())
        since()
        outcome = offices.runner(ONE_TOOL, office.pay, store=store()).start("go")
        assert isinstance(outcome, Suspended)
        since()
        Runner([], store=store()).decide(outcome.waits[0].id, Approve(by="kim"))
        since()
        runner = offices.runner(ONE_TOOL, office.pay, store=store())
        assert isinstance(runner.resume(outcome.run_id), Finished)
        since()

    _, start, decide, resume = counts
    guard = 0 if driver == "boto3" else 1  # no time is told, so it is asked for
    assert {"PUT": 4, "LIST": 2, "GET": 1, "DELETE": 1} == start  # one GET: "proved"
    assert {"PUT": 2, "GET": 1, "DELETE": 1} == decide
    assert {"PUT": 3 + guard, "LIST": 2, "GET": 3} == resume - Counter(DELETE=9)
    # Beginning a run is a marker, a version and a look; the rest is the suspension.
    suspending = billed(start) - 1 - 3
    assert 14 + guard == suspending + billed(decide) + billed(resume)
    dollars = sum(
        PRICES[kind] * n for kind, n in sum(counts[1:], Counter[str]()).items()
    )
    assert 0.00007 > dollars / 1000 - 0.000005 * guard
    assert ["pay x"] == world.done()


def billed(counts: Counter[str]) -> int:
    """Return the requests that S3 takes money for."""
    return sum(number for kind, number in counts.items() if PRICES[kind])


def test_ten_thousand_waits_are_listed_in_so_many_requests(bucket: str) -> None:
    """R-F3, section 9: at most 11 listings, and not one object is read."""
    behind = Bucket()
    ids = [f"approval-{ulid.ulid(n, bytes(10))}@r-{n % 7}" for n in range(10_000)]
    behind.bodies.update({f"runs/waits/{wait_id}": b"" for wait_id in ids})
    with S3Front(behind) as front:
        url = f"s3://{bucket}/runs"
        runner = Runner([], store=open_store(url, endpoint=front.url))

        listed = [summary.id for summary in runner.waiting()]

    assert sorted(ids) == listed
    assert {"LIST"} == set(front.counts)
    assert front.counts["LIST"] <= 11


# Who may die ----------------------------------------------------------------


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_process_may_die_at_every_storage_call(
    bucket: str, world: World, monkeypatch: pytest.MonkeyPatch, moment: Moment
) -> None:
    """Promise 4, R-A3, R-E10, SL-19: others end the run, by sweeps alone."""
    monkeypatch.setenv("TEST_SCRIPT", json.dumps(SCRIPT))
    for number in range(1, 60):
        (world.folder / "effects").unlink(missing_ok=True)
        clock = Clock()
        store = Silent(open_store(f"s3://{bucket}/{moment}{number}"))
        dying = FaultyStore(store, at(number, crashed(moment)))
        with suppress(Crash):
            ended(Runner(office.agents(), store=dying, clock=clock), clock, world)
        if not dying.dead:
            assert number > 20
            return
        clock.seconds += 31
        runner = Runner(office.agents(), store=store, clock=clock)
        outcome = ended(runner, clock, world)
        assert isinstance(outcome, Finished), number
        assert ["pay x"] == world.done(), number


def ended(runner: Runner, clock: Clock, world: World) -> Outcome:
    """Start the run if need be; then decide, and let sweeps move it on."""
    runner.start("go", run_id="r1")
    for _ in range(6):
        for summary in list(runner.waiting()):
            paid = summary.kind == "unknown" and "pay x" in world.done()
            verdict = Answer("paid x") if paid else Approve(by="kim")
            with suppress(AlreadyDecided):
                runner.decide(summary.id, verdict)
        clock.seconds += 61
        runner.sweep()
    return runner.resume("r1")


# Who may race ---------------------------------------------------------------


def test_of_four_processes_one_resumes_and_of_eight_deciders_one_decides(
    world: World,
) -> None:
    """R-A1, R-A12, X-05: fresh interpreters that share the bucket and nothing else."""
    wait = world.start(SCRIPT)["waits"][0]
    deciders = [
        world.spawn(
            "decide", wait["id"], json.dumps({kind: {"by": f"k{n}"}}), app="none"
        )
        for n, kind in enumerate(["approve", "deny"] * 4)
    ]
    answers = [process.told() for process in deciders]
    stood = {told.get("decided") or told["raised"] for told in answers}
    assert 1 == sum("decided" in told for told in answers)
    assert 2 == len(stood)
    assert "AlreadyDecided" in stood

    resumers = [world.spawn("resume", "r1", script=SCRIPT) for _ in range(4)]
    told = [process.told() for process in resumers]

    kinds = {each.get("kind") or each["raised"] for each in told}
    assert "Finished" in kinds
    assert kinds <= {"Finished", "RunBusy", "StaleRun"}
    (decided,) = stood - {"AlreadyDecided"}
    assert world.done() == (["pay x"] if decided == "approve" else [])
    assert ["A 0", "A 1", "go 0", "go 1"] == sorted(world.turns())


# What may be lost -----------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_on_a_line_that_spoils_requests_everything_happens_once(
    bucket: str,
    s3_server: str,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    """R-E1, R-E2, R-E3: lost, late, doubled, cut off, told to fail: one in five."""
    monkeypatch.setenv("TEST_SCRIPT", json.dumps(SCRIPT))
    hurried = Patience(attempts=12, first_wait=0.001, longest_wait=0.01)
    with S3Front(Upstream(s3_server), seeded(seed, 0.2)) as front:

        def runner() -> Runner:
            store = S3Store(bucket, endpoint=front.url, timeout=2, patience=hurried)
            return Runner(office.agents(), store=store)

        outcome = runner().start("go", run_id="r1")
        while isinstance(outcome, Suspended):
            for wait in outcome.waits:
                runner().decide(wait.id, Approve(by="kim"))
            outcome = runner().resume("r1")

    assert isinstance(outcome, Finished)
    assert ["pay x"] == world.done()
    assert ["A 0", "A 1", "go 0", "go 1"] == sorted(world.turns())
