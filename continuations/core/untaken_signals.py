"""Signals that no wait of a run has taken, as a person lists and drops them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.operator_request import OperatorRequest


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
