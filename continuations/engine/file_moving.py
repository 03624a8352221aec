"""Give a run the attachments of the run that it continues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.attachment_parts import MAX_RUN_BYTES
from continuations.core.attachments import attachments_of_run, content_of
from continuations.errors import AttachmentsTooLarge, Corrupt, InvalidInput
from continuations.ledger.run_files import RunFiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.run import RunRow
    from continuations.core.state import RunState
    from continuations.engine.journal import StoreJournal
    from continuations.ledger.objects import Objects


async def give_files(
    objects: Objects,
    journal: StoreJournal,
    state: RunState,
    source: RunRow,
    files: Mapping[str, bytes],
) -> None:
    """Create the attachments of a new run, before its first version.

    They come from `files`, or from the run `source` in the same store. A marker is
    created first. Raises `InvalidInput` if some are in neither of them, or if they have
    too many bytes together.
    """
    attachments = attachments_of_run(state)
    if not attachments:
        return
    missing = [each for each in attachments if each.digest not in files]
    try:
        read = await RunFiles.of(objects, source).read(missing)
    except Corrupt as error:
        msg = (
            f"run {state.run.id} was not created: an attachment of run {source.id} is "
            f"not in this store. {error} Use the store of that run."
        )
        raise InvalidInput(msg, run_id=source.id) from error
    known = {**read, **files}
    await journal.ensure_guarded()
    contents = [content_of(each, known[each.digest]) for each in attachments]
    try:
        await RunFiles.of(objects, state.run).add(contents)
    except AttachmentsTooLarge as error:
        msg = (
            f"run {state.run.id} was not created: the attachments of run {source.id} "
            f"have too many bytes together for one run. At most {MAX_RUN_BYTES} are "
            "allowed. Fork an earlier version, or pass `messages` with fewer of them."
        )
        raise AttachmentsTooLarge(msg, run_id=source.id) from error


async def take_back_files(objects: Objects, state: RunState) -> None:
    """Delete the attachments of a run whose id another process had taken before."""
    if attachments_of_run(state):
        await RunFiles.of(objects, state.run).delete()
