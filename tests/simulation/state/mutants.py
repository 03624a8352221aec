"""Bugs of the state of an agent: changes are lost, or in another order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from continuations.core import jsontext
from continuations.core.rows import delta, frames
from continuations.core.rows.calls import CallRow
from continuations.core.rows.frames import FrameRow
from continuations.wire.fields import Row
from continuations.wire.rows import CALL
from tests.simulation.families import STATES
from tests.simulation.mutants.mutant import (
    Original,
    Patches,
    mutants_of,
    patch,
    returns,
)

mutant = mutants_of(STATES)


@mutant("state_is_the_replay_of_its_changes")
def calls_that_write_begin_together() -> Patches:
    """Calls of a turn that write the state begin at the same time."""
    yield returns(frames.is_held_back, value=False)


@mutant("state_is_the_replay_of_its_changes")
def earlier_calls_of_the_turn_are_not_read() -> Patches:
    """A call that writes reads the state of the beginning of its turn."""

    def seen_by(frame: FrameRow) -> str:
        return frame.state_json

    yield patch(frames.state_seen_by, seen_by)


@mutant("state_is_the_replay_of_its_changes")
def changes_are_applied_in_another_order() -> Patches:
    """The changes of a turn are applied in the order in which they are not called."""

    def after_turn(original: Original, rows: Iterable[CallRow]) -> Any:
        return original(rows=reversed(list(rows)))

    yield patch(frames.state_after_turn, after_turn)


@mutant("state_is_the_replay_of_its_changes")
def changes_of_a_call_are_not_stored() -> Patches:
    """The changes of a call are not stored with its result."""
    original: Any = Row[Any].write

    def write(self: Row[Any], value: Any, full_copy: bool) -> dict[str, object]:
        fields: dict[str, object] = original(self, value, full_copy=full_copy)
        if self is CALL and "patch" in fields:
            fields["patch"] = "{}"
        return fields

    yield patch(original, write)


@mutant("state_is_the_replay_of_its_changes")
def states_are_not_stored() -> Patches:
    """A version does not contain the states that changed."""

    def without_states(original: Original) -> Any:
        frames, _ = original()
        return frames, {}

    yield patch(delta._without_states, without_states)


@mutant("state_is_the_replay_of_its_changes")
def changes_of_a_failed_call_are_applied() -> Patches:
    """The changes of a call that failed are kept, and applied."""

    def after_turn(original: Original, state_json: str, rows: Iterable[CallRow]) -> Any:
        for row in rows:
            state_json = original(state_json=state_json, rows=[row])
            if row.patch is not None and type(row.state).__name__ == "Errored":
                kept = frames.state_fields(state_json).get("kept", [])
                failed = {"kept": [*kept, "failed"]}
                state_json = jsontext.canonical(failed)
        return state_json

    yield patch(frames.state_after_turn, after_turn)
