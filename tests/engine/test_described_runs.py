"""A run keeps the labels, the title and the requester of its start."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from continuations import Identity, Runner, tool
from continuations.core.rows.run import is_label
from continuations.errors import InvalidInput
from continuations.ledger import layout
from continuations.wire.envelope import decode_object
from continuations_storage import MemoryStore, Store
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss
from tests.scripts import Script

SCRIPT: Script = {"go": [[("pay", {"what": "x"})], "end"], "hello": ["hi"]}
FINANCE = {"team": "finance", "country": "de"}


@tool(approval=True)
def pay(what: str) -> str:
    """Pay."""
    return f"paid {what}"


def make_runner(store: Store) -> Runner:
    """Return a runner of `boss`, who may pay."""
    return Runner(make_boss(SCRIPT, pay), store=store, clock=ManualClock())


def test_description_survives_later_versions_and_is_stored_once(
    store: MemoryStore,
) -> None:
    runner = make_runner(store)
    described: dict[str, Any] = {"title": "Pay Jane", "labels": FINANCE, "by": "ann"}
    runner.start("go", run_id="r1", **described, work=False)
    runner.resume("r1")

    continuation = runner.look("r1")
    run = continuation.run_state.run
    assert ("Pay Jane", "ann") == (run.title, run.requester)
    assert tuple(sorted(FINANCE.items())) == run.labels
    bodies = [
        decode_object(asyncio.run(store.read(layout.version_key("r1", number))), "it")
        for number in range(1, continuation.version + 1)
    ]
    # Later versions omit the fields.
    for name in ("title", "labels", "requester"):
        rows: list[Any] = [cast("Any", each.body)["run"] for each in bodies]
        assert [True, False, False] == [name in row for row in rows]


def test_requester_may_be_an_identity(store: MemoryStore) -> None:
    ann = Identity("ann", groups=["finance"])
    make_runner(store).start("go", run_id="r1", by=ann, work=False)
    assert "ann" == make_runner(store).look("r1").run_state.run.requester


def test_repeated_start_keeps_the_first_description(store: MemoryStore) -> None:
    runner = make_runner(store)
    runner.start("go", run_id="r1", title="Pay Jane", by="ann", work=False)
    runner.start("go", run_id="r1", title="Pay Lee", by="bob", labels=FINANCE)

    run = runner.look("r1").run_state.run
    assert ("Pay Jane", "ann", ()) == (run.title, run.requester, run.labels)


def test_adopted_run_keeps_title_and_labels_and_has_no_requester(
    store: MemoryStore,
) -> None:
    """The requester may not approve, so no file says who the requester is."""
    runner = make_runner(store)
    started = runner.start("go", run_id="r1", title="Pay", labels=FINANCE, by="ann")
    runner.adopt(started.continuation.to_bytes(), run_id="r2")

    run = runner.look("r2").run_state.run
    assert ("Pay", None) == (run.title, run.requester)
    assert tuple(sorted(FINANCE.items())) == run.labels


@pytest.mark.parametrize(
    "options",
    [
        {"labels": ["team"]},
        {"labels": {"team": "a b"}},
        {"labels": {"": "x"}},
        {"labels": {"a=b": "x"}},
        {"labels": {"team": 1}},
        {"labels": {"team": "../x"}},
        {"labels": {f"l{number}": "x" for number in range(17)}},
        {"title": ""},
        {"title": "two\nlines"},
        {"title": "x" * 201},
        {"by": 7},
    ],
)
def test_invalid_description_starts_nothing(
    store: MemoryStore, options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        make_runner(store).start("hello", run_id="r1", **options)
    assert [] == asyncio.run(store.keys("runs/"))


def test_label_has_no_characters_of_keys() -> None:
    assert is_label("team", "ann@example.com")
    for name, value in (("a/b", "x"), ("a=b", "x"), ("a", "x/y"), ("a", "..")):
        assert not is_label(name, value)
