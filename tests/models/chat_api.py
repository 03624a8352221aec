"""The rules by which the chat completions API refuses a request, with its error texts.

Written from the API's documentation and from error reports, independently of
`continuations.core.messages`: a mistake there must not be repeated here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn, cast

_ROLES = ("system", "assistant", "user", "function", "tool", "developer")
_PARAMETERS = frozenset(
    """
    model messages audio frequency_penalty function_call functions logit_bias logprobs
    max_completion_tokens max_tokens metadata modalities n parallel_tool_calls
    prediction presence_penalty prompt_cache_key prompt_cache_retention
    reasoning_effort response_format safety_identifier seed service_tier stop store
    stream stream_options temperature tool_choice tools top_logprobs top_p user
    verbosity web_search_options
    """.split()  # noqa: SIM905 - one name per line would fill the file
)


class RequestRejected(Exception):
    """A request that the API refuses, with the API's error text."""

    def __init__(
        self,
        message: str,
        param: str | None = None,
        code: str | None = None,
        *,
        status: int = 400,
        kind: str = "invalid_request_error",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error = {"message": message, "type": kind, "param": param, "code": code}


def parse_body(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a body; raises `RequestRejected`.

    UTF-8 has no lone surrogates (RFC 3629, section 3). Escaped ones are refused too,
    and NaN is not JSON (RFC 8259, section 6).
    """

    def refuse(name: str) -> NoReturn:
        raise ValueError(name)

    try:
        value = json.loads(body.decode(), parse_constant=refuse)
        if b"\\ud" in body.lower():
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise RequestRejected(
            "We could not parse the JSON body of your request. (HINT: This likely means"
            " you aren't using your HTTP library correctly. The OpenAI API expects a"
            " JSON payload, but what was sent was not valid JSON.)"
        )
    return cast("dict[str, Any]", value)


def check_request(request: Mapping[str, Any]) -> None:
    """Raise `RequestRejected` for a request that the API refuses with status 400."""
    if not isinstance(request.get("model"), str):
        raise RequestRejected("you must provide a model parameter")
    for name in request:
        if name not in _PARAMETERS:
            raise RequestRejected(
                f"Unknown parameter: '{name}'.", name, "unknown_parameter"
            )
    if request.get("stream"):
        raise RequestRejected(
            "This server does not stream.", "stream", "unsupported_value"
        )
    messages = _non_empty_list(request.get("messages"), "messages")
    for index, message in enumerate(messages):
        _check_message(message, f"messages[{index}]")
    _check_turns(messages)
    _check_tools(request)


def _non_empty_list(value: Any, where: str) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        raise _wrong_type(where, "an array of objects", value)
    items = cast("list[dict[str, Any]]", value)  # the caller checks each item
    if not items:
        raise RequestRejected(
            f"Invalid '{where}': empty array. Expected an array with minimum length 1,"
            " but got an empty array instead.",
            where,
            "empty_array",
        )
    return items


def _wrong_type(where: str, wanted: str, value: Any) -> RequestRejected:
    kinds = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    names = [name for kind, name in kinds.items() if isinstance(value, kind)]
    got = "null" if value is None else names[0] if names else "a number"
    text = f"Invalid type for '{where}': expected {wanted}, but got {got} instead."
    return RequestRejected(text, where, "invalid_type")


def _text(value: Any, where: str) -> str:
    if value is None:
        text = f"Missing required parameter: '{where}'."
        raise RequestRejected(text, where, "missing_required_parameter")
    if not isinstance(value, str):
        raise _wrong_type(where, "a string", value)
    return value


def _non_empty_text(value: Any, where: str) -> str:
    text = _text(value, where)
    if not text:
        raise RequestRejected(
            f"Invalid '{where}': empty string. Expected a string with minimum length 1,"
            " but got an empty string instead.",
            where,
            "empty_string",
        )
    return text


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong_type(where, "an object", value)
    return cast("dict[str, Any]", value)


def _check_message(value: Any, where: str) -> None:
    message = _object(value, where)
    role = _text(message.get("role"), f"{where}.role")
    if role not in _ROLES:
        supported = ", ".join(f"'{name}'" for name in _ROLES)
        text = f"Invalid value: '{role}'. Supported values are: {supported}."
        raise RequestRejected(text, f"{where}.role", "invalid_value")
    has_calls = role == "assistant" and message.get("tool_calls") is not None
    if has_calls:
        calls = _non_empty_list(message["tool_calls"], f"{where}.tool_calls")
        for index, call in enumerate(calls):
            _check_call(call, f"{where}.tool_calls[{index}]")
    if role == "tool":
        _text(message.get("tool_call_id"), f"{where}.tool_call_id")
    refused = role == "assistant" and isinstance(message.get("refusal"), str)
    if message.get("content") is not None or not (has_calls or refused):
        _check_content(message.get("content"), f"{where}.content", role)


def _check_content(content: Any, where: str, role: str) -> None:
    if isinstance(content, str):
        return
    if content is None:
        text = "Invalid value for 'content': expected a string, got null."
        raise RequestRejected(text, where)
    if not isinstance(content, list):
        raise _wrong_type(where, "one of a string or array of objects", content)
    for index, item in enumerate(_non_empty_list(content, where)):
        part = _object(item, f"{where}[{index}]")
        kind = _text(part.get("type"), f"{where}[{index}].type")
        if role == "tool" and kind != "text":
            text = f"Invalid value: '{kind}'. Supported values are: 'text'."
            raise RequestRejected(text, f"{where}[{index}].type", "invalid_value")


def _check_call(value: Any, where: str) -> None:
    call = _object(value, where)
    _non_empty_text(call.get("id"), f"{where}.id")
    kind = _text(call.get("type"), f"{where}.type")
    field = {"function": "arguments", "custom": "input"}.get(kind)
    if field is None:
        text = f"Invalid value: '{kind}'. Supported values are: 'function', 'custom'."
        raise RequestRejected(text, f"{where}.type", "invalid_value")
    body = _object(call.get(kind), f"{where}.{kind}")
    _check_name(body.get("name"), f"{where}.{kind}.name")
    _text(body.get(field), f"{where}.{kind}.{field}")


def _check_name(value: Any, where: str) -> str:
    name = _non_empty_text(value, where)
    if len(name) > 64:
        raise RequestRejected(
            f"Invalid '{where}': string too long. Expected a string with maximum length"
            f" 64, but got a string with length {len(name)} instead.",
            where,
            "string_above_max_length",
        )
    if not re.fullmatch(r"[a-zA-Z0-9_-]+", name):
        raise RequestRejected(
            f"Invalid '{where}': string does not match pattern. Expected a string that"
            " matches the pattern '^[a-zA-Z0-9_-]+$'.",
            where,
            "invalid_value",
        )
    return name


def _check_turns(messages: list[dict[str, Any]]) -> None:
    all_calls: set[str] = set()  # of the whole conversation
    turn_calls: set[str] = set()  # of the last assistant message
    open_calls: list[str] = []
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            _check_result(message["tool_call_id"], index, turn_calls, open_calls)
            open_calls.remove(message["tool_call_id"])
            continue
        _check_no_open_calls(open_calls, index)
        calls = message.get("tool_calls") if message["role"] == "assistant" else None
        open_calls = [call["id"] for call in calls or ()]
        turn_calls = set(open_calls)
        repeated = turn_calls & all_calls
        if len(turn_calls) < len(open_calls) or repeated:
            raise _duplicate(next(iter(repeated or turn_calls)), index)
        all_calls |= turn_calls
    _check_no_open_calls(open_calls, len(messages))


def _check_result(
    call: str, index: int, turn_calls: set[str], open_calls: list[str]
) -> None:
    if not turn_calls:
        raise RequestRejected(
            "Invalid parameter: messages with role 'tool' must be a response to a"
            " preceeding message with 'tool_calls'.",
            f"messages.[{index}].role",
        )
    if call not in turn_calls:
        raise RequestRejected(
            f"Invalid parameter: 'tool_call_id' of '{call}' not found in 'tool_calls'"
            " of previous message.",
            f"messages.[{index}].tool_call_id",
        )
    if call not in open_calls:
        raise _duplicate(call, index)


def _check_no_open_calls(open_calls: list[str], index: int) -> None:
    if open_calls:
        raise RequestRejected(
            "An assistant message with 'tool_calls' must be followed by tool messages"
            " responding to each 'tool_call_id'. The following tool_call_ids did not"
            f" have response messages: {', '.join(open_calls)}",
            f"messages.[{index}].role",
        )


def _duplicate(call: str, index: int) -> RequestRejected:
    text = f"Duplicate value for 'tool_call_id' of '{call}' in message[{index}]."
    return RequestRejected(text, f"messages.[{index}]", "duplicate_value")


def _check_tools(request: Mapping[str, Any]) -> None:
    if "tools" not in request:
        for name in ("tool_choice", "parallel_tool_calls"):
            if name in request:
                text = f"'{name}' is only allowed when 'tools' are specified."
                raise RequestRejected(f"Invalid value for '{name}': {text}", name)
        return
    names: set[str] = set()
    for index, tool in enumerate(_non_empty_list(request["tools"], "tools")):
        where = f"tools[{index}].function"
        function = _object(_object(tool, f"tools[{index}]").get("function"), where)
        name = _check_name(function.get("name"), f"{where}.name")
        if name in names:
            text = f"Invalid 'tools': tool names must be unique, '{name}' is not."
            raise RequestRejected(text, f"{where}.name", "duplicate_value")
        names.add(name)
        _check_parameters(function.get("parameters", {"type": "object"}), name, where)


def _check_parameters(parameters: Any, name: str, where: str) -> None:
    schema = _object(parameters, f"{where}.parameters")
    if schema.get("type") != "object":
        raise RequestRejected(
            f"Invalid schema for function '{name}': schema must be a JSON Schema of"
            f" 'type: \"object\"', got 'type: \"{schema.get('type')}\"'.",
            f"{where}.parameters",
            "invalid_function_parameters",
        )
