"""The changes to the row of a run by what arrived: signals, events and grants."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from continuations.core.event_matching import with_event
from continuations.core.events import (
    EventTaken,
    GrantGiven,
    GrantsRevoked,
    SignalsKept,
)
from continuations.core.grant_rows import with_grant, without_grants
from continuations.core.transitions import illegal_transition

if TYPE_CHECKING:
    from continuations.core.run import RunRow


def after_event(
    run: RunRow, event: SignalsKept | EventTaken | GrantGiven | GrantsRevoked
) -> RunRow:
    """Return the row of a run after an event.

    Raises `IllegalTransition` if the run took the arrival in before.
    """
    match event:
        case SignalsKept():
            return _with_signals(run, event)
        case EventTaken():
            taken = with_event(run.events_taken, event.event_id)
            return replace(run, events_taken=taken)
        case GrantGiven():
            return with_grant(run, event.grant)
        case GrantsRevoked():
            if event.last_number <= run.last_revocation_number:
                raise illegal_transition("a revocation was taken in before", event)
            return without_grants(run, event.grant_ids, event.last_number)


def _with_signals(run: RunRow, event: SignalsKept) -> RunRow:
    """Return the row with the signals that are left."""
    old = {signal.number for signal in run.signals}
    new = range(run.last_signal_number + 1, event.last_number + 1)
    numbers = [signal.number for signal in event.kept]
    if not old.union(new).issuperset(numbers) or numbers != sorted({*numbers}):
        raise illegal_transition("a signal was taken before", event)
    last = max(run.last_signal_number, event.last_number)
    return replace(run, last_signal_number=last, signals=event.kept)
