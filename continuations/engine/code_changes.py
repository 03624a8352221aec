"""How the code of this process differs from the code that a run last used."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from continuations.authoring.agent.agent import every_agent
from continuations.authoring.manifest import (
    Contract,
    compare_manifests,
    find_version,
    is_unknown,
    make_manifest,
    parameters_in,
    unknown_manifest,
)
from continuations.core import jsontext
from continuations.core.rows.state import RunState, call_path
from continuations.errors import FormatError
from continuations.value_class import replace
from continuations.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.authoring.manifest import ManifestChange
    from continuations.authoring.registry import AgentRegistry, Renames
    from continuations.authoring.tool.tool_protocol import AgentProtocol
    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.waits import Wait

_log = logging.getLogger("continuations")


def current_manifest(agent: AgentProtocol, renames: Renames | None = None) -> str:
    """Return the manifest of an agent's code in this process.

    With renames, it also has every renamed agent and tool under its old names.
    """
    return make_manifest(agent, sdk_version=__version__, renames=renames)


def first_manifest(agent: AgentProtocol) -> str:
    """Return the manifest of a new run of an agent.

    It is not known yet if the agent, or one below it, has a tool source.
    """
    if any(getattr(each, "tool_sources", ()) for each in every_agent(agent)):
        return unknown_manifest(agent, sdk_version=__version__)
    return current_manifest(agent)


def find_code_changes(
    state: RunState, agent_registry: AgentRegistry
) -> tuple[ManifestChange, ...]:
    """Return the differences between a run's manifest and this process's code.

    Returns none if this process does not have the run's root agent, or has not listed
    the tools of its sources.
    """
    agent = agent_registry.find_root_agent(state.run.agent)
    if agent is None or agent_registry.has_sources(state.run.agent):
        return ()
    current = current_manifest(agent, agent_registry.renames)
    return compare_manifests(state.manifest, current)


def with_current_manifest(
    state: RunState,
    agent_registry: AgentRegistry,
    code_changes: tuple[ManifestChange, ...],
) -> RunState:
    """Return the run with this process's manifest, if the code has changed.

    A process that has not listed the tools of a source does not know its code.
    """
    agent = agent_registry.find_root_agent(state.run.agent)
    is_same = not code_changes and not is_unknown(state.manifest)
    if is_same or agent is None or agent_registry.has_sources(state.run.agent):
        return state
    for change in code_changes:
        _log.info("run %s continues with changed code: %s", state.run.id, change)
    manifest = current_manifest(agent, agent_registry.renames)
    return replace(state, manifest=manifest)


def old_contract(state: RunState, call: CallRow, wait: Wait | None) -> Contract:
    """Return the contract that a call was examined under, as far as the run has it.

    The wait has the schema. Without it, the names of the effective arguments are those
    of the parameters. The version is in the manifest, unless a resume with other code
    has replaced that.
    """
    arguments = jsontext.as_object(jsontext.parse(call.arguments or "{}")) or {}
    parameters: Mapping[str, Any] = {}
    if wait is not None:
        parameters = parameters_in(wait.schema)
    found: tuple[str | None] | None = None
    with suppress(FormatError):
        path = call_path(state, call)
        found = find_version(state.manifest, path, call.contract_digest or "")
    return Contract(
        name=call.tool,
        parameters=parameters or dict.fromkeys(arguments),
        version=found[0] if found else None,
        version_is_known=found is not None,
    )
