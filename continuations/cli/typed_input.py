"""Ask a person for a value of a JSON type, one line for each of its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.cli.output import write_note
from continuations.core import jsontext
from continuations.present.escaping import escape_invisible
from continuations.present.form_fields import schema_fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations.present.form_fields import FormField

    # Shows the prompt and a text to edit; returns the line that the person typed.
    Ask = Callable[[str, str], str]

_TEXT_TYPES = ("string", "any value")


def ask_value(schema: dict[str, Any] | None, label: str, ask: Ask) -> Any:
    """Return a value for a JSON Schema: text as typed, everything else as JSON.

    An object with named fields has a line for each field. Whether the value fits the
    schema, the decision checks.
    """
    if schema is None or schema.get("type", "string") == "string":
        return ask(f"{label}: ", "")
    if jsontext.as_object(schema.get("properties")):
        return ask_fields(schema, ask)
    return ask_json(f"{label} ({schema.get('type', 'JSON')}): ", "", ask)


def ask_fields(schema: dict[str, Any], ask: Ask) -> dict[str, Any]:
    """Return an object, one line for each field; an empty line leaves a field out."""
    value: dict[str, Any] = {}
    for field in schema_fields(schema):
        typed = _ask_field(field, ask)
        if typed is not None:
            value[field.name] = typed
    return value


def _ask_field(field: FormField, ask: Ask) -> Any:
    prompt = f"{escape_invisible(field.text)}: "
    is_text = field.type.partition(" (")[0] in _TEXT_TYPES
    while True:
        line = ask(prompt, "")
        if not line and not field.required:
            return None
        if is_text:
            return line
        try:
            return jsontext.parse(line, lossless=True)
        except jsontext.NotJson:
            # A choice of texts is typed without quotes.
            if f'"{line}"' in field.type:
                return line
            write_note(f"{field.name} must be {field.type}, as JSON. Type it again.")


def ask_json(prompt: str, prefilled: str, ask: Ask) -> Any:
    """Return the JSON value that the person typed; ask again until it is JSON."""
    while True:
        line = prefilled = ask(prompt, prefilled)
        try:
            return jsontext.parse(line, lossless=True)
        except jsontext.NotJson as error:
            write_note(f"This is not JSON: {error}. Type it again.")
