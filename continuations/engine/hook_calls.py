"""Call hooks and guardrails, also before and after calls; check what they return."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from continuations.authoring import callables
from continuations.authoring.errors import ArgumentsInvalid, OutputInvalid
from continuations.authoring.guardrails import Guardrail, Tripped
from continuations.authoring.hooks import (
    CallInfo,
    ChangeArguments,
    ChangeResult,
    ResultInfo,
)
from continuations.core import jsontext
from continuations.core.changes.events import CallInvalid, CallRaised, CallReturned
from continuations.core.messages import user_message
from continuations.core.model_protocol import ModelReply, ModelRequest
from continuations.core.rows.frames import TRIPPED_CODE
from continuations.core.rows.run import Failure, Trip, failure_text, new_trip
from continuations.core.rows.state import RunState, frame_path
from continuations.core.usage import Usage
from continuations.core.words.secret_arguments import masked_json
from continuations.engine import call_failures
from continuations.engine.call_failures import describe_error
from continuations.engine.start.new_run import with_instructions
from continuations.errors import HookFailed
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from continuations.authoring.tool.tool_protocol import AgentProtocol, ToolProtocol
    from continuations.core.rows.calls import CallRow
    from continuations.engine.model_registry import ModelRegistry
    from continuations.engine.worker_options import RunOptions


_log = logging.getLogger("continuations")


class HookProblem(Exception):
    """A hook raised, or returned something invalid; the text says which.

    Attributes:
        guardrail: The name of the guardrail that failed; empty for a hook.
    """

    guardrail = ""


async def call_hook(
    function: Callable[..., Any],
    info: object,
    changes: tuple[type[Any], ...],
    *,
    who: str,
) -> Any:
    """Return the change that a function of an application returns, or `None`.

    `who` is the function with its run and agent, for the log. Raises `HookProblem`.
    """
    try:
        change: object = await callables.call(function, info)
    except BaseException as error:
        if callables.is_task_cancellation(error):
            raise
        _log.warning("%s raised: %s", who, describe_error(error))
        _log.debug("%s", who, exc_info=error)
        raise HookProblem(f"raised {type(error).__name__}") from error
    if change is None or isinstance(change, changes):
        return change
    wanted = " or ".join(["None", *(each.__name__ for each in changes)])
    raise HookProblem(f"returned {type(change).__name__} instead of {wanted}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailQuestion:
    """A question to the guardrails of one stage.

    Attributes:
        info: The value that functions get.
        text: Returns the text that agents read.
        agents: Asks the agents; `None` if all guardrails are functions.
        who: Returns a guardrail with its run and agent, for the log.
        may_ask: With False, the guardrails that ask a person are left out.
    """

    info: object
    text: Callable[[], str]
    agents: GuardrailAgents | None
    who: Callable[[str], str]
    may_ask: bool

    async def first_trip(
        self, guardrails: Iterable[Guardrail]
    ) -> tuple[Guardrail, Tripped] | None:
        """Return the first guardrail that refuses, or else the first that asks.

        Raises `HookProblem`, and the `ModelError` of a guardrail that is an agent.
        """
        asking: tuple[Guardrail, Tripped] | None = None
        for guardrail in guardrails:
            may_only_ask = guardrail.on_trip == "ask"
            if may_only_ask and (asking is not None or not self.may_ask):
                continue
            try:
                tripped = await self._asked(guardrail)
            except HookProblem as problem:
                problem.guardrail = guardrail.name or ""
                raise
            if tripped is None:
                continue
            if not may_only_ask:
                return guardrail, tripped
            asking = guardrail, tripped
        return asking

    async def _asked(self, guardrail: Guardrail) -> Tripped | None:
        who = self.who(guardrail.name or "")
        if guardrail.agent is None:
            check: Any = guardrail.check
            tripped: Tripped | None = await call_hook(
                check, self.info, (Tripped,), who=who
            )
            return tripped
        assert self.agents is not None  # noqa: S101 - a check with agents has them
        asked = cast("AgentProtocol", guardrail.agent)
        return await self.agents.ask(asked, self.text(), who)


def turn_error(hook: str, agent: str, run_id: str, problem: object) -> HookFailed:
    """Return the error of a turn whose hook or guardrail failed."""
    msg = (
        f"run {run_id}: {hook} of agent {agent!r} {problem}. The turn is not recorded. "
        "Correct the function, then resume the run."
    )
    error = HookFailed(msg, run_id=run_id)
    error.hook = hook
    return error


class GuardrailAgents:
    """Asks agents about texts, behind one gate.

    Attributes:
        usage: The cost of the requests so far.
    """

    def __init__(
        self,
        run_id: str,
        model_registry: ModelRegistry,
        run_options: RunOptions,
        may_request: Callable[[], bool],
        may_be_first: Callable[[], bool] = lambda: False,
    ) -> None:
        self.usage = Usage()
        self._run_id = run_id
        self._model_registry = model_registry
        self._run_options = run_options
        self._may_request = may_request
        self._may_be_first = may_be_first

    async def ask(self, agent: AgentProtocol, text: str, who: str) -> Tripped | None:
        """Let an agent check a text; raises `HookProblem` and `ModelError`."""
        context = self._run_options.context

        async def instructions(_: object) -> str:
            return await agent.make_instructions(text, context)

        system = await call_hook(instructions, text, (str,), who=who)
        request = ModelRequest(
            messages=with_instructions((user_message(text),), system or ""),
            output_schema=agent.output_schema,
            settings=agent.settings,
            agent=agent.name,
            run_id=self._run_id,
            prices=self._model_registry.prices,
        )
        reply = await self._model_registry.get_reply(
            agent,
            request,
            self._run_options.should_pause,
            may_request=self._may_request,
            may_be_first=self._may_be_first,
        )
        self.usage += reply.usage
        if not isinstance(reply, ModelReply):
            msg = "gives its reply later, and a guardrail must reply at once"
            raise HookProblem(msg)
        return _verdict(agent, reply)


def _verdict(agent: AgentProtocol, reply: ModelReply) -> Tripped | None:
    """Return what an agent replied; anything but a plain "no" lets nothing through."""
    try:
        verdict: Any = agent.parse_output(reply.message.content)
    except OutputInvalid:
        msg = "replied with an output that does not fit its output_type"
        raise HookProblem(msg) from None
    fields = jsontext.as_object(verdict)
    tripped: object = verdict.tripped if fields is None else fields["tripped"]
    reason = verdict.reason if fields is None else fields["reason"]
    if type(tripped) is not bool:
        msg = "replied with a value of tripped that is neither true nor false"
        raise HookProblem(msg)
    return Tripped(str(reason)) if tripped else None


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
    agents: GuardrailAgents | None = None
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
                change: ChangeArguments | None = await call_hook(
                    hooks.before_tool,
                    self._info(arguments),
                    (ChangeArguments,),
                    who=self._who("before_tool"),
                )
                if change is not None:
                    arguments = _changed_arguments(tool, change)
            except HookProblem as problem:
                reason = f"the hook before_tool {problem}."
                return call_failures.rejection(self.call, HOOK_CODE, reason)
        return await self.guarded(arguments)

    async def guarded(self, arguments: str) -> CheckedCall | CallInvalid:
        """Return a call, with the trip of a guardrail that asks, or its refusal."""
        guardrails = self.agent.guardrails
        if guardrails is None or not guardrails.tools:
            return CheckedCall(arguments=arguments)
        question = GuardrailQuestion(
            info=self._info(arguments),
            text=partial(self._text, arguments),
            agents=self.agents,
            who=self._who,
            may_ask=not self.is_answered,
        )
        try:
            found = await question.first_trip(guardrails.of_stage("tool"))
        except HookProblem as problem:
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
            change: ChangeResult | None = await call_hook(
                hooks.after_tool, info, (ChangeResult,), who=self._who("after_tool")
            )
            text = event.content if change is None else _checked_text(change.text)
        except HookProblem as problem:
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
        raise HookProblem(msg) from error
    if difference is not None:
        msg = f"returned arguments, and the tool would change {difference}"
        raise HookProblem(msg)
    return arguments


def _checked_text(text: object) -> str:
    if isinstance(text, str):
        return text
    msg = f"returned ChangeResult with {type(text).__name__} instead of a text"
    raise HookProblem(msg)
