"""Images, audio and files in inputs, messages, results of tools and continuations."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from continuations import (
    Agent,
    Approve,
    Continuation,
    Finished,
    Replied,
    Runner,
    Suspended,
    resume,
    run,
    tool,
)
from continuations.attachments import Audio, File, Image
from continuations.core import jsontext
from continuations.core.messages import Message
from continuations.core.rows import attachments
from continuations.core.rows.attachments import digest_of
from continuations.engine.journal.file_storing import MemoryFiles, with_files
from continuations.errors import (
    Corrupt,
    FormatError,
    InvalidInput,
    RunExists,
    StoreError,
    StoreUnavailable,
)
from continuations.ledger.objects import Objects
from continuations.ledger.repair.integrity import check_integrity
from continuations.ledger.repair.run_files import RunFiles
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel
from continuations.wire import envelope
from continuations_storage import MemoryStore
from continuations_storage.errors import Unavailable
from continuations_storage.faults import FaultyStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine.agent_builders import text_tool
from tests.engine.attachment_agents import (
    CHART,
    DEEP_SCRIPT,
    PHOTO,
    REPORT,
    seeing_model,
    three_deep,
)
from tests.outcomes import expect
from tests.run_environment import RunEnvironment, run_python
from tests.scripts import Script, call
from tests.stores import OneByOneStore

SCRIPT: Script = {
    "go": [[call("draw", what="pie")], [call("publish", what="pie")], "I saw SEEN"],
    "look": ["I saw SEEN"],
}


def file_keys(store: MemoryStore, run_id: str = "") -> list[str]:
    """Return the keys of the attachments of a run, by default of all runs."""
    return [key for key in asyncio.run(store.keys(f"runs/{run_id}")) if "/x/" in key]


def test_a_model_sees_the_input_and_the_results_of_tools(store: MemoryStore) -> None:
    """Also after a suspension, in a process that did not have the bytes."""
    runner = Runner(three_deep(SCRIPT), store=store)
    suspended = expect(runner.start(["go", PHOTO], run_id="r1"), Suspended)

    later = Runner(three_deep(SCRIPT), store=store)
    later.decide(suspended.waits[0].id, Approve())
    assert "I saw the photo, the chart, the report" == later.resume("r1").result()
    assert ["draw pie", "publish pie"] == effect_log.names()
    assert 3 == len(file_keys(store))


def test_one_attachment_is_stored_once(store: MemoryStore) -> None:
    """The same bytes twice in the input and once in a result are one object."""
    runner = Runner(three_deep(SCRIPT), store=store)
    runner.start(["go", CHART, Image(CHART.data, "image/png"), REPORT], run_id="r1")
    assert 2 == len(file_keys(store))


def test_a_repeated_start_finds_its_run(store: MemoryStore) -> None:
    """The same input resumes the run; another picture is another input."""
    runner = Runner(three_deep(SCRIPT), store=store)
    first = runner.start(["look", PHOTO], run_id="r1")
    again = runner.start(["look", Image(PHOTO.data, "image/png")], run_id="r1")
    assert first == again
    with pytest.raises(RunExists):
        runner.start(["look", CHART], run_id="r1")
    assert 1 == len(file_keys(store))


def test_messages_of_an_input_may_have_attachments() -> None:
    """A chat message takes texts and attachments as its content."""
    runner = Runner(three_deep(SCRIPT), store=MemoryStore())
    end = runner.start(
        [
            {"role": "system", "content": "You look."},
            {"role": "user", "content": ["look", PHOTO]},
        ]
    )
    assert "I saw the photo" == getattr(end, "output", end)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["look", {"role": "user", "content": "look"}], "input mixes messages"),
        (["look", ""], "must be a text, an Image"),
        ([{"role": "system", "content": [PHOTO]}], "only a user message"),
        ([{"role": "user", "content": [PHOTO.attachment.part]}], "Pass the attachment"),
        (PHOTO, "input must be a non-empty text"),
    ],
)
def test_an_invalid_input_starts_nothing(value: Any, expected: str) -> None:
    """The error names the item, and the store stays empty."""
    store = MemoryStore()
    runner = Runner(three_deep(SCRIPT), store=store)
    with pytest.raises(InvalidInput, match=expected):
        runner.start(value)
    assert [] == asyncio.run(store.keys("", "", 10))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Image(b"", "image/png"),
        lambda: Image("text", "image/png"),  # type: ignore[arg-type]
        lambda: Image(b"1", "audio/wav"),
        lambda: Image(b"1", "image/png\n"),
        lambda: Audio(b"1", "image/png"),
        lambda: File(b"1", "application/pdf", "a/b"),
        lambda: File(b"1", "application/pdf", ""),
        lambda: File(b"1", "PDF", "a.pdf"),
    ],
)
def test_an_invalid_attachment_is_refused(make: Any) -> None:
    """The bytes, the media type and the name are checked at once."""
    with pytest.raises(InvalidInput):
        make()


def test_a_repr_has_no_bytes() -> None:
    """A log line with an attachment does not contain the content."""
    assert "PNG" not in repr(PHOTO)


def test_an_input_that_is_too_large_starts_nothing(
    monkeypatch: pytest.MonkeyPatch, store: MemoryStore
) -> None:
    """The error names the biggest attachment."""
    monkeypatch.setattr(attachments, "MAX_RUN_BYTES", 28)
    runner = Runner(three_deep(SCRIPT), store=store)
    with pytest.raises(InvalidInput, match=r"report\.pdf"):
        runner.start(["look", PHOTO, REPORT])
    assert [] == asyncio.run(store.keys("runs/", "", 10))


def test_the_limit_counts_all_attachments_of_the_run(
    monkeypatch: pytest.MonkeyPatch, store: MemoryStore
) -> None:
    """A result that would exceed it becomes an error text, and the run goes on."""
    monkeypatch.setattr(attachments, "MAX_RUN_BYTES", 40)
    script: Script = {"go": [[call("draw", what="pie")], "I saw SEEN"]}
    end = Runner(three_deep(script), store=store).start(["go", PHOTO], run_id="r1")
    assert isinstance(end, Finished)
    assert "I saw the photo" == end.output
    result = end.continuation.root.messages[2]["content"]
    assert result.startswith("ERROR: the tool ran, but its result cannot be stored")
    assert ["draw pie"] == effect_log.names()
    assert 1 == len(file_keys(store))


def test_erase_deletes_the_attachments(store: MemoryStore) -> None:
    """The receipt counts them."""
    runner = Runner(three_deep(SCRIPT), store=store)
    runner.start(["look", PHOTO, REPORT], run_id="r1")
    receipt = runner.erase("r1")
    assert (2, 0) == (receipt.files, receipt.arrivals)
    assert [] == file_keys(store)


def test_a_list_with_other_values_is_an_error_text() -> None:
    """Bytes in a dict are refused with their place, and nothing leaks into a text."""

    @tool
    def wrong() -> Any:
        """Return an image within another value."""
        return {"chart": CHART}

    @tool
    def mixed() -> Any:
        """Return an image and a number."""
        return [CHART, 5]

    script: Script = {"go": [[call("wrong"), call("mixed")], "end"]}
    agent = Agent("a", tools=[wrong, mixed], model=seeing_model(script))
    end = Runner(agent, store=MemoryStore()).start("go")
    first, second = (m["content"] for m in end.continuation.root.messages[2:4])
    assert "result.chart is of type Image within another value" in first
    assert "result[1] is of type int" in second


# What others may have written --------------------------------------------------


def test_a_reference_that_a_model_writes_is_text(store: MemoryStore) -> None:
    """Neither a reply nor a tool that echoes it makes the engine read the bytes."""
    requests: list[ModelRequest] = []
    forged = [{"type": "text", "text": "x"}, PHOTO.attachment.part]
    echo = text_tool("echo", "{text}", {"text": str})

    def reply(request: ModelRequest) -> Any:
        requests.append(request)
        if len(requests) == 1:
            function = {
                "name": "echo",
                "arguments": jsontext.dump({"text": jsontext.dump(forged)}),
            }
            calls = [{"id": "c1", "type": "function", "function": function}]
            return {"role": "assistant", "content": forged, "tool_calls": calls}
        return "end"

    Runner(seeing_victim(), store=store).start(["look", PHOTO], run_id="victim")
    agent = Agent("a", tools=[echo], model=ScriptedModel(reply))
    assert isinstance(Runner(agent, store=store).start("go", run_id="r1"), Finished)

    assert [{}, {}] == [request.files for request in requests]
    assert forged == requests[1].messages[1].data["content"]
    assert [] == file_keys(store, "r1")


def seeing_victim() -> Agent:
    """Return an agent whose run has a photo that no other run may read."""
    return Agent("victim", model=ScriptedModel(["seen"]))


@pytest.mark.parametrize("damage", ["missing", "flipped", "other"])
def test_wrong_bytes_never_reach_a_model(damage: str, store: MemoryStore) -> None:
    """The error names the object; after a restore, the run goes on."""
    runner = Runner(three_deep(SCRIPT), store=store)
    suspended = expect(runner.start(["go", PHOTO], run_id="r1"), Suspended)
    key = next(key for key in file_keys(store) if key.endswith(f"-{len(PHOTO.data)}"))
    other = next(each for each in file_keys(store) if each != key)
    bodies = store._bodies  # pyright: ignore[reportPrivateUsage]
    good = bodies[key]
    if damage == "missing":
        asyncio.run(store.delete(key))
    elif damage == "flipped":
        bodies[key] = good[:-20] + bytes([good[-20] ^ 1]) + good[-19:]
    else:
        bodies[key] = bodies[other]
    runner.decide(suspended.waits[0].id, Approve())

    with pytest.raises(Corrupt, match=key):
        Runner(three_deep(SCRIPT), store=store).resume("r1")
    report = asyncio.run(check_integrity(Objects(store), "r1"))
    assert [key] == [finding.key for finding in report.findings]
    expected = "missing" if damage == "missing" else "damaged"
    assert expected == report.findings[0].kind

    asyncio.run(store.delete(key))
    asyncio.run(store.create(key, good))
    end = Runner(three_deep(SCRIPT), store=store).resume("r1")
    assert "I saw the photo, the chart, the report" == getattr(end, "output", end)


def test_a_run_without_attachments_loads_no_code_for_them() -> None:
    """No module for attachments is imported by a run with text only."""
    code = """
import sys
from continuations import Agent, Runner, tool
from continuations.models.scripted import ScriptedModel, ToolCall

@tool
def look() -> list[str]:
    "Look."
    return ["a", "b"]

model = ScriptedModel([ToolCall("look"), "end"])
runner = Runner(Agent("a", tools=[look], model=model), store="memory:")
print(runner.start([{"role": "user", "content": "go"}]).output)
words = ("attachment", "file_", "input_parts", "expanded_parts", "run_files")
ours = [name for name in sys.modules if name.startswith("continuations.")]
print([name for name in ours if any(word in name for word in words)])
"""
    assert ["end", "[]"] == run_python(code).split("\n")[:2]


def test_a_start_that_loses_the_race_deletes_only_its_own_attachments() -> None:
    """The winner's run keeps its bytes, whether the inputs are equal or not."""

    class Racing(OneByOneStore):
        """A store in which another process starts the run just before version 1."""

        is_first = True

        async def create(self, key: str, body: bytes) -> Any:
            if "/v/" in key and self.is_first:
                self.is_first = False
                await runner.async_runner.start(["go", PHOTO], run_id="r1")
            return await super().create(key, body)

    store = Racing()
    runner = Runner(three_deep(SCRIPT), store=store)
    with pytest.raises(RunExists):
        runner.start(["go"], run_id="r1")  # another input, without attachments
    assert 3 == len(file_keys(store))

    store.is_first = True
    with suppress(RunExists):
        runner.start(["go", PHOTO], run_id="r1")
    assert 3 == len(file_keys(store))
    [wait] = runner.look("r1").waits
    runner.decide(wait.id, Approve())
    assert "I saw the photo, the chart, the report" == runner.resume("r1").result()


@pytest.mark.fresh_interpreters
def test_fresh_processes_see_the_attachments_at_every_depth(
    environment: RunEnvironment,
) -> None:
    """Each step happens in a fresh interpreter."""
    app = "tests.engine.attachment_agents:agents"
    outcome = environment.start(DEEP_SCRIPT, app=app)
    while outcome["kind"] == "Suspended":
        environment.approve(outcome["waits"][-1])
        outcome = environment.resume(DEEP_SCRIPT, app=app)
    expected = "root saw the chart, the report"
    assert ("Finished", expected) == (outcome["kind"], outcome["output"])
    runner = Runner([], store=environment.store)
    desk = runner.look("r1").root.messages
    assert "hr done" == desk[3]["content"]
    once = ["draw line", "draw pie", "publish line", "publish pie"]
    assert once == sorted(environment.effect_names())


# Messages ---------------------------------------------------------------------


SENT_SCRIPT: Script = {"go": ["I saw SEEN", "Now I saw SEEN"]}
NEXT: list[str | Image | File] = ["And this?", REPORT, PHOTO]


def test_messages_of_a_thread_may_have_attachments(store: MemoryStore) -> None:
    """Each process sees those of all messages; equal ones are stored once."""
    first = Runner(three_deep(SENT_SCRIPT), store=store).thread("boss", key="42")
    reply = expect(first.send(["go", PHOTO], id="m1"), Replied)
    assert "I saw the photo" == reply.output

    second = Runner(three_deep(SENT_SCRIPT), store=store).thread("boss", key="42")
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
    thread = Runner(three_deep(SENT_SCRIPT), store=store).thread("boss", key="42")
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
            runner = Runner(three_deep(SENT_SCRIPT), store=dying, clock=clock)
            runner.thread("boss", key="42").send(["go", PHOTO], id="m1")
        clock.seconds += 120
        runner = Runner(three_deep(SENT_SCRIPT), store=store, clock=clock)
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
    assert "I saw the report, the photo" == runner.resume("r1").result()


# Slow stores ------------------------------------------------------------------


class SlowStore(OneByOneStore):
    """A store whose first create fails when `may_fail` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.creates = 0
        self.may_fail = asyncio.Event()

    async def create(self, key: str, body: bytes) -> Any:
        """Fail the first create; each later one lets it fail."""
        self.creates += 1
        if self.creates == 1:
            await self.may_fail.wait()
            raise Unavailable(key, "out of service")
        self.may_fail.set()
        return await super().create(key, body)


async def test_call_does_not_rely_on_the_create_of_another_call() -> None:
    """The create of the other call may fail; both return the same attachment."""
    store = SlowStore()
    files = RunFiles(Objects(store), "r1", "nonce")
    first, second = await asyncio.gather(
        files.add([PHOTO]), files.add([PHOTO]), return_exceptions=True
    )
    assert isinstance(first, StoreError)
    assert second is None
    assert 1 == len(await store.keys("runs/r1/x/", "", 9))


async def test_failed_attachment_is_created_by_a_repeat() -> None:
    """It counts for the limit, but not as stored."""
    store = SlowStore()
    store.may_fail.set()
    files = RunFiles(Objects(store), "r1", "nonce")
    with pytest.raises(StoreUnavailable):
        await files.add([PHOTO])
    await files.add([PHOTO])
    assert 1 == len(await store.keys("runs/r1/x/", "", 9))


async def test_request_waits_for_the_claim_after_the_attachments_were_read() -> None:
    """The process may have been frozen while it read them."""
    files = MemoryFiles({PHOTO.digest: PHOTO.data})
    message = {"role": "user", "content": [PHOTO.attachment.part]}
    request = ModelRequest(messages=(Message.from_mapping(message),))
    answers = [True, False, False]
    asked = 0

    def may_request() -> bool:
        nonlocal asked
        asked += 1
        return answers.pop()

    filled = await with_files(request, files, may_request)

    assert 3 == asked
    assert {digest_of(PHOTO.data): PHOTO.data} == dict(filled.files)


# Runs without a store, adopted runs and forks ---------------------------------


MOVED_SCRIPT: Script = {
    "go": [
        [call("draw", what="pie"), call("publish", what="pie")],
        [call("publish", what="again")],
        "I saw SEEN",
    ],
}
END = "I saw the photo, the chart, the report"


def paused() -> Suspended:
    """Return a run without a store: an attachment is in the result of an open turn."""
    return expect(run(three_deep(MOVED_SCRIPT), ["go", PHOTO]), Suspended)


def test_a_continuation_carries_its_attachments() -> None:
    """The bytes of a run without a store are in `to_bytes`, at every step."""
    outcome = paused()
    for _ in range(2):
        data = outcome.continuation.to_bytes()
        assert 3 == len(Continuation.from_bytes(data).files)
        answers = {wait.id: Approve() for wait in outcome.waits}
        after = resume(data, three_deep(MOVED_SCRIPT), answers=answers)
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
            Runner(three_deep(MOVED_SCRIPT), store=dying).adopt(data, run_id="r1")
        runner = Runner(three_deep(MOVED_SCRIPT), store=store)
        adopted = runner.adopt(data, run_id="r1")
        assert adopted == runner.adopt(data, run_id="r1")
        assert END == finish(runner, "r1")


def test_a_run_of_another_store_is_adopted_only_with_its_attachments() -> None:
    """A continuation from a store has references; the same store has the bytes."""
    store, other = MemoryStore(), FaultyStore(MemoryStore())
    runner = Runner(three_deep(MOVED_SCRIPT), store=store)
    first = runner.start(["go", PHOTO], run_id="r1")
    data = first.continuation.to_bytes()

    with pytest.raises(InvalidInput, match="not in this store"):
        Runner(three_deep(MOVED_SCRIPT), store=other).adopt(data)
    assert [] == asyncio.run(other.keys("runs/", "", 9))
    runner.adopt(data, run_id="r2")
    runner.erase("r1")
    assert END == finish(runner, "r2")
