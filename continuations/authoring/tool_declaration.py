"""The members of a tool that its author declares: no function of it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.authoring.approval import ApprovalPolicy
    from continuations.authoring.call_retries import Retries
    from continuations.authoring.failed_call import ToolErrorFunction
    from continuations.authoring.tool_options import OnTimeout


class ToolDeclaration(Protocol):
    """The declared members of a tool; `ToolProtocol` has the others."""

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
    def on_timeout(self) -> OnTimeout:
        """The consequence of the time limit for a call that may not be repeated."""
        ...

    @property
    def retries(self) -> Retries | None:
        """How a call is tried again after its function raised; `None`: it is not."""
        ...

    @property
    def on_error(self) -> ToolErrorFunction | None:
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
