"""The two faces, who is told of a wait, and messages to a run."""

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
from tests.engine import ledgers, offices, scripts
from tests.engine.offices import results

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations import Wait
    from tests.engine.scripts import Script
    from tests.engine.world import World


@tool(approval=True)
def pay() -> str:
    """Pay."""
    ledgers.add(ledgers.EFFECTS, tool="pay", what="")
    return "paid"


SCRIPT: Script = {"go": [[["pay", {}]], "end"]}


# Plain code and coroutines ---------------------------------------------------------


def test_plain_code_inside_a_running_loop(world: World) -> None:
    """Section 8: the sync face may be called where an event loop is running."""

    async def inside() -> Any:
        runner = offices.runner(SCRIPT, pay)
        outcome = runner.start("go", run_id="r")
        assert isinstance(outcome, Suspended)
        [summary] = list(runner.waiting())
        runner.decide(summary.id, Approve())
        return runner.resume("r")

    assert isinstance(asyncio.run(inside()), Finished)
    assert ["pay "] == world.done()


def test_coroutines(world: World) -> None:
    """Section 8: AsyncRunner has the same methods; two loops may follow each other."""
    store = MemoryStore()

    async def first() -> Wait:
        runner = AsyncRunner(offices.boss(SCRIPT, pay), store=store)
        outcome = await runner.start("go", run_id="r")
        assert isinstance(outcome, Suspended)
        [summary] = [each async for each in runner.waiting()]
        wait = await runner.wait(summary.id)
        await runner.decide(wait.id, Approve())
        assert 1 == await runner.send("r", "And?")
        assert {} == (await runner.sweep()).failed
        return wait

    async def second() -> None:
        runner = AsyncRunner(offices.boss(SCRIPT, pay), store=store)
        assert isinstance(await runner.resume("r"), Finished)
        assert "finished" == (await runner.look("r")).status
        assert "finished" == (await runner.cancel("r")).status

    assert "pay" == asyncio.run(first()).tool
    asyncio.run(second())
    assert ["pay "] == world.done()


def test_coroutines_without_a_store() -> None:
    """Section 8: run and resume have them, too."""
    agent = offices.boss(SCRIPT, pay)

    async def both() -> Any:
        outcome = await run_async(agent, "go")
        assert isinstance(outcome, Suspended)
        answers = {outcome.waits[0].id: Approve()}
        return await resume_async(outcome.continuation, agent, answers=answers)

    assert isinstance(asyncio.run(both()), Finished)


def test_many_threads_share_one_runner(world: World) -> None:
    """EF-18, EF-20: section 8: from any thread; every run its own."""
    runner = offices.runner(SCRIPT, pay)

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
    assert 16 == len(world.done())


@pytest.mark.parametrize("how", ["sync tool", "async tool"])
def test_the_sync_face_in_a_tool(how: str) -> None:
    """In a tool's thread it works; on the loop's own thread it cannot, and says so."""
    inner = offices.boss({"go": ["inner end"]})

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
    outcome = offices.runner({"go": [[["nest", {}]], "end"]}, chosen).start("go")

    assert isinstance(outcome, Finished)
    [said] = results(outcome)
    assert said == "inner end" or (how == "async tool" and said.startswith("ERROR"))


def noting(told: list[str]) -> Callable[[Wait], None]:
    """Return a notifier that notes the ids."""

    def notify(wait: Wait) -> None:
        told.append(wait.id)

    return notify


def held(gate: threading.Event) -> Callable[[Wait], None]:
    """Return a notifier that hangs until a gate opens."""

    def notify(_wait: Wait) -> None:
        gate.wait(20)

    return notify


# Who is told -----------------------------------------------------------------------


def test_notify_comes_once_the_wait_is_durable_and_can_be_decided(world: World) -> None:
    """R-F1: an answer that arrives at once is taken, and not slept on."""
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

    runner = Runner(offices.boss(SCRIPT, pay), store=store, notify=notify)
    outcome = runner.start("go", run_id="r")

    # Then the run did not even suspend, for its caller
    assert isinstance(outcome, Finished)
    assert (1, ["pay "]) == (len(told), world.done())


def test_an_async_notify(world: World) -> None:
    """R-F1: awaited."""
    store = MemoryStore()

    async def notify(wait: Wait) -> None:
        await AsyncRunner([], store=store).decide(wait.id, Deny(reason="At once."))

    runner = Runner(offices.boss(SCRIPT, pay), store=store, notify=notify)

    assert "At once." in results(runner.start("go"))[0]
    assert [] == world.effects()


@pytest.mark.parametrize(
    "error", [ValueError, SystemExit, KeyboardInterrupt, asyncio.CancelledError]
)
def test_a_notifier_that_raises_loses_nothing(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """R-F2: the wait is there, the failure is logged, the others are told."""
    told: list[str] = []

    def notify(wait: Wait) -> None:
        told.append(wait.id)
        raise error

    script: Script = {"go": [[["pay", {}], ["pay", {}]], "end"]}
    runner = offices.runner(script, pay, notify=notify)
    outcome = runner.start("go", run_id="r")

    assert isinstance(outcome, Suspended)
    waits = {wait.id for wait in outcome.waits}
    assert waits == set(told) == {summary.id for summary in runner.waiting()}
    assert 2 == sum("nobody was told" in record.message for record in caplog.records)


def test_nobody_is_told_twice(world: World) -> None:
    """R-F2: once for each wait, over partial resumes."""
    told: list[str] = []
    script: Script = {"go": [[["pay", {}], ["pay", {}]], [["pay", {}]], "end"]}
    runner = offices.runner(script, pay, notify=noting(told))

    outcome = runner.start("go", run_id="r")
    while isinstance(outcome, Suspended):
        runner.decide(outcome.waits[0].id, Approve())
        outcome = runner.resume("r")

    assert 3 == len(told) == len(set(told)) == len(world.done())


def test_a_wait_beside_a_model_that_fails_is_told() -> None:
    """R-F1: a run that stops for its model has told of the waits that it left."""
    script: Script = {
        "go": [[["a", {"input": "A"}], ["b", {"input": "B"}]], "end"],
        "A": [[["pay", {}]], "A end"],
        "B": [ModelError("down")],
    }
    model = scripts.model(script)
    children = [Agent(name, tools=[pay], model=model) for name in "ab"]
    told: list[str] = []
    runner = Runner(
        Agent("boss", tools=children, model=model),
        store=MemoryStore(),
        notify=noting(told),
    )

    for _ in range(2):
        with pytest.raises(ModelError):
            runner.start("go", run_id="r")

    assert [summary.id for summary in runner.waiting()] == told
    assert 1 == len(told)


def test_a_slow_notify_does_not_stop_another_run(world: World) -> None:
    """R-F2: a channel that hangs is the one run's trouble."""
    gate = threading.Event()
    slow = offices.runner(SCRIPT, pay, notify=held(gate))
    thread = threading.Thread(target=lambda: slow.start("go"))
    thread.start()
    try:
        before = time.monotonic()
        assert isinstance(offices.runner({"go": ["end"]}).start("go"), Finished)
        assert time.monotonic() - before < 5
    finally:
        gate.set()
        thread.join(20)
    assert [] == world.effects()


# Messages --------------------------------------------------------------------------


def test_a_message_to_a_waiting_run_is_read_after_the_results(world: World) -> None:
    """R-D8: it decides nothing, moves nothing, and stands after the tool message."""
    script: Script = {"go": [[["pay", {}]], "end"]}
    runner = offices.runner(script, pay)
    outcome = runner.start("go", run_id="r")
    assert isinstance(outcome, Suspended)

    # Given two messages, and a resume between them
    assert 1 == runner.send("r", "approve", by="jo")
    assert isinstance(runner.resume("r"), Suspended)
    assert 2 == runner.send("r", "And hurry.")
    assert ([], ["go 0"]) == (world.effects(), world.turns())

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
    """EF-20: section 5 "Inbox": dense numbers, none lost, none twice."""
    runner = offices.runner(SCRIPT, pay)
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
def test_a_message_is_a_text(wrong: Any) -> None:
    """R-A4."""
    runner = offices.runner(SCRIPT, pay)
    runner.start("go", run_id="r")

    with pytest.raises(InvalidInput):
        runner.send("r", wrong)


def test_a_decision_that_came_before_is_told_to_whoever_asks() -> None:
    """R-F9: a decided wait is never shown as open again."""
    runner = offices.runner(SCRIPT, pay)
    outcome = runner.start("go", run_id="r")
    assert isinstance(outcome, Suspended)
    wait = outcome.waits[0]
    runner.decide(wait.id, Approve(by="kim"))

    assert [] == list(runner.waiting())
    with pytest.raises(AlreadyDecided) as raised:
        runner.wait(wait.id)
    stands: Any = raised.value.decision
    assert ("approve", "kim") == (stands.kind, stands.by)
