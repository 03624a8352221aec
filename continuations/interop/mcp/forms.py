"""Waits as forms of MCP: an elicitation asks, and its answer becomes a verdict.

A form of MCP is a flat object of texts, numbers, flags and choices. An approval asks
for `decision`, one of the verdicts of its kind. A question asks for the fields of its
answer. If an answer has no flat form, the form asks for it as JSON text.

Only `accept` with well-typed content is an answer. Everything else decides nothing.

In the other direction, the question of a server (elicitation) becomes a question to a
person. The schema of its form becomes the type of the answer, which is checked when the
answer is given. Only the keywords that MCP names are taken from the server, so no
reference leads out of the form.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias, cast

from mcp_types import ElicitRequest, ElicitRequestURLParams, ElicitResult
from pydantic import ValidationError, WithJsonSchema

from continuations import Answer, Approve, Deny, ask
from continuations.serve.http.decision_bodies import json_value
from continuations.serve.http.problems import RequestRefused
from continuations.serve.wait_texts import title_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations import Identity, Wait
    from continuations.results import Verdict
    from continuations.serve.http.links import VerdictKind
    from continuations.tools import ToolWait


_WORDS = ("title", "description", "default")
_KEYS_BY_TYPE: Mapping[str, tuple[str, ...]] = {
    "string": ("minLength", "maxLength", "format", "enum", "enumNames", "oneOf"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "boolean": (),
    "array": ("minItems", "maxItems", "items"),
}
_FORMATS = ("email", "uri", "date", "date-time")
_OWN_FIELDS = frozenset({"decision", "reason", "value"})
_MAX_ARGUMENTS_CHARS = 10_000


class NotAnAnswer(ValueError):
    """An accepted form does not fit its wait, which stays open."""


class _Form(NamedTuple):
    """The fields of a form, and how they become a value."""

    properties: dict[str, dict[str, Any]]
    required: list[str]


def asks(wait: Wait) -> bool:
    """Return whether a form of MCP can ask for the decision of a wait."""
    if wait.rules.asks_question or not wait.rules.asks_person:
        return wait.rules.asks_question
    if len(wait.arguments_json) > _MAX_ARGUMENTS_CHARS:
        return False  # a person must see the whole call
    return wait.form_schema is None or _policy_form(wait) is not None


def form_of(wait: Wait) -> dict[str, Any]:
    """Return the request of MCP that asks a person for the decision of a wait."""
    form = _answer_form(wait)[0] if wait.rules.asks_question else _verdict_form(wait)
    schema = {
        "type": "object",
        "properties": form.properties,
        "required": form.required,
    }
    params = {"mode": "form", "message": _message(wait), "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def verdict_of(wait: Wait, response: object, by: str | Identity) -> Verdict | None:
    """Return the verdict in the response to a form; `None` leaves the wait open.

    Args:
        wait: The wait that the form asked about.
        response: The value that the client sent, not checked.
        by: The person.

    Returns:
        The verdict, or `None` if the response is anything else than `accept`.

    Raises:
        NotAnAnswer: The form was accepted and does not fit the wait.
    """
    fields = as_object(response)
    if fields is None or fields.get("action") != "accept":
        return None
    content = as_object(fields.get("content"))
    if content is None:
        return None
    if wait.rules.asks_question:
        return Answer(_answer(wait, content), by=by)
    return _verdict(wait, content, by)


# Verdicts ------------------------------------------------------------------------


def _verdict_form(wait: Wait) -> _Form:
    words = wait.rules.verdicts
    choices = _choices(wait)
    meaning = " ".join(
        f"{each}: {words[each].label}. {words[each].meaning}" for each in choices
    )
    properties: dict[str, dict[str, Any]] = {
        "decision": {"type": "string", "enum": choices, "description": meaning},
        "reason": {"type": "string", "description": "Why. It is recorded."},
    }
    if "answer" in choices:
        text = "The result of the call, if the decision is answer."
        properties["value"] = {"type": "string", "description": text}
    return _Form(properties | (_policy_form(wait) or {}), ["decision"])


def _choices(wait: Wait) -> list[VerdictKind]:
    """Return the verdicts that the form offers.

    An answer in place of an approved call is for the console. If the call may have
    run, an answer is its result.
    """
    rules = wait.rules
    return [each for each in rules.verdicts if each != "answer" or rules.may_have_run]


def _policy_form(wait: Wait) -> dict[str, dict[str, Any]] | None:
    """Return the fields of the form of an approval, or `None` if it is not flat."""
    schema = wait.form_schema
    form = None if schema is None else flat_object(schema)
    if form is None or not _OWN_FIELDS.isdisjoint(form.properties):
        return None
    return form.properties


def _verdict(wait: Wait, content: Mapping[str, Any], by: str | Identity) -> Verdict:
    decision, reason = content.get("decision"), content.get("reason")
    choices = _choices(wait)
    if type(decision) is not str or decision not in choices:
        raise NotAnAnswer(f"decision must be one of {', '.join(choices)}")
    if reason is not None and type(reason) is not str:
        raise NotAnAnswer("reason must be a text")
    why = reason or None
    if decision == "deny":
        return Deny(by=by, reason=why)
    if decision == "answer":
        value = content.get("value")
        if type(value) is not str:
            raise NotAnAnswer("value must be the result of the call, as a text")
        return Answer(value, by=by, reason=why)
    fields = _policy_form(wait)
    form = None if fields is None else {k: content[k] for k in fields if k in content}
    return Approve(by=by, reason=why, form=form)


# Answers -------------------------------------------------------------------------


def _answer_form(wait: Wait) -> tuple[_Form, str]:
    """Return the form of a question, and how its value is read."""
    schema = wait.answer_schema or {"type": "string"}
    form = flat_object(schema)
    if form is not None:
        return form, "object"
    field = _flat_field(schema, schema)
    if field is not None:
        return _Form({"answer": field}, ["answer"]), "field"
    text = f"The answer as JSON text, which fits this schema: {json.dumps(schema)}"
    field = {"type": "string", "title": "Answer as JSON", "description": text}
    return _Form({"answer": field}, ["answer"]), "json"


def _answer(wait: Wait, content: Mapping[str, Any]) -> Any:
    form, read = _answer_form(wait)
    if read == "object":
        return {name: content[name] for name in form.properties if name in content}
    if "answer" not in content:
        raise NotAnAnswer("the field answer is missing")
    value = content["answer"]
    if read == "field":
        return value
    try:
        return json_value(value if isinstance(value, str) else "")
    except RequestRefused:
        raise NotAnAnswer("the field answer must be JSON text") from None


# Schemas -------------------------------------------------------------------------


def flat_object(schema: Mapping[str, Any]) -> _Form | None:
    """Return the fields of an object of plain values, or `None` for another schema."""
    properties = as_object(schema.get("properties"))
    if schema.get("type") != "object" or not properties:
        return None
    fields = {name: _flat_field(each, schema) for name, each in properties.items()}
    flat = {name: field for name, field in fields.items() if field is not None}
    if len(flat) < len(fields):
        return None
    return _Form(flat, [*schema.get("required", ())])


def _flat_field(schema: Any, root: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the schema of one plain value in the words of MCP, or `None`."""
    found = _resolved(schema, root)
    kind = None if found is None else found.get("type")
    if found is None or type(kind) is not str or kind not in _KEYS_BY_TYPE:
        return None
    field = {"type": kind}
    for key in (*_WORDS, *_KEYS_BY_TYPE[kind]):
        if key in found and found[key] is not None:
            field[key] = found[key]
    if field.get("format", _FORMATS[0]) not in _FORMATS:
        del field["format"]
    if kind == "array" and not _is_choice(as_object(field.get("items"))):
        return None
    return field


def _resolved(schema: Any, root: Mapping[str, Any]) -> dict[str, Any] | None:
    """Follow a reference inside the schema, and leave `null` out of a choice."""
    found = as_object(schema)
    if found is None:
        return None
    reference = found.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        target = as_object(
            root.get("$defs", {}).get(reference.removeprefix("#/$defs/"))
        )
        return None if target is None else {**target, **found}
    choices: list[Any] = found.get("anyOf") or []
    if choices:
        others = [each for each in choices if each != _NULL]
        inner = as_object(others[0]) if len(others) == 1 else None
        return None if inner is None else {**inner, **found}
    if "const" in found and "enum" not in found:
        return {**found, "enum": [found["const"]]}
    return found


_NULL = {"type": "null"}


def _is_choice(items: dict[str, Any] | None) -> bool:
    """Return whether the items of a list are chosen from fixed texts."""
    return items is not None and ("enum" in items or "anyOf" in items)


def as_object(value: object) -> dict[str, Any] | None:
    """Return a JSON object, or `None` for another value."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


# Words ---------------------------------------------------------------------------


def _message(wait: Wait) -> str:
    """Return what a person reads: the question, or the whole call."""
    rules = wait.rules
    lines = [title_of(wait)]
    if not rules.asks_question:
        arguments = json.dumps(wait.arguments, ensure_ascii=False, indent=2)
        lines += [rules.truth or rules.explanation, *filter(None, [wait.note])]
        lines += [f"{rules.words.arguments} {wait.tool}", arguments]
        lines += [f"{place}: {text}" for place, text in wait.readings.items()]
    if wait.deadline is not None:
        lines.append(f"{rules.deadline_label}: {wait.deadline:%Y-%m-%d %H:%M} UTC")
    return "\n".join(_visible(line) for line in lines)


def _visible(text: str) -> str:
    """Return a text in which no character hides or changes the place of others."""
    return "".join(
        char if char.isprintable() or char == "\n" else f"\\u{ord(char):04x}"
        for char in text
    )


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
        raise QuestionInvalid(
            f"the server sent the request {str(method)[:60]!r}, and only a question of "
            "the protocol can be asked"
        ) from None


def _check_url(url: str) -> None:
    if not url.startswith(("https://", "http://")):
        msg = "the server asked to open an address that is not http or https"
        raise QuestionInvalid(msg)


def _form(asked: Mapping[str, Any]) -> Json:
    """Return the schema of a flat form; raises `QuestionInvalid`."""
    from jsonschema_rs import meta  # noqa: PLC0415 - a server asks no question

    schema = {key: asked[key] for key in _KEYS if key in asked}
    form = flat_object(schema) if meta.is_valid(schema) else None
    # A list of choices is taken over as it is.
    if form is None or '"$' in json.dumps(form.properties):
        raise QuestionInvalid("the server asked with a form that is not flat")
    return {
        "type": "object",
        "properties": form.properties,
        "required": [name for name in form.properties if name in form.required],
        "additionalProperties": False,
    }
