"""Copy the attachments of a run for its fork: each run reads its own objects only."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.attachment_parts import references
from continuations.core.attachments import attachments_of, content_of
from continuations.ledger import markers
from continuations.ledger.run_files import RunFiles
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.core.attachment_parts import Attachment
    from continuations.core.run import RunRow
    from continuations.core.state import RunState
    from continuations.engine.ports import Ports
    from continuations.ledger.layout import Marker
    from continuations.ledger.objects import Objects


@dataclass(frozen=True, slots=True)
class FileCopies:
    """The attachments that the first version of a fork refers to.

    A marker comes first, then the attachments, then version 1. After a crash in
    between, a sweep deletes the attachments, as after a crash of a start.
    """

    objects: Objects
    ports: Ports
    source: RunRow
    state: RunState
    lease: float

    async def create(self) -> None:
        """Create the attachments under the keys of the fork."""
        wanted = self._attachments()
        if not wanted:
            return
        data = await RunFiles.of(self.objects, self.source).read(wanted.values())
        await markers.create(self.objects, self._guard)
        contents = [content_of(each, data[key]) for key, each in wanted.items()]
        await self._files.add(contents)

    async def delete(self) -> None:
        """Delete the copies: another process created the fork, with its own nonce."""
        if self._attachments():
            await self._files.delete()
            await self.delete_guard()

    async def delete_guard(self) -> None:
        """Delete the marker: the version exists."""
        if self._attachments():
            await self.objects.delete(self._guard.key)

    @property
    def _files(self) -> RunFiles:
        return RunFiles.of(self.objects, self.state.run)

    @property
    def _guard(self) -> Marker:
        run = self.state.run
        due = run.created_at + timedelta(seconds=self.lease)
        return markers.guard(run.id, 1, due, run.run_nonce)

    def _attachments(self) -> dict[str, Attachment]:
        """Return the attachments of messages and of results by digest."""
        found: dict[str, Attachment] = {}
        for log in self.state.logs.values():
            found |= {each.digest: each for each in attachments_of(log.messages)}
        for call in self.state.calls.values():
            parts = jsontext.as_array(jsontext.parse(call.parts_json or "[]")) or ()
            found |= {each.digest: each for each in references(parts)}
        return found
