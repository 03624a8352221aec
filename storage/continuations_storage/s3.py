"""A store in a bucket of S3, or of a server with the S3 protocol, with boto3.

A body is one object; its name is the store's prefix and the key. The store needs
PutObject with ``If-None-Match: *``, GetObject, ListObjectsV2 and DeleteObject, and
HeadObject after a lost reply. `probe` refuses a server that ignores the condition.

**Lost replies.** Each create has a random maker id, which all its attempts send in the
object's metadata. After an attempt without a clear failure the object may be stored. If
the key then exists, or no attempt is left, the store reads the maker id of the object
and compares it. If it cannot be read, the create is `Inconclusive`.

*A crash* leaves the whole object or none: S3 makes an object visible in one step.
`continuations_storage.s3errors` has the table of errors.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from continuations_storage import retries
from continuations_storage.contract import PAGE_SIZE, Page
from continuations_storage.endpoints import (
    check_endpoint,
    describe_place,
    endpoint_of_environment,
)
from continuations_storage.errors import NotFound, Unsafe
from continuations_storage.fork_safety import PerProcess, SingleProcessGuard
from continuations_storage.keys import (
    check_key,
    check_limit,
    check_prefix,
    check_store_prefix,
    is_key,
)
from continuations_storage.probe import ProofOfVersions
from continuations_storage.retries import RetryPolicy, located_errors
from continuations_storage.s3errors import classified_errors
from continuations_storage.s3requests import BucketLocation
from continuations_storage.thread_pool import DaemonThreadPool

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from continuations_storage.retries import StoredObjectInfo
    from continuations_storage.s3client import Checksums
    from continuations_storage.s3requests import Listing, S3Client

__all__ = ["S3Store"]

T = TypeVar("T")

_CONNECTIONS = 32
_threads = DaemonThreadPool(_CONNECTIONS, "continuations-s3")


class S3Store:
    """A store that keeps each body as an object of a bucket.

    Loops and threads of one process may share it. The constructor neither uses the
    network nor imports boto3. Credentials come from the environment, as boto3 reads it,
    or with a ready-made `client`.

    Args:
        bucket: The name of the bucket.
        prefix: The beginning of all object names, without a slash at the end; at
            most 123 characters.
        endpoint: The URL of a server that is not AWS; by default from the
            environment.
        region: The region of the bucket; by default from the environment.
        profile: The profile of ~/.aws/config; by default AWS_PROFILE.
        path_style: Use https://host/bucket/key instead of https://bucket.host/key.
        kms_key_id: Encrypt each object with this KMS key; by default the bucket's
            own encryption.
        checksums: "when_required" for servers that refuse the checksums of boto3.
        client: A ready-made ``boto3.client("s3")`` for one process. All options
            above except kms_key_id are then ignored.
        timeout: Seconds until a silent connection counts as lost.
        retry_policy: How often to retry; by default 8 attempts in 30 seconds.

    Attributes:
        time_resolution: One second: S3 tells its time in whole seconds.

    Raises:
        ValueError: The bucket is empty, or the endpoint contains a password.
        InvalidKey: The prefix is not valid.
    """

    time_resolution = timedelta(seconds=1)  # of the Date header

    def __init__(  # noqa: PLR0913 -- options are named at the call
        self,
        bucket: str,
        prefix: str = "",
        *,
        endpoint: str | None = None,
        region: str | None = None,
        profile: str | None = None,
        path_style: bool = False,
        kms_key_id: str | None = None,
        checksums: Checksums | None = None,
        client: S3Client | None = None,
        timeout: float = 15.0,
        retry_policy: RetryPolicy | None = None,
    ) -> None:
        if not bucket:
            raise ValueError("bucket must not be empty.")
        check_store_prefix(prefix)
        check_endpoint(endpoint)
        put_options: dict[str, str] = {}
        if kms_key_id is not None:
            put_options = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key_id}
        self._location = BucketLocation(
            bucket=bucket,
            key_prefix=f"{prefix}/" if prefix else "",
            put_options=put_options,
        )
        # The client of an application has an endpoint of its own.
        meta = getattr(client, "meta", None)
        self._endpoint = endpoint if client is None else _endpoint_of(meta)
        self._retry_policy = retry_policy or RetryPolicy()
        make_client = partial(
            _create_client,
            endpoint=endpoint,
            region=region,
            profile=profile,
            path_style=path_style,
            checksums=checksums,
            timeout=timeout,
        )
        self._client = PerProcess(
            make_client if client is None else _single_process_client(client)
        )
        self._proof = ProofOfVersions(self)

    @property
    def place(self) -> str:
        """The bucket, the prefix and the endpoint, as errors name them."""
        url = f"s3://{self._location.bucket}/{self._location.key_prefix}".rstrip("/")
        return describe_place(url, self._endpoint or endpoint_of_environment())

    def __repr__(self) -> str:
        return f"<S3Store {self.place}>"

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Put the body if the key is absent; one request unless something fails.

        Args:
            key: A valid key.
            body: The bytes.

        Returns:
            The time of S3, to the second.

        Raises:
            StorageError: As `Store.create` states.
        """
        with located_errors("create", self.place):
            created = await self.create_unchecked(key, body)
            await self._proof.check(key, created)
        return created.store_time

    async def create_unchecked(self, key: str, body: bytes) -> StoredObjectInfo:
        """Put the body if the key is absent; see `ProofOfVersions`.

        Args:
            key: A valid key.
            body: The bytes.

        Returns:
            The stored object, perhaps with a version id.

        Raises:
            StorageError: As `Store.create` states.
        """
        check_key(key)
        maker_id = os.urandom(16).hex()
        put = partial(self._location.put, key=key, body=body, maker_id=maker_id)
        head = partial(self._location.head, key=key)
        return await retries.create_with_retries(
            self._retry_policy,
            key,
            maker_id,
            put=lambda: self._send(put),
            head=lambda: self._send(head),
        )

    async def read(self, key: str) -> bytes:
        """Return the whole body.

        Raises:
            NotFound: The key does not exist.
            Denied: Access is denied. S3 also answers so about a missing key if the
                process may not list the bucket.
            StorageError: As `Store.read` states.
        """
        check_key(key)
        with located_errors("read", self.place):
            return await self._retry(key, partial(self._location.get, key=key))

    async def keys(self, prefix: str, after: str = "", limit: int = PAGE_SIZE) -> Page:
        """Return the first keys of a prefix, in byte order; see `Store.keys`.

        Up to 1,000 keys cost one request. The page has the time of S3. Objects whose
        names are not valid keys are left out.
        """
        check_prefix(prefix)
        check_limit(limit)
        root = self._location.key_prefix
        last = root + after if after else ""
        page = Page()
        while True:
            listing = partial(
                self._location.list_page,
                prefix=prefix,
                after_name=last,
                limit=min(PAGE_SIZE, limit - len(page)),
            )
            with located_errors("list", self.place):
                listed = await self._retry(prefix or None, listing)
                _check_order(listed, root + prefix, last)
            keys = (name[len(root) :] for name in listed.names)
            page += filter(is_key, keys)
            page.store_time = listed.store_time
            page.is_last = not listed.has_more
            if len(page) >= limit or not listed.has_more:
                return page
            last = listed.names[-1]

    async def delete(self, key: str) -> None:
        """Remove the key; to delete a missing key is a success.

        A bucket with versioning keeps the bytes as an older version.
        """
        check_key(key)
        # S3 answers 204 for a missing key, some other servers 404.
        with suppress(NotFound), located_errors("delete", self.place):
            await self._retry(key, partial(self._location.delete, key=key))

    async def probe(self) -> None:
        """Prove that the server honours put-if-absent, or raise `Unsafe`."""
        with located_errors("create", self.place):
            await self._proof.prove_once()

    async def _retry(self, key: str | None, request: Callable[[S3Client], T]) -> T:
        return await retries.retry(self._retry_policy, key, lambda: self._send(request))

    async def _send(self, request: Callable[[S3Client], T]) -> T:
        return await _threads.run(lambda: self._attempt(request))

    def _attempt(self, request: Callable[[S3Client], T]) -> T:
        with classified_errors(request_sent=False):
            client = self._client()
        with classified_errors():
            return request(client)


def _endpoint_of(meta: object) -> str | None:
    endpoint: str | None = getattr(meta, "endpoint_url", None)
    return endpoint


def _create_client(**settings: Any) -> S3Client:
    from continuations_storage import s3client  # noqa: PLC0415 -- cold start

    return s3client.create_client(
        s3client.ClientSettings(connections=_CONNECTIONS, **settings)
    )


def _check_order(listed: Listing, prefix: str, last: str) -> None:
    for name in listed.names:
        if name <= last or not name.startswith(prefix):
            detail = f"listed {name!r} after {last!r} for the prefix {prefix!r}"
            raise Unsafe(None, f"{detail}; directory buckets are not supported")
        last = name


def _single_process_client(client: S3Client) -> Callable[[], S3Client]:
    """Refuse the client to a second process: both would use its connections."""
    guard = SingleProcessGuard("client=", "make client and store after the fork")

    def client_of_this_process() -> S3Client:
        guard.check_process()
        return client

    return client_of_this_process
