"""Outages of a bucket, through both drivers; no time passes outside."""

from __future__ import annotations

import pytest

from continuations import Finished, tool
from continuations_storage.retries import RetryPolicy
from tests.clocks import ManualClock
from tests.engine import agent_builders
from tests.scripts import Script, call
from tests.storage import ministack
from tests.storage.outages import (
    DRIVERS,
    OUTAGE_KINDS,
    Driver,
    Outage,
    OutageKind,
    open_s3,
)
from tests.storage.s3_proxy import FakeS3, S3Proxy

SCRIPT: Script = {"go": [[call("pay")], "end"]}


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("kind", OUTAGE_KINDS)
@pytest.mark.parametrize("seconds", [5, 10])
def test_outage_while_a_tool_returns_loses_no_result(
    monkeypatch: pytest.MonkeyPatch, driver: Driver, kind: OutageKind, seconds: int
) -> None:
    """The paid call does not become unknown: its commit is tried by time."""
    for name, value in ministack.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    clock, paid = ManualClock(), list[float]()
    outage = Outage(kind, seconds, clock.elapsed)
    policy = RetryPolicy(clock=clock.elapsed, sleep=clock.sleep)

    @tool
    def pay() -> str:
        """Pay; the bucket is not reachable for some seconds after that."""
        paid.append(clock.seconds)
        outage.begin()
        return "paid"

    with S3Proxy(FakeS3(now=clock.now), outage) as proxy:
        outcome = agent_builders.make_runner(
            SCRIPT, pay, store=open_s3(proxy, driver, policy), clock=clock
        ).start("go")

    assert isinstance(outcome, Finished)
    assert (1, ["paid"]) == (len(paid), agent_builders.root_tool_results(outcome))
    assert outage.failed
    assert outage.is_over
