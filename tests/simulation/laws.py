"""What must be true of every schedule; one function each, one sentence when it is not.

Here are the laws of what happened outside and of what is kept; those of how a
schedule ends are in `endings.py`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from continuations.core import jsontext
from continuations.core.calls import Started
from continuations.core.decisions import Decision
from continuations.core.messages import Message
from continuations.core.waits import call_digest
from continuations.errors import (
    AlreadyDecided,
    Cancelled,
    ContinuationsError,
    WaitExpired,
)
from tests.simulation.agents import GATED, REPEATABLE, TOOLS
from tests.simulation.processes import EPOCH
from tests.simulation.world import Effect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.simulation.evidence import Evidence, Known, RunStory
    from tests.simulation.world import Asked, Told

Law: TypeAlias = "Callable[[Evidence], str | None]"
LAWS: dict[str, Law] = {}


def law(check: Law) -> Law:
    """Add a law under its own name."""
    LAWS[check.__name__] = check
    return check


# Decisions --------------------------------------------------------------------------


@law
def one_decision(evidence: Evidence) -> str | None:
    """Each wait has at most one decision, never changed, and deciders are told it."""
    for wait_id in evidence.decisions:
        key = decision_key(wait_id)
        if len(evidence.made[key]) > 1 or key in evidence.removed:
            return f"the decision of {wait_id} was made twice, or removed"
    for told in evidence.world.told:
        wrong = _told_wrong(evidence, told)
        if wrong:
            return f"{told.process} decided {told.wait_id} and was told {wrong}"
    return None


def decision_key(wait_id: str) -> str:
    """Return where a wait's decision stands."""
    name, _, run_id = wait_id.partition("@")
    return f"runs/{run_id}/in/d-{name}"


def _told_wrong(evidence: Evidence, told: Told) -> str | None:
    stands, _ = evidence.decisions.get(told.wait_id, (None, 0.0))
    match told.answer:
        case Decision():
            fits = stands == told.answer
        case AlreadyDecided(decision=decision):
            fits = stands == decision
        case Cancelled():
            fits = stands is not None and stands.kind == "cancel"
        case WaitExpired():
            # Nothing may stand yet: its own clock says that it is too late.
            fits = True
        case ContinuationsError():
            fits = True
        case _:
            fits = False
    return None if fits else f"{told.answer!r} where {stands!r} stands"


@law
def refused_never_runs(evidence: Evidence) -> str | None:
    """What was denied, has expired or was cancelled has no effect after that."""
    for known in evidence.waits.values():
        decision = known.decision
        if decision is None or decision.kind in ("approve", "answer"):
            continue
        for done in effects_of(evidence, known):
            began_before = known.wait.kind == "unknown" and (
                done.looked.at <= known.decided_at
            )
            if not began_before:
                return f"{_name(done)} ran, though {decision.kind} stands"
    for story in evidence.runs.values():
        if not story.ended:
            continue
        for done in evidence.world.effects:
            if done.run_id == story.run_id and done.looked.at > story.ended_at:
                return f"{_name(done)} ran after its run had ended"
    return None


def effects_of(evidence: Evidence, known: Known) -> Iterator[Effect]:
    """Go through the effects of the call that a wait belongs to."""
    for done in evidence.world.effects:
        if (done.run_id, done.call_id) == (known.wait.run_id, known.wait.call_id):
            yield done


def _name(done: Effect) -> str:
    where = f"{done.run_id} {done.call_id} attempt {done.attempt} fence {done.fence}"
    return f"{done.tool}({done.arguments}) of {where} by {done.process}"


@law
def executed_is_approved(evidence: Evidence) -> str | None:
    """What a gated tool got is, to the byte, what the standing approval covers."""
    for done in evidence.world.effects:
        if done.tool not in GATED:
            continue
        waits = [
            known
            for known in evidence.waits.values()
            if known.wait.kind == "approval"
            and (known.wait.run_id, known.wait.call_id) == (done.run_id, done.call_id)
            and known.since < done.began
        ]
        last = max(waits, key=lambda known: known.since, default=None)
        wrong = _not_covered(evidence, done, last)
        if wrong:
            return f"{_name(done)}: {wrong}"
    return None


def _not_covered(evidence: Evidence, done: Effect, known: Known | None) -> str | None:
    if known is None or known.decision is None:
        return "nobody approved it"
    wait, decision = known.wait, known.decision
    if decision.kind != "approve" or known.decided_at > done.looked.at:
        return f"{decision.kind} stands since {known.decided_at}"
    tool = TOOLS[wait.tool]
    covered = decision.arguments or wait.arguments_json
    if done.tool != wait.tool or tool.bind(covered) != done.arguments:
        return f"{covered} was approved"
    digest = call_digest(
        birth=evidence.runs[wait.run_id].last.run.birth,
        frame_id=_frame_of(evidence, wait.run_id, wait.call_id),
        call_id=wait.call_id,
        arguments=wait.arguments_json,
        meaning=tool.meaning,
    )
    if not digest == wait.digest == decision.digest:
        return "the digest of the decision is not that of the call"
    return None


@law
def fresh_enough(evidence: Evidence) -> str | None:
    """No call begins when its approval is older than it may be."""
    for known in evidence.waits.values():
        wait, decision = known.wait, known.decision
        if wait.valid_for is None or decision is None or decision.kind != "approve":
            continue
        last = (decision.at - EPOCH).total_seconds() + wait.valid_for
        later = [
            other
            for other in evidence.waits.values()
            if other.wait.call_id == wait.call_id and other.since > known.since
        ]
        for done in effects_of(evidence, known):
            if not later and done.looked.wall > last + 0.002:
                return f"{_name(done)} began {done.looked.wall - last:.1f} s too late"
    return None


def _frame_of(evidence: Evidence, run_id: str, call_id: str) -> str:
    for version in evidence.runs[run_id].versions:
        if call_id in version.table.calls:
            return version.table.calls[call_id].frame
    return ""


# Effects ----------------------------------------------------------------------------


@law
def started_once(evidence: Evidence) -> str | None:
    """A call that may not be repeated starts once, and again only if it is told to."""
    for (run_id, call_id), effects in by_call(evidence.world.effects).items():
        starts = dict(_starts(evidence.runs[run_id], call_id))
        for done in effects:
            if starts.get(done.attempt, done.began) >= done.looked.at:
                return f"{_name(done)} was not recorded as started before"
        if effects[0].tool in REPEATABLE:
            continue
        attempts = [done.attempt for done in effects]
        if len(set(attempts)) < len(attempts):
            return f"{_name(effects[0])} had {len(attempts)} effects"
        if len(starts) > 1 + _told_to_run(evidence, run_id, call_id):
            return f"{_name(effects[0])} was started {len(starts)} times"
    return None


def by_call(effects: Sequence[Effect]) -> dict[tuple[str, str], list[Effect]]:
    """Return the effects of each call, in the order in which they began."""
    found: dict[tuple[str, str], list[Effect]] = {}
    for done in effects:
        found.setdefault((done.run_id, done.call_id), []).append(done)
    return found


def _starts(story: RunStory, call_id: str) -> Iterator[tuple[int, float]]:
    """Go through a call's recorded attempts, and when each was first recorded."""
    seen = 0
    for version in story.versions:
        call = version.table.calls.get(call_id)
        if call is not None and call.attempts > seen:
            seen = call.attempts
            if isinstance(call.state, Started):
                yield call.attempts, version.at


def _told_to_run(evidence: Evidence, run_id: str, call_id: str) -> int:
    """Return how often somebody, or `verify`, may have said that it did not happen."""
    told = 0
    for known in evidence.waits.values():
        wait = known.wait
        if (wait.run_id, wait.call_id, wait.kind) == (run_id, call_id, "unknown"):
            verifies = TOOLS[wait.tool].verify is not None
            approved = known.decision is not None and known.decision.kind == "approve"
            told += approved or verifies
    return told


@law
def finished_never_again(evidence: Evidence) -> str | None:
    """A call whose result is kept has no later effect."""
    for done in evidence.world.effects:
        closed = evidence.runs[done.run_id].closed_at.get(done.call_id)
        if closed is not None and closed < done.looked.at:
            return f"{_name(done)} ran after its result was kept"
    return None


@law
def same_key(evidence: Evidence) -> str | None:
    """Repeats carry the same key and a larger fence; no two calls share a key."""
    owners: dict[str, tuple[str, str]] = {}
    for call, effects in by_call(evidence.world.effects).items():
        if len({done.key for done in effects}) > 1:
            return f"{_name(effects[0])} had several idempotency keys"
        if owners.setdefault(effects[0].key, call) != call:
            return f"{_name(effects[0])} has the key of another call"
        fences = {done.attempt: done.fence for done in effects}
        ordered = [fences[attempt] for attempt in sorted(fences)]
        if any(a >= b for a, b in pairwise(ordered)):
            return f"{_name(effects[0])} was repeated with the fences {ordered}"
        if len(fences) < len(effects):
            return f"{_name(effects[0])} ran {len(effects)} times in one attempt"
    return None


# Models -----------------------------------------------------------------------------


@law
def turn_asked_once(evidence: Evidence) -> str | None:
    """A turn whose reply is kept is not asked again; nor twice by one worker."""
    seen: set[tuple[str, str, str, int]] = set()
    for asked in evidence.world.asked:
        holder = evidence.runs[asked.run_id].before(asked.looked.at)
        claim = holder.table.run.claim if holder else None
        kept = evidence.runs[asked.run_id].answered_at.get((asked.task, asked.turn))
        if kept is not None and kept < asked.looked.at:
            return f"{_question(asked)} was asked after its reply was kept"
        worker = claim.worker if claim else ""
        once = (worker, asked.run_id, asked.task, asked.turn)
        if once in seen:
            return f"{_question(asked)} was asked twice by one worker"
        seen.add(once)
    return None


def _question(asked: Asked) -> str:
    return f"turn {asked.turn} of {asked.run_id} {asked.task} ({asked.process})"


@law
def transcripts_valid(evidence: Evidence) -> str | None:
    """Every request that any model got could be sent to any provider."""
    for asked in evidence.world.asked:
        wrong = _not_sendable([jsontext.parse(text) for text in asked.messages])
        if wrong:
            return f"{_question(asked)}: {wrong}"
    return None


def _not_sendable(messages: list[dict[str, object]]) -> str | None:
    owed: list[object] = []
    ids: set[object] = set()
    for message in messages:
        if message["role"] == "tool":
            if not owed or owed.pop(0) != message["tool_call_id"]:
                return "a result stands where no call waits for it"
            continue
        if owed:
            return f"the results of {owed} are missing"
        calls = Message.of(message).calls
        if ids & set(calls) or len(set(calls)) < len(calls):
            return f"an id of {calls} was used before"
        ids.update(calls)
        owed = list(calls)
    return f"the results of {owed} are missing" if owed else None


# Claims -----------------------------------------------------------------------------


@law
def frozen_starts_nothing(evidence: Evidence) -> str | None:
    """No call begins after its process's claim was over, but for the one gap."""
    deeds: list[Effect | Asked] = [*evidence.world.effects, *evidence.world.asked]
    for deed in deeds:
        story = evidence.runs[deed.run_id]
        version = story.before(deed.looked.at)
        if version is None or version.process != deed.process:
            made_by = version.process if version else "nobody"
            return f"{_said(deed)} began while {made_by} held the run"
        claim = version.table.run.claim
        until = (claim.until - EPOCH).total_seconds() if claim else 0.0
        if until < deed.looked.wall:
            return f"{_said(deed)} began without a claim"
    return None


def _said(deed: Effect | Asked) -> str:
    return _name(deed) if isinstance(deed, Effect) else _question(deed)


@law
def one_line(evidence: Evidence) -> str | None:
    """Versions are dense, each made from its base, never made twice, and load."""
    for story in evidence.runs.values():
        if story.fault:
            return story.fault
        numbers = [version.number for version in story.versions]
        if numbers != list(range(1, len(numbers) + 1)):
            return f"the versions of {story.run_id} are {numbers}"
    for key, made in evidence.made.items():
        if "/v/" in key and (len(made) > 1 or key in evidence.removed):
            return f"{key} was made {len(made)} times, or removed"
    return None


@law
def no_leak_of_errors(evidence: Evidence) -> str | None:
    """Nobody ever sees an error that is not the library's own."""
    return next(iter(evidence.world.leaks), None)
