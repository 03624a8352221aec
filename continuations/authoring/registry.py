"""Find the agents and tools of this process by the names in a run.

A run names its code by its root agent and, below it, by tool names. Nothing is
imported by name, and nothing is looked up in another way.

A stored run keeps the old names for good: its frames, calls, digests and grants name
them. So a renamed tool is looked up under its new name, and is used for a stored call
as a copy that has the old name. The contract of the copy is computed with the old name.
An approval is therefore valid exactly if nothing but the name has changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from continuations.authoring import callables
from continuations.authoring.agent.agent import Agent, every_agent
from continuations.authoring.tool.base_tool import BaseTool, is_handoff
from continuations.authoring.tool.tool import Tool
from continuations.authoring.tool.tool_protocol import is_complete_tool
from continuations.errors import InvalidInput, ToolsUnavailable

if TYPE_CHECKING:
    from continuations.authoring.agent.agent_options import ToolSource
    from continuations.authoring.tool.tool_protocol import AgentProtocol, ToolProtocol


class AgentRegistry:
    """The agents that this process can start and resume."""

    def __init__(
        self, roots: Sequence[AgentProtocol], renamed: Mapping[str, str] | None = None
    ) -> None:
        """Register root agents; raises `InvalidInput`.

        Two of them have one name, or `renamed` does not fit them.
        """
        self._roots: dict[str, AgentProtocol] = {}
        self._renamed = renamed
        self._with_sources: dict[str, bool] = {}
        for agent in roots:
            if agent.name in self._roots:
                msg = f"two root agents are named {agent.name}: rename one of them."
                raise InvalidInput(msg)
            self._roots[agent.name] = agent
        self.renames: Renames | None = None
        if renamed and roots:
            self.renames = Renames(renamed, roots)

    def find_root_agent(self, name: str) -> AgentProtocol | None:
        """Return a root agent by its name, or by an old one, or `None`."""
        agent = self._roots.get(name)
        if agent is None and self.renames is not None:
            agent = self.renames.find_agent(self._roots, name)
        return agent

    def has_sources(self, name: str) -> bool:
        """Return whether tools of a root agent, or below it, are not listed yet."""
        if name not in self._with_sources:
            root = self.find_root_agent(name)
            found = any(map(_sources_of, every_agent(*([root] if root else []))))
            self._with_sources[name] = found
        return self._with_sources[name]

    async def listed(self, name: str) -> AgentRegistry:
        """Return a registry in which the tool sources of a root agent are listed.

        Raises `ToolsUnavailable`. Without sources it is this registry.
        """
        root = self.find_root_agent(name)
        if root is None or not self.has_sources(name):
            return self
        made = await with_listed_tools(root)
        roots = [made if each is root else each for each in self._roots.values()]
        try:
            return AgentRegistry(roots, self._renamed)
        except InvalidInput as error:
            raise ToolsUnavailable(str(error)) from error

    def find_renamed_tool(
        self, agent: AgentProtocol, old_name: str
    ) -> ToolProtocol | None:
        """Return a tool of an agent by an old name, as a copy with it, or `None`."""
        if self.renames is None:
            return None
        return self.renames.find_tool(agent, old_name)

    def missing_root_text(self, name: str) -> str:
        """Return what a process says that lacks the root agent of a run."""
        known = ", ".join(self._roots) or "none"
        return (
            f"this process has no root agent {name} (root agents: {known}). Resume with"
            " the agent that the run was started with. The run is unchanged."
        )

    def find_sub_agent(
        self, agent: AgentProtocol, tool_name: str
    ) -> AgentProtocol | None:
        """Return the agent that a tool of an agent starts, or `None`."""
        tool = agent.get_tool(tool_name)
        if tool is None:
            tool = self.find_renamed_tool(agent, tool_name)
        return None if tool is None else tool.sub_agent

    @cached_property
    def secrets_by_tool(self) -> Mapping[str, frozenset[str]]:
        """The paths of the secret arguments of all tools, by the names of the tools.

        Tools of several agents may have one name.
        """
        secrets: dict[str, frozenset[str]] = {}
        for agent in every_agent(*self._roots.values()):
            for name, tool in agent.tools_by_name.items():
                secrets[name] = secrets.get(name, frozenset()).union(tool.secrets)
        return secrets

    def find_holder(self, agent: AgentProtocol, name: str) -> AgentProtocol | None:
        """Return an agent that a conversation was handed to, or `None`.

        Args:
            agent: The agent with which the conversation began.
            name: The name of the agent that has it, perhaps an old one.
        """

        def newest(name: str) -> str:
            return name if self.renames is None else self.renames.newest_name(name)

        found = (each for each in _holders(agent) if newest(each.name) == newest(name))
        return next(found, None)


def missing_tool_text(agent: AgentProtocol, tool_name: str) -> str:
    """Return why a call's tool is not found, as the beginning of a sentence."""
    if agent.get_tool(tool_name) is not None:
        name = agent.name
        return (
            f"the tool {tool_name} of agent {name} was an agent and is now a function"
        )
    known = ", ".join(agent.tools_by_name) or "none"
    return f"agent {agent.name} has no tool {tool_name} (its tools: {known})"


_MAX_NAMES = 20  # in an error


class Renames:
    """Finds agents and tools under the names that they had before.

    Args:
        mapping: The new name of each old name. A new name may have a newer one.
        roots: The root agents.

    Raises:
        InvalidInput: The mapping has a circle, leads to an unknown name, or an agent
            has a tool under an old name and another one under its new name.
    """

    def __init__(
        self, mapping: Mapping[str, str], roots: Sequence[AgentProtocol]
    ) -> None:
        self._mapping = dict(mapping)
        self._copies: dict[tuple[int, str], ToolProtocol] = {}
        chains = [[old, *self._newer_names(old)] for old in self._mapping]
        agents = list(every_agent(*roots))
        known = {agent.name for agent in roots}
        for agent in agents:
            known.update(agent.tools_by_name)
            known.update(each.name for each in _holders(agent))
        # A tool that is not listed yet may have the new name.
        is_known = not any(map(_sources_of, agents))
        for chain in chains:
            if is_known:
                _check_known(chain, known)
            _check_one_of(chain, {each.name for each in roots}, "the root agents")
            for agent in agents:
                owner = f"the tools of agent {agent.name}"
                _check_one_of(chain, agent.tools_by_name, owner)

    def newest_name(self, name: str) -> str:
        """Return the name at the end of the renames of a name."""
        return [name, *self._newer_names(name)][-1]

    def old_names(self, name: str) -> Iterator[str]:
        """Iterate over the old names that lead to a name."""
        for old in self._mapping:
            if name in self._newer_names(old):
                yield old

    def find_tool(self, agent: AgentProtocol, old_name: str) -> ToolProtocol | None:
        """Return a renamed tool of an agent under its old name, or `None`."""
        for name in self._newer_names(old_name):
            tool = agent.get_tool(name)
            if tool is not None:
                return self.named(tool, old_name)
        return None

    def find_agent(
        self, agents: Mapping[str, AgentProtocol], old_name: str
    ) -> AgentProtocol | None:
        """Return a renamed agent out of agents by name, or `None`."""
        found = (agents.get(name) for name in self._newer_names(old_name))
        return next((agent for agent in found if agent is not None), None)

    def named(self, tool: ToolProtocol, name: str) -> ToolProtocol:
        """Return a tool as a copy with another name; its contract has that name.

        A tool of a class of the application has no such copy. Then its contract is
        another one, and an approval of the old name is asked for again.
        """
        if not isinstance(tool, BaseTool):
            return tool
        key = (id(tool), name)
        if key not in self._copies:
            self._copies[key] = tool.with_name(name)
        return self._copies[key]

    def _newer_names(self, name: str) -> list[str]:
        names: list[str] = []
        while (newer := self._mapping.get(name)) is not None:
            if newer in names or newer == name:
                circle = " -> ".join([*names, newer])
                raise InvalidInput(
                    f"renamed has a circle: {circle}. Let every old name lead to a "
                    "name of the new code."
                )
            names.append(newer)
            name = newer
        return names


def check_renamed(renamed: object) -> Mapping[str, str]:
    """Return a valid mapping of names; raises `InvalidInput`."""
    if renamed is None:
        return {}
    if _is_mapping(renamed):
        names = [name for pair in renamed.items() for name in pair]
        if all(type(name) is str and name for name in names):
            return cast("Mapping[str, str]", renamed)
    raise InvalidInput(
        "renamed must be a mapping of old names to new names, got "
        f"{repr(renamed)[:60]}. Pass for example renamed={{'transfer': 'pay'}}."
    )


def _is_mapping(value: object) -> TypeGuard[Mapping[Any, Any]]:
    return isinstance(value, Mapping)


def with_old_name(agent: Agent[Any], name: str) -> Agent[Any]:
    """Return a copy of a root agent with its old name, for threads of that name."""
    # `copy` is for applications, and refuses an agent: the tools belong to it.
    made: Agent[Any] = object.__new__(type(agent))
    vars(made).update(vars(agent))
    made.name = name
    return made


def _sources_of(agent: AgentProtocol) -> Sequence[ToolSource]:
    sources: Sequence[ToolSource] = getattr(agent, "tool_sources", ())
    return sources


def _holders(agent: AgentProtocol) -> Iterator[AgentProtocol]:
    """Yield an agent, and those that may get its conversation, the nearest first."""
    found = [agent]
    for each in found:  # grows while it is read
        yield each
        for tool in each.tools_by_name.values():
            after = tool.sub_agent if is_handoff(tool) else None
            if after is not None and after not in found:
                found.append(after)


def _check_known(chain: Sequence[str], known: set[str]) -> None:
    if chain[-1] in known:
        return
    names = ", ".join(sorted(known)[:_MAX_NAMES]) or "none"
    raise InvalidInput(
        f"renamed={{{chain[-2]!r}: {chain[-1]!r}}} leads to no agent and no tool of "
        f"this runner (its names: {names}). Correct the new name."
    )


def _check_one_of(chain: Sequence[str], names: Iterable[str], owner: str) -> None:
    both = [name for name in chain if name in names]
    if len(both) > 1:
        raise InvalidInput(
            f"renamed={{{both[0]!r}: {both[1]!r}}} is ambiguous: {owner} have both "
            "names, so a stored run could mean either. Give the new one another name."
        )


_NOTHING = "Nothing ran and nothing was written"


async def with_listed_tools(root: AgentProtocol) -> Agent[Any]:
    """Return a copy of a root agent, and of all agents below it, with listed tools.

    Raises `ToolsUnavailable` if a source fails, or if its tools do not fit an agent.
    """
    agents = cast("Sequence[Agent[Any]]", [*every_agent(root)])
    sources = {id(each): each for agent in agents for each in agent.tool_sources}
    listed = dict(zip(sources, await _lists(sources.values()), strict=True))
    copies = {id(agent): _empty_copy(agent) for agent in agents}
    for agent in agents:
        _check_names(agent, listed)
        try:
            agent.fill_copy(listed, copies)
        except InvalidInput as error:
            raise ToolsUnavailable(f"{error} {_NOTHING}.") from error
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
        raise ToolsUnavailable(
            f"the tools of {source.name} could not be listed: {type(error).__name__}. "
            f"{_NOTHING}. Check that the source answers, then call again; a later "
            "sweep tries a stored run again."
        ) from error


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
                raise ToolsUnavailable(
                    f"agent {agent.name} has two tools named {tool.name}: one of "
                    f"{owners[tool.name]}, one of {source.name}. {_NOTHING}. Rename "
                    "one, or leave it out."
                )
            owners[tool.name] = source.name
