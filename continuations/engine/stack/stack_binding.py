"""Bind the frames and calls of a run to the agents and tools of this process."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from continuations.authoring.registry import AgentRegistry, Renames, missing_tool_text
from continuations.core.rows.calls import CallRow, Parked
from continuations.core.rows.state import ROOT_FRAME_ID, RunState, call_path, frame_path
from continuations.core.rows.waits import Wait
from continuations.engine.code_changes import find_code_changes
from continuations.errors import AgentChanged, FormatError

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Mapping

    from continuations.authoring.manifest import ManifestChange
    from continuations.authoring.tool.tool_protocol import AgentProtocol, ToolProtocol
    from continuations.core.operator_request import OperatorRequest
    from continuations.core.rows.decisions import Decision
    from continuations.core.rows.frames import FrameRow


class StackBinding:
    """Finds a frame's agent and a call's tool by their names, from the root down."""

    def __init__(
        self, agent_registry: AgentRegistry, *, has_store: bool = True
    ) -> None:
        self._agent_registry = agent_registry
        self._has_store = has_store
        # By the frame and the agent that has it: a handoff changes the second.
        self._agents_by_frame: dict[tuple[str, str], AgentProtocol] = {}

    @property
    def secrets_by_tool(self) -> Mapping[str, Collection[str]]:
        """The paths of the secret arguments of all tools, by the names of the tools."""
        return self._agent_registry.secrets_by_tool

    def find_agent(self, state: RunState, frame_id: str) -> AgentProtocol | None:
        """Return a frame's agent, or `None` if this process does not have it."""
        known = self._agents_by_frame
        unbound: list[tuple[str, str]] = []
        current: str | None = frame_id
        while current is not None:
            key = (current, state.frames[current].agent)
            if key in known:
                break
            unbound.append(key)
            current = _parent_frame_id(state, current)
        for key in reversed(unbound):
            agent = self._resolve_agent(state, key[0])
            if agent is None:
                return None
            known[key] = agent
        return known[frame_id, state.frames[frame_id].agent]

    def agent(self, state: RunState, frame_id: str) -> AgentProtocol:
        """Return a frame's agent; raises `AgentChanged` if it is missing."""
        agent = self.find_agent(state, frame_id)
        if agent is None:
            raise self._missing_agent_error(state, frame_id, ())
        return agent

    def _resolve_agent(self, state: RunState, frame: str) -> AgentProtocol | None:
        row, agent = state.frames[frame], self._first_agent(state, frame)
        if agent is None or not row.began_as:
            return agent
        return self._agent_registry.find_holder(agent, row.agent)

    def _first_agent(self, state: RunState, frame: str) -> AgentProtocol | None:
        """Return the agent with which a frame began; the frame above it is bound."""
        row = state.frames[frame]
        if row.parent_call_id is None:
            return self._agent_registry.find_root_agent(row.began_as or row.agent)
        call = state.calls[row.parent_call_id]
        above = call.frame_id, state.frames[call.frame_id].agent
        parent = self._agents_by_frame[above]
        return self._agent_registry.find_sub_agent(parent, call.tool)

    def is_holder(self, state: RunState, frame: str, agent: AgentProtocol) -> bool:
        """Return whether a later process finds an agent that gets a bound frame."""
        first = self._first_agent(state, frame)
        if first is None:
            return False
        return self._agent_registry.find_holder(first, agent.name) is agent

    def tool(self, state: RunState, call: CallRow) -> ToolProtocol | None:
        """Return a call's tool, `None` if its agent is missing or has no such tool."""
        agent = self.find_agent(state, call.frame_id)
        if agent is None:
            return None
        tool = agent.get_tool(call.tool)
        if tool is None:
            tool = self._agent_registry.find_renamed_tool(agent, call.tool)
        return tool

    def is_tool_named(self, call: CallRow, names: Collection[str]) -> bool:
        """Return whether one of the stored names is that of a call, also an old one."""
        if self.renames is None:
            return call.tool in names
        newest = self.renames.newest_name
        return newest(call.tool) in map(newest, names)

    @property
    def renames(self) -> Renames | None:
        """The old names of agents and tools, if there are any."""
        return self._agent_registry.renames

    def missing_tool_note(self, state: RunState, call: CallRow) -> str:
        """Return the note of a wait whose call has no tool in this process."""
        return (
            f"The call could not run: {self._missing_text(state, call)}. Restore the "
            "tool and approve the call, or deny it, or answer it."
        )

    def missing_tool_error(
        self, state: RunState, call: CallRow, wait_id: str | None
    ) -> AgentChanged:
        """Return the error for a call that may go on, but whose tool is missing here.

        Args:
            state: The run.
            call: The call.
            wait_id: The wait that was decided or is due, if it is still open.
        """
        run_id = state.run.id
        of_wait = "" if wait_id is None else f" of wait {wait_id}"
        is_approved = wait_id is not None or call.approved_digest is not None
        # The approval of a parked call has been used: it waits for its answer.
        is_approved = is_approved and not isinstance(call.state, Parked)
        kept = ", and the approval is kept" if is_approved else ""
        again = ", ask again with resume(reopen=True)" if is_approved else ""
        by_hand = f"cancel({run_id!r}, call={call.id!r})"
        way_out = f"{again}, or end the call: {by_hand}"
        nothing = "The run was not changed"
        if not self._has_store:
            nothing = "Nothing ran"
            may_deny = wait_id is not None and state.waits[wait_id].rules.asks_person
            way_out = ", or pass Deny() for its wait in answers" if may_deny else ""
        msg = (
            f"run {run_id} was not resumed: {self._missing_text(state, call)}, which "
            f"call {call.id}{of_wait} needs. {nothing}{kept}. Resume with code that "
            f"has the tool{way_out}."
        )
        path = call_path(state, call)
        return AgentChanged(msg, run_id=run_id, wait_id=wait_id, path=path)

    def _missing_text(self, state: RunState, call: CallRow) -> str:
        agent = self.find_agent(state, call.frame_id)
        if agent is None:
            return f"the agent {state.frames[call.frame_id].agent} was removed"
        return missing_tool_text(agent, call.tool)

    def unchanged_tool(self, state: RunState, call: CallRow) -> ToolProtocol:
        """Return the tool of a call that is about to run.

        Raises `AgentChanged` if the tool is missing or its contract has changed since
        the call was examined: another call would run than the approved one.
        """
        tool = self.tool(state, call)
        if tool is not None and tool.contract_digest == call.contract_digest:
            return tool
        agent = self.agent(state, call.frame_id).name
        change = (
            f"is missing in agent {agent!r}"
            if tool is None
            else f"of agent {agent!r} has changed: {self._tool_change(state, call)}"
        )
        msg = (
            f"run {state.run.id}: call {call.id} is pending, and its tool "
            f"{call.tool!r} {change}. This call did not run. "
            "Resume with the code that the call was made for, or cancel the run."
        )
        raise AgentChanged(
            msg,
            run_id=state.run.id,
            change="removed" if tool is None else "contract",
            path=call_path(state, call),
        )

    def _tool_change(self, state: RunState, call: CallRow) -> str:
        names = [call.tool]
        frame = state.frames[call.frame_id]
        while frame.parent_call_id is not None:
            parent = state.calls[frame.parent_call_id]
            names.append(parent.tool)
            frame = state.frames[parent.frame_id]
        where = "/".join(reversed([*names, frame.agent]))
        changes: tuple[ManifestChange, ...] = ()
        with suppress(FormatError):
            changes = find_code_changes(state, self._agent_registry)
        for change in changes:
            if change.where == where and change.kind == "incompatible":
                return change.what
        # A resume that ran other calls has replaced the manifest. Or the path goes
        # through a circle of agents, and the manifest has only the shortest path.
        return "it has other parameters or another version"

    def missing_frames(self, state: RunState) -> tuple[str, ...]:
        """Return the frames whose agents are missing, the deepest ones first."""
        missing = [
            frame
            for frame in state.frames.values()
            if self.find_agent(state, frame.id) is None
        ]
        missing.sort(key=lambda frame: -frame.depth)
        return tuple(frame.id for frame in missing)

    def check_agents(
        self,
        state: RunState,
        decisions: Mapping[str, Decision],
        requests: Iterable[OperatorRequest] = (),
    ) -> None:
        """Raise `AgentChanged` unless the run can continue with the agents here.

        A frame without its agent can only end. It does so after a person denied or
        answered a wait in it or below it, or cancelled a call there. A stored state
        must fit the type of its agent.
        """
        if any(frame.state_json for frame in state.frames.values()):
            from continuations.engine.stack.state_checks import check_states  # noqa: PLC0415 - few agents have a state

            check_states(state, self.find_agent)
        missing = self.missing_frames(state)
        if not missing:
            return
        given_up = _frames_given_up(state, decisions, requests)
        for frame_id in missing:
            parent = _parent_frame_id(state, frame_id)
            is_lowest_bound = parent is None or parent not in missing
            if is_lowest_bound and (parent is None or frame_id not in given_up):
                raise self._missing_agent_error(state, frame_id, decisions)

    def _missing_agent_error(
        self, state: RunState, frame_id: str, decided: Container[str]
    ) -> AgentChanged:
        """Return the error for the first frame without an agent above a frame."""
        parent = _parent_frame_id(state, frame_id)
        if parent is None:
            return self._missing_root_error(state)
        while (agent := self.find_agent(state, parent)) is None:
            frame_id, parent = parent, _parent_frame_id(state, parent)
            if parent is None:
                return self._missing_root_error(state)
        tool = state.calls[state.frames[frame_id].parent_call_id or ""].tool
        waits = [
            wait.id
            for wait in state.waits.values()
            if wait.id not in decided and frame_id in _frames_above(state, wait)
        ]
        advice = (
            f"decide the waits below it with Deny or Answer ({', '.join(waits[:5])})"
            if waits
            else "cancel the run"
        )
        row = state.frames[frame_id]
        why = missing_tool_text(agent, tool)
        if row.began_as and self._first_agent(state, frame_id) is not None:
            why = _missing_handoff_text(row)
        msg = (
            f"run {state.run.id} was not resumed: {why}. Restore the agent under this "
            f"name, or {advice}. The run was not changed."
        )
        path = frame_path(state, frame_id)
        return AgentChanged(msg, run_id=state.run.id, path=path)

    def _missing_root_error(self, state: RunState) -> AgentChanged:
        text = self._agent_registry.missing_root_text(state.run.agent)
        run = state.run
        root = state.frames[ROOT_FRAME_ID]
        if root.began_as and self._agent_registry.find_root_agent(run.agent):
            text = (
                f"{_missing_handoff_text(root)}. Resume with code that has this "
                "handoff. The run is unchanged."
            )
        return AgentChanged(f"run {run.id}: {text}", run_id=run.id, path=(run.agent,))


def _missing_handoff_text(frame: FrameRow) -> str:
    return (
        f"no handoff leads from agent {frame.began_as} to agent {frame.agent}, which "
        "has the conversation"
    )


def _parent_frame_id(state: RunState, frame_id: str) -> str | None:
    call_id = state.frames[frame_id].parent_call_id
    return None if call_id is None else state.calls[call_id].frame_id


def _frames_above(state: RunState, subject: Wait | CallRow) -> set[str]:
    """Return the frame of a wait or call, and every frame above it."""
    above: set[str] = set()
    frame_id: str | None = subject.frame_id or None
    if isinstance(subject, Wait) and subject.call_id:
        frame_id = state.calls[subject.call_id].frame_id
    while frame_id is not None:
        above.add(frame_id)
        frame_id = _parent_frame_id(state, frame_id)
    return above


def _frames_given_up(
    state: RunState,
    decisions: Mapping[str, Decision],
    requests: Iterable[OperatorRequest],
) -> set[str]:
    """Return the frames in or below which a person ended a wait or a call."""
    frames: set[str] = set()
    for wait_id, decision in decisions.items():
        wait = state.waits.get(wait_id)
        if wait is not None and decision.kind in ("deny", "answer"):
            frames |= _frames_above(state, wait)
    for request in requests:
        call = state.calls.get(request.call_id or "")
        if call is not None:
            frames |= _frames_above(state, call)
    return frames
