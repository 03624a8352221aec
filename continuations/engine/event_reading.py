"""Read the events of a run from its versions, and follow a run that goes on."""

from __future__ import annotations

import re
from asyncio import gather
from typing import TYPE_CHECKING, NamedTuple

from continuations.core.reading.run_stream import StreamEvent, WaitDecided
from continuations.core.reading.run_stream_diff import events_between
from continuations.core.rows.wait_rules import WAIT_RULES
from continuations.errors import InvalidInput
from continuations.ledger import layout
from continuations.ledger.arrivals.recorded_decisions import read_decision
from continuations.ledger.version_walk import VersionWalk
from continuations.ledger.versions import Versions
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from continuations.core.rows.decisions import Decision
    from continuations.core.rows.state import RunState
    from continuations.engine.ports import Sleep
    from continuations.ledger.objects import Objects

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
