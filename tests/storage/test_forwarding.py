"""A store that wraps another one has its operations and its optional attributes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from benchmarks.counting_store import CountingStore
from continuations_storage import AlreadyExists, FileStore, MemoryStore, Store
from continuations_storage.contract import (
    created_at,
    listing_size,
    read_many,
    time_resolution,
)
from continuations_storage.faults import FaultyStore, ForwardingStore

WRAPPERS = [ForwardingStore, FaultyStore, CountingStore]
TIME = datetime(2026, 11, 21, tzinfo=UTC)


class StoreWithEverything(MemoryStore):
    """A store with every optional attribute of the contract."""

    time_resolution = timedelta(seconds=7)
    listing_size = 70_000

    async def created_at(self, key: str) -> datetime | None:
        return TIME if key in await self.keys("") else None


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_optional_attributes_are_those_of_the_inner_store(
    wrap: Callable[[Store], Store],
) -> None:
    """A wrapped store costs as many listings and checks clocks as the store itself."""
    store = wrap(StoreWithEverything())
    asyncio.run(store.create("a", b""))

    assert timedelta(seconds=7) == time_resolution(store)
    assert 70_000 == listing_size(store)
    assert TIME == asyncio.run(created_at(store, "a"))


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_store_without_optional_attributes_gets_none(
    wrap: Callable[[Store], Store],
) -> None:
    plain, wrapped = MemoryStore(), wrap(MemoryStore())
    asyncio.run(wrapped.create("a", b""))

    assert time_resolution(plain) == time_resolution(wrapped)
    assert listing_size(plain) == listing_size(wrapped)
    assert asyncio.run(created_at(wrapped, "a")) is None


@pytest.mark.parametrize("wrap", WRAPPERS)
async def test_operations_are_those_of_the_inner_store(
    wrap: Callable[[Store], Store],
) -> None:
    inner = MemoryStore()
    store = wrap(inner)

    await store.probe()
    await store.create("a/1", b"one")
    await store.create("a/2", b"two")
    with pytest.raises(AlreadyExists):
        await store.create("a/1", b"other")
    assert b"one" == await store.read("a/1")
    assert ["a/2"] == await store.keys("a/", "a/1", 1)
    await store.delete("a/1")
    assert ["a/2"] == await inner.keys("a/")


async def test_many_bodies_of_a_wrapped_store_pass_through_its_read(
    tmp_path: Path,
) -> None:
    """A wrapper that changes bodies changes them also if many are read together."""

    class Reversing(ForwardingStore):
        async def read(self, key: str) -> bytes:
            return (await super().read(key))[::-1]

    inner = FileStore(tmp_path)
    await inner.create("a", b"abc")
    for store, body in ((inner, b"abc"), (Reversing(inner), b"cba")):
        assert [body, None] == await read_many(store, ["a", "b"])
