"""Bugs of the writes that follow a version: wait objects, notifications, ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core.rows.run import ENDED_STATUSES
from continuations.engine.journal import publishing
from continuations.engine.journal.publishing import Publisher
from continuations.engine.journal.run_ending import RunEnder
from continuations.engine.sweep import sweeping
from continuations.ledger import layout
from continuations.ledger.arrivals import inbox
from continuations.ledger.arrivals.recorded_decisions import list_decided_wait_ids
from continuations.ledger.index import waits
from continuations.ledger.objects import Objects
from tests.simulation.mutants.conditions import two_cancellers_die
from tests.simulation.mutants.mutant import gives_back, mutant, patch, returns, skip

if TYPE_CHECKING:
    from continuations.core.rows.state import RunState
    from continuations.engine.ports import Notify
    from continuations.wire.arrivals import CancelRequest
    from tests.simulation.mutants.mutant import Original, Patches

_WAITS_STAY_OPEN = (
    "ended_by_its_decision",
    "ended_run_leaves_no_keys",
    "listed_waits_are_open",
    "one_decision",
    "refused_never_runs",
)


# A version precedes the objects that follow from it ---------------------------------


@mutant("listed_waits_are_open", "one_decision", "notified_after_commit")
def waits_are_listed_before_their_version() -> Patches:
    """Wait objects are created before the version that opens the waits."""

    async def commit_and_publish(
        original: Original, self: Publisher, before: RunState, state: RunState
    ) -> Any:
        new = [wait for key, wait in state.waits.items() if key not in before.waits]
        await publishing.publish_waits(self.objects, new)
        return await original()

    yield patch(Publisher.commit_and_publish, commit_and_publish)


@mutant("notified_after_commit")
def notification_precedes_the_version() -> Patches:
    """A wait is notified before the version that opens it is committed."""

    async def commit_and_publish(
        original: Original, self: Publisher, before: RunState, state: RunState
    ) -> Any:
        new = [wait for key, wait in state.waits.items() if key not in before.waits]
        await publishing.notify_waits(self.ports.notify, new)
        return await original()

    yield patch(Publisher.commit_and_publish, commit_and_publish)


@mutant("listed_waits_are_open", "ended_run_leaves_no_keys")
def wait_object_is_not_deleted() -> Patches:
    """A wait object is not deleted when its wait is over."""

    async def delete(original: Original, key: str) -> None:
        if not key.startswith(layout.WAITS_PREFIX):
            await original()

    yield patch(Objects.delete, delete)


@mutant("listed_waits_are_open", "ended_run_leaves_no_keys")
def a_decided_wait_is_announced_again() -> Patches:
    """A wait object is created again without a check whether the wait was decided."""
    yield patch(waits.recreate_missing, waits.create)
    yield returns(list_decided_wait_ids, [], only_in=(sweeping,))


@mutant("listed_waits_are_open", "no_run_stranded")
def missing_wait_objects_are_not_recreated() -> Patches:
    """Wait objects that a crash prevented are never created."""

    async def publish_again(notify: Notify | None, state: RunState) -> None:
        await publishing.notify_waits(notify, state.waits.values())

    yield skip(waits.recreate_missing)
    yield patch(publishing.publish_again, publish_again)


@mutant("open_waits_are_notified")
def waits_of_a_dead_worker_are_not_notified() -> Patches:
    """A wait whose worker died before it could notify is never notified."""

    async def publish_again(objects: Objects, state: RunState) -> None:
        await publishing.publish_waits(objects, state.waits.values())
        await waits.recreate_missing(objects, state.waits.values())

    yield patch(publishing.publish_again, publish_again)


# Cancellation -----------------------------------------------------------------------


@mutant(*_WAITS_STAY_OPEN)
def waits_of_an_ended_run_stay_open() -> Patches:
    """The waits of a cancelled run stay open."""
    yield gives_back(RunEnder.close_waits_if_ended, "after")


@mutant(*_WAITS_STAY_OPEN)
def waits_of_an_ended_run_are_closed_after_its_end() -> Patches:
    """The waits of a cancelled run are closed after its last version."""
    close_waits = RunEnder.close_waits_if_ended

    async def commit_and_publish(
        original: Original, self: Publisher, before: RunState, state: RunState
    ) -> Any:
        later = await original()
        if state.run.status in ENDED_STATUSES:
            await close_waits(RunEnder(self.objects, self.ports), before, state)
        return later

    yield gives_back(RunEnder.close_waits_if_ended, "after")
    yield patch(Publisher.commit_and_publish, commit_and_publish)


@mutant("no_run_stranded", condition=two_cancellers_die)
def a_second_cancellation_removes_the_first_ones_marker() -> Patches:
    """The second cancel request deletes the marker of the first."""

    async def record_cancel_request(
        original: Original, objects: Objects, request: CancelRequest
    ) -> Any:
        first = await original()
        if first.id != request.id and first.marker is not None:
            await objects.delete(first.marker)
        return first

    yield patch(inbox.record_cancel_request, record_cancel_request)
