"""`tool` and `suspend_function` as the prototype has them."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

import continuations
from continuations import tools
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable


class Tool:
    """A declared tool; `tool` makes it.

    Args:
        func: The function, or for an agent the function that passes on its input.
        name: The name for the model. Default: the name of the function.
        description: The description for the model. Default: the docstring.
        need_approval: Whether each call waits for an approval.
        is_agent: Whether the function calls `request` of an agent with its input.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        name: str | None = None,
        description: str | None = None,
        need_approval: bool = False,
        is_agent: bool = False,
    ) -> None:
        self.func = func
        self.name = name or str(getattr(func, "__name__", ""))
        self.description = description or inspect.getdoc(func) or ""
        self.need_approval = need_approval
        self.is_agent = is_agent
        # The agent of such a function, once it was looked for.
        self.found_agent: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.func(*args, **kwargs)

    @functools.cached_property
    def function_tool(self) -> tools.Tool[..., Any]:
        """The tool of this library; for tools that are no agents."""
        made: tools.Tool[..., Any] = continuations.tool(
            self.func,
            name=self.name,
            description=self.description,
            approval=self.need_approval,
        )
        return made

    def to_openai_function(self) -> dict[str, Any]:
        """Return the tool as the chat completions API takes it.

        Returns:
            The type, and the name, description and JSON Schema of the arguments.
        """
        parameters: dict[str, Any] = {
            "type": "object",
            "properties": {"prompt": {"type": "string"}},
            "required": ["prompt"],
        }
        if not self.is_agent:
            parameters = dict(self.function_tool.parameters)
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": parameters,
        }
        return {"type": "function", "function": function}


def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    need_approval: bool = False,
    is_agent: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a function as a tool; the function stays callable.

    Args:
        name: The name for the model. Default: the name of the function.
        description: The description for the model. Default: the docstring.
        need_approval: Whether each call waits for an approval.
        is_agent: Whether the function returns `agent.request(input)`. The function is
            called once, to find the agent, and must pass on its input unchanged.

    Returns:
        A decorator.
    """

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return func(*args, **kwargs)

        declared: Any = wrapper
        declared._tool = Tool(func, name, description, need_approval, is_agent)  # noqa: SLF001 - the prototype's attribute
        return wrapper

    return decorate


def tool_of(declared: object) -> Tool:
    """Return the `Tool` of a declared function; raises `InvalidInput`."""
    found = getattr(declared, "_tool", None)
    if isinstance(found, Tool):
        return found
    name = getattr(declared, "__name__", repr(declared)[:60])
    msg = f"tools has {name}, which is no tool. Declare it with @tool()."
    raise InvalidInput(msg)


def suspend_function(
    **state: Any,
) -> Callable[[Callable[[], bool]], Callable[[], bool]]:
    """Declare a function that says before each model turn whether to suspend.

    The state belongs to one request: each `request` begins with the initial state. So
    `n=2` lets an agent make two turns after every resumption.

    Args:
        **state: The initial state, as attributes of the function.

    Returns:
        A decorator.
    """

    def decorate(func: Callable[[], bool]) -> Callable[[], bool]:
        @functools.wraps(func)
        def wrapper() -> bool:
            return func()

        vars(wrapper).update(state)
        declared: Any = wrapper
        declared._initial_state = state  # noqa: SLF001 - read by `reset` alone
        return wrapper

    return decorate


def reset(function: Callable[[], bool]) -> None:
    """Give a suspension function its initial state again."""
    vars(function).update(getattr(function, "_initial_state", {}))
