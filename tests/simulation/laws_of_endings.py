"""Laws of endings: what is true once faults have stopped and only sweeps followed."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from continuations.core.run import ENDED
from continuations.core.table import ROOT
from continuations.ledger import layout
from tests.simulation.agents import natural_results
from tests.simulation.processes import wall

if TYPE_CHECKING:
    from tests.simulation.evidence import Evidence, RunStory


def nobody_stranded(evidence: Evidence) -> str | None:
    """Every run has ended, or has an open wait that is undecided and shown."""
    for story in evidence.runs.values():
        if not story.versions or story.ended:
            continue
        wrong = _stranded(evidence, story)
        if wrong:
            return f"{story.run_id} {wrong}, and nothing moves it"
    return None


def _stranded(  # noqa: PLR0911 - one for each way
    evidence: Evidence, story: RunStory
) -> str | None:
    table, bodies = story.last, evidence.world.store.bodies
    now = wall(evidence.world.loop.time())
    if table.run.status == "running":
        return "is still running"
    if not table.waits:
        return "waits for nothing"
    if table.agenda:
        return f"could go on with {list(table.agenda)}"
    for wait in table.waits.values():
        if wait.id in evidence.decisions:
            return f"has the decision of {wait.id}"
        if wait.deadline is not None and wait.deadline < now:
            return f"waits for {wait.id} after its deadline"
        if f"waits/{wait.id}" not in bodies:
            return f"waits for {wait.id}, which is not shown"
    if layout.cancellation(story.run_id) in bodies:
        return "was cancelled"
    prefix = f"{layout.arrivals(story.run_id)}m-"
    letters = [key for key in bodies if key.startswith(prefix)]
    if len(letters) > table.run.inbox and not table.frames[ROOT].open:
        return "has a message"
    return None


def ended_is_clean(evidence: Evidence) -> str | None:
    """A run that has ended is not listed and has no markers."""
    for story in evidence.runs.values():
        if not story.ended:
            continue
        for key in evidence.world.store.bodies:
            listed = key.startswith(("waits/", "markers/"))
            if listed and key.endswith(f"@{story.run_id}"):
                return f"{story.run_id} has ended, and there is {key}"
    return None


def listed_is_open(evidence: Evidence) -> str | None:
    """What is listed is open and undecided."""
    for key in evidence.world.store.keys("waits/"):
        wait_id = key.removeprefix("waits/")
        story = evidence.runs[wait_id.partition("@")[2]]
        if wait_id in evidence.decisions:
            return f"{wait_id} is listed, and decided"
        if story.last.run.status in ENDED or wait_id not in story.last.waits:
            return f"{wait_id} is listed, and its run does not wait for it"
    return None


def same_end(evidence: Evidence) -> str | None:
    """Where nobody meddled, a run ends as it does when nothing happens."""
    for story in evidence.runs.values():
        if not story.ended or _meddled(evidence, story):
            continue
        expected = quiet_end(evidence.world.trees[story.run_id])
        found = _end_of(story)
        if found != expected:
            return f"{story.run_id} ended as {found}, not as {expected}"
    return None


@cache
def quiet_end(tree: str) -> tuple[str, ...]:
    """Return how a tree's run ends when nothing happens and everybody says yes."""
    from tests.simulation.simulate import uninterrupted  # noqa: PLC0415 - in a circle

    return _end_of(uninterrupted(tree).runs["r0"])


def _end_of(story: RunStory) -> tuple[str, ...]:
    run = story.last.run
    texts = [message.text for message in story.last.logs[ROOT].messages]
    return (run.status, run.output or "", *texts)


def _meddled(evidence: Evidence, story: RunStory) -> bool:
    """Tell whether people, or what they could know, changed what the run means."""
    letters = f"{layout.arrivals(story.run_id)}m-"
    if layout.cancellation(story.run_id) in evidence.made:
        return True
    if any(key.startswith(letters) for key in evidence.made):
        return True
    natural = natural_results()
    for known in evidence.waits.values():
        decision = known.decision
        if known.wait.run_id != story.run_id or decision is None:
            continue
        if decision.kind == "answer" and decision.value in natural:
            continue
        if decision.kind != "approve" or decision.arguments is not None:
            return True
        if known.wait.valid_for is not None and _was_too_old(story):
            return True
    run = story.last.run
    gave_up = run.failure is not None and run.failure.code == "attempts"
    return gave_up and bool(evidence.world.weather.struck)


def _was_too_old(story: RunStory) -> bool:
    return any("too old" in text for text in _end_of(story))
