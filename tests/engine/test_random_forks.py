"""Random forks, rewinds, decisions and resumes repeat nothing unasked.

The law: a call of a tool with a policy runs at most once for each approval, and any
other call runs at most once more than it was approved. Calls of one turn of one script
are the same call in every run, because forks and rewinds come from one run.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from continuations import Answer, Approve, Deny, Runner
from continuations.core.call_events import RepeatAllowed
from continuations.core.calls import Started
from continuations.core.reducer import advance
from continuations.engine import forking, later_versions, rewinding
from continuations.engine.adoption import Relocation
from continuations.engine.later_versions import LaterCalls
from continuations.errors import AlreadyDecided, Cancelled, DecisionRefused
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.engine.past_agents import RUN_ID, SCRIPT, three_deep
from tests.scripts import call

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations.core.calls import CallRow
    from continuations.core.decisions import Verdict
    from continuations.core.state import RunState
    from tests.run_environment import RunEnvironment

SEEDS = range(60)
ACTS = 14
NAMES = ("pay", "mail", "book", "read", "choose")


class Schedule:
    """One run with its forks: one of them is worked on at a time."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - not for secrets
        self.clock = ManualClock()
        turns: list[Any] = [
            [
                call(self.random.choice(NAMES), what=f"{turn}-{place}")
                for place in range(self.random.randint(1, 2))
            ]
            for turn in range(4)
        ]
        script = {**SCRIPT, "C": [*turns, "clerk done"]}
        store = MemoryStore(self.clock.now)
        self.runner = Runner(three_deep(script), store=store, clock=self.clock)
        self.run = RUN_ID
        self.approvals: Counter[str] = Counter()
        self.forks = 0

    def play(self) -> None:
        """Start the run, and do random acts."""
        pauses = iter([False] * self.random.randint(1, 6))
        self.runner.start("go", run_id=RUN_ID, should_pause=lambda: next(pauses, True))
        acts = [self.resume, self.decide, self.decide, self.fork, self.rewind]
        for _ in range(ACTS):
            self.clock.seconds += 60
            self.random.choice(acts)()

    def resume(self) -> None:
        """Resume the run, sometimes until a pause only."""
        pauses = iter([False] * self.random.randint(0, 6))
        stops: Callable[[], bool] = lambda: next(pauses, True)  # noqa: E731 - one use
        self.runner.resume(self.run, should_pause=stops)

    def decide(self) -> None:
        """Decide one wait in a random way; count the approvals."""
        waits = self.runner.look(self.run).waits
        if not waits:
            return
        wait = self.random.choice(waits)
        approves = wait.kind != "question" and self.random.random() < 0.7
        verdict: Verdict = Answer("x", by="kim")
        if approves:
            verdict = Approve(by="kim")
        elif wait.kind == "approval":
            verdict = Deny(by="kim")
        try:
            self.runner.decide(wait.id, verdict)
        except (AlreadyDecided, Cancelled, DecisionRefused):
            pass  # it is decided, or the call may still run
        else:
            self.approvals[f"{wait.tool} {wait.arguments['what']}"] += approves

    def fork(self) -> None:
        """Go on with a fork of a random version."""
        newest = self.runner.look(self.run).version
        version = self.random.randint(1, newest)
        self.forks += 1
        ended = self.runner.look(self.run, version=version).status == "finished"
        if not ended:
            self.run = self.runner.fork(self.run, version, run_id=f"f{self.forks}")

    def rewind(self) -> None:
        """Go on from a random version."""
        run = self.runner.look(self.run)
        if run.version > 1 and run.status == "suspended":
            version = self.random.randint(1, run.version - 1)
            self.runner.rewind(self.run, version)

    def violations(self, effects: list[str]) -> list[str]:
        """Return the calls that ran more often than people allowed."""
        free = {"pay": 0, "mail": 1, "book": 1, "choose": 1}
        return [
            f"{name} ran {count} times"
            for name, count in Counter(effects).items()
            if (tool := name.partition(" ")[0]) in free
            and count > free[tool] + self.approvals[name]
        ]


def played(environment: RunEnvironment, seed: int) -> list[str]:
    """Return the violations of the law in one schedule."""
    (environment.folder / "effects").unlink(missing_ok=True)
    schedule = Schedule(seed)
    schedule.play()
    return schedule.violations(environment.effect_names())


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_that_was_approved_or_started_is_repeated_unasked(
    environment: RunEnvironment, seed: int
) -> None:
    assert [] == played(environment, seed)


# Seeded bugs: each rule is undone, and some schedule breaks the law ----------------


def _forget_tools(patch: pytest.MonkeyPatch) -> None:
    read = later_versions.read_later_calls

    async def forgetful(*arguments: Any) -> LaterCalls:
        found = await read(*arguments)
        return LaterCalls(found.begun, (), found.wait_ids)

    patch.setattr(forking, "read_later_calls", forgetful)
    patch.setattr(rewinding, "read_later_calls", forgetful)


def _repeat_started(patch: pytest.MonkeyPatch) -> None:
    def repeats(self: Relocation, state: RunState, row: CallRow) -> RunState:
        del self
        if not isinstance(row.state, Started):
            return state
        return advance(state, RepeatAllowed(call_id=row.id))

    patch.setattr(Relocation, "_with_unfinished_call", repeats)


@pytest.mark.parametrize("undo", [_forget_tools, _repeat_started])
def test_law_breaks_without_each_rule(
    environment: RunEnvironment,
    monkeypatch: pytest.MonkeyPatch,
    undo: Callable[[pytest.MonkeyPatch], None],
) -> None:
    undo(monkeypatch)

    assert any(played(environment, seed) for seed in SEEDS)
