"""Workflows: agents whose next step is chosen by Python code instead of a model.

`Flow` and `Workflow` stand in one module, because each names the other.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property, update_wrapper
from random import Random
from types import FunctionType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NoReturn,
    ParamSpec,
    Protocol,
    TypeVar,
    overload,
)
from uuid import UUID

from continuations.authoring import callables
from continuations.authoring.agent.agent import Agent, AgentTool
from continuations.authoring.arguments import answer_types
from continuations.authoring.errors import (
    ArgumentsInvalid,
    OutputInvalid,
    ResultNotSerializable,
)
from continuations.authoring.tool.tool import Tool, enclosing_locals
from continuations.authoring.tool.tool_parameters import FunctionParameters
from continuations.core import jsontext
from continuations.errors import InvalidInput
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.authoring.agent.agent_options import ToolLike
    from continuations.authoring.approval import ApprovalPolicy, Condition
    from continuations.authoring.context import ToolContext
    from continuations.authoring.readings import Reading
    from continuations.authoring.tool.tool_protocol import ToolProtocol
    from continuations.authoring.tool_waits import ToolWait
    from continuations.core.rows.workflow_history import OutcomeEntry

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
_PLAIN = (str, int, float, bool, type(None))


class Restart(BaseException):
    """Leaves the code of a workflow that begins anew."""


class DriveOfFlow(Protocol):
    """The running code of a workflow, as its `Flow` sees it; see `FlowDrive`."""

    @property
    def name(self) -> str:
        """The name of the workflow."""
        ...

    @property
    def now(self) -> int:
        """The time of the history, in milliseconds."""
        ...

    @property
    def seed(self) -> str:
        """The seed of the randomness."""
        ...

    def make_call(
        self, target: Any, args: Any, kwargs: Any
    ) -> Coroutine[Any, Any, Any]:
        """Return a call; raises `InvalidInput`."""
        ...

    def is_patched(self, name: str) -> bool:
        """Return whether the code after a change runs."""
        ...

    def ask_restart(self, args: Any, kwargs: Any) -> None:
        """Keep the arguments with which the code begins anew."""
        ...


class Flow:
    """The workflow, as its code sees it: the first parameter of the function.

    Await `flow.call(...)` for tools, agents and other workflows, and the waits
    `ask(...)`, `wait_for(...)`, `external(...)`, `sleep(...)` and `sleep_until(...)`.
    Everything else is plain asyncio.

    Args:
        drive: The running code of the workflow.
    """

    def __init__(self, drive: DriveOfFlow) -> None:
        self._drive = drive
        self._random: Random | None = None

    def __repr__(self) -> str:
        return f"<Flow of {self._drive.name}>"

    if TYPE_CHECKING:

        @overload
        def call(
            self, target: Workflow[P, T], /, *args: P.args, **kwargs: P.kwargs
        ) -> Coroutine[Any, Any, T]: ...
        @overload
        def call(
            self, target: Agent[T], input: object = ..., /, **arguments: Any
        ) -> Coroutine[Any, Any, T]: ...
        @overload
        def call(
            self,
            target: Callable[
                Concatenate[ToolContext, P], Coroutine[Any, Any, ToolWait[T]]
            ],
            /,
            *args: P.args,
            **kwargs: P.kwargs,
        ) -> Coroutine[Any, Any, T]: ...
        @overload
        def call(
            self,
            target: Callable[P, Coroutine[Any, Any, ToolWait[T]]],
            /,
            *args: P.args,
            **kwargs: P.kwargs,
        ) -> Coroutine[Any, Any, T]: ...
        @overload
        def call(
            self,
            target: Callable[Concatenate[ToolContext, P], Coroutine[Any, Any, T]],
            /,
            *args: P.args,
            **kwargs: P.kwargs,
        ) -> Coroutine[Any, Any, T]: ...
        @overload
        def call(
            self,
            target: Callable[P, Coroutine[Any, Any, T]],
            /,
            *args: P.args,
            **kwargs: P.kwargs,
        ) -> Coroutine[Any, Any, T]: ...
        @overload
        def call(
            self,
            target: Callable[Concatenate[ToolContext, P], T],
            /,
            *args: P.args,
            **kwargs: P.kwargs,
        ) -> Coroutine[Any, Any, T]: ...
        @overload
        def call(
            self,
            target: Callable[P, T],
            /,
            *args: P.args,
            **kwargs: P.kwargs,
        ) -> Coroutine[Any, Any, T]: ...

    def call(
        self, target: Any, /, *args: Any, **kwargs: Any
    ) -> Coroutine[Any, Any, Any]:
        """Return a call of a tool, an agent or a workflow, to be awaited.

        The call is made when it is first awaited, by `await`, `create_task`, `gather`
        or a `TaskGroup`. It runs under the rules of every call: approvals, retries and
        unknown outcomes.

        Args:
            target: A tool, an agent or a workflow that the decorator lists.
            *args: Its arguments. An agent takes the text of the task, or one value of
                its `input_type`.
            **kwargs: Its arguments by name.

        Returns:
            The call. Its result has the return type of the tool, or the output type of
            the agent.

        Raises:
            InvalidInput: The workflow does not list the target, or the arguments do not
                fit it.
            CallFailed: The call failed; raised where the call is awaited, like those
                that follow.
            CallDenied: A person or a rule denied it.
            CallExpired: No person decided in time.
            CallCancelled: An operator cancelled it.
        """
        return self._drive.make_call(target, args, kwargs)

    def now(self) -> datetime:
        """Return the time of the history, which is the same in every replay.

        Returns:
            The time, in UTC.
        """
        return datetime.fromtimestamp(self._drive.now / 1000, UTC)

    @property
    def random(self) -> Random:
        """Randomness that is the same in every replay."""
        if self._random is None:
            self._random = Random(self._drive.seed)  # noqa: S311 - it is repeatable
        return self._random

    def uuid(self) -> UUID:
        """Return a new UUID that is the same in every replay.

        Returns:
            A random UUID (version 4).
        """
        return UUID(int=self.random.getrandbits(128), version=4)

    def patched(self, name: str) -> bool:
        """Return whether the new code after a change runs, in this workflow.

        It is true for a workflow that comes here for the first time, and false for one
        whose history went past this place with the code before.

        Args:
            name: The name of the change.

        Returns:
            Whether the new code runs. The answer stays the same for this workflow.
        """
        return self._drive.is_patched(name)

    def restart(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Begin the function anew with other arguments and an empty history.

        A loop over months keeps its history short with it. Open calls are cancelled as
        at the end of the function.

        Args:
            *args: The arguments of the workflow.
            **kwargs: Its arguments by name.

        Returns:
            Nothing: the function ends here.

        Raises:
            InvalidInput: The arguments do not fit the function, or the code has awaited
                nothing yet.
        """
        self._drive.ask_restart(args, kwargs)
        raise Restart


class Workflow(Agent[R], Generic[P, R]):
    """A function that calls agents and tools, and that survives every stop.

    `workflow` makes one. It stands wherever an agent may stand.

    Args:
        function: The coroutine function; its first parameter is a `Flow`.
        name: See `workflow`.
        description: See `workflow`.
        tools: See `workflow`.
        agents: See `workflow`.
        approval: See `workflow`.
        scope: The local names that the annotations of a nested function use. `workflow`
            passes them.

    Raises:
        InvalidInput: The function cannot be a workflow, or an option is invalid.
    """

    function: Callable[Concatenate[Flow, P], Coroutine[Any, Any, R]]
    is_workflow = True

    def __init__(
        self,
        function: Callable[Concatenate[Flow, P], Coroutine[Any, Any, R]],
        *,
        name: str | None = None,
        description: str | None = None,
        tools: Sequence[ToolLike] | Callable[[], Sequence[ToolLike]] = (),
        agents: Sequence[Agent[Any]] = (),
        approval: bool | Condition | ApprovalPolicy | None = None,
        scope: Mapping[str, Any] | None = None,
    ) -> None:
        check_function(function, scope)
        self._scope = scope
        self.parameters = FunctionParameters(
            _without_flow(function), function.__name__, scope
        )
        listed = _listed(function.__name__, tools, agents)
        super().__init__(
            function.__name__ if name is None else name,
            instructions="",
            tools=listed,
            description=description or self.parameters.description or None,
            approval=approval,
            max_turns=None,
            max_denials=None,
        )
        object.__setattr__(self, "function", function)
        update_wrapper(self, function, updated=())

    def __repr__(self) -> str:
        return f"<Workflow {self.name}>"

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        """Raise `InvalidInput`: a workflow needs a run."""
        del args, kwargs
        raise InvalidInput(
            f"workflow {self.name} was called like a function. Start a run: "
            f"runner.start({self.name}.bind(...)). In a workflow, await "
            f"flow.call({self.name}, ...)."
        )

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> BoundWorkflow[R]:
        """Return the workflow with its arguments, for `start` and `run`.

        Args:
            *args: The arguments of the function, without the `Flow`.
            **kwargs: Its arguments by name.

        Returns:
            The value for `runner.start(...)` and `run(...)`.

        Raises:
            InvalidInput: The arguments do not fit the function.
        """
        self._check_result_type()
        return BoundWorkflow(self, self.arguments_json(args, kwargs))

    def _check_result_type(self) -> None:
        """Raise `InvalidInput` before any effect if no result can have the type."""
        type_ = self.result_type
        if type_ in _PLAIN or type_ in (None, Any):
            return
        from continuations.authoring.arguments import typed_values  # noqa: PLC0415 - slow to import

        try:
            typed_values.make_type_adapter(type_)
        except InvalidInput as error:
            msg = f"workflow {self.name}: its return type cannot be stored: {error}"
            raise InvalidInput(msg) from None

    def bind_arguments(self, arguments: Mapping[str, Any]) -> BoundWorkflow[R]:
        """Return the workflow with arguments that came as JSON values.

        Args:
            arguments: The arguments by name.

        Returns:
            The value for `runner.start(...)` and `run(...)`.

        Raises:
            InvalidInput: The arguments do not fit the function.
        """
        try:
            text = jsontext.canonical(dict(arguments))
            return BoundWorkflow(self, self.parameters.effective_arguments(text))
        except (ArgumentsInvalid, jsontext.NotJson) as error:
            raise _wrong_arguments(self.name, error) from None

    # As an agent -------------------------------------------------------------------

    def _make_tool(self, **options: Any) -> AgentTool:
        return WorkflowTool(self, **options)

    def first_user_message(self, arguments_json: str) -> str:
        """Return the text with which a frame of the workflow starts.

        Args:
            arguments_json: The effective arguments of the call.

        Returns:
            The same arguments.
        """
        return arguments_json

    @cached_property
    def result_type(self) -> Any:
        """The return type of the function; any type if it declares none."""
        hints = _hints(self.function, self._scope)
        return hints.get("return", Any)

    @property
    def has_text_output(self) -> bool:
        """Whether the output is a text, and not JSON."""
        return self.result_type is str

    def parse_output(self, text: str) -> Any:
        """Return the output of a run of the workflow.

        Args:
            text: The stored output.

        Returns:
            A value of the return type of the function.

        Raises:
            OutputInvalid: The text does not fit the type.
        """
        if self.has_text_output:
            return text
        try:
            return typed_value(text, self.result_type)
        except ValueError as error:
            raise OutputInvalid(str(error)) from None

    def output_text(self, value: object) -> str:
        """Return the result of the function as it is stored.

        Args:
            value: The result.

        Returns:
            A text if the function returns `str`, else JSON.

        Raises:
            ResultNotSerializable: The value has no JSON form, or does not fit the
                return type.
        """
        if self.has_text_output and isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, Awaitable):
            msg = f"it is {value!r}, which was not awaited. Write: return await"
            raise ResultNotSerializable(msg)
        text = json_of(value)
        try:
            self.parse_output(text)
        except OutputInvalid as error:
            raise ResultNotSerializable(str(error)) from None
        return text

    # Its code ------------------------------------------------------------------------

    def arguments_json(self, args: Any, kwargs: Any) -> str:
        """Return arguments of the function as effective JSON.

        Args:
            args: The arguments by position.
            kwargs: The arguments by name.

        Returns:
            The arguments by name, with defaults, as canonical JSON.

        Raises:
            InvalidInput: The arguments do not fit the function.
        """
        values = _bound(self.name, self.signature, args, kwargs)
        try:
            return self.parameters.effective_arguments(json_of(values))
        except (ArgumentsInvalid, ResultNotSerializable) as error:
            raise _wrong_arguments(self.name, error) from None

    @cached_property
    def signature(self) -> inspect.Signature:
        """The parameters of the function, without the `Flow`."""
        return inspect.signature(_without_flow(self.function))

    def coroutine(self, flow: Flow, arguments_json: str) -> Coroutine[Any, Any, Any]:
        """Call the function with stored arguments.

        Args:
            flow: The first argument.
            arguments_json: The others, as `arguments_json` made them.

        Returns:
            The coroutine.

        Raises:
            ArgumentsInvalid: The arguments do not fit in this process.
        """
        values = self.parameters.values_by_name(arguments_json)
        function: Any = self.function
        coro: Coroutine[Any, Any, Any] = function(flow, **values)
        return coro

    @cached_property
    def _declared(self) -> dict[str, DeclaredCall]:
        # The code names the agents of the application, not the copies of a worker.
        tools = self.declared_agent.tools_by_name
        return {name: DeclaredCall(tool) for name, tool in tools.items()}

    def declared(self, target: Any) -> DeclaredCall:
        """Return how a target of `flow.call` is called.

        Args:
            target: A tool, a function, an agent or a workflow.

        Returns:
            The declaration.

        Raises:
            InvalidInput: The workflow does not list the target.
        """
        name = getattr(target, "name", None) or getattr(target, "__name__", None)
        found = self._declared.get(str(name))
        if found is not None and found.is_of(target):
            return found
        if isinstance(target, str):
            raise InvalidInput(
                f"flow.call({target!r}) failed: the target is a name. Pass the tool, "
                f"agent or workflow itself, as in flow.call({target}, ...)."
            )
        if isinstance(target, BoundWorkflow):
            name = target.name
            raise InvalidInput(
                f"flow.call({name}.bind(...)) failed: a call takes its arguments "
                f"itself. Write flow.call({name}, ...), without bind."
            )
        known = ", ".join(self._declared) or "none"
        option = "agents" if hasattr(target, "output_type") else "tools"
        raise InvalidInput(
            f"flow.call({name or type(target).__name__}) failed: workflow {self.name} "
            f"does not list it (it lists: {known}). Add it: @workflow({option}=[...])."
        )

    @staticmethod
    def answer_of(asked: ToolWait[Any], outcome: OutcomeEntry) -> Any:
        """Return the value of an answer.

        Args:
            asked: The wait that the code awaits.
            outcome: The outcome that answers it.

        Returns:
            A value of the type of the wait.

        Raises:
            ValueError: The value does not fit the type.
        """
        text = outcome.content
        if not outcome.is_json:
            text = jsontext.canonical(text)
        wanted = Any if asked.answer_type is None else asked.answer_type
        try:
            return answer_types.typed_value(text, wanted)
        except ArgumentsInvalid as error:
            raise ValueError(str(error)) from None


@dataclass(frozen=True, slots=True)
class BoundWorkflow(Generic[R]):
    """A workflow with its arguments; `Workflow.bind` makes it."""

    workflow: Workflow[Any, R]
    arguments_json: str

    @property
    def name(self) -> str:
        """The name of the workflow."""
        return self.workflow.name


class WorkflowTool(AgentTool):
    """A tool whose call starts a workflow. Its parameters are those of the function."""

    def __init__(self, flow: Workflow[Any, Any], **options: Any) -> None:
        self._workflow = flow
        super().__init__(flow, **options)

    @property
    def _parameters(self) -> Any:
        return self._workflow.parameters

    @property
    def _readings(self) -> Mapping[str, Reading]:
        return self._workflow.parameters.readings


class DeclaredCall:
    """Something that a workflow lists, and how it is called."""

    def __init__(self, tool: ToolProtocol) -> None:
        self.name = tool.name
        self._tool = tool

    def is_of(self, target: Any) -> bool:
        """Return whether it was made from a tool, a function or an agent."""
        tool: Any = self._tool
        if target is tool or (tool.sub_agent is not None and target is tool.sub_agent):
            return True
        function = getattr(tool, "function", None)
        wanted = getattr(target, "function", target)
        return function is not None and function == wanted

    @cached_property
    def _signature(self) -> inspect.Signature | None:
        """The parameters without contexts; `None` for an agent with a text."""
        tool: Any = self._tool
        agent = tool.sub_agent
        if isinstance(agent, Workflow):
            return agent.signature
        if agent is not None or not hasattr(tool, "function"):
            return None
        signature = inspect.signature(tool.function)
        hints = _hints(tool.function, _scope_of(tool))
        parameters = [
            each
            for name, each in signature.parameters.items()
            if not callables.is_context_type(hints.get(name, each.annotation))
            and str(each.annotation).rpartition(".")[2] != "ToolContext"
        ]
        return signature.replace(parameters=parameters)

    @cached_property
    def result_type(self) -> Any:
        """The type of the result; any type if nothing declares one."""
        tool: Any = self._tool
        agent = tool.sub_agent
        if isinstance(agent, Workflow):
            return agent.result_type
        if agent is not None:
            return str if agent.output_type is None else agent.output_type
        if not hasattr(tool, "function"):
            return Any
        found = _hints(tool.function, _scope_of(tool)).get("return", Any)
        return Any if _is_wait_type(found) else found

    def arguments_json(self, args: Any, kwargs: Any) -> str:
        """Return the arguments as the code gave them; raises `InvalidInput`."""
        signature = self._signature
        if signature is None:
            values = self._agent_values(args, kwargs)
        else:
            values = _bound(self.name, signature, args, kwargs)
        try:
            return json_of(values)
        except ResultNotSerializable as error:
            raise _wrong_arguments(self.name, error) from None

    def _agent_values(self, args: Any, kwargs: Any) -> Any:
        agent: Any = self._tool.sub_agent
        if len(args) > 1 or (args and kwargs):
            raise InvalidInput(
                f"flow.call({self.name}, ...) failed: it got {len(args)} inputs and "
                f"{len(kwargs)} arguments by name. Pass one input, or the arguments by "
                "name."
            )
        if not args:
            return kwargs
        has_text = agent is None or agent.input_type in (None, str)
        return {"input": args[0]} if has_text else args[0]

    def check_arguments(self, arguments_json: str) -> None:
        """Raise `InvalidInput` unless the arguments fit."""
        try:
            self._tool.effective_arguments(arguments_json)
        except ArgumentsInvalid as error:
            raise _wrong_arguments(self.name, error) from None

    def value_of(self, outcome: OutcomeEntry) -> Any:
        """Return the value of an outcome; raises `ValueError`."""
        agent = self._tool.sub_agent
        if outcome.is_json:
            return typed_value(outcome.content, self.result_type)
        if agent is not None:
            return _agent_output(agent, outcome.content)
        return outcome.content


def result_schema_json(tool: ToolProtocol) -> str | None:
    """Return the JSON Schema of the result of a tool; `None` for any JSON value."""
    type_ = DeclaredCall(tool).result_type
    try:
        return None if type_ is Any else answer_types.schema_json_of(type_)
    except InvalidInput:
        return None


def _agent_output(agent: Any, text: str) -> Any:
    try:
        return agent.parse_output(text)
    except OutputInvalid as error:
        raise ValueError(str(error)) from None


@overload
def workflow(
    function: Callable[Concatenate[Flow, P], Coroutine[Any, Any, R]], /
) -> Workflow[P, R]: ...
@overload
def workflow(
    *,
    name: str | None = ...,
    description: str | None = ...,
    tools: Sequence[ToolLike] | Callable[[], Sequence[ToolLike]] = ...,
    agents: Sequence[Agent[Any]] = ...,
    approval: bool | Condition | ApprovalPolicy | None = ...,
) -> Callable[
    [Callable[Concatenate[Flow, P], Coroutine[Any, Any, R]]], Workflow[P, R]
]: ...
def workflow(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    tools: Any = (),
    agents: Sequence[Agent[Any]] = (),
    approval: Any = None,
) -> Any:
    """Make a workflow from a coroutine function whose first parameter is a `Flow`.

    The function may stop at every `await`, for months, and goes on in another process.
    Its code is replayed with the recorded results of its calls. So it does nothing
    itself that has an effect: tools do.

    Args:
        function: The function.
        name: The name. Default: that of the function.
        description: The description for the model of a calling agent. Default: the
            docstring.
        tools: The tools that the function calls, as for an `Agent`.
        agents: The agents and workflows that it calls.
        approval: The approval policy of every tool without its own, as for an `Agent`.

    Returns:
        The workflow, or the decorator that makes it.

    Raises:
        InvalidInput: The function cannot be a workflow, or an option is invalid.
    """
    options: dict[str, Any] = {
        "name": name,
        "description": description,
        "tools": tools,
        "agents": agents,
        "approval": approval,
    }
    if function is not None:
        scope = enclosing_locals(function, inspect.currentframe())
        return Workflow(function, scope=scope, **options)

    def decorate(function: Any) -> Workflow[Any, Any]:
        scope = enclosing_locals(function, inspect.currentframe())
        return Workflow(function, scope=scope, **options)

    return decorate


def check_function(function: Any, scope: Mapping[str, Any] | None) -> None:
    """Raise `InvalidInput` for a function that cannot be a workflow."""
    if not inspect.iscoroutinefunction(function):
        got = getattr(function, "__name__", repr(function)[:60])
        raise InvalidInput(
            f"@workflow: {got} is not a coroutine function. Write async def, with the "
            "Flow as the first parameter."
        )
    name, hints = function.__name__, _hints(function, scope)
    first, *rest = [*inspect.signature(function).parameters.values(), None]
    is_first = first is not None and first.kind in (
        first.POSITIONAL_ONLY,
        first.POSITIONAL_OR_KEYWORD,
    )
    if (
        first is None
        or not is_first
        or hints.get(first.name, Flow) not in (Flow, Any)
        or any(each and hints.get(each.name) is Flow for each in rest)
    ):
        raise InvalidInput(
            f"@workflow: the first parameter of {name} is not the Flow. Write async "
            f"def {name}(flow: Flow, ...), outside a class."
        )
    for each in rest:
        if each and callables.is_context_type(hints.get(each.name)):
            raise InvalidInput(
                f"@workflow: the parameter {each.name} of {name} is a ToolContext, "
                "which only tools get. Use it in a tool, and call the tool."
            )


def _listed(name: str, tools: Any, agents: Any) -> Any:
    """Return what a workflow may call; raises `InvalidInput`."""
    if _makes_tools(tools):
        if not agents:
            return tools
        raise InvalidInput(
            f"workflow {name}: tools is a function, so agents is not read. Return the "
            "agents from the function too."
        )
    for option, value in (("tools", tools), ("agents", agents)):
        if not isinstance(value, list | tuple):
            raise InvalidInput(
                f"workflow {name}: {option} must be a list, got {value!r} "
                f"({type(value).__name__}). Write {option}=[...]."
            )
    given: Any
    for given in agents:
        if not isinstance(given, Agent):
            raise InvalidInput(
                f"workflow {name}: agents has {given!r} ({type(given).__name__}), "
                "which is not an agent. Write tools=[...] for a tool."
            )
    return (*tools, *agents)


def _makes_tools(tools: Any) -> bool:
    return callable(tools) and not isinstance(tools, Tool)


def _without_flow(function: Any) -> Any:
    """Return a function that shows the parameters after the first one."""

    def carrier() -> None:
        """Carry the signature; it is never called."""

    signature = inspect.signature(function)
    first, *rest = signature.parameters.values()
    made: Any = FunctionType(carrier.__code__, function.__globals__, function.__name__)
    made.__signature__ = signature.replace(parameters=rest)
    made.__annotations__ = {
        name: each
        for name, each in function.__annotations__.items()
        if name != first.name
    }
    made.__doc__ = function.__doc__
    made.__wrapped__ = function
    made.__module__, made.__qualname__ = function.__module__, function.__qualname__
    return made


def _bound(name: str, signature: inspect.Signature, args: Any, kwargs: Any) -> Any:
    parameters = signature.parameters
    if not args and kwargs.keys() == parameters.keys():
        return kwargs  # each call of a replay comes here, and `bind` is slow
    if not kwargs and len(args) == len(parameters):
        return dict(zip(parameters, args, strict=True))
    try:
        return signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        raise _wrong_arguments(name, error) from None


def _wrong_arguments(name: str, error: object) -> InvalidInput:
    return InvalidInput(
        f"the arguments of {name} do not fit: {in_one_line(error)}. Compare them with "
        "its parameters."
    )


def in_one_line(error: object) -> str:
    """Return the text of an error as one clause, without its heading."""
    heading, *lines = str(error).rstrip(".").split("\n")
    return "; ".join(line.removeprefix("- ") for line in lines) or heading


def json_of(value: Any) -> str:
    """Return a value as canonical JSON; raises `ResultNotSerializable`."""
    try:
        return jsontext.canonical(value)
    except jsontext.NotJson:
        from continuations.authoring.tool.tool_results import to_json_text  # noqa: PLC0415 - slow to import

        return jsontext.canonical(jsontext.parse(to_json_text(value)))


def typed_value(text: str, wanted: Any) -> Any:
    """Return JSON as a value of a type; raises `ValueError`."""
    if wanted in _PLAIN or wanted is None or wanted is Any:
        value = jsontext.parse(text)
        if wanted is Any or type(value) is wanted or (wanted is None and value is None):
            return value
    try:
        return answer_types.typed_value(text, wanted)
    except ArgumentsInvalid as error:
        raise ValueError(str(error).replace("The answer", "The result")) from None


def _scope_of(tool: Any) -> Mapping[str, Any] | None:
    parameters = getattr(tool, "_of_function", None)
    return getattr(parameters, "_scope", None)


def _is_wait_type(type_: Any) -> bool:
    from continuations.authoring.tool_waits import ToolWait  # noqa: PLC0415 - circular

    return (typing.get_origin(type_) or type_) is ToolWait


def _hints(function: Any, scope: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the types of a function, as far as they can be read."""
    hints: dict[str, Any] = {}
    origin = inspect.unwrap(function)
    names = getattr(origin, "__globals__", {})
    for name, annotation in getattr(origin, "__annotations__", {}).items():

        def carrier() -> None:
            """Carry one annotation, so that the others cannot spoil it."""

        carrier.__annotations__ = {name: annotation}
        try:
            found = typing.get_type_hints(carrier, names, dict(scope or {}))
        except Exception:  # noqa: BLE001, S112 - an annotation may raise anything
            continue
        hints[name] = found[name]
    return hints
