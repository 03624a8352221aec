"""A repeatable tool that raises is called again, with the same idempotency key."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from continuations import (
    Answer,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Deny,
    Failed,
    Finished,
    Outcome,
    Runner,
    Suspended,
    ToolContext,
    ask,
    run,
    tool,
)
from continuations.errors import InvalidInput
from continuations.testing import FrozenClock, memory_store
from continuations.tools import Retries, Tool
from continuations_storage import MemoryStore
from tests import effect_log
from tests.effect_log import Effect
from tests.engine.agent_builders import make_boss, root_tool_results
from tests.outcomes import expect, single_wait
from tests.run_environment import RunEnvironment, wait_until
from tests.sampling import sample
from tests.scripts import call

SCRIPT: Any = {"go": [[call("push", what="x")], "end"]}


class ServiceDown(RuntimeError):
    """The service of a tool does not work."""


def make_push(failures: int, retries: int | Retries = 3, **options: Any) -> Any:
    """Return an idempotent tool whose first attempts raise after their effect."""
    options.setdefault("idempotent", True)

    @tool(name="push", retries=retries, **options)
    def push(what: str, ctx: ToolContext) -> str:
        """Push."""
        effect_log.record(Effect.of("push", what, ctx))
        if ctx.attempt <= failures:
            msg = f"no {ctx.attempt}"
            raise ServiceDown(msg)
        return f"pushed in attempt {ctx.attempt}"

    return push


def make_runner(*tools: Any, script: Any = SCRIPT) -> tuple[Runner, FrozenClock]:
    """Return a runner with a clock that only its own sleep moves."""
    clock = FrozenClock()
    store = memory_store(clock)
    return Runner(make_boss(script, *tools), store=store, clock=clock), clock


def attempts_of(environment: RunEnvironment) -> list[int]:
    """Return the numbers of the attempts that had an effect, in their order."""
    return [line["attempt"] for line in environment.effects()]


def test_call_is_made_again_with_the_same_key_until_it_returns(
    environment: RunEnvironment,
) -> None:
    runner, clock = make_runner(make_push(failures=2))

    ended = runner.start("go", run_id="r1")

    assert ["pushed in attempt 3"] == root_tool_results(ended)
    assert [1, 2, 3] == attempts_of(environment)
    assert 1 == len({line["key"] for line in environment.effects()})
    # 1 second and 2 seconds, each shortened by at most a half
    assert 1.5 <= clock.elapsed() <= 3.0


def test_model_reads_the_last_error_with_the_number_of_attempts(
    environment: RunEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    runner, _ = make_runner(make_push(failures=9))

    with caplog.at_level(logging.WARNING, "continuations"):
        ended = runner.start("go", run_id="r1")

    assert isinstance(ended, Finished)
    told = "ERROR: the tool failed after 4 attempts: ServiceDown: no 4"
    assert [told] == root_tool_results(ended)
    assert [1, 2, 3, 4] == attempts_of(environment)
    logged = [each for each in caplog.messages if "push failed" in each]
    assert 4 == len(logged)
    assert not [each for each in logged if "no 1" in each]


def test_attempts_are_stored_with_the_call() -> None:
    """The start of each attempt is a version; nothing else costs one."""
    versions: list[int] = []
    for failures in (0, 2):
        runner, _ = make_runner(make_push(failures, read_only=True))
        runner.start("go", run_id="r1")
        newest = runner.look("r1").version
        stored = [
            row.attempts
            for number in range(1, newest + 1)
            for row in runner.look("r1", version=number).run_state.calls.values()
        ]
        assert failures + 1 == max(stored)
        versions.append(newest)
    assert 2 == versions[1] - versions[0]


@pytest.mark.parametrize("repeatable", ["idempotent", "read_only"])
def test_retries_of_a_schema_tool_and_of_an_async_function(
    repeatable: str, environment: RunEnvironment
) -> None:
    async def push(arguments: dict[str, Any], ctx: ToolContext) -> str:
        effect_log.append_effect("push", arguments["what"], attempt=ctx.attempt)
        if ctx.attempt == 1:
            raise ServiceDown
        return "pushed"

    schema = {"type": "object", "properties": {"what": {"type": "string"}}}
    options: Any = {repeatable: True}
    made = Tool.from_schema("push", schema, push, retries=1, **options)

    ended = make_runner(made)[0].start("go", run_id="r1")

    assert ["pushed"] == root_tool_results(ended)
    assert [1, 2] == attempts_of(environment)


def test_other_exceptions_are_not_tried_again(environment: RunEnvironment) -> None:
    retries = Retries(3, on=[ConnectionError, TimeoutError])
    runner, clock = make_runner(make_push(failures=9, retries=retries))

    ended = runner.start("go", run_id="r1")

    told = "ERROR: the tool failed: ServiceDown: no 1"
    assert [told] == root_tool_results(ended)
    assert [1] == attempts_of(environment)
    assert 0 == clock.elapsed()


def test_waits_are_bounded() -> None:
    retries = Retries(10, first_delay=4, max_delay=10)

    longest = [retries.delay(attempt, 1.0) for attempt in range(1, 6)]
    shortest = [retries.delay(attempt, 0.0) for attempt in range(1, 6)]

    assert [4, 8, 10, 10, 10] == longest
    assert [2, 4, 5, 5, 5] == shortest


def test_call_that_takes_too_long_is_tried_again(environment: RunEnvironment) -> None:
    """Each attempt has the whole time of the call."""

    @tool(name="push", idempotent=True, timeout=0.01, retries=2)
    async def push(what: str, ctx: ToolContext) -> str:
        """Push; the first attempts hang."""
        effect_log.record(Effect.of("push", what, ctx))
        if what != "x" or ctx.attempt <= 2:
            await asyncio.Event().wait()
        return "pushed"

    script: Any = {
        "go": [[call("push", what="x")], [call("push", what="y")], "end"],
    }
    ended = make_runner(push, script=script)[0].start("go", run_id="r1")

    assert [1, 2, 3, 1, 2, 3] == attempts_of(environment)
    told = (
        "ERROR: the tool did not return within 0.01 s in the last of 3 attempts. It is "
        "not known whether it had an effect."
    )
    assert ["pushed", told] == root_tool_results(ended)


def test_result_that_cannot_be_stored_is_not_tried_again() -> None:
    @tool(name="push", idempotent=True, retries=3)
    def push(what: str) -> Any:
        """Push."""
        effect_log.append_effect("push", what)
        return object()

    ended = make_runner(push)[0].start("go", run_id="r1")

    assert "cannot be stored" in root_tool_results(ended)[0]
    assert ["push x"] == effect_log.names()


def test_function_that_gets_an_answer_is_tried_again_under_its_own_key() -> None:
    """The tool itself does not run again."""

    @tool(name="push", idempotent=True, retries=1)
    def push(what: str) -> Any:
        """Ask, then push."""
        effect_log.append_effect("asked", what)
        return ask("Where to?", str)

    @push.on_answer
    def pushed(answer: str, ctx: ToolContext) -> str:
        effect_log.record(Effect.of("push", answer, ctx))
        if ctx.attempt == 1:
            raise ServiceDown
        return f"pushed to {answer}"

    runner, _ = make_runner(push)
    wait = single_wait(runner.start("go", run_id="r1"))
    runner.decide(wait.id, Answer("Bern"))
    ended = runner.resume("r1")

    assert ["pushed to Bern"] == root_tool_results(ended)
    assert ["asked x", "push Bern", "push Bern"] == effect_log.names()
    first, second = effect_log.effects()[1:]
    assert (1, 2) == (first["attempt"], second["attempt"])
    assert first["key"] == second["key"]
    assert first["key"].endswith("-1")


# What is not tried again ------------------------------------------------------


def test_denied_call_is_not_tried() -> None:
    runner, clock = make_runner(make_push(failures=9, approval=True))
    wait = single_wait(runner.start("go", run_id="r1"))

    runner.decide(wait.id, Deny())

    assert root_tool_results(runner.resume("r1"))[0].startswith("DENIED")
    assert [] == effect_log.effects()
    assert 0 == clock.elapsed()


def test_invalid_arguments_are_not_tried_again() -> None:
    runner, clock = make_runner(
        make_push(failures=9), script={"go": [[call("push", whom="x")], "end"]}
    )

    told = root_tool_results(runner.start("go", run_id="r1"))

    assert told[0].startswith("ERROR: the call was not executed")
    assert [] == effect_log.effects()
    assert 0 == clock.elapsed()


def test_approval_and_contract_do_not_depend_on_retries(
    environment: RunEnvironment, store: MemoryStore
) -> None:
    """A deployment that adds retries keeps the approvals that wait."""
    before, after = make_push(0, retries=0), make_push(1, retries=1)
    for each in (before, after):
        each.approval = make_push(0, approval=True).approval
    assert before.contract_digest == after.contract_digest
    started = Runner(make_boss(SCRIPT, before), store=store).start("go", run_id="r1")
    later = Runner(make_boss(SCRIPT, after), store=store, clock=None)
    later.decide(single_wait(started).id, Approve(by="kim"))

    ended = later.resume("r1")

    assert ["pushed in attempt 2"] == root_tool_results(ended)
    assert [1, 2] == attempts_of(environment)


def test_approval_that_is_void_before_the_next_attempt_asks_a_person(
    environment: RunEnvironment,
) -> None:
    """Each attempt is checked like the first one."""
    policy = ApprovalPolicy(recheck=lambda: not environment.effects())
    runner, _ = make_runner(make_push(failures=9, approval=policy))
    wait = single_wait(runner.start("go", run_id="r1"))
    runner.decide(wait.id, Approve(by="kim"))

    again = runner.resume("r1")

    assert "unknown" == single_wait(again).kind
    assert [1] == attempts_of(environment)


# Stops ------------------------------------------------------------------------


def slow_retries(times: int = 3) -> Retries:
    """Return retries with a wait that no test can wait for."""
    return Retries(times, first_delay=300, max_delay=300)


def test_should_pause_ends_the_waiting_and_the_next_worker_goes_on(
    environment: RunEnvironment, store: MemoryStore
) -> None:
    push = make_push(failures=1, retries=slow_retries())
    agent = make_boss(SCRIPT, push)
    runner = Runner(agent, store=store)

    paused = runner.start(
        "go", run_id="r1", should_pause=lambda: bool(environment.effects())
    )

    assert isinstance(paused, Suspended)
    assert paused.paused
    assert [1] == attempts_of(environment)
    ended = runner.resume("r1")
    assert ["pushed in attempt 2"] == root_tool_results(ended)
    assert [1, 2] == attempts_of(environment)


async def first_effect(environment: RunEnvironment) -> None:
    """Wait until an attempt of a call had its effect."""
    await asyncio.to_thread(wait_until, environment.effects)


def request_during_the_wait(
    environment: RunEnvironment, request: Callable[[AsyncRunner], Any]
) -> tuple[Outcome, AsyncRunner]:
    """Start a run, make a request once an attempt has failed; return the outcome."""

    async def scenario() -> tuple[Outcome, AsyncRunner]:
        push = make_push(failures=9, retries=slow_retries())
        agent = make_boss(SCRIPT, push)
        runner = AsyncRunner(agent, store=MemoryStore(), lease=0.6)
        starting = asyncio.create_task(runner.start("go", run_id="r1"))
        await first_effect(environment)
        await request(runner)
        return await starting, runner

    return asyncio.run(scenario())


def test_cancelled_run_does_not_wait_for_the_next_attempt(
    environment: RunEnvironment,
) -> None:
    ended, _ = request_during_the_wait(
        environment, lambda runner: runner.cancel("r1", reason="Enough.")
    )

    assert isinstance(ended, Failed)
    assert "cancelled" == ended.error.code
    assert [1] == attempts_of(environment)


def test_cancelled_call_is_not_tried_again(environment: RunEnvironment) -> None:
    """The run goes on, and its model reads the error of the last attempt."""
    ended, _ = request_during_the_wait(
        environment, lambda runner: runner.cancel("r1", call="boss/push")
    )

    assert isinstance(ended, Finished)
    told = "ERROR: the tool failed: ServiceDown: no 1"
    assert [told] == root_tool_results(ended)
    assert [1] == attempts_of(environment)


def test_paused_run_does_not_wait_and_goes_on_after_unpause(
    environment: RunEnvironment,
) -> None:
    paused, runner = request_during_the_wait(
        environment, lambda runner: runner.pause("r1", by="kim")
    )

    assert isinstance(paused, Suspended)
    assert [1] == attempts_of(environment)

    async def go_on() -> Any:
        await runner.unpause("r1", by="kim")
        return await runner.resume(
            "r1", should_pause=lambda: len(environment.effects()) > 1
        )

    asyncio.run(go_on())
    assert [1, 2] == attempts_of(environment)


async def test_interrupted_worker_leaves_the_call_to_the_next_one(
    environment: RunEnvironment,
) -> None:
    """Ctrl-C ends the waiting at once."""

    push = make_push(failures=1, retries=slow_retries())
    runner = AsyncRunner(make_boss(SCRIPT, push), store=MemoryStore())
    starting = asyncio.create_task(runner.start("go", run_id="r1"))
    await first_effect(environment)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    ended = expect(await runner.resume("r1"), Finished)
    assert ["pushed in attempt 2"] == root_tool_results(ended)
    assert [1, 2] == attempts_of(environment)


@pytest.mark.parametrize("how", ["stop", "interrupt"])
def test_stop_or_interruption_of_a_thread_ends_the_waiting(
    how: str, environment: RunEnvironment
) -> None:
    async def scenario() -> Any:
        push = make_push(failures=9, retries=slow_retries())
        script: Any = {"go": [[call("push", what="x")], "end", "later"]}
        agent = make_boss(script, push)
        runner = AsyncRunner(agent, store=MemoryStore(), lease=0.6)
        thread = runner.thread(key="k")
        sending = asyncio.create_task(thread.send("go", by="kim"))
        await first_effect(environment)
        if how == "stop":
            await thread.stop_turn(by="kim")
            return await sending
        return await thread.send("go on", by="kim", when_busy="interrupt")

    answered = asyncio.run(scenario())

    assert [1] == attempts_of(environment)
    assert isinstance(answered, Failed) is (how == "stop")


def test_claim_is_renewed_while_a_worker_waits(environment: RunEnvironment) -> None:
    """No other worker takes the run over between two attempts."""
    retries = Retries(1, first_delay=1.6, max_delay=1.6)
    store = MemoryStore()
    agent = make_boss(SCRIPT, make_push(failures=1, retries=retries))

    ended = Runner(agent, store=store, lease=0.6).start("go", run_id="r1")

    assert ["pushed in attempt 2"] == root_tool_results(ended)
    claims = {
        Runner([], store=store).look("r1", version=number).run_state.run.claim
        for number in range(1, Runner([], store=store).look("r1").version)
    }
    assert 1 == len({each.attempt for each in claims if each})
    assert len({each.until for each in claims if each}) > 3
    assert [1, 2] == attempts_of(environment)


def test_siblings_go_on_during_the_wait() -> None:
    @tool
    def book(room: str) -> str:
        """Book a room."""
        effect_log.append_effect("book", room, attempt=0)
        return "booked"

    script: Any = {"go": [[call("push", what="x"), call("book", room="1")], "end"]}
    runner, _ = make_runner(make_push(failures=1), book, script=script)

    ended = runner.start("go", run_id="r1")

    assert ["pushed in attempt 2", "booked"] == root_tool_results(ended)
    assert ["book 1", "push x", "push x"] == sorted(effect_log.names())


def test_retries_without_a_store(environment: RunEnvironment) -> None:
    agent = make_boss(SCRIPT, make_push(failures=2))

    ended = run(agent, "go", clock=FrozenClock())

    assert ["pushed in attempt 3"] == root_tool_results(ended)
    assert [1, 2, 3] == attempts_of(environment)


# In other processes -----------------------------------------------------------

APP = "tests.engine.retrying_tools:agents"


@pytest.mark.parametrize("moment", ["before", "after"])
def test_worker_that_dies_between_two_attempts(
    moment: str, environment: RunEnvironment
) -> None:
    """The next worker makes the second attempt; none is lost, and the key stays."""
    options: Any = {"app": APP}
    script: Any = {"go": [[call("push", what="fails once")], "end"]}
    died = 0
    operations = sample(range(4, 10), 3, moment == "after")
    for operation in operations:
        run_id = f"r{operation}"
        fault = f"{operation} {moment}"
        process = environment.spawn(
            "start", run_id, "go", script=script, fault=fault, **options
        )
        died += process.wait() != 0
        ended = environment.resume(script, run_id, **options, ahead="60")
        if ended.get("raised") == "RunNotFound":
            continue
        assert "Finished" == ended["kind"]
        mine = [line for line in environment.effects() if line["run"] == run_id]
        assert 1 == len({line["key"] for line in mine})
        numbers = [line["attempt"] for line in mine]
        # A start is stored before its effect, so no attempt happens twice.
        assert numbers == sorted(set(numbers))
        assert 2 <= numbers[-1] <= 3
    assert died >= len(operations) - 1


def test_worker_that_dies_in_every_attempt_counts_as_today(
    environment: RunEnvironment,
) -> None:
    """The start of a further attempt is no progress."""
    options: Any = {"app": APP, "lease": "0.3", "attempts": "2"}
    script: Any = {"go": [[call("push", what="fails, then dies")], "end"]}
    environment.spawn("start", "r1", "go", script=script, **options).wait()

    ended: dict[str, Any] = {}
    while not ended:
        process = environment.spawn("resume", "r1", script=script, **options)
        out, _ = process.popen.communicate(timeout=60)
        found = _last_result(out)
        ended = {} if found.get("raised") == "RunBusy" else found

    assert "attempts" == ended["error"]["code"]
    assert [1, 2, 3] == attempts_of(environment)


def _last_result(out: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(out.splitlines()[-1]) if out else {}
    return found


# Declarations -----------------------------------------------------------------


@pytest.mark.parametrize("value", [-1, 11, True, "3", 1.5, None])
def test_invalid_number_of_retries_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="tool push: retries must be"):
        make_push(0, retries=value)


@pytest.mark.parametrize("value", [1, Retries(2)])
def test_retries_of_a_tool_that_may_not_be_repeated_are_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="Declare idempotent=True or read_only=True"):
        make_push(0, retries=value, idempotent=False)
    assert make_push(0, retries=0, idempotent=False).retries is None


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"times": 0}, "times"),
        ({"times": 2, "first_delay": 0}, "first_delay"),
        ({"times": 2, "max_delay": 301}, "max_delay"),
        ({"times": 2, "on": []}, "on"),
        ({"times": 2, "on": ConnectionError}, "on"),
        ({"times": 2, "on": [BaseException]}, "on"),
    ],
)
def test_invalid_retries_are_refused(options: Any, name: str) -> None:
    with pytest.raises(InvalidInput, match=f"Retries: {name} must be"):
        Retries(**options)
