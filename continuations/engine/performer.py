"""Do one action of the plan and return the fact that came of it."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypedDict

from continuations.authoring import callables
from continuations.authoring.context import ToolContext
from continuations.authoring.errors import (
    ArgumentsInvalid,
    OutputInvalid,
    PolicyFailed,
    ResultNotSerializable,
)
from continuations.core import jsontext, transcript
from continuations.core.actions import AskModel, VerifyOutcome
from continuations.core.calls import Unknown
from continuations.core.decisions import Answer, Approve, Decision, Deny
from continuations.core.events import (
    Answered,
    ApprovalRequested,
    Approved,
    CallAccepted,
    CallInvalid,
    CallRaised,
    CallReturned,
    CallStarted,
    Denied,
    ModelReplied,
    SubAgentStarted,
    Unverified,
)
from continuations.core.model_protocol import ModelReply, ModelRequest, ToolSpec
from continuations.engine.new_run import (
    approval_digest,
    approved_contract_digest,
    first_messages,
    new_wait,
)
from continuations.engine.run_options import DEFAULT_RUN_OPTIONS, RunOptions
from continuations.errors import ModelError, TranscriptInvalid

if TYPE_CHECKING:
    from continuations.authoring.agent import Agent
    from continuations.authoring.tool_protocol import ToolProtocol
    from continuations.core.actions import RunTool
    from continuations.core.calls import CallRow
    from continuations.core.decisions import Verdict
    from continuations.core.events import Event
    from continuations.core.model_protocol import Model
    from continuations.core.state import RunState
    from continuations.engine.ports import Ports
    from continuations.engine.stack_binding import StackBinding

_log = logging.getLogger("continuations")
_HISTORY_LOST_NOTE = (
    "Versions of this run were lost, and the call may have been made in them. Find out "
    "before you approve it; if it was made, deny it and say so."
)


@dataclass(slots=True)
class Performer:
    """Asks models and runs tools; `context` is the user's live object."""

    stack_binding: StackBinding
    ports: Ports
    model_registry: ModelRegistry
    run_options: RunOptions = DEFAULT_RUN_OPTIONS
    max_depth: int | None = None

    # In this process, at once ------------------------------------------------

    async def examine(self, state: RunState, call_id: str) -> Event:
        """Find a proposed call's tool, validate its arguments, ask its policy.

        Nothing that a tool or a policy raises lets the call run.
        """
        call = state.calls[call_id]
        agent = self.stack_binding.agent(state, call.frame_id)
        tool = agent.get_tool(call.tool)
        if tool is None:
            names = ", ".join(agent.tools_by_name) or "none"
            text = f"there is no tool {call.tool!r}. The tools are: {names}."
            return _rejection(call, "unknown_tool", text)
        if tool.sub_agent is not None and self._is_too_deep(state, call):
            text = f"{self.max_depth} levels of agents are the most."
            return _rejection(call, "depth", text)
        try:
            arguments = tool.effective_arguments(call.raw_arguments)
            asks = await tool.needs_approval(arguments)
        except BaseException as error:
            if callables.is_task_cancellation(error):
                raise
            _log_tool_error(state, call, "was not executed", error)
            return _rejection_for_error(call, error)
        seen = _ExaminedCall(
            call_id=call_id,
            arguments=arguments,
            contract_digest=tool.contract_digest,
            repeatable=tool.repeatable,
            verifiable=tool.verifiable,
        )
        # An idempotent tool, too: a call made anew has a new key.
        acts = tool.sub_agent is None and not tool.read_only
        doubtful = state.run.history_lost and acts
        if not asks and not doubtful:
            return CallAccepted(**seen)
        now = self.ports.clock.now()
        wait = new_wait(
            state,
            call,
            tool,
            kind="approval",
            now=now,
            ulid=self.ports.ids.new_ulid(now),
            arguments=arguments,
            note=_HISTORY_LOST_NOTE if doubtful else None,
        )
        return ApprovalRequested(wait=wait, **seen)

    def _is_too_deep(self, state: RunState, call: CallRow) -> bool:
        depth = state.frames[call.frame_id].depth + 1
        return self.max_depth is not None and depth >= self.max_depth

    def begin(self, state: RunState, call_id: str) -> Event:
        """Return the intent to run a ready call, or the way into its agent."""
        call = state.calls[call_id]
        tool = self.stack_binding.unchanged_tool(state, call)
        agent = tool.sub_agent
        if agent is None:
            return CallStarted(call_id=call_id)
        return SubAgentStarted(
            call_id=call_id,
            agent=agent.name,
            messages=first_messages(
                agent, agent.first_user_message(call.arguments or "{}")
            ),
            max_turns=agent.max_turns,
        )

    # In the world ------------------------------------------------------------

    async def perform(
        self, action: AskModel | RunTool | VerifyOutcome, state: RunState, fence: int
    ) -> Event:
        """Ask a model, run a tool or have it checked; raises only `ModelError`."""
        if isinstance(action, AskModel):
            return await self._ask_model(state, action.frame_id)
        call = state.calls[action.call_id]
        if isinstance(action, VerifyOutcome):
            return await self._verify(state, call, fence)
        return await self._run_tool(state, call, fence)

    async def _ask_model(self, state: RunState, frame_id: str) -> Event:
        agent = self.stack_binding.agent(state, frame_id)
        messages = state.logs[frame_id].messages
        wrong = transcript.find_violation(messages)
        if wrong is not None:
            msg = f"Run {state.run.id}, frame {frame_id}: {wrong}. It was not sent."
            raise TranscriptInvalid(msg, run_id=state.run.id)
        specs = tuple(
            ToolSpec(name=name, description=description, parameters=parameters)
            for name, description, parameters in agent.tool_specs
        )
        request = ModelRequest(
            messages=messages,
            tools=specs,
            output_schema=agent.output_schema,
            settings=agent.settings,
            agent=agent.name,
            run_id=state.run.id,
        )
        reply = await self.model_registry.get_reply(agent, request)
        return ModelReplied(
            frame_id=frame_id,
            message=reply.message,
            usage=reply.usage,
            finish_reason=reply.finish_reason,
            output_error=_output_error(agent, reply),
        )

    async def _run_tool(self, state: RunState, call: CallRow, fence: int) -> Event:
        tool = self.stack_binding.unchanged_tool(state, call)
        assert tool.sub_agent is None
        arguments = call.arguments or "{}"
        if call.approved_digest is not None:
            # The last look before the call: what runs is what was approved.
            meaning = approved_contract_digest(tool)
            if approval_digest(state, call, arguments, meaning) != call.approved_digest:
                text = "ERROR: what would run is not what was approved. Not executed."
                return CallRaised(call_id=call.id, code="digest", content=text)
        if self._approval_is_too_old(call):
            text = "ERROR: the approval was too old when the call began. Not executed."
            return CallRaised(call_id=call.id, code="stale", content=text)
        context = self._tool_context(state, call, tool, fence)
        limit = asyncio.timeout(tool.timeout)
        try:
            async with limit:
                content = await tool.invoke(arguments, context)
        except ResultNotSerializable as error:
            text = f"ERROR: the tool ran, but its result cannot be kept: {error}"
            return CallRaised(call_id=call.id, code="result", content=text)
        except BaseException as error:
            if callables.is_task_cancellation(error):
                raise
            _log_tool_error(state, call, "failed", error)
            return _tool_failure(call, tool, error, timed_out=limit.expired())
        return CallReturned(call_id=call.id, content=content)

    def _approval_is_too_old(self, call: CallRow) -> bool:
        # Only of the first attempt can it be said that it did not begin.
        until = call.approved_until if call.attempts <= 1 else None
        return until is not None and self.ports.clock.now() > until

    def _tool_context(
        self, state: RunState, call: CallRow, tool: ToolProtocol, fence: int
    ) -> ToolContext:
        deadline = None
        if tool.timeout is not None:
            deadline = self.ports.clock.now() + timedelta(seconds=tool.timeout)
        return ToolContext(
            run_id=state.run.id,
            call_id=call.id,
            idempotency_key=f"{state.run.run_nonce}-{call.id}",
            fence=fence,
            attempt=max(call.attempts, 1),
            deadline=deadline,
            context=self.run_options.context,
        )

    async def _verify(self, state: RunState, call: CallRow, fence: int) -> Event:
        tool = self.stack_binding.tool(state, call)
        if tool is None or tool.contract_digest != call.contract_digest:
            return Unverified(call_id=call.id)
        context = self._tool_context(state, call, tool, fence)
        try:
            found = await tool.verify_call(call.arguments or "{}", context)
        except BaseException as error:
            if callables.is_task_cancellation(error):
                raise
            _log_tool_error(state, call, "could not be verified", error)
            found = None  # a check that fails cannot tell
        return self._verification_event(state, call, tool, found)

    def _verification_event(
        self,
        state: RunState,
        call: CallRow,
        tool: ToolProtocol,
        verdict: Verdict | None,
    ) -> Event:
        """Return what a tool's own check established."""
        assert isinstance(call.state, Unknown)  # noqa: S101 - nothing else is verified
        match verdict:
            case Answer(value=str(text)):
                return Answered(call_id=call.id, content=text)
            case Answer(value=value):
                try:
                    return Answered(call_id=call.id, content=jsontext.canonical(value))
                except jsontext.NotJson:
                    return Unverified(call_id=call.id)
            case Approve(arguments=None):
                meaning = approved_contract_digest(tool)
                digest = approval_digest(state, call, call.arguments or "{}", meaning)
                return Approved(call_id=call.id, digest=digest)
            case Deny(reason=reason):
                now = self.ports.clock.now()
                wait = state.waits[call.state.wait_id]
                decision = Decision(
                    id=self.ports.ids.new_ulid(now),
                    wait_id=wait.id,
                    kind="deny",
                    at=now,
                    digest=wait.digest,
                    by="verify",
                    reason=reason,
                )
                return Denied(call_id=call.id, decision=decision)
            case _:
                return Unverified(call_id=call.id)


def _is_valid_reply(value: object) -> bool:
    # A model may be anybody's: what it says that it returns is a promise.
    return isinstance(value, ModelReply) and value.message.role == "assistant"


class _ExaminedCall(TypedDict):
    """What an examination of a call establishes, gated or not."""

    call_id: str
    arguments: str
    contract_digest: str
    repeatable: bool
    verifiable: bool


def _rejection(call: CallRow, code: str, reason: str) -> CallInvalid:
    content = f"ERROR: the call was not executed: {reason}"
    return CallInvalid(call_id=call.id, code=code, content=content)


def _rejection_for_error(call: CallRow, error: BaseException) -> CallInvalid:
    if isinstance(error, ArgumentsInvalid):
        return _rejection(call, "arguments", f"its arguments are wrong: {error}")
    if isinstance(error, PolicyFailed):
        return _rejection(call, "policy", str(error))
    # A validator of the application's own may raise anything.
    return _rejection(call, "arguments", f"{type(error).__name__} was raised")


class ModelRegistry:
    """The models of this process by name; an adapter is made when first asked."""

    def __init__(self) -> None:
        self._by_name: dict[str, Model] = {}

    async def get_reply(self, agent: Agent, request: ModelRequest) -> ModelReply:
        """Return a model's reply; raises `ModelError` and nothing else."""
        model = self._model_of(agent, request)
        try:
            reply = await model.reply(request)
        except ModelError as error:
            error.run_id = request.run_id
            raise
        except BaseException as error:
            if callables.is_task_cancellation(error):
                raise
            msg = (
                f"Run {request.run_id}: the model of agent {agent.name!r} raised "
                f"{type(error).__name__}. The run is kept; mend that and resume it."
            )
            raise ModelError(msg, run_id=request.run_id) from error
        if _is_valid_reply(reply):
            return reply
        msg = (
            f"Run {request.run_id}: the model of agent {agent.name!r} returned no "
            "Reply with an assistant's message. The run is kept; mend that."
        )
        raise ModelError(msg, run_id=request.run_id)

    def _model_of(self, agent: Agent, request: ModelRequest) -> Model:
        if agent.model is None:
            msg = (
                f"Run {request.run_id}: agent {agent.name!r} has no model. Give it "
                'one: Agent(..., model="gpt-5-mini").'
            )
            raise ModelError(msg, run_id=request.run_id)
        if not isinstance(agent.model, str):
            return agent.model
        if agent.model not in self._by_name:
            from continuations.models.openai_chat import OpenAIChat  # noqa: PLC0415 - only when a model is asked

            self._by_name[agent.model] = OpenAIChat(agent.model)
        return self._by_name[agent.model]


def _output_error(agent: Agent, reply: ModelReply) -> str | None:
    if agent.output_type is None or reply.message.tool_call_ids:
        return None
    try:
        agent.parse_output(reply.message.content)
    except OutputInvalid as error:
        return str(error)
    return None


def _log_tool_error(
    state: RunState, call: CallRow, summary: str, error: BaseException
) -> None:
    # The words of an error may hold anything; they are for those who debug.
    kind = type(error).__name__
    run = state.run.id
    _log.warning("run %s: call %s of %s %s: %s", run, call.id, call.tool, summary, kind)
    _log.debug("run %s: call %s", run, call.id, exc_info=error)


def _error_text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as worse:  # noqa: BLE001 - its own __str__ fails
        return f"(its text raised {type(worse).__name__})"


def _tool_failure(
    call: CallRow, tool: ToolProtocol, error: BaseException, *, timed_out: bool
) -> CallRaised:
    if timed_out:
        text = (
            f"ERROR: the tool did not answer within {tool.timeout} s. Whether it had "
            "an effect is not known."
        )
        return CallRaised(call_id=call.id, code="timeout", content=text)
    text = f"ERROR: the tool failed: {type(error).__name__}: {_error_text(error)}"
    return CallRaised(call_id=call.id, code="exception", content=text)
