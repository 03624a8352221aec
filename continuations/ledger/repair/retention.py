"""How long ended runs are kept, and erase those that ended a longer time ago."""

from __future__ import annotations

import itertools
import random
from asyncio import Semaphore, gather
from dataclasses import field
from datetime import date, timedelta
from typing import TYPE_CHECKING

from continuations.errors import (
    ContinuationsError,
    InvalidInput,
    RunErased,
)
from continuations.ledger.index import run_index
from continuations.ledger.repair.erasing import Eraser, keeps_audit, read_tombstone
from continuations.ledger.versions import Versions
from continuations.value_class import dataclass
from continuations_storage.contract import is_last_page

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from continuations.ledger.objects import Objects
    from continuations.ledger.repair.erasing import ErasedRun
    from continuations.ledger.store_clock import StoreClock


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


_PARALLEL_RUNS = 8
_PAGE_LIMIT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneResult:
    """The result of `prune`.

    Attributes:
        run_ids: The runs that ended long enough ago, in no order, and the erased runs
            whose audit was kept long enough.
        erased: The receipts of the runs that were erased.
        errors: The errors of the other runs, by run id. Call `prune` again for them.
    """

    run_ids: tuple[str, ...] = ()
    erased: tuple[ErasedRun, ...] = ()
    errors: dict[str, ContinuationsError] = field(
        default_factory=dict[str, ContinuationsError]
    )


class _Found:
    """The findings of a walk over ended runs."""

    def __init__(self, retention: Retention, *, dry_run: bool) -> None:
        self.retention = retention
        self.dry_run = dry_run
        self.run_ids: list[str] = []
        self.erased: list[ErasedRun] = []
        self.errors: dict[str, ContinuationsError] = {}

    def result(self) -> PruneResult:
        """Return the result."""
        return PruneResult(
            run_ids=tuple(self.run_ids), erased=tuple(self.erased), errors=self.errors
        )


@dataclass(frozen=True, slots=True)
class Pruner:
    """Erases ended runs."""

    objects: Objects
    clock: StoreClock
    new_nonce: Callable[[], str]

    async def prune(self, retention: Retention, *, dry_run: bool) -> PruneResult:
        """Erase all runs that are kept no longer, and all audits."""
        found = _Found(retention, dry_run=dry_run)
        for section in (_ENDED, _AUDITS):
            after, has_more = "", section.age(retention) is not None
            while has_more:
                keys, after = await self._old_page(section, retention, after)
                await self._prune_page(section, keys, found)
                has_more = bool(after)
        return found.result()

    async def prune_some(
        self, retention: Retention, after: str, seed: str
    ) -> tuple[PruneResult, str]:
        """Erase as many runs, and as many audits, as one sweep may.

        Args:
            retention: How long runs are kept.
            after: The key after which the last sweep of this process stopped, or "".
            seed: A random text, new for each sweep.

        Returns:
            The result, and the key after which the next sweep begins; "" at the end.
        """
        found = _Found(retention, dry_run=False)
        following = await self._prune_part(_ENDED, after, seed, found)
        if retention.audit is not None:
            await self._prune_part(_AUDITS, "", seed, found)
        return found.result(), following

    async def _prune_part(
        self, section: _Section, after: str, seed: str, found: _Found
    ) -> str:
        """Erase as much of a section as one sweep may; return where the next begins."""
        retention, limit = found.retention, found.retention.runs_per_sweep
        before = len(found.run_ids)
        keys, following = await self._old_page(section, retention, after, limit)
        await self._prune_page(section, keys, found)
        if following and not after and len(found.run_ids) == before:
            # Keys that stay must not hide the others from a process that always begins
            # with the first one.
            after = self._random_day(section, keys[-1], retention, seed)
            keys, following = await self._old_page(section, retention, after, limit)
            await self._prune_page(section, keys, found)
        return following

    def _random_day(
        self, section: _Section, key: str, retention: Retention, seed: str
    ) -> str:
        """Return a key before a random day, between that of a key and the last one."""
        first = run_index.indexed_day(key) or date.min
        last = (self.clock.now() - (section.age(retention) or timedelta())).date()
        days = random.Random(seed).randrange(max(1, (last - first).days + 1))  # noqa: S311 - not for secrets
        return f"{section.prefix}{first + timedelta(days=days)}/"

    async def _old_page(
        self,
        section: _Section,
        retention: Retention,
        after: str,
        limit: int = _PAGE_LIMIT,
    ) -> tuple[list[str], str]:
        """Return keys of runs that ended on an old day; then the last, if not all."""
        page = await self.clock.list_keys(self.objects, section.prefix, after, limit)
        ids = filter(None, map(run_index.indexed_run_id, page))
        for run_id in itertools.islice(ids, 1):
            # Not every listing tells the time, and this machine's may be wrong.
            await self.clock.learn(self.objects, run_id, self.new_nonce())
        last = section.last_key(self.clock.now(), retention)
        is_last = is_last_page(page, limit) or page[-1] >= last
        return [key for key in page if key < last], "" if is_last else page[-1]

    async def _prune_page(
        self, section: _Section, keys: list[str], found: _Found
    ) -> None:
        """Erase the runs of these keys that are kept no longer."""
        free = Semaphore(_PARALLEL_RUNS)

        async def try_run(key: str) -> None:
            run_id = run_index.indexed_run_id(key)
            if run_id is None:
                return  # this library did not write the key
            async with free:
                try:
                    eraser = await section.eraser(self, key, run_id, found.retention)
                    if eraser is None:
                        return
                    found.run_ids.append(run_id)
                    if not found.dry_run:
                        found.erased.append(await eraser.erase(self.new_nonce()))
                except ContinuationsError as error:
                    found.errors[run_id] = error

        await gather(*map(try_run, keys))

    async def eraser_of_ended(
        self, key: str, run_id: str, retention: Retention
    ) -> Eraser | None:
        """Return what erases a run that is kept no longer, else `None`.

        The key of a run that was erased is deleted.
        """
        try:
            header = await Versions(self.objects, run_id).newest_header()
        except RunErased:
            await self.objects.delete(key)
            return None
        age = age_of(retention, header.status) if header else None
        if (
            header is None
            or age is None
            or header.at > self.clock.now() - age
            or run_index.ended_key(run_id, header.at) != key
        ):
            return None
        return Eraser(
            self.objects,
            self.clock,
            run_id,
            only_if_ended=True,
            keeps_audit=retention.audit is not None,
        )

    async def eraser_of_audit(
        self, key: str, run_id: str, _: Retention
    ) -> Eraser | None:
        """Return the eraser of a kept audit, `None` if an erased run has no audit."""
        try:
            await Versions(self.objects, run_id).newest_header()
        except RunErased:
            if keeps_audit(await read_tombstone(self.objects, run_id)):
                return Eraser(self.objects, self.clock, run_id)
            await self.objects.delete(key)
        return None  # a process is about to erase the run


@dataclass(frozen=True, slots=True)
class _Section:
    """A part of the index that has runs by their last days.

    Attributes:
        prefix: The prefix of its keys.
        age: Returns how long its runs are kept; `None`: forever.
        eraser: Returns what erases a run of it that is kept no longer.
        with_last_day: Whether the runs of the last day may be old enough.
    """

    prefix: str
    age: Callable[[Retention], timedelta | None]
    eraser: Callable[[Pruner, str, str, Retention], Awaitable[Eraser | None]]
    with_last_day: bool = True

    def last_key(self, now: datetime, retention: Retention) -> str:
        """Return a key before which the runs may be old enough."""
        age = self.age(retention) or timedelta()
        return f"{self.prefix}{now - age:%Y-%m-%d}/{'~' if self.with_last_day else ''}"


_ENDED = _Section(run_index.ENDED_PREFIX, shortest_age, Pruner.eraser_of_ended)
# The key of an audit has the day alone: it is kept until the day is over.
_AUDITS = _Section(
    run_index.ERASED_PREFIX,
    lambda each: each.audit,
    Pruner.eraser_of_audit,
    with_last_day=False,
)
