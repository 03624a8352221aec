"""Attachments in messages to threads and runs."""

from __future__ import annotations

import asyncio

import pytest

from continuations import Approve, Finished, Replied, Runner, Suspended
from continuations.attachments import File, Image
from continuations.core.rows import attachments
from continuations.errors import InvalidInput
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine.attachment_agents import CHART, PHOTO, REPORT, three_deep
from tests.outcomes import expect
from tests.run_environment import RunEnvironment
from tests.scripts import Script, call

SCRIPT: Script = {"go": ["I saw SEEN", "Now I saw SEEN"]}
NEXT: list[str | Image | File] = ["And this?", REPORT, PHOTO]


def file_keys(store: MemoryStore) -> list[str]:
    """Return the keys of all attachments."""
    return [key for key in asyncio.run(store.keys("runs/", "", 1000)) if "/x/" in key]


def test_messages_of_a_thread_may_have_attachments(store: MemoryStore) -> None:
    """Each process sees those of all messages; equal ones are stored once."""
    first = Runner(three_deep(SCRIPT), store=store).thread("boss", key="42")
    reply = expect(first.send(["go", PHOTO], id="m1"), Replied)
    assert "I saw the photo" == reply.output

    second = Runner(three_deep(SCRIPT), store=store).thread("boss", key="42")
    reply = expect(second.send(NEXT, id="m2"), Replied)
    assert "Now I saw the photo, the report, the photo" == reply.output
    assert 2 == len(file_keys(store))

    again = expect(first.send(["And this?", REPORT, PHOTO], id="m2"), Replied)
    assert reply.output == again.output
    with pytest.raises(InvalidInput):
        first.send(["And this?", CHART], id="m2")


def test_a_message_that_is_too_large_is_not_posted(
    monkeypatch: pytest.MonkeyPatch, store: MemoryStore
) -> None:
    """The limit counts the attachments of earlier messages."""
    thread = Runner(three_deep(SCRIPT), store=store).thread("boss", key="42")
    thread.send(["go", PHOTO])
    monkeypatch.setattr(attachments, "MAX_RUN_BYTES", 20)
    with pytest.raises(InvalidInput, match=r"report\.pdf"):
        thread.send(NEXT)
    assert 1 == len(file_keys(store))
    assert 2 == len(thread.messages())


def test_a_crash_while_sending_loses_no_attachment(environment: RunEnvironment) -> None:
    """A message that is posted has its bytes; a repeat posts it once."""
    for point in every_crash("before", "after", more_than=6):
        environment.folder.joinpath("turns").unlink(missing_ok=True)
        clock = ManualClock()
        store = MemoryStore(clock.now)
        with point.process(store) as dying:
            runner = Runner(three_deep(SCRIPT), store=dying, clock=clock)
            runner.thread("boss", key="42").send(["go", PHOTO], id="m1")
        clock.seconds += 120
        runner = Runner(three_deep(SCRIPT), store=store, clock=clock)
        assert {} == runner.sweep().errors
        reply = runner.thread("boss", key="42").send(["go", PHOTO], id="m1")
        assert isinstance(reply, Replied)
        assert "I saw the photo" == reply.output
        assert 1 == len(file_keys(store))


def test_a_message_to_a_run_may_have_attachments(store: MemoryStore) -> None:
    """The run reads it when it goes on."""
    script: Script = {"go": [[call("publish", what="x")], "I saw SEEN"]}
    runner = Runner(three_deep(script), store=store)
    paused = expect(runner.start("go", run_id="r1"), Suspended)
    assert 1 == Runner([], store=store).send("r1", NEXT)
    runner.decide(paused.waits[0].id, Approve())
    end = expect(runner.resume("r1"), Finished)
    assert "I saw the report, the photo" == end.output
