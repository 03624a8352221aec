"""The proof that a store honours put-if-absent, the same for every store.

Some servers that speak the S3 protocol ignore If-None-Match and overwrite without an
error. In such a store, two processes would both believe that they created a key.

Some servers honour the condition only while their bucket keeps no versions. So the note
of the proof says whether creates got version ids. `ProofOfVersions` refuses a create
that gets one if the proof saw none.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol, cast

from continuations_storage.errors import (
    AlreadyExists,
    Inconclusive,
    NotFound,
    StorageError,
    Unsafe,
)

if TYPE_CHECKING:
    from continuations_storage.contract import Store
    from continuations_storage.retries import StoredObjectInfo

__all__ = [
    "PROBE_PASSED_KEY",
    "ProbeNote",
    "ProofOfVersions",
    "VersionedStore",
    "prove_put_if_absent",
]

PROBE_PASSED_KEY = "probe/passed"

_FIRST = b"first"
_SECOND = b"second"
_FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeNote:
    """The note under ``probe/passed``: how put-if-absent was proved.

    Attributes:
        driver: The class of the store that made the proof; "" in a note of format 1.
        has_version_ids: Whether creates got version ids; None in a note that does not
            say it.
        date: When the proof was made, as text; "" in a note of format 1.
    """

    driver: str
    has_version_ids: bool | None
    date: str

    def to_bytes(self) -> bytes:
        """Return the note as JSON, format 2."""
        note = {
            "format": _FORMAT,
            "proved": "put-if-absent",
            "driver": self.driver,
            "has_version_ids": self.has_version_ids,
            "date": self.date,
        }
        return f"{json.dumps(note)}\n".encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> ProbeNote:
        """Read a note of any format; format 1 is a line of text.

        Args:
            data: The body of ``probe/passed``.

        Returns:
            The note. A field that the bytes do not state is "" or None.
        """
        fields: dict[str, Any] = {}
        with suppress(ValueError):
            parsed = json.loads(data)
            fields = cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else {}
        has_version_ids = fields.get("has_version_ids")
        return cls(
            driver=str(fields.get("driver", "")),
            has_version_ids=(
                has_version_ids if isinstance(has_version_ids, bool) else None
            ),
            date=str(fields.get("date", "")),
        )


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
    if await _read_note(store) is None:
        time = await _prove(store)
        await _record_proof(store, has_version_ids=False, time=time)


class VersionedStore(Protocol):
    """A store whose bucket may keep versions."""

    async def create_unchecked(self, key: str, body: bytes) -> StoredObjectInfo:
        """Put the body if the key is absent, without a check of the version id."""
        ...


class ProofOfVersions:
    """The proof of a store whose bucket may keep versions.

    Args:
        store: The store; it is also a `VersionedStore`.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._is_proved = False

    async def prove_once(self) -> None:
        """Prove put-if-absent, unless the store has a note about it.

        Raises:
            Unsafe: The store does not honour put-if-absent.
            StorageError: An operation failed; the proof was not recorded.
        """
        if await _read_note(self._store) is None:
            await self._prove(is_recorded=True)

    async def check(self, key: str, created: StoredObjectInfo) -> None:
        """Check that put-if-absent was proved for objects with version ids.

        A create without a version id costs nothing. Otherwise the note is read once by
        this object. If the note does not say how the proof was made, it is made again.

        Args:
            key: The key that was created. Its body is stored.
            created: The reply to its create.

        Raises:
            Unsafe: The object has a version id, and the proof saw none.
            Inconclusive: The proof could not be checked.
        """
        if created.version_id is None or self._is_proved:
            return
        try:
            await self._check_versions_are_proved(key)
        except Unsafe:
            raise
        except StorageError as cause:
            # Every other error says that nothing was written.
            raise Inconclusive(
                key,
                "stored, but the proof of put-if-absent was not checked: "
                f"{cause.detail or type(cause).__name__}",
            ) from cause
        self._is_proved = True

    async def _check_versions_are_proved(self, key: str) -> None:
        note = await _read_note(self._store)
        if note is None:
            await self._prove(is_recorded=False)
        elif note.has_version_ids is None:
            await self._store.delete(PROBE_PASSED_KEY)
            await self._prove(is_recorded=True)
        elif not note.has_version_ids:
            raise Unsafe(
                key,
                "the bucket keeps versions now, but put-if-absent was proved without "
                f"versions ({PROBE_PASSED_KEY}: {note.driver}, {note.date})",
                advice=(
                    "Some servers break put-if-absent in this case. Stop all workers. "
                    f"Then delete the key {PROBE_PASSED_KEY!r}, so that the next start "
                    "proves the store again, or use a bucket that never had versions."
                ),
            )

    async def _prove(self, *, is_recorded: bool) -> None:
        recorder = _VersionRecorder(self._store)
        time = await _prove(recorder)
        if is_recorded:
            await _record_proof(
                recorder, has_version_ids=recorder.has_seen_version_id, time=time
            )


class _VersionRecorder:
    """A store without the check of version ids, which records whether there are any."""

    def __init__(self, store: Store) -> None:
        self._versioned = cast("VersionedStore", store)
        self.driver = type(store).__name__
        self.read, self.keys, self.delete = store.read, store.keys, store.delete
        self.probe = store.probe
        self.has_seen_version_id = False

    async def create(self, key: str, body: bytes) -> datetime | None:
        created = await self._versioned.create_unchecked(key, body)
        self.has_seen_version_id |= created.version_id is not None
        return created.store_time


async def _read_note(store: Store) -> ProbeNote | None:
    try:
        return ProbeNote.from_bytes(await store.read(PROBE_PASSED_KEY))
    except NotFound:
        return None


async def _prove(store: Store) -> datetime:
    """Prove put-if-absent, and return the time, the store's own if it tells one."""
    key = f"probe/{os.urandom(16).hex()}"
    time = await store.create(key, _FIRST)
    try:
        await _check_second_create_fails(store, key)
        await _check_body_unchanged(store, key)
        await _check_key_is_listed(store, key)
    except BaseException:
        # The first error counts. A key that is left has no meaning.
        with suppress(StorageError):
            await store.delete(key)
        raise
    await store.delete(key)
    return time or datetime.now(UTC)


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


async def _record_proof(store: Store, *, has_version_ids: bool, time: datetime) -> None:
    note = ProbeNote(
        driver=getattr(store, "driver", type(store).__name__),
        has_version_ids=has_version_ids,
        date=f"{time:%Y-%m-%dT%H:%M:%SZ}",
    )
    # Another process may prove the store at the same time.
    with suppress(AlreadyExists):
        await store.create(PROBE_PASSED_KEY, note.to_bytes())
