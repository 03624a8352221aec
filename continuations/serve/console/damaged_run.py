"""Show what can be read of a run with a damaged version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.version_window import VersionEvents, VersionWindow
from continuations.engine.window_reading import read_window
from continuations.errors import FormatError, NewerFormat
from continuations.ledger.objects import Objects
from continuations.ledger.versions import Versions
from continuations.serve.console.run_snapshot import RunSnapshot

if TYPE_CHECKING:
    from continuations.serve.console.page import Page

# The window ends with the wanted version, and becomes shorter until it is readable.
_LIMITS = (100, 50, 25, 12, 6, 3, 2, 1)


async def readable_snapshot(
    page: Page, run_id: str, version: int | None, damage: FormatError
) -> RunSnapshot:
    """Return the last versions that can be read; raise `FormatError` without any."""
    if isinstance(damage, NewerFormat):
        raise damage
    objects = Objects(page.runner.store)
    for limit in _LIMITS:
        try:
            window = await read_window(objects, run_id, version=version, limit=limit)
        except FormatError:
            continue
        return RunSnapshot(cursor="", window=window, votes={})
    window = await _single_version(objects, run_id, version)
    return RunSnapshot(cursor="", window=window, votes={})


async def _single_version(
    objects: Objects, run_id: str, version: int | None
) -> VersionWindow:
    """Return a version without its past; raise the damage if it depends on it."""
    versions = Versions(objects, run_id)
    newest = await versions.newest_number()
    loaded = await versions.load(newest if version is None else version)
    state = loaded.state
    state.read_messages()
    only = VersionEvents(number=loaded.number, at=loaded.at, run=state.run, events=())
    return VersionWindow(
        before=state, versions=(only,), state=state, newest_number=newest
    )
