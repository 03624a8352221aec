"""The types of the options of `tool`, for type checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations.authoring.approval import ApprovalPolicy, Condition
    from continuations.authoring.call_retries import RetriesOption
    from continuations.authoring.declared_display import Summary
    from continuations.authoring.failed_call import ToolErrorFunction
    from continuations.authoring.offers import EnabledCondition
    from continuations.authoring.periods import Duration
    from continuations.authoring.tool_declaration import OnTimeout


class ToolOptions(TypedDict, total=False):
    """The options of `tool`, which describes them."""

    approval: bool | Condition | ApprovalPolicy | None
    name: str | None
    description: str | None
    read_only: bool
    idempotent: bool
    timeout: Duration | None
    on_timeout: OnTimeout
    retries: RetriesOption
    on_error: ToolErrorFunction | None
    verify: Callable[..., Any] | None
    version: str | None
    is_enabled: bool | EnabledCondition
    summary: Summary | None
    reversible: bool | None
    writes_state: bool
