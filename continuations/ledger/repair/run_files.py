"""The attachments of one run in a store: created once by digest, read when needed."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from continuations.core.attachment_parts import MAX_RUN_BYTES
from continuations.core.rows.attachments import attachments_of_run, check_total
from continuations.core.ulid import NotUlid, milliseconds_of
from continuations.errors import ContinuationsError, Corrupt
from continuations.ledger import layout
from continuations.ledger.objects import AlreadyExists, gather_all
from continuations.ledger.versions import Versions
from continuations.value_class import dataclass
from continuations.wire.arrivals import FILE, StoredFile, decode_file
from continuations.wire.envelope import decode_object
from continuations.wire.fields import to_milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime, timedelta

    from continuations.core.attachment_parts import Attachment
    from continuations.core.rows.attachments import Content
    from continuations.core.rows.run import RunRow
    from continuations.core.rows.state import RunState
    from continuations.ledger.objects import Objects


class RunFiles:
    """The attachments of one run, with those that this process has read."""

    def __init__(self, objects: Objects, run_id: str, run_nonce: str) -> None:
        self._objects = objects
        self._run_id = run_id
        self._nonce = run_nonce
        # Sizes by digest; `None` before the first listing.
        self._sizes: dict[str, int] | None = None
        # Digests of attachments that exist for certain.
        self._stored: set[str] = set()
        self.data: dict[str, bytes] = {}

    @classmethod
    def of(cls, objects: Objects, run: RunRow) -> RunFiles:
        """Return the attachments of a run."""
        return cls(objects, run.id, run.run_nonce)

    async def add(self, contents: Sequence[Content]) -> None:
        """Create the attachments that the run does not have.

        A message may refer to them afterwards. A crash leaves some of them.

        Raises:
            InvalidInput: The run would have too many bytes. Nothing was created.
            StoreError: Some may exist. Repeat the call.
        """
        sizes = self._sizes
        if sizes is None:
            listed = await self._list_sizes()
            sizes = self._sizes = listed if self._sizes is None else self._sizes
            self._stored |= listed.keys()
        check_total(contents, sizes)
        # A call that returns at the same time may be creating the same attachment. Its
        # create may fail, so this call creates the attachment too.
        new: dict[str, Content] = {}
        for each in contents:
            if each.digest not in self._stored:
                new.setdefault(each.digest, each)
        # Before the next await: a call that returns at the same time counts them. They
        # count after an error too, because some may exist.
        sizes.update({digest: len(each.data) for digest, each in new.items()})
        await gather_all(map(self._create, new.values()))
        self._stored |= new.keys()
        self.data.update({digest: each.data for digest, each in new.items()})

    async def read(self, attachments: Iterable[Attachment]) -> dict[str, bytes]:
        """Return the bytes of attachments by digest; each is read once.

        Raises:
            Corrupt: An attachment is missing or damaged.
            FormatError: A later release wrote it.
            StoreError: The store failed.
        """
        wanted = {each.digest: each for each in attachments}
        missing = [each for key, each in wanted.items() if key not in self.data]
        keys = [key_of(self._run_id, self._nonce, each) for each in missing]
        bodies = await self._objects.read_many(keys) if keys else []
        for key, attachment, body in zip(keys, missing, bodies, strict=True):
            self.data[attachment.digest] = decode_own(key, body, attachment).data
        return {digest: self.data[digest] for digest in wanted}

    async def stored(self, digest: str) -> StoredFile | None:
        """Return an attachment by its digest, or `None` if the run does not have it."""
        sizes = await self._list_sizes()
        if digest not in sizes:
            return None
        key = file_key(self._run_id, self._nonce, digest, sizes[digest])
        body = await self._objects.read(key)
        return decode_file(body, key)

    async def delete(self) -> None:
        """Delete all attachments of the run, which no version refers to."""
        prefix = nonce_prefix(self._run_id, self._nonce)
        keys = [key async for key in self._objects.all_keys(prefix)]
        await gather_all(map(self._objects.delete, keys))

    async def _create(self, content: Content) -> None:
        size = len(content.data)
        key = file_key(self._run_id, self._nonce, content.digest, size)
        stored = StoredFile(
            run_id=self._run_id,
            media_type=content.media_type,
            name=content.name,
            data=content.data,
            digest=content.digest,
        )
        with suppress(AlreadyExists):
            await self._objects.create(key, FILE.encode(stored))

    async def _list_sizes(self) -> dict[str, int]:
        prefix = nonce_prefix(self._run_id, self._nonce)
        keys = [key async for key in self._objects.all_keys(prefix)]
        parsed = [parse_file_key(key) for key in keys]
        return {each.digest: each.size for each in parsed if each is not None}


def decode_own(key: str, body: bytes | None, attachment: Attachment) -> StoredFile:
    """Return the attachment that a message refers to; raises `Corrupt`."""
    run_id = key.split("/", 2)[1]
    if body is None:
        msg = (
            f"{key} is missing, and a message of the run refers to it. Nothing was "
            "changed. Restore it from a backup."
        )
        raise Corrupt(msg, run_id=run_id)
    stored = decode_file(body, key)
    if (stored.run_id, stored.digest) == (run_id, attachment.digest):
        return stored
    msg = (
        f"{key} is damaged: it has another attachment than its key says. It was not "
        "changed. Restore it from a backup."
    )
    raise Corrupt(msg, run_id=run_id)


async def delete_abandoned(
    objects: Objects, run_id: str, *, now: datetime, older_than: timedelta
) -> None:
    """Delete attachments of starts whose process died before version 1.

    Call it only if the run does not exist. The nonce in a key has the time of its
    start; younger attachments stay, because their process may be about to create the
    run.
    """
    last = to_milliseconds(now - older_than)
    async for key in objects.all_keys(files_prefix(run_id)):
        parsed = parse_file_key(key)
        with suppress(NotUlid):
            if parsed is not None and milliseconds_of(parsed.nonce) < last:
                await objects.delete(key)


_NAME = re.compile(r"([0-9a-z]{1,40})-([0-9a-f]{64})-([1-9][0-9]{0,8})\Z")
_OTHER = re.compile(r"[^0-9a-z]")


@dataclass(frozen=True, slots=True)
class FileKey:
    """The parts of the key of an attachment."""

    nonce: str
    digest: str
    size: int


def files_prefix(run_id: str) -> str:
    """Return the prefix of all attachments under a run id."""
    return f"{layout.run_prefix(run_id)}x/"


def nonce_prefix(run_id: str, run_nonce: str) -> str:
    """Return the prefix of the attachments of a run."""
    # The nonces of runs that other programs wrote may have other characters.
    nonce = _OTHER.sub("", run_nonce.lower())[:40] or "0"
    return f"{files_prefix(run_id)}{nonce}-"


def file_key(run_id: str, run_nonce: str, digest: str, size: int) -> str:
    """Return the key of an attachment; `digest` begins with `sha256:`."""
    hexadecimal = digest.removeprefix("sha256:")
    return f"{nonce_prefix(run_id, run_nonce)}{hexadecimal}-{size}"


def key_of(run_id: str, run_nonce: str, attachment: Attachment) -> str:
    """Return the key of the attachment that a message refers to."""
    return file_key(run_id, run_nonce, attachment.digest, attachment.size)


def is_file_key(key: str) -> bool:
    """Return whether a key is below the attachments of a run."""
    return key.startswith("runs/") and key.split("/", 3)[2:3] == ["x"]


def parse_file_key(key: str) -> FileKey | None:
    """Return the parts of the key of an attachment, or `None` for another key."""
    match = _NAME.match(key.rsplit("/", 1)[1])
    if match is None or int(match[3]) > MAX_RUN_BYTES:
        return None
    return FileKey(match[1], f"sha256:{match[2]}", int(match[3]))


_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class UnreferencedFile:
    """An attachment of a run that no version and no message refers to.

    A process died between the attachment and its message. Or a process is about to
    send the message: it holds no claim, so nothing shows that it will not. Therefore
    nothing deletes the attachment before the run is erased.

    Attributes:
        key: The key of the object.
        size: The bytes of the attachment.
    """

    key: str
    size: int


async def find_unreferenced(
    objects: Objects, run_id: str
) -> tuple[UnreferencedFile, ...]:
    """Return the attachments that no version, message or decision names.

    If an object of the run cannot be read, it may name each of them: then none is
    returned. Nothing is written.

    Raises:
        StoreError: The store could not list keys.
    """
    keys = [key async for key in objects.all_keys(files_prefix(run_id))]
    if not keys:
        return ()
    try:
        run = (await Versions(objects, run_id).load_newest()).state.run
        named = await _named_digests(objects, run_id)
    except ContinuationsError:
        return ()
    own = nonce_prefix(run_id, run.run_nonce)
    found: list[UnreferencedFile] = []
    for key in keys:
        parsed = parse_file_key(key)
        if parsed and not (key.startswith(own) and parsed.digest in named):
            found.append(UnreferencedFile(key, parsed.size))
    return tuple(found)


async def _named_digests(objects: Objects, run_id: str) -> set[str]:
    """Return all digests in the texts of versions and arrivals."""
    named: set[str] = set()
    for prefix in (layout.versions_prefix(run_id), layout.arrivals_prefix(run_id)):
        async for key in objects.all_keys(prefix):
            body = decode_object(await objects.read(key), key).body
            named.update(_DIGEST.findall(repr(body)))
    return named


def referenced(state: RunState) -> list[tuple[str, Attachment]]:
    """Return the attachments that a run refers to, with their keys."""
    run = state.run
    by_key = {
        key_of(run.id, run.run_nonce, attachment): attachment
        for attachment in attachments_of_run(state)
    }
    return sorted(by_key.items())


async def read_own(objects: Objects, key: str, attachment: Attachment) -> StoredFile:
    """Return a stored attachment; raises `NotFound`, `FormatError` or `Corrupt`."""
    return decode_own(key, await objects.read(key), attachment)
