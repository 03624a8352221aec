"""A scenario in which one process dies at any storage operation, and others go on.

A row of the tables is a class::

    class LastVote(Votes):
        \"\"\"The vote counts once.\"\"\"

        def before(self) -> None:
            ...  # processes that stay alive

        def dies(self) -> None:
            self.process().decide(self.wait.id, Approve(by="lee"))

        def then(self) -> None:
            ...  # what other processes do, and what must be true

A class whose name begins with an underscore is a base of rows, and no row.

The tables are `crashes_of_runs.py`, `crashes_of_decisions.py`,
`crashes_of_conversations.py` and `crashes_of_objects.py`. Two executors take rows:

- `test_crash_scenarios.py` lets the process crash at each operation, in memory.
- `tests/torture/test_killed_scenarios.py` kills a process of its own by SIGKILL, on
  files.

So `dies` changes nothing that `then` reads but the store and the logs of effects.
"""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING, Any, ClassVar

from continuations import Answer, Approve, Finished, Runner
from continuations.errors import AlreadyDecided
from continuations_storage import MemoryStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.outcomes import expect, single_wait
from tests.run_recovery import RunRecovery

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from continuations import Agent, Outcome, Wait
    from continuations.results import Verdict
    from continuations_storage import Store
    from tests.run_environment import RunEnvironment

    MakeStore = Callable[[ManualClock], Store]

DAY = 86_400


class Scenario:
    """A store with a clock, and the processes that share them.

    Attributes:
        more_than: The process that dies makes more operations than this.
        step: Every `step`-th operation is tried by default; see `every_crash`.
        recoveries: The ways in which others go on. They take turns by default.
        reaches: Events that some of the crashes must lead to, see `reached`.
        recovery: The way of this execution.
        reached: The events of this execution.
    """

    run_id: ClassVar[str] = "r1"
    more_than: ClassVar[int] = 5
    step: ClassVar[int] = 2
    recoveries: ClassVar[tuple[str, ...]] = ("sweep",)
    reaches: ClassVar[frozenset[str]] = frozenset()

    def __init__(
        self,
        environment: RunEnvironment,
        recovery: str,
        make_store: MakeStore | None = None,
    ) -> None:
        self.environment = environment
        self.recovery = recovery
        self.reached = set[str]()
        self.clock = ManualClock()
        self.store = make_store(self.clock) if make_store else self.store_in_memory()

    # The row ---------------------------------------------------------------------

    def agents(self) -> Agent:
        raise NotImplementedError

    def store_in_memory(self) -> Store:
        """Return the store of an execution in memory; it tells its time."""
        return MemoryStore(self.clock.now)

    def options(self) -> dict[str, Any]:
        """Return further options of the runner of each process."""
        return {}

    def before(self) -> None:
        """Do what comes before, in processes that stay alive."""

    def dies(self) -> None:
        raise NotImplementedError

    def then(self) -> None:
        """Go on in other processes, and check what must be true."""
        raise NotImplementedError

    # The processes ---------------------------------------------------------------

    def on(self, store: Store) -> Scenario:
        """Return the scenario as a process with another view of the store sees it."""
        seen = copy.copy(self)
        seen.store = store
        return seen

    def process(self, agents: Any = None) -> Runner:
        agents = self.agents() if agents is None else agents
        return Runner(agents, store=self.store, clock=self.clock, **self.options())

    def start(self) -> Wait:
        return single_wait(self.process().start("go", run_id=self.run_id))

    def resume(self) -> Outcome:
        """Resume the run in a new process, after the claim of the dead one."""
        self.clock.seconds += 120
        return self.process().resume(self.run_id)

    def sweep(self) -> None:
        """Let the claims of dead processes end, and sweep until nothing is due."""
        for _ in range(3):
            self.clock.seconds += 120
            assert {} == self.process().sweep().errors

    def finish(self) -> None:
        """Check that no marker and no wait is left, also after the longest delay."""
        self.sweep()
        self.clock.seconds += 3 * DAY
        self.sweep()
        left = self.keys("markers/", "waits/")
        assert [] == left, left

    # What happened ---------------------------------------------------------------

    def keys(self, *prefixes: str) -> list[str]:
        return [key for each in prefixes for key in asyncio.run(self.store.keys(each))]

    def effects(self, *but: str) -> list[str]:
        """Return the effects in their order, but for those of some tools."""
        names = self.environment.effect_names()
        return [each for each in names if each.partition(" ")[0] not in but]

    def approve_unknown(self, wait: Wait, result: str) -> None:
        """End a wait about an unknown outcome truly: the log says what happened."""
        assert "unknown" == wait.kind
        what = next(iter(wait.arguments.values()))
        ran = f"{wait.tool} {what}" in self.effects()
        verdict = Answer(result, by="kim") if ran else Approve(by="kim")
        self.process().decide(wait.id, verdict)


class RunToItsEnd(Scenario, RunRecovery):
    """A run whose first process may die anywhere; others bring it to its end.

    Attributes:
        start_input: The input of the run.
    """

    more_than = 12
    step = 5
    recoveries = ("resume", "sweep")
    start_input: ClassVar[Any] = "go"

    def verdict(self, wait: Wait) -> Verdict:
        del wait
        return Approve(by="kim")

    def check(self, outcome: Finished) -> None:
        raise NotImplementedError

    def dies(self) -> None:
        """Do everything."""
        self.resume_to_end()

    def then(self) -> None:
        (self.sweep_to_end if self.recovery == "sweep" else self.resume_to_end)()
        outcome = expect(self.process().resume(self.run_id), Finished)
        self.check(outcome)

    def worker_runner(self) -> Runner:
        return self.process()

    decider_runner = worker_runner

    def start_or_resume(self, verb: str) -> Outcome:
        if verb == "start":
            return self.process().start(self.start_input, run_id=self.run_id)
        return self.process().resume(self.run_id)

    def let_pass(self, seconds: float) -> None:
        self.clock.seconds += seconds

    def end_waits(self, waits: Sequence[Wait]) -> None:
        """Decide the waits; wake a model, or let its time pass, in turns."""
        for wait in waits:
            if wait.kind == "model":
                continue
            # The process that died may have recorded another verdict.
            try:
                self.process().decide(wait.id, self.verdict(wait))
            except AlreadyDecided:
                continue
        if any(wait.kind == "model" for wait in waits):
            self.let_pass(3600)
            if int(self.clock.seconds / 3600) % 2:
                self.process().wake(self.run_id)


def tell(wait: Wait) -> None:
    """Record a notification: the id of the wait and its approvers."""
    effect_log.append_effect("told", wait.id, approvers=[*wait.approvers])


def rows_of(*tables: ModuleType) -> list[type[Scenario]]:
    """Return the rows of some tables, in the order of their source."""
    return [
        value
        for table in tables
        for name, value in vars(table).items()
        if isinstance(value, type)
        and issubclass(value, Scenario)
        and value.__module__ == table.__name__
        and not name.startswith("_")
    ]
