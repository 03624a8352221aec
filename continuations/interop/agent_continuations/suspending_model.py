"""A model that asks the suspension functions of an agent before each turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.errors import ModelError
from continuations.models.openai_chat import OpenAIChat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from continuations.models.interface import ModelReply, ModelRequest

MODEL_NAME = "gpt-4o-mini"


class SuspendedByFunction(ModelError):
    """Suspension functions returned True, so the model was not asked."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(f"suspended by {', '.join(names)}. Pass the result on.")
        self.names = names


class SuspendingModel:
    """The model of the prototype, behind the suspension functions of an agent."""

    def __init__(self, functions: Sequence[Callable[[], bool]]) -> None:
        self._functions = functions
        self._model = OpenAIChat(MODEL_NAME)

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._model.name

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Ask the model; raises `SuspendedByFunction` if a function says so."""
        names = [each.__name__ for each in self._functions if each()]
        if names:
            raise SuspendedByFunction(names)
        return await self._model.reply(request)
