"""Each verb of the S3 store keeps the contract after every response."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from continuations_storage import (
    AlreadyExists,
    Damaged,
    Denied,
    Inconclusive,
    NotFound,
    StorageError,
    Throttled,
    Unavailable,
    Unsafe,
)
from continuations_storage.retries import RetryPolicy
from continuations_storage.s3 import S3Store
from continuations_storage.s3client import ClientSettings, create_client
from continuations_storage.s3requests import S3Client
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
OTHER_BODY = b"another's"
CAPTIVE_PORTAL_PAGE = b"<html><body>Welcome! Please log in.</body></html>"
ERROR_BODY_WITH_STATUS_200 = b"<Error><Code>InternalError</Code></Error>"


@dataclass
class RecordedDelays:
    """A clock that only `sleep` advances."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list[float])

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def retry_policy(self, seconds: float = 1000.0) -> RetryPolicy:
        return RetryPolicy(
            max_attempts=4,
            max_seconds=seconds,
            clock=lambda: self.now,
            sleep=self.sleep,
            random_fraction=lambda: 1.0,
        )


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


@dataclass(frozen=True, kw_only=True)
class Case:
    """Faults in order, the expected result, and the expected requests."""

    name: str
    faults: tuple[Fault, ...] = ()
    expected: type[StorageError] | object
    expected_requests: dict[str, int]
    expected_text: str = ""
    key_exists: bool = False


def outcome(work: Coroutine[Any, Any, object]) -> tuple[object, str]:
    try:
        return asyncio.run(work), ""
    except StorageError as error:
        return type(error), str(error)


def assert_case(case: Case, proxy: S3Proxy, work: Coroutine[Any, Any, object]) -> None:
    result, text = outcome(work)

    assert (case.expected, case.expected_requests) == (result, Counter(proxy.counts)), (
        text
    )
    assert case.expected_text in text


def case_name(case: Case) -> str:
    return case.name


MANY = 40
CREATED = "made"

CREATES = [
    Case(name="all well", expected=CREATED, expected_requests={"PUT": 1}),
    Case(
        name="exists",
        key_exists=True,
        expected=AlreadyExists,
        expected_requests={"PUT": 1},
    ),
    # Lost requests and replies.
    Case(
        name="request lost",
        faults=(lost_request(),),
        expected=CREATED,
        expected_requests={"PUT": 2},
    ),
    Case(
        name="reply lost",
        faults=(lost_reply(),),
        expected=CREATED,
        expected_requests={"PUT": 2, "HEAD": 1},
    ),
    Case(
        name="reply lost each time",
        faults=(lost_reply(),) * 4,
        expected=CREATED,
        expected_requests={"PUT": 4, "HEAD": 1},
    ),
    Case(
        name="reply lost, and that of the read-back",
        faults=(lost_reply(), no_fault(), lost_reply()),
        expected=CREATED,
        expected_requests={"PUT": 2, "HEAD": 2},
    ),
    Case(
        name="every reply lost",
        faults=(lost_reply(),) * MANY,
        expected=Inconclusive,
        expected_requests={"PUT": 4, "HEAD": 3},
        expected_text="the read back failed",
    ),
    Case(
        name="every request lost, and the key is free",
        faults=(lost_request(),) * 4,
        expected=Inconclusive,
        expected_requests={"PUT": 4, "HEAD": 1},
    ),
    Case(
        name="request lost, then created by another",
        faults=(lost_request(),),
        key_exists=True,
        expected=AlreadyExists,
        expected_requests={"PUT": 2, "HEAD": 1},
    ),
    Case(
        name="reply lost, then exists, then missing when read back",
        faults=(lost_reply(), no_fault(), error_response(404)),
        expected=Inconclusive,
        expected_requests={"PUT": 2, "HEAD": 1},
    ),
    Case(
        name="reply lost, then exists, but reading is not permitted",
        faults=(lost_reply(), no_fault(), error_response(403)),
        expected=Inconclusive,
        expected_requests={"PUT": 2, "HEAD": 1},
    ),
    Case(
        name="reply lost, then the credentials are gone, then back",
        faults=(lost_reply(), error_response(403, "AccessDenied")),
        expected=CREATED,
        expected_requests={"PUT": 2, "HEAD": 1},
    ),
    # 409: another write is in progress.
    Case(
        name="conflict",
        faults=(error_response(409, "ConditionalRequestConflict"),) * 2,
        expected=CREATED,
        expected_requests={"PUT": 3},
    ),
    Case(
        name="conflict, then created by another",
        faults=(error_response(409, "ConditionalRequestConflict"),),
        key_exists=True,
        expected=AlreadyExists,
        expected_requests={"PUT": 2, "HEAD": 1},
    ),
    Case(
        name="conflict after the write was stored, then exists: our own body",
        faults=(error_response(409, "ConditionalRequestConflict", is_stored=True),),
        expected=CREATED,
        expected_requests={"PUT": 2, "HEAD": 1},
    ),
    Case(
        name="conflicts, then exists, but reading is not permitted",
        faults=(
            error_response(409, "ConditionalRequestConflict"),
            error_response(409, "OperationAborted", is_stored=True),
            no_fault(),
            error_response(403),
        ),
        expected=Inconclusive,
        expected_requests={"PUT": 3, "HEAD": 1},
    ),
    Case(
        name="conflict always",
        faults=(error_response(409, "ConditionalRequestConflict"),) * MANY,
        expected=Unavailable,
        expected_requests={"PUT": 4},
        expected_text="ConditionalRequestConflict",
    ),
    # 5xx.
    Case(
        name="500",
        faults=(error_response(500, "InternalError"),),
        expected=CREATED,
        expected_requests={"PUT": 2},
    ),
    Case(
        name="500 after the write was stored",
        faults=(error_response(500, "InternalError", is_stored=True),),
        expected=CREATED,
        expected_requests={"PUT": 2, "HEAD": 1},
    ),
    Case(
        name="500 hidden in a 200",
        faults=(fixed_body(ERROR_BODY_WITH_STATUS_200),),
        expected=CREATED,
        expected_requests={"PUT": 2},
    ),
    Case(
        name="502 of a proxy",
        faults=(error_response(502),),
        expected=CREATED,
        expected_requests={"PUT": 2},
    ),
    Case(
        name="408 of a proxy",
        faults=(error_response(408),),
        expected=CREATED,
        expected_requests={"PUT": 2},
    ),
    Case(
        name="408 of a proxy after the write was stored",
        faults=(error_response(408, is_stored=True),),
        expected=CREATED,
        expected_requests={"PUT": 2, "HEAD": 1},
    ),
    Case(
        name="425 of a proxy",
        faults=(error_response(425),),
        expected=CREATED,
        expected_requests={"PUT": 2},
    ),
    Case(
        name="425 of a proxy always: nothing was sent",
        faults=(error_response(425),) * MANY,
        expected=Unavailable,
        expected_requests={"PUT": 4},
    ),
    Case(
        name="some new 5xx",
        faults=(error_response(599),),
        expected=CREATED,
        expected_requests={"PUT": 2},
    ),
    Case(
        name="slow down",
        faults=(error_response(503, "SlowDown"),),
        expected=CREATED,
        expected_requests={"PUT": 2},
    ),
    Case(
        name="slow down, always",
        faults=(error_response(503, "SlowDown"),) * MANY,
        expected=Throttled,
        expected_requests={"PUT": 4},
    ),
    Case(
        name="429 always",
        faults=(error_response(429),) * MANY,
        expected=Throttled,
        expected_requests={"PUT": 4},
    ),
    Case(
        name="500, then slow down always: may be stored",
        faults=(
            error_response(500, "InternalError"),
            *[error_response(503, "SlowDown")] * MANY,
        ),
        expected=Inconclusive,
        expected_requests={"PUT": 4, "HEAD": 3},
    ),
    Case(
        name="not implemented",
        faults=(error_response(501, "NotImplemented"),),
        expected=Unsafe,
        expected_requests={"PUT": 1},
        expected_text="checksums='when_required'",
    ),
    Case(
        name="store full",
        faults=(error_response(507),),
        expected=Unavailable,
        expected_requests={"PUT": 1},
    ),
    # Credentials.
    Case(
        name="forbidden",
        faults=(error_response(403, "AccessDenied"),),
        expected=Denied,
        expected_requests={"PUT": 1},
        expected_text="s3:ListBucket",
    ),
    Case(
        name="expired credentials",
        faults=(error_response(400, "ExpiredToken"),),
        expected=Denied,
        expected_requests={"PUT": 1},
        expected_text="get new ones",
    ),
    Case(
        name="wrong clock",
        faults=(error_response(403, "RequestTimeTooSkewed"),),
        expected=Unavailable,
        expected_requests={"PUT": 1},
        expected_text="clock is wrong",
    ),
    # Bucket and request.
    Case(
        name="no bucket",
        faults=(error_response(404, "NoSuchBucket"),),
        expected=Unavailable,
        expected_requests={"PUT": 1},
        expected_text="create the bucket",
    ),
    Case(
        name="some new 4xx",
        faults=(error_response(418, "Teapot"),),
        expected=Unavailable,
        expected_requests={"PUT": 1},
        expected_text="418 Teapot",
    ),
    Case(
        name="malformed",
        faults=(error_response(400, "InvalidArgument"),),
        expected=Unavailable,
        expected_requests={"PUT": 1},
        expected_text="path_style",
    ),
    Case(
        name="too large",
        faults=(error_response(400, "EntityTooLarge"),),
        expected=Unavailable,
        expected_requests={"PUT": 1},
        expected_text="larger",
    ),
    # Transit.
    Case(
        name="body damaged in transit",
        faults=(error_response(400, "BadDigest"),),
        expected=CREATED,
        expected_requests={"PUT": 2},
    ),
    Case(
        name="a login page of a network",
        faults=(fixed_body(CAPTIVE_PORTAL_PAGE),),
        expected=CREATED,
        expected_requests={"PUT": 2},
    ),
    Case(
        name="a login page of a network always",
        faults=(fixed_body(CAPTIVE_PORTAL_PAGE),) * MANY,
        expected=Inconclusive,
        expected_requests={"PUT": 4, "HEAD": 3},
        expected_text="not one of S3",
    ),
]


@pytest.mark.parametrize("case", CREATES, ids=case_name)
def test_create_maps_each_response(
    case: Case, proxy: S3Proxy, client: S3Client
) -> None:
    """No false conflict, no false success, and no second body."""
    bucket = FakeS3()
    if case.key_exists:
        bucket.bodies["p/a"], bucket.metadata["p/a"] = OTHER_BODY, {}
    proxy.reset(bucket, *case.faults)
    store = S3Store(
        "bucket", "p", client=client, retry_policy=RecordedDelays().retry_policy()
    )

    async def create() -> object:
        time = await store.create("a", BODY)
        assert time is not None
        assert "2026-11-21T12:00:00+00:00" == time.isoformat()
        return CREATED

    assert_case(case, proxy, create())
    if case.expected is CREATED:
        assert BODY == bucket.bodies["p/a"]
    if case.key_exists:
        assert OTHER_BODY == bucket.bodies["p/a"]
    makers = [r.headers["x-amz-meta-maker"] for r in proxy.requests if r.kind == "PUT"]
    assert 1 == len(set(makers))


WRONG_CHECKSUM = {"ETag": '"x"', "x_amz_checksum_crc32": "AAAAAA=="}


def truncated_error_response() -> Fault:
    """Return a 404 with a truncated body, so that urllib3 raises an error."""
    whole = error_response(404, "NoSuchKey")

    def half(real: Reply) -> Reply:
        return replace(whole.reply(real), sent=1)

    return replace(whole, reply=half)


READS = [
    Case(name="all well", expected=BODY, expected_requests={"GET": 1}),
    Case(
        name="missing",
        faults=(error_response(404, "NoSuchKey"),),
        expected=NotFound,
        expected_requests={"GET": 1},
    ),
    Case(
        name="missing, and listing is not permitted",
        faults=(error_response(403, "AccessDenied"),),
        expected=Denied,
        expected_requests={"GET": 1},
        expected_text="s3:ListBucket",
    ),
    Case(
        name="a 404 of another server",
        faults=(error_response(404),),
        expected=Unavailable,
        expected_requests={"GET": 1},
    ),
    Case(
        name="no bucket",
        faults=(error_response(404, "NoSuchBucket"),),
        expected=Unavailable,
        expected_requests={"GET": 1},
    ),
    Case(
        name="truncated error",
        faults=(truncated_error_response(),) * 2,
        expected=BODY,
        expected_requests={"GET": 3},
    ),
    Case(
        name="lost",
        faults=(lost_reply(),) * 2,
        expected=BODY,
        expected_requests={"GET": 3},
    ),
    Case(
        name="truncated body",
        faults=(truncated_body(5),),
        expected=BODY,
        expected_requests={"GET": 2},
    ),
    Case(
        name="truncated body always",
        faults=(truncated_body(5),) * MANY,
        expected=Unavailable,
        expected_requests={"GET": 4},
    ),
    Case(
        name="a body that stalls",
        faults=(truncated_body(5, stall=2.0),),
        expected=BODY,
        expected_requests={"GET": 2},
    ),
    Case(
        name="500",
        faults=(error_response(500, "X"),),
        expected=BODY,
        expected_requests={"GET": 2},
    ),
    Case(
        name="slow down, always",
        faults=(error_response(503, "SlowDown"),) * MANY,
        expected=Throttled,
        expected_requests={"GET": 4},
    ),
    Case(
        name="damaged in transit",
        faults=(fixed_body(BODY, **WRONG_CHECKSUM),),
        expected=BODY,
        expected_requests={"GET": 2},
    ),
    Case(
        name="damaged in the store",
        faults=(fixed_body(BODY, **WRONG_CHECKSUM),) * MANY,
        expected=Damaged,
        expected_requests={"GET": 4},
    ),
    Case(
        name="a login page of a network always",
        faults=(fixed_body(CAPTIVE_PORTAL_PAGE),) * MANY,
        expected=Unavailable,
        expected_requests={"GET": 4},
        expected_text="not one of S3",
    ),
    Case(
        name="archived",
        faults=(error_response(403, "InvalidObjectState"),),
        expected=Unavailable,
        expected_requests={"GET": 1},
        expected_text="restore it first",
    ),
]


@pytest.mark.parametrize("case", READS, ids=case_name)
def test_read_maps_each_response(case: Case, proxy: S3Proxy, client: S3Client) -> None:
    """The whole body or an error; `NotFound` only if the key is missing."""
    bucket = FakeS3()
    bucket.bodies["a"], bucket.metadata["a"] = BODY, {}
    proxy.reset(bucket, *case.faults)
    store = S3Store(
        "bucket", client=client, retry_policy=RecordedDelays().retry_policy()
    )

    assert_case(case, proxy, store.read("a"))


def listing(*keys: str, more: bool = False) -> Fault:
    found = "".join(f"<Contents><Key>{key}</Key></Contents>" for key in keys)
    truncated = f"<IsTruncated>{str(more).lower()}</IsTruncated>"
    return fixed_body(
        f"<ListBucketResult>{truncated}{found}</ListBucketResult>".encode()
    )


LISTINGS = [
    Case(name="all well", expected=["a", "b"], expected_requests={"LIST": 1}),
    Case(
        name="truncated",
        faults=(truncated_body(60), fixed_body(b"<ListBucketResult><IsTrun")),
        expected=["a", "b"],
        expected_requests={"LIST": 3},
    ),
    Case(
        name="truncated always",
        faults=(fixed_body(b"<ListBucketResult><IsTrun"),) * MANY,
        expected=Unavailable,
        expected_requests={"LIST": 4},
    ),
    Case(
        name="a login page of a network is not an empty listing",
        faults=(fixed_body(CAPTIVE_PORTAL_PAGE),) * MANY,
        expected=Unavailable,
        expected_requests={"LIST": 4},
        expected_text="not one of S3",
    ),
    Case(
        name="an empty page that is not the last",
        faults=(listing(more=True),),
        expected=["a", "b"],
        expected_requests={"LIST": 2},
    ),
    Case(
        name="a short page that is not the last",
        faults=(listing("p/a", more=True),),
        expected=["a", "b"],
        expected_requests={"LIST": 2},
    ),
    Case(
        name="names that are not keys",
        faults=(listing("p/", "p/a", "p/a b", "p/c/"),),
        expected=["a"],
        expected_requests={"LIST": 1},
    ),
    Case(
        name="out of order",
        faults=(listing("p/b", "p/a"),),
        expected=Unsafe,
        expected_requests={"LIST": 1},
        expected_text="directory bucket",
    ),
    Case(
        name="of another prefix",
        faults=(listing("q/b"),),
        expected=Unsafe,
        expected_requests={"LIST": 1},
    ),
    Case(
        name="forbidden",
        faults=(error_response(403, "AccessDenied"),),
        expected=Denied,
        expected_requests={"LIST": 1},
    ),
    Case(
        name="500",
        faults=(error_response(500),),
        expected=["a", "b"],
        expected_requests={"LIST": 2},
    ),
]


@pytest.mark.parametrize("case", LISTINGS, ids=case_name)
def test_listing_maps_each_response(
    case: Case, proxy: S3Proxy, client: S3Client
) -> None:
    """A failed listing is never an empty one."""
    bucket = FakeS3()
    bucket.bodies.update({"p/a": BODY, "p/b": BODY, "q": BODY})
    proxy.reset(bucket, *case.faults)
    store = S3Store(
        "bucket", "p", client=client, retry_policy=RecordedDelays().retry_policy()
    )

    assert_case(case, proxy, store.keys(""))


DELETES = [
    Case(name="all well", expected=None, expected_requests={"DELETE": 1}),
    Case(
        name="lost",
        faults=(lost_reply(),),
        expected=None,
        expected_requests={"DELETE": 2},
    ),
    Case(
        name="404 of another server",
        faults=(error_response(404, "NoSuchKey"),),
        expected=None,
        expected_requests={"DELETE": 1},
    ),
    Case(
        name="no bucket",
        faults=(error_response(404, "NoSuchBucket"),),
        expected=Unavailable,
        expected_requests={"DELETE": 1},
    ),
    Case(
        name="forbidden",
        faults=(error_response(403, "AccessDenied"),),
        expected=Denied,
        expected_requests={"DELETE": 1},
    ),
    Case(
        name="conflict",
        faults=(error_response(409, "OperationAborted"),),
        expected=None,
        expected_requests={"DELETE": 2},
    ),
]


@pytest.mark.parametrize("case", DELETES, ids=case_name)
def test_delete_maps_each_response(
    case: Case, proxy: S3Proxy, client: S3Client
) -> None:
    proxy.reset(FakeS3(), *case.faults)
    store = S3Store(
        "bucket", client=client, retry_policy=RecordedDelays().retry_policy()
    )

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
    store = S3Store(
        "bucket", client=client, retry_policy=RecordedDelays().retry_policy()
    )

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
    waits = RecordedDelays()
    store = S3Store("bucket", client=client, retry_policy=waits.retry_policy())

    asyncio.run(store.create("a", b""))

    assert [0.1, 7.2, 9.4] == pytest.approx(waits.slept)


def test_retry_after_beyond_the_time_limit_fails_at_once(
    proxy: S3Proxy, client: S3Client
) -> None:
    proxy.reset(FakeS3(), error_response(503, "SlowDown", Retry_After="3600"))
    waits = RecordedDelays()
    store = S3Store(
        "bucket", client=client, retry_policy=waits.retry_policy(seconds=30)
    )

    assert Throttled is outcome(store.create("a", b""))[0]
    assert ([], {"PUT": 1}) == (waits.slept, Counter(proxy.counts))


def test_date_beyond_the_calendar_is_not_waited_for(
    proxy: S3Proxy, client: S3Client
) -> None:
    """An absurd Retry-After is like none; the create succeeds."""
    slow = error_response(
        503, "SlowDown", Retry_After="Fri, 31 Dec 9999 23:59:59 -0100"
    )
    proxy.reset(FakeS3(), slow)
    waits = RecordedDelays()
    store = S3Store("bucket", client=client, retry_policy=waits.retry_policy())

    asyncio.run(store.create("a", b""))

    assert [0.1] == pytest.approx(waits.slept)


def test_invalid_date_header_gives_no_time(proxy: S3Proxy, client: S3Client) -> None:
    for date in (
        "soon",
        "",
        "Sat, 21 Nov 2026 12:00:00 -0000",
        "Fri, 31 Dec 9999 23:59:59 -0100",
    ):
        proxy.reset(FakeS3(), fixed_body(b"", ETag='"x"', Date=date))
        store = S3Store(
            "bucket", client=client, retry_policy=RecordedDelays().retry_policy()
        )

        assert asyncio.run(store.create("a", b"")) is None
