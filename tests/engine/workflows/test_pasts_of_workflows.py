"""The past of workflows: rewinds, forks, stops of a worker, refusals and drift."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    Finished,
    Flow,
    Runner,
    Suspended,
    Wait,
    ask,
    sleep,
    tool,
    workflow,
)
from continuations.core.messages import Message
from continuations.errors import WorkflowChanged
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine.agent_builders import text_tool
from tests.engine.workflows.flow_tools import (
    RUN,
    add,
    make_runner,
    objects,
    pay,
    the_wait,
)
from tests.hostile.editable_store import EditableStore
from tests.outcomes import expect
from tests.run_environment import RunEnvironment

WAITING, PASSED = (1_000, 100) if os.environ.get("TORTURE") else (300, 30)
LATER = 120

note = text_tool("note", "noted {what}", {"what": str}, logs=True)


def make_trip() -> Any:
    """Return a workflow with approvals, a gather, a sleep and a sub-agent."""

    def reply(request: ModelRequest) -> Any:
        last = request.messages[-1]
        is_told = last.role == "tool"
        return "told" if is_told else ToolCall("pay", {"cents": 70})

    teller = Agent("teller", tools=[pay], model=ScriptedModel(reply))

    @workflow(tools=[add, note, pay], agents=[teller])
    async def trip(flow: Flow) -> str:
        """Add, pay, ask, sleep and tell."""
        mine = await flow.call(note, f"{flow.uuid()}")
        first = await flow.call(add, 1, 1)
        paid, total = await asyncio.gather(
            flow.call(pay, first), flow.call(add, first, 5)
        )
        name = await ask("Who?")
        await sleep(timedelta(minutes=1))
        told = await flow.call(teller, "go")
        last = await flow.call(pay, total)
        return f"{mine} {flow.uuid()} {name} {paid} {told} {last}"

    return trip


class Trip:
    """A run in a store of its own, and a person who decides whatever it asks.

    Attributes:
        store: The store.
        clock: The clock.
        asked: The calls that the person was asked about, as names of effects.
        begun: The effects that this run had when it was copied.
    """

    def __init__(
        self,
        environment: RunEnvironment,
        bodies: Mapping[str, bytes] | None = None,
        begun: Sequence[str] = (),
    ) -> None:
        self.store = EditableStore(bodies)
        self.clock = ManualClock(LATER if bodies else 0)
        self.asked: list[str] = []
        self.begun = [*begun]
        self._environment = environment

    def copy(self) -> Trip:
        """Return the run in another store, as if it had been alone."""
        copy = Trip(self._environment, self.store.bodies, self.effects())
        self._environment.clear_logs()
        return copy

    def effects(self) -> list[str]:
        """Return the effects of the run, in their order."""
        return [*self.begun, *self._environment.effect_names()]

    def runner(self) -> Runner:
        return make_runner(make_trip(), store=self.store, clock=self.clock)

    def versions(self) -> list[int]:
        return [each.number for each in self.runner().history(RUN)]

    def start_entry(self, run_id: str) -> Message:
        return self.runner().look(run_id).run_state.logs["f1"].messages[0]

    def finish(self, run_id: str = RUN, *, repeats: bool, last: str = "") -> Any:
        """Resume in a new process after each decision; return the last outcome.

        Args:
            run_id: The run.
            repeats: Approve each call. Else answer for those that ran before.
            last: Stop when this call asks for an approval.
        """
        for _ in range(30):
            runner = self.runner()
            outcome = runner.resume(run_id)
            if not isinstance(outcome, Suspended):
                return outcome
            for wait in outcome.waits:
                name = effect_of(wait)
                if wait.kind == "question":
                    runner.decide(wait.id, Answer("zoe"))
                elif wait.kind == "alarm":
                    self.clock.seconds += 61
                elif name == last:
                    return outcome
                else:
                    self.asked.append(name)
                    ran = not repeats and name in self.effects()
                    verdict = Answer(result_of(wait)) if ran else Approve(by="kim")
                    runner.decide(wait.id, verdict)
        pytest.fail("the run does not end")


def effect_of(wait: Wait) -> str:
    return f"{wait.tool} {'+'.join(map(str, wait.arguments.values()))}"


def result_of(wait: Wait) -> Any:
    """Return the result of the call of a wait, as who knows its effect says it."""
    (first, *more) = wait.arguments.values()
    if wait.tool == "add":
        return first + sum(more)
    return f"{'paid' if wait.tool == 'pay' else 'noted'} {first}"


def begun_trip(environment: RunEnvironment) -> tuple[Trip, str, list[str]]:
    """Return a trip before its last payment, and the result and effects of its end."""
    trip, code = Trip(environment), make_trip()
    runner = make_runner(code, store=trip.store, clock=trip.clock)
    runner.start(code.bind(), run_id=RUN)
    assert isinstance(trip.finish(repeats=True, last="pay 7"), Suspended)
    trip = trip.copy()
    undisturbed = trip.copy()
    result: str = undisturbed.finish(repeats=True).result()
    effects = undisturbed.effects()
    environment.clear_logs()
    assert [*trip.begun, "pay 7"] == effects
    return trip, result, effects


# Rewinds and forks -------------------------------------------------------------------


@pytest.mark.parametrize("repeats", [False, True], ids=["who knows", "who repeats"])
def test_rewound_run_ends_like_an_undisturbed_one(
    repeats: bool, environment: RunEnvironment
) -> None:
    """A call that began after the version is never repeated unasked."""
    begun, result, effects = begun_trip(environment)
    repeated = 0
    versions = begun.versions()
    assert 10 < len(versions)
    for version in versions[:-1]:
        environment.clear_logs()
        trip = begun.copy()
        rewound = trip.runner().rewind(RUN, version)

        ended = expect(trip.finish(repeats=repeats), Finished)

        assert result == ended.result(), version
        done = trip.effects()
        again = Counter(done) - Counter({*done})
        assert again <= Counter(trip.asked), version
        assert repeats or effects == done, version
        since = {each.tool for each in rewound.calls}
        assert since <= {each.split()[0] for each in trip.asked}
        repeated += again.total()

    assert repeats == (repeated > 10)


def test_run_is_rewound_again_and_again(environment: RunEnvironment) -> None:
    """From its end to its start: it goes on for a while after each rewind."""
    trip, result, effects = begun_trip(environment)

    for version in reversed(trip.versions()[:-1]):
        trip.runner().rewind(RUN, version)
        assert isinstance(trip.finish(repeats=False, last="pay 7"), Suspended)
        assert effects[:-1] == trip.effects(), version

    assert result == trip.finish(repeats=False).result()
    assert effects == trip.effects()


def test_fork_keeps_the_randomness_of_the_run(environment: RunEnvironment) -> None:
    """The UUID that was used before the fork, and the one that is used after it."""
    trip, result, _ = begun_trip(environment)
    forks = [
        trip.runner().fork(RUN, version=version, run_id=f"fork-{version}")
        for version in trip.versions()
    ]

    ends = [trip.finish(each, repeats=True).result() for each in forks]

    assert 10 < len(forks)
    start = trip.start_entry(RUN)
    assert [start] * len(forks) == [trip.start_entry(each) for each in forks]
    assert {result} == {*ends}
    (used,) = {each for each in trip.effects() if each.startswith("note")}
    _, first, second, _ = result.split(" ", 3)
    assert used.split()[1] == first
    assert first != second


# A worker that stopped ---------------------------------------------------------------


def sums(place: int = 0) -> Any:
    """Return a workflow of three calls; one of them gets a call at its side."""

    @workflow(tools=[add, pay], name="sums")
    async def code(flow: Flow) -> str:
        async def call(number: int, made: Coroutine[Any, Any, Any]) -> Any:
            beside = [flow.call(add, 9, 9)] if number == place else []
            return (await asyncio.gather(made, *beside))[0]

        first = await call(1, flow.call(add, 0, 1))
        second = await call(2, flow.call(add, first, 2))
        return str(await call(3, flow.call(pay, second)))

    return code


def stopped(code: Any, questions: int) -> tuple[MemoryStore, Suspended]:
    """Return a store after a worker that stops when it is asked once more."""
    store, answers = MemoryStore(), [False] * questions
    paused = make_runner(code, store=store).start(
        code.bind(), run_id=RUN, should_pause=lambda: not answers or answers.pop()
    )
    assert isinstance(paused, Suspended)
    return store, paused


@pytest.mark.parametrize("place", [1, 2, 3])
def test_new_parallel_call_is_made_where_the_history_does_not_come(place: int) -> None:
    """Also if the outcome before that place is stored, and the code never saw it."""
    verdicts: list[bool] = []
    for questions in range(20):
        effect_log.clear()
        old, new = sums(), sums(place)
        store, paused = stopped(old, questions)
        done, before = effect_log.names(), objects(store)
        roles = [
            each["role"]
            for each in make_runner(old, store=store).look(RUN).root.messages
        ]
        has_passed = roles.count("assistant") >= place
        verdicts.append(has_passed)
        runner = make_runner(new, store=store)
        (row,) = runner.drift()
        assert ("refuse" if has_passed else "accept") == row.verdict
        assert before == objects(store)
        if has_passed:
            with pytest.raises(WorkflowChanged, match="the code has a call of add"):
                runner.resume(RUN)
            assert before == objects(store)
            assert done == effect_log.names()
        else:
            runner.decide(the_wait(runner.resume(RUN)), Approve(by="kim"))
            assert "paid 3" == runner.resume(RUN).result()
            made = Counter(effect_log.names())
            assert Counter(["add 0+1", "add 1+2", "pay 3", "add 9+9"]) == made
        if paused.waits:
            break
    else:
        pytest.fail("no worker came to the payment")

    assert {False, True} == {*verdicts}


def test_outcome_that_the_code_never_saw_is_in_no_history() -> None:
    """The stop that the test above is about: the effect happened, no code saw it."""
    stored: set[tuple[str, tuple[str, ...], int]] = set()
    for questions in range(8):
        effect_log.clear()
        old = sums()
        store, _ = stopped(old, questions)
        look = make_runner(old, store=store).look(RUN)
        roles = tuple(each["role"] for each in look.root.messages)
        step = look.run_state.frames["f1"].step
        stored.add((step, roles, len(effect_log.effects())))

    assert ("new", ("user",), 0) in stored
    assert ("due", ("user", "assistant"), 1) in stored


# Refusals ----------------------------------------------------------------------------


@tool
def measure() -> int:
    """Measure."""
    return 5


@tool(name="measure")
def measure_in_words() -> list[str]:
    """Measure, in words."""
    return ["five"]


def flow_of(function: Callable[[Flow], Any], *tools: Any, agents: Any = ()) -> Any:
    """Return a workflow called `code`."""
    return workflow(name="code", tools=[*tools], agents=[*agents])(function)


async def sleeps(flow: Flow) -> str:
    """Add and sleep."""
    total = await flow.call(add, 1, 1)
    await sleep(60)
    return str(total)


async def does_not_sleep(flow: Flow) -> str:
    """Add."""
    return str(await flow.call(add, 1, 1))


async def awaits_payment(flow: Flow) -> str:
    """Pay in a task, and await the result."""
    task = asyncio.create_task(flow.call(pay, 1))
    await asyncio.sleep(0)
    return await task


async def leaves_payment(flow: Flow) -> str:
    """Pay in a task, and return before its end."""
    task = asyncio.create_task(flow.call(pay, 1))
    await asyncio.sleep(0)
    return "done" if not task.done() else task.result()


async def raises_beside_payment(flow: Flow) -> str:
    """Pay in a task, and raise."""
    task = asyncio.create_task(flow.call(pay, 1))
    await asyncio.sleep(0)
    raise LookupError(f"no such {task.done()}")


async def measures(flow: Flow) -> str:
    """Measure and ask."""
    length = await flow.call(measure)
    return f"{length} {await ask('Well?')}"


async def measures_in_words(flow: Flow) -> str:
    """Measure and ask."""
    length = await flow.call(measure_in_words)
    return f"{length} {await ask('Well?')}"


async def gives_up(flow: Flow) -> str:
    """Give up a payment, and ask."""
    task = asyncio.create_task(flow.call(pay, 1))
    await flow.call(add, 1, 1)
    task.cancel()
    await asyncio.wait([task])
    return await ask("Well?")


async def does_not_give_up(flow: Flow) -> str:
    """Ask beside a payment."""
    task = asyncio.create_task(flow.call(pay, 1))
    await flow.call(add, 1, 1)
    return f"{await ask('Well?')} {await task}"


async def takes_text(flow: Flow, first: str) -> str:
    """Ask, with a text."""
    return f"{first} {await ask('Well?')}" if flow else ""


async def takes_number(flow: Flow, first: int) -> str:
    """Ask, with a number."""
    return f"{first} {await ask('Well?')}" if flow else ""


def calls_inner(function: Any) -> Any:
    """Return a workflow that calls another one with a text."""
    inner = workflow(name="inner")(function)

    async def outer(flow: Flow) -> str:
        text: str = await flow.call(inner, "x")
        return text

    return flow_of(outer, agents=[inner])


REFUSED: dict[str, tuple[Any, Any, str]] = {
    "ends beside a timer": (
        flow_of(sleeps, add),
        flow_of(does_not_sleep, add),
        "the code ends where the history waits",
    ),
    "ends beside a call": (
        flow_of(awaits_payment, pay),
        flow_of(leaves_payment, pay),
        "the history has a call of pay where the code makes no call",
    ),
    "raises beside a call": (
        flow_of(awaits_payment, pay),
        flow_of(raises_beside_payment, pay),
        "where the code makes no call: it raised LookupError: no such False",
    ),
    "another type of a result": (
        flow_of(measures, measure),
        flow_of(measures_in_words, measure_in_words),
        "the recorded result of a call of measure does not fit its type",
    ),
    "another type of an argument": (
        calls_inner(takes_text),
        calls_inner(takes_number),
        "the code of workflow inner does not fit its history: its arguments do not fit",
    ),
    "does not cancel": (
        flow_of(gives_up, add, pay),
        flow_of(does_not_give_up, add, pay),
        "the history cancels a call of pay, and the code does not",
    ),
}


def check_refused(store: MemoryStore, new: Any, text: str) -> None:
    """Resume and look for drift; both name the difference and write nothing."""
    before = objects(store)
    with pytest.raises(WorkflowChanged, match=text) as caught:
        make_runner(new, store=store).resume(RUN)
    assert "workflow" == caught.value.change
    assert RUN == caught.value.run_id
    (row,) = make_runner(new, store=store).drift()
    assert ["workflow"] == [each.change for each in row.why]
    assert before == objects(store)


@pytest.mark.parametrize("what", REFUSED)
def test_code_that_stands_elsewhere_is_refused(what: str, store: MemoryStore) -> None:
    old, new, text = REFUSED[what]
    waiting = make_runner(old, store=store).start(old.bind(), run_id=RUN)
    assert isinstance(waiting, Suspended)
    done = effect_log.names()

    check_refused(store, new, text)

    assert done == effect_log.names()
    assert isinstance(make_runner(old, store=store).resume(RUN), Suspended)


async def races(flow: Flow) -> str:
    """Return the first of a note and an answer."""
    tasks = [asyncio.create_task(flow.call(note, "a")), asyncio.create_task(stop())]
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    return done.pop().result()


async def stop() -> str:
    """Ask."""
    return await ask("Stop?")


async def goes_on(flow: Flow) -> str:
    """Return a note and an answer."""
    tasks = [asyncio.create_task(flow.call(note, "a")), asyncio.create_task(stop())]
    return " ".join(await asyncio.gather(*tasks))


def test_code_that_goes_on_where_the_history_ends_is_refused() -> None:
    """The function has ended, and a call whose outcome is unknown has not."""
    old, new = flow_of(races, note), flow_of(goes_on, note)
    tried = 0
    for point in every_crash("before", more_than=3, step=1):
        effect_log.clear()
        store, clock = MemoryStore(), ManualClock()
        with point.process(store) as dying:
            make_runner(old, store=dying, clock=clock).start(old.bind(), run_id=RUN)
        if ["note a"] != effect_log.names():
            continue
        clock.seconds += LATER
        runner = make_runner(old, store=store, clock=clock)
        waiting = runner.resume(RUN)
        assert isinstance(waiting, Suspended | Finished)
        kinds = {each.kind for each in getattr(waiting, "waits", ())}
        if kinds != {"unknown", "question"}:
            continue
        tried += 1
        runner.decide(the_wait(waiting, "question"), Answer("stop"))
        make_runner(old, store=store, clock=clock).resume(RUN)
        look = runner.look(RUN)
        assert "ends" == look.run_state.frames["f1"].step

        check_refused(store, new, "the code goes on where the history ends")

        assert ["note a"] == effect_log.names()
        (unknown,) = look.waits
        runner.decide(unknown.id, Answer("noted a"))
        assert "stop" == make_runner(old, store=store, clock=clock).resume(RUN).result()
    assert tried


# Drift over many ---------------------------------------------------------------------


def make_kinds(*, is_new: bool) -> list[Any]:
    """Return three workflows; one of them changes after its question."""

    @workflow
    async def plain(_flow: Flow) -> str:
        return await ask("Well?")

    @workflow(tools=[add, pay])
    async def pays(flow: Flow) -> str:
        both = await asyncio.gather(flow.call(add, 1, 1), flow.call(add, 2, 2))
        await flow.call(pay, sum(both))
        await sleep(60)
        return "done"

    @workflow(tools=[add, pay])
    async def changes(flow: Flow) -> str:
        await ask("Well?")
        await flow.call(add, 1, 2 if is_new else 1)
        return await flow.call(pay, 3)

    return [plain, pays, changes]


def test_drift_names_exactly_the_runs_that_went_past_the_change(
    environment: RunEnvironment, store: MemoryStore, clock: ManualClock
) -> None:
    passed: list[str] = []
    old = make_kinds(is_new=False)
    runner = make_runner(*old, store=store, clock=clock)
    for number in range(WAITING):
        kind, run_id = old[number % 3], f"r{number:04}"
        waiting = runner.start(kind.bind(), run_id=run_id, agent=kind.name)
        if kind.name == "changes" and len(passed) < PASSED:
            runner.decide(the_wait(waiting, "question"), Answer("yes"))
            assert isinstance(runner.resume(run_id), Suspended)
            passed.append(run_id)
    environment.clear_logs()
    before = objects(store)

    rows = list(make_runner(*make_kinds(is_new=True), store=store, clock=clock).drift())

    assert WAITING == len(rows)
    refused = [each for each in rows if each.verdict != "accept"]
    assert passed == [each.run_id for each in refused]
    assert PASSED == len(passed)
    for row in refused:
        (reason,) = row.why
        assert ("workflow", ("changes",)) == (reason.change, reason.path)
        assert "a call of add with other arguments" in reason.text
    assert [] == environment.effects()
    assert before == objects(store)
