"""Strict readers of decisions: only an exact approval approves.

    {"decision": "approve"}             with "arguments": {…} to replace those shown,
                                        with "form": {…} if the policy has a form,
                                        with "remember": {…} to give a grant
    {"decision": "deny"}
    {"decision": "answer", "value": …}
    {"decision": "fail", "error": "…"}

Each may have "reason": "…". "shown" is the digest of the wait that the person saw. A
form must have it; a JSON body may have it. A body never names the decider. Every other
body is refused, and nothing is recorded.

In a typed form, each field is named by its kind and its place in the value, as
`serve.pages.form_view` describes. A form says nothing about the wait: the value is
checked with the schema of the stored wait.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from continuations.core import jsontext
from continuations.core.rows.decisions import Answer, Approve, Deny, Fail, Verdict
from continuations.present.requests import VERDICTS, FieldsInvalid, parse_grant
from continuations.serve.http import problems, request_fields
from continuations.serve.pages.form_view import PREFIX, below, steps_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from continuations.core.identity import Identity
    from continuations.core.rows.grants import Grant
    from continuations.core.rows.waits import Wait
    from continuations.serve.http.request_response import Request

__all__ = ["PREFIX", "FieldsRead", "read_fields", "value_from_fields"]


_NOT_IN_FORMS = frozenset({"arguments", "form", "remember"})


class PostedDecision(NamedTuple):
    """A verdict from a body, and the digest that the person saw, if the body has it."""

    verdict: Verdict
    shown: str | None


# JSON ---------------------------------------------------------------------------


def decision_from_json(request: Request, by: str | Identity) -> PostedDecision:
    """Return the decision in a JSON body; raise `RequestRefused` if it is invalid."""
    return posted_decision(request_fields.parse_json_object(request), by)


def posted_decision(fields: Mapping[str, Any], by: str | Identity) -> PostedDecision:
    """Return the decision of a JSON object; raise `RequestRefused` if it is invalid."""
    kind, reason = _checked_kind(fields), fields.get("reason")
    verdict: Verdict
    if kind == "approve":
        verdict = Approve(
            by=by,
            reason=reason,
            arguments=fields.get("arguments"),
            form=fields.get("form"),
            remember=_grant(fields),
        )
    else:
        value, error = fields.get("value"), fields.get("error", "")
        verdict = _plain_verdict(kind, value, error, by, reason)
    return PostedDecision(verdict, fields.get("shown"))


def posted_decisions(
    items: Iterable[object], by: str | Identity
) -> dict[str, PostedDecision]:
    """Return the decisions of JSON objects, by wait id; raise `RequestRefused`."""
    posted: dict[str, PostedDecision] = {}
    for number, item in enumerate(items):
        own = {**(jsontext.as_object(item) or {})}
        wait_id = own.pop("wait_id", None)
        if type(wait_id) is not str or wait_id in posted:
            msg = f'decisions[{number}] must be an object with a "wait_id" of its own.'
            raise problems.malformed(msg)
        try:
            posted[wait_id] = posted_decision(own, by)
        except problems.RequestRefused as error:
            msg = f"decisions[{number}] is not valid: {error.problem.detail}"
            raise problems.malformed(msg) from None
    return posted


# Forms --------------------------------------------------------------------------


def decision_from_form(request: Request, by: str | Identity) -> PostedDecision:
    """Return the decision in the form of a page; raise `RequestRefused` if invalid."""
    return decision_from_fields(request_fields.form_fields(request), by)


def decision_from_fields(
    fields: Mapping[str, str], by: str | Identity
) -> PostedDecision:
    """Return the decision in the fields of a form; raise `RequestRefused`."""
    if not fields.get("shown"):
        msg = 'The form has no "shown", the digest of the page. Open the page again.'
        raise problems.malformed(msg)
    if not fields.keys().isdisjoint(_NOT_IN_FORMS):
        raise problems.malformed("A form cannot edit arguments or give a grant.")
    for name, text in fields.items():
        request_fields.check_length(name, text)
    reader = {"fields": _typed_verdict, "json": _verdict_from_form}
    read = reader.get(fields.get("as", "json"))
    if read is None:
        raise problems.malformed('"as" must be "json" or "fields".')
    return PostedDecision(read(fields, by), fields["shown"])


def _verdict_from_form(fields: Mapping[str, str], by: str | Identity) -> Verdict:
    kind = _checked_kind({key: fields[key] for key in fields if key != "as"})
    # A browser sends an empty field too.
    reason = fields.get("reason") or None
    if kind == "approve":
        return Approve(by=by, reason=reason)
    text = fields.get("value", "")
    value = json_value(text) if kind == "answer" and "as" in fields else text
    return _plain_verdict(kind, value, fields.get("error", ""), by, reason)


def _typed_verdict(fields: Mapping[str, str], by: str | Identity) -> Verdict:
    """Return an answer, or an approval with its form, of typed fields."""
    typed = typed_fields(fields)
    others = {k: fields[k] for k in fields if k not in typed and k != "as"}
    is_approval = others.get("decision") == "approve"
    kind = _checked_kind(others if is_approval else {**others, "value": ""})
    if not is_approval and (kind != "answer" or "value" in others):
        raise problems.malformed(
            'Only the decisions "answer" and "approve" have typed fields. Open the '
            "page again."
        )
    reason = fields.get("reason") or None
    value = value_from_fields(typed)
    if not is_approval:
        return Answer(value, by=by, reason=reason)
    form = jsontext.as_object(value)
    if form is None:
        raise problems.malformed('"form" must be an object.')
    return Approve(by=by, reason=reason, form=form)


# Parts --------------------------------------------------------------------------


def _checked_kind(fields: Mapping[str, Any]) -> str:
    """Return the kind of a decision whose fields are those of its schema."""
    kind = fields.get("decision")
    if type(kind) is not str or kind not in VERDICTS:
        msg = '"decision" must be "approve", "deny", "answer" or "fail".'
        raise problems.malformed(msg)
    request_fields.check(fields, VERDICTS[kind], f'A decision "{kind}"')
    return kind


def _plain_verdict(
    kind: str, value: Any, error: str, by: str | Identity, reason: str | None
) -> Verdict:
    if kind == "deny":
        return Deny(by=by, reason=reason)
    if kind == "fail":
        return Fail(error, by=by, reason=reason)
    return Answer(value, by=by, reason=reason)


def _grant(fields: Mapping[str, Any]) -> Grant | None:
    if "remember" not in fields:
        return None
    try:
        return parse_grant(fields["remember"])
    except FieldsInvalid as error:
        raise problems.malformed(f'"remember" is not a grant: {error}.') from None


def json_value(text: str) -> object:
    """Return the value of a JSON text that a person wrote; raise `RequestRefused`."""
    try:
        return jsontext.parse(text, lossless=True)
    except jsontext.NotJson as error:
        raise problems.malformed(f'"value" {json_problem(text, error)}') from None


class FieldsRead(NamedTuple):
    """The value of the typed fields of a form.

    Attributes:
        value: The value, without the fields that cannot be read.
        errors: Why a field cannot be read, by the pointer of its place.
    """

    value: Any
    errors: Mapping[str, str]


def value_from_fields(fields: Mapping[str, str]) -> Any:
    """Return the value of the typed fields of a form; raise `RequestRefused`."""
    read = read_fields(fields)
    for pointer, error in read.errors.items():
        place = pointer.strip("/")
        what = f'"{place}"' if place else "The answer"
        raise problems.malformed(f"{what} {error}")
    return read.value


def read_fields(fields: Mapping[str, str]) -> FieldsRead:
    """Return the value of the typed fields, and the errors of single fields.

    Raises `RequestRefused` for fields that no page of this library has.
    """
    holder: dict[str, Any] = {}
    errors: dict[str, str] = {}
    # A browser sends the fields of a page in their order: an object before its parts.
    for name, text in fields.items():
        kind, _, pointer = name.removeprefix(PREFIX).partition(":")
        if kind.endswith("?") and not text:
            continue
        *above, last = ["", *steps_of(pointer)]
        place = _place(holder, above, kind)
        if not _is_free(place, last, kind) or pointer[:1] not in ("", "/"):
            msg = f'The field "{name:.80}" has no place. Open the page again.'
            raise problems.malformed(msg)
        try:
            value = _value(kind.removesuffix("?"), text)
        except _NotReadable as error:
            errors[pointer] = str(error)
            value = None
        if kind == "item":
            place.append(value)
        else:
            place[last] = value
    if "" not in holder:
        raise problems.malformed("The form has no value. Open the page again.")
    return FieldsRead(holder[""], errors)


class _NotReadable(ValueError):
    """The text of a field is no value of its kind."""


def _place(holder: dict[str, Any], steps: list[str], kind: str) -> Any:
    """Return the object or list that a field belongs to, or `None`."""
    place: Any = holder
    for step in steps:
        found = jsontext.as_object(place)
        place = None if found is None else found.get(step)
    expected = jsontext.as_array if kind == "item" else jsontext.as_object
    return expected(place)


def _is_free(place: Any, step: str, kind: str) -> bool:
    """Return whether a field may put its value there."""
    if place is None or kind == "item":
        return place is not None
    if kind == "checked":
        return place.get(step) is False
    return step not in place


def _value(kind: str, text: str) -> Any:
    if kind in _MARKS:
        return _MARKS[kind]()
    if kind == "text":
        return text
    if kind not in ("number", "json", "checked", "item"):
        msg = f'The kind "{kind:.20}" of a field is unknown. Open the page again.'
        raise problems.malformed(msg)
    try:
        value = jsontext.parse(text.strip(), lossless=True)
    except jsontext.NotJson as error:
        if kind == "number":
            raise _NotReadable(_NO_NUMBER) from None
        raise _NotReadable(json_problem(text.strip(), error)) from None
    if kind == "number" and type(value) not in (int, float):
        raise _NotReadable(_NO_NUMBER)
    return value


# The words for people for what Python's reader of JSON misses.
_MISSING: Mapping[str, str] = {
    "Expecting ','": "a comma or a closing bracket",
    "Expecting ':'": "a colon",
    "Expecting property": "a name in double quotes",
    "Expecting value": "a value",
    "Unterminated string": "a closing quote",
}


def json_problem(text: str, error: Exception) -> str:
    """Return why a text of a person is not JSON, and what to do, after its name."""
    if not text:
        return "is empty. Write a value, for example a text in double quotes."
    why = str(error)
    missing = next((words for sign, words in _MISSING.items() if sign in why), "")
    place = _PLACE.search(why)
    if not place:
        return f"is not written as JSON: {why}. Correct it there."
    before = text[: int(place[1])]
    line, character = before.count("\n") + 1, len(before) - before.rfind("\n")
    where = f"character {character}" + (f" of line {line}" if "\n" in text else "")
    if missing:
        return f"is not written as JSON: {missing} is missing at {where}."
    return f"is not written as JSON: {where} is wrong. Correct it there."


_PLACE = re.compile(r"\(char (\d+)\)")
_MARKS: Mapping[str, type] = {"object": dict, "flag": bool, "list": list}
_NO_NUMBER = "must be a number. Write digits, for example 12."


def typed_fields(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the typed fields of a form."""
    return {name: text for name, text in fields.items() if name.startswith(PREFIX)}


def field_errors(wait: Wait, fields: Mapping[str, str]) -> dict[str, str]:
    """Return why the values of a form are refused, by their pointers.

    Raises `RequestRefused` for a form that no page has.
    """
    schema = wait.form_schema
    if fields.get("decision") == "answer":
        schema = wait.answer_schema
    if fields.get("as") != "fields" or schema is None:
        return {}
    read = read_fields(typed_fields(fields))
    return dict(read.errors) or value_errors(schema, read.value)


def value_errors(schema: Mapping[str, Any], value: object) -> dict[str, str]:
    """Return why a value does not fit a schema, by the pointers of its places."""
    from continuations.ledger.edits import schema_problems  # noqa: PLC0415 - loads jsonschema_rs

    errors: dict[str, str] = {}
    try:
        found = schema_problems(schema, jsontext.parse(jsontext.dump(value)))
    except (ValueError, RecursionError):
        return {"": "cannot be checked with its schema."}
    for place, message in found:
        pointer = ""
        for step in place:
            pointer = below(pointer, str(step))
        errors.setdefault(pointer, message)
    return errors
