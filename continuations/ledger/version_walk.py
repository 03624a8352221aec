"""Walk over the versions of a run, one read for each: every one is the next's base."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.errors import FormatError
from continuations.ledger import layout
from continuations.ledger.objects import NotFound
from continuations.ledger.versions import Versions, tree_of
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.rows.state import RunState
    from continuations.ledger.loaded_version import RebuiltVersion
    from continuations.ledger.objects import Objects


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkStep:
    """A version and the state before it.

    Attributes:
        number: Number of the version.
        before: State of the version before. `None` for the first version, and for one
            with which a repair began anew.
        after: State of the version.
        at: When the version was written.
    """

    number: int
    before: RunState | None
    after: RunState
    at: datetime


class VersionWalk:
    """Rebuilds the versions of a run in their order.

    A version that a repair gave up is skipped: the walk goes on with the repair's.

    Attributes:
        number: Number of the last version, 0 at first.
        state: Its state, or `None` at first.
    """

    def __init__(self, objects: Objects, run_id: str) -> None:
        self.number = 0
        self.state: RunState | None = None
        self._objects = objects
        self._versions = Versions(objects, run_id)
        self._bases: dict[int, RebuiltVersion] = {}

    async def go_to(self, number: int) -> None:
        """Load a version, from which the walk goes on; raises `Corrupt`."""
        if number == 0:
            return
        try:
            loaded = await self._versions.load(number)
        except FormatError as error:
            await self._go_before_repair(error, number)
            return
        self.number, self.state = number, loaded.state
        # A load checks the rows of its last version only.
        self._bases = {step.number: step for step in loaded.chain}
        self._bases[number] = replace(loaded.chain[-1], is_checked=True)

    async def next_step(self, *, exists: bool) -> WalkStep | None:
        """Return the next version, or `None` if the store has no such version.

        Args:
            exists: Whether a later version is known. If so, a version that is missing
                is damage.

        Raises:
            RunErased: The run was erased.
            Corrupt, FormatError: The version cannot be read, and no repair follows.
        """
        number = self.number + 1
        try:
            if exists:
                data = await self._versions.read(number)
            else:
                key = layout.version_key(self._versions.run_id, number)
                data = await self._objects.read(key)
            return self._rebuild(number, data)
        except NotFound:
            return None
        except FormatError as error:
            await self._go_before_repair(error, number)
        number = self.number + 1
        return self._rebuild(number, await self._versions.read(number))

    def _rebuild(self, number: int, data: bytes) -> WalkStep:
        header = self._versions.decode_header(number, data)
        step = self._versions.rebuild_from(data, number, self._bases)
        # A root after other versions was made by a repair.
        before = None if header.root == number else self.state
        kept = {*tree_of(header).chain(number)}
        bases = {each: base for each, base in self._bases.items() if each in kept}
        self._bases = {**bases, number: step}
        self.number, self.state = number, step.state
        return WalkStep(number=number, before=before, after=step.state, at=header.at)

    async def _go_before_repair(self, error: FormatError, number: int) -> None:
        """Go to the place before the newest root; raises the error if it is behind."""
        header = await self._versions.newest_header()  # it raises `RunErased`
        if header is None or header.root <= number:
            raise error
        self.number, self.state, self._bases = header.root - 1, None, {}
