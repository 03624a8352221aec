"""Build the body of a chat completions request.

A message is stored as the JSON text that the openai client would send. So the body is
joined from these texts: `chat.completions.create` would convert the whole conversation
for each request. The fields have the order of `create`. A test compares the bytes with
those of the client.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from continuations.core.messages import Message
    from continuations.core.model_protocol import ModelRequest, OutputSchema, ToolSpec

# The adapter sets these fields. It does not read streams.
_RESERVED_FIELDS = frozenset({"model", "messages", "tools", "stream"})
_SURROGATE = re.compile("[\ud800-\udfff]")


class InvalidModelSettings(ValueError):
    """Settings that cannot be part of a request."""


def build_request_body(model: str, request: ModelRequest) -> bytes:
    """Return the body of a request, in UTF-8; raises `InvalidModelSettings`.

    `create` puts `service_tier` before the messages and all other settings after
    them, in alphabetical order. A lone surrogate has no form in UTF-8 (RFC 3629,
    section 3) and is sent as U+FFFD. The stored message keeps the surrogate.
    """
    settings = dict(request.settings)
    clash = sorted(_RESERVED_FIELDS & settings.keys())
    if clash:
        msg = f"settings must not contain {', '.join(clash)}: the adapter sets them"
        raise InvalidModelSettings(msg)
    if request.output_schema is not None:
        settings.setdefault("response_format", _response_format(request.output_schema))
    before = {k: settings.pop(k) for k in ("service_tier",) if k in settings}
    if request.tools:
        settings["tools"] = [_tool_json(spec) for spec in request.tools]
    try:
        head = jsontext.dump({"model": model, **before})
        tail = jsontext.dump(dict(sorted(settings.items())))
    except jsontext.NotJson as error:
        msg = f"settings and tools must be JSON: {error}"
        raise InvalidModelSettings(msg) from None
    rest = f",{tail[1:]}" if settings else "}"
    return _encode_utf8(
        f'{head[:-1]},"messages":[{_messages_json(request.messages)}]{rest}'
    )


def _response_format(output: OutputSchema) -> Mapping[str, Any]:
    # Not in OpenAI's strict mode, which refuses most schemas (it wants every property
    # required and no others allowed): the engine validates the reply.
    json_schema = {"name": output.name, "schema": dict(output.schema), "strict": False}
    return {"type": "json_schema", "json_schema": json_schema}


def _tool_json(spec: ToolSpec) -> Mapping[str, Any]:
    description = {"description": spec.description} if spec.description else {}
    function = {"name": spec.name, **description, "parameters": dict(spec.parameters)}
    return {"type": "function", "function": function}


def _messages_json(messages: Sequence[Message]) -> str:
    text = ",".join([message.text for message in messages])
    if "\\ud" in text or "\\uD" in text:
        # As escapes, surrogates pass UTF-8, and the provider refuses the JSON.
        text = ",".join([jsontext.dump(message.data) for message in messages])
    return text


def _encode_utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text).encode()
