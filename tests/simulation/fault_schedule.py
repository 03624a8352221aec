"""What goes wrong in a schedule, and when: drawn from the seed, and can be left out.

A fault's name says where it strikes: `worker1/17 freeze` is the 17th throw of that
process. Each process has dice of its own and each operation throws equally often, so a
fault can be left out without changing what everybody else draws.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Literal

Phase = Literal["before", "flight", "after"]

# How likely an operation on the store is struck, for kinds that a schedule has.
STORE_FAULT_RATES: dict[str, float] = {
    "crash": 0.012,  # the process dies before, while or after the request is under way
    "freeze": 0.02,  # it stops there, for a while
    "lost": 0.015,  # it landed; the reply was lost
    "unlanded": 0.01,  # the reply was lost, and the request too
    "late": 0.01,  # the reply was lost, and the request lands after that
    "refused": 0.015,  # nothing was written, and that is said
    "twice": 0.03,  # a retrying client sent it twice
    "slow": 0.02,  # it takes seconds
}
LOST_REPLY_KINDS = frozenset({"lost", "unlanded", "late"})
_WRITE_FAULTS = LOST_REPLY_KINDS | {"twice"}
_DELETE_FAULTS = _WRITE_FAULTS - {"unlanded"}

# The others strike elsewhere.
OTHER_FAULT_RATES: dict[str, float] = {
    "stale": 0.5,  # a listing of waits lags
    "gap": 0.1,  # a process freezes in front of the first byte of a call
    "die": 0.05,  # a process dies while a tool or a model works
    "model": 0.08,  # a model gives no answer, once
    "stop": 0.06,  # somebody presses Ctrl-C, or a time limit does
    "strike": 0.4,  # a process is killed at some moment
    "stall": 0.4,  # a process freezes at some moment
    "skew": 0.6,  # clocks are off by up to a quarter of a claim
    "jump": 0.2,  # a clock is set at some moment, from within a quarter to within one
    "clock": 0.2,  # a clock is off by more
}
FAULT_KINDS = frozenset(STORE_FAULT_RATES) | frozenset(OTHER_FAULT_RATES)


@dataclass(slots=True)
class OperationPlan:
    """How one operation goes."""

    kind: str | None
    phase: Phase
    request_delay: float
    reply_delay: float
    freeze_seconds: float


def freeze_seconds(draw: float) -> float:
    """Return how long a freeze lasts: a moment, most of a claim, or several."""
    if draw < 0.35:
        return 1.0 + draw * 30
    if draw < 0.75:
        return 12.0 + draw * 30
    return 35.0 + (draw - 0.75) * 300


@dataclass(slots=True)
class FaultSchedule:
    """The faults of one schedule.

    `allowed` are the kinds that may be at all, `without` the single faults and actors
    that are left out, `struck` those that happened.
    """

    seed: int
    allowed_kinds: frozenset[str]
    excluded: frozenset[str]
    stopped: bool = False
    occurred: list[str] = field(default_factory=list[str])
    rates: dict[str, float] = field(default_factory=dict[str, float])
    latency: float = 0.05

    def __post_init__(self) -> None:
        """Draw which kinds this schedule has; few schedules have them all."""
        dice = random.Random(f"{self.seed}/weather")  # noqa: S311 - not for secrets
        share = dice.choice((0.0, 0.25, 0.5, 1.0))
        force = dice.choice((0.5, 1.0, 1.0, 2.5))
        self.latency = dice.choice((0.005, 0.05, 0.3))
        for kind, rate in (STORE_FAULT_RATES | OTHER_FAULT_RATES).items():
            has = dice.random() < share
            if has and kind in self.allowed_kinds:
                self.rates[kind] = min(1.0, rate * force)

    def rate_of(self, kind: str) -> float:
        """Return how likely a kind strikes, 0 if it never does."""
        return 0.0 if self.stopped else self.rates.get(kind, 0.0)

    def record(self, name: str) -> bool:
        """Note a fault that is about to happen, unless it is left out."""
        if name in self.excluded:
            return False
        self.occurred.append(name)
        return True

    def plan_operation(self, name: str, rng: random.Random, verb: str) -> OperationPlan:
        """Return how an operation on the store goes."""
        throws = [rng.random() for _ in range(4)]
        kind = self._draw_kind(throws[0], verb)
        moments: tuple[Phase, ...] = ("before", "flight", "after")
        moment = moments[int(throws[1] * 3)]
        if kind is not None and not self.record(f"{name} {kind}"):
            kind = None
        going, coming = self.latency * throws[2], self.latency * throws[3]
        if kind == "slow" and moment == "after":
            coming += 14 * throws[3]
        elif kind == "slow":
            going += 14 * throws[2]
        return OperationPlan(kind, moment, going, coming, freeze_seconds(throws[3]))

    def _draw_kind(self, draw: float, verb: str) -> str | None:
        struck = {"create": _WRITE_FAULTS, "delete": _DELETE_FAULTS}.get(
            verb, frozenset()
        )
        for kind in STORE_FAULT_RATES:
            rate = self.rate_of(kind)
            if kind in _WRITE_FAULTS and kind not in struck:
                continue
            if draw < rate:
                return kind
            draw -= rate
        return None
