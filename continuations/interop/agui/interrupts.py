"""Waits as interrupts of AG-UI, and resume entries as verdicts, strictly.

| kind of the wait | payload of a resolved entry |
|---|---|
| `approval` | `{"approved": true}`, with `editedArgs`, `form`, `reason`; or `false` |
| `input`, `output` | `{"approved": true}` or `{"approved": false}`, with `reason` |
| `question` | the answer itself, as the schema of the question says |
| `unknown` | `{"decision": "answer", "value": …}`, `"approve"` or `"deny"` |

Everything else is no verdict. The other kinds ask no person: they take no answer here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ag_ui.core import Interrupt

from continuations import Answer, Approve, Deny
from continuations.errors import DecisionRefused
from continuations.serve.wait_texts import title_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations import Identity, Wait
    from continuations.results import Verdict

_REASON: dict[str, Any] = {"type": "string", "description": "Why you decide so."}
_OF_DENIAL = {"approved", "reason"}
_OF_APPROVAL = {*_OF_DENIAL, "editedArgs", "form"}
_OF_UNKNOWN = {"answer": {"value", "reason"}, "approve": {"reason"}, "deny": {"reason"}}


def interrupt_of(wait: Wait, call: str | None, subagent: str | None) -> Interrupt:
    """Return a wait as an interrupt.

    Args:
        wait: The wait, with secret values masked.
        call: The id of the tool call that waits, as the client knows it.
        subagent: The id of the sub-agent that waits; `None` for the root agent.
    """
    rules = wait.rules
    return Interrupt(
        id=wait.id,
        reason=wait.kind,
        message=title_of(wait),
        tool_call_id=call,
        subagent_run_id=subagent,
        response_schema=_response_schema(wait),
        expires_at=None if wait.deadline is None else wait.deadline.isoformat(),
        metadata={
            "digest": wait.digest,
            "title": wait.title,
            "tool": wait.tool,
            "path": [*wait.path],
            "arguments": wait.arguments,
            "readings": wait.readings,
            "note": wait.note,
            "approvers": [*wait.approvers],
            "votes": [each.by for each in wait.votes],
            "votesNeeded": wait.votes_needed,
            "asksPerson": rules.asks_person,
        },
    )


def _response_schema(wait: Wait) -> dict[str, Any] | None:
    if not wait.rules.asks_person:
        return None
    if wait.rules.asks_question:
        return wait.answer_schema
    if wait.rules.may_have_run:
        properties: dict[str, Any] = {
            "decision": {
                "enum": [*wait.rules.verdicts],
                "description": "; ".join(
                    f"{name}: {words.label}"
                    for name, words in wait.rules.verdicts.items()
                ),
            },
            "value": {"description": "The result of the call, for answer."},
            "reason": _REASON,
        }
        return _object(properties, "decision")
    properties = {"approved": {"type": "boolean"}, "reason": _REASON}
    if wait.rules.allows_edits and wait.editable != ():
        properties["editedArgs"] = {
            **wait.schema,
            "description": "All arguments, in place of those that the call has.",
        }
    if wait.form_schema is not None:
        properties["form"] = wait.form_schema
    return _object(properties, "approved")


def _object(properties: dict[str, Any], required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [required],
        "additionalProperties": False,
    }


# Answers ----------------------------------------------------------------------------


def verdict_of(wait: Wait, payload: object, by: str | Identity) -> Verdict:
    """Return the verdict of a resolved entry.

    Args:
        wait: The open wait.
        payload: The payload of the entry.
        by: The person who sends it.

    Raises:
        DecisionRefused: The payload is not exactly an answer to this wait.
    """
    if wait.rules.asks_question:
        return Answer(payload, by=by)
    if not wait.rules.asks_person:
        raise _refused(wait, "the wait asks no person")
    fields = _fields(wait, payload)
    reason = fields.get("reason")
    if reason is not None and not isinstance(reason, str):
        raise _refused(wait, '"reason" must be a text')
    if wait.rules.may_have_run:
        return _of_unknown(wait, fields, by, reason)
    return _of_approval(wait, fields, by, reason)


def _of_approval(
    wait: Wait, fields: Mapping[str, Any], by: str | Identity, reason: str | None
) -> Verdict:
    approved = fields.get("approved")
    if approved is not True and approved is not False:
        raise _refused(wait, '"approved" must be true or false')
    _check_names(wait, fields, _OF_APPROVAL if approved else _OF_DENIAL)
    if not approved:
        return Deny(by=by, reason=reason)
    return Approve(
        by=by,
        reason=reason,
        arguments=_part(wait, fields, "editedArgs"),
        form=_part(wait, fields, "form"),
    )


def _of_unknown(
    wait: Wait, fields: Mapping[str, Any], by: str | Identity, reason: str | None
) -> Verdict:
    decision = fields.get("decision")
    if not isinstance(decision, str) or decision not in _OF_UNKNOWN:
        raise _refused(wait, '"decision" must be "answer", "approve" or "deny"')
    _check_names(wait, fields, {"decision"} | _OF_UNKNOWN[decision])
    if decision == "answer":
        if "value" not in fields:
            raise _refused(wait, '"value" is missing')
        return Answer(fields["value"], by=by, reason=reason)
    return (Approve if decision == "approve" else Deny)(by=by, reason=reason)


def _fields(wait: Wait, payload: object) -> dict[str, Any]:
    if not isinstance(payload, dict):
        raise _refused(wait, "the payload must be an object")
    return cast("dict[str, Any]", payload)


def _part(wait: Wait, fields: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    if name not in fields:
        return None
    value = fields[name]
    if not isinstance(value, dict):
        raise _refused(wait, f'"{name}" must be an object')
    return cast("dict[str, Any]", value)


def _check_names(wait: Wait, fields: Mapping[str, Any], allowed: set[str]) -> None:
    unknown = sorted(fields.keys() - allowed)
    if unknown:
        raise _refused(wait, f"{unknown[0]!r:.60} is not a field of this answer")


def _refused(wait: Wait, why: str) -> DecisionRefused:
    msg = (
        f"the answer to wait {wait.id} was not recorded: {why}. Send a payload that "
        "fits the responseSchema of the interrupt."
    )
    return DecisionRefused(msg, run_id=wait.run_id, wait_id=wait.id)
