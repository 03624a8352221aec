"""Read and write JSON texts, within limits that hold everywhere.

Arguments, messages, results and schemas are stored as JSON text. So integers of any
size, lone surrogates, key order and unknown fields come back equal, and stored text is
never code. NaN and infinities are not JSON (RFC 8259, section 6) and are rejected.
"""

from __future__ import annotations

import json
import math
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NoReturn, cast

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

# Python's json module is recursive: the depth that it can read depends on the stack of
# its caller. Stored text must load everywhere, so this limit is below all of those.
MAX_DEPTH = 200
# Arrays and objects in one text: each takes 30 times its two characters in memory.
MAX_CONTAINERS = 1 << 20
# Larger integers cannot all be represented as floats.
_MAX_EXACT_INTEGER = 1 << 53
_TOO_DEEP = f"it is nested deeper than {MAX_DEPTH} levels"
_TOO_MANY = f"it has more than {MAX_CONTAINERS} arrays and objects"
# A string, even one without an end, is one match: each character is read once.
_BRACKET = r'(?s:"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[{]|[\]}])'


class NotJson(ValueError):
    """A value cannot be written as JSON, or a text is not JSON."""


def _refuse_constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is not a JSON number")


def _parse_float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise NotJson(f"the number {digits[:40]} is too large")
    return number


def parse_exact_float(digits: str) -> float:
    """Return a float that keeps every digit of a JSON number; raises `NotJson`."""
    from decimal import Decimal  # noqa: PLC0415 - only for texts that people write

    number = _parse_float(digits)
    try:
        is_exact = Decimal(repr(number)) == Decimal(digits)
    except ArithmeticError:  # the exponent is out of all bounds
        is_exact = False
    if is_exact:
        return number
    raise NotJson(
        f"the number {digits[:40]} has more digits than a float keeps; round it, or "
        "write it as a string"
    )


def _refuse_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise NotJson("an object has the same key twice")
    return values


_SCALAR_TYPES = frozenset({str, int, float, bool, type(None)})
# json.dumps would make an encoder for each value, and json.loads a decoder for each
# text.
_ENCODER, _CANONICAL_ENCODER = (
    json.JSONEncoder(
        ensure_ascii=False,
        allow_nan=False,
        separators=(",", ":"),
        sort_keys=sort_keys,
    )
    for sort_keys in (False, True)
)
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_parse_float)
_PARSED_AT_ONCE = 256
_LOSSLESS_DECODER = json.JSONDecoder(
    parse_constant=_refuse_constant,
    parse_float=parse_exact_float,
    object_pairs_hook=_refuse_duplicate_keys,
)


def parse(text: str | bytes, *, lossless: bool = False) -> Any:
    """Return the value of a JSON text; raises `NotJson`, never `RecursionError`.

    If an object has the same key twice, the last value counts. Other JSON readers may
    disagree (RFC 8259, section 4). A number with many digits is rounded. So
    `lossless=True`, for a text that a person wrote, rejects both.
    """
    try:
        text = text if isinstance(text, str) else text.decode("utf-8-sig")
        check_limits(text)
        return _decoded(text, _LOSSLESS_DECODER if lossless else _DECODER)
    except NotJson:
        raise
    except RecursionError:
        raise NotJson(_TOO_DEEP) from None
    except ValueError as error:
        # Python raises a plain ValueError for integers of more than 4,300 digits.
        raise NotJson(str(error)) from None


def _decoded(text: str, decoder: json.JSONDecoder) -> Any:
    # `decode` looks for white space first, which takes longer than a short text.
    if text[:1].isspace():
        return decoder.decode(text)
    value, end = decoder.raw_decode(text)
    return value if end == len(text) else decoder.decode(text)


def parse_all(texts: Sequence[str]) -> list[Any]:
    """Return the values of many JSON texts, faster than one by one.

    Each of them is known to be JSON. Raises `NotJson`.
    """
    values: list[Any] = []
    for first in range(0, len(texts), _PARSED_AT_ONCE):
        some = texts[first : first + _PARSED_AT_ONCE]
        for text in some:
            check_limits(text)
        parsed = _DECODER.decode(f"[{','.join(some)}]")
        if len(parsed) != len(some):
            raise NotJson("a text is more than one value")
        values += parsed
    return values


def check_limits(text: str) -> None:
    """Raise `NotJson` if a JSON text has too many levels, or too many containers."""
    if len(text) <= MAX_DEPTH or text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = opened = 0
    for match in re.finditer(_BRACKET, text):
        bracket = match[0]
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

    The settings are those of the openai client, so that joined texts are the same
    bytes that the client would send. Raises `NotJson` if JSON cannot hold the value.
    """
    return _dump(value, _ENCODER)


def canonical(value: object) -> str:
    """Return the canonical JSON text of a value: sorted keys, no white space."""
    return _dump(value, _CANONICAL_ENCODER)


def _dump(value: object, encoder: json.JSONEncoder) -> str:
    try:
        text = encoder.encode(value)
    except RecursionError:
        raise NotJson(_TOO_DEEP) from None
    except (TypeError, ValueError) as error:
        raise NotJson(str(error)) from None
    _refuse_lossy(value)
    return text


def _refuse_lossy(value: object) -> None:
    # A stored value must come back equal, but json.dumps silently turns the keys 1,
    # None and True into strings and a tuple into a list. This check runs after dumps,
    # which proves that the value does not contain itself.
    level: list[object] = [value]
    depth = containers = 0
    while level:
        next_level: list[object] = []
        for item in level:
            if type(item) in _SCALAR_TYPES:
                continue
            if isinstance(item, dict):
                fields = cast("dict[object, object]", item)
                _refuse_other_keys(fields)
                next_level += _but_scalars(fields.values())
            elif isinstance(item, list):
                next_level += _but_scalars(cast("list[object]", item))
            elif isinstance(item, tuple):
                raise NotJson("a tuple is not a JSON value")
            else:
                continue
            containers += 1
            if depth >= MAX_DEPTH:
                raise NotJson(_TOO_DEEP)
            if containers > MAX_CONTAINERS:
                raise NotJson(_TOO_MANY)
        level = next_level
        depth += 1


def _but_scalars(items: Collection[object]) -> Collection[object]:
    """Return items, or nothing if all are scalars: most values are flat."""
    return () if _SCALAR_TYPES.issuperset(map(type, items)) else items


def _refuse_other_keys(fields: Mapping[object, object]) -> None:
    for key in fields:
        if type(key) is not str and not isinstance(key, str):
            raise NotJson(f"the key {key!r} is not a string")


def as_object(value: object) -> Mapping[str, Any] | None:
    """Return the value if it is a JSON object, else `None`."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else None


def as_array(value: object) -> Sequence[Any] | None:
    """Return the value if it is a JSON array, else `None`."""
    return cast("Sequence[Any]", value) if isinstance(value, list) else None


def normalize_integers(value: object) -> object:
    """Return a JSON value with floats such as 5.0 replaced by integers such as 5.

    JSON and JSON Schema do not distinguish the two, but Python does. A value that the
    schema accepts must not be rejected later.
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
    """Return the JSON text with lone surrogates as escapes, for UTF-8 encoders."""
    return text.encode(errors="backslashreplace").decode()


def digest(*parts: str) -> str:
    """Return the SHA-256 of a list of texts, in hexadecimal.

    Each text is hashed with its length, so that `("ab", "c")` and `("a", "bc")` differ.
    """
    state = sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        state.update(len(data).to_bytes(8, "big"))
        state.update(data)
    return state.hexdigest()


def refuse_reference(uri: str) -> NoReturn:
    """Raise `ValueError`, so that a JSON Schema cannot make a process fetch a URL."""
    raise ValueError(f"the schema refers to another document ({uri[:80]!r})")
