"""Waits that only `unpause` ends, and the state after requests of operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.changes import events
from continuations.core.changes.call_cancellation import (
    open_calls_below,
    with_cancelled_call,
)
from continuations.core.changes.reducer import advance
from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.rows.state import ROOT_FRAME_ID, RunState, frame_path
from continuations.core.rows.waits import Wait, frame_digest
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime

    from continuations.core.operator_request import OperatorRequest
    from continuations.core.rows.frames import FrameRow

PAUSE = "pause"
# The reason of a cancelled call whose operator gave none.
CANCELLED = "An operator cancelled it."
# Between the names of the conditions that suspend a frame at the same time.
_BETWEEN_NAMES = ", "


def operator_waits(state: RunState) -> list[Wait]:
    """Return the open waits of a run that only `unpause` ends."""
    return [wait for wait in state.suspending.values() if wait.rules.ended_by_unpause]


def operator_reasons(waits: Iterable[Wait]) -> tuple[str, ...]:
    """Return why operators hold a run: reasons of pauses, and names of conditions."""
    reasons: list[str] = []
    for wait in waits:
        if wait.rules.ended_by_unpause:
            name = wait.policy or wait.kind
            reasons += name.split(_BETWEEN_NAMES) if wait.frame_id else [name]
    return tuple(reasons)


def operator_wait(
    state: RunState,
    wait_id: str,
    *,
    now: datetime,
    name: str,
    note: str | None = None,
    frame_id: str = "",
) -> Wait:
    """Return a new wait of a frame or of the run that only `unpause` ends.

    Args:
        state: The run.
        wait_id: Id of the wait.
        now: The time of the wait.
        name: Name of the condition, or reason of the pause.
        note: A remark for people, besides the name.
        frame_id: The frame that waits; empty: the run.
    """
    path = frame_path(state, frame_id or ROOT_FRAME_ID)
    return Wait(
        id=wait_id,
        run_id=state.run.id,
        call_id="",
        frame_id=frame_id,
        kind="operator",
        path=path,
        tool=state.frames[frame_id or ROOT_FRAME_ID].agent,
        arguments_json="{}",
        schema_json="{}",
        digest=frame_digest(
            run_nonce=state.run.run_nonce, wait_id=wait_id, frame_id=frame_id
        ),
        created_at=now,
        policy=name,
        note=note,
    )


def without_operator_waits(state: RunState, now: datetime) -> RunState:
    """Return the run after `unpause`: no operator holds it or one of its frames.

    The conditions that held a frame count from now.
    """
    for wait in operator_waits(state):
        if wait.frame_id:
            state = advance(state, _counting_from(state.frames[wait.frame_id], now))
        state = advance(state, events.SuspensionEnded(wait_id=wait.id))
    return state


def _counting_from(frame: FrameRow, now: datetime) -> events.FrameWatched:
    counts = tuple(
        replace(count, since=now) if count.turns == frame.turns else count
        for count in frame.counts
    )
    since = frame.watched_since or now
    return events.FrameWatched(frame_id=frame.id, since=since, counts=counts)


def with_operator_requests(
    state: RunState,
    requests: Iterable[OperatorRequest],
    not_begun: Collection[str] = (),
) -> RunState:
    """Return the run after the requests that it has not taken in yet, in their order.

    A pause of a paused run changes nothing: the first reason stays. A started call that
    is cancelled runs to its end, unless it is one of `not_begun`. A request that drops
    signals, and those after it, are left until the run has taken these signals in.
    """
    for request in sorted(requests, key=lambda each: each.number):
        if state.run.status in ENDED_STATUSES:
            return state
        if request.number != state.run.last_operator_number + 1:
            continue
        if request.signal_number > state.run.last_signal_number:
            return state  # the signals that it drops are taken in first
        state = _with_request(state, request, not_begun)
        state = advance(state, events.OperatorRequestTaken(number=request.number))
    return state


def cancel_reasons(
    state: RunState, requests: Iterable[OperatorRequest]
) -> dict[str, str]:
    """Return for each call that requests cancel the reason of the first of them."""
    reasons: dict[str, str] = {}
    for request in sorted(requests, key=lambda each: each.number):
        if request.action == "cancel" and request.call_id is not None:
            for call_id in open_calls_below(state, request.call_id):
                reasons.setdefault(call_id, request.reason or CANCELLED)
    return reasons


def _with_request(
    state: RunState, request: OperatorRequest, not_begun: Collection[str]
) -> RunState:
    match request.action:
        case "pause" if not state.is_suspended:
            wait = operator_wait(
                state,
                f"operator-{request.id}@{state.run.id}",
                now=request.at,
                name=request.reason or PAUSE,
                note=f"Paused by {request.by}." if request.by else None,
            )
            return advance(state, events.SuspensionBegan(wait=wait))
        case "unpause":
            return without_operator_waits(state, request.at)
        case "cancel" if request.call_id is not None:
            reason = request.reason or CANCELLED
            return with_cancelled_call(state, request.call_id, reason, not_begun)
        case "stop" | "interrupt":
            from continuations.core.changes import thread_requests  # noqa: PLC0415 - for threads

            return thread_requests.with_turn_ended(state, request, not_begun)
        case "drop":
            from continuations.core.rows.signal_matching import drops  # noqa: PLC0415 - rare

            run = state.run
            kept = (s for s in run.signals if not drops(request, s.number, s.name))
            last = run.last_signal_number
            return advance(
                state, events.SignalsKept(last_number=last, kept=tuple(kept))
            )
        case _:
            return state
