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
        (lambda cents: cents > 100, True),
        (lambda cents: cents > 1_000, False),
        (lambda cents, **_: cents > 100, True),
        (lambda **given: given == {"cents": 500, "to": "kim"}, True),
        (lambda to: to != "kim", False),
        (lambda cents, other=3: cents > other, True),
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
        lambda: [],
        lambda: lambda: False,
        lambda unknown: False,  # noqa: ARG005 - it is never given
        lambda cents, /: False,  # noqa: ARG005 - it cannot be given by name
        lambda cents: cents["a"],
        bool,
        print,
    ],
)
def test_anything_else_keeps_the_call_from_running(
    condition: Callable[..., object],
) -> None:
    with pytest.raises(PolicyFailed, match="nothing ran"):
        asks(condition)


def test_the_refusal_does_not_show_what_was_raised() -> None:
    def secretive() -> bool:
        msg = "password"
        raise ValueError(msg)

    with pytest.raises(PolicyFailed) as caught:
        asks(secretive)

    assert "the approval policy raised ValueError; nothing ran" == str(caught.value)


def test_arguments_that_are_not_effective_let_nothing_pass() -> None:
    @tool(approval=lambda cents: cents > 100)
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
    child = Agent("child")
    gated = child.as_tool(approval=lambda input: "money" in input)  # noqa: A006

    money = gated.bind('{"input":"send money"}')
    words = gated.bind('{"input":"send words"}')

    assert asyncio.run(gated.needs_approval(money))
    assert not asyncio.run(gated.needs_approval(words))
    assert not asyncio.run(child.as_tool().needs_approval(money))
