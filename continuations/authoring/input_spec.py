"""What an agent is called with: one string, or a type of the application's own.

Imported on first use: it needs pydantic.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter

from continuations.authoring.arguments import ArgumentsValidator
from continuations.authoring.strict_json import first_line
from continuations.authoring.tool_signature import make_arguments_validator
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEXT_INPUT_TYPE = Annotated[
    str, Field(description="The task, with all that is needed for it.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """The arguments of an agent; `wrapped` if its type stands under `input`."""

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
    """Return the arguments of an agent of an input type; raises `InvalidInput`.

    The fields of an object type are the arguments; any other type stands under
    `input`.
    """
    if type_ is None or type_ is str:
        return _text_input_spec()
    try:
        arguments = ArgumentsValidator.from_adapter(make_type_adapter(type_))
        return (
            InputSpec(validator=arguments)
            if has_fields(arguments.schema)
            else (_wrapped_input_spec(type_))
        )
    except InvalidInput as error:
        msg = f"agent {agent_name}: its input_type cannot be read: {error}"
        raise InvalidInput(msg) from error


def make_type_adapter(type_: Any) -> TypeAdapter[Any]:
    """Return pydantic's reader of a type; raises `InvalidInput`."""
    try:
        return TypeAdapter(type_)
    except Exception as error:
        # pydantic has several, and building a type runs the application's code.
        raise InvalidInput(first_line(error)) from error


def has_fields(schema: Mapping[str, Any]) -> bool:
    """Tell whether a type has fields of its own, rather than any keys."""
    return schema.get("type") == "object" and "properties" in schema


@cache  # of a stack of a thousand agents most take text
def _text_input_spec() -> InputSpec:
    return _wrapped_input_spec(_TEXT_INPUT_TYPE)


def _wrapped_input_spec(type_: Any) -> InputSpec:
    arguments, names = make_arguments_validator({"input": (type_, ...)})
    return InputSpec(validator=arguments, names_by_field=names)
