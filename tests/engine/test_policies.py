"""Which calls need an approval, what it is bound to, and rules that decide alone."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Deny,
    Failed,
    Finished,
    Grant,
    Outcome,
    Runner,
    Suspended,
    ToolContext,
    Wait,
    ask,
    ask_person,
    resume,
    run,
    tool,
)
from continuations.authoring.tool_waits import ToolWait
from continuations.errors import (
    AlreadyDecided,
    DecisionRefused,
    InvalidInput,
    RunBusy,
    WaitNotFound,
)
from continuations.tools import Tool
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore, on, refused
from tests import effect_log, scripts
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss, root_tool_results
from tests.engine.payment_agent import (
    PAY_SCRIPT,
    make_pay_tool,
    make_payment_runner,
    start_and_get_wait,
)
from tests.engine.test_grants import make_runner, turns
from tests.outcomes import expect, single_wait
from tests.scripts import Script, call, scripted_model


def over_three(cents: int) -> bool:
    """Ask a person about more than three."""
    effect_log.append_turn(task="policy", turn=cents)
    return cents > 3


def test_a_policy_is_asked_once_on_the_effective_arguments(store: MemoryStore) -> None:
    """It is not asked again on resume, and a changed policy does not close a wait."""
    runner = make_payment_runner(over_three, store=store)
    wait = start_and_get_wait(runner)

    # When it is resumed undecided, and then with a policy that would let it pass
    runner.resume("r1")
    lenient = Runner(make_boss(PAY_SCRIPT, make_pay_tool(policy=False)), store=store)
    assert isinstance(lenient.resume("r1"), Suspended)

    assert [] == effect_log.effects()
    assert 1 == effect_log.turns().count("policy 5")
    assert "over_three" == wait.policy
    lenient.decide(wait.id, Approve())
    assert isinstance(lenient.resume("r1"), Finished)
    assert ["pay 5 kim"] == effect_log.names()


def test_policy_that_returns_false_runs_the_call() -> None:
    script: Script = {"go": [[call("pay", cents=2)], "end"]}

    assert isinstance(make_payment_runner(over_three, script).start("go"), Finished)

    assert ["pay 2 kim"] == effect_log.names()


async def test_nothing_runs_while_a_policy_hangs(clock: ManualClock) -> None:
    """Another worker takes the run over, and the late answer lets no call pass."""
    store = MemoryStore(clock.now)
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def hangs(cents: int) -> bool:
        entered.set()
        await go_on.wait()
        return cents < 0  # the call may pass

    def runner(policy: Any) -> AsyncRunner:
        boss = make_boss(PAY_SCRIPT, make_pay_tool(policy))
        return AsyncRunner(boss, store=store, clock=clock)

    first = asyncio.create_task(runner(hangs).start("go", run_id="r1"))
    await entered.wait()
    look = await runner(hangs).look("r1")
    assert "running" == look.status
    with pytest.raises(RunBusy):
        await runner(over_three).resume("r1")

    # When its claim has ended, and the policy answers afterwards
    clock.seconds += 60
    outcome = await runner(over_three).resume("r1")
    go_on.set()
    late = await first

    assert isinstance(outcome, Suspended)
    assert isinstance(late, Suspended)
    assert outcome.waits == late.waits
    assert [] == effect_log.effects()


JUNK: list[Any] = [None, 0, 1, "", "no", "false", [], {}, Approve]


async def is_negative_async(cents: int) -> bool:
    """Return False for ordinary amounts, asynchronously."""
    await asyncio.sleep(0)
    return cents < 0


class CustomBaseException(BaseException):
    """Not an Exception."""


def raising_policy(error: BaseException) -> Any:
    def policy(cents: int) -> bool:
        del cents
        raise error

    return policy


def returning_policy(value: object) -> Any:
    def policy() -> Any:
        return value

    return policy


@pytest.mark.parametrize(
    "policy",
    [
        *(returning_policy(value) for value in JUNK),
        *(
            raising_policy(error)
            for error in (ValueError(), StopIteration(), TimeoutError())
        ),
        *(
            raising_policy(error)
            for error in (CustomBaseException(), asyncio.CancelledError())
        ),
        *(raising_policy(error) for error in (SystemExit(), KeyboardInterrupt())),
    ],
)
def test_a_policy_that_says_neither_yes_nor_no_never_runs_the_call(policy: Any) -> None:
    """Policies fail closed: the model gets an error, and the agent continues."""
    outcome = expect(make_payment_runner(policy).start("go"), Finished)

    assert "not executed" in root_tool_results(outcome)[0]
    assert [] == effect_log.effects()


def test_async_policy_is_awaited() -> None:
    """A policy may be a coroutine function."""
    assert isinstance(make_payment_runner(is_negative_async).start("go"), Finished)
    assert ["pay 5 kim"] == effect_log.names()


def agent_with_description(text: str, *, strict: bool) -> Agent:
    """Return an agent whose tool has a description and a policy."""

    @tool(approval=ApprovalPolicy(strict=strict), description=text)
    def pay(cents: int, ctx: ToolContext) -> str:
        effect_log.append_effect("pay", str(cents), key=ctx.call_id)
        return "paid"

    return make_boss(PAY_SCRIPT, pay)


def test_changed_description_voids_an_approval_only_with_strict() -> None:
    """Otherwise the changed description is only reported."""
    for strict in (False, True):
        store, run_id = MemoryStore(), f"strict-{strict}"
        before = Runner(agent_with_description("Pay.", strict=strict), store=store)
        wait = start_and_get_wait(before, run_id)
        before.decide(wait.id, Approve())

        # When the description has changed on resume
        after = Runner(
            agent_with_description("Pay it all.", strict=strict), store=store
        )
        outcome = after.resume(run_id)

        # Then the change is reported, and the strict policy asks again
        assert ["compatible boss/pay"] == [
            f"{change.kind} {change.where}" for change in outcome.code_changes
        ]
        if strict:
            again = single_wait(outcome)
            assert "description changed" in str(again.note)
            after.decide(again.id, Approve())
            assert isinstance(after.resume(run_id), Finished)
        else:
            assert isinstance(outcome, Finished)
    assert 2 == len(effect_log.effects())


def test_an_agent_as_a_tool_can_need_approval_and_pause_again_inside() -> None:
    """First the call of the sub-agent waits, then the call inside it."""
    script: Script = {
        "go": [[call("child", input="A")], "end"],
        "A": [[call("pay", cents=1)], "A done"],
    }
    model = scripts.scripted_model(script)
    child = Agent("child", tools=[make_pay_tool()], model=model)
    root = Agent("boss", tools=[child.as_tool(approval=True)], model=model)
    runner = Runner(root, store=MemoryStore())

    outer = start_and_get_wait(runner)
    assert (("boss", "child"), {"input": "A"}) == (outer.path, outer.arguments)
    assert ["go 0"] == effect_log.turns()
    runner.decide(outer.id, Approve(arguments={"input": "A"}))
    inner = single_wait(runner.resume("r1"))
    assert ("boss", "child", "pay") == inner.path
    runner.decide(inner.id, Approve())
    outcome = expect(runner.resume("r1"), Finished)

    assert ["pay 1 kim"] == effect_log.names()
    assert root_tool_results(outcome)[0].endswith("A done")


def test_by_and_reason_must_be_texts() -> None:
    """Other types are rejected, and nothing is recorded."""
    runner = make_payment_runner()
    wait = start_and_get_wait(runner)

    with pytest.raises(DecisionRefused):
        runner.decide(wait.id, Approve(by=5))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        runner.cancel("r1", reason=os)  # type: ignore[arg-type]
    assert isinstance(runner.resume("r1"), Suspended)


def test_arguments_are_validated_before_an_approval() -> None:
    """No person is asked about a call that could not run."""
    script: Any = {"go": [[call("pay", cents="x"), call("pay")], "end"]}
    outcome = expect(make_payment_runner(script=script).start("go"), Finished)

    assert all(text.startswith("ERROR") for text in root_tool_results(outcome))
    assert [] == effect_log.effects()


# Limits of an approval --------------------------------------------------------


SCRIPT: Any = {"go": [[call("pay", to="Jane", cents=5)], "end"]}


def make_pay(**options: Any) -> Tool[..., Any]:
    @tool(approval=ApprovalPolicy(**options))
    def pay(to: str, cents: int, note: str = "") -> str:
        """Pay."""
        del note
        effect_log.append_effect("pay", f"{to} {cents}")
        return f"paid {cents} to {to}"

    return pay


def start(**options: Any) -> tuple[Runner, Wait]:
    """Return a runner and the wait of its run `r`."""
    runner = make_runner(SCRIPT, make_pay(**options), clock=ManualClock())
    return runner, single_wait(runner.start("go", run_id="r"))


def edit(**changes: Any) -> Approve:
    """Return an approval with some other arguments."""
    return Approve(arguments={"to": "Jane", "cents": 5, "note": "", **changes})


def test_an_editable_argument_is_edited() -> None:
    runner, wait = start(editable=["cents"])
    assert ("cents",) == wait.editable

    runner.decide(wait.id, edit(cents=7.0))

    assert isinstance(runner.resume("r"), Finished)
    assert ["pay Jane 7"] == effect_log.names()


@pytest.mark.parametrize(
    ("editable", "changes", "named"),
    [
        (["cents"], {"to": "Eve"}, "to"),
        (["cents"], {"to": "Eve", "cents": 7}, "to"),
        ([], {"cents": 7}, "cents"),
        (["to", "note"], {"cents": 7}, "cents"),
    ],
)
def test_an_edit_of_another_argument_is_refused(
    editable: list[str],
    changes: dict[str, Any],
    named: str,
) -> None:
    """The error names the argument; the same edit is refused in another process."""
    runner, wait = start(editable=editable)

    with pytest.raises(DecisionRefused, match=f"'{named}' cannot be edited"):
        runner.decide(wait.id, edit(**changes))

    # An edit that repeats what the wait shows is no change.
    runner.decide(wait.id, edit())
    assert isinstance(runner.resume("r"), Finished)
    assert ["pay Jane 5"] == effect_log.names()


def test_a_left_out_argument_is_a_change() -> None:
    runner, wait = start(editable=["cents"])

    with pytest.raises(DecisionRefused, match="'note' cannot be edited"):
        runner.decide(wait.id, Approve(arguments={"to": "Jane", "cents": 6}))


def test_without_the_option_every_argument_is_editable() -> None:
    runner, wait = start()
    assert wait.editable is None

    runner.decide(wait.id, edit(to="Lee", cents=7))

    assert isinstance(runner.resume("r"), Finished)
    assert ["pay Lee 7"] == effect_log.names()


def test_editable_holds_without_a_store() -> None:
    agent = make_boss(SCRIPT, make_pay(editable=["cents"]))
    first = run(agent, "go")
    wait = single_wait(first)
    data = first.continuation.to_bytes()

    with pytest.raises(DecisionRefused, match="'to' cannot be edited"):
        resume(data, agent, answers={wait.id: edit(to="Eve")})

    assert [] == effect_log.names()


@pytest.mark.parametrize("value", ["cents", [1], [""], {"cents": 1}])
def test_an_invalid_editable_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="editable"):
        ApprovalPolicy(editable=value)


def test_editable_names_an_argument_of_the_tool() -> None:
    with pytest.raises(InvalidInput, match="cent'"):
        make_pay(editable=["cent"])


# Recheck ----------------------------------------------------------------------


def test_a_check_that_fails_opens_the_wait_again() -> None:
    """The approval was given, and the world has changed since then."""
    balance = [3]

    def is_covered(cents: int) -> bool | str:
        return cents <= balance[0] or "the account has too little money"

    runner, wait = start(recheck=is_covered)
    runner.decide(wait.id, Approve())

    again = single_wait(runner.resume("r"))
    assert wait.id != again.id
    assert "too little money" in (again.note or "")
    assert [] == effect_log.names()

    balance[0] = 10
    runner.decide(again.id, Approve())
    assert isinstance(runner.resume("r"), Finished)
    assert ["pay Jane 5"] == effect_log.names()


def test_the_check_is_made_after_the_start_was_recorded() -> None:
    """It is made twice: before the start is recorded, and before the tool runs."""
    verdicts = [True, False]
    seen: list[int] = []

    def check(cents: int) -> bool:
        seen.append(cents)
        return verdicts.pop(0)

    runner, wait = start(recheck=check)
    runner.decide(wait.id, Approve())

    assert "no longer holds" in (single_wait(runner.resume("r")).note or "")
    assert [5, 5] == seen
    assert [] == effect_log.names()


def _is_below_ten(cents: int) -> bool:
    return cents < 10


def _has_other_parameter(other: int) -> bool:
    return other > 1


async def _raises(cents: int) -> bool:
    raise ValueError(str(cents))


@pytest.mark.parametrize("check", [lambda: False, lambda: 0, lambda: "", _raises])
def test_only_true_or_none_lets_the_call_begin(check: Any) -> None:
    """Every other result, and an exception, asks a person again."""
    runner, wait = start(recheck=check)
    runner.decide(wait.id, Approve())

    assert wait.id != single_wait(runner.resume("r")).id
    assert [] == effect_log.names()


def test_the_check_sees_the_edited_arguments() -> None:
    runner, wait = start(recheck=_is_below_ten)
    runner.decide(wait.id, edit(cents=50))

    again = single_wait(runner.resume("r"))

    assert 50 == again.arguments["cents"]
    assert [] == effect_log.names()


def test_the_check_holds_for_calls_by_a_grant() -> None:
    script = {"go": [[call("pay", to="J", cents=n)] for n in (5, 50)]}
    runner = make_runner(
        {"go": [*script["go"], "end"]},
        make_pay(recheck=_is_below_ten),
        clock=ManualClock(),
    )
    wait = single_wait(runner.start("go", run_id="r"))
    runner.decide(wait.id, Approve(remember=Grant("pay")))

    assert 50 == single_wait(runner.resume("r")).arguments["cents"]
    assert ["pay J 5"] == effect_log.names()


def test_the_check_of_a_sub_agent_is_made_before_it_starts() -> None:
    script: Any = {"go": [[call("hr", input="x")], "end"], "x": ["hired"]}
    hr = Agent("hr", model=scripted_model(script))
    allowed = [False, True]
    policy = ApprovalPolicy(recheck=lambda: allowed.pop(0))
    boss = make_boss(script, hr.as_tool(approval=policy))
    runner = make_runner(script, clock=ManualClock())
    runner = type(runner)(boss, store="memory:")
    wait = single_wait(runner.start("go", run_id="r"))
    runner.decide(wait.id, Approve())

    again = single_wait(runner.resume("r"))
    runner.decide(again.id, Approve())
    last = expect(runner.resume("r"), Finished)

    assert ["hired"] == root_tool_results(last)
    assert [] == allowed


def test_an_invalid_check_is_refused_when_it_is_declared() -> None:
    with pytest.raises(InvalidInput, match="recheck"):
        ApprovalPolicy(recheck=True)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidInput, match="recheck"):
        make_pay(recheck=_has_other_parameter)


def test_a_suspended_run_is_not_checked() -> None:
    """The check is about the begin of a call, so it is not made while a call waits."""
    seen: list[str] = []
    runner, _ = start(recheck=lambda: seen.append("checked"))

    assert isinstance(runner.resume("r"), Suspended)
    assert [] == seen


# Rules that decide ------------------------------------------------------------


def small_payments(cents: int) -> bool | Approve | Deny:
    """Approve small payments, deny large ones, and ask about the others."""
    if cents < 10:
        return Approve(reason="below the limit")
    return Deny(reason="too much") if cents > 100 else True


def make_ruled_pay(**options: Any) -> Tool[..., Any]:
    options.setdefault("when", small_payments)

    @tool(approval=ApprovalPolicy(**options))
    def pay(cents: int) -> str:
        """Pay."""
        effect_log.append_effect("pay", str(cents))
        return f"paid {cents}"

    return pay


def test_a_rule_approves_and_denies_at_once() -> None:
    """No person is asked, and the audit names the rule."""
    runner = make_runner(turns(5, 500), make_ruled_pay(), clock=ManualClock())

    last = expect(runner.start("go", run_id="r"), Finished)

    assert ["pay 5"] == effect_log.names()
    paid, denied = root_tool_results(last)
    assert "paid 5" == paid
    assert denied.startswith("DENIED: a rule refused this call.")
    assert "too much" in denied
    lines = {line.verdict: line for line in runner.audit("r")}
    assert {"approve", "deny"} == lines.keys()
    assert ["rule"] * 2 == [line.door for line in lines.values()]
    assert ["small_payments"] * 2 == [line.rule for line in lines.values()]
    assert "below the limit" == lines["approve"].reason
    assert lines["approve"].by is None


def test_a_rule_that_returns_true_asks_a_person() -> None:
    runner = make_runner(turns(50), make_ruled_pay(), clock=ManualClock())
    wait = single_wait(runner.start("go", run_id="r"))
    assert [] == runner.audit("r")

    runner.decide(wait.id, Approve(by="kim"))
    runner.resume("r")

    assert ["pay 50"] == effect_log.names()
    assert [("kim", None)] == [(line.by, line.rule) for line in runner.audit("r")]


def test_a_denial_by_a_rule_may_stop_the_run() -> None:
    pay = make_ruled_pay(on_denied="stop", name="limit")
    runner = make_runner(turns(500, 5), pay, clock=ManualClock())

    last = expect(runner.start("go", run_id="r"), Failed)

    assert ("denied", "pay was denied by limit: too much") == (
        last.error.code,
        last.error.message,
    )
    assert [] == effect_log.names()


def test_a_rule_decides_without_a_store() -> None:
    assert isinstance(run(make_boss(turns(5, 500), make_ruled_pay()), "go"), Finished)
    assert ["pay 5"] == effect_log.names()


@pytest.mark.parametrize("cents", [5, 500])
def test_a_rule_whose_decision_is_not_recorded_asks_a_person(cents: int) -> None:
    good = MemoryStore(ManualClock().now)
    faulty = FaultyStore(good, on("create", refused(), prefix="runs/r/in/d-"))
    runner = make_runner(
        turns(cents), make_ruled_pay(), clock=ManualClock(), store=faulty
    )

    wait = single_wait(runner.start("go", run_id="r"))

    assert "not recorded" in (wait.note or "")
    assert [] == effect_log.names()


@pytest.mark.parametrize(
    "verdict",
    [
        Approve(arguments={"cents": 1}),
        Approve(by="kim"),
        Answer("paid"),
        None,
        1,
        "approve",
    ],
)
def test_a_rule_returns_a_bool_or_a_plain_verdict(verdict: Any) -> None:
    """Everything else is a mistake of the policy, and the call does not run."""
    pay = make_ruled_pay(when=lambda: verdict)
    runner = make_runner(turns(5), pay, clock=ManualClock())

    last = expect(runner.start("go", run_id="r"), Finished)

    assert "policy" in root_tool_results(last)[0]
    assert [] == effect_log.names()
    assert [] == runner.audit("r")


def test_the_recorded_decision_of_a_rule_cannot_be_decided_again() -> None:
    """Its id names no wait that was ever listed."""
    runner = make_runner(turns(5), make_ruled_pay(), clock=ManualClock())
    runner.start("go", run_id="r")
    [line] = runner.audit("r")
    assert line.wait is not None

    with pytest.raises(AlreadyDecided):
        runner.decide(line.wait, Deny(by="eve"))
    with pytest.raises(WaitNotFound):
        runner.wait("approval-01kdvdna00k4kmjvb6728mf10z@r")


# Policies of agents -----------------------------------------------------------


def make_tool(name: str = "pay", **options: Any) -> Tool[..., Any]:
    """Return a tool with an effect."""

    def act(cents: int) -> str:
        """Act."""
        effect_log.append_effect(name, cents)
        return f"{name} {cents}"

    return tool(act, name=name, **options)


class OtherTool:
    """A tool of another class."""

    def __init__(self, inner: Any) -> None:
        for name in dir(inner):
            if not name.startswith("_"):
                setattr(self, name, getattr(inner, name))


def waiting_tools(outcome: Outcome) -> list[str]:
    assert isinstance(outcome, Suspended)
    return sorted(wait.tool for wait in outcome.waits)


def test_tools_without_a_policy_ask() -> None:
    """A function, a tool and a tool that says no; the last one runs at once."""

    def plain(cents: int) -> str:
        """Act."""
        effect_log.append_effect("plain", cents)
        return "plain"

    script: Any = {
        "go": [[call(name, cents=5) for name in ("plain", "pay", "look")], "end"]
    }
    tools = [plain, make_tool(), make_tool("look", approval=False)]
    runner = Runner(make_boss(script, *tools, approval=True), store="memory:")

    assert ["pay", "plain"] == waiting_tools(runner.start("go", run_id="r"))
    assert ["look 5"] == effect_log.names()
    for wait in runner.waiting():
        runner.decide(wait.id, Approve(by="kim"))
    assert isinstance(runner.resume("r"), Finished)
    assert ["look 5", "pay 5", "plain 5"] == sorted(effect_log.names())


def test_policy_of_a_tool_replaces_that_of_its_agent() -> None:
    """Nothing of the agent's policy is added to the policy of a tool."""
    own = ApprovalPolicy(within=timedelta(hours=1), name="own")
    agents = ApprovalPolicy(approvers=["kim"], name="the agent's")
    script: Any = {"go": [[call("own", cents=5), call("pay", cents=5)], "end"]}
    tools = [make_tool("own", approval=own), make_tool()]
    runner = Runner(make_boss(script, *tools, approval=agents), store="memory:")

    outcome = expect(runner.start("go", run_id="r"), Suspended)

    by_tool = {wait.tool: wait for wait in outcome.waits}
    assert ("own", None) == (by_tool["own"].policy, by_tool["own"].quorum)
    assert "the agent's" == by_tool["pay"].policy
    assert by_tool["pay"].quorum is not None
    assert by_tool["pay"].deadline is None


def test_tool_of_two_agents_asks_for_one_of_them() -> None:
    """The agents share the tool; the policy of one does not reach the other."""
    pay = make_tool()
    script: Any = {"go": [[call("pay", cents=5)], "end"]}
    asking = make_boss(script, pay, approval=True)
    free = make_boss(script, pay)

    assert isinstance(Runner(asking, store="memory:").start("go"), Suspended)
    assert isinstance(Runner(free, store="memory:").start("go"), Finished)
    assert pay.approval is None
    assert ["pay 5"] == effect_log.names()


@pytest.mark.parametrize("inner", [None, True])
def test_sub_agent_is_a_tool_and_has_its_own_policy(inner: bool | None) -> None:
    """The call of the sub-agent asks. Its tools ask only if the sub-agent says so."""
    script: Any = {
        "go": [[call("clerk", input="A"), call("free", input="B")], "end"],
        "A": [[call("pay", cents=5)], "A end"],
        "B": ["B end"],
    }
    model = scripted_model(script)
    clerk = Agent("clerk", tools=[make_tool()], model=model, approval=inner)
    free = Agent("free", model=model).as_tool(approval=False)
    boss = Agent("boss", tools=[clerk, free], model=model, approval=True)
    runner = Runner(boss, store="memory:")

    assert ["clerk"] == waiting_tools(runner.start("go", run_id="r"))
    [wait] = runner.waiting()
    runner.decide(wait.id, Approve(by="kim"))
    outcome = runner.resume("r")

    assert isinstance(outcome, Suspended if inner else Finished)
    if inner:
        assert ["pay"] == waiting_tools(outcome)
    assert ([] if inner else ["pay 5"]) == effect_log.names()


def test_condition_of_an_agent_gets_the_arguments_of_each_tool() -> None:
    def is_large(**arguments: Any) -> bool | Deny:
        return Deny(reason="odd") if arguments["cents"] % 2 else arguments["cents"] > 10

    script: Any = {"go": [[call("pay", cents=n) for n in (4, 5, 20)], "end"]}
    runner = Runner(make_boss(script, make_tool(), approval=is_large), store="memory:")

    wait = single_wait(runner.start("go", run_id="r"))

    assert {"cents": 20} == wait.arguments
    runner.decide(wait.id, Answer("paid by hand"))
    results = root_tool_results(runner.resume("r"))
    assert ["pay 4", "DENIED", "ANSWERED"] == [r.split(":")[0] for r in results]


def test_call_that_was_admitted_before_is_asked_about(store: MemoryStore) -> None:
    """A deployment adds the policy while the call is ready: the call does not begin."""
    script: Any = {"go": [[call("pay", cents=5)], "end"]}
    asked: list[int] = []

    def stop() -> bool:
        # Pause after the call was examined, before its start is recorded.
        asked.append(1)
        return len(asked) > 2

    before = Runner(make_boss(script, make_tool()), store=store)
    assert isinstance(before.start("go", run_id="r", should_pause=stop), Suspended)
    assert [] == effect_log.names()
    after = Runner(make_boss(script, make_tool(), approval=True), store=store)

    outcome = expect(after.resume("r"), Suspended)

    assert ["pay"] == [wait.tool for wait in outcome.waits]
    assert [] == effect_log.names()


def test_answer_function_that_is_declared_later_belongs_to_the_tool() -> None:
    """Also if the agent was made before the function."""

    @tool
    def receipt(cents: int) -> ToolWait[str]:
        """Ask for a receipt."""
        return ask(f"Where is the receipt of {cents}?")

    script: Any = {"go": [[call("receipt", cents=5)], "end"]}
    boss = make_boss(script, receipt, approval=True)

    @receipt.on_answer
    def received(answer: str, cents: int) -> str:
        return f"{answer} of {cents}"

    runner = Runner(boss, store="memory:")
    runner.start("go", run_id="r")
    [approval] = runner.waiting()
    runner.decide(approval.id, Approve(by="kim"))
    runner.resume("r")
    [question] = runner.waiting()
    runner.decide(question.id, Answer("receipt 7", by="kim"))

    assert ["receipt 7 of 5"] == root_tool_results(runner.resume("r"))


def test_ask_person_needs_no_approval() -> None:
    script: Any = {"go": [[call("ask_person", question="Who?")], "end"]}
    runner = Runner(make_boss(script, ask_person, approval=True), store="memory:")

    outcome = expect(runner.start("go", run_id="r"), Suspended)

    assert ["question"] == [wait.kind for wait in outcome.waits]


def test_policy_must_fit_the_arguments_of_each_tool() -> None:
    def is_large(dollars: int) -> bool:
        return dollars > 10

    with pytest.raises(InvalidInput, match=r"agent boss: tool pay: .*dollars"):
        make_boss({}, make_tool(), approval=is_large)
    with pytest.raises(InvalidInput, match="agent boss: approval must be True, False"):
        make_boss({}, make_tool(), approval="yes")


def test_tool_of_another_class_needs_a_policy_of_its_own() -> None:
    """Such a class might not ask, so the agent is not made."""
    inner = make_tool()

    wrapped = OtherTool(inner)
    with pytest.raises(InvalidInput, match="Give the tool a policy of its own"):
        make_boss({}, wrapped, approval=True)
    make_boss({}, wrapped)
