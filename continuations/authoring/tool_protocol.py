"""The protocol of a tool: everything that the engine asks a tool.

Arguments exist in three forms, and each form has one name in this package:

| name | type | form |
|---|---|---|
| `raw_arguments` | `str` | the text that the model or a person wrote |
| `arguments_json` | `str` | effective arguments, with defaults, as canonical JSON |
| `values` | `dict[str, Any]` | effective arguments as Python values by name |

A person approves `arguments_json`, and exactly these arguments run. `CallRow.arguments`
has the form of `arguments_json`. `Wait.arguments` is its parsed JSON.

To verify a call means to find out, after a crash, if the call took effect.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.authoring.agent import Agent
    from continuations.authoring.approval import ApprovalPolicy
    from continuations.authoring.context import ToolContext
    from continuations.core.decisions import Answer, Approve, Deny


class ToolProtocol(Protocol):
    """A tool that a model may call.

    `Tool` wraps a Python function, `SchemaTool` a JSON Schema and a callable, and
    `AgentTool` an agent. The engine uses only this protocol.
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
    def sub_agent(self) -> Agent | None:
        """The agent that runs, in a new frame, instead of `invoke`.

        `None`: the engine executes a call with `invoke`.
        """
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

    async def needs_approval(self, arguments_json: str) -> bool:
        """Return whether a call waits for a person.

        Args:
            arguments_json: The effective arguments.

        Returns:
            `True` if the call waits for a decision.

        Raises:
            ArgumentsInvalid: In this process, the arguments do not fit the schema, or
                get other defaults: the code has changed.
            PolicyFailed: The policy returned neither `True` nor `False`, or raised.
                The call must not run.
        """
        ...

    async def invoke(self, arguments_json: str, ctx: ToolContext) -> str:
        """Execute the tool. An exception of the tool's code propagates.

        Args:
            arguments_json: The effective arguments.
            ctx: The context of the call.

        Returns:
            The result as the text that the model reads.

        Raises:
            ArgumentsInvalid: In this process, the arguments do not fit the schema, or
                get other defaults: the code has changed. The tool did not run.
            ResultNotSerializable: The tool ran and returned a value without a JSON
                form.
        """
        ...

    async def verify_call(
        self, arguments_json: str, ctx: ToolContext
    ) -> Approve | Deny | Answer | None:
        """Find out if an interrupted call took effect.

        Args:
            arguments_json: The effective arguments of the call.
            ctx: The context of the call.

        Returns:
            - `Answer(result)`: the call took effect.
            - `Approve()`: it did not take effect; run it.
            - `Deny()`: it did not take effect, and must not run any more.
            - `None`: unknown.
        """
        ...


_MISSING = object()
_MEMBERS = tuple(name for name in vars(ToolProtocol) if not name.startswith("_"))


def is_tool(value: object) -> TypeGuard[ToolProtocol]:
    """Return whether a value has every member of the protocol."""
    # Not `isinstance` with a runtime-checkable protocol: before Python 3.12,
    # `isinstance` reads every property. It would import pydantic and build each schema.
    return not isinstance(value, type) and all(
        inspect.getattr_static(value, name, _MISSING) is not _MISSING
        for name in _MEMBERS
    )
