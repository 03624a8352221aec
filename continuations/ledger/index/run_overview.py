"""The newest version number and the arrivals of a run, from one listing."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from continuations.errors import StoreError
from continuations.ledger import layout
from continuations.ledger.objects import NotFound, Objects, gather_all
from continuations.ledger.versions import Versions
from continuations.value_class import dataclass
from continuations_storage.contract import Listing, Page

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime


# A request costs the same for each page size, but a long reply takes longer to read.
_PAGE_LIMIT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOverview:
    """The result of one listing of a run.

    Attributes:
        newest_number: The number of the newest version; 0 if the run does not exist.
        arrival_keys: The keys of all decisions and inbox messages, and of the cancel
            request, also those that the run has processed. `None` for a thread, which
            keeps too many.
        store_time: The store's own time, or `None`.
        bodies: The newest version and one decision, if the store read them with the
            listing.
    """

    newest_number: int
    arrival_keys: tuple[str, ...] | None
    store_time: datetime | None
    bodies: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """The newest version's number, and whether operators asked for something.

    `may_be_cancelled` is a hint: if it is True, read the cancel request to be sure.
    If it is False, no cancel request existed at the time of the listing. In the same
    way, `has_requests` tells of the numbered requests of operators.
    """

    newest_number: int
    may_be_cancelled: bool
    has_requests: bool = False


def overview_listing(run_id: str) -> Listing:
    """Return the listing from which `read_overview` makes an overview."""
    if has_thread_id(run_id):
        return Listing(layout.versions_prefix(run_id), limit=1)
    return Listing(layout.run_prefix(run_id), limit=_PAGE_LIMIT)


async def read_overview(
    objects: Objects,
    run_id: str,
    page: list[str] | None = None,
    *,
    with_bodies: bool = False,
) -> RunOverview:
    """Read the overview of a run with one listing; a long list takes a few.

    `page` is the listing, if it was made before. `with_bodies` is for a caller that
    reads the newest version next.
    """
    is_thread = has_thread_id(run_id)
    if page is None and is_thread and objects.lists_whole_folders:
        newest = await Versions(objects, run_id).number_after_kept()
        return RunOverview(newest_number=newest, arrival_keys=None, store_time=None)
    arrivals = layout.arrivals_prefix(run_id)
    if not page:
        page = await objects.listed(
            overview_listing(run_id),
            first_of=layout.versions_prefix(run_id) if with_bodies else "",
            # The decision of the wait that was opened last is the likeliest new one.
            last_of="" if is_thread else f"{arrivals}d-",
        )
    listed = page if isinstance(page, Page) else Page(page)
    newest = layout.newest_version_number(page, run_id)
    if is_thread:
        return RunOverview(
            newest_number=newest,
            arrival_keys=None,
            store_time=listed.store_time,
            bodies=listed.bodies,
        )
    if newest == 0 and len(page) == _PAGE_LIMIT:
        newest = await Versions(objects, run_id).newest_number()
        page = [key async for key in objects.all_keys(arrivals)]
    arrival_keys = tuple(key for key in page if key.startswith(arrivals))
    return RunOverview(
        newest_number=newest,
        arrival_keys=arrival_keys,
        store_time=listed.store_time,
        bodies=listed.bodies,
    )


def has_thread_id(run_id: str) -> bool:
    """Return whether an id has the form that only runs of threads have."""
    return run_id.startswith("t-") and layout.is_thread_id(run_id)


def progress_listing(run_id: str, last_operator_number: int) -> Listing:
    """Return the listing from which `read_progress` makes its result."""
    after = layout.numbered_key(layout.OPERATOR_REQUEST, run_id, last_operator_number)
    return Listing(layout.run_prefix(run_id), after, limit=2)


async def read_progress(
    objects: Objects,
    run_id: str,
    last_operator_number: int = 0,
    page: list[str] | None = None,
) -> RunProgress:
    """Read in one request whether a run changed since a worker's last version.

    A worker has taken in the requests of operators up to `last_operator_number`. `page`
    is the listing, if it was made before.
    """
    if page is None and objects.lists_whole_folders and has_thread_id(run_id):
        number = last_operator_number + 1
        next_request = layout.numbered_key(layout.OPERATOR_REQUEST, run_id, number)
        return RunProgress(
            newest_number=await Versions(objects, run_id).number_after_kept(),
            may_be_cancelled=await objects.exists(layout.cancel_request_key(run_id)),
            has_requests=await objects.exists(next_request),
        )
    listing = progress_listing(run_id, last_operator_number)
    page = page or await objects.listed(listing)
    newest = layout.newest_version_number(page, run_id)
    if newest == 0:
        # Requests of operators, or foreign keys, hide the version. They may hide the
        # cancel request as well.
        newest = await Versions(objects, run_id).newest_number()
        return RunProgress(
            newest_number=newest, may_be_cancelled=True, has_requests=True
        )
    cancelled = layout.cancel_request_key(run_id) in page
    has_requests = any(layout.number_in(layout.OPERATOR_REQUEST, key) for key in page)
    return RunProgress(
        newest_number=newest, may_be_cancelled=cancelled, has_requests=has_requests
    )


_FIRST_VERSION_AFTER_A_DECISION = 3


class ObjectsReadAhead(Objects):
    """The verbs of a store, with some bodies at hand."""

    def __init__(self, objects: Objects, bodies: Mapping[str, bytes]) -> None:
        super().__init__(objects.store)
        self.recent_versions = objects.recent_versions
        self._bodies = bodies

    async def read(self, key: str) -> bytes:
        """Return an object; raises `NotFound`."""
        body = self._bodies.get(key)
        return await super().read(key) if body is None else body


async def read_ahead(
    objects: Objects, overview: RunOverview, keys: Sequence[str]
) -> ObjectsReadAhead:
    """Read some bodies at the same time; return them with those of an overview.

    A body that cannot be read now is left out, and is read again when it is needed.
    """
    read = await gather_all(read_if_possible(objects, key) for key in keys)
    found = {k: body for k, body in zip(keys, read, strict=True) if body is not None}
    return ObjectsReadAhead(objects, {**overview.bodies, **found})


def unread_decision_keys(
    objects: Objects, run_id: str, overview: RunOverview
) -> list[str]:
    """Return the keys of the decisions that are new for certain and were not read."""
    keys = _new_decision_keys(objects, run_id, overview)
    return [key for key in keys if key not in overview.bodies]


def _new_decision_keys(
    objects: Objects, run_id: str, overview: RunOverview
) -> list[str]:
    decided = {
        wait_id: key
        for key in overview.arrival_keys or ()
        if (wait_id := layout.decided_wait_id(key, run_id)) is not None
    }
    if overview.newest_number < _FIRST_VERSION_AFTER_A_DECISION:
        return list(decided.values())
    kept = objects.recent_versions.newest(run_id)
    if kept is None or kept.number != overview.newest_number:
        return []
    return [key for wait_id, key in decided.items() if wait_id in kept.state.waits]


async def read_if_possible(objects: Objects, key: str) -> bytes | None:
    """Return an object, or `None` if it cannot be read now."""
    try:
        return await objects.read(key)
    except (NotFound, StoreError):
        return None
