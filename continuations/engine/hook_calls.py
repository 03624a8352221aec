"""Call hooks and guardrails of an application, and check what they return."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, cast

from continuations.authoring import callables
from continuations.authoring.errors import OutputInvalid
from continuations.authoring.guardrails import Guardrail, Tripped
from continuations.core import jsontext
from continuations.core.messages import user_message
from continuations.core.model_protocol import ModelReply, ModelRequest
from continuations.core.usage import Usage
from continuations.engine.call_failures import describe_error
from continuations.engine.start.new_run import with_instructions
from continuations.errors import HookFailed
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from continuations.authoring.tool.tool_protocol import AgentProtocol
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
