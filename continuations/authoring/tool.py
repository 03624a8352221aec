"""Tools made from Python functions.

`@tool` only wraps the function. The schema and the validator are made on first use,
so that importing an application's agents does not import pydantic.
"""

from __future__ import annotations

import inspect
from functools import cached_property, update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, overload

from continuations.authoring import callables
from continuations.authoring.base_tool import WaitingTool, enclosing_locals
from continuations.authoring.keyword_options import (
    check_option_names,
    signature_with_options,
)
from continuations.authoring.tool_options import (
    SCHEMA_TOOL_DEFAULTS,
    TOOL_DEFAULTS,
    SchemaToolOptions,
    ToolOptions,
    check_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType
    from typing import Concatenate, Unpack

    from continuations.authoring.callables import Docstring
    from continuations.authoring.context import ToolContext
    from continuations.authoring.plain_signature import PlainSignature
    from continuations.authoring.readings import Reading
    from continuations.authoring.schema_tool import SchemaTool
    from continuations.authoring.tool_options import SchemaFunction
    from continuations.authoring.tool_signature import ToolSignature


F = TypeVar("F", bound="Callable[..., Any]")
P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")


class Tool(WaitingTool, Generic[P, R]):
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
        super().__init__(name, options)
        self.name = name
        self.function: Callable[P, R] = function
        callables.check_tool_function(function, name)
        self._description = options.get("description")
        check_type(name, "description", self._description, str, None)
        self._scope = scope
        if self._description is None:
            callables.warn_without_docstring(self.name, function)
        names = callables.parameter_names(function)
        self._check_approval_parameters(names)
        self._check_summary(names, self._type_of)
        if self.verify is not None:
            callables.check_callback_parameters(
                self.verify, names, f"tool {self.name}: verify"
            )
        # `updated=()`: a function's own attributes must not overwrite the tool's.
        update_wrapper(self, function, updated=())

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
    ) -> SchemaTool:
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
        from continuations.authoring.schema_tool import SchemaTool  # noqa: PLC0415 - for few applications

        return SchemaTool(name, schema, function, **options)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the wrapped function directly, without validation and approval."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"

    @property
    def description(self) -> str:
        """The description that the model reads: the option, else the docstring."""
        if self._description is not None:
            return self._description
        return self._docstring.description

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments. Callers must not change it."""
        plain = self._plain_signature
        return self._signature.schema if plain is None else plain.schema

    def _type_of(self, name: str) -> Any:
        parameter = inspect.signature(self.function).parameters[name]
        return callables.parameter_type(parameter, self.function, self._scope)

    @property
    def _readings(self) -> Mapping[str, Reading]:
        return (self._plain_signature or self._signature).readings

    @cached_property
    def _docstring(self) -> Docstring:
        return callables.parse_docstring(self.function.__doc__)

    @cached_property
    def _plain_signature(self) -> PlainSignature | None:
        from continuations.authoring import plain_signature  # noqa: PLC0415 - on first use

        return plain_signature.read_plain_signature(
            self.function,
            descriptions=self._docstring.parameter_descriptions,
            scope=self._scope,
        )

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
        """Return the effective arguments; see `ToolProtocol.effective_arguments`."""
        return self._signature.validator.effective_arguments(raw_arguments)

    def find_edit_difference(self, edited_arguments: str) -> str | None:
        """Compare an edit; see `ToolProtocol.find_edit_difference`."""
        return self._signature.validator.find_edit_difference(edited_arguments)

    def _values_by_name(self, arguments_json: str) -> dict[str, Any]:
        """Return effective arguments as Python values by parameter name."""
        plain = self._plain_signature
        values = None if plain is None else plain.values_by_name(arguments_json)
        if values is not None:
            return values
        return self._signature.values_by_name(arguments_json)

    @property
    def _argument_names(self) -> tuple[str, ...] | None:
        return callables.parameter_names(self.function)

    def _passed(
        self, function: Callable[..., Any], arguments_json: str, ctx: ToolContext
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        signature = self._plain_signature or self._signature
        contexts = dict.fromkeys(signature.context_parameters, ctx)
        arguments = {**self._values_by_name(arguments_json), **contexts}
        if function is not self.function:
            arguments = callables.accepted_arguments(function, arguments)
        return (), arguments


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
