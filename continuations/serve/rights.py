"""Rights: which identity may do what with which run, by a function of the application.

    def can(identity: Identity, act: Act, run: str | None) -> bool:
        return act == "view" or "operators" in identity.groups

Without a function, each verified identity may do everything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from continuations.serve.option_checks import check_callable

if TYPE_CHECKING:
    from continuations.core.identity import Identity
    from continuations.core.rows.waits import Wait
    from continuations.engine.runner.async_runner import AsyncRunner
    from continuations.ledger.decisions.worklist import Approver

__all__ = ["ACTS", "Act", "Can", "Rights", "may_decide", "name_of"]

Act: TypeAlias = Literal["view", "read", "decide", "message", "cancel", "fork", "erase"]
"""What an identity wants to do.

| act | what it allows |
|---|---|
| `view` | see a run, its waits and its past; list it. Secret arguments are masked |
| `read` | see the transcript: messages, results, outputs, attachments, live words |
| `decide` | decide a wait of the run, revoke a grant |
| `message` | start the run, send a message or signal to it, resume it |
| `cancel` | cancel or pause the run, end a pause, drop signals |
| `fork` | continue a copy of the run, or rewind the run, from an earlier version |
| `erase` | delete the run |

Without `view`, the response to another act says only that the request is recorded.
With `view` and without `read`, `"[not shown]"` stands in place of each text that a
model, a tool or a sender of a message wrote.
"""
ACTS: frozenset[str] = frozenset(get_args(Act))

Can: TypeAlias = Callable[["Identity", Act, "str | None"], "bool | Awaitable[bool]"]
"""A function or coroutine function of an identity, an act and the id of a run.

The id is `None` for what concerns the whole store: published events and sweeps.
"""


class Rights:
    """Ask the application's function; without one, everything is allowed.

    Args:
        can: The function, or `None`.

    Raises:
        InvalidInput: `can` cannot be called.
    """

    def __init__(self, can: Can | None = None) -> None:
        check_callable("can", can, "a function of an identity, an act and a run id")
        self._can = can

    @property
    def are_limited(self) -> bool:
        """Whether there is a function to ask."""
        return self._can is not None

    async def allow(
        self, identity: str | Identity, act: Act, run_id: str | None
    ) -> bool:
        """Return whether an identity may do something.

        Args:
            identity: The person or program.
            act: The act.
            run_id: The run, or `None` for the whole store.

        Returns:
            The answer of the function.

        Raises:
            TypeError: The function returned something other than a bool.
        """
        if self._can is None:
            return True
        # A process that only decides by links needs neither.
        from continuations.authoring import callables  # noqa: PLC0415
        from continuations.core.identity import Identity  # noqa: PLC0415

        person = Identity(identity) if isinstance(identity, str) else identity
        allowed: object = await callables.call(self._can, person, act, run_id)
        if type(allowed) is not bool:
            # A truthy object, such as a list of groups, must not become a right.
            raise TypeError(
                f"can must return True or False, got {type(allowed).__name__}. Return "
                "whether the identity may do this."
            )
        return allowed


def name_of(identity: str | Identity) -> str:
    """Return the name of an identity.

    Args:
        identity: The person or program; a text is a name itself.

    Returns:
        The name.
    """
    # Without an import of the class, which a decision does not need.
    return identity if isinstance(identity, str) else identity.name


async def may_decide(runner: AsyncRunner, identity: str | Identity, wait: Wait) -> bool:
    """Return whether the rule of a wait lets an identity decide it now.

    The rule is that of the wait's approvers, of `not_requester` and of votes: a person
    who has voted has no second vote. The rights of a door are another question.

    Args:
        runner: The runner, which may know the groups of the identity.
        identity: The person or program.
        wait: The wait, as `runner.wait` or `runner.look` returns it.

    Returns:
        True if a decision of the identity would be accepted.
    """
    return await approver_of(runner, identity).may_decide(wait)


def approver_of(runner: AsyncRunner, identity: str | Identity) -> Approver:
    """Return an identity as an approver, whose groups the runner may know.

    Its groups are looked up once, for all waits that it is asked about.

    Args:
        runner: The runner.
        identity: The person or program.
    """
    from continuations.authoring import callables  # noqa: PLC0415 - not to decide
    from continuations.ledger.arrivals.wait_slots import checked_groups  # noqa: PLC0415
    from continuations.ledger.decisions.worklist import Approver  # noqa: PLC0415

    groups = runner.groups

    async def groups_of(name: str) -> tuple[str, ...]:
        return (
            () if groups is None else checked_groups(await callables.call(groups, name))
        )

    return Approver.from_argument(identity, groups_of)
