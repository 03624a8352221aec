"""The probe accepts only stores that honour put-if-absent."""

from __future__ import annotations

import asyncio
from datetime import datetime

import pytest

from continuations_storage import (
    AlreadyExists,
    Denied,
    MemoryStore,
    StorageError,
    Unavailable,
    Unsafe,
)
from continuations_storage.faults import FaultyStore, StaleListing, on, refused
from continuations_storage.probe import PROBE_PASSED_KEY, prove_put_if_absent


class OverwritingStore(MemoryStore):
    """Ignores If-None-Match, like some servers with the S3 protocol."""

    async def create(self, key: str, body: bytes) -> datetime | None:
        await self.delete(key)
        return await super().create(key, body)


class ReportingOverwritingStore(OverwritingStore):
    """Raises `AlreadyExists` but overwrites."""

    async def create(self, key: str, body: bytes) -> datetime | None:
        known = key in await self.keys(key)
        await super().create(key, body)
        if known:
            raise AlreadyExists(key)
        return None


@pytest.mark.parametrize(
    ("store", "reason"),
    [
        (OverwritingStore(), "a second create of the same key was accepted"),
        (ReportingOverwritingStore(), "changed the body"),
        (
            FaultyStore(
                MemoryStore(),
                stale_listings=[StaleListing(prefix="probe/", operations=9)],
            ),
            "not listed",
        ),
    ],
)
def test_unsafe_store_is_rejected_and_left_clean(
    store: MemoryStore | FaultyStore, reason: str
) -> None:
    with pytest.raises(Unsafe, match=reason):
        asyncio.run(prove_put_if_absent(store))

    left = store.inner if isinstance(store, FaultyStore) else store
    assert [] == asyncio.run(left.keys(""))


@pytest.mark.parametrize("error", [Denied, Unavailable])
def test_unsafe_store_stays_unsafe_if_the_delete_fails(
    error: type[StorageError],
) -> None:
    """A failed clean-up must not hide the reason why the store cannot be used."""
    store = FaultyStore(OverwritingStore(), on("delete", refused(error)))

    with pytest.raises(Unsafe, match="a second create of the same key was accepted"):
        asyncio.run(prove_put_if_absent(store))


def test_proof_is_not_recorded_if_the_delete_fails() -> None:
    store = FaultyStore(MemoryStore(), on("delete", refused(Denied)))

    with pytest.raises(Denied):
        asyncio.run(prove_put_if_absent(store))
    assert PROBE_PASSED_KEY not in asyncio.run(store.inner.keys(""))


def test_later_probe_costs_one_read() -> None:
    inner = MemoryStore()
    asyncio.run(prove_put_if_absent(inner))

    store = FaultyStore(inner)
    asyncio.run(prove_put_if_absent(store))

    assert [("read", PROBE_PASSED_KEY)] == [
        (each.verb, each.key) for each in store.operations
    ]


def test_concurrent_probes_both_pass() -> None:
    store = MemoryStore()
    late = FaultyStore(
        store, on("create", refused(AlreadyExists), prefix=PROBE_PASSED_KEY)
    )

    asyncio.run(prove_put_if_absent(late))

    assert [] == asyncio.run(store.keys(""))


def test_probe_raises_denied_if_reading_is_denied() -> None:
    store = FaultyStore(MemoryStore(), on("read", refused(Denied)))

    with pytest.raises(Denied):
        asyncio.run(prove_put_if_absent(store))
    assert 1 == len(store.operations)
