"""Histories: the length they may have, and the changes of code that they allow."""

from __future__ import annotations

import asyncio
import logging
from random import Random
from typing import Any

import pytest

from continuations import (
    Agent,
    Approve,
    Failed,
    Flow,
    Suspended,
    ToolContext,
    ask,
    tool,
    workflow,
)
from continuations.attachments import File
from continuations.authoring.workflow import drive
from continuations.errors import WorkflowChanged
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine.workflows.flow_tools import (
    RUN,
    add,
    make_runner,
    objects,
    pay,
    the_wait,
)
from tests.run_environment import RunEnvironment


@workflow(tools=[add])
async def adds(flow: Flow, count: int) -> int:
    """Add ones."""
    total = 0
    for _ in range(count):
        total = await flow.call(add, total, 1)
    return total


# Its length --------------------------------------------------------------------------


def test_workflow_with_too_many_entries_fails(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(drive, "MANY_ENTRIES", 10)
    monkeypatch.setattr(drive, "MAX_ENTRIES", 30)

    with caplog.at_level(logging.WARNING, logger="continuations"):
        ended = make_runner(adds).start(adds.bind(50), run_id=RUN)

    assert isinstance(ended, Failed)
    assert "entries" == ended.error.code
    assert ended.error.message.startswith("its history has 30 entries. Start a new")
    (warning,) = [each.message for each in caplog.records]
    assert "at 30 it fails. Begin it anew with flow.restart(...)" in warning
    made = len(effect_log.effects())
    assert 10 < made < 30


def test_thousand_calls_at_once_are_two_versions() -> None:
    """They may be more if a tool runs in a thread: results come at different times."""

    @tool
    async def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    @workflow(tools=[double])
    async def doubles(flow: Flow) -> int:
        return sum(await asyncio.gather(*[flow.call(double, n) for n in range(1000)]))

    runner = make_runner(doubles)

    assert 999_000 == runner.start(doubles.bind(), run_id=RUN).result()
    # The calls with the start, and their results with the end.
    assert 2 == runner.look(RUN).version


def test_each_step_is_one_version() -> None:
    """A result is stored together with the call that the code makes next."""
    runner = make_runner(adds)
    runner.start(adds.bind(8), run_id=RUN)

    assert 1 + 8 == runner.look(RUN).version


# What new code may change ------------------------------------------------------------


def resumed(old: Any, new: Any, **options: Any) -> Any:
    """Start a workflow, let another process with new code go on, and approve."""
    store, clock = MemoryStore(), ManualClock()
    waiting = make_runner(old, store=store, clock=clock).start(old.bind(), run_id=RUN)
    runner = make_runner(new, store=store, clock=clock, **options)
    runner.decide(the_wait(waiting), Approve(by="kim"))
    return runner.resume(RUN)


def charges(tip: int) -> Any:
    """Return a workflow whose tool has a default."""

    @tool
    def charge(ctx: ToolContext, cents: int, tip: int = tip) -> int:
        """Charge."""
        effect_log.record(effect_log.Effect.of("charge", f"{cents}+{tip}", ctx))
        return cents + tip

    @workflow(tools=[charge, pay], name="charges")
    async def code(flow: Flow) -> int:
        first = await flow.call(charge, 1)
        await flow.call(pay, first)
        return first + await flow.call(charge, 2)

    return code


def test_another_default_counts_for_new_calls_only() -> None:
    assert 5 == resumed(charges(0), charges(2)).result()
    assert ["charge 1+0", "pay 1", "charge 2+2"] == effect_log.names()


def test_renamed_tool_does_not_differ(environment: RunEnvironment) -> None:
    @tool(approval=True, name="transfer")
    def transfer(ctx: ToolContext, cents: int) -> str:
        """Pay."""
        effect_log.record(effect_log.Effect.of("pay", cents, ctx))
        return f"sent {cents}"

    def code(paying: Any) -> Any:
        @workflow(tools=[add, paying], name="code")
        async def function(flow: Flow) -> str:
            total = await flow.call(add, 1, 1)
            return str(await flow.call(paying, total))

        return function

    old, new = code(pay), code(transfer)
    with pytest.raises(WorkflowChanged, match="pay where the code has a call"):
        resumed(old, new)
    environment.clear_logs()

    assert "sent 2" == resumed(old, new, renamed={"pay": "transfer"}).result()
    assert ["add 1+1", "pay 2"] == environment.effect_names()


def test_refusal_shows_waits_and_exceptions_of_the_code(store: MemoryStore) -> None:
    @workflow(name="code")
    async def old(_flow: Flow) -> str:
        return await ask("Well?")

    @workflow(name="code")
    async def raises(_flow: Flow) -> str:
        raise LookupError("no such file")

    @workflow(name="code", tools=[pay])
    async def calls(flow: Flow) -> str:
        return await flow.call(pay, 1)

    waiting = make_runner(old, store=store).start(old.bind(), run_id=RUN)
    assert isinstance(waiting, Suspended)

    for new, text in (
        (raises, r"has ask\(\.\.\.\) where the code makes no call: it raised Lookup"),
        (calls, r"has ask\(\.\.\.\) where the code has a call of pay"),
    ):
        with pytest.raises(WorkflowChanged, match=text):
            make_runner(new, store=store).resume(RUN)


# Values ------------------------------------------------------------------------------


def test_file_gives_the_code_its_text() -> None:
    @tool
    def read() -> File:
        """Return a file."""
        return File(b"%PDF-1.4", "application/pdf", "bill.pdf")

    @workflow(tools=[read])
    async def reads(flow: Flow) -> str:
        return str(await flow.call(read))

    ended = make_runner(reads).start(reads.bind(), run_id=RUN)

    assert "[file: bill.pdf, application/pdf, 8 bytes]" == ended.result()


def test_long_conversation_in_a_workflow_stays_small(store: MemoryStore) -> None:
    """200,000 tokens of text that hardly shrinks, in 100 results."""

    @tool
    def read_page(number: int) -> str:
        """Read a page of about 2,000 tokens."""
        return Random(number).randbytes(4_000).hex()  # noqa: S311 - not for secrets

    pages = [ToolCall("read_page", {"number": number}) for number in range(100)]
    reader = Agent(
        "reader",
        tools=[read_page],
        model=ScriptedModel([*pages, "Read."]),
        max_turns=None,
    )

    @workflow(agents=[reader])
    async def reads(flow: Flow) -> str:
        return await flow.call(reader, "Read the book.")

    assert "Read." == make_runner(reads, store=store).start(reads.bind()).result()
    assert sum(map(len, objects(store).values())) < 5_000_000
