"""Copy the runs of one store to another, each one at a version."""

from __future__ import annotations

from asyncio import Semaphore, gather
from collections.abc import Callable, Coroutine
from dataclasses import field
from typing import TYPE_CHECKING, Any, cast

from continuations.errors import ContinuationsError, InvalidInput
from continuations.ledger.copying.key_rules import PREFIXES_BESIDE, Part, classify
from continuations.ledger.copying.run_copy import CopyStores, RunCopy
from continuations.ledger.layout import check_run_id
from continuations.ledger.objects import in_batches
from continuations.ledger.repair.run_files import is_file_key
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from continuations.ledger.copying.key_rules import KeyRule
    from continuations.ledger.objects import Objects

Step = Callable[[RunCopy], Coroutine[Any, Any, None]]

_RUNS_PREFIX = "runs/"
_PARALLEL_RUNS = 8
# The keys beside the runs are listed once for so many runs.
_BATCH_SIZE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyResult:
    """The result of `copy_to`.

    Attributes:
        copied: The runs that are new in the target, or were brought up to date.
        unchanged: The runs that the target had already, with equal objects.
        moved_on: The runs of the source that went on, began or were erased during the
            copy. Copy again for them.
        errors: The errors of the runs that were not copied, by run id; for an object
            that belongs to no run, by its key.
        objects: Number of objects that were created in the target.
        unknown_keys: Keys that this release does not know. They were not copied.
    """

    copied: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    moved_on: tuple[str, ...] = ()
    errors: dict[str, ContinuationsError] = field(
        default_factory=dict[str, ContinuationsError]
    )
    objects: int = 0
    unknown_keys: tuple[str, ...] = ()


class StoreCopier:
    """Copies runs, and without a choice of runs also what belongs to no run."""

    def __init__(self, stores: CopyStores) -> None:
        self._stores = stores
        self._copies: dict[str, RunCopy] = {}
        self._errors: dict[str, ContinuationsError] = {}
        self._shared_objects = 0
        self._unknown: dict[str, None] = {}

    async def copy(self, run_ids: Sequence[str] | None) -> CopyResult:
        """Copy these runs, or the whole store; see `AsyncRunner.copy_to`."""
        source, clock = self._stores.source, self._stores.clock
        await clock.list_keys(source, _RUNS_PREFIX, limit=1)  # it may tell the time
        await self._stores.target.probe()
        await self._stores.check_different()
        whole = run_ids is None
        chosen = await self._list_run_ids() if run_ids is None else [*run_ids]
        for batch in in_batches(chosen, _BATCH_SIZE):
            await self._copy_batch(batch)
        if whole:
            await self._copy_shared(frozenset(chosen))
        return await self._result(whole=whole)

    async def _list_run_ids(self) -> list[str]:
        """Return the ids of all runs; note the keys that this release does not know."""
        run_ids: dict[str, None] = {}
        async for key in self._stores.source.all_keys(""):
            # A start that died before its version may have left attachments.
            if key.startswith(_RUNS_PREFIX):
                run_ids.update({} if is_file_key(key) else {key.split("/")[1]: None})
            elif classify(key) is None:
                self._unknown[key] = None
        return [*run_ids]

    async def _copy_batch(self, run_ids: Sequence[str]) -> None:
        for run_id in run_ids:
            self._copies[run_id] = RunCopy(self._stores, run_id)
        await self._for_each(run_ids, lambda each: each.copy_history())
        left = [run_id for run_id in run_ids if run_id not in self._errors]
        # The markers and waits after the histories: each guards or lists one of these.
        there = await _list_beside(self._stores.target, left)
        here = await _list_beside(self._stores.source, left)
        await self._for_each(
            left, lambda each: each.show(here[each.run_id], there[each.run_id])
        )

    async def _for_each(self, run_ids: Sequence[str], step: Step) -> None:
        free = Semaphore(_PARALLEL_RUNS)

        async def try_run(run_id: str) -> None:
            async with free:
                try:
                    await step(self._copies[run_id])
                except ContinuationsError as error:
                    self._errors[run_id] = error

        await gather(*map(try_run, run_ids))

    async def _copy_shared(self, run_ids: frozenset[str]) -> None:
        """Copy published events and other objects of no run, the markers first."""
        found: list[tuple[bool, str, KeyRule]] = []
        for prefix in PREFIXES_BESIDE:
            async for key in self._stores.source.all_keys(prefix):
                known = classify(key)
                if known is None:
                    continue
                rule, run_id = known
                # The ids of messages may be in a store without the runs.
                of_other_store = rule.may_differ and run_id not in run_ids
                if rule.part in (Part.SHARED, Part.SHARED_MARKER) or of_other_store:
                    found.append((rule.part is not Part.SHARED_MARKER, key, rule))
        for _, key, rule in sorted(found, key=lambda each: each[:2]):
            try:
                body = await self._stores.read(key, rule)
                if body is not None:
                    self._shared_objects += await self._stores.put(
                        key, body, may_differ=rule.may_differ
                    )
            except ContinuationsError as error:
                self._errors[key] = error

    async def _result(self, *, whole: bool) -> CopyResult:
        done = {
            run_id: copy.created
            for run_id, copy in self._copies.items()
            if run_id not in self._errors
        }
        moved_on = await self._moved_on(whole=whole)
        created = sum(copy.created for copy in self._copies.values())
        return CopyResult(
            copied=tuple(run_id for run_id in done if done[run_id]),
            unchanged=tuple(run_id for run_id in done if not done[run_id]),
            moved_on=tuple(moved_on),
            errors=self._errors,
            objects=created + self._shared_objects,
            unknown_keys=tuple(self._unknown),
        )

    async def _moved_on(self, *, whole: bool) -> list[str]:
        """Return the runs of which the source has more now than when they were read."""
        run_ids = await self._list_run_ids() if whole else [*self._copies]
        moved = [run_id for run_id in run_ids if run_id not in self._copies]

        async def look(copy: RunCopy) -> None:
            if await copy.has_moved_on():
                moved.append(copy.run_id)

        known = [run_id for run_id in self._copies if run_id not in self._errors]
        await self._for_each(known, look)
        return sorted(moved)


def check_run_ids(run_ids: object) -> list[str] | None:
    """Return the ids of runs, each once, or `None`.

    Raises `InvalidInput` for another value than a list, and `InvalidId`.
    """
    if run_ids is None:
        return None
    if isinstance(run_ids, list | tuple | set | frozenset):
        found = cast("Collection[object]", run_ids)
        return [*dict.fromkeys(check_run_id(each, "run_ids") for each in found)]
    msg = f"run_ids must be a list of run ids or None, got {run_ids!r:.60}."
    raise InvalidInput(f"{msg} Pass for example ['jane-1'].")


async def _list_beside(
    objects: Objects, run_ids: Sequence[str]
) -> dict[str, list[str]]:
    """Return the keys of each of these runs that are not under `runs/`."""
    found: dict[str, list[str]] = {run_id: [] for run_id in run_ids}
    for prefix in PREFIXES_BESIDE if found else ():
        async for key in objects.all_keys(prefix):
            known = classify(key)
            if known is not None and known.run_id in found:
                found[known.run_id].append(key)
    return found
