"""Typed forms for answers: one field for each part of the value, without a script.

A field is named `value:KIND:POINTER`. The pointer is a JSON Pointer (RFC 6901) into the
value. The kind says how its text is read:

    text      the text itself
    number    a number
    json      JSON, for choices, lists and everything else
    object    an object whose parts have fields of their own

`text?`, `number?` and `json?` are left out of the value if the field is empty. A form
says nothing about the wait: the value is checked with the schema of the stored wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.present.escaping import escape_invisible
from continuations.present.json_forms import MAX_TEXT_CHARS
from continuations.serve.http import problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PREFIX = "value:"
_MAX_DEPTH = 5
_NUMBERS = {"integer": "numeric", "number": "decimal"}
_NO_NUMBER = "{} must be a number. Write digits, for example 12."
_DATES = {"date": "date", "time": "time"}


# Making a form -----------------------------------------------------------------------


def fields_html(schema: Mapping[str, Any], label: str) -> str:
    """Return the fields of a form for a value that fits a JSON Schema."""
    return "".join(_Form(schema).part(schema, label, "", is_required=True))


@dataclass(frozen=True, slots=True)
class _Form:
    root: Mapping[str, Any]

    def part(
        self, given: Mapping[str, Any], label: str, pointer: str, *, is_required: bool
    ) -> Iterator[str]:
        """Yield the fields of one part of the value."""
        schema = self._resolved(given)
        properties = jsontext.as_object(schema.get("properties"))
        has_parts = schema.get("type") == "object" and is_required
        is_deep = pointer.count("/") >= _MAX_DEPTH
        if properties and has_parts and not is_deep:
            yield self._object(schema, properties, label, pointer)
        else:
            yield self._leaf(schema, given, label, pointer, is_required=is_required)

    def _object(
        self,
        schema: Mapping[str, Any],
        properties: Mapping[str, Any],
        label: str,
        pointer: str,
    ) -> str:
        # Stored schemas have sorted keys; this list has the order of the declaration.
        required = [n for n in schema.get("required") or () if n in properties]
        rows = [f'<input type="hidden" name="{_name("object", pointer)}" value="">']
        for name in dict.fromkeys([*required, *properties]):
            part = jsontext.as_object(properties[name]) or {}
            title = part.get("title")
            words = title if isinstance(title, str) else _words(name)
            escaped = name.replace("~", "~0").replace("/", "~1")
            below = f"{pointer}/{escaped}"
            rows += self.part(part, words, below, is_required=name in required)
        fields = "".join(rows)
        return f"<fieldset><legend>{_text(label)}</legend>{fields}</fieldset>"

    def _leaf(
        self,
        schema: Mapping[str, Any],
        given: Mapping[str, Any],
        label: str,
        pointer: str,
        *,
        is_required: bool,
    ) -> str:
        type_ = schema.get("type")
        choices = jsontext.as_array(schema.get("enum"))
        if "const" in schema:
            choices = [schema["const"]]
        elif type_ == "boolean":
            choices = [True, False]
        mark = "" if is_required else "?"
        needed = " required" if is_required else ""
        if choices is not None:
            options = "".join(map(_option, choices))
            field = (
                f'<select name="{_name("json" + mark, pointer)}"{needed}>'
                f'<option value="">Choose one</option>{options}</select>'
            )
        elif type_ in _NUMBERS:
            field = (
                f'<input name="{_name("number" + mark, pointer)}" '
                f'inputmode="{_NUMBERS[str(type_)]}" autocomplete="off"{needed}>'
            )
        elif type_ == "string" and schema.get("format") in _DATES:
            kind = _DATES[str(schema["format"])]
            name = _name("text" + mark, pointer)
            field = f'<input type="{kind}" name="{name}"{needed}>'
        else:
            kind = "text" if type_ == "string" else "json"
            label = label if kind == "text" else f"{label}, as JSON"
            field = (
                f'<textarea name="{_name(kind + mark, pointer)}" rows="1" '
                f'maxlength="{MAX_TEXT_CHARS}"{needed}></textarea>'
            )
        optional = "" if is_required else " (optional)"
        return f"<label>{_text(label)}{optional}{_hint(schema, given)}{field}</label>"

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a schema without a reference, and without an alternative of null."""
        for _ in range(_MAX_DEPTH):
            options = [
                each
                for each in map(jsontext.as_object, schema.get("anyOf") or ())
                if each is not None and each.get("type") != "null"
            ]
            reference = schema.get("$ref")
            if isinstance(reference, str) and reference.startswith("#/$defs/"):
                definitions = jsontext.as_object(self.root.get("$defs")) or {}
                name = reference.removeprefix("#/$defs/")
                schema = jsontext.as_object(definitions.get(name)) or {}
            elif len(options) == 1:
                schema = options[0]
            else:
                break
        return schema


def _hint(schema: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """Return the description of a part, and its default."""
    description = given.get("description", schema.get("description"))
    parts = [description] if isinstance(description, str) else []
    if given.get("default") is not None:
        parts.append(f"Default: {jsontext.dump(given['default'])}")
    return "".join(f"<small>{_text(each)}</small>" for each in parts)


def _option(value: object) -> str:
    words = {True: "Yes", False: "No"}.get(value) if type(value) is bool else None
    shown = words or (value if isinstance(value, str) else jsontext.dump(value))
    return f'<option value="{_text(jsontext.dump(value))}">{_text(shown)}</option>'


def _name(kind: str, pointer: str) -> str:
    return escape(f"{PREFIX}{kind}:{pointer}")


def _words(name: str) -> str:
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:]


def _text(text: str) -> str:
    return escape(escape_invisible(text))


# Reading a form ----------------------------------------------------------------------


def value_from_fields(fields: Mapping[str, str]) -> Any:
    """Return the value of the typed fields of a form; raise `RequestRefused`."""
    holder: dict[str, Any] = {}
    # A browser sends the fields of a page in their order: an object before its parts.
    for name, text in fields.items():
        kind, _, pointer = name.removeprefix(PREFIX).partition(":")
        if kind.endswith("?") and not text:
            continue
        *above, last = ["", *map(_unescaped, pointer.split("/")[1:])]
        place: Any = holder
        for step in above:
            found = jsontext.as_object(place)
            place = None if found is None else found.get(step)
        if not isinstance(place, dict) or last in place or pointer[:1] not in ("", "/"):
            msg = f'The field "{name:.80}" has no place. Open the page again.'
            raise problems.malformed(msg)
        place[last] = _value(kind.removesuffix("?"), text, pointer.strip("/"))
    if "" not in holder:
        raise problems.malformed("The form has no value. Open the page again.")
    return holder[""]


def _value(kind: str, text: str, place: str) -> Any:
    if kind == "object":
        return {}
    if kind == "text":
        return text
    if kind not in ("number", "json"):
        msg = f'The kind "{kind:.20}" of a field is unknown. Open the page again.'
        raise problems.malformed(msg)
    what = f'"{place}"' if place else "The answer"
    try:
        value = jsontext.parse(text.strip(), lossless=True)
    except jsontext.NotJson as error:
        if kind == "number":
            raise problems.malformed(_NO_NUMBER.format(what)) from None
        msg = f"{what} is not JSON: {error}. Write a text in quotes, or a number."
        raise problems.malformed(msg) from None
    if kind == "number" and type(value) not in (int, float):
        raise problems.malformed(_NO_NUMBER.format(what))
    return value


def _unescaped(step: str) -> str:
    return step.replace("~1", "/").replace("~0", "~")
