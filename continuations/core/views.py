"""The run as people read it: a recursive view of the flat table.

A view holds the table and an id, and looks at one level at a time, so a stack of a
thousand agents can be walked without recursion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.calls import STATE_NAMES, Nested, Unknown, Waiting

if TYPE_CHECKING:
    from continuations.core.calls import CallRow
    from continuations.core.state import RunState
    from continuations.core.waits import Wait


class Frame:
    """One agent's activation: its messages and its open calls."""

    __slots__ = ("_id", "_run_state")

    def __init__(self, state: RunState, frame_id: str) -> None:
        self._run_state = state
        self._id = frame_id

    def __repr__(self) -> str:
        """Name the frame, without what was said in it."""
        return f"<Frame {self._id} of {self.agent}>"

    @property
    def id(self) -> str:
        """The frame's id, unique in its run."""
        return self._id

    @property
    def agent(self) -> str:
        """The name of the agent."""
        return self._run_state.frames[self._id].agent

    @property
    def turns(self) -> int:
        """How often the model was asked in this frame."""
        return self._run_state.frames[self._id].turns

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The standard messages array, as fresh mappings."""
        return [message.data for message in self._run_state.logs[self._id].messages]

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls of the turn that is under way, in the model's order."""
        row = self._run_state.frames[self._id]
        return tuple(Call(self._run_state, call) for call in row.open_call_ids)


class Call:
    """One tool call and the state that it is in."""

    __slots__ = ("_id", "_run_state")

    def __init__(self, state: RunState, call_id: str) -> None:
        self._run_state = state
        self._id = call_id

    def __repr__(self) -> str:
        """Name the call and its state, without its arguments."""
        return f"<Call {self._id} of {self.tool}: {self.state}>"

    @property
    def _row(self) -> CallRow:
        return self._run_state.calls[self._id]

    @property
    def id(self) -> str:
        """The call's id, unique in its run; not the provider's."""
        return self._id

    @property
    def tool(self) -> str:
        """The name of the tool, as the model gave it."""
        return self._row.tool

    @property
    def state(self) -> str:
        """The name of its state: waiting, started, nested, returned, ..."""
        return STATE_NAMES[type(self._row.state)]

    @property
    def arguments(self) -> Any:
        """What it runs with: the effective arguments.

        What the model wrote, as text, where that was never found valid.
        """
        row = self._row
        return (
            row.raw_arguments
            if row.arguments is None
            else jsontext.parse(row.arguments)
        )

    @property
    def original_arguments(self) -> Any:
        """The effective arguments before a person edited them, or `None`."""
        original = self._row.original_arguments
        return None if original is None else jsontext.parse(original)

    @property
    def frame(self) -> Frame | None:
        """The frame of the sub-agent that the call is in, or `None`."""
        state = self._row.state
        return (
            Frame(self._run_state, state.frame_id)
            if isinstance(state, Nested)
            else None
        )

    @property
    def wait(self) -> Wait | None:
        """The open wait at which the call stands still, or `None`."""
        state = self._row.state
        if isinstance(state, Waiting | Unknown):
            return self._run_state.waits.get(state.wait_id)
        return None
