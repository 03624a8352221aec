"""Make what people read about a call, when its wait is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.value_class import replace

if TYPE_CHECKING:
    from continuations.authoring.tool_protocol import AgentProtocol, ToolProtocol
    from continuations.core.call_display import CallDisplay
    from continuations.core.calls import CallRow
    from continuations.core.messages import ToolCallRequest
    from continuations.core.state import RunState


def display_of_wait(
    state: RunState,
    call: CallRow,
    tool: ToolProtocol | None,
    arguments_json: str,
    *,
    agent: AgentProtocol | None,
    parked: bool = False,
) -> CallDisplay | None:
    """Return what people read about a waiting call, or `None` for nothing.

    Evidence is collected for tools with a summary only, because it costs bytes.

    Args:
        state: The run.
        call: The call that waits.
        tool: Its tool, `None` if this process does not have it.
        arguments_json: The effective arguments that the wait shows.
        agent: The agent that calls, `None` if this process does not have it. Its tools
            tell the secrets of earlier calls, whose results are evidence.
        parked: Whether the tool ran and asks something. Then the call has no title.
    """
    declared = None if tool is None else tool.display_call(arguments_json)
    requester = state.run.asker
    if declared is None and requester is None and not call.secrets:
        return None
    from continuations.core.call_display import CallDisplay  # noqa: PLC0415 - few tools have one

    display = declared or CallDisplay()
    secrets = tuple(sorted({*display.secrets, *call.secrets}))
    if display.title is not None:
        display = _with_evidence(display, state, call, arguments_json, secrets, agent)
    if parked:
        display = replace(display, title=None, template=None, reversible=None)
    display = replace(display, secrets=secrets, requester=requester)
    return None if display == CallDisplay() else display


def _with_evidence(
    display: CallDisplay,
    state: RunState,
    call: CallRow,
    arguments_json: str,
    secrets: tuple[str, ...],
    agent: AgentProtocol | None,
) -> CallDisplay:
    from continuations.core import evidence, secret_arguments  # noqa: PLC0415 - few tools have one

    def scrubbed(text: str) -> str:
        return secret_arguments.scrubbed(text, arguments_json, secrets)

    def scrubbed_result(text: str, earlier: ToolCallRequest | None) -> str:
        text = scrubbed(text)
        tool = agent.get_tool(earlier.tool) if agent and earlier else None
        if tool is None or earlier is None or not tool.secrets:
            return text
        try:
            return secret_arguments.scrubbed(text, earlier.arguments, tool.secrets)
        except jsontext.NotJson:
            return text  # such a call never began

    messages = state.logs[call.frame_id].messages
    agents = _agents_among_tools(state, call.frame_id)
    found = evidence.findings(messages, agents, scrubbed_result)
    words = evidence.agent_words(messages, scrubbed)
    # The code that examined the call may have had more secrets than this one.
    title = scrubbed(display.title or "")
    return replace(display, title=title, evidence=found, agent_words=words)


def _agents_among_tools(state: RunState, frame_id: str) -> frozenset[str]:
    """Return the names of the frame's tools that are agents, by the manifest."""
    manifest = jsontext.as_object(jsontext.parse(state.manifest or "{}")) or {}
    names: set[str] = set()
    for row in jsontext.as_array(manifest.get("agents")) or []:
        agent = jsontext.as_object(row) or {}
        if agent.get("name") == state.frames[frame_id].agent:
            tools = jsontext.as_object(agent.get("tools")) or {}
            names.update(name for name in tools if "agent" in (tools[name] or {}))
    return frozenset(names)
