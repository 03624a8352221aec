"""Tools: functions that a model may call.

`@tool` only wraps. Schemas and validators are made on first use, so that importing
an application's agents does not import pydantic.
"""

from __future__ import annotations

import inspect
import re
from functools import cached_property, update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from continuations.authoring import callables
from continuations.authoring.approval import ApprovalPolicy, to_seconds
from continuations.authoring.errors import (
    ArgumentsInvalid,
    PolicyFailed,
    ResultNotSerializable,
)
from continuations.authoring.tool_digests import (
    compute_contract_digest,
    compute_description_digest,
)
from continuations.core import jsontext
from continuations.core.decisions import Answer, Approve, Deny
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType

    from continuations.authoring.approval import Condition, Duration
    from continuations.authoring.context import ToolContext
    from continuations.authoring.docstring import Docstring
    from continuations.authoring.tool_signature import ToolSignature

__all__ = [
    "ArgumentsInvalid",
    "PolicyFailed",
    "ResultNotSerializable",
    "Tool",
    "check_tool_name",
    "tool",
]

P = ParamSpec("P")
R = TypeVar("R")

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what providers take


class Tool(Generic[P, R]):
    """A function that a model may call; called by you, it is that function.

    Two digests follow from it: `meaning`, which an approval is bound to, and
    `wording`, which changes with every word that the model is told.
    """

    def __init__(  # noqa: PLR0913 - what an author may declare, all by keyword
        self,
        function: Callable[P, R],
        /,
        *,
        approval: bool | Condition | ApprovalPolicy | None = None,
        name: str | None = None,
        description: str | None = None,
        read_only: bool = False,
        idempotent: bool = False,
        timeout: Duration | None = None,
        verify: Callable[..., Any] | None = None,
        version: str | None = None,
        scope: Mapping[str, Any] | None = None,
    ) -> None:
        """Wrap a function; the options are those of `tool`."""
        self.function = function
        own = getattr(function, "__name__", "")
        self.name: str = own if name is None else name
        check_tool_name(self.name)
        callables.check_tool_function(function, self.name)
        self.approval = ApprovalPolicy.from_option(approval)
        self.read_only = read_only
        self.idempotent = idempotent
        self.timeout = to_seconds(timeout)
        self.verify = verify
        self.version = version
        self._description = description
        self._scope = scope
        self._validate_options()
        # `updated=()`: a function's own attributes must not overwrite the tool's.
        update_wrapper(self, function, updated=())

    def _validate_options(self) -> None:
        """Refuse what would be taken for something else, or fail in the middle."""
        wanted: tuple[tuple[str, object, bool], ...] = (
            ("description is a string", self._description, True),
            ("version is a string", self.version, True),
            ("read_only is True or False", self.read_only, False),
            ("idempotent is True or False", self.idempotent, False),
        )
        for what, given, is_text in wanted:
            fits = type(given) is bool if not is_text else isinstance(given, str | None)
            if not fits:
                msg = f"tool {self.name}: {what}, not a {type(given).__name__}"
                raise InvalidInput(msg)
        for what, function in (("verify", self.verify), ("approval", self.approval)):
            asked = getattr(function, "when", function)
            if callable(asked):
                callables.check_callback_parameters(
                    asked, self.function, f"{self.name}: {what}"
                )
            elif what == "verify" and asked is not None:
                msg = f"tool {self.name}: verify is a function"
                raise InvalidInput(msg)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, as if it were no tool."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        """Name the tool."""
        return f"<Tool {self.name}>"

    @property
    def repeatable(self) -> bool:
        """Whether a call of unknown outcome may simply run again."""
        return self.read_only or self.idempotent

    @cached_property
    def description(self) -> str:
        """What the model is told that it does."""
        if self._description is not None:
            return self._description
        return self._docstring.description

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of its arguments; not to be changed."""
        return self._signature.schema

    @cached_property
    def schema_json(self) -> str:
        """The canonical text of `parameters`."""
        return jsontext.canonical(dict(self.parameters))

    @cached_property
    def contract_digest(self) -> str:
        """The digest of name, version and schema, without titles and descriptions."""
        return compute_contract_digest(self.name, self.version, self.parameters)

    @cached_property
    def description_digest(self) -> str:
        """The digest of all that the model is told."""
        return compute_description_digest(self.description, self.parameters)

    @cached_property
    def _docstring(self) -> Docstring:
        from continuations.authoring import docstring  # noqa: PLC0415 - on first use

        return docstring.parse_docstring(self.function.__doc__)

    @cached_property
    def _signature(self) -> ToolSignature:
        from continuations.authoring import tool_signature  # noqa: PLC0415 - on first use

        return tool_signature.read_tool_signature(
            self.function,
            name=self.name,
            descriptions=self._docstring.parameter_descriptions,
            scope=self._scope,
        )

    def effective_arguments(self, raw_arguments: str) -> str:
        """Return the effective arguments of what a model wrote, as canonical JSON.

        They are what a person approves and what runs: defaults are in, and binding
        them again changes nothing. An empty text stands for `{}`. Raises
        `ArgumentsInvalid`, with a text for the model.
        """
        return self._signature.validator.effective_arguments(raw_arguments)

    async def needs_approval(self, arguments: str) -> bool:
        """Tell whether a call with effective arguments waits for a person.

        Raises `PolicyFailed` if the policy said neither yes nor no: the call must
        not run.
        """
        if self.approval is None:
            return False
        return await self.approval.needs_approval(
            self._signature.values_by_name(arguments)
        )

    async def invoke(self, arguments: str, ctx: ToolContext) -> str:
        """Run the function with effective arguments; return the text of its result.

        A plain function runs in a worker thread. What the function raises is
        raised. Raises `ArgumentsInvalid` before it runs if the arguments mean
        something else by now, and `ResultNotSerializable` after it did.
        """
        from continuations.authoring import tool_results  # noqa: PLC0415 - on first use

        return tool_results.serialize_result(
            await callables.call(self.function, **self._call_arguments(arguments, ctx))
        )

    async def verify_call(
        self, arguments: str, ctx: ToolContext
    ) -> Approve | Deny | Answer | None:
        """Ask the tool's `verify` function what became of a call; `None`: unknown.

        It gets those of the tool's own parameters that it declares, by name. Only a
        decision counts as an answer; what it raises is raised.
        """
        if self.verify is None:
            return None
        chosen = callables.accepted_arguments(
            self.verify, self._call_arguments(arguments, ctx)
        )
        verdict = await callables.call(self.verify, **chosen)
        return verdict if isinstance(verdict, Approve | Deny | Answer) else None

    def _call_arguments(self, arguments: str, ctx: ToolContext) -> dict[str, Any]:
        contexts = dict.fromkeys(self._signature.context_parameters, ctx)
        return {**self._signature.values_by_name(arguments), **contexts}


@overload
def tool(
    function: Callable[P, R],
    /,
    *,
    approval: bool | Condition | ApprovalPolicy | None = None,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    timeout: Duration | None = None,
    verify: Callable[..., Any] | None = None,
    version: str | None = None,
) -> Tool[P, R]: ...
@overload
def tool(
    *,
    approval: bool | Condition | ApprovalPolicy | None = None,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    timeout: Duration | None = None,
    verify: Callable[..., Any] | None = None,
    version: str | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a tool of a plain or async function, a method of an object too.

    `approval`: `True`, a condition on the arguments, or an `ApprovalPolicy`.
    `name`, `description`: else the function's own, and its docstring's.
    `read_only`, `idempotent`: after a crash it may run again, with the same
    idempotency key. `timeout`: a timedelta or seconds. `verify`: a function, plain or
    async, with any of the tool's parameters, that finds out whether a call which was
    cut off did happen: it returns `Answer(result)` if so, `Approve()` to run it (it
    did not happen, and cannot any more: a plain function that lost its worker may
    still be on its way), `Deny()` to leave it, `None` if it cannot tell. `version`:
    change it when the tool comes to mean something else under the same signature; an
    old approval then no longer counts.

    A parameter of the type `ToolContext` is given by the engine, under any name.
    """
    frame = inspect.currentframe()
    if function is not None:
        return Tool(function, **options, scope=_enclosing_locals(function, frame))

    def wrap(function: Callable[P, R]) -> Tool[P, R]:
        scope = _enclosing_locals(function, inspect.currentframe())
        return Tool(function, **options, scope=scope)

    return wrap


def _enclosing_locals(
    function: object, frame: FrameType | None
) -> Mapping[str, Any] | None:
    """Return the local names that the annotations of a nested function may mean."""
    # `from __future__ import annotations` leaves only their text, and a function's
    # locals are out of reach once it has returned. Most tools are not nested, and
    # keep nothing alive.
    nested = "<locals>" in getattr(function, "__qualname__", "")
    caller = None if frame is None else frame.f_back
    return caller.f_locals if nested and caller is not None else None


def check_tool_name(name: str) -> None:
    """Raise `InvalidInput` for a name that no provider takes for a tool."""
    if not _TOOL_NAME.fullmatch(name):
        msg = f"a tool's name is 1 to 64 of [a-zA-Z0-9_-], not {name[:80]!r}"
        raise InvalidInput(msg)
