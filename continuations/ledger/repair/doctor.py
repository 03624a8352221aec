"""Repair a damaged run: continue from its last good version.

This needs no application code. A repair adds a version and does not change damaged
objects.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

from continuations.core import jsontext
from continuations.core.rows import waits as consequences
from continuations.core.rows.calls import (
    WAITING_STATES,
    Parked,
    Ready,
    Started,
    Unknown,
    Waiting,
)
from continuations.core.rows.decisions import Answer, Decision
from continuations.core.rows.waits import decision_on
from continuations.core.words.secret_arguments import SecretLost, restored_json
from continuations.errors import Corrupt, FormatError, RunBusy, StoreError
from continuations.ledger import layout, markers
from continuations.ledger.arrivals.recorded_decisions import read_decision
from continuations.ledger.claims import check_free, released
from continuations.ledger.index import event_waiters, waits
from continuations.ledger.objects import AlreadyExists
from continuations.ledger.repair.integrity import (
    Finding,
    IntegrityReport,
    check_integrity,
)
from continuations.ledger.versions import LoadedVersion, Versions
from continuations.value_class import dataclass, replace
from continuations.wire.fields import from_milliseconds, to_milliseconds
from continuations.wire.records import DECISION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.state import RunState
    from continuations.core.rows.waits import Wait
    from continuations.ledger.objects import Objects


__all__ = [
    "Finding",
    "IntegrityReport",
    "check_integrity",
    "repair",
    "with_lost_versions",
    "with_new_wait_ids",
]

# The row ids of lost versions must not be used again, because tools recognise calls by
# these ids. One object cannot hold this many rows, so no version used more ids.
_MAX_IDS_PER_VERSION = 1 << 20

_LOST_NOTE = (
    "Versions of this run were lost, and this call may have been made in them. Check "
    "this before you decide. "
)
# The clock of the worker that let a timer fire may have been fast by less than this.
_CLOCK_MARGIN = timedelta(seconds=30)
_UNREADABLE_NOTE = "The decision that was recorded before cannot be read. "


async def repair(
    objects: Objects,
    run_id: str,
    *,
    now: datetime,
    new_ulid: Callable[[], str],
) -> LoadedVersion:
    """Append a root, a copy of the last good version that needs no other version.

    The effects of the lost versions are unknown. So after the repair:

    - A call that may have been started becomes a wait for an unknown outcome when the
      run is resumed.
    - Every undecided wait has a new id. A recorded, readable decision stays
      valid. If no version was lost, only a damaged wait, or one whose decision is
      damaged, has a new id.
    - If versions were lost, every call that the model makes from then on needs an
      approval: the call may have run before. Read-only tools and sub-agents do not.

    A crash leaves the run unchanged or repaired. A second repair or a sweep creates
    missing wait objects and markers. The run continues from the returned version.

    Raises:
        RunNotFound: The run does not exist.
        RunBusy: Another process holds a claim.
        StaleRun: Another process advanced or repaired the run.
        Corrupt: No version can be rebuilt, or an object must be moved away by hand.
        FormatError: A newer version of continuations wrote an object.
        StoreError: An object could not be read or written.
    """
    # First, so that a listed wait that no version contains is decided or lost, not new.
    listed = await waits.list_ids_of_run(objects, run_id)
    report = await check_integrity(objects, run_id)
    _check_repairable(report)
    versions = Versions(objects, run_id)
    good = await versions.load(report.last_good_number)
    retirer = _WaitRetirer(objects, run_id, now, new_ulid)
    orphans = [wait_id for wait_id in listed if wait_id not in good.state.waits]
    if report.is_resumable:
        # An earlier repair may have crashed right after its version. With a claim, the
        # worker that continues the run creates these objects.
        if good.state.run.claim is None:
            await _create_missing_wait_objects(objects, good.state)
        await retirer.retire_orphans(orphans)
        return good
    number = report.newest_number + 1
    now = await _create_guard(objects, report, good.state, new_ulid(), now)
    retirer = replace(retirer, now=now)
    state = await _repaired_state(report, good.state, retirer)
    repaired = await versions.append_root(number, released(state), good.tree, at=now)
    # A worker may have continued from the new root at once.
    if await versions.newest_number() != number:
        raise versions.stale_error(report.newest_number)
    await _create_missing_wait_objects(objects, repaired.state)
    await retirer.retire_and_delete(
        good.state.waits_gone_in(state),
        damaged_keys={finding.key for finding in report.findings},
    )
    await retirer.retire_orphans(orphans)
    return repaired


async def _repaired_state(
    report: IntegrityReport, state: RunState, retirer: _WaitRetirer
) -> RunState:
    """Return the state of the new root; retire wait ids if versions were lost."""
    # The version to which it was being rewound may be lost.
    state = replace(state, run=replace(state.run, rewind_to=0))
    if not report.lost_numbers:
        notes = dict.fromkeys(report.damaged_waits, _UNREADABLE_NOTE)
        return with_new_wait_ids(state, notes, retirer.new_ulid)
    prior: dict[str, PriorDecision] = {}
    for key, wait in state.waits.items():
        prior[key] = await retirer.retire(wait)
    lost_count = len(report.lost_numbers)
    return with_lost_versions(state, prior, lost_count, retirer.new_ulid)


def with_lost_versions(
    state: RunState,
    prior_decisions: Mapping[str, PriorDecision],
    lost_count: int,
    new_ulid: Callable[[], str],
) -> RunState:
    """Return the state after a number of later versions were lost.

    - A call that was ready, or approved and not repeatable, may have been started in
      the lost versions. It becomes started. So does the `on_answer` function of a call
      that has its answer and is not repeatable.
    - Every other wait with a readable decision keeps its id, and the decision is valid.
    - A wait that is undecided, or whose decision is unreadable, gets a new id and a
      note. The undecided wait of another system's job keeps its id, which that system
      has.

    Args:
        state: The state of the last good version.
        prior_decisions: The recorded decision of each wait.
        lost_count: The number of lost versions.
        new_ulid: Returns a new ULID.
    """
    if state.run.has_ended:
        return state
    calls = {
        key: as_started(row, state.waits, prior_decisions)
        for key, row in state.calls.items()
    }
    started = {key for key, row in calls.items() if row is not state.calls[key]}
    kept = {
        key: wait for key, wait in state.waits.items() if wait.call_id not in started
    }
    notes = {
        key: _LOST_NOTE
        + (_UNREADABLE_NOTE if prior_decisions[key] == "unreadable" else "")
        for key in kept
        if prior_decisions[key] in ("undecided", "unreadable")
    }
    # One more, because a check cannot notice that the newest version is missing.
    next_id = state.run.next_id + _MAX_IDS_PER_VERSION * (lost_count + 1)
    run = replace(state.run, next_id=next_id, history_lost=True)
    return with_new_wait_ids(
        state.with_rows(run=run, calls=calls, waits=kept), notes, new_ulid
    )


def with_new_wait_ids(
    state: RunState, notes: Mapping[str, str], new_ulid: Callable[[], str]
) -> RunState:
    """Return the state with new ids for the waits in `notes`, which maps id to note."""
    calls = dict(state.calls)
    waits_by_id: dict[str, Wait] = {}
    for wait in state.waits.values():
        if wait.id not in notes:
            waits_by_id[wait.id] = wait
            continue
        renamed = replace(
            wait,
            id=layout.build_wait_id(wait.kind, new_ulid(), wait.run_id),
            note=notes[wait.id] + (wait.note or ""),
        )
        waits_by_id[renamed.id] = renamed
        if not wait.call_id:
            continue
        call = calls[wait.call_id]
        assert isinstance(call.state, WAITING_STATES)  # noqa: S101 - it has a wait
        calls[call.id] = replace(call, state=type(call.state)(renamed.id))
    return state.with_rows(calls=calls, waits=waits_by_id)


# Waits ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _WaitRetirer:
    """Retires ids of waits of a run during a repair."""

    objects: Objects
    run_id: str
    now: datetime
    new_ulid: Callable[[], str]

    async def retire(self, wait: Wait) -> PriorDecision:
        """Record a cancel decision, so that the old id cannot be decided any more.

        Returns the decision that was recorded before, if any. Nothing is recorded for a
        timer, which only the clock ends, and for a job, whose id another system has.
        """
        if not wait.rules.has_object:
            return self._expiry_of_timer(wait)
        if wait.rules.has_known_id:
            prior = await self._read_prior_decision(wait)
            return prior or "kept"
        ours = replace(
            decision_on(wait, "cancel", self.new_ulid(), self.now),
            by="doctor",
            reason="The run was repaired. Its open waits have new ids.",
        )
        key = layout.decision_key(wait.id)
        try:
            await self.objects.create(key, DECISION.encode(ours, self.run_id))
        except AlreadyExists:
            return await self._read_prior_decision(wait) or "undecided"
        return "undecided"

    def _expiry_of_timer(self, wait: Wait) -> PriorDecision:
        """Return the expiry of a timer that may have fired in a lost version."""
        if wait.deadline is None or self.now + _CLOCK_MARGIN < wait.deadline:
            return "undecided"
        return decision_on(wait, "expire", self.new_ulid(), self.now)

    async def retire_orphans(self, wait_ids: Iterable[str]) -> None:
        """Retire waits that no version contains; damaged ones stay as they are."""
        for wait_id in wait_ids:
            with suppress(FormatError):
                wait = await waits.read(self.objects, wait_id)
                if wait is not None:
                    await self.retire(wait)
                    await self.objects.delete(layout.wait_key(wait_id))
                    await event_waiters.delete(self.objects, [wait])

    async def _read_prior_decision(self, wait: Wait) -> PriorDecision | None:
        try:
            recorded = await read_decision(self.objects, wait.id)
        except FormatError:
            return "unreadable"
        # An earlier repair, or the end of the run in a lost version, cancelled it.
        if recorded is None:
            return None
        if recorded.kind == "cancel":
            return "undecided"
        return recorded if recorded.digest == wait.digest else "unreadable"

    async def retire_and_delete(
        self, old_waits: Iterable[Wait], damaged_keys: set[str]
    ) -> None:
        """Retire waits, and remove their objects except damaged ones."""
        for wait in old_waits:
            await self.retire(wait)
            await event_waiters.delete(self.objects, [wait])
            if layout.wait_key(wait.id) not in damaged_keys:
                await self.objects.delete(layout.wait_key(wait.id))


async def _create_missing_wait_objects(objects: Objects, state: RunState) -> None:
    """Create the objects and markers of the open waits of a version."""
    for wait in state.waits.values():
        for marker in markers.first_markers(wait):
            await markers.create(objects, marker)
    await waits.recreate_missing(objects, state.waits.values())


# Conditions for a repair ----------------------------------------------------


def _check_repairable(report: IntegrityReport) -> None:
    run_id = report.run_id
    for finding in report.findings:
        if not finding.blocks_run:
            continue
        failure = f"run {run_id} was not repaired: {finding.problem}"
        if finding.kind == "newer":
            raise FormatError(failure, run_id=run_id)
        if finding.kind == "unread":
            msg = (
                f"{failure} Fix the cause, or move the object away if it is unreadable."
            )
            raise StoreError(msg, run_id=run_id)
        if finding.kind == "foreign":
            raise Corrupt(failure, run_id=run_id)
    if report.newest_number == 0:
        msg = (
            f"run {run_id} was not repaired: the store has no version of this run, "
            "only decisions or messages. If the start of the run failed, start it "
            "again with the same id; otherwise restore its versions from a backup."
        )
        raise Corrupt(msg, run_id=run_id)
    if report.last_good_number == 0:
        msg = (
            f"run {run_id} was not repaired: none of its versions can be rebuilt. "
            "Restore a version from a backup."
        )
        raise Corrupt(msg, run_id=run_id)
    if report.newest_number == layout.MAX_VERSIONS:
        key = layout.version_key(run_id, report.newest_number)
        msg = (
            f"run {run_id} was not repaired: {key} has the largest possible version "
            "number. Start a new run."
        )
        raise Corrupt(msg, run_id=run_id)
    if report.is_resumable or report.lost_numbers or report.damaged_waits:
        return
    blocking = next(finding for finding in report.findings if finding.blocks_run)
    msg = (
        f"run {run_id} was not repaired: {blocking.problem} A repair cannot replace "
        f"{blocking.key}."
    )
    raise Corrupt(msg, run_id=run_id)


async def _create_guard(
    objects: Objects,
    report: IntegrityReport,
    state: RunState,
    nonce: str,
    machine_time: datetime,
) -> datetime:
    """Create the marker of the repair; return the store's time if the store tells it.

    Raises `RunBusy` if a claim lasts by that time. The clock of this machine may be
    ahead while the worker is alive, or behind although the claim has ended.
    """
    marker = markers.guard(report.run_id, report.newest_number + 1, None, nonce)
    store_time = await markers.create_with_time(objects, marker)
    now = from_milliseconds(to_milliseconds(store_time or machine_time))
    try:
        _check_claims_ended(report, state, now)
    except RunBusy:
        await objects.delete(marker.key)
        raise
    return now


def _check_claims_ended(
    report: IntegrityReport, state: RunState, now: datetime
) -> None:
    """Raise `RunBusy` if the last readable claim has not ended."""
    check_free(state.run, now)
    until = report.claimed_until
    if until is not None and until > now:
        msg = (
            f"run {report.run_id} was not repaired: its last readable claim lasts "
            f"until {until.isoformat()}. Repair the run after that time."
        )
        raise RunBusy(msg, run_id=report.run_id, until=until)


# The recorded decision of a wait; "unreadable"; or "undecided". A wait whose old id an
# earlier repair retired is undecided. A wait that is "kept" is undecided and keeps its
# id, because another system has it.
PriorDecision: TypeAlias = "Decision | Literal['undecided', 'unreadable', 'kept']"


def as_started(
    call: CallRow,
    waits: Mapping[str, Wait],
    prior_decisions: Mapping[str, PriorDecision],
) -> CallRow:
    """Return the call as started if it may have been started in a lost version.

    Args:
        call: The call, in the last good version.
        waits: The waits of that version.
        prior_decisions: The recorded decision of each wait.
    """
    if isinstance(call.state, Ready):
        return replace(call, state=Started())
    if not isinstance(call.state, Waiting | Unknown | Parked) or call.repeatable:
        # The call waits for nothing; or it may be repeated, and its decision is valid.
        return call
    prior = prior_decisions[call.state.wait_id]
    if not isinstance(prior, Decision):
        return call
    if isinstance(call.state, Parked):
        return _with_answer(call, waits[call.state.wait_id], prior)
    return _with_approval(call, prior) if prior.kind == "approve" else call


def _with_approval(call: CallRow, approval: Decision) -> CallRow:
    edited = approval.arguments
    if edited is None:
        return replace(call, state=Started())
    if call.secrets:
        with suppress(SecretLost):
            edited = restored_json(edited, call.arguments or "{}", call.secrets)
    original = call.original_arguments or call.arguments
    return replace(call, state=Started(), arguments=edited, original_arguments=original)


def _with_answer(call: CallRow, wait: Wait, decision: Decision) -> CallRow:
    """Return the call with its `on_answer` function started, if it got an answer."""
    consequence = consequences.consequence(wait, decision)
    if not wait.continues or not isinstance(consequence, Answer):
        return call
    return replace(
        call,
        state=Started(),
        stage=call.stage + 1,
        answer=jsontext.canonical(consequence.value),
        attempts=1,
        approved_digest=None,
        approved_until=None,
    )
