"""`GET /threads/{agent}/{key}/events?words=true`: stored events and live words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest

from continuations import Agent, AsyncRunner, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.http import event_stream
from continuations.serve.http.api import HttpApi, Request, Response
from continuations.tools import Secret
from continuations_storage import MemoryStore
from tests.present.schema_check import assert_matches_schema
from tests.serve.http.api_fixture import problem_slug, verify_bearer

PATH = "/threads/support/42/events"
REPLY = "It arrives tomorrow at nine."


def make_api(**options: Any) -> tuple[AsyncRunner, HttpApi]:
    """Return a runner and an API with its threads."""
    agent = Agent("support", model=ScriptedModel([REPLY] * 9))
    runner = AsyncRunner(agent, store=MemoryStore())
    return runner, HttpApi(runner, verify=verify_bearer, **options)


async def get(
    api: HttpApi, *, last_id: str = "", can_stream: bool = True, **query: str
) -> Response:
    """Return the response to one request."""
    headers = {"authorization": "Bearer ann", "accept": "text/event-stream"}
    if last_id:
        headers["last-event-id"] = last_id
    query = {"words": "true", **query}
    return await api.handle(
        Request(
            method="GET",
            path=PATH,
            raw_path=PATH,
            query=query,
            headers=headers,
            can_stream=can_stream,
        )
    )


async def read(
    chunks: AsyncIterator[str] | None, last: str
) -> list[tuple[str, dict[str, Any]]]:
    """Return the ids and data of the events up to the first one of a type."""
    assert chunks is not None
    found: list[tuple[str, dict[str, Any]]] = []
    async with asyncio.timeout(20):
        async for chunk in chunks:
            for block in chunk.strip().split("\n\n"):
                fields = dict(line.split(": ", 1) for line in block.split("\n"))
                if "data" not in fields:
                    continue
                data = json.loads(fields["data"])
                is_live = "id" not in fields
                assert_matches_schema("live_event" if is_live else "event", data)
                found.append((fields.get("id", ""), data))
                if data["type"] == last:
                    return found
    return found


def words(events: list[tuple[str, dict[str, Any]]]) -> str:
    """Return the words of live events."""
    return "".join(data["text"] for _, data in events if data["type"] == "TextDelta")


async def test_words_come_before_the_stored_reply_also_of_the_first_message() -> None:
    runner, api = make_api()
    response = await get(api)
    assert 200 == response.status
    assert "text/event-stream" == response.headers["content-type"]
    reading = asyncio.create_task(read(response.chunks, "ReplyGiven"))
    await asyncio.sleep(0.05)
    await runner.thread(key="42").send("Hello")
    events = await reading
    assert REPLY == words(events)

    # A browser connects again after its last stored event.
    last_id = events[-1][0]
    await runner.thread(key="42").send("And?")
    more = await read((await get(api, last_id=last_id)).chunks, "ReplyGiven")
    stored = [each for each, _ in (*events, *more) if each]
    assert len(stored) == len(set(stored))
    assert 2 == sum(data["type"] == "ReplyGiven" for _, data in (*events, *more))


async def test_response_ends_after_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "STREAM_SECONDS", 0.2)

    _, api = make_api()
    assert [] == await read((await get(api)).chunks, "ReplyGiven")


async def test_framework_without_parts_gets_the_stored_events() -> None:
    runner, api = make_api()
    await runner.thread(key="42").send("Hello")
    response = await get(api, can_stream=False)
    assert response.chunks is None
    assert "ReplyGiven" in response.body
    refused = await get(api, words="yes")
    assert (400, "malformed") == (refused.status, problem_slug(refused))


@pytest.mark.parametrize("acts", [{"view"}, set[str]()])
async def test_words_need_the_right_to_read(acts: set[str]) -> None:
    """With `view` alone, texts are withheld and no words come."""

    async def allow(identity: object, act: str, run_id: str | None) -> bool:
        del identity, run_id
        return act in acts

    runner, api = make_api(can=allow)
    response = await get(api)
    if not acts:
        assert 403 == response.status
        return
    reading = asyncio.create_task(read(response.chunks, "ReplyGiven"))
    await asyncio.sleep(0.05)
    await runner.thread(key="42").send("My number is 4711")
    events = await reading
    assert "" == words(events)
    assert "4711" not in str(events)
    assert REPLY not in str(events)


async def test_secret_arguments_are_withheld_without_the_right_to_read() -> None:
    @tool
    def pay(card: Annotated[str, Secret()]) -> str:
        """Pay."""
        return f"paid with {card[-2:]}"

    async def allow(identity: object, act: str, run_id: str | None) -> bool:
        del identity, run_id
        return act == "view"

    model = ScriptedModel([ToolCall("pay", {"card": "4111-9"}), REPLY])
    agent = Agent("support", tools=[pay], model=model)
    runner = AsyncRunner(agent, store=MemoryStore())
    api = HttpApi(runner, verify=verify_bearer, can=allow)
    await runner.thread(key="42").send("Pay")
    events = await read((await get(api)).chunks, "ReplyGiven")
    assert "4111-9" not in str(events)
