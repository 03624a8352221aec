"""Whether a stored run can make progress, and through whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.calls import Started
from continuations.core.plan import plan
from continuations.core.run import ENDED_STATUSES
from continuations.core.signal_matching import awaited_signals
from continuations.engine.inbox_messages import with_inbox_messages
from continuations.engine.signal_delivery import with_signals
from continuations.ledger.early_answers import answered_calls

if TYPE_CHECKING:
    from continuations.core.state import RunState
    from continuations.ledger.arrivals import Arrivals
    from continuations.ledger.loaded_version import LoadedVersion


def arrivals_unblock(state: RunState, arrived: Arrivals) -> bool:
    """Return whether arrivals, or signals that are kept, let the run progress."""
    if state.run.status in ENDED_STATUSES:
        return False
    decided = any(wait_id in state.waits for wait_id in arrived.decisions)
    decided = decided or bool(answered_calls(state, arrived.decisions))
    signalled = with_signals(state, arrived.signals) is not state
    signalled = signalled or bool(awaited_signals(state))
    reads = with_inbox_messages(state, arrived.inbox_messages) is not state
    last = state.run.last_operator_number
    asked = any(request.number > last for request in arrived.operator_requests)
    is_cancelled = arrived.cancel_request is not None
    return decided or signalled or reads or asked or is_cancelled


def is_runnable(state: RunState) -> bool:
    """Return whether the plan has an action that needs no decision."""
    return state.run.status not in ENDED_STATUSES and bool(plan(state))


def needs_worker(state: RunState) -> bool:
    """Return whether a worker can progress without arrivals.

    That is so if an action is planned, or if the run's last worker died or gave up.
    """
    started = any(isinstance(call.state, Started) for call in state.calls.values())
    running = state.run.status == "running"
    return is_runnable(state) or (
        state.run.status not in ENDED_STATUSES and (running or started)
    )


def can_progress(state: RunState, arrived: Arrivals) -> bool:
    """Return whether a worker can progress, with the arrivals or without."""
    return needs_worker(state) or arrivals_unblock(state, arrived)


def only_waits(loaded: LoadedVersion, state: RunState) -> bool:
    """Return whether a version has no claim, nothing arrived, and nothing is planned.

    The claim of a worker that died must be released by a new version.
    """
    return state is loaded.state and state.run.claim is None and not plan(state)
