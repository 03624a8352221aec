"""Bugs of the bound on denials: a model repeats a denied call without end."""

from __future__ import annotations

from typing import Any

from continuations.core.rows import frames
from continuations.wire.fields import Row
from continuations.wire.rows import FRAME
from tests.simulation.mutants.conditions import models_repeat_denied_calls
from tests.simulation.mutants.mutant import Patches, mutant, patch, skip


@mutant("denied_calls_are_bounded", condition=models_repeat_denied_calls)
def denials_are_not_bounded() -> Patches:
    """An agent goes on however often one call was denied."""
    yield skip(frames.denied_too_often)


@mutant("denied_calls_are_bounded", condition=models_repeat_denied_calls)
def count_of_denials_is_not_stored() -> Patches:
    """Each process counts denials from the beginning."""
    original: Any = Row[Any].write

    def write(self: Row[Any], value: Any, full_copy: bool) -> dict[str, object]:
        fields: dict[str, object] = original(self, value, full_copy=full_copy)
        if self is FRAME:
            fields.pop("denials", None)
        return fields

    yield patch(original, write)
