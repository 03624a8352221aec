"""The manifest: a description of a run's code, to report changes of the code.

A manifest lists the agents breadth first, beginning with the root agent. The tool of a
sub-agent has the agent's position in the list. So a circle of agents is finite, and a
thousand levels take a thousand rows instead of a million names.

The digests are shortened, since they only report changes. An approval is bound to the
whole digest, in its wait.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Literal

from continuations.authoring.arguments.json_values import is_array, is_object
from continuations.authoring.tool.base_tool import is_handoff
from continuations.core import jsontext
from continuations.errors import Corrupt, FormatError
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from continuations.authoring.registry import Renames
    from continuations.authoring.tool.tool_protocol import AgentProtocol, ToolProtocol

FORMAT = 1
_RENAMED = "renamed"  # the key of the name that a row under an old name has now
_UNKNOWN = "unknown"  # sorted last
_MAX_CHARS = 600
_DIGEST_LENGTH = 12  # 48 bits; an attacker gains nothing from a collision

ChangeKind = Literal["compatible", "incompatible", "missing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestChange:
    """One difference between the stored code of a run and the running code.

    Attributes:
        kind: `"compatible"`: instructions, descriptions, the model, a policy, or a
            new tool. `"incompatible"`: a tool has another contract. `"missing"`: a
            tool or an agent is gone. A change of the last two kinds stops a run only
            if a pending call needs the tool.
        where: The path from the root agent, as `hr/accounts/transfer`.
        what: The difference, in words.
    """

    kind: ChangeKind
    where: str
    what: str

    @property
    def text(self) -> str:
        """The difference with its path, as `hr/pay: the tool was added`."""
        return f"{self.where}: {self.what}" if self.where else self.what


def make_manifest(
    root: AgentProtocol, *, sdk_version: str, renames: Renames | None = None
) -> str:
    """Return the manifest of an agent and its sub-agents, as canonical JSON.

    Under its old names, a renamed tool is a row more of its agent, and a renamed agent
    is a row more at the end, to which no tool leads.
    """
    positions: dict[int, int] = {id(root): 0}
    agents = [root]
    rows: list[dict[str, Any]] = []
    while len(rows) < len(agents):
        agent = agents[len(rows)]
        for tool in agent.tools_by_name.values():
            sub_agent = tool.sub_agent
            if sub_agent is not None and id(sub_agent) not in positions:
                positions[id(sub_agent)] = len(agents)
                agents.append(sub_agent)
        rows.append(_agent_row(agent, positions, renames))
    if renames is not None:
        rows += [
            {**row, "name": old, _RENAMED: row["name"]}
            for row in rows
            for old in renames.old_names(row["name"])
        ]
    data = {"format": FORMAT, "sdk": sdk_version, "agents": rows}
    return jsontext.canonical(data)


def unknown_manifest(root: AgentProtocol, *, sdk_version: str) -> str:
    """Return the manifest of a run that no code has worked on yet.

    It has a row of the agent's name, as every manifest has one of the root agent.
    """
    rows: list[dict[str, Any]] = [{**_row_of_name(root), "tools": {}}]
    data = {"format": FORMAT, "sdk": sdk_version, "agents": rows, _UNKNOWN: True}
    return jsontext.canonical(data)


def is_unknown(stored: str) -> bool:
    """Return whether no code has worked on a run yet, so that none has changed."""
    return stored.endswith(f'"{_UNKNOWN}":true}}')


def _agent_row(
    agent: AgentProtocol, positions: dict[int, int], renames: Renames | None
) -> dict[str, Any]:
    tools = {
        name: _tool_row(tool, positions) for name, tool in agent.tools_by_name.items()
    }
    if renames is not None:
        for name, tool in agent.tools_by_name.items():
            for old in renames.old_names(name):
                row = _tool_row(renames.named(tool, old), positions)
                tools[old] = {**row, _RENAMED: name}
    return {**_row_of_name(agent), "tools": tools}


def _row_of_name(agent: AgentProtocol) -> dict[str, Any]:
    return {
        "name": agent.name,
        "prompt": agent.instructions_digest[:_DIGEST_LENGTH],
        "model": agent.model_name,
    }


def _tool_row(tool: ToolProtocol, positions: dict[int, int]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "meaning": tool.contract_digest[:_DIGEST_LENGTH],
        "wording": tool.model_text_digest[:_DIGEST_LENGTH],
    }
    if tool.version is not None:
        row["version"] = tool.version
    if tool.sub_agent is not None:
        row["agent"] = positions[id(tool.sub_agent)]
        if is_handoff(tool):
            row["handoff"] = True
    if tool.approval is not None:
        row["policy"] = tool.approval.digest[:_DIGEST_LENGTH]
    return row


# Looking up -------------------------------------------------------------------


def find_version(
    stored: str, path: Sequence[str], contract_digest: str
) -> tuple[str | None] | None:
    """Return the declared version of a tool, if a manifest has its contract.

    Args:
        stored: The manifest.
        path: The names from the root agent down to the tool.
        contract_digest: The digest of the contract.

    Returns:
        The version in a tuple, or `None` if the manifest has another contract or no
        such tool.

    Raises:
        Corrupt: The text is not a manifest.
        FormatError: The manifest has a newer format.
    """
    agents = _parse_manifest(stored).agents
    # After a handoff, the path begins with the agent that has the conversation.
    found = (i for i, each in enumerate(agents) if each["name"] == path[0])
    position = next(found, 0)
    for name in path[1:-1]:
        tools: dict[str, dict[str, Any]] = agents[position]["tools"]
        handoffs = (each for each in tools.values() if "handoff" in each)
        to_name = (e for e in handoffs if agents[e["agent"]]["name"] == name)
        row = tools.get(name) or next(to_name, None)
        if row is None or "agent" not in row:
            return None
        position = row["agent"]
    row = agents[position]["tools"].get(path[-1])
    if row is None or row["meaning"] != contract_digest[:_DIGEST_LENGTH]:
        return None
    return (row.get("version"),)


# Comparing --------------------------------------------------------------------


def compare_manifests(stored: str, current: str) -> tuple[ManifestChange, ...]:
    """Return the differences between two manifests.

    Both are walked from the root agent by tool names, as a run finds its code. Unknown
    keys are ignored.

    Raises:
        Corrupt: A text is not a manifest.
        FormatError: A manifest has a newer format.
    """
    if stored == current or is_unknown(stored):
        return ()
    old, new = _parse_manifest(stored), _parse_manifest(current)
    return tuple(_changes(old, new))


@dataclass(frozen=True, slots=True)
class _Manifest:
    sdk: str
    agents: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class _AgentPair:
    """The positions of two agents with one path; `parent` is the pair above."""

    old: int
    new: int
    name: str
    parent: _AgentPair | None = None

    def where(self) -> str:
        names: list[str] = []
        pair: _AgentPair | None = self
        while pair is not None:
            names.append(pair.name)
            pair = pair.parent
        return "/".join(reversed(names))


def _changes(old: _Manifest, new: _Manifest) -> Iterator[ManifestChange]:
    if old.sdk != new.sdk:
        yield ManifestChange(
            kind="compatible", where="", what=f"sdk {old.sdk} -> {new.sdk}"
        )
    queue = deque([_AgentPair(0, 0, old.agents[0]["name"])])
    seen: set[tuple[int, int]] = {(0, 0)}
    while queue:
        pair = queue.popleft()
        before, after = old.agents[pair.old], new.agents[pair.new]
        for kind, what in _agent_changes(before, after, pair, new):
            yield ManifestChange(kind=kind, where=pair.where(), what=what)
        yield from _tool_changes(before["tools"], after["tools"], pair)
        for name, positions in _common_sub_agents(before["tools"], after["tools"]):
            if positions not in seen:
                seen.add(positions)
                queue.append(_AgentPair(*positions, name, pair))


def _agent_changes(
    old: dict[str, Any], new: dict[str, Any], pair: _AgentPair, manifest: _Manifest
) -> Iterator[tuple[ChangeKind, str]]:
    was, name = old["name"], new["name"]
    if was != name:
        # A run finds its root agent by name, and every other agent by its tool.
        is_found = pair.parent is not None or any(
            row["name"] == was and row.get(_RENAMED) == name for row in manifest.agents
        )
        kind: ChangeKind = "compatible" if is_found else "missing"
        yield kind, f"the agent {was} is now {name}"
    if old["prompt"] != new["prompt"]:
        yield "compatible", "the instructions changed"
    if old.get("model") != new.get("model"):
        yield "compatible", f"the model was {old['model']} and is {new['model']}"


def _tool_changes(
    old: dict[str, Any], new: dict[str, Any], pair: _AgentPair
) -> Iterator[ManifestChange]:
    for name, before in old.items():
        if _RENAMED in before:
            continue
        after = new.get(name)
        change = _tool_removal(before) if after is None else _tool_change(before, after)
        if change is not None:
            kind, what = change
            yield ManifestChange(kind=kind, where=f"{pair.where()}/{name}", what=what)
    known = {row.get(_RENAMED, name) for name, row in new.items() if name in old}
    for name in [key for key in new if key not in old]:
        if name in known or _RENAMED in new[name]:
            continue
        where = f"{pair.where()}/{name}"
        yield ManifestChange(kind="compatible", where=where, what="the tool was added")


def _tool_removal(old: dict[str, Any]) -> tuple[ChangeKind, str]:
    return "missing", f"the {_tool_kind(old)} is gone"


def _tool_change(
    old: dict[str, Any], new: dict[str, Any]
) -> tuple[ChangeKind, str] | None:
    """Return the most severe change of a tool."""
    if _tool_kind(old) != _tool_kind(new):
        now = {"agent": "an agent"}.get(_tool_kind(new), f"a {_tool_kind(new)}")
        return "incompatible", f"the {_tool_kind(old)} is now {now}"
    if old.get("version") != new.get("version"):
        versions = f"{old.get('version')} and is {new.get('version')}"
        return "incompatible", f"the declared version was {versions}"
    if old["meaning"] != new["meaning"]:
        return "incompatible", "the parameters changed"
    if old["wording"] != new["wording"]:
        return "compatible", "the description changed"
    if old.get("policy") != new.get("policy"):
        return "compatible", "the approval policy changed"
    new_name = new.get(_RENAMED)
    return new_name and ("compatible", f"it is now named {new_name}")


def _tool_kind(tool: dict[str, Any]) -> str:
    if "handoff" in tool:
        return "handoff"
    return "agent" if "agent" in tool else "tool"


def _common_sub_agents(
    old: dict[str, Any], new: dict[str, Any]
) -> Iterator[tuple[str, tuple[int, int]]]:
    for name, tool in old.items():
        other = new.get(name, {})
        if "agent" in tool and "agent" in other:
            yield name, (tool["agent"], other["agent"])


# Reading ----------------------------------------------------------------------


def _parse_manifest(text: str) -> _Manifest:
    try:
        data = jsontext.parse(text)
    except jsontext.NotJson as error:
        raise _corrupt_error(f"it is not JSON: {error}") from None
    stored_format = data.get("format") if is_object(data) else None
    if type(stored_format) is not int:
        raise _corrupt_error("it has no format number")
    if stored_format > FORMAT:
        raise FormatError(
            f"the manifest has format {stored_format}, and this release reads format"
            f" {FORMAT}. It was not changed. Use a newer release of continuations."
        )
    if stored_format != FORMAT or not _is_valid_manifest(data):
        raise _corrupt_error("its content does not fit its format")
    return _Manifest(data["sdk"], data["agents"])


def _corrupt_error(reason: str) -> Corrupt:
    msg = f"the manifest of the run is damaged: {reason}. It was not changed. Restore"
    return Corrupt(f"{msg} the run from a backup.")


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
        and tool.get("handoff", True) is True
    )


def _is_valid_position(position: Any, agent_count: int) -> bool:
    return type(position) is int and 0 <= position < agent_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """A tool's contract, as far as this process knows it.

    Attributes:
        name: Name of the tool.
        parameters: The JSON Schema of each parameter, `None` if it is not known.
        version: The declared version, `None` for none.
        version_is_known: Whether `version` is known.
    """

    name: str
    parameters: Mapping[str, Any]
    version: str | None = None
    version_is_known: bool = True

    @classmethod
    def of_tool(cls, tool: ToolProtocol) -> Contract:
        """Return the contract of a tool of this process."""
        parameters = parameters_in(tool.parameters)
        return cls(name=tool.name, parameters=parameters, version=tool.version)

    def __str__(self) -> str:
        """Return the contract like a signature: `pay(cents: integer), version 2`."""
        parts = ", ".join(
            _parameter_text(name, schema) for name, schema in self.parameters.items()
        )
        version = "" if self.version is None else f", version {self.version}"
        return _shorten(f"{self.name}({parts}){version}")


def parameters_in(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of each parameter in a schema of arguments."""
    properties = schema.get("properties")
    return properties if is_object(properties) else {}


def contract_changes_text(old: Contract, new: Contract) -> str:
    """Return the differences of two contracts, and both contracts, in sentences."""
    changes = "; ".join(_contract_changes(old, new)) or "a detail of its schema changed"
    return f"{_shorten(changes)}. Old contract: {old}. New contract: {new}."


def _contract_changes(old: Contract, new: Contract) -> Iterator[str]:
    for name in old.parameters:
        if name not in new.parameters:
            yield f"parameter {name} was removed"
    for name, schema in new.parameters.items():
        if name not in old.parameters:
            yield f"parameter {name} was added"
        elif old.parameters[name] is not None and old.parameters[name] != schema:
            yield f"parameter {name} changed"
    if not old.version_is_known:
        yield f"its version is {new.version or 'not declared'}"
    elif old.version != new.version:
        was, now = old.version or "not declared", new.version or "not declared"
        yield f"its version was {was} and is {now}"


def _parameter_text(name: str, schema: object) -> str:
    if not is_object(schema):
        return name
    default = f" = {jsontext.dump(schema['default'])}" if "default" in schema else ""
    return f"{name}: {_type_text(schema)}{default}"


def _type_text(schema: Mapping[str, Any]) -> str:
    """Return a few words for a schema; the wait has the whole schema."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return kind
    if is_array(kind):
        return " or ".join(map(str, kind))
    if "enum" in schema or "const" in schema:
        return "one of a fixed set of values"
    choices = schema.get("anyOf")
    if is_array(choices):
        kinds = [each.get("type") if is_object(each) else None for each in choices]
        if all(isinstance(each, str) for each in kinds):
            return " or ".join(map(str, kinds))
    reference = schema.get("$ref")
    return reference.rpartition("/")[2] if isinstance(reference, str) else "any"


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]} …"
