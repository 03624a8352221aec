"""Make a continuation of a foreign stack, bound to the agents of this process."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from continuations.core import invariants, jsontext, tool_messages
from continuations.core.calls import (
    CLOSED_STATES,
    CallRow,
    Errored,
    Nested,
    Refused,
    Returned,
    Waiting,
)
from continuations.core.frames import FrameRow, MessageLog
from continuations.core.run import RunRow
from continuations.core.state import ROOT_FRAME_ID, RunState
from continuations.core.ulid import RANDOM_BYTES, encode_ulid
from continuations.engine import call_failures
from continuations.engine.call_waits import new_wait
from continuations.engine.code_changes import current_manifest
from continuations.interop.snaplogic_stack import (
    AwaitsApproval,
    ForeignCall,
    ForeignFrame,
    HasResult,
    WasRejected,
)
from continuations.ledger import layout

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.authoring.agent import Agent
    from continuations.authoring.tool_protocol import AgentProtocol, ToolProtocol
    from continuations.core.waits import Wait

_REJECTED = (
    "DENIED: a person refused this call. It was not executed. Reason: it was rejected "
    "before the run was adopted."
)


@dataclass(slots=True)
class StackBuilder:
    """Makes the rows of one run; use it once.

    The ids follow from the file, so that a repeat makes the same ids: in another
    process, decisions and a repeated `adopt` find the same waits and the same run.

    Attributes:
        call_paths: For each call in the state, the ids of the calls down to it.
    """

    agent: Agent[Any]
    run_id: str
    run_nonce: str
    now: datetime
    call_paths: dict[str, tuple[str, ...]] = field(
        default_factory=dict[str, tuple[str, ...]]
    )
    _next_id: int = 1
    _frames: dict[str, FrameRow] = field(default_factory=dict[str, FrameRow])
    _calls: dict[str, CallRow] = field(default_factory=dict[str, CallRow])
    _logs: dict[str, MessageLog] = field(default_factory=dict[str, MessageLog])
    _asked: list[tuple[CallRow, ToolProtocol, str]] = field(
        default_factory=list[tuple[CallRow, "ToolProtocol", str]]
    )

    def build(self, root: ForeignFrame) -> RunState:
        """Return the state of a suspended run; raises `FormatError`."""
        self._add_frame(root, self.agent, parent=None, depth=0, above=())
        run = RunRow(
            id=self.run_id,
            run_nonce=self.run_nonce,
            agent=self.agent.name,
            created_at=self.now,
            input_digest=jsontext.digest(self.agent.name, self.run_nonce),
            status="suspended",
            next_id=self._next_id,
        )
        state = self._state(run, {})
        waits = [self._wait(state, *asked) for asked in self._asked]
        state = self._state(run, {wait.id: wait for wait in waits})
        violation = invariants.find_violation(state)
        assert violation is None, violation  # noqa: S101 - the reader checks the file
        return state

    def _state(self, run: RunRow, waits: dict[str, Wait]) -> RunState:
        return RunState.from_rows(
            run=run,
            manifest=current_manifest(self.agent),
            frames=self._frames,
            calls=self._calls,
            waits=waits,
            logs=self._logs,
        )

    def _allocate(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    def _add_frame(
        self,
        frame: ForeignFrame,
        agent: AgentProtocol,
        *,
        parent: str | None,
        depth: int,
        above: tuple[str, ...],
    ) -> str:
        number = self._allocate()
        frame_id = ROOT_FRAME_ID if parent is None else f"f{number}"
        row = FrameRow(
            id=frame_id,
            agent=agent.name,
            parent_call_id=parent,
            depth=depth,
            turns=sum(message.role == "assistant" for message in frame.messages),
            max_turns=agent.max_turns,
        )
        self._frames[frame_id] = row
        messages, log_id = frame.messages, self._allocate()
        rows = [self._add_call(call, row, agent, above) for call in frame.calls]
        if rows and all(isinstance(call.state, CLOSED_STATES) for call in rows):
            messages = (*messages, *map(tool_messages.result_message, rows))
            for call in rows:
                del self._calls[call.id], self.call_paths[call.id]
            rows = []
        open_ids = tuple(call.id for call in rows)
        self._frames[frame_id] = replace(row, open_call_ids=open_ids)
        self._logs[frame_id] = MessageLog(log_id, messages)
        return frame_id

    def _add_call(
        self,
        call: ForeignCall,
        frame: FrameRow,
        agent: AgentProtocol,
        above: tuple[str, ...],
    ) -> CallRow:
        row = CallRow(
            id=f"c{self._allocate()}",
            frame_id=frame.id,
            tool=call.tool,
            tool_call_id=call.tool_call_id,
            raw_arguments=call.arguments,
            state=Refused("denied", _REJECTED),
        )
        path = (*above, call.tool_call_id)
        match call.progress:
            case WasRejected():
                pass
            case HasResult(content=content):
                row = replace(row, state=Returned(content), attempts=1)
            case AwaitsApproval(note=note):
                row = self._asked_call(call, row, agent, note)
            case ForeignFrame() as below:
                tool = _find_tool(call, agent)
                if tool.sub_agent is None:
                    call.field["function"]["name"].refuse(
                        f"names the tool {call.tool!r}, which is no agent here",
                        f"Put an agent of this name among the tools of {agent.name!r}.",
                    )
                child = self._add_frame(
                    below,
                    tool.sub_agent,
                    parent=row.id,
                    depth=frame.depth + 1,
                    above=path,
                )
                row = replace(
                    row,
                    state=Nested(child),
                    attempts=1,
                    contract_digest=tool.contract_digest,
                )
        self._calls[row.id] = row
        self.call_paths[row.id] = path
        return row

    def _asked_call(
        self, call: ForeignCall, row: CallRow, agent: AgentProtocol, note: str
    ) -> CallRow:
        """Return a call that waits for an approval.

        If its arguments do not fit the tool, it ends with an error that the model
        reads, as it would in a run of this library.
        """
        tool = _find_tool(call, agent)
        try:
            arguments = tool.effective_arguments(call.arguments)
        except Exception as error:  # noqa: BLE001 - validators of the application
            invalid = call_failures.rejection_for_error(row, error)
            return replace(row, state=Errored(invalid.code, invalid.content))
        row = replace(
            row,
            state=Waiting(
                layout.build_wait_id("approval", self._ulid(row), self.run_id)
            ),
            arguments=arguments,
            contract_digest=tool.contract_digest,
            repeatable=tool.repeatable,
            verifiable=tool.verifiable,
        )
        self._asked.append((row, tool, note))
        return row

    def _wait(
        self, state: RunState, call: CallRow, tool: ToolProtocol, note: str
    ) -> Wait:
        return new_wait(
            state,
            call,
            tool,
            kind="approval",
            now=self.now,
            ulid=self._ulid(call),
            note=note,
        )

    def _ulid(self, call: CallRow) -> str:
        random = sha256(f"{self.run_nonce} {call.id}".encode()).digest()
        return encode_ulid(0, random[:RANDOM_BYTES])


def _find_tool(call: ForeignCall, agent: AgentProtocol) -> ToolProtocol:
    tool = agent.get_tool(call.tool)
    if tool is None:
        names = ", ".join(agent.tools_by_name) or "none"
        call.field["function"]["name"].refuse(
            f"names the tool {call.tool!r}, which agent {agent.name!r} does not have "
            f"(its tools: {names})",
            "Pass the agent that the file was made for, or add the tool.",
        )
    return tool
