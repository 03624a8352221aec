"""Call hooks and guardrails of an application, and check what they return."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol, cast

from continuations.authoring import callables
from continuations.authoring.guardrails import Tripped
from continuations.engine.error_reports import describe_error
from continuations.errors import HookFailed
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from continuations.authoring.guardrails import Guardrail
    from continuations.authoring.tool_protocol import AgentProtocol

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
        msg = f"raised {type(error).__name__}"
        raise HookProblem(msg) from error
    if change is None or isinstance(change, changes):
        return change
    wanted = " or ".join(["None", *(each.__name__ for each in changes)])
    msg = f"returned {type(change).__name__} instead of {wanted}"
    raise HookProblem(msg)


class AsksAgents(Protocol):
    """Asks the guardrails that are agents: `GuardrailAgents`."""

    async def ask(self, agent: AgentProtocol, text: str, who: str) -> Tripped | None:
        """Let an agent check a text; raises `HookProblem` and `ModelError`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailQuestion:
    """A question to the guardrails of one stage.

    Attributes:
        info: What functions get.
        text: Returns what agents read.
        agents: Asks the agents; `None` if all guardrails are functions.
        who: Returns a guardrail with its run and agent, for the log.
        may_ask: With False, the guardrails that ask a person are left out.
    """

    info: object
    text: Callable[[], str]
    agents: AsksAgents | None
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
