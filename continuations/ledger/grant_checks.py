"""Check the grant that an approval gives, before the approval is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jsonschema_rs

from continuations.core import jsontext
from continuations.core.grants import MAX_SCHEMA_CHARS, Grant

if TYPE_CHECKING:
    from continuations.core.waits import Wait


def find_problem(wait: Wait, grant: object) -> str | None:
    """Return why a wait's approval cannot give a grant, or `None`."""
    if type(grant) is not Grant:
        return f"remember must be a Grant, got {type(grant).__name__}"
    if not wait.rules.follows_policy:
        return f"remember is for an approval, and the wait has the kind {wait.kind}"
    if wait.votes_needed > 1:
        return "several persons decide the wait, and one cannot give a grant"
    if wait.form_schema_json is not None:
        return "each call needs a form, and a grant cannot fill it in"
    if grant.tool != wait.tool:
        return f"the grant is for {grant.tool[:60]!r}, and the wait for another tool"
    return None if grant.arguments is None else _find_schema_problem(grant)


def _find_schema_problem(grant: Grant) -> str | None:
    try:
        schema = jsontext.parse(jsontext.dump(grant.arguments))
        size = len(jsontext.canonical(schema))
        # A stored schema must not make a process fetch a URL.
        jsonschema_rs.validator_for(schema, retriever=jsontext.refuse_reference)
    except jsontext.NotJson as error:
        return f"the arguments of the grant cannot be stored: {error}"
    except (ValueError, RecursionError) as error:
        return (
            "the arguments of the grant are not a valid JSON Schema "
            f"({type(error).__name__})"
        )
    if size > MAX_SCHEMA_CHARS:
        return (
            f"the arguments of the grant have {size} characters as JSON, and the "
            f"maximum is {MAX_SCHEMA_CHARS}"
        )
    return None
