"""Answers, deadlines, reminders and heartbeats after a rewind, a fork or `adopt`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal

import pytest

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    Deny,
    Finished,
    Runner,
    Suspended,
    ToolContext,
    Wait,
    ask,
    escalate,
    external,
    sleep,
    tool,
    wait_for,
)
from continuations.core.reading.past_rules import Act
from continuations.core.rows.calls import Started
from continuations.errors import DecisionRefused, InvalidInput
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import Tool, ToolWait
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.engine import agent_builders, test_votes
from tests.engine.agent_builders import text_tool, wait_tool
from tests.engine.test_heartbeats import Job
from tests.outcomes import expect, single_wait

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
ACTS = ("rewind", "fork", "adopt")

scan = wait_tool("scan", lambda: external("scan", int, within=HOUR), ToolWait[int])
choose = wait_tool("choose", lambda: ask("Which?"))


def make_pay(**policy: Any) -> Tool[..., Any]:
    """Return a tool whose calls kim approves."""
    return text_tool(
        "pay", "paid", approval=ApprovalPolicy(approvers=["kim"], **policy)
    )


class Office:
    """A run with one open wait, and the copy of it that an act makes."""

    def __init__(self, a_tool: Tool[..., Any]) -> None:
        self.clock = ManualClock()
        # Each says which notice was sent for the wait of which run.
        self.announced: list[tuple[str, str]] = []
        self.agent = Agent(
            "clerk",
            tools=[a_tool, choose],
            model=ScriptedModel([ToolCall(a_tool.name, {}), ToolCall("choose", {})]),
        )
        self.runner = self._new_runner()
        outcome = expect(self.runner.start("go", run_id="r"), Suspended)
        [self.wait] = outcome.waits
        self.version = outcome.continuation.version
        self.bytes = outcome.continuation

    def _new_runner(self) -> Runner[Any]:
        return Runner(
            self.agent,
            store=MemoryStore(self.clock.now),
            clock=self.clock,
            notify=lambda wait: self.announced.append((wait.run_id, wait.notice)),
        )

    def pass_time(self, period: timedelta) -> None:
        self.clock.seconds += period.total_seconds() + 1
        assert {} == self.runner.sweep().errors

    def go_on(self, wait: Wait, decision: Approve | Answer) -> None:
        """Decide a wait of the tool, and let the run go on to the next wait."""
        self.runner.decide(wait.id, decision)
        outcome = expect(self.runner.resume(wait.run_id), Suspended)
        assert ["choose"] == [each.tool for each in outcome.waits]

    def copy(self, act: Act) -> Wait:
        """Go back to the version of the wait; return the wait that opens again."""
        if act == "adopt":
            self.runner = self._new_runner()
            self.runner.adopt(self.bytes, run_id="copy")
        elif act == "fork":
            self.runner.fork("r", self.version, run_id="copy")
        else:
            self.runner.rewind("r", self.version)
        [wait] = self.runner.look("r" if act == "rewind" else "copy").waits
        return self.runner.wait(wait.id)


@pytest.mark.parametrize("act", ACTS)
def test_extension_ends_with_its_wait(act: Act) -> None:
    """The new wait has the hour of its tool: from now on, or as the bytes have it."""
    office = Office(scan)
    office.clock.seconds = 1800
    moved = office.runner.heartbeat(office.wait.id, extend=3 * HOUR)
    assert moved.deadline == office.wait.created_at + HOUR / 2 + 3 * HOUR

    office.go_on(office.wait, Answer(7))
    wait = office.copy(act)

    began = office.wait.created_at if act == "adopt" else office.clock.now()
    assert wait.deadline == began + HOUR


@pytest.mark.parametrize("act", ACTS)
def test_first_approvers_are_asked_again_after_an_escalation(act: Act) -> None:
    office = Office(make_pay(within=HOUR, on_deadline=escalate(to=["cfo"], within=DAY)))
    office.pass_time(HOUR)
    assert ("cfo",) == office.runner.wait(office.wait.id).approvers
    office.go_on(office.wait, Approve(by="cfo"))
    if act == "adopt":
        # The bytes have the deadline of the first approvers, which has not passed.
        office.clock.seconds -= HOUR.total_seconds() / 2

    wait = office.copy(act)

    assert ("kim",) == wait.approvers
    with pytest.raises(DecisionRefused, match="cfo is not one of its approvers"):
        office.runner.decide(wait.id, Approve(by="cfo"))
    office.go_on(wait, Approve(by="kim"))


@pytest.mark.parametrize("act", ["rewind", "fork"])
def test_expiry_has_no_effect_on_the_wait_that_opens_again(act: Act) -> None:
    office = Office(make_pay(within=HOUR))
    office.pass_time(HOUR)
    assert ["choose"] == [each.tool for each in office.runner.look("r").waits]

    wait = office.copy(act)

    assert wait.deadline == office.clock.now() + HOUR
    office.go_on(wait, Approve(by="kim"))


@pytest.mark.parametrize("act", ACTS)
def test_reminders_are_counted_from_the_time_of_the_wait(act: Act) -> None:
    """A new wait is reminded of after an hour; that of adopted bytes goes on."""
    office = Office(make_pay(remind_after=HOUR))
    office.pass_time(HOUR)
    assert [("r", "opened"), ("r", "reminder-1")] == office.announced
    office.clock.seconds += HOUR.total_seconds() / 2
    office.go_on(office.wait, Approve(by="kim"))
    run_id = office.copy(act).run_id
    office.announced.clear()

    office.pass_time(HOUR / 2)
    due_by_its_first_time = [each for each in office.announced if each[0] == run_id]
    office.pass_time(HOUR / 2)

    if act == "adopt":
        assert [(run_id, "reminder-2")] == due_by_its_first_time
    else:
        assert [] == due_by_its_first_time
        assert (run_id, "reminder-1") in office.announced


# Reminders, escalations and heartbeats ----------------------------------------


How = Literal["rewind", "fork", "adopt"]
EACH = pytest.mark.parametrize("how", ["rewind", "fork", "adopt"])


def repeated(runner: Any, how: How) -> Wait:
    """Begin run `r` again, or copy its newest version; return the only wait."""
    version = runner.look("r").version
    match how:
        case "rewind":
            runner.rewind("r", 1)
            runner.resume("r")
            return only_wait(runner, "r")
        case "fork":
            return only_wait(runner, runner.fork("r", version, run_id="f"))
        case "adopt":
            runner.adopt(runner.look("r").to_bytes(), run_id="a")
            return only_wait(runner, "a")


def only_wait(runner: Any, run_id: str) -> Wait:
    """Return the only wait of a run, as it is now."""
    [wait] = runner.look(run_id).waits
    found: Wait = runner.wait(wait.id)
    return found


def notices(office: test_votes.Office, wait: Wait) -> list[str]:
    """Return what was announced about a wait."""
    return [each.notice for each in office.announced if each.id == wait.id]


@EACH
def test_reminders_are_counted_anew(how: How) -> None:
    office = test_votes.Office(
        test_votes.PAY, agent_builders.make_pay(remind_after=HOUR)
    )
    first = office.start()
    office.pass_time(HOUR)
    assert ["opened", "reminder-1"] == notices(office, first)

    again = repeated(office.runner, how)
    office.pass_time(HOUR)

    assert first.id != again.id
    # An adopted wait keeps the time when it was opened.
    number = 2 if how == "adopt" else 1
    assert ["opened", f"reminder-{number}"] == notices(office, again)
    expected = ["opened", "reminder-1", *(["reminder-2"] if how != "rewind" else [])]
    assert expected == notices(office, first)


@EACH
def test_first_approvers_are_asked_again(how: How) -> None:
    """An escalation is no version: it belongs to the wait."""
    policy = {"within": DAY, "on_deadline": escalate(to=["cfo"], within=DAY)}
    office = test_votes.Office(
        test_votes.PAY, agent_builders.make_pay(approvers=["kim"], **policy)
    )
    first = office.start()
    office.pass_time(DAY)
    assert ("cfo",) == office.runner.wait(first.id).approvers

    again = repeated(office.runner, how)

    if how == "adopt":  # the bytes have the escalation
        assert ("cfo",) == again.approvers
        return
    assert ("kim",) == again.approvers
    with pytest.raises(DecisionRefused, match="cfo is not one of its approvers"):
        office.runner.decide(again.id, Approve(by="cfo"))
    # Its own deadline escalates it.
    assert again.deadline is not None
    office.pass_time(again.deadline - office.clock.now())
    assert ("cfo",) == office.runner.wait(again.id).approvers


@EACH
def test_heartbeat_counts_for_one_wait(how: How) -> None:
    job = Job()
    runner = job.runner()
    outcome = runner.start("go", run_id="r")
    [wait] = outcome.waits
    runner.heartbeat(wait.id, extend=timedelta(hours=5))
    extended = runner.wait(wait.id).deadline
    assert extended is not None
    assert extended > job.clock.now() + timedelta(hours=4)

    again = repeated(runner, how)
    if again.kind == "approval":  # the job was begun since the version
        runner.decide(again.id, Approve(by="kim"))
        runner.resume("r")
        again = only_wait(runner, "r")

    assert wait.id != again.id
    assert again.deadline is not None
    minute = job.clock.now() + timedelta(minutes=1)
    assert (extended if how == "adopt" else minute) == again.deadline


# Answers ----------------------------------------------------------------------


booked: list[object] = []
# The tool calls these functions with the id of its wait.
begun: list[Callable[[str], object]] = []


@pytest.fixture(autouse=True)
def no_effects() -> None:
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
        (wait,) = self.runner().look(self.run_id).waits
        return wait


KINDS = ["question", "event", "signal", "external", "deadline", "timer"]


@pytest.mark.parametrize("how", ["rewind", "fork"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("adopts", [False, True])
def test_function_that_got_an_answer_runs_again_only_if_a_person_approves(
    kind: str, how: str, *, adopts: bool
) -> None:
    """Also in another store: the bytes say that the function ran in a version."""
    case = Case(kind)
    case.go_back(how, case.start())
    assert 1 == len(booked)
    if adopts:
        case.adopt(_data(case))

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
