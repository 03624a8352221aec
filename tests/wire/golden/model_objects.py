"""The golden objects of model settings, costs and fallback models."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from continuations.wire.continuation import Continuation
from tests.core.rows import new_state

if TYPE_CHECKING:
    from continuations.core.state import RunState

ODD_TEXT = "caf\u00e9 \u2028 \x00 \u202e \ud800"


def run_with_settings() -> RunState:
    """Return a run that has model settings."""
    state = new_state()
    settings = '{"stop":["\u20ac"],"temperature":0}'
    return replace(state, run=replace(state.run, settings_json=settings))


def model_objects() -> dict[str, tuple[bytes, object]]:
    """Return the objects by name: their bytes, and what they mean."""
    objects: dict[str, tuple[bytes, object]] = {}
    for make in (run_with_settings,):
        continuation = Continuation(make(), 12)
        objects[make.__name__] = (continuation.to_bytes(), continuation)
    return objects
