"""What one listing shows of a run: all that came, its end, its newest version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from continuations.errors import Corrupt
from continuations.ledger import layout
from continuations.ledger.glance import Glance, glance, glance_after_claim
from continuations.ledger.inbox import cancel
from continuations.ledger.objects import Objects
from continuations_storage import MemoryStore
from continuations_storage.contract import Page
from tests.ledger.machine import MOMENT
from tests.ledger.runs import RUN, a_wait, does, objects, suspended_at
from tests.ledger.test_arrivals import wish

if TYPE_CHECKING:
    from datetime import datetime


class Telling(MemoryStore):
    """A store that says when it listed, and counts its listings."""

    listings = 0

    async def keys(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        self.listings += 1
        page = Page(await super().keys(prefix, after, limit))
        page.told = MOMENT
        return page


def test_a_run_that_is_not_there_has_nothing() -> None:
    async def story() -> None:
        seen = await glance(objects(), RUN)

        assert Glance(newest=0, arrived=(), told=None) == seen
        assert (0, True) == await glance_after_claim(objects(), RUN)

    does(story())


@pytest.mark.parametrize("came", [0, 1, 99])
def test_that_a_run_is_not_there_is_seen_in_one_request(came: int) -> None:
    """Section 9: one answer that is not full shows all that there is."""

    async def story() -> None:
        store = Telling()
        for number in range(came):
            await store.create(layout.letter(RUN, number + 1), b"")

        seen = await glance(Objects(store), RUN)

        assert (0, came, 1) == (seen.newest, len(seen.arrived), store.listings)

    does(story())


@pytest.mark.parametrize("came", [0, 1, 98, 99, 100, 101, 2500])
def test_all_that_came_and_the_newest_version_are_seen(came: int) -> None:
    """In one request, as long as one answer holds it; in more, nothing is missed."""

    async def story() -> None:
        store = Telling()
        place = Objects(store)
        await suspended_at(place, a_wait())
        letters = [layout.letter(RUN, number + 1) for number in range(came)]
        for key in letters:
            await store.create(key, b"")
        # Neighbours, before and behind
        for other in (f"{RUN}-", f"{RUN}.x", f"{RUN}0"):
            await store.create(layout.letter(other, 1), b"")
            await store.create(layout.version(other, 9), b"")
        store.listings = 0

        seen = await glance(place, RUN)

        told: datetime | None = MOMENT
        assert Glance(newest=1, arrived=tuple(letters), told=told) == seen
        assert (1 if came < 100 else 3 + came // 1000) == store.listings

    does(story())


@pytest.mark.parametrize("strangers", [[], ["stop0", "zzz"], ["n1", "o"], ["n1"]])
@pytest.mark.parametrize("cancelled", [False, True])
def test_a_wish_to_cancel_and_the_newest_version_are_seen_after_a_claim(
    strangers: list[str], *, cancelled: bool
) -> None:
    """R-F6: nothing that strangers put there hides one; at worst it is looked for."""

    async def story() -> None:
        store = Telling()
        place = Objects(store)
        await suspended_at(place, a_wait())
        await store.create(layout.letter(RUN, 1), b"")
        await store.create(layout.version(RUN, 7), b"")
        if cancelled:
            await cancel(place, RUN, wish())
        for name in strangers:
            await store.create(layout.arrivals(RUN) + name, b"")
        store.listings = 0

        newest, stop = await glance_after_claim(place, RUN)

        assert 7 == newest
        assert cancelled == stop or (stop and len(strangers) > 1)
        assert store.listings <= 2

    does(story())


def test_a_strangers_key_among_the_versions_is_named() -> None:
    """R-E7."""

    async def story() -> None:
        place = objects()
        await suspended_at(place, a_wait())
        await place.create(f"{layout.versions(RUN)}0readme", b"")

        for look in (glance, glance_after_claim):
            with pytest.raises(Corrupt, match="0readme"):
                await look(place, RUN)

    does(story())
