"""The store contract as test classes: inherit one, and pytest tries your store.

::

    class TestMyStore(SharedStoreContract):
        def opener(self) -> Callable[[], Store]:
            return partial(MyStore, new_folder())

For a store that only one process can use, inherit `StoreContract` and define `make`. No
pytest plugin is needed. This is the only module of the package that imports pytest.
"""
# ruff: noqa: S101, SIM300 -- tests use assert, in the order expected == actual

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter
from contextlib import nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from continuations_storage import create_race
from continuations_storage.conformance_keys import (
    INVALID_KEYS,
    INVALID_PREFIXES,
    ORDERED_KEYS,
)
from continuations_storage.contract import (
    MAX_EPHEMERAL_BYTES,
    MAX_EPHEMERAL_SECONDS,
    Changes,
    Listing,
    Page,
    all_keys,
    committer,
    ephemeral,
    keys_with_bodies,
    watch,
)
from continuations_storage.errors import AlreadyExists, InvalidKey, NotFound, OutOfTime
from continuations_storage.probe import PROBE_PASSED_KEY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from typing import TypeAlias, TypeVar

    from continuations_storage.contract import Committed, Ephemeral, Store, Watch

    T = TypeVar("T")
    Commit: TypeAlias = Callable[[Changes], Awaitable[Committed]]

__all__ = ["SharedStoreContract", "StoreContract"]


class StoreContract:
    """The tests for every store; define `make`."""

    def make(self) -> Store:
        """Make a store.

        Returns:
            A new and empty store.
        """
        raise NotImplementedError

    # create and read

    def test_created_body_is_read_back(self) -> None:
        """`read` returns the body of `create`."""
        store = self.make()

        async def scenario() -> bytes:
            await store.create("runs/a/1", b"body")
            return await store.read("runs/a/1")

        assert b"body" == asyncio.run(scenario())

    def test_every_byte_value_and_an_empty_body_are_kept(self) -> None:
        """Bodies are kept byte for byte; a body may be empty."""
        for body in (b"", bytes(range(256)) * 3 + b"\r\n\x1a\x00"):
            assert body == self._round_trip(body)

    def test_body_of_eight_mebibytes_is_kept(self) -> None:
        """A body of 8 MiB is kept whole."""
        body = os.urandom(1024) * 8 * 1024

        assert body == self._round_trip(body)

    def test_longest_valid_keys_are_kept(self) -> None:
        """Segments of 255 and keys of 900 characters are kept."""
        store = self.make()
        keys = sorted(["s" * 255, "/".join(["t" * 255] * 3), "/".join("u" * 450) + "u"])

        assert keys == asyncio.run(_created_and_listed(store, keys))

    def test_store_time_of_create_is_aware(self) -> None:
        """The time that `create` returns has a time zone."""
        time = asyncio.run(self.make().create("a", b""))

        assert time is None or time.utcoffset() is not None

    def test_second_create_of_a_key_raises_already_exists(self) -> None:
        """There is no overwrite: the first body is kept."""
        store = self.make()

        async def scenario() -> bytes:
            await store.create("a", b"first")
            with pytest.raises(AlreadyExists) as raised:
                await store.create("a", b"second")
            assert "a" == raised.value.key
            return await store.read("a")

        assert b"first" == asyncio.run(scenario())

    def test_read_of_a_missing_key_raises_not_found(self) -> None:
        """`NotFound` has the missing key."""
        store = self.make()

        async def scenario() -> None:
            await store.create("a/b", b"")
            for key in ("b", "a/c", "a/b2", "c/d/e"):
                with pytest.raises(NotFound) as raised:
                    await store.read(key)
                assert key == raised.value.key

        asyncio.run(scenario())

    def test_folder_of_a_key_is_not_a_key(self) -> None:
        """If only "a/b" exists, reading "a" raises; deleting "a" changes nothing."""
        store = self.make()

        async def scenario() -> list[str]:
            await store.create("a/b", b"")
            with pytest.raises(NotFound):
                await store.read("a")
            await store.delete("a")
            return await store.keys("")

        assert ["a/b"] == asyncio.run(scenario())

    # keys

    def test_keys_are_listed_in_byte_order(self) -> None:
        """Keys are compared as whole texts; "/" is an ordinary character."""
        listed = asyncio.run(_created_and_listed(self.make(), reversed(ORDERED_KEYS)))

        assert ORDERED_KEYS == listed

    def test_page_begins_after_any_text_and_has_any_length(self) -> None:
        """A page begins after any text, also after one that is no key."""
        store = self.make()

        async def scenario() -> None:
            await _create_all(store, ORDERED_KEYS)
            for after in ("", "a", "a/", "a/0/0", "a0", *ORDERED_KEYS, "c"):
                expected = [key for key in ORDERED_KEYS if key > after]
                for limit in (1, 2, 5, 1000):
                    assert expected[:limit] == await store.keys("", after, limit)

        asyncio.run(scenario())

    def test_prefix_may_end_inside_a_segment(self) -> None:
        """A prefix is a prefix of text, not of segments."""
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

        async def scenario() -> None:
            await _create_all(store, ORDERED_KEYS)
            for prefix in prefixes:
                expected = [key for key in ORDERED_KEYS if key.startswith(prefix)]
                assert expected == await store.keys(prefix)
                first = expected[0] if expected else ""
                assert expected[1:2] == await store.keys(prefix, first, limit=1)

        asyncio.run(scenario())

    def test_empty_store_lists_no_keys(self) -> None:
        """If no key has the prefix, the list is empty; that is not an error."""
        store = self.make()

        assert [] == asyncio.run(store.keys(""))
        assert [] == asyncio.run(store.keys("runs/a/"))

    def test_limit_below_one_is_rejected(self) -> None:
        """An empty page means the end, so no caller may ask for one."""
        with pytest.raises(ValueError, match="limit"):
            asyncio.run(self.make().keys("", limit=0))

    def test_all_keys_iterates_over_every_page(self) -> None:
        """`all_keys` returns each key once, over several pages."""
        store = self.make()
        keys = [f"p/{number:04}" for number in range(2001)]

        async def scenario() -> list[str]:
            await _create_all(store, keys)
            return [key async for key in all_keys(store, "p/")]

        assert keys == asyncio.run(scenario())

    # delete

    def test_deleted_key_can_be_created_again(self) -> None:
        """A deleted key cannot be read, is not listed, and can be created again."""
        store = self.make()

        async def scenario() -> bytes:
            await store.create("runs/a/1", b"first")
            await store.delete("runs/a/1")
            with pytest.raises(NotFound):
                await store.read("runs/a/1")
            assert [] == await store.keys("")
            await store.create("runs/a/1", b"second")
            return await store.read("runs/a/1")

        assert b"second" == asyncio.run(scenario())

    def test_delete_is_idempotent_and_keeps_other_keys(self) -> None:
        """A second delete, or one of a missing key, is a success."""
        store = self.make()

        async def scenario() -> list[str]:
            await _create_all(store, ("r/a/1", "r/a/2", "r/b"))
            for _ in range(2):
                await store.delete("r/a/1")
                await store.delete("nobody/made/this")
            return await store.keys("")

        assert ["r/a/2", "r/b"] == asyncio.run(scenario())

    # invalid keys

    def test_invalid_keys_are_rejected_by_every_operation(self) -> None:
        """`InvalidKey` has the key, and nothing is written."""
        store = self.make()

        async def scenario() -> list[str]:
            for key in INVALID_KEYS:
                for operation in (
                    store.create(key, b""),
                    store.read(key),
                    store.delete(key),
                ):
                    with pytest.raises(InvalidKey) as raised:
                        await operation
                    assert key == raised.value.key
            for prefix in INVALID_PREFIXES:
                with pytest.raises(InvalidKey):
                    await store.keys(prefix)
            return await store.keys("")

        assert [] == asyncio.run(scenario())

    # concurrency

    def test_exactly_one_of_racing_tasks_creates_a_key(self) -> None:
        """If 16 tasks create one key, one of them succeeds."""
        store = self.make()

        async def one_round(number: int) -> tuple[int, bytes]:
            key = f"race/{number}"
            bodies = [str(task).encode() for task in range(16)]
            won = await asyncio.gather(
                *(create_race.try_create(store, key, body) for body in bodies)
            )
            return won.count(True), bodies[won.index(True)]

        async def scenario() -> None:
            for number in range(20):
                winners, body = await one_round(number)
                assert 1 == winners
                assert body == await store.read(f"race/{number}")

        asyncio.run(scenario())

    def test_reader_never_sees_a_part_of_a_body(self) -> None:
        """A body becomes visible at once and whole."""
        store = self.make()
        body = os.urandom(1024) * 1024

        async def read_until_there(key: str) -> bytes:
            while True:
                try:
                    return await store.read(key)
                except NotFound:
                    await asyncio.sleep(0)

        async def scenario() -> None:
            for number in range(5):
                key = f"half/{number}"
                seen, _ = await asyncio.gather(
                    read_until_there(key), store.create(key, body)
                )
                assert body == seen

        asyncio.run(scenario())

    def test_concurrent_creates_of_different_keys_all_succeed(self) -> None:
        """Creates of different keys do not disturb each other."""
        store = self.make()
        keys = [f"many/{number % 7}/{number:03}" for number in range(100)]

        async def scenario() -> list[str]:
            await asyncio.gather(*(store.create(key, b"x") for key in keys))
            return await store.keys("many/")

        assert sorted(keys) == asyncio.run(scenario())

    # probe

    def test_probe_passes_and_is_recorded(self) -> None:
        """The probe passes, and leaves one object that records this."""
        store = self.make()

        async def scenario() -> list[str]:
            await store.probe()
            await store.probe()
            return await store.keys("")

        assert [PROBE_PASSED_KEY] == asyncio.run(scenario())

    # commit: stores without one pass these tests

    def test_commit_makes_its_creates_together_or_not_at_all(self) -> None:
        """If the key is taken, no other body of the call is written."""
        store = self.make()

        async def scenario(commit: Commit) -> list[str]:
            await commit(Changes(key="k", body=b"1", also={"a/1": b"", "b": b"2"}))
            with pytest.raises(AlreadyExists) as raised:
                await commit(Changes(key="k", body=b"3", also={"c": b"4"}))
            assert "k" == raised.value.key
            assert [b"1", b"", b"2"] == [await store.read(k) for k in ("k", "a/1", "b")]
            return await store.keys("")

        assert ["a/1", "b", "k"] == _committed(store, scenario, ["a/1", "b", "k"])

    def test_commit_keeps_other_bodies_that_exist(self) -> None:
        """Only its first key must be absent."""
        store = self.make()

        async def scenario(commit: Commit) -> bytes:
            await store.create("a", b"first")
            await commit(Changes(key="k", body=b"", also={"a": b"second"}))
            return await store.read("a")

        assert b"first" == _committed(store, scenario, b"first")

    def test_commit_keeps_its_first_body_if_it_names_the_key_again(self) -> None:
        """The first key is made first."""
        store = self.make()

        async def scenario(commit: Commit) -> bytes:
            await commit(Changes(key="k", body=b"first", also={"k": b"second"}))
            return await store.read("k")

        assert b"first" == _committed(store, scenario, b"first")

    def test_commit_refuses_invalid_keys_and_writes_nothing(self) -> None:
        """Each key of its creates is checked."""
        store = self.make()

        async def scenario(commit: Commit) -> list[str]:
            for key, other in (("../a", "b"), ("a", "b//c")):
                also = {"c": b"", other: b""}
                with pytest.raises(InvalidKey):
                    await commit(Changes(key=key, body=b"", also=also))
            return await store.keys("")

        assert not _committed(store, scenario, list[str]())

    def test_commit_lists_after_its_creates_and_before_its_deletes(self) -> None:
        """The listing has the limits of `keys`."""
        store = self.make()

        async def scenario(commit: Commit) -> list[list[str]]:
            for key in ("r/1", "r/2", "r/3", "s"):
                await store.create(key, b"")
            changes = Changes(
                key="r/15",
                body=b"",
                also={"r/16": b""},
                listing=Listing("r/", "r/1", 3),
                deletes=["r/2", "r/3", "absent"],
            )
            committed = await commit(changes)
            assert committed.is_cleaned
            return [committed.page or [], await store.keys("")]

        expected = [["r/15", "r/16", "r/2"], ["r/1", "r/15", "r/16", "s"]]
        assert expected == _committed(store, scenario, expected)

    def test_commit_deletes_only_while_its_key_is_the_first(self) -> None:
        """A key before it, or a create that another call made, keeps all keys."""
        store = self.make()

        async def scenario(commit: Commit) -> list[bool]:
            cleaned: list[bool] = []
            for key in ("v/5", "v/4", "v/45"):
                await store.create(f"mark/{key[2:]}", b"")
                changes = Changes(
                    key=key,
                    body=b"",
                    deletes=[f"mark/{key[2:]}"],
                    only_if_first="v/",
                )
                cleaned.append((await commit(changes)).is_cleaned)
                with pytest.raises(AlreadyExists):
                    await commit(changes._replace(deletes=["v/4", "v/5"]))
            marks = await store.keys("mark/")
            assert ["mark/45"] == marks
            assert not (await commit(Changes(key="w", body=b""))).is_cleaned
            return cleaned

        expected = [True, True, False]
        assert expected == _committed(store, scenario, expected)

    def test_exactly_one_of_racing_commits_is_made(self) -> None:
        """The bodies of the others do not exist."""
        store = self.make()

        async def scenario(commit: Commit) -> int:
            async def race(number: int) -> bool:
                also = {f"also/{number}": b""}
                try:
                    await commit(Changes(key="k", body=b"%d" % number, also=also))
                except AlreadyExists:
                    return False
                return True

            won = await asyncio.gather(*map(race, range(30)))
            winner = won.index(True)
            assert b"%d" % winner == await store.read("k")
            assert [f"also/{winner}"] == await store.keys("also/")
            return sum(won)

        assert 1 == _committed(store, scenario, 1)

    def test_of_two_that_write_and_then_look_one_sees_the_other(self) -> None:
        """The listing of a commit shows what was created before it was made."""
        store = self.make()

        async def scenario(commit: Commit) -> int:
            async def write_and_look(name: str) -> bool:
                await store.create(f"{name}/b", b"")
                return f"{name}/a" in await store.keys(f"{name}/")

            async def commit_and_look(name: str) -> bool:
                listing = Listing(f"{name}/")
                changes = Changes(key=f"{name}/a", body=b"", listing=listing)
                return f"{name}/b" in ((await commit(changes)).page or ())

            blind = 0
            for number in range(100):
                name = f"n{number}"
                seen = await asyncio.gather(commit_and_look(name), write_and_look(name))
                blind += not any(seen)
            return blind

        assert 0 == _committed(store, scenario, 0)

    def test_commit_is_made_only_between_its_times(self) -> None:
        """At another time of the store, nothing is written."""
        store = self.make()

        async def scenario(commit: Commit) -> list[str]:
            now = await store.create("now", b"")
            if now is None:
                return ["also", "k", "now"]
            hour = timedelta(hours=1)
            changes = Changes(key="k", body=b"", also={"also": b""}, deletes=["now"])
            for hours in ((-2, -1), (1, 2)):
                between = now + hours[0] * hour, now + hours[1] * hour
                with pytest.raises(OutOfTime) as raised:
                    await commit(changes._replace(between=between))
                assert "k" == raised.value.key
            assert ["now"] == await store.keys("")
            between = now - hour, now + hour
            await commit(changes._replace(between=between, deletes=()))
            with pytest.raises(AlreadyExists):
                await commit(changes._replace(between=between))
            return await store.keys("")

        expected = ["also", "k", "now"]
        assert expected == _committed(store, scenario, expected)

    # keys_with_bodies: stores without one pass these tests

    def test_bodies_come_with_the_listing(self) -> None:
        """The first key of one prefix, and the last one of another."""
        store = self.make()

        async def scenario() -> None:
            for key in ("r/a/1", "r/a/2", "r/b/1", "r/b/2", "s/c"):
                await store.create(key, key.encode())
            for first_of, last_of, found in (
                ("r/b/", "r/a/", ["r/b/1", "r/a/2"]),
                ("s/", "", ["s/c"]),
                ("x/", "r/b/2", ["r/b/2"]),
                ("r/b/1", "r/b/1", ["r/b/1"]),
                ("x/", "y/", []),
            ):
                listing = Listing("r/", "r/a/1", 2)
                page = await keys_with_bodies(store, listing, first_of, last_of)
                assert ["r/a/2", "r/b/1"] == page
                if hasattr(store, "keys_with_bodies"):
                    assert isinstance(page, Page)
                    assert {key: key.encode() for key in found} == page.bodies

        asyncio.run(scenario())

    # watch: stores without one pass these tests

    def test_watch_tells_of_creates_and_then_is_quiet(self) -> None:
        """A caller wakes within a second of a create, and sleeps without one."""
        store = self.make()

        async def scenario(watched: Watch) -> None:
            for name in ("m/0-a", "m/0-b"):
                await store.create(name, b"")
                assert await watched.wait(1.0)
            # More reports are allowed, but not without an end.
            assert await _is_quiet(watched)
            await store.delete("m/0-a")
            await store.create("m/1-other", b"")
            await store.create("other/0-a", b"")
            assert await _is_quiet(watched)

        asyncio.run(store.create("m/0-old", b""))
        _run_in_watch(store, "m/0-", scenario)

    def test_watch_tells_of_a_create_before_the_wait(self) -> None:
        """A create while the caller is busy is reported at the next wait."""
        store = self.make()

        async def scenario(watched: Watch) -> None:
            await store.create("m/a", b"")
            assert await watched.wait(1.0)

        _run_in_watch(store, "m/", scenario)

    def test_cancelled_wait_loses_no_report(self) -> None:
        """A caller may stop to wait at any time."""
        store = self.make()

        async def scenario(watched: Watch) -> None:
            for number in range(10):
                waiting = asyncio.ensure_future(watched.wait(60.0))
                await asyncio.sleep(0.003 * number)
                created = asyncio.ensure_future(store.create(f"m/{number}", b""))
                await asyncio.sleep(0.001)
                waiting.cancel()
                await asyncio.wait({waiting, created})
                was_told = not waiting.cancelled() and waiting.result()
                assert was_told or await watched.wait(1.0)

        _run_in_watch(store, "m/", scenario)

    def test_closed_watch_leaves_nothing(self) -> None:
        """No task, thread or descriptor stays after the block."""
        store = self.make()

        async def scenario() -> list[tuple[int, int, int]]:
            await store.create("m/a", b"")
            counts: list[tuple[int, int, int]] = []
            for _ in range(8):
                async with watch(store, "m/") or nullcontext() as watched:
                    if watched is not None:
                        await watched.wait(0.01)
                tasks, threads = len(asyncio.all_tasks()), threading.active_count()
                counts.append((tasks, threads, _open_descriptors()))
            return counts

        # The first blocks may start what the store keeps: connections and threads.
        *_, before, _, after = asyncio.run(scenario())
        assert before == after

    # ephemeral values: stores without them pass these tests

    def test_ephemeral_value_is_read_overwritten_and_removed(self) -> None:
        """A reader gets the last value, whole, and none after its removal."""
        store = self.make()

        async def scenario(values: Ephemeral) -> None:
            large = bytes(range(256)) * (MAX_EPHEMERAL_BYTES // 256)
            assert {} == await values.get(["w/a", "w/b"])
            await values.put({"w/a": b"one", "w/b": b"", "v/c": b"\xff"}, 60.0)
            await values.put({"w/a": large}, 60.0)
            assert {"w/a": large, "w/b": b""} == await values.get(["w/b", "w/a", "w/x"])
            assert ["w/a", "w/b"] == sorted(await values.names("w/"))
            assert ["v/c"] == await values.names("v/")
            await values.remove(["w/a", "w/x"])
            await values.remove(["w/a"])
            assert {"w/b": b""} == await values.get(["w/a", "w/b"])
            assert ["w/b"] == await values.names("w/")

        _with_ephemeral(store, scenario)

    def test_ephemeral_value_ends(self) -> None:
        """A value is not returned after its time; a new one has a time of its own."""
        store = self.make()

        async def scenario(values: Ephemeral) -> None:
            await values.put({"a": b"1", "b": b"1"}, 0.2)
            await values.put({"b": b"2"}, 60.0)
            await asyncio.sleep(0.3)
            assert {"b": b"2"} == await values.get(["a", "b"])
            assert ["b"] == await values.names("")

        _with_ephemeral(store, scenario)

    def test_ephemeral_values_and_keys_do_not_meet(self) -> None:
        """No verb shows a value, and a name may be the name of a key."""
        store = self.make()

        async def scenario(values: Ephemeral) -> None:
            known = await store.keys("")
            await values.put({"a/b": b"value", "c": b"value"}, 60.0)
            assert known == await store.keys("")
            with pytest.raises(NotFound):
                await store.read("a/b")
            await store.create("a/b", b"body")
            await store.create("c/d", b"body")
            assert {"a/b": b"value"} == await values.get(["a/b"])
            await store.delete("a/b")
            await values.remove(["c"])
            assert {"a/b": b"value"} == await values.get(["a/b", "c"])
            assert b"body" == await store.read("c/d")

        _with_ephemeral(store, scenario)

    def test_ephemeral_values_have_limits(self) -> None:
        """A value, a time or a name that is not valid is rejected, and not set."""
        store = self.make()

        async def scenario(values: Ephemeral) -> None:
            for value, seconds in (
                (bytes(MAX_EPHEMERAL_BYTES + 1), 1.0),
                (b"", MAX_EPHEMERAL_SECONDS + 1),
                (b"", 0.0),
            ):
                with pytest.raises(ValueError, match="at most"):
                    await values.put({"a": value}, seconds)
            for name in INVALID_KEYS:
                with pytest.raises(InvalidKey):
                    await values.put({"a": b"", name: b""}, 1.0)
            assert [] == await values.names("")

        _with_ephemeral(store, scenario)

    def _round_trip(self, body: bytes) -> bytes:
        store = self.make()

        async def scenario() -> bytes:
            await store.create("body", body)
            return await store.read("body")

        return asyncio.run(scenario())


class SharedStoreContract(StoreContract):
    """The tests for a store that several processes can use; define `opener`.

    Attributes:
        racers: The number of processes that race for one key.
        rounds: The number of races.
    """

    racers = 32
    rounds = 100

    def opener(self) -> Callable[[], Store]:
        """Return a picklable callable; each call opens one store, at first empty."""
        raise NotImplementedError

    def make(self) -> Store:
        """Return a new and empty store."""
        return self.opener()()

    def test_exactly_one_of_racing_processes_creates_a_key(self) -> None:
        """One process succeeds in each round; the others read the winner's body."""
        reports = self._race(self.opener())
        reports_per_round = dict.fromkeys(range(self.rounds), self.racers)
        winners = {report.round: report.racer for report in reports if report.won}

        assert [] == [report.error for report in reports if report.error]
        assert reports_per_round == Counter(report.round for report in reports)
        assert self.rounds == sum(report.won for report in reports)
        assert self.rounds == len(winners)
        # The others read the winner's body as soon as their create fails.
        assert [] == [
            each for each in reports if each.winner_seen != winners[each.round]
        ]

    def test_keys_of_other_processes_are_read_and_listed(self) -> None:
        """Listings and reads are consistent across processes."""
        opener = self.opener()
        # One other process creates every key; the body is its number, 0.
        self._race(opener, racers=1)
        store = opener()
        expected = sorted(f"race/{number}" for number in range(self.rounds))

        async def scenario() -> tuple[list[str], bytes]:
            return await store.keys("race/"), await store.read("race/0")

        assert (expected, b"0") == asyncio.run(scenario())

    def test_recorded_probe_is_visible_to_other_stores(self) -> None:
        """A second store finds the object that the probe left."""
        opener = self.opener()

        asyncio.run(opener().probe())

        assert [PROBE_PASSED_KEY] == asyncio.run(opener().keys(""))

    def test_watch_tells_of_creates_of_another_process(self) -> None:
        """A caller wakes within a second after another process created a key."""
        opener = self.opener()
        store = opener()

        async def scenario(watched: Watch) -> None:
            await asyncio.to_thread(self._race, opener, 1)
            assert await watched.wait(1.0)

        asyncio.run(store.create("race/old", b""))
        _run_in_watch(store, "race/", scenario)

    def test_ephemeral_value_is_shared_with_other_stores(self) -> None:
        """Another store of the same place gets the value and its name."""
        opener = self.opener()

        async def scenario(values: Ephemeral) -> None:
            others = ephemeral(opener())
            assert others is not None
            await values.put({"w/a": b"one"}, 60.0)
            assert {"w/a": b"one"} == await others.get(["w/a"])
            await others.put({"w/a": b"two"}, 60.0)
            assert {"w/a": b"two"} == await values.get(["w/a"])
            await others.remove(await others.names("w/"))
            assert {} == await values.get(["w/a"])

        _with_ephemeral(opener(), scenario)

    def _race(
        self, opener: Callable[[], Store], racers: int | None = None
    ) -> list[create_race.RacerReport]:
        count = self.racers if racers is None else racers
        return create_race.run_race(
            create_race.Race(opener=opener, racers=count, rounds=self.rounds)
        )


async def _create_all(store: Store, keys: Iterable[str]) -> None:
    await asyncio.gather(*(store.create(key, key.encode()) for key in keys))


async def _created_and_listed(store: Store, keys: Iterable[str]) -> list[str]:
    await _create_all(store, keys)
    return await store.keys("")


def _committed(
    store: Store, scenario: Callable[[Commit], Awaitable[T]], otherwise: T
) -> T:
    """Return the result of a scenario; `otherwise` if the store has no `commit`."""
    commit = committer(store)

    async def run(commit: Commit) -> T:
        return await scenario(commit)

    return otherwise if commit is None else asyncio.run(run(commit))


def _run_in_watch(
    store: Store, prefix: str, scenario: Callable[[Watch], Awaitable[None]]
) -> None:
    """Run a scenario while keys are watched, if the store can watch them."""

    async def run() -> None:
        watching = watch(store, prefix)
        if watching is not None:
            async with watching as watched:
                await scenario(watched)

    asyncio.run(run())


def _with_ephemeral(
    store: Store, scenario: Callable[[Ephemeral], Awaitable[None]]
) -> None:
    """Run a scenario with the ephemeral values of a store, if it has any."""

    async def run() -> None:
        values = ephemeral(store)
        if values is not None:
            await store.create("x", b"")
            await scenario(values)

    asyncio.run(run())


async def _is_quiet(watched: Watch) -> bool:
    """Return whether one of the next calls, which take a second, reports nothing."""
    for _ in range(5):
        if not await watched.wait(0.2):
            return True
    return False


def _open_descriptors() -> int:
    folder = "/proc/self/fd"
    return len(os.listdir(folder)) if os.path.isdir(folder) else 0  # noqa: PTH112, PTH208
