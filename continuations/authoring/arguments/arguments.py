"""Validate the arguments that a model wrote, and compare those that a person edited.

An edit and the arguments of the tool are equal if a person would read the same values
in both. Examples are `500` and `500.0`, `+00:00` and `Z`, and the members of a set in
another order. A default that the schema shows may be left out of the edit. Every other
difference is a value that the person did not approve.

The JSON alone does not tell: `"1.0"` and `"1"` are equal as decimals and differ as
texts. So the Python values that the tool would get decide how two texts are compared.
Nothing is compared by validating the edit again, because a validator that changes a
value changes it both times.

This module imports pydantic; it is imported on first use.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from datetime import datetime, time, timedelta
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast, get_args, get_origin
from uuid import UUID

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import (
    PydanticSerializationError,
    PydanticUndefined,
    to_jsonable_python,
)

from continuations.authoring import readings
from continuations.authoring.arguments import json_values
from continuations.authoring.arguments.json_values import (
    MAPPING_TYPES,
    SEQUENCE_TYPES,
    SET_TYPES,
    first_line,
    is_array,
    is_object,
    member_location,
    normalize_json,
    truncate,
)
from continuations.authoring.callables import (
    check_tool_function,
    is_context_type,
    parameter_type,
)
from continuations.authoring.errors import ArgumentsInvalid
from continuations.core import jsontext
from continuations.errors import InvalidInput
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pydantic.json_schema import JsonSchemaWarningKind
    from pydantic_core import ErrorDetails

    from continuations.authoring.readings import Reading


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

    Attributes:
        adapter: The pydantic adapter of the arguments.
        schema: Their JSON Schema.
        names_by_field: The names of the arguments by the fields of the model that
            `make_arguments_validator` made; `None` for a type of the application.
    """

    adapter: TypeAdapter[Any]
    schema: Mapping[str, Any]
    names_by_field: Mapping[str, str] | None = None

    @classmethod
    def from_adapter(cls, adapter: TypeAdapter[Any]) -> ArgumentsValidator:
        """Make the validator of a pydantic adapter; raises `InvalidInput`."""
        return cls(adapter=adapter, schema=schema_of(adapter))

    def effective_arguments(self, raw_arguments: str) -> str:
        """Return effective arguments as canonical JSON; raises `ArgumentsInvalid`."""
        effective = self._to_canonical_json(self.validate(raw_arguments))
        if self._to_canonical_json(self.validate(effective)) != effective:
            raise ArgumentsInvalid(
                "The arguments change each time they are validated, so the approved"
                " arguments would not be the arguments that run."
            )
        return effective

    def validate(self, raw_arguments: str) -> Any:
        """Return arguments as Python values; raises `ArgumentsInvalid`."""
        data = json_values.parse_arguments(raw_arguments)
        text = raw_arguments.strip() or "{}"
        return validated(self.adapter, text, data, "arguments", ArgumentsInvalid)

    def validate_effective(self, arguments: str) -> Any:
        """Return effective arguments as Python values; raises `ArgumentsInvalid`.

        The values are written as JSON again and compared byte for byte with the text.
        """
        value = self.validate(arguments)
        if self._to_canonical_json(value) != arguments:
            msg = "These arguments now have another meaning; nothing ran."
            raise ArgumentsInvalid(msg)
        return value

    def values_by_name(self, arguments: str) -> dict[str, Any]:
        """Return effective arguments as Python values by name.

        Raises `ArgumentsInvalid` if they are not effective in this process.
        """
        value = self.validate_effective(arguments)
        if self.names_by_field is not None:
            return {
                name: getattr(value, key) for key, name in self.names_by_field.items()
            }
        match value:
            case dict():
                return {**value}
            case BaseModel():
                names = list(type(value).model_fields)
            case _:
                names = [each.name for each in fields(value)]
        return {name: getattr(value, name) for name in names}

    def find_edit_difference(self, edited_arguments: str) -> str | None:
        """Return the place where the tool would run with another value than an edit.

        Returns `None` if both mean the same. Raises `ArgumentsInvalid`.
        """
        edit = json_values.parse_arguments(edited_arguments, lossless=True)
        dumped = self._dump(self.validate(edited_arguments))
        return find_difference(edit, dumped.data, dumped.plain, self.schema)

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


def validated(
    adapter: TypeAdapter[Any],
    text: str,
    data: Any,
    subject: str,
    error_class: type[Exception],
) -> Any:
    """Return a JSON text as a value of a type.

    Args:
        adapter: The pydantic adapter of the type.
        text: The JSON text.
        data: The same as JSON values, for the places in the error.
        subject: The kind of the text, for the error: "arguments", "output" or "answer".
        error_class: The error for a text that does not fit, with a text for the model.
    """
    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        why = describe_validation_error(error, data, subject=subject)
        raise error_class(why) from None
    except Exception as error:
        # A validator of the application may raise any exception.
        msg = f"The {subject} could not be checked ({type(error).__name__})."
        raise error_class(msg) from error


def schema_of(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """Return the JSON Schema of an adapter's input; raises `InvalidInput`."""
    try:
        schema = adapter.json_schema(by_alias=True, schema_generator=_SchemaGenerator)
        schema = jsontext.parse(jsontext.dump(schema))
    except (PydanticUserError, jsontext.NotJson) as error:
        raise InvalidInput(
            f"the type has no JSON Schema: {first_line(error)}. Use a type that JSON"
            " can hold."
        ) from error
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


_MISSING = object()
_DEFINITIONS = re.compile(r"#/(\$defs|definitions)/(.+)")
# Each one is compared with each other. A larger set with more is called different.
_MAX_RESPELLED_MEMBERS = 100
_BRANCHES = ("anyOf", "oneOf", "allOf")


def find_difference(
    edit: Any, written: Any, bound: Any, schema: Mapping[str, Any]
) -> str | None:
    """Return the place where a tool would run with another value than the edit.

    Args:
        edit: The arguments that the person wrote, as JSON.
        written: The arguments that the tool would run with, as JSON.
        bound: The same as Python values, in containers of the same order.
        schema: The JSON Schema that the person saw.

    Returns:
        A place such as `items[2].price`; `None` if both mean the same.
    """
    comparison = _Comparison(schema)
    return comparison.difference(edit, written, bound, [schema], "")


class _Comparison:
    def __init__(self, root_schema: Mapping[str, Any]) -> None:
        self._root_schema = root_schema

    def difference(
        self, edit: Any, written: Any, bound: Any, schemas: Sequence[Any], where: str
    ) -> str | None:
        if is_object(edit) and is_object(written):
            return self._object_difference(edit, written, bound, schemas, where)
        if is_array(edit) and is_array(written):
            return self._array_difference(edit, written, bound, schemas, where)
        return None if _is_same_leaf(edit, written, bound) else where or "arguments"

    def _object_difference(
        self,
        edit: dict[str, Any],
        written: dict[str, Any],
        bound: Any,
        schemas: Sequence[Any],
        where: str,
    ) -> str | None:
        for key in edit:
            if key not in written:
                return _member(where, key)
        # A serializer of the application may write an object for anything.
        is_parallel = isinstance(bound, MAPPING_TYPES) and len(bound) == len(written)
        values = list(bound.values()) if is_parallel else list(written.values())
        expanded = list(self._expand(schemas))
        for (key, member), value in zip(written.items(), values, strict=True):
            edited = edit.get(key, _MISSING)
            if edited is _MISSING:
                edited = _shown_default(expanded, key)
            if edited is _MISSING:
                return _member(where, key)
            inner = [_property_schema(each, key) for each in expanded]
            found = self.difference(edited, member, value, inner, _member(where, key))
            if found is not None:
                return found
        return None

    def _array_difference(
        self,
        edit: list[Any],
        written: list[Any],
        bound: Any,
        schemas: Sequence[Any],
        where: str,
    ) -> str | None:
        if len(edit) != len(written):
            return where or "arguments"
        expanded = list(self._expand(schemas))
        if isinstance(bound, SET_TYPES):
            items = [_item_schema(each, 0) for each in expanded]
            pairs = _pair_members(written, bound)
            return self._set_difference(edit, pairs, items, where)
        is_parallel = isinstance(bound, SEQUENCE_TYPES) and len(bound) == len(written)
        values = bound if is_parallel else written
        for index, (member, value) in enumerate(zip(written, values, strict=True)):
            items = [_item_schema(each, index) for each in expanded]
            place = f"{where}[{index}]"
            found = self.difference(edit[index], member, value, items, place)
            if found is not None:
                return found
        return None

    def _set_difference(
        self,
        edit: list[Any],
        pairs: list[tuple[Any, Any]],
        schemas: Sequence[Any],
        where: str,
    ) -> str | None:
        # Equal texts first: of a large set, few members are spelled differently.
        left = {_member_text(written): (written, bound) for written, bound in pairs}
        others = [item for item in edit if left.pop(_member_text(item), None) is None]
        if len(others) > _MAX_RESPELLED_MEMBERS:
            return where or "arguments"
        for item in others:
            same = next(
                (
                    text
                    for text, (written, bound) in left.items()
                    if self.difference(item, written, bound, schemas, where) is None
                ),
                None,
            )
            if same is None:
                return where or "arguments"
            del left[same]
        return None if not left else where or "arguments"

    def _expand(self, schemas: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
        """Yield schemas with what they refer to and their alternatives."""
        queue = list(schemas)
        seen: set[int] = set()
        while queue:
            schema = queue.pop(0)
            if not is_object(schema) or id(schema) in seen:
                continue
            seen.add(id(schema))
            yield schema
            queue.append(self._referred(schema.get("$ref")))
            for keyword in _BRANCHES:
                branches = schema.get(keyword)
                queue.extend(branches if is_array(branches) else [])

    def _referred(self, reference: object) -> Any:
        if reference == "#":
            return self._root_schema
        match = (
            _DEFINITIONS.fullmatch(reference) if isinstance(reference, str) else None
        )
        definitions = self._root_schema.get(match[1]) if match else None
        return definitions.get(match[2]) if match and is_object(definitions) else None


def _member_text(member: Any) -> str:
    return jsontext.canonical(jsontext.normalize_integers(member))


def _pair_members(written: list[Any], bound: Any) -> list[tuple[Any, Any]]:
    """Return the members of a set as pairs of JSON and Python value.

    A set that was dumped twice has two orders. If the type has a JSON of its own, the
    JSON takes the place of the value.
    """
    pairs = [(to_jsonable_python(value), value) for value in bound]
    texts = sorted(jsontext.canonical(member) for member, _ in pairs)
    if texts == sorted(map(jsontext.canonical, written)):
        return pairs
    return [(member, member) for member in written]


def _member(where: str, key: str) -> str:
    return member_location(where, key) if where else key


def _property_schema(schema: Mapping[str, Any], key: str) -> Any:
    properties = schema.get("properties")
    if is_object(properties) and key in properties:
        return properties[key]
    return schema.get("additionalProperties")


def _item_schema(schema: Mapping[str, Any], index: int) -> Any:
    prefix = schema.get("prefixItems")
    if is_array(prefix) and index < len(prefix):
        return prefix[index]
    return schema.get("items")


def _shown_default(schemas: Sequence[Mapping[str, Any]], key: str) -> Any:
    """Return the default that the schemas show for a key; `_MISSING` without one.

    Alternatives with different defaults show none: the person did not choose between
    them.
    """
    shown: dict[str, Any] = {}
    for schema in schemas:
        properties = schema.get("properties")
        if not is_object(properties) or key not in properties:
            continue
        declared = properties[key]
        if not is_object(declared) or "default" not in declared:
            return _MISSING
        default = declared["default"]
        shown[jsontext.canonical(default)] = default
    return next(iter(shown.values())) if len(shown) == 1 else _MISSING


# Leaves -----------------------------------------------------------------------


def _is_same_leaf(edit: Any, written: Any, bound: Any) -> bool:
    if _is_number(edit) and _is_number(written):
        return bool(edit == written)
    if type(edit) is type(written) and edit == written:
        return True
    if isinstance(bound, Decimal) and _is_number(edit):
        return Decimal(repr(edit)) == bound
    if isinstance(edit, str) and isinstance(written, str):
        return _is_same_spelling(edit, bound)
    return False


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_same_spelling(edit: str, bound: Any) -> bool:
    """Return whether a text is another spelling of a value.

    The readers are those of the standard library and not of pydantic, which reads
    "20260101" as a number of seconds. A text that a person could read differently is
    no spelling of the value.
    """
    for type_, pattern, read in _SPELLINGS:
        if isinstance(bound, type_) and pattern.fullmatch(edit):
            try:
                value = read(edit)
            except (ValueError, ArithmeticError):
                return False
            return value == bound and _offset(value) == _offset(bound)
    return False


def _offset(value: Any) -> timedelta | None:
    # Two times of one moment are equal, but not to the person who reads the clock.
    return value.utcoffset() if isinstance(value, datetime | time) else None


def _read_duration(text: str) -> timedelta:
    match = cast("re.Match[str]", _DURATION.fullmatch(text))
    parts = {key: Decimal(value) for key, value in match.groupdict("0").items()}
    sign = -1 if text.startswith("-") else 1
    seconds = parts.pop("seconds")
    microseconds = int(seconds * 1_000_000)
    whole = {key: int(value) for key, value in parts.items()}
    return sign * timedelta(**whole, microseconds=microseconds)


# A year and a month have no fixed length, and a Python time holds six digits of a
# second.
_TIME = r"\d\d:\d\d(?::\d\d(?:\.\d{1,6}0*)?)?(?:Z|[+-]\d\d:\d\d)?"
_DURATION = re.compile(
    r"[+-]?P(?:(?P<weeks>\d{1,9})W)?(?:(?P<days>\d{1,9})D)?"
    r"(?:T(?:(?P<hours>\d{1,9})H)?(?:(?P<minutes>\d{1,9})M)?"
    r"(?:(?P<seconds>\d{1,9}(?:\.\d{1,6})?)S)?)?",
    re.ASCII,
)
_SPELLINGS: tuple[tuple[type[Any], re.Pattern[str], Callable[[str], Any]], ...] = (
    (
        Decimal,
        re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?", re.ASCII),
        Decimal,
    ),
    (
        datetime,
        re.compile(rf"\d{{4}}-\d\d-\d\d[T ]{_TIME}", re.ASCII),
        datetime.fromisoformat,
    ),
    (time, re.compile(_TIME, re.ASCII), time.fromisoformat),
    (timedelta, _DURATION, _read_duration),
    (UUID, re.compile(r"[{]?[0-9a-fA-F-]{32,36}[}]?|urn:uuid:[0-9a-fA-F-]{36}"), UUID),
    (IPv4Address, re.compile(r"[0-9.]{7,15}"), IPv4Address),
    (IPv6Address, re.compile(r"[0-9a-fA-F:.]{2,45}"), IPv6Address),
)


# Signatures -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSignature:
    """The signature of a tool: arguments of the model, contexts of the engine."""

    validator: ArgumentsValidator
    context_parameters: tuple[str, ...]
    readings: Mapping[str, Reading]

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments."""
        return self.validator.schema


def read_tool_signature(
    function: Callable[..., Any],
    *,
    name: str,
    descriptions: Mapping[str, str],
    scope: Mapping[str, Any] | None,
) -> ToolSignature:
    """Read the signature of a tool; raises `InvalidInput`.

    `scope` has the local names of the place where the function was written.
    """
    check_tool_function(function, name)
    types_: dict[str, Any] = {}
    try:
        parameters = inspect.signature(function).parameters.values()
        types_ = {
            each.name: parameter_type(each, function, scope) for each in parameters
        }
        contexts = tuple(key for key, type_ in types_.items() if is_context_type(type_))
        arguments = [each for each in parameters if each.name not in contexts]
        return _build_signature(arguments, types_, contexts, descriptions)
    except InvalidInput as error:
        raise InvalidInput(f"tool {name}: {error}") from error
    except PydanticSchemaGenerationError as error:
        raise InvalidInput(f"tool {name}: {_unsupported_types_text(types_)}") from error
    except Exception as error:
        # A missing name, a type that pydantic does not support, or any exception that
        # evaluating an annotation raises.
        msg = f"tool {name}: its parameters cannot be read: {first_line(error)}"
        raise InvalidInput(f"{msg}. Correct the annotations.") from error


def _unsupported_types_text(types_by_name: Mapping[str, Any]) -> str:
    unsupported = [
        f"{name} ({getattr(type_, '__name__', type(type_).__name__)})"
        for name, type_ in types_by_name.items()
        if not _has_schema(type_)
    ]
    return (
        f"no JSON Schema exists for the type of the parameter {', '.join(unsupported)}."
        " Use str, int, a dataclass, a TypedDict or a pydantic model."
    )


def _has_schema(type_: Any) -> bool:
    try:
        TypeAdapter(type_)
    except PydanticSchemaGenerationError:
        return False
    return True


def _build_signature(
    model_parameters: list[inspect.Parameter],
    types_by_name: Mapping[str, Any],
    context_parameters: tuple[str, ...],
    descriptions: Mapping[str, str],
) -> ToolSignature:
    fields = {
        each.name: (types_by_name[each.name], _default(each))
        for each in model_parameters
    }
    validator = make_arguments_validator(fields)
    names = validator.names_by_field or {}
    schema = {**validator.schema}
    # pydantic lists the properties in the order of the fields; an alias renames one.
    shown_names = dict(zip(schema["properties"], names.values(), strict=True))
    pairs = zip(names.values(), schema["properties"].items(), strict=True)
    schema["properties"] = {
        shown: _with_description(property_, descriptions.get(name))
        for name, (shown, property_) in pairs
    }
    return ToolSignature(
        validator=replace(validator, schema=schema),
        context_parameters=context_parameters,
        readings=readings.readings_of(
            {shown: types_by_name[name] for shown, name in shown_names.items()}
        ),
    )


def _with_description(
    property_: dict[str, Any], description: str | None
) -> dict[str, Any]:
    """Return a property with a description, unless it has its own."""
    return {"description": description, **property_} if description else property_


def make_arguments_validator(
    fields: Mapping[str, tuple[Any, Any]],
) -> ArgumentsValidator:
    """Return a validator of named arguments.

    Validation is strict, also in dataclasses and typed dictionaries: `"5"` is not a
    number. A pydantic model, and a parameter with `Field(strict=False)`, keep their
    own rules.
    """
    # A parameter may have the name `copy` or `_x`, a pydantic field may not.
    names = {f"p{index}": name for index, name in enumerate(fields)}
    config = ConfigDict(extra="forbid", strict=True)
    definitions: dict[str, Any] = {
        field: (_with_alias(name, fields[name][0]), fields[name][1])
        for field, name in names.items()
    }
    model = create_model("Arguments", __config__=config, **definitions)
    _check_defaults(model, names)
    validator = ArgumentsValidator.from_adapter(TypeAdapter(model))
    return replace(validator, names_by_field=names)


def _with_alias(name: str, type_: Any) -> Any:
    """Return a type with an alias, unless it has an alias of its own."""
    # Not an alias generator: the generator of a model also renames the fields of the
    # dataclasses and typed dictionaries in the model.
    if get_origin(type_) is Annotated:
        inner, *metadata = get_args(type_)
        return Annotated[(inner, Field(alias=name), *metadata)]
    return Annotated[type_, Field(alias=name)]


def _default(parameter: inspect.Parameter) -> Any:
    empty = parameter.default is parameter.empty
    return PydanticUndefined if empty else parameter.default


def _check_defaults(model: type[BaseModel], names: Mapping[str, str]) -> None:
    """Raise `InvalidInput` for a default that is not a valid argument.

    Otherwise each call that leaves the argument out would fail.
    """
    defaults = model.model_construct()
    for field, info in model.model_fields.items():
        if info.is_required():
            continue
        try:
            text = defaults.model_dump_json(
                include={field}, by_alias=True, warnings="error"
            )
            is_invalid = _is_rejected(model, text, info.alias)
        except (PydanticSerializationError, ValueError):
            is_invalid = True
        if is_invalid:
            raise InvalidInput(
                f"the default of {names[field]} is not a value of its type. Change the"
                " default or the annotation."
            )


def _is_rejected(model: type[BaseModel], text: str, key: str | None) -> bool:
    try:
        model.model_validate_json(text)
    except ValidationError as error:
        return any(each["loc"][0] == key for each in error.errors())
    return False
