"""Read what arrived at a run under numbers, and tell whether the run awaits it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.ledger import layout
from continuations.ledger.arrivals import read_inbox_message, read_signal
from continuations.ledger.operator_inbox import read_request
from continuations.ledger.revocation_records import read_one
from continuations.wire.arrivals import MESSAGE_ID, SIGNAL_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from continuations.core.state import RunState
    from continuations.ledger.objects import Objects

# By the letter of the keys.
READERS: dict[str, Callable[[Objects, str, int], Coroutine[Any, Any, object]]] = {
    layout.MESSAGE: read_inbox_message,
    layout.SIGNAL: read_signal,
    layout.REVOCATION: read_one,
    layout.OPERATOR_REQUEST: read_request,
}


def read_lowest_number(
    objects: Objects, run_id: str, key: str
) -> Coroutine[Any, Any, int] | None:
    """Return the reading of the lowest number of an id; `None` for another key."""
    letter = key.removeprefix(layout.arrivals_prefix(run_id))[:2]
    if letter not in _DECODERS:
        return None

    async def read() -> int:
        return _DECODERS[letter](await objects.read(key), key, run_id).number

    return read()


# By the first characters of the keys of ids, of messages and of signals.
_DECODERS = {"i-": MESSAGE_ID.decode, "h-": SIGNAL_ID.decode}


def is_awaited(state: RunState | None, letter: str, number: int) -> bool:
    """Return whether a run has not taken in an object yet, or keeps it for later."""
    if state is None:
        return True
    run = state.run
    last_number = {
        layout.MESSAGE: run.last_inbox_number,
        layout.SIGNAL: run.last_signal_number,
        layout.REVOCATION: run.last_revocation_number,
        layout.OPERATOR_REQUEST: run.last_operator_number,
    }[letter]
    if letter == layout.SIGNAL and any(each.number == number for each in run.signals):
        return True
    return number > last_number
