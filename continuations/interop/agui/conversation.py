"""A run as the messages and interrupts of AG-UI, and resume entries as decisions.

The messages have ids that each turn and process computes anew. A client keeps its
messages by id, and sends them with each turn. Nothing of them is taken as history. They
only tell which messages the client shows.

| what | id |
|---|---|
| reply of an agent | `{run}:{frame}:{turn}` |
| tool call of that reply | `{reply}:{tool_call_id}` |
| result of that call | `{call}:result` |
| sub-agent | `{run}:{frame}` |

Open waits are interrupts. A resume entry is read strictly:

| kind of the wait | payload of a resolved entry |
|---|---|
| `approval` | `{"approved": true}`, with `editedArgs`, `form`, `reason`; or `false` |
| `input`, `output` | `{"approved": true}` or `{"approved": false}`, with `reason` |
| `question` | the answer itself, as the schema of the question says |
| `unknown` | `{"decision": "answer", "value": …}`, `"approve"` or `"deny"` |

Everything else is no verdict. The other kinds ask no person: they take no answer here.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, cast

from ag_ui import core as agui

from continuations import Answer, Approve, Deny
from continuations.attachments import Audio, File, Image
from continuations.errors import DecisionRefused
from continuations.serve.wait_texts import title_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from continuations import Continuation, Identity, Wait
    from continuations.results import Verdict


# Stands in place of each text for a person without the right `read`.
NOT_SHOWN = "[not shown]"
# The kinds of the parts of a message whose bytes an agent can read.
_ATTACHMENTS = {"image": Image, "audio": Audio, "document": File}


def reply_id(run_id: str, frame_id: str, turn: int) -> str:
    """Return the id of the message with which an agent replied in a turn."""
    return f"{run_id}:{frame_id}:{turn}"


def call_id(reply: str, tool_call_id: str) -> str:
    """Return the id of a tool call of a reply."""
    return f"{reply}:{tool_call_id}"


def result_id(call: str) -> str:
    """Return the id of the message with the result of a tool call."""
    return f"{call}:result"


def client_text(message: agui.UserMessage) -> str:
    """Return the texts of a message of a client."""
    if isinstance(message.content, str):
        return message.content
    return "\n".join(part.text for part in message.content if part.type == "text")


def stored_text(message: Mapping[str, Any]) -> str:
    """Return the texts of a stored message."""
    content: Any = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")


# Messages of the client -------------------------------------------------------------


def new_messages(
    messages: Sequence[agui.Message], stored: str
) -> list[agui.UserMessage]:
    """Return the user messages at the end: nothing else of a client is new.

    Ids that begin with `stored` are those of messages that this door sent.
    """
    new: list[agui.UserMessage] = []
    for message in reversed(messages):
        if not isinstance(message, agui.UserMessage) or message.id.startswith(stored):
            break
        new.insert(0, message)
    return new


def content_of(message: agui.UserMessage) -> tuple[Any, list[str]]:
    """Return a message for an agent, and the kinds of the parts that it cannot read.

    A part with an address or with the handle of a provider is left out: this server
    fetches nothing for a client.
    """
    if isinstance(message.content, str):
        return message.content, []
    items: list[Any] = []
    left_out: list[str] = []
    for part in message.content:
        item = part.text if part.type == "text" else _attachment(part)
        if item:
            items.append(item)
        else:
            left_out.append(part.type)
    only = items[0] if len(items) == 1 and isinstance(items[0], str) else items
    return only or "", left_out


def _attachment(part: Any) -> Any:
    kind = _ATTACHMENTS.get(part.type)
    if kind is None or part.source.type != "data":
        return None
    try:
        data = base64.b64decode(part.source.value, validate=True)
    except (binascii.Error, ValueError):
        return None
    return kind(data, part.source.mime_type) if data else None


# The stored conversation ------------------------------------------------------------


def conversation(
    state: Continuation | None,
    known: Sequence[agui.Message],
    new: Iterable[agui.UserMessage],
    *,
    reads: bool,
) -> list[agui.Message]:
    """Return the messages of the root agent, then those that it has not read.

    Args:
        state: The state of the run, or `None` before its first message.
        known: The messages of the client. A stored user message has the id of the
            client's message with the same text.
        new: The messages that were posted in this turn.
        reads: Whether the person may read texts.
    """
    ids = _IdsByText(known)
    found = [] if state is None else _stored(state, ids, reads=reads)
    ids_found = {message.id for message in found}
    return [*found, *(each for each in new if each.id not in ids_found)]


class _IdsByText:
    """The ids of a client's user messages; each is given once, in their order."""

    def __init__(self, known: Sequence[agui.Message]) -> None:
        self._ids: dict[str, list[str]] = {}
        for message in known:
            if isinstance(message, agui.UserMessage):
                ids = self._ids.setdefault(client_text(message), [])
                ids.append(message.id)

    def take(self, text: str, default: str) -> str:
        ids = self._ids.get(text)
        return ids.pop(0) if ids else default


def _stored(state: Continuation, ids: _IdsByText, *, reads: bool) -> list[agui.Message]:
    messages = state.root.messages
    replies = sum(message["role"] == "assistant" for message in messages)
    # Older replies may be in a summary, so they are counted from the last one.
    turn = state.root.turns - replies
    run_id, frame_id = state.run_id, state.root.id
    found: list[agui.Message] = []
    for place, message in enumerate(messages):
        text = stored_text(message)
        shown = text if reads or not text else NOT_SHOWN
        if message["role"] == "user":
            own = ids.take(text, f"{run_id}:{frame_id}:user:{place}")
            found.append(agui.UserMessage(id=own, role="user", content=shown))
        elif message["role"] == "assistant":
            turn += 1
            reply = reply_id(run_id, frame_id, turn)
            calls = [_call(reply, call, reads=reads) for call in _calls(message)]
            found.append(
                agui.AssistantMessage(
                    id=reply,
                    role="assistant",
                    content=shown or None,
                    tool_calls=calls or None,
                )
            )
        elif message["role"] == "tool":
            call = call_id(reply_id(run_id, frame_id, turn), message["tool_call_id"])
            found.append(
                agui.ToolMessage(
                    id=result_id(call), role="tool", content=shown, tool_call_id=call
                )
            )
    return found


def _calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    return message.get("tool_calls") or []


def _call(reply: str, call: dict[str, Any], *, reads: bool) -> agui.ToolCall:
    function = call["function"]
    # The transcript does not say which of the arguments are secret.
    arguments = function["arguments"] if reads else "{}"
    return agui.ToolCall(
        id=call_id(reply, call["id"]),
        type="function",
        function=agui.FunctionCall(name=function["name"], arguments=arguments),
    )


def snapshots(
    known: Sequence[agui.Message], messages: list[agui.Message]
) -> list[agui.MessagesSnapshotEvent]:
    """Return the events that show the messages, and nothing else, in their order.

    A client keeps the places of messages that it has, and puts others behind them. So
    it forgets all first if one is missing before them.
    """
    ids = [message.id for message in messages]
    stored = set(ids)
    kept = [message.id for message in known if message.id in stored]
    shown = agui.MessagesSnapshotEvent(messages=messages)
    if kept == ids[: len(kept)]:
        return [shown]
    return [agui.MessagesSnapshotEvent(messages=[]), shown]


def is_behind(
    state: Continuation | None,
    known: Sequence[agui.Message],
    stored: Sequence[agui.Message],
) -> bool:
    """Return whether a client shows other replies than the stored ones.

    It may have missed some, or it may show the beginning of a reply that was begun
    anew. Replies from before a summary are no difference.
    """
    if state is None:
        return False
    if not known:
        return bool(stored)
    prefix = reply_id(state.run_id, state.root.id, 0)[:-1]
    shown = {each.id: each.content or "" for each in _replies(known, prefix)}
    expected = {each.id: each.content or "" for each in _replies(stored, prefix)}
    turns = {each: each.removeprefix(prefix) for each in shown.keys() - expected.keys()}
    begun = any(not _is_past(turn, state.root.turns) for turn in turns.values())
    return begun or any(shown.get(key) != text for key, text in expected.items())


def _is_past(turn: str, newest: int) -> bool:
    return turn.isascii() and turn.isdigit() and int(turn[:18]) <= newest


def _replies(
    messages: Sequence[agui.Message], prefix: str
) -> Iterable[agui.AssistantMessage]:
    return (
        each
        for each in messages
        if isinstance(each, agui.AssistantMessage) and each.id.startswith(prefix)
    )


_REASON: dict[str, Any] = {"type": "string", "description": "Why you decide so."}
_OF_DENIAL = {"approved", "reason"}
_OF_APPROVAL = {*_OF_DENIAL, "editedArgs", "form"}
_OF_UNKNOWN = {"answer": {"value", "reason"}, "approve": {"reason"}, "deny": {"reason"}}


def interrupt_of(wait: Wait, call: str | None, subagent: str | None) -> agui.Interrupt:
    """Return a wait as an interrupt.

    Args:
        wait: The wait, with secret values masked.
        call: The id of the tool call that waits, as the client knows it.
        subagent: The id of the sub-agent that waits; `None` for the root agent.
    """
    rules = wait.rules
    return agui.Interrupt(
        id=wait.id,
        reason=wait.kind,
        message=title_of(wait),
        tool_call_id=call,
        subagent_run_id=subagent,
        response_schema=_response_schema(wait),
        expires_at=None if wait.deadline is None else wait.deadline.isoformat(),
        metadata={
            "digest": wait.digest,
            "title": wait.title,
            "tool": wait.tool,
            "path": [*wait.path],
            "arguments": wait.arguments,
            "readings": wait.readings,
            "note": wait.note,
            "approvers": [*wait.approvers],
            "votes": [each.by for each in wait.votes],
            "votesNeeded": wait.votes_needed,
            "asksPerson": rules.asks_person,
        },
    )


def _response_schema(wait: Wait) -> dict[str, Any] | None:
    if not wait.rules.asks_person:
        return None
    if wait.rules.asks_question:
        return wait.answer_schema
    if wait.rules.may_have_run:
        properties: dict[str, Any] = {
            "decision": {
                "enum": [*wait.rules.verdicts],
                "description": "; ".join(
                    f"{name}: {words.label}"
                    for name, words in wait.rules.verdicts.items()
                ),
            },
            "value": {"description": "The result of the call, for answer."},
            "reason": _REASON,
        }
        return _object(properties, "decision")
    properties = {"approved": {"type": "boolean"}, "reason": _REASON}
    if wait.rules.allows_edits and wait.editable != ():
        properties["editedArgs"] = {
            **wait.schema,
            "description": "All arguments, in place of those that the call has.",
        }
    if wait.form_schema is not None:
        properties["form"] = wait.form_schema
    return _object(properties, "approved")


def _object(properties: dict[str, Any], required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [required],
        "additionalProperties": False,
    }


# Answers ----------------------------------------------------------------------------


def verdict_of(wait: Wait, payload: object, by: str | Identity) -> Verdict:
    """Return the verdict of a resolved entry.

    Args:
        wait: The open wait.
        payload: The payload of the entry.
        by: The person who sends it.

    Raises:
        DecisionRefused: The payload is not exactly an answer to this wait.
    """
    if wait.rules.asks_question:
        return Answer(payload, by=by)
    if not wait.rules.asks_person:
        raise _refused(wait, "the wait asks no person")
    fields = _fields(wait, payload)
    reason = fields.get("reason")
    if reason is not None and not isinstance(reason, str):
        raise _refused(wait, '"reason" must be a text')
    if wait.rules.may_have_run:
        return _of_unknown(wait, fields, by, reason)
    return _of_approval(wait, fields, by, reason)


def _of_approval(
    wait: Wait, fields: Mapping[str, Any], by: str | Identity, reason: str | None
) -> Verdict:
    approved = fields.get("approved")
    if approved is not True and approved is not False:
        raise _refused(wait, '"approved" must be true or false')
    _check_names(wait, fields, _OF_APPROVAL if approved else _OF_DENIAL)
    if not approved:
        return Deny(by=by, reason=reason)
    return Approve(
        by=by,
        reason=reason,
        arguments=_part(wait, fields, "editedArgs"),
        form=_part(wait, fields, "form"),
    )


def _of_unknown(
    wait: Wait, fields: Mapping[str, Any], by: str | Identity, reason: str | None
) -> Verdict:
    decision = fields.get("decision")
    if not isinstance(decision, str) or decision not in _OF_UNKNOWN:
        raise _refused(wait, '"decision" must be "answer", "approve" or "deny"')
    _check_names(wait, fields, {"decision"} | _OF_UNKNOWN[decision])
    if decision == "answer":
        if "value" not in fields:
            raise _refused(wait, '"value" is missing')
        return Answer(fields["value"], by=by, reason=reason)
    return (Approve if decision == "approve" else Deny)(by=by, reason=reason)


def _fields(wait: Wait, payload: object) -> dict[str, Any]:
    if not isinstance(payload, dict):
        raise _refused(wait, "the payload must be an object")
    return cast("dict[str, Any]", payload)


def _part(wait: Wait, fields: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    if name not in fields:
        return None
    value = fields[name]
    if not isinstance(value, dict):
        raise _refused(wait, f'"{name}" must be an object')
    return cast("dict[str, Any]", value)


def _check_names(wait: Wait, fields: Mapping[str, Any], allowed: set[str]) -> None:
    unknown = sorted(fields.keys() - allowed)
    if unknown:
        raise _refused(wait, f"{unknown[0]!r:.60} is not a field of this answer")


def _refused(wait: Wait, why: str) -> DecisionRefused:
    msg = (
        f"the answer to wait {wait.id} was not recorded: {why}. Send a payload that "
        "fits the responseSchema of the interrupt."
    )
    return DecisionRefused(msg, run_id=wait.run_id, wait_id=wait.id)
