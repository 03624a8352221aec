"""An `on_answer` function that ran before a rewind or fork runs again only if asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    Deny,
    Finished,
    Runner,
    Suspended,
    ToolContext,
    Wait,
    ask,
    external,
    sleep,
    tool,
    wait_for,
)
from continuations.core.rows.calls import Started
from continuations.errors import InvalidInput
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.engine.agent_builders import wait_tool
from tests.outcomes import expect, single_wait

booked: list[object] = []
# The tool calls these functions with the id of its wait.
begun: list[Callable[[str], object]] = []


@pytest.fixture(autouse=True)
def no_effects() -> None:
    """Begin without effects."""
    booked.clear()
    begun.clear()


rest = wait_tool("rest", lambda: wait_for("never"), Any)


def waiting_tool(kind: str, **options: Any) -> Any:
    """Return a tool that waits, and books what it gets."""

    @tool(**options)
    def receive(ctx: ToolContext) -> Any:
        """Wait."""
        waits: dict[str, Callable[[], Any]] = {
            "question": lambda: ask("Which?"),
            "event": lambda: wait_for("paid", str, key="k"),
            "signal": lambda: wait_for("paid", str),
            "external": lambda: external("scan", str),
            "deadline": lambda: ask("Which?", within=60, on_deadline=Answer("late")),
            "timer": lambda: sleep(60),
        }
        for happen in begun:
            happen(ctx.wait_id)
        return waits[kind]()

    @receive.on_answer
    def book(answer: str) -> str:
        booked.append(answer)
        return f"booked {answer}"

    return receive


class Case:
    """A run whose tool waits for one kind of answer."""

    def __init__(self, kind: str, **options: Any) -> None:
        self.kind, self.clock, self.store = kind, ManualClock(), MemoryStore()
        self.tools = [waiting_tool(kind, **options), rest]
        self.run_id = "r"

    def runner(self, second: str | ToolCall = "end") -> Runner:
        """Return a runner whose model has this second turn."""
        model = ScriptedModel([ToolCall("receive", {}), second])
        agent = Agent("clerk", tools=self.tools, model=model)
        return Runner(agent, store=self.store, clock=self.clock)

    def start(self) -> int:
        """Start the run, let it get one answer, and return the version that waits."""
        self.runner().start("go", run_id="r")
        parked = self.runner().look("r").version
        self.answer("one")
        self.runner(ToolCall("rest", {})).resume("r")
        return parked

    def go_back(self, how: str, version: int) -> None:
        """Rewind the run, or go on with a fork."""
        if how == "rewind":
            self.runner().rewind("r", version)
        else:
            self.run_id = self.runner().fork("r", version, run_id="f")

    def answer(self, value: str) -> None:
        """Answer the open wait of the run, as its kind is answered."""
        runner = self.runner()
        match self.kind:
            case "event":
                runner.publish("paid", value, key="k")
            case "signal":
                runner.signal(self.run_id, "paid", value)
            case "deadline" | "timer":
                self.clock.seconds += 61
            case _:
                runner.decide(self.wait().id, Answer(value, by="kim"))
        self.clock.seconds += 1

    def adopt(self, data: bytes) -> None:
        """Go on in another store with bytes of the run."""
        self.store, self.run_id = MemoryStore(), "a"
        self.runner().adopt(data, run_id="a")

    def wait(self) -> Wait:
        """Return the open wait of the run."""
        (wait,) = self.runner().look(self.run_id).waits
        return wait


KINDS = ["question", "event", "signal", "external", "deadline", "timer"]


@pytest.mark.parametrize("how", ["rewind", "fork"])
@pytest.mark.parametrize("kind", KINDS)
def test_function_that_got_an_answer_runs_again_only_if_a_person_approves(
    kind: str, how: str
) -> None:
    case = Case(kind)
    case.go_back(how, case.start())
    assert 1 == len(booked)

    case.answer("two")
    outcome = case.runner().resume(case.run_id)

    assert 1 == len(booked)
    assert isinstance(outcome, Suspended)
    (wait,) = outcome.waits
    assert ("unknown", 1) == (wait.kind, wait.stage)
    assert "Run r began the on_answer function of this call" in (wait.note or "")
    case.runner().decide(wait.id, Approve(by="kim"))
    assert isinstance(case.runner().resume(case.run_id), Finished)
    assert 2 == len(booked)


@pytest.mark.parametrize("how", ["rewind", "fork"])
def test_denied_function_does_not_run_again(how: str) -> None:
    case = Case("event")
    case.go_back(how, case.start())
    case.answer("two")
    case.runner().resume(case.run_id)

    case.runner().decide(case.wait().id, Deny(by="kim"))

    assert isinstance(case.runner().resume(case.run_id), Finished)
    assert ["one"] == booked


def test_function_of_a_tool_that_only_reads_runs_again_unasked() -> None:
    case = Case("event", read_only=True)
    case.go_back("rewind", case.start())
    case.answer("two")

    assert isinstance(case.runner().resume("r"), Finished)
    assert ["one", "two"] == booked


@pytest.mark.parametrize(("how", "asks"), [("rewind", False), ("fork", True)])
def test_verify_is_asked_in_the_run_whose_key_the_other_side_knows(
    how: str, *, asks: bool
) -> None:
    def verify() -> Answer:
        return Answer(f"seen {booked}")

    case = Case("event", verify=verify)
    case.go_back(how, case.start())
    case.answer("two")

    outcome = case.runner().resume(case.run_id)

    assert asks == isinstance(outcome, Suspended)
    assert ["one"] == booked


def test_fork_of_a_rewound_run_asks_too() -> None:
    """The copies of a version know which answers were used."""
    case = Case("event")
    case.go_back("rewind", case.start())
    case.go_back("fork", case.runner().look("r").version)
    case.answer("two")

    assert isinstance(case.runner().resume("f"), Suspended)
    assert ["one"] == booked


def test_early_answer_of_a_job_that_began_before_the_version_is_used_once() -> None:
    """The version has the start of the call. The job has answered since."""
    case = Case("external")
    begun.append(lambda wait_id: case.runner().decide(wait_id, Answer("one")))
    case.runner(ToolCall("rest", {})).start("go", run_id="r")
    assert ["one"] == booked
    numbers = range(1, case.runner().look("r").version)
    started = (n for n in numbers if _has_started(case, n))
    case.go_back("rewind", next(started))

    outcome = expect(case.runner().resume("r"), Suspended)

    assert [("unknown", 1)] == [(wait.kind, wait.stage) for wait in outcome.waits]
    assert ["one"] == booked


def _has_started(case: Case, version: int) -> bool:
    calls = case.runner().look("r", version=version).run_state.calls
    return any(isinstance(call.state, Started) for call in calls.values())


def _data(case: Case, version: int | None = None) -> bytes:
    return case.runner().look(case.run_id, version=version).to_bytes()


@pytest.mark.parametrize("run_id", [None, "a"])
@pytest.mark.parametrize("kind", KINDS)
def test_adopt_of_bytes_before_an_answer_that_was_used_is_refused(
    kind: str, run_id: str | None
) -> None:
    """The same store has the run, which knows that the function ran."""
    case = Case(kind)
    parked = case.start()

    with pytest.raises(InvalidInput, match="is in another state"):
        case.runner().adopt(_data(case, parked), run_id=run_id)

    assert 1 == len(booked)


@pytest.mark.parametrize("how", ["rewind", "fork"])
@pytest.mark.parametrize("kind", KINDS)
def test_adopt_in_another_store_asks_before_a_used_answer_is_used_again(
    kind: str, how: str
) -> None:
    """The bytes say that the function ran in versions that were left."""
    case = Case(kind)
    case.go_back(how, case.start())
    assert 1 == len(booked)
    case.adopt(_data(case))

    case.answer("two")
    outcome = case.runner().resume("a")

    assert 1 == len(booked)
    assert isinstance(outcome, Suspended)
    (wait,) = outcome.waits
    assert ("unknown", 1) == (wait.kind, wait.stage)
    assert "Run r began the on_answer function of this call" in (wait.note or "")
    case.runner().decide(wait.id, Approve(by="kim"))
    assert isinstance(case.runner().resume("a"), Finished)
    assert 2 == len(booked)


@pytest.mark.parametrize("kind", KINDS)
def test_adopt_in_another_store_does_not_use_an_answer_again(kind: str) -> None:
    """The bytes have the result of the call, and another call waits."""
    case = Case(kind)
    case.start()
    case.adopt(_data(case))

    case.clock.seconds += 3600
    case.runner().resume("a")

    assert ["never"] == [wait.event for wait in case.runner().look("a").waits]
    assert 1 == len(booked)


@pytest.mark.parametrize("kind", KINDS)
def test_adopt_of_bytes_whose_function_had_begun_asks_a_person(kind: str) -> None:
    """The outcome of the function is unknown."""
    case = Case(kind)
    last = case.start()
    while not _has_begun_answer(case, last):
        last += 1
    case.adopt(_data(case, last))

    case.clock.seconds += 3600
    wait = single_wait(case.runner().resume("a"))

    assert ("unknown", 1) == (wait.kind, wait.stage)
    assert 1 == len(booked)


def _has_begun_answer(case: Case, version: int) -> bool:
    calls = case.runner().look("r", version=version).run_state.calls
    return any(
        isinstance(call.state, Started) and call.stage == 1 for call in calls.values()
    )
