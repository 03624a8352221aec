"""Laws that planted faults showed to be missing.

Each of them is broken by a fault which no other law noticed in 5,000 schedules.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from continuations.authoring.faults import ArgumentsInvalid
from continuations.core import jsontext
from continuations.core.calls import CLOSED
from continuations.core.run import ENDED
from continuations.core.table import ROOT
from continuations.wire.records import decode_letter
from tests.simulation.agents import REPEATABLE, TOOLS
from tests.simulation.laws import law
from tests.simulation.processes import EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations.core.table import Table
    from continuations.core.waits import Wait
    from tests.simulation.evidence import Evidence, RunStory
    from tests.simulation.world import Asked


@law
def ended_by_its_decision(evidence: Evidence) -> str | None:
    """A wait that a version no longer names was decided before it, or verified."""
    for story in evidence.runs.values():
        for before, after in pairwise(story.versions):
            for wait in before.table.waits.values():
                if wait.id in after.table.waits or _verified(wait):
                    continue
                decision, at = evidence.decisions.get(wait.id, (None, 0.0))
                if decision is None or at > after.at:
                    said = "later" if decision else "never"
                    return f"version {after.number} ends {wait.id}, decided {said}"
    return None


def _verified(wait: Wait) -> bool:
    tool = TOOLS.get(wait.tool)
    return wait.kind == "unknown" and tool is not None and tool.verify is not None


@law
def decided_in_time(evidence: Evidence) -> str | None:
    """People decide before the deadline, the clock decides after it."""
    for known in evidence.waits.values():
        decision, deadline = known.decision, known.wait.deadline
        if decision is None or deadline is None or decision.kind == "cancel":
            continue
        if (decision.at > deadline) != (decision.kind == "expire"):
            return f"{known.wait.id}: {decision.kind} at {decision.at}, by {deadline}"
    return None


@law
def approved_lately(evidence: Evidence) -> str | None:
    """No call begins by an approval that is too old by its worker's clock."""
    for done in evidence.world.effects:
        covering = [
            (known.since, known.decision.at, known.wait.valid_for)
            for known in evidence.waits.values()
            if (known.wait.run_id, known.wait.call_id) == (done.run_id, done.call_id)
            and known.wait.kind == "approval"
            and known.since < done.looked.at
            and known.decision is not None
        ]
        _, at, valid_for = max(covering, default=(0.0, EPOCH, None))
        # Whether an earlier attempt had an effect, nobody knows: it is repeated.
        if valid_for is None or done.attempt > 1:
            continue
        age = done.looked.wall - (at - EPOCH).total_seconds()
        if age > valid_for + 0.001:
            return f"{done.call_id} began {age} s after its approval"
    return None


@law
def edits_fit(evidence: Evidence) -> str | None:
    """No edit is recorded that the tool's schema refuses."""
    for known in evidence.waits.values():
        if known.decision is None or known.decision.arguments is None:
            continue
        tool = TOOLS.get(known.wait.tool)
        try:
            given = tool.bind(known.decision.arguments) if tool else None
        except ArgumentsInvalid as error:
            return f"{known.wait.id} was approved with what does not fit: {error}"
        del given
    return None


# Messages ---------------------------------------------------------------------------


@law
def each_message_once(evidence: Evidence) -> str | None:
    """What was sent is said once, in its order; what counts as read was said."""
    for story in evidence.runs.values():
        if not story.versions:
            continue
        letters = list(_letters(evidence, story))
        if len(set(letters)) < len(letters):
            return f"a message to {story.run_id} was posted twice: {letters}"
        log = [message.text for message in story.last.logs[ROOT].messages]
        said = [text for text in log if text in letters]
        if said != letters[: story.last.run.inbox]:
            return f"{story.run_id} was sent {letters}, and said {said}"
    return None


def _letters(evidence: Evidence, story: RunStory) -> Iterator[str]:
    for key in evidence.world.store.keys(f"runs/{story.run_id}/in/m-"):
        body = evidence.world.store.bodies[key]
        yield decode_letter(body, key, story.run_id).message.text


# What must be kept before ------------------------------------------------------------


@law
def asked_after_kept(evidence: Evidence) -> str | None:
    """A model reads what is kept, and results that would come out the same again."""
    for asked in evidence.world.asked:
        version = evidence.runs[asked.run_id].before(asked.looked.at)
        if version is None:
            return f"turn {asked.turn} of {asked.task} is asked before there is a run"
        kept, closed = _kept(version.table, asked.task)
        if asked.messages[: len(kept)] != kept:
            return f"turn {asked.turn} of {asked.task} reads other words than are kept"
        for text in asked.messages[len(kept) :]:
            call_id = jsontext.parse(text).get("tool_call_id")
            if call_id not in closed and _tool_of(asked, call_id) not in REPEATABLE:
                return f"turn {asked.turn} of {asked.task} reads what is not kept"
    return None


def _kept(table: Table, task: str) -> tuple[tuple[str, ...], set[str]]:
    """Return a frame's messages, and the ids of its calls that have a result."""
    for frame, log in table.logs.items():
        first = next(m.content for m in log.messages if m.role == "user")
        if first == task:
            rows = [call for call in table.calls.values() if call.frame == frame]
            closed = {row.provider_id for row in rows if isinstance(row.state, CLOSED)}
            return tuple(message.text for message in log.messages), closed
    return (), set()


def _tool_of(asked: Asked, call_id: object) -> str | None:
    for text in asked.messages:
        for call in jsontext.parse(text).get("tool_calls") or ():
            if call["id"] == call_id:
                name: str = call["function"]["name"]
                return name
    return None


# Cancelling and giving up -----------------------------------------------------------


@law
def cancelled_soon(evidence: Evidence) -> str | None:
    """Who works on a run that was cancelled finds out by the second commit."""
    for story in evidence.runs.values():
        for landed in evidence.made.get(f"runs/{story.run_id}/in/cancel", [])[:1]:
            later: dict[str, int] = {}
            for version in story.versions:
                claim = version.table.run.claim
                if claim is None or version.at < landed.at:
                    continue
                later[claim.worker] = later.get(claim.worker, 0) + 1
                if later[claim.worker] > 2:
                    return f"{version.process} went on with {story.run_id}, cancelled"
    return None


@law
def cancelled_with_its_run(evidence: Evidence) -> str | None:
    """A wait that was closed with its run belongs to a run that ended."""
    for wait_id, (decision, _) in evidence.decisions.items():
        story = evidence.runs[wait_id.partition("@")[2]]
        if decision.kind == "cancel" and story.versions:
            status = story.last.run.status
            if status not in ("cancelled", "failed"):
                return f"{wait_id} was closed with its run, which is {status}"
    return None


@law
def given_up_in_vain_only(evidence: Evidence) -> str | None:
    """A run is given up only if no worker since the first of the last made progress."""
    for story in evidence.runs.values():
        failure = story.last.run.failure if story.versions else None
        if failure is None or failure.code != "attempts":
            continue
        tries = _tries(story)
        for first, last in tries[-1 - evidence.world.attempts : -1]:
            if _progress(first) != _progress(last):
                return f"{story.run_id} was given up, though it moved on"
    return None


def _tries(story: RunStory) -> list[tuple[Table, Table]]:
    """Return the first and the last version of each worker that had a claim."""
    tries: list[tuple[Table, Table]] = []
    worker = None
    for version in story.versions:
        claim = version.table.run.claim
        if claim is None or version.table.run.status in ENDED:
            continue
        if claim.worker != worker:
            tries.append((version.table, version.table))
        tries[-1] = (tries[-1][0], version.table)
        worker = claim.worker
    return tries


def _progress(table: Table) -> tuple[int, int, int]:
    said = sum(len(log.messages) for log in table.logs.values())
    closed = sum(isinstance(call.state, CLOSED) for call in table.calls.values())
    return table.run.next_id, said, closed
