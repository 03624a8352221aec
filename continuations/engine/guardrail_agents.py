"""Ask the agents that are guardrails, each with one request to its model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.authoring.errors import OutputInvalid
from continuations.authoring.guardrails import Tripped
from continuations.core import jsontext
from continuations.core.messages import user_message
from continuations.core.model_protocol import ModelReply, ModelRequest
from continuations.core.usage import Usage
from continuations.engine.hook_calls import HookProblem, call_hook
from continuations.engine.new_run import with_instructions

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations.authoring.tool_protocol import AgentProtocol
    from continuations.engine.model_registry import ModelRegistry
    from continuations.engine.run_options import RunOptions


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
