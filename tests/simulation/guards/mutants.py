"""Bugs of hooks and guardrails: what they see, and what is left of their words."""

# A mutant replaces private functions.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.changes.events import CallReturned
from continuations.core.rows import draft
from continuations.core.rows.run import new_trip
from continuations.engine.calls.call_examination import CallExaminer
from continuations.engine.guards import guarded_turn
from continuations.engine.guards.guarded_calls import CheckedCall, GuardedCall
from continuations.engine.worker.performer import Performer
from tests.simulation.families import GUARDS
from tests.simulation.guards.laws import (
    each_trip_is_told_once,
    executed_equals_accepted_after_the_hook,
    refused_by_a_guardrail_never_runs,
)
from tests.simulation.guards.tools import halved
from tests.simulation.mutants.mutant import mutant, mutants_in, patch, skip
from tests.simulation.state.laws import state_is_the_replay_of_its_changes

if TYPE_CHECKING:
    from continuations.authoring.guardrails import Tripped
    from continuations.authoring.tool.tool_protocol import ToolProtocol
    from continuations.core.changes.events import (
        CallInvalid,
        CallRaised,
        Event,
    )
    from continuations.core.changes.plan import CheckCall
    from continuations.core.messages import Message
    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.draft import Draft
    from continuations.core.rows.frames import FrameRow
    from continuations.core.rows.run import Trip
    from continuations.core.rows.state import RunState
    from continuations.engine.hook_calls import GuardrailAgents
    from tests.simulation.mutants.mutant import Patches


@mutant(
    "The hook changes the arguments after the approval.",
    breaks=(executed_equals_accepted_after_the_hook,),
    family=GUARDS,
)
def the_hook_runs_after_the_approval() -> Patches:
    run_tool = Performer._run_tool

    async def checked(
        self: GuardedCall, tool: ToolProtocol, arguments: str
    ) -> CheckedCall | CallInvalid:
        del tool
        return await self.guarded(arguments)

    async def _run_tool(
        self: Performer, state: RunState, call: CallRow, fence: int
    ) -> Event:
        what = halved(jsontext.parse(call.arguments or "{}")["what"])
        changed = replace(call, arguments=jsontext.canonical({"what": what}))
        return await run_tool(self, state, changed, fence)

    yield patch(GuardedCall.checked, checked)
    yield patch(Performer._run_tool, _run_tool)


@mutant(
    "A worker that goes on after a crash does not ask the guardrails.",
    breaks=(
        refused_by_a_guardrail_never_runs,
        executed_equals_accepted_after_the_hook,
    ),
    family=GUARDS,
)
def guardrails_are_ignored_after_a_crash() -> Patches:
    original = GuardedCall.guarded

    async def guarded(self: GuardedCall, arguments: str) -> CheckedCall | CallInvalid:
        claim = self.state.run.claim
        if claim is not None and claim.attempt > 1:
            return CheckedCall(arguments=arguments)
        return await original(self, arguments)

    yield patch(GuardedCall.guarded, guarded)


@mutant(
    "A guardrail that refuses is not asked if one before it asks.",
    breaks=(refused_by_a_guardrail_never_runs,),
    family=GUARDS,
)
def a_question_hides_a_refusal() -> Patches:
    original = GuardedCall.guarded

    async def guarded(self: GuardedCall, arguments: str) -> CheckedCall | CallInvalid:
        guardrails = self.agent.guardrails
        assert guardrails is not None
        check: Any = guardrails.of_stage("tool")[0].check
        tripped: Tripped | None = check(self._info(arguments))
        if tripped is None:
            return await original(self, arguments)
        trip = new_trip(self._path, self.call.frame_id, "asks", "tool", tripped.reason)
        return CheckedCall(arguments=arguments, trip=trip)

    yield patch(GuardedCall.guarded, guarded)


@mutant(
    "Arguments that a person approved are not shown to guardrails that refuse.",
    breaks=(refused_by_a_guardrail_never_runs,),
    family=GUARDS,
)
def edited_arguments_are_not_checked() -> Patches:
    original = CallExaminer.guarded_again

    async def guarded_again(
        self: CallExaminer,
        state: RunState,
        call: CallRow,
        agents: GuardrailAgents | None = None,
    ) -> Event | CheckCall | None:
        if call.approved_digest is not None:
            return None
        return await original(self, state, call, agents)

    yield patch(CallExaminer.guarded_again, guarded_again)


@mutant(
    "The input of an agent that another agent calls is not checked.",
    breaks=(refused_by_a_guardrail_never_runs,),
    family=GUARDS,
)
def inputs_of_sub_agents_are_not_checked() -> Patches:
    original = guarded_turn.new_input

    def new_input(frame: FrameRow, messages: tuple[Message, ...]) -> str | None:
        return None if frame.depth else original(frame, messages)

    yield patch(guarded_turn.new_input, new_input)


@mutant(
    "A result that the hook after_tool saw has lost the changes of the state.",
    breaks=(state_is_the_replay_of_its_changes,),
    family=GUARDS,
)
def after_tool_loses_the_changes() -> Patches:
    original = GuardedCall.with_result

    async def with_result(
        self: GuardedCall, event: CallReturned | CallRaised
    ) -> CallReturned | CallRaised:
        result = await original(self, event)
        if isinstance(result, CallReturned):
            return replace(result, patch=None)
        return result

    yield patch(GuardedCall.with_result, with_result)


@mutant(
    "A trip is not stored with its frame.",
    breaks=(each_trip_is_told_once,),
    family=GUARDS,
)
def a_trip_is_not_recorded() -> Patches:
    yield skip(draft.record_trip)


@mutant(
    "A trip is stored twice.",
    breaks=(each_trip_is_told_once,),
    family=GUARDS,
)
def a_trip_is_recorded_twice() -> Patches:
    original = draft.record_trip

    def record(draft: Draft, trip: Trip) -> None:
        original(draft, trip)
        original(draft, trip)

    yield patch(draft.record_trip, record)


MUTANTS = mutants_in(globals())
