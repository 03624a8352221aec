"""What a request says about a wait, read strictly: nothing that is like a yes is one.

    {"decision": "approve"}             or with "arguments": {…} in place of those shown
    {"decision": "deny"}                or with "reason": "…"
    {"decision": "answer", "value": …}

Who decides is never read from here. Anything else is refused, and records nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.decisions import Answer, Approve, Deny, Verdict
from continuations.present.json_forms import MAX_TEXT_CHARS
from continuations.serve.http import problems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.serve.http.request_response import Request

JSON_TYPE = "application/json"
FORM_TYPE = "application/x-www-form-urlencoded"

# What may stand beside "decision", and what must.
_ALLOWED_FIELDS: Mapping[str, frozenset[str]] = {
    "approve": frozenset({"arguments"}),
    "deny": frozenset({"reason"}),
    "answer": frozenset({"value"}),
}
_REQUIRED_FIELDS: Mapping[str, frozenset[str]] = {
    "approve": frozenset(),
    "deny": frozenset(),
    "answer": frozenset({"value"}),
}


def parse_json_object(request: Request) -> Mapping[str, Any]:
    """Return the JSON object that a request brings; raises `Refused`."""
    _check_content_type(request, JSON_TYPE)
    try:
        value = jsontext.parse(request.body, unique_keys=True)
    except jsontext.NotJson as error:
        msg = f"The body is not JSON: {error}."
        raise problems.malformed(msg) from None
    found = jsontext.as_object(value)
    if found is None:
        raise problems.malformed("The body is a JSON object.")
    return found


def verdict_from_json(request: Request, by: str) -> Verdict:
    """Return the verdict in a JSON body; raises `Refused`."""
    said = parse_json_object(request)
    kind = _decision_kind(said)
    if kind == "approve":
        return Approve(by=by, arguments=_edited_arguments(said))
    if kind == "deny":
        return Deny(by=by, reason=optional_text(said, "reason"))
    return Answer(said["value"], by=by)


def verdict_from_form(request: Request, by: str) -> Verdict:
    """Return the verdict in what a page's form sends; raises `Refused`."""
    said = _parse_form(request)
    kind = _decision_kind(said)
    if "arguments" in said:
        raise problems.malformed("A form does not edit arguments.")
    if kind == "approve":
        return Approve(by=by)
    if kind == "deny":
        # A field that was left empty says nothing.
        return Deny(by=by, reason=_form_text("reason", said.get("reason", "")) or None)
    return Answer(_form_text("value", said["value"]), by=by)


def optional_text(
    fields: Mapping[str, Any], name: str, *, max_chars: int = MAX_TEXT_CHARS
) -> str | None:
    """Return a text, `None` if it is not there; raises `Refused` for anything else."""
    if name not in fields:
        return None
    value = fields[name]
    if type(value) is not str:
        msg = f'"{name}" is a text.'
        raise problems.malformed(msg)
    return _check_length(name, value, max_chars)


def refuse_unknown_fields(fields: Mapping[str, Any], names: frozenset[str]) -> None:
    """Raise `Refused` for a body that says more than what is understood."""
    if not fields.keys() <= names:
        known = ", ".join(sorted(names))
        msg = f"The body says what is not understood; it may say: {known}."
        raise problems.malformed(msg)


def _decision_kind(fields: Mapping[str, Any]) -> str:
    kind = fields.get("decision")
    if type(kind) is not str or kind not in _ALLOWED_FIELDS:
        msg = '"decision" is "approve", "deny" or "answer".'
        raise problems.malformed(msg)
    refuse_unknown_fields(fields, _ALLOWED_FIELDS[kind] | {"decision"})
    missing = _REQUIRED_FIELDS[kind] - fields.keys()
    if missing:
        msg = f'"{kind}" needs "{min(missing)}".'
        raise problems.malformed(msg)
    return kind


def _edited_arguments(fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if "arguments" not in fields:
        return None
    arguments = jsontext.as_object(fields["arguments"])
    if arguments is None:
        # Null too: it could mean "none", or "as they are".
        raise problems.malformed('"arguments" is an object.')
    return arguments


def _parse_form(request: Request) -> Mapping[str, str]:
    from urllib.parse import parse_qsl  # noqa: PLC0415 - JSON needs none of it

    _check_content_type(request, FORM_TYPE)
    try:
        pairs = parse_qsl(
            request.body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
        )
    except ValueError:
        raise problems.malformed("The form is malformed.") from None
    said = dict(pairs)
    if len(said) != len(pairs):
        raise problems.malformed("The form says one thing twice.")
    return said


def _check_length(name: str, value: str, max_chars: int = MAX_TEXT_CHARS) -> str:
    if len(value) > max_chars:
        msg = f'"{name}" has more than {max_chars} characters.'
        raise problems.malformed(msg)
    return value


def _form_text(name: str, value: str) -> str:
    # Browsers send every line's end as CR LF (HTML, section 4.10.21.4).
    return _check_length(name, value.replace("\r\n", "\n"))


def _check_content_type(request: Request, expected: str) -> None:
    given = request.headers.get("content-type", "")
    kind, _, parameters = given.partition(";")
    charset = parameters.strip().lower().replace('"', "")
    if kind.strip().lower() != expected or charset not in {"", "charset=utf-8"}:
        raise problems.unsupported_media_type(expected)
