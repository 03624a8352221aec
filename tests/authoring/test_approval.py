"""Which calls wait for a person: only a plain False lets one pass."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from continuations.authoring.agent import Agent
from continuations.authoring.approval import ApprovalPolicy
from continuations.authoring.faults import ArgumentsInvalid, PolicyFailed
from continuations.authoring.tool import tool
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable


def asks(approval: Any, written: str = '{"cents":500}') -> bool:
    @tool(approval=approval)
    def pay(cents: int, to: str = "kim") -> None:
        """Pay."""

    return asyncio.run(pay.needs_approval(pay.bind(written)))


async def later(cents: int) -> bool:
    await asyncio.sleep(0)
    return cents > 100


def big(cents: int) -> bool:
    return cents > 100


def huge(cents: int) -> bool:
    return cents > 1_000


def big_of_all(cents: int, **_: object) -> bool:
    return cents > 100


def wrapped(*values: object, **named: object) -> bool:
    return not values and "cents" in named


def knows_all(**given: object) -> bool:
    return given == {"cents": 500, "to": "kim"}


def stranger(to: str) -> bool:
    return to != "kim"


def has_its_own(cents: int, other: int = 3) -> bool:
    return cents > other


class Limit:
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
        (big, True),
        (huge, False),
        (big_of_all, True),
        (knows_all, True),
        (wrapped, True),
        (stranger, False),
        (has_its_own, True),
        (lambda: True, True),
        (later, True),
        (Limit(), True),
        (ApprovalPolicy(when=later), True),
    ],
)
def test_a_policy_asks_or_lets_pass(approval: object, *, expected: bool) -> None:
    assert expected is asks(approval)


def raising() -> bool:
    raise LookupError


async def raising_later() -> bool:
    raise LookupError


def never_given(unknown: int) -> bool:
    return bool(unknown)


def positional(cents: int = 0, /) -> bool:
    return cents > 100


def any_number(*values: int) -> bool:
    return any(values)


def confused(cents: Any) -> bool:
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
        list[int],
        lambda: lambda: False,
        positional,
        any_number,
        confused,
        bool,
        print,
    ],
)
def test_anything_else_keeps_the_call_from_running(
    condition: Callable[..., object],
) -> None:
    with pytest.raises(PolicyFailed, match="nothing ran"):
        asks(condition)


def test_a_condition_on_a_misspelt_argument_is_refused_when_it_is_declared() -> None:
    """It would keep every call from running, and only the model would be told."""
    with pytest.raises(InvalidInput, match=r"wants 'unknown'.*takes: cents"):
        asks(never_given)


def test_the_refusal_does_not_show_what_was_raised() -> None:
    def secretive() -> bool:
        msg = "password"
        raise ValueError(msg)

    with pytest.raises(PolicyFailed) as caught:
        asks(secretive)

    assert "the approval policy raised ValueError; nothing ran" == str(caught.value)


def test_arguments_that_are_not_effective_let_nothing_pass() -> None:
    @tool(approval=big)
    def pay(cents: int) -> None:
        """Pay."""

    with pytest.raises(ArgumentsInvalid):
        asyncio.run(pay.needs_approval('{"cents": 5}'))


@pytest.mark.parametrize("approval", ["yes", 1, 0, "", [], {}, timedelta(1)])
def test_approval_is_one_of_four_things(approval: Any) -> None:
    with pytest.raises(InvalidInput):
        asks(approval)


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
        {"on_denied": "retry"},
        {"on_expired": None},
    ],
)
def test_an_unsound_policy_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        ApprovalPolicy(**options)


def test_times_are_timedeltas() -> None:
    policy = ApprovalPolicy(expires_after=90, valid_for=timedelta(minutes=1))

    assert timedelta(seconds=90) == policy.decision_time
    assert timedelta(seconds=60) == policy.execution_time
    assert ApprovalPolicy().decision_time is None


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (ApprovalPolicy(), None),
        (ApprovalPolicy(name="big sums"), "big sums"),
        (ApprovalPolicy(when=later), "later"),
        (ApprovalPolicy(when=lambda: True), None),
        (ApprovalPolicy(when=Limit()), None),
    ],
)
def test_a_policy_has_a_label(policy: ApprovalPolicy, expected: str | None) -> None:
    assert expected == policy.label


def test_the_digest_follows_what_is_declared() -> None:
    policies = [
        ApprovalPolicy(),
        ApprovalPolicy(when=False),
        ApprovalPolicy(when=later),
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


def test_an_agent_can_need_approval() -> None:
    def about_money(input: str) -> bool:  # noqa: A002 - the argument's name
        return "money" in input

    child = Agent("child")
    gated = child.as_tool(approval=about_money)

    money = gated.bind('{"input":"send money"}')
    words = gated.bind('{"input":"send words"}')

    assert asyncio.run(gated.needs_approval(money))
    assert not asyncio.run(gated.needs_approval(words))
    assert not asyncio.run(child.as_tool().needs_approval(money))
