"""Chat messages with a mask for each secret argument of the calls in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.words.secret_arguments import (
    ANY_ITEM,
    MASK,
    masked_json,
    secret_texts,
    without_texts,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

# Fields that a call cannot fill.
_NAMES = frozenset({"role", "name", "tool_call_id"})


def masked_messages(
    messages: Sequence[Mapping[str, Any]],
    secrets: Mapping[str, Collection[str]],
    texts: Iterable[str] = (),
) -> list[dict[str, Any]]:
    """Return messages in which no call shows a secret argument.

    Args:
        messages: The messages as the model reads or writes them. The values that their
            calls have are masked in all of them.
        secrets: The paths of the secret arguments by the names of the tools. All
            arguments of another tool are masked, because any of them may be secret.
        texts: Other texts to mask.
    """
    found = {*texts}
    for function in (each for message in messages for each in _functions(message)):
        found.update(_secret_texts(function, secrets))
    return [_masked(message, secrets, found) for message in messages]


def _functions(message: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    for call in message.get("tool_calls") or ():
        yield call["function"]


def _secret_texts(
    function: Mapping[str, Any], secrets: Mapping[str, Collection[str]]
) -> set[str]:
    paths = secrets.get(function["name"])
    if not paths:
        return set()
    try:
        arguments = jsontext.parse(function["arguments"])
    except jsontext.NotJson:
        return set()
    if jsontext.as_object(arguments) is None:
        return secret_texts([arguments], [ANY_ITEM])
    return secret_texts(arguments, paths)


def _masked(
    message: Mapping[str, Any],
    secrets: Mapping[str, Collection[str]],
    texts: set[str],
) -> dict[str, Any]:
    shown = {
        name: value if name in _NAMES else _without(value, texts)
        for name, value in message.items()
    }
    if message.get("tool_calls"):
        shown["tool_calls"] = [
            {**call, "function": _masked_function(call["function"], secrets, texts)}
            for call in message["tool_calls"]
        ]
    return shown


def _masked_function(
    function: Mapping[str, Any],
    secrets: Mapping[str, Collection[str]],
    texts: set[str],
) -> dict[str, Any]:
    paths, text = secrets.get(function["name"]), function["arguments"]
    if paths is None:
        return {**function, "arguments": MASK}
    if paths:
        try:
            is_object = jsontext.as_object(jsontext.parse(text)) is not None
        except jsontext.NotJson:
            is_object = False
        text = masked_json(text, paths) if is_object else MASK
    return {**function, "arguments": without_texts(text, texts)}


def _without(value: Any, texts: set[str]) -> Any:
    """Return a JSON value whose texts have masks."""
    if isinstance(value, str):
        return without_texts(value, texts)
    if (items := jsontext.as_array(value)) is not None:
        return [_without(item, texts) for item in items]
    if (fields := jsontext.as_object(value)) is not None:
        return {name: _without(item, texts) for name, item in fields.items()}
    return value
