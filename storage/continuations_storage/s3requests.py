"""The five requests of the S3 store, without retries.

The response to a put, head, get or list counts only if it has the fields that S3 always
sends. The login page of a hotel or company network also has status 200, and would
otherwise count as a stored body or an empty listing. The response to a delete has no
such field, so it is not checked: the key may still exist.
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
    """A response with a success status that S3 would not send."""


class S3Client(Protocol):
    """The part of ``boto3.client("s3")`` that is used here."""

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
    """One page of object names, whether more follow, and the server's time."""

    names: list[str]
    has_more: bool
    store_time: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketLocation:
    """A bucket and a prefix of object names; `put_options` go with every put."""

    bucket: str
    key_prefix: str
    put_options: Mapping[str, str] = field(default_factory=dict[str, str])

    def put(
        self, client: S3Client, key: str, body: bytes, maker_id: str
    ) -> StoredObjectInfo:
        """Put the body if the key is absent.

        The `maker_id` names this create, and is stored as metadata. If the response
        is lost, `head` tells whether this create made the object.
        """
        response = client.put_object(
            Bucket=self.bucket,
            Key=self.key_prefix + key,
            Body=body,
            IfNoneMatch="*",
            Metadata={_MAKER: maker_id},
            **self.put_options,
        )
        _require_field(response, "ETag")
        return _describe_object(response, maker_id)

    def head(self, client: S3Client, key: str) -> StoredObjectInfo:
        """Describe the stored object."""
        response = client.head_object(Bucket=self.bucket, Key=self.key_prefix + key)
        _require_field(response, "ETag")
        # Servers written in Go, such as MinIO, send the metadata key as `Maker`.
        metadata = {k.lower(): v for k, v in response.get("Metadata", {}).items()}
        return _describe_object(response, metadata.get(_MAKER))

    def get(self, client: S3Client, key: str) -> bytes:
        """Return the whole body."""
        response = client.get_object(Bucket=self.bucket, Key=self.key_prefix + key)
        with closing(response["Body"]) as stream:
            _require_field(response, "ETag")
            body: bytes = stream.read()
        if response.get("ContentLength") != len(body):
            # Without a length, a part of a body could pass as the whole body. So a
            # missing length is an error too.
            raise MalformedResponse(
                f"received {len(body)} of {response.get('ContentLength')} bytes"
            )
        return body

    def list_page(
        self, client: S3Client, prefix: str, after_name: str, limit: int
    ) -> Listing:
        """List the first object names with a prefix that sort after a name.

        `prefix` is without `key_prefix`; `after_name` is a whole object name, with it.
        """
        start = {"StartAfter": after_name} if after_name else {}
        response = client.list_objects_v2(
            Bucket=self.bucket, Prefix=self.key_prefix + prefix, MaxKeys=limit, **start
        )
        _require_field(response, "IsTruncated")
        names: list[str] = [each["Key"] for each in response.get("Contents", ())]
        if response["IsTruncated"] and not names:
            raise MalformedResponse("an empty page that is not the last one")
        has_more: bool = response["IsTruncated"]
        return Listing(
            names=names, has_more=has_more, store_time=_response_time(response)
        )

    def delete(self, client: S3Client, key: str) -> None:
        """Remove the key."""
        client.delete_object(Bucket=self.bucket, Key=self.key_prefix + key)


def _require_field(response: Mapping[str, Any], name: str) -> None:
    if name not in response:
        raise MalformedResponse(f"a success status without {name}")


def _describe_object(
    response: Mapping[str, Any], maker_id: str | None
) -> StoredObjectInfo:
    return StoredObjectInfo(
        maker_id=maker_id,
        store_time=_response_time(response),
        version_id=response.get("VersionId"),
    )


def _response_time(response: Mapping[str, Any]) -> datetime | None:
    return response_time(response["ResponseMetadata"]["HTTPHeaders"])
