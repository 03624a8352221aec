"""The faults of one schedule: drawn from its seed, each with a name.

A fault's name says which process it hits, where, and its kind: `worker1/17 freeze` hits
the 17th store operation of `worker1`, `worker1/t17 caller_stops` its 17th other draw.

Each process has its own random numbers, and each operation draws equally many. So a
fault can be left out without changing the draws of any other process.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Phase = Literal["before", "flight", "after"]
# The changes that a deployment may make to tools; see `tools.deployed_tools`.
CodeChange = Literal["parameter", "version", "removal", "approval"]
# Changes of policies only, which one family of schedules has beside the others.
PolicyChange = Literal["strict", "recheck"]
# Tools and agents get other names, and the new code knows the old ones.
NameChange = Literal["renames"]
# The code of workflows has another call, or one more call under a patch.
FlowChange = Literal["other_argument", "other_tool", "patched"]
Deployment: TypeAlias = CodeChange | PolicyChange | NameChange | FlowChange
# Code of workflows that does not fit the histories of the code before.
MISFITS = frozenset({"other_argument", "other_tool"})

# Faults of one store operation, with the probability for schedules that have the kind.
STORE_FAULT_RATES: dict[str, float] = {
    # The process dies before, during or after the request.
    "crash": 0.012,
    # The process freezes before, during or after the request.
    "freeze": 0.02,
    # The store has applied the request; the reply is lost.
    "lost_reply": 0.015,
    # The request and the reply are lost.
    "lost_request": 0.01,
    # The reply is lost, and the store applies the request after that.
    "late_request": 0.01,
    # The store applies nothing and says so.
    "refused": 0.015,
    # The client repeats the request.
    "sent_twice": 0.03,
    # The request or the reply takes seconds.
    "slow": 0.02,
}
LOST_REPLY_KINDS = frozenset({"lost_reply", "lost_request", "late_request"})
_WRITE_FAULTS = LOST_REPLY_KINDS | {"sent_twice"}
_DELETE_FAULTS = _WRITE_FAULTS - {"lost_request"}

# Faults of other places: listings, calls, model turns, whole processes, clocks.
OTHER_FAULT_RATES: dict[str, float] = {
    # A listing of waits shows an older state.
    "stale_listing": 0.5,
    # A process freezes right before it sends the first byte of a call.
    "freeze_before_call": 0.1,
    # A process dies while a tool or a model works.
    "die_in_call": 0.05,
    # A model raises an error instead of replying.
    "model_error": 0.08,
    # The caller stops an operation, as by Ctrl-C or a time limit.
    "caller_stops": 0.06,
    # A process dies at some time.
    "kill": 0.4,
    # A process freezes at some time.
    "freeze_later": 0.4,
    # The clock of a process is off by up to a quarter of a claim.
    "skew": 0.6,
    # The clock of a process is set, to another time within a quarter of a claim.
    "clock_set": 0.2,
    # The clock of a process is off by more than a quarter of a claim.
    "clock_far_off": 0.2,
    # The clock of a process is off by hours or by months.
    "clock_wrong_by_days": 0.25,
    # One run's own code cancels the task that works on it, each time.
    "poison_run": 0.3,
    # Processes get other code of some tools, one after the other.
    "deployment": 0.4,
    # A system acts late, or not at all, and does not reply in time.
    "tool_times_out": 0.6,
    # The store reports a create not at all, late, twice, or without a create.
    "report_lost": 0.3,
    "report_late": 0.3,
    "report_doubled": 0.3,
    "report_spurious": 0.2,
}
FAULT_KINDS = frozenset(STORE_FAULT_RATES) | frozenset(OTHER_FAULT_RATES)


@dataclass(slots=True)
class OperationPlan:
    """The course of one store operation: its fault, if any, and its delays."""

    kind: str | None
    phase: Phase
    request_delay: float
    reply_delay: float
    freeze_seconds: float


def freeze_seconds(draw: float) -> float:
    """Return the length of a freeze: short, most of a claim, or several claims."""
    if draw < 0.35:
        return 1.0 + draw * 30
    if draw < 0.75:
        return 12.0 + draw * 30
    return 35.0 + (draw - 0.75) * 300


@dataclass(slots=True)
class FaultSchedule:
    """The faults of one schedule.

    Attributes:
        seed: The seed of the schedule.
        allowed_kinds: The kinds of faults that may occur.
        excluded: Names of single faults and of actors that are left out.
        stopped: True once no more faults occur.
        occurred: The names of the faults so far, in their order.
        rates: The probability of each kind that this schedule has.
        latency: The longest normal delay of a request or reply, in seconds.
    """

    seed: int
    allowed_kinds: frozenset[str]
    excluded: frozenset[str]
    stopped: bool = False
    occurred: list[str] = field(default_factory=list[str])
    rates: dict[str, float] = field(default_factory=dict[str, float])
    latency: float = 0.05

    def __post_init__(self) -> None:
        """Draw the kinds of faults of this schedule; few schedules have all kinds."""
        rng = random.Random(f"{self.seed}/weather")  # noqa: S311 - not for secrets
        share = rng.choice((0.0, 0.25, 0.5, 1.0))
        factor = rng.choice((0.5, 1.0, 1.0, 2.5))
        self.latency = rng.choice((0.005, 0.05, 0.3))
        for kind, rate in (STORE_FAULT_RATES | OTHER_FAULT_RATES).items():
            has_kind = rng.random() < share
            if has_kind and kind in self.allowed_kinds:
                self.rates[kind] = min(1.0, rate * factor)

    def rate_of(self, kind: str) -> float:
        """Return the probability of a kind, 0 if it cannot occur now."""
        return 0.0 if self.stopped else self.rates.get(kind, 0.0)

    def record(self, name: str) -> bool:
        """Record a fault that is about to occur; False if it is left out."""
        if name in self.excluded:
            return False
        self.occurred.append(name)
        return True

    def plan_operation(self, name: str, rng: random.Random, verb: str) -> OperationPlan:
        """Draw the course of a store operation."""
        draws = [rng.random() for _ in range(4)]
        kind = self._draw_kind(draws[0], verb)
        phases: tuple[Phase, ...] = ("before", "flight", "after")
        phase = phases[int(draws[1] * 3)]
        if kind is not None and not self.record(f"{name} {kind}"):
            kind = None
        request_delay, reply_delay = self.latency * draws[2], self.latency * draws[3]
        if kind == "slow" and phase == "after":
            reply_delay += 14 * draws[3]
        elif kind == "slow":
            request_delay += 14 * draws[2]
        freeze = freeze_seconds(draws[3])
        return OperationPlan(kind, phase, request_delay, reply_delay, freeze)

    def _draw_kind(self, draw: float, verb: str) -> str | None:
        possible = {"create": _WRITE_FAULTS, "delete": _DELETE_FAULTS}.get(
            verb, frozenset()
        )
        for kind in STORE_FAULT_RATES:
            rate = self.rate_of(kind)
            if kind in _WRITE_FAULTS and kind not in possible:
                continue
            if draw < rate:
                return kind
            draw -= rate
        return None
