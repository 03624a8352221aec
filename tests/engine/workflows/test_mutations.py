"""Random changes of code meet histories: refused, or the same as from the start.

A program is a tree of steps. It runs up to a suspension, some of its waits are decided,
and a new process resumes it with a changed program. The oracle is the changed program
that runs from the start on an empty store, with the same decisions at the same times.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from continuations import (
    Answer,
    Approve,
    Deny,
    Failed,
    Flow,
    Runner,
    Suspended,
    ToolContext,
    Wait,
    ask,
    sleep,
    tool,
    workflow,
)
from continuations.errors import CallDenied, WorkflowChanged
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine.workflows.flow_tools import RUN, make_runner
from tests.hostile.editable_store import EditableStore
from tests.run_environment import RunEnvironment

Block = list["Step"]
# A decision of the wait with these facts, or a resume at a time of the clock.
Event = tuple[str, ...] | float

ROUNDS = 2
# The mutations of each of the five programs.
MUTATIONS = 400 if os.environ.get("TORTURE") else 16
OLD_RUNS = 2
MAX_PROCESSES = 60


# Programs ----------------------------------------------------------------------------


@dataclass
class Step:
    """One step of a program.

    Attributes:
        kind: `call`, `gather`, `race`, `timeout`, `sub`, `restart`, `sleep`, `zero`,
            `ask` or `patched`.
        value: The argument of a call, the number of a question, or seconds.
        tool: The tool of a call.
        branches: The steps inside; for `patched`, the new code and the old code.
    """

    kind: str
    value: int = 0
    tool: str = ""
    branches: list[Block] = field(default_factory=list["Block"])

    @property
    def name(self) -> str:
        """The step as a text."""
        return f"{self.kind} {self.tool} {self.value}"


@dataclass
class Program:
    """The steps of a workflow, and those of a workflow that it calls."""

    main: Block
    inner: Block

    def blocks(self) -> list[Block]:
        return [*_blocks(self.main), *_blocks(self.inner)]


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for step in block:
        for branch in step.branches:
            yield from _blocks(branch)


def add(value: int) -> Step:
    """Return a call of `add`."""
    return Step("call", value, "add")


def pay(value: int) -> Step:
    """Return a call of `pay`, which a person approves."""
    return Step("call", value, "pay")


def question(number: int) -> Step:
    """Return a question; an odd one is answered only if nothing else can happen."""
    return Step("ask", number)


def rest(seconds: int) -> Step:
    return Step("sleep", seconds)


def both(*branches: Block) -> Step:
    return Step("gather", branches=[*branches])


def race(*branches: Block) -> Step:
    """Return a wait for the first branch, which cancels the others."""
    return Step("race", branches=[*branches])


def within(seconds: int, *steps: Step) -> Step:
    return Step("timeout", seconds, branches=[[*steps]])


def sub(number: int) -> Step:
    return Step("sub", number)


INNER = [add(90), pay(91), add(92)]
PROGRAMS: dict[str, Program] = {
    "gather": Program(
        [
            add(1),
            both([add(2), pay(3)], [question(4), add(6)], [pay(7)]),
            add(8),
            pay(9),
            add(11),
        ],
        INNER,
    ),
    "race": Program(
        [
            add(1),
            race([pay(2), add(3)], [question(5), add(6)], [rest(60), add(7)]),
            race([question(7)], [rest(30), pay(8)], [rest(90)]),
            add(9),
            question(4),
        ],
        INNER,
    ),
    "timeout": Program(
        [
            within(60, question(3)),
            add(1),
            both([within(90, question(6)), pay(2)], [rest(30), add(4)]),
            within(45, add(12), question(5)),
            pay(11),
        ],
        INNER,
    ),
    "sub": Program(
        [
            both([sub(2)], [add(3), sub(4)]),
            race([sub(5)], [question(8)]),
            pay(7),
            add(6),
        ],
        [add(90), both([pay(91)], [rest(20), add(93)]), add(92)],
    ),
    "loop": Program(
        [
            add(1),
            both([pay(2)], [rest(40), add(3)]),
            question(4),
            rest(60),
            Step("restart"),
            pay(6),
        ],
        INNER,
    ),
}


# Their code --------------------------------------------------------------------------


@tool(name="add")
async def add_tool(ctx: ToolContext, value: int) -> int:
    """Add."""
    effect_log.record(effect_log.Effect.of("add", value, ctx))
    return value + 1000


@tool(name="note")
async def note_tool(ctx: ToolContext, value: int) -> int:
    """Note."""
    effect_log.record(effect_log.Effect.of("note", value, ctx))
    return value + 2000


@tool(name="pay", approval=True)
async def pay_tool(ctx: ToolContext, value: int) -> str:
    """Pay."""
    effect_log.record(effect_log.Effect.of("pay", value, ctx))
    return f"paid {value}"


TOOLS: dict[str, Any] = {"add": add_tool, "note": note_tool, "pay": pay_tool}


@dataclass
class Past:
    """The work of the old code, which no new code does again.

    Attributes:
        program: The old program.
        rounds: The number of the round of the loop in which it stopped.
        ended: The inner workflows that had ended.
        patches: The answers of `flow.patched`, by round.
    """

    program: Program
    rounds: int = 1
    ended: frozenset[int] = frozenset()
    patches: dict[int, bool] = field(default_factory=dict[int, bool])


class Code:
    """The workflow of a program, which logs what it comes to.

    Attributes:
        workflow: The workflow.
        trace: The calls and results of each workflow, in their order, in one process.
        rounds: The number of the newest round of the loop.
        begun: The inner workflows that began.
        patches: The answers of `flow.patched`, by round.
    """

    def __init__(self, program: Program, past: Past | None = None) -> None:
        self.trace: dict[str, list[str]] = {}
        self.rounds = 1
        self.begun: set[int] = set()
        self.patches: dict[int, bool] = {}
        self._past = past
        code = self

        @workflow(name="inner", tools=[*TOOLS.values()])
        async def inner(flow: Flow, number: int) -> int:
            code.begun.add(number)
            is_past = past is not None and number in past.ended
            steps = past.program.inner if past and is_past else program.inner
            await code.run(steps, flow, f"inner {number}", 0)
            return number  # and nothing that depends on the steps

        @workflow(name="main", tools=[*TOOLS.values()], agents=[inner])
        async def main(flow: Flow, number: int) -> str:
            code.rounds = max(number, code.rounds)
            is_past = past is not None and number < past.rounds
            steps = past.program.main if past and is_past else program.main
            key = f"main {number}"
            return " ".join(await code.run(steps, flow, key, number))

        self._inner = inner
        self.workflow: Any = main

    async def run(self, steps: Block, flow: Flow, key: str, number: int) -> list[str]:
        """Make the steps; return their results."""
        return [await self._step(each, flow, key, number) for each in steps]

    async def _step(self, step: Step, flow: Flow, key: str, number: int) -> str:
        match step.kind:
            case "call" | "ask" | "sub":
                trace = self.trace.setdefault(key, [])
                trace.append(step.name)
                result = await self._called(step, flow)
                trace.append(f"{step.name}: {result}")
                return result
            case "zero":
                await asyncio.sleep(0)
            case "sleep":
                await sleep(timedelta(seconds=step.value))
            case "restart":
                # A round without a result must not begin anew.
                has_result = any(": " in each for each in self.trace.get(key, ()))
                if number < ROUNDS and has_result:
                    flow.restart(number + 1)
            case "patched":
                new, old = step.branches
                is_new = self._is_patched(flow, number)
                return f"{await self.run(new if is_new else old, flow, key, number)}"
            case _:
                return await self._branches(step, flow, key, number)
        return step.kind

    async def _called(self, step: Step, flow: Flow) -> str:
        if step.kind == "ask":
            return await ask(f"q{step.value}")
        if step.kind == "sub":
            return str(await flow.call(self._inner, step.value))
        try:
            return str(await flow.call(TOOLS[step.tool], value=step.value))
        except CallDenied:
            return "denied"

    async def _branches(self, step: Step, flow: Flow, key: str, number: int) -> str:
        runs = [self.run(each, flow, key, number) for each in step.branches]
        if step.kind == "gather":
            return f"{await asyncio.gather(*runs)}"
        if step.kind == "timeout":
            try:
                async with asyncio.timeout(step.value):
                    return f"{await runs[0]}"
            except TimeoutError:
                return "late"
        tasks = [asyncio.create_task(each) for each in runs]
        done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        return f"{[each.result() for each in tasks if each in done]}"

    def _is_patched(self, flow: Flow, number: int) -> bool:
        if self._past is not None:
            return self._past.patches.get(number, True)
        answer = flow.patched("change")
        assert answer == self.patches.setdefault(number, answer)
        return answer


# Mutations ---------------------------------------------------------------------------


def mutated(program: Program, rng: Random) -> tuple[str, Program]:
    """Return a changed copy of a program, and the kind of the change."""
    kind = rng.choice([*MUTATORS])
    for _ in range(100):
        changed = deepcopy(program)
        block = rng.choice([each for each in changed.blocks() if each])
        if MUTATORS[kind](changed, block, rng.randrange(len(block)), rng):
            return kind, changed
    return mutated(program, rng)  # there is nothing to change in this way


def _new_step(rng: Random) -> Step:
    value = rng.randrange(200, 1000)
    calls = [Step("call", value, each) for each in TOOLS]
    return rng.choice([*calls, question(value), rest(value), both([add(value)], [])])


def _insert(_: Program, block: Block, place: int, rng: Random) -> bool:
    block.insert(place + rng.randrange(2), _new_step(rng))
    return True


def _delete(_: Program, block: Block, place: int, rng: Random) -> bool:
    del rng, block[place]
    return True


def _swap(_: Program, block: Block, place: int, rng: Random) -> bool:
    other = rng.randrange(len(block))
    block[place], block[other] = block[other], block[place]
    return place != other


def _argument(_: Program, block: Block, place: int, rng: Random) -> bool:
    step = block[place]
    step.value = rng.randrange(200, 1000)
    return step.kind in ("call", "ask", "sub")


def _tool(_: Program, block: Block, place: int, rng: Random) -> bool:
    old, block[place].tool = block[place].tool, rng.choice([*TOOLS])
    return old not in ("", block[place].tool)


def _wrap(_: Program, block: Block, place: int, rng: Random) -> bool:
    step = block[place]
    beside: list[Block] = [[], [_new_step(rng)], [Step("zero"), _new_step(rng)]]
    kind = rng.choice(["gather", "race", "timeout"])
    branches = [[step]] if kind == "timeout" else [[step], rng.choice(beside)]
    block[place] = Step(kind, 300, branches=branches)
    return step.kind != "restart"


def _sleep(_: Program, block: Block, place: int, rng: Random) -> bool:
    step = block[place]
    step.value = rng.choice([1, 10, 35, 70, 500])
    return step.kind in ("sleep", "timeout")


def _zero(_: Program, block: Block, place: int, rng: Random) -> bool:
    block.insert(place + rng.randrange(2), Step("zero"))
    return True


def _patched(program: Program, block: Block, place: int, rng: Random) -> bool:
    old = block[place]
    new = [[], [_new_step(rng)], [old, _new_step(rng)]]
    block[place] = Step("patched", branches=[rng.choice(new), [old]])
    is_inner = any(block is each for each in _blocks(program.inner))
    return old.kind != "restart" and not is_inner


MUTATORS = {
    "insert": _insert,
    "delete": _delete,
    "swap": _swap,
    "argument": _argument,
    "tool": _tool,
    "wrap": _wrap,
    "sleep": _sleep,
    "zero": _zero,
    "patched": _patched,
}


# Processes ---------------------------------------------------------------------------


class Site:
    """A store with one run, and a person who decides what it asks.

    Args:
        environment: Where the tools log their effects.
        stop: Go on with the run that stopped there.
    """

    def __init__(self, environment: RunEnvironment, stop: Stop | None = None) -> None:
        environment.clear_logs()
        self.store = EditableStore(stop.bodies if stop else None)
        self.clock = ManualClock(stop.seconds if stop else 0)
        self.outcome: Any = stop
        self.trace: dict[str, list[tuple[int, str]]] = {}
        self._environment = environment
        self._effects = stop.effects if stop else ()
        self._processes = 0
        self._decided: set[str] = set()

    def effects(self) -> list[str]:
        return [*self._effects, *self._environment.effect_names()]

    def runner(self, code: Code) -> Runner:
        return make_runner(code.workflow, store=self.store, clock=self.clock)

    def process(self, code: Code) -> None:
        """Start or resume the run in a new process.

        Add what the code came to in it for the first time to the trace of the run.
        """
        code.trace.clear()
        runner = self.runner(code)
        if self.outcome is None:
            self.outcome = runner.start(code.workflow.bind(1), run_id=RUN)
        else:
            self.outcome = runner.resume(RUN)
        self._processes += 1
        for key, names in code.trace.items():
            before = self.trace.setdefault(key, [])
            new = names[len(before) :]
            before += [(self._processes, each) for each in new]

    def open_waits(self) -> list[Wait]:
        """Return the waits for people, sorted by what they ask."""
        if not isinstance(self.outcome, Suspended):
            return []
        waits = [each for each in self.outcome.waits if each.kind != "alarm"]
        return sorted(waits, key=facts_of)

    def decidable(self) -> list[Wait]:
        """Return the waits that a person decides before any time passes."""
        waits = [each for each in self.open_waits() if each.id not in self._decided]
        if not self.alarms():
            return waits
        return [each for each in waits if not is_odd_question(each)]

    def alarms(self) -> list[float]:
        """Return the times of the clock at which timers are due."""
        start = self.clock.now() - timedelta(seconds=self.clock.seconds)
        return sorted(
            (each.deadline - start).total_seconds()
            for each in self.outcome.waits
            if each.kind == "alarm" and each.deadline is not None
        )

    def decide(self, facts: tuple[str, ...]) -> None:
        """Decide the first wait with some facts; raises `LookupError` without one."""
        waits = [each for each in self.open_waits() if facts_of(each) == facts]
        waits = [each for each in waits if each.id not in self._decided]
        if not waits:
            raise LookupError(*facts)
        self._decided.add(waits[0].id)
        # Every fifth payment is denied.
        is_denied = json.loads(waits[0].arguments_json).get("value", 1) % 5 == 0
        verdict = Deny(by="kim") if is_denied else Approve(by="kim")
        answer = Answer(f"yes {waits[0].question}")
        runner = make_runner(store=self.store, clock=self.clock)
        runner.decide(waits[0].id, answer if waits[0].kind == "question" else verdict)

    def follow(self, script: Sequence[Event], code: Code) -> None:
        """Let code meet the same decisions at the same times."""
        self.process(code)
        for event in script:
            if isinstance(event, tuple):
                self.decide(event)
            else:
                self.clock.seconds = event
                self.process(code)

    def pass_time(self, which: int = 0) -> None:
        """Let time pass until a second after a timer is due: the first or last one."""
        for due in self.alarms()[which:][:1]:
            self.clock.seconds = max(self.clock.seconds, due + 1)

    def finish(self, code: Code) -> None:
        """Go on until the run ends: decide all waits, and then let all time pass."""
        for _ in range(MAX_PROCESSES):
            if not isinstance(self.outcome, Suspended):
                return
            for wait in self.decidable():
                self.decide(facts_of(wait))
            self.pass_time(-1)
            self.process(code)
        pytest.fail("the run does not end")

    def live_inner(self) -> set[int]:
        """Return the numbers of the inner workflows that have not ended."""
        state = make_runner(store=self.store, clock=self.clock).look(RUN).run_state
        starts = [state.logs[each.id].messages[0] for each in state.frames.values()]
        arguments = [json.loads(each.data["content"]) for each in starts]
        return {each["number"] for each in arguments[1:]}

    def result(self) -> tuple[str, str]:
        """Return how the run ended."""
        if isinstance(self.outcome, Failed):
            return "failed", self.outcome.error.message
        return "finished", self.outcome.result()


def facts_of(wait: Wait) -> tuple[str, ...]:
    """Return what a wait is about, which is the same in each store."""
    return (wait.kind, *wait.path, wait.arguments_json, wait.question or "")


def is_odd_question(wait: Wait) -> bool:
    """Return whether a question is answered only if nothing else can happen."""
    return wait.kind == "question" and int((wait.question or "q0")[1:]) % 2 == 1


@dataclass
class Stop:
    """Where an old program stopped.

    Attributes:
        script: Its decisions, and resumes at times of the clock.
        trace: The calls and results of its code, with the numbers of the processes.
        asked: The subjects of its open waits before the last decisions.
        past: The work that no new code does again.
        bodies: The objects of the store.
        effects: The effects.
        seconds: The time of the clock.
    """

    script: list[Event]
    trace: dict[str, list[tuple[int, str]]]
    asked: list[tuple[str, ...]]
    past: Past
    bodies: dict[str, bytes]
    effects: tuple[str, ...]
    seconds: float


def stops_of(site: Site, program: Program, rng: Random) -> list[Stop]:
    """Run a program to its end; return each suspension, with some waits decided.

    The decisions between two processes are in any order.
    """
    stops, script = list[Stop](), list[Any]()
    code = Code(program)
    site.process(code)
    while isinstance(site.outcome, Suspended):
        asked = [facts_of(each) for each in site.open_waits()]
        is_decided = decide_some(site, script, rng, rng.randrange(3))
        ended = frozenset(code.begun - site.live_inner())
        past = Past(program, rounds=code.rounds, ended=ended)
        stops.append(
            Stop(
                [*script],
                deepcopy(site.trace),
                asked,
                past,
                site.store.bodies,
                tuple(site.effects()),
                site.clock.seconds,
            )
        )
        if not is_decided:
            site.pass_time()
        script.append(float(site.clock.seconds))
        site.process(code)
    return stops


def decide_some(site: Site, script: list[Event], rng: Random, count: int) -> bool:
    """Decide some waits without a resume; return whether there was one."""
    length = len(script)
    for _ in range(count):
        waits = site.decidable()
        if waits:
            facts = facts_of(rng.choice(waits))
            script.append(facts)
            site.decide(facts)
    return len(script) > length


def does_the_same(site: Site, code: Code, stop: Stop) -> bool:
    """Run changed code from the start up to the stop of the old program.

    Return whether it stops there as well, after the same calls and results.
    """
    try:
        site.follow(stop.script, code)
    except LookupError:
        return False
    asked = [facts_of(each) for each in site.open_waits()]
    return (stop.trace, stop.asked) == (site.trace, asked)


# The test ----------------------------------------------------------------------------


def check_one(
    stop: Stop, rng: Random, environment: RunEnvironment, what: str
) -> tuple[str, bool]:
    """Change a program where it stopped; return the kind, and if it was accepted."""
    site = Site(environment, stop)
    kind, changed = mutated(stop.past.program, rng)
    what = f"{what}: {kind}"
    effects, before = site.effects(), site.store.bodies
    past = replace(stop.past, patches={})
    code = Code(changed)
    (row,) = site.runner(code).drift()
    assert before == site.store.bodies, what
    code.patches.clear()
    try:
        site.process(code)
    except WorkflowChanged:
        assert "refuse" == row.verdict, what
        assert before == site.store.bodies, what
        assert effects == site.effects(), what
        fresh = Site(environment)
        assert not does_the_same(fresh, Code(changed, past), stop), what
        return kind, False
    assert "accept" == row.verdict, what
    site.finish(code)
    done, result = site.effects(), site.result()
    assert effects == done[: len(effects)], what
    check_patches(code.patches, changed, stop, what)
    past.patches.update(code.patches)
    fresh, code = Site(environment), Code(changed, past)
    assert does_the_same(fresh, code, stop) or kind == "patched", what
    fresh.process(code)
    fresh.finish(code)
    assert fresh.effects() == done, what
    assert fresh.result() == result, what
    return kind, True


def check_patches(
    patches: dict[int, bool], changed: Program, stop: Stop, what: str
) -> None:
    """The new code runs where the old code did not come, and in later rounds."""
    rounds = stop.past.rounds
    made = [name for _, name in stop.trace.get(f"main {rounds}", ())]
    for step in (each for block in _blocks(changed.main) for each in block):
        if step.kind == "patched":
            (old,) = step.branches[1]
            if old.kind in ("call", "ask", "sub") and rounds in patches:
                assert patches[rounds] == (old.name not in made), what
            assert all(patches[each] for each in patches if each > rounds), what


@pytest.mark.parametrize("name", PROGRAMS)
def test_changed_program_is_refused_or_goes_on_as_from_its_start(
    name: str, environment: RunEnvironment
) -> None:
    """A refusal comes before the claim, exactly if the changed code did otherwise."""
    stops: list[Stop] = []
    for number in range(OLD_RUNS):
        rng = Random(f"{name} {number}")  # noqa: S311 - repeatable
        stops += stops_of(Site(environment), PROGRAMS[name], rng)
    accepted, refused = Counter[str](), Counter[str]()
    for number in range(MUTATIONS):
        rng = Random(f"{name} {number} changed")  # noqa: S311 - repeatable
        stop, what = rng.choice(stops), f"{name} {number}"
        kind, is_accepted = check_one(stop, rng, environment, what)
        (accepted if is_accepted else refused)[kind] += 1

    assert 0 == refused["patched"]  # it is how code is changed
    # Of the mutations of each program, a fifth is refused, and a fifth is accepted.
    assert MUTATIONS / 5 <= accepted.total()
    assert MUTATIONS / 5 <= refused.total()
