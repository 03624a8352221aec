"""The fields of a form as people read them, from its JSON Schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from continuations.core import jsontext

if TYPE_CHECKING:
    from continuations.core.waits import Wait

_DEFINITIONS = "#/$defs/"


class FormField(NamedTuple):
    """One field of a form.

    Attributes:
        name: Its name.
        type: The JSON type of its value, or the values that it may have.
        required: Whether it must be filled in.
        description: Text of the application about it, or `None`.
    """

    name: str
    type: str
    required: bool
    description: str | None

    @property
    def text(self) -> str:
        """The field in one line: `limit: integer, required`."""
        need = "required" if self.required else "optional"
        text = f"{self.name}: {self.type}, {need}"
        return f"{text}. {self.description}" if self.description else text


def form_fields(wait: Wait) -> tuple[FormField, ...]:
    """Return the fields of the form that an approval needs, the required ones first."""
    return schema_fields(wait.form_schema or {})


def schema_fields(schema: dict[str, Any]) -> tuple[FormField, ...]:
    """Return the fields of an object with this schema, the required ones first."""
    properties = jsontext.as_object(schema.get("properties")) or {}
    required = jsontext.as_array(schema.get("required")) or ()
    # The stored schema has its properties by name, and `required` as declared.
    names = [name for name in required if name in properties]
    names += [name for name in properties if name not in required]
    return tuple(
        _field(name, properties[name], schema, required=name in required)
        for name in names
    )


def _field(
    name: str, shape: object, schema: dict[str, Any], *, required: bool
) -> FormField:
    own = jsontext.as_object(shape) or {}
    description = own.get("description")
    return FormField(
        name=name,
        type=_type_text(own, schema),
        required=required,
        description=description if isinstance(description, str) else None,
    )


def _type_text(shape: Any, schema: dict[str, Any], *, may_refer: bool = True) -> str:
    """Return what a value may be, in short; the schema itself says it whole."""
    values = jsontext.as_array(shape.get("enum"))
    if values:
        return "one of " + ", ".join(map(jsontext.canonical, values))
    options = jsontext.as_array(shape.get("anyOf"))
    if options:
        shapes = [jsontext.as_object(option) or {} for option in options]
        texts = [_type_text(each, schema, may_refer=may_refer) for each in shapes]
        return " or ".join(texts)
    reference = shape.get("$ref")
    if may_refer and isinstance(reference, str) and reference.startswith(_DEFINITIONS):
        definitions = jsontext.as_object(schema.get("$defs")) or {}
        named = definitions.get(reference.removeprefix(_DEFINITIONS))
        return _type_text(jsontext.as_object(named) or {}, schema, may_refer=False)
    kind, style = shape.get("type"), shape.get("format")
    if not isinstance(kind, str):
        return "any value"
    return f"{kind} ({style})" if isinstance(style, str) else kind
