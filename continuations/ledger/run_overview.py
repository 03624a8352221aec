"""What one listing shows of a run: its newest version, and all that came to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from continuations.ledger import layout
from continuations.ledger.versions import Versions
from continuations_storage.contract import Page

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.ledger.objects import Objects

# A listing costs the same however much it shows, but reading its answer does not.
_PAGE_LIMIT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOverview:
    """`newest` is 0 for a run that is not there; `told` is the store's own time.

    `arrived` are the keys of everything that ever came to the run from outside.
    """

    newest_number: int
    arrival_keys: tuple[str, ...]
    store_time: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """The newest version's number, and whether a cancel request may exist.

    `may_be_cancelled` is a hint: if it is True, read the cancel request to be sure.
    If it is False, no cancel request existed at the time of the listing.
    """

    newest_number: int
    may_be_cancelled: bool


async def read_overview(objects: Objects, run_id: str) -> RunOverview:
    """Look at a run in one request, or in a few if very much came to it."""
    page = await objects.keys(layout.run_prefix(run_id), limit=_PAGE_LIMIT)
    told = page.store_time if isinstance(page, Page) else None
    newest = layout.newest_version_number(page, run_id)
    arrivals = layout.arrivals_prefix(run_id)
    if newest == 0 and len(page) == _PAGE_LIMIT:
        newest = await Versions(objects, run_id).newest_number()
        page = [key async for key in objects.all_keys(arrivals)]
    arrived = tuple(key for key in page if key.startswith(arrivals))
    return RunOverview(newest_number=newest, arrival_keys=arrived, store_time=told)


async def read_progress(objects: Objects, run_id: str) -> RunProgress:
    """Read in one request whether a run changed since a worker's last version."""
    after = layout.key_before_cancel_request(run_id)
    page = await objects.keys(layout.run_prefix(run_id), after, limit=2)
    newest = layout.newest_version_number(page, run_id)
    if newest == 0:
        # Foreign keys sort between the two, and may hide the cancel request as well.
        newest = await Versions(objects, run_id).newest_number()
        return RunProgress(newest_number=newest, may_be_cancelled=True)
    cancelled = layout.cancel_request_key(run_id) in page
    return RunProgress(newest_number=newest, may_be_cancelled=cancelled)
