"""Bugs of hooks and guardrails: what they see, and what is left of their words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from continuations.authoring.guardrails import Tripped
from continuations.core import jsontext
from continuations.core.changes.events import CallInvalid, CallReturned
from continuations.core.rows import state
from continuations.core.rows.calls import CallRow
from continuations.core.rows.frames import FrameRow
from continuations.core.rows.run import new_trip
from continuations.engine.calls.call_examination import CallExaminer
from continuations.engine.guards import guarded_turn
from continuations.engine.hook_calls import CheckedCall, GuardedCall
from continuations.engine.worker.performer import Performer
from tests.simulation.families import GUARDS
from tests.simulation.guards.tools import halved
from tests.simulation.mutants.mutant import Original, Patches, mutants_of, patch, skip

mutant = mutants_of(GUARDS)


@mutant("executed_equals_accepted_after_the_hook")
def the_hook_runs_after_the_approval() -> Patches:
    """The hook changes the arguments after the approval."""

    async def checked(self: GuardedCall, arguments: str) -> CheckedCall | CallInvalid:
        return await self.guarded(arguments)

    async def _run_tool(original: Original, call: CallRow) -> Any:
        what = halved(jsontext.parse(call.arguments or "{}")["what"])
        changed = replace(call, arguments=jsontext.canonical({"what": what}))
        return await original(call=changed)

    yield patch(GuardedCall.checked, checked)
    yield patch(Performer._run_tool, _run_tool)


@mutant("refused_by_a_guardrail_never_runs", "executed_equals_accepted_after_the_hook")
def guardrails_are_ignored_after_a_crash() -> Patches:
    """A worker that goes on after a crash does not ask the guardrails."""

    async def guarded(original: Original, self: GuardedCall, arguments: str) -> Any:
        claim = self.state.run.claim
        if claim is not None and claim.attempt > 1:
            return CheckedCall(arguments=arguments)
        return await original()

    yield patch(GuardedCall.guarded, guarded)


@mutant("refused_by_a_guardrail_never_runs")
def a_question_hides_a_refusal() -> Patches:
    """A guardrail that refuses is not asked if one before it asks."""

    async def guarded(original: Original, self: GuardedCall, arguments: str) -> Any:
        guardrails = self.agent.guardrails
        assert guardrails is not None
        check: Any = guardrails.of_stage("tool")[0].check
        tripped: Tripped | None = check(self._info(arguments))
        if tripped is None:
            return await original()
        trip = new_trip(self._path, self.call.frame_id, "asks", "tool", tripped.reason)
        return CheckedCall(arguments=arguments, trip=trip)

    yield patch(GuardedCall.guarded, guarded)


@mutant("refused_by_a_guardrail_never_runs")
def edited_arguments_are_not_checked() -> Patches:
    """Arguments that a person approved are not shown to guardrails that refuse."""

    async def guarded_again(original: Original, call: CallRow) -> Any:
        if call.approved_digest is not None:
            return None
        return await original()

    yield patch(CallExaminer.guarded_again, guarded_again)


@mutant("refused_by_a_guardrail_never_runs")
def inputs_of_sub_agents_are_not_checked() -> Patches:
    """The input of an agent that another agent calls is not checked."""

    def new_input(original: Original, frame: FrameRow) -> Any:
        return None if frame.depth else original()

    yield patch(guarded_turn.new_input, new_input)


@mutant("state_is_the_replay_of_its_changes")
def after_tool_loses_the_changes() -> Patches:
    """A result that the hook after_tool saw has lost the changes of the state."""

    async def with_result(original: Original) -> Any:
        result = await original()
        if isinstance(result, CallReturned):
            return replace(result, patch=None)
        return result

    yield patch(GuardedCall.with_result, with_result)


@mutant("each_trip_is_told_once")
def a_trip_is_not_recorded() -> Patches:
    """A trip is not stored with its frame."""
    yield skip(state.record_trip)


@mutant("each_trip_is_told_once")
def a_trip_is_recorded_twice() -> Patches:
    """A trip is stored twice."""

    def record(original: Original) -> None:
        original()
        original()

    yield patch(state.record_trip, record)
