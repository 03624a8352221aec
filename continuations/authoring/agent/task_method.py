"""Methods that a model implements: `@task` in the body of a subclass of `Agent`."""

from __future__ import annotations

import copy
import dataclasses
import dis
import inspect
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, TypeVar, overload

from continuations.authoring import callables
from continuations.authoring.agent import agent_options
from continuations.authoring.agent.agent import Agent, is_agent
from continuations.authoring.errors import ArgumentsInvalid
from continuations.authoring.tool.tool import class_scope, made_for
from continuations.core.declared_types import Output
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Concatenate


P = ParamSpec("P")
R = TypeVar("R")


class TaskAgent(Agent[Output], Generic[P, Output]):
    """The agent of a method that `task` declared. It can do everything an agent can.

    Its output has the return type of the method. The parameters of the method are its
    arguments when another agent calls it.
    """

    def __init__(self, method: TaskMethod[P, Any], agent: Agent[Any]) -> None:
        self._signature = inspect.signature(method.function.__get__(agent))
        doc = inspect.cleandoc(method.function.__doc__ or "")
        options = agent_options.options_of(agent)
        options |= {
            "instructions": _instructions(agent, doc),
            "tools": lambda: [*agent.tools_by_name.values(), *agent.tool_sources],
            "description": doc.partition("\n\n")[0] or None,
            "input_type": method.input_type,
            "output_type": method.output_type,
        }
        super().__init__(f"{agent.name}_{method.function.__name__}", **options)

    def __call__(self, *_args: object, **_options: object) -> NoReturn:
        """Raise `InvalidInput`: a task needs a run."""
        raise InvalidInput(
            f"task {self.name} cannot be called: its model needs a run. Use "
            "run(agent.task, agent.task.input(...)), or pass the task to tools=[...]."
        )

    def input(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """Return the input of a run of this agent: the arguments as JSON.

        Args:
            *args: Arguments of the method.
            **kwargs: Arguments of the method by name.

        Returns:
            The text for `start`, `run` or `send`.

        Raises:
            InvalidInput: An argument does not have the type of its parameter.
        """
        from continuations.authoring.arguments import json_values, typed_values  # noqa: PLC0415 - pydantic is slow to import

        try:
            values = self._signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            names = ", ".join(self._signature.parameters)
            msg = f"task {self.name}: {error}. Pass its parameters: {names}."
            raise InvalidInput(msg) from None
        adapter = typed_values.make_type_adapter(self.input_type)
        try:
            made = adapter.dump_json(self.input_type(**values), warnings=False)
            validator = typed_values.make_input_validator(
                self.input_type, agent_name=self.name
            )
            return validator.effective_arguments(made.decode())
        except ArgumentsInvalid as error:
            lines = str(error).splitlines()
            why = "; ".join(line.removeprefix("- ") for line in lines[1:] or lines)
            raise InvalidInput(
                f"task {self.name}: the arguments do not fit its parameters: "
                f"{why.rstrip('.')}. Pass values of the declared types."
            ) from None
        except Exception as error:
            raise InvalidInput(
                f"task {self.name}: the arguments cannot be used: "
                f"{json_values.first_line(error)}. Pass values of the declared types."
            ) from error


class TaskMethod(callables.OfClass, Generic[P, R]):
    """A method that the model implements; `agent.method` is a `TaskAgent`."""

    kind = "task"

    def __init__(
        self,
        function: Callable[Concatenate[Any, P], R],
        frame: FrameType | None,
    ) -> None:
        self.function: Callable[..., Any] = function
        self._check_function()
        self.__doc__ = function.__doc__
        self.__qualname__ = function.__qualname__
        self._label = f"task {function.__qualname__}"
        self._scope = class_scope(function, frame)
        self._check()
        self._warn_of_body()
        callables.warn_without_docstring(function.__name__, function)

    def __repr__(self) -> str:
        return f"<{self._label}>"

    @overload
    def __get__(self, instance: None, owner: type) -> TaskMethod[P, R]: ...
    @overload
    def __get__(self, instance: Agent[Any], owner: type) -> TaskAgent[P, R]: ...
    def __get__(
        self, instance: object | None, owner: type
    ) -> TaskMethod[P, R] | TaskAgent[P, R]:
        if instance is None:
            return self
        if not is_agent(instance):
            raise InvalidInput(
                f"{self._label}: only an agent can do a task, got an object of type "
                f"{owner.__name__}. Derive the class from Agent."
            )
        made_here = made_for(instance)
        if self not in made_here:
            made_here[self] = TaskAgent(self, instance)
        made: TaskAgent[P, R] = made_here[self]
        return made

    def _check_function(self) -> None:
        if not inspect.isfunction(self.function):
            raise InvalidInput(
                f"@task must stand directly above def, got {self.function!r}. A method "
                "is a task or a tool: leave out the other decorator."
            )

    def _warn_of_body(self) -> None:
        """Warn about a body that would do something: it never runs."""
        code = self.function.__code__
        reads = any(each.opname.startswith("LOAD_FAST") for each in dis.Bytecode(code))
        if reads or {*code.co_names} - {"NotImplementedError"}:
            callables.warn_author(
                f"{self._label} has a body, and it never runs: the model does the task."
                " Write raise NotImplementedError, or use @tool for code that runs."
            )

    def _check(self) -> None:
        function = self.function
        if inspect.iscoroutinefunction(function):
            msg = f"{self._label} is async, and no code of it runs. Write def instead."
            raise InvalidInput(msg)
        if callables.is_generator(function):
            raise InvalidInput(
                f"{self._label} has a yield, and no code of it runs. Annotate a list "
                "as its result, and write raise NotImplementedError."
            )
        if not callables.is_method(function):
            raise InvalidInput(
                f"{self._label} is not a method. Declare it in a subclass of Agent, "
                "with self as its first parameter."
            )
        callables.check_tool_function(function.__get__(self), function.__name__)
        signature = inspect.signature(function)
        if len(signature.parameters) == 1:
            msg = f"{self._label} has no parameters. Add one for the input of the task."
            raise InvalidInput(msg)
        if signature.return_annotation in (signature.empty, None, "None"):
            msg = f"{self._label} returns nothing. Annotate the type of the result."
            raise InvalidInput(msg)

    @cached_property
    def input_type(self) -> type[Any]:
        """A dataclass of the parameters."""
        parameters = [*inspect.signature(self.function).parameters.values()][1:]
        fields = [(p.name, self._type_of(p), _field_of(p)) for p in parameters]
        return dataclasses.make_dataclass(
            f"{self.function.__name__}_input", fields, kw_only=True
        )

    @property
    def output_type(self) -> Any:
        """The type of the result."""
        returned = inspect.signature(self.function).return_annotation
        parameter = inspect.Parameter(
            "result", inspect.Parameter.KEYWORD_ONLY, annotation=returned
        )
        return self._type_of(parameter)

    def _type_of(self, parameter: inspect.Parameter) -> Any:
        try:
            return callables.parameter_type(parameter, self.function, self._scope)
        except Exception as error:
            raise InvalidInput(
                f"{self._label}: the type of {parameter.name!r} cannot be read: "
                f"{error}. Correct the annotation."
            ) from error


def task(function: Callable[Concatenate[Any, P], R], /) -> TaskMethod[P, R]:
    """Declare a method of an agent class that the model implements.

    The docstring says what to do, and stands below the instructions of the class. The
    result is the final reply of the model, as a value of the return type. The body of
    the method never runs.

    ```python
    class Architect(Agent):
        \"\"\"You design small Python libraries.\"\"\"

        model = "gpt-5-mini"

        @task
        def plan(self, brief: str) -> Plan:
            \"\"\"Plan the modules of the library.\"\"\"
            raise NotImplementedError

    architect = Architect()
    outcome = run(architect.plan, architect.plan.input("A parser for dates"))
    boss = Agent("boss", tools=[architect.plan], model="gpt-5-mini")
    ```

    Args:
        function: The method, with annotated parameters and an annotated result.

    Returns:
        A descriptor. On an agent, the method is a `TaskAgent`: an agent with the
        options and tools of its class, named `{agent}_{method}`.

    Raises:
        InvalidInput: The function is not a method, is async, has no parameter beside
            `self`, or an annotation is missing.
    """
    return TaskMethod(function, inspect.currentframe())


def _instructions(agent: Agent[Any], doc: str) -> Any:
    if isinstance(agent.instructions, str):
        return "\n\n".join(filter(None, (agent.instructions, doc)))

    async def instructions(agent_input: Any, context: Any) -> str:
        text = await agent.make_instructions(agent_input, context)
        return "\n\n".join(filter(None, (text, doc)))

    async def instructions_of_state(state: Any) -> str:
        text = await agent.render_instructions(state)
        return "\n\n".join(filter(None, (text, doc)))

    return instructions_of_state if agent.renders_state else instructions


def _field_of(parameter: inspect.Parameter) -> Any:
    default = parameter.default
    if default is parameter.empty:
        return dataclasses.field()
    return dataclasses.field(default_factory=lambda: copy.deepcopy(default))
