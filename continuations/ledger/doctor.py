"""What of a run can still be read, and how it goes on after damage.

Needs no application code. Looking never writes; a repair only adds a version, and
leaves every damaged object as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from continuations.core.calls import Ready, Started, Unknown, Waiting
from continuations.core.run import ENDED
from continuations.errors import (
    ContinuationsError,
    Corrupt,
    FormatError,
    InvalidInput,
    RunNotFound,
)
from continuations.ledger import layout, markers, waits
from continuations.ledger.arrivals import read_decision
from continuations.ledger.claims import check_free, released
from continuations.ledger.versions import Loaded, Step, Versions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from continuations.core.calls import CallRow
    from continuations.core.table import Table
    from continuations.core.waits import Wait
    from continuations.ledger.objects import Objects

# Ids that the lost versions gave out must never be given to another row: tools know
# calls by them. No version gives out nearly as many.
_IDS_OF_A_VERSION = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One object that is missing, damaged, or not what its key says."""

    key: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What was found of a run; `last_good` is 0 where no version can be rebuilt."""

    run_id: str
    newest: int
    last_good: int
    findings: tuple[Finding, ...]

    @property
    def goes_on(self) -> bool:
        """Whether the newest version can be rebuilt: nothing needs a repair."""
        return self.newest == self.last_good


async def examine(objects: Objects, run_id: str) -> Examination:
    """Read every object of a run and say what is wrong; raises `RunNotFound`."""
    findings: list[Finding] = []
    numbers = await _numbers(objects, run_id, findings)
    newest = max(numbers, default=0)
    if newest == 0:
        msg = f"There is no run {run_id!r} in this store."
        raise RunNotFound(msg, run_id=run_id)
    versions = Versions(objects, run_id)
    steps: dict[int, Step] = {}
    for number in range(1, newest + 1):
        key = layout.version(run_id, number)
        try:
            steps[number] = await versions.step(number, steps)
        except FormatError as error:
            findings.append(Finding(key=key, problem=str(error)))
    last_good = max(steps, default=0)
    if last_good:
        await _examine_arrivals(objects, steps[last_good].table, findings)
    return Examination(
        run_id=run_id,
        newest=newest,
        last_good=last_good,
        findings=tuple(findings),
    )


async def repair(
    objects: Objects,
    run_id: str,
    *,
    now: datetime,
    ulid: Callable[[], str],
) -> Loaded:
    """Start a new root from the last good version of a damaged run.

    Whatever the lost versions did is unknown: calls that may have been started in
    them become waits for an unknown outcome when the run is resumed, and every open
    wait gets a new id. A model's turns in them are asked again. Raises `RunNotFound`,
    `RunBusy`, `Corrupt` if nothing is left to go on from, and `InvalidInput` if
    nothing is damaged. A crash leaves the run as it was, or repaired.
    """
    found = await examine(objects, run_id)
    if found.goes_on:
        msg = (
            f"The newest version of run {run_id} is whole; there is nothing to repair."
        )
        raise InvalidInput(msg, run_id=run_id)
    if found.last_good == 0:
        msg = f"No version of run {run_id} can be rebuilt. Restore one from a backup."
        raise Corrupt(msg, run_id=run_id)
    versions = Versions(objects, run_id)
    good = await versions.load(found.last_good)
    check_free(good.table.run, now)
    decisions = {
        wait.id: await _was_approved(objects, wait)
        for wait in good.table.waits.values()
    }
    table = restored(good.table, decisions, found.newest, ulid)
    number = found.newest + 1
    await markers.make(objects, markers.guard(run_id, number, now, ulid()))
    planted = await versions.plant(number, released(table), at=now)
    await waits.withdraw(objects, good.table.waits)
    await waits.announce(objects, table.waits.values())
    return planted


def restored(
    table: Table,
    approved: Mapping[str, bool],
    newest: int,
    ulid: Callable[[], str],
) -> Table:
    """Return a state as it must be after versions that came later were lost.

    A call that could have been started in them counts as started: ready ones, and
    waiting ones that were approved.
    """
    if table.run.status in ENDED:
        return table
    calls = dict(table.calls)
    open_waits: dict[str, Wait] = {}
    for call in table.calls.values():
        if isinstance(call.state, Ready):
            calls[call.id] = replace(call, state=Started())
        elif isinstance(call.state, Waiting | Unknown):
            wait = table.waits[call.state.wait]
            if approved.get(wait.id):
                calls[call.id] = replace(call, state=Started())
                continue
            again = replace(wait, id=layout.wait_id(wait.kind, ulid(), wait.run_id))
            open_waits[again.id] = again
            calls[call.id] = _waiting(call, again.id)
    next_id = table.run.next_id + _IDS_OF_A_VERSION * newest
    return table.of(
        run=replace(table.run, next_id=next_id),
        manifest=table.manifest,
        frames=table.frames,
        calls=calls,
        waits=open_waits,
        logs=table.logs,
    )


def _waiting(call: CallRow, wait_id: str) -> CallRow:
    state = Unknown(wait_id) if isinstance(call.state, Unknown) else Waiting(wait_id)
    return replace(call, state=state)


async def _was_approved(objects: Objects, wait: Wait) -> bool:
    try:
        decision = await read_decision(objects, wait.id)
    except ContinuationsError:
        return True  # unreadable: it may have been a yes
    return decision is not None and decision.kind == "approve"


async def _numbers(objects: Objects, run_id: str, findings: list[Finding]) -> list[int]:
    numbers: list[int] = []
    async for key in objects.all_keys(layout.versions(run_id)):
        try:
            numbers.append(layout.version_number(key))
        except Corrupt as error:
            findings.append(Finding(key=key, problem=str(error)))
    return numbers


async def _examine_arrivals(
    objects: Objects, table: Table, findings: list[Finding]
) -> None:
    for wait in table.waits.values():
        for key, look in (
            (layout.wait(wait.id), waits.read),
            (layout.decision(wait.id), read_decision),
        ):
            try:
                await look(objects, wait.id)
            except FormatError as error:
                findings.append(Finding(key=key, problem=str(error)))
