"""Start a run whose input has images, audio or files."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from continuations.errors import RunErased, RunNotFound, StaleRun
from continuations.ledger import markers
from continuations.ledger.run_files import RunFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.core.attachments import Content
    from continuations.core.state import RunState
    from continuations.engine.outcomes import Outcome
    from continuations.engine.worker import Worker


async def start_or_resume_with_files(
    worker: Worker, state: RunState, contents: Sequence[Content]
) -> Outcome:
    """Create the run and its attachments, or resume it; see `Worker.start_or_resume`.

    A marker comes first, then the attachments, then version 1, which refers to them.
    After a crash in between, a sweep deletes the attachments a day and a half later.
    """
    run, objects = state.run, worker.objects
    if await worker.versions.newest_number():
        return await worker.start_or_resume(state)
    files = RunFiles.of(objects, run)
    due = worker.ports.clock.now() + timedelta(seconds=worker.options.lease)
    guard = markers.guard(run.id, 1, due, run.run_nonce)
    await markers.create(objects, guard)
    await files.add(contents)
    try:
        outcome = await worker.start(state)
    except StaleRun:
        if await _is_another_run(worker, state):
            await files.delete()
        await objects.delete(guard.key)
        return await worker.start_or_resume(state)
    await objects.delete(guard.key)
    return outcome


async def _is_another_run(worker: Worker, state: RunState) -> bool:
    """Return whether another process created the run under this id."""
    try:
        newest = await worker.versions.load_newest()
    except (RunErased, RunNotFound):
        return True
    return newest.state.run.run_nonce != state.run.run_nonce
