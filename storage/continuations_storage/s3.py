"""A store in a bucket of S3, or of anything that speaks like it, through boto3.

A body is one object, its key is the store's prefix and the key. Needs PutObject with
``If-None-Match: *``, GetObject, ListObjectsV2 and DeleteObject, and HeadObject after a
lost reply; `probe` refuses a look-alike that ignores the condition and overwrites.

**Lost replies.** Each create has a maker's id of its own, sent in the object's metadata
with all its attempts. An attempt that failed without a clear no may have landed; if the
key is taken afterwards, or at the end of our patience, the object's maker tells whose
it is. Only if that cannot be read the create is `Inconclusive`. *A crash* leaves the
whole object or none: S3 makes an object visible in one step.

What each answer means is one table, in `continuations_storage.s3errors`.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from continuations_storage import retries
from continuations_storage.contract import PAGE_SIZE, Page
from continuations_storage.endpoints import check_endpoint
from continuations_storage.errors import NotFound, Unsafe
from continuations_storage.fork_safety import PerProcess, SingleProcessGuard
from continuations_storage.keys import (
    check_key,
    check_limit,
    check_prefix,
    check_store_prefix,
    is_key,
)
from continuations_storage.probe import prove_put_if_absent
from continuations_storage.retry_policy import RetryPolicy
from continuations_storage.s3errors import classified_errors
from continuations_storage.s3requests import BucketLocation
from continuations_storage.thread_pool import DaemonThreadPool

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from continuations_storage.s3client import Checksums
    from continuations_storage.s3requests import Listing, S3Client

__all__ = ["S3Store"]

T = TypeVar("T")

_CONNECTIONS = 32
_threads = DaemonThreadPool(_CONNECTIONS, "continuations-s3")


class S3Store:
    """Keeps each body as an object of a bucket; may be shared by loops and threads.

    Making one neither touches the network nor imports boto3. What is not said here is
    left to the environment, as boto3 reads it (``AWS_PROFILE``, ``AWS_REGION``,
    ``AWS_ENDPOINT_URL_S3``, …); credentials come from there only, or with a ready-made
    `client`, which then decides everything else about the connection.
    """

    def __init__(  # noqa: PLR0913 -- each of them is named at the call
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
            raise ValueError("an S3 store needs the name of a bucket")
        check_store_prefix(prefix)
        check_endpoint(endpoint)
        extra: dict[str, str] = {}
        if kms_key_id is not None:
            extra = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key_id}
        self._location = BucketLocation(
            bucket=bucket,
            key_prefix=f"{prefix}/" if prefix else "",
            put_options=extra,
        )
        self._endpoint = endpoint
        self._retry_policy = retry_policy or RetryPolicy()

        def connect() -> S3Client:
            from continuations_storage import s3client  # noqa: PLC0415 -- path = price

            return s3client.create_client(
                s3client.ClientSettings(
                    endpoint=endpoint,
                    region=region,
                    profile=profile,
                    path_style=path_style,
                    checksums=checksums,
                    timeout=timeout,
                    connections=_CONNECTIONS,
                )
            )

        self._client = PerProcess(
            connect if client is None else _single_process_client(client)
        )

    def __repr__(self) -> str:
        where = f" at {self._endpoint}" if self._endpoint else ""
        return (
            f"<S3Store s3://{self._location.bucket}/{self._location.key_prefix}{where}>"
        )

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Put the body if the key is absent; durable when it returns.

        Returns S3's own time, to the second. One request unless something fails.
        """
        check_key(key)
        maker = os.urandom(16).hex()
        put = partial(self._location.put, key=key, body=body, maker_id=maker)
        head = partial(self._location.head, key=key)
        return await retries.create_with_retries(
            self._retry_policy,
            key,
            maker,
            put=lambda: self._send(put),
            head=lambda: self._send(head),
        )

    async def read(self, key: str) -> bytes:
        """Return the whole body, or raise NotFound; Denied where S3 will not tell."""
        check_key(key)
        return await self._retry(key, partial(self._location.get, key=key))

    async def keys(self, prefix: str, after: str = "", limit: int = PAGE_SIZE) -> Page:
        """Return the first keys with the prefix and greater than `after`, in order.

        One request for up to 1,000, and S3's own time with them. Objects whose names
        are no keys are passed over.
        """
        check_prefix(prefix)
        check_limit(limit)
        root = self._location.key_prefix
        last = root + after if after else ""
        found = Page()
        while True:
            listing = partial(
                self._location.list_page,
                prefix=prefix,
                after=last,
                limit=min(PAGE_SIZE, limit - len(found)),
            )
            listed = await self._retry(prefix or None, listing)
            _check_order(listed, root + prefix, last)
            keys = (name[len(root) :] for name in listed.names)
            found += filter(is_key, keys)
            found.store_time = listed.store_time
            if len(found) >= limit or not listed.has_more:
                return found
            last = listed.names[-1]

    async def delete(self, key: str) -> None:
        """Remove the key; succeeds also when there is none.

        A bucket with versioning keeps the bytes as an older version.
        """
        check_key(key)
        # S3 says 204 of a missing key, some look-alikes 404.
        with suppress(NotFound):
            await self._retry(key, partial(self._location.delete, key=key))

    async def probe(self) -> None:
        """Prove that S3, or what looks like it, refuses a name that is taken."""
        await prove_put_if_absent(self)

    async def _retry(self, key: str | None, request: Callable[[S3Client], T]) -> T:
        return await retries.retry(self._retry_policy, key, lambda: self._send(request))

    async def _send(self, request: Callable[[S3Client], T]) -> T:
        return await _threads.run(lambda: self._attempt(request))

    def _attempt(self, request: Callable[[S3Client], T]) -> T:
        with classified_errors(request_sent=False):
            client = self._client()
        with classified_errors():
            return request(client)


def _check_order(listed: Listing, prefix: str, last: str) -> None:
    for name in listed.names:
        if name <= last or not name.startswith(prefix):
            detail = f"it lists {name!r} after {last!r} for {prefix!r}"
            raise Unsafe(None, f"{detail}; a directory bucket cannot be used")
        last = name


def _single_process_client(client: S3Client) -> Callable[[], S3Client]:
    """Refuse the same client to a second process: both would use its connections."""
    first = SingleProcessGuard(
        "the given client", "make client and store after the fork"
    )

    def client_of_this_process() -> S3Client:
        first.check_process()
        return client

    return client_of_this_process
