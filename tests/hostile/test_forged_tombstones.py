"""Forged tombstones and keys of the index erase, resurrect and show no other run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from continuations import Approve, ContinuationsError, Runner
from continuations.errors import AlreadyDecided, Corrupt, FormatError, RunErased
from continuations.ledger import event_keys, layout
from continuations.ledger.objects import Objects
from continuations.ledger.repair.doctor import repair
from continuations.wire.versions import TOMBSTONE, Tombstone
from tests.hostile.market import Market

NOW = datetime(2030, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
OTHER_KEY = layout.version_key("other", 1)


def tombstone(**changes: Any) -> bytes:
    """Return the bytes of a tombstone for version 4 of run r1."""
    plain = Tombstone(run_id="r1", number=4, at=NOW)
    return TOMBSTONE.encode(replace(plain, **changes))


# Every method that reads the run, and the wait that one of them names.
READERS: dict[str, Callable[[Runner, str], object]] = {
    "look": lambda runner, _: runner.look("r1"),
    "start": lambda runner, _: runner.start("go", run_id="r1"),
    "resume": lambda runner, _: runner.resume("r1"),
    "send": lambda runner, _: runner.send("r1", "hello"),
    "signal": lambda runner, _: runner.signal("r1", "receipt"),
    "pause": lambda runner, _: runner.pause("r1"),
    "unpause": lambda runner, _: runner.unpause("r1"),
    "cancel": lambda runner, _: runner.cancel("r1"),
    "cancel a call": lambda runner, _: runner.cancel("r1", call="boss/pay"),
    "audit": lambda runner, _: list(runner.audit("r1")),
    "wake": lambda runner, _: runner.wake("r1"),
}


@pytest.mark.parametrize("operation", READERS)
@pytest.mark.parametrize(
    "body",
    [
        tombstone(run_id="other"),
        tombstone(run_id="../../other"),
        tombstone()[:-1],
        tombstone()[:40],
        b"",
        b"CONT",
        tombstone() + b"x" * 1_000_000,
    ],
    ids=["other run", "path", "short", "header only", "empty", "prefix", "long"],
)
def test_tombstone_that_is_damaged_or_foreign_is_corrupt(
    body: bytes, operation: str
) -> None:
    """The error names the object, and no process says that another run was erased."""
    market = Market("r1", "other")
    wait_id = market.wait("approval").id
    key = layout.version_key("r1", 4)
    market.put(key, body)
    before = market.store.bodies

    with pytest.raises(FormatError, match=key):
        READERS[operation](market.runner(), wait_id)

    assert [] == market.ran
    assert before == market.store.bodies
    [row] = [row for row in market.runner().runs() if row.run_id == "r1"]
    assert "unreadable" == row.status


@pytest.mark.parametrize(
    "late_keys",
    [
        (OTHER_KEY,),
        ("index/live/other",),
        ("waits/../runs/other/v/9999999998@r1",),
        ("index/live/../../runs/other/r1",),
        ("events/../runs/other/v/w-x@r1",),
        ("markers/0000000000000-g-1-00000001@r1",),
        ("index/live/r1", "waits/approval-x@r1"),
        ("probe/passed",),
        ("",),
    ],
)
def test_tombstone_that_names_keys_of_others_deletes_nothing(
    late_keys: tuple[str, ...],
) -> None:
    """A second `erase` and a sweep refuse it, and name the object."""
    market = Market("r1", "other")
    key = layout.version_key("r1", 4)
    market.put(key, tombstone(late_keys=late_keys))
    market.put(layout.Marker(0, "g", "4", "00000004", "r1").key)
    before = market.store.bodies

    with pytest.raises(Corrupt, match=key):
        market.runner().erase("r1")
    errors = market.runner().sweep().errors

    assert ["r1"] == list(errors)
    assert key in str(errors["r1"])
    lost = before.keys() - market.store.bodies.keys()
    # The sweep postpones the marker.
    assert [] == [each for each in lost if not each.startswith("markers/")]


def test_a_damaged_tombstone_is_replaced_by_a_second_erase() -> None:
    """The run stays erased, and doctor brings nothing back."""
    market = Market("r1", "other")
    market.runner().erase("r1")
    [key] = market.keys("runs/r1/")
    market.store.replace_body(key, market.store.bodies[key][:-1])

    with pytest.raises(ContinuationsError):
        asyncio.run(
            repair(Objects(market.store), "r1", now=NOW, new_ulid=lambda: "0" * 26)
        )
    with pytest.raises(FormatError, match=key):
        market.runner().start("go", run_id="r1")
    market.runner().erase("r1")

    assert [layout.version_key("r1", 5)] == market.keys("runs/r1/")
    with pytest.raises(RunErased, match="run r1 was erased"):
        market.runner().start("go", run_id="r1")
    assert [] == market.ran


def test_no_object_under_a_tombstone_brings_the_run_back() -> None:
    """All its old objects are put back, as a frozen process or a backup might."""
    market = Market("r1")
    wait_id = market.wait("approval").id
    market.runner().decide(wait_id, Approve(by="kim"))
    old = market.store.bodies
    market.runner().erase("r1")
    for key in old.keys() - market.store.bodies.keys():
        market.put(key, old[key])

    for operation in READERS.values():
        with pytest.raises(RunErased):
            operation(market.runner(), wait_id)
    with pytest.raises(AlreadyDecided):
        market.runner().decide(wait_id, Approve(by="lee"))
    assert [] == list(market.runner().runs())
    market.runner().erase("r1")

    assert [] == market.ran
    assert [layout.version_key("r1", 4)] == market.keys("runs/r1/")
    assert [] == market.keys("waits/", "index/", "events/")


@pytest.mark.parametrize("is_damaged", [True, False])
@pytest.mark.parametrize(
    "name", ["event", "w-approval", "9999999998", "stop", "live", "passed", "label"]
)
def test_erase_of_a_run_with_an_odd_id_deletes_only_its_own_keys(
    name: str, *, is_damaged: bool
) -> None:
    """A run may be called like the last part of another key."""
    market = Market("other", "r1")
    market.runner().publish("price", 3, key="milk")
    market.runner().cancel("other")
    [event] = market.keys(f"events/{event_keys.topic_of('price', 'milk')}/e-")
    run_id = event.rpartition("/")[2] if name == "event" else name
    before = market.store.bodies
    market.runner().start("go", run_id=run_id, labels={"team": "a"})
    if is_damaged:
        market.store.replace_body(layout.version_key(run_id, 2), b"damaged")

    market.runner().erase(run_id)

    assert before.items() <= market.store.bodies.items()
    [left] = [
        key
        for key in market.store.bodies.keys() - before.keys()
        if not key.startswith("markers/")
    ]
    assert left.startswith(f"runs/{run_id}/v/")


FORGED_INDEX_KEYS = [
    *("index/live/x/r1", "index/live/-bad", "index/live/a@b", "index/live/.x"),
    *("index/live/" + "a" * 255, "index/live/ghost", "index/ended/nope/r1"),
    *("index/ended/2020-01-01/r1", "index/ended/2020-01-01/x/r1", "index/zzz"),
    *("index/ended/0000-00-00/ghost", "index/ended/2020-01-01/..x"),
    *("index/label/team=b/r1", "index/label/team=a/x/r1", "index/label/x/r1"),
    *("index/label/=/r1", "index/ended/2020-01-01/other", "index/live/other@r1"),
]


def test_forged_keys_of_the_index_show_and_prune_no_run() -> None:
    """Each run is listed once, under labels that it has, and no live run is erased."""
    market = Market("r1", "other", labels={"team": "a"})
    for key in FORGED_INDEX_KEYS:
        market.put(key, b"?" * 10_000)
    before = market.store.bodies
    runner = market.runner()

    assert ["other", "r1"] == [row.run_id for row in runner.runs()]
    assert ["other", "r1"] == [row.run_id for row in runner.runs(status="live")]
    assert [] == list(runner.runs(status="ended"))
    assert ["other", "r1"] == [row.run_id for row in runner.runs(label="team=a")]
    assert [] == list(runner.runs(label="team=b"))
    pruned = runner.prune(older_than=DAY)
    assert ((), (), {}) == (pruned.run_ids, pruned.erased, pruned.errors)
    assert before == market.store.bodies


def test_version_of_another_run_is_not_shown_in_a_listing() -> None:
    """Neither its title nor its labels appear under this run."""
    market = Market("r1", "other", labels={"team": "a"})
    for number in (1, 2, 3):
        body = market.store.bodies[layout.version_key("other", number)]
        market.store.replace_body(layout.version_key("r1", number), body)

    rows = {row.run_id: row for row in market.runner().runs()}

    assert "unreadable" == rows["r1"].status
    assert {} == rows["r1"].labels
