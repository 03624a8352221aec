"""`notify`: called with each new wait once it is stored."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from continuations import (
    Agent,
    Approve,
    AsyncRunner,
    Deny,
    Finished,
    Runner,
    Suspended,
    Wait,
)
from continuations.errors import AlreadyDecided, ModelError
from continuations.models.interface import ModelReply, ModelRequest
from continuations_storage import MemoryStore
from tests import effect_log, scripts
from tests.clocks import ManualClock
from tests.engine import agent_builders
from tests.engine.agent_builders import root_tool_results
from tests.engine.payment_agent import ONE_PAY_SCRIPT, pay
from tests.outcomes import expect, only_wait
from tests.scripts import Script, call


def recording_notifier(wait_ids: list[str]) -> Callable[[Wait], None]:
    def notify(wait: Wait) -> None:
        wait_ids.append(wait.id)

    return notify


def blocking_notifier(gate: threading.Event) -> Callable[[Wait], None]:
    """Return a notifier that hangs until a gate opens."""

    def notify(_wait: Wait) -> None:
        gate.wait(60)

    return notify


def test_notify_comes_once_the_wait_is_durable_and_can_be_decided() -> None:
    """A decision that arrives at once is used at once."""
    store = MemoryStore()
    notified: list[str] = []

    def notify(wait: Wait) -> None:
        # Another process, with the store alone
        other = Runner([], store=store)
        assert other.wait(wait.id) == wait
        assert [wait.id] == [summary.id for summary in other.waiting()]
        assert "suspended" == other.look(wait.run_id).status
        other.decide(wait.id, Approve(by="kim"))
        notified.append(wait.id)

    runner = Runner(
        agent_builders.make_boss(ONE_PAY_SCRIPT, pay), store=store, notify=notify
    )
    outcome = runner.start("go", run_id="r")

    # Then the caller did not even get a suspension
    assert isinstance(outcome, Finished)
    assert (1, ["pay "]) == (len(notified), effect_log.names())


def test_async_notifier_is_awaited(store: MemoryStore) -> None:
    """`notify` may be a coroutine function."""

    async def notify(wait: Wait) -> None:
        await AsyncRunner([], store=store).decide(wait.id, Deny(reason="At once."))

    runner = Runner(
        agent_builders.make_boss(ONE_PAY_SCRIPT, pay), store=store, notify=notify
    )

    assert "At once." in root_tool_results(runner.start("go"))[0]
    assert [] == effect_log.effects()


@pytest.mark.parametrize(
    "error", [ValueError, SystemExit, KeyboardInterrupt, asyncio.CancelledError]
)
def test_a_notifier_that_raises_loses_nothing(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """The waits are stored, the errors are logged, and every wait is notified."""
    notified: list[str] = []

    def notify(wait: Wait) -> None:
        notified.append(wait.id)
        raise error

    script: Script = {"go": [[call("pay"), call("pay")], "end"]}
    runner = agent_builders.make_runner(script, pay, notify=notify)
    outcome = expect(runner.start("go", run_id="r"), Suspended)

    waits = {wait.id for wait in outcome.waits}
    assert waits == set(notified) == {summary.id for summary in runner.waiting()}
    assert 2 == sum("notify raised" in record.message for record in caplog.records)


def test_notifier_is_called_once_per_wait() -> None:
    """Also over partial resumes."""
    notified: list[str] = []
    script: Script = {"go": [[call("pay"), call("pay")], [call("pay")], "end"]}
    runner = agent_builders.make_runner(
        script, pay, notify=recording_notifier(notified)
    )

    outcome = runner.start("go", run_id="r")
    while isinstance(outcome, Suspended):
        runner.decide(outcome.waits[0].id, Approve())
        outcome = runner.resume("r")

    assert 3 == len(notified) == len(set(notified)) == len(effect_log.names())


def test_open_wait_is_notified_again_on_request() -> None:
    """`notify` tells of the same wait each time, and never of a decided one."""
    told: list[Wait] = []
    runner = agent_builders.make_runner(ONE_PAY_SCRIPT, pay, notify=told.append)
    wait = only_wait(runner.start("go", run_id="r"))

    runner.notify(wait.id)
    runner.notify(wait.id)

    assert [wait] * 3 == told
    runner.decide(wait.id, Deny(by="kim"))
    with pytest.raises(AlreadyDecided):
        runner.notify(wait.id)
    assert (3, []) == (len(told), effect_log.effects())


def test_notifier_is_called_although_a_sibling_model_fails() -> None:
    """A run that stops for its model has notified the waits that it leaves."""
    script: Script = {
        "go": [[call("a", input="A"), call("b", input="B")], "end"],
        "A": [[call("pay")], "A end"],
        "B": [ModelError("down")],
    }
    model = scripts.scripted_model(script)
    children = [Agent(name, tools=[pay], model=model) for name in "ab"]
    notified: list[str] = []
    runner = Runner(
        Agent("boss", tools=children, model=model),
        store=MemoryStore(),
        notify=recording_notifier(notified),
    )

    for _ in range(2):
        with pytest.raises(ModelError):
            runner.start("go", run_id="r")

    assert [summary.id for summary in runner.waiting()] == notified
    assert 1 == len(notified)


def test_a_slow_notify_does_not_stop_another_run() -> None:
    """It delays only its own run."""
    gate = threading.Event()
    slow = agent_builders.make_runner(
        ONE_PAY_SCRIPT, pay, notify=blocking_notifier(gate)
    )
    thread = threading.Thread(target=lambda: slow.start("go"))
    thread.start()
    try:
        before = time.monotonic()
        assert isinstance(
            agent_builders.make_runner({"go": ["end"]}).start("go"), Finished
        )
        assert time.monotonic() - before < 30
    finally:
        gate.set()
        thread.join(60)
    assert [] == effect_log.effects()


async def test_timeout_of_start_while_a_sibling_waits_notifies() -> None:
    """A time limit cancels `start()`; the wait of another agent is published."""
    clock, notified = ManualClock(), list[str]()
    store = MemoryStore(clock.now)

    class Slow:
        name = "slow"

        async def reply(self, request: ModelRequest) -> ModelReply:
            """Never reply."""
            del request
            waiting.set()
            await asyncio.Event().wait()
            raise AssertionError

    script = {
        "go": [[call("a", input="A"), call("b", input="B")], "end"],
        "A": [[call("pay")], "A end"],
    }
    model = scripts.scripted_model(script)
    children = [Agent("a", tools=[pay], model=model), Agent("b", model=Slow())]
    boss = Agent("boss", tools=children, model=model)

    waiting = asyncio.Event()
    runner = AsyncRunner(
        boss, store=store, clock=clock, notify=recording_notifier(notified)
    )
    starting = asyncio.create_task(runner.start("go", run_id="r1"))
    await waiting.wait()
    for _ in range(6000):
        if (await runner.look("r1")).waits:
            break
        await asyncio.sleep(0.01)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    [wait] = (await runner.look("r1")).waits
    assert [wait.id] == notified
    assert [wait.id] == [each.id async for each in runner.waiting()]
