"""The state of an agent as one attempt of a call reads and changes it."""

from __future__ import annotations

import logging
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any

from continuations.core import frame_state
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.authoring.typed_values import StateSpec

_log = logging.getLogger("continuations")


class CallState:
    """Reads a state, and collects the changes of one attempt of a call.

    Args:
        spec: The declared type of the state.
        tool_name: Name of the tool.
        state_json: The state that the call reads.
        may_write: Whether the tool declares that it writes.
    """

    def __init__(
        self, spec: StateSpec, tool_name: str, state_json: str, *, may_write: bool
    ) -> None:
        self._spec = spec
        self._tool_name = tool_name
        self._before = state_json
        self._may_write = may_write
        self._patch: str | None = None
        self._is_over = False
        # The values that the tool read, with their stored form.
        self._given: list[tuple[Any, str]] = []
        # A plain tool may have threads of its own.
        self._lock = Lock()

    def value(self) -> Any:
        """Return the state with the changes of this attempt, as a new value."""
        now = frame_state.with_patch(self._before, self._patch)
        value = self._spec.value(now)
        self._given.append((value, now))
        return value

    def update(self, changes: Mapping[str, Any]) -> None:
        """Change fields; raises `InvalidInput` or `StateInvalid`."""
        what = f"ctx.update() of tool {self._tool_name} failed"
        if not self._may_write:
            msg = (
                f"{what}: the tool does not declare that it writes the state. Declare "
                "it with @tool(writes_state=True)."
            )
            raise InvalidInput(msg)
        with self._lock:
            if self._is_over:
                msg = f"{what}: the call has ended. Update the state before you return."
                raise InvalidInput(msg)
            now = frame_state.with_patch(self._before, self._patch)
            try:
                patch = self._spec.patch(now, changes)
            except InvalidInput as error:
                msg = f"{what}: {error}"
                raise InvalidInput(msg) from error
            self._patch = frame_state.with_patch(self._patch or "", patch)

    def take_patch(self) -> str | None:
        """End the attempt; return the changed fields, `None` if no field changed."""
        with self._lock:
            self._is_over = True
            self._warn_of_lost_changes()
            return self._patch

    def _warn_of_lost_changes(self) -> None:
        """Log the fields that the tool changed in a value, and not with `update`."""
        lost: set[str] = set()
        with suppress(Exception):  # `__eq__` of the application may raise
            for value, stored in self._given:
                changed = self._spec.differences(value, stored)
                now = frame_state.with_patch(self._before, self._patch)
                lost |= changed and changed & self._spec.differences(value, now)
        self._given.clear()
        if lost:
            name = min(lost)
            text = (
                "tool %s changed ctx.state.%s, which is a copy, so the change is lost. "
                "Call ctx.update(%s=...)."
            )
            _log.warning(text, self._tool_name, name, name)
