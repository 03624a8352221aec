"""The contract as a test class: inherit it, and pytest tries your store.

::

    class TestMyStore(SharedStoreContract):
        def opener(self) -> Callable[[], Store]:
            return partial(MyStore, fresh_place())

A store that only one process can see inherits `StoreContract` and defines `make`.
No pytest plugin is needed. This is the only module here that imports pytest.
"""
# ruff: noqa: S101, SIM300 -- assert is how a test speaks: expected == actual

from __future__ import annotations

import asyncio
import os
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from continuations_storage import create_race
from continuations_storage.contract import all_keys
from continuations_storage.errors import AlreadyExists, InvalidKey, NotFound
from continuations_storage.probe import PASSED_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from continuations_storage.contract import Store

__all__ = ["SharedStoreContract", "StoreContract"]

ILLEGAL_KEYS = (
    "",
    "/",
    "/a",
    "a/",
    "a//b",
    ".",
    "..",
    "a/../b",
    "../outside",
    "a/./b",
    "a b",
    "a\\b",
    "a\n",
    "a\0b",
    "ä",
    "a+b",
    "x" * 256,
    "/".join(["x" * 100] * 9),
)
ILLEGAL_PREFIXES = ("/", "/a", "a//", "../", "a/../", "a b", "ä", "x" * 256)

# In byte order, with "/" among its neighbours: "-" "." "/" "0".
ORDERED_KEYS = [
    "a-/1",
    "a-b",
    "a./1",
    "a.b/x",
    "a/-",
    "a/0/1",
    "a/1",
    "a/b/c/d",
    "a0",
    "a@",
    "a_/1",
    "a~",
]


class StoreContract:
    """What every store must do, also one that only its own process can see."""

    def make(self) -> Store:
        """Return a fresh and empty store."""
        raise NotImplementedError

    # create and read

    def test_a_created_body_is_read_back(self) -> None:
        store = self.make()

        async def story() -> bytes:
            await store.create("runs/a/1", b"body")
            return await store.read("runs/a/1")

        assert b"body" == asyncio.run(story())

    def test_every_byte_survives_and_an_empty_body_is_a_body(self) -> None:
        for body in (b"", bytes(range(256)) * 3 + b"\r\n\x1a\x00"):
            assert body == self._round_trip(body)

    def test_eight_mebibytes_survive(self) -> None:
        body = os.urandom(1024) * 8 * 1024

        assert body == self._round_trip(body)

    def test_the_longest_legal_keys_are_held(self) -> None:
        store = self.make()
        keys = sorted(["s" * 255, "/".join(["t" * 255] * 3), "/".join("u" * 450)])

        assert keys == asyncio.run(_created_and_listed(store, keys))

    def test_the_time_if_told_is_aware_and_ours(self) -> None:
        time = asyncio.run(self.make().create("a", b""))

        assert time is None or time.utcoffset() is not None

    def test_the_first_body_stands(self) -> None:
        store = self.make()

        async def story() -> bytes:
            await store.create("a", b"first")
            with pytest.raises(AlreadyExists) as refusal:
                await store.create("a", b"second")
            assert "a" == refusal.value.key
            return await store.read("a")

        assert b"first" == asyncio.run(story())

    def test_a_missing_key_is_not_found(self) -> None:
        store = self.make()

        async def story() -> None:
            await store.create("a/b", b"")
            for key in ("b", "a/c", "a/b2", "c/d/e"):
                with pytest.raises(NotFound) as refusal:
                    await store.read(key)
                assert key == refusal.value.key

        asyncio.run(story())

    def test_a_folder_is_not_a_key(self) -> None:
        store = self.make()

        async def story() -> list[str]:
            await store.create("a/b", b"")
            with pytest.raises(NotFound):
                await store.read("a")
            await store.delete("a")
            return await store.keys("")

        assert ["a/b"] == asyncio.run(story())

    # keys

    def test_keys_come_in_byte_order_of_whole_keys(self) -> None:
        listed = asyncio.run(_created_and_listed(self.make(), reversed(ORDERED_KEYS)))

        assert sorted(ORDERED_KEYS) == ORDERED_KEYS
        assert ORDERED_KEYS == listed

    def test_a_page_begins_after_any_key_and_has_any_length(self) -> None:
        store = self.make()

        async def story() -> None:
            await _create_all(store, ORDERED_KEYS)
            for after in ("", "a", "a/", "a/0/0", "a0", *ORDERED_KEYS, "c"):
                expected = [key for key in ORDERED_KEYS if key > after]
                for limit in (1, 2, 5, 1000):
                    assert expected[:limit] == await store.keys("", after, limit)

        asyncio.run(story())

    def test_a_prefix_is_a_prefix_of_text(self) -> None:
        store = self.make()
        prefixes = (
            "",
            "a",
            "a/",
            "a/0",
            "a/0/",
            "a.",
            "a/b/c/d",
            "a/b/c/d/",
            "z",
            "z/",
        )

        async def story() -> None:
            await _create_all(store, ORDERED_KEYS)
            for prefix in prefixes:
                expected = [key for key in ORDERED_KEYS if key.startswith(prefix)]
                assert expected == await store.keys(prefix)
                first = expected[0] if expected else ""
                assert expected[1:2] == await store.keys(prefix, first, limit=1)

        asyncio.run(story())

    def test_an_empty_store_lists_nothing(self) -> None:
        store = self.make()

        assert [] == asyncio.run(store.keys(""))
        assert [] == asyncio.run(store.keys("runs/a/"))

    def test_a_page_of_no_keys_is_refused(self) -> None:
        with pytest.raises(ValueError, match="at least one key"):
            asyncio.run(self.make().keys("", limit=0))

    def test_all_keys_goes_through_every_page(self) -> None:
        store = self.make()
        keys = [f"p/{number:04}" for number in range(2001)]

        async def story() -> list[str]:
            await _create_all(store, keys)
            return [key async for key in all_keys(store, "p/")]

        assert keys == asyncio.run(story())

    # delete

    def test_a_deleted_key_is_gone_and_free(self) -> None:
        store = self.make()

        async def story() -> bytes:
            await store.create("runs/a/1", b"first")
            await store.delete("runs/a/1")
            with pytest.raises(NotFound):
                await store.read("runs/a/1")
            assert [] == await store.keys("")
            await store.create("runs/a/1", b"second")
            return await store.read("runs/a/1")

        assert b"second" == asyncio.run(story())

    def test_delete_is_idempotent_and_spares_the_neighbours(self) -> None:
        store = self.make()

        async def story() -> list[str]:
            await _create_all(store, ("r/a/1", "r/a/2", "r/b"))
            for _ in range(2):
                await store.delete("r/a/1")
                await store.delete("nobody/made/this")
            return await store.keys("")

        assert ["r/a/2", "r/b"] == asyncio.run(story())

    # what is refused

    def test_illegal_keys_are_refused_by_every_verb(self) -> None:
        store = self.make()

        async def story() -> list[str]:
            for key in ILLEGAL_KEYS:
                for refused in (
                    store.create(key, b""),
                    store.read(key),
                    store.delete(key),
                ):
                    with pytest.raises(InvalidKey) as refusal:
                        await refused
                    assert key == refusal.value.key
            for prefix in ILLEGAL_PREFIXES:
                with pytest.raises(InvalidKey):
                    await store.keys(prefix)
            return await store.keys("")

        assert [] == asyncio.run(story())

    # many at once

    def test_of_racing_tasks_exactly_one_wins(self) -> None:
        store = self.make()

        async def one_round(number: int) -> tuple[int, bytes]:
            key = f"race/{number}"
            bodies = [str(task).encode() for task in range(16)]
            won = await asyncio.gather(
                *(_try_create(store, key, body) for body in bodies)
            )
            return won.count(True), bodies[won.index(True)]

        async def story() -> None:
            for number in range(20):
                winners, body = await one_round(number)
                assert 1 == winners
                assert body == await store.read(f"race/{number}")

        asyncio.run(story())

    def test_a_reader_never_sees_half_a_body(self) -> None:
        store = self.make()
        body = os.urandom(1024) * 1024

        async def read_until_there(key: str) -> bytes:
            while True:
                try:
                    return await store.read(key)
                except NotFound:
                    await asyncio.sleep(0)

        async def story() -> None:
            for number in range(5):
                key = f"half/{number}"
                seen, _ = await asyncio.gather(
                    read_until_there(key), store.create(key, body)
                )
                assert body == seen

        asyncio.run(story())

    def test_many_creates_at_once_all_land(self) -> None:
        store = self.make()
        keys = [f"many/{number % 7}/{number:03}" for number in range(100)]

        async def story() -> list[str]:
            await asyncio.gather(*(store.create(key, b"x") for key in keys))
            return await store.keys("many/")

        assert sorted(keys) == asyncio.run(story())

    # probe

    def test_the_probe_passes_and_is_remembered(self) -> None:
        store = self.make()

        async def story() -> list[str]:
            await store.probe()
            await store.probe()
            return await store.keys("")

        assert [PASSED_KEY] == asyncio.run(story())

    def _round_trip(self, body: bytes) -> bytes:
        store = self.make()

        async def story() -> bytes:
            await store.create("body", body)
            return await store.read("body")

        return asyncio.run(story())


class SharedStoreContract(StoreContract):
    """What a store must do besides when several processes can see it."""

    racers = 32
    rounds = 100

    def opener(self) -> Callable[[], Store]:
        """Return a picklable call that opens one fresh store, the same each time."""
        raise NotImplementedError

    def make(self) -> Store:
        """Return a fresh and empty store."""
        return self.opener()()

    def test_of_racing_processes_exactly_one_wins_every_round(self) -> None:
        reports = self._race(self.opener())
        everyone = dict.fromkeys(range(self.rounds), self.racers)
        winners = {report.round: report.racer for report in reports if report.won}

        assert [] == [report.error for report in reports if report.error]
        assert everyone == Counter(report.round for report in reports)
        assert self.rounds == sum(report.won for report in reports)
        assert self.rounds == len(winners)
        # Losers, too, read the winner's body as soon as they are told.
        assert [] == [
            each for each in reports if each.winner_seen != winners[each.round]
        ]

    def test_what_other_processes_created_is_read_and_listed(self) -> None:
        opener = self.opener()
        self._race(opener, racers=1)
        store = opener()
        expected = sorted(f"race/{number}" for number in range(self.rounds))

        async def story() -> tuple[list[str], bytes]:
            return await store.keys("race/"), await store.read("race/0")

        assert (expected, b"0") == asyncio.run(story())

    def test_the_probe_is_remembered_for_other_processes(self) -> None:
        opener = self.opener()

        asyncio.run(opener().probe())

        assert [PASSED_KEY] == asyncio.run(opener().keys(""))

    def _race(
        self, opener: Callable[[], Store], racers: int | None = None
    ) -> list[create_race.RacerReport]:
        count = self.racers if racers is None else racers
        return create_race.run_race(
            create_race.Race(opener=opener, racers=count, rounds=self.rounds)
        )


async def _try_create(store: Store, key: str, body: bytes) -> bool:
    try:
        await store.create(key, body)
    except AlreadyExists:
        return False
    return True


async def _create_all(store: Store, keys: Iterable[str]) -> None:
    await asyncio.gather(*(store.create(key, key.encode()) for key in keys))


async def _created_and_listed(store: Store, keys: Iterable[str]) -> list[str]:
    await _create_all(store, keys)
    return await store.keys("")
