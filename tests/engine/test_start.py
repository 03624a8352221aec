"""Starting runs, now or later, and errors for runs that do not exist."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from continuations import Approve, Finished, Runner, Suspended, errors
from continuations.errors import RunBusy, RunExists
from continuations_storage import MemoryStore, Store
from continuations_storage.faults import Moment
from tests import effect_log, sample_app, scripts
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine import agent_builders
from tests.engine.payment_agent import pay
from tests.outcomes import single_wait
from tests.run_environment import RunEnvironment
from tests.scripts import Script, call

SCRIPT: Script = {"go": [[call("pay")], "end"], "other": ["end"]}


@pytest.fixture
def runner() -> Runner:
    return agent_builders.make_runner(SCRIPT, pay)


def test_starting_twice_with_one_input_is_one_run(runner: Runner) -> None:
    """While it waits, after the decision, and after its end."""
    first = runner.start("go", run_id="r1")
    again = runner.start("go", run_id="r1")
    assert isinstance(first, Suspended)
    assert isinstance(again, Suspended)
    assert first.waits == again.waits

    runner.decide(first.waits[0].id, Approve())
    for _ in range(2):
        assert isinstance(runner.start("go", run_id="r1"), Finished)
    assert ["pay "] == effect_log.names()
    assert ["go 0", "go 1"] == effect_log.turns()


@pytest.mark.parametrize(
    "other",
    [
        "other",
        "go ",
        [{"role": "user", "content": "go"}, {"role": "user", "content": "go"}],
    ],
)
def test_starting_with_another_input_is_refused(runner: Runner, other: Any) -> None:
    """`RunExists` is raised, and the run is unchanged."""
    before = runner.start("go", run_id="r1")

    with pytest.raises(errors.RunExists):
        runner.start(other, run_id="r1")
    assert before.continuation.version == runner.look("r1").version


def test_text_and_user_message_are_the_same_input(runner: Runner) -> None:
    runner.start("go", run_id="r1")

    outcome = runner.start([{"role": "user", "content": "go"}], run_id="r1")
    assert isinstance(outcome, Suspended)


def test_messages_of_a_conversation_begin_a_run(runner: Runner) -> None:
    """A system message of the input replaces the instructions."""
    messages = [
        {"role": "system", "content": "You are another."},
        {"role": "user", "content": "go"},
    ]
    outcome = runner.start(messages)

    assert messages == outcome.continuation.root.messages[:2]
    assert ["go 0"] == effect_log.turns()


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        5,
        [{}],
        [{"role": "nobody", "content": "x"}],
        [{"role": "tool", "tool_call_id": "x", "content": "orphan"}],
        [{"role": "user", "content": float("nan")}],
        [{"role": "user", "content": object()}],
        {"prompt": "x"},
    ],
)
def test_an_input_that_cannot_be_sent_starts_nothing(
    runner: Runner, wrong: Any
) -> None:
    """The input is checked before anything is written."""
    with pytest.raises(errors.InvalidInput):
        runner.start(wrong, run_id="r1")
    with pytest.raises(errors.RunNotFound):
        runner.look("r1")


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        ".x",
        "-x",
        "a/b",
        "a b",
        "ä",
        "x" * 201,
        "a\n",
        "../x",
        "a\x00",
        5,
        None,
        b"x",
    ],
)
def test_invalid_run_id_is_rejected_everywhere(runner: Runner, wrong: Any) -> None:
    """1 to 200 characters of `[A-Za-z0-9._-]`, the first a letter or digit."""
    methods: list[Callable[[Any], object]] = [
        runner.resume,
        runner.look,
        runner.cancel,
        lambda run_id: runner.send(run_id, "hello"),
    ]
    if wrong is not None:
        methods.append(lambda run_id: runner.start("go", run_id=run_id))
    for method in methods:
        with pytest.raises(errors.InvalidId):
            method(wrong)


def test_unusual_run_ids_work(runner: Runner) -> None:
    """Also an id that is a prefix of another."""
    for run_id in ("x" * 200, "a", "a.", "a..b", "a-b_c.D", "0", "A"):
        runner.decide(single_wait(runner.start("go", run_id=run_id)).id, Approve())
        assert isinstance(runner.resume(run_id), Finished)
    assert 7 == len(effect_log.names())


def test_unknown_run_or_wait_is_not_found(runner: Runner) -> None:
    for method in (runner.resume, runner.look, runner.cancel):
        with pytest.raises(errors.RunNotFound) as raised:
            method("r9")
        assert "r9" == raised.value.run_id
    with pytest.raises(errors.RunNotFound):
        runner.send("r9", "hello")
    with pytest.raises(errors.WaitNotFound):
        runner.wait(f"approval-{'0' * 26}@r9")


def test_run_is_bound_to_its_root_agent(store: MemoryStore) -> None:
    """The run id and the root agent's name belong together."""
    from continuations import Agent  # noqa: PLC0415 - only here

    one = agent_builders.make_boss(SCRIPT, pay)
    two = Agent("chief", tools=[pay], model=one.model)
    both = Runner([one, two], store=store)

    with pytest.raises(errors.InvalidInput):
        both.start("go")
    with pytest.raises(errors.InvalidInput):
        both.start("go", agent="nobody")
    assert isinstance(both.start("go", agent="chief", run_id="r1"), Suspended)
    with pytest.raises(errors.RunExists):
        both.start("go", agent="boss", run_id="r1")
    assert "chief" == both.look("r1").root.agent


def test_looking_never_writes(runner: Runner, environment: RunEnvironment) -> None:
    """Any version can be read any number of times."""
    del runner
    script: Script = {"go": [[call("pay", what="x")], "end"]}
    result = environment.start(script)
    before = environment.objects()
    looking = Runner([], store=environment.store)

    versions = [looking.look("r1", version=n) for n in range(1, result["version"] + 1)]

    assert before == environment.objects()
    assert ["running", "suspended"] == [versions[0].status, versions[-1].status]
    assert result["waits"][0]["id"] == looking.look("r1").waits[0].id
    assert "pay" == looking.look("r1").root.calls[0].tool


# Runs that are stored and start later -----------------------------------------


LATER_SCRIPT: Script = {"go": [[call("act", what="1")], "end"]}


def make_runner(store: Store, **options: Any) -> Runner:
    model = scripts.scripted_model(LATER_SCRIPT)
    return Runner(sample_app.make_agents(model), store=store, **options)


def all_keys(store: Store) -> list[str]:
    return asyncio.run(store.keys(""))


def test_enqueued_run_is_stored_and_nothing_ran(environment: RunEnvironment) -> None:
    outcome = make_runner(MemoryStore()).start("go", run_id="r1", work=False)

    assert isinstance(outcome, Suspended)
    assert (True, (), 1) == (
        outcome.paused,
        outcome.waits,
        outcome.continuation.version,
    )
    assert ([], []) == (environment.turns(), environment.effect_names())


def test_another_process_sweeps_an_enqueued_run(environment: RunEnvironment) -> None:
    """A fresh interpreter needs nothing but the store."""
    stored = environment.run("enqueue", "r1", "go", script=LATER_SCRIPT)
    [ended] = environment.run("sweep", script=LATER_SCRIPT)["resumed"]

    assert ("Suspended", True) == (stored["kind"], stored["paused"])
    assert ("Finished", "end") == (ended["kind"], ended["output"])
    assert ["act 1"] == environment.effect_names()


def test_resume_works_on_an_enqueued_run() -> None:
    runner = make_runner(MemoryStore())
    runner.start("go", run_id="r1", work=False)

    assert isinstance(runner.resume("r1"), Finished)
    assert ["act 1"] == effect_log.names()


def test_repeated_enqueue_writes_nothing_and_returns_the_outcome() -> None:
    """A job that is delivered twice is one run."""
    store = MemoryStore()
    runner = make_runner(store)
    runner.start("go", run_id="r1", work=False)
    before = all_keys(store)

    again = runner.start("go", run_id="r1", work=False)
    with pytest.raises(RunExists):
        runner.start("another task", run_id="r1", work=False)

    assert isinstance(again, Suspended)
    assert (True, before) == (again.paused, all_keys(store))
    runner.resume("r1")
    assert isinstance(runner.start("go", run_id="r1", work=False), Finished)
    assert ["act 1"] == effect_log.names()


async def test_enqueue_of_a_run_that_another_process_works_on_is_busy() -> None:
    store = MemoryStore()
    asking = asyncio.Event()

    class Slow:
        name = "slow"

        async def reply(self, request: object) -> Any:
            del request
            asking.set()
            await asyncio.Event().wait()

    slow = Runner(sample_app.make_agents(Slow()), store=store).async_runner
    working = asyncio.create_task(slow.start("go", run_id="r1"))
    await asking.wait()

    with pytest.raises(RunBusy):
        await slow.start("go", run_id="r1", work=False)
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working


@pytest.mark.parametrize("moment", ["before", "after"])
def test_crash_at_every_operation_of_an_enqueue(
    environment: RunEnvironment, moment: Moment
) -> None:
    """The run does not exist, or sweeps alone bring it to its end."""
    stored = 0
    for point in every_crash(moment, more_than=4):
        (environment.folder / "effects").unlink(missing_ok=True)
        clock = ManualClock()
        store = MemoryStore(clock.now)

        # When the process dies at one operation
        with point.process(store) as dying:
            make_runner(dying, clock=clock).start("go", run_id="r1", work=False)

        # Then the client may enqueue it again, or only sweeps come
        exists = any(key.startswith("runs/") for key in all_keys(store))
        stored += exists
        runner = make_runner(store, clock=clock)
        if not exists:
            runner.start("go", run_id="r1", work=False)
        for _ in range(3):
            clock.seconds += 120
            assert {} == runner.sweep().errors

        # And it ends, with one effect, and no marker is left
        assert "finished" == runner.look("r1").status, dying.operations[-1]
        assert ["act 1"] == environment.effect_names()
        for _ in range(3):
            clock.seconds += 3600
            runner.sweep()
        left = [key for key in all_keys(store) if key.startswith("markers/")]
        assert [] == left, dying.operations[-1]

    assert stored > 1
