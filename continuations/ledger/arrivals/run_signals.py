"""Post signals to a run, and list those that no wait has taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.rows.event_matching import UntakenSignal, drops
from continuations.errors import InvalidInput
from continuations.ledger.arrivals import signal_limits
from continuations.ledger.arrivals.arrival_logs import SIGNALS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from continuations.core.operator_request import OperatorRequest
    from continuations.core.rows.state import RunState
    from continuations.ledger.objects import Objects
    from continuations.wire.arrivals import Signal


async def post(
    objects: Objects, state: RunState, signal: Signal, *, nonce: str, may_repeat: bool
) -> Signal:
    """Create a signal under the next free number; return it with its number.

    A crash leaves the signal posted, with a marker that is due, or not posted. With
    `may_repeat`, the caller chose the id. Then an object keeps the lowest number that
    the signal can have, and a signal with this id is returned instead of a second one.

    Raises:
        InvalidInput: A signal with this id has another name or other data. Or the run
            keeps too many signals that no wait has taken.
        RunNotFound: The run was erased meanwhile.
        Corrupt, FormatError: Another signal cannot be read.
        StoreError: The signal may or may not be posted.
    """
    run = state.run
    number = await SIGNALS.next_number(objects, run.id, run.last_signal_number)
    repeated = await find_repeat(objects, run.id, signal) if may_repeat else None
    if repeated is not None:
        return repeated
    try:
        signal = await signal_limits.with_room(objects, state, signal, number - 1)
    except InvalidInput:
        # Another process may have posted it since the first look.
        repeated = await find_repeat(objects, run.id, signal) if may_repeat else None
        if repeated is None:
            raise
        return repeated
    if may_repeat:
        await SIGNALS.keep_lowest(
            objects, run.id, signal.id, number, taken=run.last_signal_number
        )
    # If another process posts a signal with this id meanwhile, its number is not lower.
    posted = await SIGNALS.append(
        objects, run.id, signal, number, nonce=nonce, behind=signal_limits.behind
    )
    return _checked_repeat(posted, signal, run.id)


async def list_untaken(
    objects: Objects, state: RunState, requests: Iterable[OperatorRequest]
) -> list[UntakenSignal]:
    """Return the signals that no wait has taken, in the order of their numbers.

    `requests` are those that the run has not taken in; the signals that they drop are
    left out.
    """
    run = state.run
    numbers = [kept.number for kept in run.signals]
    numbers += await SIGNALS.numbers(objects, run.id, run.last_signal_number)
    return [
        UntakenSignal(
            number=each.number,
            name=each.name,
            at=each.at,
            by=each.by,
            data_json=each.data,
        )
        for each in await SIGNALS.read_all(objects, run.id, numbers)
        if not any(drops(request, each.number, each.name) for request in requests)
    ]


async def find_repeat(objects: Objects, run_id: str, signal: Signal) -> Signal | None:
    """Return the recorded signal with the id of a signal, or `None`.

    Raises:
        InvalidInput: It has another name or other data.
        Corrupt, FormatError: A signal cannot be read.
    """
    found = await SIGNALS.find(objects, run_id, signal.id)
    return None if found is None else _checked_repeat(found, signal, run_id)


def _checked_repeat(existing: Signal, signal: Signal, run_id: str) -> Signal:
    if (existing.name, existing.data) == (signal.name, signal.data):
        return existing
    msg = (
        f"The signal was not sent to run {run_id}: its id names signal "
        f"{existing.number}, which has another name or other data. Use a new id."
    )
    raise InvalidInput(msg, run_id=run_id)
