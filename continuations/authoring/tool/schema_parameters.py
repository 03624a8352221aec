"""The parameters of a tool whose JSON Schema its author wrote.

`jsonschema_rs` is imported on first use.
"""

from __future__ import annotations

import inspect
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

from continuations.authoring.arguments import json_values
from continuations.authoring.callables import is_context_type, parameter_type
from continuations.authoring.errors import ArgumentsInvalid
from continuations.authoring.readings import Money, Reading, Secret
from continuations.core import jsontext
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jsonschema_rs import ValidationError, Validator

    from continuations.authoring.context import ToolContext
    from continuations.authoring.tool.tool_options import SchemaFunction

_MAX_ERRORS = 10
_MAX_ERROR_LENGTH = 300


class SchemaParameters:
    """The parameters of a tool with a JSON Schema; see `Tool.from_schema`.

    Args:
        name: The name of the tool, for errors.
        schema: The JSON Schema.
        function: The callable that gets the arguments as one `dict`.
        readings: `Money` and `Secret` by path.

    Raises:
        InvalidInput: `schema`, `function` or `readings` is invalid.
    """

    description = ""

    def __init__(
        self, name: str, schema: object, function: SchemaFunction, readings: object
    ) -> None:
        self._name = name
        if not callable(function):
            msg = f"tool {name}: function must be callable, got {function!r}."
            raise InvalidInput(msg)
        self._schema = _copy_schema(name, schema)
        self.readings = self._checked_readings(readings or {})
        self.check_callback("function", function)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the top-level properties."""
        return tuple(self._properties)

    def type_of(self, name: str) -> Any:
        """Return the type of a property, as far as summaries ask: secret or any."""
        paths = [path for path in self.readings if path.partition("/")[0] == name]
        secret = any(isinstance(self.readings[path], Secret) for path in paths)
        return Annotated[Any, Secret()] if secret else Any

    def _checked_readings(self, readings: object) -> dict[str, Reading]:
        fields = jsontext.as_object(readings)
        if fields is None or not all(
            path.partition("/")[0] in self._properties
            and isinstance(each, Money | Secret)
            for path, each in fields.items()
        ):
            raise InvalidInput(
                f"tool {self._name}: readings must be a dict of Money and Secret by "
                "the names of properties. Pass for example "
                '{"cents": Money("EUR", 100), "pin": Secret()}.'
            )
        return dict(fields)

    def check_callback(self, option: str, callback: Callable[..., Any]) -> None:
        """Check that a function takes the arguments as one `dict`."""
        try:
            signature = inspect.signature(callback)
            contexts = _context_parameters(callback)
        except (NameError, TypeError, ValueError):
            return  # not known yet; the first call says why
        try:
            signature.bind({}, **dict.fromkeys(contexts))
        except TypeError:
            raise InvalidInput(
                f"tool {self._name}: {option} has the parameters {signature}, but must"
                " take all arguments as one dict, and optionally a ToolContext. Declare"
                f" {option}(arguments) or {option}(arguments, ctx: ToolContext)."
            ) from None

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments. Callers must not change it.

        Raises:
            InvalidInput: The schema breaks the rules of JSON Schema, refers to another
                document, or has a default that it does not accept itself.
        """
        return self._checked_schema

    @cached_property
    def _checked_schema(self) -> Mapping[str, Any]:
        self._check_defaults()
        return self._schema

    @property
    def _properties(self) -> Mapping[str, Any]:
        return jsontext.as_object(self._schema.get("properties", {})) or {}

    @property
    def _defaults(self) -> dict[str, Any]:
        """The defaults of the top-level properties."""
        return {
            name: each["default"]
            for name, each in self._properties.items()
            if jsontext.as_object(each) and "default" in each
        }

    @cached_property
    def _validator(self) -> Validator:
        import jsonschema_rs  # noqa: PLC0415 - on first use

        try:
            # Masked, because an error's text becomes the note of a wait, which other
            # people read. The retriever keeps a schema from fetching a URL or a file.
            return jsonschema_rs.validator_for(
                self._schema, mask="the value", retriever=jsontext.refuse_reference
            )
        except ValueError as error:
            msg = f"tool {self._name}: schema is not a valid JSON Schema"
            reason = json_values.first_line(error)
            raise InvalidInput(f"{msg}: {reason}. Correct the schema.") from error

    def _check_defaults(self) -> None:
        # A wrong default would be refused in each call that leaves the argument out.
        for error in self._validator.iter_errors(self._defaults):
            if error.instance_path:
                msg = f"tool {self._name}: a default in the schema is not valid"
                raise InvalidInput(f"{msg}: {_describe(error)}. Correct the schema.")

    def effective_arguments(self, raw_arguments: str) -> str:
        """Return the effective arguments; see `ToolProtocol.effective_arguments`."""
        values = {**self._defaults, **json_values.parse_arguments(raw_arguments)}
        try:
            errors = list(self._validator.iter_errors(values))
            # As for edited arguments: 5.0 is an integer to JSON Schema.
            arguments_json = jsontext.canonical(jsontext.normalize_integers(values))
        except (ValueError, RecursionError) as error:
            msg = f"The arguments could not be checked ({type(error).__name__})."
            raise ArgumentsInvalid(msg) from error
        if errors:
            raise ArgumentsInvalid(_describe_all(errors))
        return arguments_json

    def find_edit_difference(self, edited_arguments: str) -> str | None:
        """Compare an edit; see `ToolProtocol.find_edit_difference`.

        The tool adds only the defaults that its schema shows.
        """
        json_values.parse_arguments(edited_arguments, lossless=True)
        self.effective_arguments(edited_arguments)
        return None

    def values_by_name(self, arguments_json: str) -> dict[str, Any]:
        """Return effective arguments as Python values by property name."""
        if self.effective_arguments(arguments_json) != arguments_json:
            msg = "These arguments now have another meaning; nothing ran."
            raise ArgumentsInvalid(msg)
        return json_values.parse_arguments(arguments_json)

    def passed(
        self, function: Callable[..., Any], arguments_json: str, ctx: ToolContext
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments as one `dict`, and the context by name."""
        contexts = dict.fromkeys(_context_parameters(function), ctx)
        return (self.values_by_name(arguments_json),), contexts


def _copy_schema(name: str, schema: object) -> dict[str, Any]:
    try:
        copy = jsontext.parse(jsontext.dump(schema))
    except jsontext.NotJson as error:
        msg = f"tool {name}: schema is not JSON: {error}. Pass a dict of JSON values."
        raise InvalidInput(msg) from None
    if json_values.is_object(copy) and copy.get("type") == "object":
        return {
            # A default of 5.0 is filled in as 5, and so shown as 5.
            key: jsontext.normalize_integers(value)
            for key, value in copy.items()
        }
    msg = f'tool {name}: schema must be a dict with "type": "object"'
    raise InvalidInput(f"{msg}. Providers accept no other schema for a tool.")


def _context_parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the parameters that take the context of a call."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some functions of C have no signature
        return ()
    return tuple(each.name for each in parameters if _is_context(each, function))


def _is_context(parameter: inspect.Parameter, function: Callable[..., Any]) -> bool:
    if parameter.annotation is parameter.empty:
        return False
    try:
        return is_context_type(parameter_type(parameter, function))
    except Exception:  # noqa: BLE001 - whatever an annotation raises
        # The schema defines the arguments, not the annotation. The text `ToolContext`
        # is recognized even if its module is not imported.
        return False


def _describe_all(errors: Sequence[ValidationError]) -> str:
    lines = [f"- {_describe(each)}" for each in errors[:_MAX_ERRORS]]
    if len(errors) > _MAX_ERRORS:
        lines.append(f"- and {len(errors) - _MAX_ERRORS} more")
    return "\n".join(["The arguments are not valid:", *lines])


def _describe(error: ValidationError) -> str:
    where = ""
    for step in error.instance_path:
        if isinstance(step, int):
            where += f"[{step}]"
        else:
            where += f".{step}" if where else step
    text = f"{where}: {error.message}" if where else error.message
    return json_values.truncate(text, _MAX_ERROR_LENGTH)
