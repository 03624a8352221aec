"""Which kept signals the open waits of a run can take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.waits import Wait

if TYPE_CHECKING:
    from continuations.core.run import KeptSignal
    from continuations.core.state import RunState

# `signal` is refused if more signals with its name are not taken.
MAX_KEPT_SIGNALS = 100
# Each version has the names of kept signals. Beyond this number, a run accepts only
# signals for which a wait is open.
MAX_KEPT_IN_ALL = 1000


def awaited_signals(state: RunState) -> list[KeptSignal]:
    """Return the kept signals that an open wait can take, the oldest first."""
    names = {wait.event for wait in state.waits.values()}
    return [signal for signal in state.run.signals if signal.name in names]


def waits_for(state: RunState, name: str) -> list[Wait]:
    """Return the open waits for a signal with this name, the oldest first."""
    waits = (wait for wait in state.waits.values() if wait.event == name)
    return sorted(waits, key=Wait.sort_key)
