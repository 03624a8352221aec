"""Laws of deeds: when a tool may have an effect, and when a model may be asked."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.calls import CLOSED_STATES, Started
from continuations.core.messages import Message
from tests.simulation.agents import REPEATABLE, TOOLS
from tests.simulation.processes import EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from continuations.core.state import RunState
    from tests.simulation.evidence import Evidence, RunHistory
    from tests.simulation.sim_environment import Effect, ModelTurn


# Effects ----------------------------------------------------------------------------


def started_once(evidence: Evidence) -> str | None:
    """A call that may not be repeated starts once, and again only if it is told to."""
    for (run_id, call_id), effects in effects_by_call(
        evidence.environment.effects
    ).items():
        starts = dict(_recorded_starts(evidence.runs[run_id], call_id))
        for done in effects:
            if starts.get(done.attempt, done.began) >= done.clock_sample.true_time:
                return f"{done} was not recorded as started before"
        if effects[0].tool in REPEATABLE:
            continue
        attempts = [done.attempt for done in effects]
        if len(set(attempts)) < len(attempts):
            return f"{effects[0]} had {len(attempts)} effects"
        if len(starts) > 1 + _allowed_repeats(evidence, run_id, call_id):
            return f"{effects[0]} was started {len(starts)} times"
    return None


def effects_by_call(effects: Sequence[Effect]) -> dict[tuple[str, str], list[Effect]]:
    """Return the effects of each call, in the order in which they began."""
    found: dict[tuple[str, str], list[Effect]] = {}
    for done in effects:
        found.setdefault((done.run_id, done.call_id), []).append(done)
    return found


def _recorded_starts(history: RunHistory, call_id: str) -> Iterator[tuple[int, float]]:
    """Go through a call's recorded attempts, and when each was first recorded."""
    seen = 0
    for version in history.versions:
        call = version.table.calls.get(call_id)
        if call is not None and call.attempts > seen:
            seen = call.attempts
            if isinstance(call.state, Started):
                yield call.attempts, version.at


def _allowed_repeats(evidence: Evidence, run_id: str, call_id: str) -> int:
    """Return how often somebody, or `verify`, may have said that it did not happen."""
    told = 0
    for known in evidence.waits.values():
        wait = known.wait
        if (wait.run_id, wait.call_id, wait.kind) == (run_id, call_id, "unknown"):
            verifies = TOOLS[wait.tool].verify is not None
            approved = known.decision is not None and known.decision.kind == "approve"
            told += approved or verifies
    return told


def finished_never_runs_again(evidence: Evidence) -> str | None:
    """A call whose result is kept has no later effect."""
    for done in evidence.environment.effects:
        closed = evidence.runs[done.run_id].call_closed_at.get(done.call_id)
        if closed is not None and closed < done.clock_sample.true_time:
            return f"{done} ran after its result was kept"
    return None


def idempotency_key_stable(evidence: Evidence) -> str | None:
    """Repeats carry the same key and a larger fence; no two calls share a key."""
    owners: dict[str, tuple[str, str]] = {}
    for call, effects in effects_by_call(evidence.environment.effects).items():
        if len({done.key for done in effects}) > 1:
            return f"{effects[0]} had several idempotency keys"
        if owners.setdefault(effects[0].key, call) != call:
            return f"{effects[0]} has the key of another call"
        fences = {done.attempt: done.fence for done in effects}
        ordered = [fences[attempt] for attempt in sorted(fences)]
        if any(a >= b for a, b in pairwise(ordered)):
            return f"{effects[0]} was repeated with the fences {ordered}"
        if len(fences) < len(effects):
            return f"{effects[0]} ran {len(effects)} times in one attempt"
    return None


# Models -----------------------------------------------------------------------------


def turn_asked_once(evidence: Evidence) -> str | None:
    """A turn whose reply is kept is not asked again; nor twice by one worker."""
    seen: set[tuple[str, str, str, int]] = set()
    for asked in evidence.environment.model_turns:
        holder = evidence.runs[asked.run_id].version_before(
            asked.clock_sample.true_time
        )
        claim = holder.table.run.claim if holder else None
        kept = evidence.runs[asked.run_id].reply_kept_at.get(
            (asked.frame_task, asked.turn)
        )
        if kept is not None and kept < asked.clock_sample.true_time:
            return f"{asked} was asked after its reply was kept"
        worker = claim.worker if claim else ""
        once = (worker, asked.run_id, asked.frame_task, asked.turn)
        if once in seen:
            return f"{asked} was asked twice by one worker"
        seen.add(once)
    return None


def model_reads_committed_messages(evidence: Evidence) -> str | None:
    """A model reads what is kept, and results that would come out the same again."""
    for asked in evidence.environment.model_turns:
        version = evidence.runs[asked.run_id].version_before(
            asked.clock_sample.true_time
        )
        if version is None:
            return f"{asked} is asked before there is a run"
        kept, closed = _committed_messages(version.table, asked.frame_task)
        if asked.messages[: len(kept)] != kept:
            return f"{asked} reads other words than are kept"
        for text in asked.messages[len(kept) :]:
            call_id = jsontext.parse(text).get("tool_call_id")
            if call_id not in closed and _tool_of(asked, call_id) not in REPEATABLE:
                return f"{asked} reads what is not kept"
    return None


def _committed_messages(state: RunState, task: str) -> tuple[tuple[str, ...], set[str]]:
    """Return a frame's messages, and the ids of its calls that have a result."""
    for frame, log in state.logs.items():
        first = next(m.content for m in log.messages if m.role == "user")
        if first == task:
            rows = [call for call in state.calls.values() if call.frame_id == frame]
            closed = {
                row.tool_call_id for row in rows if isinstance(row.state, CLOSED_STATES)
            }
            return tuple(message.text for message in log.messages), closed
    return (), set()


def _tool_of(asked: ModelTurn, call_id: object) -> str | None:
    for text in asked.messages:
        for call in jsontext.parse(text).get("tool_calls") or ():
            if call["id"] == call_id:
                name: str = call["function"]["name"]
                return name
    return None


def transcripts_valid(evidence: Evidence) -> str | None:
    """Every request that any model got could be sent to any provider."""
    for asked in evidence.environment.model_turns:
        wrong = _transcript_fault([jsontext.parse(text) for text in asked.messages])
        if wrong:
            return f"{asked}: {wrong}"
    return None


def _transcript_fault(messages: list[dict[str, object]]) -> str | None:
    owed: list[object] = []
    ids: set[object] = set()
    for message in messages:
        if message["role"] == "tool":
            if not owed or owed.pop(0) != message["tool_call_id"]:
                return "a result stands where no call waits for it"
            continue
        if owed:
            return f"the results of {owed} are missing"
        calls = Message.from_mapping(message).tool_call_ids
        if ids & set(calls) or len(set(calls)) < len(calls):
            return f"an id of {calls} was used before"
        ids.update(calls)
        owed = list(calls)
    return f"the results of {owed} are missing" if owed else None


# Both -------------------------------------------------------------------------------


def nothing_starts_without_claim(evidence: Evidence) -> str | None:
    """No call begins after its process's claim was over, but for the one gap."""
    deeds: list[Effect | ModelTurn] = [
        *evidence.environment.effects,
        *evidence.environment.model_turns,
    ]
    for deed in deeds:
        story = evidence.runs[deed.run_id]
        version = story.version_before(deed.clock_sample.true_time)
        if version is None or version.process != deed.process:
            made_by = version.process if version else "nobody"
            return f"{deed} began while {made_by} held the run"
        claim = version.table.run.claim
        until = (claim.until - EPOCH).total_seconds() if claim else 0.0
        if until < deed.clock_sample.wall_time:
            return f"{deed} began without a claim"
    return None
