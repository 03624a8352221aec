"""Which results are committed before the next step, and in how many requests."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Budget,
    Deny,
    Finished,
    Runner,
    Suspended,
    Wait,
    ask,
    tool,
    wait_for,
)
from continuations.errors import ContinuationsError
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ScriptedReply
from continuations.tools import ToolWait
from continuations_storage import MemoryStore
from continuations_storage.faults import Fault, FaultyStore, Operation, delayed
from tests import effect_log, scripts
from tests.clocks import ManualClock
from tests.engine import agent_builders
from tests.engine.agent_builders import (
    make_boss,
    root_tool_results,
    text_tool,
    wait_tool,
)
from tests.outcomes import expect
from tests.run_environment import RunEnvironment
from tests.sampling import RUNS_ALL_CASES
from tests.scripts import Script, call, scripted_model
from tests.stores import OneByOneStore

CHILDREN = 30
SCRIPT: scripts.Script = {
    "go": [[call("child", input=f"c{n}") for n in range(CHILDREN)], "end"],
    **{
        f"c{n}": [[call("work", n=n)], [call("work", n=n)], f"c{n} done"]
        for n in range(CHILDREN)
    },
}


def delay_creates(operation: Operation) -> Fault | None:
    """Let every write take as long as it does on an object store."""
    return delayed(0.01) if operation.verb == "create" else None


def test_thirty_children_need_few_versions(environment: RunEnvironment) -> None:
    """Far fewer versions than children times turns, and each effect once."""

    @tool
    async def work(n: int) -> str:
        """Work."""
        effect_log.append_effect("work", str(n))
        return f"worked {n}"

    model = scripts.scripted_model(SCRIPT)
    child = Agent("child", tools=[work], model=model)
    store = FaultyStore(MemoryStore(), delay_creates)
    runner = Runner(Agent("boss", tools=[child], model=model), store=store)

    # When thirty children take three turns each
    outcome = runner.start("go", run_id="r")

    # Then the run has a few dozen versions, not hundreds
    assert isinstance(outcome, Finished)
    assert [f"c{n} done" for n in range(CHILDREN)] == root_tool_results(outcome)
    assert 60 == len(environment.effect_names())
    assert 92 == len(environment.turns()) == len(set(environment.turns()))
    assert outcome.continuation.version <= 30
    versions = [
        o for o in store.operations if o.verb == "create" and o.key.startswith("runs/")
    ]
    assert outcome.continuation.version == len(versions)


def test_a_hundred_waits_come_with_a_few_versions() -> None:
    """Many parallel calls are one suspension."""
    pay = text_tool("pay", "paid {n}", {"n": int}, logs=True, approval=True)
    calls = [call("pay", n=n) for n in range(100)]
    model = scripts.scripted_model({"go": [calls, "end"]})
    runner = Runner(Agent("boss", tools=[pay], model=model), store=MemoryStore())

    outcome = expect(runner.start("go", run_id="r"), Suspended)

    assert 100 == len(outcome.waits) == len(list(runner.waiting()))
    assert outcome.continuation.version <= 3
    assert list(range(100)) == [wait.arguments["n"] for wait in outcome.waits]
    assert [] == effect_log.effects()


def test_a_finished_call_is_durable_before_the_next_turn(store: MemoryStore) -> None:
    """The next model call finds the intent and the result in the store."""
    looking = Runner([], store=store)
    seen: list[bool] = []

    @tool
    def work() -> str:
        """Look for the intent to run this very call."""
        calls = looking.look("r").root.calls
        seen.append(["started"] == [call.state for call in calls])
        return "worked"

    async def rule(request: ModelRequest) -> ScriptedReply:
        messages = [message.data for message in request.messages]
        if scripts.turn_count(messages) == 0:
            return scripts.assistant_message([call("work")], 0)
        kept = await looking.async_runner.look("r")
        seen.append(messages == kept.root.messages)
        return "end"

    agent = Agent("boss", tools=[work], model=ScriptedModel(rule))
    assert isinstance(Runner(agent, store=store).start("go", run_id="r"), Finished)

    assert [True, True] == seen
    assert [] == effect_log.effects()


# One agent --------------------------------------------------------------------


ALONE: Script = {"go": [[call("look")], "end"]}


@pytest.mark.parametrize(
    ("declared", "versions"),
    [
        # The claim; the reply and the intent to run it; the end.
        ({"read_only": True}, 3),
        ({"idempotent": True}, 3),
        # Its result, which cannot be obtained again, before the model is asked.
        ({}, 4),
    ],
)
def test_only_an_unrepeatable_result_costs_a_version(
    declared: dict[str, Any], versions: int
) -> None:
    """The result of a repeatable call is committed together with the next step."""
    look = text_tool("look", "seen", **declared)
    outcome = expect(agent_builders.make_runner(ALONE, look).start("go"), Finished)

    assert versions == outcome.continuation.version


# Stores that make several changes in one request ------------------------------


WORLD_SCRIPT: Script = {
    "pay": [[call("pay", cents=5)], "end"],
    "elect": [[call("elect"), call("pay", cents=1)], "end"],
    "late": [[call("late"), call("color")], [call("pay", cents=2)], "end"],
    "price": [[call("price"), call("late")], "end"],
    "clerk": [[call("clerk", input="go")], "end"],
    "hello": ["hi"],
    "more": [[call("pay", cents=7)], "done"],
}
CLERK: Script = {"go": [[call("pay", cents=3)], "end"]}
TASKS = sorted(WORLD_SCRIPT)
_ULID = re.compile(r"0[0-9][0-9a-hjkmnp-tv-z]{24}")
_SUFFIX = re.compile(r"-[0-9a-z]{8}(?=(?:[0-9]{2})?@)")
_DIGEST = re.compile(r"[0-9a-f]{32,}")


def normalized(key: str) -> str:
    """Return a key without its random parts."""
    return _SUFFIX.sub("-S", _DIGEST.sub("D", _ULID.sub("U", key)))


pay = text_tool("pay", "paid {cents}", {"cents": int}, approval=True)
elect = text_tool("elect", "elected", approval=ApprovalPolicy(votes=2))


@tool(
    approval=ApprovalPolicy(
        expires_after=timedelta(days=2), remind_after=timedelta(hours=6)
    ),
    idempotent=True,
)
def late() -> str:
    """Do something before a deadline."""
    return "not late"


@tool
def color() -> ToolWait[str]:
    """Ask for a color."""
    return ask("Which color?", within=timedelta(days=1), on_deadline=Answer("red"))


price = wait_tool("price", lambda: wait_for("price", int), ToolWait[int])


class Listener:
    """A notifier that also takes notices."""

    def __call__(self, wait: Any) -> None:
        """Take an open wait."""

    def on_notice(self, notice: Any) -> None:
        """Take a notice."""


def take(wait: Wait) -> None:
    """Take an open wait."""


NOTIFIERS: list[Any] = [None, take, Listener()]


@dataclass
class World:
    """A store, its clock, and the runner of a process."""

    has_commit: bool
    notify: Any
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        kind = MemoryStore if self.has_commit else OneByOneStore
        self.store = kind(self.clock.now)
        clerk = Agent("clerk", tools=[pay], model=scripted_model(CLERK))
        tools = (pay, elect, late, color, price, clerk)
        self.runner = Runner(
            make_boss(WORLD_SCRIPT, *tools),
            store=self.store,
            clock=self.clock,
            notify=self.notify,
        )

    def act(self, act: Act, number: int, run: str) -> str:
        """Do something, and return its result."""
        try:
            return type(act(self, number, run)).__name__
        except ContinuationsError as error:
            return type(error).__name__
        finally:
            self.clock.seconds += 1

    def keys(self) -> Counter[str]:
        """Return the keys of the store, without their random parts."""
        return Counter(map(normalized, asyncio.run(self.store.keys("", limit=10_000))))

    def waits(self, run: str) -> list[Any]:
        return sorted(self.runner.look(run).waits, key=lambda wait: wait.id)

    def a_wait(self, number: int, run: str) -> str:
        """Return the id of one of the open waits of a run."""
        waits = sorted(self.waits(run), key=lambda wait: (wait.kind, str(wait.tool)))
        return waits[number % len(waits)].id if waits else "approval-none@r"


if TYPE_CHECKING:
    Act = Callable[[World, int, str], Any]


def decide(verdict: Any) -> Act:
    return lambda w, n, r: w.runner.decide(w.a_wait(n, r), verdict)


def wait_some_hours(world: World, number: int, _: str) -> None:
    world.clock.seconds += number * 8 * 3600


ACTS: dict[str, Act] = {
    "start": lambda w, n, r: w.runner.start(
        TASKS[n % len(TASKS)], run_id=r, labels={"team": "a"}
    ),
    "start with a budget": lambda w, n, r: w.runner.start(
        TASKS[n % len(TASKS)], run_id=r, budget=Budget(requests=1)
    ),
    "enqueue": lambda w, n, r: w.runner.start(
        TASKS[n % len(TASKS)], run_id=r, work=False
    ),
    "approve as kim": decide(Approve(by="kim")),
    "approve as ann": decide(Approve(by="ann")),
    "answer": decide(Answer("blue")),
    "deny": decide(Deny(reason="no", by="kim")),
    "resume": lambda w, _, r: w.runner.resume(r),
    "signal": lambda w, n, r: w.runner.signal(r, "price", n),
    "publish": lambda w, n, _: w.runner.publish("price", n),
    "send": lambda w, _, r: w.runner.send(r, "more"),
    "pause": lambda w, _, r: w.runner.pause(r, by="kim"),
    "unpause": lambda w, _, r: w.runner.unpause(r, by="kim"),
    "cancel": lambda w, _, r: w.runner.cancel(r),
    "rewind": lambda w, n, r: w.runner.rewind(r, 1 + n),
    "fork": lambda w, _, r: w.runner.fork(r, run_id=f"{r}-fork"),
    "adopt": lambda w, _, r: w.runner.adopt(
        w.runner.look(r).to_bytes(), run_id=f"{r}-adopted"
    ),
    "erase": lambda w, _, r: w.runner.erase(r),
    "sweep": lambda w, _n, _r: w.runner.sweep(),
    "talk": lambda w, n, _: w.runner.thread(key="k").send(TASKS[n % len(TASKS)]),
    "post": lambda w, n, _: w.runner.thread(key="k").post(TASKS[n % len(TASKS)]),
    "stop a turn": lambda w, _n, _r: w.runner.thread(key="k").stop_turn(),
    "wait some hours": wait_some_hours,
}
MOVES = st.lists(
    st.tuples(st.sampled_from(sorted(ACTS)), st.integers(0, 7), st.sampled_from("rs")),
    min_size=1,
    max_size=14,
)


@given(first=st.integers(0, 7), moves=MOVES, notifier=st.integers(0, 2))
@settings(max_examples=1500 if RUNS_ALL_CASES else 60, deadline=None)
def test_store_that_commits_ends_with_the_same_keys(
    first: int, moves: list[tuple[str, int, str]], notifier: int
) -> None:
    worlds = [World(has_commit, NOTIFIERS[notifier]) for has_commit in (True, False)]
    for name, number, run in [("start", first, "r"), *moves]:
        outcomes = {world.act(ACTS[name], number, run) for world in worlds}
        assert 1 == len(outcomes), (name, outcomes)
        together, one_by_one = (world.keys() for world in worlds)
        assert together == one_by_one, (
            name,
            together - one_by_one,
            one_by_one - together,
        )


@pytest.mark.parametrize("other_key", [None, "runs/r/in/o-0000000000-other"])
def test_key_of_another_program_hides_no_request(other_key: str | None) -> None:
    """The listing of a commit may show that key alone."""
    store = MemoryStore()
    begun: list[str] = []

    @tool
    async def step(name: str) -> str:
        """Do a step; the first one lets an operator pause the run."""
        begun.append(name)
        if name == "first":
            if other_key:
                await store.create(other_key, b"")
            await AsyncRunner([], store=store).pause("r")
        return name

    first, second = ([call("step", name=name)] for name in ("first", "second"))
    script: Script = {"go": [first, second, "end"]}
    Runner(make_boss(script, step), store=store).start("go", run_id="r")

    assert ["first"] == begun
