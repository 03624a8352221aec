"""Die before and after every storage call, ask again, and look at the promises.

A crash may leave a thing done or not done, never half done; and whatever is done has a
marker, so that a sweep which only follows markers finds it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pytest

from continuations.core import messages as said
from continuations.core.decisions import Answer, Approve, Decision, Deny, Verdict
from continuations.errors import AlreadyDecided
from continuations.ledger import layout, markers, waits
from continuations.ledger.arrivals import (
    arrivals,
    read_cancellation,
    read_decision,
)
from continuations.ledger.decide import decide, find
from continuations.ledger.inbox import cancel, post
from continuations.ledger.objects import Objects
from continuations.ledger.versions import Versions
from continuations.wire.records import Cancellation, Letter
from continuations_storage import MemoryStore
from continuations_storage.faults import Crash, FaultyStore, at, crashed
from tests.ledger.machine import MOMENT, later, ulid_of
from tests.ledger.runs import RUN, a_wait, does, keys, said_more, suspended_at, wait_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from continuations_storage.faults import Moment

    Deed = Callable[[Objects], Awaitable[object]]
    Place = Callable[[], Awaitable[MemoryStore]]

MOST = 12
MOMENTS: tuple[Moment, Moment] = ("before", "after")


async def dies(store: MemoryStore, deed: Deed, number: int, moment: Moment) -> bool:
    """Do a deed in a process that dies at a storage call; tell whether it did."""
    try:
        await deed(Objects(FaultyStore(store, at(number, crashed(moment)))))
    except Crash:
        return True
    return False


async def crashes(
    made: Place, deed: Deed
) -> list[tuple[tuple[int, Moment], MemoryStore]]:
    """Return the store as each possible crash of a deed leaves it."""
    left: list[tuple[tuple[int, Moment], MemoryStore]] = []
    for number, moment in product(range(1, MOST), MOMENTS):
        store = await made()
        if await dies(store, deed, number, moment):
            left.append(((number, moment), store))
    assert left, "the deed asks the store for nothing"
    assert max(number for (number, _), _ in left) < MOST - 1
    return left


async def swept(store: MemoryStore) -> list[str]:
    """Drop the markers that stand for nothing, as a sweep does; return the others."""
    place = Objects(store)
    newest = await Versions(place, RUN).newest()
    standing: list[str] = []
    async for marker in markers.due(place, later(10**6)):
        if markers.stands(marker, newest.number, newest.table):
            standing.append(marker.key)
        else:
            await place.delete(marker.key)
    return standing


# Deciding -----------------------------------------------------------------------


def decides(verdict: Verdict, number: int, wait: str) -> Deed:
    """Return the deed of deciding a wait."""
    return lambda place: decide(
        place, wait, verdict, now=MOMENT, ulid=ulid_of(number, MOMENT)
    )


async def shown(kind: str) -> MemoryStore:
    """Return a store with a run that stands at one wait."""
    store = MemoryStore()
    wait = a_wait(1, "unknown") if kind == "unknown" else a_wait(1)
    await suspended_at(Objects(store), wait, shown=kind != "hidden")
    return store


async def in_order(store: MemoryStore, wait: str) -> Decision | None:
    """Check what must hold at any time, and return the decision if there is one."""
    place = Objects(store)
    decision = await read_decision(place, wait)
    standing = await swept(store)
    if decision is None:
        # Open: whoever decides finds it, by its object or by its version.
        found = await find(place, wait)
        assert found is not None
        assert wait == found.id
        return None
    # Decided and not taken in: a sweep finds the run by this decision's own marker.
    assert decision.marker in standing
    return decision


STORIES: list[tuple[str, Verdict, Verdict]] = [
    ("shown", Approve(by="kim"), Deny(by="jo")),
    ("shown", Approve(by="kim", arguments={"cents": 1}), Approve(by="kim")),
    ("shown", Deny(by="kim"), Approve(by="jo")),
    ("hidden", Approve(by="kim"), Deny(by="jo")),
    ("unknown", Answer(value=None), Answer(value=0)),
]


def named_of(kind: str) -> str:
    """Return the id of the wait of a story."""
    return wait_id(1, "unknown") if kind == "unknown" else wait_id(1)


@pytest.mark.parametrize(("kind", "verdict", "other"), STORIES)
def test_a_decider_may_die_anywhere_and_ask_again(
    kind: str, verdict: Verdict, other: Verdict
) -> None:
    """R-A3, R-E10: the decision stands, or the wait is open; the same again settles."""
    wait = named_of(kind)

    async def story() -> None:
        deed = decides(verdict, 1, wait)
        for point, store in await crashes(lambda: shown(kind), deed):
            # Given what the crash left
            stood = await in_order(store, wait)

            # When the client asks again
            again = await decide(
                Objects(store), wait, verdict, now=later(1), ulid=ulid_of(2)
            )

            # Then its decision stands, with its marker, and nothing is shown as open
            assert again == await in_order(store, wait), point
            assert stood in (None, again), point
            assert [] == await keys(Objects(store), layout.WAITS), point

            # And somebody else is told which
            with pytest.raises(AlreadyDecided) as caught:
                await decides(other, 3, wait)(Objects(store))
            assert again == caught.value.decision

    does(story())


@pytest.mark.parametrize(("kind", "verdict", "other"), STORIES)
def test_a_decider_may_die_and_another_may_say_otherwise(
    kind: str, verdict: Verdict, other: Verdict
) -> None:
    """R-A1: the second decision wins only where the first one was never recorded."""
    wait = named_of(kind)

    async def story() -> None:
        deed = decides(verdict, 1, wait)
        for point, store in await crashes(lambda: shown(kind), deed):
            stood = await in_order(store, wait)
            try:
                told: object = await decides(other, 2, wait)(Objects(store))
            except AlreadyDecided as error:
                told = error.decision
            stands = await in_order(store, wait)

            assert stands is not None, point
            assert stands == told, point
            assert stood in (None, stands), point
            assert ulid_of(2 if stood is None else 1) == stands.id, point

    does(story())


@pytest.mark.parametrize(("kind", "verdict", "_"), STORIES)
def test_a_decider_may_die_again_while_it_asks_again(
    kind: str, verdict: Verdict, _: Verdict
) -> None:
    wait = named_of(kind)

    async def story() -> None:
        for (first, one), (second, two) in product(
            product(range(1, 8), MOMENTS), product(range(1, 8), MOMENTS)
        ):
            store = await shown(kind)
            died = await dies(store, decides(verdict, 1, wait), first, one)
            died &= await dies(store, decides(verdict, 2, wait), second, two)
            if not died:
                continue
            stood = await in_order(store, wait)
            again = await decides(verdict, 3, wait)(Objects(store))

            assert again == await in_order(store, wait)
            assert stood in (None, again)
            assert [] == await keys(Objects(store), layout.WAITS)

    does(story())


@pytest.mark.parametrize("kind", ["shown", "hidden"])
def test_a_loser_may_die_anywhere_without_harm_to_the_winner(kind: str) -> None:
    """R-A1: also while it takes its own marker away."""
    wait = wait_id(1)

    async def decided() -> MemoryStore:
        store = await shown(kind)
        await decides(Deny(by="jo"), 9, wait)(Objects(store))
        # The winner died before it removed the wait's object.
        await waits.announce(Objects(store), [a_wait(1)])
        return store

    async def story() -> None:
        async def loses(place: Objects) -> None:
            with pytest.raises(AlreadyDecided):
                await decides(Approve(by="kim"), 1, wait)(place)

        for point, store in await crashes(decided, loses):
            stands = await in_order(store, wait)
            assert stands is not None, point
            assert ulid_of(9) == stands.id, point
            await loses(Objects(store))
            assert stands == await in_order(store, wait), point
            assert [] == await keys(Objects(store), layout.WAITS), point

    does(story())


def test_who_mends_may_die_anywhere() -> None:
    """The wait is shown, or who asks for it by its id finds it all the same."""

    async def story() -> None:
        wait = a_wait(1)

        async def mends(place: Objects) -> None:
            await waits.mend(place, [wait])

        for _, store in await crashes(lambda: shown("hidden"), mends):
            assert await in_order(store, wait.id) is None
            await mends(Objects(store))
            assert [layout.wait(wait.id)] == await keys(Objects(store), layout.WAITS)

    does(story())


# Posting ------------------------------------------------------------------------


def letter(number: int) -> Letter:
    """Return a letter that is about to be posted."""
    message = said.user(f"letter {number}")
    return Letter(id=ulid_of(number), number=0, at=MOMENT, message=message)


async def posted(store: MemoryStore) -> tuple[Letter, ...]:
    """Check what must hold of an inbox at any time, and return its letters."""
    newest = await Versions(Objects(store), RUN).newest()
    letters = (await arrivals(Objects(store), newest.table)).letters
    standing = await swept(store)

    assert list(range(1, len(letters) + 1)) == [each.number for each in letters]
    for each in letters:
        assert each.marker in standing
    return letters


@pytest.mark.parametrize("there", [0, 1, 2])
def test_who_posts_may_die_anywhere_and_post_again(there: int) -> None:
    """The letter is posted, with its marker, or it is not; numbers stay dense."""

    async def made() -> MemoryStore:
        store = await shown("shown")
        for number in range(there):
            await post(Objects(store), RUN, letter(10 + number))
        return store

    async def story() -> None:
        for point, store in await crashes(
            made, lambda place: post(place, RUN, letter(1))
        ):
            before = await posted(store)
            assert len(before) in (there, there + 1), point

            again = await post(Objects(store), RUN, letter(2))

            assert (*before, again) == await posted(store), point

    does(story())


def test_who_lost_a_number_may_die_anywhere() -> None:
    """Somebody else took the number in between: the next one is tried."""

    async def story() -> None:
        for number, moment in product(range(1, MOST), MOMENTS):
            store = await shown("shown")

            async def rival(place: MemoryStore = store) -> None:
                await post(Objects(place), RUN, letter(9))

            faulty = FaultyStore(store, at(number, crashed(moment)))
            place = Objects(_Overtaken(faulty, rival))
            try:
                await post(place, RUN, letter(1))
            except Crash:
                pass
            else:
                assert 2 == len(await posted(store))
                assert 2 == len(await swept(store))
            texts = [each.message.content for each in await posted(store)]
            assert texts in ([], ["letter 9"], ["letter 9", "letter 1"])

    does(story())


class _Overtaken:
    """A store before which a rival acts once, right after the first listing."""

    def __init__(
        self, inner: FaultyStore, rival: Callable[[], Awaitable[None]]
    ) -> None:
        self.inner = inner
        self.rival: Callable[[], Awaitable[None]] | None = rival
        self.create = inner.create
        self.read = inner.read
        self.delete = inner.delete
        self.probe = inner.probe

    async def keys(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        """List, then let the rival act."""
        found = await self.inner.keys(prefix, after, limit)
        if self.rival is not None:
            rival, self.rival = self.rival, None
            await rival()
        return found


# Cancelling -----------------------------------------------------------------------


def wish(number: int) -> Cancellation:
    """Return a wish to cancel."""
    return Cancellation(id=ulid_of(number), at=MOMENT, by=f"person {number}")


@pytest.mark.parametrize("there", [False, True])
def test_who_cancels_may_die_anywhere_and_cancel_again(*, there: bool) -> None:
    """R-F6: recorded or not, the first one stands and has its marker."""

    async def made() -> MemoryStore:
        store = await shown("shown")
        if there:
            await cancel(Objects(store), RUN, wish(9))
        return store

    async def story() -> None:
        for point, store in await crashes(
            made, lambda place: cancel(place, RUN, wish(1))
        ):
            stood = await read_cancellation(Objects(store), RUN)
            if stood is not None:
                assert stood.marker in await swept(store), point

            again = await cancel(Objects(store), RUN, wish(2))

            assert again == await read_cancellation(Objects(store), RUN), point
            assert again.marker in await swept(store), point
            assert stood in (None, again), point
            assert not there or ulid_of(9) == again.id, point

    does(story())


def test_a_wish_that_is_delivered_again_may_die_anywhere() -> None:
    """R-A2: with its own id and time, it must not take its own marker away."""

    async def made() -> MemoryStore:
        store = await shown("shown")
        await cancel(Objects(store), RUN, wish(1))
        return store

    async def story() -> None:
        for point, store in await crashes(
            made, lambda place: cancel(place, RUN, wish(1))
        ):
            stood = await read_cancellation(Objects(store), RUN)
            assert stood is not None, point
            assert stood.marker in await swept(store), point

    does(story())


# Appending ------------------------------------------------------------------------


def test_a_writer_may_die_anywhere_and_its_version_is_whole_or_not_there() -> None:
    """R-E10, PA-10: the old state or the new one, never a mixture."""

    async def made() -> MemoryStore:
        store = MemoryStore()
        versions = Versions(Objects(store), RUN)
        loaded = await suspended_at(Objects(store))
        for number in range(2, 7):
            table = said_more(loaded.table, f"message {number}")
            loaded = await versions.append(loaded, table, at=MOMENT)
        return store

    async def appends(place: Objects) -> None:
        versions = Versions(place, RUN)
        loaded = await versions.newest()
        table = said_more(loaded.table, "the next")
        table = replace(table, run=replace(table.run, status="running"))
        await versions.append(loaded, table, at=MOMENT)

    async def story() -> None:
        numbers: set[int] = set()
        for point, store in await crashes(made, appends):
            newest = await Versions(Objects(store), RUN).newest()
            numbers.add(newest.number)
            new = newest.number == 7
            assert new == (newest.table.run.status == "running"), point
            last = newest.table.logs["f1"].messages[-1].content
            assert ("the next" if new else "message 6") == last, point

            await appends(Objects(store))
            again = await Versions(Objects(store), RUN).newest()
            assert newest.number + 1 == again.number, point
        assert {6, 7} == numbers

    does(story())
