"""Tools made from Python functions.

`@tool` only wraps the function. The schema and the validator are made on first use,
so that importing an application's agents does not import pydantic.
"""

from __future__ import annotations

import inspect
from datetime import date
from functools import cached_property, update_wrapper
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    ParamSpec,
    TypeAlias,
    TypeVar,
    cast,
    overload,
)

from continuations.authoring import callables
from continuations.authoring.arguments import answer_types
from continuations.authoring.keyword_options import (
    check_option_names,
    signature_with_options,
)
from continuations.authoring.tool.base_tool import BaseTool
from continuations.authoring.tool.call_gate import begin_call
from continuations.authoring.tool.tool_options import (
    SCHEMA_TOOL_DEFAULTS,
    TOOL_DEFAULTS,
    SchemaToolOptions,
    ToolOptions,
    check_type,
)
from continuations.authoring.tool.tool_parameters import FunctionParameters
from continuations.authoring.tool_waits import (
    ToolWait,
    ask,
    check_returned,
    is_tool_wait,
    loop_of_workflow,
    record_waits,
)
from continuations.core.rows.decisions import Answer, Approve, Deny
from continuations.errors import InvalidInput
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType
    from typing import Concatenate, Unpack

    from continuations.authoring.context import ToolContext
    from continuations.authoring.readings import Reading
    from continuations.authoring.tool.schema_parameters import SchemaParameters
    from continuations.authoring.tool.tool_options import SchemaFunction
    from continuations.core.rows.attachments import ResultWithFiles


F = TypeVar("F", bound="Callable[..., Any]")
P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")


CONTEXT_PARAMETER = "ctx"


def refuse_in_workflow(name: str) -> None:
    """Raise `InvalidInput` if the code of a workflow calls a tool like a function."""
    if loop_of_workflow() is not None:
        raise InvalidInput(
            f"tool {name} was called in a workflow, which would call it again in each "
            f"replay. Write: await flow.call({name}, ...)."
        )


class HandlerFunction:
    """A function of arguments of the tool by name, and of a context.

    Args:
        function: The application's function.
        scope: The local names that the annotations of a nested function use.
    """

    def __init__(
        self, function: Callable[..., Any], scope: Mapping[str, Any] | None = None
    ) -> None:
        self.function, self.scope = function, scope

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
        raise InvalidInput(
            f"{label}: the on_answer function must take a parameter 'answer', got "
            f"({', '.join(names)}). Give the parameter for the answer this name."
        )
    return AnswerFunction(handler, scope)


@dataclass(slots=True, eq=False)
class _Functions:
    """The functions of a tool that waits, shared by the copies of the tool."""

    answer: AnswerFunction | None = None
    cancel: HandlerFunction | None = None


# The return annotations of a function whose result needs no serializer.
_TEXT = (str, "str")


class Tool(BaseTool, Generic[P, R]):
    """A Python function that a model may call; `tool` makes one.

    Application code can still call a `Tool` like the function itself.

    Args:
        function: The function, plain or async, or a bound method.
        scope: The local names that the annotations of a nested function use. `tool`
            passes them.
        **options: The options of `tool`, which describes them.

    Raises:
        InvalidInput: An option is invalid, or the function cannot be a tool.
    """

    function: Callable[P, R]

    def __init__(
        self,
        function: Callable[P, R],
        /,
        *,
        scope: Mapping[str, Any] | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        check_option_names("@tool", options, TOOL_DEFAULTS)
        name = options.get("name")
        name = callables.function_name(function) if name is None else name
        parameters = FunctionParameters(function, name, scope)
        self._declare(name, function, parameters, options)
        if self._description is None:
            callables.warn_without_docstring(name, function)
        # `updated=()`: a function's own attributes must not overwrite the tool's.
        update_wrapper(self, function, updated=())

    def _declare(
        self,
        name: str,
        function: Callable[..., Any],
        parameters: FunctionParameters | SchemaParameters,
        options: Mapping[str, Any],
    ) -> None:
        """Set the function, its parameters and the options; raises `InvalidInput`."""
        super().__init__(name, options)
        self.function = function
        self._of_function = parameters
        self._functions = _Functions()
        self._description: str | None = options.get("description")
        check_type(name, "description", self._description, str, None)
        self._check_approval_parameters(parameters.names)
        self._check_summary(parameters.names, parameters.type_of)
        if self.verify is not None:
            parameters.check_callback("verify", self.verify)

    if TYPE_CHECKING:
        # At run time, a method is a `MethodTool`.
        @overload
        def __get__(self, instance: None, owner: type) -> Tool[P, R]: ...
        @overload
        def __get__(
            self: Tool[Concatenate[Any, Q], R], instance: object, owner: type
        ) -> Tool[Q, R]: ...
        def __get__(self, instance: Any, owner: type) -> Any: ...

    @staticmethod
    def from_schema(
        name: str,
        schema: Mapping[str, Any],
        function: SchemaFunction,
        **options: Unpack[SchemaToolOptions],
    ) -> Tool[..., Any]:
        """Make a tool from a JSON Schema and a callable.

        Use it for tools whose parameters are known only at run time. The arguments are
        validated with the schema, after the defaults of its top-level properties.

        Args:
            name: The name under which the model calls the tool.
            schema: The JSON Schema of the arguments, with `"type": "object"`. It is
                copied. A reference (`$ref`) must stay within the schema.
            function: A plain or async callable. It gets the arguments as one `dict`. A
                parameter that is annotated with `ToolContext` gets the context of the
                call. The result is serialized like the result of every tool.
            **options: The options below, each as a keyword argument.
            description: The description that the model reads.
            approval: See `tool`. A condition gets the top-level properties by name.
            read_only: See `tool`.
            idempotent: See `tool`.
            timeout: See `tool`.
            on_timeout: See `tool`.
            retries: See `tool`.
            on_error: See `tool`.
            verify: See `tool`. It is called with the same arguments as `function`.
            version: See `tool`.
            is_enabled: See `tool`.
            summary: See `tool`.
            reversible: See `tool`.
            writes_state: See `tool`.
            readings: `Money` and `Secret` by path: `"cents"`, `"card/number"`, and
                `"*"` for every item, `"cards/*/number"`.

        Returns:
            The tool, for `Agent(tools=[...])`.

        Raises:
            InvalidInput: An option, `schema` or `function` is invalid. A schema that
                breaks the rules of JSON Schema raises the error on first use.
        """
        from continuations.authoring.tool.schema_parameters import SchemaParameters  # noqa: PLC0415 - for few applications

        check_option_names("Tool.from_schema", options, SCHEMA_TOOL_DEFAULTS)
        check_type(name, "description", options.get("description", ""), str)
        parameters = SchemaParameters(name, schema, function, options.get("readings"))
        kind: type[Tool[..., Any]] = Tool
        made: Tool[..., Any] = object.__new__(kind)
        made._declare(name, function, parameters, options)
        return made

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the wrapped function directly, without validation and approval."""
        refuse_in_workflow(self.name)
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"

    @property
    def description(self) -> str:
        """The description that the model reads: the option, else the docstring."""
        if self._description is not None:
            return self._description
        return self._of_function.description

    @property
    def _parameters(self) -> FunctionParameters | SchemaParameters:
        return self._of_function

    @property
    def _readings(self) -> Mapping[str, Reading]:
        return self._of_function.readings

    @property
    def _argument_names(self) -> Sequence[str] | None:
        return self._of_function.names

    async def invoke(
        self, arguments_json: str, ctx: ToolContext
    ) -> str | ResultWithFiles | ToolWait[Any]:
        """Execute the function; see `ToolProtocol.invoke`.

        A plain function runs in a thread that runs nothing else meanwhile.
        """
        args, kwargs = self._of_function.passed(self.function, arguments_json, ctx)
        if getattr(self.function, "__annotations__", {}).get("return") not in _TEXT:
            # Before the call: an effect must not wait for an import to be recorded.
            _load_result_serializer()
        result: object = await begin_call(self.function, *args, **kwargs)
        if type(result) is str or is_tool_wait(result):
            return result
        return _load_result_serializer()(result)

    async def verify_call(
        self, arguments_json: str, ctx: ToolContext
    ) -> Approve | Deny | Answer | ToolWait[Any] | None:
        """Call the tool's `verify` function; `None`: it cannot tell.

        Only a decision or a wait counts. An exception of the function propagates.
        """
        if self.verify is None:
            return None
        made = record_waits()
        args, kwargs = self._of_function.passed(self.verify, arguments_json, ctx)
        verdict: object = await callables.call(self.verify, *args, **kwargs)
        check_returned(made, verdict)
        if isinstance(verdict, Approve | Deny | Answer) or is_tool_wait(verdict):
            return verdict
        return None

    @property
    def continues(self) -> bool:
        """Whether an `on_answer` function gets the answers that the tool waits for."""
        return self._functions.answer is not None

    def on_answer(self, function: F) -> F:
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
                annotation of `answer` is the type of the answer. The function may
                return a wait again: its answer comes to the same function. `ctx.memo`
                is what the last wait kept.

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

    def on_cancel(self, function: F) -> F:
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
            values = self._of_function.values_by_name(arguments_json)
            arguments = self._functions.cancel.accepted(values, ctx)
            await callables.call(self._functions.cancel.function, **arguments)

    def check_answer(self, answer_json: str) -> None:
        """Check an answer; see `ToolProtocol.check_answer`."""
        if self._functions.answer is not None:
            self._functions.answer.typed_answer(answer_json)

    async def receive_answer(
        self, arguments_json: str, answer_json: str, ctx: ToolContext
    ) -> str | ResultWithFiles | ToolWait[Any]:
        """Call the `on_answer` function; see `ToolProtocol.receive_answer`."""
        receiver = self._functions.answer
        if receiver is None:
            return await super().receive_answer(arguments_json, answer_json, ctx)
        values = self._of_function.values_by_name(arguments_json)
        arguments = receiver.arguments(answer_json, values, ctx)
        result: object = await begin_call(receiver.function, **arguments)
        return result if is_tool_wait(result) else _load_result_serializer()(result)


def _load_result_serializer() -> Callable[[object], str | ResultWithFiles]:
    from continuations.authoring.tool.tool_results import serialize_result  # noqa: PLC0415 - slow to import

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


def bound(value: Any, instance: object) -> Any:
    """Return a value of a class body as it is seen from an object."""
    return value.__get__(instance) if callables.is_method(value) else value


def made_for(instance: object) -> dict[Any, Any]:
    """Return what descriptors made for an object; a copy begins with nothing."""
    own: dict[str, Any] = vars(instance) if hasattr(instance, "__dict__") else {}
    owner, made = own.get("_made_by_methods", (None, None))
    if owner is not instance:
        made = dict[Any, Any]()
        own["_made_by_methods"] = (instance, made)
    return cast("dict[Any, Any]", made)


class MethodTool(callables.OfClass):
    """A tool that is declared as a method; each object of the class has its own.

    `thing.method` is the `Tool` of the object. Options that are functions of the class
    body, such as `verify`, are methods too if they take `self`.
    """

    kind = "tool"

    def __init__(
        self,
        function: Callable[..., Any],
        options: Mapping[str, Any],
        frame: FrameType | None,
    ) -> None:
        self._function = function
        self._options = {**options, "scope": class_scope(function, frame)}
        self._on_answer: Callable[..., Any] | None = None
        self._on_cancel: Callable[..., Any] | None = None
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__

    def __repr__(self) -> str:
        return f"<tool method {self.__qualname__}>"

    def __get__(self, instance: object | None, owner: type) -> Any:
        if instance is None:
            return self
        made_here = made_for(instance)
        if self not in made_here:
            made_here[self] = self._tool_of(instance)
        return made_here[self]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method of the class, as an override does: `Parent.method(self)`."""
        return self._function(*args, **kwargs)

    def on_answer(self, function: F) -> F:
        """Declare the method that gets the answer; see `Tool.on_answer`."""
        self._on_answer = function
        return function

    def on_cancel(self, function: F) -> F:
        """Declare the method that stops a job; see `Tool.on_cancel`."""
        self._on_cancel = function
        return function

    def _tool_of(self, instance: object) -> Tool[..., Any]:
        options = {k: bound(v, instance) for k, v in self._options.items()}
        tool: Tool[..., Any] = Tool(bound(self._function, instance), **options)
        if self._on_answer is not None:
            tool.on_answer(bound(self._on_answer, instance))
        if self._on_cancel is not None:
            tool.on_cancel(bound(self._on_cancel, instance))
        return tool


def class_scope(
    function: Callable[..., Any], frame: FrameType | None
) -> Mapping[str, Any] | None:
    """Return the local names of the body of a class, and of the function around it."""
    names = enclosing_locals(function, frame)
    if names is None or frame is None:
        return None
    return {**(enclosing_locals(function, frame.f_back) or {}), **names}


@overload
def tool(function: Callable[P, R], /, **options: Unpack[ToolOptions]) -> Tool[P, R]: ...
@overload
def tool(
    **options: Unpack[ToolOptions],
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a tool from a plain or async function, or from a bound method.

    The signature gives the JSON Schema of the arguments, and the docstring gives the
    descriptions. A parameter that is annotated with `ToolContext` gets the context of
    the call, under any name; the model does not see it. A method of a class becomes a
    tool of each object.

    Args:
        function: The function; left out if `tool` is called with options.
        **options: The options below, each as a keyword argument.
        approval: Which calls wait for a person: `True`, a condition on the arguments,
            or an `ApprovalPolicy`. `False`: no call, whatever the policy of the agent.
            Default: the policy of the agent, `Agent(approval=...)`.
        name: The name for the model. Default: the name of the function.
        description: The description for the model. Default: the docstring.
        read_only: The tool has no side effects. After a crash, a call is repeated.
        idempotent: The tool may be called twice with one idempotency key. After a
            crash, a call is repeated with the same key.
        timeout: The time limit of one call, counted from the begin of the function: a
            timedelta, or seconds. Default: none.
        on_timeout: The consequence of the limit for a call that may not be repeated.
            `"unknown"`: its outcome is unknown, as after a crash. `"tell_model"`: the
            model reads an error that says so. Default: `"unknown"`.
        retries: How often a call that raised or took too long is tried again, 0 to 10,
            or a `Retries`. The tool must be `idempotent` or `read_only`. Default: 0.
        on_error: A plain or async function of (error, `FailedCall`) that returns the
            text for the model after the tool raised. Default: a standard text.
        verify: A plain or async function that finds out if an interrupted call took
            effect. It declares any of the tool's parameters. It returns
            `Answer(result)` if the call took effect, `Approve()` to run the call,
            `Deny()` to skip it, or `None` if it cannot tell. If a job has begun, it
            returns the wait of the tool. Return `Approve()` only if the call cannot
            take effect any more: a plain function of an old worker may still run.
        version: The version of the contract. A change makes older approvals void.
        is_enabled: Whether the tool is offered to the model: True, False, or a plain or
            async function of the context, perhaps also of an `OfferInfo`, called
            before each turn. An approved call runs anyway. Default: `True`.
        summary: The call as one sentence, for the people who decide: a template such
            as `"Send {cents:money/100} to {to}"`, or a plain function of the arguments
            that returns the sentence. A model never writes it. Default: none.
        reversible: Whether people read that a call can be undone. Default: not said.
        writes_state: Whether a call may use `ctx.update`. Such calls of one turn begin
            one after another, in the order of the model. Default: `False`.

    Returns:
        A `Tool`, or a decorator if `function` is left out.

    Raises:
        InvalidInput: An option is invalid, or the function cannot be a tool. A type
            that pydantic does not support raises the error on first use.
    """
    frame = inspect.currentframe()
    if function is not None:
        return _made(function, options, frame)

    def wrap(function: Callable[P, R]) -> Any:
        return _made(function, options, inspect.currentframe())

    return wrap


vars(tool)["__signature__"] = signature_with_options(
    [inspect.Parameter("function", inspect.Parameter.POSITIONAL_ONLY, default=None)],
    TOOL_DEFAULTS,
    ToolOptions.__annotations__,
)
vars(Tool.from_schema)["__signature__"] = signature_with_options(
    list(inspect.signature(Tool.from_schema).parameters.values())[:3],
    SCHEMA_TOOL_DEFAULTS,
    SchemaToolOptions.__annotations__,
)


def _made(
    function: Callable[..., Any], options: Mapping[str, Any], frame: FrameType | None
) -> Any:
    check_option_names("@tool", options, TOOL_DEFAULTS)
    if callables.is_method(function):
        return MethodTool(function, options, frame)
    return Tool(function, **options, scope=enclosing_locals(function, frame))


AnswerKind: TypeAlias = Literal["text", "yes or no", "number", "date"]
_TYPES: dict[AnswerKind, Any] = {
    "text": str,
    "yes or no": bool,
    "number": float,
    "date": date,
}


# A question has no effect that could be doubled: after a crash it is asked again. A
# person is not asked whether a person may be asked.
@tool(approval=False, read_only=True)
def ask_person(question: str, answer_type: AnswerKind = "text") -> ToolWait[Any]:
    """Ask a person a question, and get the answer.

    Use it if you need a fact or a choice that only a person can give. The answer may
    take days.

    Args:
        question: The whole question. The person sees nothing else.
        answer_type: The type of the answer.
    """
    return ask(question, _TYPES[answer_type])
