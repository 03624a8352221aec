"""The pages about a run of a workflow: its arguments, calls and results."""

from __future__ import annotations

from continuations import AsyncRunner, Flow, ask, tool, workflow
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.engine.workflows.flow_tools import RUN, make_runner
from tests.serve.console.console_client import ConsoleClient
from tests.serve.console.test_run_pages import show


@tool
def add(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


@tool
def write(text: str) -> str:
    """Write a note."""
    return text


@workflow(tools=[add, write])
async def buy(flow: Flow, item: str, cents: int = 3) -> str:
    """Buy something."""
    total = await flow.call(add, cents, 1)
    note = await flow.call(write, f"{item}: {total}")
    return await ask(f"Which color has the {note}?", str)


def at_its_question() -> ConsoleClient:
    """Return a console without agents; the run waits for an answer."""
    store, clock = MemoryStore(), ManualClock()
    make_runner(buy, store=store, clock=clock).start(buy.bind("pen"), run_id=RUN)
    return ConsoleClient(AsyncRunner([], store=store, clock=clock), {"clock": clock})


def test_title_is_the_call_of_the_function() -> None:
    [page] = show(at_its_question(), f"/runs/{RUN}")

    assert "buy(cents: 3, item: pen) Waits for an answer" in page
    assert "level 1: buy (cents: 3, item: pen)" in page
    assert "level 2: ask Which color has the pen: 4?" in page
    assert "Arguments of buy : cents: 3, item: pen" in page
    assert "add ended: 4" in page
    assert "write ended: pen: 4" in page


def test_workflow_gets_no_messages() -> None:
    run, messages = show(at_its_question(), f"/runs/{RUN}", f"/runs/{RUN}/messages")

    assert "Message…" not in run
    assert "Send" not in messages
    assert "Arguments message 1 cents: 3, item: pen" in messages
    assert "Result of add message 3 4" in messages
    assert "Result of write message 5 pen: 4" in messages
    assert "buy message 6 ask Which color has the pen: 4?" in messages
