"""One field of a form, or a group of fields, as `fields.html` prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionView:
    """One choice: the posted value, its text, and whether it is chosen."""

    name: str = ""
    value: str
    text: str
    is_chosen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldView:
    """One field of a form, or a group of fields.

    Attributes:
        kind: `object`, `text`, `line`, `number`, `date`, `time`, `select`, `checkbox`,
            `checkboxes` or `json`.
        id: The id of the element.
        name: The name that is posted.
        label: The words beside the field.
        hints: Further words: the description, the default, the old value.
        value: The text in the field.
        mode: The keyboard of a number: `numeric` or `decimal`.
        max_chars: The longest text, or 0.
        is_required: Whether the field must have a text.
        options: The choices of a `select`, a `checkbox` or `checkboxes`.
        parts: The fields of an `object`.
        error: Why the value is refused, or an empty text.
    """

    kind: str
    id: str
    name: str
    label: str
    hints: tuple[str, ...] = ()
    value: str = ""
    mode: str = ""
    max_chars: int = 0
    is_required: bool = False
    options: tuple[OptionView, ...] = ()
    parts: tuple[FieldView, ...] = ()
    error: str = ""


def field_errors_of(
    fields: tuple[FieldView, ...], errors: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """Return each error of a form with the id of its field, or an empty id."""
    shown: list[tuple[str, str]] = []
    texts: set[str] = set()
    rest = list(fields)
    while rest:
        each = rest.pop(0)
        rest[:0] = each.parts
        if each.error:
            shown.append((each.id, f"{each.label}: {each.error}"))
            texts.add(each.error)
    return (*shown, *(("", text) for text in errors.values() if text not in texts))
