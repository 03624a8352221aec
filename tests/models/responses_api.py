"""The rules by which the Responses API refuses a request, with its error texts.

Written from the API's documentation and from error reports, independently of
`continuations.models`: a mistake there must not be repeated here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from continuations.core import jsontext
from tests.models.chat_api import RequestRejected

_PARAMETERS = frozenset(
    """
    background include input instructions max_output_tokens max_tool_calls metadata
    model parallel_tool_calls prompt_cache_key reasoning safety_identifier service_tier
    store stream stream_options temperature text tool_choice tools top_logprobs top_p
    truncation user
    """.split()  # noqa: SIM905 - one name per line would fill the file
)
_ROLES = frozenset({"user", "assistant", "system", "developer"})
_OUTPUTS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
}


def check_responses_request(request: Mapping[str, Any]) -> None:
    """Raise `RequestRejected` for a request that the API refuses with status 400."""
    for name in request:
        if name not in _PARAMETERS:
            text = f"Unknown parameter: '{name}'."
            raise RequestRejected(text, name, "unknown_parameter")
    if not isinstance(request.get("model"), str):
        raise RequestRejected("you must provide a model parameter")
    items = jsontext.as_array(request.get("input"))
    if not items:
        raise RequestRejected("Invalid type for 'input'.", "input", "invalid_type")
    for index, item in enumerate(items):
        _check_item(item, f"input[{index}]")
    _check_reasoning(items, is_stored=request.get("store") is not False)
    _check_calls(items)
    for index, tool in enumerate(request.get("tools", ())):
        if tool.get("type") == "function" and not isinstance(tool.get("name"), str):
            where = f"tools[{index}].name"
            text = f"Missing required parameter: '{where}'."
            raise RequestRejected(text, where, "missing_required_parameter")
    if request.get("background") and request.get("store") is False:
        raise RequestRejected("Background mode requires 'store' to be true.", "store")


def _check_item(value: Any, where: str) -> None:
    item = jsontext.as_object(value)
    if item is None:
        raise RequestRejected(f"Invalid type for '{where}'.", where, "invalid_type")
    known = {"type", "role", "content", "id", "status", "phase"}
    if item.get("type", "message") == "message":
        if item.get("role") not in _ROLES:
            raise RequestRejected(f"Invalid value: '{item.get('role')}'.", where)
        if not isinstance(item.get("content"), str | list):
            text = f"Missing required parameter: '{where}.content'."
            raise RequestRejected(text, where)
        unknown = sorted(item.keys() - known)
        if unknown:
            text = f"Unknown parameter: '{where}.{unknown[0]}'."
            raise RequestRejected(text, where, "unknown_parameter")


def _check_reasoning(items: Sequence[Mapping[str, Any]], *, is_stored: bool) -> None:
    for item, following in zip(items, [*items[1:], None], strict=True):
        if item.get("type") != "reasoning":
            continue
        name = item.get("id")
        if not is_stored and not item.get("encrypted_content"):
            raise RequestRejected(
                f"Item with id '{name}' not found. Items are not persisted when `store`"
                " is set to false. Try again with `store` set to true, or remove this"
                " item from your input.",
                "input",
                status=404,
            )
        if following is None or following.get("role") in ("user", "developer"):
            raise RequestRejected(
                f"Item '{name}' of type 'reasoning' was provided without its required"
                " following item.",
                "input",
            )


def _check_calls(items: Sequence[Mapping[str, Any]]) -> None:
    calls = [item for item in items if item.get("type") in _OUTPUTS]
    outputs = [item for item in items if item.get("type") in _OUTPUTS.values()]
    wanted = [(_OUTPUTS[call["type"]], call["call_id"]) for call in calls]
    given = [(output["type"], output["call_id"]) for output in outputs]
    for call in wanted:
        if wanted.count(call) > 1:
            raise RequestRejected(f"Duplicate item found with id {call[1]}.", "input")
        if given.count(call) != 1:
            text = f"No tool output found for function call {call[1]}."
            raise RequestRejected(text, "input")
    for output in given:
        if output not in wanted:
            text = "No tool call found for function call output with call_id"
            raise RequestRejected(f"{text} {output[1]}.", "input")
