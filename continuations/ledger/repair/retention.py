"""How long ended runs are kept, and the part of them that one sweep erases."""

from __future__ import annotations

from datetime import timedelta

from continuations.errors import InvalidInput
from continuations.value_class import dataclass

# A longer time may begin before the first day that `datetime` can represent.
MAX_AGE = timedelta(days=36_500)
MAX_RUNS_PER_SWEEP = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long ended runs are kept: `Runner(..., retention=Retention(...))`.

    Sweeps erase the older ones as `Runner.erase` does, by the time of the store. A run
    that waits, works or rests is never erased.

    Attributes:
        finished: How long finished runs are kept: a timedelta of at most 36,500 days.
            `None`: forever. A thread is finished only when it is closed.
        failed: The same for failed runs.
        cancelled: The same for cancelled runs.
        audit: How long after the end of an erased run its decisions, votes, revocations
            and requests of operators are kept, so that `Runner.audit` shows them. They
            contain reasons, answers and edited arguments. `None`: they are erased with
            the run. At least as long as the other times.
        runs_per_sweep: How many ended runs one sweep looks at, 1 to 10,000. It erases
            no more of them, and the audit of no more others.

    Raises:
        InvalidInput: An option is invalid, or no time is given.
    """

    finished: timedelta | None = None
    failed: timedelta | None = None
    cancelled: timedelta | None = None
    audit: timedelta | None = None
    runs_per_sweep: int = 100

    def __post_init__(self) -> None:
        """Raise now what a sweep would otherwise find."""
        ages = {name: getattr(self, name) for name in ENDED}
        for name, age in ages.items():
            if age is not None:
                check_age(f"Retention: {name}", age)
        if not any(ages.values()):
            msg = "Retention: finished, failed or cancelled must be a timedelta, got "
            raise InvalidInput(f"{msg}none. Pass for example finished=timedelta(90).")
        if self.audit is not None:
            longest = max(age for age in ages.values() if age is not None)
            if check_age("Retention: audit", self.audit) < longest:
                msg = "Retention: audit must not be shorter than the other times, got "
                raise InvalidInput(f"{msg}{self.audit}. Pass at least {longest}.")
        number: object = self.runs_per_sweep
        if type(number) is not int or not 1 <= number <= MAX_RUNS_PER_SWEEP:
            raise InvalidInput(
                "Retention: runs_per_sweep must be an integer from 1 to "
                f"{MAX_RUNS_PER_SWEEP}, got {number!r:.60}."
            )


def age_of(retention: Retention, status: str) -> timedelta | None:
    """Return how long runs with a status are kept; `None`: forever."""
    age: timedelta | None = getattr(retention, status) if status in ENDED else None
    return age


def shortest_age(retention: Retention) -> timedelta:
    """Return the shortest of the times: younger runs need no look."""
    ages = (age_of(retention, name) for name in ENDED)
    return min(age for age in ages if age is not None)


def chosen_retention(
    older_than: object, given: object, default: Retention | None
) -> Retention:
    """Return the retention that the arguments of `prune` say; raises `InvalidInput`."""
    if older_than is not None and given is None:
        age = check_age("older_than", older_than)
        return Retention(finished=age, failed=age, cancelled=age)
    if older_than is None and isinstance(given, Retention):
        return given
    if older_than is None and given is None and default is not None:
        return default
    if older_than is not None:
        msg = "prune was called with older_than and retention. Pass one of them."
    elif given is not None:
        kind = type(given).__name__
        msg = (
            f"retention must be Retention(...), got {kind}. Pass Retention(failed=...)."
        )
    else:
        msg = (
            "prune needs older_than or a retention: this runner has none. Pass for "
            "example older_than=timedelta(days=90)."
        )
    raise InvalidInput(msg)


# The statuses of ended runs, and the options of the same names.
ENDED = ("finished", "failed", "cancelled")


def check_age(name: str, age: object) -> timedelta:
    """Return an age; raises `InvalidInput`."""
    if isinstance(age, timedelta) and timedelta() < age <= MAX_AGE:
        return age
    msg = (
        f"{name} must be a positive timedelta of at most {MAX_AGE.days} days, got "
        f"{age!r:.60}."
    )
    raise InvalidInput(f"{msg} Pass for example timedelta(days=90).")
