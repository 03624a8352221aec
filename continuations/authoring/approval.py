"""Which calls need a person's Yes, for how long, and what a No does."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from continuations.authoring import callables
from continuations.authoring.errors import PolicyFailed
from continuations.core import jsontext
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Condition: TypeAlias = "Callable[..., object]"
Duration: TypeAlias = timedelta | float
ContinueOrStop = Literal["continue", "stop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalPolicy:
    """When a call waits for a person, and what becomes of the wait.

    `when` is `True` (always, also if it is left out), `False` (never) or a function,
    plain or async, of the call's arguments: it gets those that it declares by name,
    as Python values, and all of them if it has a `**` parameter; a parameter with a
    default that is no argument of the call keeps its default. Only `False` itself
    lets a call pass without a person, and `True` asks one; anything else that it
    returns, and anything that it raises, keeps the call from running at all.

    `expires_after` bounds the time to decide, `valid_for` how long after an approval
    the call may still begin (both a timedelta or seconds). `strict` voids an
    approval also when only the tool's description has changed since. `on_denied`
    and `on_expired` say whether the agent goes on, told of it, or the run stops.
    """

    when: bool | Condition | None = None
    name: str | None = None
    expires_after: Duration | None = None
    valid_for: Duration | None = None
    strict: bool = False
    on_denied: ContinueOrStop = "continue"
    on_expired: ContinueOrStop = "continue"

    def __post_init__(self) -> None:
        """Refuse what could only fail later, when nobody looks."""
        if not (
            self.when is None or isinstance(self.when, bool) or callable(self.when)
        ):
            msg = "an approval policy's `when` is a bool or a function of the arguments"
            raise InvalidInput(msg)
        name: object = self.name
        if type(self.strict) is not bool or not (name is None or type(name) is str):
            msg = "an approval policy's `strict` is a bool, its `name` a string"
            raise InvalidInput(msg)
        for period in (self.expires_after, self.valid_for):
            to_seconds(period)
        if (to_seconds(self.valid_for) or 1) < 1:
            msg = "an approval policy's `valid_for` is at least a second"
            raise InvalidInput(msg)
        for consequence in (self.on_denied, self.on_expired):
            if consequence not in ("continue", "stop"):
                msg = 'on_denied and on_expired are "continue" or "stop"'
                raise InvalidInput(msg)

    @classmethod
    def from_option(cls, option: object) -> ApprovalPolicy | None:
        """Return the policy that `approval=` stands for; `None` if it asks nobody."""
        if option is None or option is False:
            return None
        if isinstance(option, ApprovalPolicy):
            return option
        if option is True:
            return cls()
        if callable(option):
            return cls(when=option)
        msg = (
            "approval is True, False, a function of the arguments or an ApprovalPolicy,"
            f" not a {type(option).__name__}"
        )
        raise InvalidInput(msg)

    @property
    def display_name(self) -> str | None:
        """The name to show for it: its own, or that of its condition."""
        name = self.name or getattr(self.when, "__name__", None)
        return None if name == "<lambda>" else name

    @property
    def decision_timeout(self) -> timedelta | None:
        """How long a person has to decide."""
        return _to_timedelta(self.expires_after)

    @property
    def approval_validity(self) -> timedelta | None:
        """How long after an approval the call may still begin."""
        return _to_timedelta(self.valid_for)

    @property
    def digest(self) -> str:
        """Digest of what is declared; what a condition computes is not seen."""
        asks = "condition" if callable(self.when) else str(self.when is not False)
        periods = [to_seconds(self.expires_after), to_seconds(self.valid_for)]
        rules = [self.strict, self.on_denied, self.on_expired]
        return jsontext.digest(
            jsontext.canonical([asks, self.display_name, *periods, *rules])
        )

    async def needs_approval(self, arguments: Mapping[str, Any]) -> bool:
        """Tell whether a call with these values waits; raises `PolicyFailed`."""
        if not callable(self.when):
            return self.when is not False
        try:
            chosen = callables.accepted_arguments(self.when, arguments)
            verdict = await callables.call(self.when, **chosen)
        except BaseException as error:
            if callables.is_task_cancellation(error):
                raise
            msg = f"the approval policy raised {type(error).__name__}; nothing ran"
            raise PolicyFailed(msg) from error
        if isinstance(verdict, bool):
            return verdict
        msg = (
            f"the approval policy returned a {type(verdict).__name__} where only True"
            " or False counts; nothing ran"
        )
        raise PolicyFailed(msg)


def to_seconds(duration: object) -> float | None:
    """Return a length of time in seconds; raises `InvalidInput` if it is none."""
    if duration is None:
        return None
    if isinstance(duration, timedelta):
        length = duration.total_seconds()
    elif isinstance(duration, int | float) and not isinstance(duration, bool):
        length = float(duration)
    else:
        length = math.nan
    if math.isfinite(length) and length > 0:
        return length
    msg = (
        f"{duration!r} is not a length of time: give a timedelta or seconds above zero"
    )
    raise InvalidInput(msg)


def _to_timedelta(duration: Duration | None) -> timedelta | None:
    length = to_seconds(duration)
    return None if length is None else timedelta(seconds=length)
