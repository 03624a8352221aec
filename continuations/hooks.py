"""The class of hooks, what they are given, and what they may return.

from continuations.hooks import CallInfo, ChangeArguments
"""

from __future__ import annotations

from continuations.authoring.hooks import (
    CallInfo,
    ChangeArguments,
    ChangeReply,
    ChangeRequest,
    ChangeResult,
    Continue,
    Hooks,
    RefuseReply,
    ReplyInfo,
    ResultInfo,
    TurnInfo,
)

__all__ = [
    "CallInfo",
    "ChangeArguments",
    "ChangeReply",
    "ChangeRequest",
    "ChangeResult",
    "Continue",
    "Hooks",
    "RefuseReply",
    "ReplyInfo",
    "ResultInfo",
    "TurnInfo",
]
