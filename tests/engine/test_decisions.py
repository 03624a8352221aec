"""What a decision does: denial, expiry, cancellation, edited arguments, policies."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from continuations import (
    Agent,
    AlreadyDecided,
    Answer,
    ApprovalPolicy,
    Approve,
    Cancelled,
    DecisionRefused,
    Deny,
    Failed,
    Finished,
    InvalidInput,
    Runner,
    Suspended,
    ToolContext,
    WaitExpired,
    tool,
)
from continuations_storage import MemoryStore
from tests.engine import ledgers, scripts
from tests.engine.offices import Clock, boss, results
from tests.engine.world import until

if TYPE_CHECKING:
    from continuations import Outcome, Wait
    from tests.engine.scripts import Script
    from tests.engine.world import World

PAY: Script = {"go": [[["pay", {"cents": 5}]], "end"]}


def payer(policy: Any = True) -> Any:
    """Return the tool `pay` with a policy."""

    def pay(cents: int, to: str = "kim") -> str:
        """Pay."""
        ledgers.add(ledgers.EFFECTS, tool="pay", what=f"{cents} {to}")
        return f"paid {cents} to {to}"

    return tool(pay, approval=policy)


def waiting(runner: Runner, run_id: str = "r1") -> Wait:
    """Start a run and return the wait that it stands at."""
    outcome = runner.start("go", run_id=run_id)
    assert isinstance(outcome, Suspended)
    [wait] = outcome.waits
    return wait


def only(outcome: Outcome) -> Wait:
    """Return the one wait of an outcome."""
    assert isinstance(outcome, Suspended)
    [wait] = outcome.waits
    return wait


def office(policy: object = True, script: Script = PAY, **options: Any) -> Runner:
    """Return a runner of an agent that pays under a policy."""
    given = {"store": MemoryStore(), **options}
    return Runner(boss(script, payer(policy)), **given)


# Denial -----------------------------------------------------------------------


def test_a_denial_is_a_message_and_the_agent_goes_on(world: World) -> None:
    """R-C11, X-02, SL-L3: with the reason, in words of its own."""
    runner = office()
    runner.decide(waiting(runner).id, Deny(by="kim", reason="Too dear."))

    outcome = runner.resume("r1")

    assert isinstance(outcome, Finished)
    expected = "DENIED: a person refused this call. It was not executed."
    assert [f"{expected} Reason: Too dear."] == results(outcome)
    assert [] == world.effects()


def test_a_denial_can_stop_the_run(world: World) -> None:
    """X-02: stopping is a policy of its own; the transcript stays whole."""
    runner = office(ApprovalPolicy(on_denied="stop"))
    runner.decide(waiting(runner).id, Deny(reason="No."))

    outcome = runner.resume("r1")

    assert isinstance(outcome, Failed)
    assert ("denied", True) == (outcome.error.code, "No." in outcome.error.message)
    assert 1 == len(results(outcome))
    assert [] == world.effects()
    assert ["go 0"] == world.turns()


# Deadlines --------------------------------------------------------------------


def test_after_the_deadline_a_yes_is_refused_and_the_run_goes_on(world: World) -> None:
    """R-F4: expiry is an end of its own, told to the model as such."""
    clock = Clock()
    runner = office(ApprovalPolicy(expires_after=60), clock=clock)
    wait = waiting(runner)
    assert clock.now() + timedelta(seconds=60) == wait.deadline

    # When somebody says yes a moment too late
    clock.seconds = 60.001
    with pytest.raises(WaitExpired):
        runner.decide(wait.id, Approve())
    outcome = runner.resume("r1")

    # Then it did not run, and later ones are told so too
    assert isinstance(outcome, Finished)
    assert results(outcome)[0].startswith("EXPIRED:")
    assert [] == world.effects()
    with pytest.raises(WaitExpired):
        runner.decide(wait.id, Approve())
    with pytest.raises(WaitExpired):
        runner.wait(wait.id)
    assert [] == list(runner.waiting())


def test_a_yes_in_time_runs_after_the_deadline(world: World) -> None:
    """R-F4 as decided: a deadline bounds the decision, not the execution."""
    clock = Clock()
    runner = office(ApprovalPolicy(expires_after=60), clock=clock)
    wait = waiting(runner)
    clock.seconds = 60
    runner.decide(wait.id, Approve())

    clock.seconds = 86_400
    outcome = runner.resume("r1")

    assert isinstance(outcome, Finished)
    assert ["pay 5 kim"] == world.done()


def test_expiry_can_stop_the_run() -> None:
    """R-F4: by policy."""
    clock = Clock()
    policy = ApprovalPolicy(expires_after=timedelta(minutes=1), on_expired="stop")
    runner = office(policy, clock=clock)
    waiting(runner)

    clock.seconds = 61
    outcome = runner.resume("r1")

    assert isinstance(outcome, Failed)
    assert "expired" == outcome.error.code


def test_without_a_deadline_a_wait_lasts(world: World) -> None:
    """R-F5: no hidden limit."""
    clock = Clock()
    runner = office(clock=clock)
    wait = waiting(runner)
    clock.seconds = 50 * 365 * 86_400
    runner.sweep()

    runner.decide(wait.id, Approve())
    assert isinstance(runner.resume("r1"), Finished)
    assert ["pay 5 kim"] == world.done()


def test_an_approval_that_has_lapsed_asks_again(world: World) -> None:
    """`valid_for`: the wait is reopened under a new id, and says why."""
    clock = Clock()
    runner = office(ApprovalPolicy(valid_for=60), clock=clock)
    wait = waiting(runner)
    runner.decide(wait.id, Approve())

    # When it is resumed too late
    clock.seconds = 61
    again = only(runner.resume("r1"))

    # Then nothing ran and a new wait stands there, and only it
    assert (wait.id, []) != (again.id, world.effects())
    assert [] == world.effects()
    assert "older than its 60 s" in str(again.note)
    assert [again.id] == [summary.id for summary in runner.waiting()]
    with pytest.raises(AlreadyDecided):
        runner.decide(wait.id, Deny())

    # When the new one is approved in time
    runner.decide(again.id, Approve())
    assert isinstance(runner.resume("r1"), Finished)
    assert ["pay 5 kim"] == world.done()


# Cancelling -------------------------------------------------------------------


def test_cancelling_closes_every_wait_in_the_tree(world: World) -> None:
    """R-F6: idempotent; finished results stay; late answers are told."""
    pay = payer()
    script: Script = {
        "go": [[["a", {"input": "A"}], ["free", {}], ["b", {"input": "B"}]], "end"],
        "A": [[["pay", {"cents": 1}]], "A"],
        "B": [[["pay", {"cents": 2}]], "B"],
    }

    @tool
    def free() -> str:
        """Do what needs nobody."""
        return "free"

    model = scripts.model(script)
    children = [Agent(name, tools=[pay], model=model) for name in "ab"]
    root = Agent("boss", tools=[children[0], free, children[1]], model=model)
    store = MemoryStore()
    runner = Runner(root, store=store)
    outcome = runner.start("go", run_id="r1")
    assert isinstance(outcome, Suspended)

    # Given one of the two waits approved, when the run is cancelled, twice, unseen
    runner.decide(outcome.waits[0].id, Approve())
    blind = Runner([], store=store)
    for _ in range(2):
        assert "cancelled" == blind.cancel("r1", reason="Enough.", by="kim").status

    # Then nothing runs any more, and each late word is told what stands
    ended = runner.resume("r1")
    assert isinstance(ended, Failed)
    assert ("cancelled", "Enough.") == (ended.error.code, ended.error.message)
    assert [] == world.effects()
    with pytest.raises(Cancelled):
        runner.decide(outcome.waits[1].id, Approve())
    with pytest.raises(AlreadyDecided):
        runner.decide(outcome.waits[0].id, Deny())
    assert [] == list(runner.waiting())

    # And what had finished is kept, in a transcript that is whole
    said = results(ended)
    assert ["CANCELLED", "free", "CANCELLED"] == [
        text.split()[0].strip(":") for text in said
    ]


def test_cancelling_what_another_process_runs(world: World) -> None:
    """R-F6, R-A5: its holder sees it at the next commit and stops."""
    script: Script = {
        "go": [
            [["act", {"what": "1", "then": "sleep:1"}]],
            [["act", {"what": "2"}]],
            "end",
        ]
    }
    holder = world.spawn("start", "r1", "go", script=script)
    until(world.done)

    told = world.do("cancel", "r1", app="none")
    ended = holder.told()

    assert "running" == told["status"]
    assert ("Failed", "cancelled") == (ended["kind"], ended["error"]["code"])
    assert ["act 1"] == world.done()
    assert ["acted 1"] == [
        m["content"] for m in ended["messages"] if m["role"] == "tool"
    ]


def test_cancelling_what_has_ended_changes_nothing() -> None:
    """R-F6."""
    runner = office(policy=False)
    assert isinstance(runner.start("go", run_id="r1"), Finished)

    assert "finished" == runner.cancel("r1").status
    assert isinstance(runner.resume("r1"), Finished)


# Edited arguments -------------------------------------------------------------


def test_edited_arguments_are_what_runs_and_what_is_told(world: World) -> None:
    """R-C10, X-09, SL-L10: beside the original; the assistant's message stays."""
    runner = office()
    wait = waiting(runner)
    assert {"cents": 5, "to": "kim"} == wait.arguments

    runner.decide(wait.id, Approve(arguments={"cents": 3, "to": "jo"}))
    outcome = runner.resume("r1")

    assert ["pay 3 jo"] == world.done()
    [said] = results(outcome)
    assert "The person who approved this call changed its arguments." in said
    assert '{"cents":3,"to":"jo"}' in said
    assert said.endswith("paid 3 to jo")
    asked = outcome.continuation.root.messages[2]["tool_calls"][0]
    assert '{"cents": 5}' == asked["function"]["arguments"]


@pytest.mark.parametrize(
    "edit",
    [{}, {"cents": "three"}, {"cents": 3, "more": 1}, {"to": "jo"}, [], "x", 5, {1: 2}],
)
def test_edits_that_the_schema_refuses_are_not_recorded(edit: Any) -> None:
    """R-C10: an explicit `{}` is a real edit, here one that does not fit."""
    runner = office()
    wait = waiting(runner)

    with pytest.raises(DecisionRefused):
        runner.decide(wait.id, Approve(arguments=edit))

    # Then the wait is open and takes the next one
    assert wait == runner.wait(wait.id)
    runner.decide(wait.id, Approve())


def test_an_empty_edit_is_an_edit(world: World) -> None:
    """R-C10: where every argument has a default."""

    @tool(approval=True)
    def pay(cents: int = 1) -> str:
        """Pay."""
        ledgers.add(ledgers.EFFECTS, tool="pay", what=str(cents))
        return "paid"

    runner = Runner(boss(PAY, pay), store=MemoryStore())
    runner.decide(waiting(runner).id, Approve(arguments={}))
    outcome = runner.resume("r1")

    assert ["pay 1"] == world.done()
    assert "changed its arguments" in results(outcome)[0]


def test_an_edit_that_the_tool_refuses_opens_a_new_wait(world: World) -> None:
    """R-C10: what a schema cannot say is checked on resume; nothing runs."""
    from typing import Annotated  # noqa: PLC0415 - only here

    from pydantic import AfterValidator  # noqa: PLC0415 - only here

    def even(number: int) -> int:
        if number % 2:
            raise ValueError("it is odd")
        return number

    @tool(approval=True)
    def pay(cents: Annotated[int, AfterValidator(even)]) -> str:
        """Pay."""
        ledgers.add(ledgers.EFFECTS, tool="pay", what=str(cents))
        return f"paid {cents}"

    script: Script = {"go": [[["pay", {"cents": 4}]], "end"]}
    runner = Runner(boss(script, pay), store=MemoryStore())
    wait = waiting(runner)

    # When an odd number passes the schema
    runner.decide(wait.id, Approve(arguments={"cents": 3}))
    again = only(runner.resume("r1"))

    # Then nothing ran, and a new wait shows the original
    assert [] == world.effects()
    assert again.id != wait.id
    assert {"cents": 4} == again.arguments
    assert "odd" in str(again.note)

    # When that one is approved
    runner.decide(again.id, Approve(arguments={"cents": 6}))
    assert isinstance(runner.resume("r1"), Finished)
    assert ["pay 6"] == world.done()


def test_an_approval_takes_no_answer() -> None:
    """R-C5: a value is not a yes."""
    runner = office()
    wait = waiting(runner)

    with pytest.raises(DecisionRefused):
        runner.decide(wait.id, Answer("approved"))


# Policies ---------------------------------------------------------------------


def over_three(cents: int) -> bool:
    """Ask a person about more than three."""
    ledgers.add(ledgers.TURNS, task="policy", turn=cents)
    return cents > 3


def test_a_policy_is_asked_once_on_the_effective_arguments(world: World) -> None:
    """R-C6, X-13: not on resume, in any process, and it cannot take a wait back."""
    store = MemoryStore()
    runner = office(over_three, store=store)
    wait = waiting(runner)

    # When it is resumed undecided, and then with a policy that would let it pass
    runner.resume("r1")
    lenient = Runner(boss(PAY, payer(policy=False)), store=store)
    assert isinstance(lenient.resume("r1"), Suspended)

    assert [] == world.effects()
    assert 1 == world.turns().count("policy 5")
    assert "over_three" == wait.policy
    lenient.decide(wait.id, Approve())
    assert isinstance(lenient.resume("r1"), Finished)
    assert ["pay 5 kim"] == world.done()


def test_a_policy_that_says_no_wait_lets_it_run(world: World) -> None:
    """R-G5: the other way."""
    script: Script = {"go": [[["pay", {"cents": 2}]], "end"]}

    outcome = office(over_three, script).start("go")

    assert isinstance(outcome, Finished)
    assert ["pay 2 kim"] == world.done()


JUNK: list[Any] = [None, 0, 1, "", "no", "false", [], {}, Approve]


async def later(cents: int) -> bool:
    """Ask nobody, after a while."""
    await asyncio.sleep(0)
    return cents < 0


class Odd(BaseException):
    """Not an Exception."""


def raising(error: BaseException) -> Any:
    """Return a policy that raises."""

    def policy(cents: int) -> bool:
        del cents
        raise error

    return policy


def returning(value: object) -> Any:
    """Return a policy that returns a value."""

    def policy() -> Any:
        return value

    return policy


@pytest.mark.parametrize(
    "policy",
    [
        *(returning(value) for value in JUNK),
        *(raising(error) for error in (ValueError(), StopIteration(), TimeoutError())),
        *(raising(error) for error in (Odd(), asyncio.CancelledError())),
        *(raising(error) for error in (SystemExit(), KeyboardInterrupt())),
    ],
)
def test_a_policy_that_says_neither_yes_nor_no_never_runs_the_call(
    world: World, policy: Any
) -> None:
    """R-C5: fail closed; the model is told, and the agent goes on."""
    outcome = office(policy).start("go")

    assert isinstance(outcome, Finished)
    assert "not executed" in results(outcome)[0]
    assert [] == world.effects()


def test_an_async_policy(world: World) -> None:
    """R-C5."""
    assert isinstance(office(later).start("go"), Finished)
    assert ["pay 5 kim"] == world.done()


def described(text: str, *, strict: bool) -> Agent:
    """Return an agent whose tool has a description and a policy."""

    @tool(approval=ApprovalPolicy(strict=strict), description=text)
    def pay(cents: int, ctx: ToolContext) -> str:
        ledgers.add(ledgers.EFFECTS, tool="pay", what=str(cents), key=ctx.call_id)
        return "paid"

    return boss(PAY, pay)


def test_other_words_void_an_approval_only_under_a_strict_policy(world: World) -> None:
    """Section 6, R-C1: a changed description is reported, and strictly it asks anew."""
    for strict in (False, True):
        store, run_id = MemoryStore(), f"strict-{strict}"
        before = Runner(described("Pay.", strict=strict), store=store)
        wait = waiting(before, run_id)
        before.decide(wait.id, Approve())

        # When the description says another thing on resume
        after = Runner(described("Pay it all.", strict=strict), store=store)
        outcome = after.resume(run_id)

        # Then it is reported, and the strict one asks again
        assert ["compatible boss/pay"] == [
            f"{change.kind} {change.where}" for change in outcome.changes
        ]
        if strict:
            again = only(outcome)
            assert "description changed" in str(again.note)
            after.decide(again.id, Approve())
            assert isinstance(after.resume(run_id), Finished)
        else:
            assert isinstance(outcome, Finished)
    assert 2 == len(world.effects())


def test_an_agent_as_a_tool_can_need_approval_and_pause_again_inside(
    world: World,
) -> None:
    """SL-26: the way in waits, then the call inside waits."""
    script: Script = {
        "go": [[["child", {"input": "A"}]], "end"],
        "A": [[["pay", {"cents": 1}]], "A done"],
    }
    model = scripts.model(script)
    child = Agent("child", tools=[payer()], model=model)
    root = Agent("boss", tools=[child.as_tool(approval=True)], model=model)
    runner = Runner(root, store=MemoryStore())

    outer = waiting(runner)
    assert (("boss", "child"), {"input": "A"}) == (outer.path, outer.arguments)
    assert ["go 0"] == world.turns()
    runner.decide(outer.id, Approve(arguments={"input": "A"}))
    inner = only(runner.resume("r1"))
    assert ("boss", "child", "pay") == inner.path
    runner.decide(inner.id, Approve())
    outcome = runner.resume("r1")

    assert isinstance(outcome, Finished)
    assert ["pay 1 kim"] == world.done()
    assert results(outcome)[0].endswith("A done")


def test_texts_that_are_none_are_refused_before_anything_is_written() -> None:
    """R-A4: `by` and `reason` are texts."""
    runner = office()
    wait = waiting(runner)

    with pytest.raises(DecisionRefused):
        runner.decide(wait.id, Approve(by=5))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        runner.cancel("r1", reason=os)  # type: ignore[arg-type]
    assert isinstance(runner.resume("r1"), Suspended)
