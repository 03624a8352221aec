"""The ways in which other processes bring a run to its end after one of them died."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from continuations import Outcome, Runner, Suspended, Wait
from continuations.core.rows.run import ENDED_STATUSES
from continuations.errors import RunBusy, RunNotFound

MAX_ROUNDS = 60
LEASE_SECONDS = 61
# The kinds of waits that have an object in the store.
LISTED_KINDS = ("approval", "question", "unknown", "event", "external")


class RunRecovery(ABC):
    """Processes that start, resume or sweep one run, and decide its waits.

    Attributes:
        run_id: The id of the run.
        resume_with: "resume", or "start" for callers that repeat their first request.
    """

    run_id = "r1"
    resume_with = "resume"

    @abstractmethod
    def worker_runner(self) -> Runner:
        """Return the runner of a new process with the agents."""

    @abstractmethod
    def decider_runner(self) -> Runner:
        """Return the runner of a new process that decides."""

    @abstractmethod
    def start_or_resume(self, verb: str) -> Outcome:
        """Start or resume the run in a new process."""

    @abstractmethod
    def end_waits(self, waits: Sequence[Wait]) -> None:
        """End the open waits as the scenario says."""

    @abstractmethod
    def let_pass(self, seconds: float) -> None:
        """Move the clock that the processes share."""

    def resume_to_end(self) -> None:
        """Resume the run and end its waits, until it ends."""
        pause = LEASE_SECONDS
        for _ in range(MAX_ROUNDS):
            try:
                outcome = self.start_or_resume(self.resume_with)
            except RunNotFound:
                outcome = self.start_or_resume("start")
            except RunBusy:
                self.let_pass(pause)
                pause *= 2  # the clock of the dead process was hours ahead
                continue
            pause = LEASE_SECONDS
            if not isinstance(outcome, Suspended):
                return
            self.end_waits(outcome.waits)
        raise AssertionError(self.decider_runner().look(self.run_id).to_json())

    def sweep_to_end(self) -> None:
        """Only sweep, and end the listed waits, until the run ends."""
        for number in range(MAX_ROUNDS):
            self.let_pass(LEASE_SECONDS if number < 20 else 3600)
            swept = self.worker_runner().sweep()
            assert {} == swept.errors, swept.errors
            decider = self.decider_runner()
            try:
                state = decider.look(self.run_id)
            except RunNotFound:
                # There is no version and the caller got no result: it starts again.
                self.start_or_resume("start")
                continue
            if state.status in ENDED_STATUSES:
                return
            if state.status == "suspended":
                waiting = decider.waiting(kinds=LISTED_KINDS)
                listed = [each.id for each in waiting if each.run_id == self.run_id]
                open_ids = [w.id for w in state.waits if w.kind in LISTED_KINDS]
                assert sorted(open_ids) == sorted(listed)
                self.end_waits(state.waits)
        raise AssertionError(self.decider_runner().look(self.run_id).to_json())
