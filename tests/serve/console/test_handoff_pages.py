"""The pages about a run whose conversation was handed over."""

from __future__ import annotations

from continuations import AsyncRunner
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.engine.handoff_agents import Shop
from tests.serve.console.console_client import ConsoleClient
from tests.serve.console.test_run_pages import show


def test_pages_name_the_agent_that_had_the_conversation() -> None:
    store, clock = MemoryStore(), ManualClock()
    Shop().runner(store, clock=clock).start("a refund", run_id="r1")
    runner = AsyncRunner([], store=store, clock=clock)
    client = ConsoleClient(runner, {"clock": clock})

    run, messages = show(client, "/runs/r1", "/runs/r1/messages")

    assert "triage hands over to refunds" in run
    assert "triage asks for transfer_to_refunds" in run
    assert "refunds asks for refund" in run
    assert "level 1: refunds" in run
    assert "triage message 3 transfer_to_refunds" in messages
    assert "refunds message 6 refund 5" in messages
