"""How the code of this process differs from the code that a run last used."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from continuations.authoring.manifest import compare_manifests, make_manifest
from continuations.version import __version__

if TYPE_CHECKING:
    from continuations.authoring.manifest import ManifestChange
    from continuations.authoring.registry import AgentRegistry
    from continuations.authoring.tool_protocol import AgentProtocol
    from continuations.core.state import RunState

_log = logging.getLogger("continuations")


def current_manifest(agent: AgentProtocol) -> str:
    """Return the manifest of an agent's code in this process."""
    return make_manifest(agent, sdk_version=__version__)


def find_code_changes(
    state: RunState, agent_registry: AgentRegistry
) -> tuple[ManifestChange, ...]:
    """Return the differences between a run's manifest and this process's code.

    Returns none if this process does not have the run's root agent.
    """
    agent = agent_registry.find_root_agent(state.run.agent)
    if agent is None:
        return ()
    return compare_manifests(state.manifest, current_manifest(agent))


def with_current_manifest(
    state: RunState,
    agent_registry: AgentRegistry,
    code_changes: tuple[ManifestChange, ...],
) -> RunState:
    """Return the run with this process's manifest, if the code has changed."""
    agent = agent_registry.find_root_agent(state.run.agent)
    if not code_changes or agent is None:
        return state
    for change in code_changes:
        _log.info("run %s continues with changed code: %s", state.run.id, change)
    return replace(state, manifest=current_manifest(agent))
