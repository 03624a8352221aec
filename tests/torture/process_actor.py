"""Those who act in a story: a worker, people, and whoever comes after a crash."""

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
    """What one process can do in a place; each act with a runner of its own."""

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
        """Return a new runner without any."""
        return Runner([], store=self.store, clock=self.workspace.clock)

    # One step of the story --------------------------------------------------------

    def perform(self, step: Step) -> None:
        """Do a step as the story has it."""
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
        """Decide a wait; who died before may have decided it, in other words."""
        if wait.kind == "unknown":
            self.unknown_waits.add(wait.id)
        what = f"{wait.tool} {wait.arguments['what']}"
        happened = what in self.workspace.run_files.effect_names()
        with suppress(AlreadyDecided, Cancelled, WaitExpired):
            self.decider_runner().decide(wait.id, self.scenario.decide(wait, happened))

    def end_waits(self, waits: list[Wait]) -> None:
        """Do what ends the waits in this story; unknown outcomes are always told."""
        person = self.decider_runner()
        if self.scenario.sends_message and not self.workspace.run_files.keys(
            f"runs/{RUN}/in/m-"
        ):
            person.send(RUN, "One thing more.", by="kim")
        if self.scenario.waits_end_by == "cancel":
            person.cancel(RUN, by="kim")
            return
        for wait in waits:
            if wait.kind == "unknown" or self.scenario.waits_end_by == "decide":
                self.decide(wait)
            else:
                self.workspace.clock.offset_seconds += 4000

    # After a crash ------------------------------------------------------------

    def resume_to_end(self) -> None:
        """Resume, decide what waits, and so on to the end."""
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
        """Do nothing but sweep, and decide what is listed as waiting."""
        for wait_for in self._sweep_delays():
            self.workspace.clock.offset_seconds += wait_for
            swept = self.worker_runner().sweep()
            assert {} == swept.errors, swept.errors
            person = self.decider_runner()
            try:
                state = person.look(RUN)
            except RunNotFound:
                # Its caller was told nothing, so there is nothing to sweep: once more.
                self.start_or_resume("start")
                continue
            if state.status in ENDED_STATUSES:
                return
            if state.status == "suspended":
                listed = [each.id for each in person.waiting() if each.run_id == RUN]
                assert sorted(wait.id for wait in state.waits) == sorted(listed)
                self.end_waits([person.wait(wait_id) for wait_id in listed])
        raise AssertionError(self.decider_runner().look(RUN).to_json())

    def _sweep_delays(self) -> Iterator[float]:
        for number in range(MAX_ROUNDS):
            yield 61 if number < 20 else 3600

    def sweep_leftovers(self) -> None:
        """Sweep for some days, as a timer would."""
        for _ in range(3):
            self.workspace.clock.offset_seconds += 100_000
            swept = self.worker_runner().sweep()
            assert {} == swept.errors, swept.errors


def start_other_run(actor: ProcessActor) -> None:
    """Leave another run in the store, with a name that begins like ours."""
    script = {"other": [[["pay", {"what": "other"}]], "end"]}
    agent = make_root_agent(script, actor.store)
    runner = Runner(agent, store=actor.store, clock=actor.workspace.clock)
    outcome = runner.start("other", run_id=f"{RUN}.2")
    assert isinstance(outcome, Suspended), json.dumps(outcome.continuation.to_json())
