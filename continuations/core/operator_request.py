"""Requests of an operator: pause, cancel a call, stop a turn, drop signals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from continuations.value_class import dataclass

if TYPE_CHECKING:
    from datetime import datetime

OperatorAction = Literal["pause", "unpause", "cancel", "stop", "interrupt", "drop"]
OPERATOR_ACTIONS: frozenset[str] = frozenset(get_args(OperatorAction))


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRequest:
    """One request of an operator; numbers start at 1 without gaps.

    Attributes:
        id: Id of the request, a ULID.
        number: Number of the request in its run. Requests count in this order.
        at: When the request was recorded, in UTC.
        action: The action that the operator asks for.
        call_id: The call to cancel. A "cancel" without it says that the run has a
            cancel request.
        message_number: The message of a thread whose turn to stop. Or the message that
            interrupts the turn.
        signal_name: The name of the signals to drop; `None`: of any name.
        signal_number: The last signal to drop. Later ones are kept.
        by: Name of the operator.
        reason: Why, in the words of the operator.
        marker: Key of the marker object that was created for the request.
        door: Name of the way by which the request came.
        authentication: How that way established who asked, or `None`.
    """

    id: str
    number: int
    at: datetime
    action: OperatorAction
    call_id: str | None = None
    message_number: int = 0
    signal_name: str | None = None
    signal_number: int = 0
    by: str | None = None
    reason: str | None = None
    marker: str | None = None
    door: str | None = None
    authentication: str | None = None


def tells_of_cancellation(request: OperatorRequest) -> bool:
    """Return whether a request only says that the run has a cancel request."""
    return request.action == "cancel" and request.call_id is None
