"""Laws of effects: when a tool may have an effect, and when a model may be asked."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from continuations.core import jsontext
from continuations.core.messages import Message
from continuations.core.rows.calls import CLOSED_STATES, Started
from continuations.core.rows.state import RunState
from continuations.ledger.layout import is_thread_id
from tests.simulation.agents import HANDOFF, HANDOFF_TREES
from tests.simulation.evidence import Evidence, RunHistory
from tests.simulation.processes import EPOCH
from tests.simulation.seams.tools import first_name
from tests.simulation.sim_environment import Effect, ModelTurn
from tests.simulation.tools import REPEATABLE, TOOLS
from tests.simulation.workflows.trees import FLOW_TREES

# Effects ----------------------------------------------------------------------------


def started_once(evidence: Evidence) -> str | None:
    """A start is committed before its effect; an unrepeatable call begins once.

    It begins again only if a decision or its `verify` function allowed that. A start
    that was taken back, because the call had not begun, does not count.
    """
    for (run_id, call_id, stage, part), effects in effects_by_call(evidence).items():
        history = evidence.runs[run_id].parts[part]
        starts = dict(_committed_starts(history, call_id, stage))
        for effect in effects:
            start = starts.get(effect.attempt, effect.began_at)
            if start >= effect.clock_sample.true_time:
                return f"{effect} was not committed as started before"
        if effects[0].tool in REPEATABLE:
            continue
        attempts = [effect.attempt for effect in effects]
        if len(set(attempts)) < len(attempts):
            return f"{effects[0]} had {len(attempts)} effects"
        if len(attempts) > 1 + _allowed_repeats(evidence, (run_id, call_id, stage)):
            return f"{effects[0]} began {len(attempts)} times"
    return None


def effects_by_call(
    evidence: Evidence,
) -> dict[tuple[str, str, int, int], list[Effect]]:
    """Return the effects of each stage of each call, in their order.

    The keys are run id, call id, stage, and the part of the run between two rewinds.
    """
    grouped: dict[tuple[str, str, int, int], list[Effect]] = {}
    for effect in evidence.environment.effects:
        history = evidence.runs[effect.run_id]
        part = history.part_number(effect.clock_sample.true_time)
        stage = (effect.run_id, effect.call_id, effect.stage, part)
        grouped.setdefault(stage, []).append(effect)
    return grouped


def _committed_starts(
    history: RunHistory, call_id: str, stage: int
) -> Iterator[tuple[int, float]]:
    """Yield each committed attempt of a stage, and the time of its first version."""
    last_attempt = 0
    for version in history.versions:
        call = version.state.calls.get(call_id)
        if call is None or call.stage != stage:
            continue
        if call.attempts > last_attempt:
            last_attempt = call.attempts
            if isinstance(call.state, Started):
                yield call.attempts, version.at


def _allowed_repeats(evidence: Evidence, stage: tuple[str, str, int]) -> int:
    """Return how often a person or `verify` may have said "it did not happen"."""
    allowed = 0
    for record in evidence.waits.values():
        wait = record.wait
        is_unknown = wait.kind == "unknown"
        if is_unknown and (wait.run_id, wait.call_id, wait.stage) == stage:
            verifies = TOOLS[first_name(wait.tool)].verify is not None
            decision = record.decision
            approved = decision is not None and decision.kind == "approve"
            allowed += approved or verifies
    return allowed


def timed_out_call_is_over_before_a_repeat(evidence: Evidence) -> str | None:
    """No effect of a timed-out call comes after a person let the call run again.

    Nor does it come after the start of the next attempt. The documented exception is a
    freeze between the last check of the claim and the first byte.
    """
    for record in evidence.waits.values():
        wait, decision = record.wait, record.decision
        if wait.approve_after is None:
            continue
        history = evidence.runs[wait.run_id]
        allowed = [at for _, at in _committed_starts(history, wait.call_id, wait.stage)]
        if decision is not None and decision.kind == "approve":
            allowed.append(record.decided_at)
        again = min((at for at in allowed if at > record.opened_at), default=None)
        for effect in evidence.environment.effects:
            if (effect.run_id, effect.call_id) != (wait.run_id, wait.call_id):
                continue
            was_frozen = effect.sent_at - effect.clock_sample.true_time > 1
            if effect.sent_at > record.opened_at or was_frozen or again is None:
                continue
            if effect.began_at > again:
                return f"{effect} came {effect.began_at - again} s after its repeat"
    return None


def finished_never_runs_again(evidence: Evidence) -> str | None:
    """A call whose result is committed has no later effect."""
    for effect in evidence.environment.effects:
        part = evidence.runs[effect.run_id].part_at(effect.clock_sample.true_time)
        closed_at = part.call_closed_at.get(effect.call_id)
        if closed_at is not None and closed_at < effect.clock_sample.true_time:
            return f"{effect} ran after its result was committed"
    return None


def idempotency_key_stable(evidence: Evidence) -> str | None:
    """All attempts of a call have one key, which no other call has, and rising fences.

    A fence rises with each attempt, and each attempt has at most one effect.
    """
    call_of_key: dict[str, tuple[object, ...]] = {}
    for (*names, _), effects in effects_by_call(evidence).items():
        call = tuple(names)
        if len({effect.idempotency_key for effect in effects}) > 1:
            return f"{effects[0]} had several idempotency keys"
        if call_of_key.setdefault(effects[0].idempotency_key, call) != call:
            return f"{effects[0]} has the key of another call"
        fences = {effect.attempt: effect.fence for effect in effects}
        in_order = [fences[attempt] for attempt in sorted(fences)]
        if any(earlier >= later for earlier, later in pairwise(in_order)):
            return f"{effects[0]} was repeated with the fences {in_order}"
        if len(fences) < len(effects):
            return f"{effects[0]} ran {len(effects)} times in one attempt"
    return None


# Models -----------------------------------------------------------------------------


def turn_asked_once(evidence: Evidence) -> str | None:
    """A turn whose reply is committed is not asked again; nor twice by one worker.

    A message that interrupts a thread is read before the turn is asked again.
    """
    asked: set[tuple[str, str, str, int, int]] = set()
    for turn in evidence.environment.model_turns:
        history = evidence.runs[turn.run_id]
        version = history.version_before(turn.clock_sample.true_time)
        claim = version.state.run.claim if version else None
        part = history.part_at(turn.clock_sample.true_time)
        committed_at = part.reply_committed_at.get((turn.frame_task, turn.turn))
        if committed_at is not None and committed_at < turn.clock_sample.true_time:
            return f"{turn} was asked after its reply was committed"
        worker = claim.worker if claim else ""
        read = len(turn.messages) if is_thread_id(turn.run_id) else 0
        key = (worker, turn.run_id, turn.frame_task, turn.turn, read)
        if key in asked:
            return f"{turn} was asked twice by one worker"
        asked.add(key)
    return None


def model_reads_committed_messages(evidence: Evidence) -> str | None:
    """A model reads committed messages; only results of repeatable calls may be newer.

    Such a call would give the same result again after a crash.
    """
    for turn in evidence.environment.model_turns:
        history = evidence.runs[turn.run_id]
        version = history.version_before(turn.clock_sample.true_time)
        if version is None:
            return f"{turn} was asked before the run had a version"
        committed, closed = _committed_messages(version.state, turn.frame_task)
        read = turn.messages
        if evidence.environment.tree_of_run[turn.run_id] in HANDOFF_TREES:
            # The instructions are those of the agent that has the conversation.
            committed, read = map(_without_instructions, (committed, read))
            if HANDOFF_TREES[evidence.environment.tree_of_run[turn.run_id]].filters:
                # A handoff that is not committed may have dropped some of them.
                committed = tuple(each for each in committed if each in read)
        if read[: len(committed)] != committed:
            return f"{turn} reads other messages than the committed ones"
        for text in read[len(committed) :]:
            if not committed and _is_task_of_a_workflow(evidence, turn, text):
                continue
            call_id = jsontext.parse(text).get("tool_call_id")
            tool = _tool_of(turn, call_id) or ""
            is_repeatable = tool in REPEATABLE or tool.startswith(HANDOFF)
            if call_id not in closed and not is_repeatable:
                return f"{turn} reads a message that is not committed: {text}"
    return None


def _without_instructions(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(t for t in texts if jsontext.parse(t).get("role") != "system")


def _is_task_of_a_workflow(evidence: Evidence, turn: ModelTurn, text: str) -> bool:
    """Return whether a message is the task that a workflow gave to an agent.

    The next process calculates the call again.
    """
    is_flow = evidence.environment.tree_of_run[turn.run_id] in FLOW_TREES
    return is_flow and jsontext.parse(text).get("content") == turn.frame_task


def _committed_messages(state: RunState, task: str) -> tuple[tuple[str, ...], set[str]]:
    """Return a frame's messages, and the ids of its calls that have a result."""
    for frame_id, log in state.logs.items():
        users = (m.content for m in log.messages if m.role == "user")
        first = next(users, None)  # a thread may have read no message
        if first == task:
            calls = [c for c in state.calls.values() if c.frame_id == frame_id]
            closed = {
                call.tool_call_id
                for call in calls
                if isinstance(call.state, CLOSED_STATES)
            }
            return tuple(message.text for message in log.messages), closed
    return (), set()


def _tool_of(turn: ModelTurn, call_id: object) -> str | None:
    for text in turn.messages:
        for call in jsontext.parse(text).get("tool_calls") or ():
            if call["id"] == call_id:
                name: str = call["function"]["name"]
                return first_name(name)
    return None


def transcripts_valid(evidence: Evidence) -> str | None:
    """Every provider would accept every request to a model."""
    for turn in evidence.environment.model_turns:
        messages = [jsontext.parse(text) for text in turn.messages]
        violation = _transcript_violation(messages)
        if violation:
            return f"{turn}: {violation}"
    return None


def _transcript_violation(messages: list[dict[str, object]]) -> str | None:
    missing: list[object] = []
    ids: set[object] = set()
    for message in messages:
        if message["role"] == "tool":
            if not missing or missing.pop(0) != message["tool_call_id"]:
                return "a result has no call before it"
            continue
        if missing:
            return f"the results of {missing} are missing"
        calls = Message.from_mapping(message).tool_call_ids
        if ids & set(calls) or len(set(calls)) < len(calls):
            return f"an id of {calls} was used before"
        ids.update(calls)
        missing = list(calls)
    return f"the results of {missing} are missing" if missing else None


# Effects and models -----------------------------------------------------------------


def nothing_starts_without_claim(evidence: Evidence) -> str | None:
    """No call and no turn begins after the claim of its process ended.

    The time that counts is that of the last clock check before it: the documented
    exception is a freeze between that check and the first byte.
    """
    starts: list[Effect | ModelTurn] = [
        *evidence.environment.effects,
        *evidence.environment.model_turns,
    ]
    for start in starts:
        history = evidence.runs[start.run_id]
        version = history.version_before(start.clock_sample.true_time)
        if version is None or version.process != start.process:
            owner = version.process if version else "no process"
            return f"{start} began while {owner} had the claim"
        claim = version.state.run.claim
        until = (claim.until - EPOCH).total_seconds() if claim else 0.0
        if until < start.clock_sample.wall_time:
            return f"{start} began without a claim"
    return None
