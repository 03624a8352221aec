"""Attachments that no message refers to: found and counted, and never deleted."""

from __future__ import annotations

import asyncio

import pytest

from continuations import Agent, Runner, tool
from continuations.attachments import File, Image
from continuations.core.rows.attachments import attachments_of_run, digest_of
from continuations.ledger.objects import Objects
from continuations.ledger.repair.run_files import RunFiles, find_unreferenced
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests.cli.command_line import CommandLine

PHOTO = Image(b"PNG", "image/png")
CHART = Image(b"chart", "image/png")
REPORT = File(b"%PDF", "application/pdf", "report.pdf")
LOST = File(b"lost", "application/pdf", "lost.pdf")


@tool
def draw() -> Image:
    """Draw."""
    return CHART


@tool(approval=True)
def publish() -> str:
    """Publish."""
    return "published"


def a_run(store: MemoryStore) -> Runner:
    """Return a runner whose run refers to attachments in every way."""
    model = ScriptedModel([ToolCall("draw"), ToolCall("publish"), ToolCall("publish")])
    runner = Runner(Agent("boss", tools=[draw, publish], model=model), store=store)
    runner.start(["look", PHOTO], run_id="r1", work=False)
    runner.send("r1", ["and this", REPORT])
    return runner


def unreferenced(store: MemoryStore) -> list[tuple[str, int]]:
    """Return the digests and sizes of what no message refers to."""
    found = asyncio.run(find_unreferenced(Objects(store), "r1"))
    return [(each.key.split("-")[-2], each.size) for each in found]


def add_lost(runner: Runner) -> None:
    """Leave an attachment as a process does that dies before its message."""
    run = runner.look("r1").run_state.run
    asyncio.run(RunFiles.of(Objects(runner.store), run).add([LOST]))


@pytest.mark.parametrize("is_worked", [False, True])
def test_only_attachments_without_a_message_are_found(*, is_worked: bool) -> None:
    """An unread message in the inbox refers to its attachment, as a version does."""
    store = MemoryStore()
    runner = a_run(store)
    if is_worked:
        runner.resume("r1")
    assert [] == unreferenced(store)

    add_lost(runner)

    digest = digest_of(LOST.data).removeprefix("sha256:")
    assert [(digest, 4)] == unreferenced(store)


def test_attachments_of_older_versions_are_referenced() -> None:
    """A fork from an older version needs them, whatever the newest one says."""
    store = MemoryStore()
    runner = a_run(store)
    runner.resume("r1")
    runner.rewind("r1", 1)
    runner.resume("r1")
    newest = runner.look("r1")
    assert [PHOTO.digest] == [
        each.digest for each in attachments_of_run(newest.run_state)
    ]
    assert 3 == len(asyncio.run(store.keys("runs/r1/x/", "", 9)))

    assert [] == unreferenced(store)


def test_nothing_is_found_if_an_object_cannot_be_read() -> None:
    """The object may refer to each attachment."""
    store = MemoryStore()
    runner = a_run(store)
    add_lost(runner)

    async def damage() -> None:
        [key] = [
            each for each in await store.keys("runs/r1/in/", "", 9) if "/m-" in each
        ]
        await store.delete(key)
        await store.create(key, b"damaged")

    asyncio.run(damage())
    assert [] == unreferenced(store)


def test_doctor_counts_them_and_deletes_none(cli: CommandLine) -> None:
    """Also with --repair: a process may be about to send the message."""
    url = cli.store
    runner = Runner(Agent("boss", model=ScriptedModel(["done"])), store=url)
    runner.start(["look", PHOTO], run_id="r1")
    add_lost(runner)

    for options in ((), ("--repair",)):
        report = cli("doctor", "r1", *options)
        assert 0 == report.exit_code
        assert "attachments without a message: 1, 4 bytes." in report.out
        assert "nothing to do; the run is undamaged" in report.out
    assert 2 == len(asyncio.run(runner.store.keys("runs/r1/x/", "", 9)))
