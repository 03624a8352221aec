"""Messages of A2A clients: texts for an agent, and decisions of waits.

    {"data": {"wait": "…", "decision": "approve", "shown": "…"}}

Only such a data part decides, with the fields of a decision of the HTTP API. A text
decides nothing, whatever it says.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from a2a.helpers import get_data_parts
from a2a.utils.errors import ContentTypeNotSupportedError, InvalidParamsError

from continuations.attachments import Audio, File, Image
from continuations.interop.a2a.task_states import MAX_EXACT
from continuations.serve.http import problems
from continuations.serve.http.decision_bodies import posted_decision

if TYPE_CHECKING:
    from a2a.types import Message, Part

    from continuations import Identity
    from continuations.serve.http.decision_bodies import PostedDecision

__all__ = ["AgentText", "agent_text", "decisions_in", "workflow_arguments"]

AgentText: TypeAlias = "str | list[str | Image | Audio | File]"
"""The content of a message for an agent: a text, or texts and attachments."""

_ADVICE = (
    "Send a message with data parts only, one for each wait, such as "
    '{"wait": "...", "decision": "approve"}.'
)


def agent_text(message: Message) -> AgentText:
    """Return what the agent reads of a message; of a data part, its JSON text.

    Raises:
        ContentTypeNotSupportedError: A part has a URL, which is never fetched, or a
            file has no media type.
    """
    parts = [_content(part) for part in message.parts]
    texts = [each for each in parts if isinstance(each, str)]
    return "\n".join(texts) if len(texts) == len(parts) else parts


def workflow_arguments(message: Message) -> dict[str, Any]:
    """Return the arguments of a workflow: the only part, an object.

    Raises:
        InvalidParamsError: The message has other parts.
    """
    values = [_value(part) for part in message.parts if part.HasField("data")]
    arguments = (
        _as_object(values[0]) if len(values) == len(message.parts) == 1 else None
    )
    if arguments is None:
        raise InvalidParamsError(
            "The message has no arguments for this workflow. Send one data part, an "
            "object with the arguments by name."
        )
    return arguments


def decisions_in(
    message: Message, run_id: str, by: str | Identity
) -> dict[str, PostedDecision]:
    """Return the decisions in the data parts of a message, by wait id.

    Args:
        message: The message. Without a data part, it has no decisions.
        run_id: The run whose waits the message may decide.
        by: The sender.

    Raises:
        InvalidParamsError: A data part is not a decision of a wait of the run, or the
            message has other parts beside. Nothing may be recorded.
    """
    values = [_value(part) for part in message.parts if part.HasField("data")]
    if not values:
        return {}
    if len(values) != len(message.parts):
        raise _refused("it has other parts beside its decisions")
    found: dict[str, PostedDecision] = {}
    for number, value in enumerate(values, 1):
        fields = {**(_as_object(value) or {})}
        wait_id = fields.pop("wait", None)
        if not isinstance(wait_id, str) or not wait_id.endswith(f"@{run_id}"):
            raise _refused(f"data part {number} has no wait of this task")
        if wait_id in found:
            raise _refused(f"data part {number} has the wait of another part")
        try:
            found[wait_id] = posted_decision(fields, by)
        except problems.RequestRefused as error:
            raise _refused(f"data part {number}: {error.problem.detail}") from None
    return found


def _refused(why: str) -> InvalidParamsError:
    return InvalidParamsError(
        f"The message decided nothing: {why.rstrip('.')}. {_ADVICE}"
    )


def _content(part: Part) -> str | Image | Audio | File:
    if part.HasField("text"):
        return part.text
    if part.HasField("data"):
        return json.dumps(_value(part), ensure_ascii=False)
    if part.HasField("raw"):
        return _attachment(part)
    raise ContentTypeNotSupportedError(
        "A part has a url or nothing. URLs are not fetched: send text, data or raw."
    )


def _attachment(part: Part) -> Image | Audio | File:
    media_type, name = part.media_type, part.filename or None
    if media_type.startswith("image/"):
        return Image(part.raw, media_type, name)
    if media_type.startswith("audio/"):
        return Audio(part.raw, media_type, name)
    if not media_type:
        raise ContentTypeNotSupportedError(
            "A raw part has no mediaType. Send one that the card of the agent names."
        )
    return File(part.raw, media_type, name or "file")


def _value(part: Part) -> Any:
    """Return the JSON value of a data part; raises `InvalidParamsError`."""
    try:
        return _narrowed(get_data_parts([part])[0])
    except (ValueError, RecursionError) as error:
        raise InvalidParamsError(
            f"A data part is not a JSON value that can be read: {error}. Send numbers "
            "up to 2^53, and larger ones as texts."
        ) from None


def _narrowed(value: Any) -> Any:
    """Return a value whose whole numbers are integers: protobuf makes them floats."""
    fields = _as_object(value)
    if fields is not None:
        return {name: _narrowed(each) for name, each in fields.items()}
    if isinstance(value, list | tuple):
        return [_narrowed(each) for each in cast("list[Any]", value)]
    if isinstance(value, float):
        return _whole(value)
    return value


def _as_object(value: Any) -> dict[str, Any] | None:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _whole(value: float) -> float | int:
    if not value.is_integer():
        return value
    if abs(value) >= MAX_EXACT:
        # Its last digits may be lost: such a number must not become a decision.
        msg = f"the number {value:.0f} is not exact"
        raise ValueError(msg)
    return int(value)
