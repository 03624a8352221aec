"""The form of an approval: `ApprovalPolicy(form=…)`, `Approve(form=…)`, `ctx.form`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    Deny,
    Finished,
    Grant,
    Runner,
    ToolContext,
    Wait,
    resume,
    run,
    tool,
)
from continuations.errors import AlreadyDecided, DecisionRefused, InvalidInput
from continuations.results import Vote
from continuations.tools import Tool
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss, root_tool_results
from tests.engine.form_agent import Booking, Ticket
from tests.outcomes import single_wait
from tests.run_environment import RunEnvironment
from tests.scripts import call, scripted_model

APP = "tests.engine.form_agent:agents"
PAY: Any = {"go": [[call("pay", cents=5)], "end"]}
BOOKING = {"account": "travel", "booked_on": "2026-11-22", "limit": 9}


class Limit(BaseModel):
    """A form with a rule that no JSON Schema has."""

    limit: int

    @field_validator("limit")
    @classmethod
    def is_even(cls, value: int) -> int:
        if value % 2:
            msg = "it must be even"
            raise ValueError(msg)
        return value


def make_pay(**policy: Any) -> Tool[..., Any]:
    """Return a tool that returns its form."""

    @tool(approval=ApprovalPolicy(**policy))
    def pay(cents: int, ctx: ToolContext) -> str:
        """Pay an amount."""
        return f"{cents} {ctx.form!r}"

    return pay


def make_runner(store: Any = "memory:", **policy: Any) -> Runner:
    """Return a runner whose tool `pay` has this approval policy."""
    return Runner(make_boss(PAY, make_pay(**policy)), store=store)


def start(runner: Runner) -> Wait:
    return single_wait(runner.start("go", run_id="r", by="ann"))


@pytest.mark.fresh_interpreters
def test_forms_reach_their_tools_in_other_processes(
    environment: RunEnvironment,
) -> None:
    """Three agents deep, each step in a fresh interpreter: the exact types return."""
    forms: Mapping[str, Any] = {
        "pay": BOOKING,
        "close": {"number": 4},
        "note": {"text": "hi"},
    }
    outcome = environment.run("start", "r1", "go", app=APP)
    assert {"pay", "close", "note"} == {wait["tool"] for wait in outcome["waits"]}
    for wait in outcome["waits"]:
        environment.approve(wait, form=forms[wait["tool"]])

    outcome = environment.run("resume", "r1", app=APP)

    assert "Finished" == outcome["kind"]
    [line] = environment.effects()
    assert f"5 {Booking.model_validate(BOOKING)!r}" == line["what"]
    read = environment.run("tool-results", "r1", "B", app=APP)["tool_results"]
    for text in ("travel 2026 9", "closed x by ticket 5", "noted hi"):
        assert text in read


def test_repeat_after_a_crash_has_the_form_of_the_approval(
    environment: RunEnvironment,
) -> None:
    """A person who allows the repeat fills in nothing: the call is as it was."""
    outcome = environment.run("start", "r1", "kill", app=APP)
    environment.approve(outcome["waits"][0], form=BOOKING)
    assert 0 != environment.spawn("resume", "r1", app=APP, lease="0.1").wait()
    [unknown] = environment.run("resume", "r1", app=APP, ahead="60")["waits"]
    assert "unknown" == unknown["kind"]
    refused = environment.approve(unknown, form=BOOKING)
    assert "DecisionRefused" == refused["raised"]
    environment.approve(unknown)

    outcome = environment.run("resume", "r1", app=APP, ahead="60")

    assert "Finished" == outcome["kind"]
    first, second = environment.effects()
    assert first["what"] == second["what"]


def test_answer_function_has_the_form_too(environment: RunEnvironment) -> None:
    outcome = environment.run("start", "r1", "receipt", app=APP)
    environment.approve(outcome["waits"][0], form={"number": 3})
    [question] = environment.run("resume", "r1", app=APP)["waits"]
    environment.decide(question, {"answer": {"value": "here", "by": "kim"}})

    messages = environment.run("resume", "r1", app=APP)["messages"]

    assert "here for ticket 3" == messages[-2]["content"]


@pytest.mark.parametrize(
    ("form", "named"),
    [
        (None, "form with the fields account, booked_on"),
        ({}, "account"),
        ({**BOOKING, "account": "home"}, "account"),
        ({**BOOKING, "booked_on": "soon"}, "booked_on"),
        ({**BOOKING, "limit": "many"}, "limit"),
        ([], "must be a dict, got list"),
        ("yes", "must be a dict, got str"),
        ({**BOOKING, "limit": object()}, "cannot be stored"),
    ],
)
def test_form_that_does_not_fit_is_refused(form: Any, named: str) -> None:
    """The error names the field; nothing is recorded, and the wait stays open."""
    store = MemoryStore()
    runner = make_runner(store, form=Booking)
    wait = start(runner)

    with pytest.raises(DecisionRefused, match=named):
        runner.decide(wait.id, Approve(by="kim", form=form))

    assert wait == runner.wait(wait.id)
    runner.decide(wait.id, Approve(by="kim", form=BOOKING))
    assert isinstance(runner.resume("r"), Finished)


def test_form_where_none_is_asked_for_is_refused() -> None:
    runner = make_runner(name="plain")
    wait = start(runner)

    with pytest.raises(DecisionRefused, match="has no form"):
        runner.decide(wait.id, Approve(by="kim", form={}))


@pytest.mark.parametrize("verdict", [Deny(by="kim"), Answer("by hand", by="kim")])
def test_other_verdicts_need_no_form(verdict: Any) -> None:
    runner = make_runner(form=Booking)
    runner.decide(start(runner).id, verdict)

    assert isinstance(runner.resume("r"), Finished)


def test_repeated_approval_is_the_same_with_the_same_form_only() -> None:
    runner = make_runner(form=Ticket)
    wait = start(runner)
    first = runner.decide(wait.id, Approve(by="kim", form={"number": 1}))

    assert first == runner.decide(wait.id, Approve(by="kim", form={"number": 1.0}))
    with pytest.raises(AlreadyDecided):
        runner.decide(wait.id, Approve(by="kim", form={"number": 2}))


def test_votes_count_together_if_their_forms_are_equal() -> None:
    """A vote with another form is another decision."""
    runner = make_runner(form=Ticket, votes=2)
    wait = start(runner)
    for name, number in (("kim", 1), ("lee", 2)):
        vote = runner.decide(wait.id, Approve(by=name, form={"number": number}))
        assert isinstance(vote, Vote)
        assert (f'{{"number":{number}}}', 1) == (vote.form, vote.still_needed)

    decision = runner.decide(wait.id, Approve(by="max", form={"number": 2}))

    assert ("lee", "max") == getattr(decision, "voters", None)
    assert ["5 Ticket(number=2)"] == root_tool_results(runner.resume("r"))


def test_grant_cannot_fill_in_a_form(store: MemoryStore) -> None:
    """None is given, and one of an earlier policy covers no call."""
    runner = make_runner(form=Ticket)
    with pytest.raises(DecisionRefused, match="a grant cannot fill it in"):
        runner.decide(
            start(runner).id,
            Approve(by="kim", form={"number": 1}, remember=Grant("pay")),
        )
    script: Any = {"go": [PAY["go"][0], PAY["go"][0], "end"]}
    before = Runner(make_boss(script, make_pay()), store=store)
    before.decide(start(before).id, Approve(by="kim", remember=Grant("pay")))
    asked: list[int] = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 4

    before.resume("r", should_pause=stop)
    after = Runner(make_boss(script, make_pay(form=Ticket)), store=store)

    wait = single_wait(after.resume("r"))

    assert wait.form_schema is not None


def test_condition_cannot_approve_and_may_deny() -> None:
    """`Approve()` of a rule asks a person; `False` lets the call begin without form."""
    verdicts: Any = {1: Approve(), 2: Deny(reason="no"), 3: False}

    def rule(cents: int) -> Any:
        return verdicts[cents]

    script: Any = {"go": [[call("pay", cents=n) for n in verdicts], "end"]}
    runner = Runner(
        make_boss(script, make_pay(form=Ticket, when=rule)), store="memory:"
    )

    wait = start(runner)

    assert {"cents": 1} == wait.arguments
    runner.decide(wait.id, Approve(by="kim", form={"number": 1}))
    one, two, three = root_tool_results(runner.resume("r"))
    assert ("1 Ticket(number=1)", "3 None") == (one, three)
    assert two.startswith("DENIED")


def test_validator_that_rejects_a_form_asks_again() -> None:
    """The schema accepts the form; the type does not. Nothing runs."""
    runner = make_runner(form=Limit)
    runner.decide(start(runner).id, Approve(by="kim", form={"limit": 3}))

    again = single_wait(runner.resume("r"))

    assert "The form was rejected: " in (again.note or "")
    assert "limit" in (again.note or "")
    runner.decide(again.id, Approve(by="kim", form={"limit": 4}))
    assert ["5 Limit(limit=4)"] == root_tool_results(runner.resume("r"))


class OtherTicket(BaseModel):
    """The form of a later deployment."""

    number: int
    reason: str


@pytest.mark.parametrize(
    ("before", "after"),
    [(Ticket, OtherTicket), (None, Ticket), (Ticket, None)],
)
def test_approval_does_not_outlive_a_change_of_the_form(
    before: Any, after: Any, store: MemoryStore
) -> None:
    """A deployment changes the form between the approval and the call."""
    old = make_runner(store, form=before)
    form = None if before is None else {"number": 1}
    old.decide(start(old).id, Approve(by="kim", form=form))
    new = make_runner(store, form=after)

    again = single_wait(new.resume("r"))

    assert "form" in (again.note or "")
    assert (after is None) == (again.form_schema is None)


def test_description_of_a_field_may_change(store: MemoryStore) -> None:
    class Plain(BaseModel):
        number: int

    class Described(BaseModel):
        """A description."""

        number: int

    old = make_runner(store, form=Plain)
    old.decide(start(old).id, Approve(by="kim", form={"number": 1}))
    Described.__name__ = Described.__qualname__ = "Plain"

    new = make_runner(store, form=Described)

    assert isinstance(new.resume("r"), Finished)


def test_recheck_that_fails_asks_for_the_form_again() -> None:
    answers = ["the balance is too low", None, None, None]

    def recheck() -> str | None:
        return answers.pop(0)

    runner = make_runner(form=Ticket, recheck=recheck)
    runner.decide(start(runner).id, Approve(by="kim", form={"number": 1}))
    again = single_wait(runner.resume("r"))
    assert "the balance is too low" in (again.note or "")

    with pytest.raises(DecisionRefused, match="needs a form"):
        runner.decide(again.id, Approve(by="kim"))
    runner.decide(again.id, Approve(by="kim", form={"number": 2}))

    assert ["5 Ticket(number=2)"] == root_tool_results(runner.resume("r"))


def test_edit_and_form_together() -> None:
    runner = make_runner(form=Ticket, editable=["cents"])
    wait = start(runner)
    approve = Approve(by="kim", arguments={"cents": 3}, form={"number": 1})
    runner.decide(wait.id, approve)

    [result] = root_tool_results(runner.resume("r"))

    assert result.endswith("3 Ticket(number=1)")


def test_form_without_a_store() -> None:
    """Bytes keep the form's schema; a decision without the form is refused."""
    agent = make_boss(PAY, make_pay(form=Booking))
    outcome = run(agent, "go")
    wait, data = single_wait(outcome), outcome.continuation.to_bytes()
    with pytest.raises(DecisionRefused, match="account"):
        resume(data, agent, answers={wait.id: Approve(by="kim")})

    end = resume(data, agent, answers={wait.id: Approve(by="kim", form=BOOKING)})

    assert [f"5 {Booking.model_validate(BOOKING)!r}"] == root_tool_results(end)


def test_form_of_an_agents_policy() -> None:
    """It also asks before a sub-agent, which does not read the form."""
    script: Any = {"go": [[call("clerk", input="A")], "end"], "A": [PAY["go"][0], "x"]}
    model = scripted_model(script)
    policy = ApprovalPolicy(form=Ticket)
    clerk = Agent("clerk", tools=[make_pay()], model=model, approval=policy)
    boss = Agent("boss", tools=[clerk], model=model, approval=policy)
    runner = Runner(boss, store="memory:")
    runner.decide(start(runner).id, Approve(by="kim", form={"number": 1}))

    inner = single_wait(runner.resume("r"))

    assert (None, "pay") == (inner.form_schema, inner.tool)


def test_deadline_ends_the_wait_without_a_form(clock: ManualClock) -> None:
    policy = {"form": Ticket, "within": 60, "on_deadline": Deny(reason="too late")}
    boss = make_boss(PAY, make_pay(**policy))
    runner = Runner(boss, store=MemoryStore(clock.now), clock=clock)
    start(runner)
    clock.seconds = 61

    runner.sweep()

    [result] = root_tool_results(runner.resume("r"))
    assert result.startswith("DENIED")
    assert result.endswith("Reason: too late")


@pytest.mark.parametrize("form", [int, "Ticket", list[int], dict[str, int], 5])
def test_form_must_be_a_class_with_fields(form: Any) -> None:
    with pytest.raises(InvalidInput, match="ApprovalPolicy: form"):
        ApprovalPolicy(form=form)
