"""Open pages follow their runs: one follower for all viewers, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any

import pytest

from continuations import Agent, AsyncRunner, Identity
from continuations.core.reading.run_stream import Attempt, MessageAdded
from continuations.events import TextDelta
from continuations.models.interface import ModelReply, ModelRequest, PendingReply
from continuations.models.scripted import ScriptedModel
from continuations.serve.console import console_app, live_runs
from continuations.serve.console.live import Away
from continuations.serve.console.live_runs import (
    Changed,
    Gone,
    LiveRuns,
    RunNews,
    Words,
    WordsPlace,
    Writings,
)
from continuations.serve.console.run_snapshot import RunPlace, find_place
from continuations.serve.http.request_response import Request
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore
from tests.serve.console.console_client import ConsoleClient

SOON, NEVER = 30, 3600.0
NOW = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.fixture(autouse=True)
def no_looks_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a follower look at its run only when something tells it to."""
    monkeypatch.setattr(live_runs, "INTERVAL_SECONDS", NEVER)


class Chat:
    """A thread, the process of its worker, and a process with a console."""

    def __init__(self, **options: Any) -> None:
        self.memory = MemoryStore()
        replies = ScriptedModel([f"reply {number}" for number in range(1, 9)])
        self.worker = AsyncRunner(Agent("support", model=replies), store=self.memory)
        self.store = FaultyStore(self.memory)
        self.client = ConsoleClient(AsyncRunner([], store=self.store), options)
        self.run_id = ""

    @property
    def runs(self) -> LiveRuns:
        """The followers of the console."""
        runs: LiveRuns = self.client.app.state.live.runs
        return runs

    async def say(self, text: str) -> None:
        """Let the other process answer a message."""
        result = await self.worker.thread("support", key="k").send(text)
        self.run_id = result.run_id

    def look(self, runs: LiveRuns | None = None) -> None:
        """Let the follower look, as it does after some time."""
        event = Attempt(
            cursor="9.1", run_id=self.run_id, at=NOW, worker="w", number=1, path=()
        )
        (runs or self.runs).put(event)

    async def renew(self, cursor: str) -> str:
        """Load the page as its script does after an event."""
        page = await self.client.get(f"/threads/{self.run_id}", x_live_at=cursor)
        assert 200 == page.status_code
        return page.text


async def next_of(news: AsyncGenerator[RunNews]) -> RunNews:
    return await asyncio.wait_for(anext(news), SOON)


async def changed(news: AsyncGenerator[RunNews]) -> str:
    """Return the next cursor."""
    found = await next_of(news)
    assert isinstance(found, Changed)
    return found.cursor


async def test_twenty_viewers_cost_as_many_requests_as_one() -> None:
    """Streams and the pages that they renew, over two changes."""

    async def cost(viewers: int) -> int:
        chat = Chat()
        await chat.say("one")
        streams = [chat.runs.changes(chat.run_id, "") for _ in range(viewers)]
        cursors = {await changed(each) for each in streams}
        assert 1 == len(cursors)
        for number, text in enumerate(("two", "three"), 2):
            await chat.say(text)
            chat.look()
            for each in streams:
                assert f"reply {number}" in await chat.renew(await changed(each))
        requests = len(chat.store.operations)
        for each in streams:
            await each.aclose()
        assert not chat.runs.run_ids
        return requests

    assert await cost(1) == await cost(20)


async def test_without_a_viewer_there_is_no_request() -> None:
    chat = Chat()
    await chat.say("one")
    runs = LiveRuns(chat.client.runner, chat.client.app.state.live.waits, interval=0)
    news = runs.changes(chat.run_id, "")
    await changed(news)
    await news.aclose()
    before = len(chat.store.operations)
    for _ in range(50):
        await asyncio.sleep(0)
    assert before == len(chat.store.operations)
    assert frozenset() == runs.run_ids


async def test_cut_stream_goes_on_in_another_process_without_loss() -> None:
    chat = Chat()
    other: LiveRuns = ConsoleClient(
        AsyncRunner([], store=chat.memory)
    ).app.state.live.runs
    await chat.say("one")
    first = chat.runs.changes(chat.run_id, "")
    seen = await changed(first)
    await first.aclose()
    await chat.say("two")
    resumed = other.changes(chat.run_id, seen)
    newer = await changed(resumed)
    assert newer != seen
    up_to_date = other.changes(chat.run_id, newer)
    waiting = asyncio.ensure_future(anext(up_to_date))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not waiting.done()
    await chat.say("three")
    chat.look(other)
    assert isinstance(await asyncio.wait_for(waiting, SOON), Changed)
    await resumed.aclose()
    await up_to_date.aclose()


async def test_page_of_an_unknown_cursor_is_read_from_the_store() -> None:
    """Its stream may be that of another process, which is ahead."""
    chat = Chat()
    await chat.say("one")
    news = chat.runs.changes(chat.run_id, "")
    await changed(news)
    await chat.say("two")
    assert "reply 2" in await chat.renew("99.99")
    await news.aclose()


async def test_erased_run_ends_the_stream() -> None:
    chat = Chat()
    await chat.say("one")
    news = chat.runs.changes(chat.run_id, "")
    await changed(news)
    await chat.worker.erase(chat.run_id)
    chat.look()
    assert isinstance(await next_of(news), Gone)
    assert await anext(news, None) is None


async def test_follower_goes_on_after_an_unexpected_error(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a fault of a store of the application."""
    chat = Chat()
    await chat.say("one")
    calls = 0

    async def fails_once(*where: Any) -> RunPlace:
        nonlocal calls
        calls += 1
        if calls == 1:
            msg = "a fault of a store"
            raise ZeroDivisionError(msg)
        return await find_place(*where)

    monkeypatch.setattr(live_runs, "find_place", fails_once)
    news = chat.runs.changes(chat.run_id, "")
    assert await next_of(news) != Away(None)
    chat.look()
    heard = [await next_of(news), await next_of(news)]
    assert Away(None) in heard
    assert any(isinstance(each, Changed) for each in heard)
    await news.aclose()
    assert f"cannot look at run {chat.run_id}: it tries again" in caplog.text


async def test_server_that_stops_ends_the_streams() -> None:
    chat = Chat()
    await chat.say("one")
    news = chat.runs.changes(chat.run_id, "")
    await changed(news)
    waiting = asyncio.ensure_future(anext(news, None))
    await asyncio.sleep(0)
    chat.client.app.state.live.close()
    assert await asyncio.wait_for(waiting, SOON) is None


# The words of a reply ---------------------------------------------------------------


def part(text: str, index: int, fence: int = 3, **more: Any) -> TextDelta:
    """Return a part of a reply."""
    fields: dict[str, Any] = {"attempt": 1, "frame": "f1", "path": ("a",), **more}
    return TextDelta(run_id="r", turn=1, fence=fence, index=index, text=text, **fields)


def stored_reply(version: int) -> MessageAdded:
    """Return the event of a stored reply."""
    return MessageAdded(
        cursor=f"{version}.1",
        run_id="r",
        frame="f1",
        path=("a",),
        at=NOW,
        message_json='{"role": "assistant", "content": "x"}',
    )


def test_each_viewer_gets_each_word_once() -> None:
    writings, place = Writings(), WordsPlace()
    assert writings.after("r", place) is None
    writings.add(part("one ", 0))
    first = writings.after("r", place)
    assert first is not None
    writings.add(part("two\u202e", 1))
    writings.add(part("hidden", 0, path=("a", "b"), frame="f2"))
    second, late = writings.after("r", first.place), writings.after("r", place)
    assert second is not None
    assert late is not None
    assert (0, "one ") == (first.start, first.text)
    assert (1, "two\\u202e") == (second.start, second.text)
    assert (0, "one two\\u202e") == (late.start, late.text)
    assert second.place == late.place
    assert writings.after("r", late.place) is None


@pytest.mark.parametrize("more", [{"fence": 5}, {"attempt": 2}])
def test_higher_fence_or_attempt_begins_anew(more: dict[str, int]) -> None:
    writings = Writings()
    writings.add(part("old", 0))
    old = writings.after("r", WordsPlace())
    assert old is not None
    writings.add(part("new", 0, **more))
    writings.add(part("late", 1))
    new = writings.after("r", old.place)
    assert new is not None
    assert (0, "new") == (new.start, new.text)


def test_stored_reply_ends_the_words_of_lower_fences() -> None:
    writings = Writings()
    writings.add(part("old", 0, fence=3))
    writings.add(stored_reply(4))
    assert writings.after("r", WordsPlace()) is None
    writings.add(part("hole", 1, fence=4))
    assert writings.after("r", WordsPlace()) is None
    writings.add(part("next", 0, fence=4))
    assert writings.after("r", WordsPlace()) is not None


async def test_words_of_a_worker_of_this_process_reach_its_viewers() -> None:
    """A viewer that comes while a reply is written gets its beginning too."""
    may_write = asyncio.Semaphore(1)

    class Slow(ScriptedModel):
        async def reply(self, request: ModelRequest) -> ModelReply | PendingReply:
            """Write two parts, and wait after the first one."""
            reply = await super().reply(request)
            await may_write.acquire()
            return reply

    runner = AsyncRunner(Agent("support", model=Slow(["one two"])), store="memory:")
    runs: LiveRuns = ConsoleClient(runner).app.state.live.runs
    await may_write.acquire()
    thread = runner.thread("support", key="k")
    ticket = await thread.post("hello")
    work = asyncio.create_task(ticket.reply())
    news = runs.changes(ticket.run_id, "")
    text = ""
    while text != "one two":
        found = await next_of(news)
        if isinstance(found, Words):
            text = found.text if found.start == 0 else text + found.text
    late = runs.changes(ticket.run_id, "")
    while not isinstance(found := await next_of(late), Words):
        pass
    assert (0, "one two") == (found.start, found.text)
    may_write.release()
    await work
    await news.aclose()
    await late.aclose()


async def test_run_without_viewers_is_not_streamed() -> None:
    """Also a thread, if pages ask instead of listening."""
    asked: list[bool] = []

    class Noting(ScriptedModel):
        async def reply(self, request: ModelRequest) -> ModelReply | PendingReply:
            """Note whether the words are wanted."""
            asked.append(request.on_delta is not None)
            return await super().reply(request)

    for live in ("events", "poll"):
        model = Noting(["a run", "a thread"])
        runner = AsyncRunner(Agent("support", model=model), store="memory:")
        ConsoleClient(runner, {"live": live})
        await runner.start("hello", run_id="r1")
        await runner.thread("support", key="k").send("hello")
    assert [False, True, False, False] == asked


# Rights -----------------------------------------------------------------------------


async def test_stream_of_a_run_needs_an_identity_and_the_right_to_view() -> None:
    def can(identity: Identity, act: str, run: str | None) -> bool:
        assert ("view", "r1") == (act, run)
        return identity.name == "ann"

    client = ConsoleClient(options={"can": can})
    assert 403 == (await client.get("/events?run=r1")).status_code
    client.person = None
    assert 401 == (await client.get("/events?run=r1")).status_code
    client.person = "ann"
    assert 400 == (await client.get("/events?run=.!")).status_code
    # The run does not exist.
    assert "event: gone" in (await client.get("/events?run=r1")).text

    def verify(_: Request) -> str:
        msg = "the directory is away"
        raise RuntimeError(msg)

    broken = await ConsoleClient(options={"verify": verify}).get("/events")
    assert (500, False) == (broken.status_code, "directory" in broken.text)


@pytest.mark.parametrize("may_read", [False, True])
async def test_words_need_the_right_to_read(
    may_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def changes(*_: object) -> AsyncGenerator[RunNews]:
        yield Words(start=0, place=WordsPlace(count=1), text="one")
        yield Changed("1.0")

    def can(_: Identity, act: str, __: str | None) -> bool:
        return act == "view" or may_read

    monkeypatch.setattr(LiveRuns, "changes", changes)
    client = ConsoleClient(options={"can": can})
    text = (await client.get("/events?run=r1")).text
    assert "event: run" in text
    assert may_read == ("event: words" in text)


async def test_stream_ends_when_the_right_is_withdrawn() -> None:
    """The news that would come next is not sent."""
    answers = iter([True, False])

    def can(_: Identity, __: str, ___: str | None) -> bool:
        return next(answers)

    chat = Chat(can=can)
    await chat.say("one")
    stream = await chat.client.get(f"/events?run={chat.run_id}&after=1.0")
    assert 200 == stream.status_code
    assert "event: run" not in stream.text
    assert not chat.runs.run_ids


@pytest.mark.parametrize("path", ["/events?run={run}&after={cursor}", "/events"])
async def test_idle_stream_is_kept_alive_and_ends_with_its_identity(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_app, "IDLE_SECONDS", 0.1)
    monkeypatch.setattr(console_app, "_PING_SECONDS", 0.02)
    answers = iter(["kim", "kim", "kim", None])

    def verify(_: Request) -> str | None:
        return next(answers)

    chat = Chat(verify=verify)
    await chat.say("one")
    news = chat.runs.changes(chat.run_id, "")
    cursor = await changed(news)
    stream = await chat.client.get(path.format(run=chat.run_id, cursor=cursor))
    assert ": ping" in stream.text
    await news.aclose()
