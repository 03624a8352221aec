"""The actions that `plan` returns and the engine carries out."""

from __future__ import annotations

from typing import TypeAlias

from continuations.value_class import dataclass


@dataclass(frozen=True, slots=True)
class AskModel:
    """Ask the frame's model for its next reply."""

    frame_id: str


@dataclass(frozen=True, slots=True)
class ExamineCall:
    """Find the call's tool, validate its arguments, ask its approval policy."""

    call_id: str


@dataclass(frozen=True, slots=True)
class RecordStart:
    """Record that the call starts, or open the frame of the agent that it calls.

    `RunTool` runs the tool, after this record is committed.
    """

    call_id: str


@dataclass(frozen=True, slots=True)
class RunTool:
    """Run the tool of a call whose start is recorded."""

    call_id: str


@dataclass(frozen=True, slots=True)
class VerifyOutcome:
    """Ask the tool's `verify` function whether a call of unknown outcome happened."""

    call_id: str


Action: TypeAlias = AskModel | ExamineCall | RecordStart | RunTool | VerifyOutcome
