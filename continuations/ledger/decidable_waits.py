"""The open waits that one person may decide, from their objects and votes.

The rules are those of `decide`: the approvers, the requester, and one vote for each
person. The waits are listed as for all persons. Then their objects are read, and the
slots of those that take votes, by their numbers. So there is no listing more.
"""

from __future__ import annotations

from asyncio import gather
from typing import TYPE_CHECKING

from continuations.core.decisions import Decision
from continuations.core.identity import Identity
from continuations.core.slots import find_own_vote
from continuations.core.wait_rules import WAIT_RULES
from continuations.errors import InvalidInput
from continuations.ledger import layout, wait_slots, waits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from continuations.core.quorum import Quorum
    from continuations.core.waits import Wait, WaitSummary
    from continuations.ledger.objects import Objects
    from continuations.ledger.store_clock import StoreClock
    from continuations.ledger.voting import GroupsOf

_PARALLEL_READS = 50


class Approver:
    """A person, whose groups are looked up once, and only if a wait needs them."""

    def __init__(self, identity: Identity, groups_of: GroupsOf | None) -> None:
        self._identity = identity
        self._groups_of = groups_of
        self._groups: frozenset[str] | None = None

    @classmethod
    def from_argument(cls, approver: object, groups_of: GroupsOf | None) -> Approver:
        """Return the person of `waiting(approver=...)`; raises `InvalidInput`."""
        if isinstance(approver, Identity):
            return cls(approver, groups_of)
        if isinstance(approver, str):
            try:
                return cls(Identity(approver), groups_of)
            except InvalidInput:
                pass
        msg = (
            "approver must be the name of a person, of 1 to 255 bytes, or an Identity, "
            f"got {approver!r:.60}. Pass the name that decisions are recorded under."
        )
        raise InvalidInput(msg)

    async def may_decide(self, wait: Wait | Decision) -> bool:
        """Return whether the person may decide a wait, as its slots left it."""
        if isinstance(wait, Decision):
            return False
        name, quorum = self._identity.name, wait.quorum
        if quorum is None:
            return True
        if find_own_vote(wait, name) is not None:
            return False
        return quorum.objection(name, await self._groups_for(quorum)) is None

    async def _groups_for(self, quorum: Quorum) -> frozenset[str]:
        own = frozenset(self._identity.groups)
        if self._groups_of is None or not quorum.needs_groups_of(self._identity.name):
            return own
        if self._groups is None:
            self._groups = own | {*await self._groups_of(self._identity.name)}
        return self._groups


async def list_decidable(
    objects: Objects,
    clock: StoreClock,
    approver: Approver,
    after: str,
    kinds: frozenset[str],
) -> AsyncIterator[list[WaitSummary]]:
    """Iterate over the open waits that a person may decide, in batches.

    A wait whose deadline has passed is left out: no decision of it is accepted.
    """
    decided = {kind for kind in WAIT_RULES if WAIT_RULES[kind].verdicts}
    async for batch in waits.list_open(objects, clock, after, kinds & decided):
        open_waits = [summary for summary in batch if not summary.expired]
        for first in range(0, len(open_waits), _PARALLEL_READS):
            group = open_waits[first : first + _PARALLEL_READS]
            yield await _decidable(objects, approver, group)


async def _decidable(
    objects: Objects, approver: Approver, group: list[WaitSummary]
) -> list[WaitSummary]:
    bodies = await objects.read_many([layout.wait_key(each.id) for each in group])
    stored = [
        (summary, waits.decode_open(summary.id, body))
        for summary, body in zip(group, bodies, strict=True)
        if body is not None
    ]
    after = await gather(*(with_votes(objects, wait) for _, wait in stored))
    return [
        summary
        for (summary, _), wait in zip(stored, after, strict=True)
        if await approver.may_decide(wait)
    ]


async def with_votes(objects: Objects, wait: Wait | Decision) -> Wait | Decision:
    """Return a wait with its votes, or its decision."""
    if isinstance(wait, Decision) or not wait.takes_votes:
        return wait
    return await wait_slots.follow_by_number(objects, wait)
