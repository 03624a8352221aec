"""Sources of tools: what can list tools when a worker begins to work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import TypeIs

    from continuations.authoring.tool.tool_protocol import ToolProtocol


class ToolSource(Protocol):
    """Something that lists tools, for `Agent(tools=[...])`.

    Use it for tools that are known only at run time, such as those of a server. Each
    worker lists them once, before it works on a run. An agent that is made, and a
    decision, list nothing.
    """

    @property
    def name(self) -> str:
        """The name of the source, for errors. It must contain no secret."""
        ...

    async def list_tools(self) -> Sequence[ToolProtocol | Callable[..., Any]]:
        """Return the present tools.

        It is called in the event loop of the worker. An exception leaves the run to
        other processes and to a later sweep. A limit of time is the source's own.

        Returns:
            The tools in the order in which the model reads them; no agents.
        """
        ...


def is_tool_source(value: object) -> TypeIs[ToolSource]:
    """Return whether an item of `tools` lists tools, and is no tool itself."""
    lists = callable(getattr(value, "list_tools", None))
    has_name = isinstance(getattr(value, "name", None), str)
    return lists and has_name and not isinstance(value, type)
