"""Replays: the same code goes on, and other code is refused before anything runs."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import tracemalloc
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    Failed,
    Finished,
    Flow,
    Suspended,
    ToolContext,
    ask,
    sleep,
    tool,
    workflow,
)
from continuations.attachments import File
from continuations.authoring.workflow import drive
from continuations.errors import AgentChanged, InvalidInput, WorkflowChanged
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
from tests.outcomes import expect, single_wait
from tests.run_environment import RunEnvironment

OPEN_FILES = Path("/proc/self/fd")
MANY = 1_000 if os.environ.get("TORTURE") else 100


def program(*steps: Any, name: str = "flow") -> Any:
    """Return a workflow that makes some steps: numbers to add, and then pays."""

    @workflow(tools=[add, pay], name=name)
    async def code(flow: Flow) -> str:
        total = 0
        for step in steps:
            match step:
                case int():
                    total = await flow.call(add, total, step)
                case "pay":
                    await flow.call(pay, total)
                case "ask":
                    total += len(await ask("How?"))
                case ("both", first, second):
                    sums = await asyncio.gather(
                        flow.call(add, total, first), flow.call(add, total, second)
                    )
                    total = sum(sums)
                case ("sleep", seconds):
                    await sleep(timedelta(seconds=seconds))
                case ("patched", patch, step):
                    if flow.patched(patch):
                        total = await flow.call(add, total, step)
                case _:
                    pytest.fail(f"unknown step {step!r}")
        return str(total)

    return code


CHANGED: Sequence[tuple[str, tuple[Any, ...], str]] = (
    ("another argument", (1, 3, "pay"), "with other arguments than the history"),
    ("a call more", (1, 2, 4, "pay"), "the history has a call of pay"),
    ("a call more at the end", (1, 2, "pay", 4), ""),
    ("a call less", (1, "pay"), "the history has a call of add"),
    ("another tool", (1, 2, 3, "pay"), "the history has a call of pay"),
    ("an end too early", (1, 2), "the history has a call of pay"),
    (
        "at the same time",
        (("both", 1, 2), "pay"),
        "the code has a call of add where the history has no",
    ),
)


@pytest.mark.parametrize(("_what", "steps", "text"), CHANGED, ids=lambda each: each)
def test_code_that_differs_is_refused_and_changes_nothing(
    _what: str, steps: tuple[Any, ...], text: str, store: MemoryStore
) -> None:
    old, new = program(1, 2, "pay"), program(*steps)
    waiting = make_runner(old, store=store).start(old.bind(), run_id=RUN)
    make_runner(old, store=store).decide(the_wait(waiting), Approve(by="kim"))
    before = objects(store)

    runner = make_runner(new, store=store)
    (row,) = runner.drift()
    if not text:  # the history does not come to the change
        assert "accept" == row.verdict
        runner.resume(RUN)
        done = ["add 0+1", "add 1+2", "pay 3", "add 3+4"]
        assert done == effect_log.names()
        return
    assert ("refuse", "workflow") == (row.verdict, row.why[0].change)
    with pytest.raises(WorkflowChanged, match=text) as caught:
        runner.resume(RUN)

    assert ("workflow", ("flow",)) == (caught.value.change, caught.value.path)
    assert before == objects(store)
    assert ["add 0+1", "add 1+2"] == effect_log.names()
    assert isinstance(make_runner(old, store=store).resume(RUN), Finished)


def effects_of(steps: Sequence[Any]) -> list[str]:
    """Return the effects of a program whose steps are numbers and payments."""
    total, effects = 0, list[str]()
    for step in steps:
        effects.append(f"pay {total}" if step == "pay" else f"add {total}+{step}")
        total += 0 if step == "pay" else step
    return effects


def test_random_changes_are_refused_or_make_the_same_calls() -> None:
    """No changed program runs a call that the history does not have in that place."""
    rng = Random(5)  # noqa: S311 - repeatable
    refused = accepted = 0
    for number in range(40):
        steps: list[Any] = [rng.randrange(3) for _ in range(rng.randrange(1, 5))]
        steps.insert(rng.randrange(len(steps) + 1), "pay")
        changed = list(steps)
        place = rng.randrange(len(changed))
        match rng.randrange(3):
            case 0:
                changed[place] = rng.choice([0, 1, 2, 9, "pay"])
            case 1:
                changed.insert(place, rng.choice([0, 1, "pay"]))
            case _:
                del changed[place]
        store = MemoryStore()
        old, new = program(*steps), program(*changed)
        effect_log.clear()
        waiting = make_runner(old, store=store).start(old.bind(), run_id=RUN)
        before = effect_log.names()
        runner = make_runner(new, store=store)
        runner.decide(the_wait(waiting), Approve(by="kim"))
        done = steps[: steps.index("pay") + 1]
        (row,) = runner.drift()
        fits = done == changed[: len(done)]
        assert ("accept" if fits else "refuse") == row.verdict, number
        if not fits:
            refused += 1
            with pytest.raises(WorkflowChanged):
                runner.resume(RUN)
            assert before == effect_log.names()
            continue
        accepted += 1
        outcome = runner.resume(RUN)
        for wait in outcome.waits if isinstance(outcome, Suspended) else ():
            runner.decide(wait.id, Approve(by="kim"))
            runner.resume(RUN)
        assert effects_of(changed) == effect_log.names(), number

    assert refused > 10
    assert accepted > 5


# Patches -----------------------------------------------------------------------------


def test_patch_runs_in_new_places_only(environment: RunEnvironment) -> None:
    store = MemoryStore()
    old = program(1, "pay", 5)
    new = program(1, ("patched", "more", 3), "pay", 5)
    waiting = make_runner(old, store=store).start(old.bind(), run_id=RUN)

    # Before the wait, the history goes past the change.
    assert isinstance(make_runner(new, store=store).resume(RUN), Suspended)
    make_runner(new, store=store).decide(the_wait(waiting), Approve(by="kim"))
    assert "6" == make_runner(new, store=store).resume(RUN).result()
    assert ["add 0+1", "pay 1", "add 1+5"] == environment.effect_names()

    # After the wait, the code comes there for the first time. A later process without
    # the condition goes on with the same history.
    environment.clear_logs()
    late = program(1, "pay", ("patched", "more", 3), "ask", 5)
    without = program(1, "pay", 3, "ask", 5)
    waiting = make_runner(old, store=store).start(old.bind(), run_id="r2")
    make_runner(late, store=store).decide(the_wait(waiting), Approve(by="kim"))
    waiting = make_runner(late, store=store).resume("r2")
    make_runner(without, store=store).decide(the_wait(waiting, "question"), Answer(""))
    assert "9" == make_runner(without, store=store).resume("r2").result()
    done = ["add 0+1", "pay 1", "add 1+3", "add 4+5"]
    assert done == environment.effect_names()


def test_answer_to_a_patch_stays(store: MemoryStore) -> None:
    patched = program(("patched", "more", 3), "pay")
    waiting = make_runner(patched, store=store).start(patched.bind(), run_id=RUN)

    assert isinstance(make_runner(patched, store=store).resume(RUN), Suspended)
    unconditional = program(3, "pay")
    runner = make_runner(unconditional, store=store)
    runner.decide(the_wait(waiting), Approve(by="kim"))

    assert "3" == runner.resume(RUN).result()
    assert ["add 0+3", "pay 3"] == effect_log.names()


# Timers and restarts -----------------------------------------------------------------


@pytest.mark.parametrize(("seconds", "due"), [(30, 30), (600, 600)])
def test_length_of_a_sleep_may_change(seconds: int, due: int) -> None:
    store, clock = MemoryStore(), ManualClock()
    old, new = program(("sleep", 60), 1), program(("sleep", seconds), 1)
    make_runner(old, store=store, clock=clock).start(old.bind(), run_id=RUN)

    wait = single_wait(make_runner(new, store=store, clock=clock).resume(RUN))

    assert clock.now() + timedelta(seconds=due) == wait.deadline
    clock.seconds = due
    assert isinstance(make_runner(new, store=store, clock=clock).resume(RUN), Suspended)
    clock.seconds = due + 1
    assert "1" == make_runner(new, store=store, clock=clock).resume(RUN).result()


def test_idle_resume_writes_nothing(store: MemoryStore) -> None:
    code = program(1, "ask")
    make_runner(code, store=store).start(code.bind(), run_id=RUN)
    before = objects(store)

    assert isinstance(make_runner(code, store=store).resume(RUN), Suspended)

    assert before == objects(store)


def test_loop_over_months_keeps_a_short_history() -> None:
    @workflow(tools=[add])
    async def months(flow: Flow, month: int, total: int = 0) -> int:
        total = await flow.call(add, total, month)
        await sleep(timedelta(days=30))
        if month < 5:
            flow.restart(month + 1, total=total)
        return total

    clock, store = ManualClock(), MemoryStore()
    outcome = make_runner(months, store=store, clock=clock).start(
        months.bind(1), run_id=RUN
    )
    seen: list[int] = []
    while isinstance(outcome, Suspended):
        seen.append(len(outcome.continuation.root.messages))
        clock.seconds += 30 * 86_400 + 1
        outcome = make_runner(months, store=store, clock=clock).resume(RUN)

    assert 15 == outcome.result()
    assert 1 == len(set(seen))
    assert 5 == len(effect_log.effects())


def test_restart_checks_its_arguments() -> None:
    @workflow
    async def wrong(flow: Flow, month: int) -> None:
        flow.restart("x" * month)

    ended = expect(make_runner(wrong).start(wrong.bind(1), run_id=RUN), Failed)

    assert "the arguments of wrong do not fit" in str(ended.error.message)


# Kinds, randomness and the end of a worker -------------------------------------------


def test_agent_in_place_of_a_workflow_is_refused_and_the_reverse() -> None:
    store = MemoryStore()
    code = program("ask", name="one")
    agent = Agent("one", model=ScriptedModel(["x"] * 3), tools=[pay])
    make_runner(code, store=store).start(code.bind(), run_id=RUN)
    with pytest.raises(AgentChanged, match="was a workflow") as caught:
        make_runner(agent, store=store).resume(RUN)
    assert "kind" == caught.value.change

    model = ScriptedModel([ToolCall("pay", {"cents": 1}), "x"])
    waits = Agent("one", model=model, tools=[pay])
    make_runner(waits, store=store).start("go", run_id="r2")
    with pytest.raises(AgentChanged, match="was an agent"):
        make_runner(code, store=store).resume("r2")


def test_randomness_and_time_are_the_same_in_every_replay() -> None:
    seen: list[tuple[str, float, str]] = []

    @workflow
    async def rolls(flow: Flow) -> str:
        now = flow.now().isoformat()
        seen.append((str(flow.uuid()), flow.random.random(), now))
        return await ask("Well?")

    store, clock = MemoryStore(), ManualClock()
    make_runner(rolls, store=store, clock=clock).start(rolls.bind(), run_id=RUN)
    clock.seconds = 100
    make_runner(rolls, store=store, clock=clock).resume(RUN)

    assert 2 == len(seen)
    assert seen[0] == seen[1]
    make_runner(rolls, store=store, clock=clock).start(rolls.bind(), run_id="r2")
    assert seen[2][:2] != seen[0][:2]


def test_cleanup_of_a_stopped_worker_records_nothing(store: MemoryStore) -> None:
    problems: list[str] = []

    @workflow(tools=[add])
    async def cleans(flow: Flow) -> str:
        try:
            return await ask("Well?")
        finally:
            try:
                await flow.call(add, 1, 1)
            except RuntimeError as error:
                problems.append(str(error))
                raise

    waiting = make_runner(cleans, store=store).start(cleans.bind(), run_id=RUN)
    assert 1 == len(problems)
    assert "the worker has stopped" in problems[0]
    assert [] == effect_log.effects()

    runner = make_runner(cleans, store=store)
    runner.decide(the_wait(waiting, "question"), Answer("yes"))
    assert "yes" == runner.resume(RUN).result()
    assert ["add 1+1"] == effect_log.names()


def test_arguments_that_do_not_fit_any_more_are_refused(store: MemoryStore) -> None:
    def make(kind: type) -> Any:
        async def one(_flow: Flow, first: Any) -> str:
            del first
            return await ask("Well?")

        one.__annotations__["first"] = kind
        return workflow(one)

    old, new = make(str), make(int)
    make_runner(old, store=store).start(old.bind("x"), run_id=RUN)

    with pytest.raises(WorkflowChanged, match="its arguments do not fit"):
        make_runner(new, store=store).resume(RUN)


def test_call_outside_the_code_is_refused() -> None:
    kept: list[Flow] = []

    @workflow(tools=[add])
    async def leaks(flow: Flow) -> str:
        kept.append(flow)
        return "done"

    make_runner(leaks).start(leaks.bind(), run_id=RUN)

    with pytest.raises((InvalidInput, RuntimeError)):
        _ = kept[0].call(add, 1, 1)


# Large and many ----------------------------------------------------------------------


def test_many_replays_leave_no_memory_and_no_open_files(store: MemoryStore) -> None:
    """Each one makes a loop, tasks and futures, which are closed."""

    @workflow(tools=[add])
    async def asks(flow: Flow) -> str:
        waiting = asyncio.create_task(asyncio.sleep(9_000))
        total = await flow.call(add, 1, 2)
        answer: str = await ask(f"Is {total} right?")
        waiting.cancel()
        return answer

    make_runner(asks, store=store).start(asks.bind(), run_id=RUN)
    before = objects(store)

    def replay(times: int) -> tuple[int, int, int]:
        for _ in range(times):
            make_runner(asks, store=store).resume(RUN)
        gc.collect()
        futures = sum(isinstance(each, asyncio.Future) for each in gc.get_objects())
        files = sum(1 for _ in OPEN_FILES.iterdir())
        return tracemalloc.get_traced_memory()[0], futures, files

    tracemalloc.start()
    try:
        replay(100)
        first = replay(10)
        last = replay(MANY)
    finally:
        tracemalloc.stop()

    memory, futures, files = (new - old for new, old in zip(last, first, strict=True))
    assert memory < 200_000
    # A future of the thread that runs all synchronous calls may not have ended yet.
    assert futures <= 2
    assert files <= 0
    assert before == objects(store)


def test_results_of_a_megabyte_are_stored_few_times_and_replayed() -> None:
    @tool
    def read_book(number: int) -> str:
        """Return a book that cannot be compressed."""
        return Random(number).randbytes(500_000).hex()  # noqa: S311 - not for secrets

    @workflow(tools=[read_book])
    async def reads(flow: Flow) -> int:
        books = [await flow.call(read_book, number) for number in range(4)]
        answer = await ask("Go on?", int)
        return sum(map(len, books)) + answer

    store = MemoryStore()
    waiting = make_runner(reads, store=store).start(reads.bind(), run_id=RUN)
    runner = make_runner(reads, store=store)
    runner.decide(the_wait(waiting, "question"), Answer(1))

    assert 4_000_001 == runner.resume(RUN).result()
    # Half a byte for each hexadecimal digit. A version holds the difference to an
    # earlier one, so a book is stored at most log2(5 versions) times.
    stored = sum(len(body) for body in objects(store).values())
    assert 2_000_000 < stored < 3 * 2_000_000


# The length of histories, and changes that they allow -------------------------


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
