"""Commit a version of a run, then publish what follows from it: waits and markers."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from continuations.authoring import callables
from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.rows.waits import Wait, waits_for_events, withheld
from continuations.engine.side_task import with_side_task
from continuations.errors import ContinuationsError, StoreError
from continuations.ledger import layout, markers
from continuations.ledger.arrivals.arrivals import (
    NO_ARRIVALS,
    Arrivals,
    read_arrivals,
)
from continuations.ledger.arrivals.recorded_decisions import list_decided_wait_ids
from continuations.ledger.index import run_index, waits
from continuations.ledger.index.run_overview import overview_listing, read_overview
from continuations.ledger.objects import Objects, gather_all, gather_outcomes
from continuations.ledger.store_clock import StoreClock
from continuations.ledger.versions import Together
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from continuations.core.rows.state import RunState
    from continuations.engine.journal.journal import StoreJournal
    from continuations.engine.ports import Notify, Ports
    from continuations.ledger.versions import LoadedVersion

_log = logging.getLogger("continuations")


async def publish_waits(objects: Objects, new_waits: Iterable[Wait]) -> None:
    """Create the markers and the objects of the waits that a version names."""
    new_waits = tuple(new_waits)
    keys = _first_marker_keys(new_waits)
    await gather_all(markers.create_key(objects, key) for key in keys)
    await waits.create(objects, _with_objects(new_waits))


def _first_marker_keys(new_waits: Iterable[Wait]) -> list[str]:
    return [marker.key for wait in new_waits for marker in markers.first_markers(wait)]


def _with_objects(some_waits: Iterable[Wait]) -> Iterable[Wait]:
    return (wait for wait in some_waits if wait.rules.has_object)


async def look_back(objects: Objects, ports: Ports, new_waits: Iterable[Wait]) -> None:
    """Let waits that were opened take events that were published before.

    The waits are listed for publishers already. A worker that dies before leaves the
    marker of its version, and the next process looks back.
    """
    waiting = waits_for_events(new_waits)
    if not waiting:
        return
    from continuations.ledger.published_events import EventDelivery  # noqa: PLC0415 - rare

    clock = ports.clock
    delivery = EventDelivery(
        objects, StoreClock(clock), lambda: ports.ids.new_ulid(clock.now())
    )
    await delivery.look_back(waiting)


async def notify_waits(notify: Notify | None, new_waits: Iterable[Wait]) -> None:
    """Call `notify` with each wait that asks a person; log what it raises.

    The waits are stored already, so a failed notification loses nothing.
    """

    async def notify_one(notify: Notify, wait: Wait) -> None:
        try:
            await callables.call(notify, withheld(wait))
        except BaseException as error:
            if callables.is_task_cancellation(error):
                raise
            _log.exception("wait %s is stored, but notify raised", wait.id)

    if notify is not None:
        asked = (wait for wait in new_waits if wait.rules.asks_person)
        await asyncio.gather(*(notify_one(notify, wait) for wait in asked))


async def publish_again(
    objects: Objects, notify: Notify | None, state: RunState
) -> None:
    """Publish the open waits of a version, and call `notify` for each.

    For a version whose marker is left: its worker stopped before it deleted the marker,
    and perhaps before it notified. A wait may be notified twice; the notifications of
    one wait have one id.
    """
    open_waits = tuple(state.waits.values())
    await publish_waits(objects, open_waits)
    # A decision may have deleted the object of its wait before.
    await waits.recreate_missing(objects, open_waits)
    await notify_waits(notify, open_waits)


async def send_notices_again(
    objects: Objects, ports: Ports, newest: LoadedVersion, left: Iterable[str]
) -> None:
    """Send the notices of a version whose worker stopped before it deleted its markers.

    Args:
        objects: The store.
        ports: The notifier.
        newest: The newest version.
        left: The keys of the markers that are left. The version before that worker
            needs them all.
    """
    if ports.on_notice is None:
        return
    from continuations.engine.journal import notice_sending  # noqa: PLC0415 - few listeners

    found = filter(None, map(layout.parse_marker, left))
    notices = await notice_sending.read_notices(objects, newest, found)
    await notice_sending.send_notices(objects, ports, notices, {})


def _unneeded_markers(
    journal: StoreJournal, arrived: Arrivals, closed: Sequence[Wait]
) -> list[str]:
    """Return the keys of markers that the version of a worker makes unnecessary."""
    ended = (*closed, *map(arrived.current, closed))
    keys = {
        *arrived.marker_keys(journal.run_id),
        *(marker.key for wait in ended for marker in markers.last_markers(wait)),
        *journal.release_markers,
        *journal.dead_guards,
        journal.guard_key or "",
    }
    return sorted(key for key in keys if key)


def _new_and_published_waits(
    before: RunState, state: RunState
) -> tuple[list[Wait], list[Wait]]:
    """Return the waits that no worker has published, and the other ones.

    The waits of a version that claims the run count as new: its worker died.
    """
    died = before.run.status == "running"
    published: Mapping[str, Wait] = {} if died else before.waits
    new = [wait for key, wait in state.waits.items() if key not in published]
    return new, [wait for key, wait in state.waits.items() if key in published]


@dataclass(frozen=True, slots=True)
class Publisher:
    """Commits versions without a claim, and publishes what follows from them."""

    objects: Objects
    ports: Ports

    async def commit_and_publish(
        self,
        journal: StoreJournal,
        before: RunState,
        state: RunState,
        arrived: Arrivals,
    ) -> Arrivals:
        """Commit a state without a claim, then publish what follows from it.

        The order is: the version; the wait objects and deadline markers that it names;
        a look at earlier events; the notifications; the keys of the index. Then come
        the deletion of ended waits, a look at new arrivals, and the deletion of
        markers. A crash between two steps leaves a due marker, and a sweep does the
        rest.

        A store that `commits` makes the creates in one request. Without a notification
        in between, the same request does the rest.

        Returns:
            The decisions, messages and cancel request that arrived in the meantime.
        """
        new, _ = _new_and_published_waits(before, state)
        closed = [wait for key, wait in before.waits.items() if key not in state.waits]
        decided = [layout.wait_key(wait_id) for wait_id in arrived.decisions]
        is_ended = state.run.status in ENDED_STATUSES
        if self.objects.commits:
            await journal.ensure_guarded()
            at = self.ports.clock.now()
            together = self._together(journal, state, arrived, new, closed, at)
            await journal.commit_and_release(state, together, at=at)
            if journal.is_cleaned and is_ended:
                return NO_ARRIVALS
            cleaned = journal.is_cleaned or await self._delete(journal.run_id, decided)
        else:
            cleaned = await self._release_and_delete(journal, state, decided)
            await publish_waits(self.objects, new)
        await look_back(self.objects, self.ports, new)
        await self._notify(journal, new, arrived)
        indexed = await self._index(journal)
        arrived_since = NO_ARRIVALS
        if not is_ended:
            try:
                arrived_since = await self._look(journal)
            except StoreError as error:
                # The outcome is stored. All markers stay, so a sweep looks again.
                _log.warning("run %s: no look at its arrivals: %s", state.run.id, error)
                journal.keeps_markers = True
                return arrived_since
        # A process that read the version may decide before the wait object exists.
        listed = () if journal.is_cleaned else _with_objects(closed)
        done = {*(wait.id for wait in listed), *arrived_since.decisions}
        keys = [layout.wait_key(each) for each in sorted(done - {*arrived.decisions})]
        if not (await self._delete(journal.run_id, keys) and cleaned and indexed):
            journal.keeps_markers = True
        elif not journal.is_cleaned:
            await self.delete_markers(journal, arrived, closed)
        return arrived_since

    async def _release_and_delete(
        self, journal: StoreJournal, state: RunState, decided: Sequence[str]
    ) -> bool:
        """Commit a state without a claim; return whether these objects are deleted.

        They are those of waits whose decisions are recorded, so they may go before the
        version.
        """
        release = journal.commit_and_release(state)
        if not decided:
            await release
            return True
        _, cleaned = await with_side_task(
            release, self._delete(journal.run_id, decided)
        )
        return cleaned

    def _together(
        self,
        journal: StoreJournal,
        state: RunState,
        arrived: Arrivals,
        new: Sequence[Wait],
        closed: Sequence[Wait],
        at: datetime,
    ) -> Together:
        """Return what a store changes together with a version without a claim."""
        creates = {
            **journal.index_bodies(state),
            **dict.fromkeys(_first_marker_keys(new), b""),
            **waits.bodies(_with_objects(new)),
        }
        if journal.notices is not None or waits_for_events(new):
            return Together(creates=creates)
        if self.ports.notify is not None and any(w.rules.asks_person for w in new):
            return Together(creates=creates)
        done = {*arrived.decisions, *(wait.id for wait in _with_objects(closed))}
        deletes = [
            *map(layout.wait_key, sorted(done)),
            *_unneeded_markers(journal, arrived, closed),
        ]
        run, listing = state.run, None
        if run.status in ENDED_STATUSES:
            keys = run_index.keys_of_ended(run, at, with_labels=journal.must_index)
            creates |= dict.fromkeys(keys, b"")
            deletes.append(run_index.live_key(run.id))
        else:
            listing = overview_listing(run.id)
        return Together(creates=creates, listing=listing, deletes=tuple(deletes))

    async def _notify(
        self, journal: StoreJournal, new: Iterable[Wait], arrived: Arrivals
    ) -> None:
        """Notify of new waits, and send the notices of the versions of this worker."""
        await notify_waits(self.ports.notify, new)
        if journal.notices is None:
            return
        from continuations.engine.journal import notice_sending  # noqa: PLC0415 - few listeners

        found, known = journal.notices, arrived.decisions
        await notice_sending.send_notices(self.objects, self.ports, found, known)

    async def announce_moved(self, state: RunState, moved: Iterable[Wait]) -> None:
        """Tell people about waits with new approvers and a new deadline.

        The marker of the old deadline goes last. So after a crash a sweep tells them.
        """
        moved = tuple(moved)
        await notify_waits(self.ports.notify, moved)
        old = filter(
            None, (markers.deadline_marker(state.waits[wait.id]) for wait in moved)
        )
        await self._delete(state.run.id, [marker.key for marker in old])

    async def release_unfinished(
        self,
        journal: StoreJournal,
        before: RunState,
        state: RunState,
        arrived: Arrivals,
        *,
        retry_now: bool,
    ) -> None:
        """Commit a run that can go on without a claim, and publish its new waits.

        One marker says when to go on, and the version names it. So the worker that ends
        the run deletes it.
        """
        await journal.make_retry_marker(now=retry_now)
        await journal.commit_and_release(state)
        new, published = _new_and_published_waits(before, state)
        await publish_waits(self.objects, new)
        await waits.recreate_missing(self.objects, published)
        await look_back(self.objects, self.ports, new)
        await self._notify(journal, new, arrived)
        closed = [wait for key, wait in before.waits.items() if key not in state.waits]
        if await self._delete(
            journal.run_id,
            [layout.wait_key(wait.id) for wait in _with_objects(closed)],
        ):
            await self.delete_markers(journal, arrived, closed)
        else:
            journal.keeps_markers = True

    async def finish_publishing(self, loaded: LoadedVersion) -> None:
        """Publish a suspended version again if the marker that guards it is left.

        Not if another process stored a newer version meanwhile: its waits may be
        decided, and after a rewind no marker would lead to their objects.
        """
        guards = [
            key for key in loaded.marker_keys if not layout.is_release_marker(key)
        ]
        listed = await asyncio.gather(
            *(self.objects.keys(key, limit=1) for key in guards)
        )
        left = [key for page in listed for key in page]
        if not left or not loaded.state.waits:
            return
        if not await run_index.mend(self.objects, loaded):
            return
        await publish_again(self.objects, self.ports.notify, loaded.state)
        await send_notices_again(self.objects, self.ports, loaded, left)
        await look_back(self.objects, self.ports, loaded.state.waits.values())
        run_id = loaded.state.run.id
        decided = await list_decided_wait_ids(self.objects, run_id)
        if await self._delete(run_id, list(map(layout.wait_key, decided))):
            await self._delete(run_id, left)

    async def delete_markers(
        self, journal: StoreJournal, arrived: Arrivals, closed_waits: Iterable[Wait]
    ) -> None:
        """Delete the markers that the committed version makes unnecessary."""
        keys = _unneeded_markers(journal, arrived, tuple(closed_waits))
        await self._delete(journal.run_id, keys)

    async def _look(self, journal: StoreJournal) -> Arrivals:
        """Return what has arrived since the worker's version.

        Raises `RunErased` if the run was erased. Then its waits are not listed.
        """
        assert journal.loaded is not None  # noqa: S101 - it was just committed
        overview = await read_overview(self.objects, journal.run_id, journal.page)
        if overview.newest_number != journal.version_number:
            await run_index.withdraw_if_over(self.objects, journal.loaded)
        state, keys = journal.loaded.state, overview.arrival_keys
        return await read_arrivals(self.objects, state, keys)

    async def _index(self, journal: StoreJournal) -> bool:
        """List a run that ended; return whether all keys of the index are right."""
        version = journal.loaded
        assert version is not None  # noqa: S101 - it was just committed
        if version.state.run.status not in ENDED_STATUSES:
            return not journal.must_index
        try:
            with_labels = journal.must_index
            await run_index.move_to_ended(
                self.objects, version, with_labels=with_labels
            )
        except StoreError as error:
            # All markers stay, so a sweep writes the keys.
            _log.warning("run %s is not in the index yet: %s", journal.run_id, error)
            return False
        return True

    async def _delete(self, run_id: str, keys: Sequence[str]) -> bool:
        """Delete objects that are done; return whether all are deleted.

        An error is logged and changes no outcome: the version is committed, or its
        commit raises. A sweep deletes what is left, because its marker is left too.
        """
        results = await gather_outcomes(map(self.objects.delete, keys))
        errors = [each for each in results if isinstance(each, BaseException)]
        for error in errors:
            if not isinstance(error, ContinuationsError):
                raise error
        if errors:
            _log.warning(
                "run %s: %s of its wait objects and markers that are done could not be "
                "deleted, and a later sweep will delete them: %s",
                run_id,
                len(errors),
                errors[0],
            )
        return not errors
