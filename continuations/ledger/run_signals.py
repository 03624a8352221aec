"""Post signals to a run, in dense numbers of their own."""

from __future__ import annotations

from asyncio import gather
from typing import TYPE_CHECKING

from continuations.core.signal_matching import (
    MAX_KEPT_IN_ALL,
    MAX_KEPT_SIGNALS,
    UntakenSignal,
    drops,
    waits_for,
)
from continuations.errors import Corrupt, FormatError, InvalidInput, RunNotFound
from continuations.ledger import layout, markers
from continuations.ledger.arrival_logs import SIGNALS
from continuations.ledger.objects import AlreadyExists, NotFound
from continuations.value_class import replace
from continuations.wire.arrivals import SIGNAL, SIGNAL_ID, FirstNumber, Signal
from continuations.wire.fields import whole_milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from continuations.core.operator_request import OperatorRequest
    from continuations.core.state import RunState
    from continuations.ledger.objects import Objects


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
    run_id = state.run.id
    numbers = await _numbers(objects, run_id)
    if may_repeat:
        repeated = await _find_among(numbers, objects, run_id, signal)
        if repeated is not None:
            return repeated
    await _check_limits(objects, state, numbers, signal.name)
    number = max(numbers, default=0) + 1
    if may_repeat:
        number = await _keep_lowest(objects, run_id, signal.id, number)
    return await _post_from(objects, run_id, signal, number, nonce=nonce)


async def _post_from(
    objects: Objects, run_id: str, signal: Signal, number: int, *, nonce: str
) -> Signal:
    while True:
        marker = markers.for_arrival(run_id, "s", number, nonce)
        at = await markers.create(objects, marker) or signal.at
        posted = replace(
            signal,
            number=number,
            at=whole_milliseconds(at),
            marker=marker.key,
        )
        try:
            await objects.create(
                layout.numbered_key(layout.SIGNAL, run_id, number),
                SIGNAL.encode(posted, run_id),
            )
        except AlreadyExists:
            existing = await _read_existing(objects, run_id, number, marker.key)
            if existing.marker == marker.key:
                return existing  # the reply to an earlier try of this create was lost
            await objects.delete(marker.key)
            if existing.id == signal.id:
                return _checked_repeat(existing, signal, run_id)
            number += 1
        else:
            return posted


async def _keep_lowest(
    objects: Objects, run_id: str, signal_id: str, number: int
) -> int:
    """Keep the lowest number that a signal can have; return the first one kept.

    Every repeat begins there, so all of them meet the signal that was posted.
    """
    key = SIGNALS.id_key(run_id, signal_id)
    try:
        await objects.create(key, SIGNAL_ID.encode(FirstNumber(number), run_id))
    except AlreadyExists:
        first = SIGNAL_ID.decode(await objects.read(key), key, run_id).number
        # Others may have posted since the listing.
        newest = max(await _numbers(objects, run_id), default=0)
        if not 0 < first <= newest + 1:
            msg = (
                f"{key} is damaged: it says that its signal has at least number "
                f"{first}, and run {run_id} has {newest} signals. Nothing was sent. "
                "Restore it from a backup."
            )
            raise Corrupt(msg, run_id=run_id) from None
        return first
    return number


async def _check_limits(
    objects: Objects, state: RunState, numbers: list[int], name: str
) -> None:
    """Raise `InvalidInput` if a run keeps too many signals that no wait has taken.

    The names of new signals are read only if there are many.
    """
    run = state.run
    new = [number for number in numbers if number > run.last_signal_number]
    in_all = len(run.signals) + len(new)
    if in_all < MAX_KEPT_SIGNALS:
        return
    names = [kept.name for kept in run.signals]
    reads = (SIGNALS.read_listed(objects, run.id, number) for number in new)
    names += [signal.name for signal in await gather(*reads)]
    of_name = names.count(name)
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


async def list_untaken(
    objects: Objects, state: RunState, requests: Iterable[OperatorRequest]
) -> list[UntakenSignal]:
    """Return the signals that no wait has taken, in the order of their numbers.

    `requests` are those that the run has not taken in; the signals that they drop are
    left out.
    """
    run = state.run
    numbers = [kept.number for kept in run.signals]
    listed = await _numbers(objects, run.id)
    numbers += [number for number in listed if number > run.last_signal_number]
    reads = (SIGNALS.read_listed(objects, run.id, number) for number in numbers)
    return [
        UntakenSignal(
            number=each.number,
            name=each.name,
            at=each.at,
            by=each.by,
            data_json=each.data,
        )
        for each in await gather(*reads)
        if not any(drops(request, each.number, each.name) for request in requests)
    ]


async def find_repeat(objects: Objects, run_id: str, signal: Signal) -> Signal | None:
    """Return the recorded signal with the id of a signal, or `None`.

    Raises:
        InvalidInput: It has another name or other data.
        Corrupt, FormatError: A signal cannot be read.
    """
    numbers = await _numbers(objects, run_id)
    return await _find_among(numbers, objects, run_id, signal)


async def _numbers(objects: Objects, run_id: str) -> list[int]:
    keys = objects.all_keys(SIGNALS.prefix(run_id))
    listed = [layout.number_in(layout.SIGNAL, key) async for key in keys]
    return [number for number in listed if number is not None]


async def _find_among(
    numbers: list[int], objects: Objects, run_id: str, signal: Signal
) -> Signal | None:
    """Return the signal with the id of a signal, or `None`.

    A signal with an own id is not before the number that its key keeps.
    """
    key = SIGNALS.id_key(run_id, signal.id)
    try:
        first = SIGNAL_ID.decode(await objects.read(key), key, run_id).number
    except NotFound:
        return None
    for number in sorted(each for each in numbers if each >= first):
        existing = await SIGNALS.read_listed(objects, run_id, number)
        if existing.id == signal.id:
            return _checked_repeat(existing, signal, run_id)
    return None


def _checked_repeat(existing: Signal, signal: Signal, run_id: str) -> Signal:
    if (existing.name, existing.data) == (signal.name, signal.data):
        return existing
    msg = (
        f"The signal was not sent to run {run_id}: its id names signal "
        f"{existing.number}, which has another name or other data. Use a new id."
    )
    raise InvalidInput(msg, run_id=run_id)


async def _read_existing(
    objects: Objects, run_id: str, number: int, marker_key: str
) -> Signal:
    try:
        return await SIGNALS.read(objects, run_id, number)
    except NotFound:
        await objects.delete(marker_key)
        msg = f"The signal to run {run_id} was not sent: the run was erased meanwhile."
        raise RunNotFound(msg, run_id=run_id) from None
    except FormatError:
        await objects.delete(marker_key)
        raise
