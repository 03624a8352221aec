"""Attachments of runs without a store, of adopted runs and of forks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from continuations import (
    Approve,
    Continuation,
    Finished,
    Runner,
    Suspended,
    resume,
    run,
)
from continuations.errors import FormatError, InvalidInput
from continuations.wire import envelope
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore
from tests import effect_log
from tests.crash_points import every_crash
from tests.engine.attachment_agents import PHOTO, three_deep
from tests.outcomes import expect
from tests.scripts import Script, call

SCRIPT: Script = {
    "go": [
        [call("draw", what="pie"), call("publish", what="pie")],
        [call("publish", what="again")],
        "I saw SEEN",
    ],
}
END = "I saw the photo, the chart, the report"


def file_keys(store: MemoryStore, run_id: str) -> list[str]:
    """Return the keys of a run's attachments."""
    return asyncio.run(store.keys(f"runs/{run_id}/x/", "", 1000))


def paused() -> Suspended:
    """Return a run without a store: an attachment is in the result of an open turn."""
    return expect(run(three_deep(SCRIPT), ["go", PHOTO]), Suspended)


def test_a_continuation_carries_its_attachments() -> None:
    """The bytes of a run without a store are in `to_bytes`, at every step."""
    outcome = paused()
    for _ in range(2):
        data = outcome.continuation.to_bytes()
        assert 3 == len(Continuation.from_bytes(data).files)
        answers = {wait.id: Approve() for wait in outcome.waits}
        after = resume(data, three_deep(SCRIPT), answers=answers)
        if isinstance(after, Finished):
            assert END == after.output
            break
        assert isinstance(after, Suspended)
        outcome = after
    else:
        raise AssertionError(outcome)
    assert 1 == effect_log.names().count("draw pie")


def test_a_continuation_without_attachments_has_the_same_bytes() -> None:
    """The new field is stored only if there is something in it."""
    data = run(three_deep({"go": ["end"]}), "go").continuation.to_bytes()
    body = envelope.decode_object(data, "it").body
    assert isinstance(body, dict)
    assert "files" not in body


@pytest.mark.parametrize(
    "files",
    [
        {"sha256:" + "0" * 64: b"other"},
        {"": b"x"},
        {"../x": b"x"},
        {PHOTO.digest: "text"},
        [PHOTO.data],
    ],
)
def test_forged_attachments_of_a_continuation_are_refused(files: object) -> None:
    """Each has the digest of its key."""
    data = paused().continuation.to_bytes()
    opened = envelope.decode_object(data, "it")
    body: Any = opened.body
    forged = envelope.encode_object(opened.header, {**body, "files": files})
    with pytest.raises(FormatError):
        Continuation.from_bytes(forged)


def finish(runner: Runner, run_id: str) -> object:
    """Approve until the run ends."""
    outcome = runner.resume(run_id)
    while isinstance(outcome, Suspended):
        for wait in outcome.waits:
            runner.decide(wait.id, Approve())
        outcome = runner.resume(run_id)
    assert isinstance(outcome, Finished)
    return outcome.output


def test_an_adopted_run_has_the_attachments() -> None:
    """A crash at each operation of `adopt` leaves a run with them, or none."""
    data = paused().continuation.to_bytes()
    for point in every_crash("before", "after", more_than=4):
        store = MemoryStore()
        with point.process(store) as dying:
            Runner(three_deep(SCRIPT), store=dying).adopt(data, run_id="r1")
        runner = Runner(three_deep(SCRIPT), store=store)
        adopted = runner.adopt(data, run_id="r1")
        assert adopted == runner.adopt(data, run_id="r1")
        assert END == finish(runner, "r1")


def test_a_run_of_another_store_is_adopted_only_with_its_attachments() -> None:
    """A continuation from a store has references; the same store has the bytes."""
    store, other = MemoryStore(), FaultyStore(MemoryStore())
    runner = Runner(three_deep(SCRIPT), store=store)
    first = runner.start(["go", PHOTO], run_id="r1")
    data = first.continuation.to_bytes()

    with pytest.raises(InvalidInput, match="not in this store"):
        Runner(three_deep(SCRIPT), store=other).adopt(data)
    assert [] == asyncio.run(other.keys("runs/", "", 9))
    runner.adopt(data, run_id="r2")
    runner.erase("r1")
    assert END == finish(runner, "r2")
