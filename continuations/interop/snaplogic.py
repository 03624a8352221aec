"""Read the paused agents of SnapLogic's prototype `agent-continuations`.

The file is the JSON text of what `request()` of the prototype returned. It names no
agent and no model: the agent of this process gives both. Nothing in a file is executed
or imported.

    paused = read("jane.json", hr)
    outcome = runner.adopt(paused.continuation, run_id="jane-1")
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from continuations.authoring.agent.agent import Agent
from continuations.core import jsontext
from continuations.core.changes import invariants, tool_messages
from continuations.core.rows import calls
from continuations.core.rows.decisions import Approve, Verdict
from continuations.core.rows.frames import FrameRow, MessageLog
from continuations.core.rows.run import RunRow
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.core.ulid import RANDOM_BYTES, encode_ulid
from continuations.engine import call_failures
from continuations.engine.call_waits import new_wait
from continuations.engine.code_changes import current_manifest
from continuations.engine.ports import Ports
from continuations.errors import InvalidInput
from continuations.interop.snaplogic_stack import (
    AwaitsApproval,
    Field,
    ForeignCall,
    ForeignFrame,
    HasResult,
    WasRejected,
    approved_paths,
    read_stack,
)
from continuations.ledger import layout
from continuations.wire.continuation import Continuation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from continuations.authoring.tool.tool_protocol import AgentProtocol, ToolProtocol
    from continuations.core.rows.waits import Wait
    from continuations.ledger.claims import Clock


# A continuation may have 256 MiB, and JSON takes some times its size in memory.
_MAX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedRun:
    """A paused agent that was read from a file.

    Attributes:
        continuation: The state, for `Runner.adopt` or `resume`. The ids in it follow
            from the file: reading the same file again gives the same ids.
        approved: The calls that the file marks with `approved: true`, each as the ids
            of the tool calls from the top down to it.
    """

    continuation: Continuation
    approved: frozenset[tuple[str, ...]]
    _call_paths: Mapping[str, tuple[str, ...]]

    def path_of(self, wait: Wait) -> tuple[str, ...]:
        """Return the ids of the tool calls from the top down to a waiting call.

        Args:
            wait: A wait of the continuation, or of the run that adopted it.

        Returns:
            The ids, as `path_ids` has them in the file.

        Raises:
            InvalidInput: The file has no call for this wait.
        """
        if not self._has(wait):
            msg = (
                f"wait {wait.id} belongs to no call of the file. Pass a wait of the "
                "run that adopted the file."
            )
            raise InvalidInput(msg, run_id=wait.run_id)
        return self._call_paths[wait.call_id]

    def decisions(
        self, waits: Iterable[Wait], *, by: str | None = None
    ) -> dict[str, Verdict]:
        """Return the decisions that the file contains.

        Only `approved: true` is a decision. The prototype writes `false` before a
        person has decided, so `false` decides nothing. Deny a call with `Deny`.

        Args:
            waits: Open waits of the continuation, or of the run that adopted it.
            by: Name of the person who approved, for the record.

        Returns:
            An `Approve` by wait id, for each wait whose call is approved in the file.
        """
        verdict = Approve(by=by, reason="The file of the paused agent approves it.")
        return {
            wait.id: verdict
            for wait in waits
            if self._has(wait) and self._call_paths[wait.call_id] in self.approved
        }

    def _has(self, wait: Wait) -> bool:
        """Return whether a wait is that of a call of the file, with its arguments."""
        shown = (wait.call_id, wait.path, wait.arguments_json)
        return any(
            (own.call_id, own.path, own.arguments_json) == shown
            for own in self.continuation.run_state.waits.values()
        )


def read(
    source: str | os.PathLike[str] | bytes | Mapping[str, Any],
    agent: Agent[Any],
    *,
    clock: Clock | None = None,
) -> PausedRun:
    """Read a paused agent.

    Every call that the file leaves open waits for an approval, also if its tool here
    needs none. A call that the prototype rejected is never run: the model reads that a
    person denied it, and goes on.

    Args:
        source: The path of a file, its bytes, or the dict that `request()` returned.
            It is not changed.
        agent: The root agent. Its tools and sub-agents have the names that the file
            has. A stack of the file is bound to them from the top down.
        clock: The clocks of this machine, for tests. Deadlines count from now.

    Returns:
        The continuation, and the decisions of the file.

    Raises:
        FormatError: The file is not such a file, has ended, contradicts itself, or does
            not fit `agent`. The text names the file and the field.
        InvalidInput: `agent` is not an `Agent`.
    """
    _check_agent(agent)
    top = _open(source)
    stack = read_stack(top)
    approved = approved_paths(top, stack)
    digest = jsontext.digest("snaplogic", *_texts(stack))
    builder = StackBuilder(
        agent=agent,
        run_id=f"snaplogic-{digest[:26]}",
        run_nonce=digest[26:52],
        now=(Ports().clock if clock is None else clock).now(),
    )
    state = builder.build(stack)
    return PausedRun(
        continuation=Continuation(state),
        approved=approved,
        _call_paths=builder.call_paths,
    )


def _check_agent(agent: object) -> None:
    if not isinstance(agent, Agent):
        raise InvalidInput(f"agent must be an Agent, got {type(agent).__name__}.")


def _open(source: str | os.PathLike[str] | bytes | Mapping[str, Any]) -> Field:
    found = jsontext.as_object(source)
    if found is not None:
        try:
            value = jsontext.parse(jsontext.dump(found))
        except jsontext.NotJson as error:
            Field(None, "", "the dict").refuse(f"is not JSON: {error}")
        return Field(value, "", "the dict")
    if isinstance(source, bytes):
        return _parse(source, "the bytes")
    if not isinstance(source, str | os.PathLike):
        raise InvalidInput(
            "source must be a path, bytes or a dict, got "
            f"{type(source).__name__}. Pass the path of the file."
        )
    return _parse(_read_file(Path(source)), os.fspath(source))


def _read_file(path: Path) -> bytes:
    advice = "Check the path of the file."
    place = Field(None, "", str(path))
    try:
        if not path.is_file():
            place.refuse("does not exist, or is no file", advice)
        if path.stat().st_size > _MAX_BYTES:
            place.refuse(f"has more than {_MAX_BYTES} bytes", advice)
        return path.read_bytes()
    except OSError as error:
        place.refuse(f"cannot be read ({error.strerror})", advice)


def _parse(data: bytes, name: str) -> Field:
    try:
        value = jsontext.parse(data, lossless=True)
    except jsontext.NotJson as error:
        Field(None, "", name).refuse(f"is not JSON: {error}")
    return Field(value, "", name)


def _texts(stack: ForeignFrame) -> list[str]:
    """Return everything of a stack but its decisions, as texts in a fixed order."""
    texts = [str(len(stack.messages)), *(message.text for message in stack.messages)]
    for path, call in stack.walk():
        progress = call.progress
        kind = type(progress).__name__
        texts += [jsontext.canonical([*path, call.tool, call.arguments, kind])]
        if isinstance(progress, ForeignFrame):
            texts += [str(len(progress.messages))]
            texts += [message.text for message in progress.messages]
    return texts


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
    _calls: dict[str, calls.CallRow] = field(default_factory=dict[str, calls.CallRow])
    _logs: dict[str, MessageLog] = field(default_factory=dict[str, MessageLog])
    _asked: list[tuple[calls.CallRow, ToolProtocol, str]] = field(
        default_factory=list[tuple[calls.CallRow, "ToolProtocol", str]]
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
        if rows and all(isinstance(call.state, calls.CLOSED_STATES) for call in rows):
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
    ) -> calls.CallRow:
        row = calls.CallRow(
            id=f"c{self._allocate()}",
            frame_id=frame.id,
            tool=call.tool,
            tool_call_id=call.tool_call_id,
            raw_arguments=call.arguments,
            state=calls.Refused("denied", _REJECTED),
        )
        path = (*above, call.tool_call_id)
        match call.progress:
            case WasRejected():
                pass
            case HasResult(content=content):
                row = replace(row, state=calls.Returned(content), attempts=1)
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
                    state=calls.Nested(child),
                    attempts=1,
                    contract_digest=tool.contract_digest,
                )
        self._calls[row.id] = row
        self.call_paths[row.id] = path
        return row

    def _asked_call(
        self, call: ForeignCall, row: calls.CallRow, agent: AgentProtocol, note: str
    ) -> calls.CallRow:
        """Return a call that waits for an approval.

        If its arguments do not fit the tool, it ends with an error that the model
        reads, as it would in a run of this library.
        """
        tool = _find_tool(call, agent)
        try:
            arguments = tool.effective_arguments(call.arguments)
        except Exception as error:  # noqa: BLE001 - validators of the application
            invalid = call_failures.rejection_for_error(row, error)
            return replace(row, state=calls.Errored(invalid.code, invalid.content))
        row = replace(
            row,
            state=calls.Waiting(
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
        self, state: RunState, call: calls.CallRow, tool: ToolProtocol, note: str
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

    def _ulid(self, call: calls.CallRow) -> str:
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
