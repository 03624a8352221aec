"""The steps of a resume before its claim, and whether a run can make progress.

Nothing here writes or runs a tool. A worker goes through `check_code` and `take_in` at
every resume, and `drift` goes through them without a worker. So a prediction cannot
differ from the resume.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.calls import Started
from continuations.core.operator_waits import with_operator_requests
from continuations.core.plan import plan
from continuations.core.run import ENDED_STATUSES
from continuations.core.signal_matching import awaited_signals
from continuations.core.state import ROOT_FRAME_ID
from continuations.engine.context_check import check_context, check_run_prices
from continuations.engine.grant_coverage import with_revocations
from continuations.engine.inbox_messages import (
    with_confirmed_reply,
    with_inbox_messages,
    with_next_messages,
)
from continuations.engine.signal_delivery import with_signals
from continuations.ledger.early_answers import answered_calls
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.core.state import RunState
    from continuations.engine.arrival_reducer import ArrivalReducer
    from continuations.engine.run_options import RunOptions
    from continuations.engine.stack_binding import StackBinding
    from continuations.engine.worker_options import WorkerOptions
    from continuations.ledger.arrivals import Arrivals
    from continuations.ledger.loaded_version import LoadedVersion


@dataclass(frozen=True, slots=True)
class TakenIn:
    """A run with its arrivals, and the states on the way.

    Attributes:
        interrupted: After the calls that a dead worker left.
        operated: After the requests of operators, too.
        state: After everything that arrived.
    """

    interrupted: RunState
    operated: RunState
    state: RunState


def check_code(
    state: RunState,
    arrived: Arrivals,
    stack_binding: StackBinding,
    run_options: RunOptions,
    options: WorkerOptions,
    *,
    checks_context: bool = True,
) -> None:
    """Raise `AgentChanged` or `InvalidInput` if this process cannot continue a run."""
    stack_binding.check_agents(state, arrived.decisions, arrived.operator_requests)
    root = stack_binding.agent(state, ROOT_FRAME_ID)
    if checks_context:
        check_context(run_options.context, root, options.context_type, state.run.id)
    check_run_prices(state.run, options.prices, root)


def take_in(
    state: RunState,
    arrived: Arrivals,
    reducer: ArrivalReducer,
    *,
    reopens: bool = False,
) -> TakenIn:
    """Return a run with everything that arrived; raises `AgentChanged`.

    With `reopens`, an approved call whose tool is missing waits again. Without it, the
    run is left to a process that has the tool.
    """
    interrupted = reducer.with_interrupted_calls(state, arrived.decisions)
    # An operator may drop the signals that come with the request.
    signalled = with_signals(interrupted, arrived.signals)
    operated = with_operator_requests(signalled, arrived.operator_requests)
    if not reopens:
        error = reducer.stack_binding.find_call_without_tool(
            operated, arrived.decisions
        )
        if error is not None:
            raise error
    after = reducer.with_decisions(operated, arrived.decisions)
    after = with_revocations(after, arrived.revocations)
    after = with_next_messages(state, after, arrived.inbox_messages)
    return TakenIn(interrupted, operated, with_confirmed_reply(after))


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
