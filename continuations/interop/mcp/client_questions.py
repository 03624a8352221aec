"""Questions of MCP servers (elicitation) as questions to people, and their answers.

A form is a flat object of texts, numbers, flags and choices. Its schema becomes the
type of the answer, which is checked when the answer is given. Only the keywords that
MCP names are taken from the server, so no reference leads out of the form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

from jsonschema_rs import meta
from mcp_types import ElicitRequest, ElicitRequestURLParams, ElicitResult
from pydantic import ValidationError, WithJsonSchema

from continuations import ask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.tools import ToolWait

__all__ = ["QuestionInvalid", "ask_person", "response"]

Json: TypeAlias = "dict[str, Any]"
_WORDS = ("title", "description", "default")
_KEYS_BY_TYPE: Mapping[str, tuple[str, ...]] = {
    "string": ("minLength", "maxLength", "format", "enum", "enumNames", "oneOf"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "boolean": (),
    "array": ("minItems", "maxItems"),
}
_ITEM_KEYS = ("type", "enum", "anyOf", "oneOf")
_CHOICE = ("const", "title")
_OPEN = (
    "{} asks you to open this address in a browser: {}\n{}\nAnswer true when you have "
    "done so, and false to decline."
)


class QuestionInvalid(ValueError):
    """A server asked something that no person can be asked."""


def ask_person(
    server: str, request: object, memo: Json, note: str = ""
) -> ToolWait[Any]:
    """Return the wait for the answer of a person.

    Args:
        server: The name of the server.
        request: The request, as the server sent it.
        memo: What the wait keeps.
        note: Why the server refused the answer before.

    Returns:
        The wait.

    Raises:
        QuestionInvalid: The request is no question, or its form is not flat.
    """
    params = _read(request)
    refused = f"\nIt refused the answer before: {note}" if note else ""
    if isinstance(params, ElicitRequestURLParams):
        _check_url(params.url)
        text = _OPEN.format(server, params.url, params.message)
        return ask(text + refused, bool, memo=memo)
    schema = _form(params.requested_schema)
    answer_type = Annotated[Any, WithJsonSchema(schema)]
    text = f"{server} asks: {params.message}"
    return ask(text + refused, answer_type, memo=memo)


def response(request: object, answer: Any) -> Json:
    """Return the response to a request, with the defaults of fields left out."""
    params = _read(request)
    if isinstance(params, ElicitRequestURLParams):
        return {"action": "accept" if answer is True else "decline"}
    properties = cast("Json", _form(params.requested_schema)["properties"])
    defaults = {k: v["default"] for k, v in properties.items() if "default" in v}
    made = ElicitResult(action="accept", content={**defaults, **answer})
    return made.model_dump(
        mode="json", by_alias=True, include={"action", "content"}, exclude_none=True
    )


def _read(request: object) -> Any:
    try:
        return ElicitRequest.model_validate(request, by_name=False).params
    except ValidationError:
        method = (_object(request) or {}).get("method")
        msg = (
            f"the server sent the request {str(method)[:60]!r}, and only a question of "
            "the protocol can be asked"
        )
        raise QuestionInvalid(msg) from None


def _check_url(url: str) -> None:
    if not url.startswith(("https://", "http://")):
        msg = "the server asked to open an address that is not http or https"
        raise QuestionInvalid(msg)


def _form(schema: Mapping[str, Any]) -> Json:
    """Return the schema of a flat form; raises `QuestionInvalid`."""
    fields = _object(schema.get("properties"))
    required = _items(schema.get("required", []))
    if fields is None:
        raise _not_flat()
    form = {
        "type": "object",
        "properties": {name: _field(_object(each)) for name, each in fields.items()},
        "required": [name for name in fields if name in required],
        "additionalProperties": False,
    }
    if not meta.is_valid(form):
        raise _not_flat()
    return form


def _field(schema: Json | None) -> Json:
    keys = _KEYS_BY_TYPE.get(str(schema.get("type"))) if schema else None
    if schema is None or keys is None:
        raise _not_flat()
    field = _taken(schema, ("type", *_WORDS, *keys))
    if schema["type"] == "array":
        field["items"] = _taken(_object(schema.get("items")), _ITEM_KEYS)
    return field


def _taken(schema: Json | None, keys: tuple[str, ...]) -> Json:
    """Return the keywords of a schema that are taken over, with their choices."""
    if schema is None:
        raise _not_flat()
    taken = {key: schema[key] for key in keys if key in schema}
    for key in taken.keys() & {"anyOf", "oneOf"}:
        choices = [_taken(_object(each), _CHOICE) for each in _items(taken[key])]
        if not all("const" in each for each in choices):
            raise _not_flat()
        taken[key] = choices
    return taken


def _object(value: object) -> Json | None:
    return cast("Json", value) if isinstance(value, dict) else None


def _items(value: object) -> list[object]:
    if not isinstance(value, list):
        raise _not_flat()
    return cast("list[object]", value)


def _not_flat() -> QuestionInvalid:
    return QuestionInvalid("the server asked with a form that is not flat")
