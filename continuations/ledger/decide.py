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
from continuations.core.decisions import Answer, Approve, Decision, Deny, Verdict
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

    Check = Callable[[str], None]

# Exact types: nothing that is merely truthy, or like a verdict, is a yes.
_VERDICTS = frozenset({Approve, Deny, Answer})


async def decide(
    objects: Objects,
    wait_id: str,
    verdict: Verdict,
    *,
    now: datetime,
    ulid: str,
    check: Check | None = None,
) -> Decision:
    """Record a decision; returns the one that stands, which says the same.

    `check` gets the digest of what is decided before anything is recorded or told,
    and what it raises is raised. Repeating a decision that was recorded is a
    success. Raises `DecisionRefused` (nothing recorded, decide again),
    `AlreadyDecided`, `WaitExpired`, `Cancelled`, `WaitNotFound`. A crash
    leaves the wait open, or the decision recorded and found by the next resume or
    sweep.
    """
    wait = await find(objects, wait_id)
    if wait is None:
        return await _already(
            objects, wait_id, verdict, now=now, ulid=ulid, check=check
        )
    if check is not None:
        check(wait.digest)
    try:
        wanted = record(wait, verdict, now=now, ulid=ulid)
    except (DecisionRefused, WaitExpired):
        # A crash may have left the object of a wait that is decided: what stands then
        # is that, and not what could be said of an open one.
        if await read_decision(objects, wait_id) is None:
            raise
        return await _already(objects, wait_id, verdict, now=now, ulid=ulid)
    marker = markers.of_decision(wait_id, now, ulid)
    wanted = replace(wanted, marker=marker.key)
    await markers.make(objects, marker)
    stands = await settle(objects, wanted)
    if stands.id != wanted.id:
        await objects.delete(marker.key)
    return _answer(stands, wanted)


async def find(objects: Objects, wait_id: str) -> Wait | None:
    """Return an open wait; `None` if it is over, `WaitNotFound` if it never was."""
    name = layout.parse_wait_id(wait_id)
    wait = await waits.read(objects, wait_id)
    if wait is not None or await read_decision(objects, wait_id) is not None:
        return wait
    # Its object may not have been made: a crash after the version that names it.
    from continuations.ledger.versions import Versions  # noqa: PLC0415 - rarely needed

    try:
        newest = await Versions(objects, name.run_id).newest()
    except RunNotFound:
        newest = None
    if newest is None or wait_id not in newest.table.waits:
        msg = (
            f"There is no wait {wait_id}. It may have been replaced by a new one: "
            "list what waits with `continuations waiting`."
        )
        raise WaitNotFound(msg, run_id=name.run_id, wait_id=wait_id)
    wait = newest.table.waits[wait_id]
    await waits.mend(objects, [wait])
    return wait


async def settle(objects: Objects, wanted: Decision) -> Decision:
    """Create a decision, or return the one that was first; then close the wait."""
    name = layout.parse_wait_id(wanted.wait_id)
    key = layout.decision(wanted.wait_id)
    try:
        await objects.create(key, encode_decision(wanted, name.run_id))
        stands = wanted
    except AlreadyExists:
        stands = await _first(objects, wanted)
    try:
        await objects.delete(layout.wait(wanted.wait_id))
    except StoreError:
        # The decision is recorded; the listing may lag, and a sweep removes it.
        return stands
    return stands


async def _first(objects: Objects, wanted: Decision) -> Decision:
    try:
        first = await read_decision(objects, wanted.wait_id)
    except FormatError:
        # A run can be ended whatever stands there; a person's decision must be told.
        if wanted.kind == "cancel":
            return wanted
        raise
    if first is None:
        msg = f"Wait {wanted.wait_id} was erased with its run while it was decided."
        raise WaitNotFound(msg, wait_id=wanted.wait_id)
    return first


async def close(
    objects: Objects,
    wait: Wait,
    kind: DecisionKind,
    *,
    now: datetime,
    ulid: str,
    reason: str | None = None,
) -> Decision:
    """End a wait without a person: by its deadline or with its run.

    Returns the decision that stands: a person's, if it came first.
    """
    wanted = Decision(
        id=ulid, wait_id=wait.id, kind=kind, at=now, digest=wait.digest, reason=reason
    )
    return await settle(objects, wanted)


def record(wait: Wait, verdict: Verdict, *, now: datetime, ulid: str) -> Decision:
    """Return the record of a verdict on a wait.

    Raises `DecisionRefused` for anything that is not one of the three verdicts, does
    not fit the wait's kind or carries arguments that its schema refuses, and
    `WaitExpired` after the deadline.
    """
    _check_kind(wait, verdict)
    if wait.deadline is not None and now > wait.deadline:
        raise _expired(wait.id, wait.run_id)
    if isinstance(verdict, Approve) and verdict.arguments is not None:
        _check_arguments(wait, verdict.arguments)
    try:
        return _as_said(wait.id, wait.digest, verdict, now=now, ulid=ulid)
    except jsontext.NotJson as error:
        raise _refused(wait, f"what it says cannot be stored: {error}") from None


def _check_kind(wait: Wait, verdict: object) -> None:
    if type(verdict) not in _VERDICTS:
        raise _refused(
            wait, f"{type(verdict).__name__} is no decision. Give Approve or Deny"
        )
    by, reason = getattr(verdict, "by", None), getattr(verdict, "reason", None)
    if not all(text is None or type(text) is str for text in (by, reason)):
        raise _refused(wait, "`by` and `reason` are texts")
    if wait.kind == "approval" and isinstance(verdict, Answer):
        raise _refused(wait, "it waits for an approval. Give Approve or Deny")
    edits = isinstance(verdict, Approve) and verdict.arguments is not None
    if wait.kind == "unknown" and edits:
        raise _refused(wait, "a call that may have happened is not run with others")


def _check_arguments(wait: Wait, given: object) -> None:
    import jsonschema_rs  # noqa: PLC0415 - only needed for edited arguments

    arguments = jsontext.mapping(given)
    if arguments is None:
        raise _refused(wait, "edited arguments are a dict")
    try:
        jsontext.dump(given)
    except jsontext.NotJson as error:
        raise _refused(wait, f"the arguments cannot be stored: {error}") from None
    try:
        # Masked, because an error's text may end in a log.
        validator = jsonschema_rs.validator_for(wait.schema, mask="the value")
        problems = [
            f"{'.'.join(map(str, error.instance_path)) or 'arguments'}: {error.message}"
            for error in validator.iter_errors(jsontext.parse(jsontext.dump(given)))
        ]
    except (ValueError, RecursionError) as error:
        why = type(error).__name__
        raise _refused(wait, f"the arguments cannot be checked ({why})") from None
    if problems:
        raise _refused(wait, f"its schema refuses them ({'; '.join(problems[:5])})")


async def _already(
    objects: Objects,
    wait_id: str,
    verdict: Verdict,
    *,
    now: datetime,
    ulid: str,
    check: Check | None = None,
) -> Decision:
    """Answer a decision of a wait that is over: the same again, or too late."""
    stands = await read_decision(objects, wait_id)
    if stands is None:
        msg = f"Wait {wait_id} is gone. List what waits with `continuations waiting`."
        raise WaitNotFound(msg, wait_id=wait_id)
    if check is not None:
        check(stands.digest)
    said = None
    if type(verdict) in _VERDICTS:
        with suppress(jsontext.NotJson):
            said = _as_said(wait_id, stands.digest, verdict, now=now, ulid=ulid)
    return _answer(stands, said)


def _as_said(
    wait_id: str, digest: str, verdict: Verdict, *, now: datetime, ulid: str
) -> Decision:
    """Return a verdict as a record; raises `NotJson`."""
    arguments = value = None
    kind: DecisionKind = "approve" if isinstance(verdict, Approve) else "deny"
    if isinstance(verdict, Approve) and verdict.arguments is not None:
        arguments = jsontext.canonical(jsontext.whole(verdict.arguments))
    if isinstance(verdict, Answer):
        kind, value = "answer", jsontext.canonical(verdict.value)
    return Decision(
        id=ulid,
        wait_id=wait_id,
        kind=kind,
        at=now,
        digest=digest,
        by=verdict.by,
        reason=verdict.reason,
        arguments=arguments,
        value=value,
    )


def _answer(stands: Decision, wanted: Decision | None) -> Decision:
    """Return the decision that stands if it says the same; raise who won if not."""
    if wanted is not None and stands.says_the_same(wanted):
        return stands
    run_id = layout.parse_wait_id(stands.wait_id).run_id
    raise standing(stands, run_id)


def standing(stands: Decision, run_id: str) -> ContinuationsError:
    """Return the error that tells a late decider what stands."""
    if stands.kind == "cancel":
        msg = (
            f"Run {run_id} was cancelled and wait {stands.wait_id} was closed with it. "
            "The call does not run."
        )
        return Cancelled(msg, run_id=run_id, wait_id=stands.wait_id)
    if stands.kind == "expire":
        return _expired(stands.wait_id, run_id)
    msg = (
        f"Wait {stands.wait_id} was decided before: {stands.kind}"
        f"{f' by {stands.by}' if stands.by else ''} at {stands.at.isoformat()}. "
        "That decision stands; yours was not recorded."
    )
    return AlreadyDecided(msg, run_id=run_id, wait_id=stands.wait_id, decision=stands)


def _expired(wait_id: str, run_id: str) -> WaitExpired:
    msg = (
        f"The deadline of wait {wait_id} has passed. The call does not run and nothing "
        "was recorded; resume the run, and it goes on without the call."
    )
    return WaitExpired(msg, run_id=run_id, wait_id=wait_id)


def _refused(wait: Wait, why: str) -> DecisionRefused:
    msg = f"Wait {wait.id} was not decided: {why}. Nothing was recorded; decide again."
    return DecisionRefused(msg, run_id=wait.run_id, wait_id=wait.id)
