"""Each verb of the stores of objects keeps the contract after every response."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Coroutine, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import pytest

from continuations_storage import (
    AlreadyExists,
    Damaged,
    Denied,
    Inconclusive,
    NotFound,
    StorageError,
    Store,
    Throttled,
    Unavailable,
    Unsafe,
)
from continuations_storage.obstore import ObjectStore
from continuations_storage.retries import RetryPolicy
from continuations_storage.s3 import S3Store
from continuations_storage.s3client import ClientSettings, create_client
from continuations_storage.s3requests import S3Client
from tests.storage.fake_gcs import FakeGcs
from tests.storage.outages import VirtualTime
from tests.storage.s3_proxy import (
    FakeS3,
    Fault,
    Reply,
    S3Proxy,
    error_response,
    fixed_body,
    lost_reply,
    lost_request,
    no_fault,
    truncated_body,
)

pytestmark = pytest.mark.usefixtures("s3_environment")

BODY = b"0123456789"
Driver: TypeAlias = Literal["boto3", "obstore", "google"]
OTHER_BODY = b"another's"
CAPTIVE_PORTAL_PAGE = b"<html><body>Welcome! Please log in.</body></html>"
ERROR_BODY_WITH_STATUS_200 = b"<Error><Code>InternalError</Code></Error>"


def delays() -> VirtualTime:
    return VirtualTime(dice=1.0)


def policy_of(time: VirtualTime, seconds: float = 1000.0) -> RetryPolicy:
    return time.retry_policy(max_attempts=4, max_seconds=seconds)


@pytest.fixture(scope="module")
def proxy() -> Iterator[S3Proxy]:
    with S3Proxy(FakeS3()) as server:
        yield server


@pytest.fixture(scope="module")
def client(proxy: S3Proxy) -> Iterator[S3Client]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        yield create_client(
            ClientSettings(
                endpoint=proxy.url, region="us-east-1", timeout=1.0, connections=4
            )
        )


@dataclass(frozen=True)
class Case:
    """Faults in order, the expected result, and the expected requests."""

    expected: type[StorageError] | object
    requests: dict[str, int]
    faults: tuple[Fault, ...]
    text: str
    key_exists: bool


def case(
    expected: object,
    requests: dict[str, int],
    *faults: Fault,
    text: str = "",
    key_exists: bool = False,
) -> Case:
    return Case(expected, requests, faults, text, key_exists)


def store_behind(
    client: S3Client, prefix: str = "", policy: RetryPolicy | None = None
) -> S3Store:
    policy = policy or policy_of(delays())
    return S3Store("bucket", prefix, client=client, retry_policy=policy)


@pytest.fixture
def google_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "token")
    monkeypatch.delenv("GOOGLE_BASE_URL", raising=False)


def open_driver(driver: Driver, proxy: S3Proxy, client: S3Client) -> Store:
    """Return a store with the prefix "p" that waits for nothing between attempts."""
    if driver == "boto3":
        return store_behind(client, "p")
    return ObjectStore(
        f"{'gs' if driver == 'google' else 's3'}://bucket/p",
        endpoint=proxy.url,
        retry_policy=policy_of(delays()),
        timeout=0.5,
    )


def in_drivers(
    rows: Mapping[str, Case], obstore: Collection[str], google: Collection[str]
) -> list[Any]:
    """Return parameters: each row with boto3, and some rows with the other drivers."""
    others = {"boto3": rows, "obstore": obstore, "google": google}
    return [
        pytest.param(driver, rows[name], id=f"{driver}-{name}")
        for driver, names in others.items()
        for name in names
    ]


def outcome(work: Coroutine[Any, Any, object]) -> tuple[object, str]:
    try:
        return asyncio.run(work), ""
    except StorageError as error:
        return type(error), str(error)


def assert_case(
    case: Case,
    proxy: S3Proxy,
    work: Coroutine[Any, Any, object],
    driver: Driver = "boto3",
) -> None:
    result, text = outcome(work)

    assert (case.expected, case.requests) == (result, Counter(proxy.counts)), text
    if driver == "boto3":
        assert case.text in text


MANY = 40
CREATED = "made"
SLOW_DOWN = error_response(503, "SlowDown")
CONFLICT = error_response(409, "ConditionalRequestConflict")
FAILURE = error_response(500, "InternalError")
FORBIDDEN = error_response(403, "AccessDenied")
NO_BUCKET = error_response(404, "NoSuchBucket")
LOGIN_PAGE = fixed_body(CAPTIVE_PORTAL_PAGE)

CREATES = {
    "all well": case(CREATED, {"PUT": 1}),
    "exists": case(AlreadyExists, {"PUT": 1}, key_exists=True),
    "412": case(AlreadyExists, {"PUT": 1}, error_response(412, "PreconditionFailed")),
    # Lost requests and replies.
    "request lost": case(CREATED, {"PUT": 2}, lost_request()),
    "reply lost": case(CREATED, {"PUT": 2, "HEAD": 1}, lost_reply()),
    "reply lost each time": case(CREATED, {"PUT": 4, "HEAD": 1}, *[lost_reply()] * 4),
    "reply lost, and that of the read-back": case(
        CREATED, {"PUT": 2, "HEAD": 2}, lost_reply(), no_fault(), lost_reply()
    ),
    "every reply lost": case(
        Inconclusive,
        {"PUT": 4, "HEAD": 3},
        *[lost_reply()] * MANY,
        text="the read back failed",
    ),
    "every request lost, and the key is free": case(
        Inconclusive, {"PUT": 4, "HEAD": 1}, *[lost_request()] * 4
    ),
    "request lost, then created by another": case(
        AlreadyExists, {"PUT": 2, "HEAD": 1}, lost_request(), key_exists=True
    ),
    "reply lost, then exists, then missing when read back": case(
        Inconclusive,
        {"PUT": 2, "HEAD": 1},
        lost_reply(),
        no_fault(),
        error_response(404),
    ),
    "reply lost, then exists, but reading is not permitted": case(
        Inconclusive,
        {"PUT": 2, "HEAD": 1},
        lost_reply(),
        no_fault(),
        error_response(403),
    ),
    "reply lost, then the credentials are gone, then back": case(
        CREATED, {"PUT": 2, "HEAD": 1}, lost_reply(), FORBIDDEN
    ),
    # 409: another write is in progress.
    "conflict": case(CREATED, {"PUT": 3}, *[CONFLICT] * 2),
    "conflict, then created by another": case(
        AlreadyExists, {"PUT": 2, "HEAD": 1}, CONFLICT, key_exists=True
    ),
    "conflict after the write was stored, then exists: our own body": case(
        CREATED,
        {"PUT": 2, "HEAD": 1},
        error_response(409, "ConditionalRequestConflict", is_stored=True),
    ),
    "conflicts, then exists, but reading is not permitted": case(
        Inconclusive,
        {"PUT": 3, "HEAD": 1},
        CONFLICT,
        error_response(409, "OperationAborted", is_stored=True),
        no_fault(),
        error_response(403),
    ),
    "conflict always": case(
        Unavailable, {"PUT": 4}, *[CONFLICT] * MANY, text="ConditionalRequestConflict"
    ),
    # 5xx.
    "500": case(CREATED, {"PUT": 2}, FAILURE),
    "500 after the write was stored": case(
        CREATED,
        {"PUT": 2, "HEAD": 1},
        error_response(500, "InternalError", is_stored=True),
    ),
    "500 hidden in a 200": case(
        CREATED, {"PUT": 2}, fixed_body(ERROR_BODY_WITH_STATUS_200)
    ),
    "502 of a proxy": case(CREATED, {"PUT": 2}, error_response(502)),
    "408 of a proxy": case(CREATED, {"PUT": 2}, error_response(408)),
    "408 of a proxy after the write was stored": case(
        CREATED, {"PUT": 2, "HEAD": 1}, error_response(408, is_stored=True)
    ),
    "425 of a proxy": case(CREATED, {"PUT": 2}, error_response(425)),
    "425 of a proxy always: nothing was sent": case(
        Unavailable, {"PUT": 4}, *[error_response(425)] * MANY
    ),
    "some new 5xx": case(CREATED, {"PUT": 2}, error_response(599)),
    "slow down": case(CREATED, {"PUT": 2}, SLOW_DOWN),
    "slow down, always": case(Throttled, {"PUT": 4}, *[SLOW_DOWN] * MANY),
    "429 always": case(Throttled, {"PUT": 4}, *[error_response(429)] * MANY),
    "500, then slow down always: may be stored": case(
        Inconclusive, {"PUT": 4, "HEAD": 3}, FAILURE, *[SLOW_DOWN] * MANY
    ),
    "not implemented": case(
        Unsafe,
        {"PUT": 1},
        error_response(501, "NotImplemented"),
        text="checksums='when_required'",
    ),
    "store full": case(Unavailable, {"PUT": 1}, error_response(507)),
    # Credentials.
    "forbidden": case(Denied, {"PUT": 1}, FORBIDDEN, text="s3:ListBucket"),
    "expired credentials": case(
        Denied, {"PUT": 1}, error_response(400, "ExpiredToken"), text="get new ones"
    ),
    "wrong clock": case(
        Unavailable,
        {"PUT": 1},
        error_response(403, "RequestTimeTooSkewed"),
        text="clock is wrong",
    ),
    # Bucket and request.
    "no bucket": case(Unavailable, {"PUT": 1}, NO_BUCKET, text="create the bucket"),
    "some new 4xx": case(
        Unavailable, {"PUT": 1}, error_response(418, "Teapot"), text="418 Teapot"
    ),
    "malformed": case(
        Unavailable,
        {"PUT": 1},
        error_response(400, "InvalidArgument"),
        text="path_style",
    ),
    "too large": case(
        Unavailable, {"PUT": 1}, error_response(400, "EntityTooLarge"), text="larger"
    ),
    # Transit.
    "body damaged in transit": case(
        CREATED, {"PUT": 2}, error_response(400, "BadDigest")
    ),
    "a login page of a network": case(CREATED, {"PUT": 2}, LOGIN_PAGE),
    "a login page of a network always": case(
        Inconclusive, {"PUT": 4, "HEAD": 3}, *[LOGIN_PAGE] * MANY, text="not one of S3"
    ),
}


CREATES_WITH_GOOGLE = (
    *("all well", "412", "request lost", "reply lost", "every reply lost"),
    *("429 always", "forbidden", "no bucket"),
)
CREATES_WITH_OBSTORE = (
    *("all well", "412", "request lost", "reply lost", "every reply lost"),
    "reply lost each time",
    "reply lost, then exists, then missing when read back",
    "conflict",
    "conflict always",
    "conflict after the write was stored, then exists: our own body",
    "500 after the write was stored",
    "408 of a proxy after the write was stored",
    "425 of a proxy always: nothing was sent",
    "slow down, always",
    "forbidden",
    "no bucket",
    "not implemented",
)


@pytest.mark.parametrize(
    ("driver", "case"), in_drivers(CREATES, CREATES_WITH_OBSTORE, CREATES_WITH_GOOGLE)
)
@pytest.mark.usefixtures("google_environment")
def test_create_maps_each_response(
    driver: Driver, case: Case, proxy: S3Proxy, client: S3Client
) -> None:
    """No false conflict, no false success, and no second body."""
    bucket = FakeGcs() if driver == "google" else FakeS3()
    if case.key_exists:
        bucket.bodies["p/a"], bucket.metadata["p/a"] = OTHER_BODY, {}
    proxy.reset(bucket, *case.faults)
    store = open_driver(driver, proxy, client)

    async def create() -> object:
        time = await store.create("a", BODY)
        if driver == "boto3":
            assert time is not None
            assert "2026-11-21T12:00:00+00:00" == time.isoformat()
        return CREATED

    assert_case(case, proxy, create(), driver)
    if case.expected is CREATED:
        assert BODY == bucket.bodies["p/a"]
    if case.key_exists:
        assert OTHER_BODY == bucket.bodies["p/a"]
    maker = "x-goog-meta-maker" if driver == "google" else "x-amz-meta-maker"
    makers = {r.headers[maker] for r in proxy.requests if r.kind == "PUT"}
    assert 1 == len(makers)


WRONG_CHECKSUM = {"ETag": '"x"', "x_amz_checksum_crc32": "AAAAAA=="}


def truncated_error_response() -> Fault:
    """Return a 404 with a truncated body, so that urllib3 raises an error."""
    whole = error_response(404, "NoSuchKey")

    def half(real: Reply) -> Reply:
        return replace(whole.reply(real), sent=1)

    return replace(whole, reply=half)


READS = {
    "all well": case(BODY, {"GET": 1}),
    "missing": case(NotFound, {"GET": 1}, error_response(404, "NoSuchKey")),
    "missing, and listing is not permitted": case(
        Denied, {"GET": 1}, FORBIDDEN, text="s3:ListBucket"
    ),
    "a 404 of another server": case(Unavailable, {"GET": 1}, error_response(404)),
    "no bucket": case(Unavailable, {"GET": 1}, NO_BUCKET),
    "truncated error": case(BODY, {"GET": 3}, *[truncated_error_response()] * 2),
    "lost": case(BODY, {"GET": 3}, *[lost_reply()] * 2),
    "truncated body": case(BODY, {"GET": 2}, truncated_body(5)),
    "truncated body always": case(Unavailable, {"GET": 4}, *[truncated_body(5)] * MANY),
    "a body that stalls": case(BODY, {"GET": 2}, truncated_body(5, stall=2.0)),
    "500": case(BODY, {"GET": 2}, error_response(500, "X")),
    "slow down, always": case(Throttled, {"GET": 4}, *[SLOW_DOWN] * MANY),
    "damaged in transit": case(BODY, {"GET": 2}, fixed_body(BODY, **WRONG_CHECKSUM)),
    "damaged in the store": case(
        Damaged, {"GET": 4}, *[fixed_body(BODY, **WRONG_CHECKSUM)] * MANY
    ),
    "a login page of a network always": case(
        Unavailable, {"GET": 4}, *[LOGIN_PAGE] * MANY, text="not one of S3"
    ),
    "archived": case(
        Unavailable,
        {"GET": 1},
        error_response(403, "InvalidObjectState"),
        text="restore it first",
    ),
}


READS_WITH_GOOGLE = (
    *("all well", "truncated body", "missing", "no bucket"),
    "missing, and listing is not permitted",
)
READS_WITH_OBSTORE = (
    *READS_WITH_GOOGLE,
    "a 404 of another server",
    "a body that stalls",
    "truncated body always",
    "slow down, always",
    "a login page of a network always",
)


@pytest.mark.parametrize(
    ("driver", "case"), in_drivers(READS, READS_WITH_OBSTORE, READS_WITH_GOOGLE)
)
@pytest.mark.usefixtures("google_environment")
def test_read_maps_each_response(
    driver: Driver, case: Case, proxy: S3Proxy, client: S3Client
) -> None:
    """The whole body or an error; `NotFound` only if the key is missing."""
    bucket = FakeGcs() if driver == "google" else FakeS3()
    bucket.bodies["p/a"], bucket.metadata["p/a"] = BODY, {}
    proxy.reset(bucket, *case.faults)

    assert_case(case, proxy, open_driver(driver, proxy, client).read("a"), driver)


def listing(*keys: str, more: bool = False) -> Fault:
    found = "".join(f"<Contents><Key>{key}</Key></Contents>" for key in keys)
    truncated = f"<IsTruncated>{str(more).lower()}</IsTruncated>"
    return fixed_body(
        f"<ListBucketResult>{truncated}{found}</ListBucketResult>".encode()
    )


LISTINGS = {
    "all well": case(["a", "b"], {"LIST": 1}),
    "truncated": case(
        ["a", "b"],
        {"LIST": 3},
        truncated_body(60),
        fixed_body(b"<ListBucketResult><IsTrun"),
    ),
    "truncated always": case(
        Unavailable, {"LIST": 4}, *[fixed_body(b"<ListBucketResult><IsTrun")] * MANY
    ),
    "a login page of a network is not an empty listing": case(
        Unavailable, {"LIST": 4}, *[LOGIN_PAGE] * MANY, text="not one of S3"
    ),
    "an empty page that is not the last": case(
        ["a", "b"], {"LIST": 2}, listing(more=True)
    ),
    "a short page that is not the last": case(
        ["a", "b"], {"LIST": 2}, listing("p/a", more=True)
    ),
    "names that are not keys": case(
        ["a"], {"LIST": 1}, listing("p/", "p/a", "p/a b", "p/c/")
    ),
    "out of order": case(
        Unsafe, {"LIST": 1}, listing("p/b", "p/a"), text="directory bucket"
    ),
    "of another prefix": case(Unsafe, {"LIST": 1}, listing("q/b")),
    "forbidden": case(Denied, {"LIST": 1}, FORBIDDEN),
    "500": case(["a", "b"], {"LIST": 2}, error_response(500)),
}


@pytest.mark.parametrize("case", LISTINGS.values(), ids=LISTINGS)
def test_listing_maps_each_response(
    case: Case, proxy: S3Proxy, client: S3Client
) -> None:
    """A failed listing is never an empty one."""
    bucket = FakeS3()
    bucket.bodies.update({"p/a": BODY, "p/b": BODY, "q": BODY})
    proxy.reset(bucket, *case.faults)
    store = store_behind(client, "p")

    assert_case(case, proxy, store.keys(""))


DELETES = {
    "all well": case(None, {"DELETE": 1}),
    "lost": case(None, {"DELETE": 2}, lost_reply()),
    "404 of another server": case(
        None, {"DELETE": 1}, error_response(404, "NoSuchKey")
    ),
    "no bucket": case(Unavailable, {"DELETE": 1}, NO_BUCKET),
    "forbidden": case(Denied, {"DELETE": 1}, FORBIDDEN),
    "conflict": case(None, {"DELETE": 2}, error_response(409, "OperationAborted")),
}


@pytest.mark.parametrize("case", DELETES.values(), ids=DELETES)
def test_delete_maps_each_response(
    case: Case, proxy: S3Proxy, client: S3Client
) -> None:
    proxy.reset(FakeS3(), *case.faults)
    store = store_behind(client)

    assert_case(case, proxy, store.delete("a"))


REDIRECTS = [
    error_response(301, "PermanentRedirect"),
    error_response(400, "AuthorizationHeaderMalformed"),
    error_response(400, "IllegalLocationConstraintException"),
]


@pytest.mark.parametrize("fault", REDIRECTS)
def test_error_of_another_region_names_the_region_option(
    fault: Fault, proxy: S3Proxy, client: S3Client
) -> None:
    proxy.reset(FakeS3())
    proxy.plan = lambda _: fault
    store = store_behind(client)

    # botocore looks up the region, so requests are not counted.
    for work in (store.read("a"), store.create("a", b"")):
        result, text = outcome(work)
        assert Unavailable is result
        assert "pass region=" in text


def test_delays_grow_and_honor_retry_after(proxy: S3Proxy, client: S3Client) -> None:
    slow = error_response(503, "SlowDown")
    asked = error_response(503, "SlowDown", Retry_After="7")
    until = error_response(503, "SlowDown", Retry_After="Sat, 21 Nov 2026 12:00:09 GMT")
    proxy.reset(FakeS3(), slow, asked, until)
    waits = delays()
    store = store_behind(client, policy=policy_of(waits))

    asyncio.run(store.create("a", b""))

    assert [0.1, 7.2, 9.4] == pytest.approx(waits.pauses)


def test_retry_after_beyond_the_time_limit_fails_at_once(
    proxy: S3Proxy, client: S3Client
) -> None:
    proxy.reset(FakeS3(), error_response(503, "SlowDown", Retry_After="3600"))
    waits = delays()
    store = store_behind(client, policy=policy_of(waits, seconds=30))

    assert Throttled is outcome(store.create("a", b""))[0]
    assert ([], {"PUT": 1}) == (waits.pauses, Counter(proxy.counts))


def test_date_beyond_the_calendar_is_not_waited_for(
    proxy: S3Proxy, client: S3Client
) -> None:
    """An absurd Retry-After is like none; the create succeeds."""
    slow = error_response(
        503, "SlowDown", Retry_After="Fri, 31 Dec 9999 23:59:59 -0100"
    )
    proxy.reset(FakeS3(), slow)
    waits = delays()
    store = store_behind(client, policy=policy_of(waits))

    asyncio.run(store.create("a", b""))

    assert [0.1] == pytest.approx(waits.pauses)


def test_invalid_date_header_gives_no_time(proxy: S3Proxy, client: S3Client) -> None:
    for date in (
        "soon",
        "",
        "Sat, 21 Nov 2026 12:00:00 -0000",
        "Fri, 31 Dec 9999 23:59:59 -0100",
    ):
        proxy.reset(FakeS3(), fixed_body(b"", ETag='"x"', Date=date))
        store = store_behind(client)

        assert asyncio.run(store.create("a", b"")) is None
