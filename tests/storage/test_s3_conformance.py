"""The S3 store keeps the contract: on a real server, and when the way there is bad."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING

import pytest

from continuations_storage import AlreadyExists, Unsafe, all_keys
from continuations_storage.conformance import SharedStoreContract, StoreContract
from continuations_storage.retry_policy import RetryPolicy
from continuations_storage.s3 import S3Store
from tests.storage import ministack
from tests.storage.conftest import BUCKET
from tests.storage.s3_proxy import (
    FakeS3,
    RealServer,
    S3Proxy,
    error_response,
    fault_sequence,
    no_fault,
    random_faults,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from continuations_storage import Store

pytestmark = pytest.mark.usefixtures("s3_environment")


def random_prefix() -> str:
    return os.urandom(8).hex()


class TestS3Store(SharedStoreContract):
    racers = 8
    rounds = 25

    @pytest.fixture(autouse=True)
    def place(self, s3_server: str) -> None:
        self.url = s3_server

    def opener(self) -> Callable[[], Store]:
        return partial(S3Store, BUCKET, random_prefix(), endpoint=self.url)


class TestS3StoreOverUnreliableConnection:
    """R-E1: one request in five is lost, late, doubled, cut off or told to fail."""

    @pytest.fixture(params=range(2))
    def proxy(
        self, s3_server: str, request: pytest.FixtureRequest
    ) -> Iterator[S3Proxy]:
        with S3Proxy(RealServer(s3_server), random_faults(request.param, 0.2)) as proxy:
            yield proxy

    def test_exactly_one_of_racing_processes_creates_a_key(
        self, proxy: S3Proxy
    ) -> None:
        bad_line = self._contract(proxy)

        bad_line.test_exactly_one_of_racing_processes_creates_a_key()

    def test_exactly_one_of_racing_tasks_creates_a_key(self, proxy: S3Proxy) -> None:
        self._contract(proxy).test_exactly_one_of_racing_tasks_creates_a_key()

    def test_listings_bodies_and_deletes_are_complete(self, proxy: S3Proxy) -> None:
        bad_line = self._contract(proxy)

        bad_line.test_every_byte_value_and_an_empty_body_are_kept()
        bad_line.test_keys_are_listed_in_byte_order()
        bad_line.test_prefix_may_end_inside_a_segment()
        bad_line.test_delete_is_idempotent_and_keeps_other_keys()
        bad_line.test_probe_passes_and_is_recorded()

    def _contract(self, proxy: S3Proxy) -> SharedStoreContract:
        class BadLine(SharedStoreContract):
            racers = 6
            rounds = 12

            def opener(self) -> Callable[[], Store]:
                patience = RetryPolicy(
                    max_attempts=20, first_delay=0.005, max_delay=0.02
                )
                return partial(
                    S3Store,
                    BUCKET,
                    random_prefix(),
                    endpoint=proxy.url,
                    retry_policy=patience,
                )

        return BadLine()


@pytest.fixture
def overwriting_proxy() -> Iterator[S3Proxy]:
    with S3Proxy(FakeS3(honors_conditions=False)) as proxy:
        yield proxy


def test_s3_server_that_overwrites_is_unsafe(overwriting_proxy: S3Proxy) -> None:
    """R-E4."""
    store = S3Store("bucket", endpoint=overwriting_proxy.url)

    with pytest.raises(Unsafe, match="a second create of the same key was accepted"):
        asyncio.run(store.probe())

    assert [] == asyncio.run(store.keys(""))


def test_s3_server_that_reports_conflict_and_overwrites_is_unsafe(
    overwriting_proxy: S3Proxy,
) -> None:
    lie = error_response(412, "PreconditionFailed", landed=True)
    overwriting_proxy.plan = fault_sequence(no_fault(), no_fault(), lie)
    store = S3Store("bucket", endpoint=overwriting_proxy.url)

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


class TestFakeS3(StoreContract):
    """It stands in for S3 where a script is needed, so it had better be like one."""

    @pytest.fixture(autouse=True)
    def place(self) -> Iterator[None]:
        with S3Proxy(FakeS3()) as self.front:
            yield

    def make(self) -> Store:
        self.front.reset(FakeS3())
        return S3Store("bucket", endpoint=self.front.url)

    def test_all_keys_iterates_over_every_page(self) -> None:
        """R-E9: more than a page."""
        store = self.make()
        bucket = self.front.backend
        assert isinstance(bucket, FakeS3)
        keys = [f"p/{number:04}" for number in range(2001)]
        bucket.bodies.update(dict.fromkeys(keys, b""))

        async def story() -> list[str]:
            return [key async for key in all_keys(store, "p/")]

        assert keys == asyncio.run(story())
        assert {"LIST": 3} == self.front.counts

    def test_one_call_may_ask_for_more_than_a_page(self) -> None:
        store = self.make()
        bucket = self.front.backend
        assert isinstance(bucket, FakeS3)
        bucket.bodies.update({f"p/{number:04}": b"" for number in range(2500)})

        assert 2400 == len(asyncio.run(store.keys("p/", limit=2400)))
        assert {"LIST": 3} == self.front.counts
