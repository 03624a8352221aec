"""A store in memory whose objects a test can set, read and damage."""

from __future__ import annotations

from collections.abc import Mapping

from tests.stores import OneByOneStore


class EditableStore(OneByOneStore):
    """A memory store that starts with some bodies."""

    def __init__(self, bodies: Mapping[str, bytes] | None = None) -> None:
        super().__init__()
        self._bodies = dict(bodies or {})
        self._sorted = sorted(self._bodies)

    @property
    def bodies(self) -> dict[str, bytes]:
        """A copy of all bodies, by key."""
        return dict(self._bodies)

    def replace_body(self, key: str, body: bytes) -> None:
        """Overwrite a body."""
        assert key in self._bodies
        self._bodies[key] = body
