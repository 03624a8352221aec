"""`Runner` and `AsyncRunner` have the same methods."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from continuations import (
    Agent,
    AlreadyDecided,
    Approve,
    AsyncRunner,
    Deny,
    Finished,
    InvalidInput,
    ModelError,
    Runner,
    Suspended,
    run,
    tool,
)
from continuations.engine.storeless import resume_async, run_async
from continuations_storage import MemoryStore
from tests import effect_log, scripts
from tests.engine import agent_builders
from tests.engine.agent_builders import root_tool_results
from tests.scripts import call

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations import Wait
    from tests.run_environment import RunEnvironment
    from tests.scripts import Script


@tool(approval=True)
def pay() -> str:
    """Pay."""
    effect_log.append_effect("pay")
    return "paid"


SCRIPT: Script = {"go": [[call("pay")], "end"]}


# Plain code and coroutines ---------------------------------------------------------


def test_sync_runner_works_inside_a_running_loop(environment: RunEnvironment) -> None:
    """A sync method may be called where an event loop is running."""

    async def inside() -> Any:
        runner = agent_builders.make_runner(SCRIPT, pay)
        outcome = runner.start("go", run_id="r")
        assert isinstance(outcome, Suspended)
        [summary] = list(runner.waiting())
        runner.decide(summary.id, Approve())
        return runner.resume("r")

    assert isinstance(asyncio.run(inside()), Finished)
    assert ["pay "] == environment.effect_names()


def test_async_runner_has_the_same_methods(environment: RunEnvironment) -> None:
    """One event loop may follow another."""
    store = MemoryStore()

    async def first() -> Wait:
        runner = AsyncRunner(agent_builders.make_boss(SCRIPT, pay), store=store)
        outcome = await runner.start("go", run_id="r")
        assert isinstance(outcome, Suspended)
        [summary] = [each async for each in runner.waiting()]
        wait = await runner.wait(summary.id)
        await runner.decide(wait.id, Approve())
        assert 1 == await runner.send("r", "And?")
        assert {} == (await runner.sweep()).errors
        return wait

    async def second() -> None:
        runner = AsyncRunner(agent_builders.make_boss(SCRIPT, pay), store=store)
        assert isinstance(await runner.resume("r"), Finished)
        assert "finished" == (await runner.look("r")).status
        assert "finished" == (await runner.cancel("r")).status

    assert "pay" == asyncio.run(first()).tool
    asyncio.run(second())
    assert ["pay "] == environment.effect_names()


def test_run_async_and_resume_async_work_without_a_store() -> None:
    """`run` and `resume` exist as coroutines."""
    agent = agent_builders.make_boss(SCRIPT, pay)

    async def both() -> Any:
        outcome = await run_async(agent, "go")
        assert isinstance(outcome, Suspended)
        answers = {outcome.waits[0].id: Approve()}
        return await resume_async(outcome.continuation, agent, answers=answers)

    assert isinstance(asyncio.run(both()), Finished)


def test_many_threads_share_one_runner(environment: RunEnvironment) -> None:
    """A runner may be called from any thread."""
    runner = agent_builders.make_runner(SCRIPT, pay)

    def one(number: int) -> None:
        outcome = runner.start("go", run_id=f"r{number}")
        assert isinstance(outcome, Suspended)
        runner.decide(outcome.waits[0].id, Approve())
        assert isinstance(runner.resume(f"r{number}"), Finished)

    threads = [threading.Thread(target=one, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert 16 == len(environment.effect_names())


@pytest.mark.parametrize("how", ["sync tool", "async tool"])
def test_sync_run_inside_a_tool_works_only_in_a_thread(how: str) -> None:
    """In an async tool, it would block the loop that it waits for, so it raises."""
    inner = agent_builders.make_boss({"go": ["inner end"]})

    def within() -> str:
        outcome = run(inner, "go")
        assert isinstance(outcome, Finished)
        return str(outcome.output)

    @tool(name="nest")
    def nest() -> str:
        """Run an agent."""
        return within()

    @tool(name="nest")
    async def nest_async() -> str:
        """Run an agent, the wrong way."""
        return within()

    chosen = nest if how == "sync tool" else nest_async
    outcome = agent_builders.make_runner({"go": [[call("nest")], "end"]}, chosen).start(
        "go"
    )

    assert isinstance(outcome, Finished)
    [said] = root_tool_results(outcome)
    assert said == "inner end" or (how == "async tool" and said.startswith("ERROR"))


def recording_notifier(wait_ids: list[str]) -> Callable[[Wait], None]:
    """Return a notifier that notes the ids."""

    def notify(wait: Wait) -> None:
        wait_ids.append(wait.id)

    return notify


def blocking_notifier(gate: threading.Event) -> Callable[[Wait], None]:
    """Return a notifier that hangs until a gate opens."""

    def notify(_wait: Wait) -> None:
        gate.wait(20)

    return notify


# Who is told -----------------------------------------------------------------------


def test_notify_comes_once_the_wait_is_durable_and_can_be_decided(
    environment: RunEnvironment,
) -> None:
    """A decision that arrives at once is used at once."""
    store = MemoryStore()
    told: list[str] = []

    def notify(wait: Wait) -> None:
        # Another process, with the store alone
        other = Runner([], store=store)
        assert other.wait(wait.id) == wait
        assert [wait.id] == [summary.id for summary in other.waiting()]
        assert "suspended" == other.look(wait.run_id).status
        other.decide(wait.id, Approve(by="kim"))
        told.append(wait.id)

    runner = Runner(agent_builders.make_boss(SCRIPT, pay), store=store, notify=notify)
    outcome = runner.start("go", run_id="r")

    # Then the run did not even suspend, for its caller
    assert isinstance(outcome, Finished)
    assert (1, ["pay "]) == (len(told), environment.effect_names())


def test_async_notifier_is_awaited(environment: RunEnvironment) -> None:
    """`notify` may be a coroutine function."""
    store = MemoryStore()

    async def notify(wait: Wait) -> None:
        await AsyncRunner([], store=store).decide(wait.id, Deny(reason="At once."))

    runner = Runner(agent_builders.make_boss(SCRIPT, pay), store=store, notify=notify)

    assert "At once." in root_tool_results(runner.start("go"))[0]
    assert [] == environment.effects()


@pytest.mark.parametrize(
    "error", [ValueError, SystemExit, KeyboardInterrupt, asyncio.CancelledError]
)
def test_a_notifier_that_raises_loses_nothing(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """The waits are stored, the errors are logged, and every wait is notified."""
    told: list[str] = []

    def notify(wait: Wait) -> None:
        told.append(wait.id)
        raise error

    script: Script = {"go": [[call("pay"), call("pay")], "end"]}
    runner = agent_builders.make_runner(script, pay, notify=notify)
    outcome = runner.start("go", run_id="r")

    assert isinstance(outcome, Suspended)
    waits = {wait.id for wait in outcome.waits}
    assert waits == set(told) == {summary.id for summary in runner.waiting()}
    assert 2 == sum("notify raised" in record.message for record in caplog.records)


def test_notifier_is_called_once_per_wait(environment: RunEnvironment) -> None:
    """Also over partial resumes."""
    told: list[str] = []
    script: Script = {"go": [[call("pay"), call("pay")], [call("pay")], "end"]}
    runner = agent_builders.make_runner(script, pay, notify=recording_notifier(told))

    outcome = runner.start("go", run_id="r")
    while isinstance(outcome, Suspended):
        runner.decide(outcome.waits[0].id, Approve())
        outcome = runner.resume("r")

    assert 3 == len(told) == len(set(told)) == len(environment.effect_names())


def test_notifier_is_called_although_a_sibling_model_fails() -> None:
    """A run that stops for its model has notified the waits that it leaves."""
    script: Script = {
        "go": [[call("a", input="A"), call("b", input="B")], "end"],
        "A": [[call("pay")], "A end"],
        "B": [ModelError("down")],
    }
    model = scripts.scripted_model(script)
    children = [Agent(name, tools=[pay], model=model) for name in "ab"]
    told: list[str] = []
    runner = Runner(
        Agent("boss", tools=children, model=model),
        store=MemoryStore(),
        notify=recording_notifier(told),
    )

    for _ in range(2):
        with pytest.raises(ModelError):
            runner.start("go", run_id="r")

    assert [summary.id for summary in runner.waiting()] == told
    assert 1 == len(told)


def test_a_slow_notify_does_not_stop_another_run(environment: RunEnvironment) -> None:
    """It delays only its own run."""
    gate = threading.Event()
    slow = agent_builders.make_runner(SCRIPT, pay, notify=blocking_notifier(gate))
    thread = threading.Thread(target=lambda: slow.start("go"))
    thread.start()
    try:
        before = time.monotonic()
        assert isinstance(
            agent_builders.make_runner({"go": ["end"]}).start("go"), Finished
        )
        assert time.monotonic() - before < 5
    finally:
        gate.set()
        thread.join(20)
    assert [] == environment.effects()


# Messages --------------------------------------------------------------------------


def test_message_to_a_waiting_run_stands_after_the_tool_results(
    environment: RunEnvironment,
) -> None:
    """It decides nothing, and the model reads it after the results."""
    script: Script = {"go": [[call("pay")], "end"]}
    runner = agent_builders.make_runner(script, pay)
    outcome = runner.start("go", run_id="r")
    assert isinstance(outcome, Suspended)

    # Given two messages, and a resume between them
    assert 1 == runner.send("r", "approve", by="jo")
    assert isinstance(runner.resume("r"), Suspended)
    assert 2 == runner.send("r", "And hurry.")
    assert ([], ["go 0"]) == (environment.effects(), environment.turns())

    # When the wait is decided
    runner.decide(outcome.waits[0].id, Approve())
    ended = runner.resume("r")

    # Then both stand in their order, after the result
    roles = [m["role"] for m in ended.continuation.root.messages]
    assert ["system", "user", "assistant", "tool", "user", "user", "assistant"] == roles
    texts = [m["content"] for m in ended.continuation.root.messages[4:6]]
    assert ["approve", "And hurry."] == texts

    # And a run that has ended takes none
    with pytest.raises(InvalidInput):
        runner.send("r", "Hello?")


def test_messages_from_many_threads_are_all_read() -> None:
    """Inbox numbers have no gaps; no message is lost or doubled."""
    runner = agent_builders.make_runner(SCRIPT, pay)
    outcome = runner.start("go", run_id="r")
    assert isinstance(outcome, Suspended)

    threads = [
        threading.Thread(target=runner.send, args=("r", f"m{n}")) for n in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    runner.decide(outcome.waits[0].id, Deny())
    ended = runner.resume("r")

    said = [
        m["content"] for m in ended.continuation.root.messages if m["role"] == "user"
    ]
    assert ["go", *sorted(f"m{n}" for n in range(20))] == ["go", *sorted(said[1:])]


@pytest.mark.parametrize("wrong", [None, 5, b"x", ["x"]])
def test_message_that_is_no_text_is_rejected(wrong: Any) -> None:
    """A message is a non-empty text."""
    runner = agent_builders.make_runner(SCRIPT, pay)
    runner.start("go", run_id="r")

    with pytest.raises(InvalidInput):
        runner.send("r", wrong)


def test_decided_wait_is_not_shown_as_open() -> None:
    """It is not listed, and reading it raises the decision."""
    runner = agent_builders.make_runner(SCRIPT, pay)
    outcome = runner.start("go", run_id="r")
    assert isinstance(outcome, Suspended)
    wait = outcome.waits[0]
    runner.decide(wait.id, Approve(by="kim"))

    assert [] == list(runner.waiting())
    with pytest.raises(AlreadyDecided) as raised:
        runner.wait(wait.id)
    stands: Any = raised.value.decision
    assert ("approve", "kim") == (stands.kind, stands.by)
