"""The protocol of an agent's turns: what the engine asks before and after a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from continuations.authoring.guardrails import Guardrails
    from continuations.authoring.hooks import Hooks
    from continuations.authoring.suspend_conditions import SuspendCondition


class TurnProtocol(Protocol):
    """The part of `AgentProtocol` about the turns of its model."""

    @property
    def output_retries(self) -> int:
        """How often the model is asked again after a wrong final reply."""
        ...

    @property
    def suspend_conditions(self) -> tuple[SuspendCondition, ...]:
        """The conditions that suspend a frame before a turn of the model."""
        ...

    @property
    def reset_tool_choice(self) -> bool:
        """Whether `tool_choice` applies to the first turn of a frame only."""
        ...

    @property
    def hooks(self) -> Hooks | None:
        """The hooks; `None`: there are none."""
        ...

    @property
    def guardrails(self) -> Guardrails | None:
        """The guardrails; `None`: there are none."""
        ...
