"""Ctrl-C, SIGTERM or a cancelled task while a run is worked on."""

from __future__ import annotations

import asyncio
import inspect
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest

from continuations import Answer, AsyncRunner, Finished, Suspended, tool
from continuations.engine import side_task
from continuations.engine.sync import portal
from continuations.errors import RunBusy
from continuations.ledger import layout
from continuations_storage import MemoryStore
from continuations_storage.errors import Denied
from continuations_storage.faults import FaultyStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine import agent_builders
from tests.outcomes import expect
from tests.run_environment import wait_until
from tests.scripts import Script, call

SCRIPT: Script = {"go": [[call("work")], "end"]}


class Desk:
    """A tool that waits until it may return, and runners of one store."""

    def __init__(self, *, in_thread: bool, **options: Any) -> None:
        self.begun = self.ended = 0
        self.may_return = threading.Event()
        self.store, self.clock = MemoryStore(), ManualClock()

        def work() -> str:
            """Work in a thread."""
            self.begun += 1
            may_return = self.may_return.wait(60)
            self.ended += 1
            assert may_return
            return "worked"

        async def work_async() -> str:
            return await asyncio.to_thread(work)

        self.tool = tool(work if in_thread else work_async, name="work", **options)

    def runner(self, store: Any = None) -> AsyncRunner:
        return AsyncRunner(
            agent_builders.make_boss(SCRIPT, self.tool),
            store=store or self.store,
            clock=self.clock,
        )

    async def interrupt(self, during: Callable[[], None] = lambda: None) -> None:
        """Start the run, and interrupt it while its tool works."""
        starting = asyncio.create_task(self.runner().start("go", run_id="r1"))
        await asyncio.to_thread(wait_until, lambda: self.begun)
        starting.cancel()
        await asyncio.sleep(0.05)
        during()
        with pytest.raises(asyncio.CancelledError):
            await starting

    async def interrupt_at_version(self, number: int) -> None:
        """Start the run, and interrupt it while one of its versions is stored."""

        class SlowStore(FaultyStore):
            """A store that takes long for this version."""

            async def create(self, key: str, body: bytes) -> Any:
                if key == layout.version_key("r1", number):
                    starting.cancel()
                    await asyncio.sleep(0.05)
                return await super().create(key, body)

        runner = self.runner(SlowStore(self.store))
        starting = asyncio.create_task(runner.start("go", run_id="r1"))
        with pytest.raises(asyncio.CancelledError):
            await starting


@pytest.mark.parametrize("in_thread", [True, False])
async def test_unrepeatable_call_may_finish(*, in_thread: bool) -> None:
    """Its result is stored, the claim is released, and nothing is unknown."""
    desk = Desk(in_thread=in_thread)

    await desk.interrupt(desk.may_return.set)
    outcome = expect(await desk.runner().resume("r1"), Finished)
    assert ["worked"] == agent_builders.root_tool_results(outcome)

    assert 1 == desk.begun


@pytest.mark.parametrize("in_thread", [True, False])
async def test_call_that_does_not_finish_is_unknown_after_the_claim(
    monkeypatch: pytest.MonkeyPatch, *, in_thread: bool
) -> None:
    """Its effect may still come, so nothing is asked before the claim is over."""
    monkeypatch.setattr(side_task, "INTERRUPT_GRACE_SECONDS", 0.05)
    desk = Desk(in_thread=in_thread)

    await desk.interrupt()
    with pytest.raises(RunBusy):
        await desk.runner().resume("r1")
    desk.clock.seconds += 31
    outcome = expect(await desk.runner().resume("r1"), Suspended)
    assert ["unknown"] == [wait.kind for wait in outcome.waits]
    desk.may_return.set()
    await desk.runner().decide(outcome.waits[0].id, Answer("worked"))
    assert isinstance(await desk.runner().resume("r1"), Finished)

    assert 1 == desk.begun


@pytest.mark.parametrize("declared", ["read_only", "idempotent"])
@pytest.mark.parametrize("in_thread", [True, False])
async def test_repeatable_call_is_given_up_at_once(
    monkeypatch: pytest.MonkeyPatch, declared: str, *, in_thread: bool
) -> None:
    """The claim is released before the call ends, so the run is not busy."""
    monkeypatch.setattr(side_task, "INTERRUPT_GRACE_SECONDS", 60)
    desk = Desk(in_thread=in_thread, **{declared: True})

    await desk.interrupt()
    assert 0 == desk.ended
    desk.may_return.set()
    assert isinstance(await desk.runner().resume("r1"), Finished)

    assert 2 == desk.begun


async def test_call_that_has_not_begun_is_not_unknown() -> None:
    """It is interrupted while the record of its start is on its way to the store."""
    desk = Desk(in_thread=True)
    desk.may_return.set()

    await desk.interrupt_at_version(2)
    assert 0 == desk.begun
    assert isinstance(await desk.runner().resume("r1"), Finished)

    assert 1 == desk.begun


async def test_error_of_a_commit_does_not_lose_the_result_of_another_call() -> None:
    """Two calls run; the commit of the first result fails after the interruption."""
    desk = Desk(in_thread=True)

    @tool
    async def pay() -> str:
        """Pay."""
        effect_log.append_effect("pay")
        return "paid"

    interrupted = asyncio.Event()

    class DenyingStore(FaultyStore):
        """A store that denies the third version once."""

        async def create(self, key: str, body: bytes) -> Any:
            if key.endswith("/v/9999999996") and not interrupted.is_set():
                interrupted.set()
                await asyncio.to_thread(wait_until, lambda: desk.ended)
                raise Denied(key)
            return await super().create(key, body)

    script: Script = {"go": [[call("pay"), call("work")], "end"]}
    boss = agent_builders.make_boss(script, pay, desk.tool)
    store = DenyingStore(desk.store)
    runner = AsyncRunner(boss, store=store, clock=desk.clock)
    starting = asyncio.create_task(runner.start("go", run_id="r1"))
    await interrupted.wait()
    await asyncio.to_thread(wait_until, lambda: desk.begun)
    starting.cancel()
    await asyncio.sleep(0.05)
    desk.may_return.set()
    with pytest.raises(asyncio.CancelledError):
        await starting
    outcome = expect(await runner.resume("r1"), Finished)
    assert ["paid", "worked"] == agent_builders.root_tool_results(outcome)

    assert (1, ["pay "]) == (desk.begun, effect_log.names())


async def test_interruption_of_the_last_commit_leaves_no_claim() -> None:
    """The commit is finished before the cancellation is raised."""
    desk = Desk(in_thread=True)
    desk.may_return.set()

    await desk.interrupt_at_version(4)
    assert "finished" == (await desk.runner().look("r1")).status
    assert [] == await desk.store.keys("markers/")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_exception_of_a_signal_handler_ends_the_coroutine_first(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """`Runner` waits until the claim is released, then raises it."""
    ended = threading.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(20)
        finally:
            await asyncio.sleep(0.05)
            ended.set()

    def interrupted(self: object, timeout: float | None = None) -> None:
        del self, timeout
        wait_until(begun.is_set)
        raise error

    begun = threading.Event()

    async def note_and_work() -> None:
        begun.set()
        await work()

    monkeypatch.setattr("concurrent.futures.Future.result", interrupted)
    with pytest.raises(error):
        portal.run_until_complete(note_and_work())

    assert ended.is_set()


def test_signal_that_does_not_wake_the_main_thread_has_its_effect() -> None:
    """The main thread may look for signals just before one comes, and then block.

    A signal to another thread has the same result: its handler is due, and nothing
    wakes the main thread.
    """
    received = threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def main_thread_waits() -> bool:
        # The public function would print the frames.
        frame = sys._current_frames()[main]  # pyright: ignore[reportPrivateUsage]
        return frame.f_globals["__name__"] == "threading" and "gotit" in frame.f_locals

    async def work() -> bool:
        await asyncio.to_thread(wait_until, main_thread_waits)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        return await asyncio.to_thread(received.wait, 20)

    def receive(_number: int, _frame: object) -> None:
        received.set()

    earlier = signal.signal(signal.SIGUSR1, receive)
    try:
        assert portal.run_until_complete(work())
    finally:
        signal.signal(signal.SIGUSR1, earlier)


def test_a_signal_at_any_step_of_a_call_leaves_no_coroutine_behind() -> None:
    """It may come before the coroutine was sent to its loop, or after it."""

    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    # Not those of a finalizer, where Python drops the exception.
    files = {portal.__file__, asyncio.base_events.__file__}

    def interrupt_at(step: int, coroutine: Coroutine[None, None, str]) -> str:
        steps = 0

        def trace(frame: FrameType, event: str, _argument: object) -> Any:
            nonlocal steps
            if frame.f_code.co_filename not in files:
                return None
            is_checked = frame.f_code is portal.check_no_loop_runs.__code__
            steps += event == "line" and (is_checked or steps > 0)
            if event == "line" and steps == step:
                sys.settrace(None)
                raise KeyboardInterrupt
            return trace

        earlier = sys.gettrace()
        sys.settrace(trace)
        try:
            return portal.run_until_complete(coroutine)
        finally:
            sys.settrace(earlier)

    def interrupt_at_each_step() -> None:
        result = ""
        while result != "done":
            coroutine = work()
            with suppress(KeyboardInterrupt):
                result = interrupt_at(len(states) + 1, coroutine)
            states.append(inspect.getcoroutinestate(coroutine))

    states: list[str] = []
    portal.run_until_complete(asyncio.sleep(0))  # the loop is made once in a process
    # An exception of a trace function may leave its mark on the state of a thread.
    thread = threading.Thread(target=interrupt_at_each_step)
    thread.start()
    thread.join()

    assert len(states) > 20
    assert {inspect.CORO_CLOSED} == {*states}
