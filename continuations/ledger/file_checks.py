"""Check the attachments of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.attachments import attachments_of_run
from continuations.ledger.file_keys import key_of
from continuations.ledger.run_files import decode_own

if TYPE_CHECKING:
    from continuations.core.attachment_parts import Attachment
    from continuations.core.state import RunState
    from continuations.ledger.objects import Objects
    from continuations.wire.file_records import StoredFile


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
