"""A resume that is cancelled while a sync tool runs; its thread cannot be stopped."""

from __future__ import annotations

import asyncio
import threading

import pytest

from continuations import Agent, Answer, Approve, AsyncRunner, Finished, Suspended, tool
from continuations.engine import side_task
from continuations.errors import RunBusy
from continuations.models.interface import ModelReply, ModelRequest
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.engine import agent_builders
from tests.outcomes import expect
from tests.run_environment import wait_until
from tests.scripts import Script, call

SCRIPT: Script = {"go": [[call("pay")], "end"]}


async def test_verify_is_not_called_before_the_claim_is_over(
    monkeypatch: pytest.MonkeyPatch, store: MemoryStore, clock: ManualClock
) -> None:
    """A bank that is asked while a payment is in progress does not know of it yet."""
    monkeypatch.setattr(side_task, "INTERRUPT_GRACE_SECONDS", 0.05)
    sending, sent = threading.Event(), threading.Event()
    bank: list[str] = []
    asked: list[int] = []

    def look_it_up() -> Answer | Approve:
        asked.append(len(bank))
        return Answer("it was paid") if bank else Approve()

    @tool(approval=True, verify=look_it_up)
    def pay() -> str:
        """Pay, slowly."""
        sending.set()
        assert sent.wait(60)
        bank.append("paid")
        return "paid"

    def runner() -> AsyncRunner:
        return AsyncRunner(
            agent_builders.make_boss(SCRIPT, pay), store=store, clock=clock
        )

    outcome = expect(await runner().start("go", run_id="r1"), Suspended)
    await runner().decide(outcome.waits[0].id, Approve(by="kim"))

    # Given a request that is cancelled while the payment is in progress
    resuming = asyncio.create_task(runner().resume("r1"))
    await asyncio.to_thread(sending.wait, 10)
    resuming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await resuming

    # When another process resumes the run at once, it gets RunBusy
    with pytest.raises(RunBusy):
        await runner().resume("r1")
    assert () == (await runner().sweep()).resumed
    assert [] == asked

    # Then, after the claim, the bank knows of the payment, and it is paid once
    sent.set()
    await asyncio.to_thread(wait_until, lambda: bank)
    clock.seconds += 31
    (ended,) = (await runner().sweep()).resumed
    assert isinstance(ended, Finished)
    assert (["paid"], [1]) == (bank, asked)


async def test_cancelled_model_call_releases_the_claim(store: MemoryStore) -> None:
    """A model call may be repeated, so the claim is released at once."""
    asking = asyncio.Event()

    class Slow:
        name = "slow"

        async def reply(self, request: ModelRequest) -> ModelReply:
            del request
            asking.set()
            await asyncio.Event().wait()
            raise AssertionError

    slow = AsyncRunner(Agent("boss", model=Slow()), store=store)
    starting = asyncio.create_task(slow.start("go", run_id="r1"))
    await asking.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting

    quick = AsyncRunner(agent_builders.make_boss({"go": ["end"]}), store=store)
    assert isinstance(await quick.resume("r1"), Finished)
