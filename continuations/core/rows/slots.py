"""The slots of a wait: votes, extensions, escalation and expiry in one dense sequence.

A slot is an object that is created once, under the next number of its wait. The first
slots that end the wait determine its decision. So every process that reads them makes
the same decision, byte for byte, and any process may record it.

A slot that is not valid is passed over: `objection_to` is asked before a vote is
created and again whenever it is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast, get_args

from continuations.core.rows.decisions import Decision, Escalate, VerdictKind
from continuations.core.rows.quorum import Objection, Quorum, Vote
from continuations.core.rows.waits import Wait, decision_on, withheld
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime


SlotKind = Literal["vote", "extend", "escalate", "expire"]
SLOT_KINDS: frozenset[str] = frozenset(get_args(SlotKind))

_ANYBODY = Quorum()
# Verdicts of which one is enough.
ENDING_ALONE: frozenset[VerdictKind] = frozenset({"deny", "fail"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One slot of a wait.

    Attributes:
        id: Unique id of the slot.
        wait_id: The wait.
        number: Its number among the slots of the wait, from 1 without gaps.
        kind: The kind of the slot.

            - `vote`: a person voted
            - `extend`: the deadline was moved
            - `escalate`: the deadline passed, and other approvers have a new one
            - `expire`: the deadline passed, and the wait ends
        at: When, by the store's time if the store tells it.
        digest: Digest of the wait.
        deadline: The new deadline of `extend` and `escalate`.
        vote: The verdict of a `vote`, as the decision that it is if it ends the wait.
        by: The person or program that extended the deadline.
    """

    id: str
    wait_id: str
    number: int
    kind: SlotKind
    at: datetime
    digest: str
    deadline: datetime | None = None
    vote: Decision | None = None
    by: str | None = None

    @classmethod
    def of(cls, wait: Wait, kind: SlotKind, slot_id: str, at: datetime) -> Slot:
        """Return a slot of a wait, without a number and without what its kind adds."""
        return cls(
            id=slot_id, wait_id=wait.id, number=0, kind=kind, at=at, digest=wait.digest
        )


def after_slots(wait: Wait, slots: Iterable[Slot]) -> Wait | Decision:
    """Return the open wait as its slots left it, or the decision that they made.

    The open wait has the newest deadline, the approvers of now and the votes that
    count. Slots after the end are ignored.

    Args:
        wait: The wait as it was opened.
        slots: All slots of the wait, in the order of their numbers.
    """
    current = wait
    for slot in slots:
        following = after_slot(current, slot)
        if isinstance(following, Decision):
            return following
        current = following
    return current


def after_slot(wait: Wait, slot: Slot) -> Wait | Decision:
    """Return an open wait after one more slot, or the decision that the slot made."""
    following = replace(wait, last_slot=slot.number)
    if slot.digest != wait.digest:
        return following
    match slot.kind:
        case "vote":
            return _after_vote(following, slot.vote)
        case "extend" if wait.rules.is_extendable:
            return replace(following, deadline=_later(wait.deadline, slot.deadline))
        case "escalate" if _is_late(wait, slot):
            return _after_escalation(following, slot)
        case "expire" if _is_late(wait, slot):
            return decision_on(wait, "expire", slot.id, slot.at)
        case _:
            return following


def _after_escalation(wait: Wait, slot: Slot) -> Wait:
    action = wait.on_deadline
    if not isinstance(action, Escalate):
        return wait
    quorum = replace(wait.quorum or _ANYBODY, approvers=action.to, votes=action.votes)
    return replace(
        wait,
        quorum=quorum,
        votes=(),
        deadline=slot.deadline,
        on_deadline_json=None,
        notice="escalated",
    )


def _is_late(wait: Wait, slot: Slot) -> bool:
    """Return whether the deadline had passed. A slot that says so falsely is void."""
    return wait.deadline is not None and slot.at > wait.deadline


def _later(deadline: datetime | None, moved: datetime | None) -> datetime | None:
    """Return the later deadline: no slot makes a wait end earlier."""
    return max(filter(None, (deadline, moved)), default=None)


def is_met_by(wait: Wait, decision: Decision) -> bool:
    """Return whether enough persons made a decision, so that it may run a call."""
    if decision.kind not in ("approve", "answer") or wait.quorum is None:
        return True
    needed = wait.quorum.votes
    action = wait.on_deadline
    if isinstance(action, Escalate):
        # The decision does not say whether it was made after the escalation.
        needed = min(needed, action.votes)
    if len(decision.voters) <= 1:
        return needed <= 1
    from continuations.core.identity import person_key  # noqa: PLC0415 - rarely needed

    return len(set(map(person_key, decision.voters))) >= needed


def _after_vote(wait: Wait, cast_vote: Decision | None) -> Wait | Decision:
    if cast_vote is None or objection_to(wait, cast_vote) is not None:
        return wait
    agreeing = [vote.by for vote in wait.votes if _is_same(wait, vote, cast_vote)]
    voters = (*agreeing, cast_vote.by or "")
    still_needed = wait.votes_needed - len(voters)
    if cast_vote.kind in ENDING_ALONE:
        return cast_vote
    if still_needed <= 0:
        return replace(cast_vote, voters=voters) if len(voters) > 1 else cast_vote
    vote = Vote(
        id=cast_vote.id,
        wait_id=wait.id,
        by=cast_vote.by or "",
        kind=cast("VerdictKind", cast_vote.kind),
        at=cast_vote.at,
        votes_needed=wait.votes_needed,
        still_needed=still_needed,
        digest=cast_vote.digest,
        groups=cast_vote.groups,
        reason=cast_vote.reason,
        arguments=cast_vote.arguments,
        value=cast_vote.value,
        shown=cast_vote.shown,
        form=cast_vote.form,
    )
    return replace(wait, votes=(*wait.votes, vote))


def objection_to(wait: Wait, cast_vote: Decision) -> Objection | None:
    """Return why a vote does not count for an open wait, or `None`."""
    if (cast_vote.wait_id, cast_vote.digest) != (wait.id, wait.digest):
        return Objection("the vote is for another wait", "Vote for this one.")
    if cast_vote.kind not in wait.rules.verdicts:
        why = f"the verdict {cast_vote.kind} does not end such a wait"
        return Objection(why, "Give another verdict.")
    objection = (wait.quorum or _ANYBODY).objection(cast_vote.by, cast_vote.groups)
    if objection is not None:
        return objection
    has_voted = find_own_vote(wait, cast_vote.by) is not None
    # Persons who disagree can still end the wait, so that nothing runs.
    if has_voted and cast_vote.kind not in ENDING_ALONE:
        why = f"{cast_vote.by} has voted already, and the first vote of a person counts"
        return Objection(why, "Let another person decide, or deny.")
    return None


def find_own_vote(wait: Wait, person: str | None) -> Vote | None:
    """Return the counted vote of a person, or `None`."""
    if not wait.votes:
        return None
    from continuations.core.identity import is_same_person  # noqa: PLC0415 - rarely needed

    return next((vote for vote in wait.votes if is_same_person(vote.by, person)), None)


def find_repeated_vote(wait: Wait, cast_vote: Decision) -> Vote | None:
    """Return the counted vote that another one repeats, or `None`."""
    vote = find_own_vote(wait, cast_vote.by)
    is_repeat = vote is not None and _is_same(wait, vote, cast_vote)
    return vote if is_repeat else None


def _is_same(wait: Wait, vote: Vote, cast_vote: Decision) -> bool:
    """Return whether two votes are for the same verdict, arguments and form.

    Deciders have the wait with masked secrets, and workers have it with all values. A
    vote has masked secrets, so both compare it with the masked arguments.
    """
    shown = withheld(wait).arguments_json
    mine = (vote.kind, vote.arguments or shown, vote.value, vote.form)
    arguments = cast_vote.arguments or shown
    return mine == (cast_vote.kind, arguments, cast_vote.value, cast_vote.form)
