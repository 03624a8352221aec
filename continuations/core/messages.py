"""Messages of a chat completions conversation.

A message is kept as JSON text. The text of a provider stays as it was received, and is
sent to the provider again, so unknown fields stay unchanged.

After one invalid turn, a provider refuses every later request: "An assistant message
with 'tool_calls' must be followed by tool messages responding to each
'tool_call_id'" (OpenAI, HTTP 400). So `TranscriptCheck` checks the messages before each
request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from continuations.core import jsontext
from continuations.errors import FormatError
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# Which texts of a run a form shows; `core.reading.withheld_texts` explains them.
Detail: TypeAlias = Literal["transcript", "texts", "states"]
WITHHELD = "[not shown]"
# The other members of a message may repeat the arguments in the form of a provider.
_KEPT = ("role", "name", "tool_call_id", "content", "refusal")
_WRITTEN = ("content", "refusal", "reasoning", "reasoning_content")
ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})


class MalformedMessage(ValueError):
    """A value is not a valid chat completions message."""


@dataclass(frozen=True, slots=True)
class ToolCallRequest:
    """One tool call of an assistant message.

    `arguments` is the text that the model wrote; it may be invalid JSON.
    """

    tool_call_id: str
    tool: str
    arguments: str


class _Facts(NamedTuple):
    """Role and ids, which are read from the text of a message once."""

    role: str
    tool_call_ids: tuple[str, ...]
    answered_call_id: str | None
    has_attachments: bool = False


class Message:
    """One message, an immutable value.

    A stored message is read when its role, an id or its content is first needed. Each
    of these raises `FormatError` if the stored text is not a message. The properties
    `data`, `tool_calls` and `content` parse the text at each access.

    Attributes:
        text: The message as JSON text, as a provider gets it.
        metadata_json: Facts about the message as a JSON object, or `None`. They are
            stored beside the message, and no provider gets them.
    """

    __slots__ = ("_facts", "_where", "metadata_json", "text")

    text: Final[str]
    metadata_json: Final[str | None]

    def __init__(
        self,
        text: str,
        facts: _Facts | None,
        where: str = "",
        metadata_json: str | None = None,
    ) -> None:
        self.text = text
        self.metadata_json = metadata_json
        self._facts = facts
        self._where = where

    def __eq__(self, other: object) -> bool:
        """Tell whether both have the same text and metadata."""
        return (
            isinstance(other, Message)
            and self.text == other.text
            and self.metadata_json == other.metadata_json
        )

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        """Return the size, without the text."""
        return f"<Message of {len(self.text)} characters>"

    @classmethod
    def unread(cls, text: str, where: str) -> Message:
        """Build a message from a stored text, which `where` names in errors."""
        return cls(text, None, where)

    def with_metadata(self, metadata_json: str) -> Message:
        """Return the message with facts about it, the text of a JSON object."""
        return Message(self.text, self._facts, self._where, metadata_json)

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> Message:
        """Build a message from a mapping; raises `MalformedMessage` or `NotJson`."""
        return cls(jsontext.dump(dict(data)), _facts_of(data))

    @classmethod
    def from_json(cls, text: str) -> Message:
        """Build a message from JSON text; raises `MalformedMessage` or `NotJson`."""
        return cls(text, _facts_of_text(text))

    def read(self) -> _Facts:
        """Return the facts, which are read once; raises `FormatError`."""
        facts = self._facts
        if facts is None:
            try:
                facts = self._facts = _facts_of_text(self.text)
            except (MalformedMessage, jsontext.NotJson) as error:
                raise FormatError(
                    f"{self._where} is invalid: a text is not a chat message, {error}. "
                    "It was not changed. Check which program wrote it."
                ) from None
        return facts

    @property
    def role(self) -> str:
        """The role, one of `ROLES`."""
        return self.read().role

    @property
    def tool_call_ids(self) -> tuple[str, ...]:
        """Ids of the tool calls of an assistant message, in order.

        An id that the server left out is "".
        """
        return self.read().tool_call_ids

    @property
    def answered_call_id(self) -> str | None:
        """Id of the tool call that a tool message answers."""
        return self.read().answered_call_id

    @property
    def has_attachments(self) -> bool:
        """Whether a part refers to an attachment. No message of a model has one."""
        return self.read().has_attachments

    @property
    def data(self) -> dict[str, Any]:
        """The message as a new dict."""
        self.read()
        data: dict[str, Any] = jsontext.parse(self.text)
        return data

    @property
    def metadata(self) -> dict[str, Any] | None:
        """Facts about the message, or `None`. No provider gets them."""
        text = self.metadata_json
        return None if text is None else jsontext.parse(text)

    @property
    def tool_calls(self) -> tuple[ToolCallRequest, ...]:
        """The tool calls of an assistant message, in order."""
        return tuple(_parse_tool_calls(self.data))

    @property
    def content(self) -> str:
        """The readable text: `content`, or its text parts joined.

        Without such a text, the refusal. Other parts, such as images, are left out.
        """
        data = self.data
        content = data.get("content")
        if (items := jsontext.as_array(content)) is not None:
            parts = [jsontext.as_object(item) or {} for item in items]
            texts = [part.get("text", part.get("refusal")) for part in parts]
            return "".join(text for text in texts if isinstance(text, str))
        if isinstance(content, str) and content:
            return content
        refusal = data.get("refusal")
        return refusal if isinstance(refusal, str) else ""

    def with_tool_call_ids(self, ids: tuple[str, ...]) -> Message:
        """Return the message with other ids for its tool calls.

        The message must have tool calls, one for each id.
        """
        data = self.data
        calls = zip(data["tool_calls"], ids, strict=True)
        data["tool_calls"] = [{**call, "id": new} for call, new in calls]
        message = Message.from_mapping(data)
        known = self.metadata_json
        return message if known is None else message.with_metadata(known)


def _facts_of_text(text: str) -> _Facts:
    data = jsontext.as_object(jsontext.parse(text))
    if data is None:
        raise MalformedMessage("the message is not a JSON object")
    return _facts_of(data)


def _facts_of(data: Mapping[str, Any]) -> _Facts:
    if "role" not in data:
        raise MalformedMessage('"role" is missing')
    role = data["role"]
    if not isinstance(role, str) or role not in ROLES:
        raise MalformedMessage(f'"role" must be one of {", ".join(sorted(ROLES))}')
    tool_call_ids: tuple[str, ...] = ()
    answered_call_id = None
    if role == "assistant":
        requests = _parse_tool_calls(data)
        tool_call_ids = tuple([request.tool_call_id for request in requests])
    elif role == "tool":
        answered_call_id = data.get("tool_call_id")
        if not isinstance(answered_call_id, str):
            raise MalformedMessage('a tool message needs "tool_call_id", a string')
    if type(data.get("content")) is list and role in ("user", "tool"):
        has_attachments = _has_attachments(data["content"])
        return _Facts(role, tool_call_ids, answered_call_id, has_attachments)
    return _Facts(role, tool_call_ids, answered_call_id)


def _has_attachments(parts: list[Any]) -> bool:
    """Return whether parts refer to attachments; raises `MalformedMessage`."""
    from continuations.core.attachment_parts import InvalidReference, references  # noqa: PLC0415 - rarely needed

    try:
        return bool(references(parts))
    except InvalidReference as error:
        raise MalformedMessage(str(error)) from None


def system_message(text: str) -> Message:
    """Return a system message."""
    return Message.from_mapping({"role": "system", "content": text})


def user_message(text: str) -> Message:
    """Return a user message."""
    return Message.from_mapping({"role": "user", "content": text})


def tool_message(tool_call_id: str, content: str | list[Any]) -> Message:
    """Return the tool message for one tool call; `content` is a text or its parts."""
    return Message.from_mapping(
        {"role": "tool", "tool_call_id": tool_call_id, "content": content}
    )


def _parse_tool_calls(data: Mapping[str, Any]) -> list[ToolCallRequest]:
    if data.get("tool_calls") is None:
        return []
    calls = jsontext.as_array(data["tool_calls"])
    if calls is None:
        raise MalformedMessage('"tool_calls" must be a list')
    return [_parse_tool_call(jsontext.as_object(call) or {}) for call in calls]


def _parse_tool_call(call: Mapping[str, Any]) -> ToolCallRequest:
    kind = call.get("type", "function")
    body = jsontext.as_object(call.get(kind)) if isinstance(kind, str) else None
    # Some servers omit the id or send null.
    tool_call_id = call.get("id") or ""
    if body is not None and isinstance(tool_call_id, str):
        name = body.get("name")
        # The model writes free text for a custom tool of OpenAI, in `input`.
        arguments = body.get("arguments", body.get("input", ""))
        if isinstance(name, str) and isinstance(arguments, str):
            return ToolCallRequest(tool_call_id, name, arguments)
    raise MalformedMessage(
        "a tool call needs a name and arguments, both strings; its id must be a string "
        "if there is one"
    )


def shown_message(
    message: dict[str, Any], detail: Detail, *, of_sub_agent: bool
) -> dict[str, Any]:
    """Return a message of an agent, in the chat completions format.

    Args:
        message: The message.
        detail: Which texts to show.
        of_sub_agent: Whether the agent is a sub-agent. Its inputs are arguments.
    """
    if detail == "transcript":
        return message
    names = _KEPT if detail == "states" else (*_KEPT, *_WRITTEN)
    form = {name: value for name, value in message.items() if name in names}
    is_input = of_sub_agent and message.get("role") not in ("assistant", "tool")
    if detail == "states" or is_input:
        form |= {each: WITHHELD for each in _WRITTEN if form.get(each) is not None}
    calls = jsontext.as_array(message.get("tool_calls"))
    if calls:
        form["tool_calls"] = [_shown_call(each) for each in calls]
    return form


def _shown_call(call: object) -> dict[str, Any]:
    fields = jsontext.as_object(call) or {}
    function = jsontext.as_object(fields.get("function")) or {}
    return {
        "id": fields.get("id"),
        "type": "function",
        "function": {"name": function.get("name"), "arguments": WITHHELD},
    }


# The metadata of a message that has the instructions.
OF_INSTRUCTIONS = '{"from":"instructions"}'
# The same, and they stay for all turns.
FROZEN_INSTRUCTIONS = '{"from":"instructions","frozen":true}'


def is_instructions(message: Message) -> bool:
    """Return whether a message has the instructions of a turn of a thread."""
    known = message.metadata_json
    return known is not None and known in (OF_INSTRUCTIONS, FROZEN_INSTRUCTIONS)


# The check of a transcript --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TranscriptCheck:
    """The check of the first messages of a transcript, to be continued.

    Attributes:
        count: Number of the checked messages.
        expected: Ids of the tool calls of the last assistant message.
        received: Number of tool messages that followed it.
        violation: The first violation as a text, or `None`.
        call_ids: Ids of all tool calls.
        has_attachments: Whether a message refers to an attachment.
        instructions: Number of the last message that has the instructions of a turn of
            a thread, from 1; 0 for none. See `tool_messages`.
    """

    count: int = 0
    expected: tuple[str, ...] = ()
    received: int = 0
    violation: str | None = None
    call_ids: frozenset[str] = frozenset()
    has_attachments: bool = False
    instructions: int = 0

    def extended(self, messages: Sequence[Message]) -> TranscriptCheck:
        """Return the check of the same messages and of those that follow them."""
        expected, received = self.expected, self.received
        violation = self.violation
        new_ids: set[str] = set()
        attached, instructions = self.has_attachments, self.instructions
        for index, message in enumerate(messages, self.count):
            role, tool_call_ids, answered_call_id, attaches = message.read()
            attached = attached or attaches
            if message.metadata_json is not None and is_instructions(message):
                instructions = index + 1
            new_ids.update(tool_call_ids)
            if violation is not None:
                continue
            missing = len(expected) - received
            if role == "tool":
                if not missing or answered_call_id != expected[received]:
                    violation = (
                        f"message {index} is a tool message for no open tool call"
                    )
                received += 1
                continue
            if missing:
                violation = (
                    f"{missing} tool messages are missing before message {index}"
                )
            expected, received = tool_call_ids, 0
            if violation is None and len(set(expected)) != len(expected):
                violation = f"message {index} has two tool calls with the same id"
        return TranscriptCheck(
            count=self.count + len(messages),
            expected=expected,
            received=received,
            violation=violation,
            call_ids=self.call_ids | new_ids if new_ids else self.call_ids,
            has_attachments=attached,
            instructions=instructions,
        )

    def violation_at_end(self) -> str | None:
        """Return the first violation if no message follows, or `None`.

        An assistant message with tool calls must be followed directly by one tool
        message for each call, in the same order. There must be no other tool messages.
        """
        if self.violation is not None:
            return self.violation
        if self.received < len(self.expected):
            missing = len(self.expected) - self.received
            return f"{missing} tool messages are missing at the end"
        return None if self.count else "the list of messages is empty"


NOTHING_CHECKED = TranscriptCheck()


def find_violation(messages: Sequence[Message]) -> str | None:
    """Return the first violation as a text, or `None` if the messages can be sent."""
    return NOTHING_CHECKED.extended(messages).violation_at_end()


def unique_tool_call_ids(
    known_ids: frozenset[str],
    tool_call_ids: Sequence[str],
    replacement_ids: Sequence[str],
) -> tuple[str, ...]:
    """Return ids for the calls of a new turn that no earlier call of the frame has.

    Some providers repeat ids or leave them empty. Others refuse such a transcript
    ("Duplicate value for 'tool_call_id'"). An empty or repeated id is replaced by the
    id at the same position of `replacement_ids`. Every other id is kept. `known_ids`
    are those of the earlier calls.
    """
    taken: set[str] = set()
    ids: list[str] = []
    for provider_id, replacement in zip(tool_call_ids, replacement_ids, strict=True):
        chosen = provider_id or replacement
        if chosen in taken or chosen in known_ids:
            chosen = replacement
        while chosen in taken or chosen in known_ids:
            chosen += "_"
        taken.add(chosen)
        ids.append(chosen)
    return tuple(ids)
