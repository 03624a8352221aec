"""The S3 store passes the conformance suite, also over a bad connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from continuations_storage import AlreadyExists, Store, Unsafe, all_keys
from continuations_storage.conformance import SharedStoreContract, StoreContract
from continuations_storage.retries import RetryPolicy
from continuations_storage.s3 import S3Store
from tests.sampling import RUNS_ALL_CASES
from tests.storage import ministack
from tests.storage.conftest import BUCKET, random_prefix
from tests.storage.s3_proxy import (
    FakeS3,
    RealServer,
    S3Proxy,
    error_response,
    fault_sequence,
    no_fault,
    random_faults,
)

pytestmark = pytest.mark.usefixtures("s3_environment")


class TestS3Store(SharedStoreContract):
    racers = 8
    rounds = 25

    @pytest.fixture(autouse=True)
    def folder(self, s3_server: str) -> None:
        self.url = s3_server

    def opener(self) -> Callable[[], Store]:
        return partial(S3Store, BUCKET, random_prefix(), endpoint=self.url)


class TestS3StoreOverUnreliableConnection:
    """One request in five is lost, delayed, doubled, truncated or fails."""

    @pytest.fixture(params=range(2))
    def proxy(
        self, s3_server: str, request: pytest.FixtureRequest
    ) -> Iterator[S3Proxy]:
        with S3Proxy(RealServer(s3_server), random_faults(request.param, 0.2)) as proxy:
            yield proxy

    def test_exactly_one_of_racing_processes_creates_a_key(
        self, proxy: S3Proxy
    ) -> None:
        contract = self._contract(proxy)

        contract.test_exactly_one_of_racing_processes_creates_a_key()

    def test_exactly_one_of_racing_tasks_creates_a_key(self, proxy: S3Proxy) -> None:
        self._contract(proxy).test_exactly_one_of_racing_tasks_creates_a_key()

    def test_listings_bodies_and_deletes_are_complete(self, proxy: S3Proxy) -> None:
        contract = self._contract(proxy)

        contract.test_every_byte_value_and_an_empty_body_are_kept()
        contract.test_keys_are_listed_in_byte_order()
        contract.test_prefix_may_end_inside_a_segment()
        contract.test_delete_is_idempotent_and_keeps_other_keys()
        contract.test_probe_passes_and_is_recorded()

    def _contract(self, proxy: S3Proxy) -> SharedStoreContract:
        class UnreliableConnection(SharedStoreContract):
            racers = 6
            rounds = 12 if RUNS_ALL_CASES else 4

            def opener(self) -> Callable[[], Store]:
                policy = RetryPolicy(max_attempts=20, first_delay=0.005, max_delay=0.02)
                return partial(
                    S3Store,
                    BUCKET,
                    random_prefix(),
                    endpoint=proxy.url,
                    retry_policy=policy,
                )

        return UnreliableConnection()


@pytest.fixture
def overwriting_proxy() -> Iterator[S3Proxy]:
    with S3Proxy(FakeS3(honors_conditions=False)) as proxy:
        yield proxy


def test_s3_server_that_overwrites_is_unsafe(overwriting_proxy: S3Proxy) -> None:
    """The probe rejects a server that ignores the condition."""
    store = S3Store("bucket", endpoint=overwriting_proxy.url)

    with pytest.raises(Unsafe, match="a second create of the same key was accepted"):
        asyncio.run(store.probe())

    assert [] == asyncio.run(store.keys(""))


def test_s3_server_that_reports_conflict_and_overwrites_is_unsafe(
    overwriting_proxy: S3Proxy,
) -> None:
    false_conflict = error_response(412, "PreconditionFailed", is_stored=True)
    overwriting_proxy.plan = fault_sequence(no_fault(), no_fault(), false_conflict)
    store = S3Store("bucket", endpoint=overwriting_proxy.url)

    with pytest.raises(Unsafe, match="changed the body"):
        asyncio.run(store.probe())

    assert [] == asyncio.run(store.keys(""))


async def test_versioned_bucket_keeps_the_contract(s3_server: str) -> None:
    ministack.make_bucket(s3_server, "versioned", versioned=True)
    store = S3Store("versioned", endpoint=s3_server)

    await store.probe()
    await store.create("a", b"first")
    with pytest.raises(AlreadyExists):
        await store.create("a", b"second")
    await store.delete("a")
    await store.create("a", b"third")  # a delete marker is not an object
    assert (["a"], b"third") == (await store.keys("a"), await store.read("a"))


class TestFakeS3(StoreContract):
    """The fake behaves like S3 in the tests that use it."""

    @pytest.fixture(autouse=True)
    def folder(self) -> Iterator[None]:
        with S3Proxy(FakeS3()) as self.front:
            yield

    def make(self) -> Store:
        self.front.reset(FakeS3())
        return S3Store("bucket", endpoint=self.front.url)

    def test_all_keys_iterates_over_every_page(self) -> None:
        """A listing of several pages is complete."""
        store = self.make()
        bucket = self.front.backend
        assert isinstance(bucket, FakeS3)
        keys = [f"p/{number:04}" for number in range(2001)]
        bucket.bodies.update(dict.fromkeys(keys, b""))

        async def scenario() -> list[str]:
            return [key async for key in all_keys(store, "p/")]

        assert keys == asyncio.run(scenario())
        assert {"LIST": 3} == self.front.counts

    def test_limit_may_be_larger_than_a_page(self) -> None:
        store = self.make()
        bucket = self.front.backend
        assert isinstance(bucket, FakeS3)
        bucket.bodies.update({f"p/{number:04}": b"" for number in range(2500)})

        assert 2400 == len(asyncio.run(store.keys("p/", limit=2400)))
        assert {"LIST": 3} == self.front.counts
