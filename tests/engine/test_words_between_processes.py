"""The words of a thread reach followers in other processes, and change no run."""

# Tests wait for what a carrier does in the background, and count what it keeps.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuations import Agent, AsyncRunner, Runner, tool
from continuations.core.reading.live_events import LiveEvent, RunEvent
from continuations.core.reading.run_stream import MessageAdded, ReplyGiven
from continuations.engine.events import carried_words, word_carrier, word_reader
from continuations.engine.events.carried_words import WrittenWords, read_words
from continuations.events import CallProgress, LiveTranscript, ReasoningDelta, TextDelta
from continuations.ledger import layout
from continuations.ledger.objects import Objects
from continuations.ledger.repair.integrity import check_integrity
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore, Unavailable, open_store
from continuations_storage.contract import MAX_EPHEMERAL_BYTES, Ephemeral, ephemeral
from continuations_storage.faults import FaultyStore
from tests.outcomes import present
from tests.postgres_server import PostgresServer
from tests.stepped_writer import Steps, Workers, run_worker, until_followed

KEY = "customer 42"
RUN_ID = layout.thread_run_id("support", KEY, 1)
THREAD = layout.thread_of(RUN_ID) or ""
SOON = 30


class Follower:
    """Follows the thread in this process, which works on nothing."""

    def __init__(self, runner: AsyncRunner[Any], after: str = "") -> None:
        self.thread = runner.thread("support", key=KEY)
        self.shown = LiveTranscript()
        self.events: list[RunEvent] = []
        self._changed = asyncio.Event()
        follow = self.thread.follow(after=after, words=True)
        self._task = asyncio.create_task(self._read(follow))

    async def _read(self, events: AsyncIterator[RunEvent]) -> None:
        async for event in events:
            self.events.append(event)
            self.shown.add(event)
            self._changed.set()

    @property
    def texts(self) -> list[str]:
        return [each.text for each in self.shown.texts]

    async def until(self, is_reached: Callable[[], bool]) -> None:
        """Wait for events until something holds."""
        async with asyncio.timeout(SOON):
            while not is_reached():
                self._changed.clear()
                await self._changed.wait()

    async def until_texts(self, *texts: str) -> None:
        """Wait until it shows these texts."""
        await self.until(lambda: [*texts] == self.texts)

    async def until_reply(self) -> None:
        await self.until(
            lambda: any(isinstance(each, ReplyGiven) for each in self.events)
        )

    async def leave(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})


async def until(is_reached: Callable[[], bool]) -> None:
    """Wait until something holds in another task or process."""
    async with asyncio.timeout(SOON):
        while not is_reached():  # noqa: ASYNC110 - another task
            await asyncio.sleep(0.01)


async def names_of(store: Any) -> list[str]:
    values = present(ephemeral(store))
    return [each for each in await values.names("") if each.startswith("words/")]


# Real processes -------------------------------------------------------------------

STORES = ["files", "SQLite", "Postgres"]


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Make an empty store that processes share."""
    urls = {"files": f"file:{tmp_path}/runs", "SQLite": f"sqlite:{tmp_path}/runs.db"}
    if request.param in urls:
        asyncio.run(open_store(urls[request.param]).probe())
        return urls[request.param]
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_url()


async def test_words_of_another_process_come_before_the_message(
    tmp_path: Path, url: str
) -> None:
    """And a late follower gets them from their beginning; then none are left."""
    steps, store = Steps(tmp_path), open_store(url)
    steps.hold()
    runner, late_runner = (AsyncRunner([], store=open_store(url)) for _ in range(2))
    with run_worker(steps, url):
        follower = Follower(runner)
        await until_followed(store)
        await follower.thread.post("say one |two |three")
        question = "say one |two |three"
        for part in ("one ", "one two "):
            steps.allow()
            await follower.until_texts(question, part)
        others = [Follower(runner), Follower(late_runner)]
        for late in others:
            await late.until_texts(question, "one two ")
        state = present(await follower.thread.look())
        assert 1 == len(state.root.messages)
        steps.release()
        for each in (follower, *others):
            await each.until_reply()
            assert [question, "one two three"] == each.texts
            await each.leave()
        while await names_of(store):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.01)
        assert ["yes"] == steps.streams


async def test_words_of_a_killed_worker_give_way_to_those_of_the_next(
    tmp_path: Path,
) -> None:
    url = f"sqlite:{tmp_path}/runs.db"
    store, steps = open_store(url), Steps(tmp_path)
    await store.probe()
    steps.hold()
    with run_worker(steps, url) as workers:
        follower = Follower(AsyncRunner([], store=store))
        await until_followed(store)
        await follower.thread.post("say {process} one |two")
        steps.allow()
        await follower.until(lambda: "w1 one " in follower.texts)
        await _replace(workers)
        await follower.until(lambda: "w2 one " in follower.texts)
        assert "w1 one " not in follower.texts
        steps.release()
        await follower.until_reply()
        assert ["say {process} one |two", "w2 one two"] == follower.texts
        await follower.leave()


async def _replace(workers: Workers) -> None:
    """Kill a worker; the next one writes its first part."""
    workers.kill()
    workers.steps.hold()
    await asyncio.to_thread(workers.start)
    workers.steps.allow()


async def test_model_of_a_thread_that_none_follows_does_not_stream(
    tmp_path: Path,
) -> None:
    """And the store keeps nothing, also not in the process of the sender."""
    url = f"file:{tmp_path}/runs"
    steps, runner = Steps(tmp_path), AsyncRunner([], store=url)
    await runner.store.probe()
    with run_worker(steps, url):
        thread = runner.thread("support", key=KEY)
        ticket = await thread.post("say one|two")
        async for event in thread.follow():
            if isinstance(event, ReplyGiven):
                break
        assert "onetwo" == (await ticket.reply()).output
    assert ["no"] == steps.streams
    assert not (tmp_path / "runs" / ".ephemeral+").exists()


async def test_follower_that_may_only_read_gets_the_words_for_which_another_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"file:{tmp_path}/runs"
    steps, store = Steps(tmp_path), open_store(url)
    await store.probe()
    steps.hold()
    reader = AsyncRunner([], store=url)
    assert reader.word_carrier is not None

    async def refuse(_: object, __: float) -> None:
        raise Unavailable(None, "may not")

    monkeypatch.setattr(reader.word_carrier.values, "put", refuse)
    with run_worker(steps, url):
        followers = [Follower(AsyncRunner([], store=url)), Follower(reader)]
        await until_followed(store)
        await followers[0].thread.post("say one |two")
        steps.allow()
        for each in followers:
            await each.until_texts("say one |two", "one ")
        steps.release()
        for each in followers:
            await each.until_reply()
            await each.leave()


async def test_progress_of_a_tool_reaches_another_process(tmp_path: Path) -> None:
    url = f"file:{tmp_path}/runs"
    steps, store = Steps(tmp_path), open_store(url)
    await store.probe()
    steps.hold()
    with run_worker(steps, url):
        follower = Follower(AsyncRunner([], store=store))
        await until_followed(store)
        await follower.thread.post("count")
        await follower.until(
            lambda: [{"counted": 1}] == [*follower.shown.progress.values()]
        )
        steps.release()
        await follower.until_reply()
        assert {} == follower.shown.progress
        await follower.leave()


# Two runners of one process, which share the store alone ---------------------------


class Gate(ScriptedModel):
    """A model that stands still after some parts."""

    def __init__(self, replies: Sequence[Any], parts: int = 2) -> None:
        super().__init__(replies)
        self.opened, self.parts = asyncio.Event(), parts
        self.streamed: list[bool] = []

    async def reply(self, request: Any) -> Any:
        """Hand the first parts on, and wait for the test."""
        from dataclasses import replace  # noqa: PLC0415

        self.streamed.append(request.on_delta is not None)
        hand_on, count = request.on_delta, 0

        async def hold(delta: Any) -> None:
            nonlocal count
            await hand_on(delta)
            count += 1
            if count == self.parts:
                await self.opened.wait()

        if hand_on is not None:
            request = replace(request, on_delta=hold)
        return await super().reply(request)


def make_worker(store: Any, model: ScriptedModel) -> AsyncRunner[Any]:
    return AsyncRunner(Agent("support", model=model), store=store)


async def test_follower_after_an_erasure_shows_nothing_and_no_words_are_left() -> None:
    store, model = MemoryStore(), Gate(["one two three"])
    values = present(ephemeral(store))
    follower = Follower(AsyncRunner([], store=store))
    await until_followed(store)
    worker = make_worker(store, model)
    working = asyncio.create_task(worker.thread(key=KEY).send("Hello"))
    await follower.until(lambda: "one two " in follower.texts)
    working.cancel()
    await asyncio.wait({working})
    # A worker that was killed leaves its words in the store.
    await values.put({layout.words_name(THREAD): b"words"}, 30)
    await worker.erase(RUN_ID)
    assert [] == await names_of(store)
    await follower.leave()
    late = Follower(AsyncRunner([], store=store))
    await asyncio.sleep(0.5)
    assert [] == late.texts
    await late.leave()


@pytest.mark.parametrize("url", STORES[:2], indirect=True)
async def test_follower_that_comes_during_a_call_gets_the_words_of_a_later_turn(
    url: str,
) -> None:
    """Each version and each turn begin a look, and the turns after it count it."""
    began, may_end = asyncio.Event(), asyncio.Event()

    @tool
    async def search() -> str:
        """Search."""
        began.set()
        await may_end.wait()
        return "found"

    model = Gate([ToolCall("search"), ToolCall("search"), "one two three"])
    agent = Agent("support", tools=[search], model=model)
    worker = AsyncRunner(agent, store=url)
    working = asyncio.create_task(worker.thread(key=KEY).send("Hello"))
    await began.wait()
    follower = Follower(AsyncRunner([], store=open_store(url)))
    await until_followed(worker.store)
    await asyncio.sleep(1.0)  # the age of the last look
    may_end.set()
    await follower.until(lambda: "one two " in follower.texts)
    assert (False, True) == (model.streamed[0], model.streamed[-1])
    model.opened.set()
    await working
    await follower.leave()


@pytest.mark.parametrize("act", ["stop", "cancel", "worker"])
async def test_words_of_a_turn_that_ends_without_a_reply_go(act: str) -> None:
    """Another process stops the turn or ends the thread, or its worker gives it up."""
    store, model = MemoryStore(), Gate(["one two three"])
    other = AsyncRunner([], store=store)
    follower = Follower(other)
    await until_followed(store)
    worker = make_worker(store, model)
    working = asyncio.create_task(worker.thread(key=KEY).send("Hello"))
    await follower.until(lambda: "one two " in follower.texts)
    assert [layout.words_name(THREAD)] == await names_of(store)
    thread = other.thread("support", key=KEY)
    acts: dict[str, Callable[[], Any]] = {
        "stop": thread.stop_turn,
        "cancel": lambda: other.cancel(RUN_ID),
    }
    if act == "worker":
        working.cancel()
    else:
        await acts[act]()
        model.opened.set()
    await asyncio.wait({working})
    async with asyncio.timeout(5):  # long before they end by themselves
        while await names_of(store):  # noqa: ASYNC110 - another task
            await asyncio.sleep(0.01)
    await follower.leave()


async def test_copies_have_no_words_and_a_pruned_thread_loses_them(
    tmp_path: Path,
) -> None:
    """`doctor` does not look at them, whatever they are."""
    store, target = open_store(f"file:{tmp_path}/a"), open_store(f"file:{tmp_path}/b")
    worker = make_worker(store, ScriptedModel(["one"]))
    thread = worker.thread(key=KEY)
    await thread.send("Hello")
    await thread.close()
    values, other_values = ephemeral(store), ephemeral(target)
    assert values is not None
    assert other_values is not None
    await values.put({layout.words_name(THREAD): b"\0damaged"}, 30)
    await worker.copy_to(target)
    assert RUN_ID == (await AsyncRunner([], store=target).look(RUN_ID)).run_id
    assert [] == await other_values.names("")
    assert not (await check_integrity(Objects(store), RUN_ID)).findings
    assert [layout.words_name(THREAD)] == await names_of(store)
    pruned = await worker.prune(older_than=timedelta(microseconds=1))
    assert (RUN_ID,) == pruned.run_ids
    assert [] == await names_of(store)


async def test_words_of_a_rewound_turn_give_way_to_the_next_ones() -> None:
    """A fork is no thread, so it has no words for others."""
    store, model = MemoryStore(), Gate(["one two three"] * 2)
    follower = Follower(AsyncRunner([], store=store))
    await until_followed(store)
    worker = make_worker(store, model)
    working = asyncio.create_task(worker.thread(key=KEY).send("Hello"))
    await follower.until_texts("Hello", "one two ")
    working.cancel()
    await asyncio.wait({working})
    await worker.rewind(RUN_ID, 1)
    model.opened.set()
    await worker.thread(key=KEY).send("Again")
    await follower.until_reply()
    assert "one two three" == follower.texts[-1]
    assert 1 == sum(text.startswith("one") for text in follower.texts)
    fork = await worker.fork(RUN_ID, messages={"f1": "Once more"})
    assert layout.thread_of(fork) is None
    await follower.leave()


async def test_words_without_a_worker_are_not_given_to_a_late_follower() -> None:
    """They end, and the followers look for the message that might replace them."""
    store = MemoryStore()
    values = present(ephemeral(store))
    words = WrittenWords("killed", RUN_ID)
    words.add(delta("stale", fence=1))
    await values.put({layout.words_name(THREAD): words.value()}, 0.3)
    follower = Follower(AsyncRunner([], store=store))
    await follower.until_texts("stale")
    await asyncio.sleep(0.5)
    late = Follower(AsyncRunner([], store=store))
    await asyncio.sleep(0.5)
    assert [] == late.texts
    for each in (follower, late):
        await each.leave()


async def test_reply_is_shown_at_once_when_the_words_have_gone() -> None:
    """A follower looks at the store after up to 5 s otherwise."""
    store = MemoryStore()
    follower = Follower(AsyncRunner([], store=store))
    await until_followed(store)
    await asyncio.sleep(2)  # the pause between two looks has grown
    model = Gate(["one two three"])
    worker = make_worker(store, model)
    working = asyncio.create_task(worker.thread(key=KEY).send("Hello"))
    await until(lambda: any(isinstance(e, TextDelta) for e in follower.events))
    model.opened.set()
    await working
    await asyncio.sleep(0.05)
    assert [] == await names_of(store)
    async with asyncio.timeout(1.5):
        await follower.until_reply()
    await follower.leave()


async def test_own_worker_and_follower_need_no_words_in_the_store() -> None:
    """Each word comes once, and none is put."""
    values = CountedValues()
    model = Gate(["one two three"])
    runner = make_worker(values.store, model)
    follower = Follower(runner)
    await until_followed(values.store)
    working = asyncio.create_task(runner.thread(key=KEY).send("Hello"))
    await follower.until(lambda: "one two " in follower.texts)
    await asyncio.sleep(0.4)
    model.opened.set()
    await working
    await follower.until_reply()
    words = [each.text for each in follower.events if isinstance(each, TextDelta)]
    assert ["one ", "two ", "three"] == words
    assert {"followers"} == values.kinds
    await follower.leave()


async def test_follower_beside_the_worker_gets_each_word_once() -> None:
    """Also if the words are in the store, because another process follows."""
    store, model = MemoryStore(), Gate(["one two three"])
    runner = make_worker(store, model)
    own, other = Follower(runner), Follower(AsyncRunner([], store=store))
    await until_followed(store)
    working = asyncio.create_task(runner.thread(key=KEY).send("Hello"))
    await other.until(lambda: "one two " in other.texts)
    await asyncio.sleep(0.3)
    model.opened.set()
    await working
    await own.until_reply()
    words = [each.text for each in own.events if isinstance(each, TextDelta)]
    assert ["one ", "two ", "three"] == words
    for each in (own, other):
        await each.leave()


async def test_followers_of_two_event_loops_get_each_word_once() -> None:
    store, model = MemoryStore(), Gate(["one two three"])
    reader = AsyncRunner([], store=store)
    found: list[str] = []

    async def follow() -> None:
        other = Follower(reader)
        await other.until_reply()
        await other.leave()
        found.extend(e.text for e in other.events if isinstance(e, TextDelta))

    thread = threading.Thread(target=lambda: asyncio.run(follow()))
    follower = Follower(reader)
    thread.start()
    await until_followed(store)
    await until(lambda: len(reader._word_hub._loops) == 2)
    working = asyncio.create_task(
        make_worker(store, model).thread(key=KEY).send("Hello")
    )
    await follower.until(lambda: "one two " in follower.texts)
    await asyncio.sleep(0.3)
    model.opened.set()
    await working
    await follower.until_reply()
    await asyncio.to_thread(thread.join, SOON)
    words = [each.text for each in follower.events if isinstance(each, TextDelta)]
    assert ["one ", "two "] == words[:2] == found[:2]
    assert len(words) == len(set(words))
    await follower.leave()
    assert {} == reader._word_hub._loops


async def test_follower_that_leaves_leaves_no_task() -> None:
    before = asyncio.all_tasks()
    follower = Follower(AsyncRunner([], store=MemoryStore()))
    await asyncio.sleep(0.1)
    assert len(before) + 3 <= len(asyncio.all_tasks())
    await follower.leave()
    await asyncio.sleep(0)
    assert before == asyncio.all_tasks()


async def test_follower_of_a_store_without_ephemeral_values_gets_the_message() -> None:
    store = FaultyStore(MemoryStore())
    assert ephemeral(store) is None
    model = Gate(["one two three"])
    follower = Follower(AsyncRunner([], store=store))
    await make_worker(store, model).thread(key=KEY).send("Hello")
    await follower.until_reply()
    assert ["Hello", "one two three"] == follower.texts
    assert [False] == model.streamed
    await follower.leave()


def test_plain_follower_gets_the_words_of_another_runner(store: MemoryStore) -> None:
    thread = Runner([], store=store).thread("support", key=KEY)
    events = thread.follow(words=True)
    thread.post("Hello")
    next(events)
    asyncio.run(until_followed(store))
    model = ScriptedModel(["one two three"])
    Runner(Agent("support", model=model), store=store).sweep()
    found: list[RunEvent] = []
    for event in events:
        found.append(event)
        if isinstance(event, ReplyGiven):
            break
    replies = [e for e in found if isinstance(e, MessageAdded)]
    assert "one two three" == replies[-1].message["content"]


# What a worker pays ----------------------------------------------------------------


class CountedValues:
    """A store in memory, whose ephemeral values are counted, or fail."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.calls: list[tuple[str, Sequence[str]]] = []
        self.error: Exception | None = None
        self.hangs = False
        self._values: Ephemeral = self.store.ephemeral
        self.store.ephemeral = self  # type: ignore[assignment]

    @property
    def kinds(self) -> set[str]:
        """The first parts of the names that were put."""
        names = [name for call, names in self.calls if call == "put" for name in names]
        return {name.partition("/")[0] for name in names}

    async def _count(self, call: str, names: Sequence[str]) -> None:
        self.calls.append((call, names))
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error

    async def put(self, values: Mapping[str, bytes], seconds: float) -> None:
        await self._count("put", [*values])
        await self._values.put(values, seconds)

    async def get(self, names: Sequence[str]) -> dict[str, bytes]:
        await self._count("get", names)
        return await self._values.get(names)

    async def names(self, prefix: str) -> list[str]:
        await self._count("names", [prefix])
        return await self._values.names(prefix)

    async def remove(self, names: Sequence[str]) -> None:
        await self._count("remove", names)
        await self._values.remove(names)


async def test_message_without_a_follower_costs_one_look() -> None:
    """A run that is no thread costs none."""
    values = CountedValues()
    runner = make_worker(values.store, ScriptedModel(["one"] * 9))
    await runner.start("Hello", run_id="r1")
    assert [] == values.calls
    await runner.thread(key=KEY).send("Hello")
    assert [("names", ["followers/"])] == values.calls


async def test_twenty_followers_cost_as_many_requests_as_one() -> None:
    values = CountedValues()
    runner = AsyncRunner([], store=values.store)
    followers = [Follower(runner) for _ in range(20)]
    await asyncio.sleep(0.6)
    puts = [names for call, names in values.calls if call == "put"]
    gets = [names for call, names in values.calls if call == "get"]
    assert 1 == len(puts)
    assert len(gets) <= 4
    assert {(layout.words_name(THREAD),)} == {tuple(names) for names in gets}
    for each in followers:
        await each.leave()


@pytest.mark.parametrize("error", [Unavailable(None, "away"), RuntimeError("broken")])
async def test_worker_and_follower_go_on_if_the_values_fail(error: Exception) -> None:
    values = CountedValues()
    values.error = error
    worker = make_worker(values.store, ScriptedModel(["one two three"]))
    follower = Follower(AsyncRunner([], store=values.store))
    await worker.thread(key=KEY).send("Hello")
    await follower.until_reply()
    assert ["Hello", "one two three"] == follower.texts
    await follower.leave()


async def test_words_that_fail_in_the_middle_are_left_out() -> None:
    """The reply is stored, and nothing is put again for some time."""
    values = CountedValues()
    follower = Follower(AsyncRunner([], store=values.store))
    await until_followed(values.store)
    model = Gate(["one two three"] * 2)
    worker = make_worker(values.store, model)
    working = asyncio.create_task(worker.thread(key=KEY).send("Hello"))
    await follower.until(lambda: "one two " in follower.texts)
    values.error = Unavailable(None, "away")
    model.opened.set()
    await working
    await follower.until_reply()
    values.error = None
    values.calls.clear()
    await worker.thread(key=KEY).send("Again")
    assert model.streamed == [True, False]
    assert "names" not in {call for call, _ in values.calls}
    await follower.leave()


async def test_worker_does_not_wait_for_values_that_hang() -> None:
    values = CountedValues()
    follower = Follower(AsyncRunner([], store=values.store))
    await until_followed(values.store)
    worker = make_worker(values.store, ScriptedModel(["one two three"] * 9))
    await worker.thread(key=KEY).send("Hello")
    values.hangs = True
    async with asyncio.timeout(5):
        await worker.thread(key=KEY).send("Again")
        await worker.thread(key=KEY).send("And again")
    await follower.leave()


async def test_long_words_are_put_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    values = CountedValues()
    monkeypatch.setattr(word_carrier, "_BYTES_PER_SECOND", 10)
    follower = Follower(AsyncRunner([], store=values.store))
    await until_followed(values.store)
    model = Gate(["one two three four five six"], parts=6)
    worker = make_worker(values.store, model)
    working = asyncio.create_task(worker.thread(key=KEY).send("Hello"))
    await asyncio.sleep(1.0)
    assert "words" not in values.kinds
    model.opened.set()
    await working
    await follower.leave()


# The value --------------------------------------------------------------------------


def delta(text: str, **fields: Any) -> TextDelta:
    """Return a part of a reply of the root agent."""
    return TextDelta(text=text, **(PLACE | fields))


PLACE: dict[str, Any] = {
    "run_id": RUN_ID,
    "frame": "f1",
    "path": ("support",),
    "turn": 1,
    "fence": 2,
    "attempt": 1,
    "index": 0,
}
TEXTS = st.text(st.characters(codec=None), max_size=5)


@st.composite
def replies(draw: st.DrawFn) -> list[LiveEvent]:
    """Return the live events of several turns, those of each in their order."""
    events: list[LiveEvent] = []
    frames = st.sampled_from(["f1", "f2", "f3"])
    turns = st.tuples(frames, st.integers(1, 3), st.integers(1, 3))
    for frame, fence, attempt in draw(st.lists(turns, max_size=4, unique=True)):
        parts = draw(st.lists(st.tuples(st.booleans(), TEXTS), max_size=4))
        for index, (is_text, text) in enumerate(parts):
            make = TextDelta if is_text else ReasoningDelta
            own = {"frame": frame, "fence": fence, "attempt": attempt, "index": index}
            fields: dict[str, Any] = {**PLACE, **own, "text": text}
            events.append(make(**fields))
    return events


@given(replies())
def test_reader_shows_what_a_reader_in_the_process_shows(
    events: list[LiveEvent],
) -> None:
    """The numbers of the events are the same, so a client may change the process."""
    words, here, there = WrittenWords("p1", RUN_ID), LiveTranscript(), LiveTranscript()
    for event in events:
        words.add(event)
        here.add(event)
    turns = read_words(words.value(), THREAD, "p2")
    read = [each for turn in turns for each in turn.events(0)]
    for event in read:
        there.add(event)
    assert {*read} <= {*events}
    assert here.texts == there.texts


@pytest.mark.parametrize("text", ["x", "ü", "\0", "\ud800", "🎈"])
def test_value_has_a_limited_size(text: str) -> None:
    """The beginning of a long reply is kept, and older turns give way to it."""
    words = WrittenWords("p1", RUN_ID)
    words.add(delta("old", frame="f2"))
    count = 0
    while words.add(delta(text * 1000, index=count)):
        count += 1
    assert not words.add(delta(text, index=count + 1))
    value = words.value()
    assert MAX_EPHEMERAL_BYTES // 2 < len(value) <= MAX_EPHEMERAL_BYTES
    [turn] = read_words(value, THREAD, "p2")
    assert ("f1", count) == (turn.key, turn.end)
    assert words.add(delta("new", fence=3))
    assert len(words.value()) < 1000


def test_one_part_that_is_too_long_is_left_out() -> None:
    words = WrittenWords("p1", RUN_ID)
    assert not words.add(delta("x" * MAX_EPHEMERAL_BYTES))
    assert [[]] == [[*t.events(0)] for t in read_words(words.value(), THREAD, "p2")]


@given(st.binary(max_size=200))
def test_other_bytes_are_no_words(value: bytes) -> None:
    assert [] == read_words(value, THREAD, "p2")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "t", "thello", "rwhy", "x", "f1", RUN_ID, "{}", "p1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["frame", "parts", "call"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)
TURN = {
    "frame": "f1",
    "path": ["support"],
    "turn": 1,
    "fence": 2,
    "attempt": 1,
    "parts": ["thello"],
}


@given(st.dictionaries(st.sampled_from([*TURN, "call", "tool", "index"]), JSON))
def test_hostile_turns_are_left_out_or_are_events(fields: dict[str, Any]) -> None:
    """Each event that is read can be sent to a client."""
    value = {"by": "p1", "run": RUN_ID, "turns": [{**TURN, **fields}, TURN]}
    turns = read_words(json.dumps(value).encode(), THREAD, "p2")
    assert 1 <= len(turns) <= 2
    transcript = LiveTranscript()
    for event in (each for turn in turns for each in turn.events(0)):
        transcript.add(event)
        if isinstance(event, CallProgress):
            json.dumps(event.value)
    assert all(isinstance(each.text, str) for each in transcript.texts)


@pytest.mark.parametrize(
    "value",
    [
        b"[" * 100_000,
        b'{"by": "p1", "turns": []}',
        json.dumps({"by": "p1", "run": "r1", "turns": [TURN]}).encode(),
        json.dumps({"by": "p1", "run": RUN_ID[:-2], "turns": [TURN]}).encode(),
        json.dumps({"by": "p2", "run": RUN_ID, "turns": [TURN]}).encode(),
        json.dumps({"by": "p1", "run": RUN_ID, "turns": {}}).encode(),
        json.dumps({"by": "p1", "run": RUN_ID, "turns": [1, [], None]}).encode(),
    ],
)
def test_words_of_another_run_or_form_are_left_out(value: bytes) -> None:
    assert [] == read_words(value, THREAD, "p2")


def test_words_name_no_run_that_is_no_thread() -> None:
    assert layout.thread_of("t-support") is None
    assert layout.thread_of("r1") is None
    assert layout.thread_of(f"{THREAD}-12") == THREAD
    name = layout.follower_name(THREAD, "p1")
    assert (THREAD, "p1") == layout.follower_of(name)


def test_pace_is_that_of_the_documentation() -> None:
    """`docs/how-to/threads.md` and decision 86 name these numbers."""
    assert (30.0, 0.15) == (word_carrier.WORDS_SECONDS, word_carrier._PAUSE_SECONDS)
    assert (0.1, 0.25) == (word_reader._BUSY_SECONDS, word_reader._IDLE_SECONDS)
    assert carried_words._MAX_BYTES < MAX_EPHEMERAL_BYTES == 256 * 1024
