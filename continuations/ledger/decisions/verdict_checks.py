"""Check a verdict with its wait; raise `DecisionRefused` if it does not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.rows.decisions import VERDICT_KINDS, Answer, Approve, Deny, Fail
from continuations.core.rows.waits import TEXT_SCHEMA
from continuations.ledger.decision_errors import refused_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.rows.decisions import Verdict
    from continuations.core.rows.waits import Wait


# In ASCII, the bytes of a name are its characters; see `core.identity`.
_MAX_ASCII_NAME = 255


def check_values(wait: Wait, verdict: Verdict) -> None:
    """Check edited arguments, or an answer, with the schemas of the wait."""
    if isinstance(verdict, Approve) and verdict.arguments is not None:
        _check_edited_arguments(wait, verdict.arguments)
    if isinstance(verdict, Approve) and verdict.remember is not None:
        _check_grant(wait, verdict.remember)
    if isinstance(verdict, Approve):
        _check_form(wait, verdict.form)
    if isinstance(verdict, Answer) and wait.answer_schema_json is not None:
        _check_answer(wait, verdict.value)


_EXAMPLES: Mapping[type[object], str] = {
    Approve: 'Approve(by="kim")',
    Deny: 'Deny(by="kim", reason="...")',
    Answer: "Answer(value)",
    Fail: "Fail(error)",
}


def check_kind(wait: Wait, verdict: object) -> None:
    """Check that a value is a verdict that ends waits of this kind."""
    kind = VERDICT_KINDS.get(type(verdict))
    if kind is None:
        why = "verdict must be an Approve, Deny, Answer or Fail, got "
        if isinstance(verdict, type) and verdict in _EXAMPLES:
            example = _EXAMPLES[verdict]
            why += f"the class {verdict.__name__}"
            raise refused_error(wait, why, f"Write {example}.")
        raise refused_error(wait, why + type(verdict).__name__)
    reason = getattr(verdict, "reason", None)
    if not (reason is None or type(reason) is str):
        raise refused_error(wait, "reason must be a str or None")
    if not has_valid_decider(verdict):
        raise refused_error(wait, "by must be a str, an Identity or None")
    _check_name(wait, getattr(verdict, "by", None))
    if isinstance(verdict, Fail) and type(verdict.error) is not str:
        raise refused_error(wait, "error must be a str")
    if kind not in wait.rules.verdicts:
        fitting = ", ".join(wait.rules.verdicts)
        why = f"a wait of kind {wait.kind} is ended by {fitting or wait.rules.ended_by}"
        if fitting:
            raise refused_error(wait, why)
        next_step = (
            f"Unpause run {wait.run_id}."
            if wait.rules.ended_by_unpause
            else "Wait until then, or cancel the run or its call."
        )
        raise refused_error(wait, why, next_step)
    edits = isinstance(verdict, Approve) and verdict.arguments is not None
    if edits and not wait.rules.allows_edits:
        raise refused_error(
            wait,
            "arguments cannot be edited, because the call may have happened already",
        )


def has_valid_decider(verdict: object) -> bool:
    """Tell whether the `by` of a verdict is a name, an `Identity` or `None`."""
    by = getattr(verdict, "by", None)
    if by is None or type(by) is str:
        return True
    from continuations.core.identity import Identity  # noqa: PLC0415 - rarely needed

    return type(by) is Identity


def _check_name(wait: Wait, name: object) -> None:
    """Refuse a name that looks like another one; an `Identity` was checked before."""
    if type(name) is not str:
        return
    is_plain = name.isascii() and name.isprintable() and name == name.strip()
    if is_plain and 0 < len(name) <= _MAX_ASCII_NAME:
        return
    from continuations.core.identity import (  # noqa: PLC0415 - few names need it
        NAME_ADVICE,
        NAME_SIZE,
        find_name_problem,
        has_name_size,
    )

    if not has_name_size(name):
        why = f"by must have {NAME_SIZE}"
        raise refused_error(wait, why, "Decide with by=NAME, the name of a person.")
    problem = find_name_problem(name)
    if problem is not None:
        why = f"by is not a name: {problem}"
        raise refused_error(wait, why, f"Decide with by=NAME. {NAME_ADVICE}")


def _check_grant(wait: Wait, grant: object) -> None:
    from continuations.core.rows.grants import Grant  # noqa: PLC0415 - rarely needed
    from continuations.ledger.decisions import run_grants  # noqa: PLC0415 - rarely needed

    problem = run_grants.find_problem(wait, grant)
    if problem is None:
        return
    if not isinstance(grant, Grant) or grant.arguments is None:
        raise refused_error(wait, problem)
    example = run_grants.example_condition(wait, grant)
    works = "without arguments: then the grant covers every call of the tool"
    if example is not None:
        works = f"for example with arguments={example}"
    raise refused_error(wait, problem, f"Decide again, {works}.")


def _check_edited_arguments(wait: Wait, edited_arguments: object) -> None:
    from continuations.ledger import edits  # noqa: PLC0415 - rarely needed

    problem = edits.find_problem(wait, edited_arguments)
    problem = problem or edits.find_fixed_problem(wait, edited_arguments)
    if problem is not None:
        raise refused_error(wait, problem)


def _check_form(wait: Wait, form: object) -> None:
    if wait.form_schema_json is None:
        if form is not None:
            raise refused_error(wait, "its approval has no form, and form was given")
        return
    if form is None:
        schema = wait.form_schema or {}
        names = [str(name) for name in schema.get("required", ())]
        needs = f" with the fields {', '.join(names)}" if names else ""
        raise refused_error(
            wait,
            f"its approval needs a form{needs}",
            "Approve with form={...}; wait.form_schema describes the fields.",
        )
    if jsontext.as_object(form) is None:
        got = type(form).__name__
        raise refused_error(wait, f"the form must be a dict, got {got}")
    from continuations.ledger import edits  # noqa: PLC0415 - rarely needed

    problem = edits.find_value_problem(wait.form_schema or {}, form, "the form")
    if problem is not None:
        raise refused_error(wait, problem)


def _check_answer(wait: Wait, value: object) -> None:
    if wait.answer_schema_json == TEXT_SCHEMA:
        if type(value) is not str:
            got = type(value).__name__
            raise refused_error(wait, f"the value must be a text, got {got}")
        return
    from continuations.ledger import edits  # noqa: PLC0415 - rarely needed

    problem = edits.find_value_problem(wait.answer_schema or {}, value, "the value")
    if problem is not None:
        raise refused_error(wait, problem)
