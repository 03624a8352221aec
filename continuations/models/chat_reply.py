"""Read a chat completion: from the bytes of a provider's response to a reply.

Unknown fields of the assistant message are kept unchanged, because some providers
want their own fields back (reasoning, signatures). The bytes of a stream are kept, and
joined at the end. So the reply does not depend on how they were cut.
"""

from __future__ import annotations

import codecs
import re
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from continuations.core import jsontext
from continuations.core.messages import MalformedMessage, Message
from continuations.core.model_protocol import ModelDelta, ModelReply
from continuations.core.usage import Usage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping

    from openai import AsyncStream

    from continuations.core.model_protocol import DeltaListener


_END = "[DONE]"
# Only these end a line. `str.splitlines` also splits at characters of JSON strings.
_LINE_END = re.compile(r"\r\n|\r|\n")
# Each event adds a part to these fields; every other field has its last value.
_PARTIAL_FIELDS = frozenset({"content", "refusal", "reasoning_content", "reasoning"})


def is_event_stream(body: bytes) -> bool:
    """Return whether a body is a stream of server-sent events."""
    return body.lstrip().startswith((b"data:", b"event:", b":"))


def completion_of_stream(body: bytes) -> tuple[dict[str, Any], bool]:
    """Return the completion that a stream makes, and whether it is complete.

    A complete stream has a `finish_reason` or the end mark. A stream without both was
    cut: the last text or call may be unfinished, and more calls may be missing. Only
    the first choice is read, as of a completion. Raises `NotJson`.
    """
    completion: dict[str, Any] = {}
    message = _MessageParts()
    choice: dict[str, Any] = {}
    events = _events(body)
    has_end_mark = _END in events
    for event in events:
        if event == _END:
            continue
        chunk = jsontext.as_object(jsontext.parse(event)) or {}
        completion |= {k: v for k, v in chunk.items() if v is not None}
        if chunk.get("object") == "error":  # vLLM
            completion["error"] = dict(chunk)
        part = first_choice(chunk)
        if part is None:
            continue
        choice |= {k: v for k, v in part.items() if v is not None}
        whole = jsontext.as_object(part.get("message"))
        message.add(whole or jsontext.as_object(part.get("delta")) or {})
    if choice:
        choice.pop("delta", None)
        fields = {"content": None, **message.fields}
        completion["choices"] = [{**choice, "message": fields}]
    return completion, has_end_mark or "finish_reason" in choice


def _events(body: bytes) -> list[str]:
    """Return the data of each event."""
    return [*_EventReader().read(body + b"\n\n")]


class _EventReader:
    """Reads the data of events in the bytes of a stream, wherever they are cut."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._data: list[str] = []

    def read(self, chunk: bytes) -> Iterator[str]:
        """Yield the data of the events that are complete with these bytes."""
        text = self._rest + self._decoder.decode(chunk)
        # The next bytes may continue a line end.
        held = "\r" if text.endswith("\r") else ""
        *lines, rest = _LINE_END.split(text.removesuffix(held))
        self._rest = rest + held
        for line in lines:
            if line.startswith("data:"):
                self._data.append(line[5:].removeprefix(" "))
            elif not line and self._data:
                data, self._data = "\n".join(self._data).strip(), []
                if data:
                    yield data


def first_choice(chunk: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the first choice of an event, or `None`."""
    for each in jsontext.as_array(chunk.get("choices")) or ():
        choice = jsontext.as_object(each)
        if choice is not None and choice.get("index") in (0, None):
            return dict(choice)
    return None


class _MessageParts:
    """Joins the parts of a message.

    Attributes:
        fields: The message so far.
    """

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self._calls: list[dict[str, Any]] = []
        self._call_by_index: dict[int, dict[str, Any]] = {}

    def add(self, delta: Mapping[str, Any]) -> None:
        """Add the part of one event."""
        for name, value in delta.items():
            if name == "tool_calls":
                for part in jsontext.as_array(value) or ():
                    self._add_call_part(part)
                self.fields[name] = self._calls
            elif name in _PARTIAL_FIELDS and isinstance(value, str):
                self.fields[name] = (self.fields.get(name) or "") + value
            elif name == "function_call" and jsontext.as_object(value) is not None:
                self.fields[name] = _joined_function(self.fields.get(name), value)
            elif value is not None:
                self.fields[name] = value

    def _add_call_part(self, value: Any) -> None:
        part = dict(jsontext.as_object(value) or {})
        index = part.pop("index", None)
        if not isinstance(index, int) or index < 0:
            index = None
        call = self._call_of_part(index, part)
        if call is None:
            call = dict[str, Any]()
            self._calls.append(call)
        if index is not None:
            self._call_by_index[index] = call
        function = _joined_function(call.get("function"), part.get("function"))
        call |= {k: v for k, v in part.items() if v not in (None, "")}
        if function:
            call["function"] = function

    def _call_of_part(
        self, index: int | None, part: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """Return the call that a part continues, or `None` for a new call."""
        if index is not None:
            call = self._call_by_index.get(index)
        else:
            call = self._calls[-1] if self._calls else None
        identifier = part.get("id")
        if call is None or (identifier and call.get("id", identifier) != identifier):
            # Some servers send all calls with the index 0 and an id of their own.
            return None
        function = jsontext.as_object(part.get("function")) or {}
        is_new = index is None and not identifier and bool(function.get("name"))
        return None if is_new else call


def _joined_function(old: Any, new: Any) -> dict[str, Any]:
    """Return a function whose arguments are continued by those of its next part."""
    known, more = (jsontext.as_object(each) or {} for each in (old, new))
    function = {**known, **{k: v for k, v in more.items() if v}}
    arguments = [each.get("arguments") for each in (known, more)]
    texts = [each for each in arguments if isinstance(each, str)]
    if texts and len(texts) + arguments.count(None) == len(arguments):
        function["arguments"] = "".join(texts)
    return function


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


# The codes of an account without credit, or above a limit of its owner. They come with
# the status of a rate limit, and no repetition helps.
_NO_CREDIT_CODES = frozenset(
    {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
)
# A code that is an HTTP status.
_ERROR_STATUS = re.compile("[45][0-9][0-9]", re.ASCII)


class UnusableReply(ValueError):
    """A response without a usable reply.

    Attributes:
        provider_text: The provider's own error text, if there is one. Redact it before
            it is shown.
        retryable: Whether the same request may get a usable reply.
        error_status: The HTTP status that the provider's error names in its code. It
            decides about a retry, if there is one.
        lacks_credit: Whether the account has no credit.
        usage: The requests and tokens that the response cost.
    """

    def __init__(
        self,
        reason: str,
        *,
        provider_text: str = "",
        retryable: bool = True,
        error_status: int | None = None,
        lacks_credit: bool = False,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(reason)
        self.provider_text = provider_text
        self.retryable = retryable
        self.error_status = error_status
        self.lacks_credit = lacks_credit
        self.usage = usage or Usage(requests=1)


def parse_completion(body: bytes, *, output_tool: str | None = None) -> ModelReply:
    """Return the reply in the JSON of a completion; raises `UnusableReply`.

    Args:
        body: The body of the response.
        output_tool: The name of the tool that takes the final reply, if the request
            offered one. Its arguments become the content of the reply.
    """
    usage = Usage(requests=1)
    try:
        completion, is_complete = _parse_body(body)
        usage = read_usage(completion, "prompt", "completion")
        choice = _first_choice(completion, is_complete=is_complete)
        fields = _assistant_fields(choice.get("message"))
        if output_tool is not None:
            fields = _with_output_as_content(fields, output_tool)
        finish = choice.get("finish_reason")
        if not isinstance(finish, str):
            finish = "tool_calls" if fields.get("tool_calls") else "stop"
        message = Message.from_mapping(_with_content(fields))
    except UnusableReply as error:
        error.usage = usage
        raise
    except jsontext.NotJson:
        raise UnusableReply("the response is not JSON") from None
    except MalformedMessage as error:
        reason = f"the assistant message is not valid: {error}"
        raise UnusableReply(reason, usage=usage) from None
    return ModelReply(message=message, usage=usage, finish_reason=finish)


def _parse_body(body: bytes) -> tuple[Any, bool]:
    """Return the completion, and whether it is complete."""
    if is_event_stream(body):
        return completion_of_stream(body)
    return jsontext.parse(body), True


def error_text(body: object) -> str:
    """Return type, code and message of a provider's error as one text."""
    if not isinstance(body, dict):
        return body if isinstance(body, str) else ""
    fields = cast("Mapping[str, object]", body)
    inner = fields.get("error", fields)
    if not isinstance(inner, dict):
        return str(inner)
    error = cast("Mapping[str, object]", inner)
    label = ", ".join(_error_names(error))
    text = error.get("message") or error.get("detail") or ""
    return ": ".join(part for part in (label, str(text)) if part)


def lacks_credit(body: object) -> bool:
    """Return whether a provider's error says that the account has no credit."""
    fields = jsontext.as_object(body) or {}
    error = jsontext.as_object(fields.get("error")) or fields
    return not _NO_CREDIT_CODES.isdisjoint(_error_names(error))


def _error_names(error: Mapping[str, object]) -> list[str]:
    """Return the type and the code of a provider's error."""
    names = [error[name] for name in ("type", "code") if error.get(name)]
    return list(dict.fromkeys(str(name) for name in names))


def _first_choice(completion: object, *, is_complete: bool) -> Mapping[str, Any]:
    """Return the first choice of a completion without an error."""
    fields = jsontext.as_object(completion)
    if fields is None:
        raise UnusableReply("the response is not a chat completion")
    choices = jsontext.as_array(fields.get("choices")) or ()
    choice = jsontext.as_object(choices[0]) if choices else None
    if choice is None:
        # OpenRouter returns status 200 with an `error` if the upstream model fails.
        raise _provider_error("the response has no choices", fields)
    if fields.get("error"):
        raise _provider_error("the provider reports an error", fields)
    if choice.get("error") or choice.get("finish_reason") == "error":
        raise _provider_error("the provider reports an error", choice)
    if not is_complete:
        raise UnusableReply("the stream ended before the reply was complete")
    return choice


def _provider_error(reason: str, fields: Mapping[str, Any]) -> UnusableReply:
    error = fields.get("error")
    code = str((jsontext.as_object(error) or {}).get("code"))
    status = int(code) if _ERROR_STATUS.fullmatch(code) else None
    text = error_text(fields) if error else ""
    return UnusableReply(
        reason,
        provider_text=text,
        error_status=status,
        lacks_credit=lacks_credit(fields),
    )


def _assistant_fields(message: object) -> dict[str, Any]:
    if not isinstance(message, dict):
        raise UnusableReply("the response has no message")
    fields = with_standard_forms(cast("Mapping[str, Any]", message))
    if fields["role"] != "assistant":
        raise UnusableReply("the message is not an assistant message")
    return fields


def _with_output_as_content(fields: dict[str, Any], output_tool: str) -> dict[str, Any]:
    """Return a message in which a call of the output tool is the final reply.

    Beside other calls the output is too early: it is left out, and the model gives it
    after their results.
    """
    calls = jsontext.as_array(fields.get("tool_calls")) or ()
    others = [
        call for call in calls if _called_function(call).get("name") != output_tool
    ]
    if len(others) == len(calls):
        return fields
    rest = {name: value for name, value in fields.items() if name != "tool_calls"}
    if others:
        return {**rest, "tool_calls": others}
    return {**rest, "content": _called_function(next(iter(calls))).get("arguments")}


def _called_function(call: object) -> Mapping[str, Any]:
    fields = jsontext.as_object(call) or {}
    return jsontext.as_object(fields.get("function")) or {}


def _with_content(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a message with content: `""` if it has nothing that can be used.

    The engine says what an empty reply means. `null` without tool calls is refused in
    the next request ("Invalid value for 'content': expected a string, got null",
    OpenAI). Raises `UnusableReply` for audio without a transcript.
    """
    if fields.get("tool_calls") or any(
        fields.get(name) is not None for name in ("content", "refusal")
    ):
        return fields
    if fields.get("audio") is not None:
        reason = '"audio" has no "transcript", and only text can be used'
        raise UnusableReply(reason, retryable=False)
    return {**fields, "content": ""}


def read_usage(response: object, sent: str, written: str) -> Usage:
    """Return the request and the tokens that a response cost.

    Args:
        response: The response.
        sent: The word of the API for tokens of requests, such as `prompt`.
        written: The word of the API for tokens of replies, such as `completion`.
    """
    usage = jsontext.as_object((jsontext.as_object(response) or {}).get("usage")) or {}
    details = [usage.get(f"{word}_tokens_details") for word in (sent, written)]
    return Usage(
        requests=1,
        input_tokens=_token_count(usage, f"{sent}_tokens"),
        output_tokens=_token_count(usage, f"{written}_tokens"),
        cached_tokens=_token_count(details[0], "cached_tokens"),
        reasoning_tokens=_token_count(details[1], "reasoning_tokens"),
    )


def _token_count(counts: object, name: str) -> int:
    count = (jsontext.as_object(counts) or {}).get(name)
    return count if isinstance(count, int) and count > 0 else 0


# Some servers send both names with the same text.
_REASONING_FIELDS = ("reasoning_content", "reasoning")


async def read_stream(stream: AsyncStream[object], on_delta: DeltaListener) -> bytes:
    """Return the whole body of a response, and hand its parts on before.

    Each part is handed on before the next bytes are read. A server that does not stream
    sends one completion, which has no parts. Raises `UnusableReply` if the connection
    broke, and the errors of the client.
    """
    reader = _EventReader()
    received: list[bytes] = []
    async with stream, aclosing(_chunks(stream.response.aiter_bytes())) as chunks:
        async for chunk in chunks:
            received.append(chunk)
            for event in reader.read(chunk):
                for delta in _parts_of(event):
                    await on_delta(delta)
    return b"".join(received)


async def _chunks(source: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    try:
        async for chunk in source:
            yield chunk
    except Exception as error:  # noqa: BLE001 - the errors of several HTTP packages
        is_late = "timeout" in type(error).__name__.lower()
        ending = "did not go on in time" if is_late else "was cut"
        reason = f"the stream {ending} before the reply was complete"
    else:
        return
    # Outside of `except`: the error holds the request with its headers.
    raise UnusableReply(reason)


def _parts_of(data: str) -> Iterator[ModelDelta]:
    """Return the parts in the data of an event; the end decides what is not valid."""
    try:
        chunk = jsontext.as_object(jsontext.parse(data)) or {}
    except jsontext.NotJson:
        return
    choice = first_choice(chunk) or {}
    delta: Any = jsontext.as_object(choice.get("delta")) or {}
    thoughts = (delta.get(name) for name in _REASONING_FIELDS)
    reasoning = next((each for each in thoughts if isinstance(each, str)), "")
    if reasoning:
        yield ModelDelta(kind="reasoning", text=reasoning)
    for name in ("content", "refusal"):
        text = delta.get(name)
        if isinstance(text, str) and text:
            yield ModelDelta(kind="text", text=text)
