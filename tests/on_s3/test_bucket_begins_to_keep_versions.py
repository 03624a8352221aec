"""Versioning that is switched on between a start and its resumes pays at most once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from continuations import Approve, ContinuationsError, Runner, Suspended
from continuations.engine.runner.async_runner import AsyncRunner
from continuations.errors import RunBusy, StoreUnsafe
from continuations_storage.retries import RetryPolicy
from tests import effect_log, sample_app
from tests.effect_log import Effect
from tests.engine import agent_builders
from tests.scripts import Script
from tests.storage import ministack
from tests.storage.outages import DRIVERS, Driver, open_s3
from tests.storage.s3_proxy import S3Proxy
from tests.storage.versioned_s3 import VersionedS3

SCRIPT: Script = {"go": [[["pay", {"what": "x"}]], "end"]}
RESUMERS = 6


@pytest.mark.parametrize("driver", DRIVERS)
def test_six_resumers_pay_nothing_in_a_bucket_that_breaks_the_condition(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, driver: Driver
) -> None:
    """Each of them stops before the call: the store is unsafe, or the run is busy.

    The claim of the first one may be stored before its reply shows the version id.
    """
    for name, value in ministack.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(effect_log.TURNS_VARIABLE, str(tmp_path / "turns"))
    paid: list[Effect] = []
    bucket = VersionedS3(breaks_condition=True)
    with S3Proxy(bucket) as proxy:
        # Given an approved payment
        outcome = make_runner(proxy, driver, paid).start("go", run_id="r1")
        assert isinstance(outcome, Suspended)
        decider = Runner([], store=open_s3(proxy, driver, RetryPolicy()))
        decider.decide(outcome.waits[0].id, Approve(by="kim"))

        # When versioning is switched on, and six workers resume the run
        bucket.switch_versioning_on()

        async def resume_all() -> list[object]:
            runners = [
                make_runner(proxy, driver, paid).async_runner for _ in range(RESUMERS)
            ]
            return await asyncio.gather(*map(resume, runners))

        results = asyncio.run(resume_all())

    # Then none of them pays
    assert [] == paid
    assert StoreUnsafe in results
    assert {StoreUnsafe, RunBusy} >= set(results)


async def resume(runner: AsyncRunner) -> object:
    """Resume the run; return the class of the error or of the outcome."""
    try:
        return type(await runner.resume("r1"))
    except ContinuationsError as error:
        return type(error)


def make_runner(proxy: S3Proxy, driver: Driver, paid: list[Effect]) -> Runner:
    """Return the runner of a new process, with a store of its own."""
    return agent_builders.make_runner(
        SCRIPT,
        sample_app.make_pay(paid.append),
        store=open_s3(proxy, driver, RetryPolicy()),
    )
