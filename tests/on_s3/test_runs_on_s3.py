"""Runs in a bucket: billed requests, crashes, races and lost requests."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import suppress
from typing import Literal

import pytest

from continuations import (
    Answer,
    Approve,
    Finished,
    Outcome,
    Runner,
    Suspended,
    open_store,
)
from continuations.core import ulid
from continuations.errors import AlreadyDecided
from continuations_storage import Store
from continuations_storage.faults import Moment
from continuations_storage.retries import RetryPolicy
from continuations_storage.s3 import S3Store
from tests import effect_log, sample_app
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine import agent_builders
from tests.run_environment import RunEnvironment
from tests.scripts import Script
from tests.storage.s3_proxy import FakeS3, RealServer, S3Proxy, random_faults
from tests.stores import StoreWithoutTime

SCRIPT: Script = {
    "go": [[["left", {"input": "A"}]], "end"],
    "A": [[["pay", {"what": "x"}]], "A done"],
}
ONE_TOOL: Script = {"go": [[["pay", {"what": "x"}]], "end"]}
# Dollars for a thousand, us-east-1, S3 Standard; docs/s3.md.
PRICE_PER_THOUSAND = {
    "PUT": 0.005,
    "LIST": 0.005,
    "GET": 0.0004,
    "HEAD": 0.0004,
    "DELETE": 0.0,
}
MOMENTS: tuple[Moment, ...] = ("before", "after")


# Cost -----------------------------------------------------------------------


Driver = Literal["boto3", "obstore"]
DRIVERS: tuple[Driver, ...] = ("boto3", "obstore")


@pytest.mark.parametrize("driver", DRIVERS)
def test_approval_cycle_needs_15_or_17_billed_requests(
    bucket: str,
    s3_server: str,
    environment: RunEnvironment,
    monkeypatch: pytest.MonkeyPatch,
    driver: Driver,
) -> None:
    """Counted by a proxy: 15 from the suspension to the end.

    obstore makes a guard marker in each resume, and asks for its time. It asks again
    for the listing of arrivals, which is empty.
    """
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
    counts: list[Counter[str]] = []
    with S3Proxy(RealServer(s3_server)) as front:

        def store() -> Store:
            return open_store(f"s3://{bucket}/cycle", endpoint=front.url, driver=driver)

        def since() -> None:
            before = sum(counts, Counter[str]())
            counts.append(Counter(front.counts) - before)

        asyncio.run(store().probe())
        since()
        outcome = agent_builders.make_runner(
            ONE_TOOL, sample_app.make_pay(effect_log.record), store=store()
        ).start("go")
        assert isinstance(outcome, Suspended)
        since()
        Runner([], store=store()).decide(outcome.waits[0].id, Approve(by="kim"))
        since()
        runner = agent_builders.make_runner(
            ONE_TOOL, sample_app.make_pay(effect_log.record), store=store()
        )
        assert isinstance(runner.resume(outcome.run_id), Finished)
        since()

    _, start, decide, resume = counts
    guard = 0 if driver == "boto3" else 1
    assert {
        "PUT": 5,
        "LIST": 2,
        "GET": 1,
        "DELETE": 1,
    } == start - Counter(HEAD=guard)  # one GET: the recorded probe
    assert {"PUT": 2, "GET": 1, "DELETE": 1} == decide
    asked = Counter(DELETE=9, HEAD=guard)
    assert {"PUT": 4 + guard, "LIST": 3, "GET": 3} == resume - asked
    assert (guard, guard) == (start["HEAD"], resume["HEAD"])
    # To begin a run is a marker with its time, a version, a key of the index and a
    # listing; the rest is the suspension. The end of a run has a key of the index too.
    suspending = billed_requests(start) - 1 - 4 - guard
    cycle = suspending + billed_requests(decide) + billed_requests(resume) - 1
    assert 15 + 2 * guard == cycle
    dollars = sum(
        PRICE_PER_THOUSAND[kind] * n
        for kind, n in sum(counts[1:], Counter[str]()).items()
    )
    assert 0.000085 > dollars / 1000 - 0.0000108 * guard
    assert ["pay x"] == environment.effect_names()


def billed_requests(counts: Counter[str]) -> int:
    """Return the number of requests that S3 bills."""
    return sum(number for kind, number in counts.items() if PRICE_PER_THOUSAND[kind])


def test_ten_thousand_waits_are_listed_in_at_most_11_requests(bucket: str) -> None:
    """The list needs no read of an object."""
    behind = FakeS3()
    ids = [
        f"approval-{ulid.encode_ulid(n, bytes(10))}@r-{n % 7}" for n in range(10_000)
    ]
    behind.bodies.update({f"runs/waits/{wait_id}": b"" for wait_id in ids})
    with S3Proxy(behind) as front:
        url = f"s3://{bucket}/runs"
        runner = Runner([], store=open_store(url, endpoint=front.url))

        listed = [summary.id for summary in runner.waiting()]

    assert sorted(ids) == listed
    assert {"LIST"} == set(front.counts)
    assert front.counts["LIST"] <= 11


# Crashes --------------------------------------------------------------------


@pytest.mark.parametrize("moment", MOMENTS)
def test_run_recovers_from_a_crash_at_every_storage_call(
    bucket: str,
    environment: RunEnvironment,
    monkeypatch: pytest.MonkeyPatch,
    moment: Moment,
) -> None:
    """Promise 4 (crash anywhere): sweeps of another process end the run."""
    monkeypatch.setenv("TEST_SCRIPT", json.dumps(SCRIPT))
    for point in every_crash(moment, more_than=19, step=8, together=False):
        (environment.folder / "effects").unlink(missing_ok=True)
        clock = ManualClock()
        store = StoreWithoutTime(open_store(f"s3://{bucket}/{moment}{point.number}"))
        with point.process(store) as dying:
            start_and_sweep_to_end(
                Runner(sample_app.agents(), store=dying, clock=clock),
                clock,
                environment,
            )
        clock.seconds += 31
        runner = Runner(sample_app.agents(), store=store, clock=clock)
        outcome = start_and_sweep_to_end(runner, clock, environment)
        assert isinstance(outcome, Finished), point
        assert ["pay x"] == environment.effect_names(), point


def start_and_sweep_to_end(
    runner: Runner, clock: ManualClock, environment: RunEnvironment
) -> Outcome:
    """Start the run if needed, decide, and sweep until the end."""
    runner.start("go", run_id="r1")
    for _ in range(6):
        for summary in list(runner.waiting()):
            paid = summary.kind == "unknown" and "pay x" in environment.effect_names()
            verdict = Answer("paid x") if paid else Approve(by="kim")
            with suppress(AlreadyDecided):
                runner.decide(summary.id, verdict)
        clock.seconds += 61
        runner.sweep()
    return runner.resume("r1")


# Races ----------------------------------------------------------------------


def test_one_resumer_and_one_decider_of_many_processes_succeed(
    environment: RunEnvironment,
) -> None:
    """The processes share only the bucket."""
    wait = environment.start(SCRIPT)["waits"][0]
    deciders = [
        environment.spawn(
            "decide", wait["id"], json.dumps({kind: {"by": f"k{n}"}}), app="none"
        )
        for n, kind in enumerate(["approve", "deny"] * 4)
    ]
    answers = [process.wait_for_result() for process in deciders]
    stood = {result.get("decided") or result["raised"] for result in answers}
    assert 1 == sum("decided" in result for result in answers)
    assert 2 == len(stood)
    assert "AlreadyDecided" in stood

    resumers = [environment.spawn("resume", "r1", script=SCRIPT) for _ in range(4)]
    results = [process.wait_for_result() for process in resumers]

    kinds = {each.get("kind") or each["raised"] for each in results}
    assert "Finished" in kinds
    assert kinds <= {"Finished", "RunBusy", "StaleRun"}
    (decided,) = stood - {"AlreadyDecided"}
    assert environment.effect_names() == (["pay x"] if decided == "approve" else [])
    assert ["A 0", "A 1", "go 0", "go 1"] == sorted(environment.turns())


# Lost requests --------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_run_over_an_unreliable_connection_executes_once(
    bucket: str,
    s3_server: str,
    environment: RunEnvironment,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    """One request in five is lost, delayed, doubled, truncated or fails."""
    monkeypatch.setenv("TEST_SCRIPT", json.dumps(SCRIPT))
    hurried = RetryPolicy(max_attempts=12, first_delay=0.001, max_delay=0.01)
    with S3Proxy(RealServer(s3_server), random_faults(seed, 0.2)) as front:

        def runner() -> Runner:
            store = S3Store(bucket, endpoint=front.url, timeout=2, retry_policy=hurried)
            return Runner(sample_app.agents(), store=store)

        outcome = runner().start("go", run_id="r1")
        while isinstance(outcome, Suspended):
            for wait in outcome.waits:
                runner().decide(wait.id, Approve(by="kim"))
            outcome = runner().resume("r1")

    assert isinstance(outcome, Finished)
    assert ["pay x"] == environment.effect_names()
    assert ["A 0", "A 1", "go 0", "go 1"] == sorted(environment.turns())
