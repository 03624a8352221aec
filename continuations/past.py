"""The types of `runner.history`, `runner.diff` and `runner.rewind`.

from continuations.past import CallDifference, RunDifference, RunVersion
"""

from __future__ import annotations

from continuations.core.reading.audit import AuditLine
from continuations.core.reading.run_past import (
    BegunCall,
    CallDifference,
    Change,
    FrameDifference,
    MessageDifference,
    RewindPlan,
    Rewound,
    RunDifference,
    RunVersion,
    StateDifference,
    TakenMessage,
    WaitDifference,
)

__all__ = [
    "AuditLine",
    "BegunCall",
    "CallDifference",
    "Change",
    "FrameDifference",
    "MessageDifference",
    "RewindPlan",
    "Rewound",
    "RunDifference",
    "RunVersion",
    "StateDifference",
    "TakenMessage",
    "WaitDifference",
]
