"""Post signals to a run, and list those that no wait has taken."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from continuations.core.rows.event_matching import (
    MAX_KEPT_IN_ALL,
    MAX_KEPT_SIGNALS,
    UntakenSignal,
    drops,
    waits_for,
)
from continuations.errors import InvalidInput, RunNotFound
from continuations.ledger.arrivals.arrival_logs import SIGNALS
from continuations.ledger.objects import NotFound, gather_all
from continuations.value_class import replace
from continuations.wire.arrivals import SIGNAL_NAME_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from continuations.core.operator_request import OperatorRequest
    from continuations.core.rows.state import RunState
    from continuations.ledger.objects import Objects
    from continuations.wire.arrivals import Signal

# Signals behind fewer new ones do not have the names of those, and cost no read.
NAMES_FROM = 16


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
        signal = await _with_room(objects, state, signal, number - 1)
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
        objects, run.id, signal, number, nonce=nonce, behind=_behind
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


# Limits ---------------------------------------------------------------------------
# New signals are those that no version of the run has taken in. If there are many, each
# of them has the names of those before it. So a sender reads the newest one and counts.


async def _with_room(
    objects: Objects, state: RunState, signal: Signal, newest: int
) -> Signal:
    """Return a signal with the names of the new ones before it, if there are many.

    This costs no request behind fewer than 16 new signals, and one read behind more.
    It costs up to 16 reads where the names begin, and for a run that is near its limit.

    Args:
        objects: The store.
        state: The newest state of the run.
        signal: The signal that would be posted.
        newest: Number of the newest signal, or 0.

    Raises:
        InvalidInput: The run keeps too many signals that no wait has taken.
        RunNotFound: The run was erased meanwhile.
        Corrupt, FormatError: Another signal cannot be read.
    """
    run = state.run
    new = max(newest - run.last_signal_number, 0)
    in_all = len(run.signals) + new
    if new < NAMES_FROM and in_all < MAX_KEPT_SIGNALS:
        return signal
    names = await _names_of_new(objects, run.id, newest - new + 1, newest)
    if in_all >= MAX_KEPT_SIGNALS:
        _check_room(state, signal.name, names)
    return (
        replace(signal, names_before=b"".join(names)) if new >= NAMES_FROM else signal
    )


def _behind(signal: Signal, existing: Signal) -> Signal:
    """Return a signal that another one came before at the same time."""
    if not signal.names_before:
        return signal
    return replace(
        signal, names_before=signal.names_before + _short_name(existing.name)
    )


def _check_room(state: RunState, name: str, new_names: list[bytes]) -> None:
    """Raise `InvalidInput` if a run has no room for a signal with this name."""
    run = state.run
    in_all = len(run.signals) + len(new_names)
    of_name = sum(kept.name == name for kept in run.signals)
    of_name += new_names.count(_short_name(name))
    if of_name >= MAX_KEPT_SIGNALS:
        kept = f"{of_name} signals with the name {name!r}"
    elif in_all >= MAX_KEPT_IN_ALL and not waits_for(state, name):
        kept = f"{in_all} signals"
    else:
        return
    msg = (
        f"The signal was not sent: run {run.id} keeps {kept} that no wait has taken. "
        "Drop those that nothing waits for with drop_signals(), or resume the run."
    )
    raise InvalidInput(msg, run_id=run.id)


async def _names_of_new(
    objects: Objects, run_id: str, first: int, newest: int
) -> list[bytes]:
    """Return the short names of the signals from `first` to `newest`."""
    names: list[bytes] = []
    last, count = newest, 1
    while last >= first:
        numbers = range(max(first, last - count + 1), last + 1)
        for signal in reversed(await _read_all(objects, run_id, numbers)):
            names.append(_short_name(signal.name))
            if signal.names_before:
                names += reversed(_split(signal.names_before))
                return names[: newest - first + 1][::-1]
        last, count = numbers[0] - 1, NAMES_FROM - 1
    return names[::-1]


async def _read_all(objects: Objects, run_id: str, numbers: range) -> list[Signal]:
    reads = (SIGNALS.read(objects, run_id, number) for number in numbers)
    try:
        return await gather_all(reads)
    except NotFound:
        msg = f"The signal to run {run_id} was not sent: the run was erased meanwhile."
        raise RunNotFound(msg, run_id=run_id) from None


def _short_name(name: str) -> bytes:
    """Return the first bytes of the digest of a name."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return digest[:SIGNAL_NAME_BYTES]


def _split(names: bytes) -> list[bytes]:
    starts = range(0, len(names), SIGNAL_NAME_BYTES)
    return [names[start : start + SIGNAL_NAME_BYTES] for start in starts]
