"""Build the body of a chat completions request.

A message is stored as the JSON text that the openai client would send. So the body is
joined from these texts: `chat.completions.create` would convert the whole conversation
for each request. The fields have the order of `create`. A test compares the bytes with
those of the client.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from continuations.core import jsontext
from continuations.core.model_protocol import ModelRequest, OutputSchema, ToolSpec
from continuations.models.responses_items import ITEMS_FIELD, REASONING_FIELD

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from continuations.core.messages import Message
    from continuations.models.dialect import ChatDialect


# The adapter sets these fields.
_RESERVED_FIELDS = frozenset({"model", "messages", "tools", "stream"})
_SURROGATE = re.compile("[\ud800-\udfff]")
# Over a long conversation, four times as fast as two searches with `in`.
_ESCAPED_SURROGATE = re.compile(r"\\u[dD]")


class InvalidModelSettings(ValueError):
    """Settings that cannot be part of a request."""


def build_request_body(
    model: str, request: ModelRequest, dialect: ChatDialect
) -> bytes:
    """Return the body of a request, in UTF-8; raises `InvalidModelSettings`.

    `create` puts `service_tier` before the messages and all other settings after
    them, in alphabetical order. A lone surrogate has no form in UTF-8 (RFC 3629,
    section 3) and is sent as U+FFFD. The stored message keeps the surrogate.
    """
    settings = own_settings(request, _RESERVED_FIELDS)
    output = None if "response_format" in settings else request.output_schema
    tools = [*request.tools]
    if output is not None and dialect.output == "tool":
        tools.append(_output_tool(output, output_tool_name(request)))
    elif output is not None:
        json_schema = schema_format(output, strict=dialect.output == "strict")
        settings["response_format"] = {
            "type": "json_schema",
            "json_schema": json_schema,
        }
    if streams(request, dialect):
        settings["stream"] = True
        if dialect.stream == "usage":
            settings.setdefault("stream_options", {"include_usage": True})
    before = {k: settings.pop(k) for k in ("service_tier",) if k in settings}
    if tools:
        settings["tools"] = [_tool_json(spec) for spec in tools]
    try:
        head = jsontext.dump({"model": model, **before})
        tail = jsontext.dump(dict(sorted(settings.items())))
    except jsontext.NotJson as error:
        msg = f"settings and tools must be JSON: {error}"
        raise InvalidModelSettings(msg) from None
    rest = f",{tail[1:]}" if settings else "}"
    conversation = request.messages
    if request.files:
        conversation = _with_files(request)
    messages = _messages_json(conversation, null_content=dialect.null_content)
    return encode_utf8(f'{head[:-1]},"messages":[{messages}]{rest}')


def own_settings(request: ModelRequest, reserved: frozenset[str]) -> dict[str, Any]:
    """Return the settings of a request; raises `InvalidModelSettings` for reserved."""
    clash = sorted(reserved & request.settings.keys())
    if clash:
        raise InvalidModelSettings(
            f"settings must not contain {', '.join(clash)}: the adapter sets them"
        )
    return dict(request.settings)


def streams(request: ModelRequest, dialect: ChatDialect) -> bool:
    """Return whether a stream is requested: there is a listener, and the server can."""
    return request.on_delta is not None and dialect.stream != "none"


def output_tool_name(request: ModelRequest) -> str:
    """Return the name of the tool that takes the final reply; no other tool has it."""
    names = {spec.name for spec in request.tools}
    name = "final_output"
    while name in names:
        name += "_"
    return name


def _output_tool(output: OutputSchema, name: str) -> ToolSpec:
    return ToolSpec(
        name=name,
        description="Give the final reply: call this tool once, when all is done.",
        parameters=output.schema,
    )


def schema_format(output: OutputSchema, *, strict: bool) -> dict[str, Any]:
    """Return the schema of an output; in strict mode, if that can express it."""
    schema = to_strict_schema(output.schema) if strict else None
    return {
        "name": output.name,
        "schema": dict(output.schema) if schema is None else schema,
        "strict": schema is not None,
    }


def _tool_json(spec: ToolSpec) -> Mapping[str, Any]:
    description = {"description": spec.description} if spec.description else {}
    function = {"name": spec.name, **description, "parameters": dict(spec.parameters)}
    return {"type": "function", "function": function}


def _with_files(request: ModelRequest) -> Sequence[Message]:
    from continuations.core.messages import Message  # noqa: PLC0415 - few requests have files
    from continuations.models.expanded_parts import chat_messages  # noqa: PLC0415

    return [
        Message.from_mapping(each) if isinstance(each, dict) else each
        for each in chat_messages(request.messages, request.files)
    ]


def _messages_json(messages: Sequence[Message], *, null_content: bool) -> str:
    texts = [message.text for message in messages]
    text = ",".join(texts)
    # Almost no conversation has the field, so one look at all of it comes first.
    if f'"{ITEMS_FIELD}"' in text:
        texts = [_text_without_foreign_field(message) for message in messages]
        text = ",".join(texts)
    if not null_content:
        texts = [
            _text_without_null_content(message, text)
            for message, text in zip(messages, texts, strict=True)
        ]
        text = ",".join(texts)
    if _ESCAPED_SURROGATE.search(text):
        # As escapes, surrogates pass UTF-8, and the provider refuses the JSON.
        text = ",".join([jsontext.dump(jsontext.parse(each)) for each in texts])
    return text


def _text_without_foreign_field(message: Message) -> str:
    """Return a message without what `OpenAIResponses` stored: servers refuse it."""
    if f'"{ITEMS_FIELD}"' not in message.text:
        return message.text
    data = message.data
    data.pop(ITEMS_FIELD, None)
    data.pop(REASONING_FIELD, None)
    return jsontext.dump(data)


def _text_without_null_content(message: Message, text: str) -> str:
    if not message.tool_call_ids or message.data.get("content") is not None:
        return text
    return jsontext.dump({**jsontext.parse(text), "content": ""})


def encode_utf8(text: str) -> bytes:
    """Return a text in UTF-8, with U+FFFD for each lone surrogate."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text).encode()


# Keywords with a value that is no schema.
_PLAIN_KEYWORDS = frozenset(
    """
    type title description enum const format pattern minimum maximum exclusiveMinimum
    exclusiveMaximum multipleOf minItems maxItems required
    """.split()  # noqa: SIM905 - one name per line would fill the file
)
# A default is left out: every property is required, so the model writes each.
_DROPPED_KEYWORDS = frozenset({"default", "examples", "discriminator"})


class _NotStrict(Exception):
    """The schema has a keyword or a form that strict mode does not know."""


def to_strict_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a schema in strict mode; `None` if strict mode cannot express it.

    The engine validates each reply against the type, so the result may allow more than
    `schema` does.
    """
    try:
        strict = _convert(schema)
    except (_NotStrict, RecursionError):
        return None
    return strict if strict.get("type") == "object" else None


def _convert(schema: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(reference := schema.get("$ref"), str):
        return {"$ref": reference}  # strict mode allows no keyword beside it
    strict: dict[str, Any] = {}
    for keyword, value in schema.items():
        strict |= _convert_keyword(keyword, value)
    if strict.get("type") == "object":
        if "properties" not in strict:
            raise _NotStrict  # an object with free keys
        strict["required"] = list(strict["properties"])
        strict["additionalProperties"] = False
    elif not strict.keys() & {"type", "anyOf", "enum", "const"}:
        raise _NotStrict  # a value of any type
    return strict


def _convert_keyword(keyword: str, value: object) -> dict[str, Any]:
    if keyword in _PLAIN_KEYWORDS:
        return {keyword: value}
    if keyword in ("properties", "$defs"):
        return {keyword: _convert_each(value)}
    if keyword == "items":
        return {keyword: _convert_one(value)}
    if keyword in ("anyOf", "oneOf"):
        # With a discriminator, pydantic writes `oneOf`.
        return {"anyOf": [_convert_one(each) for each in _as_list(value)]}
    if keyword in _DROPPED_KEYWORDS or (
        keyword == "additionalProperties" and value is False
    ):
        return {}
    raise _NotStrict


def _convert_each(schemas: object) -> dict[str, Any]:
    if not isinstance(schemas, dict):
        raise _NotStrict
    items = cast("dict[str, object]", schemas)
    return {name: _convert_one(schema) for name, schema in items.items()}


def _convert_one(schema: object) -> dict[str, Any]:
    if not isinstance(schema, dict):
        raise _NotStrict  # a schema may be `true`
    return _convert(cast("dict[str, Any]", schema))


def _as_list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise _NotStrict
    return cast("list[object]", value)
