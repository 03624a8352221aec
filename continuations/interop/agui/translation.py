"""Events of a run as events of AG-UI, for one turn of one client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ag_ui import core as agui

from continuations import events
from continuations.interop.agui.conversation import (
    NOT_SHOWN,
    call_id,
    reply_id,
    result_id,
    stored_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from continuations import Continuation, Frame

_REASONING_FIELDS = ("reasoning_content", "reasoning")
# Greater than the number of the events of a version.
_LAST_ORDINAL = 9_999_999_999
_SUCCESSES = (None, "returned", "answered")


@dataclass
class _Frame:
    """The known facts about one activation of an agent.

    Attributes:
        agent: Name of the agent.
        call: Id of the call whose tool the agent is; `None` for the root agent.
        parent: Frame of that call; `None` for the root agent.
        turns: How many replies it has.
        is_announced: Whether this stream has begun the sub-agent.
    """

    agent: str
    call: str | None = None
    parent: str | None = None
    turns: int = 0
    is_announced: bool = False


@dataclass
class _Writing:
    """A reply that a model is still writing, as far as it was sent."""

    id: str
    turn: int
    number: tuple[int, int] = (0, 0)
    next_index: int = 0
    text: str = ""
    reasoning: str = ""
    is_reasoning: bool = False
    is_text: bool = False


@dataclass
class Translator:
    """Translates the events of one run, each stored one once.

    Attributes:
        run_id: Id of the run.
        reads: Whether the person may read texts.
        own_texts: Texts of user messages that the client has already.
        sent: Messages of users that were sent to the client, with their texts.
        state: The state of the root agent.
        cursor: The place of the last stored event.
        is_out_of_step: Whether the client shows something that the run does not have.
    """

    run_id: str
    reads: bool
    own_texts: list[str] = field(default_factory=list[str])
    sent: list[agui.UserMessage] = field(default_factory=list[agui.UserMessage])
    state: dict[str, Any] = field(default_factory=dict[str, Any])
    cursor: tuple[int, int] = (0, 0)
    is_out_of_step: bool = False
    has_state_baseline: bool = False
    _frames: dict[str, _Frame] = field(default_factory=dict[str, _Frame])
    # By the id of an open call in the run: its frame, and its id for the client.
    _calls: dict[str, tuple[str, str]] = field(
        default_factory=dict[str, tuple[str, str]]
    )
    _arguments: dict[str, str] = field(default_factory=dict[str, str])
    _replies: dict[str, str] = field(default_factory=dict[str, str])
    _writing: dict[str, _Writing] = field(default_factory=dict[str, _Writing])

    def know(self, newest: Continuation) -> None:
        """Take the frames and open calls of a state whose events are handed on."""
        self.cursor = max(self.cursor, (newest.version, _LAST_ORDINAL))
        frames: list[tuple[Frame, str | None, str | None]] = [(newest.root, None, None)]
        for frame, call, parent in frames:
            known = self._frames.get(frame.id)
            is_announced = known is not None and known.is_announced
            self._frames[frame.id] = _Frame(
                frame.agent, call, parent, frame.turns, is_announced
            )
            reply = reply_id(self.run_id, frame.id, frame.turns)
            for each in frame.calls:
                self._calls[each.id] = frame.id, call_id(reply, each.tool_call_id)
                if each.frame is not None:
                    frames.append((each.frame, each.id, frame.id))

    def call_of(self, call: str) -> str | None:
        """Return the client's id of an open call."""
        return self._calls[call][1] if call in self._calls else None

    def subagent_of(self, frame: str | None) -> str | None:
        """Return the client's id of a sub-agent; `None` for the root agent."""
        known = self._frames.get(frame or "")
        return None if known is None or known.call is None else self._id(frame)

    def frame_of(self, call: str) -> str | None:
        """Return the frame of an open call."""
        return self._calls[call][0] if call in self._calls else None

    def _id(self, frame: str | None) -> str:
        return f"{self.run_id}:{frame}"

    # Events ---------------------------------------------------------------------

    def translate(self, event: events.RunEvent) -> Iterator[agui.BaseEvent]:
        """Return the events of AG-UI for an event of the run."""
        if isinstance(event, events.TextDelta | events.ReasoningDelta):
            if self.reads:
                yield from self._delta(event)
        elif isinstance(event, events.CallProgress):
            call = self.call_of(event.call)
            if self.reads and call is not None:
                yield progress(call, event.value, self.subagent_of(event.frame))
        else:
            version, _, ordinal = event.cursor.partition(".")
            place = (int(version), int(ordinal))
            if place > self.cursor:
                self.cursor = place
                yield from self._stored(event)

    def _stored(self, event: events.StreamEvent) -> Iterator[agui.BaseEvent]:
        match event:
            case events.FrameStarted(frame=str() as frame):
                parent = self.frame_of(event.call or "")
                self._frames[frame] = _Frame(event.agent, event.call, parent)
                yield from self._announce(frame)
            case events.FrameEnded():
                yield from self._frame_ended(event)
            case events.MessageAdded(frame=str() as frame):
                yield from self._message(frame, event.message, event.cursor)
            case events.CallProposed(frame=str() as frame):
                yield from self._proposed(frame, event)
            case events.CallEnded(frame=str() as frame):
                yield from self._ended(frame, event)
            case events.StateChanged(frame=str() as frame):
                if self.subagent_of(frame) is None:
                    yield self._state_changed(event.changes)
            case events.RunRepaired() | events.RunRewound():
                self.is_out_of_step = True
            case _:
                pass

    def _state_changed(self, changes: Mapping[str, Any]) -> agui.BaseEvent:
        self.state.update(changes)
        if not self.has_state_baseline:
            return self.state_snapshot()
        delta = [
            {"op": "add", "path": f"/{_pointer(name)}", "value": value}
            for name, value in changes.items()
        ]
        return agui.StateDeltaEvent.model_validate({"delta": delta})

    def state_snapshot(self) -> agui.BaseEvent:
        """Return the whole state of the root agent."""
        self.has_state_baseline = True
        return agui.StateSnapshotEvent(snapshot=dict(self.state))

    # Messages -------------------------------------------------------------------

    def _message(
        self, frame: str, message: dict[str, Any], cursor: str
    ) -> Iterator[agui.BaseEvent]:
        text = stored_text(message)
        if message["role"] == "user" and self.subagent_of(frame) is None:
            if text in self.own_texts:
                self.own_texts.remove(text)
                return
            shown = text if self.reads or not text else NOT_SHOWN
            own_id = f"{self._id(frame)}:user:{cursor}"
            self.sent.append(agui.UserMessage(id=own_id, role="user", content=text))
            yield agui.TextMessageStartEvent(message_id=own_id, role="user")
            yield agui.TextMessageContentEvent(message_id=own_id, delta=shown)
            yield agui.TextMessageEndEvent(message_id=own_id)
        elif message["role"] == "assistant":
            yield from self._reply(frame, message, text)

    def _reply(
        self, frame: str, message: dict[str, Any], text: str
    ) -> Iterator[agui.BaseEvent]:
        known = self._frames.setdefault(frame, _Frame(""))
        writing = self._writing.get(frame)
        known.turns = known.turns + 1 if writing is None else writing.turn
        reply = reply_id(self.run_id, frame, known.turns)
        thoughts = (message.get(name) for name in _REASONING_FIELDS)
        reasoning = next((each for each in thoughts if isinstance(each, str)), "")
        if not self.reads:
            text, reasoning = NOT_SHOWN if text else "", ""
        writing = self._writing.setdefault(frame, _Writing(reply, known.turns))
        self._replies[frame] = writing.id
        yield from self._announce(frame)
        yield from self._finish(frame, text, reasoning)
        for call in message.get("tool_calls") or ():
            key = call_id(reply, call["id"])
            self._arguments[key] = call["function"]["arguments"]

    def _delta(
        self, event: events.TextDelta | events.ReasoningDelta
    ) -> Iterator[agui.BaseEvent]:
        frame, number = event.frame, (event.fence, event.attempt)
        writing = self._writing.get(frame)
        reply = reply_id(self.run_id, frame, event.turn)
        if writing is None:
            writing = self._writing[frame] = _Writing(reply, event.turn, number)
        elif number > writing.number:
            # The reply begins anew. The sent words stay until the turn ends.
            yield from self._stop(frame)
            again = f"{reply}:{event.fence}.{event.attempt}"
            writing = self._writing[frame] = _Writing(again, event.turn, number)
            self.is_out_of_step = True
        if number < writing.number or event.index != writing.next_index:
            return  # the stored message has the missing part
        writing.next_index += 1
        yield from self._announce(frame)
        if isinstance(event, events.TextDelta):
            yield from self._write(frame, event.text)
        else:
            yield from self._think(frame, event.text)

    def _write(self, frame: str, text: str) -> Iterator[agui.BaseEvent]:
        writing, tag = self._writing[frame], self.subagent_of(frame)
        yield from self._end_reasoning(frame)
        if not writing.is_text:
            writing.is_text = True
            yield agui.TextMessageStartEvent(
                message_id=writing.id, role="assistant", subagent_run_id=tag
            )
        writing.text += text
        yield agui.TextMessageContentEvent(
            message_id=writing.id, delta=text, subagent_run_id=tag
        )

    def _think(self, frame: str, text: str) -> Iterator[agui.BaseEvent]:
        writing, tag = self._writing[frame], self.subagent_of(frame)
        own_id = f"{writing.id}:reasoning"
        if not writing.is_reasoning:
            writing.is_reasoning = True
            yield agui.ReasoningStartEvent(message_id=own_id, subagent_run_id=tag)
            yield agui.ReasoningMessageStartEvent(
                message_id=own_id, role="reasoning", subagent_run_id=tag
            )
        writing.reasoning += text
        yield agui.ReasoningMessageContentEvent(
            message_id=own_id, delta=text, subagent_run_id=tag
        )

    def _end_reasoning(self, frame: str) -> Iterator[agui.BaseEvent]:
        writing, tag = self._writing[frame], self.subagent_of(frame)
        if writing.is_reasoning:
            writing.is_reasoning = False
            own_id = f"{writing.id}:reasoning"
            yield agui.ReasoningMessageEndEvent(message_id=own_id, subagent_run_id=tag)
            yield agui.ReasoningEndEvent(message_id=own_id, subagent_run_id=tag)

    def _finish(
        self, frame: str, text: str, reasoning: str = ""
    ) -> Iterator[agui.BaseEvent]:
        """Send what is missing of a reply, and end it."""
        writing = self._writing[frame]
        if reasoning and not writing.reasoning and not writing.text:
            yield from self._think(frame, reasoning)
        if text.startswith(writing.text):
            rest = text[len(writing.text) :]
            if rest:
                yield from self._write(frame, rest)
        else:
            self.is_out_of_step = True
        yield from self._stop(frame)

    def _stop(self, frame: str) -> Iterator[agui.BaseEvent]:
        """End a reply as it is."""
        if frame not in self._writing:
            return
        yield from self._end_reasoning(frame)
        writing = self._writing.pop(frame)
        if writing.is_text:
            yield agui.TextMessageEndEvent(
                message_id=writing.id, subagent_run_id=self.subagent_of(frame)
            )

    # Calls ----------------------------------------------------------------------

    def _proposed(
        self, frame: str, event: events.CallProposed
    ) -> Iterator[agui.BaseEvent]:
        known = self._frames.setdefault(frame, _Frame(""))
        reply = reply_id(self.run_id, frame, known.turns)
        call, tag = call_id(reply, event.tool_call_id), self.subagent_of(frame)
        if event.call is not None:
            self._calls[event.call] = frame, call
        yield from self._announce(frame)
        yield agui.ToolCallStartEvent(
            tool_call_id=call,
            tool_call_name=event.tool,
            # The calls of a workflow belong to no message.
            parent_message_id=self._replies.get(frame, reply) if known.turns else None,
            subagent_run_id=tag,
        )
        arguments = event.arguments_json
        written = self._arguments.pop(call, None)
        if arguments is None and self.reads:
            arguments = written
        if arguments:
            yield agui.ToolCallArgsEvent(
                tool_call_id=call, delta=arguments, subagent_run_id=tag
            )
        yield agui.ToolCallEndEvent(tool_call_id=call, subagent_run_id=tag)

    def _ended(self, frame: str, event: events.CallEnded) -> Iterator[agui.BaseEvent]:
        known = self._frames.setdefault(frame, _Frame(""))
        reply = reply_id(self.run_id, frame, known.turns)
        call = call_id(reply, event.tool_call_id)
        if event.call is not None:
            _, call = self._calls.pop(event.call, (frame, call))
        result = event.result or ""
        yield from self._announce(frame)
        yield agui.ToolCallResultEvent(
            message_id=result_id(call),
            tool_call_id=call,
            content=result if self.reads or not result else NOT_SHOWN,
            subagent_run_id=self.subagent_of(frame),
        )

    # Sub-agents -----------------------------------------------------------------

    def _announce(self, frame: str) -> Iterator[agui.BaseEvent]:
        """Begin a sub-agent and those above it, if this stream has not."""
        lineage: list[tuple[str, _Frame]] = []
        above: str | None = frame
        while above is not None and (known := self._frames.get(above)) is not None:
            if known.is_announced or known.call is None:
                break
            lineage.append((above, known))
            above = known.parent
        for each, known in reversed(lineage):
            known.is_announced = True
            yield agui.SubagentStartedEvent(
                subagent_run_id=self._id(each),
                name=known.agent,
                parent_subagent_run_id=self.subagent_of(known.parent),
                parent_tool_call_id=self.call_of(known.call or ""),
            )

    def _frame_ended(self, event: events.FrameEnded) -> Iterator[agui.BaseEvent]:
        if event.call is None:
            return
        frame = event.frame
        if frame is None or frame not in self._frames:
            # It began and ended within one version.
            frame = event.frame or f"of-{event.call}"
            parent = self.frame_of(event.call)
            self._frames[frame] = _Frame(event.agent, event.call, parent)
        yield from self._announce(frame)
        succeeded = event.end in _SUCCESSES
        if frame in self._writing:
            stays = self.is_out_of_step
            own_text = event.output if event.end == "returned" else None
            yield from self._finish(frame, own_text or self._writing[frame].text)
            self.is_out_of_step = stays  # the stored conversation has no sub-agent
        output = event.output if self.reads or not event.output else NOT_SHOWN
        yield self._closed(frame, output, None if succeeded else str(event.end))
        del self._frames[frame]

    def _closed(
        self, frame: str, output: str | None, code: str | None
    ) -> agui.BaseEvent:
        own_id = self._id(frame)
        if code is None:
            return agui.SubagentFinishedEvent(subagent_run_id=own_id, result=output)
        return agui.SubagentErrorEvent(
            subagent_run_id=own_id, message=output or code, code=code
        )

    # The end of the turn --------------------------------------------------------

    def close(
        self, interrupts: Mapping[str, list[str]] | None
    ) -> Iterator[agui.BaseEvent]:
        """End what is open.

        Args:
            interrupts: By the id of a sub-agent: the ids of its interrupts. `None`: the
                run does not wait.
        """
        for frame in [*self._writing]:
            # No stored message has these words.
            self.is_out_of_step |= self.subagent_of(frame) is None
            yield from self._stop(frame)
        open_frames = [each for each in self._frames.items() if each[1].is_announced]
        for frame, _ in reversed(open_frames):
            own_id = self._id(frame)
            if interrupts is None:
                yield self._closed(frame, None, "cancelled")
                continue
            yield agui.SubagentFinishedEvent(
                subagent_run_id=own_id,
                outcome=agui.SubagentFinishedSuspendedOutcome(
                    type="suspended", interrupt_ids=interrupts.get(own_id)
                ),
            )


def progress(call: str, value: Any, tag: str | None) -> agui.CustomEvent:
    """Return the event of a tool that reports its progress."""
    shown = {"toolCallId": call, "value": value}
    return agui.CustomEvent(
        name="continuations.progress", value=shown, subagent_run_id=tag
    )


def _pointer(name: str) -> str:
    """Return a name as a part of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")
