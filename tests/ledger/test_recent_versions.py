"""A process decodes a version once, and reads its objects at every load."""

from __future__ import annotations

import pytest

from continuations.core.rows.run import RunRow
from continuations.errors import Corrupt
from continuations.ledger import layout, versions
from continuations.ledger.loaded_version import LoadedVersion, Tree
from continuations.ledger.objects import Objects
from continuations.ledger.versions import Versions
from continuations.wire.versions import VersionObject, decode_version
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore
from tests.ledger.damage import damage_object, overwrite
from tests.ledger.fake_clock import MOMENT
from tests.ledger.runs import RUN, make_state, with_message

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
