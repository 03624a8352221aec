"""Post signals to a run, in dense numbers of their own."""

from __future__ import annotations

from asyncio import gather
from typing import TYPE_CHECKING

from continuations.core.untaken_signals import UntakenSignal, drops
from continuations.errors import Corrupt, FormatError, InvalidInput, RunNotFound
from continuations.ledger import layout, markers, signal_limits
from continuations.ledger.arrivals import read_kept_signal, read_signal
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
    newest = await _newest_number(objects, run_id, state.run.last_signal_number)
    if may_repeat:
        repeated = await _find_until(newest, objects, run_id, signal)
        if repeated is not None:
            return repeated
    signal = await signal_limits.with_room(objects, state, signal, newest)
    if may_repeat:
        await _keep_lowest(objects, run_id, signal.id, newest + 1)
    # If another process posts a signal with this id meanwhile, it comes after `newest`.
    return await _post_from(objects, run_id, signal, newest + 1, nonce=nonce)


async def _post_from(
    objects: Objects, run_id: str, signal: Signal, number: int, *, nonce: str
) -> Signal:
    while True:
        marker = markers.for_signal(run_id, number, nonce)
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
            signal = signal_limits.behind(signal, existing)
            number += 1
        else:
            return posted


async def _keep_lowest(
    objects: Objects, run_id: str, signal_id: str, number: int
) -> None:
    """Keep the lowest number that a signal can have, unless one is kept.

    A repeat looks for the signal from there on. `number` is the next one.
    """
    key = layout.signal_id_key(run_id, signal_id)
    try:
        await objects.create(key, SIGNAL_ID.encode(FirstNumber(number), run_id))
    except AlreadyExists:
        first = SIGNAL_ID.decode(await objects.read(key), key, run_id).number
        # Others may have posted since the listing.
        newest = await _newest_number(objects, run_id, number - 1)
        if not 0 < first <= newest + 1:
            msg = (
                f"{key} is damaged: it says that its signal has at least number "
                f"{first}, and run {run_id} has {newest} signals. Nothing was sent. "
                "Restore it from a backup."
            )
            raise Corrupt(msg, run_id=run_id) from None


async def list_untaken(
    objects: Objects, state: RunState, requests: Iterable[OperatorRequest]
) -> list[UntakenSignal]:
    """Return the signals that no wait has taken, in the order of their numbers.

    `requests` are those that the run has not taken in; the signals that they drop are
    left out.
    """
    run = state.run
    numbers = [kept.number for kept in run.signals]
    newest = await _newest_number(objects, run.id, run.last_signal_number)
    numbers += range(run.last_signal_number + 1, newest + 1)
    reads = (read_kept_signal(objects, run.id, number) for number in numbers)
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


async def find_repeat(
    objects: Objects, state: RunState, signal: Signal
) -> Signal | None:
    """Return the recorded signal with the id of a signal, or `None`.

    Raises:
        InvalidInput: It has another name or other data.
        Corrupt, FormatError: A signal cannot be read.
    """
    run = state.run
    newest = await _newest_number(objects, run.id, run.last_signal_number)
    return await _find_until(newest, objects, run.id, signal)


async def _newest_number(objects: Objects, run_id: str, known: int) -> int:
    """Return the number of the newest signal; signal `known` exists, or it is 0."""
    after = layout.numbered_key(layout.SIGNAL, run_id, known) if known else ""
    newest = known
    async for key in objects.all_keys(layout.signals_prefix(run_id), after):
        newest = layout.number_in(layout.SIGNAL, key) or newest
    return newest


async def _find_until(
    newest: int, objects: Objects, run_id: str, signal: Signal
) -> Signal | None:
    """Return the signal with the id of a signal, or `None`.

    A signal with an own id is not before the number that its key keeps.
    """
    key = layout.signal_id_key(run_id, signal.id)
    try:
        first = SIGNAL_ID.decode(await objects.read(key), key, run_id).number
    except NotFound:
        return None
    for number in range(first, newest + 1):
        existing = await read_kept_signal(objects, run_id, number)
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
        return await read_signal(objects, run_id, number)
    except NotFound:
        await objects.delete(marker_key)
        msg = f"The signal to run {run_id} was not sent: the run was erased meanwhile."
        raise RunNotFound(msg, run_id=run_id) from None
    except FormatError:
        await objects.delete(marker_key)
        raise
