"""`serve_forever` resumes due runs, logs them, and stops on a signal."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from continuations import (
    Agent,
    Approve,
    AsyncRunner,
    Runner,
    Suspended,
    ToolContext,
    tool,
)
from continuations.engine.sweep.stop_signals import stop_signals_handled
from continuations.engine.sweep.sweep_loop import run_sweep_loop
from continuations.engine.sweep.sweeping import DueRuns, RunReport
from continuations.errors import InvalidInput, ModelError, StoreUnavailable
from continuations.ledger.objects import Objects
from continuations_storage import MemoryStore, Store
from continuations_storage.faults import Fault, FaultyStore, Operation, refused
from tests import scripts
from tests.clocks import ManualClock
from tests.engine import agent_builders
from tests.engine.agent_builders import make_boss, text_tool
from tests.engine.payment_agent import ONE_PAY_SCRIPT, pay
from tests.outcomes import expect
from tests.run_environment import RunEnvironment, wait_until
from tests.scripts import Script, call


def is_finished(runner: Runner, run_id: str) -> bool:
    """Tell whether a run has come to its end."""
    return runner.look(run_id).status == "finished"


def statuses(environment: RunEnvironment) -> list[str]:
    """Return how the runs r0, r1, ... stand."""
    runner = agent_builders.make_runner({}, store=environment.store)
    return [runner.look(run_id).status for run_id in ("r0", "r1", "r2")]


def test_serve_forever_resumes_decided_runs_until_sigterm(
    environment: RunEnvironment,
) -> None:
    """SIGTERM suspends three runs, and another process ends them."""
    script: Script = {
        "go": [
            [call("pay", what="1", then="sleep:1")],
            *[[call("act", what=str(number))] for number in range(2, 5)],
            "end",
        ],
    }
    # Given a server, and runs that a person approves
    server = environment.spawn("serve", "0.05", script=script)
    waits = [environment.start(script, f"r{n}")["waits"][0] for n in range(3)]
    # In this process: the three tools must begin within the second that each takes.
    decider = Runner([], store=environment.store)
    for wait in waits:
        decider.decide(wait["id"], Approve(by="kim"))

    # When it gets SIGTERM while the first tools still run
    wait_until(lambda: len(environment.effect_names()) == 3)
    server.send(signal.SIGTERM)

    # Then it ends normally, and every run is suspended
    assert server.wait_for_result() == {"served": True}
    assert ["suspended"] * 3 == statuses(environment)
    assert ["pay 1"] * 3 == environment.effect_names()

    # And another server continues them at once, without waiting for a claim to end
    other = environment.spawn("serve", "0.05", script=script)
    wait_until(lambda: ["finished"] * 3 == statuses(environment))
    other.send(signal.SIGINT)
    assert other.wait_for_result() == {"served": True}
    assert sorted(["pay 1", "act 2", "act 3", "act 4"] * 3) == sorted(
        environment.effect_names()
    )


async def test_serve_forever_works_on_at_most_at_once_runs(store: MemoryStore) -> None:
    """`max_concurrent_runs` limits the runs in progress."""
    at_once, most = 0, 0
    gate = asyncio.Event()

    @tool
    async def work(what: str) -> str:
        """Work."""
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.wait_for(gate.wait(), 60)
        at_once -= 1
        return what

    script: Script = {"go": [[call("work", what="x")], "end"]}
    runner = AsyncRunner(agent_builders.make_boss(script, work), store=store)
    for number in range(7):
        outcome = await runner.start(
            "go", run_id=f"r{number}", should_pause=lambda: True
        )
        assert isinstance(outcome, Suspended)
    stop = asyncio.Event()
    serving = runner.serve_forever(interval=0.01, max_concurrent_runs=3, stop=stop)
    task = asyncio.create_task(serving)
    await asyncio.to_thread(wait_until, lambda: at_once == 3)
    await asyncio.sleep(0.1)
    assert 3 == most
    gate.set()
    looking = Runner([], store=store)
    for number in range(7):
        await asyncio.to_thread(wait_until, partial(is_finished, looking, f"r{number}"))
    stop.set()
    await task
    assert 3 == most


async def test_runs_claimed_by_others_do_not_count_for_at_once() -> None:
    """A second machine finds the run that a busy machine cannot start."""
    gate = asyncio.Event()
    begun: list[str] = []

    @tool
    async def work(what: str, ctx: ToolContext) -> str:
        """Work, for long if it is not quick."""
        begun.append(ctx.run_id)
        if ctx.run_id != "quick":
            await asyncio.wait_for(gate.wait(), 60)
        return what

    script: Script = {"go": [[call("work", what="x")], "end"]}
    store = MemoryStore()
    runner = AsyncRunner(agent_builders.make_boss(script, work), store=store)
    for run_id in ("a1", "a2", "a3", "a4"):
        await runner.start("go", run_id=run_id, should_pause=lambda: True)
    stop = asyncio.Event()
    one = runner.serve_forever(interval=0.01, max_concurrent_runs=4, stop=stop)
    tasks = [asyncio.create_task(one)]
    await asyncio.to_thread(wait_until, lambda: len(begun) == 4)

    # When another run is due, behind those that the first machine holds
    await runner.start("go", run_id="quick", should_pause=lambda: True)
    other = AsyncRunner(agent_builders.make_boss(script, work), store=store)
    two = other.serve_forever(interval=0.01, max_concurrent_runs=2, stop=stop)
    tasks.append(asyncio.create_task(two))

    # Then the second server resumes it while the others are held
    looking = Runner([], store=store)
    await asyncio.to_thread(wait_until, partial(is_finished, looking, "quick"))
    assert ["a1", "a2", "a3", "a4"] == sorted(begun[:4])
    stop.set()
    gate.set()
    await asyncio.gather(*tasks)
    assert 5 == len(begun)


async def test_serve_forever_survives_store_errors_and_foreign_runs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Errors of the store are logged, and a run of another service once, quietly."""
    caplog.set_level("INFO")
    script: Script = {"go": [[call("work")], "end"]}
    listings = 0
    work = text_tool("work", "done")

    def plan(operation: Operation) -> Fault | None:
        nonlocal listings
        if operation.verb == "keys" and operation.key == "markers/":
            listings += 1
            return refused() if listings < 3 else None
        return None

    inner = MemoryStore()
    agents: list[Any] = [agent_builders.make_boss(script, work)]
    runner = AsyncRunner(agents, store=inner)
    await runner.start("go", run_id="good", should_pause=lambda: True)
    ghost = AsyncRunner(Agent("ghost", model="m"), store=inner)
    await ghost.start("go", run_id="bad", should_pause=lambda: True)
    caplog.clear()
    looking = Runner([], store=inner)
    store = FaultyStore(inner, plan)
    with pytest.raises(StoreUnavailable):
        await AsyncRunner(agents, store=store).sweep()
    stop = asyncio.Event()
    serving = AsyncRunner(agents, store=store).serve_forever(interval=0.01, stop=stop)
    task = asyncio.create_task(serving)
    await asyncio.to_thread(wait_until, partial(is_finished, looking, "good"))
    await asyncio.to_thread(wait_until, lambda: "run bad" in caplog.text)
    stop.set()
    await task
    assert listings > 2
    assert "could not be listed" in caplog.text
    told = [each for each in caplog.records if "run bad" in each.getMessage()]
    assert [("INFO", True)] == [
        (each.levelname, "left to other processes" in each.getMessage())
        for each in told
    ]


def test_invalid_serve_forever_options_are_rejected() -> None:
    """Both options must be positive."""
    runner = agent_builders.make_runner({})
    for every, at_once in ((0.0, 1), (float("nan"), 1), (1.0, 0)):
        with pytest.raises(InvalidInput):
            runner.serve_forever(interval=every, max_concurrent_runs=at_once)


async def test_run_in_progress_waits_for_no_second_slot() -> None:
    """It is due again while it runs. The loop goes on and looks for other runs."""

    class BusySweeper:
        """Has one due run, which goes on until the third look."""

        def __init__(self) -> None:
            self.looks = self.tries = 0
            self.looked_again = asyncio.Event()

        objects, retention = Objects(MemoryStore()), None

        async def due_runs(self) -> DueRuns:
            self.looks += 1
            if self.looks == 3:
                self.looked_again.set()
            return DueRuns({"r1": []}, None)

        async def try_run(self, run_id: str, due_markers: list[Any]) -> RunReport:
            del run_id, due_markers
            self.tries += 1
            await self.looked_again.wait()
            stop.set()
            return RunReport()

    stop = asyncio.Event()

    sweeper: Any = BusySweeper()
    async with asyncio.timeout(10):
        await run_sweep_loop(sweeper, stop, interval=0.001, max_concurrent_runs=1)
    tries: int = sweeper.tries
    assert 1 == tries


# Signals ----------------------------------------------------------------------


@pytest.fixture
def host_signals() -> Iterator[list[int]]:
    """Install a host's handlers; return the signals that they receive."""
    received: list[int] = []

    def receive(number: int, _frame: object) -> None:
        received.append(number)

    earlier = {
        number: signal.signal(number, receive)
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    yield received
    for number, handler in earlier.items():
        signal.signal(number, handler)


def make_runner() -> AsyncRunner:
    return AsyncRunner(agent_builders.make_boss({"go": ["end"]}), store="memory:")


def handlers() -> list[Any]:
    return [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]


def test_first_signal_is_handled_and_the_second_one_is_the_hosts(
    host_signals: list[int],
) -> None:
    before, handled = handlers(), list[int]()

    with stop_signals_handled(handled.append):
        signal.raise_signal(signal.SIGINT)
        assert before == handlers()
        signal.raise_signal(signal.SIGTERM)

    assert ([signal.SIGINT], [signal.SIGTERM]) == (handled, host_signals)


def test_handlers_are_restored_after_an_exception(host_signals: list[int]) -> None:
    before = handlers()

    with pytest.raises(LookupError), stop_signals_handled(print):
        raise LookupError

    assert before == handlers()
    signal.raise_signal(signal.SIGTERM)
    assert [signal.SIGTERM] == host_signals


def test_handler_that_the_host_sets_meanwhile_stays(host_signals: list[int]) -> None:
    late: list[int] = []

    with stop_signals_handled(print):
        signal.signal(signal.SIGTERM, lambda number, _: late.append(number))
    signal.raise_signal(signal.SIGTERM)

    assert ([], [signal.SIGTERM]) == (host_signals, late)


def test_ignored_signal_stays_ignored(host_signals: list[int]) -> None:
    """`nohup` and shells ignore signals on purpose."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    handled: list[int] = []

    with stop_signals_handled(handled.append):
        signal.raise_signal(signal.SIGINT)

    assert ([], []) == (handled, host_signals)


def test_other_thread_installs_no_handlers(host_signals: list[int]) -> None:
    before, seen = handlers(), list[Any]()

    def look() -> None:
        with stop_signals_handled(print):
            seen.extend(handlers())

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()

    assert before == seen
    assert [] == host_signals


async def test_serve_forever_in_a_foreign_loop_leaves_the_hosts_handlers(
    host_signals: list[int],
) -> None:
    """The host shuts down on SIGTERM; it stops the loop with `stop` when it is time."""
    before, stop = handlers(), asyncio.Event()
    serving = asyncio.create_task(make_runner().serve_forever(interval=0.01, stop=stop))
    await asyncio.sleep(0.05)
    assert before == handlers()
    signal.raise_signal(signal.SIGTERM)
    await asyncio.sleep(0.05)
    assert not serving.done()
    stop.set()
    await serving
    assert before == handlers()
    assert [signal.SIGTERM] == host_signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_serve_forever_handles_signals_if_asked(
    host_signals: list[int], number: signal.Signals
) -> None:
    before = handlers()
    serving = asyncio.create_task(
        make_runner().serve_forever(interval=60, handle_signals=True)
    )
    await asyncio.sleep(0.05)
    signal.raise_signal(number)
    await asyncio.wait_for(serving, 60)
    assert before == handlers()
    assert [] == host_signals


async def test_cancelled_serve_forever_restores_the_handlers(
    host_signals: list[int],
) -> None:
    before = handlers()
    serving = asyncio.create_task(make_runner().serve_forever(handle_signals=True))
    await asyncio.sleep(0.05)
    assert before != handlers()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert before == handlers()
    assert [] == host_signals


@pytest.mark.parametrize(
    "options",
    [
        {"interval": "1"},
        {"interval": float("inf")},
        {"interval": True},
        {"max_concurrent_runs": "8"},
        {"max_concurrent_runs": 2.0},
        {"stop": threading.Event()},
    ],
    ids=lambda options: next(iter(options)),
)
async def test_option_of_a_wrong_type_is_invalid_input(options: dict[str, Any]) -> None:
    [name] = options

    with pytest.raises(InvalidInput, match=f"^{name} must be "):
        await make_runner().serve_forever(**options)


# The log of a worker ----------------------------------------------------------


FIELDS = ("run_id", "version_from", "version_to", "outcome", "seconds")


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="continuations")
    return caplog


def moved(lines: pytest.LogCaptureFixture) -> list[tuple[Any, ...]]:
    """Return the fields of the lines about runs, and forget them."""
    found = [
        tuple(getattr(record, name) for name in FIELDS)
        for record in lines.records
        if hasattr(record, "version_from")
    ]
    lines.clear()
    return found


def test_worker_logs_one_line_for_each_run_that_it_moved(
    lines: pytest.LogCaptureFixture, clock: ManualClock
) -> None:
    """The line names run, versions, outcome and duration."""
    runner = Runner(make_boss(ONE_PAY_SCRIPT, pay), store=MemoryStore(), clock=clock)

    outcome = expect(runner.start("go", run_id="r1"), Suspended)
    assert [("r1", 0, 2, "suspended", 0.0)] == moved(lines)
    runner.resume("r1")  # moves nothing
    runner.sweep()
    assert [] == moved(lines)

    runner.decide(outcome.waits[0].id, Approve())
    clock.seconds += 120
    runner.sweep()

    assert [("r1", 2, 5, "finished", 0.0)] == moved(lines)


def test_line_has_no_texts_of_the_run(lines: pytest.LogCaptureFixture) -> None:
    """Neither the input nor arguments nor replies are in the log."""
    Runner(make_boss({"secret": ["hidden"]}), store=MemoryStore()).start(
        "secret", run_id="r1"
    )

    [record] = [each for each in lines.records if hasattr(each, "version_from")]
    assert "run r1: finished after " in record.getMessage()
    assert not {"secret", "hidden"} & set(record.getMessage().split())


def test_line_names_the_error_that_ended_the_work(
    lines: pytest.LogCaptureFixture,
) -> None:
    """Also a worker that could not finish has moved its run."""
    store: Store = MemoryStore()
    model = scripts.scripted_model({"go": [ModelError("down")]})

    with pytest.raises(ModelError):
        Runner(Agent("boss", model=model), store=store).start("go", run_id="r1")

    [(run_id, first, last, outcome, _)] = moved(lines)
    assert ("r1", 0, 2, "ModelError") == (run_id, first, last, outcome)
