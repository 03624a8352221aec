"""Replies that obstore hides or mistakes: empty pages, credentials, pauses, times."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import obstore.store
import pytest

from continuations_storage import Denied, Throttled, Unavailable, Unsafe
from continuations_storage.obstore import THROTTLED_SECONDS, ObjectStore
from tests.storage.fake_gcs import FakeGcs
from tests.storage.outages import VirtualTime
from tests.storage.s3_proxy import (
    FakeS3,
    Fault,
    Reply,
    Request,
    S3Proxy,
    error_response,
    fault_sequence,
    fixed_body,
    no_fault,
)

pytestmark = pytest.mark.usefixtures("s3_environment")

ERROR_PAGE = b"<Error><Code>InternalError</Code><Message>sorry</Message></Error>"
LOGIN_PAGE = b"<html><body>Welcome! Please log in.</body></html>"
MANY_KEYS = [f"many/{number:04}" for number in range(1500)]
ATTEMPTS = 3


def open_store(
    proxy: S3Proxy, time: VirtualTime | None = None, url: str = "s3://bucket/p"
) -> ObjectStore:
    policy = (time or VirtualTime()).retry_policy(max_attempts=ATTEMPTS)
    return ObjectStore(url, endpoint=proxy.url, retry_policy=policy)


def fill(proxy: S3Proxy, *keys: str) -> FakeS3:
    bucket = FakeS3()
    bucket.bodies.update({f"p/{key}": b"" for key in keys})
    proxy.reset(bucket)
    return bucket


# A page that is not a listing ------------------------------------------------------


@pytest.mark.parametrize("page", [ERROR_PAGE, LOGIN_PAGE])
def test_page_that_is_not_a_listing_is_asked_for_again(
    proxy: S3Proxy, page: bytes
) -> None:
    """One such page is not an empty listing."""
    fill(proxy, "a", "b")
    proxy.plan = fault_sequence(fixed_body(page))

    assert ["a", "b"] == asyncio.run(open_store(proxy).keys(""))
    assert {"LIST": 2} == Counter(proxy.counts)


@pytest.mark.parametrize("page", [ERROR_PAGE, LOGIN_PAGE])
def test_server_that_sends_only_such_pages_is_unavailable(
    proxy: S3Proxy, page: bytes
) -> None:
    """A server that answers a read in the same way is not an object store."""
    fill(proxy, "a", "b")
    proxy.plan = lambda _: fixed_body(page)

    with pytest.raises(Unavailable):
        asyncio.run(open_store(proxy).keys(""))


def test_missing_last_page_is_asked_for_again(proxy: S3Proxy) -> None:
    """The page after 1,000 keys is not taken for an empty one."""
    fill(proxy, *MANY_KEYS)
    proxy.plan = fault_sequence(no_fault(), fixed_body(ERROR_PAGE))

    listed = asyncio.run(open_store(proxy).keys("many/", limit=2000))

    assert MANY_KEYS == listed


def test_server_that_only_lists_wrongly_is_unavailable(proxy: S3Proxy) -> None:
    """A key that can be read but is not listed shows that the listing is wrong."""
    fill(proxy)
    store = open_store(proxy)
    asyncio.run(store.probe())
    proxy.plan = lambda request: (
        fixed_body(ERROR_PAGE) if request.kind == "LIST" else no_fault()
    )

    with pytest.raises(Unavailable, match="probe/passed exists but is not listed"):
        asyncio.run(store.keys("waits/"))


@pytest.mark.parametrize(
    ("keys", "requests"),
    [
        (["a/b/c"], {"LIST": 1}),
        (["a/d/c"], {"LIST": 2}),  # a key that follows in the parent folder
        (["probe/x"], {"LIST": 3}),
        ([], {"LIST": 3, "GET": 1}),
    ],
)
def test_only_empty_listings_cost_more_requests(
    proxy: S3Proxy, keys: list[str], requests: dict[str, int]
) -> None:
    fill(proxy, *keys)

    listed = asyncio.run(open_store(proxy).keys("a/b/"))

    assert [key for key in keys if key.startswith("a/b/")] == listed
    assert requests == Counter(proxy.counts)


def test_keys_before_an_empty_folder_are_not_listed(proxy: S3Proxy) -> None:
    """The second look begins at the folder, not at the beginning of the store."""
    fill(proxy, *MANY_KEYS, *(f"more/{key}" for key in MANY_KEYS), "probe/passed")

    assert [] == asyncio.run(open_store(proxy).keys("waits/"))
    assert {"LIST": 3} == Counter(proxy.counts)


# Credentials ------------------------------------------------------------------------


def clear_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)


def test_no_credentials_is_denied_without_a_request(
    proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """obstore does not know AWS_EC2_METADATA_DISABLED, so the store looks at it."""
    clear_credentials(monkeypatch)
    time = VirtualTime()
    store = open_store(proxy, time)

    for work in (store.create("a", b""), store.read("a"), store.keys("")):
        with pytest.raises(Denied, match="no usable credentials; set AWS_ACCESS"):
            asyncio.run(work)

    assert ([], []) == (proxy.requests, time.pauses)


@pytest.mark.parametrize(("status", "attempts"), [(403, 1), (404, 1), (500, ATTEMPTS)])
def test_metadata_service_without_credentials_is_denied_at_once(
    proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch, status: int, attempts: int
) -> None:
    """A machine without a role costs one request; a service that fails is retried."""
    clear_credentials(monkeypatch)
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    proxy.plan = lambda _: error_response(status)
    time = VirtualTime()
    store = ObjectStore(
        "s3://bucket",
        endpoint="http://127.0.0.1:9",
        metadata_endpoint=proxy.url,
        retry_policy=time.retry_policy(max_attempts=ATTEMPTS),
    )

    with pytest.raises(Denied, match="no usable credentials"):
        asyncio.run(store.read("a"))

    assert attempts - 1 == len(time.pauses)
    asked = ["/latest/api/token"] * attempts
    assert asked == [each.target for each in proxy.requests]


def test_half_of_the_credentials_is_denied_at_once(
    proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    time = VirtualTime()

    with pytest.raises(Denied, match="Missing SecretAccessKey"):
        asyncio.run(open_store(proxy, time).read("a"))
    assert ([], []) == (proxy.requests, time.pauses)


def test_failing_credential_provider_is_denied_at_once(proxy: S3Proxy) -> None:
    def provide() -> None:
        raise RuntimeError("no login")

    time = VirtualTime()
    store = ObjectStore(
        "s3://bucket",
        endpoint=proxy.url,
        credential_provider=provide,
        retry_policy=time.retry_policy(),
    )

    with pytest.raises(Denied):
        asyncio.run(store.read("a"))
    assert ([], []) == (proxy.requests, time.pauses)


@pytest.mark.parametrize(
    ("url", "variables", "hint"),
    [
        (
            "gs://bucket",
            {"GOOGLE_APPLICATION_CREDENTIALS": "/missing.json"},
            "set GOOGLE_APPLICATION_CREDENTIALS",
        ),
        (
            "az://bucket",
            {
                "AZURE_STORAGE_ACCOUNT_NAME": "account",
                "AZURE_MSI_ENDPOINT": "http://127.0.0.1:9",
            },
            "set AZURE_STORAGE_ACCOUNT_KEY",
        ),
    ],
)
def test_missing_credentials_of_other_clouds_are_denied_at_once(
    proxy: S3Proxy,
    monkeypatch: pytest.MonkeyPatch,
    url: str,
    variables: dict[str, str],
    hint: str,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    time = VirtualTime()

    with pytest.raises(Denied, match=hint):
        asyncio.run(open_store(proxy, time, url).read("a"))
    assert ([], []) == (proxy.requests, time.pauses)


# Pauses and times --------------------------------------------------------------------


def test_pause_after_a_throttled_request_is_at_least_a_second(proxy: S3Proxy) -> None:
    """obstore does not tell how long the server asks to wait."""
    fill(proxy)
    proxy.plan = lambda _: error_response(503, "SlowDown", Retry_After="1")
    time = VirtualTime()

    with pytest.raises(Throttled):
        asyncio.run(open_store(proxy, time).create("a", b""))

    assert ATTEMPTS - 1 == len(time.pauses)
    assert min(time.pauses) >= THROTTLED_SECONDS


@pytest.mark.parametrize("url", ["s3://bucket/p", "gs://bucket/p"])
def test_time_of_a_create_is_that_of_the_server(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    """The clock guard works with obstore: one HEAD tells the time of a key."""
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "token")
    bucket = FakeS3() if url.startswith("s3") else FakeGcs()
    with S3Proxy(bucket) as proxy:
        store = open_store(proxy, url=url)
        assert asyncio.run(store.create("a", b"")) is None

        assert datetime(2026, 11, 21, 12, tzinfo=UTC) == asyncio.run(
            store.created_at("a")
        )
        assert {"PUT": 1, "HEAD": 1} == Counter(proxy.counts)
    assert timedelta(seconds=1) == store.time_resolution


def test_server_without_a_time_is_unsafe(proxy: S3Proxy) -> None:
    """Wrong clocks could not be noticed there."""

    def without_time(request: Request) -> Fault:
        if request.kind != "HEAD":
            return no_fault()
        return Fault(
            reply=lambda real: Reply(
                headers={"ETag": real.headers["ETag"]}, body=real.body
            )
        )

    fill(proxy)
    store = open_store(proxy)
    asyncio.run(store.create("a", b""))
    proxy.plan = without_time

    with pytest.raises(Unsafe, match="no Last-Modified"):
        asyncio.run(store.created_at("a"))


# A reply without a field that is always there --------------------------------------


def test_reply_to_a_put_without_a_version_is_no_key_error(
    proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The body is stored, so the create is read back."""
    bucket = fill(proxy)
    from_url: Any = obstore.store.from_url

    def wrapped(url: str, **options: Any) -> Any:
        return ClientWithoutVersions(from_url(url, **options))

    monkeypatch.setattr("obstore.store.from_url", wrapped)

    asyncio.run(open_store(proxy).create("a", b"mine"))

    assert b"mine" == bucket.bodies["p/a"]
    assert {"PUT": 2, "HEAD": 1} == Counter(proxy.counts)


class ClientWithoutVersions:
    """A client of obstore whose replies to a put have no `version`."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.get = client.get

    def put(self, *args: Any, **options: Any) -> dict[str, Any]:
        reply = self._client.put(*args, **options)
        return {name: value for name, value in reply.items() if name != "version"}
