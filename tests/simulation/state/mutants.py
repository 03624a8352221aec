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


@mutant(
    "Calls of a turn that write the state begin at the same time.",
    breaks=("state_is_the_replay_of_its_changes",),
)
def calls_that_write_begin_together() -> Patches:
    yield returns(frames.is_held_back, value=False)


@mutant(
    "A call that writes reads the state of the beginning of its turn.",
    breaks=("state_is_the_replay_of_its_changes",),
)
def earlier_calls_of_the_turn_are_not_read() -> Patches:
    def seen_by(frame: FrameRow) -> str:
        return frame.state_json

    yield patch(frames.state_seen_by, seen_by)


@mutant(
    "The changes of a turn are applied in the order in which they are not called.",
    breaks=("state_is_the_replay_of_its_changes",),
)
def changes_are_applied_in_another_order() -> Patches:
    def after_turn(original: Original, rows: Iterable[CallRow]) -> Any:
        return original(rows=reversed(list(rows)))

    yield patch(frames.state_after_turn, after_turn)


@mutant(
    "The changes of a call are not stored with its result.",
    breaks=("state_is_the_replay_of_its_changes",),
)
def changes_of_a_call_are_not_stored() -> Patches:
    original: Any = Row[Any].write

    def write(self: Row[Any], value: Any, full_copy: bool) -> dict[str, object]:
        fields: dict[str, object] = original(self, value, full_copy=full_copy)
        if self is CALL and "patch" in fields:
            fields["patch"] = "{}"
        return fields

    yield patch(original, write)


@mutant(
    "A version does not contain the states that changed.",
    breaks=("state_is_the_replay_of_its_changes",),
)
def states_are_not_stored() -> Patches:
    def without_states(original: Original) -> Any:
        frames, _ = original()
        return frames, {}

    yield patch(delta._without_states, without_states)


@mutant(
    "The changes of a call that failed are kept, and applied.",
    breaks=("state_is_the_replay_of_its_changes",),
)
def changes_of_a_failed_call_are_applied() -> Patches:
    def after_turn(original: Original, state_json: str, rows: Iterable[CallRow]) -> Any:
        for row in rows:
            state_json = original(state_json=state_json, rows=[row])
            if row.patch is not None and type(row.state).__name__ == "Errored":
                kept = frames.state_fields(state_json).get("kept", [])
                failed = {"kept": [*kept, "failed"]}
                state_json = jsontext.canonical(failed)
        return state_json

    yield patch(frames.state_after_turn, after_turn)
