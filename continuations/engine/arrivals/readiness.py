"""The steps of a resume before its claim, and whether a run can make progress.

Nothing here writes or runs a tool. A worker goes through `check_code` and `take_in` at
every resume, and `drift` goes through them without a worker. So a prediction cannot
differ from the resume.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.changes.operator_changes import with_operator_requests
from continuations.core.changes.plan import plan
from continuations.core.rows.calls import CallRow, Parked, Ready, Started, open_wait_id
from continuations.core.rows.event_matching import awaited_signals, waits_for
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.core.rows.waits import decision_on
from continuations.engine import inbox_messages
from continuations.engine.arrivals.arrival_reducer import with_signals
from continuations.engine.calls.parked_calls import answered_tool, gets_answer
from continuations.engine.calls.rule_approvals import with_revocations
from continuations.engine.deadlines import late_waits
from continuations.engine.worker_options import check_context, check_run_prices
from continuations.ledger.arrivals.early_answers import answered_calls
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from continuations.core.changes.events import TurnBeginning
    from continuations.core.rows.decisions import Decision
    from continuations.core.rows.waits import Wait
    from continuations.engine.arrivals.arrival_reducer import ArrivalReducer
    from continuations.engine.stack.stack_binding import StackBinding
    from continuations.engine.worker_options import RunOptions, WorkerOptions
    from continuations.ledger.arrivals.arrivals import Arrivals
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
    beginning: TurnBeginning | None = None,
) -> TakenIn:
    """Return a run with everything that arrived; raises `AgentChanged`.

    `beginning` is what a thread takes from this code if it begins a turn.

    With `reopens`, an approved call whose tool is missing waits again. Without it, the
    run is left to a process that has the tool.
    """
    replayed = reducer.replayed(state)
    interrupted = reducer.with_interrupted_calls(replayed, arrived.decisions)
    # An operator may drop the signals that come with the request.
    signalled = with_signals(interrupted, arrived.signals)
    operated = with_operator_requests(signalled, arrived.operator_requests)
    check_tools(operated, arrived.decisions, reducer.stack_binding, reopens=reopens)
    after = reducer.with_decisions(operated, arrived.decisions)
    after = with_revocations(after, arrived.revocations)
    after = inbox_messages.with_next_messages(
        state, after, arrived.inbox_messages, beginning
    )
    if not arrived.unread_numbers:
        # A message that is not loaded yet is read before the end.
        after = inbox_messages.with_confirmed_reply(after)
    return TakenIn(interrupted, operated, after)


def check_tools(
    state: RunState,
    decisions: Mapping[str, Decision],
    stack_binding: StackBinding,
    *,
    reopens: bool = False,
) -> None:
    """Raise `AgentChanged` if a call may go on, but its tool is missing here.

    That is a ready call, an approved one, or a parked one whose `on_answer` function
    gets its answer. In a frame without its agent, a ready call counts only if it was
    approved: the others end with the frame.

    Args:
        state: The run.
        decisions: The decisions of its open waits, also those that are due.
        stack_binding: The agents of this process.
        reopens: Whether calls that were approved wait again, and do not count.
    """
    for call in state.calls.values():
        wait_id = open_wait_id(call.state) or ""
        decision = decisions.get(wait_id)
        if isinstance(call.state, Parked):
            if decision is not None and gets_answer(state, wait_id, decision):
                answered_tool(stack_binding, state, call)
        elif reopens or not _may_begin(stack_binding, state, call, decision):
            continue
        elif stack_binding.tool(state, call) is None:
            raise stack_binding.missing_tool_error(state, call, wait_id or None)


def due_decisions(
    state: RunState, waits: Iterable[Wait], now: datetime
) -> dict[str, Decision]:
    """Return what the clock and the kept signals are about to decide, by wait id.

    The decisions are not recorded, and the data of a signal is not read.

    Args:
        state: The run, with all its signals taken in.
        waits: Its open waits, each as its slots left it.
        now: The present time.
    """
    due = {w.id: decision_on(w, "expire", "due", now) for w in late_waits(waits, now)}
    counts: dict[str, int] = {}
    for signal in awaited_signals(state):
        counts[signal.name] = counts.get(signal.name, 0) + 1
    for name, count in counts.items():
        taking = [wait for wait in waits_for(state, name) if wait.id not in due]
        due |= {w.id: decision_on(w, "answer", "due", now) for w in taking[:count]}
    return due


def _may_begin(
    stack_binding: StackBinding,
    state: RunState,
    call: CallRow,
    decision: Decision | None,
) -> bool:
    if decision is not None and decision.kind == "approve":
        return True
    if not isinstance(call.state, Ready):
        return False
    has_agent = stack_binding.find_agent(state, call.frame_id) is not None
    return has_agent or call.approved_digest is not None


def arrivals_unblock(state: RunState, arrived: Arrivals) -> bool:
    """Return whether arrivals, or signals that are kept, let the run progress."""
    if state.run.has_ended:
        return False
    decided = any(wait_id in state.waits for wait_id in arrived.decisions)
    decided = decided or bool(answered_calls(state, arrived.decisions))
    signalled = with_signals(state, arrived.signals) is not state
    signalled = signalled or bool(awaited_signals(state))
    reads = (
        inbox_messages.with_inbox_messages(state, arrived.inbox_messages) is not state
    )
    last = state.run.last_operator_number
    asked = any(request.number > last for request in arrived.operator_requests)
    is_cancelled = arrived.cancel_request is not None
    return decided or signalled or reads or asked or is_cancelled


def is_runnable(state: RunState) -> bool:
    """Return whether the plan has an action that needs no decision."""
    return not state.run.has_ended and bool(plan(state))


def needs_worker(state: RunState) -> bool:
    """Return whether a worker can progress without arrivals.

    That is so if an action is planned, or if the run's last worker died or gave up.
    """
    started = any(isinstance(call.state, Started) for call in state.calls.values())
    running = state.run.status == "running"
    return is_runnable(state) or (not state.run.has_ended and (running or started))


def can_progress(state: RunState, arrived: Arrivals) -> bool:
    """Return whether a worker can progress, with the arrivals or without."""
    return needs_worker(state) or arrivals_unblock(state, arrived)


def only_waits(loaded: LoadedVersion, state: RunState) -> bool:
    """Return whether a version has no claim, nothing arrived, and nothing is planned.

    The claim of a worker that died must be released by a new version.
    """
    return state is loaded.state and state.run.claim is None and not plan(state)
