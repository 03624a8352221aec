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
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from continuations.core import jsontext
from continuations.core.rows.decisions import Answer, Approve, Deny, Fail, Verdict
from continuations.present.requests import VERDICTS, FieldsInvalid, parse_grant
from continuations.serve.http import problems, request_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from continuations.core.identity import Identity
    from continuations.core.rows.grants import Grant
    from continuations.serve.http.request_response import Request

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
    from continuations.serve.http import answer_forms  # noqa: PLC0415 - few types

    typed = answer_forms.typed_fields(fields)
    others = {k: fields[k] for k in fields if k not in typed and k != "as"}
    is_approval = others.get("decision") == "approve"
    kind = _checked_kind(others if is_approval else {**others, "value": ""})
    if not is_approval and (kind != "answer" or "value" in others):
        raise problems.malformed(
            'Only the decisions "answer" and "approve" have typed fields. Open the '
            "page again."
        )
    reason = fields.get("reason") or None
    value = answer_forms.value_from_fields(typed)
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
        from continuations.serve.http.answer_forms import json_problem  # noqa: PLC0415 - rarely needed

        raise problems.malformed(f'"value" {json_problem(text, error)}') from None
