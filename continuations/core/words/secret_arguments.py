"""Arguments that people must not read: their mask, and edits that keep them.

A path names a secret value in the arguments: `pin`, `card/number`, and with `*` every
item of a list or every value of a mapping, `cards/*/number`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from continuations.core import jsontext

MASK = "[secret]"
ANY_ITEM = "*"
# Shorter values are not searched in other texts: they may occur there by chance.
_MIN_SEARCHED_CHARS = 4

_Change: TypeAlias = Callable[[Any], Any]
_Paths: TypeAlias = frozenset[tuple[str, ...]]


class SecretLost(ValueError):
    """An edit has another value, or a mask whose value is not certain."""


def masked_json(arguments_json: str, paths: Iterable[str]) -> str:
    """Return arguments with `MASK` in place of each secret value that is not null."""
    return jsontext.canonical(masked(jsontext.parse(arguments_json), paths))


def masked(arguments: Any, paths: Iterable[str]) -> Any:
    """Return arguments as JSON values with `MASK` in place of each secret value."""
    for path in paths:
        arguments = _changed(arguments, steps_of(path), _mask)
    return arguments


def restored_json(edited_json: str, arguments_json: str, paths: Iterable[str]) -> str:
    """Return an edit with the secret values of the arguments where it has the mask.

    Raises `SecretLost` if the edit has another secret value, which its decision would
    show. Or if the value that belongs to a mask is not certain: it was moved to another
    item of a list, or the arguments have none.
    """
    paths = tuple(paths)
    arguments = jsontext.parse(arguments_json)
    edited = jsontext.parse(edited_json)
    steps = frozenset(map(steps_of, paths))
    edited = _restored(edited, arguments, masked(arguments, paths), steps)
    return jsontext.canonical(edited)


def kept_places(edited: Any, paths: Iterable[str]) -> Iterator[tuple[str | int, ...]]:
    """Yield the places of an edit that have the mask in place of a secret value."""
    for path in paths:
        yield from _places(edited, steps_of(path), ())


def scrubbed(text: str, arguments_json: str, paths: Iterable[str]) -> str:
    """Return a text with `MASK` in place of each secret value that it contains."""
    return without_texts(text, secret_texts(jsontext.parse(arguments_json), paths))


def secret_texts(arguments: Any, paths: Iterable[str]) -> set[str]:
    """Return the texts by which the secret values may occur in another text."""
    found: set[str] = set()
    for path in paths:
        _changed(arguments, steps_of(path), lambda value: found.update(_texts(value)))
    return found


def without_texts(text: str, texts: Iterable[str]) -> str:
    """Return a text with `MASK` in place of each of some texts."""
    for each in sorted(texts, key=len, reverse=True):
        text = text.replace(each, MASK)
    return text


def steps_of(path: str) -> tuple[str, ...]:
    """Return the names and `ANY_ITEM` that lead to a secret value."""
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in path.split("/"))


def path_of(steps: Iterable[str]) -> str:
    """Return the path with these steps, as `masked` reads it."""
    return "/".join(step.replace("~", "~0").replace("/", "~1") for step in steps)


def _mask(value: Any) -> Any:
    return None if value is None else MASK


def _changed(value: Any, steps: tuple[str, ...], change: _Change) -> Any:
    """Return a value with a change at each place that the steps lead to."""
    if not steps:
        return change(value)
    first, rest = steps[0], steps[1:]
    if (items := jsontext.as_array(value)) is not None:
        # A list where the path has a name is not expected: more of it is masked.
        rest = rest if first == ANY_ITEM else steps
        return [_changed(item, rest, change) for item in items]
    fields = jsontext.as_object(value)
    if fields is None:
        return value
    chosen = fields.keys() if first == ANY_ITEM else {first} & fields.keys()
    return {
        name: _changed(inner, rest, change) if name in chosen else inner
        for name, inner in fields.items()
    }


def _restored(edited: Any, value: Any, shown: Any, paths: _Paths) -> Any:
    """Return an edit with the secrets of a value; `shown` is the value as masked."""
    if () in paths:
        if edited is not None and (edited != MASK or value is None):
            raise SecretLost
        return None if edited is None else value
    if (items := jsontext.as_array(edited)) is not None:
        values = jsontext.as_array(value) or []
        known = list(zip(values, jsontext.as_array(shown) or [], strict=True))
        inner = frozenset(p[1:] if p[0] == ANY_ITEM else p for p in paths)
        return [
            # Only an item that is wholly as it was shown keeps its secret values.
            known[place][0]
            if place < len(known) and item == known[place][1]
            else _restored(item, None, None, inner)
            for place, item in enumerate(items)
        ]
    fields = jsontext.as_object(edited)
    if fields is None:
        return edited
    old, seen = jsontext.as_object(value) or {}, jsontext.as_object(shown) or {}
    return {
        name: _restored(item, old.get(name), seen.get(name), below)
        if (below := frozenset(p[1:] for p in paths if p[0] in (name, ANY_ITEM)))
        else item
        for name, item in fields.items()
    }


def _places(
    value: Any, steps: tuple[str, ...], place: tuple[str | int, ...]
) -> Iterator[tuple[str | int, ...]]:
    if not steps:
        if value == MASK:
            yield place
        return
    if (items := jsontext.as_array(value)) is not None:
        rest = steps[1:] if steps[0] == ANY_ITEM else steps
        for index, item in enumerate(items):
            yield from _places(item, rest, (*place, index))
    elif (fields := jsontext.as_object(value)) is not None:
        chosen = fields if steps[0] == ANY_ITEM else (steps[0],)
        for name in chosen:
            if name in fields:
                yield from _places(fields[name], steps[1:], (*place, name))


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts by which a secret value may occur in another text."""
    if isinstance(value, str) and value != MASK:
        candidates = [value, jsontext.dump(value)[1:-1]]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        candidates = [jsontext.dump(value)]
    elif (items := jsontext.as_array(value)) is not None:
        for item in items:
            yield from _texts(item)
        return
    elif (fields := jsontext.as_object(value)) is not None:
        for item in fields.values():
            yield from _texts(item)
        return
    else:
        return
    yield from (each for each in candidates if len(each) >= _MIN_SEARCHED_CHARS)


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
