"""Versions that were just read, or carry the bytes of their base, need few requests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from continuations.core import jsontext
from continuations.core.rows.run import RunRow, RunStatus
from continuations.core.rows.state import RunState
from continuations.errors import Corrupt
from continuations.ledger import layout, versions
from continuations.ledger.loaded_version import LoadedVersion, Tree
from continuations.ledger.objects import Objects
from continuations.ledger.repair.doctor import check_integrity
from continuations.ledger.versions import MAX_CARRIED_BYTES, Versions
from continuations.wire.versions import (
    VersionHeader,
    VersionObject,
    decode_header,
    decode_version,
    encode_version,
)
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore
from tests.ledger.damage import damage_object, overwrite
from tests.ledger.fake_clock import MOMENT
from tests.ledger.runs import RUN, make_objects, make_state, with_message

LENGTH = 12


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the keys of the versions that are decoded."""
    keys: list[str] = []

    def decode(data: bytes, name: str, base: RunRow | None = None) -> VersionObject:
        keys.append(name)
        return decode_version(data, name, base)

    monkeypatch.setattr(versions, "decode_version", decode)
    return keys


async def append_messages(
    objects: Objects, count: int, run_id: str = RUN, text: str = "message"
) -> LoadedVersion:
    """Append a run of as many versions."""
    run = Versions(objects, run_id)
    loaded = await run.append(None, make_state(run_id=run_id), at=MOMENT)
    for number in range(2, count + 1):
        state = with_message(loaded.state, f"{text} {number}")
        loaded = await run.append(loaded, state, at=MOMENT)
    return loaded


def key_of(number: int) -> str:
    return layout.version_key(RUN, number)


async def test_second_load_decodes_nothing_and_reads_the_same(
    decoded: list[str],
) -> None:
    store = FaultyStore(MemoryStore())
    await append_messages(Objects(store), LENGTH)
    objects = Objects(store)
    first = await Versions(objects, RUN).load_newest()
    first_requests = [each.key for each in store.operations[-6:]]
    assert len(Tree(1).chain(LENGTH)) == len(decoded)
    store.operations.clear()
    decoded.clear()

    again = await Versions(objects, RUN).load_newest()

    assert [] == decoded
    assert first == again
    requests = [each.key for each in store.operations]
    assert requests == first_requests[-len(requests) :]
    assert {key_of(number) for number in Tree(1).chain(LENGTH)} < set(requests)


async def test_process_that_appended_decodes_nothing(decoded: list[str]) -> None:
    objects = Objects(MemoryStore())
    made = await append_messages(objects, LENGTH)

    loaded = await Versions(objects, RUN).load_newest()

    assert ([], made.state) == (decoded, loaded.state)


async def test_versions_of_another_process_are_decoded(decoded: list[str]) -> None:
    """Only those: their bases are known."""
    store = MemoryStore()
    objects = Objects(store)
    made = await append_messages(objects, LENGTH)
    state = with_message(made.state, "from another process")
    await Versions(Objects(store), RUN).append(made, state, at=MOMENT)

    loaded = await Versions(objects, RUN).load_newest()

    assert [key_of(LENGTH + 1)] == decoded
    assert state == loaded.state


@pytest.mark.parametrize("number", Tree(1).chain(LENGTH))
async def test_damage_is_found_although_the_version_is_kept(number: int) -> None:
    """Kept versions never stand in for objects of the store."""
    store = MemoryStore()
    objects = Objects(store)
    await append_messages(objects, LENGTH)
    await Versions(objects, RUN).load_newest()
    await damage_object(store, key_of(number), "a bit of the body flipped")

    with pytest.raises(Corrupt):
        await Versions(objects, RUN).load(LENGTH)


async def test_other_bytes_under_the_same_number_are_used() -> None:
    """A run that was deleted and started again has another history."""
    store, other = MemoryStore(), MemoryStore()
    objects = Objects(store)
    await append_messages(objects, LENGTH)
    made = await append_messages(Objects(other), LENGTH, text="another")
    for number in range(1, LENGTH + 1):
        await overwrite(store, key_of(number), await other.read(key_of(number)))

    loaded = await Versions(objects, RUN).load_newest()

    assert made.state == loaded.state


async def test_base_of_another_history_is_corrupt_although_the_version_is_kept() -> (
    None
):
    store, other = MemoryStore(), MemoryStore()
    objects = Objects(store)
    await append_messages(objects, LENGTH)
    await append_messages(Objects(other), LENGTH, text="another")
    base = key_of(Tree(1).base(LENGTH))
    await overwrite(store, base, await other.read(base))

    with pytest.raises(Corrupt):
        await Versions(objects, RUN).load_newest()


async def test_older_version_loads_although_a_newer_one_is_kept() -> None:
    store = MemoryStore()
    objects = Objects(store)
    await append_messages(objects, LENGTH)
    for number in range(1, LENGTH + 1):
        fresh = await Versions(Objects(store), RUN).load(number)
        assert fresh == await Versions(objects, RUN).load(number)


async def test_few_runs_are_kept_and_no_ended_one(decoded: list[str]) -> None:
    """The memory of a process does not grow with the runs that it worked on."""
    objects = Objects(MemoryStore())
    for number in range(20):
        await append_messages(objects, 1, f"r{number}")
    for number in reversed(range(20)):
        await Versions(objects, f"r{number}").load(1)
    assert 12 == len(decoded)

    ended = make_state(status="finished")
    await Versions(objects, RUN).append(None, ended, at=MOMENT)
    await Versions(objects, RUN).load(1)
    assert 13 == len(decoded)


# Bytes that a version carries -------------------------------------------------


KEYS = {number: layout.version_key(RUN, number) for number in (1, 2, 3)}


async def append_two(store: MemoryStore, text: str, status: RunStatus) -> LoadedVersion:
    versions = Versions(make_objects(store), RUN)
    first = await versions.append(
        None, with_status(with_message(make_state(), text), "running"), at=MOMENT
    )
    second = with_status(with_message(first.state, "a reply"), status)
    return await versions.append(first, second, at=MOMENT)


def with_status(state: RunState, status: RunStatus) -> RunState:
    run = replace(state.run, status=status)
    return replace(state, run=run)


async def header_of(store: MemoryStore, number: int) -> VersionHeader:
    return decode_header(await store.read(KEYS[number]), KEYS[number])


async def keys_read(store: MemoryStore, number: int) -> list[str]:
    """Return the keys that a load of the version reads."""
    watched = FaultyStore(store)
    await Versions(Objects(watched), RUN).load(number)
    return [operation.key for operation in watched.operations]


async def test_suspended_version_2_is_loaded_with_one_read(store: MemoryStore) -> None:
    made = await append_two(store, "short", "suspended")

    assert [KEYS[2]] == await keys_read(store, 2)
    loaded = await Versions(make_objects(store), RUN).load(2)
    assert (made.state, made.chain) == (loaded.state, loaded.chain)
    assert await store.read(KEYS[1]) == (await header_of(store, 2)).base_object


async def test_run_goes_on_after_a_version_that_carries_its_base() -> None:
    """Version 3 is a delta from version 1, which the worker did not read."""
    store = MemoryStore()
    await append_two(store, "short", "suspended")
    for number in range(3, 20):
        versions = Versions(make_objects(store), RUN)
        loaded = await versions.load_newest()
        state = with_message(loaded.state, f"message {number}")
        await versions.append(loaded, state, at=MOMENT)
        again = await Versions(make_objects(store), RUN).load_newest()
        assert (number, state) == (again.number, again.state)
    assert (await header_of(store, 3)).base_object is None
    assert (await check_integrity(make_objects(store), RUN)).is_resumable


def incompressible(size: int) -> str:
    """Return a text that zstd makes no smaller than half."""
    return "".join(jsontext.digest(str(number)) for number in range(size // 64 + 1))


@pytest.mark.parametrize(
    ("size", "status"),
    [(4 * MAX_CARRIED_BYTES, "suspended"), (10, "running"), (10, "finished")],
)
async def test_large_or_working_version_carries_nothing(
    size: int, status: RunStatus, store: MemoryStore
) -> None:
    """A long input is stored once; a running version is rarely loaded."""
    made = await append_two(store, incompressible(size), status)

    assert (await header_of(store, 2)).base_object is None
    assert sorted(KEYS[number] for number in (1, 2)) == sorted(
        await keys_read(store, 2)
    )
    loaded = await Versions(make_objects(store), RUN).load(2)
    assert made.state == loaded.state
    assert len(await store.read(KEYS[2])) < 1000


async def test_damaged_version_1_is_not_needed_to_resume_version_2() -> None:
    store = MemoryStore()
    await append_two(store, "short", "suspended")
    await damage_object(store, KEYS[1], "zero-filled")

    found = await check_integrity(make_objects(store), RUN)

    assert [KEYS[1]] == [finding.key for finding in found.findings]
    assert (True, 2) == (found.is_resumable, found.last_good_number)
    assert 2 == (await Versions(make_objects(store), RUN).load(2)).number


async def test_version_that_carries_another_object_is_corrupt() -> None:
    """The carried bytes must have the digest of the base."""
    store, other = MemoryStore(), MemoryStore()
    made = await append_two(store, "short", "suspended")
    await append_two(other, "another", "suspended")
    data = await store.read(KEYS[2])
    version = decode_version(data, KEYS[2], made.state.run)
    header = replace(version.header, base_object=await other.read(KEYS[1]))
    await overwrite(store, KEYS[2], encode_version(header, version.delta))

    with pytest.raises(Corrupt, match="it carries another object"):
        await Versions(make_objects(store), RUN).load(2)
    found = await check_integrity(make_objects(store), RUN)
    assert [KEYS[2]] == [finding.key for finding in found.findings]
    assert 1 == found.last_good_number
