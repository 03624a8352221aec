"""The operations of one process: worker, decider, or recovery after a crash."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from continuations import (
    AlreadyDecided,
    Cancelled,
    ModelError,
    RunBusy,
    Runner,
    RunNotFound,
    Suspended,
    WaitExpired,
)
from continuations.core.run import ENDED_STATUSES
from tests.torture.agents import RUN, make_root_agent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations import Outcome, Wait
    from continuations_storage import Store
    from tests.torture.scenarios import Scenario, Step
    from tests.torture.workspace import Workspace

MAX_ROUNDS = 60


@dataclass
class ProcessActor:
    """One process in a workspace; every operation uses a new runner."""

    scenario: Scenario
    workspace: Workspace
    store: Store
    unknown_waits: set[str] = field(default_factory=set[str])
    resumer: Runner | None = None

    def worker_runner(self, *, model_down: bool = False) -> Runner:
        """Return a new runner with the agents."""
        agent = make_root_agent(self.scenario.script, self.store, model_down=model_down)
        return Runner(agent, store=self.store, clock=self.workspace.clock)

    def decider_runner(self) -> Runner:
        """Return a new runner without agents."""
        return Runner([], store=self.store, clock=self.workspace.clock)

    # One step of the scenario ------------------------------------------------------

    def perform(self, step: Step) -> None:
        """Do a step of the scenario."""
        match step.verb:
            case "start" | "resume":
                with suppress(*([ModelError] if step.model_down else [])):
                    self.start_or_resume(step.verb, model_down=step.model_down)
            case "decide":
                for wait in self.decider_runner().look(RUN).waits[: step.decide_count]:
                    self.decide(wait)
            case "cancel":
                self.decider_runner().cancel(RUN, by="kim")
            case "send":
                self.decider_runner().send(RUN, "One thing more.", by="kim")

    def start_or_resume(self, verb: str, *, model_down: bool = False) -> Outcome:
        """Start or resume the run."""
        worker = self.worker_runner(model_down=model_down)
        if verb == "start":
            return worker.start("go", run_id=RUN)
        return worker.resume(RUN)

    def decide(self, wait: Wait) -> None:
        """Decide a wait; the process that died may have decided it already."""
        if wait.kind == "unknown":
            self.unknown_waits.add(wait.id)
        effect = f"{wait.tool} {wait.arguments['what']}"
        happened = effect in self.workspace.run_files.effect_names()
        with suppress(AlreadyDecided, Cancelled, WaitExpired):
            self.decider_runner().decide(wait.id, self.scenario.decide(wait, happened))

    def end_waits(self, waits: list[Wait]) -> None:
        """End the waits as the scenario says; always decide unknown outcomes."""
        decider = self.decider_runner()
        if self.scenario.sends_message and not self.workspace.run_files.keys(
            f"runs/{RUN}/in/m-"
        ):
            decider.send(RUN, "One thing more.", by="kim")
        if self.scenario.waits_end_by == "cancel":
            decider.cancel(RUN, by="kim")
            return
        for wait in waits:
            if wait.kind == "unknown" or self.scenario.waits_end_by == "decide":
                self.decide(wait)
            else:
                self.workspace.clock.offset_seconds += 4000

    # After a crash ------------------------------------------------------------

    def resume_to_end(self) -> None:
        """Resume the run and decide its waits, until it ends."""
        for _ in range(MAX_ROUNDS):
            try:
                outcome = self.start_or_resume(self.scenario.resume_with)
            except RunNotFound:
                outcome = self.start_or_resume("start")
            except RunBusy:
                self.workspace.clock.offset_seconds += 31
                continue
            if not isinstance(outcome, Suspended):
                return
            self.end_waits(list(outcome.waits))
        raise AssertionError(self.decider_runner().look(RUN).to_json())

    def sweep_to_end(self) -> None:
        """Only sweep, and decide the listed waits, until the run ends."""
        for seconds in self._sweep_delays():
            self.workspace.clock.offset_seconds += seconds
            swept = self.worker_runner().sweep()
            assert {} == swept.errors, swept.errors
            decider = self.decider_runner()
            try:
                state = decider.look(RUN)
            except RunNotFound:
                # There is no version and the caller got no result: it starts again.
                self.start_or_resume("start")
                continue
            if state.status in ENDED_STATUSES:
                return
            if state.status == "suspended":
                listed = [each.id for each in decider.waiting() if each.run_id == RUN]
                assert sorted(wait.id for wait in state.waits) == sorted(listed)
                self.end_waits([decider.wait(wait_id) for wait_id in listed])
        raise AssertionError(self.decider_runner().look(RUN).to_json())

    def _sweep_delays(self) -> Iterator[float]:
        for number in range(MAX_ROUNDS):
            yield 61 if number < 20 else 3600

    def sweep_leftovers(self) -> None:
        """Sweep over some days."""
        for _ in range(3):
            self.workspace.clock.offset_seconds += 100_000
            swept = self.worker_runner().sweep()
            assert {} == swept.errors, swept.errors


def start_other_run(actor: ProcessActor) -> None:
    """Start another run whose id begins like that of the tested run."""
    script = {"other": [[["pay", {"what": "other"}]], "end"]}
    agent = make_root_agent(script, actor.store)
    runner = Runner(agent, store=actor.store, clock=actor.workspace.clock)
    outcome = runner.start("other", run_id=f"{RUN}.2")
    assert isinstance(outcome, Suspended), json.dumps(outcome.continuation.to_json())
