"""A runner without agents posts to threads, and reads what others reply."""

from __future__ import annotations

from typing import Any

import pytest

from continuations import Agent, AsyncRunner, Budget, Queued, Replied, Runner
from continuations.errors import InvalidInput, ThreadClosed
from continuations.models.scripted import ScriptedModel
from continuations.prices import Prices
from continuations.threads import Thread
from continuations_storage import MemoryStore
from tests.outcomes import expect, present

KEY = "customer 42"


@pytest.fixture
def thread(store: MemoryStore) -> Thread[Any]:
    """Return a thread of a runner without agents."""
    return Runner([], store=store).thread("support", key=KEY)


def worker(store: MemoryStore, **options: Any) -> tuple[Runner, ScriptedModel]:
    model = ScriptedModel(["One.", "Two.", "Three."])
    options.setdefault("instructions", "Help.")
    return Runner(Agent("support", model=model, **options), store=store), model


def test_posted_message_is_answered_by_a_worker(
    store: MemoryStore, thread: Thread[Any]
) -> None:
    """The first message makes the thread; the worker adds its instructions."""
    ticket = thread.post("Hello", by="ann", id="m1")
    waiting = ticket.look()
    runner, model = worker(store)

    swept = runner.sweep()

    assert isinstance(waiting, Queued)
    assert {} == swept.errors
    reply = expect(ticket.reply(), Replied)
    assert "One." == reply.output
    assert ["system", "user"] == [each.role for each in model.requests[0].messages]
    assert "Help." == model.requests[0].messages[0].content
    assert ["system", "user", "assistant"] == [m["role"] for m in thread.messages()]


def test_first_reply_reports_no_changed_code(
    store: MemoryStore, thread: Thread[Any]
) -> None:
    ticket = thread.post("Hello")
    runner, _ = worker(store)

    outcome = runner.resume(ticket.run_id)
    (row,) = runner.drift()

    assert () == outcome.code_changes == row.code_changes
    other, _ = worker(store, instructions="New.")
    (changed,) = other.drift()
    assert ["the instructions changed"] == [each.what for each in changed.code_changes]


def test_post_goes_to_the_thread_of_a_runner_with_agents(
    store: MemoryStore, thread: Thread[Any]
) -> None:
    runner, _ = worker(store)
    runner.thread(key=KEY).send("Hello")

    ticket = thread.post("And?")
    runner.sweep()

    reply = ticket.reply()
    assert 2 == ticket.number
    assert isinstance(reply, Replied)
    assert "Two." == reply.output


def test_repeated_post_posts_once(thread: Thread[Any]) -> None:
    first, again = thread.post("Hello", id="m1"), thread.post("Hello", id="m1")

    assert (1, 1) == (first.number, again.number)


def test_posting_process_takes_in_no_message(thread: Thread[Any]) -> None:
    """It has no model; a message that is there when it makes the thread stays."""
    thread.post("one")
    thread.post("two")
    state = present(thread.look())

    assert "resting" == state.status
    assert 0 == state.run_state.run.last_inbox_number


async def test_asynchronous_thread_posts_too(store: MemoryStore) -> None:
    thread = AsyncRunner([], store=store).thread("support", key=KEY)
    assert not thread.can_work
    assert 1 == (await thread.post("Hello")).number


def test_methods_that_need_the_agent_name_the_remedy(thread: Thread[Any]) -> None:
    """Nothing is posted."""
    for use in (
        lambda: thread.send("x"),
        lambda: thread.stream("x"),
        lambda: thread.state,
    ):
        with pytest.raises(InvalidInput, match="runner has no agents"):
            use()
    assert thread.look() is None

    ticket = thread.post("x")
    with pytest.raises(InvalidInput, match=r"call ticket\.look\(\)"):
        ticket.reply()


def test_close_is_posted_and_done_by_a_worker(
    store: MemoryStore, thread: Thread[Any]
) -> None:
    first = thread.post("Hello")
    thread.close(by="ann")
    late = thread.post("Too late")
    runner, _ = worker(store)
    runner.sweep()

    assert isinstance(first.reply(), Replied)
    with pytest.raises(ThreadClosed):
        late.reply()
    assert "finished" == runner.look(first.run_id).status


def test_stop_of_a_turn_needs_no_agents(thread: Thread[Any]) -> None:
    thread.post("Hello")
    thread.stop_turn(by="ann")

    assert thread.look() is not None


def test_description_and_budget_are_stored(store: MemoryStore) -> None:
    thread = Runner([], store=store, prices=Prices({})).thread(
        "support",
        key=KEY,
        labels={"team": "a"},
        title="T",
        budget=Budget(requests=7, cost="2"),
        settings={"temperature": 0},
    )
    thread.post("Hello")
    state = present(thread.look())

    run = state.run_state.run
    assert (("team", "a"),) == run.labels
    assert "T" == run.title
    assert run.budget is not None
    assert 7 == run.budget.requests


def test_runner_with_a_context_type_posts_without_a_context(store: MemoryStore) -> None:
    runner = Runner([], store=store, context_type=dict)

    assert 1 == runner.thread("support", key=KEY).post("Hello").number


@pytest.mark.parametrize("name", [None, "", 3])
def test_name_of_the_agent_is_required(store: MemoryStore, name: Any) -> None:
    with pytest.raises(InvalidInput, match=r'thread\("support", key='):
        Runner([], store=store).thread(name, key=KEY)


def test_frozen_instructions_need_the_agent(store: MemoryStore) -> None:
    with pytest.raises(InvalidInput, match="needs the agent"):
        Runner([], store=store).thread("support", key=KEY, instructions="frozen")


def test_runner_with_agents_still_refuses_an_unknown_name(store: MemoryStore) -> None:
    runner, _ = worker(store)

    with pytest.raises(InvalidInput, match="not a root agent"):
        runner.thread("suport", key=KEY)
