"""The manifest: what the code of a run looked like, and what has changed since.

Agents are a list in the order of discovery, breadth first from the root, which is
the first; a tool that enters an agent names it by its place in the list. So a circle
is finite and a thousand levels take a thousand rows, not a million names. Digests
are shortened: they tell of changes, what authorises a call is the whole one in its
wait.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from continuations.authoring.jsonvalues import is_array, is_object
from continuations.core import jsontext
from continuations.errors import Corrupt, FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations.authoring.agent import Agent
    from continuations.authoring.tool_protocol import ToolProtocol

FORMAT = 1
_DIGEST_LENGTH = 12  # 48 bits: nobody gains anything by making two of them meet

ChangeKind = Literal["compatible", "incompatible", "missing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestChange:
    """One thing that is not as it was when the manifest was written.

    `where` is the path from the root agent. `compatible`: words, model, policy or
    more tools; `incompatible`: a tool means something else; `missing`: it is gone.
    """

    kind: ChangeKind
    where: str
    what: str


def make_manifest(root: Agent, *, sdk_version: str) -> str:
    """Return the manifest of an agent and all below it, as canonical JSON."""
    places: dict[int, int] = {id(root): 0}
    found = [root]
    rows: list[dict[str, Any]] = []
    while len(rows) < len(found):
        agent = found[len(rows)]
        for tool in agent.tools_by_name.values():
            sub_agent = tool.sub_agent
            if sub_agent is not None and id(sub_agent) not in places:
                places[id(sub_agent)] = len(found)
                found.append(sub_agent)
        rows.append(_agent_row(agent, places))
    data = {"format": FORMAT, "sdk": sdk_version, "agents": rows}
    return jsontext.canonical(data)


def _agent_row(agent: Agent, positions: dict[int, int]) -> dict[str, Any]:
    tools = {
        name: _tool_row(tool, positions) for name, tool in agent.tools_by_name.items()
    }
    return {
        "name": agent.name,
        "prompt": agent.instructions_digest[:_DIGEST_LENGTH],
        "model": agent.model_name,
        "tools": tools,
    }


def _tool_row(tool: ToolProtocol, positions: dict[int, int]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "meaning": tool.contract_digest[:_DIGEST_LENGTH],
        "wording": tool.description_digest[:_DIGEST_LENGTH],
    }
    if tool.version is not None:
        row["version"] = tool.version
    if tool.sub_agent is not None:
        row["agent"] = positions[id(tool.sub_agent)]
    if tool.approval is not None:
        row["policy"] = tool.approval.digest[:_DIGEST_LENGTH]
    return row


# Comparing -------------------------------------------------------------------


def compare_manifests(stored: str, current: str) -> tuple[ManifestChange, ...]:
    """Return what changed from one manifest to another; nothing if they agree.

    Both are walked from the root by tool names, as a run binds its code. Raises
    `Corrupt` for what is no manifest and `FormatError` for one of a newer format;
    keys that this version does not know are left alone.
    """
    if stored == current:
        return ()
    old, new = _parse_manifest(stored), _parse_manifest(current)
    return tuple(_changes(old, new))


@dataclass(frozen=True, slots=True)
class _Manifest:
    sdk: str
    agents: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class _AgentPair:
    """Two agents that stand in one place; `parent` leads up to the root."""

    old: int
    new: int
    name: str
    parent: _AgentPair | None = None

    def where(self) -> str:
        names: list[str] = []
        visit: _AgentPair | None = self
        while visit is not None:
            names.append(visit.name)
            visit = visit.parent
        return "/".join(reversed(names))


def _changes(old: _Manifest, new: _Manifest) -> Iterator[ManifestChange]:
    if old.sdk != new.sdk:
        yield ManifestChange(
            kind="compatible", where="", what=f"sdk {old.sdk} -> {new.sdk}"
        )
    ahead = deque([_AgentPair(0, 0, old.agents[0]["name"])])
    seen: set[tuple[int, int]] = {(0, 0)}
    while ahead:
        visit = ahead.popleft()
        before, after = old.agents[visit.old], new.agents[visit.new]
        yield from _agent_changes(before, after, visit)
        yield from _tool_changes(before["tools"], after["tools"], visit)
        for name, (one, other) in _common_sub_agents(before["tools"], after["tools"]):
            if (one, other) not in seen:
                seen.add((one, other))
                ahead.append(_AgentPair(one, other, name, visit))


def _agent_changes(
    old: dict[str, Any], new: dict[str, Any], pair: _AgentPair
) -> Iterator[ManifestChange]:
    if old["name"] != new["name"]:
        what = f"the agent {old['name']} is now {new['name']}"
        # A run finds its root agent by name, every other by the tool's.
        kind: ChangeKind = "compatible" if pair.parent else "missing"
        yield ManifestChange(kind=kind, where=pair.where(), what=what)
    if old["prompt"] != new["prompt"]:
        what = "its instructions changed"
        yield ManifestChange(kind="compatible", where=pair.where(), what=what)
    if old.get("model") != new.get("model"):
        what = f"its model was {old['model']} and is {new['model']}"
        yield ManifestChange(kind="compatible", where=pair.where(), what=what)


def _tool_changes(
    old: dict[str, Any], new: dict[str, Any], pair: _AgentPair
) -> Iterator[ManifestChange]:
    for name, before in old.items():
        after = new.get(name)
        found = _tool_removal(before) if after is None else _tool_change(before, after)
        if found is not None:
            kind, what = found
            yield ManifestChange(kind=kind, where=f"{pair.where()}/{name}", what=what)
    for name in [key for key in new if key not in old]:
        where = f"{pair.where()}/{name}"
        yield ManifestChange(kind="compatible", where=where, what="it was added")


def _tool_removal(old: dict[str, Any]) -> tuple[ChangeKind, str]:
    return "missing", f"the {_tool_kind(old)} is gone"


def _tool_change(
    old: dict[str, Any], new: dict[str, Any]
) -> tuple[ChangeKind, str] | None:
    """Return the gravest change of a tool."""
    if _tool_kind(old) != _tool_kind(new):
        now = "an agent" if "agent" in new else "a tool"
        return "incompatible", f"the {_tool_kind(old)} is now {now}"
    if old.get("version") != new.get("version"):
        versions = f"{old.get('version')} and is {new.get('version')}"
        return "incompatible", f"its declared version was {versions}"
    if old["meaning"] != new["meaning"]:
        return "incompatible", "its parameters changed"
    if old["wording"] != new["wording"]:
        return "compatible", "its description changed"
    if old.get("policy") != new.get("policy"):
        return "compatible", "its approval policy changed"
    return None


def _tool_kind(tool: dict[str, Any]) -> str:
    return "agent" if "agent" in tool else "tool"


def _common_sub_agents(
    old: dict[str, Any], new: dict[str, Any]
) -> Iterator[tuple[str, tuple[int, int]]]:
    for name, tool in old.items():
        other = new.get(name, {})
        if "agent" in tool and "agent" in other:
            yield name, (tool["agent"], other["agent"])


# Reading ---------------------------------------------------------------------


def _parse_manifest(text: str) -> _Manifest:
    try:
        data = jsontext.parse(text)
    except jsontext.NotJson as error:
        msg = f"the manifest is damaged: {error}"
        raise Corrupt(msg) from None
    written = data.get("format") if is_object(data) else None
    if type(written) is not int:
        msg = "the manifest is damaged: it names no format"
        raise Corrupt(msg)
    if written > FORMAT:
        msg = f"the manifest has format {written}; this version reads {FORMAT}"
        raise FormatError(msg)
    if written != FORMAT or not _is_valid_manifest(data):
        msg = "the manifest is damaged: it is not of its format"
        raise Corrupt(msg)
    return _Manifest(data["sdk"], data["agents"])


def _is_valid_manifest(data: dict[str, Any]) -> bool:
    agents = data.get("agents")
    return (
        isinstance(data.get("sdk"), str)
        and is_array(agents)
        and len(agents) > 0
        and all(_is_valid_agent_row(agent, len(agents)) for agent in agents)
    )


def _is_valid_agent_row(agent: Any, agent_count: int) -> bool:
    return (
        is_object(agent)
        and isinstance(agent.get("name"), str)
        and isinstance(agent.get("prompt"), str)
        and isinstance(agent.get("model"), str | None)
        and is_object(agent.get("tools"))
        and all(
            _is_valid_tool_row(tool, agent_count) for tool in agent["tools"].values()
        )
    )


def _is_valid_tool_row(tool: Any, agent_count: int) -> bool:
    return (
        is_object(tool)
        and isinstance(tool.get("meaning"), str)
        and isinstance(tool.get("wording"), str)
        and isinstance(tool.get("version"), str | None)
        and isinstance(tool.get("policy"), str | None)
        and _is_valid_position(tool.get("agent", 0), agent_count)
    )


def _is_valid_position(position: Any, agent_count: int) -> bool:
    return type(position) is int and 0 <= position < agent_count
