"""How a chat completions server differs from OpenAI's, and how a refusal shows it.

Many servers implement the API of OpenAI, and each leaves something out. A dialect says
what a request must avoid. The adapter starts with OpenAI's dialect. If a server refuses
a request, the adapter avoids what the refusal names and sends the request once more.
Each step leaves out one more thing, so the number of steps is bounded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from continuations.core.model_protocol import ModelRequest, OutputSchema

OutputMode: TypeAlias = Literal["strict", "schema", "tool"]
StreamMode: TypeAlias = Literal["usage", "plain", "none"]

# The next mode after a mode that the server refused.
_NEXT_STREAM_MODE: dict[StreamMode, StreamMode] = {"usage": "plain", "plain": "none"}
_NEXT_OUTPUT_MODE: dict[OutputMode, OutputMode] = {"strict": "schema", "schema": "tool"}

# Some servers report an invalid request with the status of their own failure.
_REFUSAL_STATUSES = frozenset({400, 404, 415, 422, 500, 501})
_NAMES_OUTPUT = re.compile(
    r"(?i)response_?format|json_schema|structured[ _-]output|schema|\bstrict\b"
)
_NAMES_STREAM = re.compile(r"(?i)\bstream|include_usage")
# A chat template that meets null raises an error of the template language.
_NAMES_NULL_CONTENT = re.compile(
    r"(?i)content|\bnull\b|none|string|template|jinja|minja|undefined"
)
_INVALID_REQUEST = re.compile(
    r"(?i)invalid[ _](request|type|value|argument|input|param|message)"
    r"|bad ?request|validation|unprocessable|jinja|minja|template"
    r"|not supported|unsupported|(must|should) be (a|an|one)\b|expected (a|an)\b"
    r"|failed to parse|unknown (parameter|field)|missing (field|required)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatDialect:
    """The forms of a request that a chat completions server accepts.

    Attributes:
        null_content: Whether an assistant message with tool calls may have
            `"content": null`. If not, it is sent as `""`. The stored message keeps
            `null`. llama.cpp refuses `null` with many chat templates.
        output: How the schema of an `output_type` is sent.
            `"strict"`: as `response_format` in strict mode, if the schema can be
            written in it. `"schema"`: as `response_format`, not strict. `"tool"`:
            as a tool that the model calls with its final reply.
        stream: How a stream is requested, if there is a listener. `"usage"`: with
            `stream_options`, so that the last event has the usage. `"plain"`: without.
            `"none"`: no stream is requested.
    """

    null_content: bool = True
    output: OutputMode = "strict"
    stream: StreamMode = "usage"


OPENAI_DIALECT = ChatDialect()
_DIALECTS_BY_HOST = {
    # "This response_format type is unavailable now": only text and json_object.
    "api.deepseek.com": ChatDialect(output="tool"),
}


def dialect_of_host(host: str) -> ChatDialect:
    """Return the dialect of a known host; OpenAI's for every other."""
    return _DIALECTS_BY_HOST.get(host, OPENAI_DIALECT)


class DialectMemory:
    """The forms that one server has refused in this process.

    A server takes `null` or does not. But it may refuse strict mode for one schema
    only, so the form of the output is remembered for each schema. Requests that run at
    the same time share the memory: a request adds only what it found out itself.
    """

    def __init__(self) -> None:
        self._refuses_null_content = False
        self._stream_mode: StreamMode | None = None
        self._output_modes: dict[str, OutputMode] = {}

    def first_dialect(
        self, default: ChatDialect, output_schema: OutputSchema | None
    ) -> ChatDialect:
        """Return the dialect in which a request is sent first."""
        if self._refuses_null_content and default.null_content:
            default = replace(default, null_content=False)
        if self._stream_mode is not None:
            default = replace(default, stream=self._stream_mode)
        if output_schema is None or not self._output_modes:
            return default
        mode = self._output_modes.get(schema_key(output_schema), default.output)
        return replace(default, output=mode)

    def remember(
        self,
        first: ChatDialect,
        accepted: ChatDialect,
        output_schema: OutputSchema | None,
    ) -> None:
        """Remember how the accepted dialect of a request differs from its first."""
        if accepted.null_content != first.null_content:
            self._refuses_null_content = True
        if accepted.stream != first.stream:
            self._stream_mode = accepted.stream
        if accepted.output != first.output and output_schema is not None:
            self._output_modes[schema_key(output_schema)] = accepted.output


def schema_key(output_schema: OutputSchema | None) -> str:
    """Return a text that names a schema, which a server may refuse."""
    return f"{output_schema.name} {output_schema.schema!r}" if output_schema else ""


def dialect_after_refusal(
    request: ModelRequest, dialect: ChatDialect, status: int, text: str
) -> ChatDialect | None:
    """Return the dialect for one more try of a refused request.

    Args:
        request: The request.
        dialect: The dialect in which the request was sent.
        status: The HTTP status of the refusal.
        text: The text of the refusal.

    Returns:
        The next dialect; `None` if the refusal is not about the dialect.
    """
    if status not in _REFUSAL_STATUSES:
        return None
    sends_schema = (
        request.output_schema is not None and "response_format" not in request.settings
    )
    next_stream = _NEXT_STREAM_MODE.get(dialect.stream)
    if request.on_delta is not None and next_stream and _NAMES_STREAM.search(text):
        return replace(dialect, stream=next_stream)
    next_mode = _NEXT_OUTPUT_MODE.get(dialect.output)
    if sends_schema and next_mode is not None and _NAMES_OUTPUT.search(text):
        return replace(dialect, output=next_mode)
    if (
        dialect.null_content
        and has_null_content(request)
        and _NAMES_NULL_CONTENT.search(text)
    ):
        return replace(dialect, null_content=False)
    return None


def has_null_content(request: ModelRequest) -> bool:
    """Return whether an assistant message with tool calls has no content."""
    return any(
        message.tool_call_ids and message.data.get("content") is None
        for message in request.messages
    )


def is_invalid_request(text: str) -> bool:
    """Return whether an error text says that the request itself is wrong.

    A server may report that with a status of 500. The same request fails again then.
    """
    return _INVALID_REQUEST.search(text) is not None
