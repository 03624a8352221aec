"""The options of a deadline: its period, what happens then, and who is asked."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias, cast

from continuations.core import jsontext
from continuations.core.rows.decisions import (
    Answer,
    DeadlineAction,
    Deny,
    Escalate,
    Fail,
    dump_action,
)
from continuations.core.rows.quorum import GROUP_PREFIX
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


Duration: TypeAlias = timedelta | float
# A longer period would be a mistake in the unit, and its end may be after the last day
# that `datetime` can represent.
MAX_PERIOD = timedelta(days=3650)


def to_seconds(duration: object, label: str) -> float | None:
    """Return a duration in seconds; raises `InvalidInput` with a label."""
    if duration is None:
        return None
    if isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, int | float) and not isinstance(duration, bool):
        seconds = float(duration)
    else:
        seconds = math.nan
    if 0 < seconds <= MAX_PERIOD.total_seconds():
        return seconds
    got = f"{duration!r} ({type(duration).__name__})"
    raise InvalidInput(
        f"{label} must be a timedelta or seconds, above 0 and at most "
        f"{MAX_PERIOD.days} days, got {got}."
    )


def to_timedelta(duration: object, label: str) -> timedelta | None:
    """Return a duration; raises `InvalidInput` with a label."""
    seconds = to_seconds(duration, label)
    return None if seconds is None else timedelta(seconds=seconds)


_MAX_APPROVERS = 100


def escalate(to: Sequence[str], *, within: Duration, votes: int = 1) -> Escalate:
    """Ask other people if no person decides in time; pass the result as `on_deadline`.

    The wait keeps its id and its links. Earlier votes do not count any more. If the new
    deadline passes too, the wait expires. There is one step of escalation.

    Args:
        to: The people who decide from then on: names, and `group:NAME` for groups.
        within: The time that they have, as a `timedelta` or in seconds.
        votes: How many of them must give the same verdict. One `Deny` is enough.

    Returns:
        The action, for `on_deadline`.

    Raises:
        InvalidInput: An option is invalid.
    """
    names = checked_approvers("escalate: to", to)
    if not names:
        msg = "escalate: to must name at least one approver, got none. Pass names."
        raise InvalidInput(msg)
    check_votes("escalate: votes", votes, names)
    seconds = to_seconds(within, "escalate: within")
    if seconds is None or seconds < 1:
        msg = f"escalate: within must be at least 1 second, got {within!r}."
        raise InvalidInput(msg)
    return Escalate(to=names, within=int(seconds), votes=votes)


def checked_approvers(label: str, names: object) -> tuple[str, ...]:
    """Return names of approvers; raises `InvalidInput`."""
    if isinstance(names, list | tuple | set | frozenset):
        given = [*cast("Collection[object]", names)]
        if isinstance(names, set | frozenset) and all(type(n) is str for n in given):
            # Each process has another order of a set, and the policy's digest has one.
            given = sorted(given, key=str)
        if len(given) <= _MAX_APPROVERS and all(map(_is_approver, given)):
            # Two forms of one name are one person, who has one vote.
            from continuations.core.identity import person_key  # noqa: PLC0415 - few policies name people

            people: dict[str, str] = {}
            for name in cast("list[str]", given):
                people.setdefault(person_key(name), name)
            return tuple(people.values())
    raise InvalidInput(
        f"{label} must be a list of at most {_MAX_APPROVERS} names, and group:NAME for "
        f"groups, got {names!r}. Pass for example ['kim', 'group:finance']."
    )


def _is_approver(name: object) -> bool:
    if type(name) is not str:
        return False
    from continuations.core.identity import find_name_problem, person_key  # noqa: PLC0415 - as above

    is_name = find_name_problem(name) is None and name.isprintable()
    # No group has a blank at an end of its name, so such an approver matches no person.
    has_blanks = name.strip() != name or name.removeprefix(GROUP_PREFIX)[:1].isspace()
    return is_name and not has_blanks and person_key(name) not in ("", GROUP_PREFIX)


def check_votes(label: str, votes: object, approvers: tuple[str, ...]) -> None:
    """Raise `InvalidInput` unless so many approvers can vote."""
    if type(votes) is not int or not 1 <= votes <= _MAX_APPROVERS:
        msg = f"{label} must be an integer, 1 to {_MAX_APPROVERS}, got {votes!r}."
        raise InvalidInput(msg)
    groups = any(name.startswith(GROUP_PREFIX) for name in approvers)
    if approvers and not groups and votes > len(approvers):
        raise InvalidInput(
            f"{label} must be at most {len(approvers)}, the number of approvers, got "
            f"{votes}. Name more approvers, or ask for fewer votes."
        )


def checked_approval_action(action: object) -> None:
    """Raise `InvalidInput` unless the deadline of an approval can do this."""
    checked_action("ApprovalPolicy", action, (Answer, Deny, Escalate))
    if isinstance(action, Answer | Deny):
        try:
            dump_action(action)
        except jsontext.NotJson as error:
            raise InvalidInput(
                f"ApprovalPolicy: on_deadline cannot be stored: {error}. Pass a JSON "
                "value."
            ) from None


def checked_action(
    function: str, action: object, allowed: tuple[type, ...] = (Answer, Deny, Fail)
) -> DeadlineAction | None:
    """Return the action of a deadline; raises `InvalidInput` for another value."""
    # Looked up by the exact type: an object that only resembles a verdict is not one.
    if action is None or type(action) in allowed:
        return cast("DeadlineAction | None", action)
    names = [kind.__name__ for kind in allowed if kind is not Escalate]
    if Escalate in allowed:
        names.append("escalate(...)")
    wanted = f"{', '.join(names[:-1])} or {names[-1]}"
    msg = f"{function}: on_deadline must be an {wanted}, got {type(action).__name__}."
    raise InvalidInput(msg)
