"""Approval policies: which calls wait for a person, and for how long."""

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
# A longer period would be a mistake in the unit, and its end may be after the last day
# that `datetime` can represent.
MAX_PERIOD = timedelta(days=3650)
ContinueOrStop = Literal["continue", "stop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalPolicy:
    """Which calls wait for a person, and the consequences of each decision.

    Attributes:
        when: `True` or left out: every call waits. `False`: no call waits. Or a
            condition: a plain or async function that returns `True` (wait) or
            `False` (run). It gets the arguments that it declares, by name, as Python
            values; with a `**` parameter it gets all of them. If it raises or returns
            anything else, the call does not run.
        name: The name that people see. Default: the name of the condition.
        expires_after: The time to decide: a timedelta, or seconds, at most 3,650 days.
            After it the wait expires and the call does not run. Default: no limit.
        valid_for: How long after the approval the call may still begin: a timedelta,
            or seconds, at least 1 second and at most 3,650 days. Default: no limit.
        strict: Bind an approval also to the tool's description: after a change of
            the description, the call waits again. Default: `False`.
        on_denied: `"continue"`: the model reads the denial and the agent continues.
            `"stop"`: the run fails. Default: `"continue"`.
        on_expired: The same for a wait that expired. Default: `"continue"`.

    Raises:
        InvalidInput: An option is invalid.
    """

    when: bool | Condition | None = None
    name: str | None = None
    expires_after: Duration | None = None
    valid_for: Duration | None = None
    strict: bool = False
    on_denied: ContinueOrStop = "continue"
    on_expired: ContinueOrStop = "continue"

    def __post_init__(self) -> None:
        """Raise now what would otherwise fail when the first call is examined."""
        when: object = self.when
        if not (when is None or isinstance(when, bool) or callable(when)):
            wanted = "a bool or a function of the arguments"
            raise _option_error("when", wanted, when)
        name: object = self.name
        if not (name is None or type(name) is str):
            raise _option_error("name", "a string", name)
        if type(self.strict) is not bool:
            raise _option_error("strict", "True or False", self.strict)
        for option in ("expires_after", "valid_for"):
            seconds = to_seconds(getattr(self, option), f"ApprovalPolicy: {option}")
            if option == "valid_for" and seconds is not None and seconds < 1:
                raise _option_error(option, "at least 1 second", self.valid_for)
        for option in ("on_denied", "on_expired"):
            consequence = getattr(self, option)
            if consequence not in ("continue", "stop"):
                raise _option_error(option, '"continue" or "stop"', consequence)

    @classmethod
    def from_option(cls, option: object) -> ApprovalPolicy | None:
        """Return the policy for the value of an `approval` option.

        Args:
            option: `None`, a bool, a condition, or a policy.

        Returns:
            The policy; `None` if no call waits.

        Raises:
            InvalidInput: The value is none of these.
        """
        if option is None or option is False:
            return None
        if isinstance(option, ApprovalPolicy):
            return option
        if option is True:
            return cls()
        if callable(option):
            return cls(when=option)
        msg = (
            "approval must be True, False, a function of the arguments or an"
            f" ApprovalPolicy, got {option!r} ({type(option).__name__})."
        )
        raise InvalidInput(msg)

    @property
    def display_name(self) -> str | None:
        """The name that people see: the own one, or the name of the condition."""
        name = self.name or getattr(self.when, "__name__", None)
        return None if name == "<lambda>" else name

    @property
    def decision_timeout(self) -> timedelta | None:
        """The time that a person has to decide."""
        return _to_timedelta(self.expires_after)

    @property
    def approval_validity(self) -> timedelta | None:
        """The time after an approval during which the call may begin."""
        return _to_timedelta(self.valid_for)

    @property
    def digest(self) -> str:
        """The digest of the options, without the code of a condition."""
        mode = "condition" if callable(self.when) else str(self.when is not False)
        periods = [
            to_seconds(self.expires_after, "expires_after"),
            to_seconds(self.valid_for, "valid_for"),
        ]
        rules = [self.strict, self.on_denied, self.on_expired]
        return jsontext.digest(
            jsontext.canonical([mode, self.display_name, *periods, *rules])
        )

    async def needs_approval(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether a call with these arguments waits for a person.

        Args:
            arguments: The arguments as Python values by name.

        Returns:
            `True` if the call waits.

        Raises:
            PolicyFailed: The condition raised, or returned neither `True` nor `False`.
        """
        if not callable(self.when):
            return self.when is not False
        try:
            chosen = callables.accepted_arguments(self.when, arguments)
            verdict = await callables.call(self.when, **chosen)
        except BaseException as error:
            if callables.is_task_cancellation(error):
                raise
            msg = f"the approval policy raised {type(error).__name__}; nothing ran."
            raise PolicyFailed(msg) from error
        if isinstance(verdict, bool):
            return verdict
        msg = (
            f"the approval policy returned a value of type {type(verdict).__name__}"
            " instead of True or False; nothing ran."
        )
        raise PolicyFailed(msg)


def _option_error(option: str, wanted: str, value: object) -> InvalidInput:
    got = f"{value!r} ({type(value).__name__})"
    return InvalidInput(f"ApprovalPolicy: {option} must be {wanted}, got {got}.")


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
    msg = (
        f"{label} must be a timedelta or seconds, above 0 and at most "
        f"{MAX_PERIOD.days} days, got {got}."
    )
    raise InvalidInput(msg)


def _to_timedelta(duration: Duration | None) -> timedelta | None:
    seconds = to_seconds(duration, "duration")
    return None if seconds is None else timedelta(seconds=seconds)
