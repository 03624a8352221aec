"""The actions of the racing processes; each returns its reply as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations import Approve, Deny
from tests.torture.agents import RUN

if TYPE_CHECKING:
    from continuations import Outcome
    from tests.torture.process_actor import ProcessActor
    from tests.torture.start_gate import RacerAction
    from tests.torture.workspace import Workspace


def resume_once(actor: ProcessActor) -> str:
    """Resume the run once."""
    return outcome_name(actor.start_or_resume("resume"))


def start_action(input_text: str) -> RacerAction:
    """Return the action that starts the run with an input."""
    return lambda actor: outcome_name(
        actor.worker_runner().start(input_text, run_id=RUN)
    )


def sweep_once(actor: ProcessActor) -> str:
    swept = actor.worker_runner().sweep()
    return f"swept, failed: {sorted(map(repr, swept.errors.values()))}"


def cancel_run(actor: ProcessActor) -> str:
    return actor.decider_runner().cancel(RUN, by="kim").status


def decide_action(
    wait_id: str, number: int, *, then_resume: bool = False
) -> RacerAction:
    """Return the action that approves (even number) or denies (odd number) a wait."""

    def act(actor: ProcessActor) -> str:
        verdict = (Deny if number % 2 else Approve)(by=f"kim{number}")
        decision = actor.decider_runner().decide(wait_id, verdict)
        if then_resume:
            return resume_once(actor)
        return f"decided {decision.kind} {decision.by}"

    return act


def outcome_name(outcome: Outcome) -> str:
    """Return the name of an outcome's type."""
    return type(outcome).__name__


def wait_ids(workspace: Workspace) -> list[str]:
    """Return the ids of the open waits of the tested run."""
    keys = workspace.run_files.keys("waits/")
    return [key.removeprefix("waits/") for key in keys if key.endswith(f"@{RUN}")]
