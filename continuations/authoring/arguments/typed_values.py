"""The declared types of an agent: of its arguments, its output and its state.

This module imports pydantic; it is imported on first use.
"""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from dataclasses import is_dataclass
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from continuations.authoring.arguments import arguments, json_values
from continuations.authoring.arguments.json_values import first_line
from continuations.authoring.errors import OutputInvalid, StateInvalid
from continuations.core import jsontext
from continuations.core.model_protocol import OutputSchema
from continuations.core.rows import frames
from continuations.errors import InvalidInput
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


_TEXT_INPUT_TYPE = Annotated[
    str, Field(description="The task, with all that is needed for it.")
]


def make_input_validator(
    type_: Any, *, agent_name: str
) -> arguments.ArgumentsValidator:
    """Return the validator of an agent's arguments; raises `InvalidInput`.

    The fields of an object type are the arguments. A value of any other type is the
    argument `input`.
    """
    if type_ is None or type_ is str:
        return _text_input_validator()
    try:
        validator = arguments.ArgumentsValidator.from_adapter(make_type_adapter(type_))
        if has_fields(validator.schema):
            return validator
        return arguments.make_arguments_validator({"input": (type_, ...)})
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
def _text_input_validator() -> arguments.ArgumentsValidator:
    return arguments.make_arguments_validator({"input": (_TEXT_INPUT_TYPE, ...)})


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSpec:
    """A declared output.

    Providers want an object. Another type is wrapped: it is the member `output`.
    """

    adapter: TypeAdapter[Any]
    schema: Mapping[str, Any]
    schema_name: str
    is_wrapped: bool

    @property
    def output_schema(self) -> OutputSchema:
        """The schema to request from a model. It always describes an object."""
        schema = {**self.schema}
        if self.is_wrapped:
            definitions = schema.pop("$defs", None)
            schema = {
                "type": "object",
                "properties": {"output": schema},
                "required": ["output"],
                "additionalProperties": False,
            }
            if definitions:
                schema["$defs"] = definitions
        return OutputSchema(name=self.schema_name, schema=schema)

    def parse(self, text: str) -> Any:
        """Return the value of a final reply; raises `OutputInvalid`."""
        try:
            data = json_values.parse_strict(text)
        except jsontext.NotJson as error:
            raise OutputInvalid(f"The output is not valid JSON: {error}.") from None
        match data:
            case {"output": inner, **rest} if self.is_wrapped and not rest:
                data = inner
            case _:
                pass  # some models leave the wrapper out
        text = jsontext.dump(data)
        return arguments.validated(self.adapter, text, data, "output", OutputInvalid)


def make_output_spec(type_: Any, *, agent_name: str) -> OutputSpec:
    """Return the spec of an agent's output; raises `InvalidInput`."""
    try:
        adapter = make_type_adapter(type_)
        schema = arguments.schema_of(adapter)
    except InvalidInput as error:
        msg = f"agent {agent_name}: output_type cannot be used: {error}"
        raise InvalidInput(msg) from error
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", getattr(type_, "__name__", "output"))
    return OutputSpec(
        adapter=adapter,
        schema=schema,
        schema_name=name[:64] or "output",
        is_wrapped=not has_fields(schema),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSpec:
    """A declared type of state.

    Attributes:
        type_name: Name of the type.
        adapter: The pydantic adapter of the type.
        names: The names of the fields that are stored.
    """

    type_name: str
    adapter: TypeAdapter[Any]
    names: tuple[str, ...]

    def value(self, state_json: str) -> Any:
        """Return a stored state as a new value; raises `StateInvalid`.

        A field that is not stored has its default.
        """
        text = state_json or "{}"
        return _validated(self.adapter.validate_json, text, frames.state_fields(text))

    def patch(self, state_json: str, changes: Mapping[str, Any]) -> str:
        """Return the fields that a change of a stored state replaces.

        They are those of the change, and those that validators of the type change with
        them.

        Raises:
            InvalidInput: A field does not exist, or a value has no JSON form.
            StateInvalid: The changed state does not fit the type.
        """
        unknown = sorted(changes.keys() - set(self.names))
        if unknown:
            raise InvalidInput(
                f"{self.type_name} has no stored field {unknown[0]!r}. Its stored "
                f"fields: {', '.join(self.names)}."
            )
        old = self.value(state_json)
        values = {name: getattr(old, name) for name in self.names} | {**changes}
        new = _validated(self.adapter.validate_python, values, values)
        fields = self.stored_fields(new)
        changed = frames.changed_state_fields(
            jsontext.canonical(self.stored_fields(old)), jsontext.canonical(fields)
        )
        names = changes.keys() | frames.state_fields(changed).keys()
        return jsontext.canonical({name: fields[name] for name in sorted(names)})

    def differences(self, value: Any, state_json: str) -> set[str]:
        """Return the names of the fields of a value that differ from a stored state."""
        other = self.value(state_json)
        return {
            name
            for name in self.names
            if not _is_same(getattr(value, name), getattr(other, name))
        }

    def stored_fields(self, value: Any) -> dict[str, Any]:
        """Return a value of the type as JSON values; raises `InvalidInput`."""
        fields = self._dump(value)
        text = jsontext.canonical(fields)
        again = _validated(self.adapter.validate_json, text, fields)
        for name in fields:
            if not _is_same(getattr(value, name, None), getattr(again, name, None)):
                raise InvalidInput(
                    f"{self.type_name}.{name} is not equal to its value after it was "
                    "stored as JSON. Use types that pydantic restores from JSON."
                )
        return fields

    def _dump(self, value: Any) -> dict[str, Any]:
        try:
            dumped: Any = self.adapter.dump_python(
                value, mode="json", round_trip=True, warnings="error"
            )
            jsontext.canonical(dumped)
        except Exception as error:
            # pydantic has several errors, and serializers run the application's code.
            raise InvalidInput(
                f"A value of {self.type_name} has no JSON form "
                f"({type(error).__name__}). Use types that pydantic writes as JSON, or "
                "exclude the field: Field(exclude=True)."
            ) from error
        fields = jsontext.as_object(dumped)
        if fields is None:
            msg = f"{self.type_name} is not stored as an object. Use a plain class."
            raise InvalidInput(msg)
        return dict(fields)


def make_state_spec(type_: Any, *, agent_name: str) -> StateSpec:
    """Return the spec of an agent's state; raises `InvalidInput`."""
    where = f"agent {agent_name}: state"
    is_class = isinstance(type_, type)
    if not is_class or not (is_dataclass(type_) or issubclass(type_, BaseModel)):
        msg = f"{where} must be a pydantic model or a dataclass, got {type_!r:.80}."
        raise InvalidInput(msg)
    name = type_.__name__
    try:
        default = type_()
    except Exception as error:
        why = type(error).__name__
        raise InvalidInput(
            f"{where} cannot be {name}: {name}() raised {why}. Give each field a "
            "default."
        ) from error
    try:
        adapter = make_type_adapter(type_)
        known = _properties(arguments.schema_of(adapter))
        spec = StateSpec(type_name=name, adapter=adapter, names=tuple(known))
        stored = spec.stored_fields(default)
    except (InvalidInput, StateInvalid) as error:
        raise InvalidInput(f"{where} cannot be {name}: {error}") from error
    renamed = sorted(stored.keys() - known)
    if renamed:
        raise InvalidInput(
            f"{where} cannot be {name}: field {renamed[0]!r} cannot be read back under "
            "its own name. Remove its alias, or init=False."
        )
    return StateSpec(type_name=name, adapter=adapter, names=tuple(stored))


def _properties(schema: Mapping[str, Any]) -> set[str]:
    """Return the names of the fields that a schema accepts."""
    reference = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    return set(schema.get("$defs", {}).get(reference, schema).get("properties", {}))


def _is_same(value: Any, again: Any) -> bool:
    # A number that is not equal to itself (NaN) may be stored as a text.
    return bool(value == again or (value != value and again != again))  # noqa: PLR0124


def _validated(validate: Callable[[Any], Any], value: Any, data: Any) -> Any:
    try:
        return validate(value)
    except ValidationError as error:
        text = arguments.describe_validation_error(error, data, subject="state")
        places = {str(each["loc"][0]) for each in error.errors() if each["loc"]}
        raise StateInvalid(text, tuple(sorted(places))) from None
    except Exception as error:
        # A validator of the application may raise any exception.
        why = type(error).__name__
        msg = f"The state could not be checked ({why}). Use other values."
        raise StateInvalid(msg) from error


_log = logging.getLogger("continuations")


class CallState:
    """Reads a state, and collects the changes of one attempt of a call.

    Args:
        spec: The declared type of the state.
        tool_name: Name of the tool.
        state_json: The state that the call reads.
        may_write: Whether the tool declares that it writes.
    """

    def __init__(
        self, spec: StateSpec, tool_name: str, state_json: str, *, may_write: bool
    ) -> None:
        self._spec = spec
        self._tool_name = tool_name
        self._before = state_json
        self._may_write = may_write
        self._patch: str | None = None
        self._is_over = False
        # The values that the tool read, with their stored form.
        self._given: list[tuple[Any, str]] = []
        # A plain tool may have threads of its own.
        self._lock = Lock()

    def value(self) -> Any:
        """Return the state with the changes of this attempt, as a new value."""
        now = frames.with_state_patch(self._before, self._patch)
        value = self._spec.value(now)
        self._given.append((value, now))
        return value

    def update(self, changes: Mapping[str, Any]) -> None:
        """Change fields; raises `InvalidInput` or `StateInvalid`."""
        what = f"ctx.update() of tool {self._tool_name} failed"
        if not self._may_write:
            raise InvalidInput(
                f"{what}: the tool does not declare that it writes the state. Declare "
                "it with @tool(writes_state=True)."
            )
        with self._lock:
            if self._is_over:
                msg = f"{what}: the call has ended. Update the state before you return."
                raise InvalidInput(msg)
            now = frames.with_state_patch(self._before, self._patch)
            try:
                patch = self._spec.patch(now, changes)
            except InvalidInput as error:
                raise InvalidInput(f"{what}: {error}") from error
            self._patch = frames.with_state_patch(self._patch or "", patch)

    def take_patch(self) -> str | None:
        """End the attempt; return the changed fields, `None` if no field changed."""
        with self._lock:
            self._is_over = True
            self._warn_of_lost_changes()
            return self._patch

    def _warn_of_lost_changes(self) -> None:
        """Log the fields that the tool changed in a value, and not with `update`."""
        lost: set[str] = set()
        with suppress(Exception):  # `__eq__` of the application may raise
            for value, stored in self._given:
                changed = self._spec.differences(value, stored)
                now = frames.with_state_patch(self._before, self._patch)
                lost |= changed and changed & self._spec.differences(value, now)
        self._given.clear()
        if lost:
            name = min(lost)
            text = (
                "tool %s changed ctx.state.%s, which is a copy, so the change is lost. "
                "Call ctx.update(%s=...)."
            )
            _log.warning(text, self._tool_name, name, name)
