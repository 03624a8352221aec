"""The types of `runner.history` and `runner.diff`.

from continuations.past import CallDifference, RunDifference, RunVersion
"""

from __future__ import annotations

from continuations.core.run_past import (
    CallDifference,
    Change,
    FrameDifference,
    MessageDifference,
    RunDifference,
    RunVersion,
    StateDifference,
    WaitDifference,
)

__all__ = [
    "CallDifference",
    "Change",
    "FrameDifference",
    "MessageDifference",
    "RunDifference",
    "RunVersion",
    "StateDifference",
    "WaitDifference",
]
