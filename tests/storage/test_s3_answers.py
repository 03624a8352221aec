"""Whatever S3 or the way to it answers, each verb says what the contract says."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

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
from continuations_storage.patience import Patience
from continuations_storage.s3 import S3Store
from continuations_storage.s3client import Connection, connect
from tests.storage.s3_front import (
    Bucket,
    Fault,
    Reply,
    S3Front,
    answered,
    cut,
    lost_reply,
    lost_request,
    refused,
    well,
)

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from typing import Any

    from continuations_storage.s3requests import S3Client

pytestmark = pytest.mark.usefixtures("s3_environment")

BODY = b"0123456789"
OTHERS = b"another's"
PAGE_OF_A_HOTEL = b"<html><body>Welcome! Please log in.</body></html>"
ERROR_IN_A_SUCCESS = b"<Error><Code>InternalError</Code></Error>"


@dataclass
class Waits:
    """Time that passes only by sleeping."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list[float])

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def patience(self, seconds: float = 1000.0) -> Patience:
        return Patience(
            attempts=4,
            seconds=seconds,
            clock=lambda: self.now,
            sleep=self.sleep,
            dice=lambda: 1.0,
        )


@pytest.fixture(scope="module")
def front() -> Iterator[S3Front]:
    with S3Front(Bucket()) as server:
        yield server


@pytest.fixture(scope="module")
def client(front: S3Front) -> Iterator[S3Client]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        yield connect(
            Connection(
                endpoint=front.url, region="us-east-1", timeout=0.25, connections=4
            )
        )


@dataclass(frozen=True, kw_only=True)
class Case:
    """What went wrong in turn, what the verb then says, and what it cost."""

    name: str
    faults: tuple[Fault, ...] = ()
    ends: type[StorageError] | object
    sent: dict[str, int]
    says: str = ""
    taken: bool = False


def outcome(work: Coroutine[Any, Any, object]) -> tuple[object, str]:
    try:
        return asyncio.run(work), ""
    except StorageError as error:
        return type(error), str(error)


def tried(case: Case, front: S3Front, work: Coroutine[Any, Any, object]) -> None:
    ends, said = outcome(work)

    assert (case.ends, case.sent) == (ends, Counter(front.counts)), said
    assert case.says in said


def named(case: Case) -> str:
    return case.name


FOREVER = 40
MADE = "made"

CREATES = [
    Case(name="all well", ends=MADE, sent={"PUT": 1}),
    Case(name="taken", taken=True, ends=AlreadyExists, sent={"PUT": 1}),
    # Lost on the way.
    Case(name="request lost", faults=(lost_request(),), ends=MADE, sent={"PUT": 2}),
    Case(
        name="reply lost",
        faults=(lost_reply(),),
        ends=MADE,
        sent={"PUT": 2, "HEAD": 1},
    ),
    Case(
        name="reply lost each time",
        faults=(lost_reply(),) * 4,
        ends=MADE,
        sent={"PUT": 4, "HEAD": 1},
    ),
    Case(
        name="reply lost, and that of the read-back",
        faults=(lost_reply(), well(), lost_reply()),
        ends=MADE,
        sent={"PUT": 2, "HEAD": 2},
    ),
    Case(
        name="every reply lost",
        faults=(lost_reply(),) * FOREVER,
        ends=Inconclusive,
        sent={"PUT": 4, "HEAD": 3},
        says="when read back",
    ),
    Case(
        name="every request lost, and the key is free",
        faults=(lost_request(),) * 4,
        ends=Inconclusive,
        sent={"PUT": 4, "HEAD": 1},
    ),
    Case(
        name="request lost, then taken by another",
        faults=(lost_request(),),
        taken=True,
        ends=AlreadyExists,
        sent={"PUT": 2, "HEAD": 1},
    ),
    Case(
        name="reply lost, then taken, then gone when read back",
        faults=(lost_reply(), well(), refused(404)),
        ends=Inconclusive,
        sent={"PUT": 2, "HEAD": 1},
    ),
    Case(
        name="reply lost, then taken, but reading is not permitted",
        faults=(lost_reply(), well(), refused(403)),
        ends=Inconclusive,
        sent={"PUT": 2, "HEAD": 1},
    ),
    Case(
        name="reply lost, then the credentials are gone, then back",
        faults=(lost_reply(), refused(403, "AccessDenied")),
        ends=MADE,
        sent={"PUT": 2, "HEAD": 1},
    ),
    # 409: another write is under way.
    Case(
        name="conflict",
        faults=(refused(409, "ConditionalRequestConflict"),) * 2,
        ends=MADE,
        sent={"PUT": 3},
    ),
    Case(
        name="conflict, then taken",
        faults=(refused(409, "ConditionalRequestConflict"),),
        taken=True,
        ends=AlreadyExists,
        sent={"PUT": 2},
    ),
    Case(
        name="conflict for ever",
        faults=(refused(409, "ConditionalRequestConflict"),) * FOREVER,
        ends=Unavailable,
        sent={"PUT": 4},
        says="ConditionalRequestConflict",
    ),
    # 5xx.
    Case(
        name="500",
        faults=(refused(500, "InternalError"),),
        ends=MADE,
        sent={"PUT": 2},
    ),
    Case(
        name="500 after it landed",
        faults=(refused(500, "InternalError", landed=True),),
        ends=MADE,
        sent={"PUT": 2, "HEAD": 1},
    ),
    Case(
        name="500 hidden in a 200",
        faults=(answered(ERROR_IN_A_SUCCESS),),
        ends=MADE,
        sent={"PUT": 2},
    ),
    Case(name="502 of a proxy", faults=(refused(502),), ends=MADE, sent={"PUT": 2}),
    Case(name="some new 5xx", faults=(refused(599),), ends=MADE, sent={"PUT": 2}),
    Case(
        name="slow down",
        faults=(refused(503, "SlowDown"),),
        ends=MADE,
        sent={"PUT": 2},
    ),
    Case(
        name="slow down, for ever",
        faults=(refused(503, "SlowDown"),) * FOREVER,
        ends=Throttled,
        sent={"PUT": 4},
    ),
    Case(
        name="429 for ever",
        faults=(refused(429),) * FOREVER,
        ends=Throttled,
        sent={"PUT": 4},
    ),
    Case(
        name="500, then slow down for ever: may have landed",
        faults=(refused(500, "InternalError"), *[refused(503, "SlowDown")] * FOREVER),
        ends=Inconclusive,
        sent={"PUT": 4, "HEAD": 3},
    ),
    Case(
        name="not implemented",
        faults=(refused(501, "NotImplemented"),),
        ends=Unsafe,
        sent={"PUT": 1},
        says="checksums='when_required'",
    ),
    Case(name="full", faults=(refused(507),), ends=Unavailable, sent={"PUT": 1}),
    # Who asks.
    Case(
        name="forbidden",
        faults=(refused(403, "AccessDenied"),),
        ends=Denied,
        sent={"PUT": 1},
        says="s3:ListBucket",
    ),
    Case(
        name="expired",
        faults=(refused(400, "ExpiredToken"),),
        ends=Denied,
        sent={"PUT": 1},
        says="get new ones",
    ),
    Case(
        name="clock",
        faults=(refused(403, "RequestTimeTooSkewed"),),
        ends=Unavailable,
        sent={"PUT": 1},
        says="clock is wrong",
    ),
    # Where.
    Case(
        name="no bucket",
        faults=(refused(404, "NoSuchBucket"),),
        ends=Unavailable,
        sent={"PUT": 1},
        says="make it",
    ),
    Case(
        name="some new 4xx",
        faults=(refused(418, "Teapot"),),
        ends=Unavailable,
        sent={"PUT": 1},
        says="418 Teapot",
    ),
    Case(
        name="malformed",
        faults=(refused(400, "InvalidArgument"),),
        ends=Unavailable,
        sent={"PUT": 1},
        says="path_style",
    ),
    Case(
        name="too large",
        faults=(refused(400, "EntityTooLarge"),),
        ends=Unavailable,
        sent={"PUT": 1},
        says="larger",
    ),
    # On the way.
    Case(
        name="body broken on the way",
        faults=(refused(400, "BadDigest"),),
        ends=MADE,
        sent={"PUT": 2},
    ),
    Case(
        name="a hotel's login page",
        faults=(answered(PAGE_OF_A_HOTEL),),
        ends=MADE,
        sent={"PUT": 2},
    ),
    Case(
        name="a hotel's login page for ever",
        faults=(answered(PAGE_OF_A_HOTEL),) * FOREVER,
        ends=Inconclusive,
        sent={"PUT": 4, "HEAD": 3},
        says="not one of S3's",
    ),
]


@pytest.mark.parametrize("case", CREATES, ids=named)
def test_creates(case: Case, front: S3Front, client: S3Client) -> None:
    """R-E1, R-E2, R-E3: never a false conflict, a false success, a second body."""
    bucket = Bucket()
    if case.taken:
        bucket.bodies["p/a"], bucket.metadata["p/a"] = OTHERS, {}
    front.begin(bucket, *case.faults)
    store = S3Store("bucket", "p", client=client, patience=Waits().patience())

    async def create() -> object:
        time = await store.create("a", BODY)
        assert time is not None
        assert "2026-11-21T12:00:00+00:00" == time.isoformat()
        return MADE

    tried(case, front, create())
    if case.ends is MADE:
        assert BODY == bucket.bodies["p/a"]
    if case.taken:
        assert OTHERS == bucket.bodies["p/a"]
    makers = [r.headers["x-amz-meta-maker"] for r in front.requests if r.kind == "PUT"]
    assert 1 == len(set(makers))


WRONG_SUM = {"ETag": '"x"', "x_amz_checksum_crc32": "AAAAAA=="}


def half_a_refusal() -> Fault:
    """A 404 of which only the first bytes come: urllib3's error comes through."""
    whole = refused(404, "NoSuchKey")

    def half(real: Reply) -> Reply:
        return replace(whole.reply(real), sent=1)

    return replace(whole, reply=half)


READS = [
    Case(name="all well", ends=BODY, sent={"GET": 1}),
    Case(
        name="missing",
        faults=(refused(404, "NoSuchKey"),),
        ends=NotFound,
        sent={"GET": 1},
    ),
    Case(
        name="missing, and listing is not permitted",
        faults=(refused(403, "AccessDenied"),),
        ends=Denied,
        sent={"GET": 1},
        says="s3:ListBucket",
    ),
    Case(
        name="a 404 that is not S3's",
        faults=(refused(404),),
        ends=Unavailable,
        sent={"GET": 1},
    ),
    Case(
        name="no bucket",
        faults=(refused(404, "NoSuchBucket"),),
        ends=Unavailable,
        sent={"GET": 1},
    ),
    Case(
        name="half a refusal",
        faults=(half_a_refusal(),) * 2,
        ends=BODY,
        sent={"GET": 3},
    ),
    Case(name="lost", faults=(lost_reply(),) * 2, ends=BODY, sent={"GET": 3}),
    Case(name="half a body", faults=(cut(5),), ends=BODY, sent={"GET": 2}),
    Case(
        name="half a body for ever",
        faults=(cut(5),) * FOREVER,
        ends=Unavailable,
        sent={"GET": 4},
    ),
    Case(
        name="a body that stops coming",
        faults=(cut(5, stall=2.0),),
        ends=BODY,
        sent={"GET": 2},
    ),
    Case(name="500", faults=(refused(500, "X"),), ends=BODY, sent={"GET": 2}),
    Case(
        name="slow down, for ever",
        faults=(refused(503, "SlowDown"),) * FOREVER,
        ends=Throttled,
        sent={"GET": 4},
    ),
    Case(
        name="broken on the way",
        faults=(answered(BODY, **WRONG_SUM),),
        ends=BODY,
        sent={"GET": 2},
    ),
    Case(
        name="broken where it lies",
        faults=(answered(BODY, **WRONG_SUM),) * FOREVER,
        ends=Damaged,
        sent={"GET": 4},
    ),
    Case(
        name="a hotel's login page for ever",
        faults=(answered(PAGE_OF_A_HOTEL),) * FOREVER,
        ends=Unavailable,
        sent={"GET": 4},
        says="not one of S3's",
    ),
    Case(
        name="archived",
        faults=(refused(403, "InvalidObjectState"),),
        ends=Unavailable,
        sent={"GET": 1},
        says="restore it first",
    ),
]


@pytest.mark.parametrize("case", READS, ids=named)
def test_reads(case: Case, front: S3Front, client: S3Client) -> None:
    """R-E2, R-E5, R-E7: the whole body or an error, and "missing" only if it is."""
    bucket = Bucket()
    bucket.bodies["a"], bucket.metadata["a"] = BODY, {}
    front.begin(bucket, *case.faults)
    store = S3Store("bucket", client=client, patience=Waits().patience())

    tried(case, front, store.read("a"))


def listing(*keys: str, more: bool = False) -> Fault:
    found = "".join(f"<Contents><Key>{key}</Key></Contents>" for key in keys)
    truncated = f"<IsTruncated>{str(more).lower()}</IsTruncated>"
    return answered(f"<ListBucketResult>{truncated}{found}</ListBucketResult>".encode())


LISTINGS = [
    Case(name="all well", ends=["a", "b"], sent={"LIST": 1}),
    Case(
        name="broken off",
        faults=(cut(60), answered(b"<ListBucketResult><IsTrun")),
        ends=["a", "b"],
        sent={"LIST": 3},
    ),
    Case(
        name="broken off for ever",
        faults=(answered(b"<ListBucketResult><IsTrun"),) * FOREVER,
        ends=Unavailable,
        sent={"LIST": 4},
    ),
    Case(
        name="a hotel's login page is not an empty listing",
        faults=(answered(PAGE_OF_A_HOTEL),) * FOREVER,
        ends=Unavailable,
        sent={"LIST": 4},
        says="not one of S3's",
    ),
    Case(
        name="an empty page that is not the last",
        faults=(listing(more=True),),
        ends=["a", "b"],
        sent={"LIST": 2},
    ),
    Case(
        name="a short page that is not the last",
        faults=(listing("p/a", more=True),),
        ends=["a", "b"],
        sent={"LIST": 2},
    ),
    Case(
        name="names that are no keys",
        faults=(listing("p/", "p/a", "p/a b", "p/c/"),),
        ends=["a"],
        sent={"LIST": 1},
    ),
    Case(
        name="out of order",
        faults=(listing("p/b", "p/a"),),
        ends=Unsafe,
        sent={"LIST": 1},
        says="directory bucket",
    ),
    Case(
        name="of another prefix",
        faults=(listing("q/b"),),
        ends=Unsafe,
        sent={"LIST": 1},
    ),
    Case(
        name="forbidden",
        faults=(refused(403, "AccessDenied"),),
        ends=Denied,
        sent={"LIST": 1},
    ),
    Case(name="500", faults=(refused(500),), ends=["a", "b"], sent={"LIST": 2}),
]


@pytest.mark.parametrize("case", LISTINGS, ids=named)
def test_listings(case: Case, front: S3Front, client: S3Client) -> None:
    """R-E2, R-E5, R-E9: what is not listed is not there."""
    bucket = Bucket()
    bucket.bodies.update({"p/a": BODY, "p/b": BODY, "q": BODY})
    front.begin(bucket, *case.faults)
    store = S3Store("bucket", "p", client=client, patience=Waits().patience())

    tried(case, front, store.keys(""))


DELETES = [
    Case(name="all well", ends=None, sent={"DELETE": 1}),
    Case(name="lost", faults=(lost_reply(),), ends=None, sent={"DELETE": 2}),
    Case(
        name="missing, says a look-alike",
        faults=(refused(404, "NoSuchKey"),),
        ends=None,
        sent={"DELETE": 1},
    ),
    Case(
        name="no bucket",
        faults=(refused(404, "NoSuchBucket"),),
        ends=Unavailable,
        sent={"DELETE": 1},
    ),
    Case(
        name="forbidden",
        faults=(refused(403, "AccessDenied"),),
        ends=Denied,
        sent={"DELETE": 1},
    ),
    Case(
        name="conflict",
        faults=(refused(409, "OperationAborted"),),
        ends=None,
        sent={"DELETE": 2},
    ),
]


@pytest.mark.parametrize("case", DELETES, ids=named)
def test_deletes(case: Case, front: S3Front, client: S3Client) -> None:
    front.begin(Bucket(), *case.faults)
    store = S3Store("bucket", client=client, patience=Waits().patience())

    tried(case, front, store.delete("a"))


REDIRECTS = [
    refused(301, "PermanentRedirect"),
    refused(400, "AuthorizationHeaderMalformed"),
    refused(400, "IllegalLocationConstraintException"),
]


@pytest.mark.parametrize("fault", REDIRECTS)
def test_another_region_is_named_as_the_reason(
    fault: Fault, front: S3Front, client: S3Client
) -> None:
    front.begin(Bucket())
    front.plan = lambda _: fault
    store = S3Store("bucket", client=client, patience=Waits().patience())

    # botocore looks for the region by itself, so requests are not counted here.
    for work in (store.read("a"), store.create("a", b"")):
        ends, said = outcome(work)
        assert Unavailable is ends
        assert "pass region=" in said


def test_waits_grow_and_the_server_may_ask_for_longer(
    front: S3Front, client: S3Client
) -> None:
    slow = refused(503, "SlowDown")
    asked = refused(503, "SlowDown", Retry_After="7")
    until = refused(503, "SlowDown", Retry_After="Sat, 21 Nov 2026 12:00:09 GMT")
    front.begin(Bucket(), slow, asked, until)
    waits = Waits()
    store = S3Store("bucket", client=client, patience=waits.patience())

    asyncio.run(store.create("a", b""))

    assert [0.1, 7.2, 9.4] == pytest.approx(waits.slept)


def test_who_is_told_to_wait_longer_than_patience_lasts_stops_at_once(
    front: S3Front, client: S3Client
) -> None:
    front.begin(Bucket(), refused(503, "SlowDown", Retry_After="3600"))
    waits = Waits()
    store = S3Store("bucket", client=client, patience=waits.patience(seconds=30))

    assert Throttled is outcome(store.create("a", b""))[0]
    assert ([], {"PUT": 1}) == (waits.slept, Counter(front.counts))


def test_a_broken_date_is_no_time(front: S3Front, client: S3Client) -> None:
    for told in ("soon", "", "Sat, 21 Nov 2026 12:00:00 -0000"):
        front.begin(Bucket(), answered(b"", ETag='"x"', Date=told))
        store = S3Store("bucket", client=client, patience=Waits().patience())

        assert asyncio.run(store.create("a", b"")) is None
