"""The memory store, beyond the contract."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from continuations_storage import InvalidKey, MemoryStore


def test_create_returns_the_time_of_the_clock_or_none() -> None:
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)

    assert asyncio.run(MemoryStore().create("a", b"")) is None
    assert noon == asyncio.run(MemoryStore(lambda: noon).create("a", b""))


@pytest.mark.parametrize(("first", "second"), [("a/b", "a"), ("a", "a/b/c")])
async def test_key_that_is_a_folder_of_another_key_is_rejected(
    first: str, second: str
) -> None:
    store = MemoryStore()

    await store.create(first, b"")
    with pytest.raises(InvalidKey, match="folder"):
        await store.create(second, b"")
    assert [first] == (await store.keys(""))
