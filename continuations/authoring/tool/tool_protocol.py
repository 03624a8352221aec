"""The protocols of a tool and of an agent: everything that the engine asks them.

They stand in one module, because each names the other: an agent has tools, and a tool
may start an agent. `Agent` and the classes of tools import only this module.

Arguments exist in three forms, and each form has one name in this package:

| name | type | form |
|---|---|---|
| `raw_arguments` | `str` | the text that the model or a person wrote |
| `arguments_json` | `str` | effective arguments, with defaults, as canonical JSON |
| `values` | `dict[str, Any]` | effective arguments as Python values by name |

Exactly the approved `arguments_json` run. `CallRow.arguments` has the same form.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.authoring.approval import ApprovalPolicy
    from continuations.authoring.arguments.typed_values import StateSpec
    from continuations.authoring.compaction import Compaction
    from continuations.authoring.context import ToolContext
    from continuations.authoring.guardrails import Guardrails
    from continuations.authoring.hooks import Hooks
    from continuations.authoring.suspend_conditions import SuspendCondition
    from continuations.authoring.tool import tool_options
    from continuations.authoring.tool_waits import ToolWait
    from continuations.core.model_protocol import Model, OutputSchema
    from continuations.core.rows.attachments import ResultWithFiles
    from continuations.core.rows.decisions import Answer, Approve, Deny
    from continuations.core.words.call_display import CallDisplay


class ToolProtocol(Protocol):
    """A tool that a model may call.

    `Tool` wraps a function of the application, and `AgentTool` an agent. The engine
    uses only this protocol.
    """

    @property
    def name(self) -> str:
        """The name under which the model calls the tool."""
        ...

    @property
    def description(self) -> str:
        """The description that the model reads."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments. Callers must not change it."""
        ...

    @property
    def schema_json(self) -> str:
        """The canonical JSON text of `parameters`."""
        ...

    @property
    def contract_digest(self) -> str:
        """The digest of name, version and schema, without titles and descriptions."""
        ...

    @property
    def model_text_digest(self) -> str:
        """The digest of description and schema with titles and descriptions."""
        ...

    @property
    def version(self) -> str | None:
        """The version that the author declared."""
        ...

    @property
    def approval(self) -> ApprovalPolicy | None:
        """The policy that decides which calls wait for a person; `None`: none do."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether a call has no side effect."""
        ...

    @property
    def repeatable(self) -> bool:
        """Whether the engine may repeat a call after a crash."""
        ...

    @property
    def verifiable(self) -> bool:
        """Whether `verify_call` can find out if an interrupted call took effect."""
        ...

    @property
    def timeout(self) -> float | None:
        """The time limit of one call in seconds; `None`: no limit."""
        ...

    @property
    def on_timeout(self) -> tool_options.OnTimeout:
        """The consequence of the time limit for a call that may not be repeated."""
        ...

    @property
    def retries(self) -> tool_options.Retries | None:
        """How a call is tried again after its function raised; `None`: it is not."""
        ...

    @property
    def on_error(self) -> tool_options.ToolErrorFunction | None:
        """The function that makes the text of an error; `None`: the standard text."""
        ...

    @property
    def secrets(self) -> tuple[str, ...]:
        """Paths of the arguments that people must not read."""
        ...

    @property
    def writes_state(self) -> bool:
        """Whether a call changes the state of the agent that makes it."""
        ...

    def display_call(self, arguments_json: str) -> CallDisplay | None:
        """Return what people read about a call; `None`: nothing is declared.

        Args:
            arguments_json: The effective arguments.

        Returns:
            The display.
        """
        ...

    async def enabled(self, context: Any) -> bool | tool_options.OfferCondition:
        """Return whether the model may call the tool now.

        Args:
            context: The application's object.

        Returns:
            Whether it is offered, or a function of an `OfferInfo` that says it. An
            exception of the function propagates.
        """
        ...

    @property
    def sub_agent(self) -> AgentProtocol | None:
        """The agent that runs, in a new frame, instead of `invoke`; `None`: none."""
        ...

    def effective_arguments(self, raw_arguments: str) -> str:
        """Return the effective arguments as canonical JSON.

        A second application changes nothing: `effective_arguments(result) == result`.

        Args:
            raw_arguments: The text that the model or a person wrote. An empty text
                stands for `{}`.

        Returns:
            The effective arguments, with defaults, as canonical JSON.

        Raises:
            ArgumentsInvalid: The arguments do not fit the schema. The text of the
                error is written for the model.
        """
        ...

    def find_edit_difference(self, edited_arguments: str) -> str | None:
        """Return where the tool would run with another value than a person's edit.

        Two spellings of one value are no difference: `500` and `500.0`, `+00:00` and
        `Z`, the members of a set in another order. Neither is a default that the
        schema shows and the edit leaves out.

        Args:
            edited_arguments: The arguments that the person wrote, as JSON.

        Returns:
            The place of the first difference, such as `items[2].price`; `None` if the
            tool would run with the values of the edit.

        Raises:
            ArgumentsInvalid: The arguments do not fit the tool.
        """
        ...

    async def needs_approval(self, arguments_json: str) -> bool | Approve | Deny:
        """Return whether a call waits for a person, or the decision of a rule.

        Args:
            arguments_json: The effective arguments.

        Returns:
            `True` if the call waits for a decision. `Approve` or `Deny`: the policy
            has decided, and the decision is recorded with its name.

        Raises:
            ArgumentsInvalid: In this process, the arguments do not fit the schema, or
                get other defaults: the code has changed.
            PolicyFailed: The policy returned neither `True` nor `False`, or raised.
                The call must not run.
        """
        ...

    @property
    def continues(self) -> bool:
        """Whether an `on_answer` function gets the answers that the tool waits for."""
        ...

    @property
    def cancels(self) -> bool:
        """Whether an `on_cancel` function is called when a call is cancelled."""
        ...

    async def cancel_call(self, arguments_json: str, ctx: ToolContext) -> None:
        """Call the `on_cancel` function; its exceptions propagate.

        Args:
            arguments_json: The effective arguments of the call.
            ctx: The context. Its idempotency key is the id of the wait that ended.

        Raises:
            ArgumentsInvalid: The arguments do not fit in this process. The function
                did not run.
        """
        ...

    def check_answer(self, answer_json: str) -> None:
        """Check an answer with the type that the `on_answer` function declares.

        Args:
            answer_json: The value of the answer.

        Raises:
            ArgumentsInvalid: The answer does not fit.
        """
        ...

    async def receive_answer(
        self, arguments_json: str, answer_json: str, ctx: ToolContext
    ) -> str | ResultWithFiles | ToolWait[Any]:
        """Call the `on_answer` function. An exception of its code propagates.

        Args:
            arguments_json: The effective arguments of the call.
            answer_json: The value of the answer.
            ctx: The context of the call.

        Returns:
            The result as the text that the model reads, or the next wait.

        Raises:
            ArgumentsInvalid: The arguments or the answer do not fit in this process.
                The function did not run.
            ResultNotSerializable: The function ran and returned a value without a JSON
                form.
        """
        ...

    async def invoke(
        self, arguments_json: str, ctx: ToolContext
    ) -> str | ResultWithFiles | ToolWait[Any]:
        """Execute the tool. An exception of the tool's code propagates.

        Args:
            arguments_json: The effective arguments.
            ctx: The context of the call.

        Returns:
            The result as the text that the model reads, or a wait.

        Raises:
            ArgumentsInvalid: In this process, the arguments do not fit the schema, or
                get other defaults: the code has changed. The tool did not run.
            ResultNotSerializable: The tool ran and returned a value without a JSON
                form.
        """
        ...

    async def verify_call(
        self, arguments_json: str, ctx: ToolContext
    ) -> Approve | Deny | Answer | ToolWait[Any] | None:
        """Find out if an interrupted call took effect.

        Args:
            arguments_json: The effective arguments of the call.
            ctx: The context of the call.

        Returns:
            `Answer(result)`: the call took effect. `Approve()`: it did not; run it.
            `Deny()`: it did not, and must not run any more. A wait, such as
            `external(...)`: it began a job, which is in progress. `None`: unknown.
        """
        ...


class AgentProtocol(Protocol):
    """An agent whose frames the engine runs. `Agent` implements it.

    The options are properties: the class of an agent may declare narrower types.
    """

    @property
    def name(self) -> str:
        """The name of the agent."""
        ...

    @property
    def description(self) -> str | None:
        """The description for the model of a calling agent; `None`: the default."""
        ...

    @property
    def is_workflow(self) -> bool:
        """Whether code decides the next step, and no model."""
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

    @property
    def tools_by_name(self) -> Mapping[str, ToolProtocol]:
        """The tools by name, in their order."""
        ...

    def get_tool(self, name: str) -> ToolProtocol | None:
        """Return a tool by name; `None` if the agent has no such tool."""
        ...


# The members that a simple class of a tool may lack, and the value without effect.
_MEMBERS_WITHOUT_EFFECT = {"retries": None, "on_error": None, "writes_state": False}
_MEMBERS = tuple(name for name in vars(ToolProtocol) if not name.startswith("_"))


def is_tool(value: object) -> TypeGuard[ToolProtocol]:
    """Return whether a value has every member of the protocol."""
    return not isinstance(value, type) and not missing_members(value)


def missing_members(value: object) -> tuple[str, ...]:
    """Return the names of the members that a value lacks."""
    # Not `isinstance` with a runtime-checkable protocol: before Python 3.12,
    # `isinstance` reads every property. It would import pydantic and build each schema.
    # `inspect.getattr_static` for each member would take most of the time of `Agent()`.
    present = [vars(each) for each in type(value).__mro__]
    with suppress(AttributeError):  # an object with slots
        present.append(object.__getattribute__(value, "__dict__"))
    return tuple(name for name in _MEMBERS if not any(name in each for each in present))


def is_complete_tool(value: object) -> TypeGuard[ToolProtocol]:
    """Return whether a value is a tool; raises `InvalidInput` if it is half of one."""
    if isinstance(value, type):
        return False
    missing = missing_members(value)
    if missing and 2 * len(missing) < len(_MEMBERS):
        names = ", ".join(missing)
        values = [
            f"{name} = {_MEMBERS_WITHOUT_EFFECT[name]}"
            for name in missing
            if name in _MEMBERS_WITHOUT_EFFECT
        ]
        hint = f" Values without effect: {', '.join(values)}." if values else ""
        raise InvalidInput(
            f"{type(value).__name__} is not a complete tool: it has no {names}. Add "
            f"these members of ToolProtocol, or make the tool with @tool.{hint}"
        )
    return not missing
