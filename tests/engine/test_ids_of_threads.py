"""The ids of threads, and processes without agents that post to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from continuations import (
    Agent,
    Approve,
    AsyncRunner,
    Budget,
    Finished,
    Queued,
    Replied,
    Runner,
    Suspended,
    run,
)
from continuations.engine.start import new_run
from continuations.errors import (
    Corrupt,
    InvalidId,
    InvalidInput,
    RunExists,
    ThreadClosed,
)
from continuations.ledger import layout
from continuations.ledger.layout import thread_run_id
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.prices import Prices
from continuations.threads import Thread
from continuations_storage import MemoryStore
from tests.engine.agent_builders import text_tool
from tests.outcomes import expect, present

KEY = "customer 42"
FIRST = thread_run_id("support", KEY, 1)
THIRD = thread_run_id("support", KEY, 3)
pay = text_tool("pay", "paid {cents}", {"cents": int}, approval=True)


def _agent() -> Agent[Any]:
    model = ScriptedModel([ToolCall("pay", {"cents": 1}), "Done."])
    return Agent("support", tools=[pay], model=model)


@pytest.fixture
def runner(store: MemoryStore) -> Runner:
    """Return a runner of an agent that asks before it pays."""
    return Runner(_agent(), store=store)


def _start(runner: Runner, run_id: str) -> None:
    runner.start("go", run_id=run_id)


def _enqueue(runner: Runner, run_id: str) -> None:
    runner.start("go", run_id=run_id, work=False)


def _stream(runner: Runner, run_id: str) -> None:
    list(runner.stream("go", run_id=run_id))


def _start_async(runner: Runner, run_id: str) -> None:
    asyncio.run(AsyncRunner(_agent(), store=runner.store).start("go", run_id=run_id))


def _fork(runner: Runner, run_id: str) -> None:
    runner.start("go", run_id="source")
    runner.fork("source", 1, run_id=run_id)


def _adopt(runner: Runner, run_id: str) -> None:
    runner.adopt(run(_agent(), "go").continuation, run_id=run_id)


_DOORS = [_start, _enqueue, _stream, _start_async, _fork, _adopt]


@pytest.mark.parametrize("run_id", [FIRST, THIRD], ids=["first", "third"])
@pytest.mark.parametrize("take", _DOORS)
def test_id_of_a_thread_is_refused_for_another_run(
    take: Callable[[Runner, str], None], run_id: str, runner: Runner
) -> None:
    """The thread of that id would take the run for its own, now or later."""
    with pytest.raises(InvalidId, match=r"belongs to a thread.*runner\.thread"):
        take(runner, run_id)

    assert run_id not in [row.run_id for row in runner.runs()]
    assert runner.thread(key=KEY).look() is None


@pytest.mark.parametrize("run_id", ["t-shirt", "t-support-1", f"{FIRST}-copy", "t-"])
def test_other_id_that_begins_like_one_of_a_thread_is_accepted(
    run_id: str, runner: Runner
) -> None:
    """Only the full form belongs to threads."""
    assert run_id == runner.start("go", run_id=run_id).run_id


def test_adoption_of_a_thread_needs_an_id_of_its_own(runner: Runner) -> None:
    """Its default, the id of the other run, belongs to a thread of this store."""
    asked = Runner(_agent(), store=MemoryStore()).thread(key=KEY).send("go")
    assert isinstance(asked, Suspended)

    with pytest.raises(InvalidId, match="belongs to a thread"):
        runner.adopt(asked.continuation)

    assert "moved" == runner.adopt(asked.continuation, run_id="moved").run_id


@pytest.fixture(params=["suspended", "cancelled", "finished"])
def taken(
    request: pytest.FixtureRequest, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> Runner:
    """Return a runner whose store has a plain run with the id of a thread."""

    def has_no_thread_id(run_id: str) -> bool:
        return not run_id

    with monkeypatch.context() as earlier_release:
        earlier_release.setattr(new_run, "has_thread_id", has_no_thread_id)
        waiting = runner.start("go", run_id=FIRST)
    assert isinstance(waiting, Suspended)
    if request.param == "cancelled":
        runner.cancel(FIRST)
    if request.param == "finished":
        runner.decide(waiting.waits[0].id, Approve())
        assert isinstance(runner.resume(FIRST), Finished)
    return runner


def _ticket(runner: Runner) -> Any:
    return present(runner.thread(key=KEY).ticket(1))


USES: dict[str, Callable[[Runner, Thread[Any]], Any]] = {
    "send": lambda _, thread: thread.send("hello"),
    "post": lambda _, thread: thread.post("hello"),
    "stream": lambda _, thread: list(thread.stream("hello")),
    "look": lambda _, thread: thread.look(),
    "messages": lambda _, thread: thread.messages(),
    "close": lambda _, thread: thread.close(),
    "stop": lambda _, thread: thread.stop_turn(),
    "ticket-look": lambda runner, _: _ticket(runner).look(),
    "ticket-reply": lambda runner, _: _ticket(runner).reply(),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_run_that_has_the_id_of_a_thread_is_an_error_and_no_thread(
    use: Callable[[Runner, Thread[Any]], Any], taken: Runner, store: MemoryStore
) -> None:
    """The run is not changed, gets no message, and is not shown as the thread."""
    before = asyncio.run(store.keys(""))

    with pytest.raises(RunExists, match=r"is not a thread, .* Erase that run"):
        use(taken, taken.thread(key=KEY))

    assert before == asyncio.run(store.keys(""))


def test_thread_goes_on_after_the_run_with_its_id_is_erased(taken: Runner) -> None:
    """This is what the error advises."""
    taken.cancel(FIRST)
    taken.erase(FIRST)

    reply = taken.thread(key=KEY).send("hello")

    assert isinstance(reply, Suspended | Replied)
    assert thread_run_id("support", KEY, 2) == reply.run_id


@pytest.fixture(params=["new", "answered", "waiting"])
def foreign(
    request: pytest.FixtureRequest, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> str:
    """Store the thread of another key under the id of this thread, and return it."""

    def foreign_id(agent: str, key: str, number: int) -> str:
        del agent, key
        return f"{FIRST[:-1]}{number}"

    with monkeypatch.context() as earlier:
        earlier.setattr(layout, "thread_run_id", foreign_id)
        thread = runner.thread(key="another key")
        ticket = thread.post("hello")
        if request.param != "new":
            waiting = expect(ticket.reply(), Suspended)
            if request.param == "answered":
                runner.decide(waiting.waits[0].id, Approve())
                assert isinstance(ticket.reply(), Replied)
    return FIRST


FOREIGN_USES: dict[str, Callable[[Runner, Thread[Any]], Any]] = {
    **USES,
    "post-id": lambda _, thread: thread.post("hello", id="mine"),
    "send-id": lambda _, thread: thread.send("hello", id="mine"),
    "interrupt": lambda _, thread: thread.send("hello", when_busy="interrupt"),
    "resume": lambda runner, _: runner.resume(FIRST),
    "runner-send": lambda runner, _: runner.send(FIRST, "hello"),
    "signal": lambda runner, _: runner.signal(FIRST, "hello"),
    "pause": lambda runner, _: runner.pause(FIRST),
}


@pytest.mark.parametrize("use", FOREIGN_USES.values(), ids=FOREIGN_USES)
def test_thread_with_the_id_of_another_key_is_damaged(
    use: Callable[[Runner, Thread[Any]], Any], foreign: str, store: MemoryStore
) -> None:
    """Nothing is written for it, and no use returns a ticket or an answer."""
    before = asyncio.run(store.keys(""))
    other = Runner(_agent(), store=store)

    with pytest.raises(Corrupt, match="the thread of another agent or key") as caught:
        use(other, other.thread(key=KEY))

    assert foreign in str(caught.value)
    assert before == asyncio.run(store.keys(""))


# Processes without agents -----------------------------------------------------


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
