"""The doctor names what is damaged, and a repair goes on from what is not."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations.core.calls import Ready, Started, Unknown, Waiting
from continuations.core.decisions import Approve, Deny
from continuations.core.delta import diff
from continuations.core.run import Claim
from continuations.core.soundness import fault
from continuations.errors import (
    AlreadyDecided,
    Cancelled,
    Corrupt,
    FormatError,
    InvalidId,
    RunBusy,
    RunNotFound,
    StaleRun,
    StoreError,
)
from continuations.ledger import fenwick, layout
from continuations.ledger.decide import decide
from continuations.ledger.doctor import examine, repair, restored
from continuations.ledger.versions import Versions
from continuations.wire.envelope import digest_of
from continuations.wire.records import encode_wait
from continuations.wire.versions import Header, encode_version
from continuations_storage import Denied, MemoryStore
from continuations_storage.faults import Crash, FaultyStore, crashed
from continuations_storage.faults import at as at_operation
from tests.ledger.damage import WAYS, contents, harm, put
from tests.ledger.histories import history
from tests.ledger.machine import MOMENT, later, ulid_of
from tests.ledger.runs import RUN, a_table, a_wait, does, keys, objects, said_more
from tests.ledger.visits import VisitedStore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from continuations.core.table import Table
    from continuations.ledger.doctor import Examination
    from continuations.ledger.versions import Loaded
    from continuations_storage.contract import Store

LENGTH = 13


class Dice:
    """ULIDs that count from a number that no other test's do."""

    def __init__(self, first: int = 900_000) -> None:
        self._next = first

    def __call__(self) -> str:
        """Return the next one."""
        self._next += 1
        return ulid_of(self._next, later(60))


async def written(
    store: Store, tables: Iterable[Table], before: Loaded | None = None
) -> Loaded:
    """Append states to the run."""
    versions = Versions(objects(store), RUN)
    for table in tables:
        before = await versions.append(before, table, at=MOMENT)
    assert before is not None
    return before


async def mended(store: Store, first: int = 900_000) -> Loaded:
    """Repair the run."""
    return await repair(objects(store), RUN, now=later(60), ulid=Dice(first))


def version(number: int) -> str:
    return layout.version(RUN, number)


def damaged(found: Examination) -> list[str]:
    return sorted(finding.key for finding in found.findings)


def last_good(length: int, bad: set[int], roots: tuple[int, ...] = (1,)) -> int:
    """Return what the answer must be, from the tree of deltas alone."""
    good = 0
    for number in range(1, length + 1):
        root = max(root for root in roots if root <= number)
        if not bad & set(fenwick.chain(number, root)):
            good = number
    return good


# Which objects, and which version -------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_every_damage_of_every_version_is_named(way: str) -> None:
    """R-E7: exactly that key; and the last good version follows from the tree."""

    async def story() -> None:
        store = MemoryStore()
        await written(store, history(1, LENGTH))
        for number in range(1, LENGTH + 1):
            whole = await harm(store, version(number), way)
            gone = way == "missing" and number == LENGTH  # nobody can know of it
            found = await examine(objects(store), RUN)

            assert ([] if gone else [version(number)]) == damaged(found)
            assert last_good(LENGTH, {number}) == found.last_good
            assert LENGTH - gone == found.newest
            assert found.goes_on == (found.newest == found.last_good)
            if not gone:
                stranded = [
                    n
                    for n in range(1, LENGTH + 1)
                    if number in fenwick.chain(n, 1) and n != number
                ]
                assert stranded == list(found.stranded)
            await put(store, version(number), whole)
        whole_again = await examine(objects(store), RUN)
        assert ((), LENGTH) == (whole_again.findings, whole_again.last_good)

    does(story())


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.sets(st.integers(1, LENGTH), min_size=1, max_size=LENGTH),
    st.sampled_from(sorted(set(WAYS) - {"missing"})),
    st.integers(0, 5),
)
def test_any_set_of_damaged_versions_is_named(
    bad: set[int], way: str, seed: int
) -> None:
    """R-E7, PA-09; and what the doctor calls good, everybody can load."""

    async def story() -> None:
        store = MemoryStore()
        tables = list(history(seed, LENGTH))
        await written(store, tables)
        for number in bad:
            await harm(store, version(number), way)
        before = await contents(store)

        found = await examine(objects(store), RUN)

        assert sorted(map(version, bad)) == damaged(found)
        assert last_good(LENGTH, bad) == found.last_good
        assert before == await contents(store)
        if found.last_good:
            loaded = await Versions(objects(store), RUN).load(found.last_good)
            assert tables[found.last_good - 1] == loaded.table
        for number in found.lost:
            with pytest.raises(FormatError):
                await Versions(objects(store), RUN).load(number)

    does(story())


@pytest.mark.parametrize("number", range(1, LENGTH + 1))
def test_another_version_in_its_place_is_named(number: int) -> None:
    """R-E7: an older one put back, one of another run; and two that were swapped."""

    async def story() -> None:
        store, foreign = MemoryStore(), MemoryStore()
        await written(store, history(2, LENGTH))
        others = (replace(t, run=replace(t.run, id="other")) for t in history(2, 13))
        await written_as(foreign, "other", others)
        whole = await contents(store)
        older = whole[version(number - 1 or 2)]
        other = await foreign.read(layout.version("other", number))

        for body in (older, other):
            await put(store, version(number), body)
            found = await examine(objects(store), RUN)
            assert [version(number)] == damaged(found)
            assert last_good(LENGTH, {number}) == found.last_good

        swapped = number % LENGTH + 1
        await put(store, version(number), whole[version(swapped)])
        await put(store, version(swapped), whole[version(number)])
        found = await examine(objects(store), RUN)
        assert sorted([version(number), version(swapped)]) == damaged(found)
        assert last_good(LENGTH, {number, swapped}) == found.last_good

    does(story())


async def written_as(store: Store, run_id: str, tables: Iterable[Table]) -> None:
    loaded = None
    for table in tables:
        loaded = await Versions(objects(store), run_id).append(loaded, table, at=MOMENT)


@pytest.mark.parametrize("number", range(1, LENGTH + 1))
def test_a_version_of_another_past_is_seen_by_those_built_on_it(number: int) -> None:
    """R-E7: whole by itself, of this run and number, from an older generation."""

    async def story() -> None:
        store, copy = MemoryStore(), MemoryStore()
        tables = list(history(3, LENGTH))
        await written(store, tables)
        past = [*tables[: number - 1], said_more(tables[number - 1], "another past")]
        await written(copy, past)
        await put(store, version(number), await copy.read(version(number)))

        found = await examine(objects(store), RUN)

        children = [n for n in range(1, LENGTH + 1) if fenwick.base(n, 1) == number]
        through = {n for n in range(1, 14) if set(children) & set(fenwick.chain(n, 1))}
        assert sorted(map(version, children)) == damaged(found)
        assert max(set(range(1, LENGTH + 1)) - through) == found.last_good

    does(story())


@pytest.mark.parametrize("root", [2, 4, 5])
def test_a_version_of_a_root_that_never_was_leads_nobody_astray(root: int) -> None:
    """R-E7: rightly signed, rightly counted; those after it are what they were."""

    async def story() -> None:
        store = MemoryStore()
        tables = list(history(4, 7))
        await written(store, tables)
        base = fenwick.base(5, root)
        header = Header(
            run_id=RUN,
            number=5,
            root=root,
            base=base,
            base_digest=digest_of(await store.read(version(base))) if base else None,
            status="suspended",
            at=MOMENT,
        )
        before = tables[base - 1] if base else None
        await put(store, version(5), encode_version(header, diff(before, tables[4])))

        found = await examine(objects(store), RUN)

        assert ([version(5)] if base else []) == damaged(found)
        assert (7, True) == (found.last_good, found.goes_on)

    does(story())


def test_damage_below_what_the_newest_needs_keeps_nobody_from_going_on() -> None:
    """R-E7: version 8 is a full copy; the past is damaged, the run is not."""

    async def story() -> None:
        store = MemoryStore()
        await written(store, history(4, 8))
        await harm(store, version(5), "zero-filled")

        found = await examine(objects(store), RUN)
        same = await mended(store)

        assert (True, 8) == (found.goes_on, found.last_good)
        assert [False] == [finding.blocks for finding in found.findings]
        assert 8 == same.number
        assert 8 == await Versions(objects(store), RUN).newest_number()

    does(story())


def test_a_run_that_is_not_there() -> None:
    async def story() -> None:
        store = MemoryStore()
        for work in (examine(objects(store), RUN), mended(store)):
            with pytest.raises(RunNotFound):
                await work
        for odd in ("../up", "", "a/b", "-a"):
            with pytest.raises(InvalidId):
                await examine(objects(store), odd)
        await store.create(layout.decision(a_wait(1).id), b"there was a run")
        found = await examine(objects(store), RUN)
        assert ([version(1)], 0) == (damaged(found), found.last_good)
        assert not found.goes_on

    does(story())


# Keys that nobody of ours made -----------------------------------------------


@pytest.mark.parametrize("newest", [15, 4000, layout.MOST_VERSIONS - 1])
def test_a_key_far_away_does_not_keep_the_doctor_busy(newest: int) -> None:
    """R-E7: garbage under a high number; the next number comes after it."""

    async def story() -> None:
        store = MemoryStore()
        await written(store, history(5, 5))
        await store.create(version(newest), b"garbage")

        found = await examine(objects(store), RUN)
        planted = await mended(store)

        assert (5, newest) == (found.last_good, found.newest)
        assert len(found.findings) <= 102
        assert {version(6), version(newest)} <= set(damaged(found))
        assert newest + 1 == planted.number
        assert planted.table == (await Versions(objects(store), RUN).newest()).table
        assert b"garbage" == await store.read(version(newest))

    does(story())


def test_after_the_last_number_there_is_none() -> None:
    async def story() -> None:
        store = MemoryStore()
        await written(store, history(5, 5))
        await store.create(version(layout.MOST_VERSIONS), b"garbage")
        with pytest.raises(Corrupt, match="no number is left after"):
            await mended(store)

    does(story())


@pytest.mark.parametrize(
    ("name", "blocks"),
    [(".lock", True), ("0", True), ("9999999999", False), ("zzz", False)],
)
def test_strangers_among_the_versions_are_named(name: str, *, blocks: bool) -> None:
    """R-E7: one that sorts first keeps everybody from the newest version."""

    async def story() -> None:
        store = MemoryStore()
        await written(store, history(5, 5))
        stranger = layout.versions(RUN) + name
        await store.create(stranger, b"?")

        found = await examine(objects(store), RUN)

        assert [stranger] == damaged(found)
        assert (5, not blocks) == (found.last_good, found.goes_on)
        if blocks:
            with pytest.raises(Corrupt, match=r"Remove it"):
                await mended(store)

    does(story())


def test_a_newer_format_is_not_damage_and_is_not_passed_over() -> None:
    """R-H: an old doctor must not undo what a newer version of ours did."""

    async def story() -> None:
        store = MemoryStore()
        await written(store, history(5, 5))
        body = await store.read(version(5))
        newer = body[:4] + b"\0\x09" + body[6:-16]
        await put(store, version(5), newer + digest_of(newer))
        before = await contents(store)

        found = await examine(objects(store), RUN)

        assert ["newer"] == [finding.kind for finding in found.findings]
        with pytest.raises(FormatError, match="format 9"):
            await mended(store)
        assert before == await contents(store)

    does(story())


# Repair ------------------------------------------------------------------------


def waiting(*numbers: int) -> Table:
    return a_table(*(a_wait(number) for number in numbers))


async def broken(store: Store, table: Table, lost: int = 2) -> Loaded:
    """Put a run into a store whose last versions are damaged."""
    good = await written(store, [table])
    await written(store, [said_more(table, f"{n}") for n in range(lost)], good)
    for number in range(2, lost + 2):
        await harm(store, version(number), "cut in half")
    return good


def test_a_new_root_leaves_the_damaged_as_they_are_and_can_be_built_on() -> None:
    """R-E7, PA-11: later versions count from it, and are whole to everybody."""

    async def story() -> None:
        store = MemoryStore()
        tables = list(history(6, 20))
        await written(store, tables[:7])
        for number in (4, 6, 7):
            await harm(store, version(number), "a bit of the body flipped")
        before = await contents(store)

        planted = await mended(store)
        assert (8, 8) == (planted.number, planted.root)
        loaded = await Versions(objects(store), RUN).newest()
        assert planted.table == loaded.table
        for table in tables[7:]:
            loaded = await Versions(objects(store), RUN).append(
                loaded, replace(table, run=planted.table.run), at=MOMENT
            )
            again = await Versions(objects(store), RUN).newest()
            assert (loaded.table, 8) == (again.table, again.root)

        after = await contents(store)
        kept = [key for key in before if not key.startswith("waits/")]
        assert [] == [key for key in kept if before[key] != after[key]]
        found = await examine(objects(store), RUN)
        assert sorted(map(version, (4, 6, 7))) == damaged(found)
        assert found.goes_on
        # And damage above the new root leads to another one.
        await harm(store, version(21), "zero-filled")
        bad = {4, 6, 7, 21}
        again_found = await examine(objects(store), RUN)
        assert last_good(21, bad, (1, 8)) == again_found.last_good
        assert 22 == (await mended(store, 990_000)).number

    does(story())


def test_what_may_have_been_started_counts_as_started() -> None:
    """R-A: ready calls, and waiting ones that were approved and can not be repeated."""

    async def story() -> None:
        store = MemoryStore()
        ready, yes, no, open_, edited = (a_wait(number) for number in range(1, 6))
        table = a_table(ready, yes, no, open_, edited)
        call = replace(table.calls[ready.call_id], state=Ready())
        calls = {**table.calls, call.id: call}
        waits_ = {k: w for k, w in table.waits.items() if k != ready.id}
        table = replace(table, calls=calls, waits=waits_)
        await broken(store, table)
        place = objects(store)
        for wait in (yes, no, open_, edited):
            await place.create(layout.wait(wait.id), encode_wait(wait))
        await said(store, yes.id, Approve(by="kim"))
        await said(store, no.id, Deny(by="kim"))
        await said(store, edited.id, Approve(by="kim", arguments={"cents": 5}))

        planted = (await mended(store)).table

        assert None is fault(planted)
        states = {key: row.state for key, row in planted.calls.items()}
        for wait in (ready, yes, edited):
            assert Started() == states[wait.call_id]
        assert Waiting(no.id) == states[no.call_id]
        assert '{"cents":5}' == planted.calls[edited.call_id].arguments
        assert edited.arguments_json == planted.calls[edited.call_id].original
        fresh = planted.waits[states[open_.call_id].wait]  # type: ignore[union-attr]
        assert fresh.id != open_.id
        assert "may have been made" in (fresh.note or "")
        assert replace(fresh, id=open_.id, note=None) == open_
        assert [layout.wait(fresh.id)] == await keys(place, "waits/")
        assert planted.run.doubtful
        assert planted.run.next_id > 1000 + 2 * 2**20

    does(story())


async def said(store: Store, wait_id: str, verdict: Approve | Deny) -> None:
    await decide(objects(store), wait_id, verdict, now=later(1), ulid=ulid_of(77))


def test_an_approval_that_may_be_repeated_is_taken_in_again_to_the_byte() -> None:
    """R-C: with its edits and its digest; not started behind the approver's back."""
    wait = a_wait(1)
    table = a_table(wait)
    call = replace(table.calls[wait.call_id], repeatable=True)
    table = replace(table, calls={call.id: call})

    async def story() -> None:
        store = MemoryStore()
        await broken(store, table)
        await objects(store).create(layout.wait(wait.id), encode_wait(wait))
        await said(store, wait.id, Approve(arguments={"cents": 5}))
        planted = (await mended(store)).table
        assert Waiting(wait.id) == planted.calls[call.id].state
        assert {wait.id: wait} == planted.waits

    does(story())


@pytest.mark.parametrize("way", sorted(set(WAYS) - {"missing"}))
@pytest.mark.parametrize("repeatable", [False, True])
def test_a_decision_that_cannot_be_read_is_no_yes(
    way: str, *, repeatable: bool
) -> None:
    """R-C8: it may have been a no, and the call may have been made: ask again."""
    wait = a_wait(1)
    table = a_table(wait)
    call = replace(table.calls[wait.call_id], repeatable=repeatable)
    table = replace(table, calls={call.id: call})

    async def story() -> None:
        store = MemoryStore()
        await broken(store, table)
        await objects(store).create(layout.wait(wait.id), encode_wait(wait))
        await said(store, wait.id, Deny())
        await harm(store, layout.decision(wait.id), way)
        bytes_before = await store.read(layout.decision(wait.id))
        planted = (await mended(store)).table
        (again,) = planted.waits.values()
        assert wait.id != again.id
        assert "cannot be read" in (again.note or "")
        assert Waiting(again.id) == planted.calls[call.id].state
        assert bytes_before == await store.read(layout.decision(wait.id))

    does(story())


def test_an_unknown_outcome_stays_unknown_under_a_new_id() -> None:
    async def story() -> None:
        wait = a_wait(1, "unknown")
        store = MemoryStore()
        await broken(store, a_table(wait))
        planted = (await mended(store)).table
        (again,) = planted.waits.values()
        assert Unknown(again.id) == planted.calls[wait.call_id].state
        assert ("unknown", True) == (again.kind, again.id != wait.id)

    does(story())


def test_an_ended_run_stays_ended() -> None:
    async def story() -> None:
        store = MemoryStore()
        table = a_table(status="finished")
        await broken(store, table)
        assert table == (await mended(store)).table

    does(story())


def test_ids_of_lost_versions_are_not_given_again() -> None:
    table = waiting(1)
    fresh = restored(table, {a_wait(1).id: "open"}, 7, Dice())
    assert table.run.next_id + 8 * 2**20 == fresh.run.next_id
    assert None is fault(fresh)


# Waits that a whole version cannot end ------------------------------------------


@pytest.mark.parametrize("what", ["decision", "wait"])
@pytest.mark.parametrize("way", ["empty", "zero-filled", "foreign", "cut in half"])
def test_a_wait_that_cannot_be_decided_gets_a_new_id(what: str, way: str) -> None:
    """R-E7: nothing of the run was lost, so nothing else changes."""

    async def story() -> None:
        store = MemoryStore()
        bad, good = a_wait(1), a_wait(2)
        table = a_table(bad, good)
        await written(store, [table])
        for wait in (bad, good):
            await objects(store).create(layout.wait(wait.id), encode_wait(wait))
        key = layout.wait(bad.id)
        if what == "decision":
            await said(store, bad.id, Approve())
            key = layout.decision(bad.id)
        await harm(store, key, way)
        body = await store.read(key)

        found = await examine(objects(store), RUN)
        planted = await mended(store)

        assert ([key], [bad.id]) == (damaged(found), list(found.undecidable))
        assert (1, False) == (found.last_good, found.goes_on)
        assert (2, False) == (planted.number, planted.table.run.doubtful)
        (again,) = planted.table.waits.keys() - {good.id}
        assert Waiting(again) == planted.table.calls[bad.call_id].state
        assert body == await store.read(key)
        stands = await decide(
            objects(store), again, Deny(), now=later(70), ulid=ulid_of(5)
        )
        assert "deny" == stands.kind

    does(story())


@pytest.mark.parametrize("key", [layout.cancellation(RUN), layout.letter(RUN, 1)])
def test_what_no_repair_leads_around_is_said(key: str) -> None:
    """R-E7: a wish to cancel, a message: neither may be passed over."""

    async def story() -> None:
        store = MemoryStore()
        await written(store, [waiting(1)])
        await store.create(key, b"")
        before = await contents(store)
        found = await examine(objects(store), RUN)
        assert ([key], False) == (damaged(found), found.goes_on)
        with pytest.raises(Corrupt, match="No repair leads around"):
            await mended(store)
        assert before == await contents(store)

    does(story())


# Others at work ------------------------------------------------------------------


@pytest.mark.parametrize("where", ["good", "stranded"])
def test_a_live_claim_is_respected(where: str) -> None:
    """R-A: also one in a version that is whole and cannot be rebuilt."""

    async def story() -> None:
        store = MemoryStore()
        claim = Claim(worker="w", until=later(90), attempt=1)
        table = waiting(1)
        held = replace(table, run=replace(table.run, status="running", claim=claim))
        tables = [held, table] if where == "good" else [table, table, table, held]
        if where == "stranded":
            # 6 is built on 4; of 5 and 6, which is whole, 6 says that it is held.
            tables = [table, table, held]
        await written(store, tables)
        if where == "good":
            await harm(store, version(2), "empty")
        else:
            await harm(store, version(2), "empty")
            await written_over(store, held)
        before = await contents(store)
        with pytest.raises(RunBusy):
            await mended(store)
        assert before == await contents(store)
        late = await repair(objects(store), RUN, now=later(91), ulid=Dice())
        assert "suspended" == late.table.run.status

    does(story())


async def written_over(store: Store, held: Table) -> None:
    """Put a whole version 3 that is built on version 2, which is damaged."""
    copy = MemoryStore()
    versions = Versions(objects(copy), RUN)
    loaded = None
    for number in range(1, 4):
        loaded = await versions.append(
            loaded, said_more(held, str(number)), at=later(number)
        )
    # 3 is built on 2, so a run of three has one that is stranded.
    await put(store, version(3), await copy.read(version(3)))


def test_of_two_repairs_at_once_one_wins_and_the_other_is_told() -> None:
    """R-A: whoever of them comes in before whichever request of the other."""

    async def story(number: int) -> bool:
        inner = MemoryStore()
        await broken(inner, waiting(1, 2))
        winner: list[Loaded] = []

        async def visitor() -> None:
            winner.append(await mended(inner, 950_000))

        visited = VisitedStore(inner, number, visitor)
        with suppress(StaleRun):
            ours = await mended(visited)
            # It came before the other, or so late that it found the run repaired.
            assert 4 == ours.number
            assert ours.table == (await Versions(objects(inner), RUN).newest()).table
        newest = await Versions(objects(inner), RUN).newest()
        assert (4, 4) == (newest.number, newest.root)
        shown = {
            key.removeprefix("waits/") for key in await keys(objects(inner), "waits/")
        }
        assert newest.table.waits.keys() == shown
        assert (await examine(objects(inner), RUN)).goes_on
        return bool(winner)

    number = 1
    while does(story(number)):
        number += 1
    assert number > 10


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_anywhere_is_ended_by_a_second_repair(moment: str) -> None:
    """R-E10: it finds the run as it was, or repaired; no wait stays half made."""

    async def story(number: int) -> bool:
        inner = MemoryStore()
        first, second = a_wait(1), a_wait(2, deadline=later(600))
        await broken(inner, a_table(first, second))
        for wait in (first, second):
            await objects(inner).create(layout.wait(wait.id), encode_wait(wait))
        faulty = FaultyStore(inner, at_operation(number, crashed(moment)))  # type: ignore[arg-type]
        died = False
        try:
            await mended(faulty)
        except Crash:
            died = True
        again = await mended(inner, 960_000)

        assert 4 == again.number
        newest = await Versions(objects(inner), RUN).newest()
        assert again.table == newest.table
        assert 2 == len(newest.table.waits)
        assert not newest.table.waits.keys() & {first.id, second.id}
        shown = {
            key.removeprefix("waits/") for key in await keys(objects(inner), "waits/")
        }
        assert newest.table.waits.keys() <= shown
        dues = [key for key in await keys(objects(inner), "markers/") if "-e-" in key]
        assert 1 == len(dues)
        # A wait of the past tells its decider so, and records nothing.
        for wait in (first, second):
            with pytest.raises((Cancelled, AlreadyDecided)):
                await said(inner, wait.id, Approve(by="late"))
        assert newest.table == (await Versions(objects(inner), RUN).newest()).table
        return died

    number = 1
    while does(story(number)):
        number += 1
    assert number > 10


def test_a_decision_that_comes_in_between_is_not_lost() -> None:
    """R-A, R-C: before any request of the repair; it is heeded, or refused."""

    async def story(number: int) -> bool:
        inner = MemoryStore()
        wait = a_wait(1)
        await broken(inner, a_table(wait))
        await objects(inner).create(layout.wait(wait.id), encode_wait(wait))
        came: list[bool] = []

        async def visitor() -> None:
            try:
                await said(inner, wait.id, Approve(by="kim"))
            except Cancelled:
                came.append(False)
            else:
                came.append(True)

        planted = (await mended(VisitedStore(inner, number, visitor))).table
        state = planted.calls[wait.call_id].state
        assert (Started() == state) == (came == [True])
        return bool(came)

    number = 1
    while does(story(number)):
        number += 1
    assert number > 10


def test_a_store_that_says_no_is_not_damage() -> None:
    """R-E5: nothing is given up because it cannot be read just now."""

    class Refusing(VisitedStore):
        async def read(self, key: str) -> bytes:
            if key == version(3):
                raise Denied(key, "403")
            return await self.inner.read(key)

    async def nobody() -> None:
        return None

    async def story() -> None:
        inner = MemoryStore()
        await written(inner, history(7, 3))
        store = Refusing(inner, 0, nobody)
        before = await contents(inner)
        found = await examine(objects(store), RUN)
        assert [("unread", version(3))] == [(f.kind, f.key) for f in found.findings]
        with pytest.raises(StoreError, match="was not repaired"):
            await mended(store)
        assert before == await contents(inner)

    does(story())
