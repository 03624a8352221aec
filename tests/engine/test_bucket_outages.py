"""Outages of a bucket, through both drivers; no time passes outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from continuations import Finished, tool
from continuations_storage.obstore import ObjectStore
from continuations_storage.retry_policy import RetryPolicy
from continuations_storage.s3 import S3Store
from tests.clocks import ManualClock
from tests.engine import agent_builders
from tests.scripts import call
from tests.storage import ministack
from tests.storage.s3_proxy import (
    FakeS3,
    S3Proxy,
    error_response,
    lost_reply,
    lost_request,
    no_fault,
)

if TYPE_CHECKING:
    from continuations_storage import Store
    from tests.scripts import Script
    from tests.storage.s3_proxy import Fault, Request

SCRIPT: Script = {"go": [[call("pay")], "end"]}
FAULTS = {
    "lost_request": lost_request(),
    "lost_reply": lost_reply(),
    "slow_down": error_response(503, "SlowDown"),
}


def make_store(driver: str, url: str, clock: ManualClock) -> Store:
    """Return a store whose retries take the time of a clock."""
    policy = RetryPolicy(clock=clock.elapsed, sleep=clock.sleep)
    if driver == "boto3":
        return S3Store("bucket", endpoint=url, retry_policy=policy)
    return ObjectStore("s3://bucket/runs", endpoint=url, retry_policy=policy)


@pytest.mark.parametrize("driver", ["boto3", "obstore"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("seconds", [5, 10])
def test_outage_while_a_tool_returns_loses_no_result(
    monkeypatch: pytest.MonkeyPatch, driver: str, fault: str, seconds: int
) -> None:
    """The paid call does not become unknown: its commit is tried by time."""
    for name, value in ministack.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    clock, paid = ManualClock(), list[float]()

    def plan(_: Request) -> Fault:
        is_down = bool(paid) and clock.seconds < paid[0] + seconds
        return FAULTS[fault] if is_down else no_fault()

    @tool
    def pay() -> str:
        """Pay; the bucket is not reachable for some seconds after that."""
        paid.append(clock.seconds)
        return "paid"

    with S3Proxy(FakeS3(now=clock.now), plan) as proxy:
        outcome = agent_builders.make_runner(
            SCRIPT, pay, store=make_store(driver, proxy.url, clock), clock=clock
        ).start("go")

    assert isinstance(outcome, Finished)
    assert (1, ["paid"]) == (len(paid), agent_builders.root_tool_results(outcome))
    assert clock.seconds >= seconds
