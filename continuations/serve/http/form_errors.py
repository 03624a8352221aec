"""Say at which fields the posted form of a wait is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.serve.http import answer_forms
from continuations.serve.pages.field_names import below

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.waits import Wait


def typed_fields(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the typed fields of a form, with the line ends of texts."""
    # Browsers send each line end as CR LF (HTML standard, 4.10.21.4).
    return {
        name: text.replace("\r\n", "\n")
        for name, text in fields.items()
        if name.startswith(answer_forms.PREFIX)
    }


def field_errors(wait: Wait, fields: Mapping[str, str]) -> dict[str, str]:
    """Return why the values of a form are refused, by their pointers.

    Raises `RequestRefused` for a form that no page has.
    """
    schema = wait.form_schema
    if fields.get("decision") == "answer":
        schema = wait.answer_schema
    if fields.get("as") != "fields" or schema is None:
        return {}
    read = answer_forms.read_fields(typed_fields(fields))
    return dict(read.errors) or value_errors(schema, read.value)


def value_errors(schema: Mapping[str, Any], value: object) -> dict[str, str]:
    """Return why a value does not fit a schema, by the pointers of its places."""
    from continuations.ledger.edits import schema_problems  # noqa: PLC0415 - loads jsonschema_rs

    errors: dict[str, str] = {}
    try:
        found = schema_problems(schema, jsontext.parse(jsontext.dump(value)))
    except (ValueError, RecursionError):
        return {"": "cannot be checked with its schema."}
    for place, message in found:
        pointer = ""
        for step in place:
            pointer = below(pointer, str(step))
        errors.setdefault(pointer, message)
    return errors
