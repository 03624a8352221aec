"""The structure of a file of SnapLogic's prototype: frames, calls and decisions.

A file has one of these forms:

- `continuation` with `messages`, and with `resume_request` if calls are pending
- `messages` and `rejected_tool_calls`: a person rejected calls
- `result`: the agent has ended, and nothing is paused

Every field of a file is read strictly, and an error names its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from continuations.core import jsontext
from continuations.core.messages import MalformedMessage, Message, ToolCallRequest
from continuations.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


_KINDS: dict[type[object], str] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "an object",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One value of a file, with its place.

    Attributes:
        value: The value.
        path: The place of the value, for example `continuation.messages[0]`.
        source: The name of the file.
    """

    value: Any
    path: str
    source: str

    def refuse(self, why: str, advice: str = "") -> NoReturn:
        """Raise `FormatError` for this field."""
        where = f"field {self.path}" if self.path else "it"
        advice = advice or "Check which program wrote the file."
        raise FormatError(f"{self.source} was not read: {where} {why}. {advice}")

    def has(self, key: str) -> bool:
        """Return whether the object has a value under a key that is not null."""
        return self.object().get(key) is not None

    def __getitem__(self, key: str) -> Field:
        """Return a field of the object; a missing one has the value `None`."""
        path = f"{self.path}.{key}" if self.path else key
        return Field(self.object().get(key), path, self.source)

    def object(self) -> Mapping[str, Any]:
        """Return the value, which must be an object."""
        found = jsontext.as_object(self.value)
        return self._refuse_kind("an object") if found is None else found

    def items(self) -> list[Field]:
        """Return the items of the value, which must be a list."""
        found = jsontext.as_array(self.value)
        if found is None:
            self._refuse_kind("a list")
        return [
            Field(item, f"{self.path}[{index}]", self.source)
            for index, item in enumerate(found)
        ]

    def text(self) -> str:
        """Return the value, which must be a text that is not empty."""
        if not isinstance(self.value, str):
            self._refuse_kind("a text")
        if not self.value:
            self.refuse("is empty")
        return self.value

    def boolean(self) -> bool:
        """Return the value, which must be true or false."""
        if not isinstance(self.value, bool):
            self._refuse_kind("true or false")
        return self.value

    def _refuse_kind(self, wanted: str) -> NoReturn:
        if self.value is None:
            self.refuse("is missing")
        value: object = self.value
        got = next(text for kind, text in _KINDS.items() if isinstance(value, kind))
        self.refuse(f"must be {wanted} and is {got}")


@dataclass(frozen=True, slots=True)
class AwaitsApproval:
    """The call waits for an approval. `note` says why, for the person who decides."""

    note: str


@dataclass(frozen=True, slots=True)
class HasResult:
    """The call has run."""

    content: str


@dataclass(frozen=True, slots=True)
class WasRejected:
    """A person rejected the call; the model does not know that yet."""


CallProgress: TypeAlias = "AwaitsApproval | HasResult | WasRejected | ForeignFrame"


@dataclass(frozen=True, slots=True)
class ForeignCall:
    """One call of the last turn of a frame.

    Attributes:
        tool_call_id: The id that the model's provider chose.
        tool: The name of the tool.
        arguments: The arguments, as the model wrote them.
        progress: How far the call is. A frame: its tool is an agent at work.
        field: The place of the call in the file.
    """

    tool_call_id: str
    tool: str
    arguments: str
    progress: CallProgress
    field: Field


@dataclass(frozen=True, slots=True)
class ForeignFrame:
    """The messages and open calls of one agent.

    Attributes:
        messages: The messages. With open calls, the last one is the model's reply that
            has them.
        calls: The calls of the last turn, or none if the model has all results.
    """

    messages: tuple[Message, ...]
    calls: tuple[ForeignCall, ...]

    def walk(
        self, above: tuple[str, ...] = ()
    ) -> Iterator[tuple[tuple[str, ...], ForeignCall]]:
        """Return every call, each with the ids of the calls above it and its own."""
        for call in self.calls:
            path = (*above, call.tool_call_id)
            yield path, call
            if isinstance(call.progress, ForeignFrame):
                yield from call.progress.walk(path)


def read_message(field: Field) -> Message:
    """Return a message; raises `FormatError`.

    The content of a tool message that is not a text becomes JSON text, because a
    provider accepts nothing else.
    """
    data = dict(field.object())
    content = data.get("content")
    try:
        if data.get("role") == "tool" and not isinstance(content, str):
            data["content"] = jsontext.dump(content)
        message = Message.from_mapping(data)
        # The messages are kept as UTF-8 texts with a limited depth.
        jsontext.parse(message.text)
    except (MalformedMessage, jsontext.NotJson) as error:
        field.refuse(f"is not a chat message: {error}")
    if message.role in ("system", "developer", "user") and not (
        isinstance(content, str) or jsontext.as_array(content)
    ):
        field["content"].refuse("must be a text or a list of parts")
    return message


class Turns:
    """The messages of one agent, turn by turn.

    Attributes:
        messages: All messages; results are in the order of their calls. The results of
            the last turn are left out while it has an open call.
        open_turn: The place of each call of the last turn that has no result.
        calls: The place of each call of the last turn.
        results: The results of the last turn by the id of the call.
    """

    def __init__(self, field: Field) -> None:
        self.messages: list[Message] = []
        self.open_turn: dict[str, Field] = {}
        self.calls: dict[str, Field] = {}
        self.results: dict[str, Message] = {}
        items = field.items()
        if not items:
            field.refuse("is empty")
        for item in items:
            self._add(item, read_message(item))
        if not self.open_turn:
            self._close_turn()

    def _add(self, field: Field, message: Message) -> None:
        if message.role == "tool":
            call_id = message.answered_call_id or ""
            if self.open_turn.pop(call_id, None) is None:
                field["tool_call_id"].refuse("names no call that is open")
            self.results[call_id] = message
            return
        for call in self.open_turn.values():
            call.refuse("has no tool message before the next message")
        self._close_turn()
        self.messages.append(message)
        if message.tool_call_ids:
            self._open_turn(field["tool_calls"].items(), message)

    def _open_turn(self, fields: list[Field], message: Message) -> None:
        for field, call_id in zip(fields, message.tool_call_ids, strict=True):
            if not call_id:
                field["id"].refuse("is missing")
            if call_id in self.open_turn:
                field["id"].refuse("is the id of two calls of one turn")
            self.open_turn[call_id] = field
        self.calls = dict(self.open_turn)

    def _close_turn(self) -> None:
        if self.results:
            ids = self.messages[-1].tool_call_ids
            self.messages.extend(self.results[call_id] for call_id in ids)
        self.results = {}


def result_text(message: Message) -> str:
    """Return the content of a tool message."""
    data: Mapping[str, Any] = message.data
    return str(data["content"])


_ASKED = "The file of the paused agent says that this call waits for an approval."
_LOST = (
    "The file of the paused agent has no state of this call. It may have been approved "
    "before, and it has no result."
)
_END_REASONS = {
    "continuation": ("approval_required", "suspended"),
    "rejected_tool_calls": ("rejected_tool_calls",),
}


def read_stack(top: Field) -> ForeignFrame:
    """Return the stack of a file; raises `FormatError`."""
    if top.has("continuation"):
        _check_end_reason(top, "continuation")
        return _read_frame(top["continuation"])
    if top.has("rejected_tool_calls"):
        _check_end_reason(top, "rejected_tool_calls")
        return _read_rejected(top)
    return _refuse_form(top)


def _refuse_form(top: Field) -> NoReturn:
    if "result" not in top.object():
        top["continuation"].refuse("is missing")
    top["result"].refuse(
        "says that the agent has ended: nothing is paused in the file",
        "Pass the file of a paused agent.",
    )


def _check_end_reason(top: Field, form: str) -> None:
    reason = top["end_reason"]
    if reason.value is not None and reason.text() not in _END_REASONS[form]:
        reason.refuse(f"is {reason.text()[:40]!r}, and the file has the field {form}")


def _read_frame(node: Field) -> ForeignFrame:
    turns = Turns(node["messages"])
    if not node.has("resume_request") or not node["resume_request"].items():
        return _frame(turns, lambda _call_id, _field: AwaitsApproval(_LOST))
    requests = _calls_by_id(node["resume_request"], turns)
    _check_processed(node, requests)

    def progress(call_id: str, field: Field) -> CallProgress:
        request = requests.get(call_id)
        if request is None:
            field.refuse("has neither a tool message nor an entry in resume_request")
        if request.has("continuation"):
            return _read_frame(request["continuation"])
        return AwaitsApproval(_ASKED)

    return _frame(turns, progress)


def _read_rejected(top: Field) -> ForeignFrame:
    turns = Turns(top["messages"])
    rejected = _calls_by_id(top["rejected_tool_calls"], turns)

    def progress(call_id: str, _field: Field) -> CallProgress:
        return WasRejected() if call_id in rejected else AwaitsApproval(_LOST)

    return _frame(turns, progress)


def _frame(
    turns: Turns, progress: Callable[[str, Field], CallProgress]
) -> ForeignFrame:
    """Return a frame; `progress` tells how far a call without a result is."""
    if not turns.open_turn:
        return ForeignFrame(tuple(turns.messages), ())

    def read_call(asked: ToolCallRequest) -> ForeignCall:
        result = turns.results.get(asked.tool_call_id)
        if result is not None:
            place = turns.calls[asked.tool_call_id]
            done = HasResult(result_text(result))
            return ForeignCall(
                asked.tool_call_id, asked.tool, asked.arguments, done, place
            )
        place = turns.open_turn[asked.tool_call_id]
        open_ = progress(asked.tool_call_id, place)
        return ForeignCall(
            asked.tool_call_id, asked.tool, asked.arguments, open_, place
        )

    calls = turns.messages[-1].tool_calls
    return ForeignFrame(tuple(turns.messages), tuple(map(read_call, calls)))


def _calls_by_id(field: Field, turns: Turns) -> dict[str, Field]:
    """Return the listed calls; each must be the same as in the messages."""
    found: dict[str, Field] = {}
    for item in field.items():
        call_id = item["id"].text()
        if call_id in found:
            item["id"].refuse("is listed twice")
        if call_id not in turns.open_turn:
            item["id"].refuse("names no call of the messages that is open")
        _check_same_call(item, turns.open_turn[call_id])
        found[call_id] = item
    return found


def _check_same_call(copy: Field, call: Field) -> None:
    """Refuse a copy of a call that was edited: the edit was not recorded."""
    for key in ("name", "arguments"):
        if copy["function"][key].value != call["function"][key].value:
            copy["function"][key].refuse(
                f"differs from {call.path}.function.{key}",
                "Restore it, and edit the arguments with Approve(arguments=...).",
            )


def _check_processed(node: Field, requests: dict[str, Field]) -> None:
    """Check the form of `processed`. Its values are not read.

    The prototype writes true at the last id of every path, also for a rejected call.
    """
    if not node.has("processed"):
        return
    for item in node["processed"].items():
        item["approved"].boolean()
        if item["id"].text() not in requests:
            item["id"].refuse("is not in resume_request")


def approved_paths(top: Field, stack: ForeignFrame) -> frozenset[tuple[str, ...]]:
    """Return the full paths of ids that `approval_info` marks as approved."""
    if not top.has("approval_info"):
        return frozenset()
    calls = dict(stack.walk())
    seen: set[tuple[str, ...]] = set()
    approved: set[tuple[str, ...]] = set()
    for entry in top["approval_info"].items():
        path = tuple(item.text() for item in entry["path_ids"].items())
        is_approved = entry["approved"].boolean()
        call = calls.get(path)
        if call is None:
            entry["path_ids"].refuse("names no call that is open")
        if path in seen:
            entry["path_ids"].refuse("is listed twice")
        seen.add(path)
        if not isinstance(call.progress, AwaitsApproval):
            continue  # an agent that is suspended: there is nothing to approve
        if entry.has("tool_call"):
            _check_same_call(entry["tool_call"], call.field)
        if is_approved:
            approved.add(path)
    return frozenset(approved)
