"""Check the changes that hooks make to a request or a reply, and apply them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.authoring.agent_options import copy_settings
from continuations.authoring.hooks import Continue
from continuations.core import jsontext
from continuations.core.messages import MalformedMessage, Message, user_message
from continuations.engine.hook_calls import HookProblem
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from continuations.authoring.hooks import ChangeRequest, ReplyChange, ReplyInfo

# The metadata of messages that are not of a user: a compaction need not keep them.
OF_HOOK = '{"from":"hook"}'
_ADDED_ROLES = ("user", "system", "developer")


def added_messages(
    items: Sequence[str | Mapping[str, Any]],
) -> tuple[Message, ...]:
    """Return the messages of a `ChangeRequest`; raises `HookProblem`."""
    if type(items) not in (list, tuple):
        msg = "returned ChangeRequest with messages that are no list"
        raise HookProblem(msg)
    added: list[Message] = []
    for item in items:
        try:
            made = (
                user_message(item)
                if isinstance(item, str)
                else Message.from_mapping(item)
            )
        except (MalformedMessage, jsontext.NotJson, TypeError, ValueError) as error:
            msg = "returned a message that is no chat message"
            raise HookProblem(msg) from error
        if made.role not in _ADDED_ROLES:
            msg = (
                f"returned a message with the role {made.role}, and only user, system "
                "and developer messages can be added"
            )
            raise HookProblem(msg)
        added.append(made.with_metadata(OF_HOOK))
    return tuple(added)


def changed_settings(change: ChangeRequest) -> dict[str, Any]:
    """Return the settings of a change; raises `HookProblem`."""
    try:
        return dict(copy_settings("", change.settings))
    except InvalidInput as error:
        msg = f"returned invalid settings ({str(error).removeprefix('agent : ')})"
        raise HookProblem(msg) from error


def check_reply_change(change: ReplyChange | None, info: ReplyInfo) -> None:
    """Raise `HookProblem` if a reply cannot be changed in this way."""
    text: object = getattr(change, "text", getattr(change, "reason", ""))
    if not isinstance(text, str):
        msg = f"returned {type(change).__name__} without a text"
        raise HookProblem(msg)
    if isinstance(change, Continue) and not info.is_final:
        msg = "returned Continue for a reply with calls"
        raise HookProblem(msg)


def with_text(message: Message, text: str) -> Message:
    """Return a reply with another text, and the same calls and metadata."""
    data: dict[str, Any] = {"role": "assistant", "content": text}
    if message.tool_call_ids:
        data["tool_calls"] = message.data["tool_calls"]
    changed = Message.from_mapping(data)
    known = message.metadata_json
    return changed if known is None else changed.with_metadata(known)
