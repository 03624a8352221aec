"""Conditions that suspend a run before a turn of a model: `Agent(suspend_when=…)`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias, cast

from continuations.authoring import callables
from continuations.authoring.keyword_options import option_error
from continuations.errors import InvalidInput
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from continuations.core.usage import Usage

    SuspendFunction: TypeAlias = Callable[
        ["AgentProgress"], "bool | str | Awaitable[bool | str | None] | None"
    ]
    SuspendConditions: TypeAlias = Sequence["SuspendCondition | SuspendFunction"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProgress:
    """The progress of one agent, which a condition reads before a turn of its model.

    Attributes:
        run_id: Id of the run.
        agent: Name of the agent.
        path: Names from the root agent down to this agent.
        turns: Turns of the model since this condition last suspended the agent, or
            since the agent began.
        elapsed: Time since the end of that suspension, or since the first turn.
        all_turns: Turns of the model in this activation of the agent.
        usage: Model usage of the whole run.
    """

    run_id: str
    agent: str
    path: tuple[str, ...]
    turns: int
    elapsed: timedelta
    all_turns: int
    usage: Usage


@dataclass(frozen=True, slots=True)
class SuspendCondition:
    """A named condition; `every` and `after` make one.

    Attributes:
        name: Name of the condition in `Suspended.reasons`.
        is_met: Gets an `AgentProgress`. True, or a text that says why, suspends the
            agent.
    """

    name: str
    is_met: SuspendFunction


def every(*, turns: int) -> SuspendCondition:
    """Suspend an agent after each so many turns of its model.

    Args:
        turns: Turns between two suspensions by this condition, at least 1.

    Returns:
        A condition for `Agent(suspend_when=[...])`.

    Raises:
        InvalidInput: `turns` is not a positive integer.
    """
    if type(turns) is not int or turns < 1:
        raise InvalidInput(f"turns must be an integer of at least 1, got {turns!r}.")
    return SuspendCondition(
        f"every {turns} turns", lambda progress: progress.turns >= turns
    )


def after(
    *, minutes: float = 0, hours: float = 0, seconds: float = 0
) -> SuspendCondition:
    """Suspend an agent after some time, before the next turn of its model.

    The time counts from the agent's first turn, or from the `unpause` that ended the
    last suspension by this condition. Time in which the run waits counts too.

    Args:
        minutes: Minutes.
        hours: Hours.
        seconds: Seconds.

    Returns:
        A condition for `Agent(suspend_when=[...])`.

    Raises:
        InvalidInput: The time is not a positive number.
    """
    try:
        time = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    except (TypeError, ValueError, OverflowError):
        time = timedelta()
    if time <= timedelta():
        raise InvalidInput(
            "minutes, hours and seconds must be numbers with a sum above 0, got "
            f"{minutes!r}, {hours!r} and {seconds!r}."
        )
    parts = {"hours": hours, "minutes": minutes, "seconds": seconds}
    name = " ".join(f"{number:g} {unit}" for unit, number in parts.items() if number)
    return SuspendCondition(f"after {name}", lambda progress: progress.elapsed >= time)


def checked_conditions(
    agent_name: str, conditions: object
) -> tuple[SuspendCondition, ...]:
    """Return the conditions of an agent; raises `InvalidInput`."""
    wanted = "a list of conditions: every(...), after(...), or functions of one value"
    if not isinstance(conditions, list | tuple):
        raise option_error(agent_name, "suspend_when", wanted, conditions)
    items = cast("Sequence[object]", conditions)
    checked: dict[str, SuspendCondition] = {}
    for item in items:
        condition = _condition(item)
        if condition is None:
            raise option_error(agent_name, "suspend_when", wanted, item)
        if condition.name in checked:
            raise InvalidInput(
                f"agent {agent_name}: suspend_when has two conditions named "
                f"{condition.name!r}. Give each function a name of its own."
            )
        checked[condition.name] = condition
    return tuple(checked.values())


def _condition(item: object) -> SuspendCondition | None:
    if isinstance(item, SuspendCondition):
        return item
    name = getattr(item, "__name__", None) or type(item).__name__
    if isinstance(item, type) or not callables.takes_positional(item, 1):
        return None
    return SuspendCondition(str(name), item)  # type: ignore[arg-type]
