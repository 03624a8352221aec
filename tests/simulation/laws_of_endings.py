"""Laws of endings: what is true once faults have stopped and only sweeps followed."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from continuations.core.run import ENDED_STATUSES
from continuations.core.state import ROOT_FRAME_ID
from continuations.ledger import layout
from tests.simulation.agents import undisturbed_results
from tests.simulation.processes import wall_time

if TYPE_CHECKING:
    from tests.simulation.evidence import Evidence, RunHistory


def no_run_stranded(evidence: Evidence) -> str | None:
    """Every run has ended, or has an open wait that is undecided and shown."""
    for story in evidence.runs.values():
        if not story.versions or story.ended:
            continue
        wrong = _why_stranded(evidence, story)
        if wrong:
            return f"{story.run_id} {wrong}, and nothing moves it"
    return None


def _why_stranded(  # noqa: PLR0911 - one for each way
    evidence: Evidence, history: RunHistory
) -> str | None:
    state, bodies = history.newest_state, evidence.environment.store.bodies
    now = wall_time(evidence.environment.loop.time())
    if state.run.status == "running":
        return "is still running"
    if not state.waits:
        return "waits for nothing"
    if state.runnable:
        return f"could go on with {list(state.runnable)}"
    for wait in state.waits.values():
        if wait.id in evidence.decisions:
            return f"has the decision of {wait.id}"
        if wait.deadline is not None and wait.deadline < now:
            return f"waits for {wait.id} after its deadline"
        if f"waits/{wait.id}" not in bodies:
            return f"waits for {wait.id}, which is not shown"
    if layout.cancel_request_key(history.run_id) in bodies:
        return "was cancelled"
    prefix = f"{layout.arrivals_prefix(history.run_id)}m-"
    letters = [key for key in bodies if key.startswith(prefix)]
    if (
        len(letters) > state.run.last_inbox_number
        and not state.frames[ROOT_FRAME_ID].open_call_ids
    ):
        return "has a message"
    return None


def ended_run_leaves_no_keys(evidence: Evidence) -> str | None:
    """A run that has ended is not listed and has no markers."""
    for story in evidence.runs.values():
        if not story.ended:
            continue
        for key in evidence.environment.store.bodies:
            listed = key.startswith(("waits/", "markers/"))
            if listed and key.endswith(f"@{story.run_id}"):
                return f"{story.run_id} has ended, and there is {key}"
    return None


def listed_waits_are_open(evidence: Evidence) -> str | None:
    """What is listed is open and undecided."""
    for key in evidence.environment.store.keys("waits/"):
        wait_id = key.removeprefix("waits/")
        story = evidence.runs[wait_id.partition("@")[2]]
        if wait_id in evidence.decisions:
            return f"{wait_id} is listed, and decided"
        if (
            story.newest_state.run.status in ENDED_STATUSES
            or wait_id not in story.newest_state.waits
        ):
            return f"{wait_id} is listed, and its run does not wait for it"
    return None


def same_end_as_uninterrupted(evidence: Evidence) -> str | None:
    """Where nobody meddled, a run ends as it does when nothing happens."""
    for story in evidence.runs.values():
        if not story.ended or _was_influenced(evidence, story):
            continue
        expected = uninterrupted_end(evidence.environment.tree_of_run[story.run_id])
        found = _final_state(story)
        if found != expected:
            return f"{story.run_id} ended as {found}, not as {expected}"
    return None


@cache
def uninterrupted_end(tree: str) -> tuple[str, ...]:
    """Return how a tree's run ends when nothing happens and everybody says yes."""
    from tests.simulation.simulate import run_uninterrupted  # noqa: PLC0415 - in a circle

    return _final_state(run_uninterrupted(tree).runs["r0"])


def _final_state(history: RunHistory) -> tuple[str, ...]:
    run = history.newest_state.run
    texts = [
        message.text for message in history.newest_state.logs[ROOT_FRAME_ID].messages
    ]
    return (run.status, run.output or "", *texts)


def _was_influenced(evidence: Evidence, history: RunHistory) -> bool:
    """Tell whether people, or what they could know, changed what the run means."""
    letters = f"{layout.arrivals_prefix(history.run_id)}m-"
    if layout.cancel_request_key(history.run_id) in evidence.created:
        return True
    if any(key.startswith(letters) for key in evidence.created):
        return True
    natural = undisturbed_results()
    for known in evidence.waits.values():
        decision = known.decision
        if known.wait.run_id != history.run_id or decision is None:
            continue
        if decision.kind == "answer" and decision.value in natural:
            continue
        if decision.kind != "approve" or decision.arguments is not None:
            return True
        if known.wait.valid_for is not None and _was_too_old(history):
            return True
    run = history.newest_state.run
    gave_up = run.failure is not None and run.failure.code == "attempts"
    return gave_up and bool(evidence.environment.faults.occurred)


def _was_too_old(history: RunHistory) -> bool:
    return any("too old" in text for text in _final_state(history))
