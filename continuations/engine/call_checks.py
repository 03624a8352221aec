"""The checks of calls by agents: each in a task, so that the loop renews its claim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.calls import Proposed, Ready

if TYPE_CHECKING:
    from continuations.core.events import Event
    from continuations.core.plan import CheckCall
    from continuations.core.state import RunState


class CallChecks:
    """The checks that one loop needs, and the results that it has not used.

    A check that a process did not finish is made again by the next one.

    Attributes:
        needed: The checks that have no result yet.
        guarded_ids: The accepted calls whose guardrails this process has asked again.
    """

    def __init__(self) -> None:
        self.needed: dict[CheckCall, None] = {}
        self.guarded_ids: set[str] = set()
        self._results: dict[CheckCall, Event | None] = {}

    def is_made(self, check: CheckCall) -> bool:
        """Return whether a check has a result; if not, it is needed."""
        if check in self._results:
            return True
        self.needed[check] = None
        return False

    def take_result(self, check: CheckCall) -> Event | None:
        """Remove and return the event that follows, `None` if the call may start."""
        return self._results.pop(check)

    def put_result(self, check: CheckCall, event: Event | None) -> None:
        """Keep the result of a check."""
        self._results[check] = event
        self.needed.pop(check, None)


def is_possible(state: RunState, check: CheckCall) -> bool:
    """Return whether the call of a check is still at the point that is checked."""
    call = state.calls.get(check.call_id)
    point = Ready if check.before_start else Proposed
    return call is not None and isinstance(call.state, point)
