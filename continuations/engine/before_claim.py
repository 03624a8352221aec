"""The computed steps of a resume before its claim: nothing here writes or runs a tool.

A worker goes through these steps at every resume, and `drift` goes through the same
steps without a worker. So a prediction cannot differ from the resume.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.operator_waits import with_operator_requests
from continuations.core.state import ROOT_FRAME_ID
from continuations.engine import signal_delivery
from continuations.engine.context_check import check_context, check_run_prices
from continuations.engine.grant_coverage import with_revocations
from continuations.engine.inbox_messages import with_confirmed_reply, with_next_messages
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.core.state import RunState
    from continuations.engine.arrival_reducer import ArrivalReducer
    from continuations.engine.run_options import RunOptions
    from continuations.engine.stack_binding import StackBinding
    from continuations.engine.worker_options import WorkerOptions
    from continuations.ledger.arrivals import Arrivals


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
    stack_binding.check_agents(state, arrived.decisions)
    root = stack_binding.agent(state, ROOT_FRAME_ID)
    if checks_context:
        check_context(run_options.context, root, options.context_type, state.run.id)
    check_run_prices(state.run, options.prices, root)


def take_in(state: RunState, arrived: Arrivals, reducer: ArrivalReducer) -> TakenIn:
    """Return a run with everything that arrived; raises `AgentChanged`."""
    interrupted = reducer.with_interrupted_calls(state, arrived.decisions)
    operated = with_operator_requests(interrupted, arrived.operator_requests)
    after = signal_delivery.with_signals(operated, arrived.signals)
    after = reducer.with_decisions(after, arrived.decisions)
    after = with_revocations(after, arrived.revocations)
    after = with_next_messages(state, after, arrived.inbox_messages)
    return TakenIn(interrupted, operated, with_confirmed_reply(after))
