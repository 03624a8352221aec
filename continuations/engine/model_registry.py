"""The models of this process, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.authoring import callables
from continuations.core.model_protocol import ModelReply
from continuations.errors import ModelError

if TYPE_CHECKING:
    from continuations.authoring.tool_protocol import AgentProtocol
    from continuations.core.model_protocol import Model, ModelRequest


class ModelRegistry:
    """Requests replies; makes the adapter of a named model on its first request."""

    def __init__(self) -> None:
        self._by_name: dict[str, Model] = {}

    async def get_reply(
        self, agent: AgentProtocol, request: ModelRequest
    ) -> ModelReply:
        """Return the reply of an agent's model; raises only `ModelError`."""
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
                f"run {request.run_id}: the model of agent {agent.name!r} raised "
                f"{type(error).__name__}. Correct the cause, then resume the run."
            )
            raise ModelError(msg, run_id=request.run_id) from error
        if _is_assistant_reply(reply):
            return reply
        msg = (
            f"run {request.run_id}: the model of agent {agent.name!r} did not return a "
            "ModelReply with an assistant message. Correct the model, then resume the "
            "run."
        )
        raise ModelError(msg, run_id=request.run_id)

    def _model_of(self, agent: AgentProtocol, request: ModelRequest) -> Model:
        if agent.model is None:
            msg = (
                f"run {request.run_id}: agent {agent.name!r} has no model. Pass "
                'Agent(..., model="gpt-5-mini"), then resume the run.'
            )
            raise ModelError(msg, run_id=request.run_id)
        if not isinstance(agent.model, str):
            return agent.model
        if agent.model not in self._by_name:
            from continuations.models.openai_chat import OpenAIChat  # noqa: PLC0415 - only when a model is asked

            self._by_name[agent.model] = OpenAIChat(agent.model)
        return self._by_name[agent.model]


def _is_assistant_reply(value: object) -> bool:
    # An application's own model may return anything.
    return isinstance(value, ModelReply) and value.message.role == "assistant"
