"""A bucket that keeps versions after the probe saw none is refused."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable

import pytest

from continuations_storage import Inconclusive, Unsafe
from continuations_storage.probe import PROBE_PASSED_KEY, ProbeNote
from continuations_storage.retries import RetryPolicy
from tests.storage.outages import DRIVERS, Driver, open_s3
from tests.storage.s3_proxy import (
    FakeS3,
    Fault,
    Request,
    S3Proxy,
    error_response,
    fault_sequence,
    lost_reply,
    lost_request,
    no_fault,
)
from tests.storage.versioned_s3 import VersionedS3

pytestmark = [
    pytest.mark.usefixtures("s3_environment"),
    pytest.mark.parametrize("driver", DRIVERS),
]

NOTE_NAME = f"p/{PROBE_PASSED_KEY}"
NOTE_OF_FORMAT_1 = b"put-if-absent was proved here\n"
POLICY = RetryPolicy(max_attempts=2, first_delay=0.0)
REMEDY = "delete the key 'probe/passed', so that the next start proves the store again"


@pytest.mark.parametrize("breaks_condition", [True, False])
def test_create_with_a_version_id_is_unsafe_if_the_probe_saw_none(
    driver: Driver, *, breaks_condition: bool
) -> None:
    """The error says when the proof was made, and how to make it again."""
    bucket = VersionedS3(breaks_condition=breaks_condition)
    with S3Proxy(bucket) as proxy:
        asyncio.run(open_s3(proxy, driver, POLICY).probe())
        bucket.switch_versioning_on()

        # Another process, which never called probe()
        store = open_s3(proxy, driver, POLICY)
        for _ in range(2):
            with pytest.raises(Unsafe, match="keeps versions now") as raised:
                asyncio.run(store.create("a", b""))
            assert REMEDY in str(raised.value)
            assert type(store).__name__ in raised.value.detail
            bucket.bodies.pop("p/a")


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (error_response(503, "SlowDown"), "SlowDown"),
        (error_response(403, "AccessDenied"), "AccessDenied"),
        (lost_request(), ""),
    ],
    ids=["throttled", "denied", "unavailable"],
)
def test_create_is_inconclusive_if_the_note_cannot_be_read(
    driver: Driver, fault: Fault, cause: str
) -> None:
    """The body is stored, so no error may say that nothing was written."""
    bucket = VersionedS3(breaks_condition=False)
    bucket.switch_versioning_on()
    with S3Proxy(bucket) as proxy:
        asyncio.run(open_s3(proxy, driver, POLICY).probe())
        store = open_s3(proxy, driver, POLICY)
        proxy.plan = for_requests("GET", fault)

        with pytest.raises(Inconclusive, match="stored, but the proof") as raised:
            asyncio.run(store.create("a", b"mine"))

        assert "a" == raised.value.key
        assert cause in raised.value.detail
        assert "nothing was written" not in str(raised.value)
        assert b"mine" == bucket.bodies["p/a"]
        # The next create checks the proof.
        proxy.plan = fault_sequence()
        proxy.counts.clear()
        asyncio.run(store.create("b", b""))
        assert {"PUT": 1, "GET": 1} == proxy.counts


def test_create_is_inconclusive_if_the_proof_cannot_be_made(driver: Driver) -> None:
    """Without a note, the store is proved; also then the body is stored."""
    bucket = VersionedS3(breaks_condition=False)
    bucket.switch_versioning_on()
    with S3Proxy(bucket) as proxy:
        store = open_s3(proxy, driver, POLICY)
        proxy.plan = for_requests("LIST", error_response(403, "AccessDenied"))

        with pytest.raises(Inconclusive, match="AccessDenied"):
            asyncio.run(store.create("a", b"mine"))

        assert ["p/a"] == list(bucket.bodies)


@pytest.mark.parametrize("version_id", ["v", "null"])
def test_next_proof_decides_after_the_note_was_deleted(
    driver: Driver, version_id: str
) -> None:
    """The advice of the error can be followed, also in a suspended bucket.

    A server that breaks the condition fails the next proof.
    """
    for breaks_condition in (True, False):
        bucket = VersionedS3(breaks_condition=breaks_condition, version_id=version_id)
        with S3Proxy(bucket) as proxy:
            asyncio.run(open_s3(proxy, driver, POLICY).probe())
            bucket.switch_versioning_on()
            store = open_s3(proxy, driver, POLICY)
            with pytest.raises(Unsafe, match="Stop all workers"):
                asyncio.run(store.create("a", b""))

            asyncio.run(store.delete(PROBE_PASSED_KEY))

            store = open_s3(proxy, driver, POLICY)
            if breaks_condition:
                with pytest.raises(Unsafe, match="second create"):
                    asyncio.run(store.probe())
                with pytest.raises(Unsafe, match="second create"):
                    asyncio.run(store.create("b", b""))
            else:
                asyncio.run(store.probe())
                asyncio.run(store.create("b", b""))


def test_version_id_of_a_lost_reply_is_noticed(driver: Driver) -> None:
    """The read back after a lost reply tells the version id too."""
    bucket = VersionedS3(breaks_condition=False)
    with S3Proxy(bucket) as proxy:
        store = open_s3(proxy, driver, POLICY)
        asyncio.run(store.probe())
        bucket.switch_versioning_on()
        proxy.plan = fault_sequence(lost_reply(), no_fault())

        with pytest.raises(Unsafe, match="keeps versions now"):
            asyncio.run(store.create("a", b""))


def test_version_id_of_a_suspended_bucket_counts(driver: Driver) -> None:
    """A bucket whose versioning is suspended gives the version id "null"."""
    bucket = VersionedS3(breaks_condition=True, version_id="null")
    with S3Proxy(bucket) as proxy:
        store = open_s3(proxy, driver, POLICY)
        asyncio.run(store.probe())
        bucket.switch_versioning_on()

        with pytest.raises(Unsafe):
            asyncio.run(store.create("a", b""))


def test_proof_in_a_bucket_with_versions_costs_one_read_for_each_process(
    driver: Driver,
) -> None:
    """Without version ids, a create reads nothing."""
    versioned, plain = VersionedS3(breaks_condition=False), FakeS3()
    versioned.switch_versioning_on()
    for bucket, reads in ((versioned, {"GET": 1}), (plain, {})):
        with S3Proxy(bucket) as proxy:
            asyncio.run(open_s3(proxy, driver, POLICY).probe())
            before = Counter(proxy.counts)
            store = open_s3(proxy, driver, POLICY)

            asyncio.run(store.create("a", b""))
            asyncio.run(store.create("b", b""))

            assert {"PUT": 2} | reads == Counter(proxy.counts) - before


def test_note_says_how_the_proof_was_made(driver: Driver) -> None:
    bucket = VersionedS3(breaks_condition=False)
    with S3Proxy(bucket) as proxy:
        store = open_s3(proxy, driver, POLICY)
        asyncio.run(store.probe())

    written = json.loads(bucket.bodies[NOTE_NAME])

    assert (2, "put-if-absent", type(store).__name__, False) == (
        written["format"],
        written["proved"],
        written["driver"],
        written["has_version_ids"],
    )
    assert written["date"].endswith("Z")
    assert (
        ProbeNote.from_bytes(bucket.bodies[NOTE_NAME]).to_bytes()
        == (bucket.bodies[NOTE_NAME])
    )


def test_note_of_format_1_is_proved_again_only_for_version_ids(driver: Driver) -> None:
    """An old note says nothing about versions; it stays valid without them."""
    for breaks_condition in (True, False):
        bucket = VersionedS3(breaks_condition=breaks_condition)
        bucket.bodies[NOTE_NAME] = NOTE_OF_FORMAT_1
        bucket.metadata[NOTE_NAME] = {}
        with S3Proxy(bucket) as proxy:
            store = open_s3(proxy, driver, POLICY)
            asyncio.run(store.probe())
            asyncio.run(store.create("a", b""))
            assert NOTE_OF_FORMAT_1 == bucket.bodies[NOTE_NAME]

            bucket.switch_versioning_on()

            if breaks_condition:
                with pytest.raises(Unsafe, match="second create"):
                    asyncio.run(store.create("b", b""))
                assert NOTE_NAME not in bucket.bodies
            else:
                asyncio.run(store.create("b", b""))
                note = ProbeNote.from_bytes(bucket.bodies[NOTE_NAME])
                assert note.has_version_ids


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b'{"format": 3}', b"{}"])
def test_foreign_or_newer_note_says_nothing_about_versions(
    driver: Driver, body: bytes
) -> None:
    """Such a note still loads, whatever wrote it."""
    del driver
    assert ProbeNote(driver="", has_version_ids=None, date="") == ProbeNote.from_bytes(
        body
    )


def for_requests(kind: str, fault: Fault) -> Callable[[Request], Fault]:
    return lambda request: fault if request.kind == kind else no_fault()
