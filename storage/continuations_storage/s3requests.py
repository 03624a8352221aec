"""The five requests that the S3 store sends, each of them once, and nothing more.

An answer is believed only if it looks like one of S3's: a hotel's login page, too,
comes with 200, and would else be a stored body or an empty listing.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from continuations_storage.retries import StoredObjectInfo
from continuations_storage.s3errors import response_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

__all__ = ["BucketLocation", "Listing", "S3Client"]

_MAKER = "maker"


class MalformedResponse(Exception):
    """A success that no S3 would have worded so."""


class S3Client(Protocol):
    """What is used of ``boto3.client("s3")``."""

    @property
    def put_object(self) -> Callable[..., Any]:
        """PutObject."""
        ...

    @property
    def get_object(self) -> Callable[..., Any]:
        """GetObject."""
        ...

    @property
    def head_object(self) -> Callable[..., Any]:
        """HeadObject."""
        ...

    @property
    def list_objects_v2(self) -> Callable[..., Any]:
        """ListObjectsV2."""
        ...

    @property
    def delete_object(self) -> Callable[..., Any]:
        """DeleteObject."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Names of objects as S3 lists them, whether there are more, and S3's time."""

    names: list[str]
    has_more: bool
    store_time: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketLocation:
    """A bucket and the beginning of all names in it; `extra` goes with every put."""

    bucket: str
    key_prefix: str
    put_options: Mapping[str, str] = field(default_factory=dict[str, str])

    def put(
        self, client: S3Client, key: str, body: bytes, maker_id: str
    ) -> datetime | None:
        """Put if absent, with the maker's id beside the body; return S3's time."""
        answer = client.put_object(
            Bucket=self.bucket,
            Key=self.key_prefix + key,
            Body=body,
            IfNoneMatch="*",
            Metadata={_MAKER: maker_id},
            **self.put_options,
        )
        _require_member(answer, "ETag")
        return _response_time(answer)

    def head(self, client: S3Client, key: str) -> StoredObjectInfo:
        """Tell whose body stands."""
        answer = client.head_object(Bucket=self.bucket, Key=self.key_prefix + key)
        _require_member(answer, "ETag")
        # Servers written in Go, MinIO for one, send the name as "Maker".
        metadata = {k.lower(): v for k, v in answer.get("Metadata", {}).items()}
        return StoredObjectInfo(
            maker_id=metadata.get(_MAKER), store_time=_response_time(answer)
        )

    def get(self, client: S3Client, key: str) -> bytes:
        """Return the whole body."""
        answer = client.get_object(Bucket=self.bucket, Key=self.key_prefix + key)
        with closing(answer["Body"]) as stream:
            _require_member(answer, "ETag")
            body: bytes = stream.read()
        if answer.get("ContentLength") != len(body):
            # Without a length nobody can tell a whole body from the half of one.
            raise MalformedResponse(
                f"{len(body)} of {answer.get('ContentLength')} bytes came"
            )
        return body

    def list_page(
        self, client: S3Client, prefix: str, after: str, limit: int
    ) -> Listing:
        """List the first names with the prefix that come after the name `after`."""
        where = {"StartAfter": after} if after else {}
        answer = client.list_objects_v2(
            Bucket=self.bucket, Prefix=self.key_prefix + prefix, MaxKeys=limit, **where
        )
        _require_member(answer, "IsTruncated")
        names: list[str] = [each["Key"] for each in answer.get("Contents", ())]
        if answer["IsTruncated"] and not names:
            raise MalformedResponse("an empty page that says there are more")
        more: bool = answer["IsTruncated"]
        return Listing(names=names, has_more=more, store_time=_response_time(answer))

    def delete(self, client: S3Client, key: str) -> None:
        """Remove the key."""
        client.delete_object(Bucket=self.bucket, Key=self.key_prefix + key)


def _require_member(response: Mapping[str, Any], member: str) -> None:
    if member not in response:
        raise MalformedResponse(f"a success without {member}")


def _response_time(response: Mapping[str, Any]) -> datetime | None:
    return response_time(response["ResponseMetadata"]["HTTPHeaders"])
