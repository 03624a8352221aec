"""Cast a vote: append it to the slots of its wait, and record what the slots decide."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, cast

from continuations.core.decisions import Decision
from continuations.core.slots import Slot, find_repeated_vote, objection_to
from continuations.errors import InvalidInput, StoreError
from continuations.ledger import markers, wait_slots
from continuations.ledger.decision_errors import refused_error
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from continuations.core.quorum import Vote
    from continuations.core.waits import Wait
    from continuations.ledger.objects import Objects

    GroupsOf = Callable[[str], Awaitable[tuple[str, ...]]]


async def checked_voter(
    wait: Wait, proposed: Decision, groups_of: GroupsOf | None
) -> Decision:
    """Return a decision with the groups of its person, who may decide the wait.

    Raises `DecisionRefused` if the person may not, and what `groups_of` raises.
    """
    quorum = wait.quorum
    if quorum is None:
        return proposed
    name = proposed.by
    if name and quorum.needs_groups_of(name):
        if groups_of is not None:
            found = await groups_of(name)
            groups = tuple(sorted({*proposed.groups, *found}))
            proposed = replace(proposed, groups=groups)
        elif not proposed.groups:
            raise refused_error(
                wait,
                f"its approvers are groups, and the groups of {name} are not known",
                "Decide with a Runner(groups=...), or with an Identity with groups.",
            )
    objection = quorum.objection(name, proposed.groups)
    if objection is not None:
        raise refused_error(wait, objection.why, objection.next_step)
    return proposed


async def cast_vote(
    objects: Objects, wait: Wait, proposed: Decision
) -> Decision | Vote:
    """Append a vote; return it, or the decision that the slots of the wait made.

    The marker of the vote exists; it is deleted unless the vote ended the wait. The
    decision is not recorded yet. `wait` is what `wait_slots.follow` returned. To
    repeat a vote returns the first one. A crash leaves the vote appended or not; if it
    ended the wait, its marker makes a sweep record the decision.

    Raises:
        DecisionRefused: The vote does not count, for example because the person has
            voted, or is not an approver any more. Nothing was recorded.
    """
    current: Wait | Decision = wait
    while not isinstance(current, Decision):
        counted = find_repeated_vote(current, proposed)
        if counted is not None:
            await objects.delete(proposed.marker or "")
            return counted
        objection = objection_to(current, proposed)
        if objection is not None:
            await objects.delete(proposed.marker or "")
            raise refused_error(wait, objection.why, objection.next_step)
        slot = Slot(
            id=proposed.id,
            wait_id=wait.id,
            number=0,
            kind="vote",
            at=proposed.at,
            digest=wait.digest,
            vote=proposed,
        )
        current = await wait_slots.append(objects, current, slot)
    return current


async def delete_unneeded_markers(
    objects: Objects, wait: Wait, proposed: Decision, recorded: Decision
) -> None:
    """Delete the markers that a recorded decision makes unnecessary.

    No version names the marker of a deadline that a slot set. A sweep deletes what the
    store cannot delete now.
    """
    deadline = markers.deadline_marker(wait)
    # An expiry has no marker, and needs that of the deadline until a worker reads it.
    is_guarded = recorded.marker is not None
    keys = [deadline.key] if deadline is not None and is_guarded else []
    if proposed.marker is not None and recorded.marker != proposed.marker:
        keys.append(proposed.marker)
    for key in keys:
        with suppress(StoreError):
            await objects.delete(key)


def checked_groups(found: object) -> tuple[str, ...]:
    """Return what the application's `groups` function returned, as names of groups.

    Raises `InvalidInput` for anything but a collection of texts.
    """
    got = type(found).__name__
    if isinstance(found, list | tuple | set | frozenset):
        names = [*cast("Collection[object]", found)]
        if all(type(name) is str and name for name in names):
            return tuple(cast("list[str]", names))
    msg = (
        "the groups function must return a list of names of groups, got "
        f"{got}. Return [] for a person without groups."
    )
    raise InvalidInput(msg)
