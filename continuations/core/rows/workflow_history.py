"""The history of a workflow: what its code did, and what came back.

The log of the frame of a workflow has entries in place of a conversation. Each is a
message with metadata, which no provider gets:

| entry | role | content | metadata |
|---|---|---|---|
| start | `user` | the arguments as JSON | `at`, `seed` |
| commands | `assistant` | the new calls, whose ids are our call ids | |
| outcome | `tool` | the value or the error of a call | `at`, `end`, and the rest |
| time | `developer` | | `at` |
| patch | `developer` | | `patched` |

A replay gives the entries to the code in their order. `at` is in milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from continuations.core import jsontext
from continuations.core.messages import Message, ToolCallRequest, tool_message
from continuations.core.rows.calls import CLOSED_STATES, Errored, Refused, Returned

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from continuations.core.rows.calls import CallRow

# The reason of a call that the code of its workflow cancelled.
CANCELLED_BY_WORKFLOW = "The workflow cancelled it."
BY_WORKFLOW = "workflow"
# How a call ended, in an outcome.
OUTCOME_ENDS = frozenset({"returned", "failed", "denied", "expired", "cancelled"})
# The words with which models read how a call ended. The code gets a class instead.
_WORDS_FOR_MODELS = ("ERROR: ", "DENIED: ", "EXPIRED: ", "NOT EXECUTED: ")
_CANCELLED = "CANCELLED"
# More entries are not replayed: the frame fails with the code `entries`.
MAX_ENTRIES = 20_000
MANY_ENTRIES = 5_000


class StartEntry(NamedTuple):
    """The code starts with arguments, at a time, with a seed for its randomness."""

    arguments: str
    at: int
    seed: str


class CommandsEntry(NamedTuple):
    """The calls that the code made between two outcomes."""

    calls: tuple[ToolCallRequest, ...]


class OutcomeEntry(NamedTuple):
    """A call ended.

    Attributes:
        call_id: The call.
        content: Its value or its error.
        at: When it ended, in milliseconds.
        end: One of `OUTCOME_ENDS`.
        code: The code of an error or a refusal.
        by: `"workflow"` if the code cancelled the call.
        edited: Whether a person changed the arguments.
        is_json: Whether the content is the JSON of the value.
    """

    call_id: str
    content: str
    at: int
    end: str
    code: str = ""
    by: str = ""
    edited: bool = False
    is_json: bool = False


class TimeEntry(NamedTuple):
    """Timers up to a time are due."""

    at: int


class PatchEntry(NamedTuple):
    """The code asked for a patch, and gets it from now on."""

    name: str


Entry: TypeAlias = StartEntry | CommandsEntry | OutcomeEntry | TimeEntry | PatchEntry


class InvalidEntry(ValueError):
    """A message is not an entry of a history."""


def message_of(entry: Entry) -> Message:
    """Return the message that stores an entry."""
    match entry:
        case StartEntry(arguments, at, seed):
            message = Message.from_mapping({"role": "user", "content": arguments})
            return message.with_metadata(jsontext.canonical({"at": at, "seed": seed}))
        case CommandsEntry(calls):
            return Message.from_mapping(
                {
                    "role": "assistant",
                    "tool_calls": [
                        {
                            "id": call.tool_call_id,
                            "type": "function",
                            "function": {
                                "name": call.tool,
                                "arguments": call.arguments,
                            },
                        }
                        for call in calls
                    ],
                }
            )
        case OutcomeEntry():
            facts: dict[str, Any] = {"at": entry.at, "end": entry.end}
            facts |= {"code": entry.code} if entry.code else {}
            facts |= {"by": entry.by} if entry.by else {}
            facts |= {"edited": True} if entry.edited else {}
            facts |= {"json": True} if entry.is_json else {}
            message = tool_message(entry.call_id, entry.content)
            return message.with_metadata(jsontext.canonical(facts))
        case TimeEntry(at):
            return _note({"at": at})
        case PatchEntry(name):
            return _note({"patched": name})


def _note(facts: dict[str, Any]) -> Message:
    message = Message.from_mapping({"role": "developer", "content": ""})
    return message.with_metadata(jsontext.canonical(facts))


def entries_of(messages: Sequence[Message]) -> tuple[Entry, ...]:
    """Return the entries that messages store; raises `InvalidEntry`.

    A history may have thousands of entries, so they are parsed together.
    """
    for message in messages:  # a part of JSON could become valid beside another part
        message.read()
    texts = [message.text for message in messages]
    facts = [message.metadata_json or "{}" for message in messages]
    try:
        return (*map(_entry, jsontext.parse_all(texts), jsontext.parse_all(facts)),)
    except ValueError as error:  # `NotJson` is one
        raise InvalidEntry(str(error)) from None


def entry_of(message: Message) -> Entry:
    """Return the entry that a message stores; raises `InvalidEntry`."""
    return _entry(message.data, message.metadata or {})


def _entry(data: dict[str, Any], facts: dict[str, Any]) -> Entry:
    try:
        match data["role"]:
            case "tool":
                return _outcome(data, facts)
            case "assistant":
                return CommandsEntry(tuple(map(_command, data["tool_calls"])))
            case "user":
                start = _text(data, "content"), _at(facts), _text(facts, "seed")
                return StartEntry(*start)
            case "developer" if "patched" in facts:
                return PatchEntry(_text(facts, "patched"))
            case "developer":
                return TimeEntry(_at(facts))
            case _:
                msg = "a message is not an entry"
    except (KeyError, TypeError) as error:
        msg = f"an entry lacks {error}"
    raise InvalidEntry(msg) from None


def _command(call: dict[str, Any]) -> ToolCallRequest:
    made = call["function"]
    return ToolCallRequest(
        _text(call, "id"), _text(made, "name"), _text(made, "arguments")
    )


def _outcome(data: dict[str, Any], facts: dict[str, Any]) -> OutcomeEntry:
    end = _text(facts, "end")
    if end not in OUTCOME_ENDS:
        raise InvalidEntry("an outcome has an unknown end")
    edited, is_json = facts.get("edited", False), facts.get("json", False)
    content, code, by = data["content"], facts.get("code", ""), facts.get("by", "")
    has_flags = type(edited) is type(is_json) is bool
    if not has_flags or not type(content) is type(code) is type(by) is str:
        raise InvalidEntry("an outcome has a value of another type")
    return OutcomeEntry(
        _text(data, "tool_call_id"),
        content,
        _at(facts),
        end,
        code,
        by,
        edited=edited,
        is_json=is_json,
    )


def _at(facts: dict[str, Any]) -> int:
    at = facts["at"]
    if type(at) is not int or at < 0:
        raise InvalidEntry("the time of an entry is not a number of milliseconds")
    return at


def _text(facts: dict[str, Any], name: str) -> str:
    text = facts[name]
    if type(text) is not str or not text:
        raise InvalidEntry(f"the {name} of an entry is not a text")
    return text


def outcome_of(call: CallRow, at: int) -> OutcomeEntry:
    """Return the outcome of a call that has ended."""
    state = call.state
    assert isinstance(state, CLOSED_STATES)  # noqa: S101 - for the type checkers
    by = BY_WORKFLOW if call.cancelled == CANCELLED_BY_WORKFLOW else ""
    edited = call.original_arguments is not None
    if isinstance(state, Returned):
        return OutcomeEntry(
            *(call.id, state.content, at, "returned", "", by),
            edited=edited,
            is_json=state.is_json,
        )
    end = "expired" if state.code == "expired" else "failed"
    if isinstance(state, Refused):
        end = state.code if state.code in OUTCOME_ENDS else "denied"
    assert isinstance(state, Errored | Refused)  # noqa: S101 - for the type checkers
    content = _without_word(state.content)
    return OutcomeEntry(call.id, content, at, end, state.code, by, edited=edited)


def _without_word(content: str) -> str:
    """Return the error of a call without the word that models read first."""
    for word in _WORDS_FOR_MODELS:
        if content.startswith(word):
            return content[len(word) :]
    if content.startswith(_CANCELLED):
        rest = content.removeprefix(_CANCELLED)
        return rest.removeprefix(": ") if rest[:1] == ":" else f"it was cancelled{rest}"
    return content


def last_time(messages: Sequence[Message]) -> int:
    """Return the time of the last entry that has one."""
    for message in reversed(messages):
        entry = entry_of(message)
        if isinstance(entry, StartEntry | OutcomeEntry | TimeEntry):
            return entry.at
    return 0


def find_violation(
    entries: Sequence[Entry], open_call_ids: Collection[str]
) -> str | None:
    """Return what is wrong with a history, or `None`.

    It has one start, times that never go back, and calls that fit.
    """
    if not entries or not isinstance(entries[0], StartEntry):
        return "a history has no start"
    if any(isinstance(entry, StartEntry) for entry in entries[1:]):
        return "a history starts twice"
    times = [
        each.at
        for each in entries
        if isinstance(each, StartEntry | OutcomeEntry | TimeEntry)
    ]
    if times != sorted(times):
        return "the times of a history go back"
    return _call_violation(entries, open_call_ids)


def _call_violation(
    entries: Sequence[Entry], open_call_ids: Collection[str]
) -> str | None:
    """Return what is wrong with the calls of a history, or `None`.

    Each outcome has a command before it, and one at most. The calls that are open have
    a command and no outcome.
    """
    waiting: set[str] = set()
    seen: set[str] = set()
    for entry in entries:
        if isinstance(entry, CommandsEntry):
            ids = [call.tool_call_id for call in entry.calls]
            if len(set(ids)) != len(ids) or seen.intersection(ids):
                return "a history has two calls with one id"
            seen.update(ids)
            waiting.update(ids)
        elif isinstance(entry, OutcomeEntry):
            if entry.call_id not in waiting:
                return "a history has an outcome without its call"
            waiting.remove(entry.call_id)
    if waiting != set(open_call_ids):
        return "the calls of a history without an outcome are not the open ones"
    return None
