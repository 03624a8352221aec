"""The proof that a store honours put-if-absent, the same for every store.

Some servers that speak the S3 protocol ignore If-None-Match and overwrite without an
error. In such a store, two processes would both believe that they created a key.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from continuations_storage.errors import AlreadyExists, NotFound, Unsafe

if TYPE_CHECKING:
    from continuations_storage.contract import Store

__all__ = ["PROBE_PASSED_KEY", "prove_put_if_absent"]

PROBE_PASSED_KEY = "probe/passed"

_FIRST = b"first"
_SECOND = b"second"


async def prove_put_if_absent(store: Store) -> None:
    """Prove put-if-absent once, and record the proof in the store.

    The first proof costs three creates, two reads, one listing and one delete. Later
    calls cost one read. A crash leaves one key under ``probe/`` that has no meaning.

    Args:
        store: The store to prove.

    Raises:
        Unsafe: A second create of one key was accepted or changed the body, or a new
            key is not listed.
        StorageError: An operation failed; the proof was not recorded.
    """
    if await _was_proved(store):
        return
    key = f"probe/{os.urandom(16).hex()}"
    await store.create(key, _FIRST)
    try:
        await _check_second_create_fails(store, key)
        await _check_body_unchanged(store, key)
        await _check_key_is_listed(store, key)
    finally:
        await store.delete(key)
    await _record_proof(store)


async def _was_proved(store: Store) -> bool:
    try:
        await store.read(PROBE_PASSED_KEY)
    except NotFound:
        return False
    return True


async def _check_second_create_fails(store: Store, key: str) -> None:
    try:
        await store.create(key, _SECOND)
    except AlreadyExists:
        return
    raise Unsafe(key, "a second create of the same key was accepted")


async def _check_body_unchanged(store: Store, key: str) -> None:
    if await store.read(key) != _FIRST:
        raise Unsafe(key, "the second create was refused but changed the body")


async def _check_key_is_listed(store: Store, key: str) -> None:
    if await store.keys(key) != [key]:
        raise Unsafe(key, "a key that was just created is not listed")


async def _record_proof(store: Store) -> None:
    # Another process may prove the store at the same time.
    with suppress(AlreadyExists):
        await store.create(PROBE_PASSED_KEY, b"put-if-absent was proved here\n")
