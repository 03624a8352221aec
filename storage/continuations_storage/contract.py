"""The contract of every store: five verbs, and the state that a crash leaves behind.

A store maps keys to bodies. A body is created once and never changes. There is no
overwrite, so no update can be lost. Every store that passes
``continuations_storage.conformance`` can be used.

**create(key, body)** puts the body if the key is absent. If any number of creators
race, in one process or in many, exactly one succeeds; the others get `AlreadyExists`.
The body is durable when the call returns: it survives a power cut.

- Each call is one create with a new random maker id. A store that repeats a request
  after a lost reply recognises its own body by that id and reports success.
- *A crash* leaves the whole body under the key, or nothing. It may leave a temporary
  file or an unfinished upload that no verb shows and that the store removes later.
- A *cancelled* call is like a crash: the body may be stored.
- After `Denied`, `Throttled`, `Unavailable` or `InvalidKey`, nothing was written. After
  `Inconclusive` or `Unsafe`, the body may be stored.

**read(key)** returns the whole body or raises `NotFound`. It sees every create that
returned before the read began. The body that it returns is durable, so the caller may
act on it. It never writes.

**keys(prefix, after, limit)** lists the first `limit` keys that begin with the prefix
and are greater than `after`, in byte order of whole keys. The prefix is a prefix of
text: "runs/a" lists "runs/ab/x". The list shows every create and every delete that
returned before the call began. A page shorter than `limit` is the last one. It never
writes.

**delete(key)** removes the key; to delete a missing key is a success. The key can be
created again afterwards. *A crash* leaves the key, or removes it.

**probe()** proves that the store honours put-if-absent, or raises `Unsafe`. The result
is kept in the store under ``probe/passed``. *A crash* leaves one small key under
``probe/``, which has no meaning.

**Optional.** A store that rounds its time down, for example to whole seconds, says so
with an attribute ``time_resolution`` (a timedelta). A store whose `create` returns no
time may have a method ``created_at(key)`` that returns the store's time of the create.
A store for which large pages are cheaper has an attribute ``listing_size`` (a number of
keys). A store of files says with an attribute ``missing_folder`` that its folder, or
its only file, does not exist. `continuations_storage.faults.ForwardingStore` passes
all of them on.
A store that reads many bodies faster together than one by one may have a method
``read_many(keys)``; see the function `read_many`. `ForwardingStore` does not pass it
on, because a subclass may change `read`.
A store that reads bodies faster with their listing may have a method
``keys_with_bodies(listing, first_of, last_of)``; see the function `keys_with_bodies`.
`ForwardingStore` does not pass it on, for the same reason.
A store that can tell of creates may have a method ``watch(prefix)``; see the function
`watch`, and `Watch` for its promises.
A store in a database may have a method ``within(connection)``, which returns the same
store inside the open transaction of an application; see the function `within`.
A store that can make several changes together may have a method ``commit(changes)``;
see `Changes` for its promises. `ForwardingStore` does not pass it on, because a
subclass may change `create`.
A store that can keep small values for some seconds, outside of the promises above, may
have an attribute ``ephemeral``; see `Ephemeral`. `ForwardingStore` does not pass it on,
because a subclass may seal what is stored.

`continuations_storage.keys` defines valid keys. One more rule keeps keys portable: no
key is the folder of another key ("a" and "a/b"). File and memory stores refuse the
second key with `InvalidKey`; an object store cannot check it.
"""

from __future__ import annotations

from asyncio import gather
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from continuations_storage.errors import NotFound
from continuations_storage.keys import check_key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime

__all__ = [
    "MAX_EPHEMERAL_BYTES",
    "MAX_EPHEMERAL_NAMES",
    "MAX_EPHEMERAL_SECONDS",
    "PAGE_SIZE",
    "Changes",
    "Committed",
    "Ephemeral",
    "Listing",
    "Page",
    "Store",
    "Watch",
    "all_keys",
    "check_ephemeral",
    "committer",
    "created_at",
    "ephemeral",
    "is_last_page",
    "keys_with_bodies",
    "listing_size",
    "missing_folder",
    "read_many",
    "time_resolution",
    "watch",
    "within",
]

PAGE_SIZE = 1000  # the most that S3 lists in one request
_NO_BODIES: Mapping[str, bytes] = MappingProxyType({})
# The largest ephemeral value, the longest time for one, and how many names are listed.
MAX_EPHEMERAL_BYTES = 1 << 18
MAX_EPHEMERAL_SECONDS = 60.0
MAX_EPHEMERAL_NAMES = 10_000


class Page(list[str]):
    """A list of keys with the store's own time of the listing.

    `Store.keys` may return a `Page`. The caller can then compare clocks without a
    create.

    Attributes:
        store_time: The store's time (aware, UTC), or None if the store has no clock.
        is_last: Whether the store says that no more keys follow. False if it does not
            say so.
        bodies: Bodies that the store read with the listing; see `keys_with_bodies`.
    """

    store_time: datetime | None = None
    is_last: bool = False
    bodies: Mapping[str, bytes] = _NO_BODIES


class Store(Protocol):
    """A store of bodies that are created once; the module states the contract."""

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Put the body if the key is absent; it is durable when the call returns.

        Args:
            key: A valid key.
            body: The bytes; may be empty.

        Returns:
            The store's own time (aware, UTC), or None if the store has no clock.

        Raises:
            AlreadyExists: Another create of the key came first.
            InvalidKey: The key is not valid, or is the folder of other keys.
            Denied, Throttled, Unavailable: Nothing was written.
            Inconclusive, Unsafe: The body may be stored.
        """
        ...

    async def read(self, key: str) -> bytes:
        """Return the whole body.

        Args:
            key: A valid key.

        Returns:
            The bytes of the create.

        Raises:
            NotFound: The key does not exist.
            Damaged: The store cannot return the whole body.
            InvalidKey, Denied, Throttled, Unavailable: The body was not read.
        """
        ...

    async def keys(
        self, prefix: str, after: str = "", limit: int = PAGE_SIZE
    ) -> list[str]:
        """Return the first keys of a prefix, in byte order.

        Args:
            prefix: The beginning of the keys; "" for all keys.
            after: Return only keys that are greater than this text.
            limit: The number of keys, at least 1.

        Returns:
            The keys. The list may be a `Page`, which has the store's time.

        Raises:
            InvalidKey: No valid key begins with the prefix.
            ValueError: The limit is below 1.
            Denied, Throttled, Unavailable, Unsafe: The keys were not listed.
        """
        ...

    async def delete(self, key: str) -> None:
        """Remove the key; to delete a missing key is a success.

        Args:
            key: A valid key.

        Raises:
            InvalidKey, Denied, Throttled, Unavailable: The key may still exist.
        """
        ...

    async def probe(self) -> None:
        """Prove that the store honours put-if-absent.

        Raises:
            Unsafe: The store does not honour it and must not be used.
            Denied, Throttled, Unavailable, Inconclusive: The proof was not made.
        """
        ...


class Listing(NamedTuple):
    """The arguments of `Store.keys`.

    Attributes:
        prefix: The beginning of the keys.
        after: Only keys that are greater than this text.
        limit: The number of keys.
    """

    prefix: str
    after: str = ""
    limit: int = PAGE_SIZE


class Changes(NamedTuple):
    """The changes that a method ``commit`` of a store makes in one request.

    First come the creates, together or not at all: `AlreadyExists` and all other errors
    of `Store.create` are about them, and mean the same. A process that sees one of the
    bodies sees all of them. Afterwards come the listing and then the deletes, as two
    more steps. An error of these steps is not raised, and a crash may leave them out.

    Attributes:
        key: If this key exists, nothing is changed.
        body: Its body.
        also: More bodies by key. A key that exists keeps the body that it has.
        between: If the store tells its time, and that is not between these two, nothing
            is changed. The error is `OutOfTime`.
        listing: The keys to list after the creates.
        deletes: The keys to remove after the creates.
        only_if_first: Remove them only if `key` is the first key with this prefix, and
            has the body of this call. With "", only the second condition counts.
    """

    key: str
    body: bytes
    also: Mapping[str, bytes] = _NO_BODIES
    between: tuple[datetime, datetime] | None = None
    listing: Listing | None = None
    deletes: Sequence[str] = ()
    only_if_first: str = ""


class Committed(NamedTuple):
    """The result of changes whose creates were made.

    Attributes:
        store_time: The store's own time of the creates, or None.
        page: The listing. None if it was not asked for, or failed.
        is_cleaned: Whether the keys of `deletes` are removed. False without any.
    """

    store_time: datetime | None
    page: list[str] | None = None
    is_cleaned: bool = False


class Watch(Protocol):
    """Lets a caller sleep until a key with a prefix is created; see `watch`.

    - It tells of keys whose rest after the prefix has no "/".
    - Usually it tells of a create of any process within a tenth of a second. A report
      may be lost, late or doubled, or be about a key that was deleted meanwhile. So a
      caller also lists the keys at an interval of its own.
    - Without creates, the reports end.
    - The end of its block closes it. No task, thread or connection stays.
    """

    async def wait(self, seconds: float) -> bool:
        """Sleep until a key was created since the last report.

        One caller at a time may wait. A cancelled call loses no report.

        Args:
            seconds: The longest time.

        Returns:
            Whether a key was created. False if the time is over, or if the store
            failed: this method raises no `StorageError`.
        """
        ...


class Ephemeral(Protocol):
    """Small values of a store that processes share for some seconds; see `ephemeral`.

    - Nothing is promised: a value may be lost, late or old, and a power cut takes all
      of them. No verb of the store shows them, and no copy of the store has them.
    - A value can be overwritten. A reader gets one whole value, never a mix of two.
    - A value is not returned after its time. Later calls remove it.
    - A name is a valid key. Names and keys do not meet.
    - The right to read the bodies of the store is the right to read the values.

    Each method raises a `StorageError` if the store failed.
    """

    async def put(self, values: Mapping[str, bytes], seconds: float) -> None:
        """Set values, and when they end.

        Args:
            values: The values by name, each of at most `MAX_EPHEMERAL_BYTES`.
            seconds: How long they last, at most `MAX_EPHEMERAL_SECONDS`.

        Raises:
            InvalidKey: A name is not a valid key.
            ValueError: A value or the time is too large.
        """
        ...

    async def get(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the values that there are, by name.

        Args:
            names: The names.

        Returns:
            The values; larger ones than those of `put` are left out.
        """
        ...

    async def names(self, prefix: str) -> list[str]:
        """Return the names of the values that there are.

        Args:
            prefix: Their beginning.

        Returns:
            At most `MAX_EPHEMERAL_NAMES` names, in any order.
        """
        ...

    async def remove(self, names: Sequence[str]) -> None:
        """Remove values; a missing one is removed already.

        Args:
            names: The names.
        """
        ...


def ephemeral(store: Store) -> Ephemeral | None:
    """Return the ephemeral values of a store.

    Args:
        store: The store.

    Returns:
        The attribute ``ephemeral`` of the store, or None for a store without one.
    """
    values: Ephemeral | None = getattr(store, "ephemeral", None)
    return values


def check_ephemeral(values: Mapping[str, bytes], seconds: float) -> None:
    """Raise an error unless values, their names and their time are valid.

    Args:
        values: The values by name.
        seconds: How long they last.

    Raises:
        InvalidKey: A name is not a valid key.
        ValueError: A value or the time is too large.
    """
    if not 0 < seconds <= MAX_EPHEMERAL_SECONDS:
        limit = f"seconds must be above 0 and at most {MAX_EPHEMERAL_SECONDS:g}"
        raise ValueError(f"{limit}, got {seconds!r}")
    for name, value in values.items():
        check_key(name)
        if len(value) > MAX_EPHEMERAL_BYTES:
            limit = f"an ephemeral value has at most {MAX_EPHEMERAL_BYTES} bytes"
            raise ValueError(f"{limit}, got {len(value)} for {name}")


def time_resolution(store: Store) -> timedelta:
    """Return how much later the store's true time may be than the time that it tells.

    Args:
        store: The store.

    Returns:
        The attribute ``time_resolution`` of the store; zero without one.
    """
    resolution: timedelta = getattr(store, "time_resolution", timedelta())
    return resolution


def listing_size(store: Store) -> int:
    """Return how many keys to ask for in a long listing.

    Args:
        store: The store.

    Returns:
        The attribute ``listing_size`` of a store for which large pages are cheaper;
        1,000 without one.
    """
    size: int = getattr(store, "listing_size", PAGE_SIZE)
    return size


def missing_folder(store: Store) -> str | None:
    """Return the folder or file that a store needs, if it does not exist.

    Such a store reads as empty until its first create makes it. So a program
    that only reads can tell an empty store from a wrong path or an unmounted disk.

    Args:
        store: The store.

    Returns:
        The attribute ``missing_folder`` of a store that keeps files; `None` without
        one, or if the folder or file exists.
    """
    folder: str | None = getattr(store, "missing_folder", None)
    return folder


def is_last_page(page: list[str], limit: int) -> bool:
    """Return whether no more keys follow a page.

    Args:
        page: The keys.
        limit: The limit of the request.

    Returns:
        Whether the page is shorter than the limit, or says that it is the last one.
    """
    return len(page) < limit or (isinstance(page, Page) and page.is_last)


def within(store: Store, connection: object) -> Store | None:
    """Return a store inside the open transaction of an application.

    Args:
        store: The store. `ForwardingStore` does not pass its method on, because a
            subclass may change `create`.
        connection: The connection of the application.

    Returns:
        The store inside the transaction, or None if the store has no method ``within``.

    Raises:
        NoTransaction: The connection has no transaction that could take a write.
    """
    inside: Callable[[object], Store] | None = getattr(store, "within", None)
    return None if inside is None else inside(connection)


def committer(store: Store) -> Callable[[Changes], Awaitable[Committed]] | None:
    """Return the method of a store that makes several changes together.

    Args:
        store: The store.

    Returns:
        Its method ``commit``, or None for a store without one.
    """
    commit: Callable[[Changes], Awaitable[Committed]] | None
    commit = getattr(store, "commit", None)
    return commit


async def created_at(store: Store, key: str) -> datetime | None:
    """Return the store's time of the create of a key, if the store can tell it.

    Args:
        store: The store.
        key: A key that exists.

    Returns:
        The time (aware, UTC), or None if the store has no method ``created_at``.

    Raises:
        StorageError: As `Store.read` raises it.
    """
    tell: Callable[[str], Awaitable[datetime | None]] | None = getattr(
        store, "created_at", None
    )
    return None if tell is None else await tell(key)


def watch(store: Store, prefix: str) -> AbstractAsyncContextManager[Watch] | None:
    """Watch the creates of a prefix, if the store can tell of them.

    Args:
        store: The store.
        prefix: The beginning of the keys, up to a "/" or further.

    Returns:
        A block in which keys are watched; `None` if the store has no method ``watch``.

    Raises:
        InvalidKey: No valid key begins with the prefix.
    """
    begin: Callable[[str], AbstractAsyncContextManager[Watch] | None] | None
    begin = getattr(store, "watch", None)
    return None if begin is None else begin(prefix)


async def read_many(store: Store, keys: Sequence[str]) -> list[bytes | None]:
    """Return the bodies of several keys, read at the same time.

    Args:
        store: The store. Its method ``read_many`` is called if it has one.
        keys: Valid keys.

    Returns:
        For each key the whole body, or None if the key does not exist.

    Raises:
        StorageError: As `Store.read` raises it, but not `NotFound`.
    """
    together: Callable[[Sequence[str]], Awaitable[list[bytes | None]]] | None
    together = getattr(store, "read_many", None)
    if together is None:
        return await gather(*(_read_or_none(store, key) for key in keys))
    bodies: list[bytes | None] = await together(keys)
    return bodies


async def keys_with_bodies(
    store: Store, listing: Listing, first_of: str, last_of: str = ""
) -> list[str]:
    """List keys, and read the bodies of two of them if that costs no further request.

    Args:
        store: The store. Its method ``keys_with_bodies`` is called if it has one.
        listing: The keys to list.
        first_of: A prefix. The body of its first key is read.
        last_of: A prefix. The body of its last key is read, if it is small.

    Returns:
        The keys; `Page.bodies` has the bodies that the store read. They were there at
        the time of the listing.

    Raises:
        StorageError: As `Store.keys` raises it.
    """
    together: Callable[[Listing, str, str], Awaitable[list[str]]] | None
    together = getattr(store, "keys_with_bodies", None)
    if together is None:
        return await store.keys(listing.prefix, listing.after, listing.limit)
    page: list[str] = await together(listing, first_of, last_of)
    return page


async def _read_or_none(store: Store, key: str) -> bytes | None:
    try:
        return await store.read(key)
    except NotFound:
        return None


async def all_keys(store: Store, prefix: str, after: str = "") -> AsyncIterator[str]:
    """Iterate over every key of a prefix in byte order, page by page.

    Args:
        store: The store.
        prefix: The beginning of the keys; "" for all keys.
        after: Skip keys up to and including this text.

    Returns:
        An asynchronous iterator over the keys.

    Raises:
        StorageError: As `Store.keys` raises it, during the iteration.
    """
    limit = listing_size(store)
    while True:
        page = await store.keys(prefix, after, limit)
        for key in page:
            yield key
        if is_last_page(page, limit):
            return
        after = page[-1]
