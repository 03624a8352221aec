"""The S3 store keeps the contract: on a real server, and when the way there is bad."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING

import pytest

from continuations_storage import AlreadyExists, Unsafe, all_keys
from continuations_storage.conformance import SharedStoreContract, StoreContract
from continuations_storage.patience import Patience
from continuations_storage.s3 import S3Store
from tests.storage import ministack
from tests.storage.conftest import BUCKET
from tests.storage.s3_front import (
    Bucket,
    S3Front,
    Upstream,
    refused,
    script,
    seeded,
    well,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from continuations_storage import Store

pytestmark = pytest.mark.usefixtures("s3_environment")


def fresh() -> str:
    return os.urandom(8).hex()


class TestS3Store(SharedStoreContract):
    racers = 8
    rounds = 25

    @pytest.fixture(autouse=True)
    def place(self, s3_server: str) -> None:
        self.url = s3_server

    def opener(self) -> Callable[[], Store]:
        return partial(S3Store, BUCKET, fresh(), endpoint=self.url)


class TestS3StoreOnABadLine:
    """R-E1: one request in five is lost, late, doubled, cut off or told to fail."""

    @pytest.fixture(params=range(2))
    def front(
        self, s3_server: str, request: pytest.FixtureRequest
    ) -> Iterator[S3Front]:
        with S3Front(Upstream(s3_server), seeded(request.param, 0.2)) as front:
            yield front

    def test_of_racing_processes_exactly_one_wins_every_round(
        self, front: S3Front
    ) -> None:
        bad_line = self._contract(front)

        bad_line.test_of_racing_processes_exactly_one_wins_every_round()

    def test_of_racing_tasks_exactly_one_wins(self, front: S3Front) -> None:
        self._contract(front).test_of_racing_tasks_exactly_one_wins()

    def test_pages_bodies_and_deletes_are_whole(self, front: S3Front) -> None:
        bad_line = self._contract(front)

        bad_line.test_every_byte_survives_and_an_empty_body_is_a_body()
        bad_line.test_keys_come_in_byte_order_of_whole_keys()
        bad_line.test_a_prefix_is_a_prefix_of_text()
        bad_line.test_delete_is_idempotent_and_spares_the_neighbours()
        bad_line.test_the_probe_passes_and_is_remembered()

    def _contract(self, front: S3Front) -> SharedStoreContract:
        class BadLine(SharedStoreContract):
            racers = 6
            rounds = 12

            def opener(self) -> Callable[[], Store]:
                patience = Patience(attempts=20, first_wait=0.005, longest_wait=0.02)
                return partial(
                    S3Store, BUCKET, fresh(), endpoint=front.url, patience=patience
                )

        return BadLine()


@pytest.fixture
def look_alike() -> Iterator[S3Front]:
    with S3Front(Bucket(honours=False)) as front:
        yield front


def test_a_look_alike_that_overwrites_is_refused(look_alike: S3Front) -> None:
    """R-E4."""
    store = S3Store("bucket", endpoint=look_alike.url)

    with pytest.raises(Unsafe, match="a second create of the same key was accepted"):
        asyncio.run(store.probe())

    assert [] == asyncio.run(store.keys(""))


def test_a_look_alike_that_refuses_and_overwrites_is_refused(
    look_alike: S3Front,
) -> None:
    lie = refused(412, "PreconditionFailed", landed=True)
    look_alike.plan = script(well(), well(), lie)
    store = S3Store("bucket", endpoint=look_alike.url)

    with pytest.raises(Unsafe, match="changed the body"):
        asyncio.run(store.probe())

    assert [] == asyncio.run(store.keys(""))


def test_a_versioned_bucket_is_safe(s3_server: str) -> None:
    ministack.make_bucket(s3_server, "versioned", versioned=True)
    store = S3Store("versioned", endpoint=s3_server)

    async def story() -> tuple[list[str], bytes]:
        await store.probe()
        await store.create("a", b"first")
        with pytest.raises(AlreadyExists):
            await store.create("a", b"second")
        await store.delete("a")
        await store.create("a", b"third")  # a marker of deletion is no object
        return await store.keys("a"), await store.read("a")

    assert (["a"], b"third") == asyncio.run(story())


class TestTheSmallS3OfTheseTests(StoreContract):
    """It stands in for S3 where a script is needed, so it had better be like one."""

    @pytest.fixture(autouse=True)
    def place(self) -> Iterator[None]:
        with S3Front(Bucket()) as self.front:
            yield

    def make(self) -> Store:
        self.front.begin(Bucket())
        return S3Store("bucket", endpoint=self.front.url)

    def test_all_keys_goes_through_every_page(self) -> None:
        """R-E9: more than a page."""
        store = self.make()
        bucket = self.front.backend
        assert isinstance(bucket, Bucket)
        keys = [f"p/{number:04}" for number in range(2001)]
        bucket.bodies.update(dict.fromkeys(keys, b""))

        async def story() -> list[str]:
            return [key async for key in all_keys(store, "p/")]

        assert keys == asyncio.run(story())
        assert {"LIST": 3} == self.front.counts

    def test_one_call_may_ask_for_more_than_a_page(self) -> None:
        store = self.make()
        bucket = self.front.backend
        assert isinstance(bucket, Bucket)
        bucket.bodies.update({f"p/{number:04}": b"" for number in range(2500)})

        assert 2400 == len(asyncio.run(store.keys("p/", limit=2400)))
        assert {"LIST": 3} == self.front.counts
