"""Questions of MCP servers (elicitation) as questions to people, and their answers.

A form is a flat object of texts, numbers, flags and choices. Its schema becomes the
type of the answer, which is checked when the answer is given. Only the keywords that
MCP names are taken from the server, so no reference leads out of the form.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

from jsonschema_rs import meta
from mcp_types import ElicitRequest, ElicitRequestURLParams, ElicitResult
from pydantic import ValidationError, WithJsonSchema

from continuations import ask
from continuations.interop.mcp.forms import as_object, flat_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.tools import ToolWait

__all__ = ["QuestionInvalid", "ask_person", "response"]

Json: TypeAlias = "dict[str, Any]"
_KEYS = ("type", "properties", "required")
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
        memo: The value that the wait keeps.
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
        method = (as_object(request) or {}).get("method")
        msg = (
            f"the server sent the request {str(method)[:60]!r}, and only a question of "
            "the protocol can be asked"
        )
        raise QuestionInvalid(msg) from None


def _check_url(url: str) -> None:
    if not url.startswith(("https://", "http://")):
        msg = "the server asked to open an address that is not http or https"
        raise QuestionInvalid(msg)


def _form(asked: Mapping[str, Any]) -> Json:
    """Return the schema of a flat form; raises `QuestionInvalid`."""
    schema = {key: asked[key] for key in _KEYS if key in asked}
    form = flat_object(schema) if meta.is_valid(schema) else None
    # A list of choices is taken over as it is.
    if form is None or '"$' in json.dumps(form.properties):
        msg = "the server asked with a form that is not flat"
        raise QuestionInvalid(msg)
    return {
        "type": "object",
        "properties": form.properties,
        "required": [name for name in form.properties if name in form.required],
        "additionalProperties": False,
    }
