"""The parts that tools share, and those of tools that call a function.

A tool of a function may return a wait, and has functions that get its end.
"""

from __future__ import annotations

import copy
import inspect
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, Self, TypeVar, cast

from continuations.authoring import answer_types, callables
from continuations.authoring.call_gate import begin_call
from continuations.authoring.callables import takes_positional
from continuations.authoring.errors import EnabledInvalid, ResultNotSerializable
from continuations.authoring.tool_contract import (
    compute_contract_digest,
    compute_model_text_digest,
)
from continuations.authoring.tool_options import checked_options
from continuations.authoring.tool_waits import (
    ToolWait,
    check_returned,
    is_tool_wait,
    record_waits,
)
from continuations.core import jsontext
from continuations.core.decisions import Answer, Approve, Deny
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType

    from continuations.authoring.approval import ApprovalPolicy
    from continuations.authoring.context import ToolContext
    from continuations.authoring.readings import DeclaredDisplay, Reading, Summary
    from continuations.authoring.tool_options import (
        EnabledCondition,
        OfferCondition,
        OnTimeout,
        Retries,
        ToolErrorFunction,
    )
    from continuations.authoring.tool_protocol import AgentProtocol
    from continuations.core.attachments import ResultWithFiles
    from continuations.core.call_display import CallDisplay


CONTEXT_PARAMETER = "ctx"


@dataclass(frozen=True)
class HandlerFunction:
    """A function of arguments of the tool by name, and of a context.

    Attributes:
        function: The application's function.
        scope: The local names that the annotations of a nested function use.
    """

    function: Callable[..., Any]
    scope: Mapping[str, Any] | None = None

    @cached_property
    def _contexts(self) -> tuple[str, ...]:
        return tuple(
            each.name
            for each in inspect.signature(self.function).parameters.values()
            if callables.is_context_type(self.type_of(each))
        )

    def type_of(self, parameter: inspect.Parameter) -> Any:
        """Return the type of a parameter; any type if it has no annotation."""
        if parameter.annotation is parameter.empty:
            return Any
        return callables.parameter_type(parameter, self.function, self.scope)

    def accepted(self, values: Mapping[str, Any], ctx: ToolContext) -> dict[str, Any]:
        """Return the values that the function declares, with the context."""
        available = {**values, **dict.fromkeys(self._contexts, ctx)}
        return callables.accepted_arguments(self.function, available)


def check_function(function: object, label: str) -> None:
    """Raise `InvalidInput` unless a handler is a function."""
    if not callable(function):
        msg = f"{label} must be a function, got {function!r}. Decorate a function."
        raise InvalidInput(msg)


ANSWER_PARAMETER = "answer"


@dataclass(frozen=True)
class AnswerFunction(HandlerFunction):
    """A function of `answer`, of arguments of the tool by name, and of a context."""

    def typed_answer(self, answer_json: str) -> Any:
        """Return the answer with the type of its parameter; raises `ArgumentsInvalid`.

        The type is that of the annotation. Without one, it is any JSON value.
        """
        parameter = inspect.signature(self.function).parameters[ANSWER_PARAMETER]
        return answer_types.typed_value(answer_json, self.type_of(parameter))

    def arguments(
        self, answer_json: str, values: Mapping[str, Any], ctx: ToolContext
    ) -> dict[str, Any]:
        """Return the arguments of a call of the function; raises `ArgumentsInvalid`."""
        answer = self.typed_answer(answer_json)
        return self.accepted({**values, ANSWER_PARAMETER: answer}, ctx)


def checked_receiver(
    function: object, label: str, scope: Mapping[str, Any] | None
) -> AnswerFunction:
    """Return the `on_answer` function of a tool; raises `InvalidInput`.

    Annotations are not evaluated here: they may use names that do not exist yet.
    """
    check_function(function, f"{label}: on_answer")
    handler = cast("Callable[..., Any]", function)
    names = callables.parameter_names(handler)
    if names is not None and ANSWER_PARAMETER not in names:
        msg = (
            f"{label}: the on_answer function must take a parameter 'answer', got "
            f"({', '.join(names)}). Give the parameter for the answer this name."
        )
        raise InvalidInput(msg)
    return AnswerFunction(handler, scope)


_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # the names that providers accept


class _Contract(NamedTuple):
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
    on_timeout: OnTimeout
    retries: Retries | None
    on_error: ToolErrorFunction | None
    verify: Callable[..., Any] | None
    version: str | None
    is_enabled: bool | EnabledCondition
    summary: Summary | None
    reversible: bool | None
    writes_state: bool

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        check_tool_name(name)
        vars(self).update(checked_options(name, options))
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
            msg = (
                f"tool {self.name}: editable has {unknown[0]!r}, which is no argument "
                f"of the tool. Its arguments: {', '.join(names or ())}."
            )
            raise InvalidInput(msg)

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

    async def enabled(self, context: Any) -> bool | OfferCondition:
        """Return whether the model may call the tool; see `ToolProtocol.enabled`."""
        if not callable(self.is_enabled):
            return self.is_enabled
        if not takes_positional(self.is_enabled, 1):
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
        msg = f"is_enabled returned {got}. Return True or False"
        raise EnabledInvalid(msg)

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
            arguments_json, lambda: self._values_by_name(arguments_json)
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
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments. Callers must not change it."""

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

    @abstractmethod
    def effective_arguments(self, raw_arguments: str) -> str:
        """Return the effective arguments; see `ToolProtocol.effective_arguments`."""

    @abstractmethod
    def find_edit_difference(self, edited_arguments: str) -> str | None:
        """Compare an edit; see `ToolProtocol.find_edit_difference`."""

    @abstractmethod
    def _values_by_name(self, arguments_json: str) -> dict[str, Any]:
        """Return effective arguments as Python values by name.

        Raises:
            ArgumentsInvalid: The arguments are not effective in this process.
        """

    async def needs_approval(self, arguments_json: str) -> bool | Approve | Deny:
        """Return whether a call waits; see `ToolProtocol.needs_approval`."""
        if self.approval is None:
            return False
        return await self.approval.needs_approval(self._values_by_name(arguments_json))

    async def why_not_now(self, arguments_json: str) -> str | None:
        """Return why an approved call must not begin now, or `None`."""
        if self.approval is None or self.approval.recheck is None:
            return None
        return await self.approval.why_not_now(self._values_by_name(arguments_json))

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
    ) -> str | ResultWithFiles:
        """Raise `TypeError`: only `WaitingTool` has an `on_answer` function."""
        del arguments_json, answer_json, ctx
        msg = f"tool {self.name} has no on_answer function"
        raise TypeError(msg)

    async def cancel_call(self, arguments_json: str, ctx: ToolContext) -> None:
        """Do nothing: only `WaitingTool` has an `on_cancel` function."""
        del arguments_json, ctx

    async def verify_call(
        self, arguments_json: str, ctx: ToolContext
    ) -> Approve | Deny | Answer | ToolWait[Any] | None:
        """Call the tool's `verify` function; `None`: it cannot tell.

        Only a decision or a wait counts. An exception of the function propagates.
        """
        if self.verify is None:
            return None
        made = record_waits()
        verdict = await self._call_verify(self.verify, arguments_json, ctx)
        check_returned(made, verdict)
        if isinstance(verdict, Approve | Deny | Answer) or is_tool_wait(verdict):
            return verdict
        return None

    @abstractmethod
    async def _call_verify(
        self, verify: Callable[..., Any], arguments_json: str, ctx: ToolContext
    ) -> object: ...


def check_tool_name(name: object) -> None:
    """Raise `InvalidInput` unless providers accept the name of a tool."""
    if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
        msg = (
            "a tool's name must be 1 to 64 characters of [a-zA-Z0-9_-], got"
            f" {str(name)[:80]!r}. Pass another name with name=."
        )
        raise InvalidInput(msg)


P = ParamSpec("P")
R = TypeVar("R")


@dataclass(slots=True)
class _Functions:
    """The functions of a tool that waits, shared by the copies of the tool."""

    answer: AnswerFunction | None = None
    cancel: HandlerFunction | None = None


# The return annotations of a function whose result needs no serializer.
_TEXT = (str, "str")


class WaitingTool(BaseTool):
    """A tool that calls a function, which may return a wait.

    Attributes:
        function: The function, plain or async.
    """

    function: Callable[..., Any]

    @cached_property
    def _functions(self) -> _Functions:
        return _Functions()

    def with_policy(self, policy: ApprovalPolicy) -> Self:
        """Return a copy that asks by the policy of its agent; see `BaseTool`."""
        _ = self._functions  # a function that is declared later belongs to the copy too
        return super().with_policy(policy)

    @property
    @abstractmethod
    def _argument_names(self) -> Sequence[str] | None:
        """The names of the arguments; `None` if they are not readable."""

    @abstractmethod
    def _passed(
        self, function: Callable[..., Any], arguments_json: str, ctx: ToolContext
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return what a function of the tool gets, by position and by name.

        `function` is that of the tool, or `verify`.
        """

    async def invoke(
        self, arguments_json: str, ctx: ToolContext
    ) -> str | ResultWithFiles | ToolWait[Any]:
        """Execute the function; see `ToolProtocol.invoke`.

        A plain function runs in a thread that runs nothing else meanwhile.
        """
        args, kwargs = self._passed(self.function, arguments_json, ctx)
        if getattr(self.function, "__annotations__", {}).get("return") not in _TEXT:
            # Before the call: an effect must not wait for an import to be recorded.
            _load_result_serializer()
        result: object = await begin_call(self.function, *args, **kwargs)
        if type(result) is str or is_tool_wait(result):
            return result
        return _load_result_serializer()(result)

    async def _call_verify(
        self, verify: Callable[..., Any], arguments_json: str, ctx: ToolContext
    ) -> object:
        args, kwargs = self._passed(verify, arguments_json, ctx)
        return await callables.call(verify, *args, **kwargs)

    @property
    def continues(self) -> bool:
        """Whether an `on_answer` function gets the answers that the tool waits for."""
        return self._functions.answer is not None

    def on_answer(self, function: Callable[P, R]) -> Callable[P, R]:
        """Declare the function that gets the answer, as a decorator.

        The tool returns a wait, such as `ask(...)`. The answer then goes to this
        function, and its result is the result of the call. It runs under the same
        rules as the tool: a call that may have begun is repeated only if the tool is
        repeatable.

        ```python
        @receipt.on_answer
        def received(answer: Claim, trip: str) -> str: ...
        ```

        Args:
            function: A plain or async function of `answer`. It may also take arguments
                of the tool by their names, and the `ToolContext` as `ctx`. The
                annotation of `answer` is the type of the answer. The function must
                not return a wait.

        Returns:
            The function.

        Raises:
            InvalidInput: The function does not take `answer`, or requires an argument
                that the tool does not have. Or the tool has such a function already.
        """
        label = f"tool {self.name}"
        if self._functions.answer is not None:
            msg = f"{label} has an on_answer function already. Declare only one."
            raise InvalidInput(msg)
        scope = enclosing_locals(function, inspect.currentframe())
        receiver = checked_receiver(function, label, scope)
        names = self._argument_names
        if names is not None:
            own = (ANSWER_PARAMETER, CONTEXT_PARAMETER)
            callables.check_callback_parameters(
                function, (*names, *own), f"{label}: on_answer"
            )
        self._functions.answer = receiver
        return function

    @property
    def cancels(self) -> bool:
        """Whether an `on_cancel` function is called when a call is cancelled."""
        return self._functions.cancel is not None

    def on_cancel(self, function: Callable[P, R]) -> Callable[P, R]:
        """Declare the function that stops a job that is not needed any more.

        It is called when a call that waits is cancelled, and when the deadline of
        `external(...)` passes. A crash may repeat it, and a failure is tried again
        twice. So pass `ctx.idempotency_key` to the other system: it is the id of the
        wait that ends. The job has the name `ctx.wait_id`, as in the tool.

        ```python
        @scan.on_cancel
        def stop_scan(document: str, ctx: ToolContext) -> None: ...
        ```

        Args:
            function: A plain or async function. It may take arguments of the tool by
                their names, and the `ToolContext` as `ctx`. Its result is not used.

        Returns:
            The function.

        Raises:
            InvalidInput: The function requires an argument that the tool does not
                have. Or the tool has such a function already.
        """
        label = f"tool {self.name}"
        if self._functions.cancel is not None:
            msg = f"{label} has an on_cancel function already. Declare only one."
            raise InvalidInput(msg)
        check_function(function, f"{label}: on_cancel")
        scope = enclosing_locals(function, inspect.currentframe())
        names = self._argument_names
        if names is not None:
            callables.check_callback_parameters(
                function, (*names, CONTEXT_PARAMETER), f"{label}: on_cancel"
            )
        self._functions.cancel = HandlerFunction(function, scope)
        return function

    async def cancel_call(self, arguments_json: str, ctx: ToolContext) -> None:
        """Call the `on_cancel` function; see `ToolProtocol.cancel_call`."""
        if self._functions.cancel is not None:
            values = self._values_by_name(arguments_json)
            arguments = self._functions.cancel.accepted(values, ctx)
            await callables.call(self._functions.cancel.function, **arguments)

    def check_answer(self, answer_json: str) -> None:
        """Check an answer; see `ToolProtocol.check_answer`."""
        if self._functions.answer is not None:
            self._functions.answer.typed_answer(answer_json)

    async def receive_answer(
        self, arguments_json: str, answer_json: str, ctx: ToolContext
    ) -> str | ResultWithFiles:
        """Call the `on_answer` function; see `ToolProtocol.receive_answer`."""
        receiver = self._functions.answer
        if receiver is None:
            return await super().receive_answer(arguments_json, answer_json, ctx)
        values = self._values_by_name(arguments_json)
        arguments = receiver.arguments(answer_json, values, ctx)
        result = await begin_call(receiver.function, **arguments)
        if isinstance(result, ToolWait):
            msg = "the on_answer function returned a wait, and a call waits only once"
            raise ResultNotSerializable(msg)
        return _load_result_serializer()(result)


def _load_result_serializer() -> Callable[[object], str | ResultWithFiles]:
    from continuations.authoring.tool_results import serialize_result  # noqa: PLC0415 - slow to import

    return serialize_result


def enclosing_locals(
    function: object, frame: FrameType | None
) -> Mapping[str, Any] | None:
    """Return the local names that the annotations of a nested function may use.

    `frame` is that of the function that the application called.
    """
    # `from __future__ import annotations` leaves only the text of an annotation, and
    # a function's locals cannot be read after it returned. Most tools are not nested:
    # for them no frame is kept alive.
    nested = "<locals>" in getattr(function, "__qualname__", "")
    caller = None if frame is None else frame.f_back
    return caller.f_locals if nested and caller is not None else None
