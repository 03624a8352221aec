"""The S3 store: options, requests, clients, threads and processes."""

from __future__ import annotations

import asyncio
import os
import pickle
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from ssl import SSLCertVerificationError
from typing import Any

import boto3
import pytest
from botocore.config import Config

from continuations_storage import (
    Denied,
    Inconclusive,
    InvalidKey,
    StorageError,
    SyncStore,
    Unavailable,
    open_store,
)
from continuations_storage.retries import RetryPolicy
from continuations_storage.s3 import S3Store
from continuations_storage.s3client import Checksums
from tests.run_environment import run_python
from tests.storage.s3_proxy import (
    Fault,
    Reply,
    Request,
    S3Proxy,
    error_response,
    fault_sequence,
    truncated_body,
)

pytestmark = pytest.mark.usefixtures("s3_environment")

SECRET_KEY = "wJalrXUtnFEMI-K7MDENG"
ONE_ATTEMPT = RetryPolicy(max_attempts=1)


# Cost


async def test_each_verb_needs_one_request(proxy: S3Proxy) -> None:
    store = S3Store("bucket", "p", endpoint=proxy.url)

    await store.create("a", b"body")
    await store.read("a")
    await store.keys("")
    await store.delete("a")

    assert {"PUT": 1, "GET": 1, "LIST": 1, "DELETE": 1} == Counter(proxy.counts)


OPENING_PROGRAM = """
import sys
from continuations_storage import open_store
store = open_store("s3://bucket/prefix", region="eu-central-1")
import continuations_storage.s3
print(store, [each for each in ("boto3", "botocore", "obstore") if each in sys.modules])
"""


def test_opening_loads_no_client() -> None:
    assert "<S3Store s3://bucket/prefix> []\n" == run_python(OPENING_PROGRAM)


WITHOUT_BOTO3 = """
import asyncio, sys
sys.modules["botocore"] = None
from continuations_storage import Unavailable, open_store
store = open_store("s3://bucket/prefix")
for verb in (store.read("a"), store.create("a", b""), store.probe()):
    try:
        asyncio.run(verb)
    except Unavailable as error:
        print("pip install boto3" in str(error))
"""


def test_missing_boto3_error_names_the_pip_command() -> None:
    assert "True\n" * 3 == run_python(WITHOUT_BOTO3)


def test_listing_and_create_return_the_time_of_s3(proxy: S3Proxy) -> None:
    store = S3Store("bucket", "p", endpoint=proxy.url)

    made = asyncio.run(store.create("a", b"body"))
    page = asyncio.run(store.keys(""))

    assert made == page.store_time == datetime(2026, 11, 21, 12, tzinfo=UTC)


# Options


def create_and_get_request(proxy: S3Proxy, store: S3Store) -> Request:
    asyncio.run(store.create("a", b"body"))
    return proxy.requests[-1]


def test_put_has_the_required_headers(proxy: S3Proxy) -> None:
    request = create_and_get_request(
        proxy, S3Store("bucket", "p/q", endpoint=proxy.url)
    )

    assert ("/bucket/p/q/a", b"body") == (request.target, request.body)
    assert "*" == request.headers["if-none-match"]
    assert 32 == len(request.headers["x-amz-meta-maker"])
    assert "expect" not in request.headers
    assert "x-amz-server-side-encryption" not in request.headers


async def test_each_create_has_its_own_maker_id(proxy: S3Proxy) -> None:
    store = S3Store("bucket", endpoint=proxy.url)

    await asyncio.gather(*(store.create(f"a/{n}", b"") for n in range(20)))

    assert 20 == len({each.headers["x-amz-meta-maker"] for each in proxy.requests})


def test_bodies_are_encrypted_with_the_given_key(proxy: S3Proxy) -> None:
    request = create_and_get_request(
        proxy, S3Store("bucket", endpoint=proxy.url, kms_key_id="alias/us")
    )

    assert "aws:kms" == request.headers["x-amz-server-side-encryption"]
    assert "alias/us" == request.headers["x-amz-server-side-encryption-aws-kms-key-id"]


@pytest.mark.parametrize(
    ("checksums", "expected"),
    [(None, True), ("when_supported", True), ("when_required", False)],
)
def test_checksum_is_sent_unless_when_required(
    proxy: S3Proxy, checksums: Checksums | None, *, expected: bool
) -> None:
    store = S3Store("bucket", endpoint=proxy.url, checksums=checksums)

    assert expected == (
        "x-amz-checksum-crc32" in create_and_get_request(proxy, store).headers
    )


def test_path_style_puts_the_bucket_in_the_path(proxy: S3Proxy) -> None:
    named = proxy.url.replace("127.0.0.1", "localhost")

    request = create_and_get_request(
        proxy, S3Store("bucket", endpoint=named, path_style=True)
    )

    assert "/bucket/a" == request.target


def test_endpoint_of_the_environment_is_used(
    proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.url)

    asyncio.run(open_store("s3://bucket/p").create("a", b"body"))

    assert ["/bucket/p/a"] == [each.target for each in proxy.requests]


def test_options_of_open_store_are_used(proxy: S3Proxy) -> None:
    store = open_store(
        "s3://bucket", endpoint=proxy.url, region="eu-north-1", checksums=None
    )

    asyncio.run(store.create("a", b"body"))

    assert "/eu-north-1/s3/" in proxy.requests[0].headers["authorization"]


def test_missing_bucket_and_invalid_prefix_are_rejected() -> None:
    with pytest.raises(ValueError, match="bucket must not be empty"):
        S3Store("")
    with pytest.raises(InvalidKey):
        S3Store("bucket", "/a")


def test_errors_contain_no_secrets(
    proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_SESSION_TOKEN", SECRET_KEY)
    proxy.plan = lambda _: error_response(403, "SignatureDoesNotMatch")
    store = S3Store("bucket", endpoint=proxy.url)

    with pytest.raises(Denied) as raised:
        asyncio.run(store.create("a", b""))

    assert SECRET_KEY not in f"{store!r} {raised.value} {raised.value!r}"


# Environment


def unreachable_store() -> S3Store:
    return S3Store("bucket", endpoint="http://127.0.0.1:9", retry_policy=ONE_ATTEMPT)


def test_refused_connection_is_unavailable() -> None:
    for work in (unreachable_store().create("a", b""), unreachable_store().read("a")):
        with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9"):
            asyncio.run(work)


def test_no_credentials_is_denied(
    proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")

    with pytest.raises(Denied, match="no usable credentials"):
        asyncio.run(S3Store("bucket", endpoint=proxy.url).create("a", b""))
    assert [] == proxy.requests


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"profile": "nobody"}, "profile .nobody. could not be found"),
        ({"endpoint": "not a URL"}, "Invalid endpoint"),
        ({"region": "a region"}, "a region"),
    ],
)
def test_invalid_setting_is_named_on_first_use(
    options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(Unavailable, match=reason):
        asyncio.run(S3Store("bucket", **options).create("a", b""))


def test_untrusted_certificate_is_not_retried() -> None:
    asked: list[str] = []

    class Client:
        def put_object(self, **_: object) -> None:
            asked.append("put")
            reason = SSLCertVerificationError("self-signed")
            raise ConnectionError("as urllib3 wraps it") from reason

        get_object = head_object = list_objects_v2 = delete_object = put_object

    with pytest.raises(Unavailable, match="is not trusted"):
        asyncio.run(S3Store("bucket", client=Client()).create("a", b""))
    assert ["put"] == asked


def test_errors_survive_pickling() -> None:
    with pytest.raises(StorageError) as failure:
        asyncio.run(unreachable_store().read("a"))

    again = pickle.loads(pickle.dumps(failure.value))  # noqa: S301 -- our own bytes

    assert str(failure.value) == str(again)


# Clients, threads and processes


def test_create_recognises_the_retry_of_a_given_client(proxy: S3Proxy) -> None:
    client = boto3.client(
        "s3", endpoint_url=proxy.url, config=Config(retries={"mode": "standard"})
    )
    proxy.plan = fault_sequence(error_response(500, "InternalError", is_stored=True))

    asyncio.run(S3Store("bucket", client=client).create("a", b"body"))

    # boto3 found its own first write (412); the maker id identifies it.
    assert {"PUT": 2, "HEAD": 1} == Counter(proxy.counts)


AFTER_A_FORK = """
import os, sys
import boto3
from continuations_storage import SyncStore
from continuations_storage.s3 import S3Store
own = S3Store("bucket", "own", endpoint=sys.argv[1])
given = S3Store("bucket", "given", client=boto3.client("s3", endpoint_url=sys.argv[1]))
for store in map(SyncStore, (own, given)):
    store.create("a", b"parent")
child = os.fork()
if child == 0:
    with SyncStore(own) as store:
        store.create("b", store.read("a"))
    try:
        SyncStore(given).read("a")
    except Exception as error:
        os._exit(0 if "after the fork" in str(error) else 1)
    os._exit(2)
assert os.waitpid(child, 0)[1] == 0
print(SyncStore(own).read("b"), SyncStore(given).read("a"))
"""


def test_forked_child_has_its_own_connections(proxy: S3Proxy) -> None:
    assert "b'parent' b'parent'\n" == run_python(AFTER_A_FORK, proxy.url)


LEFT_WAITING = """
import asyncio, sys
from continuations_storage.s3 import S3Store
async def main():
    store = S3Store("bucket", endpoint=sys.argv[1])
    try:
        await asyncio.wait_for(store.read("a"), 0.5)
    except TimeoutError:
        print("gave up")
asyncio.run(main())
"""


def test_silent_server_does_not_delay_the_exit(proxy: S3Proxy) -> None:
    proxy.plan = lambda _: truncated_body(0, stall=30)
    begun = time.monotonic()

    assert "gave up\n" == run_python(LEFT_WAITING, proxy.url)
    assert time.monotonic() - begun < 10


async def test_connections_are_reused_and_limited_by_the_threads(
    proxy: S3Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    store = S3Store("bucket", endpoint=proxy.url)

    for _ in range(3):
        await asyncio.gather(
            *(store.create(os.urandom(8).hex(), b"") for _ in range(40))
        )
    await asyncio.gather(*(store.read(key) for key in await store.keys("")))

    assert 120 == proxy.counts["GET"]
    assert 1 <= proxy.connections <= 32
    assert "Connection pool is full" not in caplog.text


def test_sync_store_works_with_s3(proxy: S3Proxy) -> None:
    with SyncStore(S3Store("bucket", endpoint=proxy.url)) as store:
        assert store.create("a", b"body") is not None
        assert b"body" == store.read("a")


def test_cancelled_create_may_be_written(proxy: S3Proxy) -> None:
    seen, over = threading.Event(), threading.Event()

    def hold(real: Reply) -> Reply:
        seen.set()
        over.wait(60)
        return real

    proxy.plan = lambda _: Fault(reply=hold)
    store = S3Store("bucket", endpoint=proxy.url)

    async def scenario() -> None:
        creating = asyncio.create_task(store.create("a", b"body"))
        await asyncio.to_thread(seen.wait, 10)
        creating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await creating

    asyncio.run(scenario())
    over.set()

    assert b"body" == asyncio.run(store.read("a"))


def test_unclear_last_attempt_is_inconclusive(proxy: S3Proxy) -> None:
    proxy.plan = fault_sequence(*[error_response(500, "InternalError")] * 4)
    store = S3Store("bucket", endpoint=proxy.url, retry_policy=ONE_ATTEMPT)

    with pytest.raises(Inconclusive, match="InternalError"):
        asyncio.run(store.create("a", b""))
