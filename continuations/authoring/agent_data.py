"""The protocol of an agent without its tools: everything else that the engine asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.authoring.compaction import Compaction
    from continuations.authoring.guardrails import Guardrails
    from continuations.authoring.hooks import Hooks
    from continuations.authoring.state_spec import StateSpec
    from continuations.authoring.suspend_conditions import SuspendCondition
    from continuations.core.model_protocol import Model, OutputSchema


class AgentData(Protocol):
    """The options of an agent that are not its tools."""

    @property
    def name(self) -> str:
        """The name of the agent."""
        ...

    @property
    def description(self) -> str | None:
        """The description for the model of a calling agent; `None`: the default."""
        ...

    @property
    def instructions(self) -> Any:
        """The instructions, or the function that makes them."""
        ...

    @property
    def instructions_digest(self) -> str:
        """The digest of the instructions; of the name if they are a function."""
        ...

    @property
    def renders_state(self) -> bool:
        """Whether the instructions are a function of the state, for each request."""
        ...

    async def render_instructions(self, state: Any) -> str:
        """Return the system message of one request from the present state."""
        ...

    async def make_instructions(self, agent_input: Any, context: Any) -> str:
        """Return the system message of a conversation; the function's errors pass."""
        ...

    @property
    def context_type(self) -> Any:
        """The class of the application's object; `None`: any."""
        ...

    @property
    def context_types(self) -> tuple[tuple[str, Any], ...]:
        """The `context_type` of this agent and of each one below, with its name."""
        ...

    @property
    def model(self) -> str | Model | None:
        """The name of a model, or a `Model`; `None`: a turn raises `ModelError`."""
        ...

    @property
    def model_name(self) -> str | None:
        """The name of the model; `None` if the agent has no model."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """Options that are sent to the provider unchanged."""
        ...

    @property
    def max_turns(self) -> int | None:
        """The limit of model turns in one frame; `None`: no limit."""
        ...

    @property
    def max_denials(self) -> int | None:
        """In how many turns one call may be denied; `None`: no limit."""
        ...

    @property
    def input_type(self) -> Any:
        """The type of the arguments when another agent calls this one."""
        ...

    @property
    def output_type(self) -> Any:
        """The type of the final reply."""
        ...

    @property
    def output_retries(self) -> int:
        """How often the model is asked again after a wrong final reply."""
        ...

    @property
    def hooks(self) -> Hooks | None:
        """The hooks; `None` without hooks."""
        ...

    @property
    def guardrails(self) -> Guardrails | None:
        """The guardrails; `None` without guardrails."""
        ...

    @property
    def state_spec(self) -> StateSpec | None:
        """The declared type of the state of each frame; `None`: no state."""
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
    def output_schema(self) -> OutputSchema | None:
        """The JSON Schema of the final reply; `None`: text."""
        ...

    def first_user_message(self, arguments_json: str) -> str:
        """Return the text of the first user message for the arguments of a call."""
        ...

    def parse_output(self, text: str) -> Any:
        """Return the output that a final reply contains; raises `OutputInvalid`."""
        ...

    @property
    def compaction(self) -> Compaction | None:
        """When the history of a frame is shortened; `None`: never."""
        ...
