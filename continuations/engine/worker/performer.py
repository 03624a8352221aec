"""Perform one action of the plan and return the event that follows from it."""

from __future__ import annotations

from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from continuations.authoring import callables
from continuations.authoring.errors import ResultNotSerializable
from continuations.authoring.tool.base_tool import BaseTool, is_handoff
from continuations.authoring.tool.call_gate import CallNotBegun, current_gate
from continuations.authoring.tool_waits import ToolWait
from continuations.core import jsontext
from continuations.core.changes import events
from continuations.core.changes.plan import AskModel, CheckCall, Launched, VerifyOutcome
from continuations.core.changes.tool_messages import SECOND_HANDOFF
from continuations.core.messages import user_message
from continuations.core.rows.calls import CallRow, Handoff, Unknown, handoff_of
from continuations.core.rows.decisions import Answer, Approve, Deny, Verdict
from continuations.core.rows.waits import decision_on
from continuations.core.usage import Usage
from continuations.engine import call_failures, call_waits
from continuations.engine.calls import parked_calls
from continuations.engine.calls.admission import Admission
from continuations.engine.calls.call_examination import (
    CallChecks,
    CallExaminer,
    is_possible,
)
from continuations.engine.calls.rule_approvals import RuleApprovals, asks_person
from continuations.engine.model_registry import CURRENT_WORK, ModelRegistry
from continuations.engine.start.new_run import stored_instructions, with_instructions
from continuations.engine.tool_contexts import call_state_of, make_tool_context
from continuations.engine.turns.model_turn import ModelTurn, SuspendChecks
from continuations.engine.worker_options import DEFAULT_RUN_OPTIONS, RunOptions
from continuations.errors import AgentChanged, InvalidInput, ModelError
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from continuations.authoring.context import ToolContext
    from continuations.authoring.tool.tool_protocol import AgentProtocol, ToolProtocol
    from continuations.core.rows.attachments import ResultWithFiles
    from continuations.core.rows.state import RunState
    from continuations.engine.events.event_feeds import EventFeed
    from continuations.engine.journal.file_storing import AttachedFiles
    from continuations.engine.ports import Ports
    from continuations.engine.stack.stack_binding import StackBinding
    from continuations.engine.work_observers import Work
    from continuations.engine.workflow.flow_drives import FlowDrives
    from continuations.engine.workflow.flows_of_worker import FlowsOfWorker
    from continuations.ledger.objects import Objects

    ResultOfTool: TypeAlias = str | ResultWithFiles | ToolWait[Any]


# No limit of an agent is lower.
_SHORT_RESULT = 200
_FILTER_ERROR = (
    "the filter of a handoff returned {}. Return a list of messages that it got, in "
    "their order."
)


def _no_claim() -> None:
    """Return nothing: without a store there is no claim."""


@dataclass(slots=True, eq=False)
class Performer:
    """Examines and starts calls, asks models, runs tools and verifies calls."""

    stack_binding: StackBinding
    ports: Ports
    model_registry: ModelRegistry
    run_options: RunOptions = DEFAULT_RUN_OPTIONS
    max_depth: int | None = None
    rules: RuleApprovals = field(default_factory=RuleApprovals)
    # When the claim under which calls run ends unless it is renewed, if there is one.
    claim_end: Callable[[], datetime | None] = field(kw_only=True, default=_no_claim)
    # Takes the parts of replies and the progress of tools.
    feed: EventFeed | None = field(kw_only=True, default=None)
    # The running code of the run's workflows.
    flows: FlowsOfWorker = field(kw_only=True)
    # The store of the run, if it has one, and the attachments once they are needed.
    objects: Objects | None = field(kw_only=True, default=None)
    files: AttachedFiles | None = field(kw_only=True, default=None)

    suspend_checks: SuspendChecks = field(init=False)
    _admission: Admission = field(init=False)
    _examiner: CallExaminer = field(init=False)

    # The calls that agents check.
    checks: CallChecks = field(init=False, default_factory=CallChecks)

    def __post_init__(self) -> None:
        """Make the checks before every call and before every turn."""
        self.suspend_checks = SuspendChecks(self.stack_binding, self.ports)
        self._admission = Admission(self.stack_binding, self.ports, rules=self.rules)
        self._examiner = CallExaminer(
            self.stack_binding,
            self.ports,
            self._admission,
            self.rules,
            self.run_options.context,
            self.max_depth,
            self.checks,
        )

    # Local actions -----------------------------------------------------------

    async def examine(self, state: RunState, call_id: str) -> events.Event | None:
        """Return the event of a proposed call; see `CallExaminer`.

        `None`: agents must check the call first; see `checks`.
        """
        call = state.calls[call_id]
        # No declared tool has such a name, but a model may invent it.
        if call.tool.startswith(".") and state.frames[call.frame_id].step:
            return self.drives.parked(state, call)
        return await self._examiner.examine(state, call_id)

    @property
    def drives(self) -> FlowDrives:
        """The running code of the workflows."""
        return self.flows.drives

    async def _check_call(self, state: RunState, check: CheckCall) -> events.CheckPaid:
        """Ask the agents that check a call; raises `ModelError`."""
        if not is_possible(state, check):
            self.checks.put_result(check, None)
            return events.CheckPaid(Usage())
        from continuations.engine.guards.guarded_turn import add_cost  # noqa: PLC0415 - few agents have one
        from continuations.engine.hook_calls import GuardrailAgents  # noqa: PLC0415

        gate = current_gate()
        agents = GuardrailAgents(
            state.run.id,
            self.model_registry,
            self.run_options,
            lambda: gate.is_open,
        )
        examiner, call = self._examiner, state.calls[check.call_id]
        try:
            event = (
                await examiner.guarded_again(state, call, agents)
                if check.before_start
                else await examiner.examine(state, call.id, agents)
            )
        except ModelError as error:
            add_cost(error, agents.usage)
            raise
        assert type(event) is not CheckCall  # noqa: S101 - the agents were asked
        self.checks.put_result(check, event)
        return events.CheckPaid(agents.usage)

    async def start_event(self, state: RunState, call_id: str) -> events.Event | None:
        """Return the event that records the start of a ready call or its sub-agent.

        `None`: agents must check the call first; see `checks`. If the call may not
        begin, it is the event that holds the call back. A sub-agent whose instructions
        function raises does not start.
        """
        call = state.calls[call_id]
        try:
            held: events.Event | CheckCall | None = await self._examiner.guarded_again(
                state, call
            )
            held = held or await self._admission.hold(state, call)
        except AgentChanged:
            raise
        except BaseException as error:
            if callables.is_task_cancellation(error):
                raise
            call_failures.log_error(state, call, "was not executed", error)
            if not call.attempts:
                return call_failures.rejection_for_error(call, error)
            note = f"The approval policy raised {type(error).__name__}."
            held = self._admission.ask_again(state, call, note)
        if held is not None:
            return held if type(held) is not CheckCall else None
        tool = self.stack_binding.unchanged_tool(state, call)
        agent = tool.sub_agent
        if agent is None:
            return events.CallStarted(call_id=call_id)
        return await self._agent_start(state, call, tool, agent)

    async def _agent_start(
        self, state: RunState, call: CallRow, tool: ToolProtocol, agent: AgentProtocol
    ) -> events.Event:
        """Return the event that gives a frame to an agent: a new one, or the call's."""
        if agent.is_workflow:
            return self._workflow_start(call, agent)
        hands_over = is_handoff(tool)
        calls = state.frames[call.frame_id].open_call_ids
        earlier = (
            handoff_of(map(state.calls.__getitem__, calls)) if hands_over else None
        )
        if earlier is not None:
            text = SECOND_HANDOFF.format(earlier.agent)
            return events.CallInvalid(call_id=call.id, code="handoff", content=text)
        if not hands_over:
            task = agent.first_user_message(call.arguments or "{}")
        elif self.stack_binding.is_holder(state, call.frame_id, agent):
            from continuations.core.changes.history import last_request  # noqa: PLC0415 - few agents hand over

            frame = state.frames[call.frame_id]
            task = last_request(state.logs[frame.id].messages, frame)
        else:
            text = f"two agents are named {agent.name}."
            return call_failures.rejection(call, "handoff", text)
        try:
            text = await stored_instructions(agent, task, self.run_options.context)
        except BaseException as error:
            if callables.is_task_cancellation(error):
                raise
            call_failures.log_error(state, call, "did not start its agent", error)
            reason = f"the instructions of the agent raised {type(error).__name__}"
            return call_failures.rejection(call, "instructions", f"{reason}.")
        if hands_over:
            return await self._handed_over(state, call, tool, agent, text)
        return events.SubAgentStarted(
            call_id=call.id,
            agent=agent.name,
            messages=with_instructions((user_message(task),), text),
            max_turns=agent.max_turns,
        )

    async def _handed_over(
        self,
        state: RunState,
        call: CallRow,
        tool: ToolProtocol,
        agent: AgentProtocol,
        instructions: str,
    ) -> events.Event:
        try:
            dropped = await self._dropped(state, call, tool)
        except BaseException as error:
            if callables.is_task_cancellation(error):
                raise
            # The text of our own error has no text of the application.
            why = f": {error}" if isinstance(error, InvalidInput) else ""
            call_failures.log_error(state, call, f"did not hand over{why}", error)
            reason = "the filter of the handoff failed."
            return call_failures.rejection(call, "handoff", reason)
        before: Any = self.stack_binding.agent(state, call.frame_id)
        after: Any = agent
        keeps_state = before.state is after.state
        handoff = Handoff(agent.name, instructions, keeps_state, dropped)
        return events.HandedOver(call_id=call.id, handoff=handoff)

    async def _dropped(
        self, state: RunState, call: CallRow, tool: ToolProtocol
    ) -> tuple[int, ...]:
        """Return which messages the filter of a handoff takes away."""
        from continuations.authoring.agent.agent import Handoff as HandoffTool  # noqa: PLC0415 - few agents hand over

        if not isinstance(tool, HandoffTool) or tool.filter is None:
            return ()
        from continuations.core.changes import history  # noqa: PLC0415 - few handoffs have a filter

        messages = state.logs[call.frame_id].messages
        indexes = history.filtered_indexes(messages)
        # The function may change its own copies.
        copies = [messages[index].data for index in indexes]
        returned: object = await callables.call(tool.filter, copies)
        offered = [messages[index].data for index in indexes]
        if not isinstance(returned, list | tuple):
            raise InvalidInput(_FILTER_ERROR.format(f"a {type(returned).__name__}"))
        left = iter(zip(indexes, offered, strict=True))
        chosen: list[int] = []
        for message in cast("Sequence[object]", returned):
            found = next((index for index, each in left if each == message), None)
            if found is None:
                what = "a message that it did not get, twice, or in another order"
                raise InvalidInput(_FILTER_ERROR.format(what))
            chosen.append(found)
        frame = state.frames[call.frame_id]
        return history.dropped_indexes(messages, frame, chosen)

    def _workflow_start(
        self, call: CallRow, agent: AgentProtocol
    ) -> events.SubAgentStarted:
        from continuations.engine.start.new_run import start_entry  # noqa: PLC0415 - few runs have a workflow

        arguments = call.arguments or "{}"
        return events.SubAgentStarted(
            call_id=call.id,
            agent=agent.name,
            messages=(start_entry(arguments, self.ports),),
            step="new",
        )

    # Actions on the outside world --------------------------------------------

    async def perform(
        self, action: Launched, state: RunState, fence: int
    ) -> events.Event:
        """Ask a model, run a tool behind the current gate, verify or check a call.

        Raises `ModelError`, `TranscriptInvalid`, and `AgentChanged` if the call's tool
        is missing or has changed.
        """
        CURRENT_WORK.set(self._work(action, state))
        if isinstance(action, AskModel):
            return await self._ask_model(state, action.frame_id, fence)
        if type(action) is CheckCall:
            return await self._check_call(state, action)
        call = state.calls[action.call_id]
        if isinstance(action, VerifyOutcome):
            return await self._verify(state, call, fence)
        event = await self._run_tool(state, call, fence)
        agent = self.stack_binding.agent(state, call.frame_id)
        if agent.hooks is None or not isinstance(
            event, events.CallReturned | events.CallRaised
        ):
            return event
        return await self._examiner.guarded(state, call, agent).with_result(event)

    def _work(self, action: Launched, state: RunState) -> Work | None:
        """Return what the task of an action asks models for, if that is observed."""
        session = self.run_options.session
        if session is None or not isinstance(action, AskModel | CheckCall):
            return None
        frame_id = (
            action.frame_id
            if isinstance(action, AskModel)
            else state.calls[action.call_id].frame_id
        )
        from continuations.engine.work_observers import Work  # noqa: PLC0415 - for observers

        return Work(session, state, frame_id)

    async def _ask_model(
        self, state: RunState, frame_id: str, fence: int
    ) -> events.Event:
        frame = state.frames[frame_id]
        agent = self.stack_binding.agent(state, frame_id)
        if agent.compaction is not None:
            from continuations.engine.turns.compactor import Compactor  # noqa: PLC0415 - few agents have one

            compactor = Compactor(self.model_registry, self.run_options, self.ports)
            event = await compactor.event(state, frame, agent, agent.compaction)
            if event is not None:
                return event
        turn = ModelTurn(
            self.model_registry,
            self.run_options,
            self.ports,
            self.feed,
            self.files_of,
        )
        return await turn.ask(state, frame, agent, fence)

    async def _run_tool(
        self, state: RunState, call: CallRow, fence: int
    ) -> events.Event:
        tool = self.stack_binding.unchanged_tool(state, call)
        assert tool.sub_agent is None  # noqa: S101 - sub-agents have frames instead
        if call.approved_digest is not None:
            # The last check before the call: time passed since its start was recorded.
            held = await self._admission.hold(state, call)
            if held is not None:
                return held
        context = self._tool_context(state, call, tool, fence)
        gate = current_gate()
        try:
            if not isinstance(tool, BaseTool):
                gate.enter()  # a tool of another class does not ask the gate
            async with gate.time_limit(tool.timeout):
                result = await self._invoke(state, call, tool, context)
        except CallNotBegun:
            raise
        except ResultNotSerializable as error:
            text = (
                f"ERROR: the tool ran, but its result cannot be stored: {error}. Its "
                "effects remain."
            )
            return events.CallRaised(call_id=call.id, code="result", content=text)
        except BaseException as error:
            if callables.is_task_cancellation(error):
                raise
            failed = call_failures.FailedAttempts(
                partial(call_waits.wait_of_call, self.stack_binding, self.ports),
                self.ports,
                self.claim_end,
                self.run_options.context,
            )
            return await failed.event(state, call, tool, error, gate)
        patch = _patch_of(context)
        if isinstance(result, str):
            return self._text_result(state, call, result, patch)
        return await self._waiting_or_stored(state, call, tool, result, patch)

    async def _invoke(
        self, state: RunState, call: CallRow, tool: ToolProtocol, context: ToolContext
    ) -> ResultOfTool:
        """Call the tool, or its `on_answer` function, before its observer."""
        session = self.run_options.session
        observed = None
        if session is not None:
            observed = session.call(state, call, tool)
        if observed is None:
            return await _invoked(call, tool, context)
        context = replace(context, make_trace_context=observed.trace_context)
        try:
            result = await _invoked(call, tool, context)
        except CallNotBegun:
            observed.never_began()
            raise
        except BaseException as error:
            observed.ended(None, error)
            raise
        observed.ended(str(result) if isinstance(result, str) else None)
        return result

    def _text_result(
        self, state: RunState, call: CallRow, result: str, patch: str | None
    ) -> events.CallReturned:
        """Return the event of a result: a model reads its text, and code its value."""
        if state.frames[call.frame_id].step:
            return _json_result(call, result, patch)
        if len(result) > _SHORT_RESULT:
            result = self._within_limit(state, call, result)
        return events.CallReturned(call_id=call.id, content=str(result), patch=patch)

    async def _waiting_or_stored(
        self,
        state: RunState,
        call: CallRow,
        tool: ToolProtocol,
        result: ResultWithFiles | ToolWait[Any],
        patch: str | None,
    ) -> events.Event:
        """Return the event of a tool that waits, or that returned attachments."""
        if isinstance(result, ToolWait):
            return self._parked(state, call, tool, result, patch)
        from continuations.engine.journal.file_storing import stored_result  # noqa: PLC0415 - few tools return files

        event = await stored_result(
            self.files_of(state), call, result, self.ports, self.claim_end()
        )
        return (
            replace(event, patch=patch)
            if isinstance(event, events.CallReturned)
            else event
        )

    def files_of(self, state: RunState) -> AttachedFiles:
        """Return the attachments of the run."""
        if self.files is None:
            from continuations.engine.journal.file_storing import open_files  # noqa: PLC0415 - few runs have one

            self.files = open_files(self.objects, state.run)
        return self.files

    def _within_limit(self, state: RunState, call: CallRow, result: str) -> str:
        """Return the result of a tool, cut if the agent of the call limits it."""
        compaction = self.stack_binding.agent(state, call.frame_id).compaction
        if compaction is None or compaction.result_limit is None:
            return result
        from continuations.core.words.summaries import shorten_middle  # noqa: PLC0415 - few agents limit results

        return shorten_middle(result, compaction.result_limit)

    def _tool_context(
        self, state: RunState, call: CallRow, tool: ToolProtocol, fence: int
    ) -> ToolContext:
        """Return the context of a call, with its agent's state and the listener."""
        agent, call_state = self.stack_binding.find_agent(state, call.frame_id), None
        if agent is not None and agent.state_spec is not None:
            call_state = call_state_of(agent.state_spec, state, call, tool)
        made = make_tool_context(
            state.run,
            call,
            tool,
            self.ports,
            fence=fence,
            context=self.run_options.context,
            call_state=call_state,
        )
        if self.feed is None:
            return made
        return replace(made, report_progress=self.feed.progress(state, call, fence))

    async def _verify(self, state: RunState, call: CallRow, fence: int) -> events.Event:
        tool = self.stack_binding.tool(state, call)
        if tool is None or tool.contract_digest != call.contract_digest:
            return events.Unverified(call_id=call.id)
        context = self._tool_context(state, call, tool, fence)
        try:
            verdict = await tool.verify_call(call.arguments or "{}", context)
            if isinstance(verdict, Approve) and await self._now_asks(call, tool):
                verdict = None  # earlier code began the call; now a person is asked
        except BaseException as error:
            if callables.is_task_cancellation(error):
                raise
            call_failures.log_error(state, call, "could not be verified", error)
            verdict = None  # a check that fails establishes nothing
        if isinstance(verdict, ToolWait):
            # The job began before the worker died.
            patch = _patch_of(context)
            # Most `verify` functions know only the job of the first stage. Its wait has
            # ended, and would never end again.
            if call.stage:
                return events.Unverified(call_id=call.id)
            parked = self._parked(state, call, tool, verdict, patch)
            is_parked = isinstance(parked, events.CallParked)
            return parked if is_parked else events.Unverified(call_id=call.id)
        event = verification_event(self.ports, state, call, tool, verdict)
        if isinstance(event, events.Answered):
            event = replace(event, patch=_patch_of(context))
            if state.frames[call.frame_id].step and isinstance(verdict, Answer):
                text = jsontext.canonical(verdict.value)
                return replace(event, content=text, is_json=True)
        return event

    async def _now_asks(self, call: CallRow, tool: ToolProtocol) -> bool:
        """Return whether a call that began without an approval needs one now."""
        if call.approved_digest is not None or call.stage or tool.approval is None:
            return False
        return asks_person(await tool.needs_approval(call.arguments or "{}"))

    def _parked(
        self,
        state: RunState,
        call: CallRow,
        tool: ToolProtocol,
        asked: ToolWait[Any],
        patch: str | None,
    ) -> events.CallParked | events.CallRaised:
        """Return the event of a tool that returned a wait."""
        agent = self.stack_binding.find_agent(state, call.frame_id)
        return parked_calls.park(
            state, call, tool, asked, self.ports, agent=agent, patch=patch
        )


async def _invoked(
    call: CallRow, tool: ToolProtocol, context: ToolContext
) -> ResultOfTool:
    arguments = call.arguments or "{}"
    if call.answer is None:
        return await tool.invoke(arguments, context)
    return await tool.receive_answer(arguments, call.answer, context)


def _json_result(call: CallRow, result: str, patch: str | None) -> events.CallReturned:
    """Return the result of a call of a workflow, as the JSON of the value."""
    from continuations.authoring.tool.tool_results import JsonText  # noqa: PLC0415 - slow to import

    is_json = isinstance(result, JsonText)
    content = str(result) if is_json else jsontext.canonical(result)
    return events.CallReturned(
        call_id=call.id, content=content, patch=patch, is_json=True
    )


def _patch_of(context: ToolContext) -> str | None:
    """Return the fields of the state that a call changed; its attempt is over."""
    changed = context.call_state
    return None if changed is None else changed.take_patch()


def _is_over(ports: Ports, state: RunState, unknown: Unknown) -> bool:
    """Return whether a call of unknown outcome cannot be running any more."""
    over = state.waits[unknown.wait_id].approve_after
    return over is None or ports.clock.now() > over


def verification_event(
    ports: Ports,
    state: RunState,
    call: CallRow,
    tool: ToolProtocol,
    verdict: Verdict | None,
) -> events.Event:
    """Return the event of the verdict of a tool's `verify` function."""
    assert isinstance(call.state, Unknown)  # noqa: S101 - only such calls are verified
    match verdict:
        case Answer(value=str(text)):
            return events.Answered(call_id=call.id, content=text)
        case Answer(value=value):
            try:
                return events.Answered(
                    call_id=call.id, content=jsontext.canonical(value)
                )
            except jsontext.NotJson:
                return events.Unverified(call_id=call.id)
        case Approve(arguments=None) if _is_over(ports, state, call.state):
            contract = call_waits.approved_contract_digest(tool)
            arguments = call.arguments or "{}"
            digest = call_waits.approval_digest(state, call, arguments, contract)
            return events.Approved(call_id=call.id, digest=digest)
        case Deny(reason=reason):
            now = ports.clock.now()
            wait = state.waits[call.state.wait_id]
            decision = decision_on(wait, "deny", ports.ids.new_ulid(now), now)
            decision = replace(decision, by="verify", reason=reason)
            return events.Denied(call_id=call.id, decision=decision)
        case _:
            return events.Unverified(call_id=call.id)
