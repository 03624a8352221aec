"""A thread has several runs, one after the other: each asks for rights of its own."""

from __future__ import annotations

from typing import Any

import pytest

from continuations import Agent, AsyncRunner, Replied
from continuations.models.scripted import ScriptedModel
from continuations.serve.http import asgi
from continuations.serve.http.api import HttpApi
from continuations.serve.rights import Can
from tests.serve.console.console_client import ConsoleClient, verify_header
from tests.serve.rights import in_runs

SECRET = "my salary"
EVENTS = "text/event-stream"


class Closed:
    """A thread that was closed and opened again, and the names of its two runs."""

    def __init__(self) -> None:
        model = ScriptedModel([f"reply {number}" for number in range(9)])
        self.runner = AsyncRunner(Agent("chat", model=model), store="memory:")
        self.thread = self.runner.thread("chat", key="k")

    async def open(self) -> None:
        """Send one message to each run."""
        first = await self.thread.send(SECRET)
        await self.thread.close()
        second = await self.thread.send("good morning")
        assert isinstance(first, Replied)
        assert isinstance(second, Replied)
        self.first, self.second = first.run_id, second.run_id

    def api(self, can: Can) -> ConsoleClient:
        """Return a client of the HTTP API."""
        api = HttpApi(self.runner, verify=verify_header, can=can)
        return ConsoleClient(self.runner, app=asgi.app(api))


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_events_of_an_earlier_run_need_the_right_to_view_it(method: str) -> None:
    threads = Closed()
    await threads.open()
    client = threads.api(lambda _, __, run: run == threads.second)
    place, body = "/threads/chat/k/events", None
    if method == "POST":
        place, body = "/threads/chat/k/messages", {"text": "hello"}

    refused = await client.send(
        method,
        place,
        None,
        body,
        accept=EVENTS,
        last_event_id=f"{threads.first}/1.1",
    )

    assert (403, False) == (refused.status_code, SECRET in refused.text)


async def test_person_who_may_only_send_reads_no_earlier_message() -> None:
    """Without the right to view, the reply says only that the message is recorded."""
    threads = Closed()
    await threads.open()
    client = threads.api(lambda _, act, __: act == "message")
    options: dict[str, Any] = {"accept": EVENTS}
    path, body = "/threads/chat/k/messages", {"text": "hello"}

    own = await client.send("POST", path, None, body, **options)
    options["last_event_id"] = f"{threads.second}/1.1"
    refused = await client.send("POST", path, None, body, **options)

    assert (202, True) == (own.status_code, own.json()["recorded"])
    assert own.json().keys() == {"run_id", "number", "recorded"}
    assert (403, False) == (refused.status_code, "good morning" in refused.text)


async def test_page_of_an_earlier_run_posts_to_the_newest_one_only_with_its_right() -> (
    None
):
    threads = Closed()
    await threads.open()

    client = ConsoleClient(threads.runner, {"can": in_runs(threads.first)})
    form = {"text": "sneaked in", "id": "m-1"}

    refused = await client.post(f"/threads/{threads.first}", form)

    assert 403 == refused.status_code
    newest = await threads.thread.look()
    assert newest is not None
    assert "sneaked in" not in str(newest.root.messages)


async def test_repeated_form_is_read_once_where_another_process_has_the_agent() -> None:
    threads = Closed()
    await threads.open()
    other = AsyncRunner([], store=threads.runner.store)
    client = ConsoleClient(other)
    form = {"text": "pay 5 euros", "id": "m-1"}

    for _ in range(2):
        sent = await client.post(f"/threads/{threads.second}", form)
        assert 303 == sent.status_code
    await threads.runner.resume(threads.second)

    run = await threads.runner.look(threads.second)
    texts = [message.get("content") for message in run.root.messages]
    assert 1 == texts.count("pay 5 euros")
