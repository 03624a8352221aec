"""Erase the runs that ended a long time ago, as the index of ended runs tells."""

from __future__ import annotations

import itertools
from asyncio import Semaphore, gather
from dataclasses import field
from datetime import timedelta
from typing import TYPE_CHECKING

from continuations.core.run import ENDED_STATUSES
from continuations.errors import (
    ContinuationsError,
    InvalidInput,
    RunErased,
)
from continuations.ledger import run_index
from continuations.ledger.erasing import ErasedRun, Eraser
from continuations.ledger.versions import Versions
from continuations.value_class import dataclass
from continuations_storage.contract import is_last_page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from continuations.ledger.objects import Objects
    from continuations.ledger.store_clock import StoreClock

_PARALLEL_RUNS = 8
# A longer time may begin before the first day that `datetime` can represent.
_MAX_AGE = timedelta(days=3650)
_PAGE_LIMIT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneResult:
    """The result of `prune`.

    Attributes:
        run_ids: The runs that ended long enough ago, in no order.
        erased: The receipts of the runs that were erased.
        errors: The errors of the other runs, by run id. Call `prune` again for them.
    """

    run_ids: tuple[str, ...] = ()
    erased: tuple[ErasedRun, ...] = ()
    errors: dict[str, ContinuationsError] = field(
        default_factory=dict[str, ContinuationsError]
    )


@dataclass(frozen=True, slots=True)
class Pruner:
    """Erases ended runs."""

    objects: Objects
    clock: StoreClock
    new_nonce: Callable[[], str]

    async def prune(self, older_than: object, *, dry_run: bool) -> PruneResult:
        """Erase the runs that ended some time ago; raises `InvalidInput`."""
        older_than = _checked_age(older_than)
        run_ids: list[str] = []
        receipts: list[ErasedRun] = []
        errors: dict[str, ContinuationsError] = {}
        free = Semaphore(_PARALLEL_RUNS)

        async def try_run(key: str) -> None:
            run_id = run_index.indexed_run_id(key)
            if run_id is None:
                return  # this library did not write the key
            async with free:
                try:
                    if not await self._ended_before(key, run_id, older_than):
                        return
                    run_ids.append(run_id)
                    if not dry_run:
                        eraser = Eraser(self.objects, self.clock, run_id)
                        receipts.append(await eraser.erase(self.new_nonce()))
                except ContinuationsError as error:
                    errors[run_id] = error

        async for keys in self._old_keys(older_than):
            await gather(*map(try_run, keys))
        return PruneResult(
            run_ids=tuple(run_ids), erased=tuple(receipts), errors=errors
        )

    async def _old_keys(self, older_than: timedelta) -> AsyncIterator[list[str]]:
        """Iterate over the keys of runs that ended on an old day, page by page."""
        after = ""
        while True:
            page = await self.clock.list_keys(
                self.objects, run_index.ENDED_PREFIX, after, _PAGE_LIMIT
            )
            ids = filter(None, map(run_index.indexed_run_id, page))
            for run_id in itertools.islice(ids, 1):
                # Not every listing tells the time, and this machine's may be wrong.
                await self.clock.learn(self.objects, run_id, self.new_nonce())
            last = run_index.key_after_ended(self.clock.now() - older_than)
            yield [key for key in page if key < last]
            if is_last_page(page, _PAGE_LIMIT) or page[-1] >= last:
                return
            after = page[-1]

    async def _ended_before(self, key: str, run_id: str, older_than: timedelta) -> bool:
        """Return whether a run ended so long ago; delete its key if it was erased."""
        try:
            header = await Versions(self.objects, run_id).newest_header()
        except RunErased:
            await self.objects.delete(key)
            return False
        return (
            header is not None
            and header.status in ENDED_STATUSES
            and header.at <= self.clock.now() - older_than
            and run_index.ended_key(run_id, header.at) == key
        )


def _checked_age(older_than: object) -> timedelta:
    if isinstance(older_than, timedelta) and timedelta() < older_than <= _MAX_AGE:
        return older_than
    msg = (
        "older_than must be a positive timedelta of at most "
        f"{_MAX_AGE.days} days, got {older_than!r:.60}."
    )
    raise InvalidInput(f"{msg} Pass for example timedelta(days=90).")
