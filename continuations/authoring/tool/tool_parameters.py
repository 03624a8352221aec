"""The parameters of a tool: how it reads its arguments, and what its functions get.

`FunctionParameters` are those of a Python function. `SchemaParameters` follow from a
JSON Schema, and `ArgumentsValidator` are those of an agent.

Some functions have only texts, integers and truth values as parameters. Once their
arguments are effective, pydantic adds nothing: the values in the JSON are the values
that the function gets. A cold process that only runs an approved call then does not
import pydantic, which takes longer than all the rest. `PlainSignature` decides nothing.
For any other type, default or value, pydantic is asked, and a test compares this schema
with the one that pydantic makes.
"""

from __future__ import annotations

import inspect
import types
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from continuations.authoring import callables
from continuations.core import jsontext
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from continuations.authoring.arguments.arguments import ToolSignature
    from continuations.authoring.context import ToolContext
    from continuations.authoring.readings import Reading


class FunctionParameters:
    """The parameters of a Python function; they are read on first use.

    Args:
        function: The function, plain or async, or a bound method.
        name: The name of its tool, for errors.
        scope: The local names that the annotations of a nested function use.

    Raises:
        InvalidInput: The function cannot be a tool.
    """

    def __init__(
        self, function: Callable[..., Any], name: str, scope: Mapping[str, Any] | None
    ) -> None:
        callables.check_tool_function(function, name)
        self._function = function
        self._name = name
        self._scope = scope

    @cached_property
    def _docstring(self) -> callables.Docstring:
        return callables.parse_docstring(self._function.__doc__)

    @cached_property
    def _plain(self) -> PlainSignature | None:
        return read_plain_signature(
            self._function,
            descriptions=self._docstring.parameter_descriptions,
            scope=self._scope,
        )

    @cached_property
    def _full(self) -> ToolSignature:
        from continuations.authoring.arguments import arguments  # noqa: PLC0415 - it imports pydantic

        return arguments.read_tool_signature(
            self._function,
            name=self._name,
            descriptions=self._docstring.parameter_descriptions,
            scope=self._scope,
        )

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the parameters; `None` if they are not readable."""
        return callables.parameter_names(self._function)

    @property
    def description(self) -> str:
        """The description in the docstring."""
        return self._docstring.description

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments."""
        return (self._plain or self._full).schema

    @property
    def readings(self) -> Mapping[str, Reading]:
        """How people read arguments, by their paths."""
        return (self._plain or self._full).readings

    def type_of(self, name: str) -> Any:
        """Return the type of a parameter; it raises what its annotation raises."""
        parameter = inspect.signature(self._function).parameters[name]
        return callables.parameter_type(parameter, self._function, self._scope)

    def check_callback(self, option: str, callback: Callable[..., Any]) -> None:
        """Raise `InvalidInput` if a function requires an argument of another name."""
        callables.check_callback_parameters(
            callback, self.names, f"tool {self._name}: {option}"
        )

    def effective_arguments(self, raw_arguments: str) -> str:
        """Return the effective arguments as canonical JSON."""
        return self._full.validator.effective_arguments(raw_arguments)

    def find_edit_difference(self, edited_arguments: str) -> str | None:
        """Return where the tool would run with another value than a person's edit."""
        return self._full.validator.find_edit_difference(edited_arguments)

    def values_by_name(self, arguments_json: str) -> dict[str, Any]:
        """Return effective arguments as Python values; raises `ArgumentsInvalid`."""
        plain = self._plain
        values = None if plain is None else plain.values_by_name(arguments_json)
        if values is not None:
            return values
        return self._full.validator.values_by_name(arguments_json)

    def passed(
        self, function: Callable[..., Any], arguments_json: str, ctx: ToolContext
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return arguments and context by name; another function gets what it takes."""
        contexts = dict.fromkeys((self._plain or self._full).context_parameters, ctx)
        arguments = {**self.values_by_name(arguments_json), **contexts}
        if function is not self._function:
            arguments = callables.accepted_arguments(function, arguments)
        return (), arguments


_TYPE_NAMES: dict[type, str] = {str: "string", int: "integer", bool: "boolean"}
# pydantic accepts larger integers too, up to a limit of its own.
_MAX_INTEGER = 2**63


@dataclass(frozen=True, slots=True)
class PlainSignature:
    """The parameters of a tool; the engine passes `context_parameters`.

    Attributes:
        schema: The JSON Schema of the arguments, as pydantic makes it.
        types_by_name: The types that each parameter accepts.
        context_parameters: The names of the parameters that take a `ToolContext`.
        readings: How people read arguments.
    """

    schema: Mapping[str, Any]
    types_by_name: Mapping[str, tuple[type, ...]]
    context_parameters: tuple[str, ...]
    readings: Mapping[str, Reading]

    def values_by_name(self, arguments_json: str) -> dict[str, Any] | None:
        """Return effective arguments as Python values by name.

        Returns:
            The values; `None` if pydantic must say what is wrong with them.
        """
        try:
            values = jsontext.parse(arguments_json)
            is_effective = (
                values.keys() == self.types_by_name.keys()
                and all(map(self._is_plain, values.items()))
                and jsontext.canonical(values) == arguments_json
            )
        except (AttributeError, ValueError, RecursionError):
            return None
        if not is_effective:
            return None
        return {name: values[name] for name in self.types_by_name}

    def _is_plain(self, item: tuple[str, Any]) -> bool:
        name, value = item
        if type(value) is str and not _is_unicode(value):
            return False
        if type(value) is int and abs(value) >= _MAX_INTEGER:
            return False
        return type(value) in self.types_by_name[name]


def read_plain_signature(
    function: Callable[..., Any],
    *,
    descriptions: Mapping[str, str],
    scope: Mapping[str, Any] | None,
) -> PlainSignature | None:
    """Return the signature of a function; `None` if only pydantic can read it."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    types_by_name: dict[str, tuple[type, ...]] = {}
    contexts: list[str] = []
    readings: dict[str, Reading] = {}
    try:
        parameters = inspect.signature(function).parameters.values()
        for each in parameters:
            type_ = callables.parameter_type(each, function, scope)
            if callables.is_context_type(type_):
                contexts.append(each.name)
                continue
            if get_origin(type_) is Annotated:
                type_ = _without_reading(each.name, type_, readings)
            accepted = _accepted_types(type_)
            if accepted is None or not _is_plain_parameter(each, accepted):
                return None
            types_by_name[each.name] = accepted
            properties[each.name] = _property(
                each, accepted, descriptions.get(each.name)
            )
            if each.default is each.empty:
                required.append(each.name)
    except Exception:  # noqa: BLE001 - an annotation may raise anything
        return None
    schema: dict[str, Any] = {"additionalProperties": False, "properties": properties}
    if required:
        schema["required"] = required
    schema["type"] = "object"
    return PlainSignature(schema, types_by_name, tuple(contexts), readings)


def _without_reading(name: str, type_: Any, readings: dict[str, Reading]) -> Any:
    from continuations.authoring.readings import without_readings  # noqa: PLC0415 - few tools have readings

    plain, reading = without_readings(type_)
    if reading is not None:
        readings[name] = reading
    return plain


def _accepted_types(type_: Any) -> tuple[type, ...] | None:
    """Return the types that an annotation accepts; `None` if it is not plain."""
    if type_ in _TYPE_NAMES:
        return (type_,)
    if get_origin(type_) in {Union, types.UnionType}:
        first, *rest = get_args(type_)
        if first in _TYPE_NAMES and rest == [types.NoneType]:
            return (first, types.NoneType)
    return None


def _is_plain_parameter(
    parameter: inspect.Parameter, accepted: tuple[type, ...]
) -> bool:
    default = parameter.default
    has_plain_default = default is parameter.empty or (
        type(default) in accepted
        and (type(default) is not str or _is_unicode(default))
        and (type(default) is not int or abs(default) < _MAX_INTEGER)
    )
    return has_plain_default and parameter.kind in (
        parameter.POSITIONAL_OR_KEYWORD,
        parameter.KEYWORD_ONLY,
    )


def _property(
    parameter: inspect.Parameter, accepted: tuple[type, ...], description: str | None
) -> dict[str, Any]:
    property_: dict[str, Any] = {"description": description} if description else {}
    is_optional = types.NoneType in accepted
    name = {"type": _TYPE_NAMES[accepted[0]]}
    if is_optional:
        property_["anyOf"] = [name, {"type": "null"}]
    if parameter.default is not parameter.empty:
        property_["default"] = parameter.default
    return property_ if is_optional else {**property_, **name}


def _is_unicode(text: str) -> bool:
    """Return whether a text has no lone surrogate; pydantic refuses those."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
