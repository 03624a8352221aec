"""One listing of a run: its arrivals, its cancel request and its newest version."""

from __future__ import annotations

from datetime import datetime

import pytest

from continuations.errors import Corrupt
from continuations.ledger import layout
from continuations.ledger.arrivals.inbox import record_cancel_request
from continuations.ledger.index.run_overview import (
    RunOverview,
    RunProgress,
    read_overview,
    read_progress,
)
from continuations.ledger.objects import Objects
from continuations_storage import MemoryStore
from continuations_storage.contract import Page
from tests.ledger.fake_clock import MOMENT
from tests.ledger.runs import (
    RUN,
    make_cancel_request,
    make_objects,
    make_wait,
    store_suspended_run,
)


class TimedListingStore(MemoryStore):
    """A store that returns its time, and counts its listings."""

    listings = 0

    async def keys(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        self.listings += 1
        page = Page(await super().keys(prefix, after, limit))
        page.store_time = MOMENT
        return page


async def test_overview_of_a_missing_run_is_empty() -> None:
    seen = await read_overview(make_objects(), RUN)

    assert RunOverview(newest_number=0, arrival_keys=(), store_time=None) == seen
    missing = RunProgress(newest_number=0, may_be_cancelled=True, has_requests=True)
    assert missing == await read_progress(make_objects(), RUN)


@pytest.mark.parametrize("came", [0, 1, 99])
async def test_overview_of_a_missing_run_costs_one_listing(came: int) -> None:
    """A page that is not full is complete."""
    store = TimedListingStore()
    for number in range(came):
        await store.create(layout.numbered_key(layout.MESSAGE, RUN, number + 1), b"")

    seen = await read_overview(Objects(store), RUN)

    assert (0, came, 1) == (
        seen.newest_number,
        len(seen.arrival_keys or ()),
        store.listings,
    )


@pytest.mark.parametrize("came", [0, 1, 98, 99, 100, 101, 2500])
async def test_overview_holds_all_arrivals_and_the_newest_version(came: int) -> None:
    """One request is enough if one page holds all keys."""
    store = TimedListingStore()
    objects = Objects(store)
    await store_suspended_run(objects, make_wait())
    messages = [
        layout.numbered_key(layout.MESSAGE, RUN, number + 1) for number in range(came)
    ]
    for key in messages:
        await store.create(key, b"")
    # Runs whose ids sort before and after
    for other in (f"{RUN}-", f"{RUN}.x", f"{RUN}0"):
        await store.create(layout.numbered_key(layout.MESSAGE, other, 1), b"")
        await store.create(layout.version_key(other, 9), b"")
    store.listings = 0

    seen = await read_overview(objects, RUN)

    reading: datetime | None = MOMENT
    assert (
        RunOverview(newest_number=1, arrival_keys=tuple(messages), store_time=reading)
        == seen
    )
    assert (1 if came < 100 else 3 + came // 1000) == store.listings


@pytest.mark.parametrize("foreign_keys", [[], ["stop0", "zzz"], ["n1", "o"], ["n1"]])
@pytest.mark.parametrize("cancelled", [False, True])
async def test_overview_after_claim_holds_cancel_request_and_newest_version(
    foreign_keys: list[str], *, cancelled: bool
) -> None:
    """Foreign keys do not hide a cancel request."""
    store = TimedListingStore()
    objects = Objects(store)
    await store_suspended_run(objects, make_wait())
    await store.create(layout.numbered_key(layout.MESSAGE, RUN, 1), b"")
    await store.create(layout.version_key(RUN, 7), b"")
    if cancelled:
        await record_cancel_request(objects, RUN, make_cancel_request())
    for name in foreign_keys:
        await store.create(layout.arrivals_prefix(RUN) + name, b"")
    store.listings = 0

    progress = await read_progress(objects, RUN)

    assert 7 == progress.newest_number
    if len(foreign_keys) <= 1:
        assert cancelled == progress.may_be_cancelled
    assert progress.may_be_cancelled or not cancelled
    assert store.listings <= 2


async def test_foreign_key_among_versions_is_named(objects: Objects) -> None:
    await store_suspended_run(objects, make_wait())
    await objects.create(f"{layout.versions_prefix(RUN)}0readme", b"")

    for look in (read_overview, read_progress):
        with pytest.raises(Corrupt, match="0readme"):
            await look(objects, RUN)
