"""Read the events and the past of a run from its versions; follow a run."""

from __future__ import annotations

import re
from asyncio import gather
from typing import TYPE_CHECKING, NamedTuple

from continuations.core.reading import run_past
from continuations.core.reading.run_past import difference
from continuations.core.reading.run_stream import StreamEvent, WaitDecided
from continuations.core.reading.run_stream_diff import events_between
from continuations.core.rows.wait_rules import WAIT_RULES
from continuations.core.rows.waits import Wait, withheld
from continuations.errors import InvalidInput
from continuations.ledger import layout
from continuations.ledger.arrivals.recorded_decisions import read_decision
from continuations.ledger.index.run_overview import ObjectsReadAhead, read_if_possible
from continuations.ledger.objects import Objects, gather_all, in_batches
from continuations.ledger.versions import Versions, VersionWalk, WalkStep
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from continuations.core.rows.decisions import Decision
    from continuations.core.rows.state import RunState
    from continuations.engine.ports import Sleep


# Seconds between two looks for the next version, while nothing happens.
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0
PAUSE_GROWTH = 1.5
# After so many looks the versions are listed: an erasure may have removed the next one.
_LOOKS_PER_LISTING = 60
# No event of a version has so high an ordinal.
MAX_ORDINAL = 9_999_999_999
_CURSOR = re.compile(r"([1-9][0-9]{0,9})\.([1-9][0-9]{0,9})\Z", re.ASCII)


class Cursor(NamedTuple):
    """The place of an event; `Cursor()` is the place before all events."""

    version: int = 0
    ordinal: int = 0

    @classmethod
    def parse(cls, text: object) -> Cursor:
        """Return the cursor that a text names; raises `InvalidInput`."""
        if text == "":
            return cls()
        match = _CURSOR.match(text) if isinstance(text, str) else None
        if match is None:
            raise InvalidInput(
                "after must be the cursor of an event, such as '3.2', got "
                f"{text!r:.60}. Pass event.cursor, or leave it out."
            )
        return cls(int(match[1]), int(match[2]))


async def read_events(
    objects: Objects, sleep: Sleep, run_id: str, after: Cursor, *, follow: bool
) -> AsyncIterator[list[StreamEvent]]:
    """Iterate over the events of a run, version by version.

    Args:
        objects: The store.
        sleep: Waits for a number of seconds.
        run_id: Id of the run.
        after: Only later events.
        follow: Whether to wait for new versions until the run ends or rests.

    Raises:
        RunNotFound, RunErased: The store does not have the run.
        InvalidInput: The run has no version of the cursor.
        Corrupt, FormatError: A version or a decision cannot be read.
        StoreError: The store failed.
    """
    pause = FIRST_PAUSE
    async for events in walk_events(objects, run_id, after, follow=follow):
        if events:
            yield events
            pause = FIRST_PAUSE
        else:
            await sleep(pause)
            pause = min(pause * PAUSE_GROWTH, LONGEST_PAUSE)


async def walk_events(
    objects: Objects,
    run_id: str,
    after: Cursor,
    *,
    follow: bool = True,
    over_rest: bool = False,
) -> AsyncIterator[list[StreamEvent]]:
    """Iterate as `read_events`, and yield `[]` where that waits for a new version.

    The caller waits. With `over_rest`, the run of a thread is followed until it ends.
    """
    versions, walk = Versions(objects, run_id), VersionWalk(objects, run_id)
    newest = await versions.newest_number()
    if newest == 0:
        raise versions.run_not_found_error()
    if after.version > newest:
        raise InvalidInput(
            f"after is a cursor of version {after.version}, but run {run_id} has "
            f"{newest} versions. Pass a cursor of this run."
        )
    # Events that follow in the version of the cursor need the version before it too.
    await walk.go_to(max(after.version - 1, 0))
    looks = 0
    while True:
        exists = walk.number < newest
        if not exists and (not follow or _has_ended(walk.state)):
            return
        step = await walk.next_step(exists=exists)
        if step is None:
            if _rests(walk.state) and not over_rest:
                return
            yield []
            looks += 1
            if looks % _LOOKS_PER_LISTING == 0:
                newest = await versions.newest_number()
            continue
        looks = 0
        found = events_between(step.before, step.after, version=step.number, at=step.at)
        later = [event for event in found if _position(event) > after]
        if later:
            yield await with_deciders(objects, later, {})


def _position(event: StreamEvent) -> Cursor:
    version, _, ordinal = event.cursor.partition(".")
    return Cursor(int(version), int(ordinal))


def _has_ended(state: RunState | None) -> bool:
    return state is not None and state.run.has_ended


def _rests(state: RunState | None) -> bool:
    return state is not None and state.run.rests


async def with_deciders(
    objects: Objects | None, events: list[StreamEvent], known: Mapping[str, Decision]
) -> list[StreamEvent]:
    """Add to each end of a wait its decision: one read each, if it is not known.

    Without a store, `objects` is `None`, and only the known ones are added.
    """
    decided = [event for event in events if isinstance(event, WaitDecided)]
    if not decided:
        return events
    decisions = await gather(*(_with_decider(objects, each, known) for each in decided))
    complete = {event.cursor: event for event in decisions}
    return [complete.get(event.cursor, event) for event in events]


async def _with_decider(
    objects: Objects | None, event: WaitDecided, known: Mapping[str, Decision]
) -> WaitDecided:
    kind = layout.parse_wait_id(event.wait_id).kind
    if not WAIT_RULES[kind].has_object:
        return event
    decision = known.get(event.wait_id)
    if decision is None and objects is not None:
        decision = await read_decision(objects, event.wait_id)
    if decision is None:
        return event
    return replace(event, kind=decision.kind, by=decision.by)


def check_version(value: object, name: str) -> int:
    """Return the number of a version; raises `InvalidInput`."""
    if type(value) is int:
        return value
    msg = f"{name} must be an integer, got {type(value).__name__}."
    raise InvalidInput(f"{msg} Pass the number of a version, from 1.")


async def read_history(
    objects: Objects, run_id: str, after: int
) -> AsyncIterator[list[run_past.RunVersion]]:
    """Iterate over the versions of a run in lists of one, the oldest first.

    Each version costs one read, and each decision one more. A version that a repair
    gave up is left out.

    Args:
        objects: The store.
        run_id: Id of the run.
        after: Only versions with a larger number.

    Raises:
        RunNotFound, RunErased: The store does not have the run.
        InvalidInput: The run has fewer versions than `after`.
        Corrupt, FormatError: A version or a decision cannot be read.
        StoreError: The store failed.
    """
    versions, walk = Versions(objects, run_id), VersionWalk(objects, run_id)
    newest = await versions.newest_number()
    if newest == 0:
        raise versions.run_not_found_error()
    if not 0 <= after <= newest:
        msg = (
            f"after must be a number from 0 to {newest}, got {after}: run {run_id} has "
            f"{newest} versions. Pass the number of a version, or 0 for all."
        )
        raise InvalidInput(msg, run_id=run_id)
    await walk.go_to(after)
    while walk.number < newest:
        step = await walk.next_step(exists=True)
        if step is not None:
            yield [await _version_of(objects, step)]


async def _version_of(objects: Objects, step: WalkStep) -> run_past.RunVersion:
    state = step.after
    events = events_between(step.before, state, version=step.number, at=step.at)
    claim = state.run.claim or (step.before and step.before.run.claim)
    waits = sorted(map(withheld, state.waits.values()), key=Wait.sort_key)
    return run_past.RunVersion(
        number=step.number,
        at=step.at,
        status=state.run.status,
        worker=claim.worker if claim else None,
        events=tuple(await with_deciders(objects, events, {})),
        waits=tuple(waits),
    )


async def read_difference(
    objects: Objects, run_id: str, before: int, after: int
) -> run_past.RunDifference:
    """Return the differences between two versions, with the decisions of ended waits.

    Raises:
        RunNotFound: The store has no such run or version.
        RunErased: The run was erased.
        Corrupt, FormatError: A version or a decision cannot be read.
        StoreError: The store failed.
    """
    versions = Versions(objects, run_id)
    first, second = await versions.load(before), await versions.load(after)
    for loaded in (first, second):
        loaded.state.read_messages()
    found = difference(first.state, second.state, numbers=(before, after))
    waits = await gather(*(_with_decision(objects, each) for each in found.waits))
    return replace(found, waits=tuple(waits))


async def _with_decision(
    objects: Objects, found: run_past.WaitDifference
) -> run_past.WaitDifference:
    if found.change == "added" or not found.wait.rules.has_object:
        return found
    return replace(found, decision=await read_decision(objects, found.wait.id))


# A page shows the past in windows of so many versions, so that its cost has a limit.
MAX_VERSIONS = 200


async def read_window(
    objects: Objects,
    run_id: str,
    *,
    version: int | None = None,
    limit: int = MAX_VERSIONS,
) -> run_past.VersionWindow:
    """Return the last versions of a run, or those that end with a version.

    Costs a listing, a read for each version, at most log2(versions) + 1 reads for the
    state before them, and a read for each decision in them.

    Args:
        objects: The store.
        run_id: Id of the run.
        version: Number of the last version of the window. Default: the newest one.
        limit: The largest number of versions.

    Raises:
        RunNotFound, RunErased: The store does not have the run or the version.
        Corrupt, FormatError: A version or a decision cannot be read.
        StoreError: The store failed.
    """
    versions = Versions(objects, run_id)
    newest = await versions.newest_number()
    if newest == 0:
        raise versions.run_not_found_error()
    last = newest if version is None else version
    if not 1 <= last <= newest:
        await versions.load(last)  # it raises `RunNotFound`
    first = max(1, last - limit + 1)
    objects = await _read_ahead(objects, run_id, range(first, last + 1))
    walk = VersionWalk(objects, run_id)
    await walk.go_to(first - 1)
    before = walk.state
    steps: list[run_past.VersionEvents] = []
    while walk.number < last or not steps:
        step = await walk.next_step(exists=True)
        if step is None:
            break
        found = events_between(step.before, step.after, version=step.number, at=step.at)
        events = tuple(await with_deciders(objects, found, {}))
        steps.append(
            run_past.VersionEvents(
                number=step.number, at=step.at, run=step.after.run, events=events
            )
        )
    state = walk.state
    if state is None:
        raise versions.run_not_found_error()
    # Meanwhile a repair may have led the walk to later versions.
    return run_past.VersionWindow(
        before=before,
        versions=tuple(steps),
        state=state,
        newest_number=max(newest, walk.number),
    )


async def _read_ahead(
    objects: Objects, run_id: str, numbers: Sequence[int]
) -> ObjectsReadAhead:
    """Read versions at the same time; one that cannot be read is read again later."""
    bodies: dict[str, bytes] = {}
    keys = [layout.version_key(run_id, number) for number in numbers]
    for part in in_batches(keys):
        found = await gather_all(read_if_possible(objects, key) for key in part)
        pairs = zip(part, found, strict=True)
        bodies.update((key, body) for key, body in pairs if body is not None)
    return ObjectsReadAhead(objects, bodies)
