"""Policies that limit an approval: which arguments it may edit, and a last check."""

from __future__ import annotations

from typing import Any

import pytest

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    Finished,
    Grant,
    Runner,
    Suspended,
    Wait,
    resume,
    run,
    tool,
)
from continuations.errors import DecisionRefused, InvalidInput
from continuations.tools import Tool
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss, root_tool_results
from tests.engine.payment_agent import single_wait
from tests.engine.test_grants import make_runner
from tests.outcomes import expect
from tests.scripts import call, scripted_model

SCRIPT: Any = {"go": [[call("pay", to="Jane", cents=5)], "end"]}


def make_pay(**options: Any) -> Tool[..., Any]:
    """Return a tool that needs an approval."""

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
