"""Check the attachments of a run, and find those that no message refers to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from continuations.core.attachments import attachments_of_run
from continuations.errors import ContinuationsError
from continuations.ledger import layout
from continuations.ledger.file_keys import (
    files_prefix,
    key_of,
    nonce_prefix,
    parse_file_key,
)
from continuations.ledger.run_files import decode_own
from continuations.ledger.versions import Versions
from continuations.value_class import dataclass
from continuations.wire.envelope import decode_object

if TYPE_CHECKING:
    from continuations.core.attachment_parts import Attachment
    from continuations.core.state import RunState
    from continuations.ledger.objects import Objects
    from continuations.wire.arrivals import StoredFile


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
