"""Which kept signals the open waits of a run can take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.rows.waits import Wait
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.operator_request import OperatorRequest
    from continuations.core.rows.run import KeptSignal
    from continuations.core.rows.state import RunState


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


@dataclass(frozen=True, slots=True, kw_only=True)
class UntakenSignal:
    """A signal that no wait of a run has taken.

    Attributes:
        number: Number of the signal in its run.
        name: Name of the event.
        at: When it was recorded, in UTC.
        by: Person or program that sent it, or `None`.
        data_json: The data as JSON.
    """

    number: int
    name: str
    at: datetime
    by: str | None
    data_json: str

    @property
    def data(self) -> Any:
        """The data, as a new value."""
        return jsontext.parse(self.data_json)


def drops(request: OperatorRequest, number: int, name: str) -> bool:
    """Return whether a request drops the signal with a number and a name."""
    is_named = request.signal_name is None or request.signal_name == name
    return request.action == "drop" and number <= request.signal_number and is_named
