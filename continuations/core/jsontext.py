"""JSON as text: what models, tools and people say is kept exactly as it was said.

Arguments, messages, results and schemas are stored as JSON text, so that integers
of any size, lone surrogates, key order and unknown fields come back equal, and so
that nothing in them is ever more than data. NaN and the infinities are not JSON
(RFC 8259, section 6) and are refused.
"""

from __future__ import annotations

import json
import math
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NoReturn, cast

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Python's JSON recurses, and how deep it may depends on who calls it from where. What
# was stored must load everywhere, so there is one limit, well below every other.
MAX_DEPTH = 200
# Arrays and objects of one text: in memory each takes thirty times its two letters.
MAX_CONTAINERS = 1 << 20
# Above it not every whole number is a float.
_MAX_EXACT_INTEGER = 1 << 53
_TOO_DEEP = f"it is nested deeper than {MAX_DEPTH} levels"
_TOO_MANY = f"it has more than {MAX_CONTAINERS} arrays and objects"
_SURROGATE = re.compile("[\ud800-\udfff]")
# A string is one piece, also one that never ends: each letter is looked at once.
_BRACKET = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)


class NotJson(ValueError):
    """A value that JSON text cannot hold, or text that is not JSON."""


def _refuse_constant(name: str) -> NoReturn:
    msg = f"{name} is not a JSON number"
    raise NotJson(msg)


def _parse_float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        msg = f"{digits[:40]} is too large a number"
        raise NotJson(msg)
    return number


def _refuse_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        msg = "an object says one key twice"
        raise NotJson(msg)
    return found


def parse(text: str | bytes, *, unique_keys: bool = False) -> Any:
    """Return the value of a JSON text; raises `NotJson`, never `RecursionError`.

    Of a key that an object says twice the last value counts, which not every reader
    agrees with (RFC 8259, section 4); with `unique` such a text is refused.
    """
    try:
        text = text if isinstance(text, str) else text.decode("utf-8-sig")
        _check_limits(text)
        return json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_parse_float,
            object_pairs_hook=_refuse_duplicate_keys if unique_keys else None,
        )
    except NotJson:
        raise
    except RecursionError:
        raise NotJson(_TOO_DEEP) from None
    except ValueError as error:
        # Python refuses integers of over 4,300 digits with a plain ValueError.
        raise NotJson(str(error)) from None


def _check_limits(text: str) -> None:
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = opened = 0
    for found in _BRACKET.finditer(text):
        bracket = found[0]
        if bracket in "[{":
            depth += 1
            opened += 1
            if depth > MAX_DEPTH:
                raise NotJson(_TOO_DEEP)
            if opened > MAX_CONTAINERS:
                raise NotJson(_TOO_MANY)
        elif bracket in "]}":
            depth -= 1


def dump(value: object) -> str:
    """Return the compact JSON text of a value, with its keys in their own order.

    These are the settings of the openai client, so that joined texts are the very
    bytes which it would send. Raises `NotJson` for what JSON cannot hold.
    """
    return _dump(value, sort_keys=False)


def canonical(value: object) -> str:
    """Return the one text that stands for a value: sorted keys, no white space."""
    return _dump(value, sort_keys=True)


def _dump(value: object, *, sort_keys: bool) -> str:
    try:
        text = json.dumps(
            value,
            ensure_ascii=False,
            allow_nan=False,
            separators=(",", ":"),
            sort_keys=sort_keys,
        )
    except RecursionError:
        raise NotJson(_TOO_DEEP) from None
    except (TypeError, ValueError) as error:
        raise NotJson(str(error)) from None
    _refuse_lossy(value)
    return text


def _refuse_lossy(value: object) -> None:
    # json.dumps turns 1, None and True into string keys without a word, and a
    # tuple into a list; what is stored must come back equal. Comes after dumps,
    # which has proved that the value does not refer to itself.
    stack: list[tuple[object, int]] = [(value, 0)]
    containers = 0
    while stack:
        item, depth = stack.pop()
        if isinstance(item, dict | list):
            containers += 1
            if depth >= MAX_DEPTH:
                raise NotJson(_TOO_DEEP)
            if containers > MAX_CONTAINERS:
                raise NotJson(_TOO_MANY)
        if isinstance(item, dict):
            values = cast("dict[object, object]", item)
            for key in values:
                if not isinstance(key, str):
                    msg = f"the key {key!r} is not a string"
                    raise NotJson(msg)
            stack.extend((value, depth + 1) for value in values.values())
        elif isinstance(item, list):
            values_of = cast("list[object]", item)
            stack.extend((value, depth + 1) for value in values_of)
        elif isinstance(item, tuple):
            msg = "a tuple is not a JSON value"
            raise NotJson(msg)


def as_object(value: object) -> Mapping[str, Any] | None:
    """Return a value that is a JSON object, else `None`."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else None


def as_array(value: object) -> Sequence[Any] | None:
    """Return a value that is a JSON array, else `None`."""
    return cast("Sequence[Any]", value) if isinstance(value, list) else None


def normalize_integers(value: object) -> object:
    """Return a JSON value with 5 where it says 5.0.

    Both are one number to JSON and to JSON Schema, and only one of them is an integer
    to Python: what a schema took must not be refused later.
    """
    if (
        isinstance(value, float)
        and value.is_integer()
        and abs(value) < _MAX_EXACT_INTEGER
    ):
        return int(value)
    if isinstance(value, dict):
        values = cast("dict[str, object]", value)
        return {key: normalize_integers(item) for key, item in values.items()}
    if isinstance(value, list):
        return [normalize_integers(item) for item in cast("list[object]", value)]
    return value


def escape_surrogates(text: str) -> str:
    """Return a JSON text that any encoder takes: lone surrogates as escapes."""
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def digest(*parts: str) -> str:
    """Return the SHA-256 of texts, in hexadecimal; no two lists share one."""
    state = sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        state.update(len(data).to_bytes(8, "big"))
        state.update(data)
    return state.hexdigest()
