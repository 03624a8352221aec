"""The record of a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.decisions import Answer, Approve, Decision, Fail

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.decisions import DecisionKind, Verdict


def decision_from_verdict(
    wait_id: str, digest: str, verdict: Verdict, *, now: datetime, decision_id: str
) -> Decision:
    """Return a verdict as a record; raises `NotJson`."""
    by, arguments, value = verdict.by, None, None
    kind: DecisionKind = "approve" if isinstance(verdict, Approve) else "deny"
    grant = None
    if isinstance(verdict, Approve) and verdict.remember is not None:
        from continuations.core.grants import grant_text  # noqa: PLC0415 - rarely given

        grant = grant_text(verdict.remember)
    if isinstance(verdict, Approve):
        arguments = _values_text(verdict.arguments)
    if isinstance(verdict, Answer):
        kind, value = "answer", jsontext.canonical(verdict.value)
    if isinstance(verdict, Fail):
        kind, value = "fail", jsontext.canonical(verdict.error)
    return Decision(
        id=decision_id,
        wait_id=wait_id,
        kind=kind,
        at=now,
        digest=digest,
        # The name of an `Identity`, without an import of its class.
        by=by if by is None or isinstance(by, str) else by.name,
        reason=verdict.reason,
        arguments=arguments,
        value=value,
        grant_json=grant,
        form=_values_text(verdict.form) if isinstance(verdict, Approve) else None,
        groups=getattr(by, "groups", ()),
    )


def _values_text(values: object) -> str | None:
    if values is None:
        return None
    return jsontext.canonical(jsontext.normalize_integers(values))
