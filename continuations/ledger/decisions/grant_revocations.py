"""Revoke grants of a run, in dense numbers of their own; list what is left.

A revocation needs no marker: no worker must act on a revocation. The next worker reads
it with everything else that arrived.
"""

from __future__ import annotations

from asyncio import gather
from typing import TYPE_CHECKING

from continuations.core.rows.grants import KeptGrant, has_ended
from continuations.errors import InvalidInput, StoreDenied
from continuations.ledger.arrivals.arrival_logs import REVOCATIONS
from continuations.ledger.arrivals.recorded_decisions import read_decision
from continuations.ledger.decisions.grant_checks import given_grant, with_masked_secret
from continuations.ledger.versions import Versions
from continuations.value_class import replace

if TYPE_CHECKING:
    from continuations.core.rows.state import RunState
    from continuations.core.rows.waits import Wait
    from continuations.ledger.objects import Objects
    from continuations.ledger.store_clock import StoreClock
    from continuations.wire.arrivals import Revocation


async def list_grants(
    objects: Objects, run_id: str, *, clock: StoreClock | None, nonce: str = ""
) -> list[KeptGrant]:
    """Return the grants of a run whose time is not over, the oldest first.

    Without a clock, return the others as well. If one seems to be over, the store is
    asked for its time, with new random text as the nonce: the clock of this machine may
    be ahead. A process that may not ask gets that grant too.

    Grants of decisions that no worker has applied yet are among them, without a
    contract. A grant whose revocation no worker has taken in is marked as revoked. A
    condition on a secret argument is masked.
    """
    state = (await Versions(objects, run_id).load_newest()).state
    if state.run.has_ended:
        return []
    given, revoked = await gather(
        gather(*(_given_by_decision(objects, wait) for wait in state.waits.values())),
        _revoked_ids(objects, state),
    )
    grants = [*state.run.grants, *(grant for grant in given if grant is not None)]
    if clock is not None and any(has_ended(each, clock.now()) for each in grants):
        try:
            await clock.learn(objects, run_id, nonce)
        except StoreDenied:
            clock = None
    return [
        with_masked_secret(state, replace(grant, revoked=grant.id in revoked))
        for grant in grants
        if clock is None or not has_ended(grant, clock.now())
    ]


async def _given_by_decision(objects: Objects, wait: Wait) -> KeptGrant | None:
    if not wait.rules.follows_policy:
        return None
    decision = await read_decision(objects, wait.id)
    return None if decision is None else given_grant(wait, decision)


async def _revoked_ids(objects: Objects, state: RunState) -> set[str]:
    last = state.run.last_revocation_number
    read = await _read_after(objects, state.run.id, last)
    return {each.grant for each in read} | set(state.run.revoked_grants)


async def post(objects: Objects, run_id: str, revocation: Revocation) -> Revocation:
    """Create a revocation under the next free number; return it with its number.

    A second revocation of a grant is not recorded: the first one is returned.

    Raises:
        RunNotFound: The run does not exist.
        InvalidInput: The run has ended, or does not have this grant.
        Corrupt, FormatError: Another revocation cannot be read.
        StoreError: The revocation may or may not be recorded. Call again.
    """
    existing = await _read_after(objects, run_id, 0)
    for each in existing:
        if each.grant == revocation.grant:
            return each
    await _check_has_grant(objects, run_id, revocation)
    return await REVOCATIONS.append(
        objects,
        run_id,
        revocation,
        len(existing) + 1,
        is_repeat=lambda first, other: first.grant == other.grant,
    )


async def _read_after(objects: Objects, run_id: str, last: int) -> list[Revocation]:
    """Return the revocations after a number, without a gap."""
    listed = await REVOCATIONS.numbers(objects, run_id)
    numbers = range(last + 1, max(listed, default=0) + 1)
    return await REVOCATIONS.read_all(objects, run_id, numbers)


async def _check_has_grant(
    objects: Objects, run_id: str, revocation: Revocation
) -> None:
    # The clock of this machine may be ahead. A grant that has ended may be revoked too.
    grants = await list_grants(objects, run_id, clock=None)
    if any(grant.id == revocation.grant for grant in grants):
        return
    ids = ", ".join(grant.id for grant in grants) or "none"
    msg = (
        f"grant {revocation.grant[:60]!r} was not revoked: run {run_id} has no such "
        f"grant. Its grants: {ids}. List them with "
        f"`continuations grants {run_id}` or Runner.grants()."
    )
    raise InvalidInput(msg, run_id=run_id)
