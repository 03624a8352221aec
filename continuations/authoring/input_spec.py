"""The arguments of an agent: one string, or a type of the application.

This module imports pydantic; it is imported on first use.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter

from continuations.authoring.arguments import ArgumentsValidator
from continuations.authoring.strict_json import first_line
from continuations.authoring.tool_signature import make_arguments_validator
from continuations.errors import InvalidInput
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEXT_INPUT_TYPE = Annotated[
    str, Field(description="The task, with all that is needed for it.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """The arguments of an agent. `names_by_field` is set if there is only `input`."""

    validator: ArgumentsValidator
    names_by_field: Mapping[str, str] | None = None

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments."""
        return self.validator.schema

    def values_by_name(self, arguments: str) -> dict[str, Any]:
        """Return effective arguments as Python values by name."""
        value = self.validator.validate_effective(arguments)
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


def make_input_spec(type_: Any, *, agent_name: str) -> InputSpec:
    """Return the spec of an agent's arguments; raises `InvalidInput`.

    The fields of an object type are the arguments. A value of any other type is the
    argument `input`.
    """
    if type_ is None or type_ is str:
        return _text_input_spec()
    try:
        validator = ArgumentsValidator.from_adapter(make_type_adapter(type_))
        if has_fields(validator.schema):
            return InputSpec(validator=validator)
        return _wrapped_input_spec(type_)
    except InvalidInput as error:
        msg = f"agent {agent_name}: input_type cannot be used: {error}"
        raise InvalidInput(msg) from error


def make_type_adapter(type_: Any) -> TypeAdapter[Any]:
    """Return the pydantic adapter of a type; raises `InvalidInput`."""
    try:
        return TypeAdapter(type_)
    except Exception as error:
        # pydantic has several errors, and building a type runs the application's code.
        msg = f"{first_line(error)}. Use a type that pydantic supports."
        raise InvalidInput(msg) from error


def has_fields(schema: Mapping[str, Any]) -> bool:
    """Return whether a schema describes an object with declared fields."""
    return schema.get("type") == "object" and "properties" in schema


@cache  # most agents of a deep stack take text
def _text_input_spec() -> InputSpec:
    return _wrapped_input_spec(_TEXT_INPUT_TYPE)


def _wrapped_input_spec(type_: Any) -> InputSpec:
    validator, names = make_arguments_validator({"input": (type_, ...)})
    return InputSpec(validator=validator, names_by_field=names)
