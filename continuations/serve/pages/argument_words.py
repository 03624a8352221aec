"""The arguments of a call in a few words."""

from __future__ import annotations

from continuations.core import jsontext
from continuations.core.visible_text import shorten


def arguments_text(arguments_json: str, max_chars: int) -> str:
    """Return arguments as `to: Kim, cents: 500`; a single one without its name."""
    if not arguments_json:
        return ""
    fields = jsontext.as_object(jsontext.parse(arguments_json))
    if fields is None:
        return shorten(arguments_json, max_chars)
    values = [_value_text(value, max_chars) for value in fields.values()]
    if len(values) == 1:
        return values[0]
    pairs = zip(fields, values, strict=True)
    return shorten(", ".join(f"{name}: {text}" for name, text in pairs), max_chars)


def _value_text(value: object, max_chars: int) -> str:
    text = value if isinstance(value, str) else jsontext.dump(value)
    return shorten(text, max_chars)
