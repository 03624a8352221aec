"""The JSON Schemas of waits and decisions."""

from __future__ import annotations

from continuations.core.decisions import DECISION_KINDS, VERDICT_KINDS
from continuations.core.wait_rules import WAIT_KINDS
from continuations.present.schema_parts import (
    BOOLEAN,
    COUNT,
    OBJECT,
    REASON,
    TEXT,
    TEXT_OR_NULL,
    TIME,
    TIME_OR_NULL,
    Json,
    array,
    described,
    enum,
    object_form,
    ref,
)

_WAIT_NOTICE: Json = {
    "id": TEXT,
    "run_id": TEXT,
    "kind": enum(WAIT_KINDS),
    "path": described(array(TEXT), "The agents from the root agent to the tool."),
    "tool": TEXT,
    "created_at": TIME,
    "deadline": TIME_OR_NULL,
    "approvers": described(
        array(TEXT),
        "The persons who may decide, and groups as `group:NAME`. Empty: everybody.",
    ),
    "votes_needed": described(
        COUNT,
        "The number of persons who must give the same verdict. One denial is enough.",
    ),
    "reversible": {
        "type": ["boolean", "null"],
        "description": "Whether the effect can be undone; null: the tool does not say.",
    },
    "requester": described(
        TEXT_OR_NULL, "The person or program that asked for the run."
    ),
}
_AGENT_STATE: Json = described(
    OBJECT,
    "The state of the agent that waits, if tools changed it. Lists do not have it.",
)
_ARGUMENTS: Json = described(
    OBJECT,
    "The effective arguments. If approved, the call runs with exactly these. Secret "
    'values are "[secret]".',
)
_OF_ARGUMENTS: Json = {
    "arguments": _ARGUMENTS,
    "title": described(
        TEXT_OR_NULL, "The call as one sentence, from the tool's summary."
    ),
    "readings": {
        "type": "object",
        "description": "Texts by which people understand arguments, by their places.",
        "additionalProperties": TEXT,
    },
    "secrets": described(
        array(TEXT), 'The paths of arguments that are "[secret]" here.'
    ),
    "evidence": described(
        array(
            object_form(
                "The result of an earlier call, shortened.",
                {
                    "source": TEXT,
                    "text": TEXT,
                    "length": described(COUNT, "Characters of the whole result."),
                    "by_agent": described(BOOLEAN, "An agent wrote the result."),
                },
            )
        ),
        "Results of earlier calls of the frame, the oldest first.",
    ),
}
_WAIT: Json = {
    **_WAIT_NOTICE,
    **_OF_ARGUMENTS,
    "agent_words": described(
        TEXT_OR_NULL, "The text that the agent wrote with the call; not checked."
    ),
    "call_id": described(
        TEXT_OR_NULL, "The call that waits; null if a frame or the run does."
    ),
    "frame_id": described(
        TEXT_OR_NULL, "The frame that waits; null if a call or the run does."
    ),
    "schema": described(OBJECT, "The JSON Schema of the arguments."),
    "digest": described(TEXT, "The digest that a decision is bound to."),
    "valid_for": {
        "type": ["integer", "null"],
        "description": "How many seconds after an approval the call may start.",
    },
    "policy": TEXT_OR_NULL,
    "denial_stops": described(BOOLEAN, "A denial stops the run."),
    "expiry_stops": described(BOOLEAN, "The end of the deadline stops the run."),
    "note": TEXT_OR_NULL,
    "approve_after": described(
        TIME_OR_NULL, "Before this time, an approval of an unknown outcome is refused."
    ),
    "question": described(TEXT_OR_NULL, "The question, or the name of a job."),
    "answer_schema": {
        "type": ["object", "null"],
        "description": "The JSON Schema of the value of an answer; null: any value.",
    },
    "event": described(TEXT_OR_NULL, "The name of the event."),
    "event_key": described(TEXT_OR_NULL, "The key of the event."),
    "form_schema": {
        "type": ["object", "null"],
        "description": "The JSON Schema of the form of an approval; null: no form.",
    },
    "editable": {
        "type": ["array", "null"],
        "items": TEXT,
        "description": "The arguments that an approval may change; null: all of them.",
    },
    "stage": described(COUNT, "1 if the tool's on_answer function was called."),
    "on_deadline": {
        "type": ["object", "null"],
        "description": "The effect of the deadline: an answer, a denial, a failure or "
        "an escalation to other approvers.",
    },
    "not_requester": described(BOOLEAN, "The requester of the run may not decide."),
    "votes": described(
        array(ref("vote")),
        "The votes that count so far. Only the form of a single wait has them.",
    ),
}
_WAIT_STATE: Json = described(
    {"enum": ["open", "expired"]},
    "The state at the time of the report; absent in a `continuation`.",
)
_DECISION: Json = {
    "id": TEXT,
    "wait_id": TEXT,
    "kind": enum(DECISION_KINDS),
    "at": TIME,
    "by": TEXT_OR_NULL,
    "reason": TEXT_OR_NULL,
    "digest": described(TEXT, "The digest of the wait that was decided."),
}


_VOTE: Json = {
    "id": TEXT,
    "wait_id": TEXT,
    "kind": enum(frozenset(VERDICT_KINDS.values())),
    "at": TIME,
    "by": TEXT,
    "reason": TEXT_OR_NULL,
    "digest": described(TEXT, "The digest of the wait that the vote is for."),
    "votes_needed": COUNT,
    "still_needed": described(
        COUNT, "How many further persons must give the same verdict."
    ),
}
_PERSON_AND_VALUES: Json = {
    "groups": described(array(TEXT), "The groups of the person."),
    "shown": described(TEXT, "The digest that the person saw, if known."),
    "arguments": described(OBJECT, "The edited arguments."),
    "value": {"description": "The value of an answer."},
    "form": described(OBJECT, "The form that the approver filled in."),
}
_SHOWN: Json = described(
    TEXT,
    "The digest of the wait that the person saw. If the wait has another digest, "
    "nothing is recorded.",
)


def _verdict(kind: str, required: Json, optional: Json | None = None) -> Json:
    return object_form(
        f'A decision of kind "{kind}".',
        {"decision": {"const": kind}, **required},
        {"shown": _SHOWN, "reason": REASON, **(optional or {})},
    )


def wait_definitions() -> Json:
    """Return the schemas of waits by name."""
    return {
        "wait": object_form(
            "An open wait.", _WAIT, {"state": _WAIT_STATE, "agent_state": _AGENT_STATE}
        ),
        "wait_summary": object_form(
            "A wait in the list of open waits.",
            {
                "id": TEXT,
                "run_id": TEXT,
                "kind": TEXT,
                "created_at": TIME,
                "state": _WAIT_STATE,
            },
        ),
        "wait_notice": object_form(
            "The part of a wait that a notification contains.",
            _WAIT_NOTICE,
            _OF_ARGUMENTS,
        ),
        "wait_page": object_form(
            "One page of the list of open waits.",
            {
                "waits": described(
                    array({"anyOf": [ref("wait_summary"), ref("wait")]}),
                    "With `order=due`, each wait has all its fields.",
                ),
                "next": described(
                    TEXT_OR_NULL, "The `after` of the next page, or null."
                ),
                "runs_awaiting_models": described(
                    {"anyOf": [array(TEXT), {"type": "null"}]},
                    "On the first page: the ids of runs that wait for their models, "
                    "those with the next attempt first, at most 100. The page of a run "
                    "says why. On later pages: null.",
                ),
            },
        ),
        "wait_opened_event": object_form(
            "The body of a webhook.",
            {
                "type": enum(
                    frozenset({"wait.opened", "wait.escalated", "wait.reminder"})
                ),
                "timestamp": TIME,
                "data": object_form(
                    "The wait, and the signed link to decide it.",
                    {"wait": ref("wait_notice"), "link": TEXT_OR_NULL},
                ),
            },
        ),
    }


def decision_definitions() -> Json:
    """Return the schemas of decisions by name."""
    return {
        "decision": object_form(
            "The one recorded decision of a wait.",
            _DECISION,
            {
                **_PERSON_AND_VALUES,
                "voters": described(
                    array(TEXT), "All persons who gave this verdict, if several."
                ),
                "grant": described(TEXT, "The id of the grant that it gives."),
            },
        ),
        "vote": object_form(
            "One vote for a wait that several persons decide.",
            _VOTE,
            _PERSON_AND_VALUES,
        ),
        "recorded_vote": object_form(
            "The response to a vote after which the wait is still open.",
            {"vote": ref("vote"), "woken": {"const": False}},
        ),
        "decide_response": {
            "description": "The response to a decision or a vote.",
            "oneOf": [ref("recorded_decision"), ref("recorded_vote")],
        },
        "recorded_decision": object_form(
            "The response to a decision.",
            {
                "decision": ref("decision"),
                "woken": described(
                    BOOLEAN,
                    "The run is resumed now. If false, the next sweep resumes it.",
                ),
            },
        ),
        "verdict": {
            "description": "A decision to record. The verified identity of the request "
            "decides; the body never names the decider.",
            "oneOf": [
                _verdict(
                    "approve",
                    {},
                    {"arguments": OBJECT, "form": OBJECT, "remember": ref("grant")},
                ),
                _verdict("deny", {}),
                _verdict("answer", {"value": {}}),
                _verdict("fail", {"error": REASON}),
            ],
        },
    }
