"""Give signals to the waits of a run.

The run takes every signal in, in the order of their numbers, and keeps those that no
wait has taken. A signal ends a wait as a person does: by the one decision of the wait,
which names the signal. The versions of the run say which signals are left. So a signal
that two processes gave to two waits counts for one; the other wait is opened again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.changes.events import SignalsKept
from continuations.core.changes.reducer import advance
from continuations.core.rows import event_matching
from continuations.core.rows.decisions import Decision
from continuations.core.rows.run import ENDED_STATUSES, KeptSignal
from continuations.engine.deadlines import is_past_deadline
from continuations.ledger.arrivals.arrival_logs import SIGNALS
from continuations.ledger.decisions.decisions import record_decision

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.rows.state import RunState
    from continuations.engine.ports import Ports
    from continuations.ledger.objects import Objects
    from continuations.wire.arrivals import Signal


def with_signals(state: RunState, signals: tuple[Signal, ...]) -> RunState:
    """Return the run with the signals that it has not taken in yet."""
    last = state.run.last_signal_number
    new = [signal for signal in signals if signal.number > last]
    if not new or state.run.status in ENDED_STATUSES:
        return state
    kept = tuple(KeptSignal(signal.number, signal.name) for signal in new)
    event = SignalsKept(last_number=new[-1].number, kept=(*state.run.signals, *kept))
    return advance(state, event)


def without_signal(state: RunState, number: int) -> RunState:
    """Return the run without a signal, because a decision has taken it."""
    kept = tuple(signal for signal in state.run.signals if signal.number != number)
    if len(kept) == len(state.run.signals):
        return state
    last = state.run.last_signal_number
    return advance(state, SignalsKept(last_number=last, kept=kept))


async def end_waits(
    objects: Objects,
    state: RunState,
    signals: tuple[Signal, ...],
    ports: Ports,
    *,
    now: datetime,
) -> dict[str, Decision]:
    """Record the decisions of the waits that can take a kept signal, by wait id.

    A decision that was recorded first is returned instead, and the signal goes to the
    next wait. A signal that came after the deadline of a wait does not end it.

    Args:
        objects: The store.
        state: The run, with all its signals taken in.
        signals: The signals that are at hand; others are read.
        ports: The ids of the decisions.
        now: The time of the decisions.
    """
    at_hand = {signal.number: signal for signal in signals}
    ended: dict[str, Decision] = {}
    for kept in event_matching.awaited_signals(state):
        number = kept.number
        signal = at_hand.get(number)
        for wait in event_matching.waits_for(state, kept.name):
            if any(decision.signal == number for decision in ended.values()):
                break
            if signal is None:
                signal = await SIGNALS.read_listed(objects, state.run.id, number)
            if wait.id in ended or is_past_deadline(wait, signal.at):
                continue
            proposed = Decision(
                id=ports.ids.new_ulid(now),
                wait_id=wait.id,
                kind="answer",
                at=now,
                digest=wait.digest,
                by=signal.by,
                value=signal.data,
                signal=number,
            )
            ended[wait.id] = await record_decision(objects, proposed)
    return ended
