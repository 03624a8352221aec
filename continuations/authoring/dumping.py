"""What pydantic wrote as JSON, with its sets in one order and no number lost.

A set has another order in every process, and pydantic may write the infinities as
null (`ser_json_inf_nan`): neither may decide what a person is shown.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from continuations.authoring.jsonvalues import is_array, is_object
from continuations.core import jsontext

# Named once: a check against them leaves the members' types open.
SETS: tuple[type[Any], ...] = (set, frozenset)
SEQUENCES: tuple[type[Any], ...] = (list, tuple, deque)
MAPPINGS: tuple[type[Any], ...] = (Mapping,)


def settled(plain: Any, data: Any, where: str) -> Any:
    """Return `data`, which is the JSON of `plain`, with sets in one order.

    Raises `NotJson` with the place where a number was lost.
    """
    if is_array(data):
        return _settled_array(plain, data, where)
    if is_object(data):
        return _settled_object(plain, data, where)
    if isinstance(plain, float) and not math.isfinite(plain):
        if isinstance(data, str):  # its type says how to write it
            return data
        msg = f"{where} is {plain}, which is no JSON number"
        raise jsontext.NotJson(msg)
    return data


def _settled_array(plain: Any, data: list[Any], where: str) -> list[Any]:
    if isinstance(plain, SETS):
        return in_order(data)
    if not isinstance(plain, SEQUENCES) or len(plain) != len(data):
        return data  # written by a serializer of the application's own
    pairs = enumerate(zip(plain, data, strict=True))
    return [settled(one, other, f"{where}[{at}]") for at, (one, other) in pairs]


def _settled_object(plain: Any, data: dict[str, Any], where: str) -> dict[str, Any]:
    if not isinstance(plain, MAPPINGS) or len(plain) != len(data):
        return data  # likewise
    pairs = zip(plain.values(), data.items(), strict=True)
    return {key: settled(one, each, member(where, key)) for one, (key, each) in pairs}


def in_order(members: list[Any]) -> list[Any]:
    """Return a set's members, as JSON, in an order of their own."""
    return sorted(members, key=jsontext.canonical)


def member(where: str, key: str) -> str:
    """Return the place of an object's member: `result.price`, `result['a b']`."""
    return f"{where}.{key}" if key.isidentifier() else f"{where}[{key[:60]!r}]"
