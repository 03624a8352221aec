"""Tools whose policies decide themselves or check again, and the grants of deciders."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from continuations import ApprovalPolicy, Approve, Deny, Grant
from tests.simulation.processes import current_process

# The argument `what` that a grant with a schema covers.
COVERED_VALUES = ("1", "2")
# The seconds for which the checks before calls have one verdict.
_CHECK_SECONDS = 9.0
_OTHER_TOOL = "another_tool"


@dataclass(frozen=True, slots=True)
class Recheck:
    """The verdict of one check before an approved call."""

    process: str
    tool: str
    what: str
    at: float
    allowed: bool


def small_amounts(what: str) -> bool | Approve | Deny:
    """Approve, deny, let run, or ask a person."""
    if what == "1":
        return Approve(reason="small")
    if what == "2":
        return Deny(reason="too large")
    return what != "22"


def check_of(tool: str) -> Callable[[str], Coroutine[None, None, bool]]:
    """Return the check before the calls of a tool: it refuses some of the time."""

    async def is_open(what: str) -> bool:
        process = current_process()
        environment = process.environment
        period = int(environment.loop.time() / _CHECK_SECONDS)
        allowed = environment.faults.stopped or period % 3 != 1
        environment.rechecks.append(
            Recheck(process.name, tool, what, environment.next_timestamp, allowed)
        )
        return allowed

    return is_open


RULE_POLICIES: dict[str, ApprovalPolicy] = {
    "ruled": ApprovalPolicy(when=small_amounts),
    "rechecked": ApprovalPolicy(recheck=check_of("rechecked")),
    "sealed": ApprovalPolicy(editable=[]),
}


def strict_policy(option: object) -> ApprovalPolicy:
    """Return the policy of an `approval` option, made strict."""
    policy = ApprovalPolicy.from_option(option)
    assert policy is not None
    return replace(policy, strict=True)


def checked_policy(option: object, tool: str) -> ApprovalPolicy:
    """Return the policy of an `approval` option with a check before each call."""
    policy = ApprovalPolicy.from_option(option)
    assert policy is not None
    return replace(policy, recheck=check_of(tool))


def draw_grant(rng: random.Random, tool: str, now: datetime) -> Grant | None:
    """Draw the grant of an approval; a few of them are refused."""
    draws = [rng.random() for _ in range(4)]
    if draws[0] < 0.35:
        return None
    schema = {"properties": {"what": {"enum": list(COVERED_VALUES)}}}
    return Grant(
        _OTHER_TOOL if draws[1] < 0.05 else tool,
        schema if draws[2] < 0.6 else None,
        now + timedelta(seconds=5 + draws[3] * 300) if draws[3] < 0.4 else None,
    )
