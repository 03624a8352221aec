"""A console and an HTTP server show the words that a worker elsewhere writes."""

# The tests look at what a follower keeps.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from continuations import AsyncRunner, Identity
from continuations.engine.events.carried_words import WrittenWords
from continuations.events import TextDelta
from continuations.ledger import layout
from continuations.serve.console import live_runs
from continuations.serve.console.live_runs import Changed, LiveRuns, RunNews, Words
from continuations.serve.http.api import HttpApi, Request
from continuations_storage import MemoryStore, open_store
from tests.serve.console.console_client import ConsoleClient
from tests.serve.http.api_fixture import verify_bearer
from tests.stepped_writer import Steps, run_worker, until_followed

SOON = 30
RUN_ID = layout.thread_run_id("support", "42", 1)
WORDS = layout.words_name(layout.thread_of(RUN_ID) or "")
PATH = "/threads/support/42/events"


def allow(*acts: str) -> Callable[[Identity, str, str | None], bool]:
    """Return a function that allows some acts."""
    return lambda _, act, __: act in acts


class OtherProcess:
    """The words of a worker of another process, in a store in memory."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.words = WrittenWords("other", RUN_ID)
        self._count = 0

    async def write(self, text: str, **fields: Any) -> None:
        """Write one part more."""
        place: dict[str, Any] = {"frame": "f1", "path": ("support",), "turn": 1}
        place |= {"fence": 2, "attempt": 1, "index": self._count, **fields}
        self.words.add(TextDelta(run_id=RUN_ID, text=text, **place))
        self._count += 1
        await self.store.ephemeral.put({WORDS: self.words.value()}, 30)

    async def die(self) -> None:
        """Let the words end."""
        await self.store.ephemeral.remove([WORDS])


# The console ------------------------------------------------------------------------


async def open_console(
    other: OtherProcess, **options: Any
) -> tuple[ConsoleClient, LiveRuns]:
    """Return a console with the thread, whose first message waits for a worker."""
    runner = AsyncRunner([], store=other.store)
    client = ConsoleClient(runner, options)
    await runner.thread("support", key="42").post("Hello")
    return client, client.app.state.live.runs


async def next_words(news: AsyncGenerator[RunNews]) -> Words:
    async with asyncio.timeout(SOON):
        async for found in news:
            if isinstance(found, Words):
                return found
    raise AssertionError


async def test_viewer_gets_words_of_another_process_once() -> None:
    """A viewer that comes in the middle gets them from their beginning."""
    other = OtherProcess()
    _, runs = await open_console(other)
    news = runs.changes(RUN_ID, "")
    await anext(news)
    await other.write("one ")
    first = await next_words(news)
    await other.write("two\u202e")
    second = await next_words(news)
    late = runs.changes(RUN_ID, "")
    assert (0, "one two\\u202e") == _shown(await next_words(late))
    assert [(0, "one "), (1, "two\\u202e")] == [_shown(first), _shown(second)]
    for each in (news, late):
        await each.aclose()


def _shown(words: Words) -> tuple[int, str]:
    return words.start, words.text


async def test_page_looks_at_the_run_when_words_begin_and_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So the message before the words, and the one that replaces them, come at once."""
    monkeypatch.setattr(live_runs, "INTERVAL_SECONDS", 3600.0)
    other = OtherProcess()
    client, runs = await open_console(other)
    news = runs.changes(RUN_ID, "")
    assert isinstance(await anext(news), Changed)
    for act in (other.write("one "), other.die()):
        await client.runner.thread("support", key="42").post("And?")
        await act
        async with asyncio.timeout(SOON):
            while not isinstance(await anext(news), Changed):
                pass
    await news.aclose()


async def test_words_of_a_dead_worker_are_shown_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next attempt begins with an empty text."""
    monkeypatch.setattr(live_runs, "_STORED_SECONDS", 0.1)
    other = OtherProcess()
    _, runs = await open_console(other)
    news = runs.changes(RUN_ID, "")
    await other.write("stale ")
    await next_words(news)
    await other.die()
    gone = await next_words(news)
    assert (0, "", 0) == (*_shown(gone), gone.place.count)
    await other.write("new ", fence=3, index=0)
    assert (0, "new ") == _shown(await next_words(news))
    await news.aclose()


async def test_ended_words_of_a_sub_agent_leave_those_of_the_root(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_runs, "_STORED_SECONDS", 0.0)
    other = OtherProcess()
    _, runs = await open_console(other)
    news = runs.changes(RUN_ID, "")
    await other.write("one ")
    await next_words(news)
    await other.write("x", frame="f2", path=("support", "clerk"), index=0)
    await other.write("two ", index=1)
    await next_words(news)
    other.words._turns.pop("f2")
    await other.write("three", index=2)
    assert (2, "three") == _shown(await next_words(news))
    await asyncio.sleep(0.1)
    await other.write("four", index=3)
    assert (3, "four") == _shown(await next_words(news))
    await news.aclose()


async def test_last_viewer_leaves_no_words_behind() -> None:
    """Else a later viewer would get words whose end the process did not notice."""
    other = OtherProcess()
    _, runs = await open_console(other)
    news = runs.changes(RUN_ID, "")
    await other.write("stale ")
    await next_words(news)
    await news.aclose()
    assert runs._reader is None
    await other.die()
    late = runs.changes(RUN_ID, "")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await next_words(late)
    await late.aclose()


async def test_run_that_is_no_thread_asks_no_worker_for_words() -> None:
    """Its page shows none."""
    other = OtherProcess()
    _, runs = await open_console(other)
    news = runs.changes("r1", "")
    await anext(news, None)
    assert [] == await other.store.ephemeral.names("")
    assert runs._reader is None
    await news.aclose()


@pytest.mark.parametrize("acts", [("view",), ("view", "read")])
async def test_words_in_a_console_need_the_right_to_read(acts: tuple[str, ...]) -> None:
    other = OtherProcess()
    client, runs = await open_console(other, can=allow(*acts))
    await other.write("my number is 4711")
    stream = asyncio.create_task(client.get(f"/events?run={RUN_ID}"))
    while not runs.run_ids:  # noqa: ASYNC110 - another task
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.6)
    client.app.state.live.close()
    assert ("read" in acts) == ("4711" in (await stream).text)


# HTTP -------------------------------------------------------------------------------


async def events_of(api: HttpApi, last_id: str = "") -> AsyncIterator[dict[str, Any]]:
    """Iterate over the events of a thread and its words."""
    headers = {"authorization": "Bearer ann", "accept": "text/event-stream"}
    headers |= {"last-event-id": last_id} if last_id else {}
    response = await api.handle(
        Request(
            method="GET",
            path=PATH,
            raw_path=PATH,
            query={"words": "true"},
            headers=headers,
            can_stream=True,
        )
    )
    assert response.chunks is not None
    async for chunk in response.chunks:
        for line in chunk.split("\n"):
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))


async def test_words_over_http_come_from_a_worker_in_another_process(
    tmp_path: Path,
) -> None:
    """A client without the right to read gets the stored events alone."""
    url, steps = f"sqlite:{tmp_path}/runs.db", Steps(tmp_path)
    await open_store(url).probe()
    steps.hold()
    apis = {
        acts: HttpApi(
            AsyncRunner([], store=open_store(url)),
            verify=verify_bearer,
            can=allow(*acts),
        )
        for acts in (("view",), ("view", "read"))
    }
    with run_worker(steps, url):
        reading = [asyncio.create_task(_until_reply(api)) for api in apis.values()]
        await until_followed(open_store(url))
        await asyncio.sleep(0.3)
        runner = AsyncRunner([], store=url)
        await runner.thread("support", key="42").post("say my number |is 4711")
        steps.allow()
        await asyncio.sleep(1)
        state = await runner.look(RUN_ID)
        assert 1 == len(state.root.messages)
        steps.release()
        without, events = await asyncio.gather(*reading)
    words = [each["text"] for each in events if each["type"] == "TextDelta"]
    assert "my number " == words[0]
    assert "4711" in str(events)
    assert "TextDelta" not in str(without)
    assert "4711" not in str(without)


async def _until_reply(api: HttpApi) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(SOON):
        async for event in events_of(api):
            found.append(event)
            if event["type"] == "ReplyGiven":
                break
    return found
