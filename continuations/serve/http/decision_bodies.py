"""Strict readers of request bodies: only an exact approval approves.

    {"decision": "approve"}             with "arguments": {…} to replace those shown,
                                        with "form": {…} if the policy has a form,
                                        with "remember": {…} to give a grant
    {"decision": "deny"}
    {"decision": "answer", "value": …}
    {"decision": "fail", "error": "…"}

Each may have "reason": "…". "shown" is the digest of the wait that the person saw. A
form must have it; a JSON body may have it. A body never names the decider. Every other
body is refused, and nothing is recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from continuations.core import jsontext
from continuations.core.decisions import Answer, Approve, Deny, Fail, Verdict
from continuations.present.json_forms import MAX_TEXT_CHARS
from continuations.serve.http import problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from continuations.core.grants import Grant
    from continuations.core.identity import Identity
    from continuations.serve.http.request_response import Request

JSON_TYPE = "application/json"
FORM_TYPE = "application/x-www-form-urlencoded"

_ALLOWED_FIELDS: Mapping[str, frozenset[str]] = {
    "approve": frozenset({"reason", "arguments", "form", "remember"}),
    "deny": frozenset({"reason"}),
    "answer": frozenset({"reason", "value"}),
    "fail": frozenset({"reason", "error"}),
}
_REQUIRED_FIELDS: Mapping[str, frozenset[str]] = {
    "approve": frozenset(),
    "deny": frozenset(),
    "answer": frozenset({"value"}),
    "fail": frozenset({"error"}),
}


class PostedDecision(NamedTuple):
    """A verdict from a body, and the digest that the person saw, if the body has it."""

    verdict: Verdict
    shown: str | None


def parse_json_object(request: Request) -> Mapping[str, Any]:
    """Return the JSON object in a body; raise `RequestRefused` for anything else."""
    _check_content_type(request, JSON_TYPE)
    if not request.body:
        raise problems.malformed("The body is empty. Send a JSON object, such as {}.")
    try:
        value = jsontext.parse(request.body, lossless=True)
    except jsontext.NotJson as error:
        msg = f"The body is not JSON: {error}."
        raise problems.malformed(msg) from None
    fields = jsontext.as_object(value)
    if fields is None:
        raise problems.malformed("The body must be a JSON object.")
    return fields


def decision_from_json(request: Request, by: str | Identity) -> PostedDecision:
    """Return the decision in a JSON body; raise `RequestRefused` if it is invalid."""
    return posted_decision(parse_json_object(request), by)


def posted_decision(fields: Mapping[str, Any], by: str | Identity) -> PostedDecision:
    """Return the decision of a JSON object; raise `RequestRefused` if it is invalid."""
    shown = optional_text(fields, "shown")
    own = {key: fields[key] for key in fields if key != "shown"}
    return PostedDecision(_verdict_from_json(own, by), shown)


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


def _verdict_from_json(fields: Mapping[str, Any], by: str | Identity) -> Verdict:
    kind = _decision_kind(fields)
    reason = optional_text(fields, "reason")
    if kind == "approve":
        return Approve(
            by=by,
            reason=reason,
            arguments=_optional_object(fields, "arguments"),
            form=_optional_object(fields, "form"),
            remember=_grant(fields),
        )
    if kind == "deny":
        return Deny(by=by, reason=reason)
    if kind == "fail":
        return Fail(optional_text(fields, "error") or "", by=by, reason=reason)
    return Answer(fields["value"], by=by, reason=reason)


def decision_from_form(request: Request, by: str | Identity) -> PostedDecision:
    """Return the decision in the form of a page; raise `RequestRefused` if invalid."""
    return decision_from_fields(form_fields(request), by)


def decision_from_fields(
    fields: Mapping[str, str], by: str | Identity
) -> PostedDecision:
    """Return the decision in the fields of a form; raise `RequestRefused`."""
    fields = {**fields}
    shown = fields.pop("shown", None)
    if not shown:
        msg = 'The form has no "shown", the digest of the page. Open the page again.'
        raise problems.malformed(msg)
    return PostedDecision(_verdict_from_form(fields, by), _form_text("shown", shown))


def _verdict_from_form(fields: Mapping[str, str], by: str | Identity) -> Verdict:
    if fields.get("as") == "fields":
        return _typed_verdict(fields, by)
    if fields.get("as", "json") != "json":
        raise problems.malformed('"as" must be "json" or "fields".')
    kind = _decision_kind({key: fields[key] for key in fields if key != "as"})
    if not fields.keys().isdisjoint({"arguments", "form", "remember"}):
        raise problems.malformed("A form cannot edit arguments or give a grant.")
    # A browser sends an empty field too.
    reason = _form_text("reason", fields.get("reason", "")) or None
    if kind == "approve":
        return Approve(by=by, reason=reason)
    if kind == "deny":
        return Deny(by=by, reason=reason)
    if kind == "fail":
        return Fail(_form_text("error", fields["error"]), by=by, reason=reason)
    text = _form_text("value", fields["value"])
    value = _json_value(text) if "as" in fields else text
    return Answer(value, by=by, reason=reason)


def _typed_verdict(fields: Mapping[str, str], by: str | Identity) -> Verdict:
    """Return an answer, or an approval with its form, of typed fields."""
    from continuations.serve.http import answer_forms  # noqa: PLC0415 - few types

    typed = {k: fields[k] for k in fields if k.startswith(answer_forms.PREFIX)}
    others = {k: fields[k] for k in fields if k not in typed and k != "as"}
    is_approval = others.get("decision") == "approve"
    kind = _decision_kind(others if is_approval else {**others, "value": ""})
    if not is_approval and (kind != "answer" or "value" in others):
        msg = (
            'Only the decisions "answer" and "approve" have typed fields. Open the '
            "page again."
        )
        raise problems.malformed(msg)
    if not others.keys().isdisjoint({"arguments", "form", "remember"}):
        raise problems.malformed("A form cannot edit arguments or give a grant.")
    values = {name: _form_text(name, text) for name, text in typed.items()}
    reason = _form_text("reason", fields.get("reason", "")) or None
    value = answer_forms.value_from_fields(values)
    if not is_approval:
        return Answer(value, by=by, reason=reason)
    form = _optional_object({"form": value}, "form")
    return Approve(by=by, reason=reason, form=form)


def optional_text(fields: Mapping[str, Any], name: str) -> str | None:
    """Return a text field, or `None` if it is absent.

    Raises `RequestRefused` for a value of another type and for a text that is too long.
    """
    if name not in fields:
        return None
    value = fields[name]
    if type(value) is not str:
        msg = f'"{name}" must be a string.'
        raise problems.malformed(msg)
    return _check_length(name, value)


def text_with_files(fields: Mapping[str, Any], text: str) -> Any:
    """Return a text, with the attachments of the field `files` if the body has some.

    Raises `RequestRefused`, and `AttachmentsTooLarge` for more than any run can have.
    """
    if "files" not in fields:
        return text
    from continuations.present import file_forms  # noqa: PLC0415 - few bodies have some

    try:
        return file_forms.text_with_files(text, file_forms.parse_files(fields["files"]))
    except file_forms.FilesInvalid as error:
        raise problems.malformed(f"{error}.".replace("..", ".")) from None


def refuse_unknown_fields(fields: Mapping[str, Any], names: frozenset[str]) -> None:
    """Raise `RequestRefused` if a body has fields with other names."""
    if not fields.keys() <= names:
        msg = f"The body has unknown fields. Allowed: {', '.join(sorted(names))}."
        raise problems.malformed(msg)


def _decision_kind(fields: Mapping[str, Any]) -> str:
    kind = fields.get("decision")
    if type(kind) is not str or kind not in _ALLOWED_FIELDS:
        msg = '"decision" must be "approve", "deny", "answer" or "fail".'
        raise problems.malformed(msg)
    refuse_unknown_fields(fields, _ALLOWED_FIELDS[kind] | {"decision", "shown"})
    missing = _REQUIRED_FIELDS[kind] - fields.keys()
    if missing:
        msg = f'A decision "{kind}" needs "{min(missing)}".'
        raise problems.malformed(msg)
    return kind


def _optional_object(fields: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    if name not in fields:
        return None
    values = jsontext.as_object(fields[name])
    if values is None:
        # null is refused too: it could mean "no arguments" or "no edit".
        msg = f'"{name}" must be an object.'
        raise problems.malformed(msg)
    return values


def _grant(fields: Mapping[str, Any]) -> Grant | None:
    if "remember" not in fields:
        return None
    from continuations.present import grant_forms  # noqa: PLC0415 - rarely given

    try:
        return grant_forms.parse_grant(fields["remember"])
    except grant_forms.GrantInvalid as error:
        msg = f'"remember" is not a grant: {error}.'
        raise problems.malformed(msg) from None


def form_fields(request: Request) -> Mapping[str, str]:
    """Return the fields of a posted form; raise `RequestRefused` if it is invalid."""
    # Not Starlette's parser: one parser decides what approves, also in AWS Lambda
    # (docs/decisions/0012-http-and-cold-start.md).
    from urllib.parse import parse_qsl  # noqa: PLC0415 - JSON bodies do not need it

    _check_content_type(request, FORM_TYPE)
    try:
        pairs = parse_qsl(
            request.body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
        )
    except ValueError:
        raise problems.malformed("The body is not a valid form.") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise problems.malformed("The form has a repeated field.")
    return fields


def _json_value(text: str) -> object:
    try:
        return jsontext.parse(text, lossless=True)
    except jsontext.NotJson as error:
        msg = f'"value" is not JSON: {error}. Write a text in quotes, or a number.'
        raise problems.malformed(msg) from None


def _check_length(name: str, value: str, max_chars: int = MAX_TEXT_CHARS) -> str:
    if len(value) > max_chars:
        msg = f'"{name}" has {len(value)} characters; the maximum is {max_chars}.'
        raise problems.malformed(msg)
    return value


def _form_text(name: str, value: str) -> str:
    # Browsers send each line end as CR LF (HTML standard, 4.10.21.4).
    return _check_length(name, value.replace("\r\n", "\n"))


def _check_content_type(request: Request, expected: str) -> None:
    content_type = request.headers.get("content-type", "")
    media_type, _, parameters = content_type.partition(";")
    charset = parameters.strip().lower().replace('"', "")
    is_expected = media_type.strip().lower() == expected
    if not is_expected or charset not in {"", "charset=utf-8"}:
        raise problems.unsupported_media_type(expected)
