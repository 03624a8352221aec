"""Version 2 carries version 1, so that one read is enough to resume most runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from continuations.core import jsontext
from continuations.core.rows.run import RunStatus
from continuations.core.rows.state import RunState
from continuations.errors import Corrupt
from continuations.ledger import layout
from continuations.ledger.objects import Objects
from continuations.ledger.repair.doctor import check_integrity
from continuations.ledger.versions import MAX_CARRIED_BYTES, LoadedVersion, Versions
from continuations.wire.versions import (
    VersionHeader,
    decode_header,
    decode_version,
    encode_version,
)
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore
from tests.ledger.damage import damage_object, overwrite
from tests.ledger.fake_clock import MOMENT
from tests.ledger.runs import RUN, make_objects, make_state, with_message

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
