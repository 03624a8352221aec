"""Approval policies decide which calls wait; only `False` lets a call pass."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from continuations.authoring.agent.agent import Agent
from continuations.authoring.approval import ApprovalPolicy
from continuations.authoring.errors import ArgumentsInvalid, PolicyFailed
from continuations.authoring.tool.tool import tool
from continuations.errors import InvalidInput


def needs_approval(approval: Any, raw_arguments: str = '{"cents":500}') -> object:
    @tool(approval=approval)
    def pay(cents: int, to: str = "kim") -> None:
        """Pay."""

    return asyncio.run(pay.needs_approval(pay.effective_arguments(raw_arguments)))


async def is_big_async(cents: int) -> bool:
    await asyncio.sleep(0)
    return cents > 100


def is_big(cents: int) -> bool:
    return cents > 100


def is_huge(cents: int) -> bool:
    return cents > 1_000


def is_big_with_kwargs(cents: int, **_: object) -> bool:
    return cents > 100


def has_only_keyword_arguments(*values: object, **named: object) -> bool:
    return not values and "cents" in named


def gets_all_arguments(**arguments: object) -> bool:
    return arguments == {"cents": 500, "to": "kim"}


def is_unknown_payee(to: str) -> bool:
    return to != "kim"


def is_above_its_default(cents: int, other: int = 3) -> bool:
    return cents > other


class AboveLimit:
    def __call__(self, cents: int) -> bool:
        return cents > 100


@pytest.mark.parametrize(
    ("approval", "expected"),
    [
        (None, False),
        (False, False),
        (True, True),
        (ApprovalPolicy(), True),
        (ApprovalPolicy(when=True), True),
        (ApprovalPolicy(when=False), False),
        (is_big, True),
        (is_huge, False),
        (is_big_with_kwargs, True),
        (gets_all_arguments, True),
        (has_only_keyword_arguments, True),
        (is_unknown_payee, False),
        (is_above_its_default, True),
        (lambda: True, True),
        (is_big_async, True),
        (AboveLimit(), True),
        (ApprovalPolicy(when=is_big_async), True),
    ],
)
def test_policy_decides_whether_a_call_needs_approval(
    approval: object, *, expected: bool
) -> None:
    assert expected is needs_approval(approval)


def raising() -> bool:
    raise LookupError


async def raising_later() -> bool:
    raise LookupError


def wants_unknown_argument(unknown: int) -> bool:
    return bool(unknown)


def positional(cents: int = 0, /) -> bool:
    return cents > 100


def any_number(*values: int) -> bool:
    return any(values)


def misreads_its_argument(cents: Any) -> bool:
    return bool(cents["a"])


@pytest.mark.parametrize(
    "condition",
    [
        raising,
        raising_later,
        lambda: None,
        lambda: 0,
        lambda: 1,
        lambda: "",
        lambda: "yes",
        lambda: "false",
        lambda: [0],
        lambda: lambda: False,
        misreads_its_argument,
        lambda: bool,
    ],
)
def test_policy_result_that_is_no_bool_blocks_the_call(
    condition: Callable[..., object],
) -> None:
    with pytest.raises(PolicyFailed, match="nothing ran"):
        needs_approval(condition)


def test_condition_with_unknown_argument_is_rejected_at_declaration() -> None:
    """Otherwise no call would run, and only the model would see the error."""
    with pytest.raises(InvalidInput, match=r"argument 'unknown'.*arguments: cents"):
        needs_approval(wants_unknown_argument)


def test_policy_error_text_hides_the_exception_text() -> None:
    def secretive() -> bool:
        msg = "password"
        raise ValueError(msg)

    with pytest.raises(PolicyFailed) as caught:
        needs_approval(secretive)

    assert "the approval policy raised ValueError; nothing ran." == str(caught.value)


def test_non_effective_arguments_are_rejected_before_the_policy() -> None:
    @tool(approval=is_big)
    def pay(cents: int) -> None:
        """Pay."""

    with pytest.raises(ArgumentsInvalid):
        asyncio.run(pay.needs_approval('{"cents": 5}'))


@pytest.mark.parametrize("approval", ["yes", 1, 0, "", [], {}, timedelta(1)])
def test_approval_option_of_another_type_is_rejected(approval: Any) -> None:
    with pytest.raises(InvalidInput, match="tool pay: approval must be"):
        needs_approval(approval)


@pytest.mark.parametrize(
    "options",
    [
        {"when": "yes"},
        {"when": 1},
        {"expires_after": 0},
        {"expires_after": -1},
        {"expires_after": float("inf")},
        {"expires_after": True},
        {"expires_after": "1h"},
        {"valid_for": timedelta(0)},
        {"valid_for": 0.5},
        {"name": 3},
        {"strict": 1},
        {"on_denied": "retry"},
        {"on_expired": None},
    ],
)
def test_invalid_policy_option_error_names_the_option(options: dict[str, Any]) -> None:
    [option] = options
    with pytest.raises(InvalidInput, match=f"ApprovalPolicy: {option} must be"):
        ApprovalPolicy(**options)


def test_policy_durations_are_timedeltas() -> None:
    policy = ApprovalPolicy(expires_after=90, valid_for=timedelta(minutes=1))

    assert timedelta(seconds=90) == policy.decision_timeout
    assert timedelta(seconds=60) == policy.approval_validity
    assert ApprovalPolicy().decision_timeout is None


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (ApprovalPolicy(), None),
        (ApprovalPolicy(name="big sums"), "big sums"),
        (ApprovalPolicy(when=is_big_async), "is_big_async"),
        (ApprovalPolicy(when=lambda: True), None),
        (ApprovalPolicy(when=AboveLimit()), None),
    ],
)
def test_policy_has_a_display_name(
    policy: ApprovalPolicy, expected: str | None
) -> None:
    assert expected == policy.display_name


def test_policy_digest_changes_with_every_option() -> None:
    policies = [
        ApprovalPolicy(),
        ApprovalPolicy(when=False),
        ApprovalPolicy(when=is_big_async),
        ApprovalPolicy(name="n"),
        ApprovalPolicy(expires_after=1),
        ApprovalPolicy(valid_for=1),
        ApprovalPolicy(strict=True),
        ApprovalPolicy(on_denied="stop"),
        ApprovalPolicy(on_expired="stop"),
    ]

    assert len(policies) == len({policy.digest for policy in policies})
    assert ApprovalPolicy(expires_after=60).digest == (
        ApprovalPolicy(expires_after=timedelta(minutes=1)).digest
    )


def test_agent_tool_can_need_approval() -> None:
    def about_money(input: str) -> bool:  # noqa: A002 - the argument's name
        return "money" in input

    child = Agent("child")
    gated = child.as_tool(approval=about_money)

    money = gated.effective_arguments('{"input":"send money"}')
    words = gated.effective_arguments('{"input":"send words"}')

    assert asyncio.run(gated.needs_approval(money))
    assert not asyncio.run(gated.needs_approval(words))
    assert not asyncio.run(child.as_tool().needs_approval(money))


@pytest.mark.parametrize("condition", [positional, any_number, print])
def test_policy_that_takes_values_by_position_is_refused_when_declared(
    condition: Callable[..., object],
) -> None:
    """It would be called without any value, and so would decide about nothing."""
    with pytest.raises(InvalidInput, match="by position"):
        needs_approval(condition)


@pytest.mark.parametrize("option", ["expires_after", "valid_for"])
@pytest.mark.parametrize(
    "period", [1e12, 1e300, float("inf"), timedelta(days=3651), timedelta.max]
)
def test_period_that_no_clock_can_add_is_refused(option: str, period: Any) -> None:
    """It would raise when the call is examined, in every process."""
    with pytest.raises(InvalidInput, match=f"{option} must be .* at most 3650 days"):
        ApprovalPolicy(**{option: period})

    longest: dict[str, Any] = {option: timedelta(days=3650)}
    assert ApprovalPolicy(**longest) is not None


def test_order_of_approvers_in_a_set_does_not_change_the_policy() -> None:
    """Each process has another order of a set."""
    names = [f"person-{number}" for number in range(50)]

    first = ApprovalPolicy(approvers={*names})  # type: ignore[arg-type]

    assert tuple(sorted(names)) == first.approvers
    assert ApprovalPolicy(approvers=sorted(names)).digest == first.digest
