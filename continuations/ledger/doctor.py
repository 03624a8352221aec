"""What of a run can still be read, and how it goes on after damage.

Needs no application code. Looking never writes; a repair only adds a version, and
leaves every damaged object as it is.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from continuations.core.calls import Ready, Started, Unknown, Waiting
from continuations.core.decisions import Decision
from continuations.core.run import ENDED
from continuations.core.table import Table
from continuations.errors import Corrupt, FormatError, RunBusy, StoreError
from continuations.ledger import layout, markers, waits
from continuations.ledger.arrivals import read_decision
from continuations.ledger.claims import check_free, released
from continuations.ledger.examination import Examination, Finding, examine
from continuations.ledger.objects import AlreadyExists
from continuations.ledger.versions import Loaded, Versions
from continuations.wire.records import encode_decision

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from continuations.core.calls import CallRow, State
    from continuations.core.run import RunRow
    from continuations.core.waits import Wait
    from continuations.ledger.objects import Objects

__all__ = ["Examination", "Finding", "examine", "reopened", "repair", "restored"]

# Ids that the lost versions gave out must never be given to another row: tools know
# calls by them. One object cannot hold as many rows, so no version gives out more.
_IDS_OF_A_VERSION = 1 << 20

# What became of a wait: the decision that stands; "unreadable"; or "open", which also
# the wait is that a repair closed under its old id.
Fate: TypeAlias = "Decision | Literal['open', 'unreadable']"

_LOST = (
    "Versions of this run were lost, and this call may have been made in them. Find "
    "out before you decide. "
)
_UNREADABLE = "What was decided before cannot be read any more. "


async def repair(
    objects: Objects,
    run_id: str,
    *,
    now: datetime,
    ulid: Callable[[], str],
) -> Loaded:
    """Start a new root from the last good version of a damaged run.

    Whatever the lost versions did is unknown: calls that may have been started in
    them become waits for an unknown outcome when the run is resumed, every open wait
    gets a new id, and calls that the model makes anew are asked about. A wait of a
    whole version that can no longer be decided gets a new id too. Returns the version
    from which the run goes on: the newest, if nothing is in its way.

    Raises `RunNotFound`; `RunBusy`; `StaleRun` if another process moved or repaired
    the run; `Corrupt` if nothing is left to go on from, or what is in the way must be
    put away by hand; `FormatError` if a newer version of continuations wrote here;
    and `StoreError`. A crash leaves the run as it was, or repaired; then a second
    repair, or a sweep, makes what is lacking.
    """
    # Listed first: what no version names that is read later is over, or was lost.
    shown = [each.id async for each in waits.listed(objects) if each.run_id == run_id]
    found = await examine(objects, run_id)
    _check_mendable(found)
    versions = Versions(objects, run_id)
    good = await versions.load(found.last_good)
    mender = _Mender(objects, run_id, now, ulid)
    orphans = [wait_id for wait_id in shown if wait_id not in good.table.waits]
    if found.goes_on:
        # An earlier repair may have died right after its version.
        if good.table.run.claim is None:
            await _show(objects, good.table)
        await mender.bury(orphans)
        return good
    _check_free(found, good.table, now)
    number = found.newest + 1
    await markers.make(objects, markers.guard(run_id, number, now, ulid()))
    if found.lost:
        fates: dict[str, Fate] = {}
        for key, wait in good.table.waits.items():
            fates[key] = await mender.close(wait)
        table = restored(good.table, fates, len(found.lost), ulid)
    else:
        table = reopened(
            good.table, dict.fromkeys(found.undecidable, _UNREADABLE), ulid
        )
    planted = await versions.plant(number, released(table), at=now)
    if await versions.newest_number() != number:
        raise versions.stale(found.newest)
    await _show(objects, planted.table)
    await mender.withdraw(
        [wait for key, wait in good.table.waits.items() if key not in table.waits],
        damaged={finding.key for finding in found.findings},
    )
    await mender.bury(orphans)
    return planted


def restored(
    table: Table, fates: Mapping[str, Fate], lost: int, ulid: Callable[[], str]
) -> Table:
    """Return a state as it must be after so many later versions were lost.

    A call that could have been started in them counts as started: ready ones, and
    waiting ones that were approved and may not be repeated. A decision that stands
    and started nothing stands again; all other waits are asked about anew.
    """
    if table.run.status in ENDED:
        return table
    calls = {key: _begun(row, fates) for key, row in table.calls.items()}
    begun = {key for key, row in calls.items() if row is not table.calls[key]}
    kept = {key: wait for key, wait in table.waits.items() if wait.call_id not in begun}
    notes = {
        key: _LOST + (_UNREADABLE if fates[key] == "unreadable" else "")
        for key in kept
        if not isinstance(fates[key], Decision)
    }
    next_id = table.run.next_id + _IDS_OF_A_VERSION * (lost + 1)
    run = replace(table.run, next_id=next_id, doubtful=True)
    return reopened(_changed(table, run, calls, kept), notes, ulid)


def reopened(table: Table, notes: Mapping[str, str], ulid: Callable[[], str]) -> Table:
    """Return a state in which some waits have new ids, and notes that say why."""
    calls = dict(table.calls)
    kept: dict[str, Wait] = {}
    for wait in table.waits.values():
        if wait.id not in notes:
            kept[wait.id] = wait
            continue
        again = replace(
            wait,
            id=layout.wait_id(wait.kind, ulid(), wait.run_id),
            note=notes[wait.id] + (wait.note or ""),
        )
        kept[again.id] = again
        call = calls[wait.call_id]
        unknown = isinstance(call.state, Unknown)
        state: State = Unknown(again.id) if unknown else Waiting(again.id)
        calls[call.id] = replace(call, state=state)
    return _changed(table, table.run, calls, kept)


def _begun(call: CallRow, fates: Mapping[str, Fate]) -> CallRow:
    """Return a call as started, if it could have been."""
    if isinstance(call.state, Ready):
        return replace(call, state=Started())
    if not isinstance(call.state, Waiting | Unknown) or call.repeatable:
        return call  # what may be repeated is approved again, by the same decision
    fate = fates[call.state.wait]
    if not isinstance(fate, Decision) or fate.kind != "approve":
        return call
    if fate.arguments is None:
        return replace(call, state=Started())
    original = call.original or call.arguments
    edited = fate.arguments
    return replace(call, state=Started(), arguments=edited, original=original)


def _changed(
    table: Table,
    run: RunRow,
    calls: Mapping[str, CallRow],
    open_waits: Mapping[str, Wait],
) -> Table:
    return Table.of(
        run=run,
        manifest=table.manifest,
        frames=table.frames,
        calls=calls,
        waits=open_waits,
        logs=table.logs,
    )


# Waits ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Mender:
    """Sees to the waits of a run that is being repaired."""

    objects: Objects
    run_id: str
    now: datetime
    ulid: Callable[[], str]

    async def close(self, wait: Wait) -> Fate:
        """End a wait under its old id, unless a decision stands: return that."""
        ours = Decision(
            id=self.ulid(),
            wait_id=wait.id,
            kind="cancel",
            at=self.now,
            digest=wait.digest,
            by="doctor",
            reason="The run was repaired. What still waits there has a new id.",
        )
        key = layout.decision(wait.id)
        try:
            await self.objects.create(key, encode_decision(ours, self.run_id))
        except AlreadyExists:
            return await self._fate(wait)
        return "open"

    async def bury(self, orphans: Iterable[str]) -> None:
        """Close waits that no version names any more; damaged ones are left."""
        for wait_id in orphans:
            with suppress(FormatError):
                wait = await waits.read(self.objects, wait_id)
                if wait is not None:
                    await self.close(wait)
                    await self.objects.delete(layout.wait(wait_id))

    async def _fate(self, wait: Wait) -> Fate:
        try:
            stands = await read_decision(self.objects, wait.id)
        except FormatError:
            return "unreadable"
        if stands is None or stands.kind == "cancel":
            return "open"
        return stands if stands.digest == wait.digest else "unreadable"

    async def withdraw(self, over: Iterable[Wait], damaged: set[str]) -> None:
        """Close waits and remove their objects, but for damaged ones."""
        for wait in over:
            await self.close(wait)
            if layout.wait(wait.id) not in damaged:
                await self.objects.delete(layout.wait(wait.id))


async def _show(objects: Objects, table: Table) -> None:
    """Make the objects and deadlines of the open waits of a version."""
    for wait in table.waits.values():
        if wait.deadline is not None:
            nonce = layout.parse_wait_id(wait.id).ulid
            await markers.make(
                objects, markers.of_deadline(wait.id, wait.deadline, nonce)
            )
    await waits.mend(objects, table.waits.values())


# What a repair must not pass over -------------------------------------------


def _check_mendable(found: Examination) -> None:
    run_id = found.run_id
    for finding in found.findings:
        if not finding.blocks:
            continue
        where = f"Run {run_id} was not repaired: {finding.problem}"
        if finding.kind == "newer":
            raise FormatError(where, run_id=run_id)
        if finding.kind == "unread":
            msg = f"{where} Mend that, or put the object away if it is beyond reading."
            raise StoreError(msg, run_id=run_id)
        if finding.kind == "stranger":
            raise Corrupt(where, run_id=run_id)
    if found.last_good == 0:
        msg = f"No version of run {run_id} can be rebuilt. Restore one from a backup."
        raise Corrupt(msg, run_id=run_id)
    if found.newest == layout.MOST_VERSIONS:
        key = layout.version(run_id, found.newest)
        msg = f"Run {run_id} was not repaired: no number is left after {key}."
        raise Corrupt(msg, run_id=run_id)
    if found.goes_on or found.lost or found.undecidable:
        return
    blocking = next(finding for finding in found.findings if finding.blocks)
    msg = f"{blocking.problem} No repair leads around {blocking.key}."
    raise Corrupt(msg, run_id=run_id)


def _check_free(found: Examination, table: Table, now: datetime) -> None:
    """Raise `RunBusy` if the last claim that can be read still lasts."""
    check_free(table.run, now)
    until = found.claimed_until
    if until is not None and until > now:
        msg = (
            f"The last claim on run {found.run_id} that can be read lasts until "
            f"{until.isoformat()}. Nothing was done here. Repair it after that time."
        )
        raise RunBusy(msg, run_id=found.run_id, until=until)
