"""The actions that `plan` returns and the engine carries out."""

from __future__ import annotations

from typing import TypeAlias, final

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


@final
@dataclass(frozen=True, slots=True)
class CheckCall:
    """Let agents that are guardrails check a call; no plan has this action.

    It comes before `ExamineCall`, or with `before_start` before `RecordStart`.
    """

    frame_id: str
    call_id: str
    before_start: bool = False


Action: TypeAlias = (
    AskModel | ExamineCall | RecordStart | RunTool | VerifyOutcome | CheckCall
)
# The actions that have a task of their own.
Launched: TypeAlias = AskModel | RunTool | VerifyOutcome | CheckCall
# The actions that request replies of models.
REQUESTS = (AskModel, CheckCall)
