"""JSON of models, read strictly; JSON of pydantic, normalized; words for both.

The person who approves a call and the tool that runs must see the same values.

JSON that pydantic wrote is normalized. A set has another order in every process, and
pydantic may write the infinities as null (`ser_json_inf_nan`). Neither may change the
arguments that a person approves.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Mapping
from typing import Any, NoReturn, TypeGuard

from continuations.authoring.errors import ArgumentsInvalid
from continuations.core import jsontext


def parse_strict(text: str, *, lossless: bool = False) -> Any:
    """Return the value of a JSON text; raises `NotJson` with a text for the model.

    Beside text that is not JSON, these are refused:

    - a key that one object has twice
    - NaN and the infinities
    - numbers that are too large for a float, integers of over 4,300 digits
    - lone surrogates
    - too many levels
    - with `lossless`, numbers that a float would round
    """
    try:
        # The decoder of a later Python may accept any depth.
        jsontext.check_limits(text)
        data = json.loads(
            text,
            object_pairs_hook=_refuse_duplicate_keys,
            parse_constant=_refuse_constant,
            parse_float=jsontext.parse_exact_float if lossless else _parse_float,
            parse_int=_parse_int,
        )
        # Raises for a lone surrogate, written or escaped.
        f"{text}{jsontext.canonical(data)}".encode()
    except jsontext.NotJson:
        raise
    except UnicodeEncodeError:
        msg = "it contains a lone surrogate, which is not a character"
        raise jsontext.NotJson(msg) from None
    except ValueError as error:
        raise jsontext.NotJson(str(error)) from None
    return data


def parse_arguments(raw_arguments: str, *, lossless: bool = False) -> dict[str, Any]:
    """Return the JSON object that a model or a person wrote as arguments.

    An empty text stands for `{}`: some models write nothing for no arguments.

    Raises:
        ArgumentsInvalid: The text is not one JSON object; the error is for the model.
    """
    try:
        data = parse_strict(raw_arguments.strip() or "{}", lossless=lossless)
    except jsontext.NotJson as error:
        raise ArgumentsInvalid(f"The arguments are not valid JSON: {error}.") from None
    if is_object(data):
        return data
    msg = "The arguments are not a JSON object: write {...} with a key for each one."
    raise ArgumentsInvalid(msg)


def _refuse_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Readers differ on which of the two counts (RFC 8259, section 4).
    data = dict(pairs)
    if len(data) == len(pairs):
        return data
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            msg = f"the key {truncate(key, 60)!r} occurs twice in one object"
            raise jsontext.NotJson(msg)
        seen.add(key)
    return data


def _refuse_constant(name: str) -> NoReturn:
    raise jsontext.NotJson(f"{name} is not a JSON number")


def _parse_float(digits: str) -> float:
    number = float(digits)
    if math.isfinite(number):
        return number
    raise jsontext.NotJson(f"the number {truncate(digits, 30)} is too large")


def _parse_int(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:  # CPython reads at most 4,300 digits
        msg = f"the number {truncate(digits, 30)} is too large"
        raise jsontext.NotJson(msg) from None


def truncate(text: str, length: int) -> str:
    """Cut a text to a number of characters; a cut text ends with an ellipsis."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def first_line(error: BaseException, length: int = 300) -> str:
    """Return the first line of an error's text, cut to a length, without a full stop.

    The advice of pydantic to allow arbitrary types is left out: such a type has no JSON
    Schema.
    """
    line = str(error).partition("\n")[0].partition(" Set `arbitrary_types")[0]
    return truncate(line, length).rstrip(".")


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Return whether a value is a JSON object."""
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    """Return whether a value is a JSON array."""
    return isinstance(value, list)


# Constants: after `isinstance` with them, type checkers leave the members open.
SET_TYPES: tuple[type[Any], ...] = (set, frozenset)
SEQUENCE_TYPES: tuple[type[Any], ...] = (list, tuple, deque)
MAPPING_TYPES: tuple[type[Any], ...] = (Mapping,)


def normalize_json(python_value: Any, json_value: Any, where: str) -> Any:
    """Return `json_value`, the JSON of `python_value`, with sets in one order.

    Raises `NotJson` with the place of a number that was lost.
    """
    if is_array(json_value):
        return _normalize_array(python_value, json_value, where)
    if is_object(json_value):
        return _normalize_object(python_value, json_value, where)
    if isinstance(python_value, float) and not math.isfinite(python_value):
        if isinstance(json_value, str):  # the type of the value defines its JSON
            return json_value
        raise jsontext.NotJson(f"{where} is {python_value}, which is not a JSON number")
    return json_value


def _normalize_array(python_value: Any, json_value: list[Any], where: str) -> list[Any]:
    if isinstance(python_value, SET_TYPES):
        return sorted_by_json(json_value)
    if not isinstance(python_value, SEQUENCE_TYPES) or len(python_value) != len(
        json_value
    ):
        return json_value  # a serializer of the application wrote it
    pairs = zip(python_value, json_value, strict=True)
    return [
        normalize_json(python_item, json_item, f"{where}[{index}]")
        for index, (python_item, json_item) in enumerate(pairs)
    ]


def _normalize_object(
    python_value: Any, json_value: dict[str, Any], where: str
) -> dict[str, Any]:
    if not isinstance(python_value, MAPPING_TYPES) or len(python_value) != len(
        json_value
    ):
        return json_value  # a serializer of the application wrote it
    pairs = zip(python_value.values(), json_value.items(), strict=True)
    return {
        key: normalize_json(python_member, json_member, member_location(where, key))
        for python_member, (key, json_member) in pairs
    }


def sorted_by_json(members: list[Any]) -> list[Any]:
    """Return the members of a set, as JSON values, sorted by their JSON text."""
    return sorted(members, key=jsontext.canonical)


def member_location(where: str, key: str) -> str:
    """Return the place of a member of an object: `result.price`, `result['a b']`."""
    return f"{where}.{key}" if key.isidentifier() else f"{where}[{key[:60]!r}]"
