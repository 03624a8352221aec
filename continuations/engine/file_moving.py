"""Give a run the attachments of the run that it continues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.attachments import attachments_of_run, content_of
from continuations.errors import Corrupt, InvalidInput
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
    created first. Raises `InvalidInput` if some are in neither of them.
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
    await RunFiles.of(objects, state.run).add(contents)


async def take_back_files(objects: Objects, state: RunState) -> None:
    """Delete the attachments of a run whose id another process had taken before."""
    if attachments_of_run(state):
        await RunFiles.of(objects, state.run).delete()
