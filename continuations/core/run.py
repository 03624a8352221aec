"""The row of a run: who works on it, how far it is, how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from continuations.core.usage import Usage

if TYPE_CHECKING:
    from datetime import datetime

RunStatus = Literal["running", "suspended", "finished", "failed", "cancelled"]
RUN_STATUSES: frozenset[str] = frozenset(get_args(RunStatus))
ENDED_STATUSES: frozenset[str] = frozenset({"finished", "failed", "cancelled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to move a run on, until a time.

    `attempt` counts the claims in a row that took over from a worker which died
    before it made progress.
    """

    worker: str
    until: datetime
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a run failed: a code for programs, a message for people."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What the model's replies of a whole run may cost, at every depth, until its end.

    Both are counts of `Usage`, and `None` is no limit. They are compared before each
    request, so those that are under way together may exceed them.
    """

    requests: int | None = None
    tokens: int | None = None

    def reached_limit(self, usage: Usage) -> str | None:
        """Return which limit has been reached, in words."""
        if self.requests is not None and usage.requests >= self.requests:
            return f"{self.requests} requests"
        if self.tokens is not None and usage.total_tokens >= self.tokens:
            return f"{self.tokens} tokens"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run. `birth` is random and given once; `next_id` counts the rows' ids.

    `input_digest` tells a repeated start from another one. `inbox` is the number of
    the last message that was taken in. `doubtful` tells that versions of it were lost:
    a call that the model makes now may have been made in them.
    """

    id: str
    run_nonce: str
    agent: str
    created_at: datetime
    input_digest: str
    status: RunStatus = "running"
    next_id: int = 1
    last_inbox_number: int = 0
    claim: Claim | None = None
    usage: Usage = field(default_factory=Usage)
    budget: Budget | None = None
    history_lost: bool = False
    output: str | None = None
    failure: Failure | None = None
