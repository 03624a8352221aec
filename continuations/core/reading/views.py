"""Read-only views of a run for applications: `Frame` and `Call`.

A view holds the flat state and one id. It reads one level at a time, so code can walk
a stack of a thousand agents without recursion.

`refused_replies` are the replies of models that could not be used, with the reasons. A
reply that a hook refuses is no message. The message in its place has an excerpt and the
reason in its metadata, which no provider gets.
"""

from __future__ import annotations

from typing import Any

from continuations.core import jsontext
from continuations.core.changes.tool_messages import is_retry_request, retry_reason
from continuations.core.messages import WITHHELD, Detail, Message
from continuations.core.rows.calls import STATE_NAMES, CallRow, Nested, open_wait_id
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.core.rows.waits import Wait, withheld
from continuations.core.visible_text import shorten
from continuations.value_class import dataclass


class Frame:
    """One activation of an agent: its messages and the calls of its current turn."""

    __slots__ = ("_id", "_run_state")

    def __init__(self, state: RunState, frame_id: str) -> None:
        self._run_state = state
        self._id = frame_id

    def __repr__(self) -> str:
        """Return the frame's id and agent, without message contents."""
        return f"<Frame {self._id} of {self.agent}>"

    @property
    def id(self) -> str:
        """Id of the frame, unique in its run."""
        return self._id

    @property
    def agent(self) -> str:
        """Name of the agent."""
        return self._run_state.frames[self._id].agent

    @property
    def turns(self) -> int:
        """How often the model replied in this frame."""
        return self._run_state.frames[self._id].turns

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages in the chat completions format, as new dicts."""
        return [message.data for message in self._run_state.logs[self._id].messages]

    @property
    def metadata(self) -> dict[int, dict[str, Any]]:
        """Facts about messages, by their position in `messages`.

        For a reply of a `Fallback`: which model replied, and why others failed.
        Providers do not get them.
        """
        messages = enumerate(self._run_state.logs[self._id].messages)
        return {n: each.metadata for n, each in messages if each.metadata is not None}

    @property
    def state(self) -> dict[str, Any]:
        """The stored state of the agent as a new dict of JSON values.

        It has the fields that tools have changed; a missing field has its default.
        """
        text = self._run_state.frames[self._id].state_json
        return dict(jsontext.parse(text)) if text else {}

    @property
    def wait(self) -> Wait | None:
        """Open wait of the frame, or `None`: the model is not asked until it ends."""
        state = self._run_state
        alarms = (w for w in state.waits.values() if w.frame_id == self._id)
        return state.suspending.get(self._id) or next(alarms, None)

    @property
    def model_error(self) -> str | None:
        """Why the model refused the last request, or `None` after its next reply."""
        return self._run_state.frames[self._id].model_error

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls of the current turn, in the model's order."""
        row = self._run_state.frames[self._id]
        return tuple(Call(self._run_state, call) for call in row.open_call_ids)


class Call:
    """One tool call of a frame's current turn, and its state."""

    __slots__ = ("_id", "_run_state")

    def __init__(self, state: RunState, call_id: str) -> None:
        self._run_state = state
        self._id = call_id

    def __repr__(self) -> str:
        """Return the call's id, tool and state, without its arguments."""
        return f"<Call {self._id} of {self.tool}: {self.state}>"

    @property
    def _row(self) -> CallRow:
        return self._run_state.calls[self._id]

    @property
    def id(self) -> str:
        """Id of the call, unique in its run; not the provider's `tool_call_id`."""
        return self._id

    @property
    def tool_call_id(self) -> str:
        """Id of the call in the messages of its frame, as the provider chose it."""
        return self._row.tool_call_id

    @property
    def tool(self) -> str:
        """Name of the tool, as the model wrote it."""
        return self._row.tool

    @property
    def state(self) -> str:
        """Name of the state.

        It is `proposed`, `waiting`, `ready`, `started`, `nested`, `unknown`,
        `returned`, `errored` or `refused`.
        """
        return STATE_NAMES[type(self._row.state)]

    @property
    def arguments(self) -> Any:
        """Arguments that the tool runs with.

        They are validated, have their defaults, and contain the edits of an approver.
        If they are not validated yet or are invalid, this is the text that the model
        wrote.
        """
        row = self._row
        return (
            row.raw_arguments
            if row.arguments is None
            else jsontext.parse(row.arguments)
        )

    @property
    def shown_arguments(self) -> Any:
        """The arguments as people may read them: secret values are masked.

        This is the mask alone if they are not validated yet or are invalid, because
        then the secrets among them are not known.
        """
        secrets = self._row.secrets
        is_valid = self._row.arguments is not None
        if is_valid and not secrets:
            return self.arguments
        from continuations.core.words.secret_arguments import MASK, masked  # noqa: PLC0415 - few tools have secrets

        return masked(self.arguments, secrets) if is_valid else MASK

    @property
    def original_arguments(self) -> Any:
        """Arguments before the first edit by an approver, or `None` if not edited."""
        original = self._row.original_arguments
        return None if original is None else jsontext.parse(original)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the asyncio tasks in which the code of a workflow made the call.

        The outermost one is the first. Empty for the function of the workflow itself,
        and for the call of a model.
        """
        return self._row.tasks

    @property
    def frame(self) -> Frame | None:
        """Frame of the sub-agent that the call runs, or `None`."""
        state = self._row.state
        return (
            Frame(self._run_state, state.frame_id)
            if isinstance(state, Nested)
            else None
        )

    @property
    def wait(self) -> Wait | None:
        """Open wait of the call, or `None`."""
        wait_id = open_wait_id(self._row.state)
        wait = None if wait_id is None else self._run_state.waits.get(wait_id)
        return None if wait is None else withheld(wait)


# Characters of a reply that are kept or shown.
_MAX_EXCERPT = 1000
# Replies of one run that are shown, the newest.
_MAX_SHOWN = 10
_EXCERPT, _REASON = "refused_reply", "refused_because"


@dataclass(frozen=True, slots=True)
class RefusedReply:
    """A reply that was refused.

    Attributes:
        agent: Name of the agent.
        text: The beginning of the reply; "" for a reply without text.
        reason: Why it was refused.
    """

    agent: str
    text: str
    reason: str


def with_refused(withheld: Message, text: str, reason: str) -> Message:
    """Return the message in the place of a reply that a hook refuses."""
    facts = {_EXCERPT: shorten(text, _MAX_EXCERPT), _REASON: reason}
    return withheld.with_metadata(jsontext.canonical(facts))


def shown_facts(facts: dict[str, Any], detail: Detail) -> dict[str, Any]:
    """Return the metadata of a message; the excerpt is a text of a transcript."""
    if detail == "transcript" or _EXCERPT not in facts:
        return facts
    return {**facts, _EXCERPT: WITHHELD}


def refused_replies(state: RunState) -> list[RefusedReply]:
    """Return the last replies of the agents of a run that were refused."""
    found: list[RefusedReply] = []
    for frame in state.frames.values():
        messages = state.logs[frame.id].messages
        failure = state.run.failure if frame.id == ROOT_FRAME_ID else None
        for number, message in enumerate(messages, 1):
            following = messages[number] if number < len(messages) else None
            refused = _refused(message, following)
            if refused is None and following is None and failure is not None:
                is_output = failure.code == "output" and message.role == "assistant"
                refused = (message.content, failure.message) if is_output else None
            if refused is not None:
                text, reason = refused
                text = shorten(text, _MAX_EXCERPT)
                found.append(RefusedReply(frame.agent, text, reason))
    return found[-_MAX_SHOWN:]


def _refused(message: Message, following: Message | None) -> tuple[str, str] | None:
    """Return the text of a refused reply and the reason, `None` for another message."""
    if message.role != "assistant":
        return None
    if _EXCERPT in (message.metadata_json or ""):
        facts = message.metadata or {}
        if _EXCERPT in facts:
            return str(facts[_EXCERPT]), str(facts.get(_REASON, ""))
    if following is None or not is_retry_request(following):
        return None
    return message.content, retry_reason(following)
