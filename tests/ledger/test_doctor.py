"""The doctor names damaged objects, and a repair continues from whole ones."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations import errors
from continuations.core.changes.invariants import find_violation
from continuations.core.rows.calls import Ready, Started, Unknown, Waiting
from continuations.core.rows.decisions import Approve, Deny
from continuations.core.rows.delta import diff
from continuations.core.rows.run import Claim
from continuations.core.rows.state import RunState
from continuations.ledger import layout
from continuations.ledger import versions as versions_module
from continuations.ledger.decisions.decisions import decide
from continuations.ledger.loaded_version import Tree
from continuations.ledger.repair.doctor import (
    IntegrityReport,
    check_integrity,
    repair,
    with_lost_versions,
)
from continuations.ledger.versions import LoadedVersion, Versions
from continuations.wire.envelope import object_digest
from continuations.wire.records import WAIT
from continuations.wire.versions import VersionHeader, encode_version
from continuations_storage import Denied, MemoryStore
from continuations_storage.contract import Store
from continuations_storage.faults import Crash, FaultyStore, crashed
from continuations_storage.faults import at as at_operation
from tests.ledger.damage import DAMAGES, all_objects, damage_object, overwrite
from tests.ledger.fake_clock import MOMENT, make_ulid, seconds_after_start
from tests.ledger.histories import history
from tests.ledger.interleaving import InterleavingStore
from tests.ledger.runs import (
    RUN,
    all_keys,
    make_objects,
    make_state,
    make_wait,
    run_async,
    with_message,
)
from tests.sampling import examples

pytestmark = pytest.mark.usefixtures("no_carried_bytes")

LENGTH = 13


class CountingUlids:
    """ULIDs with numbers that no other test uses."""

    def __init__(self, first: int = 900_000) -> None:
        self._next = first

    def __call__(self) -> str:
        self._next += 1
        return make_ulid(self._next, seconds_after_start(60))


async def append_states(
    store: Store, tables: Iterable[RunState], before: LoadedVersion | None = None
) -> LoadedVersion:
    versions = Versions(make_objects(store), RUN)
    for state in tables:
        before = await versions.append(before, state, at=MOMENT)
    assert before is not None
    return before


async def repair_run(store: Store, first: int = 900_000) -> LoadedVersion:
    return await repair(
        make_objects(store),
        RUN,
        now=seconds_after_start(60),
        new_ulid=CountingUlids(first),
    )


def version_key(number: int) -> str:
    return layout.version_key(RUN, number)


def damaged_keys(found: IntegrityReport) -> list[str]:
    return sorted(finding.key for finding in found.findings)


def tree_from(root: int) -> Tree:
    return Tree(root)


def expected_last_good(
    length: int, bad: set[int], roots: tuple[int, ...] = (1,)
) -> int:
    """Return the expected number, from the tree of deltas alone."""
    good = 0
    for number in range(1, length + 1):
        root = max(root for root in roots if root <= number)
        if not bad & set(tree_from(root).chain(number)):
            good = number
    return good


# Findings and the last good version -----------------------------------------


@pytest.mark.parametrize("way", DAMAGES)
async def test_every_damage_of_every_version_is_named(way: str) -> None:
    """The report has exactly that key and the last good version of the tree."""
    store = MemoryStore()
    await append_states(store, history(1, LENGTH))
    for number in range(1, LENGTH + 1):
        whole = await damage_object(store, version_key(number), way)
        gone = way == "missing" and number == LENGTH  # cannot be noticed
        found = await check_integrity(make_objects(store), RUN)

        assert ([] if gone else [version_key(number)]) == damaged_keys(found)
        assert expected_last_good(LENGTH, {number}) == found.last_good_number
        assert LENGTH - gone == found.newest_number
        assert found.is_resumable == (found.newest_number == found.last_good_number)
        if not gone:
            stranded = [
                n
                for n in range(1, LENGTH + 1)
                if number in tree_from(1).chain(n) and n != number
            ]
            assert stranded == list(found.versions_without_base)
        await overwrite(store, version_key(number), whole)
    whole_again = await check_integrity(make_objects(store), RUN)
    assert ((), LENGTH) == (whole_again.findings, whole_again.last_good_number)


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(
    st.sets(st.integers(1, LENGTH), min_size=1, max_size=LENGTH),
    st.sampled_from(sorted(set(DAMAGES) - {"missing"})),
    st.integers(0, 5),
)
def test_any_set_of_damaged_versions_is_named(
    bad: set[int], way: str, seed: int
) -> None:
    """A version that the doctor calls good can be loaded."""

    async def scenario() -> None:
        store = MemoryStore()
        tables = list(history(seed, LENGTH))
        await append_states(store, tables)
        for number in bad:
            await damage_object(store, version_key(number), way)
        before = await all_objects(store)

        found = await check_integrity(make_objects(store), RUN)

        assert sorted(map(version_key, bad)) == damaged_keys(found)
        assert expected_last_good(LENGTH, bad) == found.last_good_number
        assert before == await all_objects(store)
        if found.last_good_number:
            loaded = await Versions(make_objects(store), RUN).load(
                found.last_good_number
            )
            assert tables[found.last_good_number - 1] == loaded.state
        for number in found.lost_numbers:
            with pytest.raises(errors.FormatError):
                await Versions(make_objects(store), RUN).load(number)

    run_async(scenario())


@pytest.mark.parametrize("number", range(1, LENGTH + 1))
async def test_swapped_version_is_named(number: int) -> None:
    """An older version, one of another run, and two swapped versions are found."""
    store, foreign = MemoryStore(), MemoryStore()
    await append_states(store, history(2, LENGTH))
    others = (replace(t, run=replace(t.run, id="other")) for t in history(2, 13))
    await append_states_as(foreign, "other", others)
    whole = await all_objects(store)
    older = whole[version_key(number - 1 or 2)]
    other = await foreign.read(layout.version_key("other", number))

    for body in (older, other):
        await overwrite(store, version_key(number), body)
        found = await check_integrity(make_objects(store), RUN)
        assert [version_key(number)] == damaged_keys(found)
        assert expected_last_good(LENGTH, {number}) == found.last_good_number

    swapped = number % LENGTH + 1
    await overwrite(store, version_key(number), whole[version_key(swapped)])
    await overwrite(store, version_key(swapped), whole[version_key(number)])
    found = await check_integrity(make_objects(store), RUN)
    assert sorted([version_key(number), version_key(swapped)]) == damaged_keys(found)
    assert expected_last_good(LENGTH, {number, swapped}) == found.last_good_number


async def append_states_as(
    store: Store, run_id: str, tables: Iterable[RunState]
) -> None:
    loaded = None
    for state in tables:
        loaded = await Versions(make_objects(store), run_id).append(
            loaded, state, at=MOMENT
        )


@pytest.mark.parametrize("number", range(1, LENGTH + 1))
async def test_version_of_another_history_is_found_by_its_dependents(
    number: int,
) -> None:
    """A version of an earlier history of the run is whole by itself."""
    store, copy = MemoryStore(), MemoryStore()
    tables = list(history(3, LENGTH))
    await append_states(store, tables)
    past = [*tables[: number - 1], with_message(tables[number - 1], "another past")]
    await append_states(copy, past)
    await overwrite(store, version_key(number), await copy.read(version_key(number)))

    found = await check_integrity(make_objects(store), RUN)

    tree, numbers = tree_from(1), range(1, LENGTH + 1)
    children = [n for n in numbers if tree.base(n) == number]
    through = {n for n in numbers if set(children) & set(tree.chain(n))}
    assert sorted(map(version_key, children)) == damaged_keys(found)
    assert max(set(numbers) - through) == found.last_good_number


@pytest.mark.parametrize("root", [2, 4, 5])
async def test_version_with_an_invalid_root_blocks_no_other_version(root: int) -> None:
    """Its digest is right; later versions stay readable."""
    store = MemoryStore()
    tables = list(history(4, 7))
    (number,) = {5, 6} - {*tree_from(1).chain(7)}
    await append_states(store, tables)
    base = tree_from(root).base(number)
    header = VersionHeader(
        run_id=RUN,
        number=number,
        root=root,
        base=base,
        base_digest=object_digest(await store.read(version_key(base)))
        if base
        else None,
        status="suspended",
        at=MOMENT,
    )
    before = tables[base - 1] if base else None
    await overwrite(
        store,
        version_key(number),
        encode_version(header, diff(before, tables[number - 1])),
    )

    found = await check_integrity(make_objects(store), RUN)

    assert ([version_key(number)] if base else []) == damaged_keys(found)
    assert (7, True) == (found.last_good_number, found.is_resumable)


async def test_damage_of_unneeded_versions_does_not_block_the_run() -> None:
    """Version 8 is rebuilt without version 6."""
    store = MemoryStore()
    await append_states(store, history(4, 8))
    await damage_object(store, version_key(6), "zero-filled")

    found = await check_integrity(make_objects(store), RUN)
    same = await repair_run(store)

    assert (True, 8) == (found.is_resumable, found.last_good_number)
    assert [False] == [finding.blocks_run for finding in found.findings]
    assert 8 == same.number
    assert 8 == await Versions(make_objects(store), RUN).newest_number()


async def test_check_and_repair_of_a_missing_run_raise_run_not_found() -> None:
    store = MemoryStore()
    for work in (check_integrity(make_objects(store), RUN), repair_run(store)):
        with pytest.raises(errors.RunNotFound):
            await work
    for odd in ("../up", "", "a/b", "-a"):
        with pytest.raises(errors.InvalidId):
            await check_integrity(make_objects(store), odd)
    await store.create(layout.decision_key(make_wait(1).id), b"there was a run")
    found = await check_integrity(make_objects(store), RUN)
    assert ([version_key(1)], 0) == (damaged_keys(found), found.last_good_number)
    assert not found.is_resumable


# Keys that nobody of ours made -----------------------------------------------


@pytest.mark.parametrize("newest", [15, 4000, layout.MAX_VERSIONS - 1])
async def test_foreign_version_with_a_high_number_keeps_the_check_short(
    newest: int, store: MemoryStore
) -> None:
    """A repair uses the number after the foreign one."""
    await append_states(store, history(5, 5))
    await store.create(version_key(newest), b"garbage")

    found = await check_integrity(make_objects(store), RUN)
    repaired = await repair_run(store)

    assert (5, newest) == (found.last_good_number, found.newest_number)
    assert len(found.findings) <= 102
    assert {version_key(6), version_key(newest)} <= set(damaged_keys(found))
    assert newest + 1 == repaired.number
    assert (
        repaired.state == (await Versions(make_objects(store), RUN).load_newest()).state
    )
    assert b"garbage" == await store.read(version_key(newest))


async def test_repair_at_the_last_version_number_is_refused(store: MemoryStore) -> None:
    await append_states(store, history(5, 5))
    await store.create(version_key(layout.MAX_VERSIONS), b"garbage")
    with pytest.raises(errors.Corrupt, match="the largest possible version number"):
        await repair_run(store)


@pytest.mark.parametrize(
    ("name", "blocks"),
    [(".lock", True), ("0", True), ("9999999999", False), ("zzz", False)],
)
async def test_foreign_keys_among_versions_are_named(
    name: str, store: MemoryStore, *, blocks: bool
) -> None:
    """A foreign key that sorts first hides the newest version."""
    await append_states(store, history(5, 5))
    foreign_key = layout.versions_prefix(RUN) + name
    await store.create(foreign_key, b"?")

    found = await check_integrity(make_objects(store), RUN)

    assert [foreign_key] == damaged_keys(found)
    assert (5, not blocks) == (found.last_good_number, found.is_resumable)
    if blocks:
        with pytest.raises(errors.Corrupt, match=r"Move it out of runs/"):
            await repair_run(store)


async def test_newer_format_is_not_damage_and_blocks_repair(store: MemoryStore) -> None:
    """An old release must not undo the work of a newer one."""
    await append_states(store, history(5, 5))
    body = await store.read(version_key(5))
    newer = body[:4] + b"\0\x09" + body[6:-16]
    await overwrite(store, version_key(5), newer + object_digest(newer))
    before = await all_objects(store)

    found = await check_integrity(make_objects(store), RUN)

    assert ["newer"] == [finding.kind for finding in found.findings]
    with pytest.raises(errors.FormatError, match="format 9"):
        await repair_run(store)
    assert before == await all_objects(store)


# Repair ------------------------------------------------------------------------


def state_with_waits(*numbers: int) -> RunState:
    return make_state(*(make_wait(number) for number in numbers))


async def store_run_with_lost_versions(
    store: Store, state: RunState, lost: int = 2
) -> LoadedVersion:
    """Store a run whose last versions are damaged."""
    good = await append_states(store, [state])
    await append_states(store, [with_message(state, f"{n}") for n in range(lost)], good)
    for number in range(2, lost + 2):
        await damage_object(store, version_key(number), "cut in half")
    return good


async def test_repair_appends_a_usable_root_and_keeps_damaged_objects() -> None:
    """Later versions count from the new root."""
    store = MemoryStore()
    tables = list(history(6, 20))
    await append_states(store, tables[:7])
    for number in (4, 6, 7):
        await damage_object(store, version_key(number), "a bit of the body flipped")
    before = await all_objects(store)

    repaired = await repair_run(store)
    assert (8, tree_from(8)) == (repaired.number, repaired.tree)
    loaded = await Versions(make_objects(store), RUN).load_newest()
    assert repaired.state == loaded.state
    for state in tables[7:]:
        loaded = await Versions(make_objects(store), RUN).append(
            loaded, replace(state, run=repaired.state.run), at=MOMENT
        )
        again = await Versions(make_objects(store), RUN).load_newest()
        assert (loaded.state, tree_from(8)) == (again.state, again.tree)

    after = await all_objects(store)
    kept = [key for key in before if not key.startswith("waits/")]
    assert [] == [key for key in kept if before[key] != after[key]]
    found = await check_integrity(make_objects(store), RUN)
    assert sorted(map(version_key, (4, 6, 7))) == damaged_keys(found)
    assert found.is_resumable
    # And damage after the new root leads to another root.
    await damage_object(store, version_key(21), "zero-filled")
    bad = {4, 6, 7, 21}
    again_found = await check_integrity(make_objects(store), RUN)
    assert expected_last_good(21, bad, (1, 8)) == again_found.last_good_number
    assert 22 == (await repair_run(store, 990_000)).number


async def test_repair_counts_possibly_started_calls_as_started() -> None:
    """These are ready calls, and approved calls that must not be repeated."""
    store = MemoryStore()
    ready, yes, no, open_, edited = (make_wait(number) for number in range(1, 6))
    state = make_state(ready, yes, no, open_, edited)
    call = replace(state.calls[ready.call_id], state=Ready())
    calls = {**state.calls, call.id: call}
    waits_ = {k: w for k, w in state.waits.items() if k != ready.id}
    state = replace(state, calls=calls, waits=waits_)
    await store_run_with_lost_versions(store, state)
    objects = make_objects(store)
    for wait in (yes, no, open_, edited):
        await objects.create(layout.wait_key(wait.id), WAIT.encode(wait))
    await decide_wait(store, yes.id, Approve(by="kim"))
    await decide_wait(store, no.id, Deny(by="kim"))
    await decide_wait(store, edited.id, Approve(by="kim", arguments={"cents": 5}))

    repaired = (await repair_run(store)).state

    assert None is find_violation(repaired)
    states = {key: row.state for key, row in repaired.calls.items()}
    for wait in (ready, yes, edited):
        assert Started() == states[wait.call_id]
    assert Waiting(no.id) == states[no.call_id]
    assert '{"cents":5}' == repaired.calls[edited.call_id].arguments
    assert edited.arguments_json == repaired.calls[edited.call_id].original_arguments
    fresh = repaired.waits[states[open_.call_id].wait_id]  # type: ignore[union-attr]
    assert fresh.id != open_.id
    assert "may have been made" in (fresh.note or "")
    assert replace(fresh, id=open_.id, note=None) == open_
    assert [layout.wait_key(fresh.id)] == await all_keys(objects, "waits/")
    assert repaired.run.history_lost
    assert repaired.run.next_id > 1000 + 2 * 2**20


async def decide_wait(store: Store, wait_id: str, verdict: Approve | Deny) -> None:
    await decide(
        make_objects(store),
        wait_id,
        verdict,
        now=seconds_after_start(1),
        decision_id=make_ulid(77),
    )


async def test_repair_keeps_the_approval_of_a_repeatable_call() -> None:
    """The approval keeps its edits and its digest."""
    wait = make_wait(1)
    state = make_state(wait)
    call = replace(state.calls[wait.call_id], repeatable=True)
    state = replace(state, calls={call.id: call})

    store = MemoryStore()
    await store_run_with_lost_versions(store, state)
    await make_objects(store).create(layout.wait_key(wait.id), WAIT.encode(wait))
    await decide_wait(store, wait.id, Approve(arguments={"cents": 5}))
    repaired = (await repair_run(store)).state
    assert Waiting(wait.id) == repaired.calls[call.id].state
    assert {wait.id: wait} == repaired.waits


@pytest.mark.parametrize("way", sorted(set(DAMAGES) - {"missing"}))
@pytest.mark.parametrize("repeatable", [False, True])
async def test_repair_asks_again_if_a_decision_is_unreadable(
    way: str, store: MemoryStore, *, repeatable: bool
) -> None:
    """The decision may have been a denial, and the call may have been made."""
    wait = make_wait(1)
    state = make_state(wait)
    call = replace(state.calls[wait.call_id], repeatable=repeatable)
    state = replace(state, calls={call.id: call})

    await store_run_with_lost_versions(store, state)
    await make_objects(store).create(layout.wait_key(wait.id), WAIT.encode(wait))
    await decide_wait(store, wait.id, Deny())
    await damage_object(store, layout.decision_key(wait.id), way)
    bytes_before = await store.read(layout.decision_key(wait.id))
    repaired = (await repair_run(store)).state
    (again,) = repaired.waits.values()
    assert wait.id != again.id
    assert "cannot be read" in (again.note or "")
    assert Waiting(again.id) == repaired.calls[call.id].state
    assert bytes_before == await store.read(layout.decision_key(wait.id))


async def test_unknown_outcome_stays_unknown_under_a_new_id(store: MemoryStore) -> None:
    wait = make_wait(1, "unknown")
    await store_run_with_lost_versions(store, make_state(wait))
    repaired = (await repair_run(store)).state
    (again,) = repaired.waits.values()
    assert Unknown(again.id) == repaired.calls[wait.call_id].state
    assert ("unknown", True) == (again.kind, again.id != wait.id)


async def test_repair_keeps_an_ended_run_ended(store: MemoryStore) -> None:
    state = make_state(status="finished")
    await store_run_with_lost_versions(store, state)
    assert state == (await repair_run(store)).state


def test_ids_of_lost_versions_are_not_used_again() -> None:
    state = state_with_waits(1)
    fresh = with_lost_versions(
        state, {make_wait(1).id: "undecided"}, 7, CountingUlids()
    )
    assert state.run.next_id + 8 * 2**20 == fresh.run.next_id
    assert None is find_violation(fresh)


# Waits that a whole version cannot end ------------------------------------------


@pytest.mark.parametrize("what", ["decision", "wait"])
@pytest.mark.parametrize("way", ["empty", "zero-filled", "foreign", "cut in half"])
async def test_wait_with_damaged_objects_gets_a_new_id(what: str, way: str) -> None:
    """No version was lost, so nothing else changes."""
    store = MemoryStore()
    bad, good = make_wait(1), make_wait(2)
    state = make_state(bad, good)
    await append_states(store, [state])
    for wait in (bad, good):
        await make_objects(store).create(layout.wait_key(wait.id), WAIT.encode(wait))
    key = layout.wait_key(bad.id)
    if what == "decision":
        await decide_wait(store, bad.id, Approve())
        key = layout.decision_key(bad.id)
    await damage_object(store, key, way)
    body = await store.read(key)

    found = await check_integrity(make_objects(store), RUN)
    repaired = await repair_run(store)

    assert ([key], [bad.id]) == (damaged_keys(found), list(found.damaged_waits))
    assert (1, False) == (found.last_good_number, found.is_resumable)
    assert (2, False) == (repaired.number, repaired.state.run.history_lost)
    (again,) = repaired.state.waits.keys() - {good.id}
    assert Waiting(again) == repaired.state.calls[bad.call_id].state
    assert body == await store.read(key)
    recorded = await decide(
        make_objects(store),
        again,
        Deny(),
        now=seconds_after_start(70),
        decision_id=make_ulid(5),
    )
    assert "deny" == recorded.kind


LETTERS = (
    layout.MESSAGE,
    layout.SIGNAL,
    layout.REVOCATION,
    layout.OPERATOR_REQUEST,
)


@pytest.mark.parametrize(
    "key",
    [
        layout.cancel_request_key(RUN),
        *(layout.numbered_key(letter, RUN, 1) for letter in LETTERS),
    ],
)
async def test_repair_refuses_a_damaged_request_or_message(key: str) -> None:
    """A repair must not ignore any of them."""
    store = MemoryStore()
    await append_states(store, [state_with_waits(1)])
    await store.create(key, b"")
    before = await all_objects(store)
    found = await check_integrity(make_objects(store), RUN)
    assert ([key], False) == (damaged_keys(found), found.is_resumable)
    with pytest.raises(errors.Corrupt, match="A repair cannot replace"):
        await repair_run(store)
    assert before == await all_objects(store)


# Others at work ------------------------------------------------------------------


@pytest.mark.parametrize("where", ["good", "stranded"])
async def test_repair_during_a_live_claim_raises_run_busy(where: str) -> None:
    """This holds also if the version with the claim cannot be rebuilt."""
    store = MemoryStore()
    claim = Claim(worker="w", until=seconds_after_start(90), attempt=1)
    state = state_with_waits(1)
    held = replace(state, run=replace(state.run, status="running", claim=claim))
    tables = [held, state] if where == "good" else [state, state, state, held]
    if where == "stranded":
        # The base of 6 is 4. Version 6 is whole, and has the claim.
        tables = [state, state, held]
    await append_states(store, tables)
    if where == "good":
        await damage_object(store, version_key(2), "empty")
    else:
        await damage_object(store, version_key(2), "empty")
        await overwrite_with_stranded_version(store, held)
    before = await all_objects(store)
    with pytest.raises(errors.RunBusy):
        await repair_run(store)
    assert before == await all_objects(store)
    late = await repair(
        make_objects(store),
        RUN,
        now=seconds_after_start(91),
        new_ulid=CountingUlids(),
    )
    assert "suspended" == late.state.run.status


async def overwrite_with_stranded_version(store: Store, held: RunState) -> None:
    """Store a whole version 3 whose base, version 2, is damaged."""
    copy = MemoryStore()
    versions = Versions(make_objects(copy), RUN)
    loaded = None
    for number in range(1, 4):
        loaded = await versions.append(
            loaded, with_message(held, str(number)), at=seconds_after_start(number)
        )
    # The base of 3 is 2, so one of three versions is whole without a base.
    await overwrite(store, version_key(3), await copy.read(version_key(3)))


def test_one_of_two_concurrent_repairs_succeeds() -> None:
    """Each repair comes before each request of the other in turn."""

    async def scenario(number: int) -> bool:
        inner = MemoryStore()
        await store_run_with_lost_versions(inner, state_with_waits(1, 2))
        winner: list[LoadedVersion] = []

        async def visitor() -> None:
            winner.append(await repair_run(inner, 950_000))

        visited = InterleavingStore(inner, number, visitor)
        with suppress(errors.StaleRun):
            ours = await repair_run(visited)
            # It was the first, or it began when the run was repaired.
            assert 4 == ours.number
            assert (
                ours.state
                == (await Versions(make_objects(inner), RUN).load_newest()).state
            )
        newest = await Versions(make_objects(inner), RUN).load_newest()
        assert (4, 4) == (newest.number, newest.tree.root)
        shown = {
            key.removeprefix("waits/")
            for key in await all_keys(make_objects(inner), "waits/")
        }
        assert newest.state.waits.keys() == shown
        assert (await check_integrity(make_objects(inner), RUN)).is_resumable
        return bool(winner)

    number = 1
    while run_async(scenario(number)):
        number += 1
    assert number > 10


@pytest.mark.parametrize("moment", ["before", "after"])
def test_second_repair_completes_after_any_crash(moment: str) -> None:
    """After a crash, the run is unchanged or repaired; no wait stays incomplete."""

    async def scenario(number: int) -> bool:
        inner = MemoryStore()
        first, second = make_wait(1), make_wait(2, deadline=seconds_after_start(600))
        await store_run_with_lost_versions(inner, make_state(first, second))
        for wait in (first, second):
            await make_objects(inner).create(
                layout.wait_key(wait.id), WAIT.encode(wait)
            )
        faulty = FaultyStore(inner, at_operation(number, crashed(moment)))  # type: ignore[arg-type]
        died = False
        try:
            await repair_run(faulty)
        except Crash:
            died = True
        again = await repair_run(inner, 960_000)

        assert 4 == again.number
        newest = await Versions(make_objects(inner), RUN).load_newest()
        assert again.state == newest.state
        assert 2 == len(newest.state.waits)
        assert not newest.state.waits.keys() & {first.id, second.id}
        shown = {
            key.removeprefix("waits/")
            for key in await all_keys(make_objects(inner), "waits/")
        }
        assert newest.state.waits.keys() <= shown
        dues = [
            key
            for key in await all_keys(make_objects(inner), "markers/")
            if "-e-" in key
        ]
        assert 1 == len(dues)
        # A decision of an old wait raises an error and records nothing.
        for wait in (first, second):
            with pytest.raises((errors.Cancelled, errors.AlreadyDecided)):
                await decide_wait(inner, wait.id, Approve(by="late"))
        assert (
            newest.state
            == (await Versions(make_objects(inner), RUN).load_newest()).state
        )
        return died

    number = 1
    while run_async(scenario(number)):
        number += 1
    assert number > 10


def test_decision_during_a_repair_is_not_lost() -> None:
    """The decision comes before each request of the repair in turn."""

    async def scenario(number: int) -> bool:
        inner = MemoryStore()
        wait = make_wait(1)
        await store_run_with_lost_versions(inner, make_state(wait))
        await make_objects(inner).create(layout.wait_key(wait.id), WAIT.encode(wait))
        came: list[bool] = []

        async def visitor() -> None:
            try:
                await decide_wait(inner, wait.id, Approve(by="kim"))
            except errors.Cancelled:
                came.append(False)
            else:
                came.append(True)

        repaired = (await repair_run(InterleavingStore(inner, number, visitor))).state
        state = repaired.calls[wait.call_id].state
        assert (Started() == state) == (came == [True])
        return bool(came)

    number = 1
    while run_async(scenario(number)):
        number += 1
    assert number > 10


class RefusingStore(InterleavingStore):
    """A store that refuses to read one key."""

    def __init__(self, inner: Store, refused_key: str) -> None:
        super().__init__(inner, 0, _no_visitor)
        self._refused_key = refused_key

    async def read(self, key: str) -> bytes:
        """Return a body, or refuse to."""
        if key == self._refused_key:
            raise Denied(key, "403")
        return await super().read(key)


async def _no_visitor() -> None:
    return None


async def test_denied_read_is_not_reported_as_damage(inner: MemoryStore) -> None:
    """An object that cannot be read now is not given up."""
    await append_states(inner, history(7, 3))
    store = RefusingStore(inner, version_key(3))
    before = await all_objects(inner)
    found = await check_integrity(make_objects(store), RUN)
    assert [("unread", version_key(3))] == [(f.kind, f.key) for f in found.findings]
    with pytest.raises(errors.StoreError, match="was not repaired"):
        await repair_run(store)
    assert before == await all_objects(inner)


@pytest.mark.parametrize("number", range(1, LENGTH + 1))
async def test_repair_never_gives_up_versions_above_one_that_was_not_read(
    number: int, monkeypatch: pytest.MonkeyPatch, inner: MemoryStore
) -> None:
    """Version 2 may be whole without version 1; the later ones are not lost then."""
    monkeypatch.setattr(versions_module, "MAX_CARRIED_BYTES", 4096)

    await append_states(inner, history(7, LENGTH))
    store = RefusingStore(inner, version_key(number))
    found = await check_integrity(make_objects(store), RUN)
    before = await all_keys(make_objects(inner), layout.run_prefix(RUN))
    if found.is_resumable:
        assert LENGTH == (await repair_run(store)).number
    else:
        with pytest.raises(errors.StoreError, match="was not repaired"):
            await repair_run(store)
    assert before == await all_keys(make_objects(inner), layout.run_prefix(RUN))


def test_run_that_begins_during_a_check_is_not_reported_as_lost() -> None:
    """A decision without versions is damage only if there are no versions now."""

    async def scenario(number: int) -> bool:
        inner = MemoryStore()
        began: list[bool] = []

        async def begin_run() -> None:
            began.append(True)
            await append_states(inner, [state_with_waits(1)])
            await decide_wait(inner, make_wait(1).id, Approve(by="kim"))

        store = InterleavingStore(inner, number, begin_run)
        with suppress(errors.RunNotFound):
            found = await check_integrity(make_objects(store), RUN)
            assert (1, ()) == (found.last_good_number, found.findings)
        return bool(began)

    number = 1
    while run_async(scenario(number)):
        number += 1
    assert number > 2
