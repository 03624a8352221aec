"""Versions: a state is loaded as it was appended, or an error names the object."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from math import log2

import pytest
from hypothesis import given, settings

from continuations.core.changes.events import Event
from continuations.core.rows.delta import diff
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.errors import (
    ContinuationsError,
    Corrupt,
    FormatError,
    Inconclusive,
    RunNotFound,
    StaleRun,
    StoreUnavailable,
)
from continuations.ledger import layout
from continuations.ledger import versions as versions_module
from continuations.ledger.loaded_version import Tree
from continuations.ledger.objects import Objects
from continuations.ledger.versions import LoadedVersion, Versions
from continuations.wire.envelope import decode_object, object_digest
from continuations.wire.versions import VersionHeader, encode_version
from continuations_storage import MemoryStore
from continuations_storage.errors import AlreadyExists, Unavailable
from continuations_storage.faults import FaultyStore, at, lost_reply, on, refused
from tests.core.schedules import CHOICES, first_state, run_schedule
from tests.ledger.fake_clock import MOMENT, seconds_after_start
from tests.ledger.histories import history
from tests.ledger.runs import (
    RUN,
    all_keys,
    copy_object,
    make_objects,
    make_state,
    run_async,
    with_message,
)
from tests.outcomes import present
from tests.sampling import examples

pytestmark = pytest.mark.usefixtures("no_carried_bytes")
MARKERS = (layout.Marker(0, "g", "1", "00000001", RUN).key,)


async def append_all(versions: Versions, tables: Iterable[RunState]) -> LoadedVersion:
    """Append states in turn; return the last version."""
    loaded: LoadedVersion | None = None
    for state in tables:
        loaded = await versions.append(loaded, state, at=MOMENT)
    assert loaded is not None
    return loaded


def states_with_messages(count: int, *, run_id: str = RUN) -> list[RunState]:
    """Return states of a run, each with one more message."""
    tables = [make_state(run_id=run_id)]
    for number in range(1, count):
        tables.append(with_message(tables[-1], f"message {number} of {run_id}"))
    return tables


# Round trips ------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_every_version_of_a_long_history_loads_as_it_was_appended(
    seed: int, objects: Objects
) -> None:
    tables = list(history(seed, 260))

    # Given a run of hundreds of versions, made by one writer
    await append_all(Versions(objects, RUN), tables)

    # When another process loads each of them
    versions = Versions(objects, RUN)
    for number, state in enumerate(tables, 1):
        loaded = await versions.load(number)

        # Then it is the state that was appended
        assert (number, versions_module.FIRST_TREE) == (loaded.number, loaded.tree)
        assert state == loaded.state

    assert len(tables) == (await versions.load_newest()).number


@pytest.mark.parametrize("seed", [4, 5])
async def test_any_process_can_append_after_any_version(seed: int) -> None:
    """A process that loaded version n appends the same as the one that wrote it."""
    tables = list(history(seed, 90))

    objects, other = make_objects(), make_objects()
    await append_all(Versions(objects, RUN), tables)
    loaded = await Versions(other, RUN).append(None, tables[0], at=MOMENT)
    for number, (before, after) in enumerate(zip(tables, tables[1:]), 1):  # noqa: B905, RUF007 - one shorter
        # Given a process that knows version n from the store alone
        loaded = await Versions(other, RUN).load(number)
        assert before == loaded.state

        # When it appends what changed since
        loaded = await Versions(other, RUN).append(loaded, after, at=MOMENT)
        assert after == loaded.state

    # Then every version is again as it was
    for number, state in enumerate(tables, 1):
        assert state == (await Versions(other, RUN).load(number)).state


@settings(max_examples=examples(25), deadline=None, derandomize=True)
@given(CHOICES)
def test_state_after_every_event_loads_equal(choices: list[int]) -> None:
    """A version holds a whole state, whatever event came before."""
    tables: list[RunState] = [first_state(choices)]

    def watch(_: RunState, __: Event, after: RunState) -> None:
        tables.append(after)

    run_schedule(tables[0], choices, watch)

    async def scenario() -> None:
        objects = make_objects()
        versions = Versions(objects, tables[0].run.id)
        await append_all(versions, tables)
        for number, state in enumerate(tables, 1):
            loaded = await versions.load(number)
            assert state == loaded.state
            assert set(state.runnable) == set(loaded.state.runnable)

    run_async(scenario())


async def test_rewritten_log_has_no_message_of_another_history() -> None:
    # Given a run whose messages were replaced by as many others
    objects = make_objects()
    first = with_message(with_message(make_state(), "old 1"), "old 2")
    log = first.logs[ROOT_FRAME_ID]
    fresh = replace(log, id=log.id + 1, messages=log.messages[:1])
    second = replace(first, logs={ROOT_FRAME_ID: fresh})
    second = with_message(with_message(second, "new 1"), "new 2")
    await append_all(Versions(objects, RUN), [first, second, second])

    # When the version after it is loaded
    loaded = await Versions(objects, RUN).load(3)

    # Then it has the new messages
    assert second.logs == loaded.state.logs


async def test_header_and_marker_keys_are_loaded() -> None:
    versions = Versions(make_objects(), RUN)
    made = await versions.append(
        None, make_state(), at=seconds_after_start(1), marker_keys=MARKERS
    )
    header = present(await versions.newest_header())

    assert (RUN, 1, 1, 0) == (
        header.run_id,
        header.number,
        header.root,
        header.base,
    )
    assert (seconds_after_start(1), "suspended", None) == (
        header.at,
        header.status,
        header.claimed_until,
    )
    assert MARKERS == header.markers == made.marker_keys
    assert MARKERS == (await versions.load_newest()).marker_keys


async def test_append_returns_the_store_time() -> None:
    objects = make_objects(MemoryStore(lambda: seconds_after_start(7)))
    made = await Versions(objects, RUN).append(None, make_state(), at=MOMENT)

    assert seconds_after_start(7) == made.store_time
    assert (await Versions(objects, RUN).load_newest()).store_time is None


# Costs ------------------------------------------------------------------------


async def test_bytes_and_reads_grow_with_the_logarithm() -> None:
    """The cost of a run does not grow with the square of its turns."""
    count = 400
    text = "x" * 400

    store = FaultyStore(MemoryStore())
    objects = Objects(store)
    tables = [make_state()]
    for number in range(1, count):
        tables.append(with_message(tables[-1], f"{number} {text}"))
    await append_all(Versions(objects, RUN), tables)
    bodies = [
        await store.inner.read(key)
        for key in await store.inner.keys(layout.versions_prefix(RUN))
    ]
    copies = sum(len(text) * number for number in range(1, count + 1))

    # One message is in at most log2(n) + 1 objects. The rest of an object is
    # the row of the run and the envelope, at most 400 bytes.
    most = count * (len(text) + 60) * (log2(count) + 1) + count * 400
    assert sum(map(len, bodies)) < most
    assert sum(map(len, bodies)) < copies / 8

    for number in (1, 2, 3, 255, 256, 383, 399, 400):
        store.operations.clear()
        await Versions(objects, RUN).load(number)
        reads = [each.key for each in store.operations]
        assert len(reads) == len(set(reads)) <= log2(number) + 1
        assert {"read"} == {each.verb for each in store.operations}


async def test_newest_version_costs_one_listing_of_one_key() -> None:
    store = FaultyStore(MemoryStore())
    await append_all(Versions(Objects(store), RUN), states_with_messages(20))
    store.operations.clear()

    assert 20 == await Versions(Objects(store), RUN).newest_number()
    assert ["keys"] == [each.verb for each in store.operations]


async def test_appending_is_one_create() -> None:
    store = FaultyStore(MemoryStore())
    await append_all(Versions(Objects(store), RUN), states_with_messages(50))

    assert ["create"] * 50 == [each.verb for each in store.operations]


# Losing -----------------------------------------------------------------------


async def test_one_of_racing_appends_succeeds(objects: Objects) -> None:
    """The others get `StaleRun` and wrote nothing."""
    # Given ten processes that have loaded the same version
    await append_all(Versions(objects, RUN), states_with_messages(5))
    loaded = [await Versions(objects, RUN).load_newest() for _ in range(10)]
    before = await all_keys(objects)

    # When all of them append the next
    results = await asyncio.gather(
        *(
            Versions(objects, RUN).append(
                each, with_message(each.state, f"writer {number}"), at=MOMENT
            )
            for number, each in enumerate(loaded)
        ),
        return_exceptions=True,
    )

    # Then one succeeds, and the run has its state
    won = [each for each in results if not isinstance(each, BaseException)]
    lost = [each for each in results if isinstance(each, StaleRun)]
    assert (1, 9) == (len(won), len(lost))
    assert won[0].state == (await Versions(objects, RUN).load_newest()).state
    assert [layout.version_key(RUN, 6), *before] == await all_keys(objects)
    assert all(each.run_id == RUN and "version 5" in str(each) for each in lost)


async def test_one_of_racing_first_versions_succeeds(objects: Objects) -> None:
    results = await asyncio.gather(
        *(Versions(objects, RUN).append(None, make_state(), at=MOMENT) for _ in "abcd"),
        return_exceptions=True,
    )

    assert 3 == sum(isinstance(each, StaleRun) for each in results)
    assert [layout.version_key(RUN, 1)] == await all_keys(objects)


async def test_append_after_an_old_version_raises_stale_run(objects: Objects) -> None:
    """Late writes of an old holder are not merged."""
    # Given a process that was frozen at version 3, while others went on to 9
    versions = Versions(objects, RUN)
    await append_all(versions, states_with_messages(3))
    frozen = await versions.load_newest()
    newest = frozen
    for number in range(4, 10):
        newest = await versions.append(
            newest, with_message(newest.state, f"message {number}"), at=MOMENT
        )

    # When it resumes and writes
    with pytest.raises(StaleRun):
        await versions.append(frozen, with_message(frozen.state, "late"), at=MOMENT)

    # Then nothing was written
    assert newest.state == (await versions.load_newest()).state


async def test_append_with_lost_reply_is_inconclusive_not_stale() -> None:
    inner = MemoryStore()
    store = FaultyStore(inner, at(1, lost_reply()))
    with pytest.raises(Inconclusive):
        await Versions(Objects(store), RUN).append(None, make_state(), at=MOMENT)

    assert 1 == (await Versions(Objects(inner), RUN).load_newest()).number


@pytest.mark.parametrize("number", [1, 4])
async def test_append_on_an_unlisted_existing_key_is_corrupt(number: int) -> None:
    """`StaleRun` would make the caller read the run again without an end."""
    # Given an object under the next number that the store does not list
    inner = MemoryStore()
    tables = states_with_messages(number)
    before = None
    if number > 1:
        before = await append_all(Versions(Objects(inner), RUN), tables[:-1])
    key = layout.version_key(RUN, number)
    store = FaultyStore(inner, on("create", refused(AlreadyExists), prefix=key))

    # When a writer appends a version
    with pytest.raises(Corrupt, match=key) as caught:
        await Versions(Objects(store), RUN).append(before, tables[-1], at=MOMENT)

    # Then it gets the key, and can go on once the object is moved away
    assert RUN == caught.value.run_id
    await Versions(Objects(inner), RUN).append(before, tables[-1], at=MOMENT)
    assert number == await Versions(Objects(inner), RUN).newest_number()


async def test_unavailable_store_is_not_reported_as_damage(inner: MemoryStore) -> None:
    await append_all(Versions(Objects(inner), RUN), states_with_messages(7))
    for skip in range(3):
        store = FaultyStore(inner, on("read", refused(Unavailable), skip=skip, times=9))
        with pytest.raises(StoreUnavailable):
            await Versions(Objects(store), RUN).load(7)


# What is not there ------------------------------------------------------------


async def test_missing_run_raises_run_not_found(objects: Objects) -> None:
    await append_all(
        Versions(objects, "jane-12"), states_with_messages(1, run_id="jane-12")
    )
    versions = Versions(objects, RUN)

    assert 0 == await versions.newest_number()
    assert await versions.newest_header() is None
    with pytest.raises(RunNotFound) as caught:
        await versions.load_newest()
    assert RUN == caught.value.run_id


@pytest.mark.parametrize("number", [-(2**40), -1, 0, 8, 99, 10**10, 10**20])
async def test_missing_version_number_raises_run_not_found(number: int) -> None:
    versions = Versions(make_objects(), RUN)
    await append_all(versions, states_with_messages(7))
    with pytest.raises(RunNotFound) as caught:
        await versions.load(number)
    assert str(number) in str(caught.value)


async def test_deleted_version_is_corrupt(store: MemoryStore) -> None:
    await append_all(Versions(Objects(store), RUN), states_with_messages(7))
    await store.delete(layout.version_key(RUN, 5))
    await assert_refused(store, RUN, 5, 5)


@pytest.mark.parametrize("name", [".DS_Store", "99999999999", "12", "x" * 10])
async def test_foreign_key_among_versions_is_corrupt(name: str) -> None:
    store = MemoryStore()
    await store.create(f"runs/{RUN}/v/{name}", b"")
    with pytest.raises(ContinuationsError) as caught:
        await Versions(Objects(store), RUN).load_newest()
    assert RUN in str(caught.value)


# Damaged and swapped objects --------------------------------------------------


async def assert_refused(
    store: MemoryStore, run_id: str, number: int, damaged: int
) -> None:
    """Check that a load raises an error with the key, and changes nothing."""
    everything = {key: await store.read(key) for key in await store.keys("")}

    with pytest.raises(FormatError) as caught:
        await Versions(Objects(store), run_id).load(number)

    assert layout.version_key(run_id, damaged) in str(caught.value)
    assert everything == {key: await store.read(key) for key in await store.keys("")}


@pytest.mark.parametrize("damaged", range(1, 7))
async def test_version_with_a_missing_base_is_corrupt(damaged: int) -> None:
    """The versions whose chain has it are corrupt, and no others."""
    store = MemoryStore()
    tables = states_with_messages(7)
    await append_all(Versions(Objects(store), RUN), tables)
    await store.delete(layout.version_key(RUN, damaged))

    for number in range(1, 8):
        if damaged in versions_module.FIRST_TREE.chain(number):
            await assert_refused(store, RUN, number, damaged)
        else:
            loaded = await Versions(Objects(store), RUN).load(number)
            assert tables[number - 1] == loaded.state


async def test_error_names_the_missing_base_not_the_whole_version() -> None:
    """The error says which object to restore."""
    objects = make_objects()
    await append_all(Versions(objects, RUN), states_with_messages(7))

    # Given no base, 7 needs one
    base = versions_module.FIRST_TREE.base(7)
    with pytest.raises(
        Corrupt, match=rf"its base, version {base}, is damaged or missing"
    ):
        await Versions(objects, RUN).rebuild(7, {})

    # And 1 is a full copy and needs no base
    assert 1 == (await Versions(objects, RUN).rebuild(1, {})).number


async def test_unneeded_versions_may_be_missing(store: MemoryStore) -> None:
    tables = states_with_messages(7)
    await append_all(Versions(Objects(store), RUN), tables)
    needed = versions_module.FIRST_TREE.chain(7)
    for number in {1, 2, 3, 4, 5, 6} - {*needed}:
        await store.delete(layout.version_key(RUN, number))

    assert tables[6] == (await Versions(Objects(store), RUN).load_newest()).state


def flip_bit(body: bytes, objects: int) -> bytes:
    return body[:objects] + bytes([body[objects] ^ 4]) + body[objects + 1 :]


@pytest.mark.parametrize("step", [0, 1, 2])
async def test_damaged_object_is_corrupt_and_kept(step: int) -> None:
    """Empty, zeroed, truncated, changed and foreign bodies are found."""
    damaged = versions_module.FIRST_TREE.chain(7)[step]

    store = MemoryStore()
    await append_all(Versions(Objects(store), RUN), states_with_messages(7))
    key = layout.version_key(RUN, damaged)
    good = await store.read(key)
    bad = [b"", b"\0" * len(good), b"hello", b"{}", good + b"\0", good[1:]]
    bad += [good[:end] for end in range(1, len(good), 17)]
    bad += [flip_bit(good, objects) for objects in range(0, len(good), 11)]
    for body in bad:
        await store.delete(key)
        await store.create(key, body)
        await assert_refused(store, RUN, 7, damaged)

    # And with the object restored, the run can be loaded
    await store.delete(key)
    await store.create(key, good)
    await Versions(Objects(store), RUN).load(7)


@pytest.mark.parametrize("number", [1, 4, 6, 7])
async def test_object_of_another_run_is_corrupt(number: int) -> None:
    """The object of one run under the key of another is not used."""
    store = MemoryStore()
    await append_all(Versions(Objects(store), RUN), states_with_messages(7))
    await append_all(
        Versions(Objects(store), "kim-1"), states_with_messages(7, run_id="kim-1")
    )
    source, target = (
        layout.version_key(RUN, number),
        layout.version_key("kim-1", number),
    )
    await copy_object(store, source, target, overwrite=True)

    needed = number in versions_module.FIRST_TREE.chain(7)
    await assert_refused(store, "kim-1", 7 if needed else number, number)


@pytest.mark.parametrize(("source", "target"), [(3, 4), (4, 6), (6, 7), (7, 6), (1, 7)])
async def test_object_of_another_number_is_corrupt(source: int, target: int) -> None:
    """Version 3 under the key of version 4 is not used."""
    store = MemoryStore()
    await append_all(Versions(Objects(store), RUN), states_with_messages(7))
    keys = layout.version_key(RUN, source), layout.version_key(RUN, target)
    await copy_object(store, *keys, overwrite=True)

    needed = target in versions_module.FIRST_TREE.chain(7)
    await assert_refused(store, RUN, 7 if needed else target, target)


@pytest.mark.parametrize("step", [1, 2])
async def test_base_of_another_history_is_corrupt(step: int) -> None:
    """An earlier object of the same run and key is not used."""
    changed = versions_module.FIRST_TREE.chain(7)[step]

    # Given two histories of a run that differ from a version on
    store, other = MemoryStore(), MemoryStore()
    tables = states_with_messages(7)
    await append_all(Versions(Objects(store), RUN), tables)
    parted = [
        state if number < changed else with_message(state, "another history")
        for number, state in enumerate(tables, 1)
    ]
    await append_all(Versions(Objects(other), RUN), parted)

    # When an object of one replaces the object of the other
    key = layout.version_key(RUN, changed)
    await store.delete(key)
    await store.create(key, await other.read(key))

    # Then a version with the first as its base is not read with the second
    with pytest.raises(Corrupt):
        await Versions(Objects(store), RUN).load(7)


async def test_header_of_another_run_is_corrupt(store: MemoryStore) -> None:
    await append_all(Versions(Objects(store), RUN), states_with_messages(1))
    await copy_object(store, layout.version_key(RUN, 1), layout.version_key("kim-1", 1))
    with pytest.raises(Corrupt):
        await Versions(Objects(store), "kim-1").newest_header()


async def test_rows_that_do_not_fit_together_are_corrupt(store: MemoryStore) -> None:
    """The object is ours, but no run can have these rows."""
    state = make_state()
    headless = replace(state, frames={}, logs={})
    await append_all(Versions(Objects(store), RUN), [headless])

    await assert_refused(store, RUN, 1, 1)


# Roots ------------------------------------------------------------------------


async def write_with_root(
    store: MemoryStore, tables: list[RunState], root: int
) -> list[RunState]:
    """Write a run that has a second tree of deltas from `root` on."""
    first = versions_module.FIRST_TREE
    states = dict(enumerate(tables, 1))
    digests: dict[int, bytes] = {}
    for number, state in states.items():
        tree = replace(first, root=root) if number >= root else first
        base = tree.base(number)
        header = VersionHeader(
            run_id=RUN,
            number=number,
            root=tree.root,
            base=base,
            base_digest=digests.get(base),
            status=state.run.status,
            at=MOMENT,
        )
        body = encode_version(header, diff(states.get(base), state))
        digests[number] = object_digest(body)
        await store.create(layout.version_key(RUN, number), body)
    return tables


@pytest.mark.parametrize("root", [2, 3, 6, 8, 13])
async def test_run_with_a_later_root_loads(root: int, store: MemoryStore) -> None:
    # Given a run with a second tree from a later version on
    tables = await write_with_root(store, list(history(9, 24)), root)

    # When the versions on both sides are loaded
    for number, state in enumerate(tables, 1):
        loaded = await Versions(Objects(store), RUN).load(number)
        assert state == loaded.state
        assert (root if number >= root else 1) == loaded.tree.root

    # And the run goes on
    loaded = await Versions(Objects(store), RUN).load_newest()
    for number in range(25, 60):
        state = with_message(loaded.state, f"message {number}")
        await Versions(Objects(store), RUN).append(loaded, state, at=MOMENT)
        loaded = await Versions(Objects(store), RUN).load_newest()
        assert (number, state) == (loaded.number, loaded.state)
        assert Tree(root) == loaded.tree


@pytest.mark.parametrize("root", [3, 8, 13])
async def test_versions_before_the_root_are_not_read(root: int) -> None:
    """After a repair, the new tree needs no older version."""
    store = MemoryStore()
    tables = await write_with_root(store, list(history(9, 24)), root)
    for number in range(1, root):
        key = layout.version_key(RUN, number)
        await store.delete(key)
        await store.create(key, b"damaged")

    for number in range(root, 25):
        loaded = await Versions(Objects(store), RUN).load(number)
        assert tables[number - 1] == loaded.state


@pytest.mark.parametrize("root", [0, 8, 9_999_999_999])
async def test_invalid_root_is_corrupt(root: int, store: MemoryStore) -> None:
    state = make_state()
    header = VersionHeader(
        run_id=RUN,
        number=7,
        root=root,
        base=0,
        base_digest=None,
        status=state.run.status,
        at=MOMENT,
    )
    body = encode_version(header, diff(None, state))
    await store.create(layout.version_key(RUN, 7), body)

    await assert_refused(store, RUN, 7, 7)


async def test_base_of_another_tree_is_corrupt() -> None:
    """All objects of a chain have the same root."""
    # Given two trees of one run, over the same states
    store, other = MemoryStore(), MemoryStore()
    tables = list(history(9, 12))
    await write_with_root(store, tables, 5)
    await write_with_root(other, tables, 1)

    # When an object of one tree is in the other
    needed = Tree(5).chain(11)[1]
    key = layout.version_key(RUN, needed)
    await store.delete(key)
    await store.create(key, await other.read(key))

    # Then a version with it as its base is corrupt
    await assert_refused(store, RUN, 11, needed)


async def test_long_input_is_stored_once(store: MemoryStore) -> None:
    """In a new run, no later version repeats the input."""
    tables = [with_message(make_state(), "a long input")]
    for number in range(1, 40):
        tables.append(with_message(tables[-1], f"message {number}"))
    await append_all(Versions(Objects(store), RUN), tables)

    copies = 0
    for number in range(1, 41):
        data = await store.read(layout.version_key(RUN, number))
        copies += "a long input" in str(decode_object(data, "it").body)
    assert 1 == copies
