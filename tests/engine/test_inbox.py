"""Messages to a run: numbered, kept in order, limited, and read between turns."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from continuations import (
    Agent,
    Approve,
    Continuation,
    Deny,
    Finished,
    Replied,
    Runner,
    Suspended,
    resume,
)
from continuations.attachments import File
from continuations.core import jsontext
from continuations.errors import FormatError, InboxFull, InvalidInput
from continuations.ledger import layout
from continuations.ledger.arrivals import inbox
from continuations.ledger.objects import Objects
from continuations.ledger.repair.doctor import check_integrity
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.wire.envelope import decode_object, encode_object
from continuations_storage import MemoryStore
from tests import effect_log
from tests.engine import agent_builders, payment_agent
from tests.engine.agent_builders import make_boss, text_tool
from tests.engine.payment_agent import ONE_PAY_SCRIPT
from tests.ledger.damage import all_objects, overwrite
from tests.outcomes import expect, present
from tests.scripts import Script, call
from tests.stores import OneByOneStore


def test_message_to_a_waiting_run_stands_after_the_tool_results() -> None:
    """It decides nothing, and the model reads it after the results."""
    script: Script = {"go": [[call("pay")], "end"]}
    runner = agent_builders.make_runner(script, payment_agent.pay)
    outcome = expect(runner.start("go", run_id="r"), Suspended)

    # Given two messages, and a resume between them
    assert 1 == runner.send("r", "approve", by="jo")
    assert isinstance(runner.resume("r"), Suspended)
    assert 2 == runner.send("r", "And hurry.")
    assert ([], ["go 0"]) == (effect_log.effects(), effect_log.turns())

    # When the wait is decided
    runner.decide(outcome.waits[0].id, Approve())
    ended = runner.resume("r")

    # Then both messages are in their order, after the result
    roles = [m["role"] for m in ended.continuation.root.messages]
    assert ["system", "user", "assistant", "tool", "user", "user", "assistant"] == roles
    texts = [m["content"] for m in ended.continuation.root.messages[4:6]]
    assert ["approve", "And hurry."] == texts

    # And a run that has ended accepts no message
    with pytest.raises(InvalidInput):
        runner.send("r", "Hello?")


def test_messages_from_many_threads_are_all_read() -> None:
    """Inbox numbers have no gaps; no message is lost or doubled."""
    runner = agent_builders.make_runner(ONE_PAY_SCRIPT, payment_agent.pay)
    outcome = expect(runner.start("go", run_id="r"), Suspended)

    threads = [
        threading.Thread(target=runner.send, args=("r", f"m{n}")) for n in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    runner.decide(outcome.waits[0].id, Deny())
    ended = runner.resume("r")

    user_messages = [
        m["content"] for m in ended.continuation.root.messages if m["role"] == "user"
    ]
    assert ["go", *sorted(f"m{n}" for n in range(20))] == [
        "go",
        *sorted(user_messages[1:]),
    ]


@pytest.mark.parametrize("wrong", [None, 5, b"x", [], [5], [""]])
def test_message_that_is_no_text_is_rejected(wrong: Any) -> None:
    runner = agent_builders.make_runner(ONE_PAY_SCRIPT, payment_agent.pay)
    runner.start("go", run_id="r")

    with pytest.raises(InvalidInput):
        runner.send("r", wrong)


# Unread messages --------------------------------------------------------------


SCRIPT: Script = {"go": [[call("pay", what="x")], "end"]}
KEY = layout.version_key("r1", 2)
BAD_TEXTS = ["", "[]", '{"role":"robot"}', '{"role":"tool"}', "{" * 500]


def make_runner(store: MemoryStore, paid: list[str]) -> Runner:
    """Return a runner whose one tool needs a yes."""
    pay = text_tool("pay", "paid", {"what": str}, into=paid, approval=True)
    return agent_builders.make_runner(SCRIPT, pay, store=store)


def store_approved_run(text: str, paid: list[str]) -> MemoryStore:
    """Store a run with an approved call, and a text in place of its last message."""
    store = MemoryStore()
    outcome = expect(make_runner(store, paid).start("go", run_id="r1"), Suspended)
    make_runner(store, paid).decide(outcome.waits[0].id, Approve(by="kim"))

    async def forge() -> None:
        opened = decode_object(await store.read(KEY), KEY)
        body: Any = opened.body
        body["logs"]["f1"]["add"][-1] = text
        await overwrite(store, KEY, encode_object(dict(opened.header), body))

    asyncio.run(forge())
    return store


@pytest.mark.parametrize("text", BAD_TEXTS)
def test_resume_with_an_invalid_message_does_nothing(text: str) -> None:
    """The error names the object; no tool runs, and nothing is written."""
    paid: list[str] = []
    store = store_approved_run(text, paid)
    before = asyncio.run(all_objects(store))

    with pytest.raises(FormatError, match="a text is not a chat message") as caught:
        make_runner(store, paid).resume("r1")

    assert KEY in str(caught.value)
    assert [] == paid
    assert before == asyncio.run(all_objects(store))


def test_sweep_reports_an_invalid_message_and_runs_no_tool() -> None:
    paid: list[str] = []
    store = store_approved_run("{}", paid)

    result = make_runner(store, paid).sweep()

    assert isinstance(result.errors["r1"], FormatError)
    assert [] == paid
    keys = asyncio.run(store.keys(layout.versions_prefix("r1")))
    assert [KEY, layout.version_key("r1", 1)] == keys


def test_look_reads_a_message_when_it_is_needed() -> None:
    store = store_approved_run("{}", [])
    looked = make_runner(store, []).look("r1")

    assert ("suspended", 1) == (looked.status, len(looked.waits))
    for read in (lambda: looked.root.messages[-1], looked.to_json):
        with pytest.raises(FormatError, match="a text is not a chat message"):
            read()


def test_doctor_names_a_version_with_an_invalid_message() -> None:
    store = store_approved_run("{}", [])

    found = asyncio.run(check_integrity(Objects(store), "r1"))

    assert [KEY] == [finding.key for finding in found.findings]
    assert 1 == found.last_good_number


def test_bytes_are_read_at_once() -> None:
    """`from_bytes` and a resume without a store check every message first."""
    outcome = make_runner(MemoryStore(), []).start("go", run_id="r1")
    data = outcome.continuation.to_bytes()
    opened = decode_object(data, "it")
    body: Any = opened.body
    body["logs"]["f1"]["add"][-1] = "{}"
    forged = encode_object(dict(opened.header), body)

    with pytest.raises(FormatError, match="a text is not a chat message"):
        Continuation.from_bytes(forged)
    with pytest.raises(FormatError, match="a text is not a chat message"):
        resume(forged, make_boss(SCRIPT))


def test_load_of_a_long_run_parses_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """The messages are text until one is needed."""
    store = MemoryStore()
    make_runner(store, []).start("go", run_id="r1")
    parsed: list[str] = []
    parse = jsontext.parse

    def counting_parse(text: str | bytes, *, lossless: bool = False) -> Any:
        parsed.append(str(text))
        return parse(text, lossless=lossless)

    monkeypatch.setattr(jsontext, "parse", counting_parse)
    looked = make_runner(store, []).look("r1")

    assert not [text for text in parsed if '"role"' in text]
    assert 2 <= len(looked.root.messages)
    assert [text for text in parsed if '"role"' in text]


# Limits -----------------------------------------------------------------------


pay = text_tool("pay", "paid {cents}", {"cents": int}, approval=True)


class CountingStore(OneByOneStore):
    """A store that keeps the keys that were read."""

    def __init__(self) -> None:
        super().__init__()
        self.read_keys: list[str] = []

    async def read(self, key: str) -> bytes:
        self.read_keys.append(key)
        return await super().read(key)

    def count_messages(self, run_id: str = "r1") -> int:
        """Return how many messages were read since the last call."""
        prefix = f"{layout.arrivals_prefix(run_id)}{layout.MESSAGE}-"
        found = [key for key in self.read_keys if key.startswith(prefix)]
        self.read_keys.clear()
        return len(found)

    def count_keys(self) -> int:
        return len(asyncio.run(self.keys("")))


def make_limited_runner(store: MemoryStore, turns: int = 1) -> Runner:
    """Return a runner of an agent that asks before it pays."""
    script: list[Any] = [[ToolCall("pay", {"cents": 5})] * turns, "done", "read"]
    model = ScriptedModel(script)
    return Runner(Agent("clerk", tools=[pay], model=model), store=store)


def start(runner: Runner) -> Suspended:
    """Start a run that waits for an approval."""
    return expect(runner.start("go", run_id="r1"), Suspended)


@pytest.fixture
def store() -> CountingStore:
    return CountingStore()


@pytest.fixture
def runner(store: CountingStore) -> Runner:
    """Return a runner of an agent that asks before it pays."""
    return make_limited_runner(store)


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
    runner = make_limited_runner(store, turns=2)
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
    runner.send("r1", text, **options)


def post(runner: Runner, text: str, **options: Any) -> None:
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

    closed = present(thread.look())
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
