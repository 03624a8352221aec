"""The signature of a tool's function: its arguments and their JSON Schema.

This module imports pydantic; it is imported on first use.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic.errors import PydanticSchemaGenerationError
from pydantic_core import PydanticSerializationError, PydanticUndefined

from continuations.authoring import readings
from continuations.authoring.arguments import ArgumentsValidator
from continuations.authoring.callables import (
    check_tool_function,
    is_context_type,
    parameter_type,
)
from continuations.authoring.strict_json import first_line
from continuations.errors import InvalidInput
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from continuations.authoring.readings import Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSignature:
    """The parameters of a tool: arguments of the model, contexts of the engine."""

    validator: ArgumentsValidator
    schema: Mapping[str, Any]
    names_by_field: Mapping[str, str]
    context_parameters: tuple[str, ...]
    readings: Mapping[str, Reading]

    def values_by_name(self, arguments: str) -> dict[str, Any]:
        """Return effective arguments as Python values by parameter name.

        Raises `ArgumentsInvalid` if they are not effective in this process.
        """
        value = self.validator.validate_effective(arguments)
        return {
            name: getattr(value, field) for field, name in self.names_by_field.items()
        }


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
        msg = f"tool {name}: {error}"
        raise InvalidInput(msg) from error
    except PydanticSchemaGenerationError as error:
        msg = f"tool {name}: {_unsupported_types_text(types_)}"
        raise InvalidInput(msg) from error
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
    arguments, names = make_arguments_validator(fields)
    schema = {**arguments.schema}
    # pydantic lists the properties in the order of the fields; an alias renames one.
    shown_names = dict(zip(schema["properties"], names.values(), strict=True))
    pairs = zip(names.values(), schema["properties"].items(), strict=True)
    schema["properties"] = {
        shown: _with_description(property_, descriptions.get(name))
        for name, (shown, property_) in pairs
    }
    return ToolSignature(
        validator=arguments,
        schema=schema,
        names_by_field=names,
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
) -> tuple[ArgumentsValidator, dict[str, str]]:
    """Return a validator of named arguments, and the names by pydantic field.

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
    return ArgumentsValidator.from_adapter(TypeAdapter(model)), names


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
            msg = (
                f"the default of {names[field]} is not a value of its type. Change the"
                " default or the annotation."
            )
            raise InvalidInput(msg)


def _is_rejected(model: type[BaseModel], text: str, key: str | None) -> bool:
    try:
        model.model_validate_json(text)
    except ValidationError as error:
        return any(each["loc"][0] == key for each in error.errors())
    return False
