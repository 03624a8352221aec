"""Tests of applications: a clock that a test moves, crashes, recorded models.

This package uses the public names of the project, as a test of an application does.
Each name is imported when it is first used, because pytest imports this package for its
plugin in every run.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from continuations.testing.crash_point import CrashPoint, every_crash
    from continuations.testing.effects import Effect, Effects
    from continuations.testing.fixed_ports import FrozenClock, NumberedIds, memory_store
    from continuations.testing.harness import AgentHarness, MakeHarness
    from continuations.testing.recorded_model import RecordedModel, RecordModel
    from continuations.testing.transcript_checks import Transcript, TranscriptCall

__all__ = [
    "AgentHarness",
    "CrashPoint",
    "Effect",
    "Effects",
    "FrozenClock",
    "MakeHarness",
    "NumberedIds",
    "RecordModel",
    "RecordedModel",
    "Transcript",
    "TranscriptCall",
    "every_crash",
    "memory_store",
]

_MODULE_BY_NAME = {
    "AgentHarness": "harness",
    "CrashPoint": "crash_point",
    "Effect": "effects",
    "Effects": "effects",
    "FrozenClock": "fixed_ports",
    "MakeHarness": "harness",
    "NumberedIds": "fixed_ports",
    "RecordModel": "recorded_model",
    "RecordedModel": "recorded_model",
    "Transcript": "transcript_checks",
    "TranscriptCall": "transcript_checks",
    "every_crash": "crash_point",
    "memory_store": "fixed_ports",
}


def __getattr__(name: str) -> Any:
    module_name = _MODULE_BY_NAME.get(name)
    if module_name is None:
        msg = f"module 'continuations.testing' has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(f"continuations.testing.{module_name}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
