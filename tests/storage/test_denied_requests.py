"""Replies about credentials, rights, regions and clocks, with both drivers.

Each error names the operation, the key or prefix, the bucket and the endpoint, and has
the advice that fits its cause. None of them is tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import boto3
import pytest

from continuations_storage import Denied, StorageError, Store, Unavailable
from continuations_storage.endpoints import describe_place
from continuations_storage.s3 import S3Store
from tests.storage.outages import DRIVERS, Driver, VirtualTime, open_s3
from tests.storage.s3_proxy import Fault, S3Proxy, error_response

pytestmark = pytest.mark.usefixtures("s3_environment")


@dataclass(frozen=True)
class Case:
    """A reply, the class of its error, and its advice."""

    status: int
    code: str
    error: type[StorageError]
    advice: str

    @property
    def fault(self) -> Fault:
        return error_response(self.status, self.code)


CASES = [
    Case(403, "AccessDenied", Denied, "create needs s3:PutObject"),
    Case(403, "", Denied, "create needs s3:PutObject"),
    Case(401, "", Denied, "create needs s3:PutObject"),
    Case(403, "InvalidAccessKeyId", Denied, "check AWS_ACCESS_KEY_ID"),
    Case(403, "SignatureDoesNotMatch", Denied, "AWS_SECRET_ACCESS_KEY does not"),
    Case(400, "ExpiredToken", Denied, "get new ones"),
    Case(400, "ExpiredTokenException", Denied, "get new ones"),
    Case(400, "InvalidToken", Denied, "get new ones"),
    Case(403, "RequestTimeTooSkewed", Unavailable, "clock is wrong; set it"),
    Case(403, "RequestExpired", Unavailable, "clock is wrong; set it"),
    Case(404, "NoSuchBucket", Unavailable, "create the bucket"),
]
# botocore itself looks up another region, so these are for one driver only.
REGIONS = [
    Case(301, "PermanentRedirect", Unavailable, "pass region="),
    Case(400, "AuthorizationHeaderMalformed", Unavailable, "pass region="),
]


@pytest.mark.parametrize(
    ("driver", "case"),
    [
        *((driver, case) for driver in DRIVERS for case in CASES),
        *(("obstore", case) for case in REGIONS),
    ],
)
def test_error_names_the_place_and_has_the_advice_of_its_cause(
    proxy: S3Proxy, driver: Driver, case: Case
) -> None:
    proxy.plan = lambda _: case.fault
    time = VirtualTime()
    store = open_s3(proxy, driver, time.retry_policy())
    place = f"in s3://bucket/p at {proxy.url}: "
    operations: list[tuple[Callable[[], Coroutine[Any, Any, object]], str]] = [
        (lambda: store.create("runs/a", b""), "cannot create key 'runs/a'"),
        (lambda: store.read("runs/a"), "cannot read key 'runs/a'"),
        (lambda: store.keys("waits/"), "cannot list keys that begin with 'waits/'"),
        (lambda: store.delete("markers/a"), "cannot delete key 'markers/a'"),
    ]

    for begin, subject in operations:
        with pytest.raises(case.error) as raised:
            asyncio.run(begin())
        text = str(raised.value)
        assert text.startswith(f"{subject} {place}")
        assert case.advice in text
    assert [] == time.pauses


def test_client_of_an_application_names_its_endpoint(proxy: S3Proxy) -> None:
    proxy.plan = lambda _: error_response(403, "AccessDenied")
    client = boto3.client("s3", endpoint_url=proxy.url)

    with pytest.raises(Denied, match=f"in s3://bucket at {proxy.url}:"):
        asyncio.run(S3Store("bucket", client=client).read("a"))


@pytest.mark.parametrize("driver", DRIVERS)
def test_endpoint_of_the_environment_is_named_without_its_password(
    proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch, driver: Driver
) -> None:
    """Errors and reprs contain no credentials, wherever the endpoint comes from."""
    secret = proxy.url.replace("http://", "http://kim:hunter2@")
    monkeypatch.setenv("AWS_ENDPOINT_URL", secret)
    store: Store = open_without_endpoint(driver)

    with pytest.raises(StorageError) as raised:
        asyncio.run(store.read("a"))

    assert f"at {proxy.url}" in repr(store)
    assert "hunter2" not in f"{store!r} {raised.value}"


def open_without_endpoint(driver: Driver) -> Store:
    from continuations_storage import open_store  # noqa: PLC0415 -- only here

    return open_store("s3://bucket/p", driver=driver)


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        (None, "s3://b"),
        ("", "s3://b"),
        ("nonsense", "s3://b"),
        ("https://host:9/path", "s3://b at https://host:9/path"),
        ("https://kim:pw@host?token=x", "s3://b at https://host"),
    ],
)
def test_place_has_no_credentials(endpoint: str | None, expected: str) -> None:
    assert expected == describe_place("s3://b", endpoint)
