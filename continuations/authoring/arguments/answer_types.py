"""The types of answers: their JSON Schema, and values as JSON text.

A plain text needs no pydantic; every other type imports it on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.authoring.errors import ArgumentsInvalid
from continuations.core import jsontext
from continuations.core.rows.decisions import Answer, dump_action
from continuations.core.rows.waits import TEXT_SCHEMA
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from continuations.authoring.tool_waits import QuestionDeadline


def schema_json_of(answer_type: Any) -> str | None:
    """Return the JSON Schema of an answer as text; `None` for any JSON value.

    Raises `InvalidInput` for a type that pydantic does not support.
    """
    if answer_type is None:
        return None
    if answer_type is str:
        return TEXT_SCHEMA
    from continuations.authoring.arguments import arguments, typed_values  # noqa: PLC0415 - slow to import

    adapter = typed_values.make_type_adapter(answer_type)
    return jsontext.canonical(arguments.schema_of(adapter))


def action_json_of(action: QuestionDeadline | None, answer_type: Any) -> str | None:
    """Return what a deadline does as JSON text.

    Raises `InvalidInput` if the value of an `Answer` does not fit the type.
    """
    if action is None:
        return None
    if isinstance(action, Answer):
        action = Answer(_json_value(action.value, answer_type))
    try:
        return dump_action(action)
    except jsontext.NotJson as error:
        msg = f"on_deadline cannot be stored: {error}. Pass a JSON value."
        raise InvalidInput(msg) from None


def _json_value(value: Any, answer_type: Any) -> Any:
    """Return the value of an answer as JSON values."""
    if answer_type is None or (answer_type is str and type(value) is str):
        return value
    from continuations.authoring.arguments import typed_values  # noqa: PLC0415 - slow to import

    adapter = typed_values.make_type_adapter(answer_type)
    try:
        return adapter.dump_python(
            adapter.validate_python(value), mode="json", by_alias=True
        )
    except Exception as error:
        # pydantic has several errors, and validators run the application's code.
        raise InvalidInput(
            "on_deadline: the value of the Answer does not fit answer_type "
            f"({type(error).__name__}). Pass a value of this type."
        ) from error


def typed_value(answer_json: str, answer_type: Any) -> Any:
    """Return the value of an answer as Python value; raises `ArgumentsInvalid`."""
    value = jsontext.parse(answer_json)
    if answer_type is Any or (answer_type is str and type(value) is str):
        return value
    from continuations.authoring.arguments import arguments, typed_values  # noqa: PLC0415 - slow to import

    adapter = typed_values.make_type_adapter(answer_type)
    return arguments.validated(adapter, answer_json, value, "answer", ArgumentsInvalid)
