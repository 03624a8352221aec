"""A model whose replies were written down before: for tests and demos.

It keeps no place in its script. Which reply is next follows from the conversation
alone, so that a run which goes on in another process goes on rightly.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from continuations.core import jsontext, transcript
from continuations.core.messages import MalformedMessage, Message
from continuations.core.model_protocol import ModelReply
from continuations.errors import ModelError

if TYPE_CHECKING:
    from continuations.core.model_protocol import ModelRequest


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call for a script; text as `arguments` is sent as it is written.

    Without an `id` it gets `call_<turn>_<place>`, the same in every process.
    """

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict[str, Any])
    id: str | None = None


# In words: a final text; calls; a whole message; a whole reply; what to raise.
ScriptedReply: TypeAlias = (
    str | ToolCall | Sequence[ToolCall] | Mapping[str, Any] | ModelReply | BaseException
)
ReplyFunction: TypeAlias = (
    "Callable[[ModelRequest], ScriptedReply | Awaitable[ScriptedReply]]"
)
AgentScript: TypeAlias = "Sequence[ScriptedReply] | ReplyFunction"
Script: TypeAlias = "AgentScript | Mapping[str, AgentScript]"


class ScriptedModel:
    """A `Model` that says its lines.

    `script` is a list of lines, of which the k-th is said while the conversation has
    k assistant messages; or a function of the request, which may be async; or a
    mapping of agent names to either. A line that is an exception is raised, as often
    as the conversation stands there: what fails only once needs a function.

    `requests` holds every request of this process, in order, those too that were
    refused. It raises `ModelError` where the script ends, and with status 400 for a
    conversation that every provider would refuse.
    """

    def __init__(self, script: Script, name: str = "scripted") -> None:
        self._script = script
        self._name = name
        self.requests: list[ModelRequest] = []

    def __repr__(self) -> str:
        return f"ScriptedModel(name={self._name!r})"

    @property
    def name(self) -> str:
        """The model's name, for the manifest and for people."""
        return self._name

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Return the line that the conversation has come to."""
        self.requests.append(request)
        fault = transcript.find_violation(request.messages)
        if fault is not None:
            msg = f"{self._name}: the conversation cannot be sent: {fault}."
            raise ModelError(msg, status=400)
        turn = sum(message.role == "assistant" for message in request.messages)
        part = self._script_of(request.agent)
        line = (
            part(request)
            if callable(part)
            else self._scripted_reply(part, turn, request)
        )
        said = await line if inspect.isawaitable(line) else line
        try:
            return _to_reply(said, turn)
        except (MalformedMessage, jsontext.NotJson) as error:
            msg = f"{self._name}: line {turn + 1} cannot be said: {error}."
            raise ModelError(msg) from None

    def _script_of(self, agent: str) -> AgentScript:
        script = self._script
        if callable(script) or not isinstance(script, Mapping):
            return script
        if agent in script:
            return script[agent]
        known = ", ".join(sorted(script)) or "nobody"
        msg = f"{self._name}: the script has lines for {known}, none for {agent!r}."
        raise ModelError(msg)

    def _scripted_reply(
        self, script: Sequence[ScriptedReply], turn: int, request: ModelRequest
    ) -> ScriptedReply:
        if turn < len(script):
            return script[turn]
        whose = f" of {request.agent}" if request.agent else ""
        msg = f"{self._name}: the script{whose} ends before line {turn + 1}; add it."
        raise ModelError(msg)


def _to_reply(scripted: ScriptedReply, turn: int) -> ModelReply:
    if isinstance(scripted, BaseException):
        raise scripted
    if isinstance(scripted, ModelReply):
        return scripted
    message = Message.from_mapping(_message_data(scripted, turn))
    if message.role != "assistant":
        msg = "it is not an assistant's message"
        raise MalformedMessage(msg)
    return ModelReply(
        message=message, finish_reason="tool_calls" if message.tool_call_ids else "stop"
    )


def _message_data(
    scripted: str | ToolCall | Sequence[ToolCall] | Mapping[str, Any], turn: int
) -> Mapping[str, Any]:
    if isinstance(scripted, Mapping):
        return scripted
    if isinstance(scripted, str):
        return {"role": "assistant", "content": scripted}
    calls = [scripted] if isinstance(scripted, ToolCall) else scripted
    asked = [_tool_call_data(call, turn, place) for place, call in enumerate(calls)]
    if not asked:
        msg = "a list of calls holds at least one"
        raise MalformedMessage(msg)
    return {"role": "assistant", "content": None, "tool_calls": asked}


def _tool_call_data(call: ToolCall, turn: int, index: int) -> dict[str, Any]:
    given = call.arguments
    text = given if isinstance(given, str) else jsontext.dump(dict(given))
    chosen = f"call_{turn}_{index}" if call.id is None else call.id
    return {
        "id": chosen,
        "type": "function",
        "function": {"name": call.name, "arguments": text},
    }
