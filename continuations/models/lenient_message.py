"""Write an assistant message as OpenAI does, where a server writes it another way.

A form is accepted if it can mean only one thing. Every other form is left as it is, and
`Message` names the field that is not valid. Unknown fields stay unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext

if TYPE_CHECKING:
    from collections.abc import Mapping


def with_standard_forms(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return an assistant message with standard forms of its fields.

    | a server sends | it becomes |
    |---|---|
    | no `role` | `"assistant"` |
    | `tool_calls` that is empty or null | no `tool_calls` |
    | `function_call` (before 2023-11) | `tool_calls` with one call |
    | `arguments` that is an object | its JSON text |
    | `arguments` that is null or missing | `"{}"` |
    | `id` of a call that is an integer | its digits |
    | `content` that is a list of strings | the strings, joined |
    | `audio` with a transcript and no content | `content`, and the `id` of `audio` |
    """
    fields = {"role": "assistant", **message}
    if fields["role"] is None:
        fields["role"] = "assistant"
    if "tool_calls" in fields and not fields["tool_calls"]:
        # Some servers refuse the empty list that they sent themselves.
        del fields["tool_calls"]
    legacy_call = jsontext.as_object(fields.get("function_call"))
    if legacy_call is not None and "tool_calls" not in fields:
        fields["tool_calls"] = [{"type": "function", "function": dict(legacy_call)}]
    if fields.get("function_call") is None or legacy_call is not None:
        fields.pop("function_call", None)
    if (calls := jsontext.as_array(fields.get("tool_calls"))) is not None:
        fields["tool_calls"] = [_standard_call(call) for call in calls]
    parts = jsontext.as_array(fields.get("content"))
    if parts is not None and all(isinstance(part, str) for part in parts):
        fields["content"] = "".join(parts)
    return _with_transcript(fields)


def _standard_call(value: Any) -> Any:
    call = jsontext.as_object(value)
    if call is None:
        return value
    fields = dict(call)
    identifier = fields.get("id")
    if isinstance(identifier, int) and not isinstance(identifier, bool):
        fields["id"] = str(identifier)
    function = jsontext.as_object(fields.get("function"))
    if function is None or fields.get("type", "function") not in ("function", None):
        return fields
    arguments = function.get("arguments")
    if arguments is None:
        arguments = "{}"
    elif jsontext.as_object(arguments) is not None:
        arguments = jsontext.dump(arguments)
    fields["type"] = "function"
    fields["function"] = {**function, "arguments": arguments}
    return fields


def _with_transcript(fields: dict[str, Any]) -> dict[str, Any]:
    audio = jsontext.as_object(fields.get("audio"))
    if audio is None or fields.get("content"):
        return fields
    transcript = audio.get("transcript")
    if not isinstance(transcript, str):
        return fields
    # The provider wants only the id back, and the sound fills the store.
    identifier = {"id": audio["id"]} if "id" in audio else None
    rest = {k: v for k, v in fields.items() if k != "audio"}
    return {
        **rest,
        "content": transcript,
        **({"audio": identifier} if identifier else {}),
    }
