"""A store whose verbs raise the errors of this library.

`AlreadyExists`, `NotFound` and `OutOfTime` pass through, because their callers act on
them. Every other error of a store becomes an error of `continuations.errors`.
"""

from __future__ import annotations

from asyncio import gather, sleep
from contextlib import nullcontext
from os import PathLike, fspath
from typing import TYPE_CHECKING, cast

from continuations.errors import (
    Corrupt,
    Inconclusive,
    InvalidId,
    InvalidInput,
    StoreDenied,
    StoreError,
    StoreUnavailable,
    StoreUnsafe,
)
from continuations.ledger import layout
from continuations.ledger.loaded_version import RecentVersions
from continuations_storage import errors as storage
from continuations_storage.contract import (
    PAGE_SIZE,
    committer,
    created_at,
    is_last_page,
    keys_with_bodies,
    listing_size,
    missing_folder,
    read_many,
    time_resolution,
    watch,
    within,
)
from continuations_storage.url import open_store as storage_open_store
from continuations_storage.url import without_password

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Coroutine,
        Iterable,
        Iterator,
        Sequence,
    )
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime, timedelta
    from typing import Any, TypeVar, Unpack

    from continuations_storage.contract import (
        Changes,
        Committed,
        Listing,
        Store,
        Watch,
    )
    from continuations_storage.postgres_sql import RoleRights
    from continuations_storage.url import StoreOptions

    T = TypeVar("T")

# So many objects are read at the same time.
PARALLEL_READS = 50
# The work on so many keys takes about a millisecond.
_PIECE_SIZE = 2 * PAGE_SIZE

AlreadyExists = storage.AlreadyExists
NotFound = storage.NotFound
OutOfTime = storage.OutOfTime

_ERROR_CLASSES: tuple[tuple[type[storage.StorageError], type[Exception]], ...] = (
    (storage.Denied, StoreDenied),
    (storage.Throttled, StoreUnavailable),
    (storage.Unavailable, StoreUnavailable),
    (storage.Inconclusive, Inconclusive),
    (storage.Damaged, Corrupt),
    (storage.Unsafe, StoreUnsafe),
    (storage.InvalidKey, InvalidId),
    (storage.NoTransaction, InvalidInput),
)


def open_store(url: str, **options: Unpack[StoreOptions]) -> Store:
    """Open the store that a URL names, without using the disk or the network.

    The URLs are:

    - `file:PATH`: a folder.
    - `sqlite:PATH`: one SQLite file, on a disk of this machine.
    - `memory:`: memory of this process, new at each call.
    - `memory:NAME`: memory of this process, shared by name.
    - `postgresql://HOST/DATABASE`: a table of Postgres; needs the extra `postgres`.
    - `s3://BUCKET/PREFIX`: a bucket of S3 or of a server with its protocol.
    - `gs://BUCKET/PREFIX`: a bucket of Google Cloud Storage; needs the extra `obstore`.
    - `az://CONTAINER/PREFIX`: a container of Azure Blob Storage; needs the same extra.

    Credentials come from the environment, and those of Postgres also from the URL. Each
    option that is not given comes from the environment.

    Args:
        url: The URL of the store.
        **options: For a bucket or container: `endpoint` (the URL of the server),
            `timeout` (seconds until a silent connection counts as lost, 15 by
            default) and `driver` ("boto3", the default for S3, or "obstore"). For S3
            also `region`, `path_style` and `kms_key_id`. For S3 with boto3 also
            `profile`, `checksums` and `client` (a ready-made client). For Azure also
            `account`. With obstore also `credential_provider`. For Postgres only
            `timeout`. Files, SQLite and memory take no options.

    Returns:
        The store. A missing bucket, table or permission shows at the first operation.

    Raises:
        InvalidInput: The URL or an option is not valid, or the extra is not installed.
    """
    try:
        if "\0" in url or not url.isprintable():
            shown = without_password(url)
            raise storage.Unsupported(shown, "it contains control characters")
        if url.startswith(("postgresql:", "postgres:")):
            options.setdefault("watched_prefixes", (layout.DUE_NOW_PREFIX,))
        return storage_open_store(url, **options)
    except storage.StorageError as error:
        raise InvalidInput(str(error)) from None
    except (RecursionError, TypeError, ValueError) as error:
        shown = without_password(str(url))[:80]
        msg = f"store {shown!r} cannot be opened: {type(error).__name__}. "
        msg += "Pass a URL such as file:PATH or s3://BUCKET/PREFIX."
        raise InvalidInput(msg) from None


def to_store(store_or_url: object) -> Store:
    """Return the store of a URL, a `Path` of a folder or a store object.

    Raises:
        InvalidInput: The value is none of these, or the URL is not valid.
    """
    if isinstance(store_or_url, str):
        return open_store(store_or_url)
    if isinstance(store_or_url, PathLike):
        return open_store(f"file:{fspath(cast('PathLike[str]', store_or_url))}")
    verbs = ("create", "read", "keys", "delete", "probe")
    if all(callable(getattr(store_or_url, verb, None)) for verb in verbs):
        return cast("Store", store_or_url)
    raise InvalidInput(
        "store must be a URL, a path or an object with the verbs of "
        f"continuations_storage.Store, got {type(store_or_url).__name__}. Pass for "
        "example store='sqlite:runs.db'."
    )


def check_folder_exists(store: Store) -> None:
    """Refuse to read a store of files whose folder, or only file, does not exist.

    The commands, the console and the HTTP API ask before they read: a wrong path or a
    disk that is not mounted must not look like an empty store. A `Runner` does not ask,
    because its first run makes the store.

    Raises:
        StoreUnavailable: The folder or file does not exist.
    """
    folder = missing_folder(store)
    if folder is None:
        return
    raise StoreUnavailable(
        f"store {folder} cannot be read: it does not exist. Correct the URL or mount "
        "its disk. For a new store, start a run: it makes the folder or file."
    )


def objects_within(store: Store, connection: object, method: str) -> Objects:
    """Return a store inside the open transaction of an application.

    Raises:
        InvalidInput: The connection has no open transaction, or the store is no table
            of a database.
    """
    try:
        inside = within(store, connection)
    except storage.NoTransaction as error:
        raise InvalidInput(f"{method}(connection=...) failed: {error}") from None
    if inside is None:
        raise InvalidInput(
            f"{method}(connection=...) failed: {type(store).__name__} has no "
            "transactions. Use a postgresql:// store, or leave `connection` out."
        )
    return Objects(inside, in_transaction=True)


class Objects:
    """The verbs of a store, with the errors of this library."""

    def __init__(self, store: Store, *, in_transaction: bool = False) -> None:
        self.store = store
        # Whether other processes see what is created here only after a commit.
        self.in_transaction = in_transaction
        self.recent_versions = RecentVersions()
        # The version of each run for which this process noted that it lacks code.
        self.noted_missing_code: dict[str, int] = {}
        # Called when this process made work for a worker. They must not raise.
        self.on_work: set[Callable[[], None]] = set()

    @property
    def time_resolution(self) -> timedelta:
        """The store's true time is less than this later than the time that it tells."""
        return time_resolution(self.store)

    @property
    def listing_size(self) -> int:
        """How many keys to ask for in a long listing."""
        return listing_size(self.store)

    @property
    def lists_whole_folders(self) -> bool:
        """Whether each listing reads a whole folder, so that reads are cheaper."""
        return self.listing_size > PAGE_SIZE

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Put an object if its key is absent; raises `AlreadyExists`."""
        created = await _translate_errors(self.store.create(key, body))
        if layout.is_arrival_key(key):
            self.announce_work()
        return created

    @property
    def commits(self) -> bool:
        """Whether the store makes several changes together, in one request."""
        return not self.in_transaction and committer(self.store) is not None

    async def commit(self, changes: Changes) -> Committed:
        """Make several changes together, if `commits`.

        Raises `AlreadyExists`, and `OutOfTime` for changes with times.
        """
        commit = committer(self.store)
        assert commit is not None  # noqa: S101 - the caller asked
        committed = await _translate_errors(commit(changes))
        if any(map(layout.is_arrival_key, (changes.key, *changes.also))):
            self.announce_work()
        return committed

    def announce_work(self) -> None:
        """Tell the worker loops of this process that they have work."""
        # A copy: a loop in another thread may begin or end meanwhile.
        for wake in tuple(self.on_work):
            wake()

    def watch(self, prefix: str) -> AbstractAsyncContextManager[Watch | None]:
        """Watch the creates of a prefix; the block gets `None` if the store cannot."""
        return watch(self.store, prefix) or nullcontext()

    async def created_at(self, key: str) -> datetime | None:
        """Return the store's time of the create of a key, if the store can tell it.

        A sweep may have deleted the key meanwhile; then the time is unknown.
        """
        try:
            return await _translate_errors(created_at(self.store, key))
        except NotFound:
            return None

    async def read(self, key: str) -> bytes:
        """Return an object; raises `NotFound`."""
        return await _translate_errors(self.store.read(key))

    def translated(self, check: Callable[[], None]) -> None:
        """Call a check of the store, with the errors of this library."""
        try:
            check()
        except storage.StorageError as error:
            raise _translation_of(error) from error

    async def exists(self, key: str) -> bool:
        """Read an object; return whether it exists."""
        try:
            await self.read(key)
        except NotFound:
            return False
        return True

    async def read_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return several objects, read at the same time; `None` for a missing one."""
        return await _translate_errors(read_many(self.store, keys))

    async def keys(
        self, prefix: str, after: str = "", limit: int = PAGE_SIZE
    ) -> list[str]:
        """Return the first keys of a prefix."""
        return await _translate_errors(self.store.keys(prefix, after, limit))

    async def listed(
        self, listing: Listing, first_of: str = "", last_of: str = ""
    ) -> list[str]:
        """Return the keys of a listing.

        With prefixes, `Page.bodies` may have the body of the first key of one, and of
        the last key of the other.
        """
        if not first_of:
            return await self.keys(listing.prefix, listing.after, listing.limit)
        return await _translate_errors(
            keys_with_bodies(self.store, listing, first_of, last_of)
        )

    async def all_keys(self, prefix: str, after: str = "") -> AsyncIterator[str]:
        """Iterate over the keys of a prefix that sort after `after`, page by page."""
        async for page in self.all_pages(prefix, after):
            for key in page:
                yield key

    async def all_pages(self, prefix: str, after: str = "") -> AsyncIterator[list[str]]:
        """Iterate over the pages of keys of a prefix."""
        while True:
            page = await self.keys(prefix, after, self.listing_size)
            yield page
            if is_last_page(page, self.listing_size):
                return
            after = page[-1]

    async def delete(self, key: str) -> None:
        """Remove an object; to remove a missing object is a success."""
        await _translate_errors(self.store.delete(key))

    async def migrate(self, rights: Sequence[RoleRights]) -> bool | None:
        """Make what the store needs before its first object.

        Returns:
            Whether something was made; `None` if such a store needs nothing.
        """
        make: Callable[[Sequence[RoleRights]], Coroutine[Any, Any, bool]] | None
        make = getattr(self.store, "migrate", None)
        return None if make is None else await _translate_errors(make(rights))

    async def probe(self) -> None:
        """Prove that the store honours put-if-absent; raises `StoreUnsafe`."""
        await _translate_errors(self.store.probe())


async def pieces(page: list[str]) -> AsyncIterator[list[str]]:
    """Iterate over a long page in pieces, so that it does not hold the event loop."""
    for first in range(0, len(page), _PIECE_SIZE):
        if first:
            await sleep(0)
        yield page[first : first + _PIECE_SIZE]


def in_batches(items: Sequence[T], size: int = PARALLEL_READS) -> Iterator[Sequence[T]]:
    """Iterate over groups of items, each of which may be read at the same time."""
    return (items[first : first + size] for first in range(0, len(items), size))


async def gather_all(operations: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run operations at the same time, and return their results.

    One operation runs in this task: a task of its own costs three rounds of the loop.
    """
    coroutines = tuple(operations)
    if len(coroutines) == 1:
        return [await coroutines[0]]
    return await gather(*coroutines) if coroutines else []


async def gather_outcomes(
    operations: Iterable[Coroutine[Any, Any, T]],
) -> list[T | BaseException]:
    """Return the results or errors of operations that run at the same time."""
    coroutines = tuple(operations)
    if len(coroutines) != 1:
        return await gather(*coroutines, return_exceptions=True) if coroutines else []
    try:
        return [await coroutines[0]]
    except Exception as error:  # noqa: BLE001 - the caller looks at it
        return [error]


async def _translate_errors(operation: Awaitable[T]) -> T:
    try:
        return await operation
    except (storage.AlreadyExists, storage.NotFound, storage.OutOfTime):
        raise
    except storage.StorageError as error:
        raise _translation_of(error) from error


def _translation_of(error: storage.StorageError) -> Exception:
    for storage_class, error_class in _ERROR_CLASSES:
        if isinstance(error, storage_class):
            return error_class(str(error))
    return StoreError(str(error))
