"""Copies of agents for one worker, in which tool sources are replaced by their tools.

An agent of the application never changes. So workers of two runs may have different
tools of one server at the same time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from continuations.authoring import callables
from continuations.authoring.agent.agent import Agent, every_agent
from continuations.authoring.tool.tool import Tool
from continuations.authoring.tool.tool_protocol import is_complete_tool
from continuations.errors import InvalidInput, ToolsUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from continuations.authoring.tool.tool_protocol import AgentProtocol, ToolProtocol
    from continuations.authoring.tool.tool_source import ToolSource

_NOTHING = "Nothing ran and nothing was written"


async def with_listed_tools(root: AgentProtocol) -> Agent[Any]:
    """Return a copy of a root agent, and of all agents below it, with listed tools.

    Raises `ToolsUnavailable` if a source fails, or if its tools do not fit an agent.
    """
    agents = cast("Sequence[Agent[Any]]", every_agent(root))
    sources = {id(each): each for agent in agents for each in agent.tool_sources}
    listed = dict(zip(sources, await _lists(sources.values()), strict=True))
    copies = {id(agent): _empty_copy(agent) for agent in agents}
    for agent in agents:
        _check_names(agent, listed)
        try:
            agent.fill_copy(listed, copies)
        except InvalidInput as error:
            msg = f"{error} {_NOTHING}."
            raise ToolsUnavailable(msg) from error
    return copies[id(root)]


def _empty_copy(agent: Agent[Any]) -> Agent[Any]:
    # `copy` is for applications, and refuses an agent, which owns its tools.
    made: Agent[Any] = object.__new__(type(agent))
    return made


async def _lists(sources: Iterable[ToolSource]) -> list[list[ToolProtocol]]:
    """List all sources at the same time; raises `ToolsUnavailable`."""
    results = await asyncio.gather(*map(_list, sources), return_exceptions=True)
    lists: list[list[ToolProtocol]] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        lists.append(result)
    return lists


async def _list(source: ToolSource) -> list[ToolProtocol]:
    try:
        return [_as_tool(each) for each in await source.list_tools()]
    except ToolsUnavailable:
        raise
    except InvalidInput as error:
        msg = f"the tools of {source.name} cannot be used: {error} {_NOTHING}."
        raise ToolsUnavailable(msg) from error
    except BaseException as error:
        if not isinstance(error, Exception) or callables.is_task_cancellation(error):
            raise
        msg = (
            f"the tools of {source.name} could not be listed: {type(error).__name__}. "
            f"{_NOTHING}. Check that the source answers, then call again; a later "
            "sweep tries a stored run again."
        )
        raise ToolsUnavailable(msg) from error


def _as_tool(item: Any) -> ToolProtocol:
    """Return a tool; raises `InvalidInput` for an agent, and for any other value."""
    made = item
    if not is_complete_tool(item) and callable(item):
        made = Tool(item)
    if is_complete_tool(made) and made.sub_agent is None:
        # Here, because a schema of the other side is a cause of errors too.
        _ = made.schema_json
        return made
    msg = f"it listed {callables.shown(item)}, which is no tool. List tools only."
    raise InvalidInput(msg)


def _check_names(
    agent: Agent[Any], listed: Mapping[int, Sequence[ToolProtocol]]
) -> None:
    """Raise `ToolsUnavailable` if two tools of an agent have one name."""
    owners = dict.fromkeys(agent.tools_by_name, "the agent itself")
    for source in agent.tool_sources:
        for tool in listed[id(source)]:
            if tool.name in owners:
                msg = (
                    f"agent {agent.name} has two tools named {tool.name}: one of "
                    f"{owners[tool.name]}, one of {source.name}. {_NOTHING}. Rename "
                    "one, or leave it out."
                )
                raise ToolsUnavailable(msg)
            owners[tool.name] = source.name
