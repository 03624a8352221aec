"""One race: its processes, its workspace, and the checks after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.torture import child_processes, violations
from tests.torture.process_actor import ProcessActor
from tests.torture.start_gate import race_processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from random import Random

    from tests.torture.scenarios import Scenario
    from tests.torture.start_gate import RacerAction
    from tests.torture.workspace import Workspace

RESUME_REPLIES = {"Finished", "Suspended", "Failed", "RunBusy", "StaleRun"}
SWEPT = "swept, failed: []"


@dataclass(frozen=True)
class Round:
    """One race: a scenario at some step in a workspace, and random numbers."""

    scenario: Scenario
    workspace: Workspace
    expected: Workspace
    rng: Random

    def race(
        self,
        actions: Sequence[RacerAction],
        on_start: Callable[[], None] = lambda: None,
    ) -> list[str]:
        """Run each action in a process, all at once; returns their replies in order.

        The processes are forked in a random order.
        """
        order = list(range(len(actions)))
        self.rng.shuffle(order)
        replies = race_processes(
            self.scenario, self.workspace, [actions[k] for k in order], on_start
        )
        by_action = dict(zip(order, replies, strict=True))
        return [by_action[k] for k in range(len(actions))]

    def run_in_child(self, work: Callable[[ProcessActor], None]) -> None:
        """Run a function in one more process."""
        code = child_processes.run_in_child(
            lambda: work(
                ProcessActor(self.scenario, self.workspace, self.workspace.enter())
            )
        )
        if code:
            self.workspace.store_violations([f"a process exited with {code}"])

    def finish_and_check(self, scenario: Scenario) -> Iterator[str]:
        """Advance the run to its end and yield every violation of a scenario."""

        def work(actor: ProcessActor) -> None:
            actor.resume_to_end()
            actor.scenario = scenario
            found = violations.find_violations(actor, self.expected)
            self.workspace.store_violations(found)

        self.run_in_child(work)
        yield from self.workspace.violations()


def unexpected_replies(replies: Sequence[str], known: set[str]) -> Iterator[str]:
    """Yield the replies that no process may get."""
    yield from (f"a process got {each}" for each in replies if each not in known)
