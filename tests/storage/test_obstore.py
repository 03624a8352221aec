"""The S3 store with obstore."""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from continuations_storage import (
    Store,
    Unavailable,
    open_store,
)
from continuations_storage.conformance import SharedStoreContract
from continuations_storage.obstore import ObjectStore, classified_errors
from continuations_storage.retries import AttemptFailed, RetryPolicy
from tests.run_environment import run_python
from tests.sampling import RUNS_ALL_CASES, sample
from tests.storage.conftest import BUCKET, random_prefix
from tests.storage.s3_proxy import (
    FakeS3,
    RealServer,
    S3Proxy,
    fixed_body,
    random_faults,
)

pytestmark = pytest.mark.usefixtures("s3_environment")

BODY = b"0123456789"
MANY = 40


class TestObstoreOnS3(SharedStoreContract):
    racers = 8
    rounds = 25

    @pytest.fixture(autouse=True)
    def folder(self, s3_server: str) -> None:
        self.url = s3_server

    def opener(self) -> Callable[[], Store]:
        return partial(
            ObjectStore, f"s3://{BUCKET}/{random_prefix()}", endpoint=self.url
        )


@pytest.mark.parametrize("seed", sample(range(2), 2))
def test_exactly_one_creator_wins_over_an_unreliable_connection(
    s3_server: str, seed: int
) -> None:
    class UnreliableConnection(SharedStoreContract):
        racers = 6
        rounds = 12 if RUNS_ALL_CASES else 4

        def opener(self) -> Callable[[], Store]:
            policy = RetryPolicy(max_attempts=20, first_delay=0.005, max_delay=0.02)
            url = f"s3://{BUCKET}/{random_prefix()}"
            return partial(ObjectStore, url, endpoint=server.url, retry_policy=policy)

    with S3Proxy(RealServer(s3_server), random_faults(seed, 0.2)) as server:
        UnreliableConnection().test_exactly_one_of_racing_processes_creates_a_key()
        UnreliableConnection().test_exactly_one_of_racing_tasks_creates_a_key()
        UnreliableConnection().test_prefix_may_end_inside_a_segment()


# Responses, beside those of test_s3_responses.py


@pytest.fixture(scope="module")
def proxy() -> Iterator[S3Proxy]:
    with S3Proxy(FakeS3()) as server:
        yield server


def store_without_delays(proxy: S3Proxy) -> ObjectStore:
    async def no_sleep(_: float) -> None:
        await asyncio.sleep(0)

    policy = RetryPolicy(max_attempts=4, sleep=no_sleep)
    return ObjectStore(
        "s3://bucket/p", endpoint=proxy.url, retry_policy=policy, timeout=0.5
    )


@pytest.mark.parametrize("broken", [b"<ListBucketResult><IsTrunc", b"hotel", b""])
def test_broken_listing_is_unavailable(proxy: S3Proxy, broken: bytes) -> None:
    proxy.reset(FakeS3(), *[fixed_body(broken)] * MANY)

    with pytest.raises(Unavailable):
        asyncio.run(store_without_delays(proxy).keys(""))


def test_objects_with_invalid_names_are_not_listed(proxy: S3Proxy) -> None:
    bucket = FakeS3()
    names = ("p/", "p/a", "p/b b", "p/d/e", "q/f")
    bucket.bodies.update(dict.fromkeys(names, b""))
    proxy.reset(bucket)
    store = store_without_delays(proxy)

    assert ["a", "d/e"] == asyncio.run(store.keys(""))
    assert ["d/e"] == asyncio.run(store.keys("d"))


def test_tokens_in_error_texts_are_redacted() -> None:
    url = "http://127.0.0.1:9/account/box/a?sv=2024&sig=c2VjcmV0%3D&se=2027"

    with pytest.raises(AttemptFailed) as failure, classified_errors():
        raise RuntimeError(f"Error performing PUT {url}")

    assert "c2VjcmV0" not in failure.value.detail
    assert "c2VjcmV0" not in "".join(traceback.format_exception(failure.value))


# Cost


async def test_each_verb_costs_one_request(proxy: S3Proxy) -> None:
    bucket = FakeS3()
    bucket.bodies.update({f"p/many/{number:04}": b"" for number in range(2500)})
    proxy.reset(bucket)
    store = store_without_delays(proxy)

    await store.create("a", BODY)
    await store.read("a")
    assert ["many/0000"] == await store.keys("many/", limit=1)
    assert 1000 == len(await store.keys("many/"))
    assert ["many/2400"] == await store.keys("many/24", limit=1)
    await store.delete("a")

    assert {"PUT": 1, "GET": 1, "LIST": 3, "DELETE": 1} == Counter(proxy.counts)


OPENING = """
import sys
from continuations_storage import open_store
store = open_store("s3://bucket/prefix", driver="obstore", region="eu-central-1")
print(store, [each for each in ("botocore", "obstore") if each in sys.modules])
"""

WITHOUT_OBSTORE = """
import asyncio, sys
sys.modules["obstore"] = None
from continuations_storage import Unavailable, Unsupported, open_store
from continuations_storage.obstore import ObjectStore
command = "pip install 'obstore>=0.12'"
for url, options in (("s3://b", {"driver": "obstore"}), ("gs://b", {}), ("az://b", {})):
    try:
        open_store(url, **options)
    except Unsupported as error:
        print(command in str(error))
try:
    asyncio.run(ObjectStore("s3://bucket").create("a", b""))
except Unavailable as error:
    print(command in str(error))
"""

AFTER_A_FORK = """
import asyncio, os, sys
from continuations_storage import Unavailable
from continuations_storage.obstore import ObjectStore
from continuations_storage.retries import RetryPolicy
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


def test_opening_imports_no_client() -> None:
    assert "<ObjectStore s3://bucket/prefix> []\n" == run_python(OPENING)


def test_missing_obstore_error_names_the_pip_command() -> None:
    """Opening a store that needs obstore names the command that installs it."""
    assert "True\n" * 4 == run_python(WITHOUT_OBSTORE)


def test_use_in_a_forked_child_is_unavailable(proxy: S3Proxy) -> None:
    proxy.reset(FakeS3())

    assert "0 b'parent'\n" == run_python(AFTER_A_FORK, proxy.url)


ONE_CREATE = """
import asyncio, sys
from continuations_storage.obstore import ObjectStore
asyncio.run(ObjectStore("s3://bucket/p", endpoint=sys.argv[1]).create(sys.argv[2], b""))
"""


def test_short_process_exits_cleanly(proxy: S3Proxy) -> None:
    proxy.reset(FakeS3())

    # With obstore's own coroutines, one process in twelve aborted at exit.
    for number in range(12):
        assert not run_python(ONE_CREATE, proxy.url, str(number))
    assert {"PUT": 12} == Counter(proxy.counts)


def test_options_of_open_store_are_used(proxy: S3Proxy) -> None:
    proxy.reset(FakeS3())
    store = open_store(
        "s3://bucket/p/",
        driver="obstore",
        endpoint=proxy.url,
        region="eu-north-1",
        kms_key_id="alias/us",
        path_style=True,
    )

    asyncio.run(store.create("a", BODY))

    request = proxy.requests[0]
    assert "/bucket/p/a" == request.target
    assert "/eu-north-1/s3/" in request.headers["authorization"]
    assert "aws:kms" == request.headers["x-amz-server-side-encryption"]


def test_endpoint_of_the_environment_is_used(
    proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.reset(FakeS3())
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.url)

    asyncio.run(open_store("s3://bucket/p", driver="obstore").create("a", BODY))

    assert ["/bucket/p/a"] == [each.target for each in proxy.requests]


def test_endpoint_that_differs_from_the_environment_is_rejected(
    proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """obstore prefers AWS_ENDPOINT_URL_S3 to its own option."""
    proxy.reset(FakeS3())
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    store = open_store("s3://bucket/p", driver="obstore", endpoint=proxy.url)

    with pytest.raises(Unavailable, match="AWS_ENDPOINT_URL_S3"):
        asyncio.run(store.create("a", BODY))


def test_unknown_configuration_is_named_on_first_use() -> None:
    with pytest.raises(Unavailable, match="colour"):
        asyncio.run(ObjectStore("s3://bucket", colour="red").create("a", b""))


def test_refused_connection_is_unavailable() -> None:
    store = ObjectStore(
        "s3://bucket",
        endpoint="http://127.0.0.1:9",
        retry_policy=RetryPolicy(max_attempts=1),
    )

    with pytest.raises(Unavailable):
        asyncio.run(store.create("a", b""))
