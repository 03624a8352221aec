"""Bugs of calls whose tool changed after a decision, or did not return in time."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from continuations.authoring.tool.tool_protocol import ToolProtocol
from continuations.core.changes.events import Answered, CallRaised, RepeatAllowed
from continuations.core.rows.calls import CallRow
from continuations.core.rows.state import RunState
from continuations.engine.arrivals.arrival_reducer import ArrivalReducer
from continuations.engine.call_failures import FailedAttempts
from continuations.engine.calls.admission import Admission
from continuations.engine.stack.stack_binding import StackBinding
from continuations.engine.worker import performer
from continuations.errors import ContinuationsError
from continuations.ledger import decision_errors, layout, missing_code
from continuations.ledger.objects import AlreadyExists, Objects
from tests.simulation.mutants.mutant import (
    Original,
    Patches,
    mutant,
    patch,
    returns,
    skip,
)

# Deployments ------------------------------------------------------------------------


@mutant("executed_equals_approved")
def a_changed_tool_runs_under_the_old_approval() -> Patches:
    """A call runs under an approval of another contract of its tool."""

    def why_void(original: Original) -> Any:
        note = original()
        return None if note and "changed after the approval" in note else note

    def unchanged_tool(
        self: StackBinding, state: RunState, call: CallRow
    ) -> ToolProtocol:
        tool = self.tool(state, call)
        assert tool is not None
        return tool

    yield patch(Admission.why_void, why_void)
    yield patch(StackBinding.unchanged_tool, unchanged_tool)


@mutant("executed_equals_approved")
def stricter_code_is_not_asked() -> Patches:
    """A call that was accepted without an approval begins under code that needs one."""

    async def hold(original: Original, call: CallRow) -> Any:
        return await original() if call.approved_digest else None

    yield patch(Admission.hold, hold)


@mutant("approved_call_runs_or_waits_again")
def an_approval_of_a_removed_tool_is_lost() -> Patches:
    """An approved call whose tool was removed ends with an error, unasked."""

    def approval_events(
        original: Original, self: ArrivalReducer, state: RunState, call: CallRow
    ) -> Any:
        if self.stack_binding.tool(state, call) is None:
            return (Answered(call_id=call.id, content="ERROR: no such tool"),)
        return original()

    yield patch(ArrivalReducer._approval_events, approval_events)


@mutant("notes_of_missing_code_follow_their_versions")
def missing_code_is_noted_for_a_later_version() -> Patches:
    """A worker that lacks code notes it for the version after the one that it read."""

    async def post(objects: Objects, run_id: str, number: int) -> None:
        key = layout.missing_code_key(run_id, number + 1)
        with suppress(AlreadyExists, ContinuationsError):
            await objects.create(key, b"")

    yield patch(missing_code.post, post)


# Time limits of tools ---------------------------------------------------------------


@mutant("started_once")
def a_timed_out_call_is_repeated() -> Patches:
    """A call that did not return in time runs again, also one that may not be
    repeated."""

    def unknown(call: CallRow) -> RepeatAllowed:
        return RepeatAllowed(call_id=call.id)

    yield patch(FailedAttempts._unknown, unknown)


@mutant("same_end_as_uninterrupted")
def a_timed_out_call_is_guessed_to_have_failed() -> Patches:
    """A call that did not return in time counts as failed, by a guess."""

    def unknown(call: CallRow) -> CallRaised:
        return CallRaised(call_id=call.id, code="timeout", content="ERROR")

    yield patch(FailedAttempts._unknown, unknown)


@mutant("timed_out_call_is_over_before_a_repeat")
def a_running_call_may_be_approved_again() -> Patches:
    """A person may let a timed-out call run again while it is still running."""
    yield skip(decision_errors.check_call_is_over)


@mutant("timed_out_call_is_over_before_a_repeat")
def a_running_call_may_be_verified_again() -> Patches:
    """A `verify` function may let a timed-out call run again while it is still
    running."""
    yield returns(performer._is_over, value=True)
