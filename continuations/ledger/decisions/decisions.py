"""Check and record the first decision of a wait.

To decide is to read the wait, check the verdict, create the marker, and create the
decision under the wait's own key. This loads neither the run nor agents, nor their
libraries. Only if the object of the wait is missing after a crash, the run is loaded.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.rows.decisions import (
    VERDICT_KINDS,
    Answer,
    Approve,
    Decision,
    Fail,
    Verdict,
)
from continuations.core.rows.waits import next_known_wait_ulid, withheld
from continuations.errors import (
    DecisionRefused,
    FormatError,
    Inconclusive,
    RunNotFound,
    StoreError,
    WaitExpired,
    WaitNotFound,
)
from continuations.ledger import layout, markers
from continuations.ledger.arrivals.recorded_decisions import (
    create_and_unlist,
    read_decision,
)
from continuations.ledger.decision_errors import (
    NOT_DECIDED,
    check_call_is_over,
    check_in_time,
    check_shown,
    closed_wait_error,
    refused_error,
)
from continuations.ledger.decisions import verdict_checks
from continuations.ledger.index import waits
from continuations.ledger.objects import NotFound, OutOfTime
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from continuations.core.rows.decisions import DecisionKind, Door
    from continuations.core.rows.quorum import Vote
    from continuations.core.rows.waits import Wait
    from continuations.ledger.arrivals.wait_slots import GroupsOf
    from continuations.ledger.objects import Objects

    DigestCheck = Callable[[str], None]

# Two clocks that differ by less tell the same time.
_SAME_TIME = timedelta(seconds=1)


async def decide(  # noqa: PLR0913 - all by keyword
    objects: Objects,
    wait_id: str,
    verdict: Verdict,
    *,
    now: datetime,
    decision_id: str,
    check_digest: DigestCheck | None = None,
    shown: str | None = None,
    groups_of: GroupsOf | None = None,
    door: Door | None = None,
    on_open: Callable[[Wait], None] | None = None,
) -> Decision | Vote:
    """Record a decision for a wait; return the recorded decision, or the vote.

    A wait that several persons decide is open after a vote that does not end it. To
    repeat a recorded decision is a success. A crash leaves the wait open, or the
    decision recorded; then the next resume or sweep finds it. `check_digest` gets the
    digest of the wait before the decision is recorded or compared, and may raise.
    `on_open` gets the wait if it is open. `shown` is the digest that the person saw,
    which must be that of the wait. `groups_of` returns the groups of a person.

    Raises:
        WaitNotFound: The wait does not exist.
        DecisionRefused: The verdict does not fit, or the person may not decide the
            wait; nothing was recorded, decide again.
        AlreadyDecided: Another decision is recorded; the error contains it.
        WaitExpired: The deadline has passed.
        Cancelled: The run was cancelled, has failed or was repaired.
        Corrupt: The wait or its decision is damaged.
        StoreError: The decision may or may not be recorded.
    """
    decide_closed_wait = partial(
        _decide_closed_wait, objects, wait_id, verdict, now=now, decision_id=decision_id
    )
    if (wait := await find_open_wait(objects, wait_id)) is None:
        return await decide_closed_wait(check_digest=check_digest, shown=shown)
    if check_digest is not None:
        check_digest(wait.digest)
    check_shown(wait_id, wait.digest, shown)
    if wait.has_slots:
        wait, ended = await _follow_slots(objects, wait)
        if ended:
            return await decide_closed_wait()
    if on_open is not None:
        on_open(wait)
    try:
        proposed = _checked_decision(wait, verdict, now=now, decision_id=decision_id)
        proposed = replace(_through(door, proposed), shown=shown)
        proposed = await _of_a_voter(wait, proposed, groups_of)
        proposed = await _marked_first(objects, wait, proposed)
    except (WaitExpired, DecisionRefused):
        # After a crash, a decided wait may have its object. Then its decision counts.
        if await read_decision(objects, wait_id) is None:
            raise
        await _remove_from_list(objects, wait_id)
        return await decide_closed_wait()
    if wait.takes_votes:
        return await _vote(objects, wait, proposed)
    return await _record_alone(objects, wait, proposed)


async def _of_a_voter(
    wait: Wait, proposed: Decision, groups_of: GroupsOf | None
) -> Decision:
    """Return a decision with the groups of its person; check that the person may."""
    if wait.quorum is None:
        return proposed
    from continuations.ledger.arrivals import wait_slots  # noqa: PLC0415 - only waits with votes

    return await wait_slots.checked_voter(wait, proposed, groups_of)


async def _record_alone(objects: Objects, wait: Wait, proposed: Decision) -> Decision:
    """Record the decision of a wait that one person decides."""
    if proposed.marker is None:
        return await _record_with_marker(objects, wait, proposed)
    recorded = await record_decision(objects, proposed)
    if recorded.id != proposed.id:
        await objects.delete(proposed.marker)
    return _recorded_or_raise(recorded, proposed)


async def _record_with_marker(
    objects: Objects, wait: Wait, proposed: Decision
) -> Decision:
    """Record a decision and its marker in one request.

    Its time is that of this machine, so the clocks must agree. If they do not, or a
    lost reply was found too late, the marker comes first, and tells the time.
    """
    now = _time_of_record(None, proposed.at)
    marker = markers.for_decision(wait.id, proposed.id)
    marked = replace(proposed, at=now, marker=marker.key)
    try:
        recorded = await record_decision(
            objects, marked, between=(now - _SAME_TIME, now + _SAME_TIME)
        )
    except (Inconclusive, OutOfTime):
        marked = await _with_marker(objects, wait, proposed)
        return await _record_alone(objects, wait, marked)
    return _recorded_or_raise(recorded, marked)


async def _follow_slots(objects: Objects, wait: Wait) -> tuple[Wait, bool]:
    """Return a wait as its slots left it, and whether it has a decision.

    If its slots made a decision that is missing after a crash, it is recorded.
    """
    from continuations.ledger.arrivals import wait_slots  # noqa: PLC0415 - rarely needed

    # After a crash, a decided wait may still have its object: a vote would be lost.
    if await read_decision(objects, wait.id) is not None:
        await _remove_from_list(objects, wait.id)
        return wait, True
    after = await wait_slots.follow(objects, wait)
    if isinstance(after, Decision):
        await record_decision(objects, after)
        return wait, True
    return after, False


async def _vote(objects: Objects, wait: Wait, proposed: Decision) -> Decision | Vote:
    """Cast a vote whose marker exists; return it, or the decision that it made."""
    from continuations.ledger.arrivals import wait_slots  # noqa: PLC0415 - only waits with votes

    result = await wait_slots.cast_vote(objects, wait, proposed)
    if not isinstance(result, Decision):
        return result
    recorded = await record_decision(objects, result)
    await wait_slots.delete_unneeded_markers(objects, wait, proposed, recorded)
    return _recorded_or_raise(recorded, proposed)


def _through(door: Door | None, proposed: Decision) -> Decision:
    """Return a decision with the door through which it came."""
    if door is None:
        return proposed
    return replace(proposed, door=door.name, authentication=door.authentication)


async def _marked_first(objects: Objects, wait: Wait, proposed: Decision) -> Decision:
    """Create the marker of a decision, unless one commit creates both.

    Raises the same as `_with_marker`.
    """
    if objects.commits and not (wait.takes_votes or _depends_on_time(wait)):
        return proposed
    return await _with_marker(objects, wait, proposed)


def _depends_on_time(wait: Wait) -> bool:
    times = (wait.deadline, wait.valid_for, wait.approve_after)
    return any(each is not None for each in times)


async def _with_marker(objects: Objects, wait: Wait, proposed: Decision) -> Decision:
    """Create the marker of a decision; return the decision with its time of record.

    Raises `WaitExpired` or `DecisionRefused` if the decision comes too late or too
    early by the store's time. Then the marker is deleted.
    """
    marker = markers.for_decision(wait.id, proposed.id)
    create = markers.create_with_time if _depends_on_time(wait) else markers.create
    at = _time_of_record(await create(objects, marker), proposed.at)
    proposed = replace(proposed, at=at, marker=marker.key)
    try:
        check_in_time(wait, at)
        check_call_is_over(wait, proposed)
    except (WaitExpired, DecisionRefused):
        await objects.delete(marker.key)
        raise
    return proposed


async def find_open_wait(objects: Objects, wait_id: str) -> Wait | None:
    """Return an open wait, or `None` if it is decided; raises `WaitNotFound`."""
    name = layout.parse_wait_id(wait_id)
    wait = await waits.read(objects, wait_id)
    if wait is not None or await read_decision(objects, wait_id) is not None:
        return wait
    # After a crash, the version may exist without the object of the wait.
    from continuations.ledger.versions import Versions  # noqa: PLC0415 - rarely needed

    try:
        newest = await Versions(objects, name.run_id).load_newest()
    except RunNotFound:
        newest = None
    if newest is not None:
        from continuations.ledger.arrivals import early_answers  # noqa: PLC0415 - rarely needed

        early = early_answers.wait_of_started_call(newest.state, wait_id)
        if early is not None:
            return withheld(early)
    if newest is None or wait_id not in newest.state.waits:
        msg = (
            f"wait {wait_id} was not found: this store has no such wait. Check the "
            "store's URL; after a repair, waits have new ids. List open waits with "
            "`continuations waiting` or Runner.waiting()."
        )
        raise WaitNotFound(msg, run_id=name.run_id, wait_id=wait_id)
    wait = newest.state.waits[wait_id]
    await waits.recreate_missing(objects, [wait])
    return withheld(wait)


async def find_next_wait_id(objects: Objects, wait_id: str) -> str | None:
    """Return the id of the wait after one whose answer the tool rejected, or `None`.

    The other system knows only the first id of its job. Each later wait of the job has
    an id that follows from the id before it, and from the run.
    """
    if not layout.is_known_early(wait_id):
        return None
    from continuations.ledger.versions import Versions  # noqa: PLC0415 - rarely needed

    name = layout.parse_wait_id(wait_id)
    try:
        state = (await Versions(objects, name.run_id).load_newest()).state
    except RunNotFound:
        return None
    ulid = next_known_wait_ulid(state.run, name.ulid)
    next_id = layout.build_wait_id(name.kind, ulid, name.run_id)
    if next_id in state.waits or await read_decision(objects, next_id) is not None:
        return next_id
    return None


async def record_decision(
    objects: Objects,
    proposed: Decision,
    *,
    between: tuple[datetime, datetime] | None = None,
) -> Decision:
    """Create a decision or read the first one, and remove the object of the wait.

    `between` is for a store that `commits`: see `create_and_unlist`.
    """
    is_unlisted = False
    try:
        recorded, is_unlisted = await create_and_unlist(objects, proposed, between)
    except NotFound:
        msg = (
            f"wait {proposed.wait_id} was not decided: its run was erased meanwhile. "
            "Nothing was recorded."
        )
        raise WaitNotFound(msg, wait_id=proposed.wait_id) from None
    except FormatError:
        # A damaged decision must not prevent the cancellation of a run. A person who
        # decides must get the error.
        if proposed.kind != "cancel":
            raise
        recorded = proposed
    if not is_unlisted:
        await _remove_from_list(objects, proposed.wait_id)
    return recorded


async def _remove_from_list(objects: Objects, wait_id: str) -> None:
    """Delete the object of a decided wait; a sweep does it if the store cannot."""
    with suppress(StoreError):
        await objects.delete(layout.wait_key(wait_id))


async def close_wait(
    objects: Objects,
    wait: Wait,
    kind: DecisionKind,
    *,
    now: datetime,
    decision_id: str,
    reason: str | None = None,
    by: str | None = None,
    door: Door | None = None,
) -> Decision:
    """Close a wait by its deadline or with its run; return the first decision.

    Args:
        objects: The store.
        wait: The wait.
        kind: "expire" or "cancel".
        now: The time of the decision.
        decision_id: The id of the decision, a new ULID.
        reason: The reason of a cancellation.
        by: The person whose request closed it, if it is known.
        door: `OPERATOR` if an operator cancelled its call. For a rewind, the door of
            its request.
    """
    proposed = Decision(
        id=decision_id,
        wait_id=wait.id,
        kind=kind,
        at=now,
        digest=wait.digest,
        by=by,
        reason=reason,
        door=None if door is None else door.name,
        authentication=door.authentication if door and by is not None else None,
    )
    return await record_decision(objects, proposed)


def build_decision(
    wait: Wait, verdict: Verdict, *, now: datetime, decision_id: str
) -> Decision:
    """Return the record of a verdict on a wait.

    Raises:
        DecisionRefused: The value is not a verdict or does not fit the kind of the
            wait. Or the schema of the wait does not allow the edited arguments, or the
            call may still be running.
        WaitExpired: The deadline has passed.
    """
    proposed = _checked_decision(wait, verdict, now=now, decision_id=decision_id)
    check_in_time(wait, now)
    check_call_is_over(wait, proposed)
    return proposed


def _checked_decision(
    wait: Wait, verdict: Verdict, *, now: datetime, decision_id: str
) -> Decision:
    """Return the record of a verdict, whether the deadline has passed or not."""
    verdict_checks.check_kind(wait, verdict)
    verdict_checks.check_values(wait, verdict)
    try:
        return decision_from_verdict(
            wait.id, wait.digest, verdict, now=now, decision_id=decision_id
        )
    except jsontext.NotJson as error:
        raise refused_error(wait, f"the decision cannot be stored: {error}") from None


def _time_of_record(store_time: datetime | None, now: datetime) -> datetime:
    """Return the time of a decision: the store's, if the store tells its time.

    So a wrong clock of this machine neither allows a decision after the deadline, nor
    makes an approval valid for longer or shorter. Times have whole milliseconds.
    """
    moment = now if store_time is None else store_time
    return moment - timedelta(microseconds=moment.microsecond % 1000)


async def _decide_closed_wait(
    objects: Objects,
    wait_id: str,
    verdict: Verdict,
    *,
    now: datetime,
    decision_id: str,
    check_digest: DigestCheck | None = None,
    shown: str | None = None,
) -> Decision:
    """Compare a verdict with the recorded decision of a wait."""
    recorded = await read_decision(objects, wait_id)
    if recorded is None:
        msg = (
            f"wait {wait_id} was not found: it was removed meanwhile. List open waits "
            "with `continuations waiting` or Runner.waiting()."
        )
        raise WaitNotFound(msg, wait_id=wait_id)
    if check_digest is not None:
        check_digest(recorded.digest)
    check_shown(wait_id, recorded.digest, shown)
    proposed = None
    if type(verdict) in VERDICT_KINDS and verdict_checks.has_valid_decider(verdict):
        with suppress(jsontext.NotJson):
            proposed = decision_from_verdict(
                wait_id, recorded.digest, verdict, now=now, decision_id=decision_id
            )
    return _recorded_or_raise(recorded, proposed)


def _recorded_or_raise(recorded: Decision, proposed: Decision | None) -> Decision:
    """Return the recorded decision if the proposed one repeats it; raise if not."""
    if proposed is not None and recorded.is_repeat_of(proposed):
        return recorded
    raise closed_wait_error(recorded, NOT_DECIDED)


def decision_from_verdict(
    wait_id: str, digest: str, verdict: Verdict, *, now: datetime, decision_id: str
) -> Decision:
    """Return a verdict as a record; raises `NotJson`."""
    by, arguments, value = verdict.by, None, None
    kind: DecisionKind = "approve" if isinstance(verdict, Approve) else "deny"
    grant = None
    if isinstance(verdict, Approve) and verdict.remember is not None:
        from continuations.core.rows.grants import grant_text  # noqa: PLC0415 - rarely given

        grant = grant_text(verdict.remember)
    if isinstance(verdict, Approve):
        arguments = _values_text(verdict.arguments)
    if isinstance(verdict, Answer):
        kind, value = "answer", jsontext.canonical(verdict.value)
    if isinstance(verdict, Fail):
        kind, value = "fail", jsontext.canonical(verdict.error)
    return Decision(
        id=decision_id,
        wait_id=wait_id,
        kind=kind,
        at=now,
        digest=digest,
        # The name of an `Identity`, without an import of its class.
        by=by if by is None or isinstance(by, str) else by.name,
        reason=verdict.reason,
        arguments=arguments,
        value=value,
        grant_json=grant,
        form=_values_text(verdict.form) if isinstance(verdict, Approve) else None,
        groups=getattr(by, "groups", ()),
    )


def _values_text(values: object) -> str | None:
    if values is None:
        return None
    return jsontext.canonical(jsontext.normalize_integers(values))
