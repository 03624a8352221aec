"""Laws of models that are limited or reply later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import inf

from continuations.core.changes.plan import plan
from continuations.core.rows.frames import FrameRow
from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.rows.state import RunState
from continuations.core.rows.waits import Wait
from continuations.engine.model_delays import FIRST_DELAY, MAX_DELAY
from tests.simulation.evidence import Evidence
from tests.simulation.models.slow_provider import ProviderEvent, SlowProvider
from tests.simulation.processes import EPOCH, ClockSample
from tests.simulation.sim_environment import ModelTurn


def pending_turn_is_asked_once(evidence: Evidence) -> str | None:
    """A turn whose pending reply is committed is not asked again, unless it is lost.

    The wait for the reply is committed with its id.
    """
    provider = evidence.environment.provider
    for pending in provider.events if provider is not None else ():
        if pending.kind != "pending":
            continue
        committed_at = _committed_at(evidence, pending)
        asked_again_at = _asked_again_at(provider, pending)
        if committed_at is None or asked_again_at < committed_at:
            continue  # the wait is the one of a later request
        for turn in evidence.environment.model_turns:
            if not _is_of_turn(turn, pending) or turn.began_at < committed_at:
                continue
            is_late = turn.clock_sample.true_time > committed_at
            if is_late and not _was_lost(provider, pending, turn):
                return f"{turn} was asked although {pending} was committed"
    return None


def _committed_at(evidence: Evidence, pending: ProviderEvent) -> float | None:
    """Return when the worker that asked committed a wait of the frame, or `None`."""
    for version in evidence.runs[pending.run_id].versions:
        if version.at < pending.at or version.process != pending.process:
            continue
        for wait in version.state.suspending.values():
            frame = _frame_of_task(version.state, pending.frame_task)
            opened_at = (wait.created_at - EPOCH).total_seconds()
            is_new = opened_at > pending.clock_sample.wall_time - 1
            if frame is not None and wait.frame_id == frame.id and is_new:
                return version.at
    return None


def _asked_again_at(provider: SlowProvider | None, pending: ProviderEvent) -> float:
    """Return when the provider next replied to the turn, or infinity."""
    events = provider.events if provider is not None else ()
    later = (event for event in events if event.at > pending.at)
    return min((each.at for each in later if _is_of_turn(each, pending)), default=inf)


def _is_of_turn(turn: ModelTurn | ProviderEvent, event: ProviderEvent) -> bool:
    return (turn.run_id, turn.frame_task, turn.turn) == (
        event.run_id,
        event.frame_task,
        event.turn,
    )


def _was_lost(
    provider: SlowProvider | None, pending: ProviderEvent, turn: ModelTurn
) -> bool:
    return any(
        event.kind == "lost"
        and event.reply_id == pending.reply_id
        and event.at < turn.began_at
        for event in (provider.events if provider is not None else ())
    )


def reply_follows_what_was_sent(evidence: Evidence) -> str | None:
    """No message is added between a request and its pending reply."""
    for history in evidence.runs.values():
        for before, after in pairwise(history.versions):
            for frame in before.state.frames.values():
                log, later = (
                    after.state.logs.get(frame.id),
                    after.state.frames.get(frame.id),
                )
                if frame.pending_reply is None or log is None or later is None:
                    continue
                if later.pending_reply is None and later.turns == frame.turns:
                    continue  # the reply was lost
                added = log.messages[len(before.state.logs[frame.id].messages) :]
                if added and added[0].role != "assistant":
                    where = f"version {after.number} of {history.run_id}"
                    return f"{where} adds a message before {frame.pending_reply}"
    return None


def committed_reply_is_polled(evidence: Evidence) -> str | None:
    """Each poll is for the id that the newest version has."""
    for event in _polls(evidence):
        frame = _frame_before(
            evidence, event.run_id, event.frame_task, event.clock_sample
        )
        if frame is None or frame.pending_reply != event.reply_id:
            return f"{event} is not for the committed reply of {frame}"
    return None


def suspended_frame_asks_no_model(evidence: Evidence) -> str | None:
    """While a wait suspends a frame, its model is neither asked nor polled."""
    requests: list[ModelTurn | ProviderEvent] = [
        *evidence.environment.model_turns,
        *_polls(evidence),
    ]
    for request in requests:
        state = _state_before(evidence, request.run_id, request.clock_sample)
        if state is None:
            continue
        frame = _frame_of_task(state, request.frame_task)
        if frame is not None and frame.id in state.suspending:
            return f"{request} while {state.suspending[frame.id].id} was open"
    return None


def attempts_back_off(evidence: Evidence) -> str | None:
    """Failures in a row are counted, and each delay is at least twice the one before.

    A longer time that the provider asks for is kept as well. An attempt that `wake`
    made early counts no failure, and the next one comes at the end of its period.
    """
    for history in evidence.runs.values():
        failed: dict[str, int] = {}
        for before, after in pairwise(history.versions):
            for wait in _counted_suspensions(before.state, after.state, failed):
                frame = after.state.frames[wait.frame_id]
                count, earlier = frame.failed_requests, failed.get(frame.id, 0)
                same_turn = _turns_of(before.state, frame.id) == frame.turns
                if count > 1 and (count != earlier + 1 or not same_turn):
                    return f"{wait.id} counts {count} failures after {earlier}"
                if count == 1 and earlier and same_turn and not _succeeded(frame):
                    return f"{wait.id} counts {count} failures after {earlier}"
                if count and _seconds(wait) < _least_seconds(count):
                    return f"{wait.id} lasts {_seconds(wait)} s after {count} failures"
                failed[frame.id] = count
            for frame in after.state.frames.values():
                if frame.turns != _turns_of(before.state, frame.id):
                    failed.pop(frame.id, None)
                elif not frame.failed_requests and frame.id in failed:
                    failed[frame.id] = 0
    return None


def _counted_suspensions(
    before: RunState, after: RunState, failed: Mapping[str, int]
) -> Iterator[Wait]:
    """Return the new waits but those of early attempts, which keep their period."""
    for wait in _new_suspensions(before, after):
        frame = after.frames[wait.frame_id]
        until, end = frame.woken_until, wait.deadline
        is_early = until is not None and end is not None and end >= until
        if not is_early or frame.failed_requests != failed.get(frame.id, 0):
            yield wait


def siblings_of_a_suspended_frame_go_on(evidence: Evidence) -> str | None:
    """A worker that suspends a frame stops only when nothing else can go on."""
    if evidence.environment.provider is None:
        return None
    for history in evidence.runs.values():
        for before, after in pairwise(history.versions):
            state = after.state
            is_released = state.run.status == "suspended" and state.run.claim is None
            if not is_released or not plan(state):
                continue
            if any(_new_suspensions(before.state, state)) and not _may_stop(evidence):
                return f"version {after.number} stops with {plan(state)}"
    return None


def _may_stop(evidence: Evidence) -> bool:
    """Return whether a fault of the schedule lets a worker stop with work left."""
    reasons = ("model_error", "caller_stops", "poison_run")
    occurred = evidence.environment.faults.occurred
    return any(reason in fault for fault in occurred for reason in reasons)


def _polls(evidence: Evidence) -> Iterator[ProviderEvent]:
    provider = evidence.environment.provider
    for event in provider.events if provider is not None else ():
        if event.kind == "polled":
            yield event


def _state_before(
    evidence: Evidence, run_id: str, clock_sample: ClockSample
) -> RunState | None:
    version = evidence.runs[run_id].version_before(clock_sample.true_time)
    if version is None or version.state.run.status in ENDED_STATUSES:
        return None
    return version.state


def _frame_before(
    evidence: Evidence, run_id: str, task: str, clock_sample: ClockSample
) -> FrameRow | None:
    """Return a frame as its worker committed it before it asked a model."""
    state = _state_before(evidence, run_id, clock_sample)
    return None if state is None else _frame_of_task(state, task)


def _frame_of_task(state: RunState, task: str) -> FrameRow | None:
    for frame_id, log in state.logs.items():
        if task == next(m.content for m in log.messages if m.role == "user"):
            return state.frames[frame_id]
    return None


def _new_suspensions(before: RunState, after: RunState) -> Iterator[Wait]:
    for wait in after.suspending.values():
        if wait.frame_id and wait.id not in before.waits:
            yield wait


def _turns_of(state: RunState, frame_id: str) -> int:
    frame = state.frames.get(frame_id)
    return 0 if frame is None else frame.turns


def _succeeded(frame: FrameRow) -> bool:
    """Return whether a request of the turn may have succeeded between two failures."""
    return frame.pending_reply is not None


def _seconds(wait: Wait) -> float:
    assert wait.deadline is not None
    return (wait.deadline - wait.created_at).total_seconds()


def _least_seconds(failed: int) -> float:
    doublings: int = 2 ** (failed - 1)
    return min(FIRST_DELAY * doublings, MAX_DELAY).total_seconds()
