"""The recorded decisions of waits: the first one under the key of a wait counts."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from continuations.core.rows.decisions import Decision
from continuations.core.rows.waits import rule_wait_ulid
from continuations.errors import Corrupt
from continuations.ledger import layout
from continuations.ledger.objects import AlreadyExists, NotFound, Objects
from continuations.wire.records import DECISION
from continuations_storage.contract import Changes

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Literal

    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.state import RunState
    from continuations.wire.continuation import Continuation
    from continuations_storage import Store


async def create_decision(objects: Objects, proposed: Decision) -> Decision:
    """Record a decision; return it, or the one that was recorded first.

    Raises:
        NotFound: The run was erased meanwhile.
        Corrupt, FormatError: The first decision cannot be read.
    """
    key, body = _key_and_body(proposed)
    try:
        await objects.create(key, body)
    except AlreadyExists:
        return await _read_first_decision(objects, proposed)
    return proposed


async def create_and_unlist(
    objects: Objects,
    proposed: Decision,
    between: tuple[datetime, datetime] | None = None,
) -> tuple[Decision, bool]:
    """Record a decision; return as `create_decision`, and whether its wait is unlisted.

    A store that `commits` removes the object of the wait in the same request. With
    times, it also creates the marker of the decision, and raises `OutOfTime` if its
    own time is not between them.
    """
    if not objects.commits:
        return await create_decision(objects, proposed), False
    key, body = _key_and_body(proposed)
    also = {proposed.marker: b""} if between and proposed.marker else {}
    deletes = [layout.wait_key(proposed.wait_id)]
    changes = Changes(key=key, body=body, also=also, between=between, deletes=deletes)
    try:
        committed = await objects.commit(changes)
    except AlreadyExists:
        return await _read_first_decision(objects, proposed), False
    return proposed, committed.is_cleaned


def _key_and_body(decision: Decision) -> tuple[str, bytes]:
    run_id = layout.parse_wait_id(decision.wait_id).run_id
    return layout.decision_key(decision.wait_id), DECISION.encode(decision, run_id)


async def _read_first_decision(objects: Objects, proposed: Decision) -> Decision:
    first = await read_decision(objects, proposed.wait_id)
    if first is None:
        raise NotFound(layout.decision_key(proposed.wait_id))
    return first


async def read_decision(objects: Objects, wait_id: str) -> Decision | None:
    """Return the decision of a wait, or `None`; raises `Corrupt`."""
    name = layout.parse_wait_id(wait_id)
    key = layout.decision_key(wait_id)
    try:
        decision = DECISION.decode(await objects.read(key), key, name.run_id)
    except NotFound:
        return None
    if decision.wait_id != wait_id:
        msg = (
            f"{key} is damaged: it contains the decision of another wait. Nothing was "
            "changed. Restore the object from a backup, or see `continuations doctor "
            f"{name.run_id}`."
        )
        raise Corrupt(msg, wait_id=wait_id)
    return decision


async def list_decided_wait_ids(objects: Objects, run_id: str) -> list[str]:
    """Return the ids of all decided waits of a run."""
    prefix = layout.arrivals_prefix(run_id)
    ids = [layout.decided_wait_id(k, run_id) async for k in objects.all_keys(prefix)]
    return [wait_id for wait_id in ids if wait_id is not None]


async def decided_wait_ids(store: Store, run: Continuation) -> frozenset[str]:
    """Return the ids of the decided waits of a run, with at most one listing.

    A decision is an object of its own. A version contains a decided wait until the run
    is resumed, so a report of the run needs both.
    """
    if not run.waits:
        return frozenset()
    return frozenset(await list_decided_wait_ids(Objects(store), run.run_id))


def rule_decision(
    state: RunState,
    call: CallRow,
    *,
    rule: str,
    kind: Literal["approve", "deny"],
    digest: str,
    at: datetime,
    reason: str | None = None,
) -> Decision:
    """Return the decision of a rule about a call that no wait was opened for."""
    ulid = rule_wait_ulid(state.run, call, rule, kind, digest)
    return Decision(
        id=ulid,
        wait_id=layout.build_wait_id("approval", ulid, state.run.id),
        kind=kind,
        at=at,
        digest=digest,
        reason=reason,
        door="rule",
        rule=rule,
    )


async def record(objects: Objects, decision: Decision) -> None:
    """Create the record of a decision; an equal one may exist after a crash."""
    with suppress(AlreadyExists):
        await objects.create(*_key_and_body(decision))
