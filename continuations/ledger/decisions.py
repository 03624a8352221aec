"""Check and record the first decision of a wait.

Deciding reads the wait, checks, makes the marker and creates the decision under the
wait's own key. It loads neither the run nor an agent, and no library for either; only
for a wait whose object a crash kept from being made does it look at the run.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.decisions import (
    VERDICT_KINDS,
    Answer,
    Approve,
    Decision,
    Verdict,
)
from continuations.errors import (
    AlreadyDecided,
    Cancelled,
    DecisionRefused,
    FormatError,
    RunNotFound,
    StoreError,
    WaitExpired,
    WaitNotFound,
)
from continuations.ledger import layout, markers, waits
from continuations.ledger.arrivals import read_decision
from continuations.ledger.objects import AlreadyExists
from continuations.wire.records import encode_decision

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from continuations.core.decisions import DecisionKind
    from continuations.core.waits import Wait
    from continuations.errors import ContinuationsError
    from continuations.ledger.objects import Objects

    DigestCheck = Callable[[str], None]


async def decide(
    objects: Objects,
    wait_id: str,
    verdict: Verdict,
    *,
    now: datetime,
    decision_id: str,
    check_digest: DigestCheck | None = None,
) -> Decision:
    """Record a decision; returns the one that stands, which says the same.

    `check` gets the digest of what is decided before anything is recorded or told,
    and what it raises is raised. Repeating a decision that was recorded is a
    success. Raises `DecisionRefused` (nothing recorded, decide again),
    `AlreadyDecided`, `WaitExpired`, `Cancelled`, `WaitNotFound`. A crash
    leaves the wait open, or the decision recorded and found by the next resume or
    sweep.
    """
    wait = await find_open_wait(objects, wait_id)
    if wait is None:
        return await _decide_closed_wait(
            objects,
            wait_id,
            verdict,
            now=now,
            decision_id=decision_id,
            check_digest=check_digest,
        )
    if check_digest is not None:
        check_digest(wait.digest)
    try:
        wanted = build_decision(wait, verdict, now=now, decision_id=decision_id)
    except (DecisionRefused, WaitExpired):
        # A crash may have left the object of a wait that is decided: what stands then
        # is that, and not what could be said of an open one.
        if await read_decision(objects, wait_id) is None:
            raise
        return await _decide_closed_wait(
            objects, wait_id, verdict, now=now, decision_id=decision_id
        )
    marker = markers.for_decision(wait_id, now, decision_id)
    wanted = replace(wanted, marker=marker.key)
    await markers.create(objects, marker)
    stands = await record_decision(objects, wanted)
    if stands.id != wanted.id:
        await objects.delete(marker.key)
    return _recorded_or_raise(stands, wanted)


async def find_open_wait(objects: Objects, wait_id: str) -> Wait | None:
    """Return an open wait; `None` if it is over, `WaitNotFound` if it never was."""
    name = layout.parse_wait_id(wait_id)
    wait = await waits.read(objects, wait_id)
    if wait is not None or await read_decision(objects, wait_id) is not None:
        return wait
    # Its object may not have been made: a crash after the version that names it.
    from continuations.ledger.versions import Versions  # noqa: PLC0415 - rarely needed

    try:
        newest = await Versions(objects, name.run_id).load_newest()
    except RunNotFound:
        newest = None
    if newest is None or wait_id not in newest.state.waits:
        msg = (
            f"There is no wait {wait_id}. It may have been replaced by a new one: "
            "list what waits with `continuations waiting`."
        )
        raise WaitNotFound(msg, run_id=name.run_id, wait_id=wait_id)
    wait = newest.state.waits[wait_id]
    await waits.recreate_missing(objects, [wait])
    return wait


async def record_decision(objects: Objects, proposed: Decision) -> Decision:
    """Create a decision, or return the one that was first; then close the wait."""
    name = layout.parse_wait_id(proposed.wait_id)
    key = layout.decision_key(proposed.wait_id)
    try:
        await objects.create(key, encode_decision(proposed, name.run_id))
        stands = proposed
    except AlreadyExists:
        stands = await _read_first_decision(objects, proposed)
    try:
        await objects.delete(layout.wait_key(proposed.wait_id))
    except StoreError:
        # The decision is recorded; the listing may lag, and a sweep removes it.
        return stands
    return stands


async def _read_first_decision(objects: Objects, proposed: Decision) -> Decision:
    try:
        first = await read_decision(objects, proposed.wait_id)
    except FormatError:
        # A run can be ended whatever stands there; a person's decision must be told.
        if proposed.kind == "cancel":
            return proposed
        raise
    if first is None:
        msg = f"Wait {proposed.wait_id} was erased with its run while it was decided."
        raise WaitNotFound(msg, wait_id=proposed.wait_id)
    return first


async def close_wait(
    objects: Objects,
    wait: Wait,
    kind: DecisionKind,
    *,
    now: datetime,
    decision_id: str,
    reason: str | None = None,
) -> Decision:
    """End a wait without a person: by its deadline or with its run.

    Returns the decision that stands: a person's, if it came first.
    """
    wanted = Decision(
        id=decision_id,
        wait_id=wait.id,
        kind=kind,
        at=now,
        digest=wait.digest,
        reason=reason,
    )
    return await record_decision(objects, wanted)


def build_decision(
    wait: Wait, verdict: Verdict, *, now: datetime, decision_id: str
) -> Decision:
    """Return the record of a verdict on a wait.

    Raises `DecisionRefused` for anything that is not one of the three verdicts, does
    not fit the wait's kind or carries arguments that its schema refuses, and
    `WaitExpired` after the deadline.
    """
    _check_kind(wait, verdict)
    if wait.deadline is not None and now > wait.deadline:
        raise _expired_error(wait.id, wait.run_id)
    if isinstance(verdict, Approve) and verdict.arguments is not None:
        _check_arguments(wait, verdict.arguments)
    try:
        return _decision_from_verdict(
            wait.id, wait.digest, verdict, now=now, decision_id=decision_id
        )
    except jsontext.NotJson as error:
        raise _refused_error(wait, f"what it says cannot be stored: {error}") from None


def _check_kind(wait: Wait, verdict: object) -> None:
    kind = VERDICT_KINDS.get(type(verdict))
    if kind is None:
        raise _refused_error(
            wait, f"{type(verdict).__name__} is no decision. Give Approve or Deny"
        )
    by, reason = getattr(verdict, "by", None), getattr(verdict, "reason", None)
    if not all(text is None or type(text) is str for text in (by, reason)):
        raise _refused_error(wait, "`by` and `reason` are texts")
    if kind not in wait.rules.verdicts:
        raise _refused_error(wait, "it waits for an approval. Give Approve or Deny")
    edits = isinstance(verdict, Approve) and verdict.arguments is not None
    if edits and not wait.rules.allows_edits:
        raise _refused_error(
            wait, "a call that may have happened is not run with others"
        )


def _check_arguments(wait: Wait, edited_arguments: object) -> None:
    import jsonschema_rs  # noqa: PLC0415 - only needed for edited arguments

    arguments = jsontext.as_object(edited_arguments)
    if arguments is None:
        raise _refused_error(wait, "edited arguments are a dict")
    try:
        jsontext.dump(edited_arguments)
    except jsontext.NotJson as error:
        raise _refused_error(wait, f"the arguments cannot be stored: {error}") from None
    try:
        # Masked, because an error's text may end in a log.
        validator = jsonschema_rs.validator_for(wait.schema, mask="the value")
        problems = [
            f"{'.'.join(map(str, error.instance_path)) or 'arguments'}: {error.message}"
            for error in validator.iter_errors(
                jsontext.parse(jsontext.dump(edited_arguments))
            )
        ]
    except (ValueError, RecursionError) as error:
        why = type(error).__name__
        raise _refused_error(wait, f"the arguments cannot be checked ({why})") from None
    if problems:
        raise _refused_error(
            wait, f"its schema refuses them ({'; '.join(problems[:5])})"
        )


async def _decide_closed_wait(
    objects: Objects,
    wait_id: str,
    verdict: Verdict,
    *,
    now: datetime,
    decision_id: str,
    check_digest: DigestCheck | None = None,
) -> Decision:
    """Answer a decision of a wait that is over: the same again, or too late."""
    stands = await read_decision(objects, wait_id)
    if stands is None:
        msg = f"Wait {wait_id} is gone. List what waits with `continuations waiting`."
        raise WaitNotFound(msg, wait_id=wait_id)
    if check_digest is not None:
        check_digest(stands.digest)
    said = None
    if type(verdict) in VERDICT_KINDS:
        with suppress(jsontext.NotJson):
            said = _decision_from_verdict(
                wait_id, stands.digest, verdict, now=now, decision_id=decision_id
            )
    return _recorded_or_raise(stands, said)


def _decision_from_verdict(
    wait_id: str, digest: str, verdict: Verdict, *, now: datetime, decision_id: str
) -> Decision:
    """Return a verdict as a record; raises `NotJson`."""
    arguments = value = None
    kind: DecisionKind = "approve" if isinstance(verdict, Approve) else "deny"
    if isinstance(verdict, Approve) and verdict.arguments is not None:
        arguments = jsontext.canonical(jsontext.normalize_integers(verdict.arguments))
    if isinstance(verdict, Answer):
        kind, value = "answer", jsontext.canonical(verdict.value)
    return Decision(
        id=decision_id,
        wait_id=wait_id,
        kind=kind,
        at=now,
        digest=digest,
        by=verdict.by,
        reason=verdict.reason,
        arguments=arguments,
        value=value,
    )


def _recorded_or_raise(recorded: Decision, proposed: Decision | None) -> Decision:
    """Return the decision that stands if it says the same; raise who won if not."""
    if proposed is not None and recorded.is_repeat_of(proposed):
        return recorded
    run_id = layout.parse_wait_id(recorded.wait_id).run_id
    raise late_decision_error(recorded, run_id)


def late_decision_error(recorded: Decision, run_id: str) -> ContinuationsError:
    """Return the error that tells a late decider what stands."""
    if recorded.kind == "cancel":
        msg = (
            f"Run {run_id} was cancelled and wait {recorded.wait_id} was closed with it. "
            "The call does not run."
        )
        return Cancelled(msg, run_id=run_id, wait_id=recorded.wait_id)
    if recorded.kind == "expire":
        return _expired_error(recorded.wait_id, run_id)
    msg = (
        f"Wait {recorded.wait_id} was decided before: {recorded.kind}"
        f"{f' by {recorded.by}' if recorded.by else ''} at {recorded.at.isoformat()}. "
        "That decision stands; yours was not recorded."
    )
    return AlreadyDecided(
        msg, run_id=run_id, wait_id=recorded.wait_id, decision=recorded
    )


def _expired_error(wait_id: str, run_id: str) -> WaitExpired:
    msg = (
        f"The deadline of wait {wait_id} has passed. The call does not run and nothing "
        "was recorded; resume the run, and it goes on without the call."
    )
    return WaitExpired(msg, run_id=run_id, wait_id=wait_id)


def _refused_error(wait: Wait, why: str) -> DecisionRefused:
    msg = f"Wait {wait.id} was not decided: {why}. Nothing was recorded; decide again."
    return DecisionRefused(msg, run_id=wait.run_id, wait_id=wait.id)
