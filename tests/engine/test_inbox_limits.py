"""Unread messages have a limit, and a run loads only those that it can read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from continuations import (
    Agent,
    Approve,
    Deny,
    Finished,
    Replied,
    Runner,
    Suspended,
    tool,
)
from continuations.attachments import File
from continuations.errors import FormatError, InboxFull
from continuations.ledger import layout
from continuations.ledger.arrivals import inbox
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests.ledger.damage import overwrite
from tests.outcomes import expect
from tests.stores import OneByOneStore


@tool(approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


class CountingStore(OneByOneStore):
    """A store that keeps the keys that were read."""

    def __init__(self) -> None:
        super().__init__()
        self.read_keys: list[str] = []

    async def read(self, key: str) -> bytes:
        """Return an object."""
        self.read_keys.append(key)
        return await super().read(key)

    def count_messages(self, run_id: str = "r1") -> int:
        """Return how many messages were read since the last call."""
        prefix = f"{layout.arrivals_prefix(run_id)}{layout.MESSAGE}-"
        found = [key for key in self.read_keys if key.startswith(prefix)]
        self.read_keys.clear()
        return len(found)

    def count_keys(self) -> int:
        """Return the number of objects."""
        return len(asyncio.run(self.keys("")))


def make_runner(store: MemoryStore, turns: int = 1) -> Runner:
    """Return a runner of an agent that asks before it pays."""
    script: list[Any] = [[ToolCall("pay", {"cents": 5})] * turns, "done", "read"]
    model = ScriptedModel(script)
    return Runner(Agent("clerk", tools=[pay], model=model), store=store)


def start(runner: Runner) -> Suspended:
    """Start a run that waits for an approval."""
    return expect(runner.start("go", run_id="r1"), Suspended)


@pytest.fixture
def store() -> CountingStore:
    """Return an empty store."""
    return CountingStore()


@pytest.fixture
def runner(store: CountingStore) -> Runner:
    """Return a runner of an agent that asks before it pays."""
    return make_runner(store)


def texts(outcome: Any) -> list[str]:
    """Return the texts of the messages of users."""
    messages = outcome.continuation.root.messages
    return [each["content"] for each in messages if each["role"] == "user"]


# What a resume reads ---------------------------------------------------------------


def test_resume_of_a_run_that_cannot_read_loads_no_message(
    runner: Runner, store: CountingStore
) -> None:
    """The messages are read once, in their order, when the calls have ended."""
    waiting = start(runner)
    for number in range(30):
        runner.send("r1", f"message {number}")
    store.count_messages()

    assert isinstance(runner.resume("r1"), Suspended)
    runner.sweep()
    runner.drift()
    assert 0 == store.count_messages()

    runner.decide(waiting.waits[0].id, Approve())
    ended = expect(runner.resume("r1"), Finished)
    assert ["go", *(f"message {number}" for number in range(30))] == texts(ended)
    assert 30 == store.count_messages()


def test_resume_after_one_of_two_decisions_loads_no_message(
    store: CountingStore,
) -> None:
    runner = make_runner(store, turns=2)
    waiting = start(runner)
    runner.send("r1", "hurry")
    store.count_messages()
    outcome: Any = None
    for wait, reads in zip(waiting.waits, (0, 1), strict=True):
        runner.decide(wait.id, Deny())
        outcome = runner.resume("r1")
        assert reads == store.count_messages()
    assert ["go", "hurry"] == texts(outcome)
    assert [] == asyncio.run(store.keys("markers/"))


def test_thread_reads_each_queued_message_about_once(store: CountingStore) -> None:
    """A turn reads the next message, and not those behind it."""
    agent = Agent("clerk", model=ScriptedModel(lambda _request: "Yes."))
    thread = Runner(agent, store=store).thread(key="k")
    run_id = thread.post("message 0").run_id
    for number in range(1, 30):
        thread.post(f"message {number}")
    store.count_messages()

    reply = expect(thread.send("last"), Replied)

    assert 31 == len(texts(reply))
    assert store.count_messages(run_id) < 5 * 31


def test_messages_of_a_sender_are_merged_although_one_is_loaded_at_a_time(
    store: CountingStore,
) -> None:
    model = ScriptedModel(lambda _request: "Yes.")
    thread = Runner(Agent("clerk", model=model), store=store).thread(key="k")
    for number in range(5):
        thread.post(f"message {number}", by="ann", when_busy="merge")

    reply = expect(thread.send("last", by="ann", when_busy="merge"), Replied)

    assert 1 == len(model.requests)
    assert 6 == len(texts(reply))


def test_damaged_message_does_not_lose_the_result_of_a_call(
    runner: Runner, store: CountingStore
) -> None:
    """The message is looked for when the call has run, so its result is kept."""
    waiting = start(runner)
    runner.send("r1", "hurry")
    key = layout.numbered_key(layout.MESSAGE, "r1", 1)
    body = asyncio.run(store.read(key))
    asyncio.run(overwrite(store, key, b"damaged"))
    runner.decide(waiting.waits[0].id, Approve())

    with pytest.raises(FormatError, match="m-"):
        runner.resume("r1")
    state = runner.look("r1")
    assert ["paid 5"] == [
        each["content"] for each in state.root.messages if each["role"] == "tool"
    ]

    asyncio.run(overwrite(store, key, body))
    assert ["go", "hurry"] == texts(runner.resume("r1"))


def test_damaged_message_stops_a_resume_before_its_first_commit(
    runner: Runner, store: CountingStore
) -> None:
    waiting = start(runner)
    runner.send("r1", "hurry")
    key = layout.numbered_key(layout.MESSAGE, "r1", 1)
    asyncio.run(overwrite(store, key, b"damaged"))
    runner.decide(waiting.waits[0].id, Deny())
    newest = runner.look("r1").version

    with pytest.raises(FormatError, match="m-"):
        runner.resume("r1")

    assert newest == runner.look("r1").version


# Limits ----------------------------------------------------------------------------


def send(runner: Runner, text: str, **options: Any) -> None:
    """Send a message to the run."""
    runner.send("r1", text, **options)


def post(runner: Runner, text: str, **options: Any) -> None:
    """Post a message to a thread."""
    runner.thread(key="k").post(text, **options)


DOORS = pytest.mark.parametrize("door", [send, post], ids=["send", "post"])


@DOORS
def test_messages_beyond_the_number_are_refused(
    door: Callable[..., None],
    runner: Runner,
    store: CountingStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is written, and a repeat of a posted message is no new one."""
    monkeypatch.setattr(inbox, "MAX_UNREAD_MESSAGES", 5)
    start(runner)
    runner.thread(key="k").post("open")
    for number in range(5 if door is send else 4):
        door(runner, f"message {number}", id=f"id {number}")
    before = store.count_keys()

    for options in ({}, {"id": "new"}):
        with pytest.raises(InboxFull, match="has 5 unread messages, and 5 are allowed"):
            door(runner, "one more", **options)
    door(runner, "message 3", id="id 3")

    assert before == store.count_keys()


@DOORS
def test_bytes_beyond_the_limit_are_refused(
    door: Callable[..., None],
    runner: Runner,
    store: CountingStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The bytes are known from two messages."""
    monkeypatch.setattr(inbox, "MAX_UNREAD_BYTES", 10_000)
    start(runner)
    for _ in range(9):
        door(runner, "x" * 1_000)
    before = store.count_keys()
    store.read_keys.clear()

    with pytest.raises(InboxFull, match=r"would have .* bytes together, and 10000 are"):
        door(runner, "x" * 1_000, id="new")

    assert before == store.count_keys()
    prefix = f"/{layout.MESSAGE}-"
    assert 2 == sum(prefix in key for key in store.read_keys)


def test_run_that_has_read_its_messages_accepts_more(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is what the error advises."""
    monkeypatch.setattr(inbox, "MAX_UNREAD_MESSAGES", 1)
    thread = Runner(
        Agent("clerk", model=ScriptedModel(lambda _request: "Yes.")),
        store=runner.store,
    ).thread(key="k")
    thread.post("1")
    with pytest.raises(InboxFull, match="resume it") as caught:
        thread.post("2")

    assert caught.value.run_id is not None
    runner.resume(caught.value.run_id)
    assert 2 == thread.post("2").number


def test_thread_that_never_has_an_empty_inbox_does_not_fill_it(
    store: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes that were read count no more."""
    monkeypatch.setattr(inbox, "MAX_UNREAD_BYTES", 5_000)
    agent = Agent("clerk", model=ScriptedModel(lambda _request: "Yes."))
    thread = Runner(agent, store=store).thread(key="k")
    tickets = [thread.post("x" * 1_000) for _ in range(3)]
    for _ in range(12):
        assert isinstance(tickets.pop(0).reply(), Replied)
        tickets.append(thread.post("x" * 1_000))


def test_close_of_a_full_thread_is_accepted(
    store: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "MAX_UNREAD_MESSAGES", 2)
    agent = Agent("clerk", model=ScriptedModel(lambda _request: "Yes."))
    thread = Runner(agent, store=store).thread(key="k")
    for _ in range(2):
        thread.post("hello")
    with pytest.raises(InboxFull):
        thread.send("one more")

    thread.close()

    closed = thread.look()
    assert closed is not None
    assert "finished" == closed.status


@DOORS
def test_attachments_of_a_refused_message_are_not_stored(
    door: Callable[..., Any],
    runner: Runner,
    store: CountingStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inbox, "MAX_UNREAD_MESSAGES", 1)
    start(runner)
    door(runner, "hello")
    before = store.count_keys()
    note = File(b"%PDF-1.4", "application/pdf", name="note.pdf")

    with pytest.raises(InboxFull):
        door(runner, ["See this.", note])

    assert before == store.count_keys()


def test_concurrent_senders_meet_the_limit(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who see an empty inbox at the same time are not all accepted."""
    monkeypatch.setattr(inbox, "MAX_UNREAD_MESSAGES", 5)
    start(runner)

    async def burst() -> list[Any]:
        sends = (runner.async_runner.send("r1", "hello") for _ in range(20))
        return await asyncio.gather(*sends, return_exceptions=True)

    results = asyncio.run(burst())

    assert {1, 2, 3, 4, 5} == {each for each in results if isinstance(each, int)}
    assert 15 == sum(isinstance(each, InboxFull) for each in results)


def test_run_without_unread_messages_is_posted_to_without_a_read(
    runner: Runner, store: CountingStore
) -> None:
    start(runner)
    runner.send("r1", "hello")

    assert 0 == store.count_messages()
