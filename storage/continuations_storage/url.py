"""Open a store by its URL: a folder, a file, memory, a table or a bucket."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from continuations_storage.errors import InvalidKey, Unsupported
from continuations_storage.keys import check_store_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Unpack

    from continuations_storage.contract import Store
    from continuations_storage.memory import MemoryStore
    from continuations_storage.s3client import Checksums
    from continuations_storage.s3requests import S3Client

__all__ = ["StoreOptions", "open_store", "without_password"]

_named_memory_stores: dict[str, MemoryStore] = {}


class StoreOptions(TypedDict, total=False):
    """The options of `open_store`; which URL takes which is stated there.

    Attributes:
        driver: "boto3" or "obstore".
        endpoint: The URL of the server, for example of an emulator.
        timeout: Seconds until a silent connection counts as lost; 15 by default.
        region: The region of the bucket.
        path_style: Use https://host/bucket/key instead of https://bucket.host/key.
        kms_key_id: Encrypt each object with this KMS key.
        profile: The profile of ~/.aws/config.
        checksums: "when_required" for servers that refuse the checksums of boto3.
        client: A ready-made ``boto3.client("s3")``.
        account: The name of the Azure storage account.
        credential_provider: A callable of ``obstore.auth``, or one like it.
        watched_prefixes: The prefixes of keys that can be watched in Postgres.
    """

    driver: Literal["boto3", "obstore"]
    endpoint: str | None
    timeout: float
    region: str | None
    path_style: bool
    kms_key_id: str | None
    profile: str | None
    checksums: Checksums | None
    client: S3Client | None
    account: str | None
    credential_provider: Callable[..., Any] | None
    watched_prefixes: Sequence[str]


_COMMON = frozenset({"endpoint", "timeout"})
_S3 = _COMMON | {"region", "path_style", "kms_key_id"}
_OBSTORE = _COMMON | {"credential_provider"}
# By scheme and driver; the first driver of a scheme is its default.
_OPTIONS: Mapping[str, Mapping[str, frozenset[str]]] = {
    "s3": {
        "boto3": _S3 | {"profile", "checksums", "client"},
        "obstore": _S3 | _OBSTORE,
    },
    "gs": {"obstore": _OBSTORE},
    "az": {"obstore": _OBSTORE | {"account"}},
}
_OTHER_SPELLINGS = {
    "gcs": "gs://BUCKET/PREFIX",
    "postgresql": "postgresql://HOST/DATABASE",
    "postgres": "postgresql://HOST/DATABASE",
    **dict.fromkeys(("azure", "abfs", "abfss", "adl"), "az://CONTAINER/PREFIX"),
}


def without_password(url: str) -> str:
    """Return a URL without a password.

    Args:
        url: The URL of a store, valid or not.

    Returns:
        The URL for people. It names the same store.
    """
    if "://" not in url:
        return url
    url = re.sub(r"(?<=://)([^:/?@]*):.*@", r"\1@", url, flags=re.DOTALL)
    return re.sub(r"(?<=[?&])(ssl)?password=[^&]*(&|$)", "", url).rstrip("?&")


def open_store(url: str, **options: Unpack[StoreOptions]) -> Store:
    """Open the store that a URL names, without using the disk or the network.

    The URLs are:

    - ``file:PATH``: a folder. The path is relative or absolute, and is not unquoted.
      ``file:///PATH`` is the same as ``file:/PATH``. A ``~`` at its start is refused.
    - ``sqlite:PATH``: one file, on a disk of this machine. The path is as for
      ``file:PATH``; ``sqlite://`` is refused, because it has two meanings elsewhere.
    - ``memory:``: a new store in this process at each call.
    - ``memory:NAME``: one store for each name in this process.
    - ``postgresql://HOST/DATABASE``: a table of Postgres; needs psycopg.
    - ``s3://BUCKET/PREFIX``: a bucket of S3 or of a server with its protocol.
    - ``gs://BUCKET/PREFIX``: a bucket of Google Cloud Storage; needs obstore.
    - ``az://CONTAINER/PREFIX``: a container of Azure Blob Storage; needs obstore.

    The prefix is optional. Only a URL of Postgres may contain a password.

    Args:
        url: The URL of the store.
        **options: For a bucket or container: ``endpoint``, ``timeout`` and ``driver``
            ("boto3", the default for S3, or "obstore"). For S3 also ``region``,
            ``path_style`` and ``kms_key_id``. For S3 with boto3 also ``profile``,
            ``checksums`` and ``client``. For Azure also ``account``. With obstore also
            ``credential_provider``. For Postgres ``timeout`` and ``watched_prefixes``.
            Other stores take no options. The environment decides an option not given.

    Returns:
        The store. A missing bucket, table or permission shows at the first operation.

    Raises:
        Unsupported: The URL or an option is not valid, or obstore or psycopg is not
            installed. Or the path is relative and the current folder was deleted.
    """
    scheme, colon, location = url.partition(":")
    if not url:
        raise Unsupported(url, "it is empty")
    if not colon:
        _refuse_secrets(url)
        raise Unsupported(url, "no scheme", _path_advice(url))
    if options and scheme in {"file", "sqlite", "memory"}:
        detail = f"a {scheme}: store has no option {min(options)!r}"
        raise Unsupported(url, detail, "Remove that option.")
    match scheme:
        case "file":
            return _open_files(url, location)
        case "sqlite":
            return _open_sqlite(url, location)
        case "memory":
            return _open_memory(location)
        case "postgresql" | "postgres":
            return _open_postgres(url, location, dict(options))
        case "s3" | "gs" | "az":
            return _open_bucket(url, scheme, location, dict(options))
        case _:
            _refuse_secrets(url)
            # SQLAlchemy names its driver too: postgresql+psycopg://
            other = _OTHER_SPELLINGS.get(scheme.partition("+")[0], "")
            detail = f"unknown scheme {scheme!r}"
            raise Unsupported(without_password(url), detail, other and f"Use {other}.")


def _refuse_secrets(url: str) -> None:
    """Raise `Unsupported` without a text that may contain a password."""
    if "://" not in url and ("@" in url or "=" in url):
        raise Unsupported(
            "(not shown)",
            "it is no URL, and may contain a password",
            "Use postgresql://USER@HOST/DATABASE, file:PATH or sqlite:PATH.",
        )


def _open_files(url: str, location: str) -> Store:
    from continuations_storage.files import FileStore  # noqa: PLC0415 -- cold start

    if location.startswith("//"):
        host, slash, path = location[2:].partition("/")
        if host not in {"", "localhost"}:
            raise Unsupported(url, f"files of another host, {host!r}")
        location = slash + path
    _check_path(url, "file", location)
    return FileStore(location)


def _open_sqlite(url: str, location: str) -> Store:
    from continuations_storage.sqlite import SQLiteStore  # noqa: PLC0415 -- cold start

    if location.startswith("//"):
        # Elsewhere, three slashes begin a relative path and four an absolute one.
        detail = "'sqlite://' has two meanings"
        raise Unsupported(url, detail, "Use sqlite:PATH, for example sqlite:runs.db.")
    if location == ":memory:":
        raise Unsupported(url, "no path", "Use memory: for a store in memory.")
    _check_path(url, "sqlite", location)
    return SQLiteStore(location)


def _open_postgres(url: str, location: str, options: dict[str, Any]) -> Store:
    from importlib.util import find_spec  # noqa: PLC0415 -- cold start

    # Without the URL, which may contain a password.
    shown = "postgresql:"
    if not location.startswith("//"):
        raise Unsupported(shown, "no //", "Use postgresql://HOST/DATABASE.")
    if unknown := options.keys() - {"timeout", "watched_prefixes"}:
        detail = f"Postgres has no option {min(unknown)!r}"
        raise Unsupported(shown, detail, "Remove that option.")
    if find_spec("psycopg") is None:
        advice = "Run pip install 'psycopg[binary]>=3.3'."
        raise Unsupported(shown, "psycopg is not installed", advice)
    from continuations_storage.postgres import PostgresStore  # noqa: PLC0415 -- likewise

    return PostgresStore(url, **options)


def _check_path(url: str, scheme: str, location: str) -> None:
    if not location:
        raise Unsupported(url, "no path")
    if location.startswith("~"):
        advice = _tilde_advice(location, scheme)
        raise Unsupported(url, "'~' is not expanded", advice)


def _path_advice(path: str) -> str:
    if path.startswith("~"):
        return _tilde_advice(path)
    return f"For a folder, use 'file:{path}'."


def _tilde_advice(location: str, scheme: str = "file") -> str:
    # Not expanded: a store that is in a folder "~" today would seem to be empty.
    import os  # noqa: PLC0415 -- rarely used

    home = os.path.expanduser(location)  # noqa: PTH111 -- pathlib is 5 ms cold
    literal = f"use '{scheme}:./{location}' for a path with that name."
    if home == location:
        return f"Pass an absolute path, or {literal}"
    return f"Use '{scheme}:{home}', or {literal}"


def _open_memory(name: str) -> Store:
    from continuations_storage.memory import MemoryStore  # noqa: PLC0415 -- cold start

    if not name:
        return MemoryStore()
    # setdefault and not check-then-set: two threads must get the same store.
    return _named_memory_stores.setdefault(name, MemoryStore())


def _open_bucket(
    url: str, scheme: str, location: str, options: dict[str, Any]
) -> Store:
    if "@" in location.removeprefix("//").partition("/")[0] or "?" in location:
        # Without the URL: error messages are logged.
        raise Unsupported(
            f"{scheme}:",
            "a URL must not contain credentials or parameters",
            "Set credentials in the environment.",
        )
    bucket, _, prefix = location.removeprefix("//").partition("/")
    if not location.startswith("//") or not bucket:
        kind = "CONTAINER" if scheme == "az" else "BUCKET"
        raise Unsupported(url, "no bucket", f"Use {scheme}://{kind}/PREFIX.")
    prefix = prefix.rstrip("/")
    options = dict(options)
    driver = _take_driver(url, scheme, options)
    try:
        check_store_prefix(prefix)
    except InvalidKey as error:
        detail = f"its prefix is not valid ({error.detail})"
        raise Unsupported(url, detail, InvalidKey.next_step) from None
    try:
        if driver == "boto3":
            from continuations_storage.s3 import S3Store  # noqa: PLC0415 -- cold start

            return S3Store(bucket, prefix, **options)
        return _open_obstore(url, f"{scheme}://{bucket}/{prefix}", options)
    except ValueError as error:
        if isinstance(error, Unsupported):
            raise
        raise Unsupported(url, str(error), "Correct that option.") from error


def _take_driver(url: str, scheme: str, options: dict[str, Any]) -> str:
    """Remove the driver from the options, and check the others against it."""
    drivers = _OPTIONS[scheme]
    driver = options.pop("driver", None) or next(iter(drivers))
    if driver not in drivers:
        names = " or ".join(map(repr, drivers))
        raise Unsupported(url, f"unknown driver {driver!r}", f"Use driver={names}.")
    unknown = options.keys() - drivers[driver]
    if unknown:
        known = ", ".join(sorted(drivers[driver]))
        raise Unsupported(
            url,
            f"driver {driver!r} has no option {min(unknown)!r}",
            f"Its options are {known}.",
        )
    return driver


def _open_obstore(url: str, location: str, options: dict[str, Any]) -> Store:
    from importlib.util import find_spec  # noqa: PLC0415 -- cold start

    from continuations_storage.obstore import ObjectStore  # noqa: PLC0415 -- likewise

    if find_spec("obstore") is None:
        command = "pip install 'obstore>=0.12'"
        raise Unsupported(url, "obstore is not installed", f"Run {command}.")
    if (path_style := options.pop("path_style", None)) is not None:
        options["virtual_hosted_style_request"] = not path_style
    if kms_key_id := options.pop("kms_key_id", None):
        options["server_side_encryption"] = "aws:kms"
        options["sse_kms_key_id"] = kms_key_id
    options["account_name"] = options.pop("account", None)
    configuration = {
        name: value for name, value in options.items() if value is not None
    }
    return ObjectStore(location.rstrip("/"), **configuration)
