"""The first difference between a recorded JSON value and another one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from continuations.testing.json_parts import fields_of, items_of
from continuations.testing.secret_removal import REMOVED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_ABSENT = object()
_SHOWN = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference.

    Attributes:
        path: Place of the value, for example `messages[2].content`.
        recorded: The recorded value, shortened to the part that differs.
        given: The other value, shortened likewise.
    """

    path: str
    recorded: str
    given: str


def first_difference(recorded: Any, given: Any, path: str = "") -> Difference | None:
    """Return the first difference, or `None` for equal values.

    A part of a recorded text that was removed as a secret equals any text.
    """
    fields, other_fields = fields_of(recorded), fields_of(given)
    if fields is not None and other_fields is not None:
        return _first(_fields(fields, other_fields, path))
    items, other_items = items_of(recorded), items_of(given)
    if items is not None and other_items is not None:
        return _first(_items(items, other_items, path))
    if isinstance(recorded, str) and isinstance(given, str):
        return _text_difference(recorded, given, path)
    if recorded == given and type(recorded) is type(given):
        return None
    return Difference(path=path, recorded=_short(recorded), given=_short(given))


def _fields(
    recorded: Mapping[str, Any], given: Mapping[str, Any], path: str
) -> Iterator[tuple[Any, Any, str]]:
    for name in sorted(recorded.keys() | given.keys()):
        place = f"{path}.{name}" if path else name
        yield recorded.get(name, _ABSENT), given.get(name, _ABSENT), place


def _items(
    recorded: Sequence[Any], given: Sequence[Any], path: str
) -> Iterator[tuple[Any, Any, str]]:
    pairs = zip_longest(recorded, given, fillvalue=_ABSENT)
    for index, (left, right) in enumerate(pairs):
        yield left, right, f"{path}[{index}]"


def _first(parts: Iterator[tuple[Any, Any, str]]) -> Difference | None:
    found = (first_difference(left, right, path) for left, right, path in parts)
    return next((each for each in found if each is not None), None)


def _text_difference(recorded: str, given: str, path: str) -> Difference | None:
    if recorded == given or _fits(recorded, given):
        return None
    pairs = enumerate(zip_longest(recorded, given))
    start = next(index for index, (left, right) in pairs if left != right)
    return Difference(
        path=f"{path}, character {start + 1}",
        recorded=_part(recorded, start),
        given=_part(given, start),
    )


def _fits(recorded: str, given: str) -> bool:
    if REMOVED not in recorded:
        return False
    pattern = ".*?".join(map(re.escape, recorded.split(REMOVED)))
    return re.fullmatch(pattern, given, re.DOTALL) is not None


def _part(text: str, start: int) -> str:
    return _short(text[max(0, start - _SHOWN // 2) :])


def _short(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
