"""The JSON Schema of every JSON form; run this module to print it.

    python -m continuations.present.schemas > docs/schemas/continuations.schema.json

The OpenAPI document contains the same definitions. The form of a value follows from its
class; only what is in no class is written here.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from continuations.authoring.manifest import ManifestChange
from continuations.core import live_events, run_stream
from continuations.core.attachment_parts import MAX_NAME_CHARS
from continuations.core.audit import AuditLine
from continuations.core.calls import STATE_TYPES
from continuations.core.decisions import Decision
from continuations.core.grants import KeptGrant
from continuations.core.quorum import Vote
from continuations.core.run import RUN_STATUSES, WHEN_BUSY, Failure
from continuations.core.run_past import (
    RewindPlan,
    Rewound,
    RunDifference,
    RunVersion,
)
from continuations.core.signal_matching import UntakenSignal
from continuations.core.usage import Usage
from continuations.core.waits import Wait, WaitSummary
from continuations.engine.drift import DriftRow
from continuations.ledger.pruning import ErasedRun
from continuations.ledger.published_events import Publication
from continuations.ledger.run_listing import RunSummary
from continuations.present import json_forms
from continuations.present.file_forms import MAX_FILES
from continuations.present.problems import TYPE_PREFIX
from continuations.present.schema_parts import (
    ANY,
    BOOLEAN,
    COUNT,
    LABELS,
    OBJECT,
    OBJECT_OR_NULL,
    REASON,
    RUN_ID,
    TEXT,
    TEXT_OR_NULL,
    TIME,
    TIME_OR_NULL,
    Json,
    array,
    described,
    enum,
    field_schemas,
    object_form,
    ref,
    value_schema,
)

_STATE: Json = described(OBJECT, "The fields of the agent's state that tools changed.")
_WOKEN: Json = {"woken": described(BOOLEAN, "HTTP: whether a worker was told at once.")}
_TOLD: Json = {"woken": described(BOOLEAN, "Whether a worker was told at once.")}
_FAILED: Json = {
    "type": "object",
    "additionalProperties": TEXT,
    "description": "The runs with an error: by run id, the last part of the problem's "
    "`type`.",
}


def _page(text: str, name: str, items: str) -> Json:
    """Return the schema of a page of the things of one run, or of all runs."""
    return object_form(
        text,
        {
            name: array(ref(items)),
            "next": described(
                TEXT_OR_NULL, "`after` of the next page; null on the last page."
            ),
        },
    )


def _page_of_run(text: str, name: str, items: str) -> Json:
    page = _page(text, name, items)
    return object_form(text, {"run_id": TEXT, **page["properties"]})


# Waits and decisions --------------------------------------------------------------

_WAIT = value_schema(
    Wait,
    id=TEXT,
    call_id=described(
        TEXT_OR_NULL, "The call that waits; null if a frame or the run does."
    ),
    frame_id=described(
        TEXT_OR_NULL, "The frame that waits; null if a call or the run does."
    ),
    arguments="The effective arguments. If approved, the call runs with exactly these. "
    'Secret values are "[secret]".',
    secrets='The paths of arguments that are "[secret]" here.',
    stage="1 if the tool's on_answer function was called.",
    valid_for={"type": ["integer", "null"]},
    approve_after="Before this time, an approval of an unknown outcome is refused.",
    on_deadline=described(
        OBJECT_OR_NULL,
        "The effect of the deadline: an answer, a denial, a failure or an escalation "
        "to other approvers.",
    ),
    votes_needed="The number of persons who must give the same verdict. One denial is "
    "enough.",
    not_requester=described(BOOLEAN, "The requester of the run may not decide."),
    votes="The votes that count so far. Only the form of a single wait has them.",
)
_WAIT_STATE: Json = described(
    {"enum": ["open", "expired"]},
    "The state at the time of the report; absent in a `continuation`.",
)
_AGENT_STATE: Json = described(
    OBJECT,
    "The state of the agent that waits, if tools changed it. Lists do not have it.",
)
_JSON_VALUES: Json = {
    "arguments": described(OBJECT, "The edited arguments."),
    "value": described(ANY, "The value of an answer."),
    "form": described(OBJECT, "The form that the approver filled in."),
}


def _wait_definitions() -> Json:
    wait, required = dict(_WAIT["properties"]), _WAIT["required"]
    return {
        "wait": object_form(
            _WAIT["description"],
            {name: wait[name] for name in required},
            {"state": _WAIT_STATE, "agent_state": _AGENT_STATE},
        ),
        "wait_summary": value_schema(
            WaitSummary, json_forms.WAIT_SUMMARY, kind=TEXT, state=_WAIT_STATE
        ),
        "wait_notice": object_form(
            "The part of a wait that a notification contains.",
            field_schemas(_WAIT, json_forms.WAIT_NOTICE),
            field_schemas(_WAIT, json_forms.WAIT_NOTICE_OPTIONS),
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
                "type": {"enum": ["wait.escalated", "wait.opened", "wait.reminder"]},
                "timestamp": TIME,
                "data": object_form(
                    "The wait, and the signed link to decide it.",
                    {"wait": ref("wait_notice"), "link": TEXT_OR_NULL},
                ),
            },
        ),
    }


def _decision_definitions() -> Json:
    return {
        "decision": value_schema(
            Decision,
            **_JSON_VALUES,
            grant=described(TEXT, "The id of the grant that it gives."),
        ),
        "vote": value_schema(Vote, **_JSON_VALUES),
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
        "recorded_request": object_form(
            "The request is recorded. The sender may not view the run.",
            {"recorded": {"const": True}},
            {"run_id": TEXT, "number": described(COUNT, "The number of the message.")},
        ),
        "decision_results": object_form(
            "The results of several decisions, in their order.",
            {"results": array(_DECISION_RESULT)},
        ),
    }


_DECISION_RESULT = object_form(
    "The decision, the vote, or the problem of one wait.",
    {"wait_id": TEXT},
    {
        "decision": ref("decision"),
        "vote": ref("vote"),
        "woken": BOOLEAN,
        "recorded": described(
            {"const": True},
            "Instead of the decision or vote, for a sender who may not view the run.",
        ),
        "problem": ref("problem"),
    },
)
_IDENTITY: Json = {
    "description": "The person or program that acted, if a door or the application "
    "established it; else null.",
    "oneOf": [
        {"type": "null"},
        object_form(
            "A person or program that a door or the application identified.",
            {
                "name": TEXT_OR_NULL,
                "groups": array(TEXT),
                "authentication": described(
                    TEXT_OR_NULL, "How the door established the name."
                ),
            },
        ),
    ],
}


def _audit_definitions() -> Json:
    return {
        "audit_line": value_schema(
            AuditLine, json_forms.AUDIT_LINE, identity=_IDENTITY
        ),
        "audit": object_form(
            "The recorded acts on a run.",
            {"run_id": TEXT, "lines": array(ref("audit_line"))},
        ),
        "kept_grant": value_schema(
            KeptGrant, json_forms.KEPT_GRANT, arguments=GRANT_ARGUMENTS
        ),
        "grant_list": object_form(
            "The grants of a run.",
            {"run_id": TEXT, "grants": array(ref("kept_grant"))},
        ),
        "revoked_grant": object_form(
            "A grant was revoked.",
            {"run_id": TEXT, "grant": TEXT, "revoked": {"const": True}},
        ),
    }


# Events and the past --------------------------------------------------------------


def _event_form(cls: type) -> Json:
    """Return the schema of an event: its fields and its type."""
    form = value_schema(cls)
    fields = {"type": {"const": cls.__name__}, **form["properties"]}
    return object_form(form["description"], fields)


def _event_definitions() -> Json:
    return {
        "event": {
            "description": "One event of a run.",
            "oneOf": [_event_form(each) for each in run_stream.EVENT_TYPES],
        },
        "live_event": {
            "description": "An event that exists only while a worker runs.",
            "oneOf": [_event_form(each) for each in live_events.LIVE_EVENT_TYPES],
        },
        "event_page": _page_of_run(
            "One page of the events of a run.", "events", "event"
        ),
    }


def _past_definitions() -> Json:
    next_number: Json = {
        "type": ["integer", "null"],
        "minimum": 1,
        "description": "`after` of the next page; null on the last page.",
    }
    return {
        "forked_run": object_form("The fork of a run.", {"run_id": TEXT}),
        "rewind_plan": value_schema(
            RewindPlan, json_forms.REWIND_PLAN, digest="Send it as `shown`."
        ),
        "rewound": value_schema(Rewound),
        "run_version": value_schema(RunVersion, json_forms.RUN_VERSION),
        "version_page": object_form(
            "One page of the versions of a run.",
            {
                "run_id": TEXT,
                "versions": array(ref("run_version")),
                "next": next_number,
            },
        ),
        "run_difference": value_schema(RunDifference),
    }


# Runs and threads -----------------------------------------------------------------

_FAILURE: Json = {"oneOf": [{"type": "null"}, value_schema(Failure)]}
_DESCRIPTION: Json = {
    "title": described(TEXT_OR_NULL, "The subject of the run."),
    "labels": LABELS,
    "requester": described(
        TEXT_OR_NULL, "The person or program that asked for the run."
    ),
}
_RUN: Json = {
    "run_id": TEXT,
    "agent": described(TEXT, "The name of the root agent."),
    **_DESCRIPTION,
    "thread": described(TEXT_OR_NULL, "The key of the thread; null for a run."),
    "forked_from": described(
        TEXT_OR_NULL, "The run and version, as `jane-1@4`, that this run is a fork of."
    ),
    "version": COUNT,
    "status": enum(RUN_STATUSES),
    "created_at": TIME,
    "claimed_until": described(
        TIME_OR_NULL, "The end of the claim of the worker that advances the run."
    ),
    "output": described(TEXT_OR_NULL, "The text of a finished run."),
    "failure": _FAILURE,
    "usage": value_schema(Usage),
    "waits": described(array(ref("wait")), "The waits without a decision."),
}
_DECIDED: Json = {
    "decided": described(
        array(TEXT), "The ids of decided waits. The next resume applies them."
    ),
    "reasons": described(
        array(TEXT),
        "The reasons why an operator holds the run until `unpause`: the reason of a "
        "pause, and the names of conditions of agents.",
    ),
}
_STACK: Json = {"frames": array(ref("frame")), "calls": array(ref("call"))}
_UNREAD: Json = described(
    array(
        object_form(
            "A message in the inbox.",
            {"number": COUNT, "at": TIME, "by": TEXT_OR_NULL, "message": OBJECT},
        )
    ),
    "Messages that the run has not read, as `show RUN --json` prints them.",
)


def _run_definitions() -> Json:
    return {
        "run": object_form(
            "A run.",
            {**_RUN, **_DECIDED},
            {**_STACK, "state": _STATE, "unread": _UNREAD},
        ),
        "outcome": object_form(
            "The run after a start or resume.",
            {
                **_RUN,
                **_DECIDED,
                "paused": described(
                    BOOLEAN, "The time was up; resume the run at any time."
                ),
                "code_changes": array(ref("code_change")),
            },
            {"state": _STATE},
        ),
        "continuation": object_form(
            "The report of `Continuation.to_json`.",
            {"format": COUNT, **_RUN, **_STACK},
        ),
        "code_change": value_schema(ManifestChange),
        "run_summary": value_schema(RunSummary),
        "run_page": _page("One page of runs.", "runs", "run_summary"),
        "erased_run": value_schema(ErasedRun),
        "prune_result": object_form(
            "The result of `prune`.",
            {
                "run_ids": described(
                    array(TEXT), "The runs that ended long enough ago."
                ),
                "erased": array(ref("erased_run")),
                "failed": _FAILED,
            },
        ),
        "sweep_result": object_form(
            "The result of a sweep.",
            {
                "runs_checked": COUNT,
                "resumed": array(
                    object_form("A resumed run.", {"run_id": TEXT, "status": TEXT})
                ),
                "failed": _FAILED,
                "skipped": described(
                    array(TEXT),
                    "The ids of due runs that only other processes can work on.",
                ),
            },
        ),
        "drift_row": value_schema(DriftRow),
        "drift_page": _page("One page of live runs, by run id.", "runs", "drift_row"),
    }


def _stack_definitions() -> Json:
    return {
        "frame": object_form(
            "One agent's activation.",
            {
                "id": TEXT,
                "agent": TEXT,
                "parent_call_id": described(
                    TEXT_OR_NULL, "The call that this frame answers."
                ),
                "turns": described(COUNT, "How often the model was called."),
                "messages": described(array(OBJECT), "Chat completions messages."),
                "open_call_ids": array(TEXT),
            },
            {
                "model_error": described(
                    TEXT,
                    "Why its model refused the last request. Resume the run to ask "
                    "again.",
                ),
                "state": _STATE,
                "metadata": {
                    "type": "object",
                    "additionalProperties": OBJECT,
                    "description": "Facts about messages by their position, such as "
                    "which model of a `Fallback` replied. Providers do not get them.",
                },
            },
        ),
        "call": object_form(
            "One tool call.",
            {
                "id": TEXT,
                "frame_id": TEXT,
                "tool": TEXT,
                "tool_call_id": described(TEXT, "The id that the provider gave."),
                "raw_arguments": described(TEXT, "The text that the model wrote."),
                "arguments": described(ANY, "The effective arguments, or null."),
                "original_arguments": described(
                    ANY, "The effective arguments before an edit, or null."
                ),
                "state": enum(STATE_TYPES),
            },
        ),
    }


def _thread_definitions() -> Json:
    return {
        "thread": object_form(
            "A thread with its conversation.",
            {
                **{name: _RUN[name] for name in json_forms.THREAD_FIELDS},
                "decided": _DECIDED["decided"],
                "answered": described(
                    COUNT, "Number of the last message with a reply."
                ),
                "messages": described(array(OBJECT), "Chat completions messages."),
            },
            {"state": _STATE},
        ),
        "thread_reply": object_form(
            "The reply to one message of a thread.",
            {
                "status": described(
                    {"enum": ["replied", "failed", "suspended", "queued"]},
                    "`suspended`: the reply waits, for example for an approval. "
                    "`queued`: nobody has begun it, or another process works on it.",
                ),
                "run_id": described(TEXT, "The run of the thread."),
                "number": described(COUNT, "The number of the message, from 1."),
                "output": described(TEXT_OR_NULL, "The text of the reply."),
                "failure": _FAILURE,
                "waits": described(
                    array(ref("wait")), "The waits of this reply without a decision."
                ),
            },
            _WOKEN,
        ),
        "sent_message": object_form(
            "A message was sent to a run.",
            {"run_id": TEXT, "number": described(COUNT, "Its number, from 1.")},
            _WOKEN,
        ),
        "changed_thread": object_form(
            "A thread after a request.", {"run_id": TEXT, "status": _RUN["status"]}
        ),
        "wake_response": object_form(
            "The run was given to the dispatcher.",
            {"run_id": TEXT, "woken": {"const": True}},
        ),
        "woken_waits": object_form(
            "The waits of a run for its models have ended.",
            {
                "run_id": TEXT,
                "waits": described(
                    COUNT, "How many ended, now or by an earlier request."
                ),
            },
            _WOKEN,
        ),
    }


# Signals, events and jobs ---------------------------------------------------------


def _signal_definitions() -> Json:
    signal = value_schema(
        UntakenSignal,
        json_forms.UNTAKEN_SIGNAL,
        name=EVENT_NAME,
        data=described(ANY, "Left out without the right to read."),
    )
    return {
        "untaken_signal": {**signal, "required": ["number", "name", "at", "by"]},
        "signal_list": object_form(
            "The signals that no wait of the run has taken.",
            {"run_id": TEXT, "signals": array(ref("untaken_signal"))},
        ),
        "sent_signal": object_form(
            "A signal was sent to a run.",
            {"run_id": TEXT, "number": described(COUNT, "Its number, from 1.")},
            _WOKEN,
        ),
        "dropped_signals": object_form(
            "Signals were dropped.",
            {"run_id": TEXT, "dropped": described(COUNT, "How many.")},
        ),
        "published_event": object_form(
            "An event was published.",
            value_schema(Publication)["properties"],
            {
                "woken": described(
                    array(TEXT), "HTTP: the runs that a worker was told of."
                )
            },
        ),
        "extended_job": object_form(
            "The newest deadline of a job.",
            {
                "status": {"const": "extended"},
                "deadline": described(TIME_OR_NULL, "Null: there is no deadline."),
            },
        ),
        "received_webhook": object_form(
            "A message of another system.",
            {"status": {"enum": ["recorded", "ignored", "too_late"]}, **_TOLD},
        ),
        "reported_result": object_form(
            "The result of a job is recorded.",
            {"status": {"const": "recorded"}, **_TOLD},
        ),
    }


_PROBLEM: Json = {
    "type": "object",
    "description": "Problem details (RFC 9457).",
    "properties": {
        "type": {"type": "string", "pattern": f"^{TYPE_PREFIX}[a-z-]+$"},
        "title": TEXT,
        "status": {"type": "integer"},
        "detail": TEXT,
        "run_id": TEXT,
        "wait_id": TEXT,
        "until": described(TIME, "The end of the claim that blocks the request."),
        "error_id": described(TEXT, "The id of the error in the server's log."),
        "decision": described(ref("decision"), "The recorded decision."),
    },
    "required": ["type", "title", "status"],
}


def definitions() -> dict[str, Any]:
    """Return all definitions by name; references start with `#/$defs/`."""
    return {
        **_wait_definitions(),
        **_decision_definitions(),
        **decision_requests(),
        **_audit_definitions(),
        **_event_definitions(),
        **_past_definitions(),
        **_run_definitions(),
        **_stack_definitions(),
        **_thread_definitions(),
        **run_requests(),
        **_signal_definitions(),
        **event_requests(),
        **job_requests(),
        "problem": _PROBLEM,
        "health": object_form("The process answers.", {"status": {"const": "ok"}}),
    }


def document() -> dict[str, Any]:
    """Return the JSON Schema document."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:continuations:schema:1",
        "title": "continuations",
        "description": "The JSON forms of runs, waits and decisions, as HTTP, AWS "
        "Lambda, webhooks, the command line and Continuation.to_json show them.",
        "$defs": definitions(),
    }


_SOME_TEXT: Json = {**TEXT, "minLength": 1}
_VERSION: Json = {"type": "integer", "minimum": 1}

# Attachments ----------------------------------------------------------------------

_GROUP = "[A-Za-z0-9+/]"
_FILE = object_form(
    "An image, a sound or a file.",
    {
        "data": {
            "type": "string",
            "minLength": 4,
            "pattern": f"^({_GROUP}{{4}})*({_GROUP}{{2}}==|{_GROUP}{{3}}=)?$",
            "contentEncoding": "base64",
            "description": "The bytes, at least one: base64 with padding.",
        },
        "media_type": {
            "type": "string",
            "pattern": "^[a-z0-9][a-z0-9!#$&^_.+-]{0,62}/"
            "[a-z0-9][a-z0-9!#$&^_.+-]{0,62}$",
            "description": "In lower case and without parameters, such as `image/png`. "
            "The first part decides whether it is an image, a sound or a file.",
        },
        "name": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_NAME_CHARS,
            "pattern": r"^[^/\\]*[^/\\. ][^/\\]*$",
            "description": "The name of the file: printable, without `/` and `\\`, and "
            "not only dots and spaces.",
        },
    },
)
_FILES: Json = {
    "type": "array",
    "items": ref("file"),
    "maxItems": MAX_FILES,
    "description": "Images, sounds and files beside the text.",
}

_LIMIT: Json = {"type": "integer", "minimum": 1}

# Runs and threads -----------------------------------------------------------------

_START = object_form(
    "A run to start.",
    {
        "run_id": described(
            RUN_ID,
            "The run's id. A repeated start of the same id and input starts one run.",
        ),
        "input": _SOME_TEXT,
    },
    {
        "files": _FILES,
        "agent": described(TEXT, "The root agent, if there are several."),
        "work": described(
            BOOLEAN,
            "False: only store the run. A resume or a sweep works on it. By "
            "default true.",
        ),
        "labels": described(LABELS, "Names and values by which the run is found."),
        "title": described(TEXT, "The subject of the run, on one line."),
        "budget": object_form(
            "Limits for the model usage of the whole run.",
            {},
            {
                "requests": described(_LIMIT, "Model requests."),
                "tokens": described(_LIMIT, "Input and output tokens together."),
                "cost": described(
                    TEXT, "A decimal number such as `2.50`; the server needs prices."
                ),
                "currency": described(TEXT, "By default the currency of the prices."),
            },
        ),
        "settings": described(
            OBJECT,
            "Model settings of the run. They win over those of the agents. They are "
            "stored with the run.",
        ),
    },
)
_RESUME = object_form(
    "The body of a request to resume a run; it may be left out.",
    {},
    {
        "reopen": described(
            BOOLEAN,
            "Whether the server asks again about approved calls whose tool its code "
            "lacks. By default false: the run is left to other processes.",
        )
    },
)
_CANCEL = object_form(
    "A run to cancel, or one of its calls.",
    {},
    {
        "reason": REASON,
        "call": described(
            TEXT,
            "Id of an open call, or its path such as boss/hr/transfer. By default, the "
            "whole run is cancelled.",
        ),
    },
)
_MESSAGE_ID: Json = {
    "type": "string",
    "minLength": 1,
    "description": "The client's id of the message. A repeated request posts nothing, "
    "and has the same number.",
}
_MESSAGE = object_form(
    "A message to a thread.",
    {"text": _SOME_TEXT},
    {
        "id": _MESSAGE_ID,
        "files": _FILES,
        "when_busy": {
            "enum": sorted(WHEN_BUSY),
            "description": "The effect while an earlier message is answered. By "
            "default `queue`.",
        },
        "wait": described(BOOLEAN, "False: only post the message. By default true."),
    },
)
_REWIND = object_form(
    "The version to go on from.",
    {"version": {**_VERSION, "maximum": 9_999_999_999}},
    {
        "shown": described(
            TEXT,
            "The `digest` of the plan that a person saw: a run that moved on since "
            "then, or for which something was decided, is not rewound.",
        )
    },
)


def run_requests() -> dict[str, Json]:
    """Return the schemas of requests about runs and threads by name."""
    reason: Json = {"reason": REASON}
    return {
        "run_message_request": object_form(
            "A message to a run.",
            {"text": _SOME_TEXT},
            {"id": _MESSAGE_ID, "files": _FILES},
        ),
        "message_request": _MESSAGE,
        "stop_request": object_form("A turn to stop.", {}, reason),
        "close_request": object_form("A thread to close.", {}),
        "start_request": _START,
        "cancel_request": _CANCEL,
        "pause_request": object_form("A run to pause.", {}, reason),
        "revoke_request": object_form("A grant to revoke.", {}, reason),
        "unpause_request": object_form("A run to unpause.", {}),
        "resume_request": _RESUME,
        "wake_request": object_form("No fields.", {}),
        "rewind_request": _REWIND,
        "file": _FILE,
    }


def fork_request(decisions: Json) -> Json:
    """Return the schema of a fork; `decisions` is that of a list of decisions."""
    message: Json = {"oneOf": [_SOME_TEXT, array(OBJECT)]}
    own = {key: decisions[key] for key in ("type", "maxItems", "items")}
    return object_form(
        "A fork of a run.",
        {},
        {
            "version": described(
                _VERSION, "The version to go on from; by default the newest."
            ),
            "run_id": RUN_ID,
            "decisions": described(own, "Decisions of open waits of the version."),
            "results": described(
                OBJECT, "Results by the ids of open calls; their tools do not run."
            ),
            "messages": {
                "type": "object",
                "additionalProperties": message,
                "description": "By the ids of frames: a text that is added, or a list "
                "of messages that replaces the transcript.",
            },
        },
    )


# Signals, events and jobs ---------------------------------------------------------

EVENT_NAME: Json = {
    "type": "string",
    "minLength": 1,
    "maxLength": 200,
    "pattern": r"\S",
    "description": "The name of the event that a wait has.",
}
_DATA = described(ANY, "The data of the event; by default null.")


def event_requests() -> dict[str, Json]:
    """Return the schemas of signals and events by name."""
    return {
        "signal_request": object_form(
            "A signal to a run.",
            {"run_id": RUN_ID, "name": EVENT_NAME},
            {
                "data": _DATA,
                "id": described(
                    _SOME_TEXT,
                    "The client's id of the signal. A repeated request with the same "
                    "id, name and data sends one signal.",
                ),
            },
        ),
        "drop_signals_request": object_form(
            "The signals of a run to drop.",
            {},
            {
                "name": described(EVENT_NAME, "By default, all signals are dropped."),
                "reason": REASON,
            },
        ),
        "event_request": object_form(
            "An event for all runs that wait for its name and key.",
            {"name": EVENT_NAME},
            {
                "key": {
                    **_SOME_TEXT,
                    "pattern": r"\S",
                    "description": "The key of the event; by default no key.",
                },
                "data": _DATA,
                "id": described(
                    _SOME_TEXT,
                    "The client's id of the event. A repeated request with the same "
                    "id, name, key and data publishes one event.",
                ),
            },
        ),
    }


def job_requests() -> dict[str, Json]:
    """Return the schemas of what the system of a job sends, by name."""
    result = {"value": described(ANY, "The result of the job.")}
    error = {"error": described(TEXT, "Why the job failed. The agent gets this text.")}
    return {
        "job_result": {
            "description": "The result of a job of another system, or its error.",
            "oneOf": [
                object_form("The job succeeded.", result),
                object_form("The job failed.", error),
            ],
        },
        "heartbeat": object_form(
            "A job is in progress.",
            {
                "extend": {
                    "type": "number",
                    "exclusiveMinimum": 0,
                    "maximum": 3650 * 86_400,
                    "description": "Seconds from now to the new deadline.",
                }
            },
        ),
    }


# Decisions ------------------------------------------------------------------------

GRANT_ARGUMENTS = "The JSON Schema that the arguments of a covered call match."
_GRANT = object_form(
    "A grant to give with an approval, for later calls in the run.",
    {"tool": described(TEXT, "The tool of the approved call.")},
    {
        "arguments": described(OBJECT, GRANT_ARGUMENTS),
        "until": {
            "type": "string",
            "format": "date-time",
            "description": "The time after which the grant covers nothing.",
        },
    },
)
_SHOWN: Json = described(
    TEXT,
    "The digest of the wait that the person saw. If the wait has another digest, "
    "nothing is recorded.",
)


def decision_requests() -> dict[str, Json]:
    """Return the schemas of verdicts, of several at once, and of a fork by name."""
    verdicts = [
        _verdict(
            "approve",
            {},
            {"arguments": OBJECT, "form": OBJECT, "remember": ref("grant")},
        ),
        _verdict("deny", {}),
        _verdict("answer", {"value": ANY}),
        _verdict("fail", {"error": REASON}),
    ]
    items = [
        {
            **each,
            "properties": {"wait_id": TEXT, **each["properties"]},
            "required": ["wait_id", *each["required"]],
        }
        for each in verdicts
    ]
    decisions: Json = {
        "type": "array",
        "minItems": 1,
        "maxItems": 100,
        "items": {"oneOf": items},
    }
    return {
        "grant": _GRANT,
        "verdict": {
            "description": "A decision to record. The verified identity of the request "
            "decides; the body never names the decider.",
            "oneOf": verdicts,
        },
        "decision_batch": object_form(
            "Several decisions to record.", {"decisions": decisions}
        ),
        "fork_request": fork_request(decisions),
    }


def _verdict(kind: str, required: Json, optional: Json | None = None) -> Json:
    return object_form(
        f'A decision of kind "{kind}".',
        {"decision": {"const": kind}, **required},
        {"shown": _SHOWN, "reason": REASON, **(optional or {})},
    )


if __name__ == "__main__":
    sys.stdout.write(json.dumps(document(), indent=2) + "\n")
