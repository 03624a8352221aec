"""A Python SDK for durable agents: the public names.

Each name is imported when it is first used. So `import continuations` loads neither a
model client nor the client of an object store, and recording a decision loads no model
client.

PYTEST_DONT_REWRITE: the package has a pytest plugin, and may be imported before pytest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from continuations.version import __version__

if TYPE_CHECKING:
    from continuations.authoring.agent import Agent
    from continuations.authoring.approval import ApprovalPolicy
    from continuations.authoring.ask_person import ask_person
    from continuations.authoring.compaction import Compaction
    from continuations.authoring.context import ToolContext
    from continuations.authoring.deadline_options import escalate
    from continuations.authoring.guardrails import (
        Guardrail,
        Guardrails,
        Tripped,
    )
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
    from continuations.authoring.readings import Money, Secret
    from continuations.authoring.suspend_conditions import (
        AgentProgress,
        SuspendCondition,
        after,
        every,
    )
    from continuations.authoring.task_method import task
    from continuations.authoring.tool import Tool, tool
    from continuations.authoring.tool_options import FailedCall, OfferInfo, Retries
    from continuations.authoring.tool_waits import (
        ToolWait,
        ask,
        external,
        sleep,
        sleep_until,
        wait_for,
    )
    from continuations.core.attachments import Audio, File, Image
    from continuations.core.audit import AuditLine
    from continuations.core.decisions import (
        Answer,
        Approve,
        Decision,
        Deny,
        Fail,
        Verdict,
    )
    from continuations.core.doors import Door
    from continuations.core.grants import Grant, KeptGrant
    from continuations.core.identity import Identity
    from continuations.core.prices import Price, Prices
    from continuations.core.quorum import Vote
    from continuations.core.run import Budget, Failure
    from continuations.core.run_past import (
        RewindPlan,
        Rewound,
        RunDifference,
        RunVersion,
    )
    from continuations.core.untaken_signals import UntakenSignal
    from continuations.core.usage import Usage
    from continuations.core.views import Call, Frame
    from continuations.core.waits import Wait, WaitSummary
    from continuations.engine.async_runner import AsyncRunner
    from continuations.engine.async_thread import AsyncThread
    from continuations.engine.async_ticket import AsyncTicket
    from continuations.engine.drift_rows import DriftReason, DriftRow
    from continuations.engine.outcomes import (
        Failed,
        Finished,
        Outcome,
        Queued,
        Replied,
        Suspended,
    )
    from continuations.engine.run_streams import AsyncRunStream, RunStream
    from continuations.engine.storeless import (
        resume_async,
        resume_stream_async,
        run_async,
        run_stream_async,
    )
    from continuations.engine.sweeping import SweepResult
    from continuations.engine.sync_runner import Runner
    from continuations.engine.sync_storeless import (
        resume,
        resume_stream,
        run,
        run_stream,
    )
    from continuations.engine.sync_thread import Thread, Ticket
    from continuations.errors import (
        AgentChanged,
        AlreadyDecided,
        Cancelled,
        ClockOff,
        CompactionFailed,
        ContinuationsError,
        Corrupt,
        DecisionRefused,
        FormatError,
        HookFailed,
        IllegalTransition,
        InboxFull,
        Inconclusive,
        InvalidId,
        InvalidInput,
        ModelError,
        NewerFormat,
        NotFinished,
        PriceUnknown,
        RunBusy,
        RunErased,
        RunExists,
        RunFailed,
        RunNotFound,
        StaleRun,
        StoreDenied,
        StoreError,
        StoreUnavailable,
        StoreUnsafe,
        ThreadClosed,
        TranscriptInvalid,
        VersionNotFound,
        WaitExpired,
        WaitNotFound,
    )
    from continuations.ledger.objects import open_store
    from continuations.ledger.published_events import Publication
    from continuations.ledger.run_listing import RunSummary
    from continuations.models.fallback import Fallback
    from continuations.models.interface import Model
    from continuations.wire.continuation import Continuation

_EXPORTS_BY_MODULE = {
    "continuations.authoring.agent": "Agent",
    "continuations.authoring.approval": "ApprovalPolicy",
    "continuations.authoring.ask_person": "ask_person",
    "continuations.authoring.compaction": "Compaction",
    "continuations.authoring.context": "ToolContext",
    "continuations.authoring.readings": "Money Secret",
    "continuations.authoring.tool_options": "FailedCall OfferInfo Retries",
    "continuations.authoring.deadline_options": "escalate",
    "continuations.authoring.guardrails": "Guardrail Guardrails Tripped",
    "continuations.authoring.hooks": (
        "CallInfo ChangeArguments ChangeReply ChangeRequest ChangeResult Continue "
        "Hooks RefuseReply ReplyInfo ResultInfo TurnInfo"
    ),
    "continuations.authoring.suspend_conditions": (
        "AgentProgress SuspendCondition after every"
    ),
    "continuations.authoring.task_method": "task",
    "continuations.authoring.tool": "Tool tool",
    "continuations.authoring.tool_waits": (
        "ToolWait ask external sleep sleep_until wait_for"
    ),
    "continuations.core.attachments": "Audio File Image",
    "continuations.core.decisions": "Answer Approve Decision Deny Fail Verdict",
    "continuations.core.audit": "AuditLine",
    "continuations.core.doors": "Door",
    "continuations.core.grants": "Grant KeptGrant",
    "continuations.core.identity": "Identity",
    "continuations.core.prices": "Price Prices",
    "continuations.core.quorum": "Vote",
    "continuations.core.run": "Budget Failure",
    "continuations.core.run_past": "RewindPlan Rewound RunDifference RunVersion",
    "continuations.core.untaken_signals": "UntakenSignal",
    "continuations.core.usage": "Usage",
    "continuations.models.fallback": "Fallback",
    "continuations.core.views": "Call Frame",
    "continuations.core.waits": "Wait WaitSummary",
    "continuations.engine.outcomes": "Failed Finished Outcome Queued Replied Suspended",
    "continuations.engine.async_runner": "AsyncRunner",
    "continuations.engine.async_thread": "AsyncThread",
    "continuations.engine.async_ticket": "AsyncTicket",
    "continuations.engine.drift_rows": "DriftReason DriftRow",
    "continuations.engine.run_streams": "AsyncRunStream RunStream",
    "continuations.engine.storeless": (
        "resume_async resume_stream_async run_async run_stream_async"
    ),
    "continuations.engine.sweeping": "SweepResult",
    "continuations.engine.sync_runner": "Runner",
    "continuations.engine.sync_storeless": "resume resume_stream run run_stream",
    "continuations.engine.sync_thread": "Thread Ticket",
    "continuations.errors": (
        "AgentChanged AlreadyDecided Cancelled ClockOff CompactionFailed "
        "ContinuationsError Corrupt DecisionRefused FormatError HookFailed "
        "IllegalTransition InboxFull Inconclusive InvalidId InvalidInput ModelError "
        "PriceUnknown NewerFormat RunBusy RunErased RunExists RunNotFound StaleRun "
        "NotFinished RunFailed StoreDenied StoreError StoreUnavailable StoreUnsafe "
        "ThreadClosed "
        "TranscriptInvalid VersionNotFound WaitExpired WaitNotFound"
    ),
    "continuations.ledger.objects": "open_store",
    "continuations.ledger.published_events": "Publication",
    "continuations.ledger.run_listing": "RunSummary",
    "continuations.models.interface": "Model",
    "continuations.wire.continuation": "Continuation",
}
_MODULE_BY_EXPORT = {
    name: module_name
    for module_name, names in _EXPORTS_BY_MODULE.items()
    for name in names.split()
}

__all__ = [
    "Agent",
    "AgentChanged",
    "AgentProgress",
    "AlreadyDecided",
    "Answer",
    "ApprovalPolicy",
    "Approve",
    "AsyncRunStream",
    "AsyncRunner",
    "AsyncThread",
    "AsyncTicket",
    "Audio",
    "AuditLine",
    "Budget",
    "Call",
    "CallInfo",
    "Cancelled",
    "ChangeArguments",
    "ChangeReply",
    "ChangeRequest",
    "ChangeResult",
    "ClockOff",
    "Compaction",
    "CompactionFailed",
    "Continuation",
    "ContinuationsError",
    "Continue",
    "Corrupt",
    "Decision",
    "DecisionRefused",
    "Deny",
    "Door",
    "DriftReason",
    "DriftRow",
    "Fail",
    "Failed",
    "FailedCall",
    "Failure",
    "Fallback",
    "File",
    "Finished",
    "FormatError",
    "Frame",
    "Grant",
    "Guardrail",
    "Guardrails",
    "HookFailed",
    "Hooks",
    "Identity",
    "IllegalTransition",
    "Image",
    "InboxFull",
    "Inconclusive",
    "InvalidId",
    "InvalidInput",
    "KeptGrant",
    "Model",
    "ModelError",
    "Money",
    "NewerFormat",
    "NotFinished",
    "OfferInfo",
    "Outcome",
    "Price",
    "PriceUnknown",
    "Prices",
    "Publication",
    "Queued",
    "RefuseReply",
    "Replied",
    "ReplyInfo",
    "ResultInfo",
    "Retries",
    "RewindPlan",
    "Rewound",
    "RunBusy",
    "RunDifference",
    "RunErased",
    "RunExists",
    "RunFailed",
    "RunNotFound",
    "RunStream",
    "RunSummary",
    "RunVersion",
    "Runner",
    "Secret",
    "StaleRun",
    "StoreDenied",
    "StoreError",
    "StoreUnavailable",
    "StoreUnsafe",
    "SuspendCondition",
    "Suspended",
    "SweepResult",
    "Thread",
    "ThreadClosed",
    "Ticket",
    "Tool",
    "ToolContext",
    "ToolWait",
    "TranscriptInvalid",
    "Tripped",
    "TurnInfo",
    "UntakenSignal",
    "Usage",
    "Verdict",
    "VersionNotFound",
    "Vote",
    "Wait",
    "WaitExpired",
    "WaitNotFound",
    "WaitSummary",
    "__version__",
    "after",
    "ask",
    "ask_person",
    "escalate",
    "every",
    "external",
    "open_store",
    "resume",
    "resume_async",
    "resume_stream",
    "resume_stream_async",
    "run",
    "run_async",
    "run_stream",
    "run_stream_async",
    "sleep",
    "sleep_until",
    "task",
    "tool",
    "wait_for",
]


def __getattr__(name: str) -> Any:
    module_name = _MODULE_BY_EXPORT.get(name)
    if module_name is None:
        msg = f"module 'continuations' has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(module_name), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
