"""Normalize JSON that pydantic wrote: sets in one order, no number lost.

A set has another order in every process, and pydantic may write the infinities as
null (`ser_json_inf_nan`). Neither may change the arguments that a person approves.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from continuations.authoring.jsonvalues import is_array, is_object
from continuations.core import jsontext

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
        msg = f"{where} is {python_value}, which is not a JSON number"
        raise jsontext.NotJson(msg)
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
