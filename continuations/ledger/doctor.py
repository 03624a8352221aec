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
from continuations.core.run import ENDED_STATUSES
from continuations.core.state import RunState
from continuations.errors import Corrupt, FormatError, RunBusy, StoreError
from continuations.ledger import layout, markers, waits
from continuations.ledger.arrivals import read_decision
from continuations.ledger.claims import check_free, released
from continuations.ledger.integrity import Finding, IntegrityReport, check_integrity
from continuations.ledger.objects import AlreadyExists
from continuations.ledger.versions import LoadedVersion, Versions
from continuations.wire.records import encode_decision

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from continuations.core.calls import CallRow, CallState
    from continuations.core.run import RunRow
    from continuations.core.waits import Wait
    from continuations.ledger.objects import Objects

__all__ = [
    "Finding",
    "IntegrityReport",
    "check_integrity",
    "repair",
    "with_lost_versions",
    "with_new_wait_ids",
]

# Ids that the lost versions gave out must never be given to another row: tools know
# calls by them. One object cannot hold as many rows, so no version gives out more.
_MAX_IDS_PER_VERSION = 1 << 20

# What became of a wait: the decision that stands; "unreadable"; or "open", which also
# the wait is that a repair closed under its old id.
PriorDecision: TypeAlias = "Decision | Literal['open', 'unreadable']"

_LOST_NOTE = (
    "Versions of this run were lost, and this call may have been made in them. Find "
    "out before you decide. "
)
_UNREADABLE_NOTE = "What was decided before cannot be read any more. "


async def repair(
    objects: Objects,
    run_id: str,
    *,
    now: datetime,
    new_ulid: Callable[[], str],
) -> LoadedVersion:
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
    shown = [
        each.id async for each in waits.list_open(objects) if each.run_id == run_id
    ]
    found = await check_integrity(objects, run_id)
    _check_repairable(found)
    versions = Versions(objects, run_id)
    good = await versions.load(found.last_good_number)
    mender = _WaitCloser(objects, run_id, now, new_ulid)
    orphans = [wait_id for wait_id in shown if wait_id not in good.state.waits]
    if found.is_resumable:
        # An earlier repair may have died right after its version.
        if good.state.run.claim is None:
            await _publish_waits(objects, good.state)
        await mender.close_orphans(orphans)
        return good
    _check_claims_ended(found, good.state, now)
    number = found.newest_number + 1
    await markers.create(objects, markers.guard(run_id, number, now, new_ulid()))
    if found.lost_numbers:
        fates: dict[str, PriorDecision] = {}
        for key, wait in good.state.waits.items():
            fates[key] = await mender.close(wait)
        state = with_lost_versions(good.state, fates, len(found.lost_numbers), new_ulid)
    else:
        state = with_new_wait_ids(
            good.state, dict.fromkeys(found.damaged_waits, _UNREADABLE_NOTE), new_ulid
        )
    planted = await versions.append_root(number, released(state), at=now)
    if await versions.newest_number() != number:
        raise versions.stale_error(found.newest_number)
    await _publish_waits(objects, planted.state)
    await mender.close_and_delete(
        [wait for key, wait in good.state.waits.items() if key not in state.waits],
        damaged_keys={finding.key for finding in found.findings},
    )
    await mender.close_orphans(orphans)
    return planted


def with_lost_versions(
    state: RunState,
    prior_decisions: Mapping[str, PriorDecision],
    lost_count: int,
    new_ulid: Callable[[], str],
) -> RunState:
    """Return a state as it must be after so many later versions were lost.

    A call that could have been started in them counts as started: ready ones, and
    waiting ones that were approved and may not be repeated. A decision that stands
    and started nothing stands again; all other waits are asked about anew.
    """
    if state.run.status in ENDED_STATUSES:
        return state
    calls = {key: _as_started(row, prior_decisions) for key, row in state.calls.items()}
    begun = {key for key, row in calls.items() if row is not state.calls[key]}
    kept = {key: wait for key, wait in state.waits.items() if wait.call_id not in begun}
    notes = {
        key: _LOST_NOTE
        + (_UNREADABLE_NOTE if prior_decisions[key] == "unreadable" else "")
        for key in kept
        if not isinstance(prior_decisions[key], Decision)
    }
    next_id = state.run.next_id + _MAX_IDS_PER_VERSION * (lost_count + 1)
    run = replace(state.run, next_id=next_id, history_lost=True)
    return with_new_wait_ids(_with_rows(state, run, calls, kept), notes, new_ulid)


def with_new_wait_ids(
    run_state: RunState, notes: Mapping[str, str], new_ulid: Callable[[], str]
) -> RunState:
    """Return a state in which some waits have new ids, and notes that say why."""
    calls = dict(run_state.calls)
    kept: dict[str, Wait] = {}
    for wait in run_state.waits.values():
        if wait.id not in notes:
            kept[wait.id] = wait
            continue
        again = replace(
            wait,
            id=layout.build_wait_id(wait.kind, new_ulid(), wait.run_id),
            note=notes[wait.id] + (wait.note or ""),
        )
        kept[again.id] = again
        call = calls[wait.call_id]
        unknown = isinstance(call.state, Unknown)
        state: CallState = Unknown(again.id) if unknown else Waiting(again.id)
        calls[call.id] = replace(call, state=state)
    return _with_rows(run_state, run_state.run, calls, kept)


def _as_started(call: CallRow, prior_decisions: Mapping[str, PriorDecision]) -> CallRow:
    """Return a call as started, if it could have been."""
    if isinstance(call.state, Ready):
        return replace(call, state=Started())
    if not isinstance(call.state, Waiting | Unknown) or call.repeatable:
        return call  # what may be repeated is approved again, by the same decision
    fate = prior_decisions[call.state.wait_id]
    if not isinstance(fate, Decision) or fate.kind != "approve":
        return call
    if fate.arguments is None:
        return replace(call, state=Started())
    original = call.original_arguments or call.arguments
    edited = fate.arguments
    return replace(call, state=Started(), arguments=edited, original_arguments=original)


def _with_rows(
    state: RunState,
    run: RunRow,
    calls: Mapping[str, CallRow],
    open_waits: Mapping[str, Wait],
) -> RunState:
    return RunState.from_rows(
        run=run,
        manifest=state.manifest,
        frames=state.frames,
        calls=calls,
        waits=open_waits,
        logs=state.logs,
    )


# Waits ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _WaitCloser:
    """Sees to the waits of a run that is being repaired."""

    objects: Objects
    run_id: str
    now: datetime
    new_ulid: Callable[[], str]

    async def close(self, wait: Wait) -> PriorDecision:
        """End a wait under its old id, unless a decision stands: return that."""
        ours = Decision(
            id=self.new_ulid(),
            wait_id=wait.id,
            kind="cancel",
            at=self.now,
            digest=wait.digest,
            by="doctor",
            reason="The run was repaired. What still waits there has a new id.",
        )
        key = layout.decision_key(wait.id)
        try:
            await self.objects.create(key, encode_decision(ours, self.run_id))
        except AlreadyExists:
            return await self._read_prior_decision(wait)
        return "open"

    async def close_orphans(self, wait_ids: Iterable[str]) -> None:
        """Close waits that no version names any more; damaged ones are left."""
        for wait_id in wait_ids:
            with suppress(FormatError):
                wait = await waits.read(self.objects, wait_id)
                if wait is not None:
                    await self.close(wait)
                    await self.objects.delete(layout.wait_key(wait_id))

    async def _read_prior_decision(self, wait: Wait) -> PriorDecision:
        try:
            stands = await read_decision(self.objects, wait.id)
        except FormatError:
            return "unreadable"
        if stands is None or stands.kind == "cancel":
            return "open"
        return stands if stands.digest == wait.digest else "unreadable"

    async def close_and_delete(
        self, closed_waits: Iterable[Wait], damaged_keys: set[str]
    ) -> None:
        """Close waits and remove their objects, but for damaged ones."""
        for wait in closed_waits:
            await self.close(wait)
            if layout.wait_key(wait.id) not in damaged_keys:
                await self.objects.delete(layout.wait_key(wait.id))


async def _publish_waits(objects: Objects, state: RunState) -> None:
    """Make the objects and deadlines of the open waits of a version."""
    for wait in state.waits.values():
        if wait.deadline is not None:
            nonce = layout.parse_wait_id(wait.id).ulid
            await markers.create(
                objects, markers.for_deadline(wait.id, wait.deadline, nonce)
            )
    await waits.recreate_missing(objects, state.waits.values())


# What a repair must not pass over -------------------------------------------


def _check_repairable(report: IntegrityReport) -> None:
    run_id = report.run_id
    for finding in report.findings:
        if not finding.blocks_run:
            continue
        where = f"Run {run_id} was not repaired: {finding.problem}"
        if finding.kind == "newer":
            raise FormatError(where, run_id=run_id)
        if finding.kind == "unread":
            msg = f"{where} Mend that, or put the object away if it is beyond reading."
            raise StoreError(msg, run_id=run_id)
        if finding.kind == "stranger":
            raise Corrupt(where, run_id=run_id)
    if report.last_good_number == 0:
        msg = f"No version of run {run_id} can be rebuilt. Restore one from a backup."
        raise Corrupt(msg, run_id=run_id)
    if report.newest_number == layout.MAX_VERSIONS:
        key = layout.version_key(run_id, report.newest_number)
        msg = f"Run {run_id} was not repaired: no number is left after {key}."
        raise Corrupt(msg, run_id=run_id)
    if report.is_resumable or report.lost_numbers or report.damaged_waits:
        return
    blocking = next(finding for finding in report.findings if finding.blocks_run)
    msg = f"{blocking.problem} No repair leads around {blocking.key}."
    raise Corrupt(msg, run_id=run_id)


def _check_claims_ended(
    report: IntegrityReport, state: RunState, now: datetime
) -> None:
    """Raise `RunBusy` if the last claim that can be read still lasts."""
    check_free(state.run, now)
    until = report.claimed_until
    if until is not None and until > now:
        msg = (
            f"The last claim on run {report.run_id} that can be read lasts until "
            f"{until.isoformat()}. Nothing was done here. Repair it after that time."
        )
        raise RunBusy(msg, run_id=report.run_id, until=until)
