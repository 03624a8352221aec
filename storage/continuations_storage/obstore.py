"""A store in a bucket of S3, Google Cloud Storage or Azure Blob, through obstore.

obstore is written in Rust: it is loaded and ready in a tenth of boto3's time and does
two to three times the requests a second. What it does not do: it finds no profiles and
no SSO (give it a `credential_provider` of obstore.auth), it tells no time, it does not
live through a fork, it lists a whole page of 1,000 even for one key, which S3 bills as
the one request that it is, it lists a folder that a console made ("a/") as if it were a
key ("a"), and it takes any well-formed page for an empty listing, so use it over TLS,
where no hotel's login page can come in between.

Creates, retries and lost replies are those of `continuations_storage.retries`; what
the answers mean is the table of `continuations_storage.s3errors`, and a few rows here.
obstore gives its answers as text, and calls 409 and 412 alike "already exists"; the
status and the code are read from that text.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from continuations_storage import retries
from continuations_storage.contract import PAGE_SIZE
from continuations_storage.endpoints import check_endpoint
from continuations_storage.errors import (
    AlreadyExists,
    Denied,
    NotFound,
    StorageError,
    Throttled,
    Unavailable,
    Unsafe,
)
from continuations_storage.fork_safety import PerProcess, SingleProcessGuard
from continuations_storage.keys import check_key, check_limit, check_prefix, is_key
from continuations_storage.probe import prove_put_if_absent
from continuations_storage.retries import AttemptFailed, ErrorRule, StoredObjectInfo
from continuations_storage.retry_policy import RetryPolicy
from continuations_storage.s3errors import format_detail, rule_for
from continuations_storage.thread_pool import DaemonThreadPool

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

__all__ = ["ObjectStore"]

T = TypeVar("T")

_MAKER = "maker"

# What is said only by others than S3, and what obstore says itself.
_ERROR_RULES: Mapping[str, ErrorRule] = {
    "BlobAlreadyExists": ErrorRule(AlreadyExists),
    "BlobNotFound": ErrorRule(NotFound),
    "ContainerNotFound": rule_for("NoSuchBucket", 404),
    "ServerBusy": ErrorRule(Throttled, retry=True),
    "AlreadyExistsError": ErrorRule(AlreadyExists, may_be_stored=True),
    "PermissionDeniedError": ErrorRule(Denied),
    "UnauthenticatedError": ErrorRule(Denied),
    "ImportError": ErrorRule(
        Unavailable, hint="this store needs obstore: pip install obstore"
    ),
    "ValueError": ErrorRule(Unavailable),
    "UnknownConfigurationKeyError": ErrorRule(Unavailable),
    "Exception": ErrorRule(Unavailable, retry=True, may_be_stored=True),
}
_NOT_SENT = ErrorRule(Unavailable, retry=True)

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([^<]+)</Code>")
_MESSAGE = re.compile(r"<Message>([^<\n]+)")
_NO_CONNECTION = re.compile(r"ConnectError|dns error")
_SAS_SIGNATURE = re.compile(r"sig=[^&\s]+")
_NO_BLOB = "The specified blob does not exist. (code: 404)"  # Azure, of a deletion

# Not obstore's own coroutines: the threads that end those may still do so when the
# interpreter is gone, and one process in twelve then aborted (0.12.1, seen here).
_threads = DaemonThreadPool(32, "continuations-obstore")

# All stores share one runtime of threads, and in a forked child it would hang.
_process_guard = SingleProcessGuard(
    "obstore", "use it after the fork only, or the driver boto3"
)

# The characters of a segment in byte order.
_ALPHABET = "".join(
    filter(re.compile(r"[A-Za-z0-9._@=~-]").match, map(chr, range(128)))
)


class _Client(Protocol):
    """What is used of obstore's stores."""

    put: Callable[..., Any]
    get: Callable[..., Any]
    delete: Callable[..., Any]
    list: Callable[..., Iterator[Sequence[Mapping[str, Any]]]]


class ObjectStore:
    """Keeps each body as an object; ``s3://bucket/prefix``, ``gs://…``, ``az://…``.

    Takes the configuration of ``obstore.store.from_url`` beside the URL; what is not
    said is left to the environment, as obstore reads it. Making one neither touches
    the network nor imports obstore.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 15.0,
        retry_policy: RetryPolicy | None = None,
        **configuration: Any,
    ) -> None:
        check_endpoint(configuration.get("endpoint"))
        self._url = url.partition("?")[0]
        self._retry_policy = retry_policy or RetryPolicy()
        self._client = PerProcess(partial(_create_client, url, timeout, configuration))

    def __repr__(self) -> str:
        return f"<ObjectStore {self._url}>"

    async def create(self, key: str, body: bytes) -> None:
        """Put the body if the key is absent; durable when it returns.

        One request unless something fails. It tells no time.
        """
        check_key(key)
        maker = os.urandom(16).hex()
        await retries.create_with_retries(
            self._retry_policy,
            key,
            maker,
            put=lambda: _threads.run(self._put, key, body, maker),
            head=lambda: _threads.run(self._head, key),
        )

    async def read(self, key: str) -> bytes:
        """Return the whole body, or raise NotFound; Denied where S3 will not tell."""
        check_key(key)
        return await self._retry(key, lambda: self._get(key))

    async def keys(
        self, prefix: str, after: str = "", limit: int = PAGE_SIZE
    ) -> list[str]:
        """Return the first keys with the prefix and greater than `after`, in order.

        One request on S3 and GCS; Azure cannot begin in the middle, so it lists the
        folder of the prefix from its beginning.
        """
        check_prefix(prefix)
        check_limit(limit)
        return await self._retry(
            prefix or None, lambda: self._list(prefix, after, limit)
        )

    async def delete(self, key: str) -> None:
        """Remove the key; succeeds also when there is none."""
        check_key(key)
        with suppress(NotFound):
            await self._retry(key, lambda: self._remove(key))

    async def probe(self) -> None:
        """Prove that the store refuses a name that is taken."""
        await prove_put_if_absent(self)

    async def _retry(self, key: str | None, attempt: Callable[[], T]) -> T:
        return await retries.retry(
            self._retry_policy, key, lambda: _threads.run(attempt)
        )

    def _client_of_process(self) -> _Client:
        _process_guard.check_process()
        with _classified_errors(request_sent=False):
            return self._client()

    def _put(self, key: str, body: bytes, maker_id: str) -> None:
        client = self._client_of_process()
        with _classified_errors():
            client.put(
                key,
                body,
                mode="create",
                attributes={_MAKER: maker_id},
                use_multipart=False,  # it would not be one conditional request
            )

    def _head(self, key: str) -> StoredObjectInfo:
        client = self._client_of_process()
        with _classified_errors():
            answer = client.get(key, options={"head": True})
            return StoredObjectInfo(
                maker_id=answer.attributes.get(_MAKER), store_time=None
            )

    def _get(self, key: str) -> bytes:
        client = self._client_of_process()
        with _classified_errors():
            answer = client.get(key)
            body = bytes(answer.bytes())
            size, tag = answer.meta["size"], answer.meta["e_tag"]
        if len(body) != size or not tag:
            detail = f"{len(body)} of {size} bytes came, with the tag {tag}"
            raise AttemptFailed(rule_for("MalformedResponse", 200), detail)
        return body

    def _list(self, prefix: str, after: str, limit: int) -> list[str]:
        client = self._client_of_process()
        folder, _, _ = prefix.rpartition("/")
        offset = max(after, _listing_offset(prefix))
        found: list[str] = []
        last = None
        with _classified_errors():
            # A prefix means whole segments to obstore, so the rest is picked out here.
            for chunk in client.list(
                folder or None, offset=offset or None, chunk_size=PAGE_SIZE
            ):
                for each in chunk:
                    name = each["path"]
                    if last is not None and name <= last:
                        raise Unsafe(None, f"it lists {name!r} after {last!r}")
                    last = name
                    if name > after and name.startswith(prefix) and is_key(name):
                        found.append(name)
                    if len(found) == limit:
                        return found
                if last and last > prefix and not last.startswith(prefix):
                    break
        return found

    def _remove(self, key: str) -> None:
        client = self._client_of_process()
        with _classified_errors():
            client.delete(key)


def _create_client(
    url: str, timeout: float, configuration: Mapping[str, Any]
) -> _Client:
    from datetime import timedelta  # noqa: PLC0415 -- path = price

    from obstore.store import from_url  # noqa: PLC0415 -- likewise

    given = dict(configuration)
    if url.startswith("s3:"):
        given.setdefault("disable_bulk_delete", True)
        given.setdefault("endpoint", _endpoint_of_environment())
        _refuse_two_endpoints(given["endpoint"])
    endpoint = given.get("endpoint") or ""
    client = from_url(
        url,
        # It repeats a create by itself and is then told "exists" of its own write.
        retry_config={"max_retries": 0},
        client_options={
            "timeout": timedelta(seconds=timeout),
            "allow_http": endpoint.startswith("http:"),
        },
        **{name: value for name, value in given.items() if value is not None},
    )
    return cast("_Client", client)


def _endpoint_of_environment() -> str | None:
    # obstore knows these, too, but would then refuse one without TLS.
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    return next(filter(None, map(os.environ.get, names)), None)


def _refuse_two_endpoints(given: str | None) -> None:
    # obstore goes to this one whatever it is told, which would be somewhere else.
    stronger = os.environ.get("AWS_ENDPOINT_URL_S3")
    if stronger and stronger != given:
        msg = "AWS_ENDPOINT_URL_S3 is set to another endpoint, and obstore goes there"
        raise ValueError(f"{msg}: unset it, or use the driver boto3")


def _listing_offset(prefix: str) -> str:
    """Return a text below every key with the prefix, and above most that are below."""
    if not prefix or prefix.endswith("/"):
        return ""
    rest, place = prefix[:-1], _ALPHABET.index(prefix[-1])
    return f"{rest}{_ALPHABET[place - 1]}~~~" if place else rest.rstrip("/")


@contextmanager
def _classified_errors(*, request_sent: bool = True) -> Generator[None]:
    try:
        yield
    except StorageError:
        raise
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is a setback
        setback = _classify_error(error)
        setback.may_be_stored = setback.may_be_stored and request_sent
        # Not from it: a page of text, in which a token of Azure's may stand.
        raise setback from None


def _classify_error(error: Exception) -> AttemptFailed:
    whole = str(error)
    # What follows is for those who debug obstore, and says all of it once more.
    text = _SAS_SIGNATURE.sub("sig=…", whole.partition("\n\nDebug source:")[0])
    status, code, message = (
        found[1] if found else ""
        for found in (each.search(text) for each in (_STATUS, _CODE, _MESSAGE))
    )
    if status:
        row = _ERROR_RULES.get(code) or rule_for(code, int(status))
        said = f"{status} {code}: {message}" if code else f"{status} without a reason"
        return AttemptFailed(row, format_detail(said, row))
    if _NO_BLOB in text:
        row = _ERROR_RULES["BlobNotFound"]
    elif _NO_CONNECTION.search(whole):
        row = _NOT_SENT
    else:
        row = _rule_for_exception(error)
    return AttemptFailed(row, format_detail(f"{type(error).__name__}: {text}", row))


def _rule_for_exception(error: Exception) -> ErrorRule:
    names = (above.__name__ for above in type(error).__mro__)
    return next(_ERROR_RULES[name] for name in names if name in _ERROR_RULES)
