"""The hooks and guardrails of calls: before a call is examined, and after it ran."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from continuations.authoring.errors import ArgumentsInvalid
from continuations.authoring.hooks import (
    CallInfo,
    ChangeArguments,
    ChangeResult,
    ResultInfo,
)
from continuations.core import jsontext
from continuations.core.changes.events import CallInvalid, CallRaised, CallReturned
from continuations.core.rows.frames import TRIPPED_CODE
from continuations.core.rows.run import Failure, Trip, failure_text, new_trip
from continuations.core.rows.state import RunState, frame_path
from continuations.core.words.secret_arguments import masked_json
from continuations.engine import call_failures, hook_calls
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.authoring.tool.tool_protocol import AgentProtocol, ToolProtocol
    from continuations.core.rows.calls import CallRow

# The code of a call that a hook held back.
HOOK_CODE = "hook"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCall:
    """A call that may go on to its policy.

    Attributes:
        arguments: Its effective arguments, perhaps changed.
        trip: The guardrail that asks for an approval, or `None`.
    """

    arguments: str
    trip: Trip | None = None


@dataclass(frozen=True, slots=True)
class GuardedCall:
    """Asks the hooks and guardrails of an agent about one of its calls."""

    state: RunState
    call: CallRow
    agent: AgentProtocol
    context: Any
    # Asks the guardrails that are agents; `None` if all are functions.
    agents: hook_calls.GuardrailAgents | None = None
    # Whether a person answered the guardrails that ask.
    is_answered: bool = False
    # Paths of the arguments that no agent must read.
    secrets: tuple[str, ...] = ()

    async def checked(
        self, tool: ToolProtocol, arguments: str
    ) -> CheckedCall | CallInvalid:
        """Return a call with its changed arguments, or the end of the call."""
        hooks = self.agent.hooks
        if hooks is not None and hooks.before_tool is not None:
            try:
                change: ChangeArguments | None = await hook_calls.call_hook(
                    hooks.before_tool,
                    self._info(arguments),
                    (ChangeArguments,),
                    who=self._who("before_tool"),
                )
                if change is not None:
                    arguments = _changed_arguments(tool, change)
            except hook_calls.HookProblem as problem:
                reason = f"the hook before_tool {problem}."
                return call_failures.rejection(self.call, HOOK_CODE, reason)
        return await self.guarded(arguments)

    async def guarded(self, arguments: str) -> CheckedCall | CallInvalid:
        """Return a call, with the trip of a guardrail that asks, or its refusal."""
        guardrails = self.agent.guardrails
        if guardrails is None or not guardrails.tools:
            return CheckedCall(arguments=arguments)
        question = hook_calls.GuardrailQuestion(
            info=self._info(arguments),
            text=partial(self._text, arguments),
            agents=self.agents,
            who=self._who,
            may_ask=not self.is_answered,
        )
        try:
            found = await question.first_trip(guardrails.of_stage("tool"))
        except hook_calls.HookProblem as problem:
            reason = f"the guardrail {problem.guardrail} {problem}."
            return call_failures.rejection(self.call, HOOK_CODE, reason)
        if found is None:
            return CheckedCall(arguments=arguments)
        guardrail, tripped = found
        name, reason = guardrail.name or "", tripped.reason
        trip = new_trip(self._path, self.call.frame_id, name, "tool", reason)
        if guardrail.on_trip == "ask":
            return CheckedCall(arguments=arguments, trip=trip)
        return self._refused(trip, fails=guardrail.on_trip == "fail")

    def _text(self, arguments: str) -> str:
        """Return what an agent reads about the call."""
        shown = jsontext.parse(masked_json(arguments, self.secrets))
        return jsontext.canonical({"tool": self.call.tool, "arguments": shown})

    def _refused(self, trip: Trip, *, fails: bool) -> CallInvalid:
        failure = None
        if fails:
            text = failure_text(trip, f"the call of {self.call.tool}")
            failure = Failure(code=TRIPPED_CODE, message=text)
        reason = f"the guardrail {trip.guardrail} refused it: {trip.reason}"
        refused = call_failures.rejection(self.call, TRIPPED_CODE, reason)
        return replace(refused, trip=trip, failure=failure)

    async def with_result(
        self, event: CallReturned | CallRaised
    ) -> CallReturned | CallRaised:
        """Return the result of a tool that ran, as `after_tool` changes it.

        A result that the hook could not check is withheld.
        """
        hooks = self.agent.hooks
        if hooks is None or hooks.after_tool is None:
            return event
        call = self.call
        info = ResultInfo(
            run_id=self.state.run.id,
            agent=self.agent.name,
            path=self._path,
            call_id=call.id,
            tool=call.tool,
            arguments=jsontext.parse(call.arguments or "{}"),
            text=event.content,
            failed=isinstance(event, CallRaised),
            context=self.context,
        )
        try:
            change: ChangeResult | None = await hook_calls.call_hook(
                hooks.after_tool, info, (ChangeResult,), who=self._who("after_tool")
            )
            text = event.content if change is None else _checked_text(change.text)
        except hook_calls.HookProblem as problem:
            text = (
                f"ERROR: the tool ran, and its result is withheld: the hook after_tool "
                f"{problem}. Its effects remain."
            )
            return CallRaised(call_id=call.id, code=HOOK_CODE, content=text)
        if isinstance(event, CallRaised):
            return CallRaised(call_id=call.id, code=event.code, content=text)
        if text == event.content:
            return event
        return replace(event, content=text, parts_json=None)

    @property
    def _path(self) -> tuple[str, ...]:
        return (*frame_path(self.state, self.call.frame_id), self.call.tool)

    def _who(self, name: str) -> str:
        run_id, call = self.state.run.id, self.call
        return f"run {run_id}: {name} of agent {self.agent.name}, call {call.id}"

    def _info(self, arguments: str) -> CallInfo:
        return CallInfo(
            run_id=self.state.run.id,
            agent=self.agent.name,
            path=self._path,
            call_id=self.call.id,
            tool=self.call.tool,
            arguments=jsontext.parse(arguments),
            context=self.context,
        )


def _changed_arguments(tool: ToolProtocol, change: ChangeArguments) -> str:
    """Return arguments that a hook changed; they must fit as edited ones must."""
    try:
        edited = jsontext.canonical(dict(change.arguments))
        arguments = tool.effective_arguments(edited)
        difference = tool.find_edit_difference(edited)
    except (ArgumentsInvalid, TypeError, ValueError, jsontext.NotJson) as error:
        msg = "returned arguments that do not fit the tool"
        raise hook_calls.HookProblem(msg) from error
    if difference is not None:
        msg = f"returned arguments, and the tool would change {difference}"
        raise hook_calls.HookProblem(msg)
    return arguments


def _checked_text(text: object) -> str:
    if isinstance(text, str):
        return text
    msg = f"returned ChangeResult with {type(text).__name__} instead of a text"
    raise hook_calls.HookProblem(msg)
