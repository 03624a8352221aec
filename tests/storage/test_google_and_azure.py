"""Stores of Google Cloud Storage and Azure Blob Storage, opened by their URLs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from continuations_storage import (
    Denied,
    Store,
    Unavailable,
    Unsupported,
    open_store,
)
from continuations_storage.conformance import SharedStoreContract
from continuations_storage.obstore import ObjectStore
from continuations_storage.retries import RetryPolicy
from tests.storage import azurite
from tests.storage.conftest import random_prefix
from tests.storage.fake_gcs import FakeGcs
from tests.storage.s3_proxy import (
    S3Proxy,
    error_response,
    fixed_body,
)

BODY = b"0123456789"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials of the emulator and of the fake, and no others."""
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "token")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", azurite.KEY)
    for name in (
        "GOOGLE_BASE_URL",
        "AZURE_STORAGE_ACCOUNT_NAME",
        "AZURE_STORAGE_ENDPOINT",
        "AZURE_ENDPOINT",
    ):
        monkeypatch.delenv(name, raising=False)


# Google Cloud Storage ---------------------------------------------------------


def test_generation_of_google_is_no_sign_of_versions(proxy: S3Proxy) -> None:
    """Every object has a generation there, so a create costs one request."""
    proxy.reset(FakeGcs())
    store = ObjectStore("gs://bucket/p", endpoint=proxy.url)
    asyncio.run(store.probe())
    before = Counter(proxy.counts)

    asyncio.run(store.create("a", BODY))

    assert Counter(PUT=1) == Counter(proxy.counts) - before


def test_listing_of_one_key_costs_one_request(proxy: S3Proxy) -> None:
    bucket = FakeGcs()
    bucket.bodies.update({f"p/many/{number:04}": b"" for number in range(1500)})
    proxy.reset(bucket)
    store = ObjectStore("gs://bucket/p", endpoint=proxy.url)

    assert ["many/0000"] == asyncio.run(store.keys("many/", limit=1))
    assert Counter(LIST=1) == Counter(proxy.counts)


@pytest.mark.parametrize("page", [b"<Error><Code>X</Code></Error>", b"<html></html>"])
def test_page_that_is_not_a_listing_is_not_an_empty_one(
    proxy: S3Proxy, page: bytes
) -> None:
    bucket = FakeGcs()
    bucket.bodies["p/a"] = b""
    proxy.reset(bucket, fixed_body(page))
    store = ObjectStore("gs://bucket/p", endpoint=proxy.url)

    assert ["a"] == asyncio.run(store.keys(""))


@pytest.fixture(scope="module")
def proxy() -> Iterator[S3Proxy]:
    with S3Proxy(FakeGcs()) as server:
        yield server


class TestGoogleFake(SharedStoreContract):
    """The conformance suite against the fake: what obstore sends is accepted."""

    racers = 8
    rounds = 25

    @pytest.fixture(autouse=True)
    def folder(self, proxy: S3Proxy) -> None:
        proxy.reset(FakeGcs())
        self.url = proxy.url

    def opener(self) -> Callable[[], Store]:
        return partial(open_store, f"gs://bucket/{random_prefix()}", endpoint=self.url)


def store_without_delays(proxy: S3Proxy) -> ObjectStore:
    async def no_sleep(_: float) -> None:
        await asyncio.sleep(0)

    policy = RetryPolicy(max_attempts=4, sleep=no_sleep)
    return ObjectStore(
        "gs://bucket/p", endpoint=proxy.url, retry_policy=policy, timeout=0.5
    )


def test_google_requests_are_conditional_and_carry_the_maker_id(proxy: S3Proxy) -> None:
    """Each create is one PUT that Google refuses if the object exists."""
    proxy.reset(FakeGcs())

    asyncio.run(open_store("gs://bucket/p/", endpoint=proxy.url).create("a", BODY))

    request = proxy.requests[0]
    assert "/bucket/p%2Fa" == request.target
    assert "0" == request.headers["x-goog-if-generation-match"]
    assert 32 == len(request.headers["x-goog-meta-maker"])
    assert "Bearer token" == request.headers["authorization"]


def test_google_store_lists_a_page_with_one_request(proxy: S3Proxy) -> None:
    """1,000 keys cost one request, also from the middle of a listing."""
    fake = FakeGcs()
    fake.bodies.update({f"p/many/{number:04}": b"" for number in range(2500)})
    proxy.reset(fake)
    store = store_without_delays(proxy)

    keys = asyncio.run(store.keys("many/", "many/1000"))

    assert ("many/1001", 1000) == (keys[0], len(keys))
    assert {"LIST": 1} == Counter(proxy.counts)


def test_google_endpoint_of_the_environment_is_used(
    proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GOOGLE_BASE_URL works, also without TLS."""
    proxy.reset(FakeGcs())
    monkeypatch.setenv("GOOGLE_BASE_URL", proxy.url)

    asyncio.run(open_store("gs://bucket").create("a", BODY))

    assert ["/bucket/a"] == [request.target for request in proxy.requests]


def test_google_denied_names_the_permissions_of_google(proxy: S3Proxy) -> None:
    """The error about a denied request names no permission of S3."""
    proxy.reset(FakeGcs(), error_response(403, "AccessDenied"))

    with pytest.raises(Denied, match=r"storage\.objects\.create") as raised:
        asyncio.run(store_without_delays(proxy).read("a"))

    assert "s3:" not in str(raised.value)


# Azure Blob Storage -----------------------------------------------------------


@pytest.fixture(scope="module")
def azure_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with azurite.run_server(tmp_path_factory.mktemp("azurite")) as endpoint:
        azurite.make_container(endpoint, "box")
        yield endpoint


def open_azure(endpoint: str, url: str) -> Store:
    return open_store(url, endpoint=endpoint, account=azurite.ACCOUNT)


if azurite.is_installed():

    class TestAzureEmulator(SharedStoreContract):
        """The conformance suite against Azurite."""

        racers = 8
        rounds = 25

        @pytest.fixture(autouse=True)
        def folder(self, azure_server: str) -> None:
            self.endpoint = azure_server

        def opener(self) -> Callable[[], Store]:
            return partial(open_azure, self.endpoint, f"az://box/{random_prefix()}")

    def test_azure_container_that_is_missing_is_unavailable(azure_server: str) -> None:
        """A missing container is not a missing key."""
        store = open_azure(azure_server, "az://nobox")

        with pytest.raises(Unavailable, match="create the container"):
            asyncio.run(store.read("a"))

    def test_azure_wrong_key_is_denied(
        azure_server: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The error about a denied request names the role of Azure and no key."""
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0")
        store = open_azure(azure_server, "az://box")

        with pytest.raises(Denied, match="Storage Blob Data Contributor") as raised:
            asyncio.run(store.read("a"))

        assert "c2VjcmV0" not in str(raised.value)

    def test_azure_account_and_endpoint_of_the_environment_are_used(
        azure_server: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A URL alone is enough where the environment has the rest."""
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", azurite.ACCOUNT)
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", azure_server)
        store = open_store(f"az://box/{random_prefix()}")

        asyncio.run(store.create("a", BODY))

        assert BODY == asyncio.run(store.read("a"))


def test_azure_account_that_is_missing_is_named_at_once() -> None:
    """The error names the option and the variable, and is not retried."""
    store = open_store("az://box")

    with pytest.raises(Unavailable, match="AZURE_STORAGE_ACCOUNT_NAME"):
        asyncio.run(store.read("a"))


# URLs -------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["gs://bucket", "gs://b/a/b/", "az://box", "az://b/a"])
def test_url_with_and_without_prefix_opens_an_object_store(url: str) -> None:
    """Opening sends nothing; the store shows its URL."""
    store = open_store(url)

    assert isinstance(store, ObjectStore)
    assert f"<ObjectStore {url.rstrip('/')}>" == repr(store)


@pytest.mark.parametrize("url", ["az://box/p?sig=c2VjcmV0", "gs://kim:c2VjcmV0@bucket"])
def test_url_with_credentials_is_refused_and_not_repeated(url: str) -> None:
    """Error messages are logged, so they do not quote such a URL."""
    with pytest.raises(Unsupported, match="environment") as raised:
        open_store(url)

    assert "c2VjcmV0" not in f"{raised.value} {raised.value!r}"
