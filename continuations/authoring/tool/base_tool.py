"""The parts that the tools of functions and of agents share."""

from __future__ import annotations

import copy
import re
from abc import ABC, abstractmethod
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from continuations.authoring import callables
from continuations.authoring.errors import EnabledInvalid
from continuations.authoring.tool import tool_options
from continuations.authoring.tool_contract import (
    compute_contract_digest,
    compute_model_text_digest,
)
from continuations.core import jsontext
from continuations.errors import InvalidInput
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from continuations.authoring.approval import ApprovalPolicy
    from continuations.authoring.arguments.arguments import ArgumentsValidator
    from continuations.authoring.context import ToolContext
    from continuations.authoring.readings import DeclaredDisplay, Reading, Summary
    from continuations.authoring.tool.schema_parameters import SchemaParameters
    from continuations.authoring.tool.tool_parameters import FunctionParameters
    from continuations.authoring.tool.tool_protocol import AgentProtocol, ToolProtocol
    from continuations.authoring.tool_waits import ToolWait
    from continuations.core.rows.attachments import ResultWithFiles
    from continuations.core.rows.decisions import Answer, Approve, Deny
    from continuations.core.words.call_display import CallDisplay

    ToolParameters: TypeAlias = (
        FunctionParameters | SchemaParameters | ArgumentsValidator
    )


_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # the names that providers accept


@dataclass(frozen=True, slots=True)
class _Contract:
    schema_json: str
    digest: str
    model_text_digest: str


class BaseTool(ABC):
    """The options, digests and approval policy of a tool (see `ToolProtocol`)."""

    # The options after their checks; see `ToolOptions`.
    approval: ApprovalPolicy | None
    read_only: bool
    idempotent: bool
    timeout: float | None
    on_timeout: tool_options.OnTimeout
    retries: tool_options.Retries | None
    on_error: tool_options.ToolErrorFunction | None
    verify: Callable[..., Any] | None
    version: str | None
    is_enabled: bool | tool_options.EnabledCondition
    summary: Summary | None
    reversible: bool | None
    writes_state: bool

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        check_tool_name(name)
        vars(self).update(tool_options.checked_options(name, options))
        self.name: str = name
        self.never_asks = options.get("approval") is False

    def _check_summary(
        self, names: Sequence[str] | None, type_of: Callable[[str], Any]
    ) -> None:
        if self.summary is not None:
            from continuations.authoring import readings  # noqa: PLC0415 - few tools have one

            readings.check_summary(self.name, self.summary, names, type_of)

    def _check_approval_parameters(self, names: Sequence[str] | None) -> None:
        """Check that the tool has every argument that the condition requires."""
        policy = self.approval
        if policy is None:
            return
        for label, function in (("approval", policy.when), ("recheck", policy.recheck)):
            if callable(function):
                callables.check_callback_parameters(
                    function, names, f"tool {self.name}: {label}"
                )
        unknown = [n for n in policy.editable or () if names and n not in names]
        if unknown:
            raise InvalidInput(
                f"tool {self.name}: editable has {unknown[0]!r}, which is no argument "
                f"of the tool. Its arguments: {', '.join(names or ())}."
            )

    @property
    def _argument_names(self) -> Sequence[str] | None:
        """The names of the arguments; `None` if they are not readable yet."""
        return None

    def with_policy(self, policy: ApprovalPolicy) -> Self:
        """Return a copy that asks by the policy of its agent.

        Raises `InvalidInput` if the policy does not fit the arguments.
        """
        made = copy.copy(self)
        made.approval = policy
        made.check_policy_fits()
        return made

    def with_name(self, name: str) -> Self:
        """Return a copy with another name, and with the contract of that name."""
        made = copy.copy(self)
        made.name = name
        vars(made).pop("_contract", None)
        return made

    def check_policy_fits(self) -> None:
        """Raise `InvalidInput` unless the policy fits the arguments."""
        self._check_approval_parameters(self._argument_names)

    async def enabled(self, context: Any) -> bool | tool_options.OfferCondition:
        """Return whether the model may call the tool; see `ToolProtocol.enabled`."""
        if not callable(self.is_enabled):
            return self.is_enabled
        if not callables.takes_positional(self.is_enabled, 1):
            return partial(self._asked, context)
        return await self._asked(context)

    async def _asked(self, *values: Any) -> bool:
        function: Any = self.is_enabled
        verdict: object = await callables.call(function, *values)
        if isinstance(verdict, bool):
            return verdict
        # A value may hold a secret; these types do not.
        shown = verdict is None or isinstance(verdict, int | float)
        got = repr(verdict) if shown else f"a value of type {type(verdict).__name__}"
        raise EnabledInvalid(f"is_enabled returned {got}. Return True or False")

    @property
    def repeatable(self) -> bool:
        """Whether the engine may repeat a call after a crash."""
        return self.read_only or self.idempotent

    @property
    def verifiable(self) -> bool:
        """Whether the tool has a `verify` function."""
        return self.verify is not None

    @property
    def continues(self) -> bool:
        """Whether an `on_answer` function gets the answers that the tool waits for."""
        return False

    @property
    def cancels(self) -> bool:
        """Whether an `on_cancel` function is called when a call is cancelled."""
        return False

    @property
    def sub_agent(self) -> AgentProtocol | None:
        """The agent that a call starts; `None` for every tool but an agent's."""
        return None

    @property
    def is_handoff(self) -> bool:
        """Whether a call gives its own frame to `sub_agent`, and starts none."""
        return False

    @property
    def _readings(self) -> Mapping[str, Reading]:
        """The readings of arguments, by their paths."""
        return {}

    @property
    def secrets(self) -> tuple[str, ...]:
        """Paths of the arguments that people must not read."""
        return () if self._display is None else self._display.secrets

    def display_call(self, arguments_json: str) -> CallDisplay | None:
        """Return what people read; see `ToolProtocol.display_call`."""
        if self._display is None:
            return None
        return self._display.of_call(
            arguments_json, lambda: self._parameters.values_by_name(arguments_json)
        )

    @cached_property
    def _display(self) -> DeclaredDisplay | None:
        readings = self._readings
        if self.summary is None and self.reversible is None and not readings:
            return None
        from continuations.authoring import readings as of_people  # noqa: PLC0415 - few tools have one

        money, secrets = of_people.split_readings(readings)
        return of_people.DeclaredDisplay(
            self.name, self.summary, self.reversible, money, secrets
        )

    @property
    @abstractmethod
    def description(self) -> str:
        """The description that the model reads."""

    @property
    @abstractmethod
    def _parameters(self) -> ToolParameters:
        """The parameters, which read the arguments."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments. Callers must not change it.

        Raises:
            InvalidInput: The signature or the schema of the tool cannot be read.
        """
        return self._parameters.schema

    # Properties, not cached ones: as a member of a protocol, a cached property is
    # not a `str` to pyright.
    @property
    def schema_json(self) -> str:
        """The canonical JSON text of `parameters`."""
        return self._contract.schema_json

    @property
    def contract_digest(self) -> str:
        """The digest of name, version and schema, without titles and descriptions."""
        return self._contract.digest

    @property
    def model_text_digest(self) -> str:
        """The digest of the whole text that the model reads."""
        return self._contract.model_text_digest

    @cached_property
    def _contract(self) -> _Contract:
        schema = self.parameters
        return _Contract(
            schema_json=jsontext.canonical(dict(schema)),
            digest=compute_contract_digest(self.name, self.version, schema),
            model_text_digest=compute_model_text_digest(self.description, schema),
        )

    def effective_arguments(self, raw_arguments: str) -> str:
        """Return the effective arguments; see `ToolProtocol.effective_arguments`."""
        return self._parameters.effective_arguments(raw_arguments)

    def find_edit_difference(self, edited_arguments: str) -> str | None:
        """Compare an edit; see `ToolProtocol.find_edit_difference`."""
        return self._parameters.find_edit_difference(edited_arguments)

    async def needs_approval(self, arguments_json: str) -> bool | Approve | Deny:
        """Return whether a call waits; see `ToolProtocol.needs_approval`."""
        if self.approval is None:
            return False
        return await self.approval.needs_approval(
            self._parameters.values_by_name(arguments_json)
        )

    async def why_not_now(self, arguments_json: str) -> str | None:
        """Return why an approved call must not begin now, or `None`."""
        if self.approval is None or self.approval.recheck is None:
            return None
        return await self.approval.why_not_now(
            self._parameters.values_by_name(arguments_json)
        )

    @abstractmethod
    async def invoke(
        self, arguments_json: str, ctx: ToolContext
    ) -> str | ResultWithFiles | ToolWait[Any]:
        """Execute the tool; see `ToolProtocol.invoke`."""

    def check_answer(self, answer_json: str) -> None:
        """Accept every answer; see `ToolProtocol.check_answer`."""
        del answer_json

    async def receive_answer(
        self, arguments_json: str, answer_json: str, ctx: ToolContext
    ) -> str | ResultWithFiles | ToolWait[Any]:
        """Raise `TypeError`: only `Tool` has an `on_answer` function."""
        del arguments_json, answer_json, ctx
        raise TypeError(f"tool {self.name} has no on_answer function")

    async def cancel_call(self, arguments_json: str, ctx: ToolContext) -> None:
        """Do nothing: only `Tool` has an `on_cancel` function."""
        del arguments_json, ctx

    async def verify_call(
        self, arguments_json: str, ctx: ToolContext
    ) -> Approve | Deny | Answer | ToolWait[Any] | None:
        """Return `None`: only `Tool` has a `verify` function."""
        del arguments_json, ctx
        return None


def check_tool_name(name: object) -> None:
    """Raise `InvalidInput` unless providers accept the name of a tool."""
    if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
        raise InvalidInput(
            "a tool's name must be 1 to 64 characters of [a-zA-Z0-9_-], got"
            f" {str(name)[:80]!r}. Pass another name with name=."
        )


def is_handoff(tool: ToolProtocol) -> bool:
    """Return whether a call of a tool gives its frame to another agent."""
    return isinstance(tool, BaseTool) and tool.is_handoff
