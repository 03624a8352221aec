"""The JSON Schema of every JSON form; run this module to print it.

    python -m continuations.present.schemas > docs/schemas/continuations.schema.json

The OpenAPI document contains the same definitions. The form of a value follows from its
class: `value_schema` reads the fields, their types, and their words in the docstring,
in the way in which `wire.report.to_json` writes the value. Only what is in no class is
written here. `present.requests` has the bodies of requests.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from inspect import cleandoc, get_annotations
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from continuations.authoring.manifest import ChangeKind, ManifestChange
from continuations.core.changes.tool_messages import CallEnd
from continuations.core.reading import live_events, run_past, run_stream
from continuations.core.reading.audit import AuditLine
from continuations.core.reading.notices import ChildNotice, DecisionNotice, RunNotice
from continuations.core.rows import run as runs
from continuations.core.rows.calls import STATE_TYPES, CallRow
from continuations.core.rows.decisions import Decision, DecisionKind, VerdictKind
from continuations.core.rows.event_matching import UntakenSignal
from continuations.core.rows.frames import FrameRow
from continuations.core.rows.grants import KeptGrant
from continuations.core.rows.quorum import Quorum, Vote
from continuations.core.rows.wait_rules import WaitKind
from continuations.core.rows.waits import Wait, WaitSummary
from continuations.core.usage import Usage
from continuations.core.words.call_display import CallDisplay, Finding
from continuations.engine.past.drift import DriftReason, DriftRow, DriftVerdict
from continuations.engine.sweep.sweeping import SweepResult
from continuations.ledger.copying.store_copy import CopyResult
from continuations.ledger.index.run_listing import RunSummary
from continuations.ledger.published_events import Publication
from continuations.ledger.repair.erasing import ErasedRun
from continuations.ledger.repair.retention import PruneResult
from continuations.present import json_forms, requests
from continuations.present.problems import TYPE_PREFIX
from continuations.present.schema_parts import (
    ANY,
    BOOLEAN,
    COUNT,
    LABELS,
    OBJECT,
    OBJECT_OR_NULL,
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
from continuations.wire.report import JSON_FORMS, JsonForm
from continuations.wire.stack_json import CALL, FRAME

# Schemas of classes ---------------------------------------------------------------

# Values with a definition of their own. The form of an event has its type as well.
_DEFINED: dict[Any, str] = {
    Wait: "wait",
    Vote: "vote",
    Decision: "decision",
    ErasedRun: "erased_run",
    ManifestChange: "code_change",
    run_stream.StreamEvent: "event",
}
# The names of annotations; many modules import them for type checkers only.
_NAMES: dict[str, Any] = {
    each.__name__: each
    for each in (
        *(
            run_past.BegunCall,
            run_past.CallDifference,
            run_past.FrameDifference,
            run_past.MessageDifference,
        ),
        *(
            run_past.StateDifference,
            run_past.TakenMessage,
            run_past.WaitDifference,
            DriftReason,
            runs.Failure,
        ),
        *(Usage, Wait, Vote, Decision, ManifestChange, datetime, Mapping),
        *(CallDisplay, Decimal, ErasedRun, Finding, Quorum),
    )
} | {
    "CallEnd": CallEnd,
    "Change": run_past.Change,
    "ChangeKind": ChangeKind,
    "DecisionKind": DecisionKind,
    "DriftVerdict": DriftVerdict,
    "GuardrailStage": runs.GuardrailStage,
    "RunStatus": runs.RunStatus,
    "StreamEvent": run_stream.StreamEvent,
    "VerdictKind": VerdictKind,
    "WaitKind": WaitKind,
}
_SCALARS: dict[Any, Json] = {
    Any: ANY,
    str: TEXT,
    int: COUNT,
    bool: BOOLEAN,
    datetime: TIME,
    NoneType: {"type": "null"},
}
_ONE_SIDE: Json = {"change": {"enum": ["added", "removed"]}}
_CALL_STATE: Json = {"enum": [*sorted(STATE_TYPES), None]}
# Fields whose JSON is narrower than their type, or another one. The docstrings describe
# them too.
_DIFFERENCES: dict[type, Mapping[str, Json | str]] = {
    Usage: {
        "cost": described(
            TEXT_OR_NULL,
            "The exact cost as a decimal number; null if a part of it is not known.",
        ),
        "currency": TEXT_OR_NULL,
    },
    run_past.FrameDifference: _ONE_SIDE,
    run_past.MessageDifference: _ONE_SIDE,
    run_past.WaitDifference: _ONE_SIDE,
    run_past.CallDifference: {
        "before": _CALL_STATE,
        "after": _CALL_STATE,
        "arguments_before": OBJECT_OR_NULL,
        "arguments_after": OBJECT_OR_NULL,
    },
    run_stream.RunEnded: {"status": enum(runs.ENDED_STATUSES)},
    live_events.CallProgress: {"value": ANY},
    DriftReason: {
        "change": "removed, schema, contract, approval, state, model, context, prices, "
        "policy or stored.",
    },
    DriftRow: {"status": TEXT},
}
# Words of docstrings that are about Python, not about JSON.
_PYTHON_WORDS = re.compile(r",? as (a new dict|a new JSON value|JSON text)\b")


def value_schema(
    cls: type, form: JsonForm | None = None, /, **differs: Json | str
) -> Json:
    """Return the schema of the JSON of a value.

    Args:
        cls: The class of the value.
        form: The form of the JSON, by default the one that `to_json` uses.
        differs: By name, the schema of a field whose JSON has another type than the
            field, or only its description.

    Returns:
        The schema of an object, with the words of the docstring.
    """
    form = form or JSON_FORMS.get(cls.__name__) or JsonForm()
    differs = {**_DIFFERENCES.get(cls, {}), **differs}
    optional = form.optional.split()
    fields = {
        name: _field_schema(
            cls, name, source, differs.get(name), is_left_out=name in optional
        )
        for name, source in form.sources(cls).items()
    }
    return object_form(
        (cls.__doc__ or "").partition("\n")[0],
        {name: schema for name, schema in fields.items() if name not in optional},
        {name: fields[name] for name in optional},
    )


def field_schemas(schema: Json, names: str) -> Json:
    """Return some fields of an object's schema, by name."""
    return {name: schema["properties"][name] for name in names.split()}


def _field_schema(
    cls: Any, name: str, source: str, differs: Json | str | None, *, is_left_out: bool
) -> Json:
    own = getattr(cls, name, None)
    if isinstance(own, property):
        prose = _as_json_words((own.__doc__ or "").partition("\n\n")[0])
    else:
        prose = _field_words(cls, name) or _field_words(cls, source)
    if isinstance(differs, str):
        prose, differs = differs, None
    if differs is None:
        differs = _type_schema(
            _field_type(cls, name, source), may_be_null=not is_left_out
        )
    return {"description": prose, **differs} if prose else differs


def _field_type(cls: Any, name: str, source: str) -> Any:
    """Return the type of a field, or of the property with its name."""
    own = getattr(cls, name, None)
    if not isinstance(own, property):
        return _hint(cls, source)
    found = get_type_hints(own.fget, localns=_NAMES)["return"]
    if source != name and NoneType in get_args(_hint(cls, source)):
        return Union[found, None]  # noqa: UP007 - of a type that is known only here
    return found


def _hint(cls: type, name: str) -> Any:
    """Return the type of one field; those of others may name unknown classes."""
    owner = next(each for each in cls.__mro__ if name in get_annotations(each))
    one = SimpleNamespace(__annotations__={name: get_annotations(owner)[name]})
    return get_type_hints(one, vars(sys.modules[owner.__module__]), _NAMES)[name]


def _type_schema(hint: Any, *, may_be_null: bool = True) -> Json:
    if hint in _SCALARS:
        return _SCALARS[hint]
    if hint in _DEFINED:
        return ref(_DEFINED[hint])
    arguments = get_args(hint)
    match get_origin(hint):
        case None:
            schema = value_schema(hint)
        case origin if origin in (Union, UnionType):
            schema = _union_schema(arguments, may_be_null=may_be_null)
        case origin if origin is Literal:
            schema = {"enum": sorted(arguments)}
        case origin if origin is tuple:
            schema = array(_type_schema(arguments[0]))
        case _:  # a mapping
            schema = LABELS if arguments[1] is str else OBJECT
    return schema


def _union_schema(options: tuple[Any, ...], *, may_be_null: bool) -> Json:
    shapes = [_type_schema(each) for each in options if each is not NoneType]
    shape = shapes[0]
    if len(shapes) > 1:
        shape = {"enum": sorted({each for one in shapes for each in one["enum"]})}
    if NoneType not in options or not may_be_null:
        return shape
    if "enum" in shape:
        return {"enum": [*shape["enum"], None]}
    if "$ref" in shape or "properties" in shape:
        return {"oneOf": [{"type": "null"}, shape]}
    return {**shape, "type": [shape["type"], "null"]}


def _field_words(cls: Any, name: str) -> str:
    """Return the first paragraph about a field in the docstrings of a class."""
    pattern = rf"^    {name}: (.*?)(?=\n\n|\n {{0,4}}\S|\Z)"
    # Newer Pythons store docstrings without the indentation of the class.
    docs = [cleandoc(base.__doc__ or "") for base in cls.__mro__]
    found = [re.search(pattern, each, re.DOTALL | re.MULTILINE) for each in docs]
    texts = [" ".join(each[1].split()) for each in found if each]
    return _as_json_words(texts[0]) if texts else ""


def _as_json_words(text: str) -> str:
    return _PYTHON_WORDS.sub("", text).replace("`None`", "`null`")


# Parts of several forms ------------------------------------------------------------

_STATE: Json = described(OBJECT, "The fields of the agent's state that tools changed.")
_MESSAGES: Json = described(array(OBJECT), "Chat completions messages.")
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


def _of_run(text: str, name: str, schema: Json, optional: Json | None = None) -> Json:
    """Return the schema of a result that has only the id of its run beside it."""
    return object_form(text, {"run_id": TEXT, name: schema}, optional)


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
    stage="How many times the tool's on_answer function was called before.",
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
        "wait_summary": value_schema(WaitSummary, kind=TEXT, state=_WAIT_STATE),
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
        "wait_opened_event": _event(
            ["wait.escalated", "wait.opened", "wait.reminder"],
            object_form(
                "The wait, and the signed link to decide it.",
                {"wait": ref("wait_notice"), "link": TEXT_OR_NULL},
            ),
        ),
        **_notice_definitions(),
    }


def _notice_definitions() -> Json:
    decided = value_schema(
        DecisionNotice,
        JsonForm(names=json_forms.DECISION_NOTICE, optional="reason"),
    )
    waits = array(
        object_form("An open wait.", field_schemas(_WAIT, json_forms.WAIT_OF_RUN))
    )
    child = value_schema(ChildNotice, JsonForm(names=json_forms.CHILD_NOTICE))
    run = value_schema(
        RunNotice, JsonForm(names=f"{json_forms.RUN_NOTICE} waits"), waits=waits
    )
    decision_data = {"wait": ref("wait_notice"), "decision": decided}
    return {
        "decision_event": _event(
            ["wait.decided", "wait.expired"],
            object_form("The wait, and how it ended.", decision_data),
        ),
        "child_event": _event(
            ["child.ended"], object_form("The agent.", {"child": child})
        ),
        "run_event": _event(
            ["run.ended", "run.suspended"], object_form("The run.", {"run": run})
        ),
    }


def _event(types: list[str], data: Json) -> Json:
    fields = {"type": {"enum": types}, "timestamp": TIME, "data": data}
    return object_form("The body of a webhook.", fields)


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
        "audit_line": value_schema(AuditLine, identity=_IDENTITY),
        "audit": _of_run(
            "The recorded acts on a run.", "lines", array(ref("audit_line"))
        ),
        "kept_grant": value_schema(KeptGrant, arguments=requests.GRANT_ARGUMENTS),
        "grant_list": _of_run(
            "The grants of a run.", "grants", array(ref("kept_grant"))
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
        "rewind_plan": value_schema(run_past.RewindPlan, digest="Send it as `shown`."),
        "rewound": value_schema(run_past.Rewound),
        "run_version": value_schema(run_past.RunVersion, json_forms.RUN_VERSION),
        "version_page": object_form(
            "One page of the versions of a run.",
            {
                "run_id": TEXT,
                "versions": array(ref("run_version")),
                "next": next_number,
            },
        ),
        "run_difference": value_schema(run_past.RunDifference),
    }


# Runs and threads -----------------------------------------------------------------

_FAILURE: Json = {"oneOf": [{"type": "null"}, value_schema(runs.Failure)]}
_RUN: Json = {
    **value_schema(
        runs.RunRow,
        run_id=TEXT,
        labels=LABELS,
        status=enum(runs.RUN_STATUSES),
        claimed_until=described(
            TIME_OR_NULL, "The end of the claim of the worker that advances the run."
        ),
    )["properties"],
    "version": COUNT,
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
        "prune_result": value_schema(
            PruneResult, json_forms.PRUNE_RESULT, failed=_FAILED
        ),
        "copy_result": value_schema(CopyResult, json_forms.COPY_RESULT, failed=_FAILED),
        "sweep_result": value_schema(
            SweepResult,
            json_forms.SWEEP_RESULT,
            resumed=array(
                object_form("A resumed run.", {"run_id": TEXT, "status": TEXT})
            ),
            failed=_FAILED,
            skipped=described(
                array(TEXT),
                "The ids of due runs that only other processes can work on.",
            ),
            erased=described(
                array(TEXT), "The ended runs that the retention keeps no longer."
            ),
        ),
        "drift_row": value_schema(DriftRow),
        "drift_page": _page("One page of live runs, by run id.", "runs", "drift_row"),
    }


def _stack_definitions() -> Json:
    frame = value_schema(FrameRow, FRAME, state=_STATE)
    metadata: Json = {
        "type": "object",
        "additionalProperties": OBJECT,
        "description": "Facts about messages by their position, such as which model of "
        "a `Fallback` replied. Providers do not get them.",
    }
    frame["properties"] |= {"messages": _MESSAGES, "metadata": metadata}
    frame["required"].append("messages")
    call = value_schema(
        CallRow,
        CALL,
        raw_arguments="The text that the model wrote.",
        state=enum(STATE_TYPES),
    )
    call["properties"] |= {
        "arguments": described(ANY, "The effective arguments, or null."),
        "original_arguments": described(
            ANY, "The effective arguments before an edit, or null."
        ),
    }
    call["required"] += ["arguments", "original_arguments"]
    return {
        "frame": {**frame, "description": "One agent's activation."},
        "call": {**call, "description": "One tool call."},
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
                "messages": _MESSAGES,
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
        "sent_message": _of_run(
            "A message was sent to a run.",
            "number",
            described(COUNT, "Its number, from 1."),
            _WOKEN,
        ),
        "changed_thread": object_form(
            "A thread after a request.", {"run_id": TEXT, "status": _RUN["status"]}
        ),
        "wake_response": object_form(
            "The run was given to the dispatcher.",
            {"run_id": TEXT, "woken": {"const": True}},
        ),
        "woken_waits": _of_run(
            "The waits of a run for its models have ended.",
            "waits",
            described(COUNT, "How many ended, now or by an earlier request."),
            _WOKEN,
        ),
    }


# Signals, events and jobs ---------------------------------------------------------


def _signal_definitions() -> Json:
    signal = value_schema(
        UntakenSignal,
        name=requests.EVENT_NAME,
        data=described(ANY, "Left out without the right to read."),
    )
    return {
        "untaken_signal": {**signal, "required": ["number", "name", "at", "by"]},
        "signal_list": _of_run(
            "The signals that no wait of the run has taken.",
            "signals",
            array(ref("untaken_signal")),
        ),
        "sent_signal": _of_run(
            "A signal was sent to a run.",
            "number",
            described(COUNT, "Its number, from 1."),
            _WOKEN,
        ),
        "dropped_signals": _of_run(
            "Signals were dropped.", "dropped", described(COUNT, "How many.")
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
        **requests.DECISION_REQUESTS,
        **_audit_definitions(),
        **_event_definitions(),
        **_past_definitions(),
        **_run_definitions(),
        **_stack_definitions(),
        **_thread_definitions(),
        **requests.RUN_REQUESTS,
        **_signal_definitions(),
        **requests.EVENT_REQUESTS,
        **requests.JOB_REQUESTS,
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


if __name__ == "__main__":
    sys.stdout.write(json.dumps(document(), indent=2) + "\n")
