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
from continuations.serve import problems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.serve.http import Request

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"

# Every word goes to the model, with each of its later turns: in characters.
MOST_TEXT = 4000
# What may stand beside "decision", and what must.
_MAY: Mapping[str, frozenset[str]] = {
    "approve": frozenset({"arguments"}),
    "deny": frozenset({"reason"}),
    "answer": frozenset({"value"}),
}
_MUST: Mapping[str, frozenset[str]] = {
    "approve": frozenset(),
    "deny": frozenset(),
    "answer": frozenset({"value"}),
}


def json_object(request: Request) -> Mapping[str, Any]:
    """Return the JSON object that a request brings; raises `Refused`."""
    _check_type(request, JSON)
    try:
        value = jsontext.parse(request.body, unique=True)
    except jsontext.NotJson as error:
        msg = f"The body is not JSON: {error}."
        raise problems.malformed(msg) from None
    found = jsontext.mapping(value)
    if found is None:
        raise problems.malformed("The body is a JSON object.")
    return found


def from_json(request: Request, by: str) -> Verdict:
    """Return the verdict in a JSON body; raises `Refused`."""
    said = json_object(request)
    kind = _kind(said)
    if kind == "approve":
        return Approve(by=by, arguments=_arguments(said))
    if kind == "deny":
        return Deny(by=by, reason=text(said, "reason"))
    return Answer(said["value"], by=by)


def from_form(request: Request, by: str) -> Verdict:
    """Return the verdict in what a page's form sends; raises `Refused`."""
    said = _form(request)
    kind = _kind(said)
    if "arguments" in said:
        raise problems.malformed("A form does not edit arguments.")
    if kind == "approve":
        return Approve(by=by)
    if kind == "deny":
        # A field that was left empty says nothing.
        return Deny(by=by, reason=_typed("reason", said.get("reason", "")) or None)
    return Answer(_typed("value", said["value"]), by=by)


def text(said: Mapping[str, Any], name: str, *, most: int = MOST_TEXT) -> str | None:
    """Return a text, `None` if it is not there; raises `Refused` for anything else."""
    if name not in said:
        return None
    value = said[name]
    if type(value) is not str:
        msg = f'"{name}" is a text.'
        raise problems.malformed(msg)
    return _bounded(name, value, most)


def refuse_others(said: Mapping[str, Any], names: frozenset[str]) -> None:
    """Raise `Refused` for a body that says more than what is understood."""
    if not said.keys() <= names:
        known = ", ".join(sorted(names))
        msg = f"The body says what is not understood; it may say: {known}."
        raise problems.malformed(msg)


def _kind(said: Mapping[str, Any]) -> str:
    kind = said.get("decision")
    if type(kind) is not str or kind not in _MAY:
        msg = '"decision" is "approve", "deny" or "answer".'
        raise problems.malformed(msg)
    refuse_others(said, _MAY[kind] | {"decision"})
    missing = _MUST[kind] - said.keys()
    if missing:
        msg = f'"{kind}" needs "{min(missing)}".'
        raise problems.malformed(msg)
    return kind


def _arguments(said: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if "arguments" not in said:
        return None
    arguments = jsontext.mapping(said["arguments"])
    if arguments is None:
        # Null too: it could mean "none", or "as they are".
        raise problems.malformed('"arguments" is an object.')
    return arguments


def _form(request: Request) -> Mapping[str, str]:
    from urllib.parse import parse_qsl  # noqa: PLC0415 - JSON needs none of it

    _check_type(request, FORM)
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


def _bounded(name: str, value: str, most: int = MOST_TEXT) -> str:
    if len(value) > most:
        msg = f'"{name}" has more than {most} characters.'
        raise problems.malformed(msg)
    return value


def _typed(name: str, value: str) -> str:
    # Browsers send every line's end as CR LF (HTML, section 4.10.21.4).
    return _bounded(name, value.replace("\r\n", "\n"))


def _check_type(request: Request, expected: str) -> None:
    given = request.headers.get("content-type", "")
    kind, _, parameters = given.partition(";")
    charset = parameters.strip().lower().replace('"', "")
    if kind.strip().lower() != expected or charset not in {"", "charset=utf-8"}:
        raise problems.unsupported(expected)
