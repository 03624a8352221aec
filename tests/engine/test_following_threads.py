"""Followers of a thread get its stored events, and the words of their process."""

# A test counts what a hub keeps.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from continuations import Agent, AsyncRunner, Runner, Suspended, ToolContext, tool
from continuations.core.reading.live_events import RunEvent
from continuations.core.reading.run_stream import (
    BaseEvent,
    MessageAdded,
    ReplyGiven,
    WaitOpened,
)
from continuations.engine.events import word_hub
from continuations.engine.events.word_hub import WordHub
from continuations.errors import HookFailed, InvalidInput
from continuations.events import CallProgress, LiveTranscript, TextDelta
from continuations.guardrails import Guardrail, Guardrails, Tripped
from continuations.hooks import Hooks
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests.outcomes import expect, present

KEY = "customer 42"
REPLY = "It arrives tomorrow at nine."


def make_runner(store: MemoryStore, *replies: Any) -> AsyncRunner:
    model = ScriptedModel([*(replies or [REPLY] * 9)])
    return AsyncRunner(Agent("support", model=model), store=store)


async def until(
    events: AsyncIterator[RunEvent], is_last: Callable[[RunEvent], bool]
) -> list[RunEvent]:
    """Return the events up to one, within some seconds."""
    found: list[RunEvent] = []
    async with asyncio.timeout(20):
        async for event in events:
            found.append(event)
            if is_last(event):
                break
    return found


def is_reply(event: RunEvent) -> bool:
    return isinstance(event, ReplyGiven)


def words_of(events: list[RunEvent]) -> str:
    return "".join(each.text for each in events if isinstance(each, TextDelta))


async def test_id_of_the_run_is_known_before_the_first_message() -> None:
    store = MemoryStore()
    thread = make_runner(store).thread(key=KEY)
    other = Runner([], store=store).thread("support", key=KEY)

    known = thread.run_id
    assert known == other.run_id
    assert known == (await thread.send("Hello")).run_id == thread.run_id


async def test_run_id_after_a_close_is_that_of_the_next_run() -> None:
    thread = make_runner(MemoryStore()).thread(key=KEY)
    first = thread.run_id
    await thread.send("Hello")
    await thread.close()
    again = await thread.send("Back")
    assert first != again.run_id == thread.run_id


async def test_two_followers_get_all_words_and_stored_events_from_the_start() -> None:
    runner = make_runner(MemoryStore())
    thread = runner.thread(key=KEY)
    followers = [
        asyncio.create_task(
            until(runner.thread(key=KEY).follow(words=True).__aiter__(), is_reply)
        )
        for _ in range(2)
    ]
    await asyncio.sleep(0.05)
    await thread.send("Hello")
    for events in await asyncio.gather(*followers):
        assert REPLY == words_of(events)
        transcript = LiveTranscript()
        for event in events:
            transcript.add(event)
        assert ["Hello", REPLY] == [each.text for each in transcript.texts]
        stored = [each.cursor for each in events if isinstance(each, BaseEvent)]
        assert len(stored) == len(set(stored))


async def test_follower_goes_on_over_rests_and_runs() -> None:
    runner = make_runner(MemoryStore())
    thread = runner.thread(key=KEY)
    follow = thread.follow().__aiter__()
    sent = [await thread.send("one")]
    found = await until(follow, is_reply)
    sent.append(await thread.send("two"))
    found += await until(follow, is_reply)
    await thread.close()
    sent.append(await thread.send("three"))
    found += await until(follow, is_reply)

    replies = [each.run_id for each in found if is_reply(each)]
    assert [each.run_id for each in sent] == replies
    assert "" == words_of(found)

    # And from any place, in another process, the rest comes.
    last = expect(next(each for each in found if is_reply(each)), ReplyGiven)
    after = f"{last.run_id}/{last.cursor}"
    rest = thread.follow(after=after).__aiter__()
    again = await until(rest, is_reply) + await until(rest, is_reply)
    assert found[found.index(last) + 1 :] == again


async def test_follower_after_a_state_gets_what_came_since() -> None:
    thread = make_runner(MemoryStore()).thread(key=KEY)
    await thread.send("one")
    state = present(await thread.look())
    await thread.send("two")
    found = await until(thread.follow(after=state).__aiter__(), is_reply)
    added = [each for each in found if isinstance(each, MessageAdded)]
    texts = [each.message["content"] for each in added]
    assert ["two", REPLY] == texts


async def test_late_follower_gets_the_words_from_their_beginning() -> None:
    store, gate = MemoryStore(), asyncio.Event()

    class Held(ScriptedModel):
        async def reply(self, request: Any) -> Any:
            from dataclasses import replace  # noqa: PLC0415

            hand_on, count = request.on_delta, 0

            async def hold(delta: Any) -> None:
                nonlocal count
                await hand_on(delta)
                count += 1
                if count == 3:
                    await gate.wait()

            return await super().reply(replace(request, on_delta=hold))

    agent = Agent("support", model=Held([REPLY]))
    runner = AsyncRunner(agent, store=store)
    early = runner.thread(key=KEY).follow(words=True).__aiter__()
    sending = asyncio.create_task(runner.thread(key=KEY).send("Hello"))
    first = await until(early, lambda each: isinstance(each, TextDelta))
    late = runner.thread(key=KEY).follow(words=True).__aiter__()
    seen = await until(late, lambda each: isinstance(each, TextDelta))
    gate.set()
    seen += await until(late, is_reply)
    await sending

    assert REPLY.startswith(words_of(first))
    assert REPLY == words_of(seen)


async def test_late_follower_gets_no_reply_that_a_person_judges() -> None:
    """Words are shown while they are written, and not again while they are held."""
    ask = Guardrail(check=lambda _: Tripped("look"), on_trip="ask", name="look")
    agent = Agent(
        "support", model=ScriptedModel([REPLY]), guardrails=Guardrails(output=[ask])
    )
    runner = AsyncRunner(agent, store=MemoryStore())
    early = runner.thread(key=KEY).follow(words=True).__aiter__()
    sending = asyncio.create_task(runner.thread(key=KEY).send("Hello"))
    written = await until(early, lambda each: isinstance(each, WaitOpened))
    assert REPLY == words_of(written)
    assert isinstance(await sending, Suspended)

    late = runner.thread(key=KEY).follow(words=True).__aiter__()
    seen = await until(late, lambda each: isinstance(each, WaitOpened))

    assert [] == [each for each in seen if isinstance(each, TextDelta)]


async def test_late_follower_gets_no_reply_at_which_a_hook_failed() -> None:
    """The worker gave the turn up: a later attempt writes another reply."""

    def check(_: object) -> None:
        msg = "it has a card number"
        raise ValueError(msg)

    agent = Agent(
        "support", model=ScriptedModel([REPLY]), hooks=Hooks(after_model=check)
    )
    runner = AsyncRunner(agent, store=MemoryStore())
    early = runner.thread(key=KEY).follow(words=True).__aiter__()
    sending = asyncio.create_task(runner.thread(key=KEY).send("Hello"))
    await until(early, lambda each: isinstance(each, TextDelta))
    with pytest.raises(HookFailed):
        await sending
    [hub] = runner.observers
    assert isinstance(hub, WordHub)
    assert not hub._present


async def test_progress_of_tools_is_followed() -> None:
    @tool
    async def count(ctx: ToolContext[Any]) -> str:
        """Count."""
        ctx.progress({"done": 1})
        return "counted"

    model = ScriptedModel([ToolCall("count"), REPLY])
    agent = Agent("support", tools=[count], model=model)
    runner = AsyncRunner(agent, store="memory:")
    thread = runner.thread(key=KEY)
    follow = thread.follow(words=True).__aiter__()
    reading = asyncio.create_task(until(follow, is_reply))
    await asyncio.sleep(0.05)
    await thread.send("Hello")
    found = await reading
    assert 1 == sum(isinstance(each, CallProgress) for each in found)


async def test_slow_follower_changes_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """It misses words, and no stored event."""
    monkeypatch.setattr(word_hub, "MAX_UNREAD", 2)

    runner = make_runner(MemoryStore())
    thread = runner.thread(key=KEY)
    follow = thread.follow(words=True)
    waiting = asyncio.ensure_future(anext(follow.__aiter__()))
    await asyncio.sleep(0.05)
    await thread.send("Hello")
    await waiting
    found = await until(follow.__aiter__(), is_reply)
    assert len(words_of(found)) < len(REPLY)
    assert any(is_reply(each) for each in found)


async def test_follower_gets_the_words_of_a_worker_loop_that_runs_already() -> None:
    """A server sweeps from its start; its first page opens later."""
    runner = make_runner(MemoryStore())
    async with asyncio.timeout(20):
        loop = asyncio.create_task(runner.serve_forever(interval=0.1))
        await asyncio.sleep(0.3)
        thread = runner.thread(key=KEY)
        follow = thread.follow(words=True).__aiter__()
        reading = asyncio.create_task(until(follow, is_reply))
        await asyncio.sleep(0.05)
        await thread.post("Hello")
        assert REPLY == words_of(await reading)
        loop.cancel()
        await asyncio.wait({loop})


async def test_hub_forgets_followers_and_words_that_are_stored() -> None:
    runner = make_runner(MemoryStore())
    thread = runner.thread(key=KEY)
    follow = thread.follow(words=True)
    reading = asyncio.create_task(until(follow.__aiter__(), is_reply))
    await asyncio.sleep(0.05)
    await thread.send("Hello")
    await reading
    [hub] = runner.observers
    assert isinstance(hub, WordHub)
    await follow.batches.aclose()  # type: ignore[attr-defined]
    assert not hub._present
    assert not hub._followers


def test_runner_without_followers_observes_nothing() -> None:
    runner = Runner(Agent("support", model=ScriptedModel([REPLY])), store="memory:")
    thread = runner.thread(key=KEY)
    thread.send("Hello")

    assert [] == runner.async_runner.observers
    next(thread.follow())
    assert [] == runner.async_runner.observers


def test_synchronous_follower_reads_in_another_thread() -> None:
    runner = Runner(Agent("support", model=ScriptedModel([REPLY])), store="memory:")
    thread = runner.thread(key=KEY)
    found: list[RunEvent] = []
    events = thread.follow(words=True)
    thread.post("Hello")
    found.append(next(events))

    thread.ticket(1).reply()  # type: ignore[union-attr]
    for event in events:
        found.append(event)
        if is_reply(event):
            break

    assert REPLY == words_of(found)


@pytest.mark.parametrize("after", ["x", "r1/1.1", "t-support/1.1", 3])
def test_place_of_another_thread_is_refused(after: Any) -> None:
    thread = make_runner(MemoryStore()).thread(key=KEY)

    with pytest.raises(InvalidInput, match="after"):
        thread.follow(after=after)


async def test_follower_without_agents_gets_the_events(store: MemoryStore) -> None:
    thread = AsyncRunner([], store=store).thread("support", key=KEY)
    await thread.post("Hello")
    await make_runner(store).sweep()
    assert is_reply((await until(thread.follow().__aiter__(), is_reply))[-1])
