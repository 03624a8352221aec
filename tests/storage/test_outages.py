"""Outages of an S3 server, with both drivers."""

from __future__ import annotations

import asyncio

import pytest

from continuations_storage import Inconclusive, StorageError, Throttled
from tests.storage.outages import (
    DRIVERS,
    OUTAGE_KINDS,
    Driver,
    Outage,
    OutageKind,
    VirtualTime,
    open_s3,
)
from tests.storage.s3_proxy import FakeS3, S3Proxy

pytestmark = pytest.mark.usefixtures("s3_environment")

MANY_ATTEMPTS = 100


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("kind", OUTAGE_KINDS)
def test_create_survives_an_outage_that_is_shorter_than_the_policy(
    kind: OutageKind, driver: Driver
) -> None:
    """After ten seconds, the body is stored once, and the create succeeds."""
    time, bucket = VirtualTime(), FakeS3()
    outage = Outage(kind, seconds=10, now=time.now)
    with S3Proxy(bucket, outage) as proxy:
        policy = time.retry_policy(max_attempts=MANY_ATTEMPTS, max_seconds=20)
        store = open_s3(proxy, driver, policy)

        outage.begin()
        asyncio.run(store.create("a", b"body"))

    assert {"p/a": b"body"} == bucket.bodies
    assert outage.is_over
    assert outage.failed


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(
    ("kind", "expected"), [("dropped", Inconclusive), ("slow down", Throttled)]
)
def test_longer_outage_ends_with_the_error_of_its_kind(
    kind: OutageKind, expected: type[StorageError], driver: Driver
) -> None:
    """No attempt begins after the time of the policy."""
    time = VirtualTime()
    outage = Outage(kind, seconds=1000, now=time.now)
    with S3Proxy(FakeS3(), outage) as proxy:
        policy = time.retry_policy(max_attempts=MANY_ATTEMPTS, max_seconds=20)
        store = open_s3(proxy, driver, policy)

        outage.begin()
        with pytest.raises(expected):
            asyncio.run(store.create("a", b"body"))

    assert not outage.is_over
    assert {"PUT"} <= {request.kind for request in outage.failed}
