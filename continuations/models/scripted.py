"""A model with scripted replies, for tests and demonstrations.

The model keeps no position in its script. The conversation alone decides which reply is
next, so that a run can continue in another process.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from continuations.core import jsontext
from continuations.core.messages import (
    NOTHING_CHECKED,
    MalformedMessage,
    Message,
    TranscriptCheck,
)
from continuations.core.model_protocol import (
    LostReply,
    ModelDelta,
    ModelReply,
    PendingReply,
)
from continuations.errors import InvalidInput, ModelError
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.core.model_protocol import ModelRequest


_WORD = re.compile(r"\S+\s*|\s+")
_REASONING_FIELDS = ("reasoning_content", "reasoning")


async def hand_on_words(request: ModelRequest, message: Message) -> None:
    """Hand the words of a message to the listener of a request, if there is one.

    The reasoning comes first, then the text.
    """
    if request.on_delta is None:
        return
    data: dict[str, Any] = message.data
    reasoning = next((data[each] for each in _REASONING_FIELDS if data.get(each)), "")
    if isinstance(reasoning, str):
        for word in _WORD.findall(reasoning):
            await request.on_delta(ModelDelta(kind="reasoning", text=word))
    for word in _WORD.findall(message.content or ""):
        await request.on_delta(ModelDelta(kind="text", text=word))


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call in a script.

    Attributes:
        name: The name of the tool.
        arguments: The arguments. A string is sent unchanged, also if it is not JSON.
            Default: no arguments.
        id: The id of the call. Default: `call_<turn>_<position>`, both from 0. It is
            the same in every process.
    """

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict[str, Any])
    id: str | None = None


# A final text, calls, a whole message, a whole reply, or an exception to raise.
ReadyReply: TypeAlias = (
    str | ToolCall | Sequence[ToolCall] | Mapping[str, Any] | ModelReply | BaseException
)


@dataclass(frozen=True, slots=True)
class LaterReply:
    """A reply in a script that is not ready at once, as in a batch.

    The model returns a `PendingReply` first. The id says how often the reply was
    polled, so that any process can go on.

    Attributes:
        reply: The reply, or a `LostReply`.
        polls: The poll that returns it, from 1.
        poll_after: The `poll_after` of each `PendingReply`.
    """

    reply: ReadyReply | LostReply
    polls: int = 1
    poll_after: timedelta = timedelta(minutes=1)


ScriptedReply: TypeAlias = ReadyReply | LaterReply
ReplyFunction: TypeAlias = (
    "Callable[[ModelRequest], ScriptedReply | Awaitable[ScriptedReply]]"
)
AgentScript: TypeAlias = "Sequence[ScriptedReply] | ReplyFunction"
# After `isinstance` with a constant, type checkers leave the members open.
_SEQUENCE: type[Any] = Sequence
Script: TypeAlias = "AgentScript | Mapping[str, AgentScript]"


@dataclass(frozen=True, slots=True)
class _ReadConversation:
    """The conversation of the last request, so that the next one reads what is new.

    Attributes:
        messages: All messages.
        check: Whether a provider accepts the messages.
        turn: The number of assistant messages.
    """

    messages: tuple[Message, ...] = ()
    check: TranscriptCheck = NOTHING_CHECKED
    turn: int = 0

    def extended(self, messages: Sequence[Message]) -> _ReadConversation:
        """Return the conversation of a request, which may be another one."""
        every, count = tuple(messages), len(self.messages)
        if every[:count] != self.messages:
            return _ReadConversation().extended(every)
        new = every[count:]
        turn = self.turn + sum(message.role == "assistant" for message in new)
        return _ReadConversation(every, self.check.extended(new), turn)


class ScriptedModel:
    """A `Model` that returns the replies of a script.

    For a listener (`runner.stream`), it sends each word of a text and of
    `reasoning_content` as a part, like a model that streams.

    Args:
        script: One of these:

            - A list of replies. The reply with index k is returned while the
              conversation has k assistant messages.
            - A plain or async function that takes the `ModelRequest` and returns a
              reply.
            - A mapping of agent names to lists or functions.

            A reply is a text, a `ToolCall` or a list of them, an assistant message as
            a mapping, a `ModelReply`, a `LaterReply`, or an exception. An exception is
            raised each time that its turn is requested; use a function to raise it only
            once.
        name: The name of the model. Default: `scripted`.

    Attributes:
        requests: All requests of this process, in order, also the refused ones.
        polls: The ids of all polls of this process, in order.

    Raises:
        InvalidInput: `script` is a text, or none of these. A text would be read letter
            by letter.
        ModelError: From `reply`: the script has ended, or a reply is not valid. With
            status 400: every provider would refuse the conversation.
    """

    def __init__(self, script: Script, name: str = "scripted") -> None:
        _check_script(script)
        self._script = script
        self._name = name
        self.requests: list[ModelRequest] = []
        self.polls: list[str] = []
        self._read = _ReadConversation()

    def __repr__(self) -> str:
        return f"ScriptedModel(name={self._name!r})"

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._name

    async def reply(self, request: ModelRequest) -> ModelReply | PendingReply:
        """Return the scripted reply for the conversation; see `Model.reply`."""
        self.requests.append(request)
        turn, scripted = await self._next_reply(request)
        if isinstance(scripted, LaterReply):
            return PendingReply(id=f"reply-{turn}-0", poll_after=scripted.poll_after)
        made = self._made_reply(request, scripted, turn)
        await hand_on_words(request, made.message)
        return made

    async def poll(
        self, reply_id: str, request: ModelRequest
    ) -> ModelReply | PendingReply | LostReply:
        """Return a `LaterReply` of the script, if it is ready.

        Args:
            reply_id: The id of the newest `PendingReply`.
            request: The request of the turn.

        Returns:
            The reply, a `PendingReply` or a `LostReply`.

        Raises:
            ModelError: The script has no such `LaterReply`, or its reply is invalid.
        """
        self.polls.append(reply_id)
        turn, scripted = await self._next_reply(request)
        name, _, polled = reply_id.rpartition("-")
        if not isinstance(scripted, LaterReply) or name != f"reply-{turn}":
            text = f"reply {turn + 1} of the script is no LaterReply {reply_id!r}"
            raise self._model_error(request, text)
        count = int(polled) + 1
        if count < scripted.polls:
            return PendingReply(
                id=f"reply-{turn}-{count}", poll_after=scripted.poll_after
            )
        if isinstance(scripted.reply, LostReply):
            return scripted.reply
        return self._made_reply(request, scripted.reply, turn)

    async def _next_reply(self, request: ModelRequest) -> tuple[int, ScriptedReply]:
        """Return the turn of a conversation, from 0, and its reply in the script."""
        self._read = read = self._read.extended(request.messages)
        violation = read.check.violation_at_end()
        if violation is not None:
            text = f"the conversation is not valid: {violation}"
            raise self._model_error(request, text, status=400)
        turn = read.turn
        script = self._script_of(request)
        scripted = (
            script(request)
            if callable(script)
            else self._scripted_reply(script, turn, request)
        )
        if inspect.isawaitable(scripted):
            scripted = await scripted
        return turn, scripted

    def _made_reply(
        self, request: ModelRequest, scripted: ScriptedReply, turn: int
    ) -> ModelReply:
        try:
            return _to_reply(scripted, turn)
        except (MalformedMessage, jsontext.NotJson) as error:
            text = (
                f"reply {turn + 1} of the script (the first is 1) is not valid: {error}"
            )
            raise self._model_error(request, text) from None

    def _script_of(self, request: ModelRequest) -> AgentScript:
        script = self._script
        if callable(script) or not isinstance(script, Mapping):
            return script
        if request.agent in script:
            return script[request.agent]
        known = ", ".join(sorted(script)) or "none"
        text = (
            f"the script has no replies for agent {request.agent!r} (it has replies"
            f" for: {known}). Add them"
        )
        raise self._model_error(request, text)

    def _scripted_reply(
        self, script: Sequence[ScriptedReply], turn: int, request: ModelRequest
    ) -> ScriptedReply:
        if turn < len(script):
            return script[turn]
        agent = f" of agent {request.agent}" if request.agent else ""
        text = f"the script{agent} ends before reply {turn + 1}. Add this reply"
        raise self._model_error(request, text)

    def _model_error(
        self, request: ModelRequest, text: str, *, status: int | None = None
    ) -> ModelError:
        run = f"run {request.run_id}, model" if request.run_id else "model"
        return ModelError(
            f"{run} {self._name}: {text}.",
            run_id=request.run_id or None,
            status=status,
        )


def _check_script(script: Any) -> None:
    parts: list[Any] = [script]
    if isinstance(script, Mapping):
        parts = [*cast("Mapping[str, Any]", script).values()]
    for part in parts:
        is_text = isinstance(part, str | bytes)
        if callable(part) or (isinstance(part, _SEQUENCE) and not is_text):
            continue
        raise InvalidInput(
            "script must be a list of replies, a function, or a mapping of agent names"
            f" to them, got {part.__class__.__name__}. Pass a list, also for one reply."
        )


def _to_reply(scripted: ScriptedReply, turn: int) -> ModelReply:
    if isinstance(scripted, BaseException):
        raise scripted
    if isinstance(scripted, ModelReply):
        return scripted
    message = Message.from_mapping(_message_data(scripted, turn))
    if message.role != "assistant":
        raise MalformedMessage("it is not an assistant message")
    return ModelReply(
        message=message, finish_reason="tool_calls" if message.tool_call_ids else "stop"
    )


def _message_data(
    scripted: str | ToolCall | LaterReply | Sequence[ToolCall] | Mapping[str, Any],
    turn: int,
) -> Mapping[str, Any]:
    if isinstance(scripted, LaterReply):
        raise MalformedMessage("a LaterReply must not contain another one")
    if isinstance(scripted, Mapping):
        return scripted
    if isinstance(scripted, str):
        return {"role": "assistant", "content": scripted}
    calls = [scripted] if isinstance(scripted, ToolCall) else scripted
    data = [_tool_call_data(call, turn, index) for index, call in enumerate(calls)]
    if not data:
        raise MalformedMessage("a list of calls must have at least one call")
    return {"role": "assistant", "content": None, "tool_calls": data}


def _tool_call_data(call: ToolCall, turn: int, index: int) -> dict[str, Any]:
    arguments = call.arguments
    text = arguments if isinstance(arguments, str) else jsontext.dump(dict(arguments))
    return {
        "id": f"call_{turn}_{index}" if call.id is None else call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": text},
    }
