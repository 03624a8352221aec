"""The operations of one process: worker, decider, or recovery after a crash."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from continuations import Answer, Approve, Outcome, Runner, Suspended, Wait, errors
from continuations_storage import Store
from tests.run_recovery import RunRecovery
from tests.torture.agents import (
    CHOICE,
    EVENT,
    EVENT_DATA,
    JOB_RESULT,
    RUN,
    make_root_agent,
    make_root_workflow,
)
from tests.torture.scenarios import Scenario, Step
from tests.torture.workspace import Workspace

# The effect of the `on_answer` function of each tool that has one.
ANSWER_FUNCTIONS = {"choose": "chosen", "scan": "scanned", "receipt": "received"}


@dataclass
class ProcessActor(RunRecovery):
    """One process in a workspace; every operation uses a new runner."""

    scenario: Scenario
    workspace: Workspace
    store: Store
    unknown_waits: set[str] = field(default_factory=set[str])
    resumer: Runner | None = None

    def __post_init__(self) -> None:
        """Advance the run as the scenario says."""
        self.resume_with = self.scenario.resume_with

    def worker_runner(self, *, model_down: bool = False) -> Runner:
        """Return a new runner with the agents."""
        script, store = self.scenario.script, self.store
        if self.scenario.is_workflow:
            agent = make_root_workflow(script, store)
        else:
            agent = make_root_agent(script, store, model_down=model_down)
        return Runner(agent, store=store, clock=self.workspace.clock)

    def decider_runner(self) -> Runner:
        """Return a new runner without agents."""
        return Runner([], store=self.store, clock=self.workspace.clock)

    # One step of the scenario ------------------------------------------------------

    def perform(self, step: Step) -> None:
        """Do a step of the scenario."""
        decider = self.decider_runner()
        match step.verb:
            case "start" | "resume":
                with suppress(*([errors.ModelError] if step.model_down else [])):
                    self.start_or_resume(step.verb, model_down=step.model_down)
            case "decide":
                for wait in decider.look(RUN).waits[: step.decide_count]:
                    self.decide(wait)
            case "vote":
                [wait] = decider.look(RUN).waits
                decider.decide(wait.id, Approve(by=wait.approvers[0]))
            case "publish":
                decider.publish(EVENT, EVENT_DATA, id="parcel-1")
            case "send":
                decider.send(RUN, "One thing more.", by="kim")
            case _:
                self._operate(step.verb)

    def _operate(self, verb: str) -> None:
        decider = self.decider_runner()
        match verb:
            case "revoke":
                for grant in decider.grants(RUN):
                    decider.revoke(RUN, grant.id, by="lee")
            case "pause":
                decider.pause(RUN, reason="audit", by="kim")
            case "cancel":
                decider.cancel(RUN, by="kim")
            case "rewind":
                self._rewind_to_the_first_wait(decider)
            case _:
                self.cancel_first_call()

    def _rewind_to_the_first_wait(self, decider: Runner) -> None:
        first = next(each.number for each in decider.history(RUN) if each.waits)
        plan = decider.plan_rewind(RUN, first)
        # Another process may have moved the run on while this one was frozen.
        with suppress(errors.InvalidInput, errors.RunBusy, errors.StaleRun):
            decider.rewind(RUN, first, shown=plan.digest, by="kim")

    def start_or_resume(self, verb: str, *, model_down: bool = False) -> Outcome:
        """Start or resume the run."""
        worker = self.worker_runner(model_down=model_down)
        if verb == "start":
            task: Any = {"task": "go"} if self.scenario.is_workflow else "go"
            return worker.start(task, run_id=RUN)
        return worker.resume(RUN)

    def decide(self, wait: Wait) -> None:
        """End a wait; the process that died may have ended it already."""
        if self.scenario.cancels_first_call:
            self.cancel_first_call()
        decider = self.decider_runner()
        match wait.kind:
            case "operator":
                decider.unpause(RUN, by="kim")
            case "event":
                decider.publish(EVENT, EVENT_DATA, id=wait.id)
            case "alarm":
                self.workspace.clock.offset_seconds += 4000
            case _:
                with suppress(
                    errors.AlreadyDecided, errors.Cancelled, errors.WaitExpired
                ):
                    self._decide(decider, wait)

    def _decide(self, decider: Runner, wait: Wait) -> None:
        tool = ANSWER_FUNCTIONS[wait.tool] if wait.stage else wait.tool
        effects = self.workspace.run_files.effect_names()
        happened = f"{tool} {wait.arguments['what']}" in effects
        if wait.kind == "unknown":
            self.unknown_waits.add(wait.id)
        if wait.kind == "question":
            decider.decide(wait.id, Answer(CHOICE, by="kim"))
        elif wait.kind == "external":
            decider.decide(wait.id, Answer(JOB_RESULT))
        elif tool == "scan" and happened:
            # The job that was started reports its result.
            job = (self.workspace.folder / "job").read_text("utf-8")
            decider.decide(job, Answer(JOB_RESULT))
        elif wait.quorum is not None:
            verdict = self.scenario.decide(wait, happened)
            for name in decider.wait(wait.id).approvers:
                decider.decide(wait.id, replace(verdict, by=name))
        else:
            decider.decide(wait.id, self.scenario.decide(wait, happened))

    def cancel_first_call(self) -> None:
        """Cancel the call with the argument 1, if it waits."""
        decider = self.decider_runner()
        for wait in decider.look(RUN).waits:
            if wait.arguments["what"] == "1":
                decider.cancel(RUN, call=wait.call_id, by="kim")

    def end_waits(self, waits: Sequence[Wait]) -> None:
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

    def let_pass(self, seconds: float) -> None:
        """Move the clock of all processes."""
        self.workspace.clock.offset_seconds += seconds

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
