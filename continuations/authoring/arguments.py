"""Validate the arguments that a model wrote, and make them effective.

This module imports pydantic; it is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

from continuations.authoring import strict_json
from continuations.authoring.errors import ArgumentsInvalid
from continuations.authoring.json_normalization import normalize_json
from continuations.authoring.jsonvalues import is_array, is_object
from continuations.authoring.strict_json import first_line, truncate
from continuations.core import jsontext
from continuations.errors import InvalidInput
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic.json_schema import JsonSchemaWarningKind
    from pydantic_core import ErrorDetails

_MAX_ERRORS = 10
_MAX_ERROR_LENGTH = 300
_DEFINITIONS_PREFIX = "#/$defs/"


class _Dumped(NamedTuple):
    """Arguments as Python values, as JSON in the same order, and as canonical JSON."""

    plain: Any
    data: Any
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentsValidator:
    """A validator of arguments, and their JSON Schema.

    Arguments are *effective* if validation does not change them any more: they
    contain the defaults, and every value has the form that the tool gets. A person
    approves effective arguments, and exactly these run.
    """

    adapter: TypeAdapter[Any]
    schema: Mapping[str, Any]

    @classmethod
    def from_adapter(cls, adapter: TypeAdapter[Any]) -> ArgumentsValidator:
        """Make the validator of a pydantic adapter; raises `InvalidInput`."""
        return cls(adapter=adapter, schema=schema_of(adapter))

    def effective_arguments(self, raw_arguments: str) -> str:
        """Return effective arguments as canonical JSON; raises `ArgumentsInvalid`."""
        effective = self._to_canonical_json(self.validate(raw_arguments))
        if self._to_canonical_json(self.validate(effective)) != effective:
            msg = (
                "The arguments change each time they are validated, so the approved"
                " arguments would not be the arguments that run."
            )
            raise ArgumentsInvalid(msg)
        return effective

    def validate(self, raw_arguments: str) -> Any:
        """Return arguments as Python values; raises `ArgumentsInvalid`."""
        data = strict_json.parse_arguments(raw_arguments)
        try:
            return self.adapter.validate_json(raw_arguments.strip() or "{}")
        except ValidationError as error:
            raise ArgumentsInvalid(describe_validation_error(error, data)) from None
        except Exception as error:
            # A validator of the application may raise any exception.
            msg = f"The arguments could not be checked ({type(error).__name__})."
            raise ArgumentsInvalid(msg) from error

    def validate_effective(self, arguments: str) -> Any:
        """Return effective arguments as Python values; raises `ArgumentsInvalid`.

        The values are written as JSON again and compared byte for byte with the text.
        """
        value = self.validate(arguments)
        if self._to_canonical_json(value) != arguments:
            msg = "These arguments now have another meaning; nothing ran."
            raise ArgumentsInvalid(msg)
        return value

    def find_edit_difference(self, edited_arguments: str) -> str | None:
        """Return the place where the tool would run with another value than an edit.

        Returns `None` if both mean the same. Raises `ArgumentsInvalid`.
        """
        from continuations.authoring import edit_comparison  # noqa: PLC0415 - only for edits

        edit = strict_json.parse_arguments(edited_arguments, lossless=True)
        dumped = self._dump(self.validate(edited_arguments))
        return edit_comparison.find_difference(
            edit, dumped.data, dumped.plain, self.schema
        )

    def _to_canonical_json(self, value: Any) -> str:
        return self._dump(value).text

    def _dump(self, value: Any) -> _Dumped:
        dump = self.adapter.dump_python
        try:
            data = dump(value, mode="json", by_alias=True, warnings="error")
            plain = dump(value, by_alias=True, warnings="error")
            text = jsontext.canonical(normalize_json(plain, data, "arguments"))
        except Exception as error:
            # From pydantic, from a serializer of the application, or NotJson.
            msg = f"The arguments have no JSON form ({type(error).__name__})."
            raise ArgumentsInvalid(msg) from error
        return _Dumped(plain, data, text)


def schema_of(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """Return the JSON Schema of an adapter's input; raises `InvalidInput`."""
    try:
        schema = adapter.json_schema(by_alias=True, schema_generator=_SchemaGenerator)
        schema = jsontext.parse(jsontext.dump(schema))
    except (PydanticUserError, jsontext.NotJson) as error:
        msg = (
            f"the type has no JSON Schema: {first_line(error)}. Use a type that JSON"
            " can hold."
        )
        raise InvalidInput(msg) from error
    if "$ref" in schema:
        # A type that contains itself. Providers want an object at the top.
        definition = schema["$defs"][
            schema.pop("$ref").removeprefix(_DEFINITIONS_PREFIX)
        ]
        schema = {**definition, **schema}
    schema.pop("title", None)
    return dict(schema)


class _SchemaGenerator(GenerateJsonSchema):
    """Make schemas without redundant titles, and equal ones in every process."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        del schema  # a title would only repeat the name
        return False

    def encode_default(self, dft: Any) -> Any:
        encoded = super().encode_default(dft)
        if isinstance(dft, set | frozenset):  # a set has another order in every process
            return sorted(encoded, key=jsontext.canonical)
        return encoded

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        if kind == "non-serializable-default":
            default = detail.removeprefix("Default value ").partition(" is not JSON")[0]
            msg = f"the default {default} has no JSON form. Use a default that has one."
            raise InvalidInput(msg)
        super().emit_warning(kind, detail)


# Error texts ------------------------------------------------------------------


def describe_validation_error(
    error: ValidationError, data: Any, *, subject: str = "arguments"
) -> str:
    """Return a text for the model, with one line for each error."""
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    verb = "are" if subject == "arguments" else "is"
    lines = [f"The {subject} {verb} not valid:"]
    lines += [f"- {_describe_error(each, data)}" for each in errors[:_MAX_ERRORS]]
    if len(errors) > _MAX_ERRORS:
        lines.append(f"- and {len(errors) - _MAX_ERRORS} more")
    return "\n".join(dict.fromkeys(lines))


def _describe_error(details: ErrorDetails, data: Any) -> str:
    where = error_location(details["loc"], data, missing=details["type"] == "missing")
    what = details["msg"].removeprefix("Value error, ")
    return truncate(f"{where}: {what}" if where else what, _MAX_ERROR_LENGTH)


def error_location(
    loc: Sequence[int | str], data: Any, *, missing: bool = False
) -> str:
    """Return the place of an error in the data, as `items[2].price`.

    pydantic puts the members of a union into the location too. Every step that is not
    a key or an index of the data is left out.
    """
    where = ""
    for index, step in enumerate(loc):
        last = missing and index == len(loc) - 1
        if isinstance(step, str) and is_object(data) and (step in data or last):
            where += f".{step}" if where else step
            data = data.get(step)
        elif is_array(data) and isinstance(step, int) and step < len(data):
            where += f"[{step}]"
            data = data[step]
    return truncate(where, 120)
