"""From a URL to a store: ``file:path``, ``memory:name``, ``s3://bucket/prefix``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

from continuations_storage.errors import Unsupported
from continuations_storage.keys import check_store_prefix

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Unpack

    from continuations_storage.contract import Store
    from continuations_storage.memory import MemoryStore
    from continuations_storage.s3client import Checksums
    from continuations_storage.s3requests import S3Client

__all__ = ["S3Options", "open_store"]

_named_memory_stores: dict[str, MemoryStore] = {}


class S3Options(TypedDict, total=False):
    """What an S3 store can be told beside its URL.

    The last three are for the driver "boto3" only, which is the default.
    """

    driver: Literal["boto3", "obstore"]
    endpoint: str | None
    region: str | None
    path_style: bool
    kms_key_id: str | None
    timeout: float
    profile: str | None
    checksums: Checksums | None
    client: S3Client | None


_COMMON_OPTIONS = ("endpoint", "region", "path_style", "kms_key_id", "timeout")


def open_store(url: str, **options: Unpack[S3Options]) -> Store:
    """Open the store that a URL names; opening touches neither disk nor network.

    ``file:path`` (relative or absolute, taken literally, also ``file:///path``),
    ``memory:`` (a new one each time), ``memory:name`` (one for each name in this
    process), ``s3://bucket`` and ``s3://bucket/prefix``, which alone takes options and
    for the rest goes by the environment. Anything else raises Unsupported.
    """
    scheme, colon, place = url.partition(":")
    if not colon:
        raise Unsupported(url, f"no scheme; for a folder write 'file:{url}'")
    if options and scheme != "s3":
        raise Unsupported(url, f"such a store has no option {min(options)!r}")
    match scheme:
        case "file":
            return _open_files(url, place)
        case "memory":
            return _open_memory(place)
        case "s3":
            return _open_s3(url, place, dict(options))
        case _:
            raise Unsupported(url, f"unknown scheme {scheme!r}")


def _open_files(url: str, location: str) -> Store:
    from continuations_storage.files import FileStore  # noqa: PLC0415 -- path = price

    if location.startswith("//"):
        host, slash, path = location[2:].partition("/")
        if host not in {"", "localhost"}:
            raise Unsupported(url, f"files of another host, {host!r}")
        location = slash + path
    if not location:
        raise Unsupported(url, "no path")
    return FileStore(location)


def _open_memory(name: str) -> Store:
    from continuations_storage.memory import MemoryStore  # noqa: PLC0415 -- likewise

    if not name:
        return MemoryStore()
    # setdefault and not check-then-set: two threads must get the same one.
    return _named_memory_stores.setdefault(name, MemoryStore())


def _open_s3(url: str, location: str, options: dict[str, Any]) -> Store:
    bucket, _, prefix = location.removeprefix("//").partition("/")
    if not location.startswith("//") or not bucket:
        raise Unsupported(url, "no bucket")
    if "@" in bucket:
        # Not the URL itself: errors end in logs.
        raise Unsupported("s3:", "credentials come from the environment, never a URL")
    driver = options.pop("driver", "boto3")
    _refuse_unknown(url, options, S3Options.__annotations__.keys())
    try:
        if driver == "boto3":
            from continuations_storage.s3 import S3Store  # noqa: PLC0415 -- likewise

            return S3Store(bucket, prefix.rstrip("/"), **options)
        if driver == "obstore":
            return _open_obstore(url, prefix.rstrip("/"), options)
    except ValueError as error:
        raise Unsupported(url, str(error)) from error
    raise Unsupported(url, f"unknown driver {driver!r}")


def _open_obstore(url: str, prefix: str, options: dict[str, Any]) -> Store:
    from continuations_storage.obstore import ObjectStore  # noqa: PLC0415 -- likewise

    _refuse_unknown(url, options, _COMMON_OPTIONS)
    check_store_prefix(prefix)
    if (path_style := options.pop("path_style", None)) is not None:
        options["virtual_hosted_style_request"] = not path_style
    if kms_key_id := options.pop("kms_key_id", None):
        options["server_side_encryption"] = "aws:kms"
        options["sse_kms_key_id"] = kms_key_id
    given = {name: value for name, value in options.items() if value is not None}
    return ObjectStore(url.rstrip("/"), **given)


def _refuse_unknown(
    url: str, options: Mapping[str, object], known: Iterable[str]
) -> None:
    unknown = options.keys() - set(known)
    if unknown:
        raise Unsupported(url, f"there is no option {min(unknown)!r}")
