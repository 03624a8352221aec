"""The same contract through obstore, which has ways of its own to be talked out of."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import traceback
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import pytest

from continuations_storage import (
    AlreadyExists,
    Denied,
    Inconclusive,
    NotFound,
    StorageError,
    Throttled,
    Unavailable,
    Unsafe,
    Unsupported,
    open_store,
)
from continuations_storage.attempts import Setback
from continuations_storage.conformance import SharedStoreContract
from continuations_storage.obstore import (
    ObjectStore,
    _setbacks,  # pyright: ignore[reportPrivateUsage]
)
from continuations_storage.patience import Patience
from tests.storage import azurite
from tests.storage.conftest import BUCKET
from tests.storage.s3_front import (
    Bucket,
    Fault,
    S3Front,
    Upstream,
    answered,
    cut,
    lost_reply,
    lost_request,
    refused,
    seeded,
    well,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from continuations_storage import Store

pytestmark = pytest.mark.usefixtures("s3_environment")

BODY = b"0123456789"
FOREVER = 40
MADE = "made"


def fresh() -> str:
    return os.urandom(8).hex()


class TestOnS3(SharedStoreContract):
    racers = 8
    rounds = 25

    @pytest.fixture(autouse=True)
    def place(self, s3_server: str) -> None:
        self.url = s3_server

    def opener(self) -> Callable[[], Store]:
        return partial(ObjectStore, f"s3://{BUCKET}/{fresh()}", endpoint=self.url)


@pytest.fixture(scope="module")
def azure_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with azurite.serving(tmp_path_factory.mktemp("azurite")) as endpoint:
        azurite.make_container(endpoint, "box")
        yield endpoint


if azurite.installed():

    class TestOnAzure(SharedStoreContract):
        racers = 8
        rounds = 25

        @pytest.fixture(autouse=True)
        def place(self, azure_server: str) -> None:
            self.endpoint = azure_server

        def opener(self) -> Callable[[], Store]:
            return partial(
                ObjectStore,
                f"az://box/{fresh()}",
                endpoint=self.endpoint,
                account_name=azurite.ACCOUNT,
                account_key=azurite.KEY,
            )


@pytest.mark.parametrize("seed", range(2))
def test_on_a_bad_line_exactly_one_wins(s3_server: str, seed: int) -> None:
    class BadLine(SharedStoreContract):
        racers = 6
        rounds = 12

        def opener(self) -> Callable[[], Store]:
            patience = Patience(attempts=20, first_wait=0.005, longest_wait=0.02)
            url = f"s3://{BUCKET}/{fresh()}"
            return partial(ObjectStore, url, endpoint=line.url, patience=patience)

    with S3Front(Upstream(s3_server), seeded(seed, 0.2)) as line:
        BadLine().test_of_racing_processes_exactly_one_wins_every_round()
        BadLine().test_of_racing_tasks_exactly_one_wins()
        BadLine().test_a_prefix_is_a_prefix_of_text()


# What the answers mean


@pytest.fixture(scope="module")
def front() -> Iterator[S3Front]:
    with S3Front(Bucket()) as server:
        yield server


def hurried(front: S3Front) -> ObjectStore:
    async def at_once(_: float) -> None:
        await asyncio.sleep(0)

    patience = Patience(attempts=4, sleep=at_once)
    return ObjectStore(
        "s3://bucket/p", endpoint=front.url, patience=patience, timeout=0.5
    )


CONFLICT = refused(409, "ConditionalRequestConflict")
LANDED = refused(500, "InternalError", landed=True)

CREATES: list[tuple[tuple[Fault, ...], object, dict[str, int]]] = [
    ((), MADE, {"PUT": 1}),
    ((lost_request(),), MADE, {"PUT": 2}),
    ((lost_reply(),), MADE, {"PUT": 2, "HEAD": 1}),
    ((lost_reply(),) * 4, MADE, {"PUT": 4, "HEAD": 1}),
    ((lost_reply(),) * FOREVER, Inconclusive, {"PUT": 4, "HEAD": 3}),
    ((lost_reply(), well(), refused(404)), Inconclusive, {"PUT": 2, "HEAD": 1}),
    ((CONFLICT, CONFLICT), MADE, {"PUT": 3}),
    ((CONFLICT,) * FOREVER, Unavailable, {"PUT": 4}),
    ((LANDED,), MADE, {"PUT": 2, "HEAD": 1}),
    ((refused(503, "SlowDown"),) * FOREVER, Throttled, {"PUT": 4}),
    ((refused(403, "AccessDenied"),), Denied, {"PUT": 1}),
    ((refused(404, "NoSuchBucket"),), Unavailable, {"PUT": 1}),
    ((refused(412, "PreconditionFailed"),), AlreadyExists, {"PUT": 1}),
    ((refused(501, "NotImplemented"),), Unsafe, {"PUT": 1}),
]


@pytest.mark.parametrize(("faults", "ends", "sent"), CREATES)
def test_creates(
    front: S3Front, faults: tuple[Fault, ...], ends: object, sent: dict[str, int]
) -> None:
    """R-E1, R-E2, R-E3."""
    bucket = Bucket()
    front.begin(bucket, *faults)
    store = hurried(front)

    async def create() -> object:
        try:
            await store.create("a", BODY)
        except StorageError as error:
            return type(error)
        return MADE

    assert (ends, sent) == (asyncio.run(create()), Counter(front.counts))
    if ends is MADE:
        assert BODY == bucket.bodies["p/a"]


READS: list[tuple[tuple[Fault, ...], object]] = [
    ((), BODY),
    ((refused(404, "NoSuchKey"),), NotFound),
    ((refused(404, "NoSuchBucket"),), Unavailable),
    ((refused(404),), Unavailable),
    ((refused(403, "AccessDenied"),), Denied),
    ((cut(5),), BODY),
    ((cut(5, stall=2.0),), BODY),
    ((cut(5),) * FOREVER, Unavailable),
    ((refused(503, "SlowDown"),) * FOREVER, Throttled),
    ((answered(b"<html>hotel</html>"),) * FOREVER, Unavailable),
]


@pytest.mark.parametrize(("faults", "ends"), READS)
def test_reads(front: S3Front, faults: tuple[Fault, ...], ends: object) -> None:
    """R-E2, R-E5, R-E7."""
    bucket = Bucket()
    bucket.bodies["p/a"], bucket.metadata["p/a"] = BODY, {}
    front.begin(bucket, *faults)
    store = hurried(front)

    async def read() -> object:
        try:
            return await store.read("a")
        except StorageError as error:
            return type(error)

    assert ends == asyncio.run(read())


@pytest.mark.parametrize("broken", [b"<ListBucketResult><IsTrunc", b"hotel", b""])
def test_a_broken_listing_is_not_an_empty_one(front: S3Front, broken: bytes) -> None:
    front.begin(Bucket(), *[answered(broken)] * FOREVER)

    with pytest.raises(Unavailable):
        asyncio.run(hurried(front).keys(""))


def test_objects_whose_names_are_no_keys_are_passed_over(front: S3Front) -> None:
    bucket = Bucket()
    names = ("p/", "p/a", "p/b b", "p/d/e", "q/f")
    bucket.bodies.update(dict.fromkeys(names, b""))
    front.begin(bucket)
    store = hurried(front)

    assert ["a", "d/e"] == asyncio.run(store.keys(""))
    assert ["d/e"] == asyncio.run(store.keys("d"))


def test_tokens_are_never_shown() -> None:
    url = "http://127.0.0.1:9/account/box/a?sv=2024&sig=c2VjcmV0%3D&se=2027"

    with pytest.raises(Setback) as setback, _setbacks():
        raise RuntimeError(f"Error performing PUT {url}")

    assert "c2VjcmV0" not in setback.value.detail
    assert "c2VjcmV0" not in "".join(traceback.format_exception(setback.value))


# What it costs


def test_each_verb_costs_one_request(front: S3Front) -> None:
    bucket = Bucket()
    bucket.bodies.update({f"p/many/{number:04}": b"" for number in range(2500)})
    front.begin(bucket)
    store = hurried(front)

    async def story() -> None:
        await store.create("a", BODY)
        await store.read("a")
        assert ["many/0000"] == await store.keys("many/", limit=1)
        assert 1000 == len(await store.keys("many/"))
        assert ["many/2400"] == await store.keys("many/24", limit=1)
        await store.delete("a")

    asyncio.run(story())

    assert {"PUT": 1, "GET": 1, "LIST": 3, "DELETE": 1} == Counter(front.counts)


OPENING = """
import sys
from continuations_storage import open_store
store = open_store("s3://bucket/prefix", driver="obstore", region="eu-central-1")
print(store, [each for each in ("botocore", "obstore") if each in sys.modules])
"""

WITHOUT_OBSTORE = """
import asyncio, sys
sys.modules["obstore"] = None
from continuations_storage import Unavailable, open_store
try:
    asyncio.run(open_store("s3://bucket", driver="obstore").create("a", b""))
except Unavailable as error:
    print("pip install obstore" in str(error))
"""

AFTER_A_FORK = """
import asyncio, os, sys
from continuations_storage import Unavailable
from continuations_storage.obstore import (
    ObjectStore,
    _setbacks,  # pyright: ignore[reportPrivateUsage]
)
from continuations_storage.patience import Patience
store = ObjectStore("s3://bucket/p", endpoint=sys.argv[1])
asyncio.run(store.create("a", b"parent"))
child = os.fork()
if child == 0:
    try:
        asyncio.run(store.read("a"))
    except Unavailable as error:
        os._exit(0 if "fork" in str(error) else 1)
    os._exit(2)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), asyncio.run(store.read("a")))
"""


def ran(code: str, *arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    ).stdout


def test_opening_loads_nothing() -> None:
    assert "<ObjectStore s3://bucket/prefix> []\n" == ran(OPENING)


def test_a_missing_obstore_is_named() -> None:
    assert "True\n" == ran(WITHOUT_OBSTORE)


def test_a_fork_is_refused_by_name(front: S3Front) -> None:
    front.begin(Bucket())

    assert "0 b'parent'\n" == ran(AFTER_A_FORK, front.url)


ONE_CREATE = """
import asyncio, sys
from continuations_storage.obstore import ObjectStore
asyncio.run(ObjectStore("s3://bucket/p", endpoint=sys.argv[1]).create(sys.argv[2], b""))
"""


def test_a_process_that_is_done_at_once_ends_well(front: S3Front) -> None:
    front.begin(Bucket())

    # With obstore's own coroutines one in twelve aborted on its way out.
    for number in range(12):
        assert not ran(ONE_CREATE, front.url, str(number))
    assert {"PUT": 12} == Counter(front.counts)


def test_options_of_the_url_reach_it(front: S3Front) -> None:
    front.begin(Bucket())
    store = open_store(
        "s3://bucket/p/",
        driver="obstore",
        endpoint=front.url,
        region="eu-north-1",
        kms_key_id="alias/us",
        path_style=True,
    )

    asyncio.run(store.create("a", BODY))

    request = front.requests[0]
    assert "/bucket/p/a" == request.target
    assert "/eu-north-1/s3/" in request.headers["authorization"]
    assert "aws:kms" == request.headers["x-amz-server-side-encryption"]


def test_the_environment_names_the_endpoint(
    front: S3Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    front.begin(Bucket())
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", front.url)

    asyncio.run(open_store("s3://bucket/p", driver="obstore").create("a", BODY))

    assert ["/bucket/p/a"] == [each.target for each in front.requests]


def test_an_endpoint_that_the_environment_overrules_is_refused(
    front: S3Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    """obstore goes where AWS_ENDPOINT_URL_S3 says, whatever else it is told."""
    front.begin(Bucket())
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    store = open_store("s3://bucket/p", driver="obstore", endpoint=front.url)

    with pytest.raises(Unavailable, match="AWS_ENDPOINT_URL_S3"):
        asyncio.run(store.create("a", BODY))


@pytest.mark.parametrize(
    ("url", "options", "reason"),
    [
        ("s3://bucket/a//b", {}, "segment ''"),
        ("s3://bucket", {"profile": "me"}, "no option 'profile'"),
        ("s3://bucket", {"client": object()}, "no option 'client'"),
    ],
)
def test_what_cannot_be_opened_is_refused(
    url: str, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(Unsupported, match=reason):
        open_store(url, driver="obstore", **options)


def test_a_wrong_option_is_named_on_first_use() -> None:
    with pytest.raises(Unavailable, match="colour"):
        asyncio.run(ObjectStore("s3://bucket", colour="red").create("a", b""))


def test_nobody_there_is_unavailable_and_nothing_was_written() -> None:
    store = ObjectStore(
        "s3://bucket", endpoint="http://127.0.0.1:9", patience=Patience(attempts=1)
    )

    with pytest.raises(Unavailable):
        asyncio.run(store.create("a", b""))
