"""A run appears in the target of a copy at once and whole; nothing is overwritten."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies

from continuations import Agent, Approve, AsyncRunner, Deny, Finished, Suspended
from continuations.engine.ports import Ports, SystemClock
from continuations.errors import (
    AgentChanged,
    ContinuationsError,
    Corrupt,
    FormatError,
    InvalidId,
    InvalidInput,
    NewerFormat,
    RunBusy,
    RunErased,
    RunExists,
    RunNotFound,
    StoreUnavailable,
    WaitNotFound,
)
from continuations.ledger import layout
from continuations.ledger.copying import run_copy, store_copy
from continuations.ledger.copying.key_rules import KEY_RULES
from continuations.ledger.copying.store_copy import CopyResult
from continuations.ledger.objects import Objects
from continuations.ledger.repair.doctor import repair
from continuations.ledger.repair.integrity import check_integrity
from continuations.wire.envelope import object_digest
from continuations_storage import FileStore, MemoryStore, Store, faults
from continuations_storage.faults import Crash, FaultyStore, ForwardingStore
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.ledger.copied_store import WAIT_ID, contents, fill, make_runner, start
from tests.ledger.damage import overwrite
from tests.ledger.interleaving import InterleavingStore
from tests.outcomes import expect
from tests.sampling import examples, sample

LAYOUT_PAGE = Path(__file__).parents[2] / "docs" / "object-layout.md"
DAY = 86_400
_LATER = b"CONT\0\x09later than this"
NEWER = _LATER + object_digest(_LATER)


@pytest.fixture
def source(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock.now)


@pytest.fixture
def target(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock.now)


@pytest.fixture
def copy(clock: ManualClock) -> Callable[..., Awaitable[CopyResult]]:
    """Return a function that copies runs, by default the whole store."""

    async def copy(source: Store, target: Store, *run_ids: str) -> CopyResult:
        runner = AsyncRunner([], store=source, clock=clock)
        return await runner.copy_to(target, run_ids=run_ids or None)

    return copy


Copy = Callable[..., Awaitable["CopyResult"]]


# Every kind of key -------------------------------------------------------------


def test_each_row_of_the_layout_has_a_rule() -> None:
    """A new kind of key needs a line that says how a copy treats it."""
    keys, _, _ = LAYOUT_PAGE.read_text().partition("\n## Ephemeral values\n")
    rows = re.findall(r"^\| `([^`]+/[^`]+)` \|", keys, re.MULTILINE)
    assert {row.replace("\N{MINUS SIGN}", "-") for row in rows} == KEY_RULES.keys()


async def test_each_key_has_one_rule(source: MemoryStore, clock: ManualClock) -> None:
    await fill(source, clock)
    used: set[str] = set()
    for key in await contents(source):
        [name] = [name for name, rule in KEY_RULES.items() if rule.pattern.match(key)]
        used.add(name)
    # Only the target of a copy has the first; the proof of a store has the others.
    others = {"runs/{run}/v/-{until}", "runs/{run}/z", "probe/passed", "probe/{ulid}"}
    assert KEY_RULES.keys() == used | others


async def test_whole_store_is_copied_object_by_object(
    source: MemoryStore, target: MemoryStore, clock: ManualClock, copy: Copy
) -> None:
    """Threads, forks, ended and erased runs, events, grants, files and markers."""
    await fill(source, clock)
    before = await contents(source)

    result = await copy(source, target)

    assert ({}, (), ()) == (result.errors, result.moved_on, result.unchanged)
    assert before == await contents(source) == await contents(target)
    assert len(before) == result.objects
    again = await copy(source, target)
    assert (0, result.copied) == (again.objects, again.unchanged)


async def test_chosen_runs_are_copied_without_the_others(
    source: MemoryStore, target: MemoryStore, clock: ManualClock, copy: Copy
) -> None:
    await fill(source, clock)

    result = await copy(source, target, "go", "wait", "go")

    assert ("go", "wait") == result.copied
    expected = {
        key: body
        for key, body in (await contents(source)).items()
        if re.search(r"[/@](go|wait)(/|\Z)", key)
    }
    assert expected == await contents(target)


async def test_copied_runs_go_on_in_the_target(
    source: MemoryStore, target: MemoryStore, clock: ManualClock, copy: Copy
) -> None:
    waits = await fill(source, clock)
    await copy(source, target)
    runner = make_runner(target, clock)

    await runner.decide(waits["go"], Approve(by="kim"))
    await runner.decide(waits["vote"], Approve(by="lee"))
    await runner.signal("wait", "receipt", {"n": 1}, by="kim")
    await runner.publish("receipt", {"n": 1}, key="jane")
    result = await runner.sweep()

    assert {"go", "lacks", "twice", "vote", "wait"} == {
        outcome.run_id for outcome in result.resumed
    }
    ended = {row.run_id async for row in runner.runs(status="finished")}
    assert {"finished", "go", "lacks", "vote", "wait"} == ended
    reply = await runner.thread("boss", key="jane").send("hello", id="m1")
    assert "hi" == reply.result()
    with pytest.raises(RunErased):
        await runner.look("erased")
    # The wait of the second payment is not of the grant, which was revoked.
    assert "suspended" == (await runner.look("twice")).status


async def test_unknown_keys_are_named_and_left_out(
    source: MemoryStore, target: MemoryStore, clock: ManualClock, copy: Copy
) -> None:
    await make_runner(source, clock).start("hello", run_id="r1")
    await source.create("notes/of-ours", b"x")

    result = await copy(source, target)

    assert ("notes/of-ours",) == result.unknown_keys
    assert "notes/of-ours" not in await contents(target)
    assert ("r1",) == result.copied


async def test_messages_of_a_store_without_runs_are_copied(
    source: MemoryStore, target: MemoryStore, copy: Copy
) -> None:
    await source.create(f"slack/C1/{WAIT_ID}/open", b"C1 17.5")
    await copy(source, target)
    assert await contents(source) == await contents(target)


# A second copy -----------------------------------------------------------------


async def test_second_copy_brings_a_run_up_to_date(
    source: MemoryStore, target: MemoryStore, clock: ManualClock, copy: Copy
) -> None:
    """Also what was deleted since: closed waits, markers, and keys of live runs."""
    waits = await fill(source, clock)
    await copy(source, target)
    runner = make_runner(source, clock)
    await runner.decide(waits["go"], Approve(by="kim"))
    await runner.publish("receipt", {"n": 1}, key="jane")
    await runner.sweep()
    await runner.start("go", run_id="new")

    result = await copy(source, target)

    assert {} == result.errors
    assert {"go", "lacks", "new", "twice", "wait"} == set(result.copied)
    assert await contents(source) == await contents(target)


async def test_copy_keeps_what_the_source_never_had(
    source: MemoryStore, target: MemoryStore, clock: ManualClock, copy: Copy
) -> None:
    waits = await fill(source, clock)
    own = make_runner(target, clock)
    await start(own, "go", "own", labels={"team": "hr"})
    await own.publish("ready", {"n": 2})
    await target.create("notes/of-ours", b"x")
    before = await contents(target)

    await copy(source, target)
    await make_runner(source, clock).decide(waits["go"], Deny(by="kim"))
    await make_runner(source, clock).sweep()
    await copy(source, target)

    assert before.items() <= (await contents(target)).items()


# Forks -------------------------------------------------------------------------


async def go_on(runner: AsyncRunner[str], wait_id: str) -> None:
    """Decide a wait and resume its run."""
    await runner.decide(wait_id, Approve(by="kim"))
    assert isinstance(await runner.resume("r1"), Finished)


async def only_decide(runner: AsyncRunner[str], wait_id: str) -> None:
    await runner.decide(wait_id, Deny(by="lee"))


async def erase(runner: AsyncRunner[str], _: str) -> None:
    await runner.erase("r1")


@pytest.mark.parametrize("in_target", [go_on, only_decide])
@pytest.mark.parametrize("in_source", [None, go_on, only_decide])
async def test_run_that_works_in_the_target_is_refused_by_name(
    source: MemoryStore,
    target: MemoryStore,
    clock: ManualClock,
    copy: Copy,
    in_target: Any,
    in_source: Any,
) -> None:
    wait_id = await start(make_runner(source, clock), "go", "r1")
    await copy(source, target)
    await in_target(make_runner(target, clock), wait_id)
    if in_source is not None:
        clock.seconds += 1
        await in_source(make_runner(source, clock), wait_id)
    before = await contents(target)

    result = await copy(source, target)

    error = expect(result.errors["r1"], RunExists)
    assert re.search(r"run r1 was not copied: .*runs/r1/", str(error))
    assert "Nothing was overwritten" in str(error)
    assert before == await contents(target)


async def test_note_of_a_worker_in_the_target_makes_no_fork(
    source: MemoryStore, target: MemoryStore, clock: ManualClock, copy: Copy
) -> None:
    """It says only what the code of that worker lacked."""
    runner = make_runner(source, clock)
    wait_id = await start(runner, "twice", "r1")
    await runner.decide(wait_id, Approve(by="kim"))
    for number, store in enumerate((target, source)):
        await copy(source, target)
        clock.seconds += number
        with pytest.raises(AgentChanged):
            await AsyncRunner(Agent("boss"), store=store, clock=clock).resume("r1")
    notes = [[k for k in await contents(s) if "/y/" in k] for s in (source, target)]
    assert notes[0] == notes[1] != []
    await runner.resume("r1")

    assert {} == (await copy(source, target)).errors
    assert "suspended" == (await make_runner(target, clock).look("r1")).status


async def test_another_run_with_the_id_is_refused(
    source: MemoryStore, target: MemoryStore, clock: ManualClock, copy: Copy
) -> None:
    await start(make_runner(source, clock), "go", "r1")
    await make_runner(source, clock).start("hello", run_id="r2")
    await make_runner(target, clock).start("hello", run_id="r1")
    before = await contents(target)

    result = await copy(source, target)

    assert "has another body in the target" in str(result.errors["r1"])
    assert ("r2",) == result.copied
    assert before.items() <= (await contents(target)).items()


async def test_guard_that_comes_back_does_not_hide_a_run_forever(
    source: MemoryStore, target: MemoryStore, clock: ManualClock, copy: Copy
) -> None:
    """A delete is not flushed on files: a power cut may undo it."""
    wait_id = await start(make_runner(source, clock), "go", "r1")
    await copy(source, target)
    runner = make_runner(target, clock)
    for go_on_first in (False, True):
        if go_on_first:
            await go_on(runner, wait_id)
        await target.create(layout.copy_guard_key("r1", 1_700_000_000_000), b"")
        with pytest.raises(RunBusy, match="Wait for the copy, or repeat it"):
            await runner.look("r1")

        result = await copy(source, target)

        assert go_on_first == ("r1" in result.errors)
        assert go_on_first == ((await runner.look("r1")).status == "finished")


async def test_run_whose_erasure_was_refused_is_copied(
    source: MemoryStore, target: MemoryStore, clock: ManualClock, copy: Copy
) -> None:
    """The process may not delete, or died before its first delete."""
    wait_id = await start(make_runner(source, clock), "go", "r1")
    await source.create(layout.deletion_probe_key("r1"), b"")

    assert ("r1",) == (await copy(source, target)).copied

    assert layout.deletion_probe_key("r1") not in await contents(target)
    await go_on(make_runner(target, clock), wait_id)


# Erased runs -------------------------------------------------------------------


async def test_erased_run_is_a_tombstone_in_the_target(
    source: MemoryStore, target: MemoryStore, clock: ManualClock, copy: Copy
) -> None:
    await start(make_runner(source, clock), "go", "r1")
    await erase(make_runner(source, clock), "")

    await copy(source, target)

    assert await contents(source) == await contents(target)
    clock.seconds += 2 * DAY
    for store in (source, target):
        await make_runner(store, clock).sweep()
    [key] = await contents(target)
    assert layout.version_key("r1", 3) == key
    assert ("r1",) == (await copy(source, target)).unchanged


async def test_no_copy_erases_a_run_that_the_target_shows(
    source: MemoryStore, target: MemoryStore, clock: ManualClock, copy: Copy
) -> None:
    """The source cannot show any more that the run there is a copy of its run."""
    await start(make_runner(source, clock), "go", "r1")
    await copy(source, target)
    await erase(make_runner(source, clock), "")
    before = await contents(target)

    error = expect((await copy(source, target)).errors["r1"], RunErased)

    assert "erase it there, too" in str(error)
    assert before == await contents(target)
    await erase(make_runner(target, clock), "")
    assert ("r1",) == (await copy(source, target)).unchanged


async def test_stopped_update_of_a_run_that_was_erased_shows_it_again(
    source: MemoryStore, target: MemoryStore, clock: ManualClock, copy: Copy
) -> None:
    """The target had shown the run, so nothing of it is erased."""
    wait_id = await start(make_runner(source, clock), "go", "r1")
    await copy(source, target)
    await go_on(make_runner(source, clock), wait_id)
    dies = faults.on("create", faults.crashed("after"), prefix="runs/r1/in/")
    with suppress(faults.Crash):
        await copy(source, faults.FaultyStore(target, dies))
    assert [True] == [
        layout.is_guard_of_update(key)
        for key in await contents(target)
        if layout.is_copy_guard(key)
    ]
    await erase(make_runner(source, clock), "")

    assert isinstance((await copy(source, target)).errors["r1"], RunErased)

    assert "suspended" == (await make_runner(target, clock).look("r1")).status


async def test_run_that_the_target_erased_is_not_copied_again(
    source: MemoryStore, target: MemoryStore, clock: ManualClock, copy: Copy
) -> None:
    await start(make_runner(source, clock), "go", "r1")
    await copy(source, target)
    await erase(make_runner(target, clock), "")
    before = await contents(target)

    error = (await copy(source, target)).errors["r1"]

    assert "it was erased in the target" in str(error)
    assert before == await contents(target)


async def test_half_copy_of_a_run_that_was_erased_meanwhile_is_erased(
    source: MemoryStore, target: MemoryStore, clock: ManualClock, copy: Copy
) -> None:
    await start(make_runner(source, clock), "go", "r1", labels={"team": "hr"})
    dies = faults.on("create", faults.crashed("after"), prefix="runs/r1/v/", skip=1)
    with pytest.raises(Crash):
        await copy(source, FaultyStore(target, dies))
    await erase(make_runner(source, clock), "")

    assert ("r1",) == (await copy(source, target)).copied

    runs = {k: v for k, v in (await contents(target)).items() if "runs/" in k}
    assert [layout.version_key("r1", 3)] == [*runs]


# Claims ------------------------------------------------------------------------


async def abandon(store: Store, clock: ManualClock) -> None:
    """Start a run on a machine that dies while the model works."""
    dying = FaultyStore(
        store, faults.on("create", faults.crashed("before"), prefix="runs/", skip=1)
    )
    with pytest.raises(Crash):
        await make_runner(dying, clock).start("hello", run_id="r1")


async def test_claimed_run_is_left_out_until_its_claim_ends(
    source: MemoryStore, target: MemoryStore, clock: ManualClock, copy: Copy
) -> None:
    await abandon(source, clock)

    busy = expect((await copy(source, target)).errors["r1"], RunBusy)

    assert 30 == (busy.until - clock.now()).total_seconds()
    assert {} == await contents(target)
    # The claim of a dead worker is copied: a worker of the target takes over.
    clock.seconds += 31
    assert ("r1",) == (await copy(source, target)).copied
    [outcome] = (await make_runner(target, clock).sweep()).resumed
    assert isinstance(outcome, Finished)


# Damage ------------------------------------------------------------------------


async def test_each_damaged_object_stops_its_run_and_is_named(
    source: MemoryStore, clock: ManualClock, copy: Copy
) -> None:
    """The run does not appear in the target, and the other runs do."""
    await fill(source, clock)
    whole = await contents(source)
    records = [key for key in whole if key.startswith(("runs/", "waits/", "events/"))]
    for key in sample(sorted(records), 4):
        damaged, there = MemoryStore(clock.now), MemoryStore(clock.now)
        for each, body in whole.items():
            await damaged.create(each, body[:-1] if each == key else body)

        result = await copy(damaged, there)

        [(name, error)] = result.errors.items()
        assert isinstance(error, Corrupt), key
        assert key in str(error)
        if name != key:
            assert re.search(rf"[/@]{name}(/|\Z)", key)
            with pytest.raises((RunBusy, RunNotFound)):
                await make_runner(there, clock).look(name)
            listed = rf"(index|waits|events)/.*[/@]{name}\Z"
            keys = await contents(there)
            assert not [each for each in keys if re.match(listed, each)], key
        assert len(result.copied) >= 9


@pytest.mark.parametrize(
    ("body", "kind"),
    [(NEWER, NewerFormat), (b"no record", FormatError), (b"", Corrupt)],
)
async def test_bytes_of_others_stop_a_run(
    source: MemoryStore,
    target: MemoryStore,
    clock: ManualClock,
    copy: Copy,
    body: bytes,
    kind: type[ContinuationsError],
) -> None:
    await start(make_runner(source, clock), "go", "r1")
    await overwrite(source, layout.version_key("r1", 1), body)

    assert isinstance((await copy(source, target)).errors["r1"], kind)

    assert {} == await contents(target)


async def test_missing_version_is_named(
    source: MemoryStore, target: MemoryStore, clock: ManualClock, copy: Copy
) -> None:
    wait_id = await start(make_runner(source, clock), "twice", "r1")
    await make_runner(source, clock).decide(wait_id, Approve(by="kim"))
    await make_runner(source, clock).resume("r1")
    key = layout.version_key("r1", 3)
    await source.delete(key)

    error = (await copy(source, target)).errors["r1"]

    assert f"{key} is missing" in str(error)
    assert {} == await contents(target)


async def test_repaired_run_stays_where_it_is(
    source: MemoryStore, target: MemoryStore, clock: ManualClock, copy: Copy
) -> None:
    """Its damaged object stays, and would be damaged in the target, too."""
    runner = make_runner(source, clock)
    await start(runner, "go", "r1")
    await overwrite(source, key := layout.version_key("r1", 2), b"damaged")
    clock.seconds += 60
    ids = Ports().ids
    await repair(
        Objects(source),
        "r1",
        now=clock.now(),
        new_ulid=lambda: ids.new_ulid(clock.now()),
    )
    await runner.look("r1")

    assert key in str((await copy(source, target)).errors["r1"])


async def test_rewound_run_is_copied_with_all_its_roots(
    source: MemoryStore, target: MemoryStore, clock: ManualClock, copy: Copy
) -> None:
    """Its waits have new ids, and it can be rewound and forked in the target."""
    runner = make_runner(source, clock)
    old = await start(runner, "twice", "r1")
    await copy(source, target)
    await runner.decide(old, Approve(by="kim"))
    await runner.resume("r1")
    await runner.rewind("r1", 2, by="kim")

    assert {} == (await copy(source, target)).errors

    assert await contents(source) == await contents(target)
    there = make_runner(target, clock)
    [wait] = [each async for each in there.waiting()]
    assert wait.id != old
    await there.fork("r1", 2, run_id="fork")
    await there.rewind("r1", 2, by="lee")
    assert 2 == len([each async for each in there.waiting()])


@pytest.mark.parametrize("name", ["in/z-0000000001", "v/x", "y/1"])
async def test_foreign_key_of_a_run_stops_the_run(
    source: MemoryStore, target: MemoryStore, clock: ManualClock, copy: Copy, name: str
) -> None:
    await start(make_runner(source, clock), "go", "r1")
    await source.create(f"runs/r1/{name}", b"")

    error = (await copy(source, target)).errors["r1"]

    assert f"runs/r1/{name}" in str(error)
    assert {} == await contents(target)


async def test_object_of_another_run_stops_the_run(
    source: MemoryStore, target: MemoryStore, clock: ManualClock, copy: Copy
) -> None:
    runner = make_runner(source, clock)
    for name in ("r1", "r2"):
        await start(runner, "go", name)
        await runner.send(name, "hello")
    key = layout.numbered_key("m", "r1", 1)
    await overwrite(source, key, await source.read(key.replace("r1", "r2")))

    result = await copy(source, target)

    assert f"{key} is an object of another run" in str(result.errors["r1"])
    assert ("r2",) == result.copied


class LyingStore(ForwardingStore):
    """A store that returns other bytes than it got."""

    async def read(self, key: str) -> bytes:
        body = await super().read(key)
        return body[:-1] if key.startswith("runs/") else body


async def test_copied_body_is_read_back(
    source: MemoryStore, target: MemoryStore, clock: ManualClock, copy: Copy
) -> None:
    await start(make_runner(source, clock), "go", "r1")
    error = (await copy(source, LyingStore(target))).errors["r1"]
    assert "the target returns other bytes than it got" in str(error)
    with pytest.raises(RunBusy):
        await make_runner(target, clock).look("r1")


# At once and whole -------------------------------------------------------------


async def assert_hidden_or_whole(
    target: Store,
    clock: ManualClock,
    wait_id: str,
    versions: set[int],
    *,
    is_swept: bool = False,
) -> bool:
    """Check that no reader, decider or worker sees a part; return if the run is there.

    Args:
        target: The target of a copy.
        clock: The clock of its machines.
        wait_id: The open wait of `r1`.
        versions: The newest versions that the target may show.
        is_swept: Whether sweeps ran during the copy.
    """
    runner = make_runner(target, clock)
    listed = [row.run_id async for row in runner.runs()]
    waiting = [wait.id async for wait in runner.waiting()]
    await runner.sweep()
    try:
        run = await runner.look("r1")
    except (RunBusy, RunNotFound):
        assert "r1" not in listed
        # A sweep right before the guard may list an old wait for a moment.
        hidden = {wait_id} if is_swept else {*waiting}
        assert not hidden.intersection(waiting)
        with pytest.raises((RunBusy, RunNotFound)):
            await runner.resume("r1")
        with pytest.raises((RunBusy, RunNotFound, WaitNotFound)):
            await runner.decide(wait_id, Approve(by="kim"))
        return False
    assert run.version in versions
    report = await check_integrity(Objects(target), "r1")
    assert () == report.findings
    return True


class WatchedStore(ForwardingStore):
    """A store of which others look at the inner one, before each change."""

    def __init__(self, inner: Store, look: Callable[[], Awaitable[object]]) -> None:
        super().__init__(inner)
        self._look = look
        self.looks = 0

    async def _call(self) -> None:
        self.looks += 1
        await self._look()

    async def create(self, key: str, body: bytes) -> datetime | None:
        await self._call()
        return await super().create(key, body)

    async def delete(self, key: str) -> None:
        await self._call()
        await super().delete(key)


async def prepare(
    source: Store, target: Store, clock: ManualClock, copy: Copy, *, is_new: bool
) -> tuple[str, set[int]]:
    """Make a run that a copy will bring to the target, as new or as a later version.

    Returns:
        Its open wait, and the newest versions that the target may show.
    """
    runner = make_runner(source, clock)
    wait_id = await start(runner, "twice", "r1", labels={"team": "hr"})
    await runner.send("r1", "hello")
    if not is_new:
        await copy(source, target)
    first = (await runner.look("r1")).version
    await runner.decide(wait_id, Approve(by="kim"))
    outcome = expect(await runner.resume("r1"), Suspended)
    newest = (await runner.look("r1")).version
    return outcome.waits[0].id, {newest} if is_new else {first, newest}


@pytest.mark.parametrize("is_new", [True, False])
async def test_others_see_no_run_or_a_whole_one_during_a_copy(
    source: MemoryStore,
    target: MemoryStore,
    clock: ManualClock,
    copy: Copy,
    is_new: bool,
) -> None:
    """Sweeps, lists, looks, decisions and workers act before each change."""
    wait_id, versions = await prepare(source, target, clock, copy, is_new=is_new)

    async def look() -> None:
        await assert_hidden_or_whole(target, clock, wait_id, versions, is_swept=True)

    watched = WatchedStore(target, look)
    result = await copy(source, watched)

    assert (("r1",), {}) == (result.copied, result.errors)
    assert watched.looks > 8
    assert await assert_hidden_or_whole(target, clock, wait_id, {max(versions)})
    assert [wait_id] == [each.id async for each in make_runner(target, clock).waiting()]


@pytest.mark.parametrize("is_new", [True, False])
async def test_crash_leaves_no_run_or_a_whole_one(
    clock: ManualClock, copy: Copy, is_new: bool
) -> None:
    """A repeated copy completes it; without one, a sweep lists a run that is there."""
    for point in every_crash("before", "after", more_than=30, step=1):
        source, target = MemoryStore(clock.now), MemoryStore(clock.now)
        wait_id, versions = await prepare(source, target, clock, copy, is_new=is_new)
        with point.process(target) as dying:
            await copy(source, dying)

        newest = {max(versions)}
        is_there = await assert_hidden_or_whole(target, clock, wait_id, versions)
        runner = make_runner(target, clock)
        if is_there:
            # The look has made a sweep.
            run = await runner.look("r1")
            listed = [each.id async for each in runner.waiting()]
            assert [wait.id for wait in run.waits] == listed, point
            assert ["r1"] == [row.run_id async for row in runner.runs(label="team=hr")]
        assert {} == (await copy(source, target)).errors
        assert await contents(source) == await contents(target), point
        assert await assert_hidden_or_whole(target, clock, wait_id, newest)


async def test_two_copies_at_the_same_time(
    source: MemoryStore, target: MemoryStore, clock: ManualClock, copy: Copy
) -> None:
    await fill(source, clock)
    results = await asyncio.gather(copy(source, target), copy(source, target))
    assert [{}, {}] == [each.errors for each in results]
    assert await contents(source) == await contents(target)


# A store in use ----------------------------------------------------------------


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("resumes", [True, False])
async def test_run_that_goes_on_during_a_copy_is_named(
    clock: ManualClock, copy: Copy, resumes: bool, is_new: bool
) -> None:
    """A second copy brings it up to date; without one, the target can go on alone."""
    number, ended = 0, False
    while not ended:
        number += 1
        source, target = MemoryStore(clock.now), MemoryStore(clock.now)
        alone = MemoryStore(clock.now)
        runner = make_runner(source, clock)
        wait_id = await start(runner, "twice", "r1")
        if not is_new:
            await copy(source, target)
            await runner.decide(wait_id, Approve(by="kim"))
            await runner.resume("r1")
            [wait_id] = [wait.id for wait in (await runner.look("r1")).waits]

        async def move(
            runner: AsyncRunner[str] = runner, wait_id: str = wait_id
        ) -> None:
            await runner.decide(wait_id, Approve(by="kim"))
            if resumes:
                await runner.resume("r1")

        moving = InterleavingStore(source, number, move)
        result = await copy(moving, target)

        ended = moving.request_count < number
        assert {} == result.errors
        is_newest = await contents(source) == await contents(target)
        assert is_newest or ("r1",) == result.moved_on, number
        reader = make_runner(target, clock)
        waiting = {wait.id async for wait in reader.waiting()}
        assert waiting <= {wait.id for wait in (await reader.look("r1")).waits}, number
        for key, body in (await contents(target)).items():
            await alone.create(key, body)
        await assert_goes_on(alone, clock)
        assert () == (await copy(source, target)).moved_on
        assert await contents(source) == await contents(target), number


@pytest.mark.parametrize("at_source", [True, False])
async def test_another_copy_brings_more_during_a_copy(
    clock: ManualClock, copy: Copy, at_source: bool
) -> None:
    """No copy takes the objects of another one for those of a fork."""
    number, ended = 0, False
    while not ended:
        number += 1
        source, target = MemoryStore(clock.now), MemoryStore(clock.now)
        runner = make_runner(source, clock)
        wait_id = await start(runner, "twice", "r1")

        async def move(
            runner: AsyncRunner[str] = runner,
            wait_id: str = wait_id,
            source: Store = source,
            target: Store = target,
        ) -> None:
            await runner.decide(wait_id, Approve(by="kim"))
            await runner.resume("r1")
            assert {} == (await copy(source, target)).errors

        moving = InterleavingStore(source if at_source else target, number, move)
        pair = (moving, target) if at_source else (source, moving)
        assert {} == (await copy(*pair)).errors, number

        ended = moving.request_count < number
        await make_runner(target, clock).sweep()
        assert () == (await copy(source, target)).moved_on
        assert await contents(source) == await contents(target), number


async def test_run_that_begins_in_the_target_during_a_copy_is_a_fork(
    source: MemoryStore, target: MemoryStore, clock: ManualClock, copy: Copy
) -> None:
    """The target shows its own run afterwards."""
    await start(make_runner(source, clock), "go", "r1")

    async def begin() -> None:
        keys = await target.keys("runs/r1/")
        if keys and layout.is_copy_guard(keys[-1]):
            body = await theirs.read(layout.version_key("r1", 1))
            await target.create(layout.version_key("r1", 1), body)

    theirs = MemoryStore(clock.now)
    await make_runner(theirs, clock).start("hello", run_id="r1")
    watched = WatchedStore(target, begin)

    error = expect((await copy(source, watched)).errors["r1"], RunExists)

    assert "has another body" in str(error)
    assert "running" == (await make_runner(target, clock).look("r1")).status


async def test_decision_in_the_target_during_a_copy_makes_a_whole_fork(
    clock: ManualClock, copy: Copy
) -> None:
    """The target shows its run as it was, with its own decision of the old wait."""
    number, ended, refused = 0, False, 0
    while not ended:
        number += 1
        source, target = MemoryStore(clock.now), MemoryStore(clock.now)
        runner = make_runner(source, clock)
        wait_id = await start(runner, "twice", "r1")
        await copy(source, target)
        old = (await runner.look("r1")).version
        await runner.decide(wait_id, Approve(by="kim"))
        await runner.resume("r1")
        decided: list[bool] = []

        async def decide(
            target: Store = target,
            wait_id: str = wait_id,
            decided: list[bool] = decided,
        ) -> None:
            with suppress(ContinuationsError):
                there = make_runner(target, clock)
                await there.decide(wait_id, Deny(by="lee"))
                decided.append(True)

        moving = InterleavingStore(target, number, decide)
        errors = (await copy(source, moving)).errors

        ended = moving.request_count < number
        assert bool(decided) == ("r1" in errors), number
        if not decided:
            assert await contents(source) == await contents(target), number
            continue
        refused += 1
        assert isinstance(errors["r1"], RunExists)
        assert old == (await make_runner(target, clock).look("r1")).version, number
        await make_runner(target, clock).sweep()
        [wait] = (await make_runner(target, clock).look("r1")).waits
        assert wait_id != wait.id
    assert 0 < refused < number


async def assert_goes_on(store: Store, clock: ManualClock) -> None:
    """Check that people and sweeps alone bring `r1` to its end."""
    runner = make_runner(store, clock)
    await runner.sweep()
    for _ in range(2):
        for wait in [each async for each in runner.waiting()]:
            await runner.decide(wait.id, Approve(by="kim"))
        await runner.sweep()
    assert "finished" == (await runner.look("r1")).status


# Random histories -------------------------------------------------------------------

ACTS: dict[str, Callable[[AsyncRunner[str], str], Awaitable[object]]] = {
    "start": lambda runner, run_id: runner.start("twice", run_id=run_id),
    "vote": lambda runner, run_id: runner.start("vote", run_id=run_id),
    "resume": lambda runner, run_id: runner.resume(run_id),
    "send": lambda runner, run_id: runner.send(run_id, "hello"),
    "signal": lambda runner, run_id: runner.signal(run_id, "paid", id="s"),
    "pause": lambda runner, run_id: runner.pause(run_id),
    "unpause": lambda runner, run_id: runner.unpause(run_id),
    "cancel": lambda runner, run_id: runner.cancel(run_id),
    "rewind": lambda runner, run_id: runner.rewind(run_id, 2),
    "sweep": lambda runner, _: runner.sweep(),
}


async def decide_first(runner: AsyncRunner[str], run_id: str) -> None:
    for wait in (await runner.look(run_id)).waits[:1]:
        await runner.decide(wait.id, Approve(by="kim"))


ACTS["decide"] = decide_first
_STEPS = strategies.lists(
    strategies.one_of(
        strategies.tuples(
            strategies.sampled_from(sorted(ACTS)), strategies.sampled_from(["r1", "r2"])
        ),
        strategies.tuples(strategies.just("copy"), strategies.integers(1, 80)),
    ),
    max_size=14,
)


@settings(max_examples=examples(400), deadline=None, derandomize=True)
@given(_STEPS)
def test_copies_of_any_history_end_with_equal_stores(
    steps: list[tuple[str, str | int]],
) -> None:
    """The processes of some copies die; between them, the target only sweeps."""
    clock = ManualClock()
    source, target = MemoryStore(clock.now), MemoryStore(clock.now)

    async def play() -> None:
        runner, reader = (make_runner(each, clock) for each in (source, target))
        copier = AsyncRunner([], store=source, clock=clock)
        for name, argument in steps:
            clock.seconds += 1
            if isinstance(argument, int):
                dying = FaultyStore(
                    target, faults.at(argument, faults.crashed("after"))
                )
                with suppress(Crash):
                    await copier.copy_to(dying)
                await assert_listed_runs_are_whole(reader)
                continue
            with suppress(ContinuationsError):
                await ACTS[name](runner, argument)
        assert {} == (await copier.copy_to(target)).errors
        await assert_listed_runs_are_whole(reader)

    asyncio.run(play())
    assert asyncio.run(contents(source)) == asyncio.run(contents(target))


async def assert_listed_runs_are_whole(reader: AsyncRunner[str]) -> None:
    """Check each run that a list shows."""
    waiting = {wait.id async for wait in reader.waiting()}
    for row in [each async for each in reader.runs()]:
        report = await check_integrity(Objects(reader.store), row.run_id)
        assert () == report.findings
    shown: set[str] = set()
    for run_id in ("r1", "r2"):
        with suppress(RunBusy, RunNotFound):
            shown.update(wait.id for wait in (await reader.look(run_id)).waits)
    assert waiting <= shown


# Size and failures -----------------------------------------------------------------


async def test_many_and_large_runs_are_copied_in_parts(
    source: MemoryStore,
    target: MemoryStore,
    clock: ManualClock,
    copy: Copy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No more bodies are kept than allowed; the others are read twice."""
    monkeypatch.setattr(run_copy, "_MAX_KEPT_BYTES", 100)
    monkeypatch.setattr(run_copy, "_PARALLEL_READS", 2)
    monkeypatch.setattr(store_copy, "_BATCH_SIZE", 2)
    await fill(source, clock)
    assert {} == (await copy(source, target)).errors
    assert await contents(source) == await contents(target)


async def test_lost_reply_is_an_error_of_its_run(
    clock: ManualClock, copy: Copy
) -> None:
    """A repeated copy finds the object that was stored, and goes on."""
    for number in sample(range(4, 40), 3):
        source, target = MemoryStore(clock.now), MemoryStore(clock.now)
        await start(make_runner(source, clock), "twice", "r1")
        lost = faults.on("create", faults.lost_reply(), prefix="", skip=number)
        await copy(source, FaultyStore(target, lost))
        assert {} == (await copy(source, target)).errors
        assert await contents(source) == await contents(target), number


# Arguments ---------------------------------------------------------------------


async def test_invalid_arguments_are_refused(
    source: MemoryStore, target: MemoryStore, tmp_path: Path, copy: Copy
) -> None:
    runner = AsyncRunner([], store=source)
    invalid: Any
    for invalid in ("r1", 5, b"r1", {"r1": 1}):
        with pytest.raises(InvalidInput, match="run_ids must be a list"):
            await runner.copy_to(target, run_ids=invalid)
    for invalid in ([""], ["../x"], [None]):
        with pytest.raises(InvalidId, match="run_ids"):
            await runner.copy_to(target, run_ids=invalid)
    for invalid in (None, 5, object()):
        with pytest.raises(InvalidInput, match="store must be a URL"):
            await runner.copy_to(invalid)
    assert isinstance((await copy(source, target, "r1")).errors["r1"], RunNotFound)
    with pytest.raises(StoreUnavailable, match="does not exist"):
        await copy(FileStore(tmp_path / "none"), target)
    assert {} == await contents(target)


async def test_a_store_is_not_copied_to_itself(tmp_path: Path, copy: Copy) -> None:
    """Also under another name."""
    store = FileStore(tmp_path / "runs")
    await start(make_runner(store, SystemClock()), "go", "r1")
    (tmp_path / "link").symlink_to(tmp_path / "runs")
    before = await contents(store)
    for other in (store, FileStore(tmp_path / "link")):
        with pytest.raises(InvalidInput, match="another store than the source"):
            await copy(store, other)
    assert before == await contents(store)
