"""How a runner works, checked when it is made and not after the first crash."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeGuard

from continuations.errors import InvalidInput

# A claim that is shorter is over before a slow store has answered; one that is longer
# keeps a run waiting for days after its worker died.
MIN_LEASE, MAX_LEASE = 0.1, 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """`lease` is the length of a claim in seconds; see `AsyncRunner`."""

    lease: float
    max_attempts: int
    max_depth: int | None

    @classmethod
    def validate(
        cls, *, lease: object, max_attempts: object, max_depth: object
    ) -> WorkerOptions:
        """Return settings that are sound; raises `InvalidInput`."""
        if not _is_number(lease) or not MIN_LEASE <= lease <= MAX_LEASE:
            msg = f"lease is a number of seconds, {MIN_LEASE:g} to {MAX_LEASE:g}"
            raise InvalidInput(msg)
        if not _is_count(max_attempts):
            msg = "max_attempts is a whole number, at least 1"
            raise InvalidInput(msg)
        if max_depth is not None and not _is_count(max_depth):
            msg = "max_depth is a whole number, at least 1, or None for no limit"
            raise InvalidInput(msg)
        return cls(lease=float(lease), max_attempts=max_attempts, max_depth=max_depth)


def _is_number(value: object) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value)


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and value >= 1
