"""The errors of a store become errors of this library."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import datetime
from typing import Any

import pytest

from continuations import errors as ours
from continuations.ledger.objects import AlreadyExists, NotFound, Objects, open_store
from continuations_storage import MemoryStore
from continuations_storage import errors as theirs
from continuations_storage.contract import PAGE_SIZE
from continuations_storage.faults import FaultyStore, Operation, Verb, on, refused
from tests.ledger.runs import all_keys, make_objects, run_async
from tests.stores import OneByOneStore


class CustomStoreError(theirs.StorageError):
    """An error class of a third-party store."""


class NoTransaction(theirs.NoTransaction):
    """An error that can be made as the others are."""

    def __init__(self, _key: str | None = None, detail: str = "") -> None:
        super().__init__(detail, "Pass another connection.")


TRANSLATIONS: list[tuple[type[theirs.StorageError], type[Exception]]] = [
    (theirs.Denied, ours.StoreDenied),
    (theirs.Throttled, ours.StoreUnavailable),
    (theirs.Unavailable, ours.StoreUnavailable),
    (theirs.Inconclusive, ours.Inconclusive),
    (theirs.Damaged, ours.Corrupt),
    (theirs.Unsafe, ours.StoreUnsafe),
    (theirs.InvalidKey, ours.InvalidId),
    (NoTransaction, ours.InvalidInput),
    (CustomStoreError, ours.StoreError),
    (theirs.StorageError, ours.StoreError),
]
VERBS: tuple[Verb, ...] = ("create", "read", "keys", "delete", "probe")


def request_of(objects: Objects, verb: Verb) -> Coroutine[Any, Any, object]:
    verbs: dict[Verb, Coroutine[Any, Any, object]] = {
        "create": objects.create("a/b", b"x"),
        "read": objects.read("a/b"),
        "keys": objects.keys("a/"),
        "delete": objects.delete("a/b"),
        "probe": objects.probe(),
    }
    wanted = verbs.pop(verb)
    for other in verbs.values():
        other.close()
    return wanted


@pytest.mark.parametrize(("error", "named"), TRANSLATIONS)
@pytest.mark.parametrize("verb", VERBS)
def test_storage_errors_are_translated_for_every_verb(
    verb: Verb, error: type[theirs.StorageError], named: type[Exception]
) -> None:
    """A denied request is not a missing object."""
    objects = Objects(FaultyStore(MemoryStore(), on(verb, refused(error))))

    with pytest.raises(named) as caught:
        run_async(request_of(objects, verb))

    assert named is type(caught.value)
    assert isinstance(caught.value, ours.ContinuationsError)
    assert isinstance(caught.value.__cause__, error)
    assert "injected" in str(caught.value)


def test_translation_table_covers_all_storage_errors() -> None:
    every = {
        error
        for error in vars(theirs).values()
        if isinstance(error, type) and issubclass(error, theirs.StorageError)
    }

    answers = {theirs.AlreadyExists, theirs.NotFound, theirs.OutOfTime}
    at_the_door = {theirs.Unsupported}
    listed = {error for error, _ in TRANSLATIONS[:-2]} - {NoTransaction}
    assert every == listed | {theirs.NoTransaction} | answers | at_the_door | {
        theirs.StorageError
    }


async def test_already_exists_and_not_found_are_not_translated() -> None:
    objects = make_objects()
    await objects.create("a/b", b"1")
    with pytest.raises(AlreadyExists):
        await objects.create("a/b", b"2")
    with pytest.raises(NotFound):
        await objects.read("a/c")
    assert b"1" == await objects.read("a/b")


def test_crash_is_not_translated() -> None:
    class Gone(BaseException):
        """The end of the process."""

    def gone(_: Operation, /) -> None:
        raise Gone

    with pytest.raises(Gone):
        run_async(Objects(FaultyStore(MemoryStore(), gone)).read("a"))


@pytest.mark.parametrize(
    "count", [0, 1, PAGE_SIZE - 1, PAGE_SIZE, PAGE_SIZE + 1, 2 * PAGE_SIZE]
)
async def test_all_keys_iterates_over_every_page(count: int) -> None:
    """Listings of more than a thousand keys are complete."""

    store = MemoryStore()
    for number in range(count):
        await store.create(f"a/{number:05d}", b"")
    await store.create("b", b"")
    assert [f"a/{number:05d}" for number in range(count)] == (
        await all_keys(Objects(store), "a/")
    )


def test_unknown_store_url_raises_invalid_input() -> None:
    with pytest.raises(ours.InvalidInput):
        open_store("mysql://x")


def test_url_opens_a_store() -> None:
    assert isinstance(open_store("memory:"), MemoryStore)


class StoreThatForgets(OneByOneStore):
    """A store that tells the time of a key by another request, like obstore."""

    async def created_at(self, key: str) -> datetime | None:
        """Raise `NotFound`: a sweep deleted the key meanwhile."""
        raise theirs.NotFound(key)


async def test_time_of_a_deleted_key_is_unknown() -> None:
    """A decider whose marker a sweep deleted at once goes on without the time."""
    assert await make_objects(StoreThatForgets()).created_at("a/b") is None
