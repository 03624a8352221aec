"""Examine a call that a model proposed: its tool, arguments, guardrails and policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.authoring import callables
from continuations.authoring.tool.base_tool import is_handoff
from continuations.core.changes import events
from continuations.core.changes.plan import CheckCall
from continuations.core.rows.calls import CallRow, Proposed, Ready
from continuations.core.rows.decisions import Approve, Deny
from continuations.engine import call_failures
from continuations.engine.call_waits import wait_of_call
from continuations.engine.calls import rule_approvals
from continuations.engine.turns.model_turn import enabled_tools, is_enabled
from continuations.errors import ModelError
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from continuations.authoring.tool.tool_protocol import AgentProtocol, ToolProtocol
    from continuations.core.rows.run import Trip
    from continuations.core.rows.state import RunState
    from continuations.engine.calls.admission import Admission
    from continuations.engine.calls.rule_approvals import RuleApprovals
    from continuations.engine.hook_calls import GuardedCall, GuardrailAgents
    from continuations.engine.ports import Ports
    from continuations.engine.stack.stack_binding import StackBinding


_HISTORY_LOST_NOTE = (
    "Versions of this run were lost, and this call may have run in them. Find out "
    "before you approve it. If it ran, deny it and give that as the reason."
)

_LEFT_NOTE = (
    "This run goes on from an earlier version, and calls of this tool were approved or "
    "started after that version. Find out what they did before you approve this call."
)


@dataclass(frozen=True, slots=True)
class CallExaminer:
    """Decides what follows from a call that a model proposed."""

    stack_binding: StackBinding
    ports: Ports
    admission: Admission
    rules: RuleApprovals
    context: Any
    max_depth: int | None
    checks: CallChecks

    async def examine(
        self, state: RunState, call_id: str, agents: GuardrailAgents | None = None
    ) -> events.Event | None:
        """Find a proposed call's tool, validate its arguments and ask its policy.

        With `agents`, the agents that check the call are asked; raises their
        `ModelError`. Otherwise their check must have been made: `None` if it was not.

        The hook and the guardrails of the agent come before the policy: what is
        approved is what runs. A call does not run if its tool's validation, its policy,
        the hook or a guardrail raises anything.
        """
        call = state.calls[call_id]
        agent = self.stack_binding.agent(state, call.frame_id)
        guardrails = agent.guardrails
        if agents is None and guardrails and guardrails.asks_agents_about_calls:
            check = CheckCall(call.frame_id, call_id)
            is_made = self.checks.is_made(check)
            return self.checks.take_result(check) if is_made else None
        tool = agent.get_tool(call.tool)
        if tool is None:
            tool = self.stack_binding.tool(state, call)  # it may have another name now
        frame = state.frames[call.frame_id]
        offer = agent, self.context, state, frame
        if tool is None or not await is_enabled(tool, *offer):
            offered = await enabled_tools(*offer, without=call.tool)
            names = ", ".join(each.name for each in offered) or "none"
            text = f"there is no tool {call.tool!r}. The tools are: {names}."
            return call_failures.rejection(call, "unknown_tool", text)
        limit = self._depth_limit(state)
        is_deeper = tool.sub_agent is not None and not is_handoff(tool)
        if is_deeper and _is_too_deep(state, call, limit):
            text = f"agents may be nested at most {limit} levels deep."
            return call_failures.rejection(call, "depth", text)
        trip = None
        try:
            arguments = tool.effective_arguments(call.raw_arguments)
            if agent.hooks is not None or agent.guardrails is not None:
                guarded = self.guarded(state, call, agent, agents)
                checked = await guarded.checked(tool, arguments)
                if isinstance(checked, events.CallInvalid):
                    return checked
                arguments, trip = checked.arguments, checked.trip
            verdict = await tool.needs_approval(arguments)
        except BaseException as error:
            if callables.is_task_cancellation(error) or isinstance(error, ModelError):
                raise
            call_failures.log_error(state, call, "was not executed", error)
            return call_failures.rejection_for_error(call, error)
        examined = rule_approvals.examined_call(call_id, tool, arguments)
        return await self._admitted(state, call, tool, examined, verdict, trip)

    async def _admitted(
        self,
        state: RunState,
        call: CallRow,
        tool: ToolProtocol,
        examined: rule_approvals.ExaminedCall,
        verdict: bool | Approve | Deny,
        trip: Trip | None,
    ) -> events.Event:
        """Return the event of a valid call: it may run, waits or is denied."""
        # This includes idempotent tools: a call that is made again has a new key.
        has_effect = tool.sub_agent is None and not tool.read_only
        is_lost = state.run.history_lost
        is_left = self.stack_binding.is_tool_named(call, state.run.doubtful_tools)
        may_have_run = has_effect and (is_lost or is_left)
        asks = may_have_run or trip is not None
        if verdict is False and not asks:
            self.admission.examined_ids.add(call.id)
            return events.CallAccepted(**examined)
        note = None
        if may_have_run:
            note = _HISTORY_LOST_NOTE if is_lost else _LEFT_NOTE
        if trip is not None:
            note = _noted(trip, note)
        # A rule may deny the call. It does not approve what a guardrail refuses, and
        # not a call that may have run in versions that were lost or left.
        if not asks or type(verdict) is Deny:
            now = self.ports.clock.now()
            granted, renames = state, self.stack_binding.renames
            if renames is not None:
                granted = rule_approvals.with_grants_of_old_names(
                    state, call, tool, renames
                )
            ruling = await self.rules.rule(granted, call, tool, examined, verdict, now)
            if not isinstance(ruling, str | None):
                return ruling
            note = note or ruling
        return self._approval_request(state, call, examined, note, trip)

    def _approval_request(
        self,
        state: RunState,
        call: CallRow,
        examined: rule_approvals.ExaminedCall,
        note: str | None,
        trip: Trip | None,
    ) -> events.ApprovalRequested:
        arguments = examined["arguments"]
        parts = self.stack_binding, self.ports
        wait = wait_of_call(*parts, state, call, "approval", note, arguments=arguments)
        return events.ApprovalRequested(wait=wait, trip=trip, **examined)

    def _depth_limit(self, state: RunState) -> int | None:
        """Return the stricter one of the limits of this worker and of the run."""
        limits = (self.max_depth, state.run.max_depth)
        return min((each for each in limits if each is not None), default=None)

    # Guardrails ---------------------------------------------------------------

    def guarded(
        self,
        state: RunState,
        call: CallRow,
        agent: AgentProtocol,
        agents: GuardrailAgents | None = None,
    ) -> GuardedCall:
        """Return the hooks and guardrails of an agent for one of its calls."""
        from continuations.engine.hook_calls import GuardedCall  # noqa: PLC0415 - few agents have one

        tool = self.stack_binding.tool(state, call)  # under its old name, perhaps
        secrets = () if tool is None else tool.secrets
        return GuardedCall(state, call, agent, self.context, agents, secrets=secrets)

    async def guarded_again(
        self, state: RunState, call: CallRow, agents: GuardrailAgents | None = None
    ) -> events.Event | CheckCall | None:
        """Ask the guardrails about a ready call that another process accepted.

        Its code may have had no guardrail, or a person edited the arguments. A person
        who approves answers a guardrail that asks, and not one that refuses. A call
        that began before is not asked about again. `agents` is as in `examine`, with a
        `CheckCall` for a check that was not made.
        """
        is_approved = call.approved_digest is not None
        was_asked = (
            call.id in self.admission.examined_ids or call.id in self.checks.guarded_ids
        )
        if call.attempts or call.stage or was_asked:
            return None
        agent = self.stack_binding.agent(state, call.frame_id)
        if agent.guardrails is None or not agent.guardrails.tools:
            return None
        if agents is None and agent.guardrails.asks_agents_about_calls:
            check = CheckCall(call.frame_id, call.id, before_start=True)
            is_made = self.checks.is_made(check)
            return self.checks.take_result(check) if is_made else check
        if not is_approved and agents is None:
            # Not for an approved call: a later approval may bring other arguments.
            self.checks.guarded_ids.add(call.id)
        arguments = call.arguments or "{}"
        guarded = replace(
            self.guarded(state, call, agent, agents), is_answered=is_approved
        )
        checked = await guarded.guarded(arguments)
        if isinstance(checked, events.CallInvalid):
            return checked
        if checked.trip is None or is_approved:
            return None
        tool = self.stack_binding.unchanged_tool(state, call)
        examined = rule_approvals.examined_call(call.id, tool, arguments)
        note = _noted(checked.trip, None)
        return self._approval_request(state, call, examined, note, checked.trip)


def _noted(trip: Trip, note: str | None) -> str:
    from continuations.core.rows.run import approval_note  # noqa: PLC0415 - rarely needed

    return " ".join(filter(None, (approval_note(trip), note)))


def _is_too_deep(state: RunState, call: CallRow, limit: int | None) -> bool:
    return limit is not None and state.frames[call.frame_id].depth + 1 >= limit


class CallChecks:
    """The checks that one loop needs, and the results that it has not used.

    A check that a process did not finish is made again by the next one.

    Attributes:
        needed: The checks that have no result yet.
        guarded_ids: The accepted calls whose guardrails this process has asked again.
    """

    def __init__(self) -> None:
        self.needed: dict[CheckCall, None] = {}
        self.guarded_ids: set[str] = set()
        self._results: dict[CheckCall, events.Event | None] = {}

    def is_made(self, check: CheckCall) -> bool:
        """Return whether a check has a result; if not, it is needed."""
        if check in self._results:
            return True
        self.needed[check] = None
        return False

    def take_result(self, check: CheckCall) -> events.Event | None:
        """Remove and return the event that follows, `None` if the call may start."""
        return self._results.pop(check)

    def put_result(self, check: CheckCall, event: events.Event | None) -> None:
        """Keep the result of a check."""
        self._results[check] = event
        self.needed.pop(check, None)


def is_possible(state: RunState, check: CheckCall) -> bool:
    """Return whether the call of a check is still at the point that is checked."""
    call = state.calls.get(check.call_id)
    point = Ready if check.before_start else Proposed
    return call is not None and isinstance(call.state, point)
