"""A thread as a chat: its lines, and what is said of its worker."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from continuations import Agent, AsyncRunner, Runner, ask, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.console import live_runs, threads_page
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore
from tests.clocks import OffsetClock
from tests.serve.console.console_client import ConsoleClient
from tests.serve.console.test_run_pages import text_of
from tests.serve.rights import all_but

SECRET = "the agent may not tell this"
NEVER = 3600.0


@tool(read_only=True)
def find(order: str) -> str:
    """Find an order."""
    return f"{SECRET}: {order}"


@tool
def ask_person(what: str) -> Any:
    """Ask a person."""
    return ask(f"How much is {what}?")


class Thread:
    """A thread, a process that works on it, and a console without a worker."""

    def __init__(self, *turns: Any, **options: Any) -> None:
        self.clock = OffsetClock()
        self.memory = MemoryStore()
        low = Agent(
            "clerk",
            tools=[ask_person],
            model=ScriptedModel(
                [ToolCall("ask_person", {"what": "the parcel"}), "4 euros"]
            ),
        )
        agent = Agent("support", tools=[find, low], model=ScriptedModel([*turns]))
        self.worker = Runner(agent, store=self.memory, clock=self.clock)
        self.thread = self.worker.thread("support", key="k")
        self.store = FaultyStore(self.memory)
        runner = AsyncRunner([], store=self.store, clock=self.clock)
        options = {"clock": self.clock, **options}
        self.client = ConsoleClient(runner, options)

    def say(self, text: str) -> str:
        """Let the worker reply; return the path of the chat."""
        return f"/threads/{self.thread.send(text).run_id}"

    def page(self, path: str) -> str:
        """Return the words of a page."""
        response = asyncio.run(self.client.get(path))
        assert 200 == response.status_code
        return text_of(response)


def test_question_of_a_sub_agent_names_the_agent() -> None:
    thread = Thread(ToolCall("clerk", {"input": "ask"}), "done")
    page = thread.page(thread.say("How much?"))
    assert "clerk: How much is the parcel? Decide" in page


def test_result_of_a_tool_is_no_message() -> None:
    thread = Thread([ToolCall("find", {"order": "B-7"})], "It is on its way.")
    page = thread.page(thread.say("Where?"))
    assert SECRET not in page
    assert "find B-7 · done" in page


def test_id_of_a_provider_that_is_used_again_is_another_call() -> None:
    first, second = (
        ToolCall("find", {"order": order}, id="call_1") for order in ("B-7", "B-8")
    )
    thread = Thread([first], "found", [second], "found too")
    thread.say("Where is one?")
    page = thread.page(thread.say("Where is the other one?"))
    assert page.index("find B-7 · done") < page.index("Where is the other one?")
    assert page.index("Where is the other one?") < page.index("find B-8 · done")


def test_person_without_the_right_to_read_sees_no_text() -> None:
    thread = Thread("My salary is 9,000", can=all_but("read"))
    page = thread.page(thread.say("hello kim"))
    assert "salary" not in page
    assert "hello" not in page


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(119, ""), (120, "for 2 min"), (7300, "for 2 h"), (260_000, "for 3 d")],
)
def test_absence_is_said_after_two_minutes(seconds: int, words: str) -> None:
    thread = Thread("one")
    path = thread.say("hello")
    form = {"text": "anybody?", "id": "m1"}
    asyncio.run(thread.client.post(path, form))
    thread.clock.offset_seconds += seconds

    page = thread.page(path)

    assert "read at once" not in page
    assert bool(words) == ("No worker has read it" in page)
    assert words in page


def test_waiting_agent_is_not_absent() -> None:
    """A message that is read after a decision waits for a person."""
    thread = Thread(ToolCall("clerk", {"input": "ask"}), "done")
    path = thread.say("How much?")
    asyncio.run(thread.client.post(path, {"text": "hello?", "id": "m1"}))
    thread.clock.offset_seconds += 500
    page = thread.page(path)
    assert "No worker has read it" not in page
    assert "your message is read after its present reply" in page


def test_thread_that_is_rewound_says_so() -> None:
    thread = Thread("one", "two", "three")
    path = thread.say("first")
    version = thread.worker.look(path.rpartition("/")[2]).version
    thread.say("second")
    thread.worker.rewind(path.rpartition("/")[2], version)
    page = thread.page(path)
    assert f"The conversation was rewound to version {version}." in page
    assert "second" not in page
    assert "first" in page


def test_page_of_an_absent_worker_shares_the_reading_of_its_follower(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It asks again every minute: one read of what a worker lacked."""
    monkeypatch.setattr(live_runs, "INTERVAL_SECONDS", NEVER)
    thread = Thread("one")
    path = thread.say("hello")
    run_id = path.rpartition("/")[2]

    async def ask_again() -> int:
        await thread.client.post(path, {"text": "anybody?", "id": "m1"})
        thread.clock.offset_seconds += threads_page.ABSENCE / timedelta(seconds=1)
        runs: Any = thread.client.app.state.live.runs
        news = runs.changes(run_id, "")
        cursor = (await asyncio.wait_for(anext(news), 60)).cursor
        await thread.client.get(path, x_live_at=cursor)
        before = len(thread.store.operations)
        page = await thread.client.get(path, x_live_at=cursor)
        assert "No worker has read it" in text_of(page)
        await news.aclose()
        return len(thread.store.operations) - before

    assert 1 == asyncio.run(ask_again())
