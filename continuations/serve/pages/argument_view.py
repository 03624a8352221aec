"""Every argument of a call, whole: its name, its reading, its value, its marks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.present.escaping import escape_invisible
from continuations.present.json_forms import indented_json
from continuations.present.wait_parts import MASK_NOTE, wait_parts
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.waits import Wait
    from continuations.present.wait_parts import ArgumentPart


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentView:
    """One argument.

    Attributes:
        name: Its name.
        description: Its description in the schema, or an empty text.
        readings: Texts by which people understand the value; they stand above it.
        value: The raw value, whole: JSON, or a text that needs no quotes.
        marks: Words beside the value: a default, a secret, the old value of a change.
    """

    name: str
    description: str
    readings: tuple[str, ...]
    value: str
    marks: tuple[str, ...]


def argument_views(
    wait: Wait, before: Mapping[str, object] | None = None
) -> tuple[ArgumentView, ...]:
    """Return all arguments of a wait.

    Args:
        wait: The wait. For an edit, its arguments are those of the edit.
        before: The arguments before the edit, by their names.

    Returns:
        One view for each argument, the required ones first.
    """
    parts = {part.name: part for part in wait_parts(wait).arguments}
    # Stored arguments have sorted names; this list has the order of the declaration.
    required = jsontext.as_array(wait.schema.get("required")) or ()
    names = dict.fromkeys([*(n for n in required if n in parts), *parts])
    return tuple(_view(parts[n], _changes(parts[n], before)) for n in names)


def value_text(text: str) -> str:
    """Return a JSON text as people read it: whole, a text without quotes if possible.

    A text keeps its quotes if it is empty, looks like another JSON value, begins or
    ends with a space, or contains a backslash or an invisible character.
    """
    value = jsontext.parse(text)
    if isinstance(value, str) and _needs_no_quotes(value):
        return value
    return indented_json(text)


def _view(part: ArgumentPart, changes: tuple[str, ...]) -> ArgumentView:
    marks = [MASK_NOTE] if part.is_secret else []
    marks += ["default"] if part.is_default else []
    return ArgumentView(
        name=part.name,
        description=part.description or "",
        readings=tuple(
            text if place == part.name else f"{place}: {text}"
            for place, text in part.readings.items()
        ),
        value=value_text(part.value),
        marks=(*marks, *changes),
    )


def _changes(
    part: ArgumentPart, before: Mapping[str, object] | None
) -> tuple[str, ...]:
    if before is None:
        return ()
    if part.name not in before:
        return ("added by you",)
    old = jsontext.dump(before[part.name])
    if jsontext.canonical(jsontext.parse(part.value)) == jsontext.canonical(
        before[part.name]
    ):
        return ()
    return (f"changed, was {old}",)


def _needs_no_quotes(text: str) -> bool:
    lines = text.split("\n")
    if not text or text != text.strip() or "\\" in text:
        return False
    if any(escape_invisible(line) != line for line in lines):
        return False
    try:
        jsontext.parse(text)
    except jsontext.NotJson:
        return True
    return False
