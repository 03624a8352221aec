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
    from continuations.authoring.agent.agent import Agent
    from continuations.authoring.agent.task_method import task
    from continuations.authoring.approval import ApprovalPolicy
    from continuations.authoring.compaction import Compaction
    from continuations.authoring.context import ToolContext
    from continuations.authoring.deadline_options import escalate
    from continuations.authoring.suspend_conditions import after, every
    from continuations.authoring.tool.tool import ask_person, tool
    from continuations.authoring.tool_waits import (
        ask,
        external,
        sleep,
        sleep_until,
        wait_for,
    )
    from continuations.authoring.workflow.workflow import Flow, workflow
    from continuations.core.identity import Identity
    from continuations.core.reading.views import Call, Frame
    from continuations.core.rows.decisions import Answer, Approve, Deny, Fail
    from continuations.core.rows.grants import Grant
    from continuations.core.rows.run import Budget
    from continuations.core.rows.waits import Wait, WaitSummary
    from continuations.engine.outcomes import (
        Failed,
        Finished,
        Outcome,
        Queued,
        Replied,
        Suspended,
    )
    from continuations.engine.runner.async_runner import AsyncRunner
    from continuations.engine.runner.sync_runner import Runner
    from continuations.engine.runner.sync_storeless import resume, run
    from continuations.errors import ContinuationsError
    from continuations.ledger.index.run_listing import RunSummary
    from continuations.ledger.objects import open_store
    from continuations.models.fallback import Fallback
    from continuations.models.interface import Model
    from continuations.wire.continuation import Continuation

_EXPORTS_BY_MODULE = {
    "continuations.authoring.agent.agent": "Agent",
    "continuations.authoring.approval": "ApprovalPolicy",
    "continuations.authoring.compaction": "Compaction",
    "continuations.authoring.context": "ToolContext",
    "continuations.authoring.deadline_options": "escalate",
    "continuations.authoring.suspend_conditions": "after every",
    "continuations.authoring.agent.task_method": "task",
    "continuations.authoring.tool.tool": "ask_person tool",
    "continuations.authoring.tool_waits": "ask external sleep sleep_until wait_for",
    "continuations.authoring.workflow.workflow": "Flow workflow",
    "continuations.core.rows.decisions": "Answer Approve Deny Fail",
    "continuations.core.rows.grants": "Grant",
    "continuations.core.identity": "Identity",
    "continuations.core.rows.run": "Budget",
    "continuations.core.reading.views": "Call Frame",
    "continuations.core.rows.waits": "Wait WaitSummary",
    "continuations.engine.runner.async_runner": "AsyncRunner",
    "continuations.engine.outcomes": "Failed Finished Outcome Queued Replied Suspended",
    "continuations.engine.runner.sync_runner": "Runner",
    "continuations.engine.runner.sync_storeless": "resume run",
    "continuations.errors": "ContinuationsError",
    "continuations.ledger.objects": "open_store",
    "continuations.ledger.index.run_listing": "RunSummary",
    "continuations.models.fallback": "Fallback",
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
    "Answer",
    "ApprovalPolicy",
    "Approve",
    "AsyncRunner",
    "Budget",
    "Call",
    "Compaction",
    "Continuation",
    "ContinuationsError",
    "Deny",
    "Fail",
    "Failed",
    "Fallback",
    "Finished",
    "Flow",
    "Frame",
    "Grant",
    "Identity",
    "Model",
    "Outcome",
    "Queued",
    "Replied",
    "RunSummary",
    "Runner",
    "Suspended",
    "ToolContext",
    "Wait",
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
    "run",
    "sleep",
    "sleep_until",
    "task",
    "tool",
    "wait_for",
    "workflow",
]


def __getattr__(name: str) -> Any:
    module_name = _MODULE_BY_EXPORT.get(name)
    if module_name is None:
        raise AttributeError(f"module 'continuations' has no attribute {name!r}")
    value = getattr(import_module(module_name), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
